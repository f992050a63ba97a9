/* SPDX-License-Identifier: Apache-2.0 */
#include "tree/laid.h"
#include "tree/living.h"
#include "tree/repair.h"

/*
 * The children of the dead go to their nearest living ancestor.
 *
 * Definitions, all in the tree without deaths: the *stand-in* is the lowest living rank
 * if the root is dead, and there is none otherwise. A *head* is a living rank without a
 * living proper ancestor.
 *
 * 1. The parent of a living rank is its nearest living proper ancestor.
 * 2. If there is none, it is the root, or its parent is the stand-in.
 * 3. The stand-in has no parent. It takes its own sub-tree with it, so it is missing
 *    from the children of its nearest living ancestor, and that one is below it now.
 *
 * So the repaired tree is the forest of the living with the stand-in's sub-tree moved
 * to the top. It contains each living rank once: only parents change.
 *
 * Cost: that of the shape, times the dead in a row on the way; children cost what they
 * are plus the dead between them and their parent. Nothing recurses: from a place one
 * finds its next sibling and its parent, which is enough to walk a sub-tree without a
 * stack.
 */
struct spliced {
    struct cop__laid laid;
    const struct cop_dead *dead;
    cop_rank top;      /* place of the root, dead or not */
    cop_rank stand_in; /* NONE if the root lives */
    cop_rank stand_in_place;
};

static struct spliced spliced_of(const struct cop_tree *tree)
{
    struct spliced spliced = {
        .laid = cop__lay_all(tree),
        .dead = tree->dead,
        .stand_in = cop__stand_in(tree),
        .stand_in_place = COP_RANK_NONE,
    };
    spliced.top = spliced.laid.layout.root;
    if (spliced.stand_in == tree->root)
        spliced.stand_in = COP_RANK_NONE;
    else
        spliced.stand_in_place = cop__place_of(&spliced.laid, spliced.stand_in);
    return spliced;
}

static bool is_living(const struct spliced *in, cop_rank place)
{
    return !cop_dead_has(in->dead, cop__rank_at(&in->laid, place));
}

static cop_rank root(const struct cop_tree *tree) { return cop__stand_in(tree); }

static cop_rank parent_of(const struct spliced *in, cop_rank place)
{
    if (place == in->stand_in_place)
        return COP_RANK_NONE;
    do {
        place = in->laid.ops->parent(&in->laid.layout, place);
    } while (place != COP_RANK_NONE && !is_living(in, place));
    return place == COP_RANK_NONE ? in->stand_in : cop__rank_at(&in->laid, place);
}

static cop_rank parent(const struct cop_tree *tree, cop_rank rank)
{
    struct spliced in = spliced_of(tree);
    return parent_of(&in, cop__place_of(&in.laid, rank));
}

/* The place after a sub-tree, in a walk through the sub-tree of `start`. */
static cop_rank after(const struct spliced *in, cop_rank start, cop_rank place)
{
    const struct cop__layout *layout = &in->laid.layout;
    while (place != start) {
        cop_rank above = in->laid.ops->parent(layout, place);
        cop_rank next = in->laid.ops->next_child(layout, above, place);
        if (next != COP_RANK_NONE)
            return next;
        place = above;
    }
    return COP_RANK_NONE;
}

/*
 * Visits the living that have no living ancestor below `start`, which itself is not
 * looked at, and counts them. Appends them to `out` unless it is NULL.
 */
static int gather(const struct spliced *in, cop_rank start, struct cop_ranks *out,
                  uint32_t *count)
{
    const struct cop__layout *layout = &in->laid.layout;
    cop_rank place = in->laid.ops->first_child(layout, start);
    while (place != COP_RANK_NONE) {
        cop_rank down = COP_RANK_NONE;
        if (!is_living(in, place)) {
            down = in->laid.ops->first_child(layout, place);
        } else if (place != in->stand_in_place) {
            int error = 0;
            if (out != NULL)
                error = cop_ranks_push(out, cop__rank_at(&in->laid, place));
            if (error != 0)
                return error;
            ++*count;
        }
        place = down != COP_RANK_NONE ? down : after(in, start, place);
    }
    return 0;
}

