/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TREE_REPAIR_H
#define COP_TREE_REPAIR_H

#include <coppice/tree.h>

/*
 * What a policy of repair answers, for living ranks of a tree with somebody living.
 * Each answer depends on the shape and on the set of the dead and on nothing else, so
 * all who know the same dead hold the same tree, in whichever order they learnt of
 * them.
 */
struct cop__repair_ops {
    cop_rank (*root)(const struct cop_tree *tree);
    cop_rank (*parent)(const struct cop_tree *tree, cop_rank rank);
    /* Appends, in any order. */
    int (*children)(const struct cop_tree *tree, cop_rank rank, struct cop_ranks *out);
    uint32_t (*child_count)(const struct cop_tree *tree, cop_rank rank);
    uint32_t (*size)(const struct cop_tree *tree, cop_rank rank);
    uint32_t (*depth)(const struct cop_tree *tree, cop_rank rank);
    uint32_t (*level)(const struct cop_tree *tree, cop_rank rank);
    bool (*is_below)(const struct cop_tree *tree, cop_rank rank, cop_rank ancestor);
    /* The neighbour of `from` on the way to `to`, another. One function and not two, so
     * that places are looked up once. */
    cop_rank (*next_hop)(const struct cop_tree *tree, cop_rank from, cop_rank to);
};

extern const struct cop__repair_ops cop__splice_ops;
extern const struct cop__repair_ops cop__promote_ops;
extern const struct cop__repair_ops
    cop__rebalance_ops; /* also for trees without dead */

/* Sorts by cop_tree_depth, deepest first, then the higher rank. */
void cop__order_children(const struct cop_tree *tree, struct cop_ranks *ranks);

#endif
