/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_EXEC_CLIENT_H
#define COP_TOOLS_EXEC_CLIENT_H

#include "ask/follow.h"
#include "exec/exec.h"

/* The command's side of a run: asks an agent for it, and takes what comes back. */

/* Members whose command ended in the same way, with the same outputs. */
struct exec_class {
    struct cop_ranks ids; /* in order */
    uint8_t end;          /* enum job_end */
    uint8_t flags;        /* enum exec_record_flag */
    uint32_t code;
    uint64_t total[2];
    uint32_t kept[2], used[2]; /* how much there is to be, and is */
    uint8_t *text[2];
    bool is_gone; /* whoever had the text is dead */
};

struct exec_outcome {
    struct exec_class *classes;
    uint32_t class_count;
    uint32_t printed; /* so many of them are, as text */
    struct cop_failure
        *failures; /* members that did not run it, or died while they did */
    uint32_t failure_count;
    uint32_t members;
    cop_time elapsed_ns;
    bool is_cancelled;
    bool is_whole; /* the agent has said all */
};

struct exec_listener {
    /* EXEC_OUTPUT, EXEC_NEWS and EXEC_WAVE. */
    void (*note)(void *context, const struct exec_note *note);
    void *context;
};

/*
 * Runs it. 0; COP_ELOST (the agent is gone), or what it says. Interrupted (SIGINT, SIGTERM) it
 * has the run cancelled, and waits for the rest; interrupted again it waits no more
 * (COP_EABORTED). What has come is in `out` in any case, to be freed.
 */
int exec_ask(struct follow *follow, const struct exec_order *order,
             const struct exec_listener *listener, struct exec_outcome *out);
void exec_outcome_free(struct exec_outcome *outcome);

#endif
