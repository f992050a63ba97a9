/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_BASE_HISTOGRAM_H
#define COP_BASE_HISTOGRAM_H

#include <coppice/types.h>

/*
 * Histogram of 64-bit values with fixed memory: exact below 16, then 16 buckets for each
 * power of two, so that a percentile is at most 1/16 too large.
 */
#define COP__HISTOGRAM_BUCKETS 976
struct cop__histogram {
    uint64_t count, sum, min, max;            /* sum saturates; min is 0 while empty */
    uint32_t buckets[COP__HISTOGRAM_BUCKETS]; /* saturating */
};

void cop__histogram_init(struct cop__histogram *histogram);
void cop__histogram_add(struct cop__histogram *histogram, uint64_t value);
void cop__histogram_merge(struct cop__histogram *into,
                          const struct cop__histogram *from);
/* Smallest value v such that at least `permille`/1000 of all are <= v (bucket's upper end,
 * never above max). 0 for an empty histogram; min for permille 0; above 1000 is as 1000. */
uint64_t cop__histogram_at(const struct cop__histogram *histogram, uint32_t permille);
uint64_t cop__histogram_mean(const struct cop__histogram *histogram);
/* Index of the bucket of a value, and the lowest value of a bucket. */
uint32_t cop__histogram_bucket(uint64_t value);
uint64_t cop__histogram_floor(uint32_t bucket);

#endif
