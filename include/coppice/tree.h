/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_TREE_H
#define COPPICE_TREE_H

#include <coppice/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Trees are pure functions of (shape, n, root, dead, leaves, repair). A position is a rank in
 * [0, n). Nothing is stored that can be computed, so a tree is a small value: copy it
 * freely.
 */

/* ---- shapes ---------------------------------------------------------------------- */

/*
 * kary:K      the parent of r is (r-1)/K; level order
 * radix:A     as kary, A a power of two; routes by shift and mask
 * knomial:K   the parent of r is r with its lowest non-zero base-K digit cleared;
 *             binomial is knomial:2
 * flat        everybody below the root
 * chain       r below r-1
 * file:PATH   parents as a topology file says
 * hosts:S     members of a host below its leader, leaders in shape S; the lowest rank
 *             of a host leads it, but the root leads its own
 *
 * This is for root 0. Another root changes places with rank 0, so that trees with
 * different roots share nearly all edges; a file's tree is hung up by it, which turns the
 * edges between the two roots round; and its host comes first.
 */
enum cop_shape_kind {
    COP_SHAPE_KARY = 1,
    COP_SHAPE_RADIX = 2,
    COP_SHAPE_KNOMIAL = 3,
    COP_SHAPE_FLAT = 4,
    COP_SHAPE_CHAIN = 5,
    COP_SHAPE_TABLE = 6, /* file: */
    COP_SHAPE_HOSTS = 7,
};

/* Parents from a file, or hosts of ranks; shared by reference. */
struct cop_shape_table;

struct cop_shape {
    enum cop_shape_kind kind;
    uint32_t k;                    /* arity, or 0; for HOSTS that of the inner shape */
    enum cop_shape_kind inner;     /* HOSTS: shape of the leaders' tree; otherwise 0 */
    struct cop_shape_table *table; /* TABLE, HOSTS: counted; otherwise NULL */
};

/*
 * Reads "kary:3", "radix:4", "knomial:2", "binomial", "flat", "chain", "hosts:radix:4".
 * Arities are from 2 to 1024. A shape that needs a table ("hosts:...", "file:...")
 * comes back without one; give it one with the functions below before use. On failure
 * returns COP_EINVAL and, if `message` is not NULL, writes one sentence that says what
 * is wrong and what is allowed.
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

/* References of the table, if any; atomic. Shapes without a table need neither. */
void cop_shape_ref(const struct cop_shape *shape);
/* Gives one back; the last one frees. */
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

/* Whether a rank is among them. */
bool cop_dead_has(const struct cop_dead *dead, cop_rank rank);
/* How many there are. */
uint32_t cop_dead_count(const struct cop_dead *dead);
/* How many of the dead have a rank below `rank`. */
uint32_t cop_dead_below(const struct cop_dead *dead, cop_rank rank);

/* ---- trees ----------------------------------------------------------------------- */

/*
 * splice      The children of the dead go to their nearest living ancestor. The lowest
 *             living rank stands in for a dead root. Few edges change; degree can grow.
 * promote     The deepest child takes the place of the dead, recursively; with hosts, a
 *             member of the same host. Degree stays bounded.
 * rebalance   The shape is laid anew over the living, with the stand-in of splice.
 *             Hosts elect new leaders. A file's tree cannot be laid anew: as splice.
 */
enum cop_repair {
    COP_REPAIR_SPLICE = 0,
    COP_REPAIR_PROMOTE = 1,
    COP_REPAIR_REBALANCE = 2,
};

struct cop_tree {
    struct cop_shape shape;
    uint32_t n;
    cop_rank root; /* place of the root, also if that rank is dead */
    enum cop_repair repair;
    const struct cop_dead *dead; /* NULL: everybody lives */
    /*
     * Those of `dead` that live after all, and only have no place inside: each hangs below its
     * nearest living ancestor in the tree without deaths, or below the root, and has no
     * children. Sorted, without repetition, borrowed; NULL for none. Somebody must live who is
     * not among them.
     */
    const cop_rank *leaves;
    uint32_t leaf_count;
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
/* Appends one. COP_ENOMEM leaves the array as it was. */
int cop_ranks_push(struct cop_ranks *ranks, cop_rank rank);
/* Frees and empties the array. */
void cop_ranks_free(struct cop_ranks *ranks);

/* Who is at the root now: `root`, or its stand-in if it is dead; NONE if all are dead.
 *  */
cop_rank cop_tree_root(const struct cop_tree *tree);

/* The parent of a living rank; COP_RANK_NONE for the root. */
cop_rank cop_tree_parent(const struct cop_tree *tree, cop_rank rank);

/*
 * The children of a living rank, in the order in which a broadcast must send: deepest
 * sub-tree first (by cop_tree_depth), then the higher rank. Replaces what `out` held.
 * COP_ENOMEM leaves `out` empty.
 */
int cop_tree_children(const struct cop_tree *tree, cop_rank rank,
                      struct cop_ranks *out);

/* How many children; no allocation. */
uint32_t cop_tree_child_count(const struct cop_tree *tree, cop_rank rank);

/* Living ranks in the sub-tree of a living rank, itself included. */
uint32_t cop_tree_size(const struct cop_tree *tree, cop_rank rank);

/*
 * Levels in the sub-tree, 1 for a leaf. With splice and promote it is that of the tree
 * without deaths, an upper bound: finding the repaired depth would cost more than it
 * saves. Also a bound with hosts of which some have one member and others more.
 */
uint32_t cop_tree_depth(const struct cop_tree *tree, cop_rank rank);

/* Steps from the root, 0 for the root. */
uint32_t cop_tree_level(const struct cop_tree *tree, cop_rank rank);

/* Whether `rank` is in the sub-tree of `ancestor` (a rank is in its own). */
bool cop_tree_is_below(const struct cop_tree *tree, cop_rank rank, cop_rank ancestor);

/* The neighbour of `from` on the way to `to`; `to` itself when from == to. */
cop_rank cop_tree_next_hop(const struct cop_tree *tree, cop_rank from, cop_rank to);

#ifdef __cplusplus
}
#endif

#endif
