/* SPDX-License-Identifier: Apache-2.0 */
#include "roster/roster.h"

#include "base/rankset.h"
#include "view/view.h"

#include <stdlib.h>
#include <string.h>

/*
 * Invariants:
 *   1. entries are sorted by id, without repetition, and each differs from the view's
 *      default;
 *   2. `lost` holds exactly the ranks for which cop__roster_is_suspect is true, sorted;
 *   3. I am never a suspect to myself.
 */
struct roster {
    struct cop__belief *entries;
    uint32_t count, capacity;
    struct cop_ranks lost;
    struct cop_dead dead; /* a view on `lost` for tree/ */
    /* Where some are drained: the lost and them, and those of them that are not lost. */
    struct cop_ranks outside, leaves;
    struct cop_dead structure; /* a view on `outside` */
};

static struct roster *state(const struct cop_node *node)
{
    return cop__layer_state(node, COP__SLOT_ROSTER);
}

/* ---- looking up ------------------------------------------------------------------ */

static uint32_t find(const struct roster *roster, cop_id id)
{
    uint32_t low = 0, high = roster->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (roster->entries[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool has_entry(const struct roster *roster, uint32_t at, cop_id id)
{
    return at < roster->count && roster->entries[at].id == id;
}

struct cop__belief cop__roster_get(const struct cop_node *node, cop_id id)
{
    const struct roster *roster = state(node);
    uint32_t at = roster->count > 0 ? find(roster, id) : 0;
    if (has_entry(roster, at, id))
        return roster->entries[at];
    cop_rank rank = cop_view_rank(node->view, id);
    return (struct cop__belief){
        .id = id,
        .incarnation = id == node->self ? node->incarnation
                                        : cop_view_incarnation(node->view, rank),
        .status = COP_ALIVE,
    };
}

bool cop__roster_has_lost(const struct cop_node *node, cop_id id,
                          cop_incarnation incarnation)
{
    const struct roster *roster = state(node);
    uint32_t at = roster->count ? find(roster, id) : 0;
    if (!has_entry(roster, at, id))
        return false;
    const struct cop__belief *entry = &roster->entries[at];
    return entry->incarnation > incarnation ||
           (entry->incarnation == incarnation && entry->status >= COP_SUSPECT);
}

/* The same, found out the long way. */
static bool is_lost(const struct cop_node *node, cop_id id)
{
    const struct roster *roster = state(node);
    if (cop_view_rank(node->view, id) == COP_RANK_NONE)
        return true;
    /* An earlier life of mine is no member that I could ask. */
    if (id == node->self && cop__has_views(node))
        return !cop_view_has(node->view, id, node->incarnation);
    if (cop__has_views(node))
        return cop__roster_has_lost(node, id, cop_view_incarnation(node->view, id));
    uint32_t at = find(roster, id);
    return has_entry(roster, at, id) && roster->entries[at].status >= COP_SUSPECT;
}

bool cop__roster_is_suspect(const struct cop_node *node, cop_id id)
{
    const struct roster *roster = state(node);
    if (id >= cop_view_slots(node->view))
        return true;
    return roster->lost.count > 0 && cop__rankset_has(&roster->lost, id);
}

bool cop__roster_is_leaving(const struct cop_node *node, cop_id id)
{
    return cop__roster_get(node, id).status == COP_LEAVING;
}

/* Who is in line, first those who work; of those who are drained, and then of those who
 * leave, only when nobody else is. */
static bool is_in_line(const struct cop_node *node, const struct cop_view *view,
                       cop_id id, bool spares, bool drained, bool leavers)
{
    struct cop__entry entry;
    if (!cop__view_entry(view, id, &entry) || entry.presence != COP_PRESENT ||
        (entry.role == COP_SPARE) != spares ||
        ((entry.flags & COP__ENTRY_DRAINED) != 0) != drained)
        return false;
    if (cop__roster_is_leaving(node, id) != leavers)
        return false;
    return id == node->self || !cop__roster_has_lost(node, id, entry.incarnation);
}

cop_id cop__roster_proposer(const struct cop_node *node, const struct cop_view *view,
                            cop_id gone)
{
    for (int kind = 0; kind < 8; kind++)
        for (cop_id id = cop_view_next(view, COP_ID_NONE); id != COP_ID_NONE;
             id = cop_view_next(view, id))
            if (id != gone && is_in_line(node, view, id, kind & 1, kind & 2, kind & 4))
                return id;
    return COP_ID_NONE;
}

const struct cop_dead *cop__roster_dead(const struct cop_node *node)
{
    return &state(node)->dead;
}

struct cop_tree cop__roster_tree(const struct cop_node *node)
{
    const struct roster *roster = state(node);
    struct cop_tree tree = {
        .shape = *cop_view_shape(node->view),
        .n = cop_view_slots(node->view),
        .root = cop_view_root(node->view),
        .repair = COP_REPAIR_SPLICE,
        .dead = &roster->dead,
    };
    /* V18: where only the drained are left they are as good as others. */
    if (roster->leaves.count > 0 && roster->outside.count < tree.n) {
        tree.dead = &roster->structure;
        tree.leaves = roster->leaves.items;
        tree.leaf_count = roster->leaves.count;
    }
    return tree;
}

uint32_t cop__roster_count(const struct cop_node *node) { return state(node)->count; }

struct cop__belief cop__roster_at(const struct cop_node *node, uint32_t i)
{
    return state(node)->entries[i];
}

/* ---- merging --------------------------------------------------------------------- */

static void point_at_lost(struct roster *roster)
{
    roster->dead.extra = roster->lost.items;
    roster->dead.extra_count = roster->lost.count;
    roster->structure.extra = roster->outside.items;
    roster->structure.extra_count = roster->outside.count;
}

/* The drained, and who of them is not lost. */
static int lay_out(struct cop_node *node)
{
    struct roster *roster = state(node);
    uint32_t count;
    const cop_id *drained = cop__view_drained(node->view, &count);
    int error = 0;
    roster->outside.count = roster->leaves.count = 0;
    for (uint32_t i = 0; count > 0 && i < roster->lost.count && !error; i++)
        error = cop_ranks_push(&roster->outside, roster->lost.items[i]);
    for (uint32_t i = 0; i < count && !error; i++) {
        if (cop__rankset_has(&roster->lost, drained[i]))
            continue;
        error = cop__rankset_put(&roster->outside, drained[i]);
        if (!error)
            error = cop_ranks_push(&roster->leaves, drained[i]);
    }
    point_at_lost(roster);
    return error;
}

static int mark_lost(struct cop_node *node, cop_id id)
{
    struct roster *roster = state(node);
    int error = 0;
    if (id >= cop_view_slots(node->view))
        return 0;
    if (is_lost(node, id))
        error = cop__rankset_put(&roster->lost, id);
    else
        cop__rankset_drop(&roster->lost, id);
    return error;
}

/* After something of `id` was stored. */
static int note_lost(struct cop_node *node, cop_id id)
{
    int error = mark_lost(node, id);
    return error ? error : lay_out(node);
}

static bool is_newer(const struct cop__belief *a, const struct cop__belief *b)
{
    if (a->incarnation != b->incarnation)
        return a->incarnation > b->incarnation;
    if (a->denial != b->denial)
        return a->denial > b->denial;
    return a->status > b->status;
}

static int store(struct roster *roster, const struct cop__belief *belief)
{
    uint32_t at = find(roster, belief->id);
    if (has_entry(roster, at, belief->id)) {
        roster->entries[at] = *belief;
        return 0;
    }
    if (roster->count == roster->capacity) {
        uint32_t capacity = roster->capacity ? roster->capacity * 2 : 4;
        void *grown = realloc(roster->entries, capacity * sizeof *roster->entries);
        if (!grown)
            return COP_ENOMEM;
        roster->entries = grown;
        roster->capacity = capacity;
    }
    memmove(roster->entries + at + 1, roster->entries + at,
            (roster->count - at) * sizeof *roster->entries);
    roster->entries[at] = *belief;
    roster->count++;
    return 0;
}

static void tell(struct cop_node *node, const struct cop__belief *old,
                 const struct cop__belief *new)
{
    struct cop__change change = {
        .id = new->id,
        .rank = cop_view_rank(node->view, new->id),
    };
    if (new->incarnation != old->incarnation) {
        change.kind = COP__CHANGE_REPLACED;
        cop__tell_change(node, &change);
    }
    bool was_suspect =
        new->incarnation == old->incarnation && old->status >= COP_SUSPECT;
    if (new->status >= COP_SUSPECT && !was_suspect) {
        COP__COUNT(node, suspicions);
        change.kind = COP__CHANGE_SUSPECT;
    } else if (new->status < COP_SUSPECT && was_suspect) {
        COP__COUNT(node, revivals);
        change.kind = COP__CHANGE_ALIVE;
    } else if (new->incarnation != old->incarnation) {
        return;
    } else {
        change.kind = COP__CHANGE_RESTATED;
    }
    cop__tell_change(node, &change);
}

/* R2: I live, so whoever says otherwise gets the next denial. */
static bool deny(struct cop_node *node, const struct cop__belief *heard)
{
    struct cop__belief mine = cop__roster_get(node, node->self);
    if (heard->incarnation != node->incarnation || !is_newer(heard, &mine) ||
        heard->denial >= COP__DENIAL_FINAL)
        return false;
    struct cop__belief denial = *heard;
    if (heard->status >= COP_SUSPECT) {
        COP__COUNT(node, denials);
        denial.denial++;
    }
    /* Who leaves still leaves. */
    denial.status = mine.status;
    if (store(state(node), &denial))
        cop__fail(node, COP_ENOMEM);
    else
        tell(node, &mine, &denial);
    return true;
}

/* R4: where views change, only lives that a view has, or will have, are spoken of. */
static bool is_spoken_of(const struct cop_node *node, const struct cop__belief *heard)
{
    if (!cop__has_views(node))
        return cop_view_rank(node->view, heard->id) != COP_RANK_NONE;
    const struct roster *roster = state(node);
    uint32_t at = find(roster, heard->id);
    if (has_entry(roster, at, heard->id))
        return roster->entries[at].incarnation == heard->incarnation;
    return cop_view_has(node->view, heard->id, heard->incarnation);
}

/* Takes in what is newer than what I have. */
static bool take(struct cop_node *node, const struct cop__belief *heard)
{
    struct cop__belief old = cop__roster_get(node, heard->id);
    if (!is_newer(heard, &old))
        return false;
    if (store(state(node), heard) || note_lost(node, heard->id)) {
        cop__fail(node, COP_ENOMEM);
        return false;
    }
    tell(node, &old, heard);
    return true;
}

bool cop__roster_merge(struct cop_node *node, const struct cop__belief *heard)
{
    /* The largest denial could not be followed by another: nobody counts that far. */
    if (heard->status > COP_REPORTED || heard->denial == UINT32_MAX ||
        heard->id >= COP_MEMBERS_MAX) {
        COP__COUNT(node, ignored_malformed);
        return false;
    }
    if (heard->id == node->self)
        return deny(node, heard);
    if (!is_spoken_of(node, heard)) {
        if (cop__has_views(node))
            COP__COUNT(node, ignored_incarnation);
        else
            COP__COUNT(node, ignored_malformed);
        return false;
    }
    return take(node, heard);
}

void cop__roster_expect(struct cop_node *node, cop_id id, cop_incarnation incarnation)
{
    struct cop__belief coming = {id, incarnation, 0, COP_ALIVE};
    if (id != node->self && !cop_view_has(node->view, id, incarnation))
        take(node, &coming);
}

void cop__roster_condemn(struct cop_node *node, cop_id id, cop_incarnation incarnation)
{
    struct cop__belief over = {id, incarnation, COP__DENIAL_FINAL, COP_SUSPECT};
    if (id != node->self && is_spoken_of(node, &over))
        take(node, &over);
}

void cop__roster_leave(struct cop_node *node)
{
    struct cop__belief mine = cop__roster_get(node, node->self);
    if (mine.status == COP_LEAVING)
        return;
    struct cop__belief leaving = mine;
    leaving.status = COP_LEAVING;
    if (store(state(node), &leaving))
        cop__fail(node, COP_ENOMEM);
    else
        tell(node, &mine, &leaving);
}

void cop__roster_suspect(struct cop_node *node, cop_id id, enum cop_status how)
{
    struct cop__belief belief = cop__roster_get(node, id);
    belief.status = (uint8_t)how;
    cop__roster_merge(node, &belief);
}

bool cop__roster_is_certain(const struct cop_node *node, cop_id id,
                            cop_incarnation incarnation)
{
    struct cop__belief belief = cop__roster_get(node, id);
    return belief.incarnation > incarnation || belief.denial >= COP__DENIAL_FINAL ||
           belief.status == COP_REPORTED;
}

/* ---- frames ---------------------------------------------------------------------- */

bool cop__roster_admit(struct cop_node *node, const struct cop_header *header)
{
    struct cop__belief known = cop__roster_get(node, header->sender);
    if (header->sender_incarnation < known.incarnation) {
        COP__COUNT(node, ignored_incarnation);
        return false;
    }
    if (header->sender_incarnation > known.incarnation) {
        struct cop__belief risen = {header->sender, header->sender_incarnation, 0,
                                    COP_ALIVE};
        cop__roster_merge(node, &risen);
    }
    return true;
}

void cop__roster_send(struct cop_node *node, cop_id id, enum cop__kind kind,
                      struct cop_buf *payload)
{
    cop__emit_send(node, id, cop__roster_get(node, id).incarnation, kind, payload);
}

static void on_peer_up(struct cop_node *node, cop_id peer, cop_incarnation incarnation)
{
    struct cop__belief known = cop__roster_get(node, peer);
    if (cop_view_rank(node->view, peer) == COP_RANK_NONE || peer == node->self ||
        incarnation <= known.incarnation)
        return;
    /* R5: where it lives again, its former life is over; it is a member when a view says
     * so. */
    if (cop__has_views(node)) {
        cop__roster_condemn(node, peer, known.incarnation);
        return;
    }
    struct cop__belief risen = {peer, incarnation, 0, COP_ALIVE};
    cop__roster_merge(node, &risen);
}

/* ---- the layer ------------------------------------------------------------------- */

/* All of the lost, anew. */
static void find_lost(struct cop_node *node)
{
    struct roster *roster = state(node);
    roster->lost.count = 0;
    int error = mark_lost(node, node->self);
    for (uint32_t i = 0; i < cop_view_changes(node->view) && !error; i++)
        error = mark_lost(node, cop__view_change(node->view, i)->id);
    for (uint32_t i = 0; i < roster->count && !error; i++)
        error = mark_lost(node, roster->entries[i].id);
    /* A place that was promised, and passed over by a later one, is nobody's. */
    for (cop_id id = cop__view_first_later(node->view);
         id < cop_view_slots(node->view) && !error; id++)
        error = mark_lost(node, id);
    if (!error)
        error = lay_out(node);
    if (error)
        cop__fail(node, COP_ENOMEM);
}

void cop__roster_prune(struct cop_node *node,
                       bool (*keep)(const struct cop_node *node, cop_id id,
                                    cop_incarnation incarnation))
{
    struct roster *roster = state(node);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < roster->count; i++) {
        const struct cop__belief *entry = &roster->entries[i];
        bool is_member = cop_view_has(node->view, entry->id, entry->incarnation);
        bool is_default = entry->denial == 0 && entry->status == COP_ALIVE && is_member;
        if ((is_member && !is_default) ||
            (!is_member && keep && keep(node, entry->id, entry->incarnation)))
            roster->entries[kept++] = *entry;
    }
    roster->count = kept;
    find_lost(node);
}

static void on_view(struct cop_node *node, const struct cop_view *old)
{
    (void)old;
    find_lost(node);
}
static void start(struct cop_node *node)
{
    if (cop__has_views(node)) {
        cop__roster_prune(node, NULL);
        return;
    }
    /* A later life than the view's is something that the others have to hear. */
    struct cop__belief mine = cop__roster_get(node, node->self);
    if (mine.incarnation != cop_view_incarnation(node->view, node->rank) &&
        store(state(node), &mine))
        cop__fail(node, COP_ENOMEM);
}

static void fini(struct cop_node *node)
{
    free(state(node)->entries);
    cop_ranks_free(&state(node)->lost);
    cop_ranks_free(&state(node)->outside);
    cop_ranks_free(&state(node)->leaves);
}

static void digest_state(const struct cop_node *node, struct cop__digest *digest)
{
    const struct roster *roster = state(node);
    cop__digest_word(digest, roster->count);
    for (uint32_t i = 0; i < roster->count; i++) {
        const struct cop__belief *entry = &roster->entries[i];
        cop__digest_word(digest, entry->id);
        cop__digest_word(digest, entry->incarnation);
        cop__digest_word(digest, (uint64_t)entry->denial << 8 | entry->status);
    }
}

static const char *check(const struct cop_node *node)
{
    const struct roster *roster = state(node);
    for (uint32_t i = 0; i < roster->count; i++) {
        const struct cop__belief *entry = &roster->entries[i];
        if (i > 0 && roster->entries[i - 1].id >= entry->id)
            return "roster: entries are not sorted";
        if (entry->status >= COP_SUSPECT && entry->id == node->self &&
            entry->incarnation == node->incarnation)
            return "roster: I suspect myself";
        if (entry->id < cop_view_slots(node->view) &&
            is_lost(node, entry->id) != cop_dead_has(&roster->dead, entry->id))
            return "roster: a suspect is not among the lost";
    }
    for (uint32_t i = 0; i < roster->lost.count; i++)
        if (!is_lost(node, roster->lost.items[i]))
            return "roster: somebody is among the lost without a reason";
    if (roster->lost.count != roster->dead.extra_count)
        return "roster: the lost are not what the tree is told";
    return NULL;
}

static size_t bytes(const struct cop_node *node)
{
    const struct roster *roster = state(node);
    return roster->capacity * sizeof *roster->entries +
           (roster->lost.capacity + roster->outside.capacity +
            roster->leaves.capacity) *
               sizeof *roster->lost.items;
}

const struct cop__layer cop__roster_layer = {
    .name = "roster",
    .size = sizeof(struct roster),
    .start = start,
    .fini = fini,
    .on_peer_up = on_peer_up,
    .on_view = on_view,
    .digest = digest_state,
    .check = check,
    .bytes = bytes,
};

struct cop_belief cop_node_belief(const struct cop_node *node, cop_id id)
{
    struct cop__belief belief = cop__roster_get(node, id);
    return (struct cop_belief){
        .incarnation = belief.incarnation,
        .denial = belief.denial,
        .status = (enum cop_status)belief.status,
    };
}
