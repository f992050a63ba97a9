/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rankset.h"
#include "member/state.h"

/*
 * V10. Members are counted as (id, incarnation): a returned node does not count for its former
 * self, which may have acknowledged what it has forgotten. Who leaves with a change takes part
 * in it, and counts.
 */

static bool leaves_with(const struct cop_view *view, cop_id id,
                        cop_incarnation incarnation)
{
    struct cop__entry entry;
    return cop__view_entry(view, id, &entry) && cop__entry_leaves_with(&entry, view) &&
           entry.incarnation == incarnation;
}

uint32_t cop__member_common(const struct cop_view *of, const struct cop_view *view)
{
    uint32_t common = cop__view_common(of, view);
    for (uint32_t i = 0; i < cop_view_changes(view); i++) {
        const struct cop__entry *entry = cop__view_change(view, i);
        if (cop__entry_leaves_with(entry, view) &&
            cop_view_has(of, entry->id, entry->incarnation))
            common++;
    }
    return common;
}

uint32_t cop__member_asked_by_both(const struct cop_view *of,
                                   const struct cop_view *view)
{
    uint32_t both = cop__member_common(of, view);
    for (uint32_t i = 0; i < cop_view_changes(of); i++) {
        const struct cop__entry *entry = cop__view_change(of, i);
        if (leaves_with(of, entry->id, entry->incarnation))
            both += cop_view_has(view, entry->id, entry->incarnation) ||
                    leaves_with(view, entry->id, entry->incarnation);
    }
    return both;
}

static bool is_present(const struct cop_view *view, cop_id id)
{
    return cop_view_has(view, id, cop_view_incarnation(view, id));
}

/* Where all the named have said goodbye, `has` is `majority`: some rule must keep two sides
 * from going on. */
static bool goes_by_majority(const struct cop_node *node, const struct cop_view *of)
{
    const struct cop_ranks *ids = &node->settings->quorum_ids;
    if (node->quorum == COP_QUORUM_HAS)
        for (uint32_t i = 0; i < ids->count; i++)
            if (is_present(of, ids->items[i]))
                return false;
    return node->quorum == COP_QUORUM_MAJORITY || node->quorum == COP_QUORUM_HAS;
}

static bool has_all_named(const struct cop_node *node, const struct cop_view *of,
                          const struct cop_view *view)
{
    const struct cop_ranks *ids = &node->settings->quorum_ids;
    for (uint32_t i = 0; i < ids->count; i++) {
        struct cop__entry entry;
        if (!cop__view_entry(of, ids->items[i], &entry) ||
            entry.presence != COP_PRESENT)
            continue;
        if (!cop_view_has(view, entry.id, entry.incarnation) &&
            !leaves_with(view, entry.id, entry.incarnation))
            return false;
    }
    return true;
}

bool cop__member_has_quorum(const struct cop_node *node, const struct cop_view *of,
                            const struct cop_view *view)
{
    if (goes_by_majority(node, of))
        return cop__member_common(of, view) > cop_view_size(of) / 2;
    return node->quorum != COP_QUORUM_HAS || has_all_named(node, of, view);
}

static uint32_t count_lost(const struct cop_node *node, const struct cop_view *of)
{
    uint32_t lost = 0;
    for (uint32_t i = 0; i < cop__roster_count(node); i++) {
        cop_id id = cop__roster_at(node, i).id;
        cop_incarnation incarnation = cop_view_incarnation(of, id);
        lost += cop_view_has(of, id, incarnation) && id != node->self &&
                cop__roster_has_lost(node, id, incarnation);
    }
    return lost;
}

bool cop__member_could_change(const struct cop_node *node, const struct cop_view *of)
{
    if (goes_by_majority(node, of))
        return cop_view_size(of) - count_lost(node, of) > cop_view_size(of) / 2;
    if (node->quorum != COP_QUORUM_HAS)
        return true;
    const struct cop_ranks *ids = &node->settings->quorum_ids;
    for (uint32_t i = 0; i < ids->count; i++) {
        cop_incarnation incarnation = cop_view_incarnation(of, ids->items[i]);
        if (cop_view_has(of, ids->items[i], incarnation) &&
            ids->items[i] != node->self &&
            cop__roster_has_lost(node, ids->items[i], incarnation))
            return false;
    }
    return true;
}
