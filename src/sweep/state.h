/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_SWEEP_STATE_H
#define COP_SWEEP_STATE_H

#include "base/map.h"
#include "roster/roster.h"
#include "sweep/cover.h"
#include "sweep/roll.h"
#include "sweep/sweep.h"

/* What the files of this folder share. Nobody else includes it. */

/* ---- whose sweeps are over (origin.c) -------------------------------------------- */

/*
 * One life of an initiator. Its mark: all its sweeps up to this number are over. The
 * bits are those that ended here though they are above the mark.
 */
struct cop__origin {
    cop_id id;
    cop_incarnation incarnation;
    uint64_t mark;
    uint64_t ended;   /* bit i: sequence mark + 1 + i */
    uint64_t *beyond; /* the bits after those, while one of them is set; or NULL */
};
#define COP__ORIGIN_BEYOND (COP__SWEEP_WINDOW / 64 - 1) /* words */

/* ---- one sweep ------------------------------------------------------------------- */

enum cop__child_state {
    CHILD_OWED,     /* asked, has not answered: watched */
    CHILD_ANSWERED, /* what it covers is among the parts */
    CHILD_LOST,     /* passed around: its own children are in the list */
    CHILD_FAILED,   /* will not answer any more, though not lost */
};
struct cop__child {
    cop_rank rank;
    uint8_t state;
};

/* An answer that I hold: whom it covers, and what they say. */
struct cop__part {
    cop_rank source; /* who sent it; myself for my own contribution */
    struct cop__cover cover;
    struct cop__bytes payload; /* inside `owner` */
    struct cop_buf *owner;     /* the frame it came in, or my contribution */
};

/* Flags of ASK and ANSWER. */
#define ASK_OUTCOME 0x01u
#define ASK_LEAVES 0x02u    /* the payload begins with a list of them */
#define ANSWER_PIECES 0x01u /* the finest I have: replaces what I sent before */

/*
 * Invariants:
 *   1. the parts are pairwise disjoint, and lie in my sub-tree;
 *   2. an OWED child is watched, and so is the parent while I owe an answer or wait
 *      for an outcome: no wait without a subscription to the death of whom it waits
 *      for;
 *   3. the timer runs as long as the sweep is kept: no wait without a deadline;
 *   4. once `answered`, a part is only ever replaced by the finer pieces that it is
 *      made of: what was said upward stays said.
 */
struct cop__sweep {
    struct cop__node_timer timer;
    struct cop__sweep *next; /* in the layer's list, oldest first */
    cop_id initiator;
    cop_incarnation incarnation;
    uint64_t sequence;
    struct cop_tree tree; /* without deaths */
    /* Those without a place inside `tree` (V18), as its initiator saw it. */
    struct cop_ranks leaves;
    struct cop_dead outside; /* a view on them */
    struct cop_view *world;  /* who takes part, if it brought that along; or NULL */
    struct cop_view *about;  /* at the initiator: the view that it is about; or NULL */
    struct cop__roll *roll;  /* whom it is about; NULL: everybody, by id */
    void *user;              /* of the protocol */
    cop_epoch epoch;         /* of the initiator's view when it began */
    cop_time started, deadline, hop_ns;
    uint64_t token;
    uint64_t floor; /* lowest earlier sweep that still waits for its outcome below me */
    struct cop__bytes asked; /* in `request`, which holds it */
    struct cop_buf *request;
    struct cop_buf *outcome;
    int status; /* of the outcome */

    cop_rank self;   /* my own rank */
    cop_rank parent; /* who asked last; NONE at the initiator, or for an orphan */
    struct cop_ranks askers;    /* earlier ones, who may be waiting too: sorted */
    struct cop_ranks strangers; /* above me, but not in this sweep: sorted */
    struct cop__child *children;
    uint32_t child_count, child_capacity;
    struct cop__map places;  /* rank to place in the list plus 1, once it is long */
    uint32_t owed;           /* children that are OWED */
    struct cop__part *parts; /* by source; `one_part` while capacity is 1 */
    struct cop__part one_part;
    uint32_t part_count, part_capacity;

    uint8_t protocol;
    bool wants_outcome;
    bool forwarded; /* those below were asked, or will not be */
    bool gathered;  /* the protocol was told so */
    bool contributed;
    bool answered; /* to somebody; at the initiator: completed */
    bool has_outcome;
    bool tangled;  /* a loss, or a doubt, touched it: parts must be compared */
    bool pieces;   /* somebody refused my fold: answer in pieces */
    bool refining; /* waiting for finer pieces from below before I answer again */
    bool watches_parent;
    bool told; /* the protocol, that the initiator is lost */
    bool over; /* ended in the middle of a call; freed at its end */
};

