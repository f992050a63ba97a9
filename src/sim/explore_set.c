/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/explore.h"

#include <stdlib.h>

/* States that were seen, by 128-bit key, and sets of moves. */

/* ---- moves ----------------------------------------------------------------------- */

static uint32_t bit_of(uint32_t n, struct cop__move move)
{
    uint32_t base = move.kind == COP__MOVE_CLOSED ? n * n : 0;
    /* Nobody gets anything from itself: that bit is the call. */
    uint32_t b = move.kind == COP__MOVE_AGREE ? move.a : move.b;
    return base + move.a * n + b;
}

void cop__moves_add(struct cop__moves *set, uint32_t n, struct cop__move move)
{
    uint32_t bit = bit_of(n, move);
    set->bits[bit / 64] |= UINT64_C(1) << bit % 64;
}

bool cop__moves_has(const struct cop__moves *set, uint32_t n, struct cop__move move)
{
    uint32_t bit = bit_of(n, move);
    return (set->bits[bit / 64] >> bit % 64 & 1) != 0;
}

struct cop__moves cop__moves_elsewhere(const struct cop__moves *set, uint32_t n,
                                       uint32_t node)
{
    struct cop__moves out = *set;
    for (uint32_t b = 0; b < n; b++) {
        for (uint32_t base = 0; base <= n * n; base += n * n) {
            uint32_t bit = base + node * n + b;
            out.bits[bit / 64] &= ~(UINT64_C(1) << bit % 64);
        }
    }
    return out;
}

/* ---- states ---------------------------------------------------------------------- */

static uint32_t *slot_of(const struct cop__states *states, const uint64_t key[2])
{
    uint32_t at = (uint32_t)key[0] & (states->slot_count - 1);
    for (;; at = (at + 1) & (states->slot_count - 1)) {
        uint32_t index = states->slots[at];
        if (index == 0)
            return &states->slots[at];
        const struct cop__state *state = &states->items[index - 1];
        if (state->key[0] == key[0] && state->key[1] == key[1])
            return &states->slots[at];
    }
}

static bool grow_slots(struct cop__states *states)
{
    uint32_t count = states->slot_count ? 2 * states->slot_count : 1024;
    uint32_t *slots = calloc(count, sizeof(*slots));
    if (!slots)
        return false;
    free(states->slots);
    states->slots = slots;
    states->slot_count = count;
    for (uint32_t i = 0; i < states->count; i++)
        *slot_of(states, states->items[i].key) = i + 1;
    return true;
}

static bool grow_items(struct cop__states *states)
{
    uint32_t capacity =
        states->capacity ? states->capacity + states->capacity / 2 : 1024;
    struct cop__state *items = realloc(states->items, capacity * sizeof(*items));
    if (!items)
        return false;
    states->items = items;
    states->capacity = capacity;
    return true;
}

uint32_t cop__states_get(struct cop__states *states, const uint64_t key[2], bool *fresh)
{
    if (2 * (states->count + 1) > states->slot_count && !grow_slots(states))
        return COP__NO_STATE;
    uint32_t *slot = slot_of(states, key);
    *fresh = *slot == 0;
    if (!*fresh)
        return *slot - 1;
    if (states->count == states->capacity && !grow_items(states))
        return COP__NO_STATE;
    states->items[states->count] = (struct cop__state){.key = {key[0], key[1]}};
    *slot = ++states->count;
    return states->count - 1;
}

uint64_t cop__states_bytes(const struct cop__states *states)
{
    return (uint64_t)states->capacity * sizeof(*states->items) +
           (uint64_t)states->slot_count * sizeof(*states->slots);
}

void cop__states_fini(struct cop__states *states)
{
    free(states->items);
    free(states->slots);
    *states = (struct cop__states){NULL, 0, 0, NULL, 0};
}
