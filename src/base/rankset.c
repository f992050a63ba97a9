/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rankset.h"

#include <string.h>

/* Index of the first item that is not below `rank`. */
static uint32_t find(const struct cop_ranks *set, cop_rank rank)
{
    uint32_t low = 0, high = set->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (set->items[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool cop__rankset_has(const struct cop_ranks *set, cop_rank rank)
{
    uint32_t at = find(set, rank);
    return at < set->count && set->items[at] == rank;
}

int cop__rankset_put(struct cop_ranks *set, cop_rank rank)
{
    uint32_t at = find(set, rank);
    if (at < set->count && set->items[at] == rank)
        return 0;
    int error = cop_ranks_push(set, rank);
    if (error)
        return error;
    memmove(set->items + at + 1, set->items + at,
            (set->count - 1 - at) * sizeof *set->items);
    set->items[at] = rank;
    return 0;
}

void cop__rankset_drop(struct cop_ranks *set, cop_rank rank)
{
    uint32_t at = find(set, rank);
    if (at == set->count || set->items[at] != rank)
        return;
    set->count--;
    memmove(set->items + at, set->items + at + 1,
            (set->count - at) * sizeof *set->items);
}
