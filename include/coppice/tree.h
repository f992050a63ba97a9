/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_TREE_H
#define COPPICE_TREE_H

#include <coppice/types.h>

/*
 * Trees are pure functions of (shape, n, root, dead, repair). A position is a rank in
 * [0, n). Nothing is stored that can be computed, so a tree is a small value: copy it
 * freely.
 */

/* ---- shapes ---------------------------------------------------------------------- */

enum cop_shape_kind {
    COP_SHAPE_KARY = 1, /* kary:K      parent (r-1)/K, level order */
    COP_SHAPE_RADIX =
        2, /* radix:A     as kary, A a power of two; routes by shift and mask */
    COP_SHAPE_KNOMIAL =
        3, /* knomial:K   lowest non-zero base-K digit cleared; binomial = :2 */
    COP_SHAPE_FLAT = 4,  /* flat        everybody below the root */
    COP_SHAPE_CHAIN = 5, /* chain       r below r-1 */
    COP_SHAPE_TABLE = 6, /* file:PATH   parents as a topology file says */
    COP_SHAPE_HOSTS =
        7, /* hosts:S     members of a host under its leader, leaders in S */
};

struct
    cop_shape_table; /* parents from a file, or hosts of ranks; shared by reference */

struct cop_shape {
    enum cop_shape_kind kind;
    uint32_t
        k; /* arity, where the kind has one; for HOSTS the arity of the inner shape */
    enum cop_shape_kind inner; /* HOSTS: shape of the leaders' tree; otherwise 0 */
    struct cop_shape_table
        *table; /* TABLE, HOSTS: counted by ref/unref; otherwise NULL */
};

/*
 * Reads "kary:3", "radix:4", "knomial:2", "binomial", "flat", "chain",
 * "hosts:radix:4". A shape that needs a table ("hosts:...", "file:...") comes back
 * without one; give it one with the functions below before use. On failure returns
 * COP_EINVAL and, if `message` is not NULL, writes one sentence that says what is
 * wrong and what is allowed.
 */
int cop_shape_parse(const char *text, struct cop_shape *out, char *message,
                    size_t size);

/* Writes the text form; returns its length as snprintf does. */
int cop_shape_print(const struct cop_shape *shape, char *out, size_t size);

/* A shape of a kind that needs no table. COP_EINVAL if `kind` or `k` is not allowed. */
int cop_shape_make(enum cop_shape_kind kind, uint32_t k, struct cop_shape *out);

/*
 * A TABLE shape from the text of a topology file: `host:0 => host:1 host:2 ;`
 * statements. Ranks are given in level order, the root is 0; `n` is how many there
 * are. `label` of a rank can be asked for with cop_shape_label. On failure: COP_EINVAL
 * with line in `message`.
 */
int cop_shape_from_topology(const char *text, size_t length, struct cop_shape *out,
                            uint32_t *n, char *message, size_t size);

/* The name a topology file gave to a rank ("host:2"), or NULL for other shapes. */
const char *cop_shape_label(const struct cop_shape *shape, cop_rank rank);

/* A HOSTS shape: host_of[rank] is any number, equal for ranks of one host. */
int cop_shape_from_hosts(const struct cop_shape *leaders, const uint32_t *host_of,
                         uint32_t n, struct cop_shape *out);

/* References of the table, if any. Shapes without a table need neither. */
void cop_shape_ref(const struct cop_shape *shape);
void cop_shape_unref(const struct cop_shape *shape);

/* ---- the dead -------------------------------------------------------------------- */

struct cop_bitmap; /* immutable, with constant-time rank and select */

/*
 * A set of dead ranks: a shared bitmap and the differences since, a sorted array
 * without repetition of ranks that are not in the bitmap. Either may be absent, and
 * NULL in place of the set is nobody. Borrowed by whoever uses it.
 */
struct cop_dead {
    const struct cop_bitmap *base;
    const cop_rank *extra;
    uint32_t extra_count;
};

bool cop_dead_has(const struct cop_dead *dead, cop_rank rank);
uint32_t cop_dead_count(const struct cop_dead *dead);
/* How many of the dead have a rank below `rank`. */
uint32_t cop_dead_below(const struct cop_dead *dead, cop_rank rank);

/* ---- trees ----------------------------------------------------------------------- */

enum cop_repair {
    COP_REPAIR_SPLICE =
        0, /* children of the dead go to their nearest living ancestor */
    COP_REPAIR_PROMOTE =
        1, /* the deepest child takes the place of the dead, recursively */
    COP_REPAIR_REBALANCE = 2, /* the shape is laid anew over the living */
};

struct cop_tree {
    struct cop_shape shape;
    uint32_t n;
    cop_rank root; /* place of the root, also if that rank is dead */
    enum cop_repair repair;
    const struct cop_dead *dead; /* NULL: everybody lives */
};

/* Checks (n >= 1, root < n, table fits n). All functions below expect a tree that
 * passed. */
int cop_tree_check(const struct cop_tree *tree);

/* Ranks in a growing array that its owner reuses: start from {0}, end with free. */
struct cop_ranks {
    cop_rank *items;
    uint32_t count;
    uint32_t capacity;
};
int cop_ranks_push(struct cop_ranks *ranks, cop_rank rank);
void cop_ranks_free(struct cop_ranks *ranks);

/* Who is at the root now: `root`, or its stand-in if it is dead; NONE if all are dead. */
cop_rank cop_tree_root(const struct cop_tree *tree);

/* The parent of a living rank; COP_RANK_NONE for the root. */
cop_rank cop_tree_parent(const struct cop_tree *tree, cop_rank rank);

/*
 * The children of a living rank, in the order in which a broadcast must send: deepest
 * sub-tree first, then the higher rank. (In a spliced tree an adopted child is placed
 * by the depth that it has in the tree without deaths: finding the repaired depth
 * would cost more than it saves.) Replaces what `out` held. COP_ENOMEM leaves `out`
 * empty.
 */
int cop_tree_children(const struct cop_tree *tree, cop_rank rank,
                      struct cop_ranks *out);

/* How many children; no allocation. */
uint32_t cop_tree_child_count(const struct cop_tree *tree, cop_rank rank);

/* Living ranks in the sub-tree of a living rank, itself included. */
uint32_t cop_tree_size(const struct cop_tree *tree, cop_rank rank);

/* Levels in the sub-tree, 1 for a leaf. With splice an upper bound (see children). */
uint32_t cop_tree_depth(const struct cop_tree *tree, cop_rank rank);

/* Steps from the root, 0 for the root. */
uint32_t cop_tree_level(const struct cop_tree *tree, cop_rank rank);

/* Whether `rank` is in the sub-tree of `ancestor` (a rank is in its own). */
bool cop_tree_is_below(const struct cop_tree *tree, cop_rank rank, cop_rank ancestor);

/* The neighbour of `from` on the way to `to`; `to` itself when from == to. */
cop_rank cop_tree_next_hop(const struct cop_tree *tree, cop_rank from, cop_rank to);

#endif
