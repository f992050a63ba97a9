/* SPDX-License-Identifier: Apache-2.0 */
#include "base/assert.h"
#include "tree/kary.h"

/*
 * The tree of kary for an arity that is a power of two, with digits instead of
 * divisions. On level l there are k^l places, from 11..1 (l ones in base k) on. Take
 * that away from a place and what is left has l digits, most significant first: at each
 * step of the way down from the root, which child to take. So the ancestor on any level
 * is one shift away.
 */

/* A place as its level and its digits. */
struct route {
    uint32_t level;
    uint64_t digits;
};

static uint32_t shift_of(const struct cop__layout *at)
{
    uint32_t shift = 1;
    while (at->k >> shift != 1)
        shift++;
    return shift;
}

static struct route route_to(uint32_t shift, cop_rank place)
{
    struct route route = {0, 0};
    uint64_t first = 0;
    for (uint64_t next = 1; next <= place; next = (next << shift) + 1) {
        first = next;
        route.level++;
    }
    route.digits = place - first;
    return route;
}

/* The first place of a level: as many ones as the level says. */
static uint64_t first_on(uint32_t shift, uint32_t level)
{
    return ((UINT64_C(1) << (shift * level)) - 1) / ((UINT64_C(1) << shift) - 1);
}

static cop_rank parent(const struct cop__layout *at, cop_rank place)
{
    return place == 0 ? COP_RANK_NONE : (place - 1) >> shift_of(at);
}

static uint32_t level(const struct cop__layout *at, cop_rank place)
{
    return route_to(shift_of(at), place).level;
}

static bool is_below(const struct cop__layout *at, cop_rank place, cop_rank ancestor)
{
    uint32_t shift = shift_of(at);
    struct route to = route_to(shift, place);
    struct route via = route_to(shift, ancestor);
    return to.level >= via.level &&
           to.digits >> (shift * (to.level - via.level)) == via.digits;
}

static cop_rank child_towards(const struct cop__layout *at, cop_rank ancestor,
                              cop_rank place)
{
    uint32_t shift = shift_of(at);
    struct route to = route_to(shift, place);
    uint32_t child_level = route_to(shift, ancestor).level + 1;
    COP_ASSERT(child_level <= to.level); /* `place` is properly below */
    uint64_t digits = to.digits >> (shift * (to.level - child_level));
    return (cop_rank)(first_on(shift, child_level) + digits);
}

const struct cop__shape_ops cop__radix_ops = {
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
