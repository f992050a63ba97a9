/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/state.h"

#include <stdlib.h>
#include <string.h>

/* Index of the first origin whose id is not below `id`. */
static uint32_t find(const struct cop__sweeps *sweeps, cop_id id)
{
    uint32_t low = 0, high = sweeps->origin_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (sweeps->origins[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct cop__origin *insert(struct cop_node *node, uint32_t at)
{
    struct cop__sweeps *sweeps = cop__sweeps(node);
    if (sweeps->origin_count == sweeps->origin_capacity) {
        uint32_t capacity = sweeps->origin_capacity ? sweeps->origin_capacity * 2 : 1;
        void *grown = realloc(sweeps->origins, capacity * sizeof *sweeps->origins);
        if (!grown) {
            cop__fail(node, COP_ENOMEM);
            return NULL;
        }
        sweeps->origins = grown;
        sweeps->origin_capacity = capacity;
    }
    memmove(sweeps->origins + at + 1, sweeps->origins + at,
            (sweeps->origin_count - at) * sizeof *sweeps->origins);
    sweeps->origin_count++;
    return &sweeps->origins[at];
}

/*
 * A newer life of the initiator replaces what was known of the older one; NULL for an
 * older life (whose sweeps are all over), or without memory.
 */
struct cop__origin *cop__origin_get(struct cop_node *node, cop_id id,
                                    cop_incarnation incarnation)
{
    struct cop__sweeps *sweeps = cop__sweeps(node);
    uint32_t at = find(sweeps, id);
    struct cop__origin *origin = NULL;
    if (at < sweeps->origin_count && sweeps->origins[at].id == id)
        origin = &sweeps->origins[at];
    if (origin && origin->incarnation == incarnation)
        return origin;
    if (origin && origin->incarnation > incarnation)
        return NULL;
    if (origin)
        free(origin->beyond);
    else
        origin = insert(node, at);
    if (origin)
        *origin = (struct cop__origin){.id = id, .incarnation = incarnation};
    return origin;
}

bool cop__origin_has(const struct cop_node *node, cop_id id,
                     cop_incarnation incarnation)
{
    const struct cop__sweeps *sweeps = cop__sweeps(node);
    uint32_t at = find(sweeps, id);
    return at < sweeps->origin_count && sweeps->origins[at].id == id &&
           sweeps->origins[at].incarnation == incarnation;
}

uint64_t cop__origin_mark(const struct cop_node *node, cop_id id,
                          cop_incarnation incarnation)
{
    const struct cop__sweeps *sweeps = cop__sweeps(node);
    uint32_t at = find(sweeps, id);
    if (at == sweeps->origin_count || sweeps->origins[at].id != id ||
        sweeps->origins[at].incarnation != incarnation)
        return 0;
    return sweeps->origins[at].mark;
}

/* The word that a bit is in; NULL: it has none, as all that would be in it are clear. */
static uint64_t *word_of(const struct cop__origin *origin, uint64_t bit)
{
    if (bit < 64)
        return (uint64_t *)(uintptr_t)&origin->ended;
    return origin->beyond ? &origin->beyond[bit / 64 - 1] : NULL;
}

bool cop__origin_is_over(const struct cop__origin *origin, uint64_t sequence)
{
    if (sequence <= origin->mark)
        return true;
    uint64_t bit = sequence - origin->mark - 1;
    const uint64_t *word = bit < COP__SWEEP_WINDOW ? word_of(origin, bit) : NULL;
    return word && (*word >> (bit % 64) & 1) != 0;
}

int cop__origin_end(struct cop__origin *origin, uint64_t sequence)
{
    if (sequence <= origin->mark)
        return 0;
    uint64_t bit = sequence - origin->mark - 1;
    if (bit >= COP__SWEEP_WINDOW)
        return 0;
    if (bit >= 64 && !origin->beyond) {
        origin->beyond = calloc(COP__ORIGIN_BEYOND, sizeof *origin->beyond);
        if (!origin->beyond)
            return COP_ENOMEM;
    }
    *word_of(origin, bit) |= UINT64_C(1) << (bit % 64);
    return 0;
}

/* The i-th word after all have moved down by so many bits. */
static uint64_t moved(const struct cop__origin *origin, uint64_t i, uint64_t by)
{
    uint64_t from = i * 64 + by, words[2] = {0};
    for (uint64_t k = 0; k < 2; k++) {
        const uint64_t *word =
            from + 64 * k < COP__SWEEP_WINDOW ? word_of(origin, from + 64 * k) : NULL;
        words[k] = word ? *word : 0;
    }
    return from % 64 ? words[0] >> (from % 64) | words[1] << (64 - from % 64)
                     : words[0];
}

/* Most initiators have few sweeps at a time, and need no more than one word. */
static void forget_if_clear(struct cop__origin *origin)
{
    for (uint32_t i = 0; origin->beyond && i < COP__ORIGIN_BEYOND; i++)
        if (origin->beyond[i])
            return;
    free(origin->beyond);
    origin->beyond = NULL;
}

void cop__origin_advance(struct cop__origin *origin, uint64_t mark)
{
    if (mark <= origin->mark)
        return;
    uint64_t by = mark - origin->mark;
    origin->ended = moved(origin, 0, by);
    for (uint32_t i = 0; origin->beyond && i < COP__ORIGIN_BEYOND; i++)
        origin->beyond[i] = moved(origin, i + 1, by);
    forget_if_clear(origin);
    origin->mark = mark;
}
