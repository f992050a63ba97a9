/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/state.h"

#include "filter/filter.h"

#include <stdlib.h>
#include <string.h>

/* One slot for each child: its state up to a wave, and the waves that wait (T4). */

void cop__pending_free(struct cop__pending *pending)
{
    cop_buf_unref(pending->state);
    cop__lives_free(&pending->cover);
    cop__departed_free(&pending->departed);
    cop_buf_unref(pending->value.state);
    *pending = (struct cop__pending){0};
}

void cop__slot_fini(struct cop__stream_slot *slot)
{
    for (uint32_t i = 0; i < slot->pending_count; i++)
        cop__pending_free(cop__slot_at(slot, i));
    free(slot->pending);
    cop_buf_unref(slot->state);
    cop__lives_free(&slot->cover);
    cop__departed_free(&slot->departed);
    cop_buf_unref(slot->value.state);
    *slot = (struct cop__stream_slot){0};
}

/* ---- calls of the filter (T22) --------------------------------------------------- */

void cop__stream_break(struct cop_node *node, struct cop__stream *stream, int status)
{
    if (!stream->broken)
        stream->status = status;
    stream->broken = true;
    cop__timer_set(node, &stream->timer, node->now);
}

/* What a filter says is its own affair, and that of its stream, but for want of memory here. */
static void on_failure(struct cop_node *node, struct cop__stream *stream, bool is_short,
                       int error)
{
    if (is_short)
        cop__fail(node, COP_ENOMEM);
    else
        cop__stream_break(node, stream, error);
}

void cop__state_join(struct cop_node *node, struct cop__stream *stream,
                     struct cop_buf **state, struct cop_buf *with)
{
    struct cop_buf *sum;
    bool is_short = false;
    int error = 0;
    struct cop_span more = {with->data, with->length};
    if (stream->broken || cop__filter_absorb(stream->filter, *state, more))
        return;
    if (*state == stream->empty)
        sum = cop_buf_ref(with); /* what any filter would make of the two */
    else
        error = cop__filter_join(stream->filter, *state, with, &is_short, &sum);
    if (error) {
        on_failure(node, stream, is_short, error);
        return;
    }
    cop_buf_unref(*state);
    *state = sum;
}

bool cop__state_check(struct cop_node *node, struct cop__stream *stream,
                      struct cop_span state)
{
    bool is_short;
    int error = cop__filter_check(stream->filter, stream->empty, state, &is_short);
    bool is_of_peer =
        error == COP_EMALFORMED || error == COP_EINVAL || error == COP_ETOOBIG;
    if (error && !is_of_peer)
        on_failure(node, stream, is_short, error);
    return error == 0;
}

/* ---- slots ----------------------------------------------------------------------- */

