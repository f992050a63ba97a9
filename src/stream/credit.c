/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/state.h"

#include "roster/roster.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/*
 * How far back-ends may go (T12), and packets of the front-end (T15). Marks go with the packets
 * down and with the waves up, if there are such; otherwise a moment later, by themselves.
 */

static uint64_t step_of(const struct cop__stream *stream)
{
    return stream->window / 4 ? stream->window / 4 : 1;
}

/* ---- what waits ------------------------------------------------------------------ */

bool cop__stream_owes_reached(const struct cop__stream *stream)
{
    for (uint32_t i = 0; i < stream->slot_count; i++)
        if (stream->slots[i].reached < stream->down_mark)
            return true;
    return false;
}

static cop_time patience_of(const struct cop__stream *stream)
{
    return stream->patience ? stream->patience : COP__HOLD;
}

static void wait_from(struct cop_node *node, struct cop__stream *stream,
                      cop_time *since)
{
    if (*since == 0)
        *since = node->now ? node->now : 1;
    if (!cop__timer_is_running(&stream->hold.timer))
        cop__timer_set(node, &stream->hold, *since + patience_of(stream));
}

/* It went with something else. */
static void waited_well(struct cop__stream *stream, cop_time *since)
{
    if (*since != 0 && patience_of(stream) < COP__HOLD_LONGEST)
        stream->patience = 2 * patience_of(stream);
    *since = 0;
}

/* ---- marks ----------------------------------------------------------------------- */

static void send_credit(struct cop_node *node, struct cop__stream *stream,
                        struct cop__stream_slot *slot)
{
    struct cop__msg_credit message = {
        .stream = stream->key,
        .mark = stream->mark,
        .down_mark = stream->down_mark,
    };
    slot->credited = message.mark;
    slot->reached = message.down_mark;
    cop__roster_send(node, slot->id, COP__KIND_CREDIT, cop__encode_credit(&message));
}

void cop__stream_credit_one(struct cop_node *node, struct cop__stream *stream,
                            struct cop__stream_slot *slot)
{
    uint64_t top = slot->pending_count
                       ? cop__slot_at(slot, slot->pending_count - 1)->wave
                       : slot->wave;
    /* Who has used all that it was given gets what there is: others may be ahead of it by less
     * than a step, and have skipped the wave at which it stands. */
    bool starves = stream->mark > slot->credited && slot->heard &&
                   top >= slot->credited + stream->window;
    if (stream->mark >= slot->credited + step_of(stream) || starves)
        send_credit(node, stream, slot);
}

void cop__stream_credit(struct cop_node *node, struct cop__stream *stream)
{
    for (uint32_t i = 0; i < stream->slot_count && !node->failed; i++)
        cop__stream_credit_one(node, stream, &stream->slots[i]);
    uint64_t top = stream->own.pending_count
                       ? cop__slot_at(&stream->own, stream->own.pending_count - 1)->wave
                       : stream->own.wave;
    if (stream->wants_room && top < stream->mark + stream->window) {
        stream->wants_room = false;
        cop__stream_tell(node, stream,
                         &(struct cop_stream_event){.kind = COP_STREAM_ROOM});
    }
}

static void forget_packets(struct cop__stream *stream)
{
    uint32_t count = 0;
    while (count < stream->packet_count &&
           stream->packets[count].number <= stream->down_mark)
        cop_buf_unref(stream->packets[count++].bytes);
    stream->packet_count -= count;
    if (count && stream->packet_count) /* most often there is no other */
        memmove(stream->packets, stream->packets + count,
                stream->packet_count * sizeof *stream->packets);
}

/* Without passing it on. */
static void take_marks(struct cop_node *node, struct cop__stream *stream, uint64_t mark,
                       uint64_t down_mark)
{
    if (mark > stream->mark)
        stream->mark = mark;
    if (down_mark <= stream->down_mark)
        return;
    stream->down_mark = down_mark;
    if (stream->down < down_mark)
        stream->down = down_mark;
    forget_packets(stream);
    if (stream->has_front)
        cop__stream_tell(
            node, stream,
            &(struct cop_stream_event){.kind = COP_STREAM_REACHED, .wave = down_mark});
}

static void pass_marks(struct cop_node *node, struct cop__stream *stream)
{
    cop__stream_credit(node, stream);
    if (cop__stream_owes_reached(stream))
        wait_from(node, stream, &stream->reached_since);
}

void cop__stream_set_mark(struct cop_node *node, struct cop__stream *stream,
                          uint64_t mark, uint64_t down_mark)
{
    take_marks(node, stream, mark, down_mark);
    if (!node->failed)
        pass_marks(node, stream);
}

