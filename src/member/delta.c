/* SPDX-License-Identifier: Apache-2.0 */
#include "member/state.h"

/*
 * What a root would change: everything that it has heard of, many deaths and many joins at
 * once. The work of those who go is handed to spares in the same change.
 */
struct draft {
    const struct cop_node *node;
    const struct cop_view *base;
    struct cop__delta *delta;
    cop_epoch epoch;
    int error;
};

static void put(struct draft *draft, const struct cop__entry *entry)
{
    if (draft->error)
        return;
    cop_buf_ref(entry->card);
    draft->error = cop__delta_put(draft->delta, entry);
}

/* ---- who goes -------------------------------------------------------------------- */

static void remove_one(struct draft *draft, cop_id id, enum cop_presence how)
{
    struct cop__entry entry;
    if (!cop__view_entry(draft->base, id, &entry) || entry.presence != COP_PRESENT)
        return;
    /* V18: one that is drained was expected to go. */
    bool is_gone = how == COP_REMOVED && entry.flags & COP__ENTRY_DRAINED;
    entry.presence = is_gone ? COP_LEFT : (uint8_t)how;
    entry.since = draft->epoch;
    entry.flags = 0;
    if (is_gone || (how == COP_REMOVED &&
                    cop__roster_is_certain(draft->node, id, entry.incarnation)))
        entry.flags = COP__ENTRY_CERTAIN;
    put(draft, &entry);
}

static void remove_all(struct draft *draft)
{
    const struct cop_node *node = draft->node;
    for (uint32_t i = 0; i < cop__roster_count(node); i++) {
        struct cop__belief belief = cop__roster_at(node, i);
        cop_incarnation life = cop_view_incarnation(draft->base, belief.id);
        if (belief.id != node->self && cop__roster_has_lost(node, belief.id, life))
            remove_one(draft, belief.id, COP_REMOVED);
        else if (belief.status == COP_LEAVING && belief.incarnation == life)
            remove_one(draft, belief.id, COP_LEFT);
    }
}

/* ---- who comes ------------------------------------------------------------------- */

static uint32_t next_role(const struct draft *draft)
{
    uint32_t next = 0;
    const struct cop_view *base = draft->base;
    for (uint32_t i = 0; i < cop_view_changes(base); i++) {
        const struct cop__entry *entry = cop__view_change(base, i);
        if (entry->role != COP_SPARE && entry->role >= next)
            next = entry->role + 1;
    }
    for (uint32_t i = 0; i < draft->delta->count; i++) {
        const struct cop__entry *entry = &draft->delta->items[i];
        if (entry->role != COP_SPARE && entry->role >= next)
            next = entry->role + 1;
    }
    /* Ids of the start work as their own number. */
    while (next < cop_view_slots(base) && cop_view_worker(base, next) != COP_ID_NONE)
        next++;
    return next;
}

/* Who works as `role` once this draft is a view; COP_ID_NONE for nobody. */
static cop_id worker_of(const struct draft *draft, uint32_t role)
{
    for (uint32_t i = 0; i < draft->delta->count; i++) {
        const struct cop__entry *entry = &draft->delta->items[i];
        if (entry->role == role && entry->presence == COP_PRESENT)
            return entry->id;
    }
    cop_id worker = cop_view_worker(draft->base, role);
    return worker != COP_ID_NONE && !cop__delta_find(draft->delta, worker)
               ? worker
               : COP_ID_NONE;
}

/* A returned one works as it did, if nobody else does by now. */
static uint32_t role_of_joiner(const struct draft *draft,
                               const struct cop__joiner *joiner)
{
    struct cop__entry before;
    if (joiner->spare)
        return COP_SPARE;
    if (!cop__view_entry(draft->base, joiner->id, &before))
        return next_role(draft);
    if (before.role == COP_SPARE || worker_of(draft, before.role) == COP_ID_NONE)
        return before.role;
    return worker_of(draft, before.role) == joiner->id ? before.role : COP_SPARE;
}

