/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_SIM_SWARM_H
#define COP_SIM_SWARM_H

#include <coppice/sim.h>

/* Makes broadcasts out of the probes of a script, and groups for them, by its seed. */
int cop__swarm_collectives(struct cop_sim_script *script);

#endif
