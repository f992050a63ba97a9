/* SPDX-License-Identifier: Apache-2.0 */
#include "filter/wide.h"

#include <string.h>

void cop__wide_add(uint64_t *a, const uint64_t *b, uint32_t words)
{
    uint64_t carry = 0;
    for (uint32_t i = 0; i < words; i++) {
        uint64_t sum = a[i] + b[i];
        uint64_t next = sum < b[i];
        a[i] = sum + carry;
        carry = next | (a[i] < carry);
    }
}

void cop__wide_negate(uint64_t *a, uint32_t words)
{
    uint64_t carry = 1;
    for (uint32_t i = 0; i < words; i++) {
        a[i] = ~a[i] + carry;
        carry = carry && a[i] == 0;
    }
}

void cop__wide_subtract(uint64_t *a, const uint64_t *b, uint32_t words)
{
    uint64_t borrow = 0;
    for (uint32_t i = 0; i < words; i++) {
        uint64_t difference = a[i] - b[i];
        uint64_t next = a[i] < b[i];
        a[i] = difference - borrow;
        borrow = next | (difference < borrow);
    }
}

bool cop__wide_is_negative(const uint64_t *a, uint32_t words)
{
    return a[words - 1] >> 63;
}

void cop__wide_set(uint64_t *out, uint32_t words, uint64_t value, bool is_signed)
{
    uint64_t rest = is_signed && value >> 63 ? UINT64_MAX : 0;
    out[0] = value;
    for (uint32_t i = 1; i < words; i++)
        out[i] = rest;
}

/* 64 x 64 bits. */
static void multiply_words(uint64_t a, uint64_t b, uint64_t *low, uint64_t *high)
{
    uint64_t a0 = a & UINT32_MAX, a1 = a >> 32, b0 = b & UINT32_MAX, b1 = b >> 32;
    uint64_t middle = a1 * b0 + (a0 * b0 >> 32);
    uint64_t carry = a0 * b1 + (middle & UINT32_MAX);
    *low = a * b;
    *high = a1 * b1 + (middle >> 32) + (carry >> 32);
}

void cop__wide_multiply(uint64_t *out, const uint64_t *a, uint32_t words_a,
                        const uint64_t *b, uint32_t words_b)
{
    memset(out, 0, (size_t)(words_a + words_b) * sizeof *out);
    for (uint32_t i = 0; i < words_a; i++) {
        uint64_t carry = 0;
        for (uint32_t j = 0; j < words_b; j++) {
            uint64_t low, high;
            multiply_words(a[i], b[j], &low, &high);
            low += carry;
            high += low < carry;
            out[i + j] += low;
            carry = high + (out[i + j] < low);
        }
        out[i + words_b] = carry;
    }
}

/* ---- rounding -------------------------------------------------------------------- */

static int32_t top_bit(const uint64_t *magnitude, uint32_t words)
{
    for (uint32_t i = words; i-- > 0;)
        for (int32_t bit = 63; magnitude[i] && bit >= 0; bit--)
            if (magnitude[i] >> bit & 1)
                return (int32_t)(i * 64) + bit;
    return -1;
}

static uint64_t bit_at(const uint64_t *magnitude, int32_t bit)
{
    return bit < 0 ? 0 : magnitude[bit / 64] >> (bit % 64) & 1;
}

/* Is there anything below this bit? */
static bool any_below(const uint64_t *magnitude, int32_t bit)
{
    for (int32_t i = 0; i < bit; i++)
        if (bit_at(magnitude, i))
            return true;
    return false;
}

#define INFINITE (UINT64_C(0x7ff) << 52)

uint64_t cop__wide_round(const uint64_t *magnitude, uint32_t words, int32_t exponent,
                         bool more, bool negative)
{
    uint64_t sign = negative ? UINT64_C(1) << 63 : 0, mantissa = 0;
    int32_t top = top_bit(magnitude, words);
    if (top < 0)
        return sign;
    /* Bits from `cut` on stay: 53, or those down to the smallest that a double has. */
    int32_t cut = top - 52 > -1074 - exponent ? top - 52 : -1074 - exponent;
    for (int32_t bit = top; bit >= cut; bit--)
        mantissa = mantissa << 1 | bit_at(magnitude, bit);
    bool half = bit_at(magnitude, cut - 1);
    bool odd = mantissa & 1;
    if (half && (odd || more || any_below(magnitude, cut - 1)))
        mantissa++;
    /* A mantissa that grew by a bit carries into the exponent, as it should. */
    int32_t biased = exponent + cut + 1074;
    if (biased > 2046)
        return sign | INFINITE;
    uint64_t bits = ((uint64_t)biased << 52) + mantissa;
    return sign | (bits > INFINITE ? INFINITE : bits);
}

/* Room for a numerator that is shifted until the quotient has more than 64 bits. */
#define RATIO_WORDS (COP__EXACT_WORDS + 3u)

