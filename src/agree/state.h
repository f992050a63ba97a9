/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_AGREE_STATE_H
#define COP_AGREE_STATE_H

#include "agree/agree.h"

#include <coppice/agree.h>

/*
 * Inside agree/. Who does what:
 *   agree.c      the layer: requests, timers, what came too early
 *   group.c      groups, and the ring of their agreements
 *   members.c    who is in a group
 *   layout.c     the tree of an agreement in the view that is installed
 *   vote.c       up: votes, and what a root makes of them
 *   decide.c     down: decisions, and telling the application
 *   lock.c       STRICT: everybody keeps it before anybody returns it
 *   terminate.c  TREE and LINEAR: the coordinator is gone
 *   close.c      giving groups back
 *   value.c      operations
 *   inspect.c    digest and invariants
 *
 * Words: a *rank* is a member's number in its group; a *place* is its number in the tree of
 * one agreement, which has no places for those that were agreed to have failed before.
 */

/* Ranks that are agreed to have failed, ascending; shared by agreements. */
struct cop__failed {
    uint32_t refs;
    uint32_t count;
    uint64_t covers; /* in this survey of the group nobody else is gone; 0: not known */
    struct cop_buf *ids; /* as results have them; NULL: none had yet */
    cop_rank ranks[];
};

/* A member of the group, or a place, that the view has not, and since when. */
struct cop__gone {
    cop_rank at;
    cop_epoch epoch;
};

/* What a sub-tree contributes. */
struct cop__share {
    struct cop_buf *value;
    uint32_t op;
    uint8_t type;
    int status; /* 0, or why the values do not fit together */
};

/* A child, and what it said. */
struct cop__child {
    cop_rank place;
    bool voted;      /* and its vote answers the present round */
    bool locked;     /* STRICT: its sub-tree keeps what I locked in this round */
    cop_epoch round; /* in which it voted */
    struct cop__share share;
    struct cop_buf *lock; /* STRICT: what its sub-tree keeps of an earlier round */
};

/* Somebody who may know what the coordinator decided. */
struct cop__peer_asked {
    cop_rank place;
    bool answered;
};

/*
 * One agreement here. Invariants:
 *   1. children are sorted by place, and are exactly those of the layout;
 *   2. my vote is cast only to my parent, and only if all children had voted;
 *   3. what is decided stays, and is told to the caller once.
 */
struct cop__agreement {
    struct cop__node_timer timer; /* first: the deadline of the caller */
    struct cop__agree_group *group;
    uint64_t number;
    uint64_t token;
    cop_time begun;
    struct cop__share own;
    bool called;    /* by the application here */
    bool waiting;   /* which has not been told yet */
    bool laid;      /* the layout is that of the view */
    bool cast;      /* my vote stands with my parent, in this round */
    bool ever_cast; /* it has left me at all */
    bool coordinator_lost;
    bool kept;       /* STRICT: my sub-tree's acknowledgement stands with my parent */
    cop_epoch round; /* the last view that lost somebody of the tree */
    cop_epoch cast_round;
    cop_rank place, parent;   /* NONE: nobody above me */
    struct cop__failed *base; /* who takes no part */
    bool dense;               /* and has no place */
    struct cop__gone *lost;   /* places that the view has not, sorted */
    uint32_t lost_count;
    cop_rank *empty_places; /* and all others without anybody, for tree/ */
    uint32_t empty_count;
    struct cop__child *children; /* by place */
    uint32_t child_count;
    uint32_t first_open;           /* all children before this one have voted */
    struct cop_ranks order;        /* the same places, as a broadcast sends */
    struct cop_buf *lock;          /* STRICT: a decision that I keep */
    cop_epoch lock_round;          /* in which I was told to */
    struct cop_buf *decision;      /* payload of a DECIDE */
    int status;                    /* of it */
    struct cop__failed *failed;    /* that it names, with the base */
    struct cop__peer_asked *asked; /* TREE, LINEAR: in the round `asked_round` */
    uint32_t asked_count;
    cop_epoch asked_round;
};

