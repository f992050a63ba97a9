/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world.h"

#include <stdlib.h>
#include <string.h>

/*
 * What messages between members promise:
 *   M4  delivered in the view in which they were sent, or not at all: the receiver's view is
 *       one that the sender, in the life that sent it, had installed by then
 *   M5  each delivery has one send, each send at most one delivery; in the order of sending;
 *       what was completed with success was delivered
 */
struct sent {
    cop_id from, to;
    cop_incarnation life;
    uint64_t token;
    uint32_t delivered;
    bool acknowledged;
};

/* A view that a life of a node has installed. */
struct installed {
    cop_id id;
    cop_incarnation life;
    struct cop_ballot ballot;
};

struct state {
    struct sent *sent;
    uint32_t count, capacity;
    struct installed *installed;
    uint32_t installed_count, installed_capacity;
};

static void *init(struct cop_sim *sim)
{
    (void)sim;
    return calloc(1, sizeof(struct state));
}

static void fini(void *of)
{
    struct state *state = of;
    free(state->sent);
    free(state->installed);
    free(state);
}

static void on_submit(void *of, struct cop_sim *sim, cop_id id,
                      const struct cop_request *request, int status)
{
    struct state *state = of;
    if (request->kind != COP_REQUEST_SEND || status != 0)
        return;
    if (state->count == state->capacity) {
        uint32_t capacity = state->capacity ? 2 * state->capacity : 16;
        struct sent *larger = realloc(state->sent, capacity * sizeof(*larger));
        if (!larger) {
            cop_sim_fail(sim, "sim", "out of memory");
            return;
        }
        state->sent = larger;
        state->capacity = capacity;
    }
    state->sent[state->count++] = (struct sent){.from = id,
                                                .to = request->member,
                                                .life = cop__sim_incarnation(sim, id),
                                                .token = request->token};
}

static void on_view(void *of, struct cop_sim *sim, cop_id id, struct cop_view *view)
{
    struct state *state = of;
    if (state->installed_count == state->installed_capacity) {
        uint32_t capacity =
            state->installed_capacity ? 2 * state->installed_capacity : 16;
        struct installed *larger =
            realloc(state->installed, capacity * sizeof(*larger));
        if (!larger) {
            cop_sim_fail(sim, "sim", "out of memory");
            return;
        }
        state->installed = larger;
        state->installed_capacity = capacity;
    }
    state->installed[state->installed_count++] =
        (struct installed){id, cop__sim_incarnation(sim, id), cop_view_ballot(view)};
}

static bool has_installed(const struct state *state, const struct cop_sim *sim,
                          cop_id id, cop_incarnation life, struct cop_ballot ballot)
{
    struct cop_ballot start = cop_view_ballot(sim->view);
    if (cop_ballot_compare(&start, &ballot) == 0)
        return cop_view_has(sim->view, id, life);
    for (uint32_t i = 0; i < state->installed_count; i++) {
        const struct installed *known = &state->installed[i];
        if (known->id == id && known->life == life &&
            cop_ballot_compare(&known->ballot, &ballot) == 0)
            return true;
    }
    return false;
}

/* M5: nothing that was sent before it, to the same life, may still come. */
static void check_order(const struct state *state, struct cop_sim *sim,
                        const struct sent *letter)
{
    for (const struct sent *later = letter + 1; later < state->sent + state->count;
         later++) {
        if (later->from == letter->from && later->life == letter->life &&
            later->to == letter->to && later->delivered)
            cop_sim_fail(sim, "M5", "%u got letter %llu of %u after a later one",
                         (unsigned)letter->to, (unsigned long long)letter->token,
                         (unsigned)letter->from);
    }
}

static void on_deliver(void *of, struct cop_sim *sim, cop_id id, cop_id from,
                       cop_incarnation life, const struct cop_buf *bytes)
{
    struct state *state = of;
    uint64_t token = 0;
    struct cop_ballot ballot = cop_view_ballot(cop_node_view(cop_sim_node(sim, id)));
    if (bytes->length == sizeof(token))
        memcpy(&token, bytes->data, sizeof(token));
    struct sent *letter = NULL;
    for (uint32_t i = 0; i < state->count && !letter; i++) {
        if (state->sent[i].token == token && state->sent[i].from == from &&
            state->sent[i].to == id && state->sent[i].life == life)
            letter = &state->sent[i];
    }
    if (!letter) {
        cop_sim_fail(sim, "M5", "%u got a letter of %u that nobody sent", (unsigned)id,
                     (unsigned)from);
        return;
    }
    if (letter->delivered++)
        cop_sim_fail(sim, "M5", "%u got letter %llu of %u twice", (unsigned)id,
                     (unsigned long long)token, (unsigned)from);
    check_order(state, sim, letter);
    if (!has_installed(state, sim, from, life, ballot))
        cop_sim_fail(sim, "M4", "%u got letter %llu in view %llu, which %u never had",
                     (unsigned)id, (unsigned long long)token,
                     (unsigned long long)ballot.epoch, (unsigned)from);
}

static void on_complete(void *of, struct cop_sim *sim, cop_id id, uint64_t token,
                        int status, const struct cop_buf *result)
{
    struct state *state = of;
    (void)result;
    for (uint32_t i = 0; i < state->count; i++) {
        struct sent *letter = &state->sent[i];
        if (letter->token != token || letter->from != id ||
            letter->life != cop__sim_incarnation(sim, id))
            continue;
        if (status == 0 && !letter->delivered)
            cop_sim_fail(sim, "M5",
                         "letter %llu of %u was not delivered, but is said so",
                         (unsigned long long)token, (unsigned)id);
        letter->acknowledged = true;
    }
}

/* Where detectors look on it is never quiet: then whoever agrees with its addressee on a view of the
 * living, or has one without it, must have heard. */
static bool may_demand(const struct cop_sim *sim, const struct sent *letter)
{
    const struct cop_node *from = cop_sim_node(sim, letter->from);
    const struct cop_node *to = cop_sim_node(sim, letter->to);
    if (cop_sim_is_quiet(sim))
        return true;
    if (!cop_sim_is_settled(sim) || !cop_node_is_member(from) ||
        cop_node_is_degraded(from))
        return false;
    const struct cop_view *view = cop_node_view(from);
    if (cop_view_rank(view, letter->to) == COP_RANK_NONE)
        return true;
    return to && cop_node_is_member(to) &&
           cop_view_digest(cop_node_view(to)) == cop_view_digest(view);
}

/* When faults are over, every letter of one who lives has been answered for. */
static void at_quiescence(void *of, struct cop_sim *sim)
{
    struct state *state = of;
    for (uint32_t i = 0; i < state->count; i++) {
        const struct sent *letter = &state->sent[i];
        if (cop_sim_is_alive(sim, letter->from) &&
            cop__sim_incarnation(sim, letter->from) == letter->life &&
            !letter->acknowledged && may_demand(sim, letter))
            cop_sim_fail(sim, "M5", "letter %llu of %u is never answered for",
                         (unsigned long long)letter->token, (unsigned)letter->from);
    }
}

const struct cop_sim_checker *cop_sim_checker_letter(void)
{
    static const struct cop_sim_checker checker = {
        .name = "letter",
        .is_concerned = cop__sim_has_views,
        .init = init,
        .on_submit = on_submit,
        .on_view = on_view,
        .on_deliver = on_deliver,
        .on_complete = on_complete,
        .at_quiescence = at_quiescence,
        .fini = fini,
    };
    return &checker;
}