static bool is_less(const uint64_t *a, const uint64_t *b, uint32_t words)
{
    for (uint32_t i = words; i-- > 0;)
        if (a[i] != b[i])
            return a[i] < b[i];
    return false;
}

/* Bit by bit: the numerator becomes the quotient; is there a remainder? */
static bool divide(uint64_t *numerator, uint32_t words, const uint64_t *denominator)
{
    uint64_t rest[3] = {0};
    for (uint32_t bit = words * 64; bit-- > 0;) {
        uint64_t *word = &numerator[bit / 64];
        uint64_t mask = UINT64_C(1) << (bit % 64);
        rest[2] = rest[2] << 1 | rest[1] >> 63;
        rest[1] = rest[1] << 1 | rest[0] >> 63;
        rest[0] = rest[0] << 1 | (*word & mask ? 1 : 0);
        *word &= ~mask;
        if (!is_less(rest, denominator, 3)) {
            cop__wide_subtract(rest, denominator, 3);
            *word |= mask;
        }
    }
    return rest[0] | rest[1] | rest[2];
}

static uint64_t ratio(const uint64_t *numerator, uint32_t words, int32_t exponent,
                      const uint64_t *denominator, uint32_t denominator_words)
{
    uint64_t room[RATIO_WORDS] = {0}, by[3] = {0};
    bool negative = cop__wide_is_negative(numerator, words);
    memcpy(room + 3, numerator, words * sizeof *room);
    if (negative)
        cop__wide_negate(room + 3, words);
    memcpy(by, denominator, denominator_words * sizeof *by);
    bool more = divide(room, words + 3, by);
    return cop__wide_round(room, words + 3, exponent - 192, more, negative);
}

uint64_t cop__wide_ratio(const uint64_t *numerator, uint32_t words,
                         const uint64_t *denominator, uint32_t denominator_words)
{
    return ratio(numerator, words, 0, denominator, denominator_words);
}

uint64_t cop__wide_scale(uint64_t value, uint64_t part, uint64_t whole)
{
    uint64_t product[2], by[3] = {whole};
    cop__wide_multiply(product, &value, 1, &part, 1);
    divide(product, 2, by);
    return product[0];
}

/* ---- exact sums of doubles ------------------------------------------------------- */

#define NOT_A_NUMBER (INFINITE | UINT64_C(1) << 51)

void cop__exact_from(struct cop__exact *out, uint64_t bits)
{
    uint64_t mantissa = bits & ((UINT64_C(1) << 52) - 1);
    uint32_t exponent = (uint32_t)(bits >> 52 & 0x7ff);
    bool negative = bits >> 63;
    *out = (struct cop__exact){0};
    if (exponent == 0x7ff) {
        uint64_t *which = mantissa   ? &out->nan
                          : negative ? &out->negative
                                     : &out->positive;
        *which = 1;
        return;
    }
    if (exponent > 0)
        mantissa |= UINT64_C(1) << 52;
    uint32_t shift = exponent > 0 ? exponent - 1 : 0;
    out->word[shift / 64] = mantissa << (shift % 64);
    if (shift % 64)
        out->word[shift / 64 + 1] = mantissa >> (64 - shift % 64);
    if (negative)
        cop__wide_negate(out->word, COP__EXACT_WORDS);
}

void cop__exact_add(struct cop__exact *a, const struct cop__exact *b)
{
    cop__wide_add(a->word, b->word, COP__EXACT_WORDS);
    a->nan += b->nan;
    a->positive += b->positive;
    a->negative += b->negative;
}

void cop__exact_subtract(struct cop__exact *a, const struct cop__exact *b)
{
    cop__wide_subtract(a->word, b->word, COP__EXACT_WORDS);
    a->nan -= b->nan;
    a->positive -= b->positive;
    a->negative -= b->negative;
}

/* What is not finite decides alone; false if all are finite. */
static bool is_special(const struct cop__exact *sum, uint64_t *out)
{
    if (sum->nan || (sum->positive && sum->negative))
        *out = NOT_A_NUMBER;
    else if (sum->positive || sum->negative)
        *out = INFINITE | (uint64_t)(sum->negative != 0) << 63;
    else
        return false;
    return true;
}

uint64_t cop__exact_round(const struct cop__exact *sum)
{
    struct cop__exact magnitude = *sum;
    uint64_t special;
    if (is_special(sum, &special))
        return special;
    bool negative = cop__wide_is_negative(sum->word, COP__EXACT_WORDS);
    if (negative)
        cop__wide_negate(magnitude.word, COP__EXACT_WORDS);
    return cop__wide_round(magnitude.word, COP__EXACT_WORDS, -1074, false, negative);
}

uint64_t cop__exact_mean(const struct cop__exact *sum, uint64_t count)
{
    uint64_t special;
    if (is_special(sum, &special))
        return special;
    return ratio(sum->word, COP__EXACT_WORDS, -1074, &count, 1);
}
