/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world.h"

#include <stdlib.h>
#include <string.h>

/*
 * What bulk promises, seen from outside (C4).
 *
 *   A service gets each byte once, in order, and the bytes of the root; never more that it has
 *   not put away than a window. Whoever passed the check, and lives, gets RUN: with status 0
 *   only if it has every byte, and never counts as having answered otherwise. Whoever is said
 *   to have failed by its bulk had a sink that failed, or the root's source did; without HEAL
 *   also one that stood still, or somebody above it died. When nothing is in the way nobody
 *   fails by it.
 */
#define NAME "bulk"

/* The bulk of one call at one life of a member. */
struct flow {
    cop_id node;
    cop_time born;
    uint64_t handle;
    cop_id root;
    uint64_t token, length;
    uint64_t next;    /* byte */
    uint32_t untaken; /* pieces */
    bool passed, failed, ran;
    bool gone;  /* the service is */
    int status; /* of RUN */
};

struct cast {
    cop_id node;
    cop_time born;
    uint64_t token, length;
    uint32_t mischief, flags;
};

struct state {
    struct flow *flows;
    struct cast *casts;
    uint32_t flow_count, flow_capacity, cast_count, cast_capacity;
    bool unregistered; /* some service, for whatever request */
};

static void *init(struct cop_sim *sim)
{
    (void)sim;
    return calloc(1, sizeof(struct state));
}

static void fini(void *of)
{
    struct state *state = of;
    if (!state)
        return;
    free(state->flows);
    free(state->casts);
    free(state);
}

static struct flow *find_flow(struct state *state, const struct cop_sim *sim,
                              cop_id node, uint64_t handle)
{
    for (uint32_t i = state->flow_count; i-- > 0;) {
        struct flow *flow = &state->flows[i];
        if (flow->node == node && flow->handle == handle &&
            flow->born == cop_sim_born_at(sim, node))
            return flow;
    }
    return NULL;
}

static const struct cast *find_cast(const struct state *state,
                                    const struct cop_sim *sim, cop_id node,
                                    uint64_t token)
{
    for (uint32_t i = state->cast_count; i-- > 0;) {
        const struct cast *cast = &state->casts[i];
        if (cast->node == node && cast->token == token &&
            cast->born == cop_sim_born_at(sim, node))
            return cast;
    }
    return NULL;
}

/* A root gives its bytes to others, too, if its own service is too old for the request; of the
 * lowest version none is. */
static bool is_served(cop_id node, const struct cop_upcall *upcall)
{
    return upcall->root == node &&
           (upcall->kind != COP_UPCALL_WANT || upcall->version <= 1);
}

/* The root is not asked: it knows its own token. */
static struct flow *begin(struct state *state, struct cop_sim *sim, cop_id node,
                          const struct cop_upcall *upcall)
{
    struct cop__job job = {upcall->token, upcall->root, 0, true};
    struct flow *flow = find_flow(state, sim, node, upcall->handle);
    if (flow)
        return flow;
    if (upcall->kind == COP_UPCALL_CHECK &&
        !cop__service_job(upcall->bytes, upcall->length, &job))
        return NULL;
    if (upcall->kind != COP_UPCALL_CHECK && upcall->root != node) {
        cop_sim_fail(sim, NAME, "%u is given bulk of a call that it has not checked",
                     (unsigned)node);
        return NULL;
    }
    flow = cop__sim_grow(sim, (void **)&state->flows, &state->flow_count,
                         &state->flow_capacity, sizeof(*flow));
    if (flow)
        *flow = (struct flow){.node = node,
                              .born = cop_sim_born_at(sim, node),
                              .handle = upcall->handle,
                              .root = job.root,
                              .token = job.token,
                              .length = upcall->bulk_length,
                              .passed = is_served(node, upcall)};
    return flow;
}

