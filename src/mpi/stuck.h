/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_MPI_STUCK_H
#define COPPICE_MPI_STUCK_H

#include <coppice/types.h>
#include <stdbool.h>

/*
 * MPI makes a communicator of these ids from now on, until cop__stuck_leave. If one of them dies
 * before that MPI may wait for it for ever, which nobody outside can end: after a while the
 * process is ended, so that those who are not stuck go on without it and nothing hangs. `ids`
 * stay until then.
 */
void cop__stuck_enter(const cop_id *ids, int count);
void cop__stuck_leave(void);
/* Who has failed, by id, has changed. From any thread. */
void cop__stuck_look(const bool *failed);
/* This process hears of nobody any more, so everybody may have failed. From any thread. */
void cop__stuck_alone(void);

#endif