/* Who is above and below me in a tree that nobody is lost of: what one agreement has found out
 * is right for the next one, if the same have failed before both. */
struct cop__spare {
    struct cop__failed *base;    /* a reference, or NULL */
    struct cop__child *children; /* who have said nothing; NULL: there is none */
    uint32_t child_count;
    struct cop_ranks order;
    cop_rank parent;
};

/* Members whose ids follow each other, in lives of the same number, from a rank on. */
struct cop__stretch {
    cop_rank rank;
    cop_id id;
    cop_incarnation incarnation;
};

/* The operation of the last agreement of a group, that all are done with it (G13). Not one
 * that can be called. */
#define COP__AGREE_CLOSE 5u

/*
 * Agreements are kept from the last that everybody is known to have (G12) up to so many
 * windows ahead of the caller's last. In the two-phase algorithms who finds one coordinator
 * after the other dead gets ahead by as many windows: each agreement that is not decided names
 * one, for those that build on it (G11), and those are a window apart.
 */
#define COP__AHEAD_WINDOWS 4u

struct cop__agree_group {
    uint64_t number;
    uint64_t digest;            /* of all that must be the same at all members */
    struct cop__stretch *spans; /* of its members, ascending */
    uint32_t span_count;
    uint32_t count; /* of members */
    cop_rank rank;  /* mine */
    enum cop_algorithm algorithm;
    struct cop_shape shape;
    uint32_t window;
    bool keep_tree, promote;
    uint64_t called;  /* number of the last agreement that was called here */
    uint64_t settled; /* and of the last in which everybody is known to have voted */
    struct cop__gone *gone; /* ranks, sorted */
    uint32_t gone_count;
    uint64_t surveys;             /* how often that changed, and one */
    struct cop_ranks watched;     /* ids */
    struct cop__agreement **ring; /* by number; NULL: not open, or over */
    uint32_t ring_size;
    struct cop__spare spare; /* of the last that was decided */
    uint32_t ahead;          /* of the last call: how far others may be */
    uint64_t oldest;         /* all before it are over */
    bool closing;            /* this member is done with it */
    bool closed;             /* and so is everybody: it goes at the end of the step */
    uint64_t last;           /* the agreement on that; 0: it is not called yet */
};

/* Numbers of groups that are over, one after the other. */
struct cop__over {
    uint64_t first, last;
};

/* A frame for which something is missing here. */
struct cop__early {
    struct cop_frame frame;
};

struct cop__agree {
    struct cop__agree_group **groups; /* by number */
    uint32_t group_count, group_capacity;
    struct cop__early *early;
    uint32_t early_count, early_capacity, early_bytes;
    struct cop__over *over; /* ascending, with gaps between them */
    uint32_t over_count, over_capacity;
    bool moved;   /* the view changed */
    bool doubted; /* the roster did, for which roots may wait */
    bool stirred; /* something else for which frames may wait */
};
#define COP__EARLY_MAX 4096u
#define COP__EARLY_BYTES (16u << 20)

static inline struct cop__agree *cop__agree(const struct cop_node *node)
{
    return cop__layer_state(node, COP__SLOT_AGREE);
}

/* ---- agree.c --------------------------------------------------------------------- */

/* Frames that waited are looked at again at the end of this step. */
void cop__agree_stir(struct cop_node *node);
/*
 * The agreement that a frame is about, laid out. NULL: it was kept for later, or dropped and
 * counted. `from` gets the place of the sender.
 */
struct cop__agreement *cop__agree_find(struct cop_node *node,
                                       const struct cop_frame *frame, uint64_t group,
                                       uint64_t number, cop_rank *from);

/* ---- group.c --------------------------------------------------------------------- */

struct cop__agree_group *cop__agree_group_find(const struct cop_node *node,
                                               uint64_t number);
