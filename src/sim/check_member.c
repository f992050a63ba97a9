/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world.h"
#include "view/view.h"

#include "base/digest.h"
#include "member/member.h"

#include <stdlib.h>

/*
 * What views promise, M1 to M8 (docs/PROTOCOL.md):
 *   M1  a node's view contains it
 *   M2  one view for each ballot; with a majority, one for each epoch
 *   M3  views at a node only grow; two that are in a view together came to it from the same
 *       one, if both were members before; a life that is over never returns
 *   M6  who did nothing wrong is not removed
 *   M7  when faults stop, everyone who lives is in one view of exactly the living, and who
 *       wanted to leave has left
 *   M8  each view was acknowledged by a quorum of the one before it, as long as nobody was
 *       told to go on without one; then a side is as good as any other
 * (M4 and M5 are about messages.)
 */

/* A view that somebody installed. */
struct known {
    struct cop_view *view;
    struct cop_ballot before; /* what members had before it; epoch 0: not known yet */
    bool is_judged;           /* M6 was looked at */
};

/* What a node has. */
struct last {
    cop_incarnation incarnation;
    struct cop_ballot ballot; /* of its latest view; epoch 0: none in this life */
    bool leaving;
};

/* The last life of each that others may have reason to find gone (M6). */
#define FOR_EVER UINT64_MAX

struct state {
    struct known *views; /* by ballot */
    uint32_t count, capacity;
    struct last *nodes;
    cop_incarnation *disturbed;
    bool saw_disturbance; /* else, if there was one, nobody knows whose */
    /* Proposals that somebody acknowledged: each may be a view, by ballot. */
    struct cop_view **proposals;
    uint32_t proposal_count, proposal_capacity;
    bool went_on; /* somebody gave up the quorum */
};

static bool is_named(const struct cop_sim *sim, cop_id id)
{
    for (uint32_t i = 0; i < sim->config.named.count; i++)
        if (id >= sim->config.named.ranges[i].first &&
            id <= sim->config.named.ranges[i].last)
            return true;
    return false;
}

/* Whether only one side can go on. */
static bool is_exclusive(const struct state *state, const struct cop_sim *sim)
{
    return !state->went_on && sim->config.quorum != COP_QUORUM_NONE;
}

static void *init(struct cop_sim *sim)
{
    struct state *state = calloc(1, sizeof(*state));
    if (!state)
        return NULL;
    state->nodes = calloc(sim->config.nodes, sizeof(*state->nodes));
    state->views = calloc(4, sizeof(*state->views));
    state->disturbed = calloc(sim->config.nodes, sizeof(*state->disturbed));
    if (!state->nodes || !state->views || !state->disturbed) {
        free(state->nodes);
        free(state->views);
        free(state->disturbed);
        free(state);
        return NULL;
    }
    state->capacity = 4;
    state->views[state->count++] = (struct known){.view = cop_view_ref(sim->view)};
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
    for (uint32_t i = 0; i < state->proposal_count; i++)
        cop_view_unref(state->proposals[i]);
    free(state->proposals);
    free(state->views);
    free(state->nodes);
    free(state->disturbed);
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
        uint32_t capacity = state->capacity ? 2 * state->capacity : 4;
        struct known *larger = realloc(state->views, capacity * sizeof(*larger));
        if (!larger) {
            cop_sim_fail(sim, "sim", "out of memory");
            return NULL;
        }
        state->views = larger;
        state->capacity = capacity;
    }
    for (uint32_t i = state->count; i > at; i--)
        state->views[i] = state->views[i - 1];
    state->views[at] = (struct known){.view = cop_view_ref(view)};
    state->count++;
    return &state->views[at];
}

/* Who takes part in the change to `view`: those in it, and those who leave with it. */
static bool acknowledged(const void *context, cop_id id, cop_incarnation incarnation)
{
    const struct cop_view *view = context;
    struct cop_member member;
    if (cop_view_has(view, id, incarnation))
        return true;
    return cop_view_member(view, id, &member) == 0 && member.presence == COP_LEFT &&
           !member.certain && member.incarnation == incarnation &&
           member.since == cop_view_epoch(view);
}

