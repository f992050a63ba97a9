/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_WIRE_CODEC_H
#define COP_WIRE_CODEC_H

#include <coppice/buf.h>
#include <coppice/types.h>
#include <string.h>

/*
 * Bounded reading and writing, little-endian. A reader or writer that was asked for
 * too much is marked failed, gives zeroes, and never touches a byte outside: check
 * once, at the end. One that has failed has nothing left.
 */
struct cop__reader {
    const uint8_t *at, *end;
    bool failed;
};
struct cop__writer {
    uint8_t *at, *end;
    bool failed;
};

/* Bytes inside a message, borrowed from it. */
struct cop__bytes {
    const uint8_t *data;
    uint32_t length;
};
/* Encoded elements of fixed size inside a message, borrowed from it. */
struct cop__list {
    const uint8_t *data;
    uint32_t count;
};

static inline struct cop__reader cop__reader(const void *data, size_t length)
{
    const uint8_t *at = data;
    struct cop__reader reader = {at, at, false};
    if (length > 0)
        reader.end = at + length;
    return reader;
}

static inline struct cop__writer cop__writer(void *data, size_t length)
{
    uint8_t *at = data;
    struct cop__writer writer = {at, at, false};
    if (length > 0)
        writer.end = at + length;
    return writer;
}

/*
 * Numbers are here and not in codec.c because every message is made of them: where the length
 * is known to be enough, as for a header, nothing is left of the checks.
 */

/* Whether so many bytes are left; if not, it has failed. */
static inline bool cop__reader_has(struct cop__reader *reader, size_t length)
{
    if ((size_t)(reader->end - reader->at) >= length)
        return true;
    reader->failed = true;
    reader->end = reader->at;
    return false;
}

static inline bool cop__writer_has(struct cop__writer *writer, size_t length)
{
    if ((size_t)(writer->end - writer->at) >= length)
        return true;
    writer->failed = true;
    writer->end = writer->at;
    return false;
}

/*
 * Where the processor has this order itself a number is copied: compilers see that bytes which
 * are put together are a number, but not always, and then each takes several instructions.
 */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
static inline uint32_t cop__load32(const uint8_t *p)
{
    uint32_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

static inline uint64_t cop__load64(const uint8_t *p)
{
    uint64_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

static inline void cop__store32(uint8_t *p, uint32_t value)
{
    memcpy(p, &value, sizeof value);
}

static inline void cop__store64(uint8_t *p, uint64_t value)
{
    memcpy(p, &value, sizeof value);
}
#else
static inline uint32_t cop__load32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}

static inline uint64_t cop__load64(const uint8_t *p)
{
    return (uint64_t)cop__load32(p) | (uint64_t)cop__load32(p + 4) << 32;
}

static inline void cop__store32(uint8_t *p, uint32_t value)
{
    p[0] = (uint8_t)value;
    p[1] = (uint8_t)(value >> 8);
    p[2] = (uint8_t)(value >> 16);
    p[3] = (uint8_t)(value >> 24);
}

static inline void cop__store64(uint8_t *p, uint64_t value)
{
    cop__store32(p, (uint32_t)value);
    cop__store32(p + 4, (uint32_t)(value >> 32));
}
#endif

static inline uint8_t cop__get_u8(struct cop__reader *reader)
{
    const uint8_t *p = reader->at;
    if (!cop__reader_has(reader, 1))
        return 0;
    reader->at += 1;
    return p[0];
}

static inline uint16_t cop__get_u16(struct cop__reader *reader)
{
    const uint8_t *p = reader->at;
    if (!cop__reader_has(reader, 2))
        return 0;
    reader->at += 2;
    return (uint16_t)(p[0] | (unsigned)p[1] << 8);
}

static inline uint32_t cop__get_u32(struct cop__reader *reader)
{
    const uint8_t *p = reader->at;
    if (!cop__reader_has(reader, 4))
        return 0;
    reader->at += 4;
    return cop__load32(p);
}

static inline uint64_t cop__get_u64(struct cop__reader *reader)
{
    const uint8_t *p = reader->at;
    if (!cop__reader_has(reader, 8))
        return 0;
    reader->at += 8;
    return cop__load64(p);
}

static inline void cop__put_u8(struct cop__writer *writer, uint8_t value)
{
    uint8_t *p = writer->at;
    if (!cop__writer_has(writer, 1))
        return;
    writer->at += 1;
    p[0] = value;
}

static inline void cop__put_u16(struct cop__writer *writer, uint16_t value)
{
    uint8_t *p = writer->at;
    if (!cop__writer_has(writer, 2))
        return;
    writer->at += 2;
    p[0] = (uint8_t)value;
    p[1] = (uint8_t)(value >> 8);
}

static inline void cop__put_u32(struct cop__writer *writer, uint32_t value)
{
    uint8_t *p = writer->at;
    if (!cop__writer_has(writer, 4))
        return;
    writer->at += 4;
    cop__store32(p, value);
}

static inline void cop__put_u64(struct cop__writer *writer, uint64_t value)
{
    uint8_t *p = writer->at;
    if (!cop__writer_has(writer, 8))
        return;
    writer->at += 8;
    cop__store64(p, value);
}

struct cop__bytes cop__get_bytes(struct cop__reader *reader);
/* Bytes that are a string, ended by a zero in `out`. Fails if they do not fit, or have one. */
void cop__get_text(struct cop__reader *reader, char *out, size_t size);
struct cop__list cop__get_list(struct cop__reader *reader, uint32_t element_size);
/* True if nothing failed and nothing is left. */
bool cop__reader_is_done(const struct cop__reader *reader);

void cop__put_bytes(struct cop__writer *writer, struct cop__bytes bytes);
void cop__put_list(struct cop__writer *writer, struct cop__list list,
                   uint32_t element_size);

/* ---- elements of lists ----------------------------------------------------------- */

/* What is said of a member: the larger (incarnation, denial, status) is the newer. */
struct cop__belief {
    cop_id id;
    cop_incarnation incarnation;
    uint32_t denial;
    uint8_t status; /* enum cop_status */
};
#define COP__SIZE_belief 17u

/* One mark of a cover set, see sweep/cover.h. */
struct cop__mark {
    cop_rank rank;
    uint8_t mode; /* enum cop__mark_mode */
};
#define COP__SIZE_mark 5u

/* When a member was last heard of: see detect/gossip.c. */
struct cop__pulse {
    cop_id id;
    cop_incarnation incarnation;
    uint64_t stamp;
};
#define COP__SIZE_pulse 20u

/* A rank alone. */
#define COP__SIZE_rank 4u

struct cop__belief cop__belief_at(struct cop__list list, uint32_t i);
void cop__belief_put(struct cop__writer *writer, const struct cop__belief *belief);
struct cop__mark cop__mark_at(struct cop__list list, uint32_t i);
void cop__mark_put(struct cop__writer *writer, const struct cop__mark *mark);
struct cop__pulse cop__pulse_at(struct cop__list list, uint32_t i);
void cop__pulse_put(struct cop__writer *writer, const struct cop__pulse *pulse);
cop_rank cop__listed_rank(struct cop__list list, uint32_t i);

#endif
