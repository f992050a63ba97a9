/* SPDX-License-Identifier: Apache-2.0 */
#include "view/view.h"

#include "base/random.h"

#include <coppice/error.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * In the view of a static start ids and roles are the same numbers, so nothing per
 * member is stored; `changes` has every place that is something else by now, by id.
 * Invariants: changes are sorted by id without repetition; every id from n on that is
 * below `slots` and not among them was never given to anybody.
 */
struct cop_view {
    /* Atomic, because applications keep views on other threads than their node's. */
    atomic_uint refs;
    uint32_t n;     /* of the static start */
    uint32_t slots; /* one more than the largest id that was ever given */
    uint32_t size;
    cop_incarnation first;
    struct cop_ballot ballot;
    uint64_t digest;
    cop_id root;
    struct cop_shape shape;
    uint32_t count;
    struct cop__entry changes[];
};

int cop_ballot_compare(const struct cop_ballot *a, const struct cop_ballot *b)
{
    if (a->epoch != b->epoch)
        return a->epoch < b->epoch ? -1 : 1;
    if (a->root != b->root)
        return a->root < b->root ? -1 : 1;
    if (a->incarnation != b->incarnation)
        return a->incarnation < b->incarnation ? -1 : 1;
    return 0;
}

/* ---- cards ----------------------------------------------------------------------- */

struct cop_buf *cop__card(const char *name, size_t name_length, const char *address,
                          size_t address_length)
{
    if (name_length > COP_NAME_MAX || address_length > COP_ADDRESS_MAX)
        return NULL;
    struct cop_buf *card = cop_buf_create(1 + name_length + address_length);
    if (!card)
        return NULL;
    card->data[0] = (uint8_t)name_length;
    if (name_length > 0)
        memcpy(card->data + 1, name, name_length);
    if (address_length > 0)
        memcpy(card->data + 1 + name_length, address, address_length);
    return card;
}

static void read_card(const struct cop_buf *card, struct cop_member *out)
{
    out->name = out->address = "";
    out->name_length = out->address_length = 0;
    if (!card)
        return;
    out->name_length = card->data[0];
    out->name = (const char *)card->data + 1;
    out->address = out->name + out->name_length;
    out->address_length = card->length - 1 - out->name_length;
}

/* ---- making ---------------------------------------------------------------------- */

static uint64_t hash_entry(const struct cop__entry *entry)
{
    uint64_t hash = cop__mix64(((uint64_t)entry->id << 32 | entry->role) + 1);
    hash = cop__mix64(hash ^ entry->incarnation);
    hash ^= (uint64_t)entry->flags << 32;
    return cop__mix64(hash + (entry->since << 2 | entry->presence));
}

static struct cop__entry entry_of_start(const struct cop_view *view, cop_id id)
{
    return (struct cop__entry){
        .id = id, .role = id, .incarnation = view->first, .since = 1};
}

