/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world.h"

#include "wire/codec.h"

#include <stdlib.h>
#include <string.h>

/*
 * What collectives promise, seen from outside. B is a broadcast submitted by a node that lives
 * until B completes.
 *
 *   C1  A member runs B at most once in a life. With HEAL everyone who is not named as failed
 *       ran it; who lives, was not hindered and was not lied about is not named as lost or
 *       silent. Whoever is said to have been refused was refused where that is said.
 *   C2  The answer names everyone of the group once, or counts it; and what was combined is
 *       the sum over exactly those that are counted.
 *   C3  B completes, once, in its time. Upcalls come in order; who got RUN gets DONE and SENT,
 *       or nothing more after it said so.
 *       When all is over no call is left anywhere.
 */
#define NAME "coll"
#define GENEROUS_NS (5 * COP_SEC)
#define SLACK_NS (50 * COP_MSEC)
#define LATE                                                                           \
    (COP_SIM_NEVER_REPLIES | COP_SIM_UNREGISTERS | COP_SIM_REPLIES_LATE |              \
     COP_SIM_SINK_STOPS)

struct group {
    cop_id node;
    cop_time born;
    uint64_t number;
    uint8_t *has; /* by id */
    uint32_t size;
};

struct cast {
    cop_id node;
    cop_time born; /* of the life that submitted it */
    uint64_t token;
    cop_time submitted, timeout_ns;
    uint32_t flags, mischief;
    uint32_t group;               /* index plus 1; 0: everybody */
    bool settled, aborted, other; /* other: not a broadcast */
    uint32_t completed;
};

enum stage { STAGE_CHECK = 1, STAGE_RUN, STAGE_DONE, STAGE_SENT };

/* One call at one life of a member. */
struct run {
    cop_id node;
    cop_time born;
    uint64_t handle;
    cop_id root;
    uint64_t token;
    enum stage stage;
};

struct gone {
    cop_id node;
    cop_time born;
};

struct state {
    struct group *groups;
    struct cast *casts;
    struct run *runs;
    struct gone *gone; /* lives without their service */
    uint32_t group_count, cast_count, run_count, gone_count;
    uint32_t group_capacity, cast_capacity, run_capacity, gone_capacity;
    uint8_t *marks;
};

/* ---- memory ---------------------------------------------------------------------- */

static void *init(struct cop_sim *sim)
{
    struct state *state = calloc(1, sizeof(*state));
    uint8_t *marks = calloc(cop_sim_nodes(sim), 1);
    if (!state || !marks) {
        free(state);
        free(marks);
        return NULL;
    }
    state->marks = marks;
    return state;
}

static void fini(void *of)
{
    struct state *state = of;
    for (uint32_t i = 0; i < state->group_count; i++)
        free(state->groups[i].has);
    free(state->groups);
    free(state->casts);
    free(state->runs);
    free(state->gone);
    free(state->marks);
    free(state);
}

static struct cast *find_cast(struct state *state, struct cop_sim *sim, cop_id node,
                              uint64_t token)
{
    for (uint32_t i = state->cast_count; i-- > 0;) {
        struct cast *cast = &state->casts[i];
        if (cast->node == node && cast->token == token &&
            cast->born == cop_sim_born_at(sim, node))
            return cast;
    }
    return NULL;
}

static struct run *find_run(struct state *state, struct cop_sim *sim, cop_id node,
                            uint64_t handle)
{
    for (uint32_t i = state->run_count; i-- > 0;) {
        struct run *run = &state->runs[i];
        if (run->node == node && run->handle == handle &&
            run->born == cop_sim_born_at(sim, node))
            return run;
    }
    return NULL;
}

/* How often this was run at a member; in one life, or (NEVER) in any. */
static uint32_t count_runs(const struct state *state, cop_id node, cop_id root,
                           uint64_t token, cop_time born)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < state->run_count; i++) {
        const struct run *run = &state->runs[i];
        count += run->node == node && run->root == root && run->token == token &&
                 run->stage >= STAGE_RUN &&
                 (born == COP_TIME_NEVER || run->born == born);
    }
    return count;
}

