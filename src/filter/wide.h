/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_FILTER_WIDE_H
#define COP_FILTER_WIDE_H

#include <coppice/types.h>

/*
 * Integers of many words, the lowest first, in two's complement unless said otherwise; and
 * floating-point numbers as such, so that their sums are exact and do not depend on the
 * order. Rounding happens once, at the end, to the nearest, ties to even.
 */
void cop__wide_add(uint64_t *a, const uint64_t *b, uint32_t words);
void cop__wide_subtract(uint64_t *a, const uint64_t *b, uint32_t words);
void cop__wide_negate(uint64_t *a, uint32_t words);
bool cop__wide_is_negative(const uint64_t *a, uint32_t words);
/* An integer of 64 bits in as many words as wanted. */
void cop__wide_set(uint64_t *out, uint32_t words, uint64_t value, bool is_signed);
/* out, of words_a + words_b words, = a * b; both without sign. */
void cop__wide_multiply(uint64_t *out, const uint64_t *a, uint32_t words_a,
                        const uint64_t *b, uint32_t words_b);

/* The bits of the double that is closest to magnitude * 2^exponent. `more`: a part too small
 * to be in the magnitude is there as well. */
uint64_t cop__wide_round(const uint64_t *magnitude, uint32_t words, int32_t exponent,
                         bool more, bool negative);
/* The same for numerator / denominator. The first has a sign and at most 4 words, the
 * second at most 2, and is not 0. */
uint64_t cop__wide_ratio(const uint64_t *numerator, uint32_t words,
                         const uint64_t *denominator, uint32_t denominator_words);

/* value * part / whole, rounded down; whole is not 0, and the result fits. */
uint64_t cop__wide_scale(uint64_t value, uint64_t part, uint64_t whole);

/* ---- exact sums of doubles ------------------------------------------------------- */

/* 2^-1074 to 2^1024, room for 2^63 of them, and a sign. */
#define COP__EXACT_WORDS 34u
struct cop__exact {
    uint64_t word[COP__EXACT_WORDS];
    uint64_t nan, positive, negative; /* how many were none, and infinite */
};

void cop__exact_from(struct cop__exact *out, uint64_t bits);
void cop__exact_add(struct cop__exact *a, const struct cop__exact *b);
void cop__exact_subtract(struct cop__exact *a, const struct cop__exact *b);
/* The sum as a double. */
uint64_t cop__exact_round(const struct cop__exact *sum);
/* The sum divided by a count that is not 0. */
uint64_t cop__exact_mean(const struct cop__exact *sum, uint64_t count);

#endif
