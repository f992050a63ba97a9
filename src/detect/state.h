/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_DETECT_STATE_H
#define COP_DETECT_STATE_H

#include "detect/detect.h"
#include "roster/roster.h"
#include "view/view.h"

/* What the files of this folder share. Nobody else includes it. */

/* ---- looking whether somebody answers -------------------------------------------- */

enum cop__purpose {
    LOOK_RING,    /* my neighbour in the ring: asked again and again */
    LOOK_FAVOUR,  /* somebody wants to know from me */
    LOOK_VERIFY,  /* it is suspect, and I have to know it myself */
    LOOK_RELY,    /* I wait for what it does */
    LOOK_INQUIRY, /* the application wants to know */
};

/* Somebody whom I asked how it is, or (RING) shall ask at `deadline`. Watched. */
struct cop__look {
    cop_id id;
    cop_incarnation incarnation;
    enum cop__purpose purpose;
    bool open;    /* asked, and not answered */
    bool measure; /* its answer says how long the way is */
    bool heard;   /* VERIFY: it answered; ask again at the deadline */
    bool is_met;  /* RING: it has answered since I look at it */
    uint32_t number;
    uint32_t misses;  /* deadlines in a row that it let pass */
    uint32_t credits; /* how often this question was given more time */
    cop_time asked, patience, deadline;
    cop_time connected; /* when a connection with it was made since I asked; or 0 */
    uint32_t denial;    /* its last when I asked: later ones are words of its own */
    cop_id asker;       /* FAVOUR */
    cop_incarnation asker_incarnation;
    uint64_t token; /* FAVOUR: the asker's; INQUIRY: the request's */
};

/* Whom I asked as a witness since `asked`, and it did not answer: that I know myself (V9). */
struct cop__unanswered {
    cop_id id;
    cop_incarnation incarnation; /* 0: nobody */
    uint32_t denial;       /* its last at the question: later ones are its own words */
    cop_time asked, until; /* `until`: then I ask it again */
};
#define COP__UNANSWERED_MAX 4u

/* ---- asking others --------------------------------------------------------------- */

/* An accusation of mine that others have to confirm. */
struct cop__case {
    uint64_t token;
    cop_id id;
    cop_incarnation incarnation;
    uint32_t confirmed; /* so many cannot reach it either */
    uint32_t silent;    /* so many did not answer me */
    cop_id first;       /* who is asked before all others; NONE: nobody */
    cop_id successor;   /* who is asked beside them, for it has to know; NONE: nobody */
    bool first_is_asked, successor_is_asked;
    bool successor_is_extra; /* it was asked as one more */
    bool successor_confirms; /* ... and counts only when there is nobody else */
    bool exhausted;          /* there is nobody else to ask */
    uint32_t near;   /* so many of those who stand near it were looked at next */
    uint32_t walked; /* places of the ring that were looked at for witnesses */
    bool held;       /* nobody answered: it may be me */
    uint32_t holds;
    cop_time deadline; /* held: when I ask one more */
};

/* A witness who has not answered. Watched. */
struct cop__question {
    uint64_t token; /* of the case */
    cop_id witness;
    cop_time deadline;
    uint32_t credits;
};

/* How late somebody was of late at its own deadlines. */
struct cop__lateness {
    cop_time worst; /* halved now and then */
    cop_time since;
};

/*
 * What a node has that looks for more than refused connections. All deadlines in it are on
 * one timer.
 *
 * Invariants: each look and each question is watched once; questions belong to a case; the
 * timer runs at the earliest deadline, or earlier.
 */
struct cop__senses {
    struct cop__node_timer timer;
    cop_time wake;          /* when the timer was to fire; NEVER if nothing waits */
    bool touched;           /* something changed: look at all at the end of this step */
    bool stopped;           /* this life is over */
    cop_time patient_until; /* 0 before the first step (D15) */
    bool cut_off;           /* as the layers above know it */
    bool scan;              /* a period is over: look for whom those above wait */
    uint32_t reach; /* how many of the ring I look at: more while they are silent */
    uint32_t next_number;
    uint64_t next_token;
    cop_time round_trip, deviation; /* smoothed; 0: not measured yet */
    cop_time peak;                  /* the longest of late, and fading */
    struct cop__lateness own_lateness, heard_lateness;
    cop_time alone_until; /* somebody outside says that I am not the one who is wrong */
    struct cop__gossip *gossip; /* NULL: off */
    struct cop_ranks awaited;   /* by those above, at the last scan */
    struct cop__look *looks;
    uint32_t look_count, look_capacity;
    struct cop__unanswered unanswered[COP__UNANSWERED_MAX];
    struct cop__case *cases;
    uint32_t case_count, case_capacity;
    struct cop__question *questions;
    uint32_t question_count, question_capacity;
};