/* ---- what is submitted ----------------------------------------------------------- */

static void note_group(struct state *state, struct cop_sim *sim, cop_id node,
                       const struct cop_coll *coll)
{
    struct group *group =
        cop__sim_grow(sim, (void **)&state->groups, &state->group_count,
                      &state->group_capacity, sizeof(*group));
    if (!group)
        return;
    *group = (struct group){.node = node,
                            .born = cop_sim_born_at(sim, node),
                            .number = coll->group,
                            .has = calloc(cop_sim_nodes(sim), 1),
                            .size = coll->target_count};
    for (uint32_t i = 0; group->has && i < coll->target_count; i++)
        group->has[coll->targets[i].node] = 1;
}

static uint32_t group_of(const struct state *state, struct cop_sim *sim, cop_id node,
                         uint64_t number)
{
    for (uint32_t i = state->group_count; i > 0 && number != COP_GROUP_ALL; i--) {
        const struct group *group = &state->groups[i - 1];
        if (group->node == node && group->number == number &&
            group->born == cop_sim_born_at(sim, node))
            return i;
    }
    return 0;
}

/* Whom a call over the view is about: who is in that of its root now, whatever comes later. Its number
 * among the groups, + 1; 0: everybody there is, or there is no memory. */
static uint32_t note_view(struct state *state, struct cop_sim *sim, cop_id node)
{
    const struct cop_view *view = cop_node_view(cop_sim_node(sim, node));
    uint8_t *has = calloc(cop_sim_nodes(sim), 1);
    struct group *made =
        has ? cop__sim_grow(sim, (void **)&state->groups, &state->group_count,
                            &state->group_capacity, sizeof(*made))
            : NULL;
    if (!made) {
        free(has);
        return 0;
    }
    *made = (struct group){
        .node = node, .born = UINT64_MAX, .has = has, .size = cop_view_size(view)};
    for (cop_id id = cop_view_next(view, COP_ID_NONE); id != COP_ID_NONE;
         id = cop_view_next(view, id))
        has[id] = 1;
    return state->group_count;
}

static void note_cast(struct state *state, struct cop_sim *sim, cop_id node,
                      const struct cop_request *request)
{
    const struct cop_coll *coll = request->coll;
    struct cop__job job = {0};
    bool is_of_view = cop__sim_has_views(sim) && coll->group == COP_GROUP_ALL &&
                      request->kind == COP_REQUEST_BCAST;
    struct cast *cast = cop__sim_grow(sim, (void **)&state->casts, &state->cast_count,
                                      &state->cast_capacity, sizeof(*cast));
    if (!cast)
        return;
    if (request->kind == COP_REQUEST_BCAST)
        cop__service_job(request->bytes, request->length, &job);
    *cast = (struct cast){
        .node = node,
        .born = cop_sim_born_at(sim, node),
        .token = request->token,
        .submitted = cop_sim_now(sim),
        .timeout_ns = request->timeout_ns,
        .flags = coll->flags,
        .mischief = job.mischief,
        .group = is_of_view ? note_view(state, sim, node)
                            : group_of(state, sim, node, coll->group),
        .settled = cop_sim_is_settled(sim),
        .other = request->kind != COP_REQUEST_BCAST,
    };
}

/* It completes, too, and nothing more is known of it here. */
static void note_other(struct state *state, struct cop_sim *sim, cop_id node,
                       uint64_t token)
{
    struct cast *cast = cop__sim_grow(sim, (void **)&state->casts, &state->cast_count,
                                      &state->cast_capacity, sizeof(*cast));
    if (cast)
        *cast = (struct cast){.node = node,
                              .born = cop_sim_born_at(sim, node),
                              .token = token,
                              .other = true};
}

/* What a service may hear when it answers. */
static void check_answer(struct cop_sim *sim, cop_id node,
                         const struct cop_request *request, int status)
{
    bool answers =
        request->kind == COP_REQUEST_CHECKED || request->kind == COP_REQUEST_REPLY;
    if (answers && status != 0 && status != COP_ENOENT && status != COP_ESTATE)
        cop_sim_fail(sim, NAME, "the service of %u answers, and hears %s",
                     (unsigned)node, cop_error_name(status));
}

