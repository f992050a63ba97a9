/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/check_stream.h"

/* Lives that have ended, and places that were never taken. */
static uint64_t ended(const struct cop_sim *sim)
{
    uint64_t sum = 0;
    for (cop_id id = 0; id < sim->config.nodes; id++)
        sum += cop__sim_incarnation(sim, id) - COP__FIRST_INCARNATION +
               !cop_sim_is_alive(sim, id);
    return sum;
}

/* Whether this life is the only one that anybody has lost. */
static bool is_only_loss(const struct cop_sim *sim, const struct cop_view *view,
                         const struct cop__life *life)
{
    bool has_ended = cop__sim_incarnation(sim, life->id) != life->incarnation ||
                     !cop_sim_is_alive(sim, life->id);
    return has_ended && ended(sim) == 1 && cop_view_size(view) + 1 >= sim->config.nodes;
}

/*
 * S1: if one back-end alone was lost, and not the root, what it had in a complete output is in
 * every later one, and there in the end: its parent lives, and had it.
 */
void cop__check_lost(const struct cop__watched *state, struct cop_sim *sim,
                     const struct cop_view *view)
{
    cop_id root_id = cop_view_root(view);
    const struct cop_node *root = cop_sim_node(sim, root_id);
    const struct cop__life *lost = NULL;
    struct cop_departed gone;
    uint32_t count = 0;
    for (uint32_t i = 0; i < state->count; i++) {
        const struct cop__life *life = &state->lives[i];
        if (cop_view_has(view, life->id, life->incarnation))
            continue;
        lost = life;
        count++;
    }
    if (count != 1 || cop__watched_is_single(sim) ||
        sim->config.stream.flags & COP_STREAM_WITHDRAW ||
        cop__watched_is_idempotent(state) || state->parted ||
        cop_sim_was_lied_to(sim) || cop_sim_was_disturbed(sim) ||
        !is_only_loss(sim, view, lost) || lost->shown < lost->first ||
        lost->count == 0 || lost->shown_by != root_id ||
        lost->shown_life != cop__sim_incarnation(sim, root_id))
        return;
    for (uint32_t i = 0; cop_node_departed(root, state->number, i, &gone) == 0; i++)
        if (gone.leaf == lost->id && gone.incarnation == lost->incarnation &&
            gone.wave >= lost->shown)
            return;
    cop_sim_fail(sim, "S1", "wave %llu had what %u gave, and it is lost",
                 (unsigned long long)lost->shown, (unsigned)lost->id);
}

/* With which wave a life is departed at a node, + 1; 0: it is not. */
static uint64_t departed_with(const struct cop__watched *state,
                              const struct cop_node *node, const struct cop__life *life)
{
    struct cop_departed gone;
    for (uint32_t i = 0; cop_node_departed(node, state->number, i, &gone) == 0; i++)
        if (gone.leaf == life->id && gone.incarnation == life->incarnation)
            return gone.wave + 1;
    return 0;
}

/*
 * Whether the root may yet hear more of a life: of who has the view that is without it, and knows
 * more; of who has an earlier view, and may wait with what that life said for the others; or of who
 * died on the way.
 */
static bool may_come_late(const struct cop__watched *state, struct cop_sim *sim,
                          const struct cop_view *view, const struct cop__life *life,
                          uint64_t known)
{
    for (cop_id id = 0; id < sim->config.nodes; id++) {
        const struct cop_node *node = cop_sim_node(sim, id);
        if (cop_view_has(view, id, cop__sim_incarnation(sim, id)) &&
            (!cop_sim_is_alive(sim, id) ||
             cop_view_epoch(cop_node_view(node)) < cop_view_epoch(view) ||
             departed_with(state, node, life) > known))
            return true;
    }
    return false;
}

/*
 * S1: what a life left behind that is not in the view is in a complete output, or in none that
 * this root says later: whoever knows of it is in the cover, and so is its word. Only once all have
 * that view: the root may have it first, and its output be complete before who waited with what the
 * life said hears that it has departed.
 */
void cop__check_late(struct cop__watched *state, struct cop_sim *sim, cop_id root,
                     const struct cop__plan *plan)
{
    const struct cop_node *node = cop_sim_node(sim, root);
    cop_incarnation by_life = cop__sim_incarnation(sim, root);
    if (cop__watched_is_single(sim) || cop__watched_is_idempotent(state) ||
        state->parted || sim->config.stream.flags & COP_STREAM_WITHDRAW)
        return;
    for (uint32_t i = 0; i < state->count; i++) {
        struct cop__life *life = &state->lives[i];
        if (cop_view_has(cop_node_view(node), life->id, life->incarnation))
            continue;
        uint64_t gone = departed_with(state, node, life);
        bool is_noted = life->gone_by == root && life->gone_life == by_life &&
                        life->gone_plan == plan;
        if (is_noted && gone != life->gone)
            cop_sim_fail(sim, "S1", "what %u left behind comes after a complete wave",
                         (unsigned)life->id);
        if (!is_noted && may_come_late(state, sim, cop_node_view(node), life, gone))
            continue;
        life->gone = gone;
        life->gone_by = root;
        life->gone_life = by_life;
        life->gone_plan = plan;
    }
}

void cop__note_shown(struct cop__watched *state, struct cop_sim *sim, cop_id root,
                     uint64_t wave)
{
    const struct cop_view *view = cop_node_view(cop_sim_node(sim, root));
    for (uint32_t i = 0; i < state->count; i++) {
        struct cop__life *life = &state->lives[i];
        if (!cop_view_has(view, life->id, life->incarnation))
            continue;
        life->shown = wave;
        life->shown_by = root;
        life->shown_life = cop__sim_incarnation(sim, root);
    }
}
