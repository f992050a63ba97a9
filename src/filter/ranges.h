/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_FILTER_RANGES_H
#define COP_FILTER_RANGES_H

#include "filter/state.h"

/*
 * Sets of 64-bit numbers as ranges: how many ranges, then for each the distance from the end
 * of the one before (at least 2, or they would be one) and how many more numbers it has. So a
 * set of all leaves is three bytes, and equal sets are equal bytes.
 */
struct cop__range {
    uint64_t first, last;
};
struct cop__ranges {
    struct cop__reader reader;
    uint64_t left; /* ranges that are still to come */
    uint64_t last;
    bool begun;
};

/* The bytes of a set at the reader, which is moved behind it; failed if there is none. */
struct cop_span cop__ranges_get(struct cop__reader *reader);
/* From a set's bytes, which were checked. */
struct cop__ranges cop__ranges_begin(struct cop_span set);
bool cop__ranges_next(struct cop__ranges *ranges, struct cop__range *out);
bool cop__ranges_are_empty(struct cop_span set);
/* How many numbers. */
uint64_t cop__ranges_count(struct cop_span set);

enum cop__set_op { COP__SET_UNION, COP__SET_MINUS };
int cop__ranges_combine(enum cop__set_op op, struct cop_span a, struct cop_span b,
                        struct cop_filter_out *out);
/* Does b have nothing that a has not? */
bool cop__ranges_include(struct cop_span a, struct cop_span b);
/* A set of numbers in any order, which are sorted in place. */
int cop__ranges_make(struct cop_filter_out *out, uint64_t *numbers, uint32_t count);
/* A set of one number. */
int cop__ranges_put_one(struct cop_filter_out *out, uint64_t number);
/* As text: "1-4,7". */
int cop__ranges_print(struct cop_filter_out *out, struct cop_span set);

#endif
