/* SPDX-License-Identifier: Apache-2.0 */
#include "view/view.h"

#include "base/assert.h"
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
    struct cards *cards; /* of the changes; NULL: none has one */
    cop_id *drained;     /* sorted; NULL for none */
    uint32_t drained_count;
    uint32_t count;
    struct cop__entry changes[];
};

/*
 * References to the cards of several views, each of which came from the one before: a change
 * of the view does not touch the cards of those whom it does not concern. A card that is in
 * none of them any more stays until the next list is made.
 */
struct cards {
    uint32_t refs, count, capacity;
    struct cop_buf *items[];
};
#define CARDS_SPARE 8u

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

static void unref_cards(struct cards *cards)
{
    if (!cards || --cards->refs > 0)
        return;
    for (uint32_t i = 0; i < cards->count; i++)
        cop_buf_unref(cards->items[i]);
    free(cards);
}

static void keep_card(struct cards *cards, struct cop_buf *card)
{
    COP_ASSERT(cards->count < cards->capacity);
    cards->items[cards->count++] = card;
}

/* A list of its own for a view, with room for some who come later. */
static int make_cards(struct cop_view *view)
{
    uint32_t capacity = 2 * view->count + CARDS_SPARE;
    struct cards *cards =
        malloc(sizeof *cards + (size_t)capacity * sizeof(struct cop_buf *));
    if (!cards)
        return COP_ENOMEM;
    *cards = (struct cards){.refs = 1, .capacity = capacity};
    for (uint32_t i = 0; i < view->count; i++)
        if (view->changes[i].card)
            keep_card(cards, cop_buf_ref(view->changes[i].card));
    view->cards = cards;
    return 0;
}

static bool has_cards(const struct cop__entry *entries, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (entries[i].card)
            return true;
    return false;
}

/* The cards of a view that is `base` with `delta` applied. */
static int inherit_cards(struct cop_view *view, const struct cop_view *base,
                         const struct cop__delta *delta)
{
    struct cards *cards = base->cards;
    bool has_more = has_cards(delta->items, delta->count);
    if (!cards && !has_more)
        return 0;
    if (!cards || (has_more && cards->capacity - cards->count < delta->count))
        return make_cards(view);
    for (uint32_t i = 0; i < delta->count; i++)
        if (delta->items[i].card)
            keep_card(cards, cop_buf_ref(delta->items[i].card));
    cards->refs++;
    view->cards = cards;
    return 0;
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

bool cop__view_is_drained(const struct cop_view *view, cop_id id)
{
    struct cop__entry entry;
    return view->drained_count > 0 && cop__view_entry(view, id, &entry) &&
           entry.presence == COP_PRESENT && entry.flags & COP__ENTRY_DRAINED;
}

/* The first that works, else the first spare; the drained after all others, in the same
 * order. A walk over changes and not over members. */
static cop_id find_root(const struct cop_view *view)
{
    cop_id best = COP_ID_NONE;
    uint32_t best_kind = 4;
    for (cop_id id = cop_view_next(view, COP_ID_NONE); id != COP_ID_NONE;
         id = cop_view_next(view, id)) {
        struct cop__entry entry;
        if (!cop__view_entry(view, id, &entry))
            continue;
        uint32_t kind =
            (entry.role == COP_SPARE) + 2u * ((entry.flags & COP__ENTRY_DRAINED) != 0);
        if (kind == 0)
            return id;
        if (kind < best_kind) {
            best_kind = kind;
            best = id;
        }
    }
    return best;
}

static bool is_drained(const struct cop__entry *entry)
{
    return entry->presence == COP_PRESENT && entry->flags & COP__ENTRY_DRAINED;
}

static int list_drained(struct cop_view *view)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < view->count; i++)
        count += is_drained(&view->changes[i]);
    if (count == 0)
        return 0;
    view->drained = malloc(count * sizeof *view->drained);
    if (!view->drained)
        return COP_ENOMEM;
    for (uint32_t i = 0; i < view->count; i++)
        if (is_drained(&view->changes[i]))
            view->drained[view->drained_count++] = view->changes[i].id;
    return 0;
}

const cop_id *cop__view_drained(const struct cop_view *view, uint32_t *count)
{
    *count = view->drained_count;
    return view->drained;
}

/* Before anything changed. */
static void sum_up_start(struct cop_view *view)
{
    view->size = view->n;
    view->slots = view->n;
    view->digest = cop__mix64(view->first ^ cop__mix64(view->n));
}

static struct cop_view *allocate(uint32_t count)
{
    /* The changes are written by whoever knows them. */
    struct cop_view *view =
        malloc(sizeof *view + (size_t)count * sizeof(struct cop__entry));
    if (view)
        memset(view, 0, sizeof *view);
    return view;
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
    sum_up_start(view);
    view->root = find_root(view);
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
    unref_cards(view->cards);
    cop_shape_unref(&view->shape);
    free(view->drained);
    free(view);
}

