/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/state.h"

#include "roster/roster.h"

#include <stdlib.h>
#include <string.h>

/* How far back-ends may go (T12), and packets of the front-end (T15). */

/* ---- marks ----------------------------------------------------------------------- */

static void send_credit(struct cop_node *node, struct cop__stream *stream,
                        struct cop__stream_slot *slot)
{
    struct cop__msg_credit message = {
        .stream = stream->number,
        .mark = stream->mark,
        .down_mark = stream->down_mark,
    };
    slot->credited = message.mark;
    cop__roster_send(node, slot->id, COP__KIND_CREDIT, cop__encode_credit(&message));
}

void cop__stream_credit_one(struct cop_node *node, struct cop__stream *stream,
                            struct cop__stream_slot *slot)
{
    uint64_t step = stream->window / 4 ? stream->window / 4 : 1;
    uint64_t top = slot->pending_count
                       ? cop__slot_at(slot, slot->pending_count - 1)->wave
                       : slot->wave;
    /* Who has used all that it was given gets what there is: others may be ahead of it by less
     * than a step, and have skipped the wave at which it stands. */
    bool starves = stream->mark > slot->credited && slot->heard &&
                   top >= slot->credited + stream->window;
    if (stream->mark >= slot->credited + step || starves)
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
    if (count)
        memmove(stream->packets, stream->packets + count,
                stream->packet_count * sizeof *stream->packets);
}

void cop__stream_set_mark(struct cop_node *node, struct cop__stream *stream,
                          uint64_t mark, uint64_t down_mark)
{
    if (mark > stream->mark)
        stream->mark = mark;
    if (down_mark > stream->down_mark) {
        stream->down_mark = down_mark;
        if (stream->down < down_mark)
            stream->down = down_mark;
        forget_packets(stream);
        for (uint32_t i = 0; i < stream->slot_count && !node->failed; i++)
            send_credit(node, stream, &stream->slots[i]);
        if (stream->has_front)
            cop__stream_tell(node, stream,
                             &(struct cop_stream_event){.kind = COP_STREAM_REACHED,
                                                        .wave = down_mark});
    }
    cop__stream_credit(node, stream);
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
    struct cop__stream *stream = cop__stream_find(node, message.stream);
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

static void pass_down(struct cop_node *node, const struct cop__stream *stream,
                      cop_id child, const struct cop__packet *packet)
{
    struct cop__msg_down message = {
        .stream = stream->number,
        .number = packet->number,
        .bytes = {packet->bytes->data, packet->bytes->length},
    };
    cop__roster_send(node, child, COP__KIND_DOWN, cop__encode_down(&message));
}

void cop__stream_catch_up(struct cop_node *node, struct cop__stream *stream,
                          cop_id child, uint64_t has)
{
    for (uint32_t i = 0; i < stream->packet_count && !node->failed; i++)
        if (stream->packets[i].number > has)
            pass_down(node, stream, child, &stream->packets[i]);
}

void cop__stream_down(struct cop_node *node, struct cop__stream *stream,
                      uint64_t number, struct cop_buf *bytes)
{
    if (!keep_packet(node, stream, number, bytes))
        return;
    stream->down = number;
    stream->delivered = true;
    if (stream->is_back_end)
        cop__stream_tell(node, stream,
                         &(struct cop_stream_event){.kind = COP_STREAM_DOWN,
                                                    .wave = number,
                                                    .bytes = bytes->data,
                                                    .length = bytes->length});
    for (uint32_t i = 0; i < stream->slot_count && !node->failed; i++)
        pass_down(node, stream, stream->slots[i].id,
                  &stream->packets[stream->packet_count - 1]);
    cop__stream_got(node, stream);
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
    struct cop__stream *stream = cop__stream_find(node, message.stream);
    if (!stream || !stream->network->adopted ||
        stream->network->parent != frame->header.sender) {
        COP__COUNT(node, ignored_not_ancestor);
    } else if (message.number != stream->down + 1) {
        COP__COUNT(node, ignored_repeated);
    } else {
        struct cop_buf *bytes = cop_buf_copy(message.bytes.data, message.bytes.length);
        if (bytes)
            cop__stream_down(node, stream, message.number, bytes);
        else
            cop__fail(node, COP_ENOMEM);
        cop_buf_unref(bytes);
    }
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

static void say_got(struct cop_node *node, struct cop__stream *stream, uint64_t got)
{
    struct cop__msg_got message = {
        .stream = stream->number, .number = stream->network->attempt, .got = got};
    stream->got_said = got;
    cop__roster_send(node, stream->network->parent, COP__KIND_GOT,
                     cop__encode_got(&message));
}

void cop__stream_got(struct cop_node *node, struct cop__stream *stream)
{
    uint64_t got = got_by_all(stream);
    if (stream->network->is_root)
        reach(node, stream, got);
    else if (got > stream->got_said && stream->network->adopted)
        say_got(node, stream, got);
}

void cop__stream_got_less(struct cop_node *node, struct cop__stream *stream)
{
    uint64_t got = got_by_all(stream);
    if (got < stream->got_said)
        say_got(node, stream, got);
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
    struct cop__stream *stream = cop__stream_find(node, message.stream);
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
