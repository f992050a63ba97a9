/* SPDX-License-Identifier: Apache-2.0 */
/* What front-ends and desks say to each other, as bytes. */
#include "run/streams.h"

#include <string.h>

#include "base/assert.h"

#define SAID_BYTES 33u

struct cop_buf *cop__said_encode(const struct cop__said *said)
{
    struct cop_buf *buf = cop_buf_create((size_t)SAID_BYTES + said->bytes.length);
    if (buf == NULL)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    cop__put_u8(&writer, (uint8_t)said->kind);
    cop__put_u64(&writer, said->stream);
    cop__put_u64(&writer, said->wave);
    cop__put_u64(&writer, said->reached);
    cop__put_u32(&writer, (uint32_t)-said->status);
    cop__put_bytes(&writer, said->bytes);
    COP_ASSERT(!writer.failed);
    return buf;
}

int cop__said_decode(const struct cop_buf *bytes, struct cop__said *out)
{
    struct cop__reader reader = cop__reader(bytes->data, bytes->length);
    struct cop__said said = {.kind = (enum cop__said_kind)cop__get_u8(&reader)};
    said.stream = cop__get_u64(&reader);
    said.wave = cop__get_u64(&reader);
    said.reached = cop__get_u64(&reader);
    uint32_t status = cop__get_u32(&reader);
    said.bytes = cop__get_bytes(&reader);
    if (!cop__reader_is_done(&reader) || said.kind < COP__SAY_OPEN ||
        said.kind > COP__SAY_GONE || status > INT16_MAX || said.stream == 0)
        return COP_EMALFORMED;
    said.status = -(int)status;
    *out = said;
    return 0;
}

/* ---- options --------------------------------------------------------------------- */

static struct cop__bytes text(const char *from)
{
    return (struct cop__bytes){(const uint8_t *)from,
                               (uint32_t)(from ? strlen(from) : 0)};
}

/* Of a filter down, behind all else: without one there is nothing, as it was before there were
 * such. A desk that does not know of them takes what has one for no options. */
static size_t way_size(const struct cop_stream_options *options)
{
    return options->down
               ? 12 + (size_t)text(options->down).length +
                     text(options->down_type).length + text(options->down_params).length
               : 0;
}

static void put_way(struct cop__writer *writer,
                    const struct cop_stream_options *options)
{
    if (options->down == NULL)
        return;
    cop__put_bytes(writer, text(options->down));
    cop__put_bytes(writer, text(options->down_type));
    cop__put_bytes(writer, text(options->down_params));
}

static void get_way(struct cop__reader *reader, struct cop__stream_texts *texts,
                    struct cop_stream_options *out)
{
    if (reader->failed || reader->at == reader->end)
        return;
    cop__get_text(reader, texts->down, sizeof texts->down);
    cop__get_text(reader, texts->down_type, sizeof texts->down_type);
    cop__get_text(reader, texts->down_params, sizeof texts->down_params);
    out->down = texts->down;
    out->down_type = texts->down_type[0] ? texts->down_type : NULL;
    out->down_params = texts->down_params;
}

struct cop_buf *cop__options_encode(const struct cop_stream_options *options)
{
    struct cop__bytes filter = text(options->filter), type = text(options->type),
                      params = text(options->params), definition = {0};
    if (options->definition != NULL)
        definition =
            (struct cop__bytes){options->definition->data, options->definition->length};
    size_t size = 51 + (size_t)filter.length + type.length + params.length +
                  definition.length + way_size(options);
    struct cop_buf *buf = cop_buf_create(size);
    if (buf == NULL)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    cop__put_u64(&writer, options->number);
    cop__put_u64(&writer, options->network);
    cop__put_u8(&writer, (uint8_t)options->shape.kind);
    cop__put_u32(&writer, options->shape.k);
    cop__put_u8(&writer, (uint8_t)options->sync);
    cop__put_u8(&writer, (uint8_t)options->flags);
    cop__put_u64(&writer, options->timeout_ns);
    cop__put_u32(&writer, options->window);
    cop__put_bytes(&writer, filter);
    cop__put_bytes(&writer, type);
    cop__put_bytes(&writer, params);
    cop__put_bytes(&writer, definition);
    put_way(&writer, options);
    COP_ASSERT(!writer.failed && writer.at == writer.end);
    return buf;
}

int cop__options_decode(struct cop__bytes bytes, struct cop_stream_options *out,
                        struct cop__stream_texts *texts)
{
    struct cop__reader reader = cop__reader(bytes.data, bytes.length);
    struct cop_stream_options options = {.number = cop__get_u64(&reader)};
    options.network = cop__get_u64(&reader);
    uint8_t kind = cop__get_u8(&reader);
    uint32_t k = cop__get_u32(&reader);
    options.sync = (enum cop_stream_sync)cop__get_u8(&reader);
    options.flags = cop__get_u8(&reader);
    options.timeout_ns = cop__get_u64(&reader);
    options.window = cop__get_u32(&reader);
    cop__get_text(&reader, texts->filter, sizeof texts->filter);
    cop__get_text(&reader, texts->type, sizeof texts->type);
    cop__get_text(&reader, texts->params, sizeof texts->params);
    struct cop__bytes definition = cop__get_bytes(&reader);
    get_way(&reader, texts, &options);
    /* The rest is looked at by the node. */
    if (!cop__reader_is_done(&reader) || kind > COP_SHAPE_CHAIN ||
        (kind != 0 &&
         cop_shape_make((enum cop_shape_kind)kind, k, &options.shape) != 0))
        return COP_EMALFORMED;
    options.filter = texts->filter;
    options.type = texts->type;
    options.params = texts->params;
    texts->definition = NULL;
    if (definition.length > 0 &&
        !(texts->definition = cop_buf_copy(definition.data, definition.length)))
        return COP_ENOMEM;
    options.definition = texts->definition;
    *out = options;
    return 0;
}

bool cop__said_is_for_desk(const struct cop__said *said)
{
    return said->kind < COP__SAY_OPENED;
}
