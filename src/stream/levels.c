/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/state.h"

#include <stdlib.h>
#include <string.h>

/*
 * Filters by level (T20). The groups are those of the tree that was planned when the stream was
 * opened. Whoever has all of a group, in the lives in which it was opened, closes it: nothing of
 * it can be anywhere else but in a slot that overlaps, and that is seen in the cover. A group of
 * which somebody is lost, or has returned, stays open up to the front-end, where the departed
 * are joined to it.
 */

int cop__stages_plan(const struct cop_node *node,
                     const struct cop_stream_options *options,
                     char out[COP_FILTER_PARAMS_MAX + 1])
{
    const struct cop_shape *shape =
        options->shape.kind ? &options->shape : cop_view_shape(node->view);
    return cop__levels_plan(options->params ? options->params : "", shape,
                            cop_view_slots(node->view), out);
}

bool cop__stages_make(struct cop_node *node, struct cop__stream *stream)
{
    struct cop__stages *stages = calloc(1, sizeof *stages);
    stream->stages = stages;
    if (!stages) {
        cop__fail(node, COP_ENOMEM);
        return false;
    }
    stream->replaces = true;
    /* Somebody's who made it without a plan. */
    return cop__levels_of(stream->empty, &stages->levels) == 0 &&
           stages->levels.plan.n != 0;
}

void cop__stages_free(struct cop__stages *stages)
{
    if (stages)
        free(stages->groups);
    free(stages);
}

void cop__stages_forget(struct cop__stream *stream) { stream->stages->count = 0; }

/* ---- which groups are whole ------------------------------------------------------ */

static bool is_here(const struct cop__stream *stream, cop_id id)
{
    cop_incarnation life = cop__lives_find(&stream->back_ends, id);
    return life == 0 || cop__lives_find(&stream->cover, id) == life;
}

/* Everybody who gives packets below that place of the plan, as it was then. */
static bool is_whole(struct cop_node *node, const struct cop__stream *stream, cop_id id)
{
    const struct cop_tree *plan = &stream->stages->levels.plan;
    struct cop_ranks left = {0}, below = {0};
    bool whole = id < plan->n && cop_ranks_push(&left, id) == 0;
    while (whole && left.count > 0) {
        cop_rank one = left.items[--left.count];
        whole = is_here(stream, one);
        int error = whole ? cop_tree_children(plan, one, &below) : 0;
        for (uint32_t i = 0; whole && error == 0 && i < below.count; i++)
            error = cop_ranks_push(&left, below.items[i]);
        if (error)
            cop__fail(node, error);
        whole = whole && error == 0;
    }
    cop_ranks_free(&left);
    cop_ranks_free(&below);
    return whole;
}

static uint32_t place(const struct cop__stages *stages, uint32_t level, cop_id id)
{
    uint32_t low = 0, high = stages->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct cop__group *group = &stages->groups[middle];
        if (group->level < level || (group->level == level && group->id < id))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* What was found out once holds as long as the cover does. */
static bool is_known_whole(struct cop_node *node, struct cop__stream *stream,
                           uint32_t level, cop_id id)
{
    struct cop__stages *stages = stream->stages;
    uint32_t at = place(stages, level, id);
    if (at < stages->count && stages->groups[at].level == level &&
        stages->groups[at].id == id)
        return stages->groups[at].whole;
    if (!cop__grow(node, &stages->groups, stages->count, &stages->capacity,
                   sizeof *stages->groups))
        return false;
    memmove(stages->groups + at + 1, stages->groups + at,
            (stages->count - at) * sizeof *stages->groups);
    stages->count++;
    stages->groups[at] = (struct cop__group){level, id, is_whole(node, stream, id)};
    return stages->groups[at].whole;
}

struct looking {
    struct cop_node *node;
    struct cop__stream *stream;
};

static bool may_close(void *context, uint32_t level, cop_id id)
{
    struct looking *looking = context;
    if (!is_known_whole(looking->node, looking->stream, level, id))
        return false;
    COP__COUNT(looking->node, stream_closed);
    return true;
}

/* ---- closing --------------------------------------------------------------------- */

static void close_groups(struct cop_node *node, cop__levels_may *may, void *context,
                         struct cop_buf **state)
{
    struct cop_buf *closed;
    int error = cop__levels_close(*state, may, context, &closed);
    if (error == COP_ENOMEM)
        cop__fail(node, error);
    if (error)
        return; /* a stage does not take what the one before it said: who asks is told */
    cop_buf_unref(*state);
    *state = closed;
}

void cop__stages_close(struct cop_node *node, struct cop__stream *stream)
{
    struct looking looking = {node, stream};
    /* Of one that is alone its parent keeps the state, and that may have to be joined to others
     * of its group (T9). At the root it is done for the front-end, with the departed. */
    if (stream->network->is_root || cop__lives_count(&stream->cover) < 2)
        return;
    close_groups(node, may_close, &looking, &stream->state);
}

void cop__stages_close_all(struct cop_node *node, struct cop_buf **state)
{
    close_groups(node, NULL, NULL, state);
}
