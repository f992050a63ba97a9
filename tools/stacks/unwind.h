/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_STACKS_UNWIND_H
#define COP_TOOLS_STACKS_UNWIND_H

#include <coppice/types.h>
#include <stdio.h>
#include <sys/types.h>

/*
 * Call stacks of other processes, by elfutils (libdw), which is loaded when it is needed: the
 * agents, which are many, never need it. A process is held for as long as its registers and
 * stacks are read, without a signal: one that was stopped stays stopped, one that runs goes
 * on, and if we die the kernel lets it go.
 */

/* Whether this build can; `why` gets a sentence if not. */
bool unwind_is_there(char *why, size_t size);

/*
 * Writes lines about one process to `out`:
 *   S NUMBER frame;frame;frame   a thread, outermost frame first
 *   M NUMBER why                 the process, or a thread of it, could not be looked at
 * NUMBER is the process, or with `threads` the thread. Each wait ends within `patience_ns`.
 */
void unwind_process(pid_t pid, bool threads, cop_time patience_ns, FILE *out);

#endif
