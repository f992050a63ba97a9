/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/state.h"

#include <stddef.h>

/* The front-end, at the root: what it is told, and what it has taken (T11). */

/* Everybody of the view is in it, and nobody else; also who gives nothing, for it may hold what
 * a back-end that left has given. */
static bool covers_all(const struct cop_node *node, const struct cop__stream *stream)
{
    const struct cop__lives *cover = &stream->cover;
    for (uint32_t i = 0; i < cover->count; i++)
        for (uint32_t j = 0; j < cover->items[i].count; j++)
            if (!cop_view_has(node->view, cover->items[i].first + j,
                              cover->items[i].incarnation))
                return false;
    for (cop_id id = cop_view_next(node->view, COP_ID_NONE); id != COP_ID_NONE;
         id = cop_view_next(node->view, id))
        if (cop__lives_find(cover, id) == 0)
            return false;
    return true;
}

static uint32_t count_back_ends(const struct cop__stream *stream)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < stream->cover.count; i++)
        for (uint32_t j = 0; j < stream->cover.items[i].count; j++)
            sum += cop__stream_has_back_end(stream, stream->cover.items[i].first + j);
    return sum;
}

/* Both take time in proportion to the members, so only when something is another. */
static void survey(const struct cop_node *node, struct cop__stream *stream)
{
    if (stream->is_surveyed)
        return;
    stream->covers_all = covers_all(node, stream);
    stream->covered = count_back_ends(stream);
    stream->is_surveyed = true;
}

bool cop__stream_is_complete(const struct cop_node *node, struct cop__stream *stream)
{
    if (!stream->made || stream->partial || stream->doubled || stream->dirty)
        return false;
    survey(node, stream);
    return stream->covers_all;
}

/* Who is in both counts among the living. */
static bool is_departed(const struct cop__stream *stream,
                        const struct cop__gone_leaf *leaf)
{
    return cop__lives_find(&stream->cover, leaf->leaf) != leaf->incarnation;
}

static uint32_t count_departed(const struct cop__stream *stream)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < stream->all_departed.count; i++)
        sum += is_departed(stream, &stream->all_departed.items[i]);
    return sum;
}

/* The living and the departed. */
static struct cop_buf *total(struct cop_node *node, struct cop__stream *stream)
{
    struct cop_buf *sum = cop_buf_ref(stream->state);
    for (uint32_t i = 0; i < stream->all_departed.count && !node->failed; i++)
        if (is_departed(stream, &stream->all_departed.items[i]))
            cop__state_join(node, stream, &sum, stream->all_departed.items[i].state);
    if (stream->stages && !node->failed)
        cop__stages_close_all(node, &sum);
    return sum;
}

/* What a front-end that has been told all before is told, or one that has to be told all. */
static struct cop_buf *output_of(struct cop_node *node, struct cop__stream *stream,
                                 struct cop_buf *news, bool *whole)
{
    struct cop_buf *more;
    *whole = stream->output_whole || !stream->output || stream->replaces;
    if (!*whole && news)
        return cop_buf_ref(news);
    struct cop_buf *now = total(node, stream);
    if (!*whole && !stream->broken)
        *whole = cop_filter_diff(stream->filter, now, stream->output, &more) != 0;
    struct cop_buf *said = *whole || stream->broken ? cop_buf_ref(now) : more;
    cop_buf_unref(stream->output);
    stream->output =
        cop_buf_ref(cop__stream_asks_for_difference(stream) ? now : stream->empty);
    cop_buf_unref(now);
    return said;
}

/*
 * T12: while those who lost their parent look for another one, waves without them would keep
 * everybody busy and be complete for nobody. One more may be given, so that the first complete one
 * is a new one; the rest of what was taken is told when all are back, or when it has taken so long
 * that the root looks for them (T5).
 */
void cop__front_release(struct cop_node *node, struct cop__stream *stream)
{
    bool waits = stream->sync == COP_SYNC_ALL &&
                 stream->network->repair_pause == COP__REPAIR_AFTER &&
                 !cop__stream_is_complete(node, stream);
    uint64_t mark = stream->taken;
    if (waits && mark > stream->completed + 1)
        mark = stream->completed + 1;
    if (stream->has_front && mark > stream->mark)
        cop__stream_set_mark(node, stream, mark, stream->down_mark);
}

void cop__front_output(struct cop_node *node, struct cop__stream *stream,
                       struct cop_buf *news)
{
    bool whole;
    if (!stream->has_front || stream->broken)
        return;
    bool complete = cop__stream_is_complete(node, stream);
    survey(node, stream);
    struct cop_buf *said = output_of(node, stream, news, &whole);
    if (stream->broken) {
        cop_buf_unref(said);
        return;
    }
    cop__stream_tell(node, stream,
                     &(struct cop_stream_event){
                         .kind = COP_STREAM_OUTPUT,
                         .wave = stream->wave,
                         .regeneration = stream->network->regeneration,
                         .whole = whole,
                         .complete = complete,
                         .covered = stream->covered,
                         .departed = count_departed(stream),
                         .root = node->self,
                         .bytes = said->data,
                         .length = said->length,
                     });
    cop_buf_unref(said);
    if (stream->wave > stream->shown)
        stream->shown = stream->wave;
    stream->output_whole = false;
    if (complete) {
        stream->completed = stream->wave;
        cop__front_release(node, stream);
    } else if (!stream->covers_all) {
        cop__network_mend(node, stream->network);
    }
}

