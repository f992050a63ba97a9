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

/* What a wave is told by. */
struct made {
    struct cop_buf *old;  /* the state before it; NULL: nobody asks for that */
    struct cop_buf *news; /* what it has beside that, unless slots were folded */
    struct cop_buf *mine; /* the part of it that the back-end here gave */
};

static void set_state(struct cop__stream *stream, struct cop_buf *state)
{
    cop_buf_ref(state);
    cop_buf_unref(stream->state);
    stream->state = state;
}

static void fold(struct cop_node *node, struct cop__stream *stream)
{
    struct cop__stream_slot *slot;
    set_state(stream, stream->residue);
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
    set_state(stream, stream->empty);
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

/* Of a whole wave: with all that its own back-end gave, among the departed, as what it would leave. */
static struct cop_buf *write_whole(struct cop_node *node,
                                   const struct cop__stream *stream, uint8_t flags)
{
    struct cop__departed set = {0};
    struct cop__gone_leaf mine = {node->self, node->incarnation, stream->own.wave,
                                  stream->own.state};
    cop__departed_join(node, &set, &stream->all_departed);
    if (flags & VALUED)
        cop__departed_put(node, &set, &mine);
    size_t length = cop__lives_size(&stream->cover);
    struct cop_buf *buf = cop_buf_create((flags & NUMBERED ? 8u : 0u) + 4u + length +
                                         cop__departed_size(&set));
    if (buf) {
        struct cop__writer writer = cop__writer(buf->data, buf->length);
        if (flags & NUMBERED)
            cop__put_u64(&writer, stream->network->attempt);
        cop__put_u32(&writer, (uint32_t)length);
        cop__lives_write(&writer, &stream->cover);
        cop__departed_write(&writer, &set);
        COP_ASSERT(!writer.failed && writer.at == writer.end);
    } else {
        cop__fail(node, COP_ENOMEM);
    }
    cop__departed_free(&set);
    return buf;
}

/* Of a difference, into a buffer that is long enough. */
static uint32_t write_beside(const struct cop__stream *stream, uint8_t flags,
                             const struct cop_buf *said, const struct cop_buf *mine,
                             uint8_t *out)
{
    uint32_t length = 0;
    if (flags & NUMBERED) {
        cop__store64(out, stream->network->attempt);
        length = 8;
    }
    if (flags & VALUED)
        length += cop__beside_write(said, mine, out + length);
    return length;
}

static uint8_t flags_of(struct cop__stream *stream, bool whole,
                        const struct cop_buf *mine)
{
    bool valued = says_value(stream) && (whole || mine != stream->empty);
    return (uint8_t)((whole ? WHOLE : 0) | (stream->partial ? PARTIAL : 0) |
                     (is_idle(stream) ? IDLE : 0) | (stream->doubled ? DOUBLED : 0) |
                     (stream->network->attempt ? NUMBERED : 0) | (valued ? VALUED : 0));
}

/*
 * The rest of a frame is what is there for healing alone, so that a wave on an ordinary day has
 * next to nothing of it: the number of an attachment that was not the first; whom a whole wave
 * covers, and who departed; and what the sender gave itself.
 */
static void send_wave(struct cop_node *node, struct cop__stream *stream,
                      const struct cop_buf *said, bool whole,
                      const struct cop_buf *mine)
{
    uint8_t few[64];
    struct cop_buf *many = NULL;
    struct cop__msg_wave message = {
        .stream = stream->key,
        .wave = stream->wave,
        .got = cop__stream_got_now(stream),
        .flags = flags_of(stream, whole, mine),
        .state = {said->data, said->length},
        .rest = {few, 0},
    };
    if (whole) {
        many = write_whole(node, stream, message.flags);
        stream->value_said = message.flags & VALUED;
    } else if (message.flags & VALUED && mine->length > sizeof few - 16) {
        many = cop_buf_create((size_t)mine->length + 16);
        if (!many)
            cop__fail(node, COP_ENOMEM);
    }
    if (node->failed)
        return;
    if (many)
        message.rest = (struct cop__bytes){many->data, many->length};
    if (!whole && message.flags & (NUMBERED | VALUED))
        message.rest.length =
            write_beside(stream, message.flags, said, mine, many ? many->data : few);
    cop__roster_send(node, stream->network->parent, COP__KIND_WAVE,
                     cop__encode_wave(&message));
    cop_buf_unref(many);
    stream->silent = false;
}

/* T9: what is new of it says nothing to a parent that has not heard what was before, or that would
 * take it to be of another wave. */
static bool lacks_value(const struct cop__stream *stream, const struct cop_buf *mine)
{
    return says_value(stream) && mine != stream->empty &&
           (!stream->value_said || stream->own.wave != stream->wave);
}

/* Up, or to the front-end. An orphan's output is subsumed by its state (T6). */
static void send_on(struct cop_node *node, struct cop__stream *stream,
                    const struct made *made, bool whole)
{
    struct cop_buf *more = NULL;
    if (stream->network->is_root) {
        cop__front_output(node, stream, made->old ? NULL : made->news);
        return;
    }
    if (!stream->network->adopted)
        return;
    whole = whole || stream->silent || lacks_value(stream, made->mine);
    const struct cop_buf *said = whole || stream->replaces ? stream->state : made->news;
    if (!whole && made->old) {
        whole = cop_filter_diff(stream->filter, stream->state, made->old, &more) != 0;
        said = whole ? stream->state : more;
    }
    send_wave(node, stream, said, whole, made->mine);
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

/* Nobody else is in it: the state is that of the back-end here. */
static bool is_alone(const struct cop__stream *stream)
{
    return stream->slot_count == 0 && stream->residue == stream->empty && !stream->lean;
}

/* The state becomes that of this wave; whole waves that waited make the stream dirty. */
static void join_all(struct cop_node *node, struct cop__stream *stream, uint64_t wave,
                     struct made *made)
{
    struct cop__stream_slot *slot;
    bool alone = is_alone(stream);
    /* So that one has the state of the back-end, who can write over it. */
    if (alone && !made->old)
        set_state(stream, stream->empty);
    cop__slot_apply(node, stream, &stream->own, wave, &made->mine);
    for (uint32_t i = 1; (slot = source(stream, i)) != NULL && !node->failed; i++)
        cop__slot_apply(node, stream, slot, wave, &made->news);
    if (!stream->replaces && !node->failed)
        cop__state_join(node, stream, &made->news, made->mine);
    if (stream->dirty) {
        fold(node, stream);
        stream->output_whole = true;
    } else if (stream->replaces) {
        fold_anew(node, stream);
    } else if (alone) {
        set_state(stream, stream->own.state);
    } else if (!node->failed) {
        cop__state_join(node, stream, &stream->state, made->news);
    }
    if (stream->stages && !node->failed)
        cop__stages_close(node, stream);
}

static void make(struct cop_node *node, struct cop__stream *stream, uint64_t wave)
{
    if (cop__stream_is_fragile(stream))
        slim(node, stream, wave);
    if (stream->broken)
        return;
    struct made made = {.old = cop__stream_asks_for_difference(stream)
                                   ? cop_buf_ref(stream->state)
                                   : NULL,
                        .news = cop_buf_ref(stream->empty),
                        .mine = cop_buf_ref(stream->empty)};
    join_all(node, stream, wave, &made);
    /* T22: nobody is told of what is not all of it */
    if (!stream->broken) {
        bool whole = stream->dirty;
        stream->dirty = stream->forced = false;
        stream->made = true;
        stream->wave = wave;
        stream->partial = is_partial(stream, wave);
        cop__timer_cancel(node, &stream->timer);
        if (!node->failed)
            send_on(node, stream, &made, whole);
        COP__COUNT(node, stream_waves);
    }
    cop_buf_unref(made.old);
    cop_buf_unref(made.news);
    cop_buf_unref(made.mine);
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
        send_wave(node, stream, stream->state, true, stream->empty);
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

/* What follows a wave. False: it does not go with the flags. */
struct rest {
    uint64_t number;
    struct cop__bytes cover, departed, beside;
};

static bool read_rest(const struct cop__msg_wave *message, struct rest *out)
{
    struct cop__reader reader = cop__reader(message->rest.data, message->rest.length);
    bool whole = message->flags & WHOLE;
    *out = (struct rest){0};
    if (message->flags & NUMBERED)
        out->number = cop__get_u64(&reader);
    if (whole)
        out->cover = cop__get_bytes(&reader);
    if (reader.failed)
        return false;
    struct cop__bytes left = {reader.at, (uint32_t)(reader.end - reader.at)};
    if (whole)
        out->departed = left;
    else
        out->beside = left;
    return whole || (left.length > 0) == ((message->flags & VALUED) != 0);
}

/* The state, with what the sender gave itself behind it. */
static bool read_state(struct cop_node *node, struct cop__stream *stream,
                       struct cop_span state, struct cop__bytes beside,
                       struct cop__pending *out)
{
    int error = 0;
    if (beside.length > 0)
        error = cop__beside_read(state, beside, out);
    else if (!(out->state = cop_buf_copy(state.bytes, state.length)))
        error = COP_ENOMEM;
    if (error == COP_ENOMEM)
        cop__fail(node, COP_ENOMEM);
    return error != COP_EMALFORMED &&
           (!out->beside || cop__state_check(node, stream, cop__beside(out)));
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
        !cop__state_check(node, stream, state))
        return false;
    if (cop__lives_read(node, rest->cover, &out->cover) &&
        cop__departed_read(node, stream, rest->departed, &out->departed) &&
        read_state(node, stream, state, rest->beside, out))
        return true;
    cop__pending_free(out);
    return false;
}

/* T12: who gave this wave had heard that the one a window before it was taken. I need not have, for
 * another parent may have told it so; and if that, front-end and root are gone nobody else will tell me. */
static void hear_of_mark(struct cop_node *node, struct cop__stream *stream,
                         uint64_t wave)
{
    if (wave > stream->mark + stream->window)
        cop__stream_set_mark(node, stream, wave - stream->window, stream->down_mark);
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
        if (pending.whole)
            pending.value = cop__departed_take(&pending.departed, header->sender,
                                               header->sender_incarnation);
        bool got = slot->got != message.got;
        slot->got = message.got;
        hear_of_mark(node, stream, message.wave);
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