static void take_piece(struct cop_sim *sim, struct flow *flow,
                       const struct cop_upcall *upcall)
{
    unsigned node = (unsigned)flow->node;
    if (flow->ran || flow->failed || !flow->passed)
        cop_sim_fail(sim, NAME, "%u is given a piece that it does not want", node);
    if (upcall->offset != flow->next || !upcall->bytes)
        cop_sim_fail(sim, NAME, "%u is given bytes at %llu, but the next is %llu", node,
                     (unsigned long long)upcall->offset,
                     (unsigned long long)flow->next);
    for (uint32_t i = 0; i < upcall->length && upcall->bytes; i++) {
        if (upcall->bytes[i] == cop__bulk_byte(flow->root, flow->token, flow->next + i))
            continue;
        cop_sim_fail(sim, NAME, "%u is given a byte that is not the root's", node);
        break;
    }
    flow->next += upcall->length;
    if (++flow->untaken > COP_BULK_WINDOW)
        cop_sim_fail(sim, NAME, "%u is given more than a window at once", node);
}

static void take_run(struct cop_sim *sim, struct flow *flow, int status)
{
    flow->ran = true;
    flow->status = status;
    if (status == 0 && (flow->next != flow->length || flow->untaken > 0))
        cop_sim_fail(sim, NAME, "%u runs with %llu of %llu bytes", (unsigned)flow->node,
                     (unsigned long long)flow->next, (unsigned long long)flow->length);
    if (status == COP_EMALFORMED)
        cop_sim_fail(sim, NAME, "%u has bytes with another digest",
                     (unsigned)flow->node);
}

static void on_upcall(void *of, struct cop_sim *sim, cop_id node,
                      const struct cop_upcall *upcall)
{
    struct state *state = of;
    if (upcall->kind == COP_UPCALL_RESOLVE || !(upcall->flags & COP_BCAST_BULK))
        return;
    struct flow *flow = begin(state, sim, node, upcall);
    if (!flow)
        return;
    flow->passed |= is_served(node, upcall);
    if (upcall->kind == COP_UPCALL_PIECE)
        take_piece(sim, flow, upcall);
    else if (upcall->kind == COP_UPCALL_RUN)
        take_run(sim, flow, upcall->status);
}

static void on_submit(void *of, struct cop_sim *sim, cop_id node,
                      const struct cop_request *request, int status)
{
    struct state *state = of;
    const struct cop_coll *coll = request->coll;
    if (status != 0 || !coll)
        return;
    state->unregistered |= request->kind == COP_REQUEST_UNSERVICE;
    for (uint32_t i = 0;
         i < state->flow_count && request->kind == COP_REQUEST_UNSERVICE; i++)
        state->flows[i].gone |= state->flows[i].node == node;
    struct flow *flow = find_flow(state, sim, node, coll->handle);
    if (request->kind == COP_REQUEST_CHECKED && flow)
        flow->passed = coll->status == 0;
    if (request->kind == COP_REQUEST_TAKEN && flow) {
        flow->untaken--;
        flow->failed |= coll->status != 0;
    }
    if (request->kind != COP_REQUEST_BCAST || !(coll->flags & COP_BCAST_BULK))
        return;
    struct cop__job job = {0};
    cop__service_job(request->bytes, request->length, &job);
    struct cast *cast = cop__sim_grow(sim, (void **)&state->casts, &state->cast_count,
                                      &state->cast_capacity, sizeof(*cast));
    if (cast)
        *cast = (struct cast){node,           cop_sim_born_at(sim, node),
                              request->token, coll->bulk_length,
                              job.mischief,   coll->flags};
}

/* ---- the answer ------------------------------------------------------------------ */

static bool has_it(const struct state *state, const struct cast *cast, cop_id node)
{
    for (uint32_t i = 0; i < state->flow_count; i++) {
        const struct flow *flow = &state->flows[i];
        if (flow->node == node && flow->root == cast->node &&
            flow->token == cast->token && flow->ran && flow->status == 0)
            return true;
    }
    return false;
}

