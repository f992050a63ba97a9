/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_BENCH_CROWD_H
#define COP_TOOLS_BENCH_CROWD_H

#include <coppice/service.h>
#include <sys/types.h>

/*
 * A cluster for a measurement of calls: this process is member 0, and the others are forked
 * and serve until they are killed. Over TCP on the loopback, in clear, and no file is made; or
 * over Unix sockets, in a folder of their own for as long as it is open.
 */
#define CROWD_SERVICE 1u
#define CROWD_MAX 1024u

struct crowd {
    struct cop_run *run;
    uint32_t n;
    char folder[32]; /* of its sockets; "": it has none */
    int listeners[CROWD_MAX];
    char texts[CROWD_MAX][48];
    const char *addresses[CROWD_MAX];
    pid_t pids[CROWD_MAX];
    uint32_t forked;
};

struct crowd_config {
    uint32_t n;        /* CROWD_MAX at most */
    const char *shape; /* NULL: as a run has it */
    bool is_local;     /* over Unix sockets */
    bool no_reads;     /* as in struct cop_settings */
    /* What everybody serves; NULL: CROWD_SERVICE, which answers with a one. Its context is
     * the same at all, so what they are to share must be in memory that is shared. */
    const struct cop_handlers *service;
    uint32_t service_count; /* 0: one */
    /* Where it is not NULL: called in each of the others before it begins. */
    void (*prepare)(void *context);
    void *context;
};
/* All are members when this returns. 0, or EXIT_FAILED after one line; then all are gone. */
int crowd_open(struct crowd *crowd, const struct crowd_config *config);
void crowd_close(struct crowd *crowd);

#endif
