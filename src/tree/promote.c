/* SPDX-License-Identifier: Apache-2.0 */
#include "tree/laid.h"
#include "tree/repair.h"

/*
 * The place of the dead is taken by a child, whose place is taken by one of its
 * children, and so on down, until a place at the bottom stays empty. Which child: the
 * first in the order of the shape (the deepest, then the higher place; a member of the
 * same host in `hosts`) that still has somebody living in its sub-tree. Depth is that
 * of the tree without deaths, so that nobody must look at a whole sub-tree to know it.
 *
 * Taking from a sub-tree again and again by this rule yields its living in *preorder*:
 * the place itself, then all of the first child's sub-tree, then all of the second's...
 * That makes the repaired tree computable without simulating the deaths. For a place p
 * let
 *   living(p)   how many live in its sub-tree,
 *   nth(p, i)   the i-th living place of its sub-tree in preorder, from 0,
 *   taken(p)    how many the places above have taken out of its sub-tree.
 * Then
 * 1. taken(root) = 0.
 * 2. p is occupied if taken(p) < living(p), by nth(p, taken(p)).
 * 3. If p is occupied, taken(p) + 1 are gone from its sub-tree; all of them but p
 *    itself, if it lives, come from its children, as many as there are from the first
 *    child, then from the next.
 *
 * Invariants: everybody living occupies one place, its own or one above it. The parent
 * of an occupied place is occupied, so the occupied places are a tree with the root on
 * top and no place has more children than the shape gives it. taken(p) is at most the
 * number of dead above p, so a living rank with nobody dead above it keeps its place.
 *
 * Cost: O(depth) if nobody above is dead. Otherwise, for each step down from the
 * topmost dead ancestor, the living of the elder siblings are counted until they
 * suffice, which the first of them nearly always does: O(depth) counts, each a few
 * look-ups in the bitmap, and a walk down as long as the number taken. Where most of a
 * sub-tree is dead, all of the children on the way may have to be counted: O(depth *
 * degree).
 */
struct promoted {
    struct cop__laid laid;
    const struct cop_dead *dead;
};

/* A place, and how many were taken out of its sub-tree. */
struct seat {
    cop_rank place;
    uint32_t taken;
};

static struct promoted promoted_of(const struct cop_tree *tree)
{
    struct promoted promoted = {cop__lay_all(tree), tree->dead};
    return promoted;
}

static bool is_living(const struct promoted *in, cop_rank place)
{
    return !cop_dead_has(in->dead, cop__rank_at(&in->laid, place));
}

static uint32_t living(const struct promoted *in, cop_rank place)
{
    return cop__living_below(&in->laid, in->dead, place);
}

static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

static cop_rank nth(const struct promoted *in, cop_rank place, uint32_t i)
{
    const struct cop__layout *layout = &in->laid.layout;
    while (!is_living(in, place) || i > 0) {
        i -= is_living(in, place);
        cop_rank child = in->laid.ops->first_child(layout, place);
        for (uint32_t count; (count = living(in, child)) <= i; i -= count)
            child = in->laid.ops->next_child(layout, place, child);
        place = child;
    }
    return place;
}

/* How many the seat and those above it take from the children of its place. */
static uint32_t drawn_from_children(const struct promoted *in, struct seat seat)
{
    return seat.taken + 1 - is_living(in, seat.place);
}

/* The place of a child. The seat must be occupied. */
static struct seat child_seat(const struct promoted *in, struct seat seat,
                              cop_rank child)
{
    const struct cop__layout *layout = &in->laid.layout;
    uint32_t drawn = drawn_from_children(in, seat);
    cop_rank elder = COP_RANK_NONE;
    while (drawn > 0) {
        elder = elder == COP_RANK_NONE
                    ? in->laid.ops->first_child(layout, seat.place)
                    : in->laid.ops->next_child(layout, seat.place, elder);
        uint32_t from_elder = smaller(drawn, living(in, elder));
        if (elder == child)
            return (struct seat){child, from_elder};
        drawn -= from_elder;
    }
    return (struct seat){child, 0};
}

/* What is above a place: from where on it is not as without deaths (the place itself if
 * all of it is), and how many live from there to just above the place. */
struct above {
    cop_rank topmost_dead;
    uint32_t living;
};

static struct above look_up(const struct promoted *in, cop_rank place)
{
    struct above above = {place, 0};
    uint32_t living_on_way = 0;
    for (cop_rank at = place; at != COP_RANK_NONE;
         at = in->laid.ops->parent(&in->laid.layout, at)) {
        if (!is_living(in, at))
            above = (struct above){at, living_on_way};
        else if (at != place)
            living_on_way++;
    }
    return above;
}

/* The seat at a place, given that it is occupied. */
static struct seat seat_at(const struct promoted *in, cop_rank place)
{
    struct seat seat = {look_up(in, place).topmost_dead, 0};
    while (seat.place != place) {
        cop_rank next =
            in->laid.ops->child_towards(&in->laid.layout, seat.place, place);
        seat = child_seat(in, seat, next);
    }
    return seat;
}

