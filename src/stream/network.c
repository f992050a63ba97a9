/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/state.h"

#include "roster/roster.h"

#include <stdlib.h>
#include <string.h>

/* ---- finding, making, ending ----------------------------------------------------- */

struct cop__network *cop__network_find(const struct cop_node *node, uint64_t number)
{
    const struct cop__streams *all = cop__streams(node);
    for (uint32_t i = 0; i < all->count; i++)
        if (all->networks[i]->number == number)
            return all->networks[i];
    return NULL;
}

bool cop__grow(struct cop_node *node, void *array, uint32_t count, uint32_t *capacity,
               size_t size)
{
    void **items = array;
    if (count < *capacity)
        return true;
    uint32_t more = *capacity ? 2 * *capacity : 4;
    void *grown = realloc(*items, more * size);
    if (!grown) {
        cop__fail(node, COP_ENOMEM);
        return false;
    }
    *items = grown;
    *capacity = more;
    return true;
}

static void on_repair(struct cop_node *node, struct cop__node_timer *timer);

struct cop__network *cop__network_make(struct cop_node *node, uint64_t number,
                                       const struct cop_shape *shape)
{
    struct cop__streams *all = cop__streams(node);
    struct cop__network *network = calloc(1, sizeof *network);
    if (!network || !cop__grow(node, &all->networks, all->count, &all->capacity,
                               sizeof(struct cop__network *))) {
        cop__fail(node, COP_ENOMEM);
        free(network);
        return NULL;
    }
    cop__timer_init(&network->timer.timer);
    cop__timer_init(&network->repair.timer);
    cop__timer_init(&network->vigil.timer);
    cop__timer_init(&network->empty.timer);
    network->timer.fire = cop__orphan_timer;
    network->repair.fire = on_repair;
    network->vigil.fire = cop__adopt_vigil;
    network->empty.fire = cop__front_timer;
    network->number = number;
    network->shape = *shape;
    network->parent = network->former.id = COP_ID_NONE;
    uint32_t at = all->count++;
    for (; at > 0 && all->networks[at - 1]->number > number; at--)
        all->networks[at] = all->networks[at - 1];
    all->networks[at] = network;
    return network;
}

void cop__network_free(struct cop_node *node, struct cop__network *network)
{
    for (uint32_t i = 0; i < network->stream_count; i++)
        cop__stream_free(node, network->streams[i]);
    cop__timer_cancel(node, &network->timer);
    cop__timer_cancel(node, &network->repair);
    cop__timer_cancel(node, &network->vigil);
    cop__timer_cancel(node, &network->empty);
    cop_ranks_free(&network->tried);
    cop_ranks_free(&network->path);
    free(network->children);
    free(network->reports);
    free(network->streams);
    free(network);
}

void cop__network_end(struct cop_node *node, struct cop__network *network)
{
    struct cop__streams *all = cop__streams(node);
    for (uint32_t i = 0; i < network->child_count; i++)
        cop__unwatch(node, network->children[i].id);
    if (network->parent != COP_ID_NONE)
        cop__unwatch(node, network->parent);
    for (uint32_t i = 0; i < all->count; i++) {
        if (all->networks[i] != network)
            continue;
        all->count--;
        memmove(all->networks + i, all->networks + i + 1,
                (all->count - i) * sizeof(struct cop__network *));
    }
    cop__network_free(node, network);
}

/* ---- news: what goes to all neighbours, once, and to new ones all of it (T3) ------- */

static size_t news_size(const struct cop__news *news)
{
    size_t size = 12 + news->closed_count * COP__SIZE_closed + news->report_count * 20u;
    for (uint32_t i = 0; i < news->stream_count; i++)
        size += 4 + news->streams[i]->definition->length;
    return size;
}

