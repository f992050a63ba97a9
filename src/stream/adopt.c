/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/state.h"

#include "member/member.h"
#include "roster/roster.h"

#include <stddef.h>

/* Taking somebody in, and being taken in. */

/* For each stream what a child has to know: key, wave, mark, packets down. */
#define PLACE_BYTES 40u

struct cop_buf *cop__network_places(struct cop_node *node,
                                    const struct cop__network *network)
{
    struct cop_buf *buf = cop_buf_create(network->stream_count * PLACE_BYTES);
    if (!buf) {
        cop__fail(node, COP_ENOMEM);
        return NULL;
    }
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    for (uint32_t i = 0; i < network->stream_count; i++) {
        const struct cop__stream *stream = network->streams[i];
        cop__put_u64(&writer, stream->key);
        cop__put_u64(&writer, stream->wave);
        cop__put_u64(&writer, stream->mark);
        cop__put_u64(&writer, stream->down_mark);
        cop__put_u64(&writer, stream->down);
    }
    return buf;
}

/* T6: takes somebody in, or (number 0) says that it belongs here from the start. */
void cop__adopt_send(struct cop_node *node, struct cop__network *network, cop_id to,
                     uint64_t number)
{
    struct cop_buf *news = cop__network_news(node, network, false);
    struct cop_buf *path = cop__network_path_bytes(node, network);
    struct cop_buf *places = cop__network_places(node, network);
    if (news && path && places) {
        struct cop__msg_adopt message = {
            .network = network->number,
            .number = number,
            .regeneration = network->regeneration,
            .path = {path->data, network->path.count + 1},
            .news = {news->data, news->length},
            .places = {places->data, places->length},
        };
        cop__roster_send(node, to, COP__KIND_ADOPT, cop__encode_adopt(&message));
    }
    cop_buf_unref(news);
    cop_buf_unref(path);
    cop_buf_unref(places);
}

void cop__detach_send(struct cop_node *node, uint64_t network, cop_id to,
                      uint64_t number)
{
    struct cop__msg_detach message = {.network = network, .number = number};
    cop__roster_send(node, to, COP__KIND_DETACH, cop__encode_detach(&message));
}

/* ---- those who keep others waiting ----------------------------------------------- */

static uint64_t top_of(const struct cop__stream_slot *slot)
{
    return slot->pending_count ? cop__slot_at(slot, slot->pending_count - 1)->wave
                               : slot->wave;
}

/* Above the highest wave that is here, if it waits for somebody; 0: nothing does. */
static uint64_t awaited(const struct cop__stream *stream)
{
    uint64_t most =
        stream->wave > top_of(&stream->own) ? stream->wave : top_of(&stream->own);
    bool waits = stream->dirty || stream->own.pending_count > 0;
    for (uint32_t i = 0; i < stream->slot_count; i++) {
        const struct cop__stream_slot *slot = &stream->slots[i];
        waits = waits || !slot->heard || slot->pending_count > 0;
        if (top_of(slot) > most)
            most = top_of(slot);
    }
    return waits ? most + 1 : 0;
}

/* It is behind the others, as it was when it was last looked at. */
static bool keeps_waiting(struct cop__network *network, uint32_t child)
{
    bool does = false;
    for (uint32_t i = 0; i < network->stream_count; i++) {
        struct cop__stream *stream = network->streams[i];
        struct cop__stream_slot *slot = &stream->slots[child];
        uint64_t until = awaited(stream), top = top_of(slot);
        does = does || (until && !slot->idle &&
                        (!slot->heard || (top + 1 < until && slot->seen == top)));
        slot->seen = top;
    }
    return does;
}

void cop__adopt_watch(struct cop_node *node, struct cop__network *network)
{
    bool waits = false;
    if (network->child_count == 0 || cop__timer_is_running(&network->vigil.timer))
        return;
    for (uint32_t i = 0; i < network->stream_count; i++)
        waits = waits || awaited(network->streams[i]) != 0;
    if (waits)
        cop__timer_set(node, &network->vigil, node->now + COP__VIGIL);
}

/*
 * Where waves wait nobody above me knows whom I cover, so nobody can tell me that one of those is
 * elsewhere by now. I offer it its place again: then it says so itself.
 */
