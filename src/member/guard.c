/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/detect.h"
#include "member/state.h"

#include <stdlib.h>

/*
 * V17. Not more than so many removals a minute without an operator: when very many seem to be
 * dead at once it is more often the network, or the one who looks. Counted are removals in
 * views that this node installed, by its own clock. Whoever left with a goodbye does not count,
 * nor does one of whom a later life (R5) or somebody outside has said that it is gone; the view
 * says so of each, because the next root has to know.
 */
struct cop__guard {
    struct removals {
        cop_time at;
        uint32_t count;
    } * items; /* the oldest first */
    uint32_t count, capacity;
    struct cop_ranks held; /* whom I would remove, and may not; ids, sorted */
};

static uint32_t limit_of(const struct cop_node *node) { return node->settings->guard; }

static struct cop__guard *need(struct cop_node *node)
{
    struct cop__member *member = cop__member(node);
    if (!member->guard)
        member->guard = calloc(1, sizeof *member->guard);
    if (!member->guard)
        cop__fail(node, COP_ENOMEM);
    return member->guard;
}

void cop__guard_fini(struct cop_node *node)
{
    struct cop__guard *guard = cop__member(node)->guard;
    if (!guard)
        return;
    cop_ranks_free(&guard->held);
    free(guard->items);
    free(guard);
}

size_t cop__guard_bytes(const struct cop_node *node)
{
    const struct cop__guard *guard = cop__member(node)->guard;
    return guard ? sizeof *guard + guard->capacity * sizeof *guard->items +
                       guard->held.capacity * sizeof(cop_rank)
                 : 0;
}

void cop__guard_digest(const struct cop_node *node, struct cop__digest *digest)
{
    const struct cop__guard *guard = cop__member(node)->guard;
    for (uint32_t i = 0; guard && i < guard->count; i++)
        cop__digest_word(digest,
                         (node->now - guard->items[i].at) << 8 ^ guard->items[i].count);
    for (uint32_t i = 0; guard && i < guard->held.count; i++)
        cop__digest_word(digest, guard->held.items[i]);
}

/* ---- counting -------------------------------------------------------------------- */

static bool is_counted(const struct cop__entry *entry)
{
    return entry->presence == COP_REMOVED && !(entry->flags & COP__ENTRY_CERTAIN);
}

static void forget_old(struct cop_node *node, struct cop__guard *guard)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < guard->count; i++)
        if (node->now - guard->items[i].at < COP__GUARD_WINDOW)
            guard->items[kept++] = guard->items[i];
    guard->count = kept;
}

static void add(struct cop_node *node, uint32_t count)
{
    struct cop__guard *guard = need(node);
    if (!guard)
        return;
    forget_old(node, guard);
    if (guard->count == guard->capacity) {
        uint32_t capacity = guard->capacity ? 2 * guard->capacity : 2;
        void *grown = realloc(guard->items, capacity * sizeof *guard->items);
        if (!grown) {
            cop__fail(node, COP_ENOMEM);
            return;
        }
        guard->items = grown;
        guard->capacity = capacity;
    }
    guard->items[guard->count++] = (struct removals){node->now, count};
}

void cop__guard_note(struct cop_node *node, const struct cop_view *old)
{
    uint64_t at = 0;
    uint32_t count = 0;
    struct cop_view_change change;
    if (limit_of(node) == 0)
        return;
    while (cop_view_compare(old, node->view, &at, &change)) {
        struct cop__entry entry;
        count += change.kind == COP_VIEW_LEFT &&
                 cop__view_entry(node->view, change.id, &entry) && is_counted(&entry);
    }
    if (count > 0)
        add(node, count);
}

/* ---- holding --------------------------------------------------------------------- */

/* Says so if others are held than before; takes `now` over. */
static void set_held(struct cop_node *node, struct cop__guard *guard,
                     struct cop_ranks *now)
{
    bool same = guard->held.count == now->count;
    for (uint32_t i = 0; same && i < now->count; i++)
        same = guard->held.items[i] == now->items[i];
    struct cop_ranks old = guard->held;
    guard->held = *now;
    cop_ranks_free(&old);
    if (!same)
        cop__emit_state(node, COP_EFFECT_HELD, (int)guard->held.count);
}

void cop__guard_release(struct cop_node *node)
{
    struct cop__guard *guard = cop__member(node)->guard;
    struct cop_ranks nobody = {0};
    if (guard)
        set_held(node, guard, &nobody);
}

static void find_counted(struct cop_node *node, const struct cop__delta *delta,
                         struct cop_ranks *out)
{
    for (uint32_t i = 0; i < delta->count; i++)
        if (is_counted(&delta->items[i]) && cop_ranks_push(out, delta->items[i].id))
            cop__fail(node, COP_ENOMEM);
}

/* When enough of what was counted is a minute old; NEVER if they are too many in any case. */
static cop_time free_at(const struct cop_node *node, const struct cop__guard *guard,
                        uint32_t wanted)
{
    uint32_t counted = 0;
    if (wanted > limit_of(node))
        return COP_TIME_NEVER;
    for (uint32_t i = guard->count; i > 0; i--) {
        counted += guard->items[i - 1].count;
        if (counted + wanted > limit_of(node))
            return guard->items[i - 1].at + COP__GUARD_WINDOW;
    }
    return node->now;
}

bool cop__guard_holds(struct cop_node *node, const struct cop__delta *delta)
{
    struct cop_ranks wanted = {0};
    if (limit_of(node) == 0)
        return false;
    find_counted(node, delta, &wanted);
    struct cop__guard *guard = wanted.count > 0 ? need(node) : NULL;
    if (!guard) {
        cop_ranks_free(&wanted);
        cop__guard_release(node);
        return false;
    }
    forget_old(node, guard);
    cop_time when = free_at(node, guard, wanted.count);
    if (when <= node->now) {
        cop_ranks_free(&wanted);
        cop__guard_release(node);
        return false;
    }
    /* The accuser may have died before its word got there, and no view will tell them. */
    for (uint32_t i = 0; i < wanted.count; i++)
        cop__detect_tell_suspect(node, wanted.items[i]);
    set_held(node, guard, &wanted);
    if (when != COP_TIME_NEVER)
        cop__member_wake_at(node, when);
    return true;
}

uint32_t cop_node_held(const struct cop_node *node, cop_id *out, uint32_t max)
{
    const struct cop__guard *guard =
        cop__has_views(node) ? cop__member(node)->guard : NULL;
    for (uint32_t i = 0; guard && i < guard->held.count && i < max; i++)
        out[i] = guard->held.items[i];
    return guard ? guard->held.count : 0;
}
