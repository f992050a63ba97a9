/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MPI_Allreduce of one 64-bit number, in sets of operations back to back, as our own agreements
 * are measured: prints the mean of each set, in nanoseconds, by rank 0. Compiled by
 * scripts/compare-agree, where there is an MPI.
 *
 *   allreduce SETS OPERATIONS WARM_UP
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void run(long count)
{
    for (long i = 0; i < count; i++) {
        uint64_t one = 1, sum;
        MPI_Allreduce(&one, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    long sets = argc > 1 ? strtol(argv[1], NULL, 10) : 20;
    long operations = argc > 2 ? strtol(argv[2], NULL, 10) : 200;
    long warm_up = argc > 3 ? strtol(argv[3], NULL, 10) : 20;
    for (long i = 0; i < sets; i++) {
        run(warm_up);
        double begun = MPI_Wtime();
        run(operations);
        if (rank == 0)
            printf("%.0f\n", (MPI_Wtime() - begun) * 1e9 / (double)operations);
    }
    MPI_Finalize();
    return 0;
}
