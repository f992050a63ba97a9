/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TREE_SHAPE_H
#define COP_TREE_SHAPE_H

#include <coppice/tree.h>

/*
 * A shape knows places, not ranks. Most shapes are drawn once, with place 0 as the
 * root: there a rank is at the place of its number, but the root and rank 0 change
 * places. In shapes with a table each place is somebody in particular: there a place is a
 * rank, and the shape itself answers for any root.
 *
 * To add a shape: one file with a struct cop__shape_ops, and one row in shape.c.
 */
struct cop__layout {
    uint32_t n;    /* places */
    uint32_t k;    /* arity, where the shape has one */
    cop_rank root; /* place of the root: 0 unless the shape has a table */
    const struct cop_shape *shape;
    /* Left out of the tree, by shapes of COP__REBALANCE_ELECT; otherwise NULL. */
    const struct cop_dead *dead;
};

/*
 * Consecutive places, both ends included; `step` counts the spans seen. Start from {0}.
 * A shape whose sub-tree is all but another one keeps the span that it leaves out in
 * `out_`.
 */
struct cop__span {
    uint32_t step;
    bool by_gaps;
    cop_rank first;
    cop_rank last;
    cop_rank out_first;
    cop_rank out_last;
};

/*
 * All of them cost O(depth) or less and none allocates. Children are listed deepest
 * sub-tree first, then the higher place, except where a shape says otherwise; the first
 * of them is also the one that `promote` moves up.
 */
struct cop__shape_ops {
    /* NONE for the root. */
    cop_rank (*parent)(const struct cop__layout *at, cop_rank place);
    /* NONE if there is none (any more). */
    cop_rank (*first_child)(const struct cop__layout *at, cop_rank place);
    cop_rank (*next_child)(const struct cop__layout *at, cop_rank place,
                           cop_rank child);
    uint32_t (*child_count)(const struct cop__layout *at, cop_rank place);
    uint32_t (*size)(const struct cop__layout *at, cop_rank place);
    uint32_t (*depth)(const struct cop__layout *at, cop_rank place);
    uint32_t (*level)(const struct cop__layout *at, cop_rank place);
    bool (*is_below)(const struct cop__layout *at, cop_rank place, cop_rank ancestor);
    /* The child of `ancestor` whose sub-tree has `place`, which is properly below it.
     *  */
    cop_rank (*child_towards)(const struct cop__layout *at, cop_rank ancestor,
                              cop_rank place);
    /* The next span of the sub-tree; false after the last. NULL: not known as spans. */
    bool (*next_span)(const struct cop__layout *at, cop_rank place,
                      struct cop__span *span);
};

/* What `rebalance` does with a shape. */
enum cop__rebalance {
    COP__REBALANCE_DENSE,  /* lays it over the living, numbered densely */
    COP__REBALANCE_ELECT,  /* asks it to leave out cop__layout.dead */
    COP__REBALANCE_SPLICE, /* nothing better than splice: the shape is the user's own */
};

struct cop__shape_row {
    enum cop_shape_kind kind;
    const char *name;
    const char *usage; /* as people type it */
    uint32_t k_max;    /* 0: no arity */
    bool k_is_power;   /* of two */
    bool has_table;
    enum cop__rebalance rebalance;
    const struct cop__shape_ops *ops;
};

#define COP__ARITY_MIN 2U
#define COP__ARITY_MAX 1024U

/* NULL if there is no such kind. */
const struct cop__shape_row *cop__shape_row(enum cop_shape_kind kind);
/* Whether the arity is one that the kind allows. */
bool cop__shape_k_is_allowed(const struct cop__shape_row *row, uint32_t k);

extern const struct cop__shape_ops cop__kary_ops;
extern const struct cop__shape_ops cop__radix_ops;
extern const struct cop__shape_ops cop__knomial_ops;
extern const struct cop__shape_ops cop__flat_ops;
extern const struct cop__shape_ops cop__chain_ops;
extern const struct cop__shape_ops cop__table_ops;
extern const struct cop__shape_ops cop__hosts_ops;

#endif
