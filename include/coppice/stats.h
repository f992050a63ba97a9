/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_STATS_H
#define COPPICE_STATS_H

#include <coppice/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What nodes count. Owned by the driver and written by the nodes it runs: an agent has
 * one for its node, the simulator one for all. The command, the benchmarks and the
 * tests read these and no others.
 */
#define COP_STATS_KINDS 64

/* X(name, why a frame or event was ignored): each has a test that hits it. */
/* clang-format off */
#define COP_IGNORES(X)                                                                     \
    X(receiver, "for somebody else, or for an earlier life of mine")                       \
    X(incarnation, "from an earlier life of its sender")                                   \
    X(epoch, "from another view")                                                          \
    X(stranger, "its sender is not a member")                                              \
    X(kind, "nobody here handles this kind")                                               \
    X(malformed, "its payload does not decode, or says something impossible")              \
    X(not_ancestor, "asked by one that is not above me in the sweep's tree")               \
    X(not_below, "answered or turned to by one that is not below me")                      \
    X(sweep_over, "about a sweep that is over")                                            \
    X(sweep_unknown, "about a sweep that I am not in")                                     \
    X(repeated, "says what I have already")                                                \
    X(unasked, "answers a question that is not open, or asks more than are answered")

/* clang-format on */

struct cop_stats {
    uint64_t sent[COP_STATS_KINDS]; /* frames, by dense index of the kind */
    uint64_t received[COP_STATS_KINDS];
    uint64_t sent_bytes, received_bytes; /* with headers */
    uint64_t steps;
    uint64_t suspicions, denials, revivals;
    uint64_t accusations;         /* that a node made itself */
    uint64_t accusations_dropped; /* because a witness reached the accused */
    uint64_t accusations_held;    /* because no witness answered */
    uint64_t relayed;             /* frames that were passed on for others */
    uint64_t credits;             /* a node's own clock jumped */
    uint64_t deadline_ns;         /* a gauge: of the ring, when it was last asked for */
    uint64_t sweeps_started, sweeps_completed, sweeps_timed_out, sweeps_aborted;
    uint64_t sweeps_joined, sweeps_ended;
    uint64_t adoptions, turns, holds, supplements;
    uint64_t proposals, proposals_failed, proposals_refused, views_installed;
    uint64_t digests_differ, frames_held;
    uint64_t agreements, revotes,
        terminations;         /* ended with a result; votes cast again;
                                                   coordinators whose death left doubt */
    uint64_t stream_waves;    /* states that were made of those below */
    uint64_t stream_orphans;  /* processes that looked for a parent */
    uint64_t stream_attempts; /* and asked one */
    uint64_t stream_adoptions, stream_rings;
    uint64_t stream_closed;      /* groups of levels, on the way, each with each wave */
    uint64_t stream_down_failed; /* packets on which a filter down has failed */
    uint64_t stream_stillborn;   /* that gave way to another one of the same number */
#define COP_IGNORE_FIELD(name, text) uint64_t ignored_##name;
    COP_IGNORES(COP_IGNORE_FIELD)
#undef COP_IGNORE_FIELD
};

/* Calls `visit` with the name and value of every counter that is not zero. */
void cop_stats_each(const struct cop_stats *stats,
                    void (*visit)(void *context, const char *name, uint64_t value),
                    void *context);

#ifdef __cplusplus
}
#endif

#endif