/* Without HEAL whoever is above is needed, and each has its time. */
static bool is_excused(const struct cop_sim *sim, const struct cast *cast,
                       const struct cop_failure *failure)
{
    if (cast->flags & COP_BCAST_HEAL)
        return false;
    if (failure->status == COP_ELOST)
        return cop_sim_was_lied_to(sim) || cop_sim_was_disturbed(sim) ||
               cop_sim_died_at(sim, failure->at) != COP_TIME_NEVER;
    return failure->status == COP_ETIMEDOUT &&
           ((cast->mischief & COP_SIM_SINK_STOPS) || cop_sim_was_disturbed(sim));
}

static void check_failure(const struct state *state, struct cop_sim *sim,
                          const struct cast *cast, const struct cop_failure *failure)
{
    struct cop__job job = {cast->token, cast->node, cast->mischief, true};
    bool source = failure->at == cast->node && failure->node != cast->node;
    if (failure->phase != COP_PHASE_BULK)
        return;
    if ((failure->status == COP_ENOENT && state->unregistered) ||
        is_excused(sim, cast, failure))
        return;
    if (failure->status != COP_EIO ||
        !(cop__service_errs(sim, &job, cast->node, COP_SIM_SOURCE_FAILS) ||
          (!source && cop__service_errs(sim, &job, failure->node, COP_SIM_SINK_FAILS))))
        cop_sim_fail(sim, NAME, "%llu: the bulk failed at %u, and nobody is to blame",
                     (unsigned long long)cast->token, (unsigned)failure->node);
}

static bool is_named(const struct cop_bcast_result *result, cop_id id)
{
    for (uint32_t i = 0; i < result->failure_count; i++)
        if (result->failures[i].node == id)
            return true;
    return false;
}

/* Whoever is not named ran, says C1; here, that it ran with all bytes. */
static void on_complete(void *of, struct cop_sim *sim, cop_id node, uint64_t token,
                        int status, const struct cop_buf *buf)
{
    struct state *state = of;
    struct cop_bcast_result result;
    const struct cast *cast = find_cast(state, sim, node, token);
    if (!cast || status == COP_EABORTED || !buf || cop_bcast_result(buf, &result) != 0)
        return;
    uint32_t have = 0;
    /* STRICT ends it all, and says nothing of anybody. */
    if (status == COP_EVERSION && result.members == 0)
        return;
    for (cop_id id = 0; id < cop_sim_nodes(sim); id++)
        have += has_it(state, cast, id) && !is_named(&result, id);
    if (have != result.answered)
        cop_sim_fail(sim, NAME, "%llu: %u answered, but %u of them have the bytes",
                     (unsigned long long)token, (unsigned)result.answered,
                     (unsigned)have);
    for (uint32_t i = 0; i < result.failure_count; i++)
        check_failure(state, sim, cast, &result.failures[i]);
    cop_bcast_result_free(&result);
}

static void at_quiescence(void *of, struct cop_sim *sim)
{
    const struct state *state = of;
    for (uint32_t i = 0; i < state->flow_count; i++) {
        const struct flow *flow = &state->flows[i];
        bool lives = cop_sim_is_alive(sim, flow->node) &&
                     cop_sim_born_at(sim, flow->node) == flow->born;
        if (lives && flow->passed && !flow->ran && !flow->gone)
            cop_sim_fail(sim, NAME, "%u was given bulk, and never RUN",
                         (unsigned)flow->node);
    }
}

static uint64_t digest(const void *of)
{
    const struct state *state = of;
    struct cop__digest digest;
    cop__digest_init(&digest);
    for (uint32_t i = 0; i < state->flow_count; i++) {
        cop__digest_word(&digest, state->flows[i].next);
        cop__digest_word(&digest, (uint64_t)state->flows[i].untaken << 8 |
                                      (uint64_t)state->flows[i].failed << 1 |
                                      state->flows[i].ran);
    }
    return cop__digest_value(&digest);
}

const struct cop_sim_checker *cop__bulk_checker(void)
{
    static const struct cop_sim_checker checker = {
        .name = NAME,
        .init = init,
        .on_submit = on_submit,
        .on_complete = on_complete,
        .on_upcall = on_upcall,
        .at_quiescence = at_quiescence,
        .fini = fini,
        .digest = digest,
    };
    return &checker;
}