/* It is over for its service: whatever comes after this is out of order. */
static void note_silent(struct state *state, struct cop_sim *sim, cop_id node,
                        uint64_t handle)
{
    struct run *run = find_run(state, sim, node, handle);
    if (run)
        run->stage = STAGE_SENT;
}

static void on_submit(void *of, struct cop_sim *sim, cop_id node,
                      const struct cop_request *request, int status)
{
    struct state *state = of;
    check_answer(sim, node, request, status);
    if (request->kind == COP_REQUEST_REPLY && status == 0 && request->coll->silent)
        note_silent(state, sim, node, request->coll->handle);
    if (request->kind == COP_REQUEST_ABORT && status == 0) {
        struct cast *target = find_cast(state, sim, node, request->target);
        if (target)
            target->aborted = true;
    }
    if (request->kind == COP_REQUEST_UNSERVICE && status == 0) {
        struct gone *gone =
            cop__sim_grow(sim, (void **)&state->gone, &state->gone_count,
                          &state->gone_capacity, sizeof(*gone));
        if (gone)
            *gone = (struct gone){node, cop_sim_born_at(sim, node)};
    }
    if (status != 0)
        return;
    if (request->kind == COP_REQUEST_REPORT)
        note_other(state, sim, node, request->token);
    if (request->kind == COP_REQUEST_GROUP)
        note_group(state, sim, node, request->coll);
    if (request->kind == COP_REQUEST_GROUP || request->kind == COP_REQUEST_GROUP_END ||
        request->kind == COP_REQUEST_BCAST)
        note_cast(state, sim, node, request);
}

/* ---- upcalls --------------------------------------------------------------------- */

static void begin_run(struct state *state, struct cop_sim *sim, cop_id node,
                      const struct cop_upcall *upcall)
{
    struct cop__job job;
    if (!cop__service_job(upcall->bytes, upcall->length, &job)) {
        cop_sim_fail(sim, NAME, "%u was given a request that nobody made",
                     (unsigned)node);
        return;
    }
    struct run *run = cop__sim_grow(sim, (void **)&state->runs, &state->run_count,
                                    &state->run_capacity, sizeof(*run));
    if (!run)
        return;
    *run = (struct run){node,           cop_sim_born_at(sim, node),
                        upcall->handle, job.root,
                        job.token,      STAGE_CHECK};
    if (job.root != upcall->root)
        cop_sim_fail(sim, NAME, "%u is told that %u broadcasts, but it is %u",
                     (unsigned)node, (unsigned)upcall->root, (unsigned)job.root);
}

static void check_run(struct state *state, struct cop_sim *sim, const struct run *run)
{
    if (count_runs(state, run->node, run->root, run->token, run->born) > 1)
        cop_sim_fail(sim, NAME, "%u runs %llu of %u twice", (unsigned)run->node,
                     (unsigned long long)run->token, (unsigned)run->root);
}

static void on_upcall(void *of, struct cop_sim *sim, cop_id node,
                      const struct cop_upcall *upcall)
{
    static const enum stage before[] = {
        [COP_UPCALL_CHECK] = STAGE_CHECK, [COP_UPCALL_RUN] = STAGE_CHECK,
        [COP_UPCALL_REPLY] = STAGE_RUN,   [COP_UPCALL_DONE] = STAGE_RUN,
        [COP_UPCALL_SENT] = STAGE_DONE,
    };
    static const enum stage after[] = {
        [COP_UPCALL_CHECK] = STAGE_CHECK, [COP_UPCALL_RUN] = STAGE_RUN,
        [COP_UPCALL_REPLY] = STAGE_RUN,   [COP_UPCALL_DONE] = STAGE_DONE,
        [COP_UPCALL_SENT] = STAGE_SENT,
    };
    struct state *state = of;
    if (upcall->kind == COP_UPCALL_RESOLVE || upcall->kind == COP_UPCALL_PIECE ||
        upcall->kind == COP_UPCALL_WANT)
        return; /* of bulk check_bulk.c knows */
    struct run *run = find_run(state, sim, node, upcall->handle);
    bool first =
        upcall->kind == COP_UPCALL_CHECK || (upcall->kind == COP_UPCALL_RUN && !run);
    if (first && !run) {
        begin_run(state, sim, node, upcall);
        run = find_run(state, sim, node, upcall->handle);
    } else if (first) {
        cop_sim_fail(sim, NAME, "%u is asked twice whether to run", (unsigned)node);
    }
    if (!run || run->stage != before[upcall->kind]) {
        cop_sim_fail(sim, NAME, "upcall %u of %u comes out of order",
                     (unsigned)upcall->kind, (unsigned)node);
        return;
    }
    run->stage = after[upcall->kind];
    if (upcall->kind == COP_UPCALL_RUN)
        check_run(state, sim, run);
}

