/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is given back to MPI while it is attached. MPI may make the next one in the same place: it
 * would have the same handle, and here be taken for what is gone. So each has an attribute, which
 * MPI deletes with it. Files have none.
 */
#include "mpi/job.h"

static int of_comms = MPI_KEYVAL_INVALID, of_windows = MPI_KEYVAL_INVALID;

/* By MPI_Comm_free, by MPI_Finalize, or by cop__mpi_unwatch, which has taken the handle out. */
static int on_comm_freed(MPI_Comm comm, int key, void *value, void *unused)
{
    struct cop__attached *at = value;
    (void)key, (void)unused;
    if (at->comm != comm)
        return MPI_SUCCESS;
    at->comm = MPI_COMM_NULL;
    if (at->next != NULL)
        cop__mpi_remove(at);
    else /* the first: the run ends with it, so it stays without a handle */
        cop__job.first = MPI_COMM_NULL;
    return MPI_SUCCESS;
}

static int on_window_freed(MPI_Win win, int key, void *value, void *unused)
{
    struct cop__attached *at = value;
    (void)key, (void)unused;
    if (at->win != win)
        return MPI_SUCCESS;
    at->win = MPI_WIN_NULL;
    cop__mpi_remove(at);
    return MPI_SUCCESS;
}

static int watch_comm(struct cop__attached *at)
{
    int error = MPI_SUCCESS;
    if (of_comms == MPI_KEYVAL_INVALID)
        error = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_comm_freed, &of_comms,
                                       NULL);
    return error == MPI_SUCCESS ? MPI_Comm_set_attr(at->comm, of_comms, at) : error;
}

static int watch_window(struct cop__attached *at)
{
    int error = MPI_SUCCESS;
    if (of_windows == MPI_KEYVAL_INVALID)
        error = MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, on_window_freed,
                                      &of_windows, NULL);
    return error == MPI_SUCCESS ? MPI_Win_set_attr(at->win, of_windows, at) : error;
}

int cop__mpi_watch(struct cop__attached *at)
{
    int error = MPI_SUCCESS;
    if (at->comm != MPI_COMM_NULL)
        error = watch_comm(at);
    else if (at->win != MPI_WIN_NULL)
        error = watch_window(at);
    return error == MPI_SUCCESS ? 0 : cop__mpi_fail_with(error, "no attribute");
}

void cop__mpi_unwatch(struct cop__attached *at)
{
    MPI_Comm comm = at->comm;
    MPI_Win win = at->win;
    at->comm = MPI_COMM_NULL;
    at->win = MPI_WIN_NULL;
    if (comm != MPI_COMM_NULL)
        MPI_Comm_delete_attr(comm, of_comms);
    if (win != MPI_WIN_NULL)
        MPI_Win_delete_attr(win, of_windows);
}
