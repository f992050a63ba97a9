/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/roll.h"

#include <coppice/error.h>
#include <stdlib.h>
#include <string.h>

/* Sorts ranks by the ids they stand for: bottom-up merging, for lists may be long. */
static void sort(const cop_id *ids, cop_rank *ranks, cop_rank *spare, uint32_t count)
{
    for (uint32_t width = 1; width < count; width *= 2) {
        for (uint32_t low = 0; low < count; low += 2 * width) {
            uint32_t middle = low + width < count ? low + width : count;
            uint32_t high = low + 2 * width < count ? low + 2 * width : count;
            uint32_t a = low, b = middle;
            for (uint32_t to = low; to < high; to++) {
                bool left = a < middle && (b == high || ids[ranks[a]] <= ids[ranks[b]]);
                spare[to] = left ? ranks[a++] : ranks[b++];
            }
        }
        memcpy(ranks, spare, count * sizeof *ranks);
    }
}

int cop__roll_create(const cop_id *ids, uint32_t count, struct cop__roll **out)
{
    if (count == 0 || count > COP_MEMBERS_MAX)
        return COP_EINVAL;
    struct cop__roll *roll =
        malloc(sizeof *roll + count * (sizeof(cop_id) + sizeof(cop_rank)));
    cop_rank *spare = malloc(count * sizeof *spare);
    if (!roll || !spare) {
        free(roll);
        free(spare);
        return COP_ENOMEM;
    }
    roll->refs = 1;
    roll->count = count;
    roll->ids = (cop_id *)(void *)(roll + 1);
    roll->by_id = roll->ids + count;
    memcpy(roll->ids, ids, count * sizeof *ids);
    for (cop_rank rank = 0; rank < count; rank++)
        roll->by_id[rank] = rank;
    sort(roll->ids, roll->by_id, spare, count);
    free(spare);
    for (uint32_t i = 1; i < count; i++) {
        if (ids[roll->by_id[i - 1]] == ids[roll->by_id[i]]) {
            free(roll);
            return COP_EINVAL;
        }
    }
    *out = roll;
    return 0;
}

struct cop__roll *cop__roll_ref(struct cop__roll *roll)
{
    if (roll)
        roll->refs++;
    return roll;
}

void cop__roll_unref(struct cop__roll *roll)
{
    if (roll && --roll->refs == 0)
        free(roll);
}

cop_rank cop__roll_rank(const struct cop__roll *roll, cop_id id)
{
    uint32_t low = 0, high = roll->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (roll->ids[roll->by_id[middle]] < id)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < roll->count && roll->ids[roll->by_id[low]] == id;
    return found ? roll->by_id[low] : COP_RANK_NONE;
}
