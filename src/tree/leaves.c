/* SPDX-License-Identifier: Apache-2.0 */
#include "tree/leaves.h"

#include "tree/laid.h"

bool cop__is_leaf(const struct cop_tree *tree, cop_rank rank)
{
    uint32_t low = 0, high = tree->leaf_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (tree->leaves[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < tree->leaf_count && tree->leaves[low] == rank;
}

static cop_rank parent_in(const struct cop_tree *tree, const struct cop__laid *laid,
                          cop_rank rank)
{
    cop_rank place = cop__place_of(laid, rank);
    do
        place = laid->ops->parent(&laid->layout, place);
    while (place != COP_RANK_NONE &&
           cop_dead_has(tree->dead, cop__rank_at(laid, place)));
    return place == COP_RANK_NONE ? cop_tree_root(tree) : cop__rank_at(laid, place);
}

cop_rank cop__leaf_parent(const struct cop_tree *tree, cop_rank rank)
{
    struct cop__laid laid = cop__lay_all(tree);
    return parent_in(tree, &laid, rank);
}

int cop__leaves_of(const struct cop_tree *tree, cop_rank rank, struct cop_ranks *out,
                   uint32_t *count)
{
    if (tree->leaf_count == 0)
        return 0;
    struct cop__laid laid = cop__lay_all(tree);
    for (uint32_t i = 0; i < tree->leaf_count; i++) {
        if (parent_in(tree, &laid, tree->leaves[i]) != rank)
            continue;
        ++*count;
        int error = out ? cop_ranks_push(out, tree->leaves[i]) : 0;
        if (error != 0)
            return error;
    }
    return 0;
}

uint32_t cop__leaves_below(const struct cop_tree *tree, cop_rank rank)
{
    if (tree->leaf_count == 0)
        return 0;
    uint32_t count = 0;
    struct cop__laid laid = cop__lay_all(tree);
    for (uint32_t i = 0; i < tree->leaf_count; i++)
        count += cop_tree_is_below(tree, parent_in(tree, &laid, tree->leaves[i]), rank);
    return count;
}
