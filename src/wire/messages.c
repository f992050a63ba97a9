/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/messages.h"

#include <coppice/error.h>
#include <stdio.h>

/* ---- the table ------------------------------------------------------------------- */

#define LEAST_8(name) +1u
#define LEAST_16(name) +2u
#define LEAST_32(name) +4u
#define LEAST_64(name) +8u
#define LEAST_BYTES(name) +4u
#define LEAST_LIST(name, element) +4u
/* The shortest that a message of this name can be. */
#define LEAST(name)                                                                    \
    (0u COP__FIELDS_##name(LEAST_8, LEAST_16, LEAST_32, LEAST_64, LEAST_BYTES,         \
                           LEAST_LIST))

static const struct cop__kind_info kinds[COP__KINDS] = {
#define ROW(NAME, name, number, class, most, text)                                     \
    {#name, text, number, COP__CLASS_##class, LEAST(name), most},
    COP__MESSAGES(ROW)
#undef ROW
};

enum cop__kind_index cop__kind_index(uint16_t kind)
{
    switch (kind) {
#define CASE(NAME, name, number, class, most, text)                                    \
    case number:                                                                       \
        return COP__INDEX_##NAME;
        COP__MESSAGES(CASE)
#undef CASE
    default:
        return COP__KINDS;
    }
}

const struct cop__kind_info *cop__kind_at(enum cop__kind_index index)
{
    return index < COP__KINDS ? &kinds[index] : NULL;
}

const struct cop__kind_info *cop__kind_info(uint16_t kind)
{
    return cop__kind_at(cop__kind_index(kind));
}

/* ---- codec ----------------------------------------------------------------------- */

#define SIZE_8(name) +1u
#define SIZE_16(name) +2u
#define SIZE_32(name) +4u
#define SIZE_64(name) +8u
#define SIZE_BYTES(name) +4u + (size_t)message->name.length
#define SIZE_LIST(name, element) +4u + (size_t)message->name.count *COP__SIZE_##element

#define PUT_8(name) cop__put_u8(&writer, message->name);
#define PUT_16(name) cop__put_u16(&writer, message->name);
#define PUT_32(name) cop__put_u32(&writer, message->name);
#define PUT_64(name) cop__put_u64(&writer, message->name);
#define PUT_BYTES(name) cop__put_bytes(&writer, message->name);
#define PUT_LIST(name, element)                                                        \
    cop__put_list(&writer, message->name, COP__SIZE_##element);

#define GET_8(name) message.name = cop__get_u8(&reader);
#define GET_16(name) message.name = cop__get_u16(&reader);
#define GET_32(name) message.name = cop__get_u32(&reader);
#define GET_64(name) message.name = cop__get_u64(&reader);
#define GET_BYTES(name) message.name = cop__get_bytes(&reader);
#define GET_LIST(name, element)                                                        \
    message.name = cop__get_list(&reader, COP__SIZE_##element);

/* That a message is not too short is looked at first: then its numbers need no looks of
 * their own. */
#define CODEC(NAME, name, number, class, most, text)                                   \
    struct cop_buf *cop__encode_##name(const struct cop__msg_##name *message)          \
    {                                                                                  \
        size_t size = 0u COP__FIELDS_##name(SIZE_8, SIZE_16, SIZE_32, SIZE_64,         \
                                            SIZE_BYTES, SIZE_LIST);                    \
        struct cop_buf *buf = cop_buf_create(size);                                    \
        if (!buf)                                                                      \
            return NULL;                                                               \
        struct cop__writer writer = cop__writer(buf->data, size);                      \
        COP__FIELDS_##name(PUT_8, PUT_16, PUT_32, PUT_64, PUT_BYTES,                   \
                           PUT_LIST) return buf;                                       \
    }                                                                                  \
    int cop__decode_##name(const uint8_t *data, size_t length,                         \
                           struct cop__msg_##name *out)                                \
    {                                                                                  \
        struct cop__reader reader = cop__reader(data, length);                         \
        struct cop__msg_##name message;                                                \
        if (length < LEAST(name))                                                      \
            return COP_EMALFORMED;                                                     \
        COP__FIELDS_##name(                                                            \
            GET_8, GET_16, GET_32, GET_64, GET_BYTES,                                  \
            GET_LIST) if (!cop__reader_is_done(&reader)) return COP_EMALFORMED;        \
        *out = message;                                                                \
        return 0;                                                                      \
    }
COP__MESSAGES(CODEC)
#undef CODEC

/* ---- printing -------------------------------------------------------------------- */

struct line {
    char *out;
    size_t size, length;
};

static void add(struct line *line, const char *name, uint64_t value, const char *unit)
{
    size_t left = line->length < line->size ? line->size - line->length : 0;
    int n = snprintf(left ? line->out + line->length : NULL, left, " %s=%llu%s", name,
                     (unsigned long long)value, unit);
    line->length += n > 0 ? (size_t)n : 0;
}

#define ADD_INT(name) add(&line, #name, message.name, "");
#define ADD_BYTES(name) add(&line, #name, message.name.length, "B");
#define ADD_LIST(name, element) add(&line, #name, message.name.count, "#");

#define PRINT(NAME, name, number, class, most, text)                                   \
    static int print_##name(const uint8_t *data, size_t length, char *out,             \
                            size_t size)                                               \
    {                                                                                  \
        struct cop__msg_##name message;                                                \
        if (cop__decode_##name(data, length, &message) != 0)                           \
            return snprintf(out, size, #name " (malformed)");                          \
        int n = snprintf(out, size, #name);                                            \
        struct line line = {out, size, n > 0 ? (size_t)n : 0};                         \
        COP__FIELDS_##name(ADD_INT, ADD_INT, ADD_INT, ADD_INT, ADD_BYTES,              \
                           ADD_LIST) return (int)line.length;                          \
    }
COP__MESSAGES(PRINT)
#undef PRINT

int cop__print_message(uint16_t kind, const uint8_t *data, size_t length, char *out,
                       size_t size)
{
    switch (kind) {
#define CASE(NAME, name, number, class, most, text)                                    \
    case number:                                                                       \
        return print_##name(data, length, out, size);
        COP__MESSAGES(CASE)
#undef CASE
    default:
        return snprintf(out, size, "unknown kind %u (%zu bytes)", (unsigned)kind,
                        length);
    }
}