int cop__agree_group_create(struct cop_node *node,
                            const struct cop_agree_group *options);
void cop__agree_group_free(struct cop_node *node, struct cop__agree_group *group);
/* Finds out who is gone; whether that is another list than before. */
bool cop__agree_group_survey(struct cop_node *node, struct cop__agree_group *group);
/* Keeps a connection to a member as long as the group and the member are there. */
void cop__agree_group_watch(struct cop_node *node, struct cop__agree_group *group,
                            cop_rank rank);
/* NULL if it is not kept (any more). */
struct cop__agreement *cop__agree_group_at(const struct cop__agree_group *group,
                                           uint64_t number);
/* The same, made if it can be: what it builds on is decided. NULL: not yet. */
struct cop__agreement *cop__agree_group_open(struct cop_node *node,
                                             struct cop__agree_group *group,
                                             uint64_t number);
/* Whether the number is one that may be open just now, or come to be. */
bool cop__agree_group_may_open(const struct cop__agree_group *group, uint64_t number);
/* Everybody has voted in it: what everybody has decided by then is not kept (G12). */
void cop__agree_group_settle(struct cop_node *node, struct cop__agree_group *group,
                             uint64_t number);
/* Gives back what only an open one needs. */
void cop__agreement_shrink(struct cop__agreement *agreement);

struct cop__failed *cop__failed_ref(struct cop__failed *failed);
void cop__failed_unref(struct cop__failed *failed);
bool cop__failed_has(const struct cop__failed *failed, cop_rank rank);
/* The union with a list of ranks from a message. NULL: no memory. */
struct cop__failed *cop__failed_add(struct cop__failed *base, struct cop__list ranks);

/* ---- members.c ------------------------------------------------------------------- */

/* Who is in it, as the options say, and which of them this is. COP_EINVAL: not possible. */
int cop__agree_group_read(const struct cop_node *node,
                          const struct cop_agree_group *options,
                          struct cop__agree_group *group);
void cop__agree_group_digest(const struct cop__agree_group *group,
                             struct cop__digest *digest);
/* The ids of these, one after the other; kept with them. NULL: no memory. */
const struct cop_buf *cop__agree_group_ids(const struct cop__agree_group *group,
                                           struct cop__failed *failed);
struct cop_life cop__agree_group_life(const struct cop__agree_group *group,
                                      cop_rank rank);
/* COP_RANK_NONE: not in it. */
cop_rank cop__agree_group_rank(const struct cop__agree_group *group, cop_id id,
                               cop_incarnation incarnation);
/* The same in whichever life. */
cop_rank cop__agree_group_rank_of(const struct cop__agree_group *group, cop_id id);

/* ---- layout.c -------------------------------------------------------------------- */

/* Lays the tree out in the present view. Votes that still hold are kept. */
void cop__agreement_lay(struct cop_node *node, struct cop__agreement *agreement);
/* Leaves the layout to the next agreement of the group, if it may be that one's. */
void cop__agreement_leave_layout(struct cop__agreement *agreement);
void cop__spare_free(struct cop__spare *spare);
cop_rank cop__agreement_rank(const struct cop__agreement *agreement, cop_rank place);
cop_rank cop__agreement_place(const struct cop__agreement *agreement, cop_rank rank);
/* Who has a place. */
struct cop_life cop__agreement_life(const struct cop__agreement *agreement,
                                    cop_rank place);
/* The place of the first root: who decides in the two-phase algorithms. */
cop_rank cop__agreement_coordinator(const struct cop__agreement *agreement);
/* The last view that lost somebody whose loss a vote of this place does not survive: who is
 * below it, or it itself; with two-phase commit anybody. */
cop_epoch cop__agreement_touched(const struct cop__agreement *agreement,
                                 cop_rank place);
/* Those who depended on the coordinator, when it is gone: appends places. */
int cop__agreement_tops(const struct cop__agreement *agreement, struct cop_ranks *out);
struct cop__child *cop__agreement_child(const struct cop__agreement *agreement,
                                        cop_rank place);