/*
 * The seat that the living rank whose own place this is occupies. Whoever lives on the
 * way to it comes before it in preorder, so there is no need to look for it before that
 * many are taken: in a chain that spares a walk at every step.
 */
static struct seat seat_of(const struct promoted *in, cop_rank home)
{
    struct above above = look_up(in, home);
    struct seat seat = {above.topmost_dead, 0};
    while (above.living > seat.taken || nth(in, seat.place, seat.taken) != home) {
        cop_rank next = in->laid.ops->child_towards(&in->laid.layout, seat.place, home);
        above.living -= is_living(in, seat.place);
        seat = child_seat(in, seat, next);
    }
    return seat;
}

static struct seat seat_of_rank(const struct promoted *in, cop_rank rank)
{
    return seat_of(in, cop__place_of(&in->laid, rank));
}

static cop_rank occupant(const struct promoted *in, struct seat seat)
{
    return cop__rank_at(&in->laid, nth(in, seat.place, seat.taken));
}

/* ---- the answers ----------------------------------------------------------------- */

static cop_rank root(const struct cop_tree *tree)
{
    struct promoted in = promoted_of(tree);
    return occupant(&in, (struct seat){in.laid.layout.root, 0});
}

static cop_rank parent(const struct cop_tree *tree, cop_rank rank)
{
    struct promoted in = promoted_of(tree);
    cop_rank place = seat_of_rank(&in, rank).place;
    cop_rank above = in.laid.ops->parent(&in.laid.layout, place);
    return above == COP_RANK_NONE ? COP_RANK_NONE : occupant(&in, seat_at(&in, above));
}

/* Appends to `out` unless it is NULL, and counts. */
static int gather(const struct cop_tree *tree, cop_rank rank, struct cop_ranks *out,
                  uint32_t *count)
{
    struct promoted in = promoted_of(tree);
    struct seat seat = seat_of_rank(&in, rank);
    const struct cop__layout *layout = &in.laid.layout;
    uint32_t drawn = drawn_from_children(&in, seat);
    cop_rank child = in.laid.ops->first_child(layout, seat.place);
    *count = 0;
    for (; child != COP_RANK_NONE;
         child = in.laid.ops->next_child(layout, seat.place, child)) {
        uint32_t have = living(&in, child);
        uint32_t taken = smaller(drawn, have);
        int error = 0;
        drawn -= taken;
        if (taken == have)
            continue;
        if (out != NULL)
            error = cop_ranks_push(out, occupant(&in, (struct seat){child, taken}));
        if (error != 0)
            return error;
        ++*count;
    }
    return 0;
}

static int children(const struct cop_tree *tree, cop_rank rank, struct cop_ranks *out)
{
    uint32_t count;
    return gather(tree, rank, out, &count);
}

static uint32_t child_count(const struct cop_tree *tree, cop_rank rank)
{
    uint32_t count;
    (void)gather(tree, rank, NULL, &count);
    return count;
}

static uint32_t size(const struct cop_tree *tree, cop_rank rank)
{
    struct promoted in = promoted_of(tree);
    struct seat seat = seat_of_rank(&in, rank);
    return living(&in, seat.place) - seat.taken;
}

/* A bound: of the places below, some may be empty. */
static uint32_t depth(const struct cop_tree *tree, cop_rank rank)
{
    struct promoted in = promoted_of(tree);
    return in.laid.ops->depth(&in.laid.layout, seat_of_rank(&in, rank).place);
}

static uint32_t level(const struct cop_tree *tree, cop_rank rank)
{
    struct promoted in = promoted_of(tree);
    return in.laid.ops->level(&in.laid.layout, seat_of_rank(&in, rank).place);
}

static bool is_below(const struct cop_tree *tree, cop_rank rank, cop_rank ancestor)
{
    struct promoted in = promoted_of(tree);
    return in.laid.ops->is_below(&in.laid.layout, seat_of_rank(&in, rank).place,
                                 seat_of_rank(&in, ancestor).place);
}

static cop_rank next_hop(const struct cop_tree *tree, cop_rank from, cop_rank to)
{
    struct promoted in = promoted_of(tree);
    const struct cop__layout *layout = &in.laid.layout;
    struct seat seat = seat_of_rank(&in, from);
    cop_rank end = seat_of_rank(&in, to).place;
    if (!in.laid.ops->is_below(layout, end, seat.place))
        return occupant(&in, seat_at(&in, in.laid.ops->parent(layout, seat.place)));
    cop_rank child = in.laid.ops->child_towards(layout, seat.place, end);
    return occupant(&in, child_seat(&in, seat, child));
}

const struct cop__repair_ops cop__promote_ops = {
    .root = root,
    .parent = parent,
    .children = children,
    .child_count = child_count,
    .size = size,
    .depth = depth,
    .level = level,
    .is_below = is_below,
    .next_hop = next_hop,
};
