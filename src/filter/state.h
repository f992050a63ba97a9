/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_FILTER_STATE_H
#define COP_FILTER_STATE_H

#include <coppice/filter.h>

#include "wire/codec.h"

/*
 * What all built-in states have in common: a head, which init has written and nobody changes,
 * and a body. Two states can be joined if their heads are equal.
 *
 *   u8 length of the type, the type, u8 number of words, words of 8 bytes; then the body
 */
struct cop__state {
    struct cop_span head;
    const char *type; /* not ended by a zero */
    uint32_t type_length;
    const uint8_t *words;
    uint32_t word_count;
    struct cop__reader body;
};

#define COP__HEAD_WORDS_MAX 64u

int cop__state_read(struct cop_span bytes, struct cop__state *out);
/* Two that are to be joined. COP_EMALFORMED, COP_EINVAL. */
int cop__state_read_pair(struct cop_span a, struct cop_span b, struct cop__state *out_a,
                         struct cop__state *out_b);
uint64_t cop__state_word(const struct cop__state *state, uint32_t i);
/* Has it a type out of `inputs`, and that many words? */
bool cop__state_is(const struct cop__state *state, const char *inputs, uint32_t words);

int cop__head_put(struct cop_filter_out *out, const char *type, const uint64_t *words,
                  uint32_t count);

/* Numbers of 1 to 10 bytes, 7 bits in each, the lowest first; the shortest way only. */
int cop__put_varint(struct cop_filter_out *out, uint64_t value);
uint64_t cop__get_varint(struct cop__reader *reader);
/* Signed ones: small for small absolute values. */
static inline uint64_t cop__zigzag(uint64_t value)
{
    return (value << 1) ^ (value >> 63 ? UINT64_MAX : 0);
}
static inline uint64_t cop__unzigzag(uint64_t value)
{
    return (value >> 1) ^ (value & 1 ? UINT64_MAX : 0);
}
/* Order of signed integers in unsigned ones, and back: it is its own inverse. */
static inline uint64_t cop__flip_sign(uint64_t value)
{
    return value ^ (UINT64_C(1) << 63);
}
/* A length and as many bytes. */
int cop__put_span(struct cop_filter_out *out, struct cop_span span);
struct cop_span cop__get_span(struct cop__reader *reader);
/* -1, 0 or 1; a prefix comes first. */
int cop__span_compare(struct cop_span a, struct cop_span b);

/* ---- output that stays with us --------------------------------------------------- */

/* An `out` that becomes a buffer; `max` bytes at most. */
struct cop__sink {
    struct cop_filter_out out;
    struct cop_buf *buf;
    uint32_t max;
    bool is_short; /* there was no memory for it: not something that a writer says */
};
void cop__sink_init(struct cop__sink *sink, uint32_t max);
/* What was written, as a buffer; `error` is what the writer has returned. COP_ENOMEM, whatever that
 * is, if it is short. */
int cop__sink_take(struct cop__sink *sink, int error, struct cop_buf **out);
void cop__sink_drop(struct cop__sink *sink);

/* ---- types ----------------------------------------------------------------------- */

enum cop__base_type {
    COP__TYPE_U64,
    COP__TYPE_I64,
    COP__TYPE_F64,
    COP__TYPE_I128,
    COP__TYPE_TEXT,
    COP__TYPE_BYTES,
};
struct cop__type {
    enum cop__base_type base;
    bool array;
    uint32_t count; /* of an array; 0: any */
};
int cop__type_parse(const char *text, uint32_t length, struct cop__type *out);
/* The place of a type in a list of them; UINT32_MAX if it is not there. */
uint32_t cop__type_place(const char *list, const char *type, uint32_t length);
/* A list's word at a place. */
struct cop_span cop__type_at(const char *list, uint32_t place);

/* ---- parameters ------------------------------------------------------------------ */

/* "name=value,name=value" one after the other. */
struct cop__param {
    struct cop_span name, value;
};
/* The next; 0, COP_ENOENT after the last, COP_EINVAL. Starts with *at = 0. */
int cop__param_next(const char *params, uint32_t *at, struct cop__param *out);
bool cop__param_is(const struct cop__param *param, const char *name);
/* A decimal number, signed or not. COP_EINVAL. */
int cop__param_u64(struct cop_span text, uint64_t *out);
int cop__param_i64(struct cop_span text, uint64_t *out);
/* What a text begins with, which is then behind it: a number without needless zeros, this byte.
 * False: it does not. */
bool cop__read_number(struct cop_span *text, uint32_t *out);
bool cop__read_byte(struct cop_span *text, char byte);
/* For filters with one number: COP_EINVAL for another name or out of bounds. */
int cop__param_one(const char *params, const char *name, uint64_t low, uint64_t high,
                   uint64_t *value);

/* ---- writing results ------------------------------------------------------------- */

int cop__put_text(struct cop_filter_out *out, const char *text);
int cop__put_decimal(struct cop_filter_out *out, uint64_t value);
int cop__put_signed(struct cop_filter_out *out, uint64_t value);
/* Bytes as text: what would end a line or a column, and '\\', as \\xx. */
int cop__put_escaped(struct cop_filter_out *out, struct cop_span span);

#endif
