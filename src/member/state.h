/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_MEMBER_STATE_H
#define COP_MEMBER_STATE_H

#include "member/member.h"
#include "roster/roster.h"
#include "view/view.h"

/* What the files of this folder share. Nobody else includes it. */

/* A proposal that I have acknowledged, and of which I do not know that it is over. */
struct cop__proposal {
    struct cop_view *view; /* its ballot says whose it is */
    struct cop_view *base;
};

/* At the root: somebody who wants to join. */
struct cop__joiner {
    cop_id id;
    cop_incarnation incarnation; /* 0: invited, has not asked yet */
    struct cop_buf *card;
    bool spare;
    bool ready;            /* holds the view that I would propose a difference to */
    cop_incarnation asker; /* the life that was invited */
    cop_time until;        /* invited: the place is kept so long */
};

/* At a member who was asked by somebody outside: an invitation that it waits for. */
struct cop__errand {
    uint64_t token; /* of the request here, and of the question to the root */
    cop_id root;
    cop_time deadline;
};

/* Somebody is to be drained, or not any more. */
struct cop__wish {
    cop_id id;
    cop_incarnation incarnation;
    uint64_t token; /* of the request here; 0: another member wants it */
    bool on;
    cop_id asked; /* the root that was told; NONE: nobody yet */
    cop_time again, deadline;
};

/* A frame that waits until I have the view that it is from. */
struct cop__held {
    struct cop_frame frame; /* with a reference of its own */
    cop_time until;         /* it is not kept longer */
};

/* V19: that those who are here go on from a view, whatever the quorum. */
struct cop__go_on {
    uint64_t token;
    struct cop_ballot of;
    cop_time until; /* 0: nobody said so */
};

enum cop__phase {
    PHASE_JOINING, /* no view has me yet */
    PHASE_MEMBER,
    PHASE_OUT, /* the view is without me: nothing is done any more */
};

/*
 * Invariants:
 *   1. proposals are sorted by ballot, all later than the installed view;
 *   2. `acked` is not below the ballot of any of them;
 *   3. `base` is not below the installed view;
 *   4. I am in the installed view exactly in PHASE_MEMBER.
 */
struct cop__member {
    struct cop__node_timer timer; /* the next time at which to look */
    enum cop__phase phase;
    bool restless; /* something changed: look at the end of this step */
    bool degraded;
    bool proposing; /* a sweep of mine is under way */
    bool leaving;
    uint64_t leave_token;
    cop_time tell_next;      /* when more suspects are told, while degraded */
    cop_time leave_until;    /* then its request ends with an error; NEVER: it has */
    cop_epoch highest;       /* the largest epoch seen in any ballot (V3) */
    struct cop_ballot acked; /* the largest that I acknowledged */
    struct cop_view *base;   /* the latest view that I know anybody has installed */
    struct cop_view *former; /* the one before the installed one, or NULL */
    cop_epoch unsettled; /* somebody acknowledged this and cannot go back below it */
    struct cop__proposal *proposals;
    uint32_t proposal_count, proposal_capacity;

    cop_time not_before;   /* I do not propose before this */
    cop_time moment_until; /* nor before this, if it is only about those who join */
    cop_time gather_until; /* nor before this, while somebody who joins is not ready */
    uint32_t failures;     /* proposals of mine that failed in a row */
    struct cop_ranks verifying; /* before me in line, said to be gone: watched */
    cop_id awaited; /* who is to propose, if no view here has it: watched; or NONE */

    struct cop_ranks dirty; /* of whom I have something to report */
    cop_id reported_to;     /* to whom all that I know was reported */
    cop_time report_again;  /* when I report it once more; 0: nothing is unanswered */
    uint32_t reports;

    struct cop__joiner *joiners; /* sorted by id */
    uint32_t joiner_count, joiner_capacity;
    struct cop__errand *errands;
    uint32_t errand_count, errand_capacity;
    struct cop__wish *wishes;
    uint32_t wish_count, wish_capacity;
    cop_id target;       /* JOINING: whom I asked last */
    cop_time join_again; /* and when I ask the next */
    uint32_t attempts;
    cop_time alone_until; /* nobody is there to ask: I give up then; 0: somebody is */

    cop_time sync_again; /* when I ask the next what became of my proposals; 0: not */
    cop_id sync_target;
    uint32_t syncs;
    struct cop_change_times now_times, last_times; /* only to be looked at */