/* Two-phase commit: only the coordinator decides. */
static inline bool cop__agree_group_is_two_phase(const struct cop__agree_group *group)
{
    return group->algorithm == COP_AGREE_TREE || group->algorithm == COP_AGREE_LINEAR;
}

/* What a vote can carry beside its value. */
enum { COP__HELD_DECISION = 1, COP__HELD_LOCK = 2 };

/* ---- vote.c ---------------------------------------------------------------------- */

/* Something changed: votes, locks or decides what can be. */
void cop__agreement_advance(struct cop_node *node, struct cop__agreement *agreement);
/* Sends what I hold to my parent: my vote, or a decision that I heard from below. */
void cop__agreement_cast(struct cop_node *node, struct cop__agreement *agreement);
bool cop__agreement_all_voted(struct cop__agreement *agreement);

/* ---- decide.c -------------------------------------------------------------------- */

/* A payload of DECIDE for what is decided here and now. NULL: no memory. */
struct cop_buf *cop__decision_make(struct cop_node *node,
                                   const struct cop__agreement *agreement, int status,
                                   const struct cop__share *share);
/* Takes a decision: tells those below and the application. Keeps a reference to the payload.
 * False if it makes no sense. */
bool cop__agreement_decide(struct cop_node *node, struct cop__agreement *agreement,
                           struct cop_buf *payload);
/* The same, for one that is a part of something else. */
bool cop__agreement_decide_copy(struct cop_node *node, struct cop__agreement *agreement,
                                struct cop__bytes payload);
void cop__agreement_tell(struct cop_node *node, struct cop__agreement *agreement,
                         cop_rank place);
/* Ends the wait of the application. */
void cop__agreement_complete(struct cop_node *node, struct cop__agreement *agreement);

/* ---- lock.c ---------------------------------------------------------------------- */

/* At the root, when all have voted. */
void cop__agreement_lock(struct cop_node *node, struct cop__agreement *agreement);
/* The latest of what I and those below keep, or NULL; borrowed. */
struct cop_buf *cop__agreement_best_lock(const struct cop__agreement *agreement);

/* ---- terminate.c ----------------------------------------------------------------- */

void cop__agreement_terminate(struct cop_node *node, struct cop__agreement *agreement);

/* ---- close.c --------------------------------------------------------------------- */

/* Whether a group of this number was given back. */
bool cop__agree_is_over(const struct cop__agree *agree, uint64_t number);
/* Says that this member is done with a group, when nothing is under way; and gives back
 * those that everybody is done with. */
void cop__agree_close_some(struct cop_node *node);
/* The agreement on that ended. */
void cop__agree_group_closed(struct cop_node *node, struct cop__agreement *agreement);
/* Asks those below who have not voted, after a loss, whether it is over for them. */
void cop__agreement_ask_below(struct cop_node *node, struct cop__agreement *agreement);
/* A vote, or a question, about a group that is over here. */
void cop__agree_answer_over(struct cop_node *node, const struct cop_frame *frame);
/* Whether this is the agreement that all are done, and it is not decided. */
static inline bool cop__agreement_is_last(const struct cop__agreement *agreement)
{
    return agreement->number == agreement->group->last && !agreement->decision;
}

/* ---- value.c --------------------------------------------------------------------- */

void cop__share_free(struct cop__share *share);
/* Combines `with` into `share`; an error becomes its status. COP_ENOMEM. */
int cop__share_add(const struct cop_node *node, struct cop__share *share,
                   const struct cop__share *with);
bool cop__op_is_possible(const struct cop_node *node, uint32_t op, uint32_t type,
                         uint32_t length);

/* ---- inspect.c ------------------------------------------------------------------- */

void cop__agree_digest(const struct cop_node *node, struct cop__digest *digest);
const char *cop__agree_check(const struct cop_node *node);
size_t cop__agree_bytes(const struct cop_node *node);

#endif
