/* SPDX-License-Identifier: Apache-2.0 */
#include "tree/shape.h"

/* Everybody below the root. */

static cop_rank parent(const struct cop__layout *at, cop_rank place)
{
    (void)at;
    return place == 0 ? COP_RANK_NONE : 0;
}

static uint32_t child_count(const struct cop__layout *at, cop_rank place)
{
    return place == 0 ? at->n - 1 : 0;
}

static cop_rank first_child(const struct cop__layout *at, cop_rank place)
{
    return child_count(at, place) == 0 ? COP_RANK_NONE : at->n - 1;
}

static cop_rank next_child(const struct cop__layout *at, cop_rank place, cop_rank child)
{
    (void)at, (void)place;
    return child == 1 ? COP_RANK_NONE : child - 1;
}

static uint32_t size(const struct cop__layout *at, cop_rank place)
{
    return place == 0 ? at->n : 1;
}

static uint32_t depth(const struct cop__layout *at, cop_rank place)
{
    return child_count(at, place) == 0 ? 1 : 2;
}

static uint32_t level(const struct cop__layout *at, cop_rank place)
{
    (void)at;
    return place == 0 ? 0 : 1;
}

static bool is_below(const struct cop__layout *at, cop_rank place, cop_rank ancestor)
{
    (void)at;
    return ancestor == 0 || place == ancestor;
}

static cop_rank child_towards(const struct cop__layout *at, cop_rank ancestor,
                              cop_rank place)
{
    (void)at, (void)ancestor;
    return place;
}

static bool next_span(const struct cop__layout *at, cop_rank place,
                      struct cop__span *span)
{
    if (span->step++ > 0)
        return false;
    span->first = place;
    span->last = place + size(at, place) - 1;
    return true;
}

const struct cop__shape_ops cop__flat_ops = {
    .parent = parent,
    .first_child = first_child,
    .next_child = next_child,
    .child_count = child_count,
    .size = size,
    .depth = depth,
    .level = level,
    .is_below = is_below,
    .child_towards = child_towards,
    .next_span = next_span,
};
