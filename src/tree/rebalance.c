/* SPDX-License-Identifier: Apache-2.0 */
#include "tree/laid.h"
#include "tree/repair.h"

/*
 * The shape laid anew over the living, who are numbered densely; the root, or the
 * lowest living rank if it is dead, comes to the root's place. Hosts elect new leaders
 * instead (hosts.c). A topology file's tree cannot be laid anew: tree.c sends it to
 * splice.
 *
 * Without dead this is the shape itself.
 *
 * Cost: that of the shape, and for each rank that goes in or out a rank or select on
 * the bitmap of the dead and a binary search in the differences since.
 */

static cop_rank root(const struct cop_tree *tree) { return cop__stand_in(tree); }

static cop_rank parent(const struct cop_tree *tree, cop_rank rank)
{
    struct cop__laid laid = cop__lay_living(tree);
    cop_rank place = cop__place_of(&laid, rank);
    return cop__rank_at(&laid, laid.ops->parent(&laid.layout, place));
}

static int children(const struct cop_tree *tree, cop_rank rank, struct cop_ranks *out)
{
    struct cop__laid laid = cop__lay_living(tree);
    cop_rank place = cop__place_of(&laid, rank);
    cop_rank child = laid.ops->first_child(&laid.layout, place);
    while (child != COP_RANK_NONE) {
        int error = cop_ranks_push(out, cop__rank_at(&laid, child));
        if (error != 0)
            return error;
        child = laid.ops->next_child(&laid.layout, place, child);
    }
    return 0;
}

static uint32_t child_count(const struct cop_tree *tree, cop_rank rank)
{
    struct cop__laid laid = cop__lay_living(tree);
    return laid.ops->child_count(&laid.layout, cop__place_of(&laid, rank));
}

static uint32_t size(const struct cop_tree *tree, cop_rank rank)
{
    struct cop__laid laid = cop__lay_living(tree);
    return laid.ops->size(&laid.layout, cop__place_of(&laid, rank));
}

static uint32_t depth(const struct cop_tree *tree, cop_rank rank)
{
    struct cop__laid laid = cop__lay_living(tree);
    return laid.ops->depth(&laid.layout, cop__place_of(&laid, rank));
}

static uint32_t level(const struct cop_tree *tree, cop_rank rank)
{
    struct cop__laid laid = cop__lay_living(tree);
    return laid.ops->level(&laid.layout, cop__place_of(&laid, rank));
}

static bool is_below(const struct cop_tree *tree, cop_rank rank, cop_rank ancestor)
{
    struct cop__laid laid = cop__lay_living(tree);
    return laid.ops->is_below(&laid.layout, cop__place_of(&laid, rank),
                              cop__place_of(&laid, ancestor));
}

static cop_rank next_hop(const struct cop_tree *tree, cop_rank from, cop_rank to)
{
    struct cop__laid laid = cop__lay_living(tree);
    cop_rank start = cop__place_of(&laid, from);
    cop_rank end = cop__place_of(&laid, to);
    bool down = laid.ops->is_below(&laid.layout, end, start);
    cop_rank hop = down ? laid.ops->child_towards(&laid.layout, start, end)
                        : laid.ops->parent(&laid.layout, start);
    return cop__rank_at(&laid, hop);
}

const struct cop__repair_ops cop__rebalance_ops = {
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
