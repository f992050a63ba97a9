/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_FILTER_NUMBER_H
#define COP_FILTER_NUMBER_H

#include "filter/state.h"
#include "filter/wide.h"

/*
 * A sum of numbers of one type, which nothing can overflow or round: integers have 128 bits,
 * doubles are added exactly. In a state the first are 16 bytes; the second are three numbers
 * (how many were none, infinite, negatively infinite), u8 words of zero, u8 words, and these
 * words: two's complement, cut at both ends where nothing is lost.
 */
struct cop__number {
    bool real;
    union {
        uint64_t whole[2];
        struct cop__exact exact;
    } sum;
};

void cop__number_zero(struct cop__number *out, enum cop__base_type base);
void cop__number_from(struct cop__number *out, enum cop__base_type base, uint64_t bits);
void cop__number_add(struct cop__number *a, const struct cop__number *b);
void cop__number_subtract(struct cop__number *a, const struct cop__number *b);
int cop__number_put(struct cop_filter_out *out, const struct cop__number *number);
/* Marks the reader as failed if there is none. */
void cop__number_get(struct cop__reader *reader, enum cop__base_type base,
                     struct cop__number *out);
/* As i128 or f64. */
int cop__number_result(struct cop_filter_out *out, const struct cop__number *number);
/* Bits of the double that is closest to number / count; count is not 0. */
uint64_t cop__number_mean(const struct cop__number *number, uint64_t count);

#endif
