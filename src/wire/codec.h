/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_WIRE_CODEC_H
#define COP_WIRE_CODEC_H

#include <coppice/buf.h>
#include <coppice/types.h>

/*
 * Bounded reading and writing, little-endian. A reader or writer that was asked for
 * too much is marked failed, gives zeroes, and never touches a byte outside: check
 * once, at the end.
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

struct cop__reader cop__reader(const void *data, size_t length);
uint8_t cop__get_u8(struct cop__reader *reader);
uint16_t cop__get_u16(struct cop__reader *reader);
uint32_t cop__get_u32(struct cop__reader *reader);
uint64_t cop__get_u64(struct cop__reader *reader);
struct cop__bytes cop__get_bytes(struct cop__reader *reader);
struct cop__list cop__get_list(struct cop__reader *reader, uint32_t element_size);
/* True if nothing failed and nothing is left. */
bool cop__reader_is_done(const struct cop__reader *reader);

struct cop__writer cop__writer(void *data, size_t length);
void cop__put_u8(struct cop__writer *writer, uint8_t value);
void cop__put_u16(struct cop__writer *writer, uint16_t value);
void cop__put_u32(struct cop__writer *writer, uint32_t value);
void cop__put_u64(struct cop__writer *writer, uint64_t value);
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
