/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_AGENT_PRIVILEGES_H
#define COP_TOOLS_AGENT_PRIVILEGES_H

/*
 * Gives up all capabilities for good, also for whatever this process may execute. Once an
 * agent listens it needs none: what it reads again on SIGHUP belongs to its user, and
 * nothing that it does is done for others. 1: there were some, and they are gone. 0: there
 * were none. Otherwise -errno.
 */
int privileges_drop(void);

#endif
