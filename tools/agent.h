/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_AGENT_H
#define COP_TOOLS_AGENT_H

#include "cluster.h"

/* One member as a process: a node on its driver, and a socket for commands. */
struct agent_config {
    const struct cluster *cluster;
    cop_id id;
    cop_incarnation incarnation;
    int listen_fd; /* given away */
    int ready_fd;  /* gets the id, 4 bytes, when all is set up; -1: nobody waits */
    const char *command_path; /* NULL: no commands */
};

/*
 * Runs until SIGTERM or SIGINT. Returns an exit code after one line on standard error.
 */
int agent_run(const struct agent_config *config);

#endif
