/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_BENCH_LAUNCH_MPI_H
#define COP_TOOLS_BENCH_LAUNCH_MPI_H

#include <coppice/types.h>

/* One launch of a measuring program by Open MPI's mpirun, all processes on this machine. */
struct mpi_launch {
    const char *program; /* beside this command, or in ../libexec/coppice from there */
    uint32_t n;
    const char *transport; /* a BTL: tcp, vader (shared memory) */
    uint32_t repetitions, warm_up;
};
/* The number that it prints. 0, or EXIT_FAILED after one line. */
int mpi_time(const struct mpi_launch *launch, double *out);

#endif