/* ---- what is remembered ---------------------------------------------------------- */

/* How often somebody died, as far as I saw; but for the first time, if the view says so. */
struct cop__deaths {
    cop_id id;
    uint32_t count;
    cop_incarnation incarnation; /* the last life that was counted or found alive */
    bool dead;
};

struct cop__records {
    struct cop__deaths *deaths; /* sorted by id */
    uint32_t death_count, death_capacity;
    struct cop_suspicion *events; /* a ring */
    uint32_t event_capacity;
    uint64_t event_count; /* ever */
    uint32_t said_at; /* where among the effects of a step I said that there is more */
};

/*
 * Invariants: all sets are sorted; I am in none of them but perhaps `dirty`; every
 * neighbour is watched once for it.
 */
struct cop__detect {
    struct cop__node_timer flush; /* runs while `dirty` is not empty */
    struct cop__node_timer retry; /* runs while `silent` is not empty */
    struct cop_ranks
        neighbours;          /* in the repaired tree of the view, at the last flush */
    struct cop_ranks dirty;  /* of whom I have news that is not passed on */
    struct cop_ranks silent; /* watched peers that did not answer */
    struct cop_ranks told;   /* suspects that were told so */
    struct cop_ranks found;  /* suspects that I found out about myself */
    struct cop__senses *senses;   /* NULL: none needed until now */
    struct cop__records *records; /* NULL: nothing to remember until now */
    cop_id teller;                /* whose news is just taken in; NONE: nobody's */
};

static inline struct cop__detect *cop__detect(const struct cop_node *node)
{
    return cop__layer_state(node, COP__SLOT_DETECT);
}

static inline struct cop__senses *cop__senses(const struct cop_node *node)
{
    return cop__detect(node)->senses;
}

static inline const struct cop_detect *cop__detect_settings(const struct cop_node *node)
{
    return &node->settings->detect;
}

/* Whether the view has this node in this life. */
static inline bool cop__is_inside(const struct cop_node *node)
{
    return cop_view_has(node->view, node->self, node->incarnation);
}

/* detect.c */
/* Makes a suspect of it, now: I have found it out. */
void cop__detect_convict(struct cop_node *node, cop_id id, enum cop_status how);
/* It is tried again in a while, if somebody still waits for it. */
void cop__detect_try_later(struct cop_node *node, cop_id id);
/* What I know of myself, to one who thinks otherwise. */
void cop__detect_tell_about_me(struct cop_node *node, cop_id to);
/* I have found out that this suspect is gone. */
void cop__detect_find(struct cop_node *node, cop_id id);

/* senses.c */
/* Makes them if there are none; NULL: no memory, and the node has failed. */
struct cop__senses *cop__senses_need(struct cop_node *node);
void cop__senses_start(struct cop_node *node);
void cop__senses_fini(struct cop_node *node);
/* At the end of a step: all that is due. */
void cop__senses_settle(struct cop_node *node);
void cop__senses_touch(struct cop_node *node);
void cop__senses_on_change(struct cop_node *node, const struct cop__change *change);
void cop__senses_on_view(struct cop_node *node);
void cop__senses_on_peer_up(struct cop_node *node, cop_id peer);
void cop__senses_on_refused(struct cop_node *node, cop_id peer);
void cop__senses_digest(const struct cop_node *node, struct cop__digest *digest);
const char *cop__senses_check(const struct cop_node *node);
size_t cop__senses_bytes(const struct cop_node *node);
/* How long the ring waits for an answer, and how long anybody else does. */
cop_time cop__senses_deadline(const struct cop_node *node);
cop_time cop__senses_patience(const struct cop_node *node);
/* Whether others may still be starting. */
bool cop__senses_are_patient(const struct cop_node *node);
/* The period of whatever looks for silence. */
cop_time cop__senses_base(const struct cop_node *node);

/* lateness.c */
void cop__lateness_note(struct cop_node *node, cop_time late);
/* What a peer says of itself. */
void cop__lateness_hear(struct cop_node *node, uint32_t told_us);
/* What I say of myself. */
uint32_t cop__lateness_say(struct cop_node *node);
/* For so long anybody may not get to answer, for all that is known. */
cop_time cop__lateness_allowance(const struct cop_node *node);

/* look.c */
enum cop__sight {
    SIGHT_REACHED,
    SIGHT_SILENT,
    SIGHT_REFUSED,
    SIGHT_GONE, /* it is suspect, or no member any more */
};
/* Watches, and asks unless `purpose` is RING. NULL: the node has failed. Pointers to looks
 * hold until the next one begins or ends. */
