/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_FILTER_HOSTS_H
#define COP_FILTER_HOSTS_H

#include <coppice/filter.h>

/*
 * What hosts are doing, as one: each of their metrics is kept by several of the other filters at
 * once, so that a person sees at a glance how a thousand of them are, and who is unlike the others.
 */
enum cop__host_metric {
    COP__HOST_LOAD,    /* thousandths: runnable processes, over a minute */
    COP__HOST_CPU,     /* thousandths of all CPUs that were busy */
    COP__HOST_MEMORY,  /* thousandths of memory that are not available */
    COP__HOST_RECEIVE, /* bytes per second, without the loopback */
    COP__HOST_SEND,
    COP__HOST_METRICS
};
enum cop__host_part {
    COP__PART_COUNT,
    COP__PART_MIN,
    COP__PART_MAX,
    COP__PART_MEAN,
    COP__PART_QUARTILES, /* three of them */
    COP__PART_HISTOGRAM,
    COP__PART_LARGEST,  /* value and leaf, in turns */
    COP__PART_SMALLEST, /* the same; values are negative */
    COP__HOST_PARTS
};
extern const char *const cop__host_metric_names[COP__HOST_METRICS];
/* The bounds between the buckets of a metric, as the histogram takes them. */
const char *cop__host_bounds(enum cop__host_metric metric);

/* How often hosts are to be sampled: of any state, also the empty one. COP_EMALFORMED. */
int cop__hosts_interval(struct cop_span bytes, cop_time *out);
/* What one part says of one metric: words of its result, at most `room`. COP_EMALFORMED. */
int cop__hosts_words(struct cop_span bytes, enum cop__host_metric metric,
                     enum cop__host_part part, uint64_t *words, uint32_t room,
                     uint32_t *used);

#endif
