/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_BENCH_COST_H
#define COP_TOOLS_BENCH_COST_H

#include "bench/bench.h"

enum cost_way { COST_HEALING, COST_FRAGILE, COST_WAYS };

/*
 * What it costs that a stream would survive a loss, while nobody is lost: the same waves with
 * and without COP_STREAM_FRAGILE. Bytes and instructions are those of the nodes of a whole tree in
 * one process, which a queue connects, so they are the same each time; system calls those of real
 * processes over TCP.
 */
struct cost_config {
    uint32_t fan_out; /* k * k back-ends below k processes below the front-end */
    bool all;         /* every process gives packets */
    bool trips;       /* a packet down before each wave */
    uint32_t waves;   /* whose bytes are counted */
    uint32_t steps;   /* and the instructions of the first of them, one by one */
    uint32_t rounds;  /* of system calls, in turn */
    uint32_t turns;   /* waves, or round trips, of each */
    /* COST_WAYS: both, counted. One of them: its waves run, and somebody else counts. */
    enum cost_way only;
};

struct cost_result {
    uint32_t n;
    /* For each wave. Bytes: frames with their headers and link records. */
    double bytes[COST_WAYS], frames[COST_WAYS];
    bool has_instructions; /* this machine lets a process be traced */
    double instructions[COST_WAYS];
    bool has_calls; /* and the kernel says how many calls there were */
    struct summary calls[COST_WAYS];
};

/* 0, or an exit code after one line. */
int bench_cost(const struct cost_config *config, struct progress *progress,
               struct cost_result *out);

#endif
