/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_MPI_H
#define COPPICE_MPI_H

#include <mpi.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Failures of MPI processes, for an MPI that knows nothing of them. In libcoppice-mpi.
 *
 *   MPI_Init(...);
 *   if (COP_Comm_attach(MPI_COMM_WORLD) != 0)
 *       errx(1, "%s", COP_Comm_error());
 *   ...
 *   if (MPI_Iallreduce(..., comm, &request) != MPI_SUCCESS ||
 *       COP_Comm_waitall(comm, 1, &request) != 0) {
 *       all_is_well = 0;
 *       COP_Comm_revoke(comm);
 *   }
 *   if (COP_Comm_agree(comm, &all_is_well) == 0 && !all_is_well)
 *       COP_Comm_shrink(comm, &comm);
 *
 * The processes of the first communicator that is attached become members of a cluster of their
 * own (coppice/run.h, on a thread of the library's); MPI is used once, to exchange addresses.
 * What is agreed on goes over these connections and not through MPI, whose own calls are not
 * touched and cost what they did.
 *
 * It takes an MPI that lets the others go on when one of them dies: Open MPI 4 started by
 * `mpirun --enable-recovery`. COP_Comm_attach refuses where that is known not to be so. A
 * call of MPI that waits for a dead process may wait for ever; only what goes to living ones
 * works after a failure. So use requests and wait with COP_Comm_waitall, which ends, or agree
 * before the next collective.
 *
 * All functions return 0, an error of MPI (positive), or one of coppice/error.h (negative);
 * COP_Comm_error says the last one of this thread in words. They may be called by one thread
 * at a time. Functions that are collective are so among the processes that live.
 */

/* ---- communicators ---------------------------------------------------------------- */

/*
 * Makes `comm` known. Collective, while everybody lives. The first one has all processes that
 * ever take part; later ones consist of those. Its errors are returned from then on
 * (MPI_ERRORS_RETURN) and do not end the program; nor does SIGPIPE, which MPI gets when it writes to the
 * socket of a dead process: it is ignored from then on, unless the program has something else in mind.
 *   COP_EREFUSED  this MPI, or the way it was started, ends the job when a process dies
 *   COP_EINVAL    a process that is not in the first one; an intercommunicator
 *   COP_EEXIST    it is attached
 *   COP_ESTATE    MPI was not initialized, or is finalized
 */
int COP_Comm_attach(MPI_Comm comm);
/*
 * Forgets it. Local, after the last agreement of it. The first one goes last (COP_ESTATE), and
 * ends everything: before MPI_Finalize, if COP_Comm_exit does not do it. If there are spares
 * that is collective, and tells them that the work is over. One that is given back to MPI
 * (MPI_Comm_free) is forgotten by that; of the first one only the handle, and no rank can be
 * replaced after that.
 */
int COP_Comm_detach(MPI_Comm comm);
/* Forgets it, and gives it back to MPI: for those that were made by shrinking and replacing.
 * Local, even if somebody in it has failed. */
int COP_Comm_free(MPI_Comm *comm);

/* Who is known here to have failed; a group to be freed. Local: others may know more. */
int COP_Comm_validate(MPI_Comm comm, MPI_Group *failed);
/* The same, agreed on: all who return have the same group. Collective. `failed` may be NULL. */
int COP_Comm_validate_all(MPI_Comm comm, MPI_Group *failed);
/* The bitwise and of all flags, the same at all who return. Collective. */
int COP_Comm_agree(MPI_Comm comm, int *flag);
/*
 * The same with words, each combined with those in its place by `op`: MPI_MIN, MPI_MAX, MPI_SUM,
 * MPI_BAND or MPI_BOR. At most 8,192 words (COP_ERANGE).
 */
int COP_Comm_agree_words(MPI_Comm comm, uint64_t *words, int count, MPI_Op op);
/*
 * A communicator of those who are left, in the same order, attached like the old one, which
 * stays as it is. Collective. If a process dies while MPI makes it, which takes about a
 * millisecond, MPI may wait for ever: a process that waits so is ended after 60 s, or as many as
 * COPPICE_MPI_STUCK says, with a word to stderr, and the others go on without it. One that
 * dies before or after that is left out.
 */
int COP_Comm_shrink(MPI_Comm comm, MPI_Comm *out);

/*
 * Tells everyone that this communicator is of no use any more. Local; the others find out by
 * COP_Comm_is_revoked and COP_Comm_waitall, all of them if one does that lives. It cannot wake a
 * process that waits inside MPI.
 */
int COP_Comm_revoke(MPI_Comm comm);
/* Whether anybody has. COP_EREMOVED: nobody would tell this process any more. */
int COP_Comm_is_revoked(MPI_Comm comm, int *flag);

/*
 * Waits for requests that were started on `comm`, or until there is no point in it:
 *   COP_ELOST     a process of it has failed, which was not acknowledged here
 *   COP_EABORTED  it was revoked
 *   COP_EREMOVED  the others hold this process to be dead, and have gone on without it
 * unless all are complete by then. Requests that are complete are MPI_REQUEST_NULL (persistent ones:
 * inactive); the others are still there. What these receive into must not be used for anything else,
 * for it may still come.
 */
int COP_Comm_waitall(MPI_Comm comm, int count, MPI_Request *requests);

/* ---- acknowledging ---------------------------------------------------------------- */

/* This process knows of all failures that COP_Comm_validate says now. Local. */
int COP_Comm_failure_ack(MPI_Comm comm);
/* Whom it has acknowledged: grows by COP_Comm_failure_ack alone. A group to be freed. Local. */
int COP_Comm_failure_get_acked(MPI_Comm comm, MPI_Group *acked);
/*
 * As COP_Comm_agree. COP_ELOST, with the flag that was agreed on, if somebody has failed whom
 * not all have acknowledged: at all who return, or at none.
 */
int COP_Comm_agree_acked(MPI_Comm comm, int *flag);

/* ---- spares ----------------------------------------------------------------------- */

/*
 * As COP_Comm_attach for the first communicator, with the last `spares` of its processes held
 * back: `work` is an attached communicator of the others, in the same order, and MPI_COMM_NULL
 * at those, which call COP_Comm_spare_wait next. COP_ERANGE: nobody would work. COP_ESTATE: it
 * is not the first.
 */
int COP_Comm_attach_spares(MPI_Comm comm, int spares, MPI_Comm *work);
/*
 * A communicator like `comm`, in which spares have the ranks of those who have failed and everyone
 * else has the rank that it had; attached. `comm`, which stays as it is, is the one that
 * COP_Comm_attach_spares or this has made last (COP_ESTATE otherwise). Collective. The same
 * warning as for COP_Comm_shrink.
 *   COP_ENOENT  there are not enough spares: at all who return, and nothing has changed
 */
int COP_Comm_replace(MPI_Comm comm, MPI_Comm *out);
/*
 * A spare waits here, for as long as it takes, without using a processor. 0 with `work` and its
 * rank in it: it has taken over from somebody who failed, and is no spare any more. 0 with
 * MPI_COMM_NULL and MPI_UNDEFINED: the others are done, by COP_Comm_exit or by detaching the
 * first communicator, and it does the same next.
 *   COP_ELOST   everybody who worked has failed
 *   COP_ESTATE  this process is not a spare that waits
 */
int COP_Comm_spare_wait(MPI_Comm *work, int *rank);

/* ---- windows and files ------------------------------------------------------------ */

/*
 * Makes a window known that has the processes of `comm`, which is attached (COP_EINVAL otherwise).
 * Collective over `comm`; somebody may have failed. The window has agreements of its own, which
 * are not in the order of the communicator's. Its errors are returned from then on.
 */
int COP_Win_attach(MPI_Win win, MPI_Comm comm);
/* Forgets it, as MPI_Win_free does. Local. That waits for all processes: do not call it if one has
 * failed. */
int COP_Win_detach(MPI_Win win);
/* As COP_Comm_validate. */
int COP_Win_validate(MPI_Win win, MPI_Group *failed);
/* As COP_Comm_validate_all. */
int COP_Win_validate_all(MPI_Win win, MPI_Group *failed);
/* The same for a file that was opened by `comm`. */
int COP_File_attach(MPI_File file, MPI_Comm comm);
/* Forgets it. Local; before MPI_File_close, which waits for all processes: do not call that if one
 * has failed. */
int COP_File_detach(MPI_File file);
/* As COP_Comm_validate. */
int COP_File_validate(MPI_File file, MPI_Group *failed);
/* As COP_Comm_validate_all. */
int COP_File_validate_all(MPI_File file, MPI_Group *failed);

/* ---- the end ---------------------------------------------------------------------- */

/*
 * Ends the program: MPI_Finalize and exit if nobody has failed, which all agree on first;
 * otherwise without MPI_Finalize, which waits for ever when rank 0 is dead. Collective among
 * those who live. What is in stdio's buffers is written. Also where nothing was attached; and where MPI is
 * not initialized, or finalized already: then it is exit.
 */
void COP_Comm_exit(int status) __attribute__((noreturn));

/* What went wrong last; "" if nothing did. Valid until the next call. */
const char *COP_Comm_error(void);

#ifdef __cplusplus
}
#endif

#endif
