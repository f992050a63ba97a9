/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/swarm.h"

#include "base/random.h"
#include "sim/world.h"

#include <string.h>

/*
 * Broadcasts instead of probes. What the swarm draws for probes (who, when, how long, aborted
 * or not) stays; whom a broadcast is about, whether it heals, and what services do wrong are
 * drawn here, from a source of its own, so that the faults of a seed stay as they are.
 */

static struct cop_sim_set members(struct cop__random *random, uint32_t n, cop_id with)
{
    struct cop_sim_set set = {.count = 1};
    cop_id first = (cop_id)cop__random_below(random, n);
    cop_id last = first + (cop_id)cop__random_below(random, n - first);
    first = first < with ? first : with;
    last = last > with ? last : with;
    set.ranges[0] = (struct cop_sim_range){first, last};
    return set;
}

/* A group of its own for one broadcast, made shortly before it. */
static int add_group(struct cop__random *random, struct cop_sim_script *script,
                     struct cop_sim_action *bcast)
{
    struct cop_sim_action group;
    memset(&group, 0, sizeof(group));
    group.kind = COP_SIM_GROUP;
    group.a = bcast->a;
    group.b = COP_ID_NONE;
    group.at = bcast->at;
    group.request.kind = COP_REQUEST_GROUP;
    group.request.token = bcast->request.token + 2000;
    group.coll.group = bcast->request.token;
    group.coll.kind =
        cop__random_chance(random, 60, 100) ? COP_GROUP_LAZY : COP_GROUP_NOW;
    group.left = members(random, script->config.nodes, bcast->a);
    if (cop__random_chance(random, 50, 100)) {
        group.coll.shape.kind = COP_SHAPE_KARY;
        group.coll.shape.k = 2 + (uint32_t)cop__random_below(random, 2);
    }
    bcast->coll.group = group.coll.group;
    /* It has to be there, or the broadcast is refused. */
    bcast->at += group.coll.kind == COP_GROUP_NOW ? 2 * COP_MSEC : 1;
    if (cop__random_chance(random, 25, 100))
        bcast->coll.flags |= COP_BCAST_LAST;
    if (cop__random_chance(random, 25, 100))
        bcast->coll.flags |= COP_BCAST_ALIVE;
    int error = cop_sim_script_add(script, &group);
    if (error || !cop__random_chance(random, 30, 100) ||
        (bcast->coll.flags & COP_BCAST_LAST))
        return error;
    group.coll.shape = (struct cop_shape){0};
    group.left.count = 0;
    group.kind = COP_SIM_GROUP_END;
    group.request.kind = COP_REQUEST_GROUP_END;
    group.request.token += 1000;
    group.at = bcast->at + cop__random_below(random, 20 * COP_MSEC);
    return cop_sim_script_add(script, &group);
}

static int convert(struct cop__random *random, struct cop_sim_script *script,
                   uint32_t index)
{
    struct cop_sim_action bcast = script->actions[index];
    struct cop_shape shape = bcast.request.shape;
    int error = 0;
    bcast.kind = COP_SIM_BCAST;
    bcast.request.kind = COP_REQUEST_BCAST;
    bcast.request.outcome = false;
    bcast.request.shape = (struct cop_shape){0};
    bcast.coll.flags = cop__random_chance(random, 75, 100) ? COP_BCAST_HEAL : 0;
    if (bcast.coll.flags & COP_BCAST_HEAL)
        bcast.request.shape = shape;
    else
        bcast.coll.service_ns = cop__random_below(random, 2 * COP_SEC);
    if (cop__random_chance(random, 35, 100))
        bcast.mischief =
            (uint32_t)cop__random_below(random, COP_SIM_MISCHIEF_PLAIN + 1);
    if (cop__random_chance(random, 50, 100)) {
        bcast.request.shape = (struct cop_shape){0};
        error = add_group(random, script, &bcast);
    }
    script->actions[index] = bcast;
    return error;
}

/* Some carry bulk. From a source of its own, for the same reason. */
static void add_bulk(struct cop__random *random, struct cop_sim_action *bcast)
{
    bool bulk = cop__random_chance(random, 40, 100);
    uint64_t chunk = 1 + cop__random_below(random, COP__SIM_CHUNK_MAX);
    uint64_t length = cop__random_below(random, chunk * (4 * COP_BULK_WINDOW));
    bool wrong = cop__random_chance(random, 25, 100);
    uint32_t mischief = (uint32_t)cop__random_below(random, 8);
    if (!bulk)
        return;
    bcast->coll.flags |= COP_BCAST_BULK;
    bcast->coll.bulk_length = length;
    bcast->coll.bulk_chunk = (uint32_t)chunk;
    if (wrong)
        bcast->mischief |= mischief * COP_SIM_SINK_FAILS;
}

int cop__swarm_collectives(struct cop_sim_script *script)
{
    struct cop__random random, bulks;
    uint32_t count = script->count;
    int error = 0;
    cop__random_init(&random, cop__mix64(script->config.seed ^ UINT64_C(0xc011)));
    cop__random_init(&bulks, cop__mix64(script->config.seed ^ UINT64_C(0xb01c)));
    for (uint32_t i = 0; i < count && !error; i++) {
        if (script->actions[i].kind != COP_SIM_PROBE)
            continue;
        error = convert(&random, script, i);
        add_bulk(&bulks, &script->actions[i]);
    }
    return error;
}
