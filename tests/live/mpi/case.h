/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_TESTS_LIVE_MPI_CASE_H
#define COPPICE_TESTS_LIVE_MPI_CASE_H

/* What the MPI programs of the live tests share. A process that finds something wrong says so
 * and ends; to the others it has failed, and the script misses its lines. */
#include <coppice/error.h>
#include <coppice/mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define require(condition)                                                             \
    do {                                                                               \
        if (!(condition)) {                                                            \
            fprintf(stderr, "FAILED: %s:%d: %s (%s)\n", __FILE__, __LINE__,            \
                    #condition, COP_Comm_error());                                     \
            _exit(1);                                                                  \
        }                                                                              \
    } while (0)
#define must(error) require((error) == 0)
#define must_mpi(error) require((error) == MPI_SUCCESS)

/* This process's rank in MPI_COMM_WORLD. */
static inline int begin(int *argc, char ***argv)
{
    int me;
    setvbuf(stdout, NULL, _IOLBF, 0);
    must_mpi(MPI_Init(argc, argv));
    must_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &me));
    return me;
}

/* Ranks of MPI_COMM_WORLD, as bits; the group is freed. */
static inline unsigned bits(MPI_Group group)
{
    MPI_Group all;
    int size, rank;
    unsigned found = 0;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_size(group, &size);
    for (int i = 0; i < size; i++) {
        MPI_Group_translate_ranks(group, 1, &i, all, &rank);
        found |= 1u << rank;
    }
    MPI_Group_free(&all);
    if (group != MPI_GROUP_EMPTY)
        MPI_Group_free(&group);
    return found;
}

#endif
