/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TESTS_TREE_MODEL_H
#define COP_TESTS_TREE_MODEL_H

#include <coppice/tree.h>

#include "base/random.h"

/* A tree asked rank by rank and then measured the slow way, to compare with its
 * answers. */
struct tree_model {
    uint32_t n;
    cop_rank root;
    uint32_t living;
    cop_rank *parent; /* NONE for the root and for the dead */
    uint32_t *level;
    uint32_t *size; /* 0 for the dead */
    uint32_t *depth;
};

enum { TREE_DEPTH_EXACT, TREE_DEPTH_BOUND };

/*
 * Asks everything and fails the test on the first answer that is wrong: exactly the
 * living, connected, without cycle; children and parents inverse and in the order of
 * sends; sizes, depths, levels. `pairs` pairs of ranks are tried for is_below and
 * next_hop, or all of them if there are no more than that.
 */
void tree_check(const struct cop_tree *tree, int depth, uint32_t pairs,
                struct cop__random *random);

/* The parents of the living, NONE for the others; to be freed. */
cop_rank *tree_parents(const struct cop_tree *tree);

/* A TABLE shape of a random tree, and a HOSTS shape over random hosts. */
struct cop_shape tree_random_table(uint32_t n, struct cop__random *random);
struct cop_shape tree_random_hosts(const char *leaders, uint32_t n, uint32_t hosts,
                                   struct cop__random *random);

/* Reads a shape that must be right. */
struct cop_shape tree_shape(const char *text);

#endif
