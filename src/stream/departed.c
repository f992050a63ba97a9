/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/state.h"

#include <stdlib.h>
#include <string.h>

/* What lost back-ends had given: joined by key, the later wave wins, never dropped (T9). */

#define ENTRY_BYTES 24u /* without the state */

void cop__departed_free(struct cop__departed *set)
{
    for (uint32_t i = 0; i < set->count; i++)
        cop_buf_unref(set->items[i].state);
    free(set->items);
    *set = (struct cop__departed){0};
}

static bool is_before(const struct cop__gone_leaf *a, const struct cop__gone_leaf *b)
{
    return a->leaf != b->leaf ? a->leaf < b->leaf : a->incarnation < b->incarnation;
}

static bool make_room(struct cop_node *node, struct cop__departed *set)
{
    if (set->count < set->capacity)
        return true;
    uint32_t capacity = set->capacity ? 2 * set->capacity : 4;
    void *grown = realloc(set->items, capacity * sizeof *set->items);
    if (!grown) {
        cop__fail(node, COP_ENOMEM);
        return false;
    }
    set->items = grown;
    set->capacity = capacity;
    return true;
}

bool cop__departed_put(struct cop_node *node, struct cop__departed *set,
                       const struct cop__gone_leaf *leaf)
{
    uint32_t at = 0;
    while (at < set->count && is_before(&set->items[at], leaf))
        at++;
    if (at < set->count && !is_before(leaf, &set->items[at])) {
        if (set->items[at].wave >= leaf->wave)
            return false;
        cop_buf_unref(set->items[at].state);
    } else {
        if (!make_room(node, set))
            return false;
        memmove(set->items + at + 1, set->items + at,
                (set->count - at) * sizeof *set->items);
        set->count++;
    }
    set->items[at] = *leaf;
    cop_buf_ref(leaf->state);
    return true;
}

bool cop__departed_join(struct cop_node *node, struct cop__departed *set,
                        const struct cop__departed *more)
{
    bool changed = false;
    for (uint32_t i = 0; i < more->count; i++)
        changed = cop__departed_put(node, set, &more->items[i]) || changed;
    return changed;
}

void cop__departed_drop(struct cop__departed *set, uint32_t at)
{
    cop_buf_unref(set->items[at].state);
    set->count--;
    memmove(set->items + at, set->items + at + 1,
            (set->count - at) * sizeof *set->items);
}

struct cop__gone_leaf cop__departed_take(struct cop__departed *set, cop_id leaf,
                                         cop_incarnation incarnation)
{
    struct cop__gone_leaf taken = {0};
    for (uint32_t i = 0; i < set->count && !taken.state; i++) {
        if (set->items[i].leaf != leaf || set->items[i].incarnation != incarnation)
            continue;
        taken = set->items[i];
        cop_buf_ref(taken.state);
        cop__departed_drop(set, i);
    }
    return taken;
}

size_t cop__departed_size(const struct cop__departed *set)
{
    size_t sum = 0;
    for (uint32_t i = 0; i < set->count; i++)
        sum += ENTRY_BYTES + set->items[i].state->length;
    return sum;
}

void cop__departed_write(struct cop__writer *writer, const struct cop__departed *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        const struct cop__gone_leaf *leaf = &set->items[i];
        cop__put_u32(writer, leaf->leaf);
        cop__put_u64(writer, leaf->incarnation);
        cop__put_u64(writer, leaf->wave);
        cop__put_bytes(writer,
                       (struct cop__bytes){leaf->state->data, leaf->state->length});
    }
}

bool cop__departed_read(struct cop_node *node, struct cop__stream *stream,
                        struct cop__bytes bytes, struct cop__departed *out)
{
    struct cop__reader reader = cop__reader(bytes.data, bytes.length);
    *out = (struct cop__departed){0};
    while (reader.at < reader.end && !reader.failed && !node->failed) {
        struct cop__gone_leaf leaf = {.leaf = cop__get_u32(&reader)};
        leaf.incarnation = cop__get_u64(&reader);
        leaf.wave = cop__get_u64(&reader);
        struct cop__bytes state = cop__get_bytes(&reader);
        if (reader.failed ||
            !cop__state_check(node, stream,
                              (struct cop_span){state.data, state.length})) {
            reader.failed = true;
            break;
        }
        leaf.state = cop_buf_copy(state.data, state.length);
        if (!leaf.state)
            cop__fail(node, COP_ENOMEM);
        else
            cop__departed_put(node, out, &leaf);
        cop_buf_unref(leaf.state);
    }
    if (!reader.failed && !node->failed)
        return true;
    cop__departed_free(out);
    return false;
}
