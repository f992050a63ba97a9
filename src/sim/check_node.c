/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/sim.h>

/* What every state machine owes: its own invariants, and to forget what is over. */

/* With many children a check costs far more than a step: then not after every one. */
#define EVERY_STEP_NODES 16
#define SOME_STEPS 16

static void after_step(void *state, struct cop_sim *sim, cop_id id)
{
    (void)state;
    const struct cop_sim_actor *actor = cop_sim_actor(sim);
    if (cop_sim_nodes(sim) > EVERY_STEP_NODES && cop_sim_events(sim) % SOME_STEPS != 0)
        return;
    const char *broken = actor->check ? actor->check(cop_sim_node(sim, id)) : NULL;
    if (broken)
        cop_sim_fail(sim, "node", "invariant of node %u: %s", (unsigned)id, broken);
}

static void at_quiescence(void *state, struct cop_sim *sim)
{
    (void)state;
    const struct cop_sim_actor *actor = cop_sim_actor(sim);
    if (!cop_sim_is_quiet(sim))
        return;
    for (cop_id id = 0; actor->open && id < cop_sim_nodes(sim); id++) {
        const void *node = cop_sim_node(sim, id);
        uint32_t left = node ? actor->open(node) : 0;
        if (left)
            cop_sim_fail(sim, "node", "node %u still keeps %u sweeps when all is over",
                         (unsigned)id, (unsigned)left);
    }
}

const struct cop_sim_checker *cop_sim_checker_node(void)
{
    static const struct cop_sim_checker checker = {
        .name = "node",
        .after_step = after_step,
        .at_quiescence = at_quiescence,
    };
    return &checker;
}
