/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_BENCH_STREAM_H
#define COP_TOOLS_BENCH_STREAM_H

#include "bench/bench.h"

/*
 * Streams of real processes over TCP on the loopback: k * k back-ends below k processes below
 * the front-end, which is the root.
 */
struct stream_config {
    uint32_t fan_out;
    uint32_t rounds;
    uint64_t waves; /* in each turn */
    uint32_t trips; /* the same */
    uint32_t window;
};

struct stream_result {
    uint32_t n, bytes;                    /* processes; of a message of the floor */
    struct summary burst, flush;          /* waves in a second */
    struct summary trip_ns;               /* down to all, and their sum */
    struct summary blocking_ns, epoll_ns; /* the floors */
    struct summary over_blocking, over_epoll;
};

/* 0, or an exit code after one line. */
int bench_stream(const struct stream_config *config, struct progress *progress,
                 struct stream_result *out);

/* ---- after a death --------------------------------------------------------------- */

enum recovery_part {
    RECOVERY_NOTICE,  /* from the kill until the orphans know */
    RECOVERY_CHOOSE,  /* until they have asked the one who takes them */
    RECOVERY_CONNECT, /* until they are taken: a connection, and an answer */
    RECOVERY_STATE, /* from the last of them until a complete wave is out that is new */
    RECOVERY_ALL,   /* from the kill */
    RECOVERY_PARTS
};

struct recovery_config {
    uint32_t fan_out; /* of the process that is killed; of the root as well */
    uint32_t kills;   /* in a cluster of its own each */
    bool at_rest;     /* nothing is under way when it dies */
    const char *key_file;
};

struct recovery_result {
    uint32_t n, kills; /* processes; kills that were measured */
    struct summary
        ns[RECOVERY_PARTS]; /* means over the orphans; but for ALL and STATE */
    double p99_ns[RECOVERY_PARTS];
};

int bench_recovery(const struct recovery_config *config, struct progress *progress,
                   struct recovery_result *out);

#endif
