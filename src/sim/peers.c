/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world.h"

#include <stdlib.h>

/*
 * Open addressing with linear probing; peers are never removed. A million nodes have one
 * each, so a table starts small and an empty one holds nothing.
 */
#define CAPACITY_FIRST 4

static uint32_t slot_of(const struct cop__peers *peers, cop_id id)
{
    /* A product spreads even neighbours; this is looked up for every frame. */
    uint64_t spread = (uint64_t)id * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t at = (uint32_t)(spread >> 32) & (peers->capacity - 1);
    while (peers->slots[at].id != id && peers->slots[at].id != COP_ID_NONE)
        at = (at + 1) & (peers->capacity - 1);
    return at;
}

struct cop__peer *cop__peers_find(const struct cop__peers *peers, cop_id id)
{
    if (peers->capacity == 0)
        return NULL;
    struct cop__peer *peer = &peers->slots[slot_of(peers, id)];
    return peer->id == id ? peer : NULL;
}

static bool grow(struct cop__peers *peers)
{
    uint32_t capacity = peers->capacity ? 2 * peers->capacity : CAPACITY_FIRST;
    struct cop__peers larger = {malloc(capacity * sizeof(struct cop__peer)), 0,
                                capacity};
    if (!larger.slots)
        return false;
    for (uint32_t i = 0; i < capacity; i++)
        larger.slots[i].id = COP_ID_NONE;
    for (uint32_t i = 0; i < peers->capacity; i++) {
        if (peers->slots[i].id != COP_ID_NONE)
            larger.slots[slot_of(&larger, peers->slots[i].id)] = peers->slots[i];
    }
    larger.count = peers->count;
    free(peers->slots);
    *peers = larger;
    return true;
}

struct cop__peer *cop__peers_add(struct cop__peers *peers, cop_id id)
{
    struct cop__peer *found = cop__peers_find(peers, id);
    if (found)
        return found;
    /* One slot always stays free, or a search for somebody absent would not end. */
    if (8 * (uint64_t)(peers->count + 1) > 7 * (uint64_t)peers->capacity &&
        !grow(peers))
        return NULL;
    struct cop__peer *peer = &peers->slots[slot_of(peers, id)];
    *peer = (struct cop__peer){.id = id};
    peers->count++;
    return peer;
}

static int compare_ids(const void *a, const void *b)
{
    cop_id left = *(const cop_id *)a;
    cop_id right = *(const cop_id *)b;
    return (left > right) - (left < right);
}

cop_id *cop__peers_sorted(const struct cop__peers *peers, uint32_t *count)
{
    *count = 0;
    if (peers->count == 0)
        return NULL;
    cop_id *ids = malloc(peers->count * sizeof(*ids));
    if (!ids)
        return NULL;
    for (uint32_t i = 0; i < peers->capacity; i++) {
        if (peers->slots[i].id != COP_ID_NONE)
            ids[(*count)++] = peers->slots[i].id;
    }
    qsort(ids, *count, sizeof(*ids), compare_ids);
    return ids;
}

void cop__peers_fini(struct cop__peers *peers)
{
    free(peers->slots);
    *peers = (struct cop__peers){NULL, 0, 0};
}
