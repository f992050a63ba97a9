/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/error.h>

#include "base/assert.h"
#include "tree/leaves.h"
#include "tree/living.h"
#include "tree/repair.h"
#include "tree/shape.h"
#include "tree/table.h"

/* A tree is its shape (a table of functions over places) and its repair (a table of
 * functions over ranks). This file only finds the right one. */

static bool shape_is_allowed(const struct cop_shape *shape, uint32_t n)
{
    const struct cop__shape_row *row = cop__shape_row(shape->kind);
    if (row == NULL)
        return false;
    if (row->has_table && (shape->table == NULL || shape->table->n != n))
        return false;
    if (shape->kind != COP_SHAPE_HOSTS)
        return cop__shape_k_is_allowed(row, shape->k);
    row = cop__shape_row(shape->inner);
    return row != NULL && !row->has_table && cop__shape_k_is_allowed(row, shape->k);
}

static bool repair_is_allowed(enum cop_repair repair)
{
    return repair == COP_REPAIR_SPLICE || repair == COP_REPAIR_PROMOTE ||
           repair == COP_REPAIR_REBALANCE;
}

int cop_tree_check(const struct cop_tree *tree)
{
    if (tree->n == 0 || tree->n > COP_MEMBERS_MAX || tree->root >= tree->n ||
        !shape_is_allowed(&tree->shape, tree->n) || !repair_is_allowed(tree->repair))
        return COP_EINVAL;
    return 0;
}

static const struct cop__repair_ops *ops_of(const struct cop_tree *tree)
{
    if (cop_dead_count(tree->dead) == 0)
        return &cop__rebalance_ops;
    switch (tree->repair) {
    case COP_REPAIR_PROMOTE:
        return &cop__promote_ops;
    case COP_REPAIR_REBALANCE:
        if (cop__shape_row(tree->shape.kind)->rebalance != COP__REBALANCE_SPLICE)
            return &cop__rebalance_ops;
        break;
    case COP_REPAIR_SPLICE:
        break;
    }
    return &cop__splice_ops;
}

cop_rank cop_tree_root(const struct cop_tree *tree)
{
    if (cop__living_count(tree->dead, tree->n) == 0)
        return COP_RANK_NONE;
    return ops_of(tree)->root(tree);
}

cop_rank cop_tree_parent(const struct cop_tree *tree, cop_rank rank)
{
    COP_ASSERT(rank < tree->n);
    return cop__is_leaf(tree, rank) ? cop__leaf_parent(tree, rank)
                                    : ops_of(tree)->parent(tree, rank);
}

int cop_tree_children(const struct cop_tree *tree, cop_rank rank, struct cop_ranks *out)
{
    COP_ASSERT(rank < tree->n);
    uint32_t leaves = 0;
    out->count = 0;
    if (cop__is_leaf(tree, rank))
        return 0;
    int error = ops_of(tree)->children(tree, rank, out);
    if (error == 0)
        error = cop__leaves_of(tree, rank, out, &leaves);
    if (error != 0) {
        out->count = 0;
        return error;
    }
    cop__order_children(tree, out);
    return 0;
}

uint32_t cop_tree_child_count(const struct cop_tree *tree, cop_rank rank)
{
    COP_ASSERT(rank < tree->n);
    uint32_t count = 0;
    if (cop__is_leaf(tree, rank))
        return 0;
    (void)cop__leaves_of(tree, rank, NULL, &count);
    return count + ops_of(tree)->child_count(tree, rank);
}

uint32_t cop_tree_size(const struct cop_tree *tree, cop_rank rank)
{
    COP_ASSERT(rank < tree->n);
    if (cop__is_leaf(tree, rank))
        return 1;
    return ops_of(tree)->size(tree, rank) + cop__leaves_below(tree, rank);
}

/* Splicing brings descendants nearer, and leaves stay below whom they were below; where the
 * tree is another one they are one more level. */
uint32_t cop_tree_depth(const struct cop_tree *tree, cop_rank rank)
{
    COP_ASSERT(rank < tree->n);
    if (cop__is_leaf(tree, rank))
        return 1;
    const struct cop__repair_ops *ops = ops_of(tree);
    return ops->depth(tree, rank) + (tree->leaf_count > 0 && ops != &cop__splice_ops);
}

uint32_t cop_tree_level(const struct cop_tree *tree, cop_rank rank)
{
    COP_ASSERT(rank < tree->n);
    if (cop__is_leaf(tree, rank))
        return ops_of(tree)->level(tree, cop__leaf_parent(tree, rank)) + 1;
    return ops_of(tree)->level(tree, rank);
}

bool cop_tree_is_below(const struct cop_tree *tree, cop_rank rank, cop_rank ancestor)
{
    COP_ASSERT(rank < tree->n && ancestor < tree->n);
    if (rank == ancestor)
        return true;
    if (cop__is_leaf(tree, ancestor))
        return false;
    if (cop__is_leaf(tree, rank))
        rank = cop__leaf_parent(tree, rank);
    return rank == ancestor || ops_of(tree)->is_below(tree, rank, ancestor);
}

cop_rank cop_tree_next_hop(const struct cop_tree *tree, cop_rank from, cop_rank to)
{
    COP_ASSERT(from < tree->n && to < tree->n);
    if (from == to)
        return to;
    if (cop__is_leaf(tree, from))
        return cop__leaf_parent(tree, from);
    if (cop__is_leaf(tree, to)) {
        cop_rank above = cop__leaf_parent(tree, to);
        return from == above ? to : ops_of(tree)->next_hop(tree, from, above);
    }
    return ops_of(tree)->next_hop(tree, from, to);
}