void cop__front_attach(struct cop_node *node, struct cop__stream *stream,
                       uint64_t taken, uint64_t reached)
{
    stream->has_front = stream->front_is_new = true;
    stream->taken = taken;
    stream->output_whole = true;
    cop__stream_set_mark(node, stream, taken, reached);
    if (stream->down_mark > reached) /* decided when there was no front-end */
        cop__stream_tell(node, stream,
                         &(struct cop_stream_event){.kind = COP_STREAM_REACHED,
                                                    .wave = stream->down_mark});
    if (stream->made && !stream->dirty)
        cop__front_output(node, stream, NULL);
}

void cop__front_moved(struct cop_node *node, struct cop__stream *stream)
{
    if (!stream->has_front)
        return;
    stream->has_front = false;
    cop_buf_unref(stream->output);
    stream->output = NULL;
    cop__stream_tell(node, stream,
                     &(struct cop_stream_event){.kind = COP_STREAM_MOVED,
                                                .root = cop_view_root(node->view)});
}

/* ---- when the root and the front-end are lost together (T18) ---------------------- */

/* Its opener is lost, and whoever took it over from that would have come here. */
static bool is_abandoned(const struct cop_node *node, const struct cop__stream *stream)
{
    return !stream->has_front && !(stream->flags & COP_STREAM_KEEP) &&
           stream->opener_life != 0 &&
           !cop_view_has(node->view, stream->opener, stream->opener_life);
}

void cop__front_seek(struct cop_node *node, struct cop__network *network)
{
    for (uint32_t i = 0; i < network->stream_count && !node->failed; i++)
        if (is_abandoned(node, network->streams[i]) &&
            !cop__timer_is_running(&network->empty.timer))
            cop__timer_set(node, &network->empty, node->now + COP__FRONT_PATIENCE);
}

/* The last one that is closed takes the network with it. */
void cop__front_timer(struct cop_node *node, struct cop__node_timer *timer)
{
    struct cop__network *network =
        (struct cop__network *)(void *)((char *)timer -
                                        offsetof(struct cop__network, empty));
    for (uint32_t i = network->stream_count; network->is_root && i-- > 0;) {
        struct cop__stream *stream = network->streams[i];
        bool is_last = network->stream_count == 1;
        if (!is_abandoned(node, stream))
            continue;
        cop__network_close(node, stream, COP_ID_NONE);
        if (is_last || node->failed)
            return;
    }
}

/* ---- events as bytes ------------------------------------------------------------- */

enum { WHOLE = 1, COMPLETE = 2 };
#define EVENT_BYTES 38u

/* Says which one of its number it is about, and has no regeneration. */
static bool is_about_one(enum cop_stream_event_kind kind)
{
    return kind == COP_STREAM_OPENED || kind == COP_STREAM_CLOSED;
}

void cop__stream_tell(struct cop_node *node, const struct cop__stream *stream,
                      const struct cop_stream_event *event)
{
    struct cop_buf *buf = cop_buf_create((size_t)EVENT_BYTES + event->length);
    if (!buf) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    cop__put_u8(&writer, (uint8_t)event->kind);
    cop__put_u8(&writer, (uint8_t)((event->whole ? WHOLE : 0) |
                                   (event->complete ? COMPLETE : 0)));
    cop__put_u64(&writer, event->wave);
    cop__put_u64(&writer,
                 is_about_one(event->kind) ? stream->key : event->regeneration);
    cop__put_u32(&writer, event->covered);
    cop__put_u32(&writer, event->departed);
    cop__put_u32(&writer, event->root);
    cop__put_u32(&writer, (uint32_t)-event->status);
    cop__put_bytes(&writer, (struct cop__bytes){event->bytes, event->length});
    COP_ASSERT(!writer.failed);
    cop__emit_stream(node, stream->number, buf);
}

int cop_stream_event(const struct cop_buf *result, struct cop_stream_event *out)
{
    struct cop__reader reader =
        cop__reader(result ? result->data : NULL, result ? result->length : 0);
    struct cop_stream_event event = {0};
    event.kind = (enum cop_stream_event_kind)cop__get_u8(&reader);
    uint8_t flags = cop__get_u8(&reader);
    event.whole = flags & WHOLE;
    event.complete = flags & COMPLETE;
    event.wave = cop__get_u64(&reader);
    uint64_t which = cop__get_u64(&reader);
    event.regeneration = is_about_one(event.kind) ? 0 : which;
    event.key = is_about_one(event.kind) ? which : 0;
    event.covered = cop__get_u32(&reader);
    event.departed = cop__get_u32(&reader);
    event.root = cop__get_u32(&reader);
    uint32_t status = cop__get_u32(&reader);
    struct cop__bytes bytes = cop__get_bytes(&reader);
    event.bytes = bytes.data;
    event.length = bytes.length;
    if (!cop__reader_is_done(&reader) || status > INT16_MAX)
        return COP_EMALFORMED;
    event.status = -(int)status;
    *out = event;
    return 0;
}
