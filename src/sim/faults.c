/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world.h"

#include <stdlib.h>

/* What each action does to the world. */

/* ---- partitions ------------------------------------------------------------------ */

static bool has(const struct cop_sim_set *set, cop_id id)
{
    for (uint32_t i = 0; i < set->count; i++) {
        if (id >= set->ranges[i].first && id <= set->ranges[i].last)
            return true;
    }
    return false;
}

static bool blocks(const struct cop__partition *partition, cop_id src, cop_id dst)
{
    if (has(&partition->left, src) && has(&partition->right, dst))
        return true;
    return !partition->one_way && has(&partition->right, src) &&
           has(&partition->left, dst);
}

bool cop__faults_blocked(const struct cop_sim *sim, cop_id src, cop_id dst)
{
    for (uint32_t i = 0; i < sim->partition_count; i++) {
        if (blocks(&sim->partitions[i], src, dst))
            return true;
    }
    return false;
}

bool cop__faults_parted(const struct cop_sim *sim, cop_id a, cop_id b)
{
    return sim->partition_count > 0 &&
           (cop__faults_blocked(sim, a, b) || cop__faults_blocked(sim, b, a));
}

const struct cop__partition *cop__faults_partition(const struct cop_sim *sim,
                                                   uint64_t number)
{
    for (uint32_t i = 0; i < sim->partition_count; i++) {
        if (sim->partitions[i].number == number)
            return &sim->partitions[i];
    }
    return NULL;
}

static void partition(struct cop_sim *sim, const struct cop_sim_action *action)
{
    if (sim->partition_count == sim->partition_capacity) {
        uint32_t capacity = sim->partition_capacity ? 2 * sim->partition_capacity : 4;
        struct cop__partition *larger =
            realloc(sim->partitions, capacity * sizeof(*larger));
        if (!larger) {
            cop_sim_fail(sim, "sim", "out of memory");
            return;
        }
        sim->partitions = larger;
        sim->partition_capacity = capacity;
    }
    uint64_t number = ++sim->partitions_made;
    sim->partitions[sim->partition_count++] =
        (struct cop__partition){action->left, action->right, action->one_way, number};
    struct cop__sim_event *event = cop__sim_event(sim, COP__SIM_CUTOFF, 0, 0);
    if (!event)
        return;
    event->word = number;
    cop__sim_push(sim, event, sim->now + COP_SIM_SILENT_NS);
}

static void cut_off_node(struct cop_sim *sim, const struct cop__partition *wall,
                         cop_id id)
{
    uint32_t count;
    cop_id *ids = cop__peers_sorted(&sim->nodes[id].peers, &count);
    for (uint32_t i = 0; i < count; i++) {
        /* Each pair once, from its lower end. */
        if (ids[i] > id && (blocks(wall, id, ids[i]) || blocks(wall, ids[i], id)))
            cop__links_break(sim, id, ids[i], COP_DOWN_SILENT);
    }
    free(ids);
}

void cop__faults_cutoff(struct cop_sim *sim, uint64_t number)
{
    const struct cop__partition *wall = cop__faults_partition(sim, number);
    for (cop_id id = 0; wall && id < sim->config.nodes; id++)
        cut_off_node(sim, wall, id);
}

/* ---- crashes --------------------------------------------------------------------- */

static void empty_inbox(struct cop_sim *sim, struct cop__sim_node *node)
{
    while (node->inbox) {
        struct cop__sim_event *event = node->inbox;
        node->inbox = event->next;
        cop__sim_drop(sim, event);
    }
    node->inbox_last = NULL;
}

void cop__faults_crash(struct cop_sim *sim, cop_id id)
{
    struct cop__sim_node *node = &sim->nodes[id];
    if (!node->actor)
        return;
    sim->actor->destroy(node->actor);
    node->actor = NULL;
    node->died = sim->now;
    sim->deaths++;
    sim->died = sim->now;
    sim->healed = 0;
    node->armed = COP_TIME_NEVER;
    node->flags &= (uint8_t) ~(COP__NODE_PAUSED | COP__NODE_TICKING);
    node->slow_ns = 0;
    node->clock_ns = 0;
    empty_inbox(sim, node);
    cop__trace_line(sim, "%u x crash", (unsigned)id);
    cop__links_crash(sim, id);
}

static void crash(struct cop_sim *sim, const struct cop_sim_action *action)
{
    cop_id last = action->b == COP_ID_NONE ? action->a : action->b;
    for (cop_id id = action->a; id <= last; id++)
        cop__faults_crash(sim, id);
}

static void restart(struct cop_sim *sim, cop_id id)
{
    if (sim->nodes[id].actor)
        return;
    if (cop__sim_has_views(sim)) {
        cop__joining_begin(sim, id, sim->nodes[id].called, false, 0);
        return;
    }
    sim->nodes[id].life++;
    sim->nodes[id].busy = sim->now;
    if (cop__sim_bear(sim, id) != 0)
        cop_sim_fail(sim, "sim", "out of memory");
    else
        cop__trace_line(sim, "%u + restart", (unsigned)id);
}

bool cop__faults_due(const struct cop_sim *sim, cop_id id, enum cop_sim_when when,
                     uint64_t count)
{
    for (uint32_t i = 0; i < sim->rule_count && !sim->calm; i++) {
        const struct cop_sim_action *rule = &sim->rules[i];
        if (rule->a == id && rule->when == when && rule->count == count)
            return true;
    }
    return false;
}

/* ---- the rest -------------------------------------------------------------------- */

