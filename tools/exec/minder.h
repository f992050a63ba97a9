/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_EXEC_MINDER_H
#define COP_TOOLS_EXEC_MINDER_H

#include <sys/types.h>

/*
 * A process that outlives its agent by a moment: when the agent is gone, however it went, the
 * minder kills every process group that the agent had running, and ends. The kernel kills the
 * leader of a group with its parent (PDEATHSIG), but not what a shell has started below it.
 *
 * It is forked when it is first needed, and reads one pipe. A group is put down by its own
 * leader before that becomes the command: nobody can die in between.
 */
struct minder {
    int fd;    /* to write to; -1: there is none */
    pid_t pid; /* of the minder */
};

#define MINDER_GROUPS_MAX 256u

/* Starts it unless it runs. 0 or -errno. */
int minder_start(struct minder *minder);
/* To be called by the leader of a group: it is to be killed with the agent. Async-signal-safe;
 * 0 or -errno. */
int minder_add(const struct minder *minder, pid_t group);
/* The group is dead; its leader has not been waited for, so the number is still its own. */
void minder_remove(const struct minder *minder, pid_t group);
/* Nothing is left to be killed: the minder ends. */
void minder_stop(struct minder *minder);

#endif
