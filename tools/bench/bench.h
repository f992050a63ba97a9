/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_BENCH_BENCH_H
#define COP_TOOLS_BENCH_BENCH_H

#include "number/sample.h"
#include "term/json.h"
#include "term/say.h"

/*
 * Measurements that are ratios: the bare floor and our own probe, turn by turn in one
 * run, so that whatever the machine does to one it does to the other.
 */
enum bench_kind { BENCH_BLOCKING, BENCH_EPOLL, BENCH_PROBE };
#define BENCH_KINDS 3
#define BENCH_ROUNDS_MAX 1000u

struct bench_config {
    uint32_t n, arity;
    bool tcp;
    uint32_t rounds, repetitions; /* medians of so many repetitions, so many times */
    uint32_t bytes;   /* of a message of the floor; 0: as long as ours are */
    cop_time idle_ns; /* how long to watch idle agents; 0: not */
};

/* What came out for one size and arity. */
struct bench_result {
    uint32_t bytes;
    struct summary times_ns[BENCH_KINDS];
    struct summary over_blocking,
        over_epoll; /* the probe, over the floor of its round */
    cop_time up_ns; /* start of the cluster */
    uint64_t private_median_bytes, private_most_bytes, resident_median_bytes;
    double idle_percent; /* of a CPU, by one agent */
};

/* The floor alone: kinds BLOCKING and EPOLL. 0, or an exit code after one line. */
int bench_floor(const struct bench_config *config, struct progress *progress,
                struct bench_result *out);
/* All three, with a private cluster that is gone afterwards. */
int bench_sweep(const struct bench_config *config, struct progress *progress,
                struct bench_result *out);

/*
 * What the members of a cluster, all but one, have sent so far. 0, or EXIT_FAILED after
 * one line.
 */
struct local;
struct bench_traffic {
    uint64_t bytes, frames;
};
int bench_traffic(const struct local *local, cop_id but, struct bench_traffic *out);
/* The mean length of messages on the sockets, between two of these; or that of a floor. */
uint32_t bench_message_bytes(const struct bench_traffic *before,
                             const struct bench_traffic *after);

/* The blocking floor once more: the median of its repetitions. 0, or EXIT_FAILED. */
struct floor_config;
int bench_time_floor(const struct floor_config *floor, double *median);

/* A key whose value is what docs/json.md calls a summary. */
void bench_put_summary(struct json *json, const char *key,
                       const struct summary *summary, int decimals);

#endif