void cop__adopt_vigil(struct cop_node *node, struct cop__node_timer *timer)
{
    struct cop__network *network =
        (struct cop__network *)(void *)((char *)timer -
                                        offsetof(struct cop__network, vigil));
    for (uint32_t i = 0; i < network->child_count && !node->failed; i++)
        if (keeps_waiting(network, i))
            cop__adopt_send(node, network, network->children[i].id,
                            network->children[i].number);
    if (!node->failed)
        cop__adopt_watch(node, network);
}

/* ---- taking in ------------------------------------------------------------------- */

/* Who is above me, or was heard of under a later number, cannot be below me. */
static bool is_above_me(const struct cop__network *network, cop_id id)
{
    for (uint32_t i = 0; i < network->path.count; i++)
        if (network->path.items[i] == id)
            return true;
    return network->parent == id;
}

static bool was_reported(const struct cop__network *network,
                         const struct cop__report *report)
{
    const struct cop__report *known = cop__report_find(network, report->id);
    return known && known->incarnation == report->incarnation &&
           known->number >= report->number;
}

/* What is said of one stream; false: nothing, then `place` is all 0. */
static bool find_place(struct cop__bytes places, uint64_t number, uint64_t place[4])
{
    struct cop__reader reader = cop__reader(places.data, places.length);
    bool found = false;
    while (!found && reader.at < reader.end && !reader.failed) {
        found = cop__get_u64(&reader) == number;
        for (int i = 0; i < 4; i++)
            place[i] = cop__get_u64(&reader);
    }
    found = found && !reader.failed;
    for (int i = 0; i < 4 && !found; i++)
        place[i] = 0;
    return found;
}

/* T15: each packet down that the child has not got; all, if it has yet to hear of the stream. */
static void catch_up(struct cop_node *node, struct cop__network *network, cop_id child,
                     struct cop__bytes places)
{
    for (uint32_t i = 0; i < network->stream_count && !node->failed; i++) {
        struct cop__stream *stream = network->streams[i];
        uint64_t place[4];
        find_place(places, stream->key, place);
        /* What all have it may know better than I do: a root can be a new life. Once packets have
         * come here those between are on their way, and none is left out. */
        bool jumps = place[2] > stream->down && stream->delivered;
        cop__stream_set_mark(node, stream, place[1], jumps ? stream->down : place[2]);
        cop__stream_catch_up(node, stream, child, place[3]);
    }
}

/*
 * Who has a later view may look for the root of it, and find me before I know. All that it says
 * waits, in order: a mark that overtook the adoption would be lost. Who is not a member yet
 * has nothing to say to anybody.
 */
bool cop__network_is_early(struct cop_node *node, const struct cop_frame *frame)
{
    if (frame->header.epoch > cop_view_epoch(node->view) &&
        cop__member_hold(node, frame))
        return true;
    if (cop_node_is_member(node))
        return false;
    COP__COUNT(node, ignored_epoch);
    return true;
}

/* T6: only who has a way to the root takes anybody in. */
void cop__on_attach(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_attach message;
    const struct cop_header *header = &frame->header;
    if (cop__decode_attach(frame->payload->data, frame->payload->length, &message) ||
        message.number == 0) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    if (cop__network_is_early(node, frame))
        return;
    struct cop__network *network = cop__network_find(node, message.network);
    struct cop__report report = {header->sender, header->sender_incarnation,
                                 message.number, header->sender};
    if (network && was_reported(network, &report)) {
        COP__COUNT(node, ignored_repeated);
        return;
    }
    if (!network || !cop__network_is_attached(node, network) ||
        is_above_me(network, header->sender) ||
        cop__roster_has_lost(node, header->sender, header->sender_incarnation)) {
        cop__network_say_over(node, message.network, header->sender);
        cop__detach_send(node, message.network, header->sender, message.number);
        return;
    }
    struct cop__stream_child child = {header->sender, header->sender_incarnation,
                                      message.number};
    cop__network_add_child(node, network, &child);
    COP__COUNT(node, stream_adoptions);
    if (!cop__network_hear(node, message.network, message.news, header->sender))
        COP__COUNT(node, ignored_malformed);
    network = cop__network_find(node, message.network);
    if (!network || node->failed)
        return;
    cop__network_report(node, network, &report, header->sender);
    cop__adopt_send(node, network, header->sender, message.number);
    catch_up(node, network, header->sender, message.places);
}

/* ---- being adopted --------------------------------------------------------------- */

/* T13: a life that has given nothing yet begins where its adopter is. */
static void take_place(struct cop_node *node, struct cop__stream *stream,
                       const uint64_t place[4])
{
    if (!stream->announced && stream->wave == 0 && stream->slot_count == 0)
        stream->own.wave = stream->wave = place[0];
    cop__stream_set_mark(node, stream, place[1], place[2]);
}