static const struct cop__entry *find_change(const struct cop_view *view, cop_id id)
{
    uint32_t low = 0, high = view->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (view->changes[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < view->count && view->changes[low].id == id)
        return &view->changes[low];
    return NULL;
}

bool cop__view_entry(const struct cop_view *view, cop_id id, struct cop__entry *out)
{
    const struct cop__entry *change = view->count ? find_change(view, id) : NULL;
    if (change)
        *out = *change;
    else if (id < view->n)
        *out = entry_of_start(view, id);
    else
        return false;
    return true;
}

/* The first that works, else the first; a walk over changes and not over members. */
static cop_id find_root(const struct cop_view *view)
{
    cop_id first = COP_ID_NONE;
    for (cop_id id = cop_view_next(view, COP_ID_NONE); id != COP_ID_NONE;
         id = cop_view_next(view, id)) {
        struct cop__entry entry;
        if (first == COP_ID_NONE)
            first = id;
        if (cop__view_entry(view, id, &entry) && entry.role != COP_SPARE)
            return id;
    }
    return first;
}

/* Size, digest and root out of the changes. */
static void sum_up(struct cop_view *view)
{
    view->size = view->n;
    view->slots = view->n;
    view->digest = cop__mix64(view->first ^ cop__mix64(view->n));
    for (uint32_t i = 0; i < view->count; i++) {
        const struct cop__entry *entry = &view->changes[i];
        bool present = entry->presence == COP_PRESENT;
        if (entry->id < view->n)
            view->size -= !present;
        else
            view->size += present;
        if (entry->id >= view->slots)
            view->slots = entry->id + 1;
        view->digest += hash_entry(entry);
    }
    view->root = find_root(view);
}

static struct cop_view *allocate(uint32_t count)
{
    return calloc(1,
                  sizeof(struct cop_view) + (size_t)count * sizeof(struct cop__entry));
}

int cop_view_create_static(uint32_t n, const struct cop_shape *shape,
                           cop_incarnation first, struct cop_view **out)
{
    struct cop_tree tree = {.shape = *shape, .n = n};
    if (n == 0 || n > COP_MEMBERS_MAX || first == 0 || cop_tree_check(&tree) != 0)
        return COP_EINVAL;
    struct cop_view *view = allocate(0);
    if (!view)
        return COP_ENOMEM;
    atomic_init(&view->refs, 1);
    view->n = n;
    view->first = first;
    view->ballot.epoch = 1;
    view->shape = *shape;
    cop_shape_ref(&view->shape);
    sum_up(view);
    *out = view;
    return 0;
}

struct cop_view *cop_view_ref(struct cop_view *view)
{
    /* Whoever takes one has one: nothing need be seen before this. */
    atomic_fetch_add_explicit(&view->refs, 1, memory_order_relaxed);
    return view;
}

void cop_view_unref(struct cop_view *view)
{
    if (!view || atomic_fetch_sub_explicit(&view->refs, 1, memory_order_acq_rel) > 1)
        return;
    for (uint32_t i = 0; i < view->count; i++)
        cop_buf_unref(view->changes[i].card);
    cop_shape_unref(&view->shape);
    free(view);
}

static void push_change(struct cop_view *view, const struct cop__entry *entry)
{
    view->changes[view->count] = *entry;
    cop_buf_ref(entry->card);
    view->count++;
}

/* The two sorted lists become one; of two for the same id the newer one stays. */
static void merge_changes(struct cop_view *view, const struct cop_view *base,
                          const struct cop__delta *delta)
{
    uint32_t i = 0, j = 0;
    while (i < base->count || j < delta->count) {
        if (j == delta->count ||
            (i < base->count && base->changes[i].id < delta->items[j].id)) {
            push_change(view, &base->changes[i++]);
        } else {
            if (i < base->count && base->changes[i].id == delta->items[j].id)
                i++;
            push_change(view, &delta->items[j++]);
        }
    }
}

static int derive(const struct cop_view *base, bool from_start,
                  const struct cop_ballot *ballot, const struct cop__delta *delta,
                  struct cop_view **out)
{
    const struct cop_view start = {.n = base->n};
    if (delta->count > 0 && delta->items[delta->count - 1].id >= COP_MEMBERS_MAX)
        return COP_EINVAL;
    struct cop_view *view = allocate((from_start ? 0 : base->count) + delta->count);
    if (!view)
        return COP_ENOMEM;
    atomic_init(&view->refs, 1);
    view->n = base->n;
    view->first = base->first;
    view->ballot = *ballot;
    view->shape = base->shape;
    cop_shape_ref(&view->shape);
    merge_changes(view, from_start ? &start : base, delta);
    sum_up(view);
    *out = view;
    return 0;
}

int cop__view_derive(const struct cop_view *base, const struct cop_ballot *ballot,
                     const struct cop__delta *delta, struct cop_view **out)
{
    return derive(base, false, ballot, delta, out);
}

int cop__view_copy(const struct cop_view *view, struct cop_view **out)
{
    struct cop_view *copy = allocate(view->count);
    if (!copy)
        return COP_ENOMEM;
    memcpy(copy, view, sizeof *copy + view->count * sizeof *view->changes);
    atomic_init(&copy->refs, 1);
    cop_shape_ref(&copy->shape);
    for (uint32_t i = 0; i < view->count; i++) {
        const struct cop_buf *card = view->changes[i].card;
        copy->changes[i].card = card ? cop_buf_copy(card->data, card->length) : NULL;
        if (card && !copy->changes[i].card) {
            copy->count = i;
            cop_view_unref(copy);
            return COP_ENOMEM;
        }
    }
    *out = copy;
    return 0;
}

int cop__view_from_start(const struct cop_view *like, const struct cop_ballot *ballot,
                         const struct cop__delta *delta, struct cop_view **out)
{
    return derive(like, true, ballot, delta, out);
}

/* ---- questions ------------------------------------------------------------------- */

cop_epoch cop_view_epoch(const struct cop_view *view) { return view->ballot.epoch; }

struct cop_ballot cop_view_ballot(const struct cop_view *view) { return view->ballot; }

uint64_t cop_view_digest(const struct cop_view *view) { return view->digest; }

uint32_t cop_view_size(const struct cop_view *view) { return view->size; }

uint32_t cop_view_slots(const struct cop_view *view) { return view->slots; }

uint32_t cop_view_changes(const struct cop_view *view) { return view->count; }

cop_id cop__view_first_later(const struct cop_view *view) { return view->n; }

const struct cop__entry *cop__view_change(const struct cop_view *view, uint32_t i)
{
    return &view->changes[i];
}

const struct cop_shape *cop_view_shape(const struct cop_view *view)
{
    return &view->shape;
}

cop_id cop_view_root(const struct cop_view *view) { return view->root; }

cop_incarnation cop_view_incarnation(const struct cop_view *view, cop_rank rank)
{
    struct cop__entry entry;
    return cop__view_entry(view, rank, &entry) ? entry.incarnation : 0;
}

cop_rank cop_view_rank(const struct cop_view *view, cop_id id)
{
    if (view->count == 0)
        return id < view->n ? id : COP_RANK_NONE;
    struct cop__entry entry;
    bool present = cop__view_entry(view, id, &entry) && entry.presence == COP_PRESENT;
    return present ? id : COP_RANK_NONE;
}

cop_id cop_view_id(const struct cop_view *view, cop_rank rank)
{
    return rank < view->slots ? rank : COP_ID_NONE;
}

bool cop_view_has(const struct cop_view *view, cop_id id, cop_incarnation incarnation)
{
    struct cop__entry entry;
    return cop__view_entry(view, id, &entry) && entry.presence == COP_PRESENT &&
           entry.incarnation == incarnation;
}

cop_id cop_view_next(const struct cop_view *view, cop_id id)
{
    for (id = id == COP_ID_NONE ? 0 : id + 1; id < view->slots; id++)
        if (cop_view_rank(view, id) != COP_RANK_NONE)
            return id;
    return COP_ID_NONE;
}

int cop_view_member(const struct cop_view *view, cop_id id, struct cop_member *out)
{
    struct cop__entry entry;
    if (!cop__view_entry(view, id, &entry))
        return COP_ENOENT;
    *out = (struct cop_member){
        .id = id,
        .incarnation = entry.incarnation,
        .role = entry.role,
        .presence = (enum cop_presence)entry.presence,
        .since = entry.since,
        .certain = entry.presence == COP_REMOVED && entry.flags & COP__ENTRY_CERTAIN,
    };
    read_card(entry.card, out);
    return 0;
}

/* "n12" of the static start; NONE if it is not one of them. */
static cop_id parse_start_name(const struct cop_view *view, const char *name,
                               size_t length)
{
    if (length < 2 || length > 9 || name[0] != 'n' || (name[1] == '0' && length > 2))
        return COP_ID_NONE;
    cop_id id = 0;
    for (size_t i = 1; i < length; i++) {
        if (name[i] < '0' || name[i] > '9')
            return COP_ID_NONE;
        id = id * 10 + (cop_id)(name[i] - '0');
    }
    return id < view->n ? id : COP_ID_NONE;
}

cop_id cop_view_find(const struct cop_view *view, const char *name, size_t length)
{
    for (uint32_t i = 0; i < view->count; i++) {
        struct cop_member member;
        read_card(view->changes[i].card, &member);
        if (length > 0 && member.name_length == length &&
            memcmp(member.name, name, length) == 0)
            return view->changes[i].id;
    }
    return parse_start_name(view, name, length);
}

int cop_view_name(const struct cop_view *view, cop_id id, char *out, size_t size)
{
    struct cop_member member;
    if (cop_view_member(view, id, &member) || member.name_length == 0)
        return snprintf(out, size, "n%u", (unsigned)id);
    return snprintf(out, size, "%.*s", (int)member.name_length, member.name);
}

cop_id cop_view_worker(const struct cop_view *view, uint32_t role)
{
    for (uint32_t i = 0; i < view->count; i++)
        if (view->changes[i].role == role && view->changes[i].presence == COP_PRESENT)
            return view->changes[i].id;
    bool as_at_start = role < view->n && (view->count == 0 || !find_change(view, role));
    return as_at_start ? role : COP_ID_NONE;
}

/* ---- two views ------------------------------------------------------------------- */

/* The id after the first `*at` bits of progress: the next that either has changed. */
static cop_id next_changed(const struct cop_view *view, cop_id from)
{
    uint32_t low = 0, high = view->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (view->changes[middle].id < from)
            low = middle + 1;
        else
            high = middle;
    }
    return low < view->count ? view->changes[low].id : COP_ID_NONE;
}

