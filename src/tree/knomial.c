/* SPDX-License-Identifier: Apache-2.0 */
#include "tree/shape.h"

/*
 * The k-nomial tree. The parent of a place is the place with its lowest digit other
 * than 0 cleared, in base k. If that digit has weight w, the sub-tree is [place, place
 * + w), cut at n: the low digits are free. The children are place + d*v for the weights
 * v < w and the digits d in 1..k-1.
 *
 * A full sub-tree of weight k^e has e+1 levels, so higher children are deeper. But in a
 * partial tree the highest child of a place may be cut, and then be shallower than its
 * siblings: 8 in the binomial tree of 9. It is the only one out of order, and is listed
 * where its depth belongs.
 */

/* The weight of the lowest digit that is not 0. The root has all digits free. */
static uint64_t weight(const struct cop__layout *at, cop_rank place)
{
    uint64_t w = 1;
    if (place == 0) {
        while (w < at->n)
            w *= at->k;
    } else {
        for (uint32_t high = place; high % at->k == 0; high /= at->k)
            w *= at->k;
    }
    return w;
}

static cop_rank parent(const struct cop__layout *at, cop_rank place)
{
    if (place == 0)
        return COP_RANK_NONE;
    return place - (cop_rank)(place % (weight(at, place) * at->k));
}

static uint32_t size(const struct cop__layout *at, cop_rank place)
{
    uint64_t w = weight(at, place);
    uint32_t left = at->n - place;
    return w < left ? (uint32_t)w : left;
}

/* As many levels below the top as the longest 11..1 that is still in the sub-tree: no
 * smaller number has more digits other than 0. */
static uint32_t depth(const struct cop__layout *at, cop_rank place)
{
    uint32_t last = size(at, place) - 1;
    uint32_t depth = 1;
    for (uint64_t ones = 1; ones <= last; ones = ones * at->k + 1)
        depth++;
    return depth;
}

static uint32_t level(const struct cop__layout *at, cop_rank place)
{
    uint32_t level = 0;
    for (; place != 0; place /= at->k)
        level += place % at->k != 0;
    return level;
}

static uint32_t child_count(const struct cop__layout *at, cop_rank place)
{
    uint32_t count = 0;
    uint32_t room = size(at, place) - 1;
    for (uint64_t v = 1; v <= room; v *= at->k) {
        uint64_t digits = room / v;
        count += digits < at->k ? (uint32_t)digits : at->k - 1;
    }
    return count;
}

/* The child whose sub-tree has the place: keep the highest digit of the difference. */
static cop_rank child_towards(const struct cop__layout *at, cop_rank ancestor,
                              cop_rank place)
{
    uint32_t offset = place - ancestor;
    uint64_t v = 1;
    while (v * at->k <= offset)
        v *= at->k;
    return ancestor + (cop_rank)(offset - offset % v);
}

static cop_rank highest_child(const struct cop__layout *at, cop_rank place)
{
    uint32_t room = size(at, place) - 1;
    return room == 0 ? COP_RANK_NONE : child_towards(at, place, place + room);
}

/* The next child by rank alone. */
static cop_rank lower_child(const struct cop__layout *at, cop_rank place,
                            cop_rank child)
{
    uint32_t v = (uint32_t)weight(at, child);
    if (child - place > v)
        return child - v;
    return v == 1 ? COP_RANK_NONE : place + (at->k - 1) * (v / at->k);
}

/* The highest child, if it is shallower than the one after it; otherwise NONE. */
static cop_rank cut_child(const struct cop__layout *at, cop_rank place)
{
    cop_rank high = highest_child(at, place);
    if (high == COP_RANK_NONE || high + weight(at, high) <= at->n)
        return COP_RANK_NONE;
    cop_rank lower = lower_child(at, place, high);
    if (lower == COP_RANK_NONE || depth(at, lower) <= depth(at, high))
        return COP_RANK_NONE;
    return high;
}

static cop_rank first_child(const struct cop__layout *at, cop_rank place)
{
    cop_rank high = highest_child(at, place);
    if (high == COP_RANK_NONE || cut_child(at, place) == COP_RANK_NONE)
        return high;
    return lower_child(at, place, high);
}

/* The highest child of a full sub-tree with this many levels. */
static cop_rank child_of_depth(const struct cop__layout *at, cop_rank place,
                               uint32_t levels)
{
    uint32_t v = 1;
    while (--levels > 0)
        v *= at->k;
    return place + (at->k - 1) * v;
}

static cop_rank next_child(const struct cop__layout *at, cop_rank place, cop_rank child)
{
    cop_rank lower = lower_child(at, place, child);
    cop_rank cut = cut_child(at, place);
    if (cut == COP_RANK_NONE)
        return lower;
    uint32_t cut_depth = depth(at, cut);
    if (child == cut)
        return child_of_depth(at, place, cut_depth);
    bool turn = depth(at, child) > cut_depth &&
                (lower == COP_RANK_NONE || depth(at, lower) <= cut_depth);
    return turn ? cut : lower;
}

static bool is_below(const struct cop__layout *at, cop_rank place, cop_rank ancestor)
{
    return place >= ancestor && place - ancestor < weight(at, ancestor);
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

const struct cop__shape_ops cop__knomial_ops = {
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