struct cop__look *cop__look_begin(struct cop_node *node, cop_id id,
                                  enum cop__purpose purpose, cop_time patience);
void cop__look_end(struct cop_node *node, struct cop__look *look);
void cop__look_ask(struct cop_node *node, struct cop__look *look, cop_time patience);
struct cop__look *cop__look_find(const struct cop_node *node, cop_id id,
                                 enum cop__purpose purpose);
/* Tells whoever looks at `id`. */
void cop__look_tell(struct cop_node *node, cop_id id, enum cop__sight sight);
void cop__look_keep_unanswered(struct cop_node *node, const struct cop__look *look);
/* Of all, if `id` is COP_ID_NONE. */
void cop__look_forget_unanswered(struct cop_node *node, cop_id id);
void cop__look_digest_unanswered(const struct cop_node *node,
                                 struct cop__digest *digest);
/* A denial came with the next suspicion: it has its whole time again. */
void cop__look_verify_again(struct cop_node *node, cop_id id);
void cop__look_tell_one(struct cop_node *node, struct cop__look *look,
                        enum cop__sight sight);
void cop__look_mind(struct cop_node *node);
/* D6: asks those for whom a layer above has waited for a period. */
void cop__look_scan(struct cop_node *node);

/* inquire.c */
int cop__inquire(struct cop_node *node, const struct cop_request *request);
void cop__inquiry_see(struct cop_node *node, struct cop__look *look,
                      enum cop__sight sight);

/* ring.c */
/* Walks around the ring of the living, from any place on. */
struct cop__walk {
    uint32_t position, left;
    unsigned bits;
    bool
        with_drained; /* who are not watched (V18), but may hear what there is to hear */
};
struct cop__walk cop__ring_walk(const struct cop_node *node, uint32_t position);
/* The next living member that is not me; COP_ID_NONE at the end. */
cop_id cop__ring_next(const struct cop_node *node, struct cop__walk *walk);
/* A walk that begins behind this member. */
struct cop__walk cop__ring_walk_from(const struct cop_node *node, cop_id id);
void cop__ring_mind(struct cop_node *node);
void cop__ring_see(struct cop_node *node, struct cop__look *look,
                   enum cop__sight sight);
/* When the ring wants to look further than now; NEVER if it does not. */
cop_time cop__ring_further_at(const struct cop_node *node);

/* witness.c */
void cop__accuse(struct cop_node *node, cop_id id, enum cop_reason reason);
void cop__case_mind(struct cop_node *node);
/* Whether there is anybody who could confirm an accusation. */
bool cop__case_has_witnesses(const struct cop_node *node, cop_id accused);
/* The accused is suspect by other ways, or no member any more. */
void cop__case_close(struct cop_node *node, cop_id id);
/* Somebody does not answer any more: if it is a witness, it is none. */
void cop__case_lose_witness(struct cop_node *node, cop_id id);
/* Somebody was heard: so it was not me; or it was the accused, and all was wrong. */
void cop__case_hear(struct cop_node *node, cop_id id);
void cop__favour_see(struct cop_node *node, struct cop__look *look,
                     enum cop__sight sight);

/* gossip.c */
void cop__gossip_start(struct cop_node *node);
void cop__gossip_fini(struct cop__gossip *gossip);
void cop__gossip_mind(struct cop_node *node);
/* When the next period begins; NEVER if it is off. */
cop_time cop__gossip_next(const struct cop_node *node);
void cop__gossip_digest(const struct cop__gossip *gossip, struct cop__digest *digest);
size_t cop__gossip_bytes(const struct cop__gossip *gossip);

/* record.c */
void cop__record_fini(struct cop_node *node);
void cop__record_accusation(struct cop_node *node, cop_id accuser, cop_id accused,
                            enum cop_reason reason);
/* What came of the pending ones about this life. */
void cop__record_outcome(struct cop_node *node, cop_id accused,
                         cop_incarnation incarnation, enum cop_outcome outcome);
/* The view is another one: whose life it ended, that is what came of it. */
void cop__record_view(struct cop_node *node);
bool cop__record_is_pending(const struct cop_node *node, cop_id accused);
/* Counts a death, once for each time that a life was alive. */
void cop__record_death(struct cop_node *node, cop_id id, cop_incarnation incarnation);
/* `old`: the view before, which may tell of a death that nobody has recorded. */
void cop__record_life(struct cop_node *node, cop_id id, cop_incarnation incarnation,
                      const struct cop_view *old);
size_t cop__record_bytes(const struct cop_node *node);

#endif