    struct cop__held *held;
    uint32_t held_count, held_capacity;
    const struct cop__held *judged; /* the one that is judged anew; NULL: none */
    bool judge_held;                /* I know a view that I did not when they came */
    cop_time held_again;            /* when I ask for their views again; 0: not */
    cop_epoch asked_for;            /* the latest epoch that I asked somebody for */
    struct cop__go_on go_on;
    uint32_t
        outweighed; /* so many of my proposals had no quorum of an earlier one ... */
    struct cop_ballot outweighed_in;
    struct cop__healing *healing; /* at the root; NULL: nobody was missed */
    struct cop__guard *guard;     /* NULL: nothing was counted or held */
};

static inline struct cop__member *cop__member(const struct cop_node *node)
{
    return cop__layer_state(node, COP__SLOT_MEMBER);
}

static inline bool cop__is_same_ballot(struct cop_ballot a, struct cop_ballot b)
{
    return cop_ballot_compare(&a, &b) == 0;
}

static inline bool cop__is_later(struct cop_ballot a, struct cop_ballot b)
{
    return cop_ballot_compare(&a, &b) > 0;
}

/* member.c */
void cop__member_look_soon(struct cop_node *node);
/* Makes sure that look runs at `when`, or before. */
void cop__member_wake_at(struct cop_node *node, cop_time when);
/* Whose turn it is to propose, as far as I know (V9). */
cop_id cop__member_proposer(const struct cop_node *node);
void cop__member_go_out(struct cop_node *node, int why);
/* V3: nobody is so many views ahead of mine: one who says so would take all numbers away from
 * those that come later. A proposal may be twice as far ahead of its base, so that whatever is
 * believed leaves room for the next. */
#define COP__EPOCHS_AHEAD (UINT64_C(1) << 31)
bool cop__member_is_credible(cop_epoch epoch, cop_epoch than, cop_epoch ahead);
void cop__member_see_epoch(struct cop_node *node, cop_epoch epoch);

/* views.c: what I know of views that I have not installed */
struct cop_view *cop__member_find_view(const struct cop_node *node,
                                       struct cop_ballot ballot);
/* Somebody has installed this one (V4). */
void cop__member_learn(struct cop_node *node, struct cop_view *view);
int cop__member_keep(struct cop_node *node, struct cop_view *view,
                     struct cop_view *base);
/* V7: a view that is known to be committed. */
void cop__member_commit(struct cop_node *node, struct cop_view *view);
void cop__member_drop_superseded(struct cop_node *node, const struct cop_view *view,
                                 struct cop_ballot base);

/* quorum.c */
/* How many of `of` take part in the change to `view`: its members and its leavers. */
uint32_t cop__member_common(const struct cop_view *of, const struct cop_view *view);
/* How many were asked to acknowledge both: members and leavers of either. */
uint32_t cop__member_asked_by_both(const struct cop_view *of,
                                   const struct cop_view *view);
/* V10: whether `view` may speak for `of`. */
bool cop__member_has_quorum(const struct cop_node *node, const struct cop_view *of,
                            const struct cop_view *view);
/* Whether those that I can reach may change the view at all. */
bool cop__member_could_change(const struct cop_node *node, const struct cop_view *of);

/* lead.c */
void cop__member_lead(struct cop_node *node);
void cop__member_complete(struct cop_node *node, struct cop__sweep *sweep, int status);

/* delta.c */
/* All that I would change in `base`; the caller frees. */
int cop__member_delta(const struct cop_node *node, const struct cop_view *base,
                      cop_epoch epoch, struct cop__delta *out);

/* ack.c: what members say of a proposal */
struct cop__prior {
    struct cop_ballot ballot;
    struct cop__delta delta; /* to the base of the proposal at hand */
    uint32_t acks;           /* how many of the proposed acknowledged it */
    bool denied;             /* its root says that it did not commit it */
};
struct cop__ack {
    uint32_t acks;
    struct cop_ballot standing;  /* what stands against it; epoch 0: nothing */
    struct cop_ballot installed; /* the latest that any has, if later than the base */
    struct cop__delta delta;     /* that one, as a difference to the base */
    struct cop__prior *priors;   /* by ballot */
    uint32_t prior_count;
};
int cop__ack_read(struct cop__bytes bytes, struct cop__ack *out);
struct cop_buf *cop__ack_write(const struct cop__ack *ack);
void cop__ack_free(struct cop__ack *ack);
struct cop_buf *cop__ack_fold(const struct cop__bytes *payloads, uint32_t count);
bool cop__ack_accept(struct cop__bytes payload);