/* A stream is its definition; one that is over is its number, and why. */
static struct cop_buf *write_news(struct cop_node *node, const struct cop__news *news)
{
    struct cop_buf *buf = cop_buf_create(news_size(news));
    if (!buf) {
        cop__fail(node, COP_ENOMEM);
        return NULL;
    }
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    cop__put_u32(&writer, news->stream_count);
    for (uint32_t i = 0; i < news->stream_count; i++) {
        const struct cop_buf *text = news->streams[i]->definition;
        cop__put_bytes(&writer, (struct cop__bytes){text->data, text->length});
    }
    cop__put_u32(&writer, news->closed_count);
    for (uint32_t i = 0; i < news->closed_count; i++) {
        cop__put_u64(&writer, news->closed[i].name);
        cop__put_u32(&writer, (uint32_t)-news->closed[i].why);
    }
    cop__put_u32(&writer, news->report_count);
    for (uint32_t i = 0; i < news->report_count; i++) {
        cop__put_u32(&writer, news->reports[i].id);
        cop__put_u64(&writer, news->reports[i].incarnation);
        cop__put_u64(&writer, news->reports[i].number);
    }
    COP_ASSERT(!writer.failed);
    return buf;
}

struct cop_buf *cop__network_news(struct cop_node *node,
                                  const struct cop__network *network, bool reports)
{
    const struct cop__streams *all = cop__streams(node);
    struct cop__news news = {
        .streams = network->streams,
        .stream_count = network->stream_count,
        .closed = all->closed,
        .closed_count = all->closed_count,
        .reports = network->reports,
        .report_count = reports ? network->report_count : 0,
    };
    return write_news(node, &news);
}

static void send_news(struct cop_node *node, uint64_t network, cop_id to,
                      const struct cop_buf *news, uint8_t invite)
{
    struct cop__msg_network message = {
        .network = network,
        .invite = invite,
        .news = {news->data, news->length},
    };
    cop__roster_send(node, to, COP__KIND_NETWORK, cop__encode_network(&message));
}

void cop__network_say(struct cop_node *node, const struct cop__network *network,
                      cop_id to, const struct cop__news *news)
{
    struct cop_buf *buf = write_news(node, news);
    if (buf)
        send_news(node, network->number, to, buf, 0);
    cop_buf_unref(buf);
}

void cop__network_say_over(struct cop_node *node, uint64_t number, cop_id to)
{
    const struct cop__network none = {.number = number};
    if (cop__network_find(node, number) || cop__streams(node)->closed_count == 0)
        return;
    struct cop_buf *news = cop__network_news(node, &none, false);
    if (news)
        send_news(node, number, to, news, 0);
    cop_buf_unref(news);
}

/* To all neighbours but the one it came from. */
static void flood(struct cop_node *node, const struct cop__network *network,
                  const struct cop__news *what, cop_id from)
{
    struct cop_buf *news = write_news(node, what);
    if (!news)
        return;
    for (uint32_t i = 0; i < network->child_count; i++)
        if (network->children[i].id != from)
            send_news(node, network->number, network->children[i].id, news, 0);
    if (network->adopted && network->parent != from)
        send_news(node, network->number, network->parent, news, 0);
    cop_buf_unref(news);
}

static void put_stream(struct cop_node *node, struct cop__network *network,
                       struct cop__stream *stream)
{
    if (!cop__grow(node, &network->streams, network->stream_count,
                   &network->stream_capacity, sizeof(struct cop__stream *)))
        return;
    uint32_t at = network->stream_count++;
    for (; at > 0 && network->streams[at - 1]->number > stream->number; at--)
        network->streams[at] = network->streams[at - 1];
    network->streams[at] = stream;
    stream->network = network;
    for (uint32_t i = 0; i < network->child_count && !node->failed; i++)
        cop__slot_add(node, stream, &network->children[i]);
}

/* T13: who has a place knows with which wave it begins, and may give packets. */
void cop__stream_announce(struct cop_node *node, struct cop__stream *stream)
{
    if (!stream->is_back_end || stream->announced)
        return;
    stream->announced = true;
    cop__stream_tell(node, stream,
                     &(struct cop_stream_event){.kind = COP_STREAM_OPENED,
                                                .wave = stream->own.wave});
}

static void remember_closed(struct cop_node *node, const struct cop__closed *closed)
{
    struct cop__streams *all = cop__streams(node);
    if (!all->closed)
        all->closed = calloc(COP__CLOSED_MAX, sizeof *all->closed);
    if (!all->closed) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    if (all->closed_count == COP__CLOSED_MAX) {
        all->closed_count--;
        memmove(all->closed, all->closed + 1, all->closed_count * sizeof *all->closed);
    }
    all->closed[all->closed_count++] = *closed;
}