/* ---- answers --------------------------------------------------------------------- */

static bool is_in(const struct state *state, const struct cop_sim *sim,
                  const struct cast *cast, cop_id id)
{
    if (id >= cop_sim_nodes(sim))
        return false;
    return cast->group == 0 || state->groups[cast->group - 1].has[id];
}

static uint32_t size_of(const struct state *state, const struct cop_sim *sim,
                        const struct cast *cast)
{
    return cast->group ? state->groups[cast->group - 1].size : cop_sim_nodes(sim);
}

/* C2: a partition. */
static bool mark_failures(struct state *state, struct cop_sim *sim,
                          const struct cast *cast,
                          const struct cop_bcast_result *result)
{
    unsigned long long token = cast->token;
    uint32_t size = size_of(state, sim, cast);
    bool part = (cast->flags & COP_BCAST_ALIVE) != 0;
    memset(state->marks, 0, cop_sim_nodes(sim));
    for (uint32_t i = 0; i < result->failure_count; i++) {
        cop_id id = result->failures[i].node;
        if (!is_in(state, sim, cast, id) || state->marks[id]) {
            cop_sim_fail(sim, NAME, "%llu names %u twice, or it is not in the group",
                         token, (unsigned)id);
            return false;
        }
        state->marks[id] = 1;
    }
    if (result->answered + result->failure_count != result->members ||
        (part ? result->members > size : result->members != size)) {
        cop_sim_fail(sim, NAME, "%llu: %u answered and %u failed are not %u", token,
                     (unsigned)result->answered, (unsigned)result->failure_count,
                     (unsigned)size);
        return false;
    }
    return true;
}

/* Without HEAL a service that fails takes with it what it should have combined. */
static bool sum_is_lost(const struct cast *cast, const struct cop_bcast_result *result)
{
    bool heal = (cast->flags & COP_BCAST_HEAL) != 0;
    for (uint32_t i = 0; i < result->failure_count && !heal; i++)
        if (result->failures[i].phase == COP_PHASE_RUN ||
            result->failures[i].phase == COP_PHASE_BULK ||
            result->failures[i].phase == COP_PHASE_SERVICE)
            return true;
    return false;
}

/* C2: what was combined is of exactly those that are counted. */
static void check_sum(struct state *state, struct cop_sim *sim, const struct cast *cast,
                      const struct cop_bcast_result *result)
{
    uint64_t sum = 0, got = 0;
    if (result->members != size_of(state, sim, cast) || sum_is_lost(cast, result))
        return;
    for (cop_id id = 0; id < cop_sim_nodes(sim); id++)
        if (is_in(state, sim, cast, id) && !state->marks[id])
            sum += cop_probe_fingerprint(id);
    if (result->length == 8) {
        struct cop__reader reader = cop__reader(result->bytes, 8);
        got = cop__get_u64(&reader);
    }
    if (got != sum)
        cop_sim_fail(sim, NAME, "%llu: the sum is not that of those who answered",
                     (unsigned long long)cast->token);
}

static bool never_crashed(const struct cop_sim *sim, cop_id id)
{
    return cop_sim_died_at(sim, id) == COP_TIME_NEVER;
}

