/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_BASE_BITMAP_H
#define COP_BASE_BITMAP_H

#include <coppice/tree.h>

/*
 * An immutable set of ranks in [0, n) with constant-time membership, rank and select.
 * About 1.1 bits a member and counted by reference, so that views share it.
 */

/*
 * A set with one reference whose bits are those of `ranks` (any order, repetition allowed,
 * each < n; may be NULL if count is 0). NULL if there is no memory.
 */
struct cop_bitmap *cop__bitmap_create(uint32_t n, const cop_rank *ranks,
                                      uint32_t count);
/* NULL stays NULL, and giving it back does nothing. */
struct cop_bitmap *cop__bitmap_ref(struct cop_bitmap *map);
void cop__bitmap_unref(struct cop_bitmap *map);

uint32_t cop__bitmap_size(const struct cop_bitmap *map);  /* n */
uint32_t cop__bitmap_count(const struct cop_bitmap *map); /* set bits */
/* False for a rank outside [0, n). */
bool cop__bitmap_has(const struct cop_bitmap *map, cop_rank rank);
/* Set bits below `rank` (rank <= n). */
uint32_t cop__bitmap_below(const struct cop_bitmap *map, cop_rank rank);
/* The i-th set bit, or the i-th clear one, counted from 0; COP_RANK_NONE beyond the last. */
cop_rank cop__bitmap_select(const struct cop_bitmap *map, uint32_t i);
cop_rank cop__bitmap_select_clear(const struct cop_bitmap *map, uint32_t i);
/* Bytes it occupies, with its index. */
size_t cop__bitmap_bytes(const struct cop_bitmap *map);

#endif