/*
 * T19, T22: who breaks off a stream while it looks for a parent has nobody above to pass it on, and
 * asks nobody any more. The one it left may live, and keep its place for it for ever.
 */
static void close_above(struct cop_node *node, const struct cop__network *network,
                        const struct cop__news *news)
{
    cop_id root = cop_view_root(node->view);
    if (!network->adopted && !network->is_root && root != node->self)
        cop__network_say(node, network, root, news);
}

/* T22: it was here that its filter failed. */
static bool has_failed_here(const struct cop__stream *stream)
{
    return stream->broken && stream->status != COP_ELOST;
}

static void tell_closed(struct cop_node *node, const struct cop__stream *stream)
{
    struct cop_stream_event event = {.kind = COP_STREAM_CLOSED,
                                     .status = stream->status};
    if (has_failed_here(stream)) {
        event.bytes = stream->filter->name;
        event.length = (uint32_t)strlen(stream->filter->name);
    }
    if (stream->is_back_end || stream->has_front || event.length > 0)
        cop__stream_tell(node, stream, &event);
}

/* Under its number, so that this is not opened again; or under its key alone. */
static void close_as(struct cop_node *node, struct cop__stream *stream, uint64_t name,
                     cop_id from)
{
    struct cop__network *network = stream->network;
    /* That somebody is lost everybody hears anyway. */
    int why = stream->status == COP_ELOST ? 0 : stream->status;
    struct cop__closed closed = {name, why};
    struct cop__news news = {.closed = &closed, .closed_count = 1};
    if (!cop__stream_was_closed(node, name))
        remember_closed(node, &closed);
    if (node->failed)
        return;
    flood(node, network, &news, from);
    if (cop__stream_is_fragile(stream) || why)
        close_above(node, network, &news);
    tell_closed(node, stream);
    for (uint32_t i = 0; i < network->stream_count; i++) {
        if (network->streams[i] != stream)
            continue;
        network->stream_count--;
        memmove(network->streams + i, network->streams + i + 1,
                (network->stream_count - i) * sizeof(struct cop__stream *));
    }
    cop__stream_free(node, stream);
    if (network->stream_count == 0)
        cop__network_end(node, network);
}

void cop__network_close(struct cop_node *node, struct cop__stream *stream, cop_id from)
{
    close_as(node, stream, stream->number, from);
}

/* T1: it was planned under a number that there was. Who took from it takes from the other one. */
static void give_way(struct cop_node *node, struct cop__stream *stream, cop_id from)
{
    COP__COUNT(node, stream_stillborn);
    cop__front_moved(node, stream);
    close_as(node, stream, stream->key, from);
}

void cop__network_add(struct cop_node *node, struct cop__network *network,
                      struct cop__stream *stream, struct cop__stream *rival,
                      cop_id from)
{
    put_stream(node, network, stream);
    if (node->failed) {
        if (!stream->network)
            cop__stream_free(node, stream);
        return;
    }
    flood(node, network, &(struct cop__news){.streams = &stream, .stream_count = 1},
          from);
    if (rival)
        give_way(node, rival, from);
    if (node->failed)
        return;
    if (network->is_root || network->adopted)
        cop__stream_announce(node, stream);
    cop__stream_advance(node, stream);
}

/* ---- hearing news ---------------------------------------------------------------- */

/* T1: who has the elder says so to who has the other. */
static bool is_refused(struct cop_node *node, const struct cop__stream *stream,
                       const struct cop__stream *rival, cop_id from)
{
    if (cop__stream_was_closed(node, stream->number) ||
        (rival && rival->key == stream->key))
        return true;
    if (!rival)
        return cop__stream_was_closed(node, stream->key);
    if (!cop__stream_is_elder(rival, stream))
        return false;
    if (!cop__stream_was_closed(node, stream->key))
        remember_closed(node, &(struct cop__closed){.name = stream->key});
    struct cop_buf *news = cop__network_news(node, rival->network, false);
    if (news)
        send_news(node, rival->network->number, from, news, 0);
    cop_buf_unref(news);
    return true;
}

