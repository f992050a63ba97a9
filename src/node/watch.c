/* SPDX-License-Identifier: Apache-2.0 */
#include "node/node.h"

#include <stdlib.h>
#include <string.h>

/* Index of the first watch whose peer is not below `peer`. */
static uint32_t find(const struct cop_node *node, cop_id peer)
{
    uint32_t low = 0, high = node->watch_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (node->watches[middle].peer < peer)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool cop__is_watched(const struct cop_node *node, cop_id peer)
{
    uint32_t i = find(node, peer);
    return i < node->watch_count && node->watches[i].peer == peer;
}

static bool grow(struct cop_node *node)
{
    if (node->watch_count < node->watch_capacity)
        return true;
    uint32_t capacity = node->watch_capacity ? node->watch_capacity * 2 : 4;
    void *grown = realloc(node->watches, capacity * sizeof *node->watches);
    if (!grown)
        return false;
    node->watches = grown;
    node->watch_capacity = capacity;
    return true;
}

void cop__watch(struct cop_node *node, cop_id peer)
{
    COP_ASSERT(peer != node->self);
    uint32_t i = find(node, peer);
    if (i < node->watch_count && node->watches[i].peer == peer) {
        node->watches[i].count++;
        return;
    }
    if (!grow(node)) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    memmove(node->watches + i + 1, node->watches + i,
            (node->watch_count - i) * sizeof *node->watches);
    node->watches[i] = (struct cop__watch){peer, 1};
    node->watch_count++;
    cop__emit_connect(node, peer);
}

void cop__unwatch(struct cop_node *node, cop_id peer)
{
    uint32_t i = find(node, peer);
    if (i == node->watch_count || node->watches[i].peer != peer) {
        COP_ASSERT(node->failed); /* the watch was never made for want of memory */
        return;
    }
    if (--node->watches[i].count > 0)
        return;
    node->watch_count--;
    memmove(node->watches + i, node->watches + i + 1,
            (node->watch_count - i) * sizeof *node->watches);
    cop__emit_close(node, peer);
}
