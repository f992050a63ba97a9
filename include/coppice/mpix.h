/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_MPIX_H
#define COPPICE_MPIX_H

#include <coppice/error.h>
#include <coppice/mpi.h>

/*
 * The names of ULFM (user-level failure mitigation) for what coppice/mpi.h does: a program that
 * was written for them is compiled with this header, attaches its communicators with
 * COP_Comm_attach, and ends with COP_Comm_exit.
 *
 *   #include <coppice/mpix.h>
 *   MPIX_Comm_failure_ack(comm);
 *   if (MPIX_Comm_agree(comm, &flag) == MPIX_ERR_PROC_FAILED)
 *       MPIX_Comm_shrink(comm, &comm);
 *
 * What holds and what cannot is in docs/mpi.md. In short: these calls do what they do there;
 * calls of MPI itself raise neither MPIX_ERR_PROC_FAILED nor MPIX_ERR_REVOKED, and may wait for
 * ever for a process that has failed, so wait with COP_Comm_waitall.
 *
 * An MPI that has these names itself (Open MPI 5 in mpi-ext.h, MPICH in mpi.h) keeps them: then
 * COP_MPIX_IS_NATIVE is 1, and this header defines nothing. The classes of errors are made when
 * the program runs, so they cannot be labels of a switch.
 *
 * Errors go to the communicator's error handler before they are returned: after COP_Comm_attach
 * that is MPI_ERRORS_RETURN, until the program sets one of its own.
 */
#if defined(OPEN_MPI) && defined(__has_include)
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

#if defined(MPIX_ERR_PROC_FAILED) ||                                                   \
    (defined(OMPI_HAVE_MPI_EXT_FTMPI) && OMPI_HAVE_MPI_EXT_FTMPI)
#define COP_MPIX_IS_NATIVE 1
#else
#define COP_MPIX_IS_NATIVE 0
#define MPIX_ERR_PROC_FAILED COP_Mpix_class(COP_ELOST)
#define MPIX_ERR_REVOKED COP_Mpix_class(COP_EABORTED)
#define MPIX_Comm_agree COP_Mpix_Comm_agree
#define MPIX_Comm_shrink COP_Mpix_Comm_shrink
#define MPIX_Comm_revoke COP_Mpix_Comm_revoke
#define MPIX_Comm_is_revoked COP_Mpix_Comm_is_revoked
#define MPIX_Comm_failure_ack COP_Mpix_Comm_failure_ack
#define MPIX_Comm_failure_get_acked COP_Mpix_Comm_failure_get_acked
#endif

/* MPIX_Comm_agree: COP_Comm_agree_acked. MPIX_ERR_PROC_FAILED if somebody has failed whom not all
 * have acknowledged; the flag is agreed on all the same. */
int COP_Mpix_Comm_agree(MPI_Comm comm, int *flag);
/* MPIX_Comm_shrink: COP_Comm_shrink; also of one that was revoked. */
int COP_Mpix_Comm_shrink(MPI_Comm comm, MPI_Comm *out);
/* MPIX_Comm_revoke: COP_Comm_revoke. */
int COP_Mpix_Comm_revoke(MPI_Comm comm);
/* MPIX_Comm_is_revoked: COP_Comm_is_revoked. */
int COP_Mpix_Comm_is_revoked(MPI_Comm comm, int *flag);
/* MPIX_Comm_failure_ack: COP_Comm_failure_ack. MPIX_ERR_REVOKED if it was revoked. */
int COP_Mpix_Comm_failure_ack(MPI_Comm comm);
/* MPIX_Comm_failure_get_acked: COP_Comm_failure_get_acked. */
int COP_Mpix_Comm_failure_get_acked(MPI_Comm comm, MPI_Group *acked);
/*
 * The class of errors of MPI that stands for an error of ours: of its own for COP_ELOST
 * (MPIX_ERR_PROC_FAILED) and COP_EABORTED (MPIX_ERR_REVOKED), else one that MPI has. 0 is
 * MPI_SUCCESS; errors of MPI are what they are.
 */
int COP_Mpix_class(int error);

#ifdef __cplusplus
}
#endif

#endif
