/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_HOST_FOLD_H
#define COP_TOOLS_HOST_FOLD_H

#include "host_sample.h"

/*
 * Many hosts as one: each metric is folded by filters (min, max, mean, quantiles, histogram,
 * and the largest and smallest with their hosts), so that it could be done anywhere in a tree.
 */
#define HOST_BUCKETS_MAX 20u
#define HOST_EXTREMES 8u
struct host_extreme {
    uint32_t host; /* which sample */
    uint64_t value;
};
struct host_summary {
    uint64_t least, most, low, median, high; /* low, high: quartiles */
    double mean;
    uint32_t buckets;
    uint64_t bucket[HOST_BUCKETS_MAX];
    /* Further from the quartiles than three times their distance. */
    uint32_t outliers;
    struct host_extreme outlier[2 * HOST_EXTREMES];
};

/* `count` samples, at least one. COP_ENOMEM. */
int host_fold(const struct host_sample *samples, uint32_t count,
              enum host_metric metric, struct host_summary *out);
/* The bounds between the buckets of a metric, as a filter takes them. */
const char *host_bounds(enum host_metric metric);

#endif
