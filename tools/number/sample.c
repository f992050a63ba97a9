/* SPDX-License-Identifier: Apache-2.0 */
#include "number/sample.h"

#include "base/assert.h"

#include <stdlib.h>

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int compare_times(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/*
 * The probability that fewer than `below` + 1 of `count` values are under the true
 * median: each is with probability 1/2, so it is a binomial tail.
 */
static double tail(uint32_t count, uint32_t below)
{
    double term = 1, sum;
    for (uint32_t i = 0; i < count; i++)
        term /= 2;
    sum = term;
    for (uint32_t i = 1; i <= below; i++) {
        term = term * (double)(count - i + 1) / (double)i;
        sum += term;
    }
    return sum;
}

struct summary summarize(double *values, uint32_t count)
{
    COP_ASSERT(count >= 1 && count <= 1000);
    qsort(values, count, sizeof *values, compare_doubles);
    uint32_t cut = 0; /* values left out at each end */
    while (cut + 1 < (count + 1) / 2 && 1 - 2 * tail(count, cut + 1) >= 0.99)
        cut++;
    double confidence = 1 - 2 * tail(count, cut);
    uint32_t left = (count - 1) / 2, right = count / 2;
    return (struct summary){
        .median = (values[left] + values[right]) / 2,
        .low = values[cut],
        .high = values[count - 1 - cut],
        .confidence = confidence > 0 ? confidence : 0,
    };
}

double median_time(uint64_t *times, uint32_t count)
{
    COP_ASSERT(count >= 1);
    qsort(times, count, sizeof *times, compare_times);
    uint32_t left = (count - 1) / 2, right = count / 2;
    return ((double)times[left] + (double)times[right]) / 2;
}
