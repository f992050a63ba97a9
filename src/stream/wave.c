/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/state.h"

#include "filter/filter.h"
#include "roster/roster.h"

#include <string.h>

enum { WHOLE = 1, PARTIAL = 2, IDLE = 4, DOUBLED = 8, NUMBERED = 16, VALUED = 32 };
#define FLAGS_ALL 63u

/* ---- which wave is next (T4) ----------------------------------------------------- */

static uint64_t top_of(const struct cop__stream_slot *slot)
{
    return slot->pending_count ? cop__slot_at(slot, slot->pending_count - 1)->wave
                               : slot->wave;
}

/* The i-th that packets come from; the first is the back-end here. NULL at the end. */
static struct cop__stream_slot *source(struct cop__stream *stream, uint32_t i)
{
    if (i == 0)
        return &stream->own;
    return i <= stream->slot_count ? &stream->slots[i - 1] : NULL;
}

/* All have exactly this one; a slot that skipped it moves all to a later one. */
static uint64_t align(struct cop__stream *stream, uint64_t wave)
{
    struct cop__stream_slot *slot;
    for (uint32_t i = 0; (slot = source(stream, i)) != NULL;) {
        uint64_t next = slot->idle ? wave : cop__slot_next(slot, wave);
        if (next == UINT64_MAX)
            return UINT64_MAX;
        i = next == wave ? i + 1 : 0;
        wave = next;
    }
    return wave;
}

/* Without waiting for all: the first that anybody has, or the last. */
static uint64_t any_wave(struct cop__stream *stream)
{
    uint64_t first = UINT64_MAX, last = 0;
    struct cop__stream_slot *slot;
    for (uint32_t i = 0; (slot = source(stream, i)) != NULL; i++) {
        if (slot->idle || !slot->heard)
            continue;
        uint64_t next = cop__slot_next(slot, stream->wave + 1);
        if (next < first)
            first = next;
        if (top_of(slot) > last)
            last = top_of(slot);
    }
    return stream->sync == COP_SYNC_NONE && first != UINT64_MAX ? last : first;
}

/* T14: where not all are waited for, who comes late is joined to what has gone already. */
static void notice_late(struct cop__stream *stream)
{
    struct cop__stream_slot *slot;
    for (uint32_t i = 0; (slot = source(stream, i)) != NULL; i++)
        if (slot->pending_count > 0 && cop__slot_at(slot, 0)->wave <= stream->wave)
            stream->dirty = true;
}

/* The wave that can be made now; UINT64_MAX: none. */
static uint64_t next_wave(struct cop__stream *stream)
{
    if (stream->sync != COP_SYNC_ALL)
        notice_late(stream);
    uint64_t wave = stream->dirty ? 0 : stream->wave + 1;
    bool active = false, waits = false;
    struct cop__stream_slot *slot;
    for (uint32_t i = 0; (slot = source(stream, i)) != NULL; i++) {
        waits = waits || !slot->heard;
        active = active || !slot->idle;
        if (!slot->idle && slot->wave > wave)
            wave = slot->wave;
    }
    if (!active)
        return stream->dirty ? stream->wave : UINT64_MAX;
    uint64_t all = waits ? UINT64_MAX : align(stream, wave);
    if (all != UINT64_MAX || (stream->sync != COP_SYNC_NONE && !stream->forced))
        return all;
    uint64_t some = any_wave(stream);
    /* What came late is joined to what has gone, even if a new child has yet to speak. */
    return some == UINT64_MAX && stream->dirty && (!waits || stream->made)
               ? stream->wave
               : some;
}

/* ---- making it ------------------------------------------------------------------- */

static void fold(struct cop_node *node, struct cop__stream *stream)
{
    struct cop__stream_slot *slot;
    cop_buf_unref(stream->state);
    stream->state = cop_buf_ref(stream->residue);
    cop__lives_free(&stream->cover);
    stream->is_surveyed = false;
    if (stream->stages)
        cop__stages_forget(stream);
    cop__departed_free(&stream->all_departed);
    cop__departed_join(node, &stream->all_departed, &stream->departed);
    stream->doubled = false;
    for (uint32_t i = 0; (slot = source(stream, i)) != NULL && !node->failed; i++) {
        if (!slot->heard)
            continue;
        cop__state_join(node, stream, &stream->state, slot->state);
        stream->doubled = cop__lives_add(node, &stream->cover, &slot->cover) ||
                          slot->doubled || stream->doubled;
        cop__departed_join(node, &stream->all_departed, &slot->departed);
    }
}

