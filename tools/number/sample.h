/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_NUMBER_SAMPLE_H
#define COP_TOOLS_NUMBER_SAMPLE_H

#include <coppice/types.h>

/* Medians with their uncertainty, for measurements that are repeated a few times. */
struct summary {
    double median;
    double low, high;  /* an interval that holds the true median ... */
    double confidence; /* ... with this probability, if the values are independent */
};

/*
 * Sorts `values` and sums them up; count >= 1. The interval is made of order
 * statistics: the narrowest symmetric one of at least 99 %, or from the least to the
 * largest if there are too few values for that (fewer than 8); `confidence` says which
 * it is. No shape of the distribution is assumed.
 */
struct summary summarize(double *values, uint32_t count);

/* The median of times, which are sorted by this; count >= 1. */
double median_time(uint64_t *times, uint32_t count);

#endif
