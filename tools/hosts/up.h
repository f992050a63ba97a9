/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_HOSTS_UP_H
#define COP_TOOLS_HOSTS_UP_H

#include "cluster/settings.h"

/* The start of a cluster on hosts. */
struct hosts_order {
    const struct settings *settings; /* with hosts, user, ssh, remote, port */
    const char *allow_exec;          /* NULL: the users at the hosts, and root */
    bool is_insecure;
    bool keep_going; /* also without hosts that fail */
    bool print;      /* only the file of members, and nothing is done */
    uint32_t fanout;
    cop_time patience_ns;
};

/* What came of it. */
struct hosts_result {
    uint32_t members;
    char *failed; /* folded names of those that did not start; owned */
};

/*
 * 0: all are up. Otherwise an exit code after one line for each host that failed; then
 * nothing is left at any host, unless `keep_going` was wanted and out->members is not 0.
 */
int hosts_up(const struct hosts_order *order, struct hosts_result *out);

#endif
