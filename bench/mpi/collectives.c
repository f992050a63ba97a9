/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives of an MPI, back to back, one kind after the other: prints the mean of each set, in
 * nanoseconds, by rank 0, with its name. Compiled by scripts/compare, where there is an MPI.
 * A broadcast is followed by a sum of one number for rank 0, as a probe asks all and counts.
 *
 *   collectives SETS OPERATIONS WARM_UP
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void allreduce(void)
{
    uint64_t one = 1, sum;
    MPI_Allreduce(&one, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
}

static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }

static void bcast_and_sum(void)
{
    uint64_t question = 1, sum;
    MPI_Bcast(&question, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    MPI_Reduce(&question, &sum, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
}

static const struct {
    const char *name;
    void (*run)(void);
} kinds[] = {{"allreduce", allreduce}, {"barrier", barrier}, {"bcast", bcast_and_sum}};

static double run(void (*operation)(void), long count)
{
    double begun = MPI_Wtime();
    for (long i = 0; i < count; i++)
        operation();
    return MPI_Wtime() - begun;
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    long sets = argc > 1 ? strtol(argv[1], NULL, 10) : 3;
    long operations = argc > 2 ? strtol(argv[2], NULL, 10) : 100;
    long warm_up = argc > 3 ? strtol(argv[3], NULL, 10) : 20;
    for (long i = 0; i < sets; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            run(kinds[k].run, warm_up);
            double took = run(kinds[k].run, operations);
            if (rank == 0)
                printf("%s %.0f\n", kinds[k].name, took * 1e9 / (double)operations);
        }
    MPI_Finalize();
    return 0;
}
