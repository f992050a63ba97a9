/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An empty request to all and one answer, as MPI programs do it: MPI_Bcast of one byte, then
 * MPI_Reduce of one number. Rank 0 prints the median of its times, in nanoseconds. For
 * `coppice bench bcast --mpi`.
 *
 *   coppice-mpi-bcast OPERATIONS WARM_UP
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void once(void)
{
    char request = 0;
    int32_t one = 1, sum = 0;
    MPI_Bcast(&request, 1, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_Reduce(&one, &sum, 1, MPI_INT32_T, MPI_SUM, 0, MPI_COMM_WORLD);
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    long operations = argc > 1 ? strtol(argv[1], NULL, 10) : 100;
    long warm_up = argc > 2 ? strtol(argv[2], NULL, 10) : 20;
    double *times = operations > 0 ? calloc((size_t)operations, sizeof *times) : NULL;
    if (times == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 1);
        return 1;
    }
    for (long i = 0; i < warm_up; i++)
        once();
    for (long i = 0; i < operations; i++) {
        double begun = MPI_Wtime();
        once();
        times[i] = (MPI_Wtime() - begun) * 1e9;
    }
    qsort(times, (size_t)operations, sizeof *times, compare);
    if (rank == 0)
        printf("%.0f\n", (times[(operations - 1) / 2] + times[operations / 2]) / 2);
    free(times);
    MPI_Finalize();
    return 0;
}
