/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TREE_LEAVES_H
#define COP_TREE_LEAVES_H

#include <coppice/tree.h>

/*
 * Ranks that live and have no place inside: to shape and repair they are dead, and each hangs
 * below its nearest ancestor, in the tree without deaths, that has one; below the root if there
 * is none. The rest of the tree does not know of them.
 */
bool cop__is_leaf(const struct cop_tree *tree, cop_rank rank);
cop_rank cop__leaf_parent(const struct cop_tree *tree, cop_rank rank);
/* Appends the leaves right below a rank; counts them, if `out` is NULL. */
int cop__leaves_of(const struct cop_tree *tree, cop_rank rank, struct cop_ranks *out,
                   uint32_t *count);
/* How many hang somewhere below a rank that is none of them. */
uint32_t cop__leaves_below(const struct cop_tree *tree, cop_rank rank);

#endif
