/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/codec.h"

#include <string.h>

struct cop__reader cop__reader(const void *data, size_t length)
{
    const uint8_t *at = data;
    struct cop__reader reader = {at, at, false};
    if (length > 0)
        reader.end = at + length;
    return reader;
}

static const uint8_t *take(struct cop__reader *reader, size_t length)
{
    if (reader->failed || (size_t)(reader->end - reader->at) < length) {
        reader->failed = true;
        return NULL;
    }
    const uint8_t *at = reader->at;
    reader->at += length;
    return at;
}

uint8_t cop__get_u8(struct cop__reader *reader)
{
    const uint8_t *p = take(reader, 1);
    return p ? p[0] : 0;
}

uint16_t cop__get_u16(struct cop__reader *reader)
{
    const uint8_t *p = take(reader, 2);
    return p ? (uint16_t)(p[0] | (unsigned)p[1] << 8) : 0;
}

static uint32_t load32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}

uint32_t cop__get_u32(struct cop__reader *reader)
{
    const uint8_t *p = take(reader, 4);
    return p ? load32(p) : 0;
}

uint64_t cop__get_u64(struct cop__reader *reader)
{
    const uint8_t *p = take(reader, 8);
    return p ? (uint64_t)load32(p) | (uint64_t)load32(p + 4) << 32 : 0;
}

struct cop__bytes cop__get_bytes(struct cop__reader *reader)
{
    struct cop__bytes bytes = {NULL, cop__get_u32(reader)};
    bytes.data = take(reader, bytes.length);
    if (!bytes.data)
        bytes.length = 0;
    return bytes;
}

struct cop__list cop__get_list(struct cop__reader *reader, uint32_t element_size)
{
    struct cop__list list = {NULL, cop__get_u32(reader)};
    /* In 64 bits the product cannot wrap, so a claimed count of 2^32-1 just fails. */
    uint64_t length = (uint64_t)list.count * element_size;
    list.data = length <= SIZE_MAX ? take(reader, (size_t)length) : NULL;
    if (!list.data) {
        reader->failed = true;
        list.count = 0;
    }
    return list;
}

bool cop__reader_is_done(const struct cop__reader *reader)
{
    return !reader->failed && reader->at == reader->end;
}

struct cop__writer cop__writer(void *data, size_t length)
{
    uint8_t *at = data;
    struct cop__writer writer = {at, at, false};
    if (length > 0)
        writer.end = at + length;
    return writer;
}

static uint8_t *room(struct cop__writer *writer, size_t length)
{
    if (writer->failed || (size_t)(writer->end - writer->at) < length) {
        writer->failed = true;
        return NULL;
    }
    uint8_t *at = writer->at;
    writer->at += length;
    return at;
}

void cop__put_u8(struct cop__writer *writer, uint8_t value)
{
    uint8_t *p = room(writer, 1);
    if (p)
        p[0] = value;
}

void cop__put_u16(struct cop__writer *writer, uint16_t value)
{
    uint8_t *p = room(writer, 2);
    if (p) {
        p[0] = (uint8_t)value;
        p[1] = (uint8_t)(value >> 8);
    }
}

static void store32(uint8_t *p, uint32_t value)
{
    p[0] = (uint8_t)value;
    p[1] = (uint8_t)(value >> 8);
    p[2] = (uint8_t)(value >> 16);
    p[3] = (uint8_t)(value >> 24);
}

void cop__put_u32(struct cop__writer *writer, uint32_t value)
{
    uint8_t *p = room(writer, 4);
    if (p)
        store32(p, value);
}

void cop__put_u64(struct cop__writer *writer, uint64_t value)
{
    uint8_t *p = room(writer, 8);
    if (p) {
        store32(p, (uint32_t)value);
        store32(p + 4, (uint32_t)(value >> 32));
    }
}

static void put_raw(struct cop__writer *writer, const uint8_t *data, size_t length)
{
    uint8_t *p = room(writer, length);
    if (p && length > 0)
        memcpy(p, data, length);
}

void cop__put_bytes(struct cop__writer *writer, struct cop__bytes bytes)
{
    cop__put_u32(writer, bytes.length);
    put_raw(writer, bytes.data, bytes.length);
}

void cop__put_list(struct cop__writer *writer, struct cop__list list,
                   uint32_t element_size)
{
    cop__put_u32(writer, list.count);
    put_raw(writer, list.data, (size_t)list.count * element_size);
}

struct cop__belief cop__belief_at(struct cop__list list, uint32_t i)
{
    struct cop__reader reader =
        cop__reader(list.data + (size_t)i * COP__SIZE_belief, COP__SIZE_belief);
    struct cop__belief belief;
    belief.id = cop__get_u32(&reader);
    belief.incarnation = cop__get_u64(&reader);
    belief.denial = cop__get_u32(&reader);
    belief.status = cop__get_u8(&reader);
    return belief;
}

void cop__belief_put(struct cop__writer *writer, const struct cop__belief *belief)
{
    cop__put_u32(writer, belief->id);
    cop__put_u64(writer, belief->incarnation);
    cop__put_u32(writer, belief->denial);
    cop__put_u8(writer, belief->status);
}

struct cop__mark cop__mark_at(struct cop__list list, uint32_t i)
{
    struct cop__reader reader =
        cop__reader(list.data + (size_t)i * COP__SIZE_mark, COP__SIZE_mark);
    struct cop__mark mark;
    mark.rank = cop__get_u32(&reader);
    mark.mode = cop__get_u8(&reader);
    return mark;
}

void cop__mark_put(struct cop__writer *writer, const struct cop__mark *mark)
{
    cop__put_u32(writer, mark->rank);
    cop__put_u8(writer, mark->mode);
}

struct cop__pulse cop__pulse_at(struct cop__list list, uint32_t i)
{
    struct cop__reader reader =
        cop__reader(list.data + (size_t)i * COP__SIZE_pulse, COP__SIZE_pulse);
    struct cop__pulse pulse;
    pulse.id = cop__get_u32(&reader);
    pulse.incarnation = cop__get_u64(&reader);
    pulse.stamp = cop__get_u64(&reader);
    return pulse;
}

void cop__pulse_put(struct cop__writer *writer, const struct cop__pulse *pulse)
{
    cop__put_u32(writer, pulse->id);
    cop__put_u64(writer, pulse->incarnation);
    cop__put_u64(writer, pulse->stamp);
}

cop_rank cop__listed_rank(struct cop__list list, uint32_t i)
{
    struct cop__reader reader =
        cop__reader(list.data + (size_t)i * COP__SIZE_rank, COP__SIZE_rank);
    return cop__get_u32(&reader);
}
