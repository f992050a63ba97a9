/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/sim.h>

/* The real node behind the simulator's table. */

static int create(void *context, const struct cop_config *config, void **out)
{
    (void)context;
    struct cop_node *node;
    int error = cop_node_create(config, &node);
    if (error == 0)
        *out = node;
    return error;
}

static void destroy(void *node) { cop_node_destroy(node); }

static int step(void *node, const struct cop_event *event, struct cop_effects *effects)
{
    return cop_step(node, event, effects);
}

static cop_time deadline(const void *node) { return cop_deadline(node); }

static uint32_t open_sweeps(const void *node) { return cop_node_sweeps(node); }

static const char *check(const void *node) { return cop_node_check(node); }

static uint64_t digest(const void *node) { return cop_node_digest(node); }

static size_t bytes(const void *node) { return cop_node_bytes(node); }

const struct cop_sim_actor *cop_sim_actor_node(void)
{
    static const struct cop_sim_actor actor = {
        .size = sizeof(struct cop_sim_actor),
        .create = create,
        .destroy = destroy,
        .step = step,
        .deadline = deadline,
        .open = open_sweeps,
        .check = check,
        .digest = digest,
        .bytes = bytes,
    };
    return &actor;
}
