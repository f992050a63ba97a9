/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world.h"

#include "base/digest.h"

#include <stdlib.h>

/*
 * What views promise, M1 to M8 (docs/PROTOCOL.md):
 *   M1  a node's view contains it
 *   M2  one view for each ballot; with a majority, one for each epoch
 *   M3  views at a node only grow; two that are in a view together came to it from the same
 *       one, if both were members before; a life that is over never returns
 *   M6  who did nothing wrong is not removed
 *   M7  when faults stop, everyone who lives is in one view of exactly the living
 *   M8  with a majority, each view was acknowledged by a majority of the one before it
 * (M4 and M5 are about messages.)
 */

/* A view that somebody installed. */
struct known {
    struct cop_view *view;
    struct cop_ballot before; /* what members had before it; epoch 0: not known yet */
};

/* What a node has. */
struct last {
    cop_incarnation incarnation;
    struct cop_ballot ballot; /* of its latest view; epoch 0: none in this life */
    bool leaving;
};

struct state {
    struct known *views; /* by ballot */
    uint32_t count, capacity;
    struct last *nodes;
    uint32_t lives; /* that ever took part */
    uint32_t lies;  /* each may have kept somebody who lives out of a proposal */
};

static bool has_majority_rule(const struct cop_sim *sim)
{
    return sim->config.quorum == COP_QUORUM_MAJORITY;
}

static void *init(struct cop_sim *sim)
{
    if (!cop__sim_has_views(sim))
        return NULL;
    struct state *state = calloc(1, sizeof(*state));
    if (!state)
        return NULL;
    state->nodes = calloc(sim->config.nodes, sizeof(*state->nodes));
    state->views = calloc(4, sizeof(*state->views));
    if (!state->nodes || !state->views) {
        free(state->nodes);
        free(state->views);
        free(state);
        return NULL;
    }
    state->capacity = 4;
    state->views[state->count++] = (struct known){.view = cop_view_ref(sim->view)};
    state->lives = cop_view_size(sim->view);
    for (cop_id id = 0; id < cop_view_slots(sim->view); id++)
        state->nodes[id] =
            (struct last){COP__FIRST_INCARNATION, cop_view_ballot(sim->view), false};
    return state;
}

static void fini(void *of)
{
    struct state *state = of;
    for (uint32_t i = 0; i < state->count; i++)
        cop_view_unref(state->views[i].view);
    free(state->views);
    free(state->nodes);
    free(state);
}

static bool same(struct cop_ballot a, struct cop_ballot b)
{
    return cop_ballot_compare(&a, &b) == 0;
}

/* ---- one view for each ballot ---------------------------------------------------- */

static struct known *insert(struct state *state, struct cop_sim *sim, uint32_t at,
                            struct cop_view *view)
{
    if (state->count == state->capacity) {
        struct known *larger =
            realloc(state->views, 2 * state->capacity * sizeof(*larger));
        if (!larger) {
            cop_sim_fail(sim, "sim", "out of memory");
            return NULL;
        }
        state->views = larger;
        state->capacity *= 2;
    }
    for (uint32_t i = state->count; i > at; i--)
        state->views[i] = state->views[i - 1];
    state->views[at] = (struct known){.view = cop_view_ref(view)};
    state->count++;
    return &state->views[at];
}

/* Who takes part in the change to `view`: those in it, and those who leave with it. */
static bool acknowledged(const struct cop_view *view, cop_id id,
                         cop_incarnation incarnation)
{
    struct cop_member member;
    if (cop_view_has(view, id, incarnation))
        return true;
    return cop_view_member(view, id, &member) == 0 && member.presence == COP_LEFT &&
           member.incarnation == incarnation && member.since == cop_view_epoch(view);
}

/* M8. */
static void compare(struct cop_sim *sim, const struct cop_view *old,
                    const struct cop_view *new)
{
    uint32_t common = 0;
    for (cop_id id = cop_view_next(old, COP_ID_NONE); id != COP_ID_NONE;
         id = cop_view_next(old, id))
        common += acknowledged(new, id, cop_view_incarnation(old, id));
    if (common <= cop_view_size(old) / 2)
        cop_sim_fail(
            sim, "M8", "view %llu has %u of the %u members of view %llu, no majority",
            (unsigned long long)cop_view_epoch(new), (unsigned)common,
            (unsigned)cop_view_size(old), (unsigned long long)cop_view_epoch(old));
}

/*
 * M3: for whoever has installed a view without it, a life is over for ever. (One that only a
 * view ended whose holders are all gone may go on.)
 */
