/* SPDX-License-Identifier: Apache-2.0 */
#include "tree/shape.h"

/* Each place below the one before it. The depth is n, so nothing here may walk. */

static cop_rank parent(const struct cop__layout *at, cop_rank place)
{
    (void)at;
    return place == 0 ? COP_RANK_NONE : place - 1;
}

static cop_rank first_child(const struct cop__layout *at, cop_rank place)
{
    return place + 1 < at->n ? place + 1 : COP_RANK_NONE;
}

static cop_rank next_child(const struct cop__layout *at, cop_rank place, cop_rank child)
{
    (void)at, (void)place, (void)child;
    return COP_RANK_NONE;
}

static uint32_t child_count(const struct cop__layout *at, cop_rank place)
{
    return place + 1 < at->n ? 1 : 0;
}

/* Both the size of a sub-tree and its depth. */
static uint32_t rest(const struct cop__layout *at, cop_rank place)
{
    return at->n - place;
}

static uint32_t level(const struct cop__layout *at, cop_rank place)
{
    (void)at;
    return place;
}

static bool is_below(const struct cop__layout *at, cop_rank place, cop_rank ancestor)
{
    (void)at;
    return place >= ancestor;
}

static cop_rank child_towards(const struct cop__layout *at, cop_rank ancestor,
                              cop_rank place)
{
    (void)at, (void)place;
    return ancestor + 1;
}

static bool next_span(const struct cop__layout *at, cop_rank place,
                      struct cop__span *span)
{
    if (span->step++ > 0)
        return false;
    span->first = place;
    span->last = at->n - 1;
    return true;
}

const struct cop__shape_ops cop__chain_ops = {
    .parent = parent,
    .first_child = first_child,
    .next_child = next_child,
    .child_count = child_count,
    .size = rest,
    .depth = rest,
    .level = level,
    .is_below = is_below,
    .child_towards = child_towards,
    .next_span = next_span,
};
