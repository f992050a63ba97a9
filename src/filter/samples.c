/* SPDX-License-Identifier: Apache-2.0 */
#include "filter/laws.h"
#include "filter/state.h"

/*
 * Packets out of random words. A word's lowest bits say what sort of value it is to be (small
 * ones are most likely to meet others, large ones to overflow), and a word of 0 is the
 * simplest value: so shrinking the word shrinks the value.
 */

static uint64_t integer(bool with_sign, uint64_t word)
{
    uint64_t value = word >> 3;
    switch (word & 7) {
    case 0:
    case 1:
        return value & 15;
    case 2:
        return value & UINT16_MAX;
    case 3:
        return with_sign ? 0 - (value & 15) : value & 15;
    case 4:
        return with_sign ? 0 - (value & UINT32_MAX) : value & UINT32_MAX;
    case 5:
        return UINT64_MAX - (value & 3);
    case 6:
        return (UINT64_C(1) << 63) - (value & 1);
    default:
        return word * UINT64_C(0x9e3779b97f4a7c15);
    }
}

/* Bits of doubles: small integers, fractions, anything finite, and the ends. */
static uint64_t real(uint64_t word)
{
    static const uint64_t ends[] = {
        0,
        UINT64_C(1) << 63,            /* -0 */
        1,                            /* the smallest */
        UINT64_C(0x7fefffffffffffff), /* the largest */
        UINT64_C(0xffefffffffffffff), /* and its negative */
        UINT64_C(0x3ff0000000000000), /* 1 */
        UINT64_C(0xbff0000000000000), /* -1 */
        UINT64_C(0x3cb0000000000000), /* 2^-52 */
    };
    uint64_t value = word >> 2;
    if ((word & 3) < 2)
        return ends[value & 7];
    uint64_t bits = word * UINT64_C(0x9e3779b97f4a7c15);
    if ((word & 3) == 2) /* near 1, so that sums have to be rounded */
        return (bits & UINT64_C(0x800fffffffffffff)) | UINT64_C(0x3ff0000000000000);
    return (bits >> 52 & 0x7ff) == 0x7ff ? bits ^ (UINT64_C(1) << 60) : bits;
}

static void put_number(enum cop__base_type base, uint64_t word,
                       struct cop_filter_out *out)
{
    if (base == COP__TYPE_F64) {
        cop_filter_put_u64(out, real(word));
        return;
    }
    uint64_t value = integer(base != COP__TYPE_U64, word);
    cop_filter_put_u64(out, value);
    if (base == COP__TYPE_I128)
        cop_filter_put_u64(out, value >> 63 ? UINT64_MAX : 0);
}

/* Words give a letter each, now and then one that is more than a byte, or no character. */
static void put_letters(bool text, const uint64_t *words, uint32_t count,
                        struct cop_filter_out *out)
{
    for (uint32_t i = 0; i < count; i++) {
        uint8_t byte = (uint8_t)('a' + (words[i] >> 3) % 4);
        if ((words[i] & 7) == 7 && text)
            cop_filter_put(out, "\xc3\xa4", 2);
        else if ((words[i] & 7) == 7)
            byte = (uint8_t)(words[i] >> 3);
        cop_filter_put(out, &byte, 1);
    }
}

static int put_any(const char *text, const uint64_t *words, uint32_t count,
                   struct cop_filter_out *out)
{
    struct cop__type type;
    uint32_t length = 0;
    while (text[length])
        length++;
    if (cop__type_parse(text, length, &type))
        return COP_EINVAL;
    if (type.base == COP__TYPE_TEXT || type.base == COP__TYPE_BYTES) {
        put_letters(type.base == COP__TYPE_TEXT, words, count, out);
        return out->error;
    }
    uint32_t elements = !type.array ? 1 : type.count ? type.count : count;
    for (uint32_t i = 0; i < elements && out->error == 0; i++)
        put_number(type.base, i < count ? words[i] : 0, out);
    return out->error;
}

int cop__law_packet_make(const struct cop_filter *filter, const char *type,
                         const struct cop__law_packet *packet, struct cop_buf **out)
{
    struct cop__sink sink;
    cop__sink_init(&sink, COP_PACKET_MAX);
    int error = (filter->sample ? filter->sample : put_any)(type, packet->words,
                                                            packet->count, &sink.out);
    return cop__sink_take(&sink, error, out);
}
