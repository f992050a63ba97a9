/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world.h"

#include <stdlib.h>

/* Those who look on: taken in, told of everything, and let go. */

void cop__sim_take_checkers(struct cop_sim *sim)
{
    const struct cop_sim_checker *const *from = sim->config.checkers;
    sim->config.checkers = NULL; /* the list is the caller's */
    if (!(sim->config.flags & COP_SIM_CHECK) || !from)
        return;
    for (; *from && sim->checker_count < COP__SIM_CHECKERS; from++) {
        if ((*from)->is_concerned && !(*from)->is_concerned(sim))
            continue;
        void *state = (*from)->init ? (*from)->init(sim) : NULL;
        if ((*from)->init && !state) {
            cop_sim_fail(sim, (*from)->name, "out of memory");
            return;
        }
        sim->checkers[sim->checker_count] = *from;
        sim->states[sim->checker_count++] = state;
    }
}

void cop__sim_end_checkers(struct cop_sim *sim)
{
    for (uint32_t i = 0; i < sim->checker_count; i++) {
        if (sim->checkers[i]->fini)
            sim->checkers[i]->fini(sim->states[i]);
    }
    sim->checker_count = 0;
}

void *cop__sim_grow(struct cop_sim *sim, void **items, uint32_t *count,
                    uint32_t *capacity, size_t size)
{
    if (*count == *capacity) {
        uint32_t more = *capacity ? 2 * *capacity : 16;
        void *larger = realloc(*items, more * size);
        if (!larger) {
            cop_sim_fail(sim, "sim", "out of memory");
            return NULL;
        }
        *items = larger;
        *capacity = more;
    }
    return (char *)*items + (size_t)(*count)++ * size;
}

/* One without a memory says the second time what it said the first. */
void cop__sim_after_step(struct cop_sim *sim, cop_id id)
{
    for (uint32_t i = 0; i < sim->checker_count; i++) {
        if (sim->again && !sim->states[i])
            continue;
        if (sim->checkers[i]->after_step)
            sim->checkers[i]->after_step(sim->states[i], sim, id);
    }
}

void cop__sim_after_submit(struct cop_sim *sim, cop_id id,
                           const struct cop_request *request, int status)
{
    for (uint32_t i = 0; i < sim->checker_count; i++) {
        if (sim->checkers[i]->on_submit)
            sim->checkers[i]->on_submit(sim->states[i], sim, id, request, status);
    }
    if (status)
        cop__trace_line(sim, "%u = refused %llu: %s", (unsigned)id,
                        (unsigned long long)request->token, cop_strerror(status));
}

void cop__sim_after_deliver(struct cop_sim *sim, cop_id id,
                            const struct cop_effect *effect)
{
    for (uint32_t i = 0; i < sim->checker_count; i++) {
        if (sim->checkers[i]->on_deliver)
            sim->checkers[i]->on_deliver(sim->states[i], sim, id, effect->peer,
                                         effect->token, effect->result);
    }
}

void cop__sim_after_view(struct cop_sim *sim, cop_id id, struct cop_view *view)
{
    for (uint32_t i = 0; i < sim->checker_count; i++) {
        if (sim->checkers[i]->on_view)
            sim->checkers[i]->on_view(sim->states[i], sim, id, view);
    }
}

void cop__sim_after_stream(struct cop_sim *sim, cop_id id,
                           const struct cop_effect *effect)
{
    struct cop_stream_event event;
    if (cop_stream_event(effect->result, &event) != 0) {
        cop_sim_fail(sim, "sim", "an event of a stream that cannot be read");
        return;
    }
    for (uint32_t i = 0; i < sim->checker_count; i++) {
        if (sim->checkers[i]->on_stream)
            sim->checkers[i]->on_stream(sim->states[i], sim, id, effect->token, &event);
    }
}

void cop__sim_after_upcall(struct cop_sim *sim, cop_id id,
                           const struct cop_upcall *upcall)
{
    for (uint32_t i = 0; i < sim->checker_count; i++) {
        if (sim->checkers[i]->on_upcall)
            sim->checkers[i]->on_upcall(sim->states[i], sim, id, upcall);
    }
}

void cop__sim_after_complete(struct cop_sim *sim, cop_id id,
                             const struct cop_effect *effect)
{
    for (uint32_t i = 0; i < sim->checker_count; i++) {
        if (sim->checkers[i]->on_complete)
            sim->checkers[i]->on_complete(sim->states[i], sim, id, effect->token,
                                          effect->status, effect->result);
    }
}

void cop_sim_quiescence(struct cop_sim *sim)
{
    for (uint32_t i = 0; i < sim->checker_count && !sim->failure[0]; i++) {
        if (sim->checkers[i]->at_quiescence)
            sim->checkers[i]->at_quiescence(sim->states[i], sim);
    }
}
