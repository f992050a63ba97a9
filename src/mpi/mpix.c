/* SPDX-License-Identifier: Apache-2.0 */
/* The same functions by the names, and with the errors, of ULFM. */
#include "mpi/job.h"

#include <coppice/mpix.h>

/* A class of errors that this MPI does not know, made when it is first asked for. */
static int make_class(int *made, const char *text)
{
    if (*made == MPI_SUCCESS && MPI_Add_error_class(made) == MPI_SUCCESS)
        MPI_Add_error_string(*made, text);
    return *made != MPI_SUCCESS ? *made : MPI_ERR_OTHER;
}

int COP_Mpix_class(int error)
{
    static int failed = MPI_SUCCESS, revoked = MPI_SUCCESS;
    if (error >= 0)
        return error;
    switch (error) {
    case COP_ELOST:
        return make_class(&failed, "MPIX_ERR_PROC_FAILED: a process has failed");
    case COP_EABORTED:
        return make_class(&revoked, "MPIX_ERR_REVOKED: the communicator was revoked");
    case COP_EINVAL:
        return MPI_ERR_COMM;
    case COP_ENOMEM:
        return MPI_ERR_NO_MEM;
    default:
        return MPI_ERR_OTHER;
    }
}

/* Errors go to the communicator's error handler, as those of MPI do. */
static int raise_error(MPI_Comm comm, int error)
{
    int code = COP_Mpix_class(error);
    if (code != MPI_SUCCESS)
        MPI_Comm_call_errhandler(comm == MPI_COMM_NULL ? MPI_COMM_WORLD : comm, code);
    return code;
}

int COP_Mpix_Comm_agree(MPI_Comm comm, int *flag)
{
    return raise_error(comm, COP_Comm_agree_acked(comm, flag));
}

int COP_Mpix_Comm_shrink(MPI_Comm comm, MPI_Comm *out)
{
    return raise_error(comm, COP_Comm_shrink(comm, out));
}

int COP_Mpix_Comm_revoke(MPI_Comm comm)
{
    return raise_error(comm, COP_Comm_revoke(comm));
}

int COP_Mpix_Comm_is_revoked(MPI_Comm comm, int *flag)
{
    return raise_error(comm, COP_Comm_is_revoked(comm, flag));
}

int COP_Mpix_Comm_failure_ack(MPI_Comm comm)
{
    int revoked = 0, error = COP_Comm_is_revoked(comm, &revoked);
    if (error == 0 && revoked)
        error = cop__mpi_fail(COP_EABORTED, "the communicator was revoked");
    return raise_error(comm, error ? error : COP_Comm_failure_ack(comm));
}

int COP_Mpix_Comm_failure_get_acked(MPI_Comm comm, MPI_Group *acked)
{
    return raise_error(comm, COP_Comm_failure_get_acked(comm, acked));
}