static void take_places(struct cop_node *node, struct cop__network *network,
                        struct cop__bytes places)
{
    for (uint32_t i = 0; i < network->stream_count && !node->failed; i++) {
        uint64_t place[4];
        if (find_place(places, network->streams[i]->key, place))
            take_place(node, network->streams[i], place);
    }
}

/* T3: streams of which I have heard since I asked, when there was nobody above to pass them on to.
 * Waves of what it does not know it would ignore, and wait for them in vain. */
static void pass_on(struct cop_node *node, const struct cop__network *network,
                    struct cop__bytes places)
{
    for (uint32_t i = 0; i < network->stream_count && !node->failed; i++) {
        uint64_t place[4];
        const struct cop__news news = {.streams = &network->streams[i],
                                       .stream_count = 1};
        if (!find_place(places, network->streams[i]->key, place))
            cop__network_say(node, network, network->parent, &news);
    }
}

static void settle_in(struct cop_node *node, struct cop__network *network,
                      const struct cop__msg_adopt *message, bool spreads)
{
    cop__timer_cancel(node, &network->timer);
    network->adopted = true;
    network->recovery.adopted = node->now;
    network->rounds = 0;
    pass_on(node, network, message->places);
    take_places(node, network, message->places);
    cop__network_set_path(node, network, message->regeneration, message->path);
    if (spreads && network->adopted && !node->failed)
        cop__network_spread(node, network);
    for (uint32_t i = 0; i < network->stream_count && network->adopted && !node->failed;
         i++) {
        cop__stream_announce(node, network->streams[i]);
        cop__stream_restate(node, network->streams[i]);
    }
}

/* Whether an offer from above is one that I can take: I belong nowhere yet. */
static bool takes_offer(const struct cop__network *network)
{
    return !network->is_root && network->parent == COP_ID_NONE && network->attempt == 0;
}

void cop__on_adopt(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_adopt message;
    cop_id from = frame->header.sender;
    if (cop__decode_adopt(frame->payload->data, frame->payload->length, &message) ||
        message.path.count == 0 || message.path.count > COP_MEMBERS_MAX) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    if (cop__network_is_early(node, frame))
        return;
    if (!cop__network_hear(node, message.network, message.news, from))
        COP__COUNT(node, ignored_malformed);
    struct cop__network *network = cop__network_find(node, message.network);
    if (!network && !node->failed)
        cop__network_say_over(node, message.network, from);
    if (!network || node->failed)
        return;
    bool answers = network->parent == from && !network->adopted &&
                   network->attempt == message.number &&
                   network->parent_life == frame->header.sender_incarnation;
    if (answers) {
        settle_in(node, network, &message, false);
    } else if (message.number == 0 && takes_offer(network)) {
        network->parent = from;
        network->parent_life = frame->header.sender_incarnation;
        cop__watch(node, from);
        settle_in(node, network, &message, true);
    } else if (network->parent == from && network->adopted &&
               network->parent_life == frame->header.sender_incarnation &&
               network->attempt == message.number) {
        COP__COUNT(node, ignored_repeated);
    } else {
        /* T8: who is elsewhere by now says so, or somebody waits for it in vain. */
        cop__detach_send(node, message.network, from, message.number);
        /* What it asked for has ended here since, and this came with news of the next stream:
         * that has no parent yet, and nobody else to tell it. */
        if (network->parent == COP_ID_NONE && !network->is_root &&
            !cop__timer_is_running(&network->timer.timer))
            cop__orphan_begin(node, network);
    }
}

/* Nobody is below or above anybody any more: a refusal, a mistake, a change of mind. */
void cop__on_detach(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_detach message;
    cop_id from = frame->header.sender;
    if (cop__decode_detach(frame->payload->data, frame->payload->length, &message)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    if (cop__network_is_early(node, frame))
        return;
    struct cop__network *network = cop__network_find(node, message.network);
    const struct cop__stream_child *child =
        network ? cop__network_child(network, from) : NULL;
    if (network && network->parent == from && network->attempt == message.number)
        network->adopted ? cop__orphan_begin(node, network)
                         : cop__orphan_next(node, network);
    else if (child && child->number == message.number)
        cop__network_drop_child(node, network, from);
    else
        COP__COUNT(node, ignored_unasked);
}