/* T23: the root it is of would not have opened it. */
static bool has_no_room(struct cop_node *node, size_t bytes)
{
    bool is_full = !cop__stream_has_room(node, bytes, COP__DEFINED_HEARD_MAX);
    if (is_full)
        COP__COUNT(node, ignored_unasked);
    return is_full;
}

static void hear_stream(struct cop_node *node, uint64_t number, struct cop__bytes bytes,
                        cop_id from)
{
    uint64_t network_number;
    struct cop_shape shape;
    struct cop__stream *stream = cop__stream_make(node, bytes, &network_number, &shape);
    if (!stream)
        return;
    struct cop__stream *rival = cop__stream_find(node, stream->number);
    struct cop__network *network = cop__network_find(node, number);
    if (network_number != number || is_refused(node, stream, rival, from) ||
        has_no_room(node, bytes.length)) {
        cop__stream_free(node, stream);
        return;
    }
    if (!network)
        network = cop__network_make(node, number, &shape);
    if (network)
        cop__network_add(node, network, stream, rival, from);
    else
        cop__stream_free(node, stream);
}

static void hear_closed(struct cop_node *node, const struct cop__closed *closed,
                        cop_id from)
{
    struct cop__stream *stream = cop__stream_find(node, closed->name);
    /* T1: it gives way to an elder that is here, and to nothing else. Who closed it may tell
     * of that one in another frame, or not at all: it may be gone. */
    if (!stream && cop__stream_named(node, closed->name))
        return;
    if (!stream) {
        if (!cop__stream_was_closed(node, closed->name))
            remember_closed(node, closed);
        return;
    }
    if (!stream->broken)
        stream->status = closed->why;
    /* Its front-end is here, and has not closed it (T19). */
    if (stream->status == 0 && stream->has_front && cop__stream_is_fragile(stream))
        stream->status = COP_ELOST;
    cop__network_close(node, stream, from);
}

static void hear_streams(struct cop_node *node, uint64_t number,
                         struct cop__reader *reader, cop_id from)
{
    uint32_t count = cop__get_u32(reader);
    for (uint32_t i = 0; i < count && !reader->failed && !node->failed; i++) {
        struct cop__bytes bytes = cop__get_bytes(reader);
        if (!reader->failed)
            hear_stream(node, number, bytes, from);
    }
    count = cop__get_u32(reader);
    for (uint32_t i = 0; i < count && !reader->failed && !node->failed; i++) {
        struct cop__closed closed = {.name = cop__get_u64(reader)};
        uint32_t why = cop__get_u32(reader);
        if (closed.name == 0 || why > INT16_MAX)
            reader->failed = true;
        closed.why = -(int)(why & INT16_MAX);
        if (!reader->failed)
            hear_closed(node, &closed, from);
    }
}

bool cop__network_hear(struct cop_node *node, uint64_t number, struct cop__bytes news,
                       cop_id from)
{
    struct cop__reader reader = cop__reader(news.data, news.length);
    hear_streams(node, number, &reader, from);
    uint32_t count = cop__get_u32(&reader);
    for (uint32_t i = 0; i < count && !reader.failed && !node->failed; i++) {
        struct cop__report report = {.id = cop__get_u32(&reader)};
        report.incarnation = cop__get_u64(&reader);
        report.number = cop__get_u64(&reader);
        struct cop__network *network = cop__network_find(node, number);
        if (!reader.failed && network && report.id != node->self)
            cop__network_report(node, network, &report, from);
    }
    return cop__reader_is_done(&reader);
}

