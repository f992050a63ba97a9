/* SPDX-License-Identifier: Apache-2.0 */
#include "tree/living.h"

#include "base/bitmap.h"

uint32_t cop__living_count(const struct cop_dead *dead, uint32_t n)
{
    return n - cop_dead_below(dead, n);
}

/* How many of the extra dead come before the i-th living rank: those that have at most
 * i living ranks before them. */
static uint32_t extra_before(const struct cop_dead *dead, uint32_t i)
{
    uint32_t low = 0;
    uint32_t high = dead->extra_count;
    struct cop_dead base = {dead->base, NULL, 0};
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        cop_rank rank = dead->extra[middle];
        if (rank - cop_dead_below(&base, rank) - middle <= i)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

cop_rank cop__living_select(const struct cop_dead *dead, uint32_t i)
{
    if (dead == NULL)
        return i;
    i += extra_before(dead, i);
    if (dead->base == NULL)
        return i;
    cop_rank rank = cop__bitmap_select_clear(dead->base, i);
    /* The bitmap may be of an older, smaller world: beyond its end all live. */
    return rank != COP_RANK_NONE ? rank : i + cop__bitmap_count(dead->base);
}

cop_rank cop__dead_next(struct cop__dead_walk *walk)
{
    const struct cop_dead *dead = walk->dead;
    cop_rank base = COP_RANK_NONE;
    cop_rank extra = COP_RANK_NONE;
    if (dead->base != NULL)
        base = cop__bitmap_select(dead->base, walk->base_at);
    if (walk->extra_at < dead->extra_count)
        extra = dead->extra[walk->extra_at];
    if (extra < base) {
        walk->extra_at++;
        return extra;
    }
    walk->base_at += base != COP_RANK_NONE;
    return base;
}
