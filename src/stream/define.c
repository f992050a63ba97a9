/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/state.h"

#include "filter/filter.h"

#include <stdlib.h>
#include <string.h>

/* What a stream is, as bytes: written once, where its front-end is, and passed on as it is (T1). */

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
struct places {
    struct cop_tree tree;
    bool leaves, by_level;
};

static cop_incarnation back_end_at(const struct cop_node *node,
                                   const struct places *places, cop_id id)
{
    if (places->leaves && cop_tree_child_count(&places->tree, id) != 0)
        return 0;
    return places->by_level ? life_at(node, id) : 1;
}

/* As ranges of one life each, and how many these are. NULL: they are only counted. */
static uint32_t write_back_ends(const struct cop_node *node,
                                const struct places *places, struct cop__writer *writer)
{
    uint32_t ranges = 0;
    for (cop_id id = 0, next; id < places->tree.n; id = next) {
        cop_incarnation life = back_end_at(node, places, id);
        next = id + 1;
        while (next < places->tree.n && life && back_end_at(node, places, next) == life)
            next++;
        if (life == 0)
            continue;
        ranges++;
        if (!writer)
            continue;
        cop__put_u32(writer, id);
        cop__put_u32(writer, next - id);
        cop__put_u64(writer, life);
    }
    return ranges;
}

void cop__stream_write_text(struct cop__writer *writer, const char *text)
{
    cop__put_bytes(writer, (struct cop__bytes){(const uint8_t *)text,
                                               (uint32_t)(text ? strlen(text) : 0)});
}

static struct cop_buf *write_definition(const struct cop_node *node,
                                        const struct cop__opening *opening,
                                        const char *params, bool by_level)
{
    const struct cop_stream_options *options = opening->options;
    const struct places places = {.tree = {.shape = options->shape.kind
                                                        ? options->shape
                                                        : *cop_view_shape(node->view),
                                           .n = cop_view_slots(node->view),
                                           .root = cop_view_root(node->view)},
                                  .leaves = options->flags & COP_STREAM_LEAVES,
                                  .by_level = by_level};
    size_t size = 84 + strlen(options->filter) + strlen(options->type) +
                  (params ? strlen(params) : 0) + cop__way_size(options) +
                  (size_t)COP__SIZE_range * write_back_ends(node, &places, NULL);
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
    cop__put_u32(&writer, opening->member);
    cop__put_u64(&writer, opening->incarnation);
    cop__put_u64(&writer, cop_view_epoch(node->view));
    cop__stream_write_text(&writer, options->filter);
    cop__stream_write_text(&writer, options->type);
    cop__stream_write_text(&writer, params);
    cop__way_write(node, options, &writer);
    write_back_ends(node, &places, &writer);
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

int cop__stream_define(const struct cop_node *node, const struct cop__opening *opening,
                       struct cop_buf **out)
{
    const struct cop_stream_options *options = opening->options;
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
    *out = write_definition(node, opening, by_level ? planned : params, by_level);
    return *out ? 0 : COP_ENOMEM;
}

int cop__stream_plan(const struct cop_node *node,
                     const struct cop_stream_options *options, struct cop_buf **out)
{
    struct cop__opening opening = {options, node->self, node->incarnation};
    /* Without views there are no streams, and nothing of them in the node. */
    return cop__has_views(node) ? cop__stream_define(node, &opening, out) : COP_ESTATE;
}

/* Of one stream, in the frame of an orphan: how long its definition is, and its place. */
#define BESIDE_DEFINITION (4u + 5u * 8u)

static uint64_t defined_bytes(const struct cop__streams *all)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < all->count; i++)
        for (uint32_t j = 0; j < all->networks[i]->stream_count; j++)
            bytes +=
                BESIDE_DEFINITION + all->networks[i]->streams[j]->definition->length;
    return bytes;
}

bool cop__stream_has_room(const struct cop_node *node, size_t bytes, uint64_t most)
{
    return defined_bytes(cop__streams(node)) + BESIDE_DEFINITION + bytes <= most;
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
    stream->planned_in = cop__get_u64(reader);
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
    bool is_short;
    int error = cop__filter_init(stream->filter, stream->type, params, &is_short,
                                 &stream->empty);
    if (is_short)
        cop__fail(node, COP_ENOMEM);
    stream->replaces = cop__stream_is_single(stream);
    return error == 0 &&
           (!cop__filter_is_levels(stream->filter) || cop__stages_make(node, stream));
}

bool cop__stream_has_back_end(const struct cop__stream *stream, cop_id id)
{
    return id >= stream->slots_at_start || cop__lives_find(&stream->back_ends, id) != 0;
}

static uint64_t key_of(const struct cop_buf *definition)
{
    struct cop__digest digest;
    cop__digest_init(&digest);
    cop__digest_bytes(&digest, definition->data, definition->length);
    uint64_t key = cop__digest_value(&digest);
    return key ? key : 1;
}

static void begin(struct cop_node *node, struct cop__stream *stream)
{
    stream->key = key_of(stream->definition);
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

bool cop__stream_is_defined(const struct cop__stream *stream,
                            const struct cop_buf *definition)
{
    return definition->length == stream->definition->length &&
           memcmp(definition->data, stream->definition->data, definition->length) == 0;
}

bool cop__stream_is_elder(const struct cop__stream *stream,
                          const struct cop__stream *other)
{
    const struct cop_buf *a = stream->definition, *b = other->definition;
    if (stream->planned_in != other->planned_in)
        return stream->planned_in < other->planned_in;
    /* In one view: all that counts is that everybody says the same. */
    int order = memcmp(a->data, b->data, a->length < b->length ? a->length : b->length);
    return order ? order < 0 : a->length < b->length;
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