/* T17, T20: those who are in it stay the same; what they gave does not. */
static void fold_anew(struct cop_node *node, struct cop__stream *stream)
{
    struct cop__stream_slot *slot;
    cop_buf_unref(stream->state);
    stream->state = cop_buf_ref(stream->empty);
    for (uint32_t i = 0; (slot = source(stream, i)) != NULL && !node->failed; i++)
        if (slot->heard)
            cop__state_join(node, stream, &stream->state, slot->state);
}

static bool is_partial(struct cop__stream *stream, uint64_t wave)
{
    struct cop__stream_slot *slot;
    for (uint32_t i = 0; (slot = source(stream, i)) != NULL; i++)
        if (!slot->idle && (!slot->heard || slot->partial || slot->wave != wave))
            return true;
    return false;
}

static bool is_idle(struct cop__stream *stream)
{
    struct cop__stream_slot *slot;
    for (uint32_t i = 0; (slot = source(stream, i)) != NULL; i++)
        if (!slot->idle)
            return false;
    return true;
}

/* T9: who carries others says with each wave what its own back-end gave, which its parent could
 * not tell from the sum when it is lost. */
static bool says_value(const struct cop__stream *stream)
{
    return stream->is_back_end && stream->slot_count > 0 &&
           !cop__stream_is_single(stream) && !cop__stream_is_fragile(stream) &&
           !(stream->flags & COP_STREAM_WITHDRAW) &&
           !(stream->filter->flags & COP_FILTER_IDEMPOTENT);
}

/*
 * What is there for healing alone, so that a wave on an ordinary day has none of it: the number of
 * an attachment that was not the first; whom a whole wave covers, and who departed; and the
 * sender's own value.
 */
static struct cop_buf *write_rest(struct cop_node *node,
                                  const struct cop__stream *stream, uint8_t flags)
{
    bool whole = flags & WHOLE;
    struct cop__lives lives = whole ? stream->cover : (struct cop__lives){0};
    struct cop__departed set = {0};
    struct cop__gone_leaf mine = {node->self, node->incarnation, stream->own.wave,
                                  stream->own.state};
    if (whole)
        cop__departed_join(node, &set, &stream->all_departed);
    if (flags & VALUED)
        cop__departed_put(node, &set, &mine);
    size_t length = cop__lives_size(&lives), gone = cop__departed_size(&set);
    size_t heads = (flags & NUMBERED ? 8u : 0u) + (whole ? 4u : 0u);
    struct cop_buf *buf = cop_buf_create(heads + length + gone);
    if (buf) {
        struct cop__writer writer = cop__writer(buf->data, buf->length);
        if (flags & NUMBERED)
            cop__put_u64(&writer, stream->network->attempt);
        if (whole)
            cop__put_u32(&writer, (uint32_t)length);
        cop__lives_write(&writer, &lives);
        cop__departed_write(&writer, &set);
        COP_ASSERT(!writer.failed && writer.at == writer.end);
    } else {
        cop__fail(node, COP_ENOMEM);
    }
    cop__departed_free(&set);
    return buf;
}

static void send_wave(struct cop_node *node, struct cop__stream *stream,
                      const struct cop_buf *state, bool whole)
{
    struct cop__network *network = stream->network;
    struct cop__msg_wave message = {
        .stream = stream->key,
        .wave = stream->wave,
        .got = cop__stream_got_now(stream),
        .flags =
            (uint8_t)((whole ? WHOLE : 0) | (stream->partial ? PARTIAL : 0) |
                      (is_idle(stream) ? IDLE : 0) | (stream->doubled ? DOUBLED : 0) |
                      (network->attempt ? NUMBERED : 0) |
                      (says_value(stream) ? VALUED : 0)),
        .state = {state->data, state->length},
    };
    struct cop_buf *rest = NULL;
    if (message.flags & (WHOLE | NUMBERED | VALUED)) {
        rest = write_rest(node, stream, message.flags);
        if (node->failed)
            return;
        message.rest = (struct cop__bytes){rest->data, rest->length};
    }
    cop__roster_send(node, network->parent, COP__KIND_WAVE, cop__encode_wave(&message));
    cop_buf_unref(rest);
    stream->silent = false;
}

/* Up, or to the front-end. An orphan's output is subsumed by its state (T6). */
static void send_on(struct cop_node *node, struct cop__stream *stream,
                    struct cop_buf *old, bool whole)
{
    struct cop_buf *more = NULL;
    if (stream->network->is_root) {
        cop__front_output(node, stream);
        return;
    }
    if (!stream->network->adopted)
        return;
    whole = whole || stream->silent;
    bool differs = !whole && !stream->replaces;
    if (differs && cop_filter_diff(stream->filter, stream->state, old, &more))
        whole = true;
    send_wave(node, stream, more ? more : stream->state, whole);
    cop_buf_unref(more);
}

