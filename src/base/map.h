/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_BASE_MAP_H
#define COP_BASE_MAP_H

#include <coppice/types.h>

/*
 * Hash map from a 64-bit key to a pointer: open addressing, no deletion marks (backward
 * shift). An empty map holds no memory, also after it was full: a million nodes have many
 * maps, and most are empty most of the time. Iteration goes in slot order, which depends
 * only on the keys and the history of the map: the same on every machine.
 */
struct cop__map_slot {
    uint64_t key;
    void *value; /* NULL: free slot; so NULL cannot be stored */
};
struct cop__map {
    struct cop__map_slot *slots;
    uint32_t count;
    uint32_t capacity; /* 0 or a power of two */
};

void cop__map_init(struct cop__map *map);
void cop__map_fini(struct cop__map *map); /* frees the slots, not the values */
void *cop__map_get(const struct cop__map *map, uint64_t key);
/* Adds or replaces; *old (may be NULL) gets what was there before. COP_ENOMEM: unchanged. */
int cop__map_put(struct cop__map *map, uint64_t key, void *value, void **old);
/* Removes and returns the value, or NULL. Never allocates. */
void *cop__map_remove(struct cop__map *map, uint64_t key);
/*
 * Next used slot at or after *at, advancing *at; NULL at the end. Start with *at = 0. Putting
 * or removing moves slots: start again from 0 after either.
 */
struct cop__map_slot *cop__map_next(const struct cop__map *map, uint32_t *at);

#endif
