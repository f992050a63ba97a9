/* SPDX-License-Identifier: Apache-2.0 */
#include "filter/state.h"

#include <string.h>

/* ---- heads ----------------------------------------------------------------------- */

int cop__state_read(struct cop_span bytes, struct cop__state *out)
{
    struct cop__reader reader = cop__reader(bytes.bytes, bytes.length);
    struct cop__state state = {.head.bytes = bytes.bytes};
    state.type_length = cop__get_u8(&reader);
    if (reader.failed || state.type_length == 0 ||
        (size_t)(reader.end - reader.at) < state.type_length)
        return COP_EMALFORMED;
    state.type = (const char *)reader.at;
    reader.at += state.type_length;
    state.word_count = cop__get_u8(&reader);
    if (reader.failed || (size_t)(reader.end - reader.at) / 8 < state.word_count)
        return COP_EMALFORMED;
    state.words = reader.at;
    reader.at += (size_t)state.word_count * 8;
    state.head.length = (uint32_t)(reader.at - bytes.bytes);
    state.body = reader;
    *out = state;
    return 0;
}

int cop__state_read_pair(struct cop_span a, struct cop_span b, struct cop__state *out_a,
                         struct cop__state *out_b)
{
    if (cop__state_read(a, out_a) || cop__state_read(b, out_b))
        return COP_EMALFORMED;
    return cop__span_compare(out_a->head, out_b->head) == 0 ? 0 : COP_EINVAL;
}

uint64_t cop__state_word(const struct cop__state *state, uint32_t i)
{
    return cop_filter_get_u64(state->words + (size_t)i * 8);
}

bool cop__state_is(const struct cop__state *state, const char *inputs, uint32_t words)
{
    struct cop__type type;
    return state->word_count == words &&
           cop__type_parse(state->type, state->type_length, &type) == 0 &&
           cop__type_place(inputs, state->type, state->type_length) != UINT32_MAX;
}

int cop__head_put(struct cop_filter_out *out, const char *type, const uint64_t *words,
                  uint32_t count)
{
    size_t length = strlen(type);
    if (length > COP_FILTER_NAME_MAX || count > COP__HEAD_WORDS_MAX)
        return COP_EINVAL;
    uint8_t byte = (uint8_t)length;
    cop_filter_put(out, &byte, 1);
    cop_filter_put(out, type, (uint32_t)length);
    byte = (uint8_t)count;
    cop_filter_put(out, &byte, 1);
    for (uint32_t i = 0; i < count; i++)
        cop_filter_put_u64(out, words[i]);
    return out->error;
}

/* ---- numbers and spans ----------------------------------------------------------- */

int cop__put_varint(struct cop_filter_out *out, uint64_t value)
{
    uint8_t bytes[10];
    uint32_t length = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[length++] = (uint8_t)(value | 0x80);
    bytes[length++] = (uint8_t)value;
    return cop_filter_put(out, bytes, length);
}

uint64_t cop__get_varint(struct cop__reader *reader)
{
    uint64_t value = 0;
    for (uint32_t shift = 0;; shift += 7) {
        uint8_t byte = cop__get_u8(reader);
        /* The tenth byte has room for one bit; a last byte of zero was not needed. */
        if (shift == 63 && byte > 1)
            reader->failed = true;
        if (shift > 0 && byte == 0)
            reader->failed = true;
        if (reader->failed)
            return 0;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
}

int cop__put_span(struct cop_filter_out *out, struct cop_span span)
{
    cop__put_varint(out, span.length);
    return cop_filter_put(out, span.bytes, span.length);
}

struct cop_span cop__get_span(struct cop__reader *reader)
{
    uint64_t length = cop__get_varint(reader);
    if (reader->failed || length > (uint64_t)(reader->end - reader->at)) {
        reader->failed = true;
        return (struct cop_span){0};
    }
    struct cop_span span = {reader->at, (uint32_t)length};
    reader->at += length;
    return span;
}

int cop__span_compare(struct cop_span a, struct cop_span b)
{
    uint32_t length = a.length < b.length ? a.length : b.length;
    int order = length ? memcmp(a.bytes, b.bytes, length) : 0;
    if (order != 0)
        return order < 0 ? -1 : 1;
    return a.length < b.length ? -1 : a.length > b.length;
}

/* ---- sinks ----------------------------------------------------------------------- */

static int grow(struct cop_filter_out *out, uint32_t more)
{
    struct cop__sink *sink = (struct cop__sink *)(void *)out;
    if (more > sink->max - out->length)
        return COP_ETOOBIG;
    uint64_t room = 2 * (uint64_t)out->room + more + 32;
    if (room > sink->max)
        room = sink->max;
    struct cop_buf *larger = cop_buf_create((size_t)room);
    sink->is_short = sink->is_short || !larger;
    if (!larger)
        return COP_ENOMEM;
    if (out->length)
        memcpy(larger->data, out->bytes, out->length);
    cop_buf_unref(sink->buf);
    sink->buf = larger;
    out->bytes = larger->data;
    out->room = (uint32_t)room;
    return 0;
}

void cop__sink_init(struct cop__sink *sink, uint32_t max)
{
    *sink = (struct cop__sink){.out.grow = grow, .max = max};
}

int cop__sink_take(struct cop__sink *sink, int error, struct cop_buf **out)
{
    if (error == 0)
        error = sink->out.error;
    if (error == 0 && sink->buf == NULL)
        error = grow(&sink->out, 0);
    if (sink->is_short)
        error = COP_ENOMEM;
    if (error) {
        cop__sink_drop(sink);
        return error;
    }
    sink->buf->length = sink->out.length;
    *out = sink->buf;
    return 0;
}

void cop__sink_drop(struct cop__sink *sink)
{
    cop_buf_unref(sink->buf);
    sink->buf = NULL;
}
