/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/state.h"

#include "filter/filter.h"

#include <stdlib.h>
#include <string.h>

/*
 * Filters down (T21). Packets are carried, kept and sent again as the front-end gave them; the
 * filter is applied where a packet has arrived, once for each place of the planned way to there.
 * So what a back-end is given depends on the packet and on its place alone, and nothing that mends
 * the tree has to know of it.
 */

#define DEFAULT_TYPE "bytes"

static const char *type_of(const struct cop_stream_options *options)
{
    return options->down_type ? options->down_type : DEFAULT_TYPE;
}

static const char *params_of(const struct cop_stream_options *options)
{
    return options->down_params ? options->down_params : "";
}

static const struct cop_shape *shape_of(const struct cop_node *node,
                                        const struct cop_stream_options *options)
{
    return options->shape.kind ? &options->shape : cop_view_shape(node->view);
}

int cop__way_check(const struct cop_node *node,
                   const struct cop_stream_options *options)
{
    const struct cop_filter *filter = cop__stream_filter(node, options->down);
    struct cop_buf *ready;
    if (!filter || shape_of(node, options)->kind > COP_SHAPE_CHAIN)
        return COP_EINVAL;
    bool is_short;
    int error = cop__filter_ready(filter, type_of(options), params_of(options),
                                  &is_short, &ready);
    if (error)
        return is_short ? COP_ENOMEM : COP_EINVAL;
    cop_buf_unref(ready);
    return 0;
}

/* ---- in the definition ----------------------------------------------------------- */

size_t cop__way_size(const struct cop_stream_options *options)
{
    return options->down ? 17 + strlen(options->down) + strlen(type_of(options)) +
                               strlen(params_of(options))
                         : 0;
}

/* The view's shape as it is now: another view may have another. */
void cop__way_write(const struct cop_node *node,
                    const struct cop_stream_options *options,
                    struct cop__writer *writer)
{
    const struct cop_shape *shape = shape_of(node, options);
    if (!options->down)
        return;
    cop__stream_write_text(writer, options->down);
    cop__stream_write_text(writer, type_of(options));
    cop__stream_write_text(writer, params_of(options));
    cop__put_u8(writer, (uint8_t)shape->kind);
    cop__put_u32(writer, shape->k);
}

static bool read_plan(struct cop__reader *reader, const struct cop__stream *stream,
                      struct cop_tree *out)
{
    uint8_t kind = cop__get_u8(reader);
    uint32_t k = cop__get_u32(reader);
    out->n = stream->slots_at_start;
    return !reader->failed && out->n > 0 && out->n <= COP_MEMBERS_MAX && kind > 0 &&
           kind <= COP_SHAPE_CHAIN &&
           cop_shape_make((enum cop_shape_kind)kind, k, &out->shape) == 0;
}

bool cop__way_read(struct cop_node *node, struct cop__stream *stream,
                   struct cop__reader *reader)
{
    char name[COP_FILTER_NAME_MAX + 1], params[COP_FILTER_PARAMS_MAX + 1];
    struct cop__way *way = calloc(1, sizeof *way);
    stream->way = way;
    if (!way) {
        cop__fail(node, COP_ENOMEM);
        return false;
    }
    if (!cop__stream_read_text(reader, name, sizeof name) ||
        !cop__stream_read_text(reader, way->type, sizeof way->type) ||
        !cop__stream_read_text(reader, params, sizeof params) ||
        !read_plan(reader, stream, &way->plan))
        return false;
    bool is_short = false;
    way->filter = cop__stream_filter(node, name);
    int error = way->filter ? cop__filter_ready(way->filter, way->type, params,
                                                &is_short, &way->ready)
                            : COP_EINVAL;
    if (is_short)
        cop__fail(node, COP_ENOMEM);
    return error == 0;
}

void cop__way_free(struct cop__way *way)
{
    if (!way)
        return;
    cop_buf_unref(way->ready);
    cop_ranks_free(&way->places);
    free(way);
}

/* ---- the way --------------------------------------------------------------------- */

/* Of the planned back-ends those with a lower id. */
static uint32_t index_of(const struct cop__lives *back_ends, cop_id id)
{
    uint32_t below = 0;
    for (uint32_t i = 0; i < back_ends->count; i++) {
        const struct cop__range *range = &back_ends->items[i];
        if (id < range->first)
            break;
        below += id - range->first < range->count ? id - range->first : range->count;
    }
    return below;
}

/* Who came later is taken to hang below the top. */
static cop_rank above(const struct cop_tree *plan, cop_id id)
{
    return id < plan->n ? cop_tree_parent(plan, id) : plan->root;
}

void cop__way_find(struct cop_node *node, struct cop__stream *stream)
{
    struct cop__way *way = stream->way;
    if (!stream->is_back_end)
        return; /* it is given nothing */
    way->count = cop__lives_count(&stream->back_ends);
    way->index = index_of(&stream->back_ends, node->self);
    for (cop_rank at = node->self; at != COP_RANK_NONE; at = above(&way->plan, at))
        if (cop_ranks_push(&way->places, at)) {
            cop__fail(node, COP_ENOMEM);
            return;
        }
}

/* The places are in the order from the back-end up. What the filter says is its own affair, but for
 * want of memory here. */
static int apply(const struct cop__way *way, const struct cop__stream *stream,
                 uint64_t number, bool *is_short, struct cop_buf **bytes)
{
    struct cop_place place = {.leaf = stream->own.id,
                              .depth = way->places.count - 1,
                              .index = way->index,
                              .count = way->count};
    for (; place.level <= place.depth; place.level++) {
        struct cop_packet packet = {.type = way->type,
                                    .leaf = place.leaf,
                                    .wave = number,
                                    .data = {(*bytes)->data, (*bytes)->length}};
        struct cop_buf *below;
        place.id = way->places.items[place.depth - place.level];
        int error = cop__filter_down(way->filter, way->ready, &place, &packet, is_short,
                                     &below);
        if (error)
            return error;
        cop_buf_unref(*bytes);
        *bytes = below;
    }
    return 0;
}

void cop__way_deliver(struct cop_node *node, const struct cop__stream *stream,
                      uint64_t number, struct cop_buf *bytes)
{
    struct cop_buf *given = cop_buf_ref(bytes);
    bool is_short = false;
    int error = apply(stream->way, stream, number, &is_short, &given);
    struct cop_stream_event event = {
        .kind = COP_STREAM_DOWN, .wave = number, .status = error};
    if (error == 0) {
        event.bytes = given->data;
        event.length = given->length;
    }
    if (is_short)
        cop__fail(node, COP_ENOMEM);
    else if (error != COP_ENOENT)
        cop__stream_tell(node, stream, &event);
    if (error && error != COP_ENOENT && !is_short)
        COP__COUNT(node, stream_down_failed);
    cop_buf_unref(given);
}
