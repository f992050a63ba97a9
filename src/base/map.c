/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/error.h>

#include "base/assert.h"
#include "base/map.h"
#include "base/random.h"

#include <stdlib.h>

/*
 * Invariants:
 *  1. At least a quarter of the slots is free, so every probe ends.
 *  2. All slots from a key's home to where it is are used: a probe may stop at a free
 * one.
 *  3. count == 0 exactly if there are no slots.
 */
#define CAPACITY_MIN 4U
#define CAPACITY_MAX (UINT32_C(1) << 31)

void cop__map_init(struct cop__map *map) { *map = (struct cop__map){NULL, 0, 0}; }

void cop__map_fini(struct cop__map *map)
{
    free(map->slots);
    cop__map_init(map);
}

/* Where the key is, or else the free slot where it belongs; NULL without slots. */
static struct cop__map_slot *find(const struct cop__map *map, uint64_t key)
{
    if (map->capacity == 0)
        return NULL;
    uint32_t mask = map->capacity - 1;
    uint32_t at = (uint32_t)cop__mix64(key) & mask;
    while (map->slots[at].value != NULL && map->slots[at].key != key)
        at = (at + 1) & mask;
    return &map->slots[at];
}

void *cop__map_get(const struct cop__map *map, uint64_t key)
{
    struct cop__map_slot *slot = find(map, key);
    return slot == NULL ? NULL : slot->value;
}

static int grow(struct cop__map *map)
{
    if (map->capacity >= CAPACITY_MAX)
        return COP_ENOMEM;
    struct cop__map bigger = {NULL, map->count, CAPACITY_MIN};
    if (map->capacity != 0)
        bigger.capacity = map->capacity * 2;
    bigger.slots = calloc(bigger.capacity, sizeof(*bigger.slots));
    if (bigger.slots == NULL)
        return COP_ENOMEM;

    for (uint32_t i = 0; i < map->capacity; i++) {
        if (map->slots[i].value != NULL)
            *find(&bigger, map->slots[i].key) = map->slots[i];
    }
    free(map->slots);
    *map = bigger;
    return 0;
}

/* Whether one more would leave less than a quarter free. */
static bool is_full(const struct cop__map *map)
{
    return map->count >= map->capacity - map->capacity / 4;
}

int cop__map_put(struct cop__map *map, uint64_t key, void *value, void **old)
{
    COP_ASSERT(value != NULL);
    struct cop__map_slot *slot = find(map, key);
    void *previous = slot == NULL ? NULL : slot->value;
    if (previous == NULL) {
        if (is_full(map)) {
            int error = grow(map);
            if (error != 0)
                return error;
            slot = find(map, key);
        }
        map->count++;
    }
    COP_ASSERT(slot != NULL);
    *slot = (struct cop__map_slot){key, value};
    if (old != NULL)
        *old = previous;
    return 0;
}

/*
 * Fills the hole with whatever follows and may stand there, up to the next free slot. A
 * key may stand there if its home is not behind the hole (invariant 2).
 */
static void close_hole(struct cop__map_slot *slots, uint32_t mask, uint32_t hole)
{
    for (uint32_t at = (hole + 1) & mask; slots[at].value != NULL;
         at = (at + 1) & mask) {
        uint32_t home = (uint32_t)cop__mix64(slots[at].key) & mask;
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            slots[hole] = slots[at];
            hole = at;
        }
    }
    slots[hole] = (struct cop__map_slot){0, NULL};
}

void *cop__map_remove(struct cop__map *map, uint64_t key)
{
    struct cop__map_slot *slot = find(map, key);
    void *value = slot == NULL ? NULL : slot->value;
    if (value == NULL)
        return NULL;
    close_hole(map->slots, map->capacity - 1, (uint32_t)(slot - map->slots));
    if (--map->count == 0)
        cop__map_fini(map);
    return value;
}

struct cop__map_slot *cop__map_next(const struct cop__map *map, uint32_t *at)
{
    while (*at < map->capacity) {
        struct cop__map_slot *slot = &map->slots[(*at)++];
        if (slot->value != NULL)
            return slot;
    }
    return NULL;
}
