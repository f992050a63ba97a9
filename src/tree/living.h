/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TREE_LIVING_H
#define COP_TREE_LIVING_H

#include <coppice/tree.h>

/* How many of the ranks below n live. */
uint32_t cop__living_count(const struct cop_dead *dead, uint32_t n);

/* The i-th living rank, counted from 0; i < cop__living_count. O(log of the extra
 * dead). */
cop_rank cop__living_select(const struct cop_dead *dead, uint32_t i);

/* The dead in the order of their ranks: start with {dead}, NONE after the last. */
struct cop__dead_walk {
    const struct cop_dead *dead;
    uint32_t base_at;
    uint32_t extra_at;
};
cop_rank cop__dead_next(struct cop__dead_walk *walk);

#endif
