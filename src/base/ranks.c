/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/error.h>
#include <coppice/tree.h>

#include "base/bitmap.h"

#include <stdlib.h>

#define CAPACITY_MIN 8U
/* Far above COP_MEMBERS_MAX, and its bytes still fit in 32 bits. */
#define CAPACITY_MAX (UINT32_C(1) << 29)

static int grow(struct cop_ranks *ranks)
{
    if (ranks->capacity >= CAPACITY_MAX)
        return COP_ENOMEM;
    uint32_t capacity = ranks->capacity == 0 ? CAPACITY_MIN : ranks->capacity * 2;
    cop_rank *items = realloc(ranks->items, capacity * sizeof(cop_rank));
    if (items == NULL)
        return COP_ENOMEM;
    ranks->items = items;
    ranks->capacity = capacity;
    return 0;
}

int cop_ranks_push(struct cop_ranks *ranks, cop_rank rank)
{
    if (ranks->count == ranks->capacity) {
        int error = grow(ranks);
        if (error != 0)
            return error;
    }
    ranks->items[ranks->count++] = rank;
    return 0;
}

void cop_ranks_free(struct cop_ranks *ranks)
{
    free(ranks->items);
    *ranks = (struct cop_ranks){NULL, 0, 0};
}

/* How many of the extra dead have a lower rank; also where the rank is or would be. */
static uint32_t extra_below(const struct cop_dead *dead, cop_rank rank)
{
    uint32_t low = 0;
    uint32_t high = dead->extra_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (dead->extra[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool cop_dead_has(const struct cop_dead *dead, cop_rank rank)
{
    if (dead == NULL)
        return false;
    if (dead->base != NULL && cop__bitmap_has(dead->base, rank))
        return true;
    uint32_t at = extra_below(dead, rank);
    return at < dead->extra_count && dead->extra[at] == rank;
}

uint32_t cop_dead_count(const struct cop_dead *dead)
{
    if (dead == NULL)
        return 0;
    return dead->extra_count + (dead->base == NULL ? 0 : cop__bitmap_count(dead->base));
}

/* The bitmap may be of an older, smaller world: beyond its end nobody is dead. */
static uint32_t base_below(const struct cop_bitmap *base, cop_rank rank)
{
    if (base == NULL)
        return 0;
    if (rank >= cop__bitmap_size(base))
        return cop__bitmap_count(base);
    return cop__bitmap_below(base, rank);
}

uint32_t cop_dead_below(const struct cop_dead *dead, cop_rank rank)
{
    return dead == NULL ? 0 : base_below(dead->base, rank) + extra_below(dead, rank);
}
