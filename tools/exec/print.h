/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_EXEC_PRINT_H
#define COP_TOOLS_EXEC_PRINT_H

#include "exec/client.h"

/* Whose names they are. */
struct exec_names {
    const struct roll *roll;
    const struct cluster *cluster; /* NULL: not a local one */
};

/*
 * Folded: for each way to end the members, and what they all said, on the stream on which they
 * said it; then, on standard error, who did not run it.
 */
void exec_print_text(struct exec_outcome *outcome, const struct exec_names *names);
/* The outputs that have come since the last time; who is silent is still waited for. */
void exec_print_wave(struct exec_outcome *outcome, const struct exec_names *names);
void exec_print_json(const struct exec_outcome *outcome,
                     const struct exec_names *names);
/* How it ended and who did not run it, without outputs: after a stream. */
void exec_print_ends(const struct exec_outcome *outcome,
                     const struct exec_names *names);

/* The exit code of the command for it. */
int exec_exit_code(const struct exec_outcome *outcome);

/* Lines as they come. */
struct exec_lines;
struct exec_lines *exec_lines_create(const struct exec_names *names, bool is_labelled);
void exec_lines_add(struct exec_lines *lines, const struct exec_note *output);
/* What was not ended by a newline is printed all the same. */
void exec_lines_free(struct exec_lines *lines);

#endif
