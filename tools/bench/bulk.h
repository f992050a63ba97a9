/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_BENCH_BULK_H
#define COP_TOOLS_BENCH_BULK_H

#include "bench/bench.h"

/*
 * Bulk to everybody through a tree, against the same bytes over as many bare connections at
 * once, one hop each; both over TCP on the loopback, turn by turn. Or over Unix sockets: then
 * members read it in each other's memory, and a second cluster, which does not, has its turn,
 * too.
 */
struct bulk_config {
    uint32_t n;
    const char *shape;
    uint64_t length;
    uint32_t chunk; /* 0: as it is by default */
    uint32_t rounds;
    bool is_local; /* Unix sockets */
};

struct bulk_result {
    struct summary copies_ns, bulk_ns;
    struct summary sent_ns; /* if it is local: without reading, */
    struct summary gain;    /* and how much longer that takes, round by round */
    struct summary share;   /* of the bandwidth of the copies, round by round */
    uint64_t idle_bytes;    /* resident, the median of the members but the root */
    uint64_t grown_bytes;   /* at most, beyond what the same member had before */
};

/* 0, or an exit code after one line. */
int bench_bulk(const struct bulk_config *config, struct progress *progress,
               struct bulk_result *out);

#endif
