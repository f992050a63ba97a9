/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/state.h"

#include <stdlib.h>
#include <string.h>

/* What a stream is, as bytes: written once, by who opens it, and passed on as it is (T1). */

static bool options_are_possible(const struct cop_stream_options *options,
                                 const struct cop_filter *filter)
{
    size_t params = options->params ? strlen(options->params) : 0;
    struct cop_shape shape;
    bool shaped = options->shape.kind == 0 ||
                  (options->shape.kind <= COP_SHAPE_CHAIN &&
                   cop_shape_make(options->shape.kind, options->shape.k, &shape) == 0);
    return filter && options->type &&
           (filter->flags & COP_FILTER_CUMULATIVE || cop__filter_is_levels(filter) ||
            options->flags & COP_STREAM_SINGLE) &&
           strlen(options->type) <= COP_FILTER_NAME_MAX &&
           params <= COP_FILTER_PARAMS_MAX && options->number != 0 && shaped &&
           (unsigned)options->sync <= COP_SYNC_NONE && options->window > 0 &&
           options->window <= COP_STREAM_WINDOW_MAX &&
           (options->flags & ~COP_STREAM_FLAGS_ALL) == 0 &&
           (options->sync == COP_SYNC_ALL || !(options->flags & COP_STREAM_FRAGILE));
}

/* T20: a place that is empty now is in nobody's hands that could make a group whole. */
static cop_incarnation life_at(const struct cop_node *node, cop_id id)
{
    cop_incarnation life = cop_view_incarnation(node->view, id);
    return life != 0 && cop_view_has(node->view, id, life) ? life : UINT64_MAX;
}

/* Those who give packets, by their places: one that is empty now may be taken again. */
static void choose_back_ends(struct cop_node *node,
                             const struct cop_stream_options *options, bool by_level,
                             struct cop__lives *out)
{
    struct cop_tree tree = {.shape = options->shape.kind ? options->shape
                                                         : *cop_view_shape(node->view),
                            .n = cop_view_slots(node->view),
                            .root = cop_view_root(node->view)};
    for (cop_id id = 0; id < tree.n && !node->failed; id++)
        if (!(options->flags & COP_STREAM_LEAVES) ||
            cop_tree_child_count(&tree, id) == 0)
            cop__lives_add_one(node, out, id, by_level ? life_at(node, id) : 1);
}

void cop__stream_write_text(struct cop__writer *writer, const char *text)
{
    cop__put_bytes(writer, (struct cop__bytes){(const uint8_t *)text,
                                               (uint32_t)(text ? strlen(text) : 0)});
}

static struct cop_buf *write_definition(const struct cop_node *node,
                                        const struct cop_request *request,
                                        const char *params,
                                        const struct cop__lives *back_ends)
{
    const struct cop_stream_options *options = request->stream;
    size_t size = 76 + strlen(options->filter) + strlen(options->type) +
                  (params ? strlen(params) : 0) + cop__way_size(options) +
                  cop__lives_size(back_ends);
    struct cop_buf *buf = cop_buf_create(size);
    if (!buf)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, size);
    cop__put_u64(&writer, options->network);
    cop__put_u64(&writer, options->number);
    cop__put_u8(&writer, (uint8_t)options->shape.kind);
    cop__put_u32(&writer, options->shape.k);
    cop__put_u8(&writer, (uint8_t)options->sync);
    cop__put_u8(&writer,
                (uint8_t)(options->flags | (options->down ? COP__DEFINES_WAY : 0)));
    cop__put_u64(&writer, options->timeout_ns);
    cop__put_u32(&writer, options->window);
    cop__put_u32(&writer, cop_view_slots(node->view));
    cop__put_u32(&writer, request->member);
    cop__put_u64(&writer, request->incarnation);
    cop__stream_write_text(&writer, options->filter);
    cop__stream_write_text(&writer, options->type);
    cop__stream_write_text(&writer, params);
    cop__way_write(node, options, &writer);
    cop__lives_write(&writer, back_ends);
    COP_ASSERT(!writer.failed);
    buf->length = (uint32_t)(writer.at - buf->data);
    return buf;
}

const struct cop_filter *cop__stream_filter(const struct cop_node *node,
                                            const char *name)
{
    const struct cop__settings *settings = node->settings;
    for (uint32_t i = 0; i < settings->filter_count; i++)
        if (strcmp(settings->filters[i]->name, name) == 0)
            return settings->filters[i];
    return cop_filter_find(name);
}

int cop__stream_define(struct cop_node *node, const struct cop_request *request,
                       struct cop_buf **out)
{
    const struct cop_stream_options *options = request->stream;
    struct cop__lives back_ends = {0};
    char planned[COP_FILTER_PARAMS_MAX + 1];
    const char *params = options->params;
    const struct cop_filter *filter =
        options->filter ? cop__stream_filter(node, options->filter) : NULL;
    if (!filter || !options_are_possible(options, filter))
        return COP_EINVAL;
    int error = options->down ? cop__way_check(node, options) : 0;
    if (error)
        return error;
    bool by_level = cop__filter_is_levels(filter);
    if (by_level && cop__stages_plan(node, options, planned))
        return COP_EINVAL;
    params = by_level ? planned : params;
    choose_back_ends(node, options, by_level, &back_ends);
    *out = node->failed ? NULL : write_definition(node, request, params, &back_ends);
    cop__lives_free(&back_ends);
    if (!*out)
        cop__fail(node, COP_ENOMEM);
    return *out ? 0 : COP_ENOMEM;
}

/* ---- reading --------------------------------------------------------------------- */

bool cop__stream_read_text(struct cop__reader *reader, char *out, size_t size)
{
    struct cop__bytes text = cop__get_bytes(reader);
    if (reader->failed || text.length >= size ||
        memchr(text.data, 0, text.length) != NULL)
        return false;
    if (text.length)
        memcpy(out, text.data, text.length);
    out[text.length] = 0;
    return true;
}

