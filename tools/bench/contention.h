/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_BENCH_CONTENTION_H
#define COP_TOOLS_BENCH_CONTENTION_H

#include <coppice/types.h>

/*
 * What a message takes while others are on their way: n processes in groups of a parent
 * and its children, each connected by TCP over the loopback. All parents at once ask all
 * their children and wait for all answers, over and over. Half of such a round trip is
 * the latency: in a tree, a level costs two of them.
 */
struct contention_config {
    uint32_t fan_out;     /* children of a parent, 1 .. FAN_OUT_MAX; 1 are pairs */
    uint32_t n;           /* processes, 2 .. CONTENTION_N_MAX; even for pairs */
    uint32_t bytes;       /* of one message, 1 .. CONTENTION_BYTES_MAX */
    uint32_t repetitions; /* measured by each parent, at least 1 */
    uint32_t warm_up;     /* done before, at least, and not measured */
};
#define CONTENTION_N_MAX 4096u
#define CONTENTION_BYTES_MAX 65536u

/* Groups are filled evenly, and as few as can be; none has less than two members. */
uint32_t contention_groups(const struct contention_config *config);
/* Members of a group, its parent with them. */
uint32_t contention_members(const struct contention_config *config, uint32_t group);

/*
 * Forks the processes, lets them work, and waits until they are gone, also if something
 * fails; they die with the caller, who must have no other children. *latency_ns is the
 * median over all parents. 0, COP_ENOMEM or COP_EIO with errno.
 */
int contention_run(const struct contention_config *config, double *latency_ns);

#endif
