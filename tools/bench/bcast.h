/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_BENCH_BCAST_H
#define COP_TOOLS_BENCH_BCAST_H

#include "bench/bench.h"

/*
 * An empty request to everybody, whose answers come back as one: against the blocking floor,
 * and, if it is there, against MPI_Bcast and MPI_Reduce. In each round all of them are started
 * anew, one after the other.
 */
struct bcast_config {
    uint32_t n, arity;
    uint32_t rounds, repetitions;
    bool with_mpi;
};

/* MPI is launched twice: over TCP, and over shared memory. */
enum bcast_mpi { BCAST_MPI_TCP, BCAST_MPI_SHARED };
#define BCAST_MPIS 2

struct bcast_result {
    uint32_t bytes; /* of a message of the floor */
    struct summary floor_ns, call_ns;
    struct summary
        one_way_ns; /* until the last member has it, as the members note it */
    struct summary over_floor;
    struct summary mpi_ns[BCAST_MPIS];
    struct summary mpi_over_call[BCAST_MPIS];
};

/* 0, or an exit code after one line. */
int bench_bcast(const struct bcast_config *config, struct progress *progress,
                struct bcast_result *out);

#endif
