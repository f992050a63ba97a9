/* SPDX-License-Identifier: Apache-2.0 */
#include "base/histogram.h"
#include "base/assert.h"
#include "base/log2fix.h"

#include <string.h>

#define SUB_BITS 4
#define SUB_BUCKETS (1U << SUB_BITS)
#define PERMILLE_MAX 1000U

static uint64_t add_saturating(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint32_t add_saturating32(uint32_t a, uint32_t b)
{
    return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

void cop__histogram_init(struct cop__histogram *histogram)
{
    memset(histogram, 0, sizeof(*histogram));
}

uint32_t cop__histogram_bucket(uint64_t value)
{
    if (value < SUB_BUCKETS)
        return (uint32_t)value;
    /* The four bits below the leading one say which part of its power of two. */
    uint32_t shift = cop__log2_floor(value) - SUB_BITS;
    return SUB_BUCKETS * shift + (uint32_t)(value >> shift);
}

uint64_t cop__histogram_floor(uint32_t bucket)
{
    COP_ASSERT(bucket < COP__HISTOGRAM_BUCKETS);
    if (bucket < SUB_BUCKETS)
        return bucket;
    uint32_t shift = bucket / SUB_BUCKETS - 1;
    return (uint64_t)(bucket % SUB_BUCKETS + SUB_BUCKETS) << shift;
}

/* The highest value of a bucket. */
static uint64_t ceiling_of(uint32_t bucket)
{
    if (bucket == COP__HISTOGRAM_BUCKETS - 1)
        return UINT64_MAX;
    return cop__histogram_floor(bucket + 1) - 1;
}

void cop__histogram_add(struct cop__histogram *histogram, uint64_t value)
{
    if (histogram->count == 0 || value < histogram->min)
        histogram->min = value;
    if (value > histogram->max)
        histogram->max = value;
    histogram->count = add_saturating(histogram->count, 1);
    histogram->sum = add_saturating(histogram->sum, value);

    uint32_t *bucket = &histogram->buckets[cop__histogram_bucket(value)];
    *bucket = add_saturating32(*bucket, 1);
}

void cop__histogram_merge(struct cop__histogram *into,
                          const struct cop__histogram *from)
{
    if (from->count == 0)
        return;
    if (into->count == 0 || from->min < into->min)
        into->min = from->min;
    if (from->max > into->max)
        into->max = from->max;
    into->count = add_saturating(into->count, from->count);
    into->sum = add_saturating(into->sum, from->sum);
    for (uint32_t i = 0; i < COP__HISTOGRAM_BUCKETS; i++)
        into->buckets[i] = add_saturating32(into->buckets[i], from->buckets[i]);
}

/* How many values `permille` of `count` are, rounded up, in steps that cannot overflow.
 */
static uint64_t share_of(uint64_t count, uint32_t permille)
{
    uint64_t rest = count % PERMILLE_MAX * permille;
    return count / PERMILLE_MAX * permille + (rest + PERMILLE_MAX - 1) / PERMILLE_MAX;
}

uint64_t cop__histogram_at(const struct cop__histogram *histogram, uint32_t permille)
{
    if (permille == 0)
        return histogram->min;
    if (permille >= PERMILLE_MAX)
        return histogram->max;

    uint64_t needed = share_of(histogram->count, permille);
    uint64_t seen = 0;
    for (uint32_t i = 0; i < COP__HISTOGRAM_BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (seen >= needed) {
            uint64_t ceiling = ceiling_of(i);
            return ceiling < histogram->max ? ceiling : histogram->max;
        }
    }
    /* Only saturated buckets hold fewer than `count`. */
    return histogram->max;
}

uint64_t cop__histogram_mean(const struct cop__histogram *histogram)
{
    return histogram->count == 0 ? 0 : histogram->sum / histogram->count;
}
