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
    group.left = members(
        random, script->config.start ? script->config.start : script->config.nodes,
        bcast->a);
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

/* ---- where views change ---------------------------------------------------------- */

bool cop__swarm_calls_change_views(uint64_t seed)
{
    return cop__mix64(seed ^ UINT64_C(0xc011f1e5)) % 5 < 2;
}

static int add_service(struct cop_sim_script *script, enum cop_sim_action_kind kind,
                       cop_time at, cop_id node, uint32_t version)
{
    struct cop_sim_action action = cop__draw_action(kind, at, node, COP_ID_NONE);
    action.coll.version = version;
    action.request.kind =
        kind == COP_SIM_SERVICE ? COP_REQUEST_SERVICE : COP_REQUEST_UNSERVICE;
    return cop_sim_script_add(script, &action);
}

/* Most have the newest version; who is born later has the oldest. */
static uint32_t draw_versions(struct cop__random *random, struct cop_sim_script *script,
                              int *error)
{
    uint32_t members =
        script->config.start ? script->config.start : script->config.nodes;
    uint32_t versions = 1;
    if (cop__random_chance(random, 50, 100))
        versions += 1 + (uint32_t)cop__random_below(random, 2);
    for (cop_id id = 0; id < members && versions > 1 && !*error; id++) {
        uint32_t version = versions;
        if (cop__random_chance(random, 15, 100))
            version = 1 + (uint32_t)cop__random_below(random, versions);
        *error = add_service(script, COP_SIM_SERVICE, 0, id, version);
    }
    return versions;
}

/* Services that go, or come anew, while calls are under way; some twice. */
static int draw_services(struct cop__random *random, struct cop_sim_script *script,
                         uint32_t versions, cop_time near)
{
    uint64_t count = cop__random_below(random, 5);
    int error = 0;
    for (uint64_t i = 0; i < count && !error; i++) {
        cop_id node = (cop_id)cop__random_below(random, script->config.nodes);
        cop_time at = near + cop__random_below(random, COP_MSEC);
        cop_time later = at + cop__random_below(random, 2 * COP_MSEC);
        uint32_t version = 1 + (uint32_t)cop__random_below(random, versions);
        bool goes = cop__random_chance(random, 80, 100);
        bool comes = cop__random_chance(random, 75, 100);
        if (goes)
            error = add_service(script, COP_SIM_UNSERVICE, at, node, 0);
        if (!error && (comes || !goes))
            error = add_service(script, COP_SIM_SERVICE, later, node, version);
    }
    return error;
}

/* Who calls may be no member (yet), and calls go on while the view does. */
static void move(struct cop__random *random, const struct cop_sim_script *script,
                 struct cop_sim_action *bcast)
{
    cop_id anybody = (cop_id)cop__random_below(random, script->config.nodes);
    cop_time later = cop__random_below(random, 20 * COP_MSEC);
    cop_time much_later = cop__random_below(random, 3 * COP_SEC);
    if (cop__random_chance(random, 15, 100))
        bcast->a = anybody;
    if (cop__random_chance(random, 40, 100))
        bcast->at += cop__random_chance(random, 70, 100) ? later : much_later;
}

/* The group of a broadcast is one that everybody knows by other means. */
static void name_group(struct cop_sim_script *script, uint64_t number)
{
    for (uint32_t i = 0; i < script->count; i++)
        if (script->actions[i].kind == COP_SIM_GROUP &&
            script->actions[i].coll.group == number)
            script->actions[i].coll.kind = COP_GROUP_OOB;
}

static void vary(struct cop__random *random, struct cop_sim_script *script,
                 uint32_t index, uint32_t versions)
{
    struct cop_sim_action *bcast = &script->actions[index];
    bool heal = (bcast->coll.flags & COP_BCAST_HEAL) != 0;
    bool strict = cop__random_chance(random, 35, 100);
    bool alive = cop__random_chance(random, 30, 100);
    bool oob = cop__random_chance(random, 35, 100);
    bool wrong = cop__random_chance(random, 35, 100);
    bcast->coll.version = 1 + (uint32_t)cop__random_below(random, versions);
    if (strict)
        bcast->coll.flags |= COP_BCAST_STRICT;
    if (bcast->coll.group == COP_GROUP_ALL && !heal && alive)
        bcast->coll.flags |= COP_BCAST_ALIVE;
    if (bcast->coll.group == COP_GROUP_ALL || !oob)
        return;
    bcast->coll.flags &= ~(uint32_t)COP_BCAST_LAST; /* it has no creator */
    name_group(script, bcast->coll.group);
    if (wrong)
        bcast->mischief |= COP_SIM_RESOLVES_WRONG;
}

static int vary_all(struct cop_sim_script *script, uint32_t count)
{
    struct cop__random random;
    int error = 0;
    cop__random_init(&random, cop__mix64(script->config.seed ^ UINT64_C(0xa11ed)));
    uint32_t versions = draw_versions(&random, script, &error);
    for (uint32_t i = 0; i < count && !error; i++) {
        if (script->actions[i].kind != COP_SIM_BCAST)
            continue;
        vary(&random, script, i, versions);
        error = draw_services(&random, script, versions, script->actions[i].at);
    }
    return error;
}

/* ---- all of them ----------------------------------------------------------------- */

int cop__swarm_collectives(struct cop_sim_script *script)
{
    struct cop__random random, bulks, moves;
    uint32_t count = script->count;
    bool views = script->config.quorum != COP_QUORUM_FIXED;
    int error = 0;
    cop__random_init(&random, cop__mix64(script->config.seed ^ UINT64_C(0xc011)));
    cop__random_init(&bulks, cop__mix64(script->config.seed ^ UINT64_C(0xb01c)));
    cop__random_init(&moves, cop__mix64(script->config.seed ^ UINT64_C(0x30fe5)));
    for (uint32_t i = 0; i < count && !error; i++) {
        if (script->actions[i].kind != COP_SIM_PROBE)
            continue;
        if (views)
            move(&moves, script, &script->actions[i]);
        error = convert(&random, script, i);
        add_bulk(&bulks, &script->actions[i]);
    }
    return error || !views ? error : vary_all(script, count);
}
