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
    if (!origin)
        origin = insert(node, at);
    if (origin)
        *origin = (struct cop__origin){.id = id, .incarnation = incarnation};
    return origin;
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

bool cop__origin_is_over(const struct cop__origin *origin, uint64_t sequence)
{
    if (sequence <= origin->mark)
        return true;
    uint64_t bit = sequence - origin->mark - 1;
    return bit < COP__SWEEP_WINDOW && (origin->ended >> bit & 1) != 0;
}

void cop__origin_end(struct cop__origin *origin, uint64_t sequence)
{
    if (sequence <= origin->mark)
        return;
    uint64_t bit = sequence - origin->mark - 1;
    if (bit < COP__SWEEP_WINDOW)
        origin->ended |= UINT64_C(1) << bit;
}

void cop__origin_advance(struct cop__origin *origin, uint64_t mark)
{
    if (mark <= origin->mark)
        return;
    uint64_t by = mark - origin->mark;
    origin->ended = by < COP__SWEEP_WINDOW ? origin->ended >> by : 0;
    origin->mark = mark;
}
