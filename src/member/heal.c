/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rankset.h"
#include "member/state.h"

#include <stdlib.h>

/*
 * D11. Who was removed because it was silent may live: it was stopped, or on the other side of
 * a partition, and need not say anything to anybody who could tell it. So the root tries, one
 * a second in turn, those who left without a goodbye, until their address refuses, or they
 * live on as somebody else. What it says is that they are out; then they ask to join.
 */
#define TURN_NS COP_SEC

struct cop__healing {
    cop_time next;          /* turn */
    cop_id at;              /* whose turn it is: watched; NONE: nobody's */
    cop_epoch epoch;        /* of the view that they were told of */
    struct cop_ranks told;  /* by me */
    struct cop_ranks given; /* up: nobody listens there, or somebody else does */
};

static bool is_missed(const struct cop_node *node, const struct cop__entry *entry)
{
    const struct cop__healing *healing = cop__member(node)->healing;
    return cop__entry_is_missed(entry) &&
           !(healing && cop__rankset_has(&healing->given, entry->id));
}

/* The next one after `id`, around; NULL if there is none at all. */
static const struct cop__entry *find_next(const struct cop_node *node, cop_id id)
{
    const struct cop__entry *first = NULL;
    for (uint32_t i = 0; i < cop_view_changes(node->view); i++) {
        const struct cop__entry *entry = cop__view_change(node->view, i);
        if (!is_missed(node, entry))
            continue;
        if (id != COP_ID_NONE && entry->id > id)
            return entry;
        if (!first)
            first = entry;
    }
    return first;
}

static struct cop__healing *need(struct cop_node *node)
{
    struct cop__member *member = cop__member(node);
    if (member->healing)
        return member->healing;
    member->healing = calloc(1, sizeof *member->healing);
    if (!member->healing) {
        cop__fail(node, COP_ENOMEM);
        return NULL;
    }
    member->healing->at = COP_ID_NONE;
    member->healing->next = node->now + TURN_NS;
    return member->healing;
}

static void put(struct cop_node *node, struct cop_ranks *set, cop_id id)
{
    if (cop__rankset_put(set, id))
        cop__fail(node, COP_ENOMEM);
}

static void end_turn(struct cop_node *node, struct cop__healing *healing)
{
    if (healing->at != COP_ID_NONE)
        cop__unwatch(node, healing->at);
    healing->at = COP_ID_NONE;
}

/* Whoever is a member again may be missed again. */
static void forget_returned(const struct cop_node *node, struct cop_ranks *set)
{
    for (uint32_t i = set->count; i > 0; i--)
        if (cop_view_rank(node->view, set->items[i - 1]) != COP_RANK_NONE)
            cop__rankset_drop(set, set->items[i - 1]);
}

void cop__member_stop_healing(struct cop_node *node)
{
    if (!cop__member(node)->healing)
        return;
    end_turn(node, cop__member(node)->healing);
    cop__member_heal_fini(node);
}

void cop__member_heal_fini(struct cop_node *node)
{
    struct cop__member *member = cop__member(node);
    struct cop__healing *healing = member->healing;
    if (!healing)
        return;
    cop_ranks_free(&healing->told);
    cop_ranks_free(&healing->given);
    free(healing);
    member->healing = NULL;
}

static void take_turn(struct cop_node *node, struct cop__healing *healing,
                      const struct cop__entry *entry)
{
    healing->at = entry->id;
    cop__watch(node, entry->id);
    /* A frame to one who lives is not lost; all it needs later is a connection. */
    if (cop__rankset_has(&healing->told, entry->id))
        return;
    put(node, &healing->told, entry->id);
    cop__member_say_out(node, entry->id, entry->incarnation);
}

void cop__member_heal(struct cop_node *node)
{
    cop_id last =
        cop__member(node)->healing ? cop__member(node)->healing->at : COP_ID_NONE;
    const struct cop__entry *entry = find_next(node, last);
    struct cop__healing *healing = entry ? need(node) : cop__member(node)->healing;
    if (!healing)
        return;
    /* Who had a later view than that one may have an earlier one than this. */
    if (healing->epoch != cop_view_epoch(node->view))
        healing->told.count = 0;
    healing->epoch = cop_view_epoch(node->view);
    forget_returned(node, &healing->given);
    if (node->now >= healing->next || !entry) {
        end_turn(node, healing);
        healing->next = node->now + TURN_NS;
        if (entry)
            take_turn(node, healing, entry);
    }
    if (entry)
        cop__member_wake_at(node, healing->next);
}

/* ---- what comes of it ------------------------------------------------------------ */

void cop__member_heal_up(struct cop_node *node, cop_id peer,
                         cop_incarnation incarnation)
{
    struct cop__healing *healing = cop__member(node)->healing;
    struct cop__entry entry;
    if (!healing || !cop__view_entry(node->view, peer, &entry) ||
        !is_missed(node, &entry))
        return;
    if (incarnation > entry.incarnation) {
        /* It may be a member of another world, where there can be two. */
        if (node->quorum == COP_QUORUM_MAJORITY)
            put(node, &healing->given, peer);
        else
            cop__member_ask_view(node, peer, incarnation);
    } else if (incarnation == entry.incarnation) {
        cop__member_say_out(node, peer, incarnation);
    }
}

void cop__member_heal_down(struct cop_node *node, cop_id peer, enum cop_down why)
{
    struct cop__healing *healing = cop__member(node)->healing;
    struct cop__entry entry;
    if (healing && why == COP_DOWN_REFUSED &&
        cop__view_entry(node->view, peer, &entry) && is_missed(node, &entry))
        put(node, &healing->given, peer);
}

size_t cop__member_heal_bytes(const struct cop_node *node)
{
    const struct cop__healing *healing = cop__member(node)->healing;
    if (!healing)
        return 0;
    return sizeof *healing +
           (healing->told.capacity + healing->given.capacity) * sizeof(cop_rank);
}
