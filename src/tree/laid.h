/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TREE_LAID_H
#define COP_TREE_LAID_H

#include "tree/shape.h"

/*
 * A shape laid over ranks: which rank is at which place. The ranks, or only the living
 * ones, are numbered 0, 1, 2.., and the root changes places with number 0. So trees with
 * different roots have nearly all edges, and with them connections, in common.
 */
struct cop__laid {
    struct cop__layout layout;
    const struct cop__shape_ops *ops;
    uint32_t origin;                   /* number of the rank at place 0 */
    const struct cop_dead *unnumbered; /* have no number; NULL: all have one */
};

/* Over all ranks, as if nobody were dead. */
struct cop__laid cop__lay_all(const struct cop_tree *tree);
/* Over the living, of whom there must be one. Not for COP__REBALANCE_SPLICE. */
struct cop__laid cop__lay_living(const struct cop_tree *tree);

cop_rank cop__place_of(const struct cop__laid *laid, cop_rank rank);
/* NONE stays NONE. */
cop_rank cop__rank_at(const struct cop__laid *laid, cop_rank place);

/* How many in the sub-tree of a place of cop__lay_all live. O(depth) if the shape knows
 * its sub-trees as spans, otherwise O(dead * depth). */
uint32_t cop__living_below(const struct cop__laid *laid, const struct cop_dead *dead,
                           cop_rank place);

/* Who stands for the root: the rank itself, or the lowest living one; NONE if all died.
 *  */
cop_rank cop__stand_in(const struct cop_tree *tree);

#endif
