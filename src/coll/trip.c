/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/state.h"

#include <stdlib.h>
#include <string.h>

/*
 * How long a message and its answer take, link by link: measured by calls without HEAL, from
 * sending to the answer, less the time that the other side says it spent. Smoothed as TCP does.
 */

/* Before anything was measured, and at least: a wrong time-out costs a sub-tree. */
#define UNKNOWN_NS COP_SEC
#define LEAST_NS (50 * COP_MSEC)
#define LINKS_MAX 1024u

static uint32_t place_of(const struct cop__colls *colls, cop_id peer)
{
    uint32_t low = 0, high = colls->link_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (colls->links[middle].peer < peer)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* NULL: no memory. */
static struct cop__trip *add(struct cop__colls *colls, uint32_t at, cop_id peer)
{
    if (colls->link_count == colls->link_capacity) {
        uint32_t capacity = colls->link_capacity ? 2 * colls->link_capacity : 4;
        void *grown = realloc(colls->links, capacity * sizeof *colls->links);
        if (!grown)
            return NULL;
        colls->links = grown;
        colls->link_capacity = capacity;
    }
    memmove(colls->links + at + 1, colls->links + at,
            (colls->link_count - at) * sizeof *colls->links);
    colls->link_count++;
    colls->links[at] = (struct cop__trip){.peer = peer};
    return &colls->links[at];
}

void cop__trip_measure(struct cop_node *node, cop_id peer, cop_time took_ns)
{
    struct cop__colls *colls = cop__colls(node);
    uint32_t at = place_of(colls, peer);
    bool known = at < colls->link_count && colls->links[at].peer == peer;
    if (!known && colls->link_count == LINKS_MAX)
        return; /* then it stays unknown */
    struct cop__trip *link = known ? &colls->links[at] : add(colls, at, peer);
    if (!link) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    if (link->smooth_ns == 0) {
        link->smooth_ns = took_ns + 1;
        link->deviation_ns = took_ns / 2;
        return;
    }
    cop_time off = took_ns > link->smooth_ns ? took_ns - link->smooth_ns
                                             : link->smooth_ns - took_ns;
    link->deviation_ns = link->deviation_ns - link->deviation_ns / 4 + off / 4;
    link->smooth_ns = link->smooth_ns - link->smooth_ns / 8 + took_ns / 8;
}

cop_time cop__trip_estimate(const struct cop_node *node, cop_id peer)
{
    const struct cop__colls *colls = cop__colls(node);
    uint32_t at = place_of(colls, peer);
    if (at == colls->link_count || colls->links[at].peer != peer)
        return UNKNOWN_NS;
    cop_time estimate = colls->links[at].smooth_ns + 4 * colls->links[at].deviation_ns;
    return estimate > LEAST_NS ? estimate : LEAST_NS;
}
