/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world.h"

#include <stdlib.h>

/*
 * V17, told from outside: the views that a root committed, in the order in which it installed
 * them itself, end at most so many lives within a minute of its clock. Lives of which the script
 * reported that they are over, that said goodbye, or after which there is a later one by then, do
 * not count.
 */
#define MINUTE_NS (60 * COP_SEC)

struct commit {
    cop_time at; /* by the root's own clock */
    uint32_t removed;
};

struct root {
    cop_incarnation life;
    struct cop_view *view; /* the last that it installed; NULL: none in this life */
    struct commit *commits;
    uint32_t count, capacity;
};

struct state {
    struct root *roots; /* one for each node */
    cop_incarnation
        *reported; /* the last life of each that somebody outside spoke of */
    uint32_t nodes;
};

static void fini(void *of)
{
    struct state *state = of;
    for (uint32_t i = 0; state->roots && i < state->nodes; i++) {
        cop_view_unref(state->roots[i].view);
        free(state->roots[i].commits);
    }
    free(state->roots);
    free(state->reported);
    free(state);
}

static bool is_guarded(const struct cop_sim *sim) { return sim->config.guard > 0; }

static void *init(struct cop_sim *sim)
{
    struct state *state = calloc(1, sizeof(*state));
    if (!state)
        return NULL;
    state->nodes = sim->config.nodes;
    state->roots = calloc(state->nodes, sizeof(*state->roots));
    state->reported = calloc(state->nodes, sizeof(*state->reported));
    if (!state->roots || !state->reported) {
        fini(state);
        return NULL;
    }
    for (cop_id id = 0; id < cop_view_slots(sim->view); id++)
        state->roots[id] = (struct root){.life = COP__FIRST_INCARNATION,
                                         .view = cop_view_ref(sim->view)};
    return state;
}

static void on_action(void *of, struct cop_sim *sim,
                      const struct cop_sim_action *action)
{
    struct state *state = of;
    if (action->kind == COP_SIM_REPORT && action->b < state->nodes)
        state->reported[action->b] = cop__sim_incarnation(sim, action->b);
}

static uint32_t count_removed(const struct state *state, const struct cop_sim *sim,
                              const struct cop_view *old, const struct cop_view *new)
{
    uint32_t removed = 0;
    for (cop_id id = cop_view_next(old, COP_ID_NONE); id != COP_ID_NONE;
         id = cop_view_next(old, id)) {
        struct cop_member member;
        cop_incarnation life = cop_view_incarnation(old, id);
        removed += cop_view_member(new, id, &member) == 0 &&
                   member.presence == COP_REMOVED && member.incarnation == life &&
                   state->reported[id] < life && cop__sim_incarnation(sim, id) == life;
    }
    return removed;
}

static void add(struct cop_sim *sim, cop_id id, struct root *root,
                const struct commit *commit)
{
    uint32_t within = commit->removed;
    if (root->count == root->capacity) {
        uint32_t capacity = root->capacity ? 2 * root->capacity : 2;
        struct commit *larger =
            realloc(root->commits, capacity * sizeof(*root->commits));
        if (!larger) {
            cop_sim_fail(sim, "sim", "out of memory");
            return;
        }
        root->commits = larger;
        root->capacity = capacity;
    }
    for (uint32_t i = 0; i < root->count; i++) {
        if (commit->at - root->commits[i].at < MINUTE_NS)
            within += root->commits[i].removed;
    }
    root->commits[root->count++] = *commit;
    if (within > sim->config.guard)
        cop_sim_fail(sim, "V17", "%u removed %u within a minute, the guard allows %u",
                     (unsigned)id, (unsigned)within, (unsigned)sim->config.guard);
}

static void on_view(void *of, struct cop_sim *sim, cop_id id, struct cop_view *view)
{
    struct state *state = of;
    struct root *root = &state->roots[id];
    cop_incarnation life = cop__sim_incarnation(sim, id);
    struct cop_ballot ballot = cop_view_ballot(view);
    if (root->life != life) {
        cop_view_unref(root->view);
        free(root->commits);
        *root = (struct root){.life = life};
    }
    struct commit commit = {.at = sim->now + sim->nodes[id].clock_ns};
    if (root->view && ballot.root == id && ballot.incarnation == life)
        commit.removed = count_removed(state, sim, root->view, view);
    if (commit.removed > 0)
        add(sim, id, root, &commit);
    cop_view_unref(root->view);
    root->view = cop_view_ref(view);
}

const struct cop_sim_checker *cop_sim_checker_guard(void)
{
    static const struct cop_sim_checker checker = {
        .name = "guard",
        .is_concerned = is_guarded,
        .init = init,
        .on_action = on_action,
        .on_view = on_view,
        .fini = fini,
    };
    return &checker;
}