/* Size, slots and digest are sums over the changes: one comes, perhaps for another. */
static void put_change(struct cop_view *view, const struct cop__entry *old,
                       const struct cop__entry *entry)
{
    bool was = old ? old->presence == COP_PRESENT : entry->id < view->n;
    bool is = entry->presence == COP_PRESENT;
    view->size = view->size - was + is;
    if (entry->id >= view->slots)
        view->slots = entry->id + 1;
    if (old)
        view->digest -= hash_entry(old);
    view->digest += hash_entry(entry);
    view->changes[view->count++] = *entry;
}

/* Those of the base up to an id. */
static uint32_t copy_changes(struct cop_view *view, const struct cop_view *base,
                             uint32_t from, cop_id below)
{
    uint32_t to = from;
    while (to < base->count && base->changes[to].id < below)
        to++;
    memcpy(view->changes + view->count, base->changes + from,
           (to - from) * sizeof *base->changes);
    view->count += to - from;
    return to;
}

/* The two sorted lists become one; of two for the same id the newer one stays. */
static void merge_changes(struct cop_view *view, const struct cop_view *base,
                          const struct cop__delta *delta)
{
    uint32_t at = 0;
    view->size = base->size;
    view->slots = base->slots;
    view->digest = base->digest;
    for (uint32_t i = 0; i < delta->count; i++) {
        cop_id id = delta->items[i].id;
        at = copy_changes(view, base, at, id);
        bool is_known = at < base->count && base->changes[at].id == id;
        put_change(view, is_known ? &base->changes[at++] : NULL, &delta->items[i]);
    }
    copy_changes(view, base, at, COP_ID_NONE);
}

/* Ids are given one by one, and some of them never taken; a list that leaves out many would
 * cost by what it leaves out. */
static bool is_possible(uint32_t slots, const struct cop__delta *delta)
{
    uint64_t last = delta->items[delta->count - 1].id;
    return last < COP_MEMBERS_MAX &&
           last < (uint64_t)slots + delta->count + COP__HOLES_MAX;
}

static int derive(const struct cop_view *base, bool from_start,
                  const struct cop_ballot *ballot, const struct cop__delta *delta,
                  struct cop_view **out)
{
    struct cop_view start = {.n = base->n, .first = base->first};
    sum_up_start(&start);
    const struct cop_view *from = from_start ? &start : base;
    if (delta->count > 0 && !is_possible(from->slots, delta))
        return COP_EINVAL;
    struct cop_view *view = allocate(from->count + delta->count);
    if (!view)
        return COP_ENOMEM;
    atomic_init(&view->refs, 1);
    view->n = base->n;
    view->first = base->first;
    view->ballot = *ballot;
    view->shape = base->shape;
    cop_shape_ref(&view->shape);
    merge_changes(view, from, delta);
    view->root = find_root(view);
    if (inherit_cards(view, from, delta) || list_drained(view)) {
        cop_view_unref(view);
        return COP_ENOMEM;
    }
    *out = view;
    return 0;
}

int cop__view_derive(const struct cop_view *base, const struct cop_ballot *ballot,
                     const struct cop__delta *delta, struct cop_view **out)
{
    return derive(base, false, ballot, delta, out);
}

/* Copies of the cards, which are not counted atomically. */
static int copy_cards(struct cop_view *copy, const struct cop_view *view)
{
    if (!view->cards)
        return 0;
    struct cards *cards =
        malloc(sizeof *cards + view->count * sizeof(struct cop_buf *));
    if (!cards)
        return COP_ENOMEM;
    *cards = (struct cards){.refs = 1, .capacity = view->count};
    copy->cards = cards;
    for (uint32_t i = 0; i < view->count; i++) {
        const struct cop_buf *card = view->changes[i].card;
        if (!card)
            continue;
        copy->changes[i].card = cop_buf_copy(card->data, card->length);
        if (!copy->changes[i].card)
            return COP_ENOMEM;
        keep_card(cards, copy->changes[i].card);
    }
    return 0;
}