void cop__on_credit(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_credit message;
    if (cop__decode_credit(frame->payload->data, frame->payload->length, &message)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    if (cop__network_is_early(node, frame))
        return;
    struct cop__stream *stream = cop__stream_named(node, message.stream);
    if (!stream || !stream->network->adopted ||
        stream->network->parent != frame->header.sender)
        COP__COUNT(node, ignored_not_ancestor);
    else
        cop__stream_set_mark(node, stream, message.mark, message.down_mark);
}

/* ---- packets down ---------------------------------------------------------------- */

static bool keep_packet(struct cop_node *node, struct cop__stream *stream,
                        uint64_t number, struct cop_buf *bytes)
{
    if (stream->packet_count == stream->packet_capacity) {
        uint32_t capacity = stream->packet_capacity ? 2 * stream->packet_capacity : 4;
        void *grown = realloc(stream->packets, capacity * sizeof *stream->packets);
        if (!grown) {
            cop__fail(node, COP_ENOMEM);
            return false;
        }
        stream->packets = grown;
        stream->packet_capacity = capacity;
    }
    stream->packets[stream->packet_count++] =
        (struct cop__packet){number, cop_buf_ref(bytes)};
    return true;
}

/* The same bytes for everybody below. NULL: no memory. */
static struct cop_buf *write_down(const struct cop__stream *stream,
                                  const struct cop__packet *packet)
{
    struct cop__msg_down message = {
        .stream = stream->key,
        .number = packet->number,
        .mark = stream->mark,
        .down_mark = stream->down_mark,
        .bytes = {packet->bytes->data, packet->bytes->length},
    };
    return cop__encode_down(&message);
}

/* Takes over the reference. */
static void pass_down(struct cop_node *node, const struct cop__stream *stream,
                      struct cop__stream_slot *slot, struct cop_buf *down)
{
    slot->credited = stream->mark;
    slot->reached = stream->down_mark;
    cop__roster_send(node, slot->id, COP__KIND_DOWN, down);
}

void cop__stream_catch_up(struct cop_node *node, struct cop__stream *stream,
                          cop_id child, uint64_t has)
{
    struct cop__stream_slot *slot = cop__slot_find(stream, child);
    for (uint32_t i = 0; slot && i < stream->packet_count && !node->failed; i++)
        if (stream->packets[i].number > has)
            pass_down(node, stream, slot, write_down(stream, &stream->packets[i]));
}

void cop__stream_down(struct cop_node *node, struct cop__stream *stream,
                      uint64_t number, struct cop_buf *bytes)
{
    /* T19: where no loss is survived nobody will ask for it again. */
    if (!cop__stream_is_fragile(stream) && !keep_packet(node, stream, number, bytes))
        return;
    stream->down = number;
    stream->delivered = true;
    struct cop_buf *down = NULL;
    if (stream->slot_count > 0)
        down = write_down(stream, &(struct cop__packet){number, bytes});
    for (uint32_t i = 0; i < stream->slot_count && !node->failed; i++)
        pass_down(node, stream, &stream->slots[i], cop_buf_ref(down));
    cop_buf_unref(down);
    /* Nobody below waits for what a filter makes of it here. */
    if (stream->is_back_end && stream->way)
        cop__way_deliver(node, stream, number, bytes);
    else if (stream->is_back_end)
        cop__stream_tell(node, stream,
                         &(struct cop_stream_event){.kind = COP_STREAM_DOWN,
                                                    .wave = number,
                                                    .bytes = bytes->data,
                                                    .length = bytes->length});
    waited_well(stream, &stream->reached_since);
    cop__stream_got(node, stream);
}

static void take_packet(struct cop_node *node, struct cop__stream *stream,
                        const struct cop__msg_down *message)
{
    struct cop_buf *bytes = cop_buf_copy(message->bytes.data, message->bytes.length);
    if (bytes)
        cop__stream_down(node, stream, message->number, bytes);
    else
        cop__fail(node, COP_ENOMEM);
    cop_buf_unref(bytes);
}

void cop__on_down(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_down message;
    if (cop__decode_down(frame->payload->data, frame->payload->length, &message)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    if (cop__network_is_early(node, frame))
        return;
    struct cop__stream *stream = cop__stream_named(node, message.stream);
    if (!stream || !stream->network->adopted ||
        stream->network->parent != frame->header.sender) {
        COP__COUNT(node, ignored_not_ancestor);
        return;
    }
    /* First, so that no more packets are kept than the window. */
    take_marks(node, stream, message.mark, message.down_mark);
    if (node->failed)
        return;
    if (message.number != stream->down + 1)
        COP__COUNT(node, ignored_repeated);
    else
        take_packet(node, stream, &message);
    if (!node->failed)
        pass_marks(node, stream);
}

/* ---- who has them ---------------------------------------------------------------- */

/* Forgotten is what all back-ends have; who is nowhere just now may yet ask for it. */
static void reach(struct cop_node *node, struct cop__stream *stream, uint64_t got)
{
    if (got > stream->down_mark && cop__stream_is_complete(node, stream))
        cop__stream_set_mark(node, stream, stream->mark, got);
}

/*
 * What all have whom the last whole wave covered. A slot in which another cover waits says it of
 * those; of these, and of whom a slot that is gone had covered, it is only known that they have
 * what everybody has.
 */
static uint64_t got_by_all(const struct cop__stream *stream)
{
    uint64_t got = stream->dirty ? stream->down_mark : stream->down;
    if (got <= stream->down_mark)
        return stream->down_mark; /* all have what there is, or it is not known */
    for (uint32_t i = 0; i < stream->slot_count; i++) {
        const struct cop__stream_slot *slot = &stream->slots[i];
        uint64_t its = slot->got;
        for (uint32_t j = 0; j < slot->pending_count; j++)
            if (cop__slot_at(slot, j)->whole)
                its = stream->down_mark;
        got = its < got ? its : got;
    }
    return got;
}

/* Of what has come to all nothing has to be said. */
static bool is_worth_saying(const struct cop__stream *stream, uint64_t got)
{
    return stream->network->adopted && got > stream->got_said &&
           got > stream->down_mark;
}

bool cop__stream_owes_got(const struct cop__stream *stream)
{
    return is_worth_saying(stream, got_by_all(stream));
}

uint64_t cop__stream_got_now(struct cop__stream *stream)
{
    stream->got_said = got_by_all(stream);
    waited_well(stream, &stream->got_since);
    return stream->got_said;
}

static void say_got(struct cop_node *node, struct cop__stream *stream)
{
    struct cop__msg_got message = {.stream = stream->key,
                                   .number = stream->network->attempt,
                                   .got = cop__stream_got_now(stream)};
    cop__roster_send(node, stream->network->parent, COP__KIND_GOT,
                     cop__encode_got(&message));
}

void cop__stream_got(struct cop_node *node, struct cop__stream *stream)
{
    uint64_t got = got_by_all(stream);
    if (stream->network->is_root)
        reach(node, stream, got);
    else if (!is_worth_saying(stream, got))
        return;
    else if (got >= stream->got_said + step_of(stream))
        say_got(node, stream);
    else
        wait_from(node, stream, &stream->got_since);
}

/* T15: what has found nothing to go with goes by itself; what is newer waits in its turn. */
void cop__stream_hold(struct cop_node *node, struct cop__node_timer *timer)
{
    struct cop__stream *stream =
        (struct cop__stream *)(void *)((char *)timer -
                                       offsetof(struct cop__stream, hold));
    bool up = !stream->network->is_root && cop__stream_owes_got(stream);
    bool down = cop__stream_owes_reached(stream);
    cop_time patience = patience_of(stream);
    if (up && stream->got_since + patience <= node->now) {
        say_got(node, stream);
        up = false;
        stream->patience = 0;
    }
    if (down && stream->reached_since + patience <= node->now) {
        stream->patience = 0;
        for (uint32_t i = 0; i < stream->slot_count && !node->failed; i++)
            if (stream->slots[i].reached < stream->down_mark)
                send_credit(node, stream, &stream->slots[i]);
        down = false;
    }
    if (!up)
        stream->got_since = 0;
    if (!down)
        stream->reached_since = 0;
    if (up)
        wait_from(node, stream, &stream->got_since);
    if (down)
        wait_from(node, stream, &stream->reached_since);
}

void cop__on_got(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_got message;
    if (cop__decode_got(frame->payload->data, frame->payload->length, &message)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    if (cop__network_is_early(node, frame))
        return;
    struct cop__stream *stream = cop__stream_named(node, message.stream);
    struct cop__stream_slot *slot =
        stream ? cop__slot_find(stream, frame->header.sender) : NULL;
    if (!slot || slot->number != message.number ||
        slot->incarnation != frame->header.sender_incarnation) {
        COP__COUNT(node, ignored_not_below);
        return;
    }
    slot->got = message.got;
    cop__stream_got(node, stream);
}