static bool read_numbers(struct cop__reader *reader, struct cop__stream *stream,
                         uint64_t *network, struct cop_shape *shape, bool *has_way)
{
    *network = cop__get_u64(reader);
    stream->number = cop__get_u64(reader);
    uint8_t kind = cop__get_u8(reader);
    uint32_t k = cop__get_u32(reader);
    stream->sync = cop__get_u8(reader);
    uint8_t flags = cop__get_u8(reader);
    *has_way = flags & COP__DEFINES_WAY;
    stream->flags = flags & (uint8_t)~COP__DEFINES_WAY;
    stream->timeout_ns = cop__get_u64(reader);
    stream->window = cop__get_u32(reader);
    stream->slots_at_start = cop__get_u32(reader);
    stream->opener = cop__get_u32(reader);
    stream->opener_life = cop__get_u64(reader);
    *shape = (struct cop_shape){0};
    return !reader->failed && stream->number != 0 && stream->sync <= COP_SYNC_NONE &&
           stream->flags <= COP_STREAM_FLAGS_ALL && stream->window > 0 &&
           (stream->sync == COP_SYNC_ALL || !cop__stream_is_fragile(stream)) &&
           stream->window <= COP_STREAM_WINDOW_MAX && kind <= COP_SHAPE_CHAIN &&
           (kind == 0 || cop_shape_make((enum cop_shape_kind)kind, k, shape) == 0);
}

static bool read_filter(struct cop_node *node, struct cop__reader *reader,
                        struct cop__stream *stream)
{
    char name[COP_FILTER_NAME_MAX + 1], params[COP_FILTER_PARAMS_MAX + 1];
    if (!cop__stream_read_text(reader, name, sizeof name) ||
        !cop__stream_read_text(reader, stream->type, sizeof stream->type) ||
        !cop__stream_read_text(reader, params, sizeof params))
        return false;
    stream->filter = cop__stream_filter(node, name);
    if (!stream->filter ||
        !(cop__stream_is_single(stream) ||
          cop__filter_is_cumulative(stream->filter, stream->type, params)))
        return false;
    int error = cop_filter_init(stream->filter, stream->type, params, &stream->empty);
    if (error == COP_ENOMEM)
        cop__fail(node, error);
    stream->replaces = cop__stream_is_single(stream);
    return error == 0 &&
           (!cop__filter_is_levels(stream->filter) || cop__stages_make(node, stream));
}

bool cop__stream_has_back_end(const struct cop__stream *stream, cop_id id)
{
    return id >= stream->slots_at_start || cop__lives_find(&stream->back_ends, id) != 0;
}

static void begin(struct cop_node *node, struct cop__stream *stream)
{
    stream->timer.fire = cop__stream_timer;
    stream->hold.fire = cop__stream_hold;
    stream->is_back_end = cop__stream_has_back_end(stream, node->self);
    stream->own.id = node->self;
    stream->own.incarnation = node->incarnation;
    stream->own.heard = true;
    stream->own.idle = !stream->is_back_end;
    stream->own.state = cop_buf_ref(stream->empty);
    stream->residue = cop_buf_ref(stream->empty);
    stream->state = cop_buf_ref(stream->empty);
    stream->output_whole = true;
    stream->dirty = stream->silent = true;
    cop__lives_add_one(node, &stream->own.cover, node->self, node->incarnation);
}

struct cop__stream *cop__stream_make(struct cop_node *node, struct cop__bytes bytes,
                                     uint64_t *network, struct cop_shape *shape)
{
    struct cop__stream *stream = calloc(1, sizeof *stream);
    if (!stream) {
        cop__fail(node, COP_ENOMEM);
        return NULL;
    }
    struct cop__reader reader = cop__reader(bytes.data, bytes.length);
    cop__timer_init(&stream->timer.timer);
    cop__timer_init(&stream->hold.timer);
    bool has_way;
    bool good = read_numbers(&reader, stream, network, shape, &has_way) &&
                read_filter(node, &reader, stream) &&
                (!has_way || cop__way_read(node, stream, &reader));
    if (good) {
        struct cop__bytes rest = {reader.at, (uint32_t)(reader.end - reader.at)};
        good = cop__lives_read(node, rest, &stream->back_ends);
    }
    stream->definition = good ? cop_buf_copy(bytes.data, bytes.length) : NULL;
    if (good && !stream->definition)
        cop__fail(node, COP_ENOMEM);
    if (!stream->definition) {
        cop__stream_free(node, stream);
        return NULL;
    }
    begin(node, stream);
    if (stream->way)
        cop__way_find(node, stream);
    return stream;
}

void cop__stream_free(struct cop_node *node, struct cop__stream *stream)
{
    cop__timer_cancel(node, &stream->timer);
    cop__timer_cancel(node, &stream->hold);
    for (uint32_t i = 0; i < stream->slot_count; i++)
        cop__slot_fini(&stream->slots[i]);
    cop__slot_fini(&stream->own);
    for (uint32_t i = 0; i < stream->packet_count; i++)
        cop_buf_unref(stream->packets[i].bytes);
    free(stream->packets);
    free(stream->slots);
    cop__stages_free(stream->stages);
    cop__way_free(stream->way);
    cop__lives_free(&stream->back_ends);
    cop__lives_free(&stream->cover);
    cop__departed_free(&stream->departed);
    cop__departed_free(&stream->all_departed);
    cop_buf_unref(stream->definition);
    cop_buf_unref(stream->empty);
    cop_buf_unref(stream->residue);
    cop_buf_unref(stream->state);
    cop_buf_unref(stream->output);
    free(stream);
}