static void add_joiner(struct draft *draft, const struct cop__joiner *joiner)
{
    cop_incarnation known = cop_view_incarnation(draft->base, joiner->id);
    /* The base may have become another one since it asked; one who does not fit into this
     * one must not keep all others from it. */
    if (joiner->id >= cop_view_slots(draft->base) + COP__HOLES_MAX)
        return;
    if (!joiner->ready || joiner->incarnation <= known ||
        cop__roster_has_lost(draft->node, joiner->id, joiner->incarnation))
        return;
    struct cop__entry entry = {
        .id = joiner->id,
        .role = role_of_joiner(draft, joiner),
        .incarnation = joiner->incarnation,
        .since = draft->epoch,
        .card = joiner->card,
        .presence = COP_PRESENT,
    };
    put(draft, &entry);
}

/*
 * Whom a predecessor of mine was about to admit, and perhaps did: it may have told nobody but
 * them.
 */
static void add_promised(struct draft *draft, const struct cop_view *view)
{
    uint64_t at = 0;
    struct cop_view_change change;
    while (cop_view_compare(draft->base, view, &at, &change)) {
        struct cop__entry entry;
        if ((change.kind != COP_VIEW_JOINED && change.kind != COP_VIEW_RETURNED) ||
            !cop__view_entry(view, change.id, &entry))
            continue;
        struct cop__joiner joiner = {
            .id = entry.id,
            .incarnation = entry.incarnation,
            .card = entry.card,
            .spare = entry.role == COP_SPARE,
            .ready = true,
        };
        add_joiner(draft, &joiner);
    }
}

/* ---- who takes over -------------------------------------------------------------- */

/* The first spare that is not one who goes; a joiner is one too. */
static bool find_spare(const struct draft *draft, struct cop__entry *out)
{
    const struct cop_view *base = draft->base;
    for (uint32_t i = 0; i < cop_view_changes(base); i++) {
        const struct cop__entry *entry = cop__view_change(base, i);
        const struct cop__entry *drafted = cop__delta_find(draft->delta, entry->id);
        const struct cop__entry *now = drafted ? drafted : entry;
        if (now->presence == COP_PRESENT && now->role == COP_SPARE &&
            !(now->flags & COP__ENTRY_DRAINED)) {
            *out = *now;
            return true;
        }
    }
    for (uint32_t i = 0; i < draft->delta->count; i++) {
        const struct cop__entry *entry = &draft->delta->items[i];
        if (entry->presence == COP_PRESENT && entry->role == COP_SPARE) {
            *out = *entry;
            return true;
        }
    }
    return false;
}

static void hand_on(struct draft *draft, const struct cop__entry *gone)
{
    struct cop__entry spare;
    if (gone->presence == COP_PRESENT || gone->role == COP_SPARE ||
        worker_of(draft, gone->role) != COP_ID_NONE || !find_spare(draft, &spare))
        return;
    spare.role = gone->role;
    put(draft, &spare);
}

static void hand_on_all(struct draft *draft)
{
    /* Work that nobody took when its worker went waits for a spare, too. */
    for (uint32_t i = 0; i < cop_view_changes(draft->base); i++) {
        const struct cop__entry *entry = cop__view_change(draft->base, i);
        if (!cop__delta_find(draft->delta, entry->id))
            hand_on(draft, entry);
    }
    for (uint32_t i = 0; i < draft->delta->count && !draft->error; i++) {
        struct cop__entry gone = draft->delta->items[i];
        hand_on(draft, &gone);
    }
}

int cop__member_delta(const struct cop_node *node, const struct cop_view *base,
                      cop_epoch epoch, struct cop__delta *out)
{
    *out = (struct cop__delta){0};
    struct draft draft = {.node = node, .base = base, .delta = out, .epoch = epoch};
    const struct cop__member *member = cop__member(node);
    remove_all(&draft);
    for (uint32_t i = 0; i < member->proposal_count; i++)
        add_promised(&draft, member->proposals[i].view);
    for (uint32_t i = 0; i < member->joiner_count; i++)
        add_joiner(&draft, &member->joiners[i]);
    hand_on_all(&draft);
    if (!draft.error)
        draft.error = cop__drain_draft(node, base, out);
    if (draft.error)
        cop__delta_free(out);
    return draft.error;
}
