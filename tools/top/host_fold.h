/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_TOP_HOST_FOLD_H
#define COP_TOOLS_TOP_HOST_FOLD_H

#include "top/host_sample.h"

/*
 * Many hosts as one: what a state of the filter `hosts` says, wherever that was made: in the tree
 * of a stream, or here out of samples.
 */
#define HOST_BUCKETS_MAX 20u
#define HOST_EXTREMES 8u
struct host_extreme {
    uint32_t host; /* the leaf: a member, or which sample */
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

/* How many hosts are in it. COP_EMALFORMED. */
int host_count(struct cop_span state, uint64_t *out);
/* One metric of a state with a host at least. COP_EMALFORMED, COP_ENOMEM. */
int host_summarize(struct cop_span state, enum cop__host_metric metric,
                   struct host_summary *out);
/* The state of `count` samples; host i is leaf i. COP_ENOMEM. */
int host_fold(const struct host_sample *samples, uint32_t count, struct cop_buf **out);

#endif