static bool same_entry(const struct cop__entry *a, const struct cop__entry *b)
{
    return a->incarnation == b->incarnation && a->role == b->role &&
           a->presence == b->presence && a->flags == b->flags && a->since == b->since;
}

/* Both entries of an id; a missing one counts as one who left before it came. */
static void both(const struct cop_view *old, const struct cop_view *new, cop_id id,
                 struct cop__entry *was, struct cop__entry *is)
{
    struct cop__entry nobody = {.id = id, .role = COP_SPARE, .presence = COP_LEFT};
    if (!cop__view_entry(old, id, was))
        *was = nobody;
    if (!cop__view_entry(new, id, is))
        *is = nobody;
}

int cop__view_difference(const struct cop_view *base, const struct cop_view *view,
                         struct cop__delta *out)
{
    *out = (struct cop__delta){0};
    for (cop_id at = 0;;) {
        cop_id a = next_changed(base, at), b = next_changed(view, at);
        cop_id id = a < b ? a : b;
        if (id == COP_ID_NONE)
            return 0;
        struct cop__entry was, is;
        both(base, view, id, &was, &is);
        if (!same_entry(&was, &is)) {
            cop_buf_ref(is.card);
            if (cop__delta_put(out, &is)) {
                cop__delta_free(out);
                return COP_ENOMEM;
            }
        }
        at = id + 1;
    }
}

