/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world.h"

#include <stdio.h>
#include <stdlib.h>

/*
 * Those who come, where views change: what the program around a node does. It asks some
 * living member for an invitation, and the next if none comes; with it, it becomes a node.
 */
#define PATIENCE_NS (600 * COP_MSEC) /* with one member */
#define PAUSE_NS (50 * COP_MSEC)     /* between two */
#define TRIES_MAX 400u

static void try_later(struct cop_sim *sim, uint32_t index, cop_time delay)
{
    struct cop__sim_event *event = cop__sim_event(sim, COP__SIM_JOINING, 0, 0);
    if (!event)
        return;
    event->word = index;
    event->view = sim->newcomers[index]->tries;
    cop__sim_push(sim, event, sim->now + delay);
}

static struct cop__newcomer *add_newcomer(struct cop_sim *sim)
{
    if (sim->newcomer_count == sim->newcomer_capacity) {
        uint32_t capacity = sim->newcomer_capacity ? 2 * sim->newcomer_capacity : 4;
        struct cop__newcomer **larger =
            realloc(sim->newcomers, capacity * sizeof(struct cop__newcomer *));
        if (!larger)
            return NULL;
        sim->newcomers = larger;
        sim->newcomer_capacity = capacity;
    }
    struct cop__newcomer *newcomer = calloc(1, sizeof(*newcomer));
    if (newcomer)
        sim->newcomers[sim->newcomer_count++] = newcomer;
    return newcomer;
}

/* Whether somebody is on the way to that place already. */
static bool is_on_its_way(const struct cop_sim *sim, cop_id id)
{
    for (uint32_t i = 0; id != COP_ID_NONE && i < sim->newcomer_count; i++) {
        if (sim->newcomers[i]->id == id && !sim->newcomers[i]->done)
            return true;
    }
    return false;
}

void cop__joining_begin(struct cop_sim *sim, cop_id id, uint32_t called, bool spare,
                        cop_time delay)
{
    if (is_on_its_way(sim, id))
        return;
    struct cop__newcomer *newcomer = add_newcomer(sim);
    if (!newcomer) {
        cop_sim_fail(sim, "sim", "out of memory");
        return;
    }
    newcomer->id = id;
    newcomer->spare = spare;
    newcomer->called = called;
    if (id == COP_ID_NONE && !called)
        newcomer->called = sim->newcomer_count;
    if (newcomer->called)
        snprintf(newcomer->name, sizeof(newcomer->name), "x%u",
                 (unsigned)newcomer->called - 1);
    else
        snprintf(newcomer->name, sizeof(newcomer->name), "n%u", (unsigned)id);
    try_later(sim, sim->newcomer_count - 1, delay);
}

/* A living member, by the seed another one each time; NONE if there is none. */
static cop_id find_contact(const struct cop_sim *sim, uint32_t index, uint32_t tries)
{
    uint32_t n = sim->config.nodes;
    cop_id first = (cop_id)cop_sim_draw(sim, COP__PLACE_CONTACT, index, tries, n);
    for (uint32_t i = 0; i < n; i++) {
        cop_id id = (first + i) % n;
        if (sim->nodes[id].actor && cop_node_is_member(sim->nodes[id].actor))
            return id;
    }
    return COP_ID_NONE;
}

void cop__joining_try(struct cop_sim *sim, uint32_t index, uint64_t tries)
{
    struct cop__newcomer *newcomer = sim->newcomers[index];
    if (newcomer->done || newcomer->tries != tries)
        return;
    cop_id contact = find_contact(sim, index, newcomer->tries);
    if (contact == COP_ID_NONE || ++newcomer->tries > TRIES_MAX) {
        newcomer->done = true;
        return;
    }
    struct cop_sim_action action = {
        .kind = COP_SIM_JOIN,
        .a = contact,
        .b = COP_ID_NONE,
        .request = {.kind = COP_REQUEST_INVITE,
                    .token = COP__INVITE_TOKEN + index,
                    .name = newcomer->name,
                    .incarnation = newcomer->id == COP_ID_NONE
                                       ? COP__FIRST_INCARNATION
                                       : cop__sim_incarnation(sim, newcomer->id) + 1},
    };
    if (cop__sim_keep_action(sim, &action) != 0) {
        cop_sim_fail(sim, "sim", "out of memory");
        return;
    }
    cop__faults_submit(sim, sim->action_count - 1);
    try_later(sim, index, PATIENCE_NS);
}

static bool is_place_free(const struct cop_sim *sim,
                          const struct cop__newcomer *newcomer, cop_id id)
{
    return id < sim->config.nodes && !sim->nodes[id].actor &&
           (newcomer->id == COP_ID_NONE || newcomer->id == id) &&
           (newcomer->id == id || !is_on_its_way(sim, id));
}

/* Its life: larger than all that this place, or anybody of its name, had. */
static void arrive(struct cop_sim *sim, struct cop__newcomer *newcomer,
                   const struct cop_invitation *invitation)
{
    struct cop__sim_node *node = &sim->nodes[invitation->id];
    bool was_used = node->died != COP_TIME_NEVER || invitation->exceed != 0;
    cop_incarnation life = node->life + (was_used ? 1u : 0u);
    if (COP__FIRST_INCARNATION + life <= invitation->exceed)
        life = invitation->exceed - COP__FIRST_INCARNATION + 1;
    node->life = (uint16_t)life;
    node->busy = sim->now;
    newcomer->done = true;
    if (cop__sim_bear_joiner(sim, invitation->id, invitation->view, newcomer) != 0)
        cop_sim_fail(sim, "sim", "a newcomer with an invitation is no node");
    else
        cop__trace_line(sim, "%u + joins as %s", (unsigned)invitation->id,
                        newcomer->name);
}

void cop__joining_complete(struct cop_sim *sim, const struct cop_effect *effect)
{
    uint32_t index = (uint32_t)(effect->token - COP__INVITE_TOKEN);
    struct cop__newcomer *newcomer = sim->newcomers[index];
    struct cop_invitation invitation;
    if (newcomer->done)
        return;
    newcomer->tries++;
    if (!effect->result || (effect->status != 0 && effect->status != COP_EREFUSED)) {
        try_later(sim, index, PAUSE_NS);
        return;
    }
    if (cop_invitation(effect->result, sim->view, &invitation) != 0) {
        cop_sim_fail(sim, "sim", "an invitation that cannot be read");
        return;
    }
    if (is_place_free(sim, newcomer, invitation.id))
        arrive(sim, newcomer, &invitation);
    else
        try_later(sim, index, 2 * PAUSE_NS);
    cop_view_unref(invitation.view);
}

void cop__joining_fini(struct cop_sim *sim)
{
    for (uint32_t i = 0; i < sim->newcomer_count; i++)
        free(sim->newcomers[i]);
    free(sim->newcomers);
}
