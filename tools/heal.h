/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_HEAL_H
#define COP_TOOLS_HEAL_H

#include "local.h"

/* What a death cost, by the clock that all processes of this machine share. */
struct healing {
    cop_time killed_ns;
    cop_time heard_ns;     /* whoever proposed the next view heard of it */
    cop_time stable_ns;    /* everybody had acknowledged that */
    cop_time installed_ns; /* the last of those who live had it */
    cop_epoch epoch;
    cop_id root; /* of the next view */
    uint32_t members;
};

/* Waits until no member of a local cluster that lives has `gone` in its view. 0 or
 * EXIT_FAILED after one line. */
int heal_wait(const struct local *local, cop_id gone);
/* Kills the process of a member, and follows what the others make of it. */
int heal_after(const struct local *local, cop_id victim, pid_t pid,
               struct healing *out);

#endif
