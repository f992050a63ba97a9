/* SPDX-License-Identifier: Apache-2.0 */
#include "roster/roster.h"

#include "base/rankset.h"

#include <stdlib.h>
#include <string.h>

/*
 * Invariants:
 *   1. entries are sorted by id, without repetition, and each differs from the view's
 *      default;
 *   2. suspects holds exactly the ranks of the entries whose status is SUSPECT,
 *      sorted;
 *   3. I am never a suspect to myself.
 */
struct roster {
    struct cop__belief *entries;
    uint32_t count, capacity;
    struct cop_ranks suspects;
    struct cop_dead dead; /* a view on `suspects` for tree/ */
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

bool cop__roster_is_suspect(const struct cop_node *node, cop_id id)
{
    const struct roster *roster = state(node);
    uint32_t at = roster->suspects.count ? find(roster, id) : 0;
    return roster->suspects.count && has_entry(roster, at, id) &&
           roster->entries[at].status == COP_SUSPECT;
}

const struct cop_dead *cop__roster_dead(const struct cop_node *node)
{
    return &state(node)->dead;
}

uint32_t cop__roster_count(const struct cop_node *node) { return state(node)->count; }

struct cop__belief cop__roster_at(const struct cop_node *node, uint32_t i)
{
    return state(node)->entries[i];
}

/* ---- merging --------------------------------------------------------------------- */

static int set_suspect(struct cop_node *node, cop_rank rank, bool was, bool is)
{
    struct roster *roster = state(node);
    int error = 0;
    if (is && !was)
        error = cop__rankset_put(&roster->suspects, rank);
    else if (was && !is)
        cop__rankset_drop(&roster->suspects, rank);
    roster->dead.extra = roster->suspects.items;
    roster->dead.extra_count = roster->suspects.count;
    return error;
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
        new->incarnation == old->incarnation && old->status == COP_SUSPECT;
    if (new->status == COP_SUSPECT && !was_suspect) {
        COP__COUNT(node, suspicions);
        change.kind = COP__CHANGE_SUSPECT;
    } else if (new->status == COP_ALIVE && was_suspect) {
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
    if (heard->incarnation != node->incarnation || !is_newer(heard, &mine))
        return false;
    struct cop__belief denial = *heard;
    if (heard->status == COP_SUSPECT) {
        COP__COUNT(node, denials);
        denial.denial++;
        denial.status = COP_ALIVE;
    }
    if (store(state(node), &denial))
        cop__fail(node, COP_ENOMEM);
    else
        tell(node, &mine, &denial);
    return true;
}

bool cop__roster_merge(struct cop_node *node, const struct cop__belief *heard)
{
    cop_rank rank = cop_view_rank(node->view, heard->id);
    /* The largest denial could not be followed by another: nobody counts that far. */
    if (rank == COP_RANK_NONE || heard->status > COP_SUSPECT ||
        heard->denial == UINT32_MAX) {
        COP__COUNT(node, ignored_malformed);
        return false;
    }
    if (heard->id == node->self)
        return deny(node, heard);
    struct cop__belief old = cop__roster_get(node, heard->id);
    if (!is_newer(heard, &old))
        return false;
    bool was = old.status == COP_SUSPECT, is = heard->status == COP_SUSPECT;
    if (store(state(node), heard) || set_suspect(node, rank, was, is)) {
        cop__fail(node, COP_ENOMEM);
        return false;
    }
    tell(node, &old, heard);
    return true;
}

void cop__roster_suspect(struct cop_node *node, cop_id id)
{
    struct cop__belief belief = cop__roster_get(node, id);
    belief.status = COP_SUSPECT;
    cop__roster_merge(node, &belief);
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
    struct cop__belief risen = {peer, incarnation, 0, COP_ALIVE};
    cop__roster_merge(node, &risen);
}

/* ---- the layer ------------------------------------------------------------------- */

/* A later life than the view's is something that the others have to hear. */
static void start(struct cop_node *node)
{
    struct cop__belief mine = cop__roster_get(node, node->self);
    if (mine.incarnation != cop_view_incarnation(node->view, node->rank) &&
        store(state(node), &mine))
        cop__fail(node, COP_ENOMEM);
}

static void fini(struct cop_node *node)
{
    free(state(node)->entries);
    cop_ranks_free(&state(node)->suspects);
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
    uint32_t suspects = 0;
    for (uint32_t i = 0; i < roster->count; i++) {
        const struct cop__belief *entry = &roster->entries[i];
        if (i > 0 && roster->entries[i - 1].id >= entry->id)
            return "roster: entries are not sorted";
        if (entry->status != COP_SUSPECT)
            continue;
        if (entry->id == node->self)
            return "roster: I suspect myself";
        cop_rank rank = cop_view_rank(node->view, entry->id);
        if (!cop_dead_has(&roster->dead, rank))
            return "roster: a suspect is not among the suspects";
        suspects++;
    }
    if (suspects != roster->suspects.count || suspects != roster->dead.extra_count)
        return "roster: somebody is among the suspects without a reason";
    return NULL;
}

static size_t bytes(const struct cop_node *node)
{
    const struct roster *roster = state(node);
    return roster->capacity * sizeof *roster->entries +
           roster->suspects.capacity * sizeof *roster->suspects.items;
}

const struct cop__layer cop__roster_layer = {
    .name = "roster",
    .size = sizeof(struct roster),
    .start = start,
    .fini = fini,
    .on_peer_up = on_peer_up,
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