/* Whether those for whom `takes_part` says so may speak for `view`. */
static bool is_quorum(const struct cop_sim *sim, const struct cop_view *view,
                      bool (*takes_part)(const void *context, cop_id id,
                                         cop_incarnation incarnation),
                      const void *context)
{
    uint32_t there = 0, named = 0, named_away = 0;
    for (cop_id id = cop_view_next(view, COP_ID_NONE); id != COP_ID_NONE;
         id = cop_view_next(view, id)) {
        bool is_there = takes_part(context, id, cop_view_incarnation(view, id));
        there += is_there;
        named += is_named(sim, id);
        named_away += !is_there && is_named(sim, id);
    }
    if (sim->config.quorum == COP_QUORUM_NONE)
        return true;
    if (sim->config.quorum == COP_QUORUM_HAS && named > 0)
        return named_away == 0;
    return there > cop_view_size(view) / 2;
}

/* M8. */
static void compare(struct cop_sim *sim, const struct cop_view *old,
                    const struct cop_view *new)
{
    if (!is_quorum(sim, old, acknowledged, new))
        cop_sim_fail(
            sim, "M8", "view %llu has no quorum of view %llu, which has %u members",
            (unsigned long long)cop_view_epoch(new),
            (unsigned long long)cop_view_epoch(old), (unsigned)cop_view_size(old));
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
    if (shared && is_exclusive(state, sim))
        cop_sim_fail(sim, "M2", "two views in epoch %llu",
                     (unsigned long long)ballot.epoch);
    known = insert(state, sim, at, view);
    if (known) {
        if (at > 0 && is_exclusive(state, sim))
            compare(sim, state->views[at - 1].view, view);
        if (at + 1 < state->count && is_exclusive(state, sim))
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
    if (known->before.epoch == 0) {
        check_returns(sim, before, known->view);
        known->before = last->ballot;
    } else if (!same(known->before, last->ballot)) {
        cop_sim_fail(sim, "M3", "%u came to view %llu from %llu, others from %llu",
                     (unsigned)id, (unsigned long long)cop_view_epoch(known->view),
                     (unsigned long long)last->ballot.epoch,
                     (unsigned long long)known->before.epoch);
    }
}

/* ---- who did nothing wrong --------------------------------------------------------- */

static void disturb(struct state *state, const struct cop_sim *sim, cop_id id,
                    cop_incarnation life)
{
    if (id < sim->config.nodes && life > state->disturbed[id])
        state->disturbed[id] = life;
}

static void disturb_set(struct state *state, const struct cop_sim *sim,
                        const struct cop_sim_set *set)
{
    for (uint32_t i = 0; i < set->count; i++)
        for (cop_id id = set->ranges[i].first; id <= set->ranges[i].last; id++)
            disturb(state, sim, id, FOR_EVER);
}

/* What a life suffers ends with it; what happens to links is there for the next one, too. */
static void on_action(void *of, struct cop_sim *sim,
                      const struct cop_sim_action *action)
{
    struct state *state = of;
    state->saw_disturbance |= action->kind >= COP_SIM_PAUSE &&
                              action->kind <= COP_SIM_JUMP &&
                              action->kind != COP_SIM_BREAK;
    switch (action->kind) {
    case COP_SIM_PAUSE:
    case COP_SIM_SLOW:
        disturb(state, sim, action->a, cop__sim_incarnation(sim, action->a));
        return;
    case COP_SIM_LIE:
        disturb(state, sim, action->b, cop__sim_incarnation(sim, action->b));
        return;
    case COP_SIM_SLOW_LINK:
        disturb(state, sim, action->a, FOR_EVER);
        disturb(state, sim, action->b, FOR_EVER);
        return;
    case COP_SIM_PARTITION:
        disturb_set(state, sim, &action->left);
        disturb_set(state, sim, &action->right);
        return;
    default:
        return;
    }
}

static bool accuses_by_chance(const struct cop_sim *sim)
{
    const struct cop_detect *detect = &sim->config.detect;
    return detect->gossip_period_ns > 0 && detect->witnesses == 0;
}

/*
 * M6 of one life. Where any side may go on, and the world was parted or lied to, others than those
 * whom that happened to may be on the wrong side of it. Whose clock jumps may be wrong about nobody,
 * and nobody about it. Gossip is a matter of chance where nobody else is asked (D12), and in stealth
 * nobody answers (D13).
 */
static bool is_blameless(const struct state *state, const struct cop_sim *sim,
                         cop_id id, cop_incarnation life)
{
    if (accuses_by_chance(sim) || sim->config.detect.stealth)
        return false;
    if (cop_sim_was_disturbed(sim) && !state->saw_disturbance)
        return false;
    if (!is_exclusive(state, sim) && (cop_sim_was_disturbed(sim) || sim->lied))
        return false;
    return life > state->disturbed[id];
}

/* M6: when the first has the view, for nobody who is without life then has any later. */
static void check_accuracy(const struct state *state, struct cop_sim *sim,
                           struct known *known)
{
    const struct cop_view *view = known->view;
    if (known->is_judged)
        return;
    known->is_judged = true;
    for (cop_id id = 0; id < cop_view_slots(view); id++) {
        struct cop_member member;
        if (cop_view_member(view, id, &member) == 0 && member.presence == COP_REMOVED &&
            cop_sim_is_alive(sim, id) &&
            cop__sim_incarnation(sim, id) == member.incarnation &&
            is_blameless(state, sim, id, member.incarnation))
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
    }
    if (!cop_view_has(view, id, life))
        cop_sim_fail(sim, "M1", "%u installed view %llu, which is without it",
                     (unsigned)id, (unsigned long long)ballot.epoch);
    if (cop_ballot_compare(&ballot, &last->ballot) <= 0)
        cop_sim_fail(sim, "M3", "%u went from view %llu to %llu", (unsigned)id,
                     (unsigned long long)last->ballot.epoch,
                     (unsigned long long)ballot.epoch);
    struct known *known = note(state, sim, view);
    if (known && !cop_sim_failure(sim)) {
        check_way(state, sim, known, id, last);
        check_accuracy(state, sim, known);
    }
    last->ballot = ballot;
}

/* What somebody acknowledges may be committed by a root that dies before it told anyone. */
static void after_step(void *of, struct cop_sim *sim, cop_id id)
{
    struct state *state = of;
    const struct cop_node *node = cop_sim_node(sim, id);
    if (!node || !cop__sim_has_nodes(sim))
        return;
    struct cop_view *view = cop__member_acknowledged(node);
    for (uint32_t i = state->proposal_count; view && i > 0; i--)
        if (same(cop_view_ballot(state->proposals[i - 1]), cop_view_ballot(view)))
            return;
    if (!view)
        return;
    if (state->proposal_count == state->proposal_capacity) {
        uint32_t capacity = state->proposal_capacity ? 2 * state->proposal_capacity : 4;
        struct cop_view **larger =
            realloc(state->proposals, capacity * sizeof(struct cop_view *));
        if (!larger) {
            cop_sim_fail(sim, "sim", "out of memory");
            return;
        }
        state->proposals = larger;
        state->proposal_capacity = capacity;
    }
    state->proposals[state->proposal_count++] = cop_view_ref(view);
}

static void on_submit(void *of, struct cop_sim *sim, cop_id id,
                      const struct cop_request *request, int status)
{
    struct state *state = of;
    (void)sim;
    if (request->kind == COP_REQUEST_LEAVE && status == 0)
        state->nodes[id].leaving = true;
    if (request->kind == COP_REQUEST_GO_ON && status == 0)
        state->went_on = true;
}

/* ---- in the end ------------------------------------------------------------------ */

static bool lives(const void *context, cop_id id, cop_incarnation incarnation)
{
    const struct cop_sim *sim = context;
    return cop_sim_is_alive(sim, id) && cop__sim_incarnation(sim, id) == incarnation;
}

/* The latest view that anybody living has; NULL: nobody has one. */
static const struct cop_view *find_newest(const struct cop_sim *sim)
{
    const struct cop_view *newest = NULL;
    for (cop_id id = 0; id < sim->config.nodes; id++) {
        const struct cop_node *node = cop_sim_node(sim, id);
        if (!node || !cop_node_is_member(node))
            continue;
        struct cop_ballot ballot = cop_view_ballot(cop_node_view(node));
        struct cop_ballot best = newest ? cop_view_ballot(newest) : ballot;
        if (!newest || cop_ballot_compare(&ballot, &best) > 0)
            newest = cop_node_view(node);
    }
    return newest;
}

/*
 * M7. Where a proposal was acknowledged that may have been committed, and of whose members no
 * quorum lives, the state may be blocked on purpose. Everywhere else it must not be. What is
 * below a view that somebody living has is over.
 */
static bool may_demand(const struct state *state, const struct cop_sim *sim,
                       const struct cop_view *newest)
{
    struct cop_ballot ballot = cop_view_ballot(newest);
    if (!is_quorum(sim, newest, lives, sim))
        return false;
    for (uint32_t i = 0; i < state->proposal_count; i++) {
        struct cop_ballot other = cop_view_ballot(state->proposals[i]);
        if (cop_ballot_compare(&other, &ballot) > 0 &&
            !is_quorum(sim, state->proposals[i], lives, sim))
            return false;
    }
    return true;
}

/* Whether anybody in it lives anew. */
static bool has_returned(const struct cop_view *view)
{
    bool any = false;
    for (cop_id id = cop_view_next(view, COP_ID_NONE); id != COP_ID_NONE;
         id = cop_view_next(view, id))
        any |= cop_view_incarnation(view, id) > COP__FIRST_INCARNATION;
    return any;
}

/*
 * Where any side goes on, worlds that met and parted again find each other when a connection
 * is made anew. Connections that nobody needs are closed by drivers in time, but not here.
 */
static bool may_stay_apart(const struct state *state, const struct cop_sim *sim,
                           const struct cop_view *view, const struct cop_view *newest)
{
    return (sim->config.quorum == COP_QUORUM_NONE || state->went_on) &&
           (has_returned(newest) || has_returned(view)) &&
           cop__view_common(view, newest) == 0;
}

/* M7: who lives, and is accused, gets its denial out to everybody. Where gossip accuses by chance
 * (D12), somebody may just be about to. */
static void check_doubts(struct cop_sim *sim, const struct cop_view *newest, cop_id id)
{
    const struct cop_node *node = cop_sim_node(sim, id);
    if (!same(cop_view_ballot(cop_node_view(node)), cop_view_ballot(newest)) ||
        accuses_by_chance(sim))
        return;
    if (cop_node_is_degraded(node))
        cop_sim_fail(sim, "M7", "%u is degraded when all is over", (unsigned)id);
    for (cop_id other = cop_view_next(newest, COP_ID_NONE); other != COP_ID_NONE;
         other = cop_view_next(newest, other)) {
        struct cop_belief belief = cop_node_belief(node, other);
        if (lives(sim, other, belief.incarnation) && belief.status >= COP_SUSPECT)
            cop_sim_fail(sim, "M7", "%u suspects %u when all is over", (unsigned)id,
                         (unsigned)other);
    }
}

static void check_end(const struct state *state, struct cop_sim *sim,
                      const struct cop_view *newest, cop_id id)
{
    const struct cop_node *node = cop_sim_node(sim, id);
    const struct cop_view *view = cop_node_view(node);
    if (state->nodes[id].leaving &&
        state->nodes[id].incarnation == cop__sim_incarnation(sim, id)) {
        cop_sim_fail(sim, "M7", "%u wanted to leave, and is there when all is over",
                     (unsigned)id);
    } else if (!cop_node_is_member(node)) {
        cop_sim_fail(sim, "M7", "%u is not in a view when all is over", (unsigned)id);
    } else if (!same(cop_view_ballot(view), cop_view_ballot(newest)) &&
               !may_stay_apart(state, sim, view, newest)) {
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
    const struct cop_view *newest = cop_sim_is_settled(sim) ? find_newest(sim) : NULL;
    if (!newest || !may_demand(state, sim, newest) || is_held(sim, newest))
        return;
    for (cop_id id = 0; id < sim->config.nodes; id++) {
        if (cop_sim_is_alive(sim, id)) {
            check_end(state, sim, newest, id);
            check_doubts(sim, newest, id);
        } else if (cop_view_rank(newest, id) != COP_RANK_NONE)
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
    for (uint32_t i = 0; i < state->proposal_count; i++)
        digest_ballot(&digest, cop_view_ballot(state->proposals[i]));
    return cop__digest_value(&digest);
}

const struct cop_sim_checker *cop_sim_checker_member(void)
{
    static const struct cop_sim_checker checker = {
        .name = "member",
        .is_concerned = cop__sim_has_views,
        .init = init,
        .on_action = on_action,
        .on_submit = on_submit,
        .after_step = after_step,
        .on_view = on_view,
        .at_quiescence = at_quiescence,
        .fini = fini,
        .digest = digest_state,
    };
    return &checker;
}