struct cop__sweeps {
    struct cop__sweep *first;
    struct cop__sweep *spare; /* memory of one that ended, for the next: or NULL */
    struct cop_ranks scratch; /* for the children of a rank */
    uint32_t count;
    struct cop__origin *origins; /* sorted by id */
    uint32_t origin_count, origin_capacity;
    uint64_t sequence; /* of my own latest */
    uint32_t busy;     /* calls in progress that may not see a sweep freed */
    bool reap;         /* some sweep is over, and waits for the last call to return */
};

static inline struct cop__sweeps *cop__sweeps(const struct cop_node *node)
{
    return cop__layer_state(node, COP__SLOT_SWEEP);
}

static inline bool cop__sweep_is_mine(const struct cop_node *node,
                                      const struct cop__sweep *sweep)
{
    return sweep->initiator == node->self;
}

/* origin.c */
struct cop__origin *cop__origin_get(struct cop_node *node, cop_id id,
                                    cop_incarnation incarnation);
/* Whether a sweep of this life was heard of, and of no later one. */
bool cop__origin_has(const struct cop_node *node, cop_id id,
                     cop_incarnation incarnation);
bool cop__origin_is_over(const struct cop__origin *origin, uint64_t sequence);
/* COP_ENOMEM. */
int cop__origin_end(struct cop__origin *origin, uint64_t sequence);
void cop__origin_advance(struct cop__origin *origin, uint64_t mark);
uint64_t cop__origin_mark(const struct cop_node *node, cop_id id,
                          cop_incarnation incarnation);

/* world.c */
bool cop__sweep_concerns(const struct cop_node *node, const struct cop__sweep *sweep,
                         cop_rank rank);
void cop__sweep_send(struct cop_node *node, const struct cop__sweep *sweep, cop_rank to,
                     enum cop__kind kind, struct cop_buf *payload);
/* Whether sweeps of this life are taken up here, and whether one may be so large. */
bool cop__sweep_may_begin(const struct cop_node *node, cop_id initiator,
                          cop_incarnation incarnation, bool has_world);
bool cop__sweep_is_too_large(const struct cop_node *node, const struct cop_tree *tree,
                             bool has_world);
bool cop__sweep_life_is_over(const struct cop_node *node, cop_id initiator,
                             cop_incarnation incarnation);

/* The place of a peer in a sweep's tree; NONE if it has none. */
static inline cop_rank cop__sweep_rank(const struct cop__sweep *sweep, cop_id id)
{
    if (sweep->roll)
        return cop__roll_rank(sweep->roll, id);
    return id < sweep->tree.n ? id : COP_RANK_NONE;
}

/* sweep.c */
void cop__sweeps_enter(struct cop_node *node);
void cop__sweeps_leave(struct cop_node *node);
/* Frees what is over, if nobody further up the calls may hold it. */
void cop__sweeps_reap(struct cop_node *node, uint32_t busy);
struct cop__sweep *cop__sweep_find(const struct cop_node *node, cop_id initiator,
                                   cop_incarnation incarnation, uint64_t sequence);
const struct cop__protocol *cop__sweep_protocol(const struct cop_node *node,
                                                const struct cop__sweep *sweep);
/* A new one, not in the list yet. It has its own copy of the request unless `owner` holds that. NULL:
 * no memory. */
struct cop__sweep *cop__sweep_create(struct cop_node *node, const struct cop_tree *tree,
                                     struct cop_view *world, struct cop__roll *roll,
                                     cop_time left_ns, struct cop__bytes payload,
                                     struct cop_buf *owner);
/* Puts it at the end of the list and sets it in motion: first to the children, for they need the
 * time, then to the protocol here. */
void cop__sweep_begin(struct cop_node *node, struct cop__sweep *sweep);
void cop__sweep_end(struct cop_node *node, struct cop__sweep *sweep);
/* Takes in a mark; NULL (counted) if that life of the initiator is over, or it is nonsense. */
struct cop__origin *cop__sweep_hear_mark(struct cop_node *node, cop_id initiator,
                                         cop_incarnation incarnation, uint64_t sequence,
                                         uint64_t mark, bool has_world);
/* Takes in the mark of a frame, and finds its sweep; NULL (counted) if there is none. */
struct cop__sweep *cop__sweep_hear_of(struct cop_node *node, cop_id initiator,
                                      cop_incarnation incarnation, uint64_t sequence,
                                      uint64_t mark);
