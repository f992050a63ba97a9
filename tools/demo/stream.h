/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_DEMO_STREAM_H
#define COP_TOOLS_DEMO_STREAM_H

#include "demo/demo.h"

/*
 * The stream of the tour: as many processes, in the same tree, that give known numbers, of which
 * the same members die. A process of its own runs it (trial/trial.h) and tells what it sees.
 */
struct demo_stream {
    pid_t child;    /* 0: none */
    int events;     /* what it tells; -1: none */
    int words;      /* one byte for each time that it may go on */
    bool is_asking; /* it waits with its kill */
    bool is_over;
    bool is_exact;
    int code; /* with which it ended */
    uint64_t total, expected, misaligned, waves;
    cop_time took_ns;
    cop_time last_ns; /* when the last complete wave came */
    struct demo_op *ops;
    uint32_t count, capacity;
};

/* A process that waits for demo_stream_go; before there are threads or other processes. All: 0,
 * or EXIT_FAILED after one line. */
int demo_stream_fork(uint32_t n, const struct demo_victims *victims,
                     struct demo_stream *out);
/* Begins; and, when it has asked, kills. */
int demo_stream_go(struct demo_stream *stream);
/* It has something to say. */
int demo_stream_take(struct demo_stream *stream);
/* The sum is exact, and every complete wave was. */
void demo_stream_claim(const struct demo_stream *stream, uint32_t n, cop_time killed_ns,
                       struct demo_claim *out);
/* Its processes end with it. */
void demo_stream_free(struct demo_stream *stream);

#endif