/* C1: who is named, and why. */
static void check_failure(struct cop_sim *sim, const struct cast *cast,
                          const struct cop_failure *failure)
{
    cop_id id = failure->node;
    unsigned long long token = cast->token;
    struct cop__job job = {cast->token, cast->node, cast->mischief, true};
    bool heal = (cast->flags & COP_BCAST_HEAL) != 0;
    bool blameless = never_crashed(sim, id) && never_crashed(sim, failure->at) &&
                     !cop_sim_was_lied_to(sim);
    if (failure->status == COP_ELOST && blameless)
        cop_sim_fail(sim, NAME, "%llu calls %u lost, which never crashed", token,
                     (unsigned)id);
    if (failure->status == COP_ETIMEDOUT && blameless && !cop_sim_was_disturbed(sim) &&
        (!heal || cast->timeout_ns >= GENEROUS_NS) && !(cast->mischief & LATE))
        cop_sim_fail(sim, NAME, "%llu calls %u silent, which nothing hindered", token,
                     (unsigned)id);
    if (failure->phase == COP_PHASE_CHECK && failure->status == COP_EREFUSED &&
        !cop__service_errs(sim, &job, failure->at, COP_SIM_REFUSES))
        cop_sim_fail(sim, NAME, "%llu: %u did not refuse", token,
                     (unsigned)failure->at);
    /* Who has another view does not know a plain call over that of its root. */
    if (failure->phase == COP_PHASE_GROUP && blameless && !cop__sim_has_views(sim))
        cop_sim_fail(sim, NAME, "%llu: %u does not know the group, and never crashed",
                     token, (unsigned)id);
    if (failure->phase == COP_PHASE_GROUP && heal && !(cast->flags & COP_BCAST_ALIVE))
        cop_sim_fail(sim, NAME, "%llu: nobody told %u of the group", token,
                     (unsigned)id);
    if (failure->phase == COP_PHASE_RUN && failure->status == COP_EIO &&
        !cop__service_errs(sim, &job, id, COP_SIM_REPLIES_ERROR))
        cop_sim_fail(sim, NAME, "%llu: %u did not fail", token, (unsigned)id);
}

/* C1 for those that are counted, and after all is settled for everyone. */
static void check_members(struct state *state, struct cop_sim *sim,
                          const struct cast *cast,
                          const struct cop_bcast_result *result)
{
    bool all = result->members == size_of(state, sim, cast);
    for (cop_id id = 0; id < cop_sim_nodes(sim); id++) {
        if (!is_in(state, sim, cast, id))
            continue;
        if (all && !state->marks[id] &&
            count_runs(state, id, cast->node, cast->token, COP_TIME_NEVER) == 0)
            cop_sim_fail(sim, NAME, "%llu counts %u, which never ran it",
                         (unsigned long long)cast->token, (unsigned)id);
        if (cast->settled && cop_sim_is_alive(sim, id) == (state->marks[id] != 0) &&
            state->gone_count == 0)
            cop_sim_fail(sim, NAME, "%llu, after all was settled, %s %u",
                         (unsigned long long)cast->token,
                         state->marks[id] ? "misses" : "counts", (unsigned)id);
    }
}

static void check_status(struct cop_sim *sim, const struct cast *cast, int status)
{
    unsigned long long token = cast->token;
    cop_time took = cop_sim_now(sim) - cast->submitted;
    if (status != 0 && status != COP_ETIMEDOUT && status != COP_EABORTED)
        cop_sim_fail(sim, NAME, "%llu ended with %s", token, cop_error_name(status));
    if (status == COP_EABORTED && !cast->aborted)
        cop_sim_fail(sim, NAME, "%llu was aborted, but nobody asked for it", token);
    if ((cast->flags & COP_BCAST_HEAL) && cast->timeout_ns &&
        !cop_sim_was_disturbed(sim) && took > cast->timeout_ns + SLACK_NS)
        cop_sim_fail(sim, NAME, "%llu took %llu ns, its timeout was %llu", token,
                     (unsigned long long)took, (unsigned long long)cast->timeout_ns);
}

