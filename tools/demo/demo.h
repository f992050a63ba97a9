/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_DEMO_DEMO_H
#define COP_TOOLS_DEMO_DEMO_H

#include "cluster/local.h"

/* The tour of `coppice demo`: what its parts have in common. */

#define DEMO_VICTIMS 4u
/* The root and three others die at once; those who are left must be a majority. */
#define DEMO_MEMBERS_MIN 16u
/* Of anything that is waited for: a machine may be busy. */
#define DEMO_WAIT_NS (60 * COP_SEC)

/* Who dies: the root, two inner members and a leaf, in the order of their ranks. */
struct demo_victims {
    cop_id ids[DEMO_VICTIMS];
    pid_t pids[DEMO_VICTIMS];
    cop_time killed_ns; /* just before the first; 0: they live */
};

bool demo_is_victim(const struct demo_victims *victims, cop_id id);

/* One operation of a service. */
struct demo_op {
    cop_time at_ns, elapsed_ns;
    uint64_t members; /* who took part in it */
};

/*
 * What a service has to say when all is over, and whether it kept its promise. Whoever fills
 * it in has looked at every operation, not at the last.
 */
#define DEMO_SERVICES 4u
struct demo_claim {
    const char *name;
    bool is_kept;
    char text[240];     /* what it saw, or how it failed */
    cop_time healed_ns; /* after the kill, until its result was that of the survivors */
    uint32_t count;     /* operations */
    cop_time median_ns; /* of those before the kill */
    cop_time slowest_ns;       /* of those after it */
    const struct demo_op *ops; /* in their order, for the picture; NULL: see `steps` */
    const cop_time *steps; /* sorted: when each of the survivors had done its part */
    uint32_t step_count;
};

#endif