/* Whether slots have to be folded for this wave, and not only what is new in them. */
static bool must_fold(struct cop__stream *stream, uint64_t wave)
{
    struct cop__stream_slot *slot;
    for (uint32_t i = 0; !stream->dirty && (slot = source(stream, i)) != NULL; i++)
        for (uint32_t j = 0; j < slot->pending_count; j++)
            if (cop__slot_at(slot, j)->whole && cop__slot_at(slot, j)->wave <= wave)
                return true;
    return stream->dirty;
}

/* T19: as long as nobody comes or goes the sum of what is new is all that anybody asks for. */
static void slim(struct cop_node *node, struct cop__stream *stream, uint64_t wave)
{
    bool folds = must_fold(stream, wave);
    if (folds && stream->lean)
        cop__stream_break(node, stream, COP_ELOST);
    stream->lean = !folds && !stream->replaces;
}

/* The state becomes that of this wave; whole waves that waited make the stream dirty. */
static void join_all(struct cop_node *node, struct cop__stream *stream, uint64_t wave)
{
    struct cop_buf *sum = cop_buf_ref(stream->empty);
    struct cop__stream_slot *slot;
    for (uint32_t i = 0; (slot = source(stream, i)) != NULL && !node->failed; i++)
        cop__slot_apply(node, stream, slot, wave, &sum);
    if (stream->dirty) {
        fold(node, stream);
        stream->output_whole = true;
    } else if (stream->replaces) {
        fold_anew(node, stream);
    } else if (stream->slot_count == 0 && stream->residue == stream->empty &&
               !stream->lean) {
        cop_buf_unref(stream->state);
        stream->state = cop_buf_ref(stream->own.state); /* nobody else is in it */
    } else if (!node->failed) {
        cop__state_join(node, stream, &stream->state, sum);
    }
    if (stream->stages && !node->failed)
        cop__stages_close(node, stream);
    cop_buf_unref(sum);
}

static void make(struct cop_node *node, struct cop__stream *stream, uint64_t wave)
{
    if (cop__stream_is_fragile(stream))
        slim(node, stream, wave);
    if (stream->broken)
        return;
    struct cop_buf *old = cop_buf_ref(stream->state);
    join_all(node, stream, wave);
    if (stream->broken) {
        cop_buf_unref(old);
        return; /* T22: nobody is told of what is not all of it */
    }
    bool whole = stream->dirty;
    stream->dirty = stream->forced = false;
    stream->made = true;
    stream->wave = wave;
    stream->partial = is_partial(stream, wave);
    cop__timer_cancel(node, &stream->timer);
    if (!node->failed)
        send_on(node, stream, old, whole);
    cop_buf_unref(old);
    COP__COUNT(node, stream_waves);
}

static bool has_waiting(struct cop__stream *stream)
{
    struct cop__stream_slot *slot;
    for (uint32_t i = 0; (slot = source(stream, i)) != NULL; i++)
        if (slot->pending_count > 0)
            return true;
    return false;
}

void cop__stream_advance(struct cop_node *node, struct cop__stream *stream)
{
    uint64_t wave;
    bool moved = false;
    while (!node->failed && !stream->broken &&
           (wave = next_wave(stream)) != UINT64_MAX) {
        make(node, stream, wave);
        moved = true;
    }
    if (node->failed || stream->broken)
        return;
    if (moved) {
        cop__stream_credit(node, stream);
        cop__stream_got(node, stream);
    }
    /* What could not be made when the time was over needs something new, not more time. */
    if (stream->sync == COP_SYNC_TIMEOUT && !stream->forced && has_waiting(stream) &&
        !cop__timer_is_running(&stream->timer.timer))
        cop__timer_set(node, &stream->timer, node->now + stream->timeout_ns);
}

void cop__stream_timer(struct cop_node *node, struct cop__node_timer *timer)
{
    struct cop__stream *stream = (struct cop__stream *)(void *)timer;
    if (stream->broken) {
        cop__network_close(node, stream, COP_ID_NONE);
        return;
    }
    stream->forced = true;
    cop__stream_advance(node, stream);
    stream->forced = false;
}

/* Who has just got children, and knows nothing of them yet, says it when it does. */
static bool waits_for_first(const struct cop__stream *stream)
{
    for (uint32_t i = 0; i < stream->slot_count; i++)
        if (!stream->slots[i].heard)
            return true;
    return false;
}

void cop__stream_restate(struct cop_node *node, struct cop__stream *stream)
{
    stream->silent = true;
    stream->got_said = 0;
    if (stream->made && !stream->broken && stream->network->adopted &&
        !waits_for_first(stream))
        send_wave(node, stream, stream->state, true);
    cop__stream_got(node, stream);
}

/* ---- what comes in --------------------------------------------------------------- */