static void on_complete(void *of, struct cop_sim *sim, cop_id node, uint64_t token,
                        int status, const struct cop_buf *buf)
{
    struct state *state = of;
    struct cop_bcast_result result;
    struct cast *cast = find_cast(state, sim, node, token);
    if (!cast || cast->completed++) {
        cop_sim_fail(sim, NAME, "%llu of %u completed %s", (unsigned long long)token,
                     (unsigned)node, cast ? "twice" : "but was not submitted");
        return;
    }
    if (cast->other)
        return;
    check_status(sim, cast, status);
    if (status == COP_EABORTED)
        return;
    if (!buf || cop_bcast_result(buf, &result) != 0) {
        cop_sim_fail(sim, NAME, "%llu completed without a result",
                     (unsigned long long)token);
        return;
    }
    if (mark_failures(state, sim, cast, &result)) {
        check_sum(state, sim, cast, &result);
        check_members(state, sim, cast, &result);
    }
    for (uint32_t i = 0; i < result.failure_count; i++)
        check_failure(sim, cast, &result.failures[i]);
    cop_bcast_result_free(&result);
}

/* ---- the end --------------------------------------------------------------------- */

static bool lives_on(const struct cop_sim *sim, cop_id node, cop_time born)
{
    return cop_sim_is_alive(sim, node) && cop_sim_born_at(sim, node) == born;
}

static bool has_service(const struct state *state, cop_id node, cop_time born)
{
    for (uint32_t i = 0; i < state->gone_count; i++)
        if (state->gone[i].node == node && state->gone[i].born == born)
            return false;
    return true;
}

static void check_end_of_run(const struct state *state, struct cop_sim *sim,
                             const struct run *run)
{
    enum stage last = run->node == run->root ? STAGE_DONE : STAGE_SENT;
    if (run->stage >= STAGE_RUN && run->stage < last &&
        lives_on(sim, run->node, run->born) && has_service(state, run->node, run->born))
        cop_sim_fail(sim, NAME, "%u got RUN of %llu, and never DONE or SENT",
                     (unsigned)run->node, (unsigned long long)run->token);
}

static void at_quiescence(void *of, struct cop_sim *sim)
{
    struct state *state = of;
    for (uint32_t i = 0; i < state->cast_count; i++) {
        const struct cast *cast = &state->casts[i];
        if (lives_on(sim, cast->node, cast->born) && cast->completed != 1 &&
            !cast->other)
            cop_sim_fail(sim, NAME, "%llu of %u never completed",
                         (unsigned long long)cast->token, (unsigned)cast->node);
    }
    for (uint32_t i = 0; i < state->run_count; i++)
        check_end_of_run(state, sim, &state->runs[i]);
    if (cop_sim_actor(sim) != cop_sim_actor_node())
        return;
    for (cop_id id = 0; id < cop_sim_nodes(sim); id++)
        if (cop_sim_is_alive(sim, id) && cop_node_calls(cop_sim_node(sim, id)) > 0)
            cop_sim_fail(sim, NAME, "%u still keeps calls when all is over",
                         (unsigned)id);
}

static uint64_t digest_of_run(const struct run *run)
{
    struct cop__digest digest;
    cop__digest_init(&digest);
    cop__digest_word(&digest, (uint64_t)run->node << 40 | (uint64_t)run->stage << 32 |
                                  run->handle);
    return cop__digest_value(&digest);
}

/* Which member heard of it first is the same in the end. */
static uint64_t digest(const void *of)
{
    const struct state *state = of;
    struct cop__digest digest;
    uint64_t runs = 0;
    for (uint32_t i = 0; i < state->run_count; i++)
        runs += digest_of_run(&state->runs[i]);
    cop__digest_init(&digest);
    cop__digest_word(&digest, runs);
    for (uint32_t i = 0; i < state->cast_count; i++)
        cop__digest_word(&digest, state->casts[i].completed);
    return cop__digest_value(&digest);
}

const struct cop_sim_checker *cop_sim_checker_coll(void)
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
