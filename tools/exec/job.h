/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_EXEC_JOB_H
#define COP_TOOLS_EXEC_JOB_H

#include "exec/minder.h"

#include <coppice/types.h>
#include <uv.h>

/*
 * One command as a process on a libuv loop, with all that it starts: it leads a session, and so
 * a process group, of its own. It is over when its first process is: what is left of the group
 * then is killed, and what is in the pipes is read. Who wants to stay calls setsid.
 */
enum job_end {
    JOB_EXITED,      /* `code`: exit status */
    JOB_SIGNALLED,   /* `code`: signal */
    JOB_NOT_STARTED, /* `code`: errno */
};

struct job_output {
    uint8_t *bytes; /* what is kept */
    uint32_t used, capacity;
    uint64_t total; /* what was written, also if it is not kept */
};

struct job;
struct job_config {
    uv_loop_t *loop;
    const struct minder *minder; /* running */
    char *const *words;          /* ended by NULL; borrowed for job_start */
    char *const *environment;    /* the same */
    const void *input;           /* at most JOB_INPUT_MAX bytes; NULL: /dev/null */
    uint32_t input_length;
    cop_time timeout_ns; /* 0: none */
    uint32_t limit;      /* bytes kept of each output; the rest is read and dropped */
    /*
     * Something is in the outputs (see job_output), and no more is read of either before
     * job_take: for those who pass it on. NULL: outputs are kept until the end.
     */
    void (*output)(void *context, struct job *job);
    /* It is over, and nothing more will be read. Once; not before job_start returns. */
    void (*ended)(void *context, struct job *job);
    void *context;
};
#define JOB_INPUT_MAX 4096u
/* How long one that was told to end may take before it is killed. */
#define JOB_GRACE_MS 2000u

/* Never fails but for memory: a command that cannot be started has ended so. */
int job_start(const struct job_config *config, struct job **out);
/* Has it end: SIGTERM, and SIGKILL after a while. */
void job_stop(struct job *job);
/* Kills it, if it still runs, and frees it; `ended` is not called any more. */
void job_free(struct job *job);

bool job_has_ended(const struct job *job);
enum job_end job_end(const struct job *job, int *code);
/* Whether its time was up. */
bool job_timed_out(const struct job *job);
/* 0: standard output, 1: standard error. */
const struct job_output *job_output(const struct job *job, int which);
/* What was there has been taken: reads on. */
void job_take(struct job *job);

#endif