static uint32_t place(const struct cop__stream *stream, cop_id id)
{
    uint32_t low = 0, high = stream->slot_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (stream->slots[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct cop__stream_slot *cop__slot_find(const struct cop__stream *stream, cop_id id)
{
    uint32_t at = place(stream, id);
    return at < stream->slot_count && stream->slots[at].id == id ? &stream->slots[at]
                                                                 : NULL;
}

struct cop__stream_slot *cop__slot_add(struct cop_node *node,
                                       struct cop__stream *stream,
                                       const struct cop__stream_child *child)
{
    if (stream->slot_count == stream->slot_capacity) {
        uint32_t capacity = stream->slot_capacity ? 2 * stream->slot_capacity : 4;
        void *grown = realloc(stream->slots, capacity * sizeof *stream->slots);
        if (!grown) {
            cop__fail(node, COP_ENOMEM);
            return NULL;
        }
        stream->slots = grown;
        stream->slot_capacity = capacity;
    }
    /* T19: what somebody missed nobody has kept, even if it comes back. */
    if (cop__stream_is_fragile(stream) && stream->down > 0)
        cop__stream_break(node, stream, COP_ELOST);
    uint32_t at = place(stream, child->id);
    memmove(stream->slots + at + 1, stream->slots + at,
            (stream->slot_count - at) * sizeof *stream->slots);
    stream->slot_count++;
    stream->slots[at] = (struct cop__stream_slot){
        .id = child->id,
        .incarnation = child->incarnation,
        .number = child->number,
        .state = cop_buf_ref(stream->empty),
        .got = stream->down_mark,
        .credited = stream->mark,
        .reached = stream->down_mark,
    };
    return &stream->slots[at];
}

/* ---- what stays of one that is gone (T8, T9) ------------------------------------- */

static bool is_lone_leaf(const struct cop__stream *stream,
                         const struct cop__stream_slot *slot)
{
    return slot->heard && !slot->idle && slot->cover.count == 1 &&
           slot->cover.items[0].first == slot->id && slot->cover.items[0].count == 1 &&
           cop__stream_has_back_end(stream, slot->id);
}

static void keep_value(struct cop_node *node, struct cop__stream *stream,
                       const struct cop__stream_slot *slot)
{
    bool lone = is_lone_leaf(stream, slot);
    if ((!lone && !slot->value.state) || stream->flags & COP_STREAM_WITHDRAW)
        return;
    struct cop__gone_leaf leaf = slot->value;
    if (lone)
        leaf = (struct cop__gone_leaf){slot->id, slot->incarnation, slot->wave,
                                       slot->state};
    /* Also of one that lives, and will be in another slot: then that counts, and not this. The
     * root may know before I do that it does not. */
    cop__departed_put(node, &stream->departed, &leaf);
}

void cop__slot_drop(struct cop_node *node, struct cop__stream *stream, cop_id id)
{
    struct cop__stream_slot *found = cop__slot_find(stream, id);
    if (!found)
        return;
    struct cop__stream_slot slot = *found;
    if (cop__stream_is_fragile(stream))
        cop__stream_break(node, stream, COP_ELOST);
    stream->slot_count--;
    memmove(found, found + 1,
            (size_t)(stream->slots + stream->slot_count - found) * sizeof *found);
    cop__slot_apply(node, stream, &slot, UINT64_MAX - 1, NULL);
    if (cop__stream_is_single(stream) || cop__stream_is_fragile(stream))
        ; /* it has no part in later waves; or there are none */
    else if (stream->filter->flags & COP_FILTER_IDEMPOTENT)
        cop__state_join(node, stream, &stream->residue, slot.state);
    else
        keep_value(node, stream, &slot);
    cop__departed_join(node, &stream->departed, &slot.departed);
    cop__slot_fini(&slot);
    stream->dirty = true;
}

/* ---- waves ----------------------------------------------------------------------- */

static void clear_from(struct cop__stream_slot *slot, uint64_t wave)
{
    while (slot->pending_count > 0 &&
           cop__slot_at(slot, slot->pending_count - 1)->wave >= wave)
        cop__pending_free(cop__slot_at(slot, --slot->pending_count));
    if (slot->pending_count == 0)
        slot->pending_first = 0;
}

static void join_value(struct cop_node *node, struct cop__stream *stream,
                       struct cop__gone_leaf *value, struct cop_span more)
{
    if (value->state && cop__filter_absorb(stream->filter, value->state, more))
        return;
    struct cop_buf *with = cop_buf_copy(more.bytes, more.length);
    if (!with) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    if (!value->state)
        value->state = cop_buf_ref(stream->empty);
    cop__state_join(node, stream, &value->state, with);
    cop_buf_unref(with);
}

/* What the child itself gave (T9), of a difference. */
static void take_value(struct cop_node *node, struct cop__stream *stream,
                       const struct cop__stream_slot *slot,
                       struct cop__gone_leaf *value, const struct cop__pending *from)
{
    const struct cop_buf *melted = from->value.state;
    if (from->beside)
        join_value(node, stream, value, cop__beside(from));
    else if (melted)
        join_value(node, stream, value,
                   (struct cop_span){melted->data, melted->length});
    else
        return;
    value->leaf = slot->id;
    value->incarnation = slot->incarnation;
    value->wave = from->beside ? from->wave : from->value.wave;
}

static void replace(struct cop__stream *stream, struct cop__stream_slot *slot,
                    struct cop__pending *with)
{
    cop_buf_unref(slot->state);
    cop__lives_free(&slot->cover);
    cop__departed_free(&slot->departed);
    slot->state = with->state;
    slot->cover = with->cover;
    slot->departed = with->departed;
    slot->idle = with->idle;
    slot->doubled = with->doubled;
    cop_buf_unref(slot->value.state);
    slot->value = with->value;
    slot->heard = true;
    stream->dirty = true;
    with->state = NULL;
    with->value = (struct cop__gone_leaf){0};
    with->cover = (struct cop__lives){0};
    with->departed = (struct cop__departed){0};
}

static bool append(struct cop_node *node, struct cop__stream_slot *slot,
                   struct cop__pending *pending)
{
    if (slot->pending_first > 0 &&
        slot->pending_first + slot->pending_count == slot->pending_capacity) {
        memmove(slot->pending, cop__slot_at(slot, 0),
                slot->pending_count * sizeof *slot->pending);
        slot->pending_first = 0;
    }
    if (slot->pending_count == slot->pending_capacity) {
        uint32_t capacity = slot->pending_capacity ? 2 * slot->pending_capacity : 2;
        void *grown = realloc(slot->pending, capacity * sizeof *slot->pending);
        if (!grown) {
            cop__fail(node, COP_ENOMEM);
            return false;
        }
        slot->pending = grown;
        slot->pending_capacity = capacity;
    }
    *cop__slot_at(slot, slot->pending_count++) = *pending;
    *pending = (struct cop__pending){0};
    return true;
}

/* Whether waves of it add up, or (T17, T20) the next is there instead of those before. */
static bool adds_up(const struct cop__stream *stream,
                    const struct cop__stream_slot *slot)
{
    return !stream->replaces ||
           (slot == &stream->own && !cop__stream_is_single(stream));
}

/* The packets of the next wave: with those before them, or instead of them. */
static void take_in(struct cop_node *node, struct cop__stream *stream,
                    const struct cop__stream_slot *slot, struct cop_buf **state,
                    struct cop_buf *with)
{
    if (adds_up(stream, slot)) {
        cop__state_join(node, stream, state, with);
        return;
    }
    cop_buf_unref(*state);
    *state = cop_buf_ref(with);
}

/* T12: more waves than the window are joined into the last of them: a child that does not keep to
 * its credit, or was given more of it elsewhere, costs no memory here. */
static void melt(struct cop_node *node, struct cop__stream *stream,
                 struct cop__stream_slot *slot, struct cop__pending *pending)
{
    struct cop__pending *last = cop__slot_at(slot, slot->pending_count - 1);
    if (pending->whole) {
        cop__pending_free(last);
        *last = *pending;
        *pending = (struct cop__pending){0};
        return;
    }
    /* What is behind the state has to leave before that becomes another; what has left it already
     * is where it belongs. */
    if (last->beside)
        take_value(node, stream, slot, &last->value, last);
    last->beside = 0;
    take_in(node, stream, slot, &last->state, pending->state);
    take_value(node, stream, slot, &last->value, pending);
    last->wave = pending->wave;
    last->partial = pending->partial;
}

void cop__slot_push(struct cop_node *node, struct cop__stream *stream,
                    struct cop__stream_slot *slot, struct cop__pending *pending)
{
    uint64_t top = slot->pending_count
                       ? cop__slot_at(slot, slot->pending_count - 1)->wave
                       : slot->wave;
    if (pending->whole &&
        (!slot->heard || slot->idle || pending->idle || pending->wave <= slot->wave)) {
        clear_from(slot, 0);
        slot->wave = pending->wave;
        slot->partial = pending->partial;
        replace(stream, slot, pending);
    } else if (pending->whole) {
        clear_from(slot, pending->wave);
        if (slot->pending_count >= stream->window)
            melt(node, stream, slot, pending);
        else
            append(node, slot, pending);
    } else if (!slot->heard || slot->idle || pending->wave <= top) {
        COP__COUNT(node, ignored_repeated);
    } else if (slot->pending_count >= stream->window) {
        melt(node, stream, slot, pending);
    } else {
        append(node, slot, pending);
    }
    cop__pending_free(pending);
}

uint64_t cop__slot_next(const struct cop__stream_slot *slot, uint64_t wave)
{
    if (slot->wave >= wave)
        return slot->wave;
    for (uint32_t i = 0; i < slot->pending_count; i++)
        if (cop__slot_at(slot, i)->wave >= wave)
            return cop__slot_at(slot, i)->wave;
    return UINT64_MAX;
}

void cop__slot_apply(struct cop_node *node, struct cop__stream *stream,
                     struct cop__stream_slot *slot, uint64_t wave, struct cop_buf **sum)
{
    while (slot->pending_count > 0 && cop__slot_at(slot, 0)->wave <= wave &&
           !node->failed) {
        struct cop__pending *pending = cop__slot_at(slot, 0);
        slot->wave = pending->wave;
        slot->partial = pending->partial;
        if (pending->whole) {
            replace(stream, slot, pending);
        } else {
            if (!stream->lean)
                take_in(node, stream, slot, &slot->state, pending->state);
            if (pending->beside || pending->value.state)
                take_value(node, stream, slot, &slot->value, pending);
            if (sum && !node->failed && adds_up(stream, slot))
                cop__state_join(node, stream, sum, pending->state);
        }
        cop__pending_free(pending);
        slot->pending_first++;
        slot->pending_count--;
    }
    if (slot->pending_count == 0)
        slot->pending_first = 0;
}
