/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_HOSTS_RUN_H
#define COP_TOOLS_HOSTS_RUN_H

#include "cluster/local.h"
#include "hosts/hosts.h"

/*
 * A cluster on hosts behind the functions of cluster/local.h: what they do for one on this machine by
 * its keeper, these do over ssh. Each returns 0, or an exit code after one line for each host
 * where it failed; the others go on.
 */

/* The cluster of this name as a struct local, without a keeper. */
int hosts_local(const char *name, struct local *out);
/* A connection to the agent of a member: 0, or COP_ENOENT after no line. */
int hosts_connect(const struct local *local, cop_id id, struct client *out);
int hosts_list(const struct local *local, struct list_reply *out);
int hosts_signal(const struct local *local, int number, const struct cop_ranks *ids);
/* Those whose host has forgotten them, after a boot, get their files again. */
int hosts_restart(const struct local *local, const struct cop_ranks *ids);
/* The key of the directory goes to all hosts; those without a member need none. */
int hosts_push_key(const struct local *local);
/* `force`: hosts that cannot be reached are forgotten. */
int hosts_down(const char *name, bool force);

/* The same for a part, or for none: after a start that failed. */
int hosts_stop(const struct local *local, const struct cop_ranks *ids);

#endif