/* T2, T5: somebody tells of streams. The root does so where nobody else has. */
void cop__on_network(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_network message;
    if (cop__decode_network(frame->payload->data, frame->payload->length, &message)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    if (cop__network_is_early(node, frame))
        return;
    if (!cop__network_hear(node, message.network, message.news, frame->header.sender))
        COP__COUNT(node, ignored_malformed);
    struct cop__network *network = cop__network_find(node, message.network);
    if (network && !node->failed && network->parent == COP_ID_NONE && !network->is_root)
        cop__orphan_begin(node, network);
    if (message.invite && !node->failed)
        cop__network_say_over(node, message.network, frame->header.sender);
}

/* ---- children -------------------------------------------------------------------- */

struct cop__stream_child *cop__network_child(const struct cop__network *network,
                                             cop_id id)
{
    for (uint32_t i = 0; i < network->child_count; i++)
        if (network->children[i].id == id)
            return &network->children[i];
    return NULL;
}

/* Without saying so yet: its place may be taken in the same step. */
static void take_out(struct cop_node *node, struct cop__network *network, cop_id id)
{
    struct cop__stream_child *child = cop__network_child(network, id);
    uint32_t at = (uint32_t)(child - network->children);
    network->child_count--;
    memmove(child, child + 1, (network->child_count - at) * sizeof *child);
    cop__unwatch(node, id);
    for (uint32_t i = 0; i < network->stream_count && !node->failed; i++)
        cop__slot_drop(node, network->streams[i], id);
}

void cop__network_add_child(struct cop_node *node, struct cop__network *network,
                            const struct cop__stream_child *child)
{
    if (cop__network_child(network, child->id))
        take_out(node, network, child->id);
    if (!cop__grow(node, &network->children, network->child_count,
                   &network->child_capacity, sizeof *network->children))
        return;
    uint32_t at = network->child_count++;
    for (; at > 0 && network->children[at - 1].id > child->id; at--)
        network->children[at] = network->children[at - 1];
    network->children[at] = *child;
    cop__watch(node, child->id);
    for (uint32_t i = 0; i < network->stream_count && !node->failed; i++)
        cop__slot_add(node, network->streams[i], child);
    if (!node->failed)
        cop__adopt_watch(node, network);
}

void cop__network_drop_child(struct cop_node *node, struct cop__network *network,
                             cop_id id)
{
    if (!cop__network_child(network, id))
        return;
    take_out(node, network, id);
    for (uint32_t i = 0; i < network->stream_count && !node->failed; i++)
        cop__stream_advance(node, network->streams[i]);
    if (network->is_root)
        cop__network_mend(node, network);
}

struct cop_tree cop__network_tree(const struct cop_node *node,
                                  const struct cop__network *network)
{
    struct cop_tree tree = cop__roster_tree(node);
    if (network->shape.kind)
        tree.shape = network->shape;
    return tree;
}

/* T2: at the start the tree is that of the shape. Nobody asks; who is below is told. */
void cop__network_spread(struct cop_node *node, struct cop__network *network)
{
    struct cop_tree tree = cop__network_tree(node, network);
    struct cop_ranks below = {0};
    if (!cop_node_is_member(node))
        return;
    if (cop_tree_children(&tree, node->rank, &below))
        cop__fail(node, COP_ENOMEM);
    for (uint32_t i = 0; i < below.count && !node->failed; i++) {
        cop_id id = below.items[i];
        if (cop__network_child(network, id) || id == network->parent)
            continue;
        struct cop__stream_child child = {id, cop__roster_get(node, id).incarnation, 0};
        cop__network_add_child(node, network, &child);
        cop__adopt_send(node, network, id, 0);
    }
    cop_ranks_free(&below);
}

/* ---- the root -------------------------------------------------------------------- */

/* T5: whoever is in no slot may not know that there is a network, or be lost on the way. */
static void invite_missing(struct cop_node *node, struct cop__network *network)
{
    const struct cop__stream *stream = network->streams[0];
    struct cop_buf *news = cop__network_news(node, network, false);
    for (cop_id id = cop_view_next(node->view, COP_ID_NONE);
         id != COP_ID_NONE && news && !node->failed;
         id = cop_view_next(node->view, id)) {
        if (id == node->self || cop__roster_is_suspect(node, id) ||
            cop__network_child(network, id) ||
            cop__lives_find(&stream->cover, id) == cop_view_incarnation(node->view, id))
            continue;
        send_news(node, network->number, id, news, 1);
    }
    cop_buf_unref(news);
}

static bool all_are_covered(const struct cop_node *node,
                            const struct cop__network *network)
{
    const struct cop__lives *cover = &network->streams[0]->cover;
    for (cop_id id = cop_view_next(node->view, COP_ID_NONE); id != COP_ID_NONE;
         id = cop_view_next(node->view, id))
        if (cop__lives_find(cover, id) != cop_view_incarnation(node->view, id))
            return false;
    return true;
}

static void on_repair(struct cop_node *node, struct cop__node_timer *timer)
{
    struct cop__network *network =
        (struct cop__network *)(void *)((char *)timer -
                                        offsetof(struct cop__network, repair));
    cop_time longer = 2 * network->repair_pause;
    network->repair_pause = 0;
    if (network->is_root && !all_are_covered(node, network)) {
        invite_missing(node, network);
        network->repair_pause =
            longer < COP__ATTACH_LONGEST ? longer : COP__ATTACH_LONGEST;
        cop__timer_set(node, timer, node->now + network->repair_pause);
    }
    for (uint32_t i = 0; i < network->stream_count && !node->failed; i++)
        cop__front_release(node, network->streams[i]);
}

void cop__network_mend(struct cop_node *node, struct cop__network *network)
{
    if (network->repair_pause)
        return;
    network->repair_pause = COP__REPAIR_AFTER;
    cop__timer_set(node, &network->repair, node->now + network->repair_pause);
}

static bool is_lost(const struct cop_node *node, cop_id id, cop_incarnation incarnation)
{
    return cop__roster_has_lost(node, id, incarnation) ||
           !cop_view_has(node->view, id, incarnation);
}

/* T10: I am the root by the view that I have. */
void cop__network_root(struct cop_node *node, struct cop__network *network)
{
    /* Who was above me, and lives, has a slot of me: it hears that from nobody else as soon. */
    if (network->adopted && !is_lost(node, network->parent, network->parent_life))
        cop__detach_send(node, network->number, network->parent, network->attempt);
    if (network->parent != COP_ID_NONE)
        cop__unwatch(node, network->parent);
    cop__timer_cancel(node, &network->timer);
    network->parent = COP_ID_NONE;
    network->adopted = false;
    network->is_root = true;
    network->attempt++;
    network->regeneration = cop_view_epoch(node->view) + 1;
    network->path.count = 0;
    struct cop__report mine = {node->self, node->incarnation, network->attempt, 0};
    cop__network_report(node, network, &mine, COP_ID_NONE);
    for (uint32_t i = 0; i < network->child_count && !node->failed; i++)
        cop__network_send_path(node, network, network->children[i].id);
    for (uint32_t i = 0; i < network->stream_count && !node->failed; i++) {
        network->streams[i]->output_whole = network->streams[i]->dirty = true;
        cop__stream_announce(node, network->streams[i]);
        cop__stream_advance(node, network->streams[i]);
    }
    cop__network_mend(node, network);
}

static void resign(struct cop_node *node, struct cop__network *network)
{
    network->is_root = false;
    network->regeneration = 0;
    cop__timer_cancel(node, &network->repair);
    network->repair_pause = 0;
    for (uint32_t i = 0; i < network->stream_count && !node->failed; i++)
        cop__front_moved(node, network->streams[i]);
    cop__orphan_begin(node, network);
}

/* T6, T7. Who was dropped by mistake is told, and attaches again. */
static void survey_children(struct cop_node *node, struct cop__network *network)
{
    for (uint32_t i = network->child_count; i-- > 0 && !node->failed;) {
        struct cop__stream_child child = network->children[i];
        if (!is_lost(node, child.id, child.incarnation))
            continue;
        if (cop_view_has(node->view, child.id, child.incarnation))
            cop__detach_send(node, network->number, child.id, child.number);
        cop__network_drop_child(node, network, child.id);
    }
}

void cop__network_survey(struct cop_node *node, struct cop__network *network)
{
    survey_children(node, network);
    if (!node->failed)
        cop__orphan_leave(node, network);
    if (node->failed)
        return;
    bool rules = cop_view_root(node->view) == node->self;
    if (rules && !network->is_root)
        cop__network_root(node, network);
    else if (!rules && network->is_root)
        resign(node, network);
    else if (!rules && network->parent != COP_ID_NONE &&
             is_lost(node, network->parent, network->parent_life))
        network->adopted ? cop__orphan_begin(node, network)
                         : cop__orphan_next(node, network);
    if (network->is_root && !all_are_covered(node, network))
        cop__network_mend(node, network);
}