/* S5, at the initiator: earlier sweeps whose outcome everyone is now known to have
 * end. */
void cop__sweep_release_below(struct cop_node *node, const struct cop__sweep *sweep);
COP__COLD void cop__sweep_say_done(struct cop_node *node, cop_id to, cop_id initiator,
                                   cop_incarnation incarnation, uint64_t sequence);

/* losses.c */
void cop__sweeps_on_change(struct cop_node *node, const struct cop__change *change);
void cop__sweeps_on_view(struct cop_node *node, const struct cop_view *old);
/* D14: what I asked it straight has not come there. */
void cop__sweeps_on_detour(struct cop_node *node, cop_id peer);

/* refused.c */
COP__COLD void cop__sweep_say_refused(struct cop_node *node, cop_id to,
                                      const struct cop__msg_ask *message, int status);
/* Tells the protocol, if it wants to know. */
void cop__sweep_tell_part(struct cop_node *node, struct cop__sweep *sweep,
                          cop_rank rank, int status, struct cop__bytes payload);
void cop__sweep_tell_gathered(struct cop_node *node, struct cop__sweep *sweep,
                              int status);

/* children.c */
struct cop__child *cop__sweep_child(const struct cop__sweep *sweep, cop_rank rank);
void cop__sweep_ask_all(struct cop_node *node, struct cop__sweep *sweep);
void cop__sweep_ask_one(struct cop_node *node, struct cop__sweep *sweep, cop_rank rank);
/* Once more, for there is another way to it. */
void cop__sweep_ask_again(struct cop_node *node, struct cop__sweep *sweep,
                          cop_rank rank);
void cop__sweep_adopt(struct cop_node *node, struct cop__sweep *sweep, cop_rank rank);
COP__COLD void cop__sweep_lose_child(struct cop_node *node, struct cop__sweep *sweep,
                                     struct cop__child *child);
void cop__sweep_settle_child(struct cop_node *node, struct cop__sweep *sweep,
                             struct cop__child *child, enum cop__child_state state);

/* answer.c */
/* Takes one part in, and passes it on if I have answered; true if it has to come in pieces. */
bool cop__sweep_take_part(struct cop_node *node, struct cop__sweep *sweep,
                          struct cop__part *part, bool pieces);
void cop__sweep_answer_if_complete(struct cop_node *node, struct cop__sweep *sweep);
void cop__sweep_answer_now(struct cop_node *node, struct cop__sweep *sweep);
void cop__sweep_answer_to(struct cop_node *node, struct cop__sweep *sweep, cop_rank to);
/* parts.c */
bool cop__sweep_holds(const struct cop__sweep *sweep, cop_rank rank);
int cop__sweep_held(const struct cop__sweep *sweep, struct cop__cover *out);
int cop__sweep_missing(const struct cop__sweep *sweep, struct cop_ranks *out);
struct cop_buf *cop__sweep_fold(const struct cop_node *node,
                                const struct cop__sweep *sweep);
void cop__sweep_drop_parts(struct cop__sweep *sweep);
void cop__sweep_remove_part(struct cop__sweep *sweep, uint32_t i);
int cop__sweep_push_part(struct cop__sweep *sweep, struct cop__part *part);
enum cop__place { PLACE_KEPT, PLACE_REPEATED, PLACE_REFUSED, PLACE_FAILED };
enum cop__place cop__sweep_place(struct cop__sweep *sweep, struct cop__part *part,
                                 bool pieces);

/* turn.c */
void cop__sweep_set_parent(struct cop_node *node, struct cop__sweep *sweep,
                           cop_rank rank);
void cop__sweep_mind_parent(struct cop_node *node, struct cop__sweep *sweep);
bool cop__sweep_find_parent(struct cop_node *node, struct cop__sweep *sweep);
void cop__sweep_leave_suspect(struct cop_node *node, struct cop__sweep *sweep);
COP__COLD void cop__sweep_turn(struct cop_node *node, struct cop__sweep *sweep);

/* outcome.c */
void cop__sweep_send_outcome(struct cop_node *node, struct cop__sweep *sweep,
                             cop_rank to);
void cop__sweep_set_outcome(struct cop_node *node, struct cop__sweep *sweep, int status,
                            struct cop__bytes payload);
void cop__sweep_give_up(struct cop_node *node, struct cop__sweep *sweep, int status);

/* inspect.c */
void cop__sweeps_digest(const struct cop_node *node, struct cop__digest *digest);
const char *cop__sweeps_check(const struct cop_node *node);
size_t cop__sweeps_bytes(const struct cop_node *node);

#endif
