/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_MPI_MAKE_H
#define COPPICE_MPI_MAKE_H

#include "mpi/job.h"

/* A communicator that is made by agreement of group `number`, out of `parent`. */
struct cop__making {
    uint64_t number;
    MPI_Comm parent;
    /*
     * Who shall be in it, by rank, without those who have failed; the same at all who agree.
     * `members` has room for all processes. 0, or an error that all of them return.
     */
    int (*choose)(const bool *failed, cop_id *members, int *count, void *context);
    void *context;
};

/*
 * Makes it, as often as it takes: until all of its members have it and none has failed.
 * `failed`, by id, is what was agreed on before, and last; `out` is MPI_COMM_NULL at those who
 * agree but are no members. `counter` is larger than that of anybody who agreed.
 */
int cop__mpi_make(const struct cop__making *making, bool *failed, uint64_t which,
                  MPI_Comm *out, uint64_t *counter);

#endif
