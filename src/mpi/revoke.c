/* SPDX-License-Identifier: Apache-2.0 */
/* Telling the others that a communicator is of no use any more, and waiting with an ear for it. */
#include "mpi/job.h"

#include <sched.h>

static bool is_revoked(const struct cop__attached *at)
{
    pthread_mutex_lock(&cop__job.mutex);
    bool revoked = at->is_revoked;
    pthread_mutex_unlock(&cop__job.mutex);
    return revoked;
}

int COP_Comm_revoke(MPI_Comm comm)
{
    struct cop__attached *at = cop__mpi_find(comm);
    struct cop__letter *letters = NULL;
    if (at == NULL)
        return COP_EINVAL;
    pthread_mutex_lock(&cop__job.mutex);
    if (!at->is_revoked) {
        at->is_revoked = true;
        at->teller = cop_self(cop__job.run);
        letters = cop__job_write(at, NULL);
    }
    pthread_mutex_unlock(&cop__job.mutex);
    cop__job_send(letters);
    return 0;
}

int COP_Comm_is_revoked(MPI_Comm comm, int *flag)
{
    const struct cop__attached *at = cop__mpi_find_with(comm, flag);
    if (at == NULL)
        return COP_EINVAL;
    bool revoked = is_revoked(at);
    int error = revoked ? 0 : cop__job_check_in();
    if (error == 0)
        *flag = revoked;
    return error;
}

/* ---- waiting --------------------------------------------------------------------- */

/* The least rank that has failed and was not acknowledged; -1: none. */
static int find_news(const struct cop__attached *at)
{
    int found = -1;
    pthread_mutex_lock(&cop__job.mutex);
    for (int i = 0; found < 0 && i < at->size; i++)
        if (cop__job.failed[at->ids[i]] && !at->acked[i])
            found = i;
    pthread_mutex_unlock(&cop__job.mutex);
    return found;
}

static int check_news(const struct cop__attached *at)
{
    int rank = find_news(at);
    if (is_revoked(at))
        return cop__mpi_fail(COP_EABORTED, "the communicator was revoked");
    if (rank >= 0)
        return cop__mpi_fail(COP_ELOST, "rank %d has failed", rank);
    return cop__job_check_in();
}

/* MPI_Testall leaves all requests as they are unless all are complete. True: by now they are. */
static bool take_complete(int count, MPI_Request *requests)
{
    bool are_all = true;
    for (int i = 0; i < count; i++) {
        int is_done = 0;
        MPI_Test(&requests[i], &is_done, MPI_STATUS_IGNORE);
        are_all = are_all && is_done;
    }
    return are_all;
}

int COP_Comm_waitall(MPI_Comm comm, int count, MPI_Request *requests)
{
    const struct cop__attached *at = cop__mpi_find(comm);
    int is_done = 0;
    if (at == NULL)
        return COP_EINVAL;
    if (count < 0 || (count > 0 && requests == NULL))
        return cop__mpi_fail(COP_EINVAL, "%d requests, or none where there are some",
                             count);
    for (;;) {
        int error = MPI_Testall(count, requests, &is_done, MPI_STATUSES_IGNORE);
        if (error != MPI_SUCCESS)
            return cop__mpi_fail_with(error, "MPI_Testall");
        if (is_done)
            return 0;
        error = check_news(at);
        /* Who waited for the last of them would not know from an error that it has come. */
        if (error)
            return take_complete(count, requests) ? 0 : error;
        sched_yield();
    }
}
