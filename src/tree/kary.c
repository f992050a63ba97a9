/* SPDX-License-Identifier: Apache-2.0 */
#include "tree/kary.h"

/*
 * The complete k-ary tree in level order: the children of p are kp+1 .. kp+k, as far as
 * there are places. The descendants of p on each level are consecutive, from leftmost
 * to rightmost, so sizes need no recursion.
 *
 * All leaves are on the last two levels and the last level is filled from the left. So
 * the children of one place have at most two depths, deeper ones to the left, and two
 * only if the last place of all is below one of them and not below the last.
 */

static cop_rank parent(const struct cop__layout *at, cop_rank place)
{
    return place == 0 ? COP_RANK_NONE : (place - 1) / at->k;
}

/* In 64 bits, as the children that are not there may not fit into 32. */
static uint64_t leftmost(const struct cop__layout *at, uint64_t place)
{
    return place * at->k + 1;
}

static uint64_t rightmost(const struct cop__layout *at, uint64_t place)
{
    return place * at->k + at->k;
}

static cop_rank last_child(const struct cop__layout *at, cop_rank place)
{
    uint64_t last = rightmost(at, place);
    return last < at->n ? (cop_rank)last : at->n - 1;
}

uint32_t cop__kary_child_count(const struct cop__layout *at, cop_rank place)
{
    uint64_t first = leftmost(at, place);
    return first < at->n ? last_child(at, place) - (cop_rank)first + 1 : 0;
}

uint32_t cop__kary_depth(const struct cop__layout *at, cop_rank place)
{
    uint32_t depth = 1;
    for (uint64_t left = leftmost(at, place); left < at->n; left = leftmost(at, left))
        depth++;
    return depth;
}

cop_rank cop__kary_first_child(const struct cop__layout *at, cop_rank place)
{
    uint64_t first = leftmost(at, place);
    if (first >= at->n)
        return COP_RANK_NONE;
    cop_rank child = last_child(at, place);
    uint32_t depth = cop__kary_depth(at, (cop_rank)first);
    while (cop__kary_depth(at, child) < depth)
        child--;
    return child;
}

/* From the last of the deep ones down to the first, then the shallow ones likewise. */
cop_rank cop__kary_next_child(const struct cop__layout *at, cop_rank place,
                              cop_rank child)
{
    uint32_t depth = cop__kary_depth(at, child);
    if (child != leftmost(at, place))
        return cop__kary_depth(at, child - 1) == depth ? child - 1 : COP_RANK_NONE;
    cop_rank last = last_child(at, place);
    return cop__kary_depth(at, last) < depth ? last : COP_RANK_NONE;
}

bool cop__kary_next_span(const struct cop__layout *at, cop_rank place,
                         struct cop__span *span)
{
    uint64_t first = span->step == 0 ? place : leftmost(at, span->first);
    uint64_t last = span->step == 0 ? place : rightmost(at, span->last);
    if (first >= at->n)
        return false;
    span->step++;
    span->first = (cop_rank)first;
    span->last = last < at->n ? (cop_rank)last : at->n - 1;
    return true;
}

uint32_t cop__kary_size(const struct cop__layout *at, cop_rank place)
{
    uint32_t size = 0;
    struct cop__span span = {0};
    while (cop__kary_next_span(at, place, &span))
        size += span.last - span.first + 1;
    return size;
}

static uint32_t level(const struct cop__layout *at, cop_rank place)
{
    uint32_t level = 0;
    for (uint64_t last = 0; last < place; last = rightmost(at, last))
        level++;
    return level;
}

/* Goes down level by level from the ancestor, because multiplying is cheaper than
 * dividing on the way up. */
static bool is_below(const struct cop__layout *at, cop_rank place, cop_rank ancestor)
{
    uint64_t first = ancestor;
    uint64_t last = ancestor;
    while (last < place) {
        first = leftmost(at, first);
        last = rightmost(at, last);
    }
    return first <= place;
}

static cop_rank child_towards(const struct cop__layout *at, cop_rank ancestor,
                              cop_rank place)
{
    uint64_t last = rightmost(at, ancestor);
    while (place > last)
        place = (place - 1) / at->k;
    return place;
}

const struct cop__shape_ops cop__kary_ops = {
    .parent = parent,
    .first_child = cop__kary_first_child,
    .next_child = cop__kary_next_child,
    .child_count = cop__kary_child_count,
    .size = cop__kary_size,
    .depth = cop__kary_depth,
    .level = level,
    .is_below = is_below,
    .child_towards = child_towards,
    .next_span = cop__kary_next_span,
};