int cop__view_copy(const struct cop_view *view, struct cop_view **out)
{
    struct cop_view *copy = allocate(view->count);
    if (!copy)
        return COP_ENOMEM;
    memcpy(copy, view, sizeof *copy + view->count * sizeof *view->changes);
    atomic_init(&copy->refs, 1);
    cop_shape_ref(&copy->shape);
    copy->cards = NULL;
    copy->drained = NULL;
    copy->drained_count = 0;
    if (copy_cards(copy, view) || list_drained(copy)) {
        cop_view_unref(copy);
        return COP_ENOMEM;
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
        .certain = (entry.flags & COP__ENTRY_CERTAIN) != 0,
        .drained = is_drained(&entry),
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

/* Where the changes from an id on begin. */
static uint32_t find_from(const struct cop_view *view, cop_id from)
{
    uint32_t low = 0, high = from == 0 ? 0 : view->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (view->changes[middle].id < from)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool same_entry(const struct cop__entry *a, const struct cop__entry *b)
{
    return a->incarnation == b->incarnation && a->role == b->role &&
           a->presence == b->presence && a->flags == b->flags && a->since == b->since;
}

static bool same_card(const struct cop_buf *a, const struct cop_buf *b)
{
    return a == b || (a && b && a->length == b->length &&
                      memcmp(a->data, b->data, a->length) == 0);
}

bool cop__view_equal(const struct cop_view *a, const struct cop_view *b)
{
    if (cop_ballot_compare(&a->ballot, &b->ballot) != 0 || a->digest != b->digest ||
        a->n != b->n || a->first != b->first || a->count != b->count ||
        a->shape.kind != b->shape.kind || a->shape.k != b->shape.k ||
        a->shape.inner != b->shape.inner || a->shape.table != b->shape.table)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->changes[i].id != b->changes[i].id ||
            !same_entry(&a->changes[i], &b->changes[i]) ||
            !same_card(a->changes[i].card, b->changes[i].card))
            return false;
    return true;
}

/* A walk through what two views have different, by id. */
struct walk {
    const struct cop_view *old, *new;
    uint32_t i, j; /* the next change of each */
    const struct cop__entry *was, *is;
    struct cop__entry spare; /* for one of them that has no entry of its own */
};

static struct walk walk_from(const struct cop_view *old, const struct cop_view *new,
                             cop_id from)
{
    return (struct walk){
        .old = old, .new = new, .i = find_from(old, from), .j = find_from(new, from)};
}

/* One who has no change is as at the start, or counts as one who left before it came. */
static const struct cop__entry *unchanged(struct walk *walk,
                                          const struct cop_view *view, cop_id id)
{
    walk->spare =
        id < view->n
            ? entry_of_start(view, id)
            : (struct cop__entry){.id = id, .role = COP_SPARE, .presence = COP_LEFT};
    return &walk->spare;
}

/* The next of whom they say different things: `was` and `is`. False: there is none. */
static bool walk_on(struct walk *walk)
{
    const struct cop_view *old = walk->old, *new = walk->new;
    while (walk->i < old->count || walk->j < new->count) {
        const struct cop__entry *a = &old->changes[walk->i],
                                *b = &new->changes[walk->j];
        bool has_a = walk->i < old->count && (walk->j == new->count || a->id <= b->id);
        bool has_b = walk->j < new->count && (walk->i == old->count || b->id <= a->id);
        walk->i += has_a;
        walk->j += has_b;
        walk->was = has_a ? a : unchanged(walk, old, b->id);
        walk->is = has_b ? b : unchanged(walk, new, a->id);
        if (!same_entry(walk->was, walk->is))
            return true;
    }
    return false;
}

int cop__view_difference(const struct cop_view *base, const struct cop_view *view,
                         struct cop__delta *out)
{
    struct walk walk = walk_from(base, view, 0);
    *out = (struct cop__delta){0};
    while (walk_on(&walk)) {
        cop_buf_ref(walk.is->card);
        if (cop__delta_put(out, walk.is)) {
            cop__delta_free(out);
            return COP_ENOMEM;
        }
    }
    return 0;
}

uint32_t cop__view_common(const struct cop_view *of, const struct cop_view *in)
{
    uint32_t common = of->size;
    struct walk walk = walk_from(of, in, 0);
    while (walk_on(&walk))
        if (walk.was->presence == COP_PRESENT &&
            (walk.is->presence != COP_PRESENT ||
             walk.is->incarnation != walk.was->incarnation))
            common--;
    return common;
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
    else if (here_now && is_drained(was) != is_drained(is))
        out->kind = is_drained(is) ? COP_VIEW_DRAINED : COP_VIEW_UNDRAINED;
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
    for (bool roles = *at >> 32 != 0;; roles = true) {
        struct walk walk = walk_from(old, new, (cop_id)*at);
        while (walk_on(&walk)) {
            *at = ((uint64_t)roles << 32) + walk.is->id + 1;
            *out = (struct cop_view_change){.old_worker = COP_ID_NONE,
                                            .new_worker = COP_ID_NONE};
            if (roles ? judge_role(old, walk.was, walk.is, out)
                      : judge_change(walk.was, walk.is, out))
                return true;
        }
        if (roles)
            return false;
        *at = UINT64_C(1) << 32;
    }
}
