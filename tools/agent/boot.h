/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_AGENT_BOOT_H
#define COP_TOOLS_AGENT_BOOT_H

/*
 * Runs the agent of one process of a job, whose other processes are found through the
 * launcher that started it. `command` may be NULL; "%r" in it stands for the rank. So may
 * `allow_exec`: nobody. An exit code after one line.
 */
int agent_boot(const char *command, const char *allow_exec);

#endif