/* acknowledge.c */
struct cop__proposal_head {
    struct cop_ballot base;
    cop_epoch epoch;
    uint64_t digest;
    bool forced; /* V19 */
};
struct cop_buf *cop__proposal_write(const struct cop_view *base,
                                    const struct cop_view *view,
                                    const struct cop__delta *delta, bool forced);
/* 0, or COP_EMALFORMED. */
int cop__proposal_head(struct cop__bytes payload, struct cop__proposal_head *out);

/* join.c */
void cop__member_ask_to_join(struct cop_node *node);
struct cop__joiner *cop__member_joiner(const struct cop_node *node, cop_id id);
void cop__member_prune_joiners(struct cop_node *node);
void cop__member_mind_invited(struct cop_node *node);
bool cop__member_is_gathering(struct cop_node *node);
void cop__member_mind_errands(struct cop_node *node);
int cop__member_invite(struct cop_node *node, const struct cop_request *request);

/* sync.c */
void cop__member_send_whole(struct cop_node *node, cop_id to,
                            cop_incarnation incarnation, const struct cop_view *view);
void cop__member_say_out(struct cop_node *node, cop_id to, cop_incarnation incarnation);
/* V11: I acknowledged something, and heard no more of it. */
void cop__member_wonder(struct cop_node *node);
/* V11: my turn, and I can do nothing. What I acknowledged may be committed, and let me. */
void cop__member_wonder_without_quorum(struct cop_node *node);
void cop__member_ask_around(struct cop_node *node);
void cop__member_greet(struct cop_node *node, cop_id peer, cop_incarnation incarnation);
void cop__member_ask_view(struct cop_node *node, cop_id of,
                          cop_incarnation incarnation);

/* held.c */
void cop__member_mind_held(struct cop_node *node);

/* heal.c: at the root, and when it is root no more */
void cop__member_heal(struct cop_node *node);
void cop__member_stop_healing(struct cop_node *node);
void cop__member_heal_fini(struct cop_node *node);
void cop__member_heal_up(struct cop_node *node, cop_id peer,
                         cop_incarnation incarnation);
void cop__member_heal_down(struct cop_node *node, cop_id peer, enum cop_down why);
size_t cop__member_heal_bytes(const struct cop_node *node);

/* drain.c */
int cop__drain_submit(struct cop_node *node, const struct cop_request *request);
/* Tells the proposer, and ends what is over. */
void cop__drain_mind(struct cop_node *node, cop_id proposer);
/* Puts all that is wished into the difference to `base`. */
int cop__drain_draft(const struct cop_node *node, const struct cop_view *base,
                     struct cop__delta *delta);
/* This life is over. */
void cop__drain_end(struct cop_node *node, int status);

/* guard.c */
/* Counts what the view that was just installed removed. */
void cop__guard_note(struct cop_node *node, const struct cop_view *old);
/* V17: whether this must not be proposed now. Wakes up when it may be. */
bool cop__guard_holds(struct cop_node *node, const struct cop__delta *delta);
/* It is not my turn to propose. */
void cop__guard_release(struct cop_node *node);
void cop__guard_fini(struct cop_node *node);
void cop__guard_digest(const struct cop_node *node, struct cop__digest *digest);
size_t cop__guard_bytes(const struct cop_node *node);

/* go_on.c */
int cop__go_on_submit(struct cop_node *node, const struct cop_request *request);
/* Ends it when it is over. */
void cop__go_on_mind(struct cop_node *node);
/* Whether it was said of this view. */
bool cop__go_on_is_said(const struct cop_node *node, const struct cop_view *base);
/* A proposal of mine has no quorum of an earlier one that may have been committed. */
void cop__go_on_outweighed(struct cop_node *node);
/* Whether that happened so often that it will not change. */
bool cop__go_on_is_blocked(const struct cop_node *node);
/* This life is over. */
void cop__go_on_end(struct cop_node *node, int status);

/* report.c */
void cop__member_report(struct cop_node *node, cop_id proposer);

#endif
