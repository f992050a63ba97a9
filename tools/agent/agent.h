/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_AGENT_AGENT_H
#define COP_TOOLS_AGENT_AGENT_H

#include "names/cluster.h"

/* One member as a process: a node on its driver, and a socket for commands. */
struct agent_config {
    const struct cluster *cluster;
    cop_id id;        /* of the file; COP_ID_NONE for somebody new */
    const char *name; /* of somebody new */
    cop_incarnation incarnation;
    /*
     * The first start of a member takes the view of the file. Every other one asks for an
     * invitation, `contact` before the members of the file (length 0: only those), and
     * joins.
     */
    bool is_first;
    cop_time
        patience_ns; /* is_first: so long others may take to start; 0: all are there */
    bool is_new;     /* it must not take the place of anybody */
    bool is_spare;
    struct cop__address contact;
    struct cop__tls *tls; /* for TCP; NULL: it is not encrypted */
    const char *where;    /* the address that others are told; NULL: that of the file */
    int listen_fd;        /* given away */
    const char *socket;   /* to be removed at the end; NULL: none */
    int note_fd;          /* gets an agent_note after every change; -1: nobody waits */
    uint32_t slot;        /* for the notes */
    const char *command_path; /* NULL: no commands */
    const char *allow_exec; /* who may run commands here (exec/allow.h); NULL: nobody */
};

/* What the parent of an agent is told. Written at once, so notes do not mix. */
struct agent_note {
    uint32_t slot;
    cop_id id;
    cop_incarnation incarnation;
    cop_epoch epoch;  /* of its view; 0 while it has none that it is in */
    uint64_t waiting; /* 1: it cannot be taken in, for its cluster is degraded */
};

/*
 * Runs until SIGTERM or SIGINT, or until it has left. Returns an exit code after one line
 * on standard error.
 */
int agent_run(const struct agent_config *config);

#endif
