/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world.h"

#include <stdlib.h>

/*
 * V18, told from outside: nobody goes from being drained to being removed, the root is drained
 * only where everybody is, a later life is not, and each request ends once.
 */
struct state {
    struct cop_view **views; /* the last that each node installed, or NULL */
    uint32_t nodes;
    uint64_t *open; /* by action: 0 not submitted, 1 under way, 2 ended */
    cop_id *where;
    cop_incarnation *life; /* of whoever was asked */
    uint32_t count, capacity;
};

static void fini(void *of)
{
    struct state *state = of;
    for (uint32_t i = 0; state->views && i < state->nodes; i++)
        cop_view_unref(state->views[i]);
    free(state->views);
    free(state->open);
    free(state->where);
    free(state->life);
    free(state);
}

static void *init(struct cop_sim *sim)
{
    struct state *state = calloc(1, sizeof(*state));
    if (!state)
        return NULL;
    state->nodes = sim->config.nodes;
    state->views = calloc(state->nodes, sizeof(struct cop_view *));
    if (!state->views) {
        free(state);
        return NULL;
    }
    for (cop_id id = 0; id < cop_view_slots(sim->view); id++)
        state->views[id] = cop_view_ref(sim->view);
    return state;
}

static void check_root(struct cop_sim *sim, const struct cop_view *view)
{
    struct cop_member root, member;
    if (cop_view_member(view, cop_view_root(view), &root) != 0 || !root.drained)
        return;
    for (cop_id id = cop_view_next(view, COP_ID_NONE); id != COP_ID_NONE;
         id = cop_view_next(view, id)) {
        if (cop_view_member(view, id, &member) == 0 && !member.drained)
            cop_sim_fail(sim, "V18", "the root %u of view %llu is drained, %u is not",
                         (unsigned)root.id, (unsigned long long)cop_view_epoch(view),
                         (unsigned)id);
    }
}

static void compare(struct cop_sim *sim, const struct cop_view *old,
                    const struct cop_view *new)
{
    for (cop_id id = cop_view_next(old, COP_ID_NONE); id != COP_ID_NONE;
         id = cop_view_next(old, id)) {
        struct cop_member was, is;
        if (cop_view_member(old, id, &was) != 0 || cop_view_member(new, id, &is) != 0)
            continue;
        if (was.drained && is.incarnation == was.incarnation &&
            is.presence == COP_REMOVED)
            cop_sim_fail(sim, "V18", "%u was drained, and view %llu removes it",
                         (unsigned)id, (unsigned long long)cop_view_epoch(new));
        if (is.drained && is.incarnation != was.incarnation)
            cop_sim_fail(sim, "V18", "%u is drained in a life that just came",
                         (unsigned)id);
    }
}

static void on_view(void *of, struct cop_sim *sim, cop_id id, struct cop_view *view)
{
    struct state *state = of;
    struct cop_view *old = state->views[id];
    check_root(sim, view);
    /* A new life of the node has none before; its way is that of others. */
    if (old && cop_view_has(old, id, cop__sim_incarnation(sim, id)))
        compare(sim, old, view);
    state->views[id] = cop_view_ref(view);
    cop_view_unref(old);
}

/* ---- requests -------------------------------------------------------------------- */

static bool make_room(struct state *state, uint32_t index)
{
    uint32_t capacity = index + 16;
    if (index < state->capacity)
        return true;
    uint64_t *open = realloc(state->open, capacity * sizeof(*open));
    if (open)
        state->open = open;
    cop_id *where = realloc(state->where, capacity * sizeof(*where));
    if (where)
        state->where = where;
    cop_incarnation *life = realloc(state->life, capacity * sizeof(*life));
    if (life)
        state->life = life;
    if (!open || !where || !life)
        return false;
    for (uint32_t i = state->capacity; i < capacity; i++)
        state->open[i] = 0;
    state->capacity = capacity;
    return true;
}

static void on_submit(void *of, struct cop_sim *sim, cop_id id,
                      const struct cop_request *request, int status)
{
    struct state *state = of;
    if (request->kind != COP_REQUEST_DRAIN || status != 0)
        return;
    uint32_t index = (uint32_t)(request->token - COP__DRAIN_TOKEN);
    if (!make_room(state, index)) {
        cop_sim_fail(sim, "sim", "out of memory");
        return;
    }
    state->open[index] = 1;
    state->where[index] = id;
    state->life[index] = cop__sim_incarnation(sim, id);
    if (index >= state->count)
        state->count = index + 1;
}

static void on_complete(void *of, struct cop_sim *sim, cop_id id, uint64_t token,
                        int status, const struct cop_buf *result)
{
    struct state *state = of;
    (void)status;
    (void)result;
    if (token < COP__DRAIN_TOKEN || token - COP__DRAIN_TOKEN >= state->count)
        return;
    uint32_t index = (uint32_t)(token - COP__DRAIN_TOKEN);
    if (state->open[index] != 1 || state->where[index] != id)
        cop_sim_fail(sim, "V18", "drain %u of node %u ends again", (unsigned)index,
                     (unsigned)id);
    state->open[index] = 2;
}

static void at_quiescence(void *of, struct cop_sim *sim)
{
    struct state *state = of;
    for (uint32_t i = 0; i < state->count && cop_sim_is_settled(sim); i++) {
        cop_id id = state->where[i];
        if (state->open[i] == 1 && cop_sim_is_alive(sim, id) &&
            cop__sim_incarnation(sim, id) == state->life[i])
            cop_sim_fail(sim, "V18", "drain %u of node %u never ends", (unsigned)i,
                         (unsigned)id);
    }
}

const struct cop_sim_checker *cop_sim_checker_drain(void)
{
    static const struct cop_sim_checker checker = {
        .name = "drain",
        .is_concerned = cop__sim_has_views,
        .init = init,
        .on_submit = on_submit,
        .on_complete = on_complete,
        .on_view = on_view,
        .at_quiescence = at_quiescence,
        .fini = fini,
    };
    return &checker;
}
