/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world.h"

#include <stdlib.h>

/* Taking actions in, and looking in from outside. */

static int add_action(struct cop_sim_action **list, uint32_t *count, uint32_t *capacity,
                      const struct cop_sim_action *action)
{
    if (*count == *capacity) {
        uint32_t larger = *capacity ? 2 * *capacity : 8;
        struct cop_sim_action *grown = realloc(*list, larger * sizeof(*grown));
        if (!grown)
            return COP_ENOMEM;
        *list = grown;
        *capacity = larger;
    }
    (*list)[(*count)++] = *action;
    return 0;
}

int cop_sim_script_add(struct cop_sim_script *script,
                       const struct cop_sim_action *action)
{
    return add_action(&script->actions, &script->count, &script->capacity, action);
}

int cop__sim_keep_action(struct cop_sim *sim, const struct cop_sim_action *action)
{
    return add_action(&sim->actions, &sim->action_count, &sim->action_capacity, action);
}

static bool takes_two(enum cop_sim_action_kind kind)
{
    return kind == COP_SIM_SLOW_LINK || kind == COP_SIM_BREAK || kind == COP_SIM_LIE ||
           kind == COP_SIM_REPORT || kind == COP_SIM_SEND || kind == COP_SIM_INQUIRE ||
           kind == COP_SIM_DRAIN;
}

static bool set_fits(const struct cop_sim_set *set, uint32_t nodes)
{
    if (set->count == 0 || set->count > COP_SIM_RANGES)
        return false;
    for (uint32_t i = 0; i < set->count; i++) {
        if (set->ranges[i].first > set->ranges[i].last || set->ranges[i].last >= nodes)
            return false;
    }
    return true;
}

/* Whether an action is about ranks that there are. */
static bool action_fits(const struct cop_sim *sim, const struct cop_sim_action *action)
{
    uint32_t nodes = sim->config.nodes;
    if (action->kind > COP_SIM_UNSERVICE ||
        (action->kind >= COP_SIM_JOIN && action->kind <= COP_SIM_GO_ON &&
         !cop__sim_has_views(sim)))
        return false;
    if (action->kind == COP_SIM_GROUP && !set_fits(&action->left, nodes))
        return false;
    if (action->when != COP_SIM_AT &&
        (action->kind != COP_SIM_CRASH || action->count == 0))
        return false;
    if (action->kind == COP_SIM_HEAL || action->kind == COP_SIM_JOIN)
        return true;
    if (action->kind == COP_SIM_PARTITION)
        return set_fits(&action->left, nodes) && set_fits(&action->right, nodes);
    if (takes_two(action->kind) &&
        (action->b >= nodes ||
         (action->a == action->b && action->kind != COP_SIM_DRAIN)))
        return false;
    if (action->kind == COP_SIM_CRASH && action->b != COP_ID_NONE &&
        (action->b < action->a || action->b >= nodes))
        return false;
    return action->a < nodes;
}

int cop_sim_do(struct cop_sim *sim, const struct cop_sim_action *action)
{
    if (!action_fits(sim, action))
        return COP_EINVAL;
    int error =
        add_action(&sim->actions, &sim->action_count, &sim->action_capacity, action);
    if (error)
        return error;
    cop__faults_apply(sim, sim->action_count - 1);
    return 0;
}

static int add_rule(struct cop_sim *sim, const struct cop_sim_action *action)
{
    int error = add_action(&sim->rules, &sim->rule_count, &sim->rule_capacity, action);
    if (error == 0)
        sim->nodes[action->a].flags |= COP__NODE_RULES;
    return error;
}

int cop_sim_at(struct cop_sim *sim, const struct cop_sim_action *action)
{
    if (!action_fits(sim, action))
        return COP_EINVAL;
    if (action->when != COP_SIM_AT)
        return add_rule(sim, action);
    if (action->at < sim->now)
        return COP_EINVAL;
    int error =
        add_action(&sim->actions, &sim->action_count, &sim->action_capacity, action);
    if (error)
        return error;
    struct cop__sim_event *event = cop__sim_event(sim, COP__SIM_ACTION, 0, 0);
    if (!event)
        return COP_ENOMEM;
    event->word = sim->action_count - 1;
    cop__sim_push(sim, event, action->at);
    return 0;
}

/* ---- looking in ------------------------------------------------------------------ */

const char *cop_sim_failure(const struct cop_sim *sim)
{
    return sim->failure[0] ? sim->failure : NULL;
}

cop_time cop_sim_now(const struct cop_sim *sim) { return sim->now; }

uint32_t cop_sim_nodes(const struct cop_sim *sim) { return sim->config.nodes; }

bool cop_sim_is_alive(const struct cop_sim *sim, cop_id id)
{
    return id < sim->config.nodes && sim->nodes[id].actor;
}

cop_time cop_sim_born_at(const struct cop_sim *sim, cop_id id)
{
    return sim->nodes[id].born;
}

cop_time cop_sim_died_at(const struct cop_sim *sim, cop_id id)
{
    return sim->nodes[id].died;
}

const void *cop_sim_node(const struct cop_sim *sim, cop_id id)
{
    return sim->nodes[id].actor;
}

const struct cop_sim_actor *cop_sim_actor(const struct cop_sim *sim)
{
    return sim->actor;
}

bool cop_sim_was_disturbed(const struct cop_sim *sim) { return sim->disturbed; }

bool cop_sim_was_lied_to(const struct cop_sim *sim)
{
    return sim->lied || sim->misreported;
}

uint64_t cop_sim_sends(const struct cop_sim *sim, cop_id id)
{
    return sim->nodes[id].sends;
}

uint64_t cop_sim_receives(const struct cop_sim *sim, cop_id id)
{
    return sim->nodes[id].receives;
}

uint64_t cop_sim_events(const struct cop_sim *sim) { return sim->events; }

uint64_t cop_sim_digest(const struct cop_sim *sim)
{
    return cop__digest_value(&sim->digest);
}

const struct cop_stats *cop_sim_stats(const struct cop_sim *sim) { return &sim->stats; }

uint64_t cop_sim_node_bytes(const struct cop_sim *sim)
{
    uint64_t sum = 0;
    for (cop_id id = 0; sim->actor->bytes && id < sim->config.nodes; id++) {
        if (sim->nodes[id].actor)
            sum += sim->actor->bytes(sim->nodes[id].actor);
    }
    return sum;
}

void cop_sim_settle(struct cop_sim *sim) { sim->settled = true; }

bool cop_sim_is_settled(const struct cop_sim *sim) { return sim->settled; }
