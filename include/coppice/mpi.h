/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_MPI_H
#define COPPICE_MPI_H

#include <mpi.h>

/*
 * Failures of MPI processes, for an MPI that knows nothing of them. In libcoppice-mpi.
 *
 *   MPI_Init(...);
 *   if (COP_Comm_attach(MPI_COMM_WORLD) != 0)
 *       errx(1, "%s", COP_Comm_error());
 *   ...
 *   if (MPI_Allreduce(..., comm) != MPI_SUCCESS || ...)
 *       COP_Comm_revoke(comm);
 *   if (COP_Comm_agree(comm, &all_is_well) != 0 || !all_is_well)
 *       COP_Comm_shrink(comm, &comm);
 *
 * The processes of the first communicator that is attached become members of a cluster of their
 * own (coppice/run.h, on a thread of the library's); MPI is used once, to exchange addresses.
 * What is agreed on goes over these connections and not through MPI, whose own calls are not
 * touched and cost what they did.
 *
 * It takes an MPI that lets the others go on when one of them dies: Open MPI started by
 * `mpirun --enable-recovery`. COP_Comm_attach refuses where that is known not to be so. A
 * call of MPI that waits for a dead process may wait for ever; only what goes to living ones
 * works after a failure. So agree before the next collective, or use time-outs of your own.
 *
 * All functions return 0, an error of MPI (positive), or one of coppice/error.h (negative);
 * COP_Comm_error says the last one of this thread in words. They may be called by one thread
 * at a time. Functions that are collective are so among the processes that live.
 */

/*
 * Makes `comm` known. Collective, while everybody lives. The first one has all processes that
 * ever take part; later ones consist of those. Its errors are returned from then on
 * (MPI_ERRORS_RETURN) and do not end the program.
 *   COP_EREFUSED  this MPI, or the way it was started, ends the job when a process dies
 *   COP_EINVAL    a process that is not in the first one
 */
int COP_Comm_attach(MPI_Comm comm);
/* Forgets it. Local, after the last agreement of it. The first one goes last (COP_ESTATE), and
 * ends everything: before MPI_Finalize, if COP_Comm_exit does not do it. */
int COP_Comm_detach(MPI_Comm comm);

/* Who is known here to have failed; a group to be freed. Local: others may know more. */
int COP_Comm_validate(MPI_Comm comm, MPI_Group *failed);
/* The same, agreed on: all who return have the same group. Collective. `failed` may be NULL. */
int COP_Comm_validate_all(MPI_Comm comm, MPI_Group *failed);
/* The bitwise and of all flags, the same at all who return. Collective. */
int COP_Comm_agree(MPI_Comm comm, int *flag);
/*
 * A communicator of those who are left, in the same order, attached like the old one, which
 * stays as it is. Collective. If a process dies while MPI makes it, MPI may wait for ever.
 */
int COP_Comm_shrink(MPI_Comm comm, MPI_Comm *out);

/*
 * Tells everyone that this communicator is of no use any more. Local; the others find out by
 * COP_Comm_is_revoked. It cannot wake a process that waits inside MPI.
 */
int COP_Comm_revoke(MPI_Comm comm);
/* Whether anybody has. */
int COP_Comm_is_revoked(MPI_Comm comm, int *flag);

/*
 * Ends the program: MPI_Finalize and exit if nobody has failed, which all agree on first;
 * otherwise without MPI_Finalize, which waits for ever when rank 0 is dead. Collective among
 * those who live. What is in stdio's buffers is written.
 */
void COP_Comm_exit(int status) __attribute__((noreturn));

/* What went wrong last; "" if nothing did. Valid until the next call. */
const char *COP_Comm_error(void);

#endif