/* T1: who gives has yet to hear that its stream gave way to the elder of its number. */
static bool is_for_another(const struct cop__stream *stream,
                           const struct cop_request *request)
{
    return request->key != 0 && request->key != stream->key;
}

/* T12: a back-end is ahead of the front-end by no more than the window. */
int cop__stream_put(struct cop_node *node, struct cop__stream *stream,
                    const struct cop_request *request)
{
    uint64_t top = top_of(&stream->own);
    if (!stream->announced || is_for_another(stream, request))
        return COP_ESTATE;
    if (top >= stream->mark + stream->window) {
        stream->wants_room = true;
        return COP_EAGAIN;
    }
    struct cop_packet packet = {
        .type = stream->type,
        .leaf = node->self,
        .wave = top + 1,
        .data = {request->bytes, request->length},
    };
    struct cop__pending pending = {.wave = top + 1};
    bool is_short;
    int error = cop__filter_lift(stream->filter, stream->empty, &packet, &is_short,
                                 &pending.state);
    if (is_short)
        cop__fail(node, COP_ENOMEM);
    /* T22: the packet is not taken. A step says COP_ENOMEM of nothing but its node. */
    if (error)
        return error == COP_ENOMEM ? COP_EBUG : error;
    cop__slot_push(node, stream, &stream->own, &pending);
    cop__stream_advance(node, stream);
    if (!node->failed)
        cop__adopt_watch(node, stream->network);
    return 0;
}

/* What follows a wave, as write_rest makes it. False: it does not go with the flags. */
struct rest {
    uint64_t number;
    struct cop__bytes cover, departed;
};

static bool read_rest(const struct cop__msg_wave *message, struct rest *out)
{
    struct cop__reader reader = cop__reader(message->rest.data, message->rest.length);
    *out = (struct rest){0};
    if (message->flags & NUMBERED)
        out->number = cop__get_u64(&reader);
    if (message->flags & WHOLE)
        out->cover = cop__get_bytes(&reader);
    if (reader.failed)
        return false;
    out->departed = (struct cop__bytes){reader.at, (uint32_t)(reader.end - reader.at)};
    return out->departed.length == 0 || message->flags & (WHOLE | VALUED);
}

static bool read_wave(struct cop_node *node, struct cop__stream *stream,
                      const struct cop__msg_wave *message, const struct rest *rest,
                      struct cop__pending *out)
{
    struct cop_span state = {message->state.data, message->state.length};
    *out = (struct cop__pending){
        .wave = message->wave,
        .whole = message->flags & WHOLE,
        .partial = message->flags & PARTIAL,
        .idle = message->flags & IDLE,
        .doubled = message->flags & DOUBLED,
    };
    if (message->flags > FLAGS_ALL || message->wave >= UINT64_MAX - 1 ||
        !cop__state_check(node, stream, state) ||
        !cop__lives_read(node, rest->cover, &out->cover))
        return false;
    if (!cop__departed_read(node, stream, rest->departed, &out->departed)) {
        cop__lives_free(&out->cover);
        return false;
    }
    out->state = cop_buf_copy(state.bytes, state.length);
    if (!out->state)
        cop__fail(node, COP_ENOMEM);
    return true;
}

void cop__on_wave(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_wave message;
    struct cop__pending pending;
    struct rest rest;
    const struct cop_header *header = &frame->header;
    if (cop__decode_wave(frame->payload->data, frame->payload->length, &message) ||
        !read_rest(&message, &rest)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    if (cop__network_is_early(node, frame))
        return;
    struct cop__stream *stream = cop__stream_named(node, message.stream);
    struct cop__stream_slot *slot =
        stream ? cop__slot_find(stream, header->sender) : NULL;
    if (!slot || slot->number != rest.number ||
        slot->incarnation != header->sender_incarnation) {
        COP__COUNT(node, ignored_not_below);
        if (stream)
            cop__detach_send(node, stream->network->number, header->sender,
                             rest.number);
    } else if (!read_wave(node, stream, &message, &rest, &pending)) {
        if (!stream->broken)
            COP__COUNT(node, ignored_malformed);
    } else if (!node->failed) {
        pending.value = cop__departed_take(&pending.departed, header->sender,
                                           header->sender_incarnation);
        bool got = slot->got != message.got;
        slot->got = message.got;
        if (pending.whole)
            cop__report_compare(node, stream->network, slot->id, &pending.cover);
        cop__slot_push(node, stream, slot, &pending);
        cop__stream_credit_one(node, stream, slot);
        cop__stream_advance(node, stream);
        if (got && !node->failed)
            cop__stream_got(node, stream);
        if (!node->failed)
            cop__adopt_watch(node, stream->network);
    } else {
        cop__pending_free(&pending);
    }
}