static void pause_node(struct cop_sim *sim, cop_id id)
{
    if (sim->nodes[id].actor)
        sim->nodes[id].flags |= COP__NODE_PAUSED;
}

static void resume_node(struct cop_sim *sim, cop_id id)
{
    if (!(sim->nodes[id].flags & COP__NODE_PAUSED))
        return;
    sim->nodes[id].flags &= (uint8_t)~COP__NODE_PAUSED;
    cop__sim_wake(sim, id, sim->now);
}

static void slow_link(struct cop_sim *sim, const struct cop_sim_action *action)
{
    struct cop__side *side = cop__links_side(sim, action->a, action->b, true);
    if (side)
        side->slow_ns = action->amount_ns;
}

void cop__faults_submit(struct cop_sim *sim, uint32_t index)
{
    cop_id id = sim->actions[index].a;
    struct cop__sim_event *event = cop__sim_event(sim, COP__SIM_SUBMIT, id, id);
    if (!event)
        return;
    event->word = index;
    cop__sim_push(sim, event, sim->now);
}

/* Heals without a word in the trace, for cop_sim_heal. */
static void heal(struct cop_sim *sim)
{
    sim->partition_count = 0;
    cop__links_retry(sim);
}

static void tell_checkers(struct cop_sim *sim, const struct cop_sim_action *action)
{
    for (uint32_t i = 0; i < sim->checker_count; i++) {
        if (sim->checkers[i]->on_action)
            sim->checkers[i]->on_action(sim->states[i], sim, action);
    }
}

/* What can make somebody who lives look slow or silent. */
static void disturb(struct cop_sim *sim, const struct cop_sim_action *action)
{
    sim->disturbed = true;
    switch (action->kind) {
    case COP_SIM_PAUSE:
        pause_node(sim, action->a);
        return;
    case COP_SIM_RESUME:
        resume_node(sim, action->a);
        return;
    case COP_SIM_SLOW:
        sim->nodes[action->a].slow_ns = action->amount_ns;
        return;
    case COP_SIM_SLOW_LINK:
        slow_link(sim, action);
        return;
    case COP_SIM_PARTITION:
        partition(sim, action);
        return;
    case COP_SIM_HEAL:
        heal(sim);
        return;
    case COP_SIM_JUMP:
        sim->nodes[action->a].clock_ns += action->amount_ns;
        cop__sim_arm(sim, action->a);
        return;
    default:
        return;
    }
}

void cop__faults_apply(struct cop_sim *sim, uint32_t index)
{
    /* A copy: a checker may add actions, and so move the list. */
    const struct cop_sim_action copy = sim->actions[index];
    const struct cop_sim_action *action = &copy;
    cop__trace_action(sim, action);
    tell_checkers(sim, action);
    sim->depart = sim->now;
    switch (action->kind) {
    case COP_SIM_PROBE:
    case COP_SIM_ABORT:
    case COP_SIM_LEAVE:
    case COP_SIM_INQUIRE:
    case COP_SIM_GROUP:
    case COP_SIM_GROUP_END:
    case COP_SIM_BCAST:
    case COP_SIM_SERVICE:
    case COP_SIM_UNSERVICE:
        cop__faults_submit(sim, index);
        return;
    case COP_SIM_SEND:
        /* What is sent is the token: a checker knows by it what was delivered. */
        sim->actions[index].request.bytes = &sim->actions[index].request.token;
        sim->actions[index].request.length = sizeof(uint64_t);
        cop__faults_submit(sim, index);
        return;
    case COP_SIM_DRAIN:
        /* Tokens are the caller's own, and each is used once. */
        sim->actions[index].request.token = COP__DRAIN_TOKEN + index;
        cop__faults_submit(sim, index);
        return;
    case COP_SIM_GO_ON:
        sim->actions[index].request.token = COP__GO_ON_TOKEN + index;
        cop__faults_submit(sim, index);
        return;
    case COP_SIM_REPORT:
        if (sim->nodes[action->b].actor)
            sim->misreported = true;
        cop__faults_submit(sim, index);
        return;
    case COP_SIM_JOIN:
        cop__joining_begin(sim, COP_ID_NONE, 0, action->spare, 0);
        return;
    case COP_SIM_CRASH:
        crash(sim, action);
        return;
    case COP_SIM_RESTART:
        restart(sim, action->a);
        return;
    case COP_SIM_BREAK:
        cop__links_break(sim, action->a, action->b, COP_DOWN_CLOSED);
        return;
    case COP_SIM_LIE:
        sim->lied = true;
        if (sim->nodes[action->a].actor)
            cop__links_tell_down(sim, action->b, action->a, COP_DOWN_REFUSED, 0);
        return;
    default:
        disturb(sim, action);
        return;
    }
}

bool cop__faults_over(const struct cop_sim *sim)
{
    for (cop_id id = 0; id < sim->config.nodes; id++) {
        if (sim->nodes[id].flags & COP__NODE_PAUSED)
            return false;
    }
    return sim->partition_count == 0;
}

void cop_sim_heal(struct cop_sim *sim)
{
    sim->calm = true;
    sim->calm_at = sim->now;
    sim->depart = sim->now;
    uint32_t at = 0;
    for (struct cop__map_slot *slot; (slot = cop__map_next(&sim->sides, &at)) != NULL;)
        ((struct cop__side *)slot->value)->slow_ns = 0;
    for (cop_id id = 0; id < sim->config.nodes; id++) {
        sim->nodes[id].slow_ns = 0;
        resume_node(sim, id);
    }
    heal(sim);
}