static void check_returns(struct cop_sim *sim, const struct cop_view *old,
                          const struct cop_view *new)
{
    for (cop_id id = 0; id < cop_view_slots(old); id++) {
        struct cop_member was, is;
        if (cop_view_member(old, id, &was) == 0 && cop_view_member(new, id, &is) == 0 &&
            was.presence != COP_PRESENT && is.presence == COP_PRESENT &&
            is.incarnation <= was.incarnation)
            cop_sim_fail(sim, "M3",
                         "the life of %u that view %llu ended is in view %llu",
                         (unsigned)id, (unsigned long long)cop_view_epoch(old),
                         (unsigned long long)cop_view_epoch(new));
    }
}

/* The record of a view; a new one is compared with its neighbours. */
static struct known *note(struct state *state, struct cop_sim *sim,
                          struct cop_view *view)
{
    struct cop_ballot ballot = cop_view_ballot(view);
    uint32_t at = 0;
    while (at < state->count) {
        struct cop_ballot other = cop_view_ballot(state->views[at].view);
        if (cop_ballot_compare(&other, &ballot) >= 0)
            break;
        at++;
    }
    struct known *known = at < state->count ? &state->views[at] : NULL;
    if (known && same(cop_view_ballot(known->view), ballot)) {
        if (cop_view_digest(known->view) != cop_view_digest(view))
            cop_sim_fail(sim, "M2", "two views with the ballot %llu of %u",
                         (unsigned long long)ballot.epoch, (unsigned)ballot.root);
        return known;
    }
    bool shared = (known && cop_view_epoch(known->view) == ballot.epoch) ||
                  (at > 0 && cop_view_epoch(state->views[at - 1].view) == ballot.epoch);
    if (shared && has_majority_rule(sim))
        cop_sim_fail(sim, "M2", "two views in epoch %llu",
                     (unsigned long long)ballot.epoch);
    known = insert(state, sim, at, view);
    if (known && has_majority_rule(sim)) {
        if (at > 0)
            compare(sim, state->views[at - 1].view, view);
        if (at + 1 < state->count)
            compare(sim, view, state->views[at + 1].view);
    }
    return known;
}

/* ---- the way to it --------------------------------------------------------------- */

static const struct cop_view *find(const struct state *state, struct cop_ballot ballot)
{
    for (uint32_t i = 0; i < state->count; i++) {
        if (same(cop_view_ballot(state->views[i].view), ballot))
            return state->views[i].view;
    }
    return NULL;
}

/* M3: all who were members before it had the same one before it. */
static void check_way(struct state *state, struct cop_sim *sim, struct known *known,
                      cop_id id, const struct last *last)
{
    const struct cop_view *before = find(state, last->ballot);
    if (!before)
        return;
    check_returns(sim, before, known->view);
    if (known->before.epoch == 0)
        known->before = last->ballot;
    else if (!same(known->before, last->ballot))
        cop_sim_fail(sim, "M3", "%u came to view %llu from %llu, others from %llu",
                     (unsigned)id, (unsigned long long)cop_view_epoch(known->view),
                     (unsigned long long)last->ballot.epoch,
                     (unsigned long long)known->before.epoch);
}

/* M6: only checked where nothing but crashes happened. */
static void check_accuracy(struct cop_sim *sim, const struct cop_view *view)
{
    if (cop_sim_was_disturbed(sim) || cop_sim_was_lied_to(sim))
        return;
    for (cop_id id = 0; id < cop_view_slots(view); id++) {
        struct cop_member member;
        if (cop_view_member(view, id, &member) == 0 && member.presence == COP_REMOVED &&
            cop_sim_is_alive(sim, id) &&
            cop__sim_incarnation(sim, id) == member.incarnation)
            cop_sim_fail(sim, "M6", "view %llu is without %u, which did nothing wrong",
                         (unsigned long long)cop_view_epoch(view), (unsigned)id);
    }
}

static void on_view(void *of, struct cop_sim *sim, cop_id id, struct cop_view *view)
{
    struct state *state = of;
    struct last *last = &state->nodes[id];
    cop_incarnation life = cop__sim_incarnation(sim, id);
    struct cop_ballot ballot = cop_view_ballot(view);
    if (last->incarnation != life) {
        *last = (struct last){.incarnation = life};
        state->lives++;
    }
    if (!cop_view_has(view, id, life))
        cop_sim_fail(sim, "M1", "%u installed view %llu, which is without it",
                     (unsigned)id, (unsigned long long)ballot.epoch);
    if (cop_ballot_compare(&ballot, &last->ballot) <= 0)
        cop_sim_fail(sim, "M3", "%u went from view %llu to %llu", (unsigned)id,
                     (unsigned long long)last->ballot.epoch,
                     (unsigned long long)ballot.epoch);
    struct known *known = note(state, sim, view);
    if (known && !cop_sim_failure(sim))
        check_way(state, sim, known, id, last);
    check_accuracy(sim, view);
    last->ballot = ballot;
}

static void on_action(void *of, struct cop_sim *sim,
                      const struct cop_sim_action *action)
{
    struct state *state = of;
    (void)sim;
    state->lies += action->kind == COP_SIM_LIE || action->kind == COP_SIM_REPORT;
}