/* The stand-in has its own children, and all heads but itself. */
static int gather_children(const struct cop_tree *tree, cop_rank rank,
                           struct cop_ranks *out, uint32_t *count)
{
    struct spliced in = spliced_of(tree);
    *count = 0;
    int error = gather(&in, cop__place_of(&in.laid, rank), out, count);
    if (error == 0 && rank == in.stand_in)
        error = gather(&in, in.top, out, count);
    return error;
}

static int children(const struct cop_tree *tree, cop_rank rank, struct cop_ranks *out)
{
    uint32_t count;
    return gather_children(tree, rank, out, &count);
}

static uint32_t child_count(const struct cop_tree *tree, cop_rank rank)
{
    uint32_t count;
    (void)gather_children(tree, rank, NULL, &count);
    return count;
}

static bool place_is_below(const struct spliced *in, cop_rank place, cop_rank ancestor)
{
    return in->laid.ops->is_below(&in->laid.layout, place, ancestor);
}

static uint32_t size(const struct cop_tree *tree, cop_rank rank)
{
    struct spliced in = spliced_of(tree);
    if (rank == in.stand_in)
        return cop__living_count(tree->dead, tree->n);
    cop_rank place = cop__place_of(&in.laid, rank);
    uint32_t size = cop__living_below(&in.laid, tree->dead, place);
    if (in.stand_in != COP_RANK_NONE && place_is_below(&in, in.stand_in_place, place))
        size -= cop__living_below(&in.laid, tree->dead, in.stand_in_place);
    return size;
}

/* A bound: deaths only bring descendants nearer. */
static uint32_t depth(const struct cop_tree *tree, cop_rank rank)
{
    struct spliced in = spliced_of(tree);
    cop_rank place = rank == in.stand_in ? in.top : cop__place_of(&in.laid, rank);
    return in.laid.ops->depth(&in.laid.layout, place);
}

/* The living on the way up: to the root, to the stand-in, or to the dead root and from
 * there to the stand-in. */
static uint32_t level(const struct cop_tree *tree, cop_rank rank)
{
    struct spliced in = spliced_of(tree);
    uint32_t level = 0;
    cop_rank place = cop__place_of(&in.laid, rank);
    while (place != in.stand_in_place && place != in.top) {
        place = in.laid.ops->parent(&in.laid.layout, place);
        level += place == in.top || is_living(&in, place);
    }
    return level;
}

/* Below in the repaired tree. What moved to the top with the stand-in is no longer where
 * it was. */
static bool is_below_now(const struct spliced *in, cop_rank place, cop_rank above)
{
    if (above == in->stand_in_place)
        return true;
    if (!place_is_below(in, place, above))
        return false;
    return in->stand_in == COP_RANK_NONE ||
           !place_is_below(in, in->stand_in_place, above) ||
           !place_is_below(in, place, in->stand_in_place);
}

static bool is_below(const struct cop_tree *tree, cop_rank rank, cop_rank ancestor)
{
    struct spliced in = spliced_of(tree);
    return is_below_now(&in, cop__place_of(&in.laid, rank),
                        cop__place_of(&in.laid, ancestor));
}

static cop_rank next_hop(const struct cop_tree *tree, cop_rank from, cop_rank to)
{
    struct spliced in = spliced_of(tree);
    cop_rank place = cop__place_of(&in.laid, from);
    cop_rank end = cop__place_of(&in.laid, to);
    if (!is_below_now(&in, end, place))
        return parent_of(&in, place);
    if (place == in.stand_in_place && !place_is_below(&in, end, place))
        place = in.top;
    do {
        place = in.laid.ops->child_towards(&in.laid.layout, place, end);
    } while (!is_living(&in, place));
    return cop__rank_at(&in.laid, place);
}

const struct cop__repair_ops cop__splice_ops = {
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
