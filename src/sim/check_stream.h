/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_SIM_CHECK_STREAM_H
#define COP_SIM_CHECK_STREAM_H

#include "sim/world.h"

#include "sim/check_down.h"

/* What the checker of streams has seen of one of them. */

/* What one life of a back-end gave: joined up to its i-th packet, or (single waves) that one. */
struct cop__life {
    cop_id id;
    cop_incarnation incarnation;
    uint64_t first; /* number of its first packet */
    struct cop_buf **states;
    uint32_t count, capacity;
    uint64_t down; /* the last packet that came down to it */
    /* The last wave that was complete with it, and the root that said so. */
    uint64_t shown;
    cop_id shown_by;
    cop_incarnation shown_life;
    /* With which wave it was departed in the last complete output without it, + 1 (0: not at all),
     * the root that said so, and by which plan. */
    uint64_t gone;
    cop_id gone_by;
    cop_incarnation gone_life; /* 0: there was none */
    const struct cop__plan *gone_plan;
    const struct cop__plan *plan;   /* by which it gave; NULL: nothing yet */
    const struct cop__plan *opened; /* by which it was told that it is a back-end */
    uint32_t before; /* index of the life before it of the same member, + 1; 0: none */
};

/* What a root told its front-end. */
struct cop__told {
    cop_incarnation incarnation;
    uint64_t wave;
    bool complete;
    struct cop_buf *state;
    const struct cop__plan *plan;
};

/* How many of the departed a node knew. */
struct cop__known {
    cop_incarnation incarnation;
    uint64_t key; /* of which stream of the number */
    uint32_t count;
};

/* Whether a life was left behind by a view, and goes on all the same. */
struct cop__world_side {
    cop_incarnation incarnation;
    cop_epoch first;    /* of its first view */
    cop_epoch excluded; /* of the first without it; 0: none */
    cop_id by;          /* who had that */
    cop_incarnation by_life;
};

struct cop__watched {
    uint64_t number;
    bool closed; /* by its front-end */
    bool opened;
    cop_epoch opened_in;     /* of the view of the root then */
    struct cop__plan *plans; /* that were opened under the number */
    const struct cop_filter *filter;
    struct cop__life *lives;
    uint32_t count, capacity;
    uint32_t *latest;       /* by id: index of its last life, + 1; 0: none */
    struct cop__told *told; /* by id */
    struct cop__known *known;
    struct cop__world_side *sides;
    bool parted;
    uint32_t nodes;
    uint64_t taken;
};

/* T17: each wave is by itself. */
static inline bool cop__watched_is_single(const struct cop_sim *sim)
{
    return sim->config.stream.flags & COP_STREAM_SINGLE;
}

static inline bool cop__watched_is_idempotent(const struct cop__watched *state)
{
    return (state->filter->flags & COP_FILTER_IDEMPOTENT) != 0;
}

/* ---- check_lost.c: what was lost, and when that was said (S1) -------------------- */

/* In every complete output, and in the end. */
void cop__check_lost(const struct cop__watched *state, struct cop_sim *sim,
                     const struct cop_view *view);
/* In every complete output of this root. */
void cop__check_late(struct cop__watched *state, struct cop_sim *sim, cop_id root,
                     const struct cop__plan *plan);
/* After both: this root has said that a wave is complete. */
void cop__note_shown(struct cop__watched *state, struct cop_sim *sim, cop_id root,
                     uint64_t wave);

#endif
