/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/codec.h"

#include <string.h>

/* NULL if there are not so many. */
static const uint8_t *take(struct cop__reader *reader, size_t length)
{
    const uint8_t *at = reader->at;
    if (!cop__reader_has(reader, length))
        return NULL;
    reader->at += length;
    return at;
}

struct cop__bytes cop__get_bytes(struct cop__reader *reader)
{
    struct cop__bytes bytes = {NULL, cop__get_u32(reader)};
    bytes.data = take(reader, bytes.length);
    if (!bytes.data)
        bytes.length = 0;
    return bytes;
}

void cop__get_text(struct cop__reader *reader, char *out, size_t size)
{
    struct cop__bytes bytes = cop__get_bytes(reader);
    if (reader->failed || bytes.length >= size ||
        (bytes.length > 0 && memchr(bytes.data, 0, bytes.length) != NULL)) {
        reader->at = reader->end;
        reader->failed = true;
        return;
    }
    if (bytes.length > 0)
        memcpy(out, bytes.data, bytes.length);
    out[bytes.length] = '\0';
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

static void put_raw(struct cop__writer *writer, const uint8_t *data, size_t length)
{
    if (!cop__writer_has(writer, length) || length == 0)
        return;
    memcpy(writer->at, data, length);
    writer->at += length;
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