static void on_submit(void *of, struct cop_sim *sim, cop_id id,
                      const struct cop_request *request, int status)
{
    struct state *state = of;
    (void)sim;
    if (request->kind == COP_REQUEST_LEAVE && status == 0)
        state->nodes[id].leaving = true;
}

/* ---- in the end ------------------------------------------------------------------ */

/*
 * M7. Where half of all lives that there ever were is gone a state may be blocked on purpose:
 * a view may have been committed that nobody living knows of. One who leaves does not count in
 * the view without it.
 */
static bool may_demand(const struct state *state, struct cop_sim *sim)
{
    uint32_t living = 0, waiting = 0;
    for (cop_id id = 0; id < sim->config.nodes; id++)
        living += cop_sim_is_alive(sim, id) &&
                  state->nodes[id].incarnation == cop__sim_incarnation(sim, id) &&
                  state->nodes[id].ballot.epoch != 0 && !state->nodes[id].leaving;
    /* Each life that was not there at the start came as one of them. */
    waiting = sim->newcomer_count - (state->lives - cop_view_size(sim->view));
    if (!has_majority_rule(sim))
        return living > 0;
    return living > (state->lives + waiting) / 2 + state->lies;
}

/* The latest view that anybody living has. */
static const struct cop_view *find_newest(const struct cop_sim *sim)
{
    const struct cop_view *newest = sim->view;
    for (cop_id id = 0; id < sim->config.nodes; id++) {
        const struct cop_node *node = cop_sim_node(sim, id);
        if (!node || !cop_node_is_member(node))
            continue;
        struct cop_ballot ballot = cop_view_ballot(cop_node_view(node));
        struct cop_ballot best = cop_view_ballot(newest);
        if (cop_ballot_compare(&ballot, &best) > 0)
            newest = cop_node_view(node);
    }
    return newest;
}

static void check_end(struct cop_sim *sim, const struct cop_view *newest, cop_id id)
{
    const struct cop_node *node = cop_sim_node(sim, id);
    const struct cop_view *view = cop_node_view(node);
    if (!cop_node_is_member(node)) {
        cop_sim_fail(sim, "M7", "%u is not in a view when all is over", (unsigned)id);
    } else if (!same(cop_view_ballot(view), cop_view_ballot(newest))) {
        cop_sim_fail(sim, "M7", "%u has view %llu when all is over, others have %llu",
                     (unsigned)id, (unsigned long long)cop_view_epoch(view),
                     (unsigned long long)cop_view_epoch(newest));
    }
}

/* V17: more dead than the guard lets go at all. */
static bool is_held(const struct cop_sim *sim, const struct cop_view *newest)
{
    uint32_t dead = 0;
    for (cop_id id = cop_view_next(newest, COP_ID_NONE); id != COP_ID_NONE;
         id = cop_view_next(newest, id))
        dead += !cop_sim_is_alive(sim, id);
    return sim->config.guard > 0 && dead > sim->config.guard;
}

static void at_quiescence(void *of, struct cop_sim *sim)
{
    struct state *state = of;
    const struct cop_view *newest = find_newest(sim);
    if (!cop_sim_is_settled(sim) || !may_demand(state, sim) || is_held(sim, newest))
        return;
    for (cop_id id = 0; id < sim->config.nodes; id++) {
        if (cop_sim_is_alive(sim, id))
            check_end(sim, newest, id);
        else if (cop_view_rank(newest, id) != COP_RANK_NONE)
            cop_sim_fail(sim, "M7", "%u is dead, and in view %llu when all is over",
                         (unsigned)id, (unsigned long long)cop_view_epoch(newest));
    }
    for (uint32_t i = 0; i < sim->newcomer_count; i++) {
        if (!sim->newcomers[i]->done)
            cop_sim_fail(sim, "M7", "%s still waits for an invitation when all is over",
                         sim->newcomers[i]->name);
    }
}

static void digest_ballot(struct cop__digest *digest, struct cop_ballot ballot)
{
    cop__digest_word(digest, ballot.epoch);
    cop__digest_word(digest, (uint64_t)ballot.root << 32 ^ ballot.incarnation);
}

static uint64_t digest_state(const void *of)
{
    const struct state *state = of;
    struct cop__digest digest;
    cop__digest_init(&digest);
    for (uint32_t i = 0; i < state->count; i++) {
        digest_ballot(&digest, cop_view_ballot(state->views[i].view));
        digest_ballot(&digest, state->views[i].before);
    }
    return cop__digest_value(&digest);
}

const struct cop_sim_checker *cop_sim_checker_member(void)
{
    static const struct cop_sim_checker checker = {
        .name = "member",
        .init = init,
        .on_action = on_action,
        .on_submit = on_submit,
        .on_view = on_view,
        .at_quiescence = at_quiescence,
        .fini = fini,
        .digest = digest_state,
    };
    return &checker;
}