uint32_t cop__view_common(const struct cop_view *of, const struct cop_view *in)
{
    uint32_t common = of->size;
    for (cop_id at = 0;;) {
        cop_id a = next_changed(of, at), b = next_changed(in, at);
        cop_id id = a < b ? a : b;
        if (id == COP_ID_NONE)
            return common;
        struct cop__entry mine, theirs;
        both(of, in, id, &mine, &theirs);
        if (mine.presence == COP_PRESENT &&
            (theirs.presence != COP_PRESENT || theirs.incarnation != mine.incarnation))
            common--;
        at = id + 1;
    }
}

/* What became of an id; false if nothing did that is worth telling. */
static bool judge_change(const struct cop__entry *was, const struct cop__entry *is,
                         struct cop_view_change *out)
{
    bool here_before = was->presence == COP_PRESENT;
    bool here_now = is->presence == COP_PRESENT;
    out->id = is->id;
    if (here_before && here_now && was->incarnation != is->incarnation)
        out->kind = COP_VIEW_RETURNED;
    else if (!here_before && here_now)
        out->kind = COP_VIEW_JOINED;
    else if (here_before && !here_now)
        out->kind = COP_VIEW_LEFT;
    else
        return false;
    return true;
}

/* Whether `is` took over the work of another id. */
static bool judge_role(const struct cop_view *old, const struct cop__entry *was,
                       const struct cop__entry *is, struct cop_view_change *out)
{
    if (is->presence != COP_PRESENT || is->role == COP_SPARE || is->role == was->role)
        return false;
    *out = (struct cop_view_change){
        .kind = COP_VIEW_REPLACED,
        .id = is->id,
        .role = is->role,
        .old_worker = cop_view_worker(old, is->role),
        .new_worker = is->id,
    };
    /* A rank of its own, brought along, was nobody's before. */
    for (uint32_t i = 0; out->old_worker == COP_ID_NONE && i < old->count; i++)
        if (old->changes[i].role == is->role)
            out->old_worker = old->changes[i].id;
    return out->old_worker != COP_ID_NONE && out->old_worker != is->id;
}

bool cop_view_compare(const struct cop_view *old, const struct cop_view *new,
                      uint64_t *at, struct cop_view_change *out)
{
    /* Above 2^32 is the second walk, through roles. */
    for (;;) {
        bool roles = *at >> 32 != 0;
        cop_id from = (cop_id)*at;
        cop_id a = next_changed(old, from), b = next_changed(new, from);
        cop_id id = a < b ? a : b;
        if (id == COP_ID_NONE && roles)
            return false;
        if (id == COP_ID_NONE) {
            *at = UINT64_C(1) << 32;
            continue;
        }
        *at = (*at & ~(uint64_t)UINT32_MAX) + id + 1;
        struct cop__entry was, is;
        both(old, new, id, &was, &is);
        *out = (struct cop_view_change){.old_worker = COP_ID_NONE,
                                        .new_worker = COP_ID_NONE};
        if (roles ? judge_role(old, &was, &is, out) : judge_change(&was, &is, out))
            return true;
    }
}
