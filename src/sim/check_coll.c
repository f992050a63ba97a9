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
 *       silent. Whoever is said to have been refused was refused where that is said; who is
 *       said to have no service, or too old a one, had none, or such a one, meanwhile. Where
 *       views change B is about those who were in the view of its root when it began, and
 *       nobody may begin one who is not in its own view.
 *   C2  The answer names everyone of the group once, or counts it; and what was combined is
 *       the sum over exactly those that are counted. With STRICT one whose version is too
 *       low, and nothing else, ends it all.
 *   C3  B completes, once, in its time. Upcalls come in order; who got RUN gets DONE and SENT,
 *       or nothing more after it said so, or was unregistered: who is registered in its
 *       place hears of nothing that was begun before.
 *       When all is over no call is left anywhere.
 */
#define NAME "coll"
#define GENEROUS_NS (5 * COP_SEC)
#define SLACK_NS (50 * COP_MSEC)
#define LATE                                                                           \
    (COP_SIM_NEVER_REPLIES | COP_SIM_UNREGISTERS | COP_SIM_REPLIES_LATE |              \
     COP_SIM_SINK_STOPS | COP_SIM_RESOLVES_WRONG)

struct group {
    cop_id node;
    cop_time born;
    uint64_t number;
    uint8_t *has; /* by id */
    uint32_t size;
    bool oob;
};

struct cast {
    cop_id node;
    cop_time born; /* of the life that submitted it */
    uint64_t token;
    cop_time submitted, timeout_ns;
    uint32_t flags, mischief, version;
    uint32_t group;               /* index plus 1; 0: everybody */
    struct cop_ballot ballot;     /* where views change: of its root's, when it began */
    bool settled, aborted, other; /* other: not a broadcast */
    bool foreign;                 /* nor anything of collectives */
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
    bool gone; /* the service to which it was given is */
};

/* From then on a life has a service of this version; 0: none. Each begins with 1. */
struct tenure {
    cop_id node;
    cop_time born, from;
    uint32_t version;
};

struct state {
    struct group *groups;
    struct cast *casts;
    struct run *runs;
    struct tenure *tenures; /* in the order in which they began */
    uint32_t group_count, cast_count, run_count, tenure_count;
    uint32_t group_capacity, cast_capacity, run_capacity, tenure_capacity;
    uint8_t *marks;
    cop_time *viewed; /* by id: when it last installed a view */
};

/* ---- memory ---------------------------------------------------------------------- */

static void *init(struct cop_sim *sim)
{
    struct state *state = calloc(1, sizeof(*state));
    uint8_t *marks = calloc(cop_sim_nodes(sim), 1);
    cop_time *viewed = calloc(cop_sim_nodes(sim), sizeof(*viewed));
    if (!state || !marks || !viewed) {
        free(state);
        free(marks);
        free(viewed);
        return NULL;
    }
    state->marks = marks;
    state->viewed = viewed;
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
    free(state->tenures);
    free(state->marks);
    free(state->viewed);
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

/* ---- services -------------------------------------------------------------------- */

#define FIRST_VERSION 1u

/* Of the one that a living member has now; 0: it has none. */
static uint32_t version_now(const struct state *state, const struct cop_sim *sim,
                            cop_id node)
{
    uint32_t version = FIRST_VERSION;
    for (uint32_t i = 0; i < state->tenure_count; i++)
        if (state->tenures[i].node == node &&
            state->tenures[i].born == cop_sim_born_at(sim, node))
            version = state->tenures[i].version;
    return version;
}

/* The lowest that a member may have had since then, in any life; 0: it had none for a while. */
static uint32_t lowest_since(const struct state *state, const struct cop_sim *sim,
                             cop_id node, cop_time since)
{
    cop_time born = cop_sim_born_at(sim, node);
    uint32_t then = FIRST_VERSION, lowest = UINT32_MAX;
    for (uint32_t i = 0; i < state->tenure_count; i++) {
        const struct tenure *tenure = &state->tenures[i];
        if (tenure->node != node)
            continue;
        if (tenure->from >= since && tenure->version < lowest)
            lowest = tenure->version;
        if (tenure->from < since && (tenure->born == born || born > since))
            then = tenure->version;
    }
    if (born > since && then > FIRST_VERSION)
        then = FIRST_VERSION;
    return then < lowest ? then : lowest;
}

/* What was begun goes with its service, whoever comes in its place. */
static void note_service(struct state *state, struct cop_sim *sim, cop_id node,
                         const struct cop_request *request)
{
    bool goes = request->kind == COP_REQUEST_UNSERVICE;
    struct tenure *tenure =
        cop__sim_grow(sim, (void **)&state->tenures, &state->tenure_count,
                      &state->tenure_capacity, sizeof(*tenure));
    if (tenure)
        *tenure = (struct tenure){node, cop_sim_born_at(sim, node), cop_sim_now(sim),
                                  goes ? 0 : request->coll->service.version};
    for (uint32_t i = 0; i < state->run_count && goes; i++)
        state->runs[i].gone |= state->runs[i].node == node &&
                               state->runs[i].born == cop_sim_born_at(sim, node);
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
                            .size = coll->target_count,
                            .oob = coll->kind == COP_GROUP_OOB};
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
        .version = coll->version,
        .group = is_of_view ? note_view(state, sim, node)
                            : group_of(state, sim, node, coll->group),
        .settled = cop_sim_is_settled(sim),
        .other = request->kind != COP_REQUEST_BCAST,
    };
    if (cop__sim_has_views(sim))
        cast->ballot = cop_view_ballot(cop_node_view(cop_sim_node(sim, node)));
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
                              .other = true,
                              .foreign = true};
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

/* Who is in no view has no place in any tree, and who is in one has. */
static void check_caller(struct cop_sim *sim, cop_id node,
                         const struct cop_request *request, int status)
{
    if (!cop__sim_has_views(sim) || request->kind != COP_REQUEST_BCAST)
        return;
    bool inside = cop_view_has(cop_node_view(cop_sim_node(sim, node)), node,
                               cop__sim_incarnation(sim, node));
    if (status == 0 && !inside)
        cop_sim_fail(sim, NAME, "%u calls, and is in no view", (unsigned)node);
    if (status == COP_ESTATE && inside && request->coll->group == COP_GROUP_ALL)
        cop_sim_fail(sim, NAME, "%u is in its view, and may not call", (unsigned)node);
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
    check_caller(sim, node, request, status);
    if (request->kind == COP_REQUEST_REPLY && status == 0 && request->coll->silent)
        note_silent(state, sim, node, request->coll->handle);
    if (request->kind == COP_REQUEST_ABORT && status == 0) {
        struct cast *target = find_cast(state, sim, node, request->target);
        if (target)
            target->aborted = true;
    }
    if (status != 0)
        return;
    if (request->kind == COP_REQUEST_SERVICE || request->kind == COP_REQUEST_UNSERVICE)
        note_service(state, sim, node, request);
    if (!request->coll && request->kind != COP_REQUEST_ABORT)
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
                        job.token,      STAGE_CHECK,
                        false};
    /* At a root with bulk this is not the beginning: it may have another one by now. */
    if (upcall->version > version_now(state, sim, node) &&
        (upcall->kind == COP_UPCALL_CHECK || !(upcall->flags & COP_BCAST_BULK)))
        cop_sim_fail(sim, NAME, "%u is asked for version %u, and does not have it",
                     (unsigned)node, (unsigned)upcall->version);
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
    struct run *run = find_run(state, sim, node, upcall->handle);
    if (version_now(state, sim, node) == 0 || (run && run->gone))
        cop_sim_fail(sim, NAME, "%u hears of what %s", (unsigned)node,
                     run ? "the service before it had begun" : "it has no service for");
    if (upcall->kind == COP_UPCALL_RESOLVE || upcall->kind == COP_UPCALL_PIECE ||
        upcall->kind == COP_UPCALL_WANT)
        return; /* of bulk check_bulk.c knows */
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

/* Without HEAL a service that fails, or is not asked, takes with it what it should have combined. */
static bool sum_is_lost(const struct cast *cast, const struct cop_bcast_result *result)
{
    bool heal = (cast->flags & COP_BCAST_HEAL) != 0;
    for (uint32_t i = 0; i < result->failure_count && !heal; i++)
        if (result->failures[i].phase == COP_PHASE_RUN ||
            result->failures[i].phase == COP_PHASE_BULK ||
            result->failures[i].phase == COP_PHASE_VERSION ||
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

/* Where views change: whether it is dead, or in the same one as the root. */
static bool is_together(const struct cop_sim *sim, const struct cast *cast, cop_id id)
{
    const struct cop_node *node = cop_sim_node(sim, id);
    const struct cop_view *view = cop_node_view(cop_sim_node(sim, cast->node));
    if (!node || !cop__sim_has_views(sim))
        return true;
    struct cop_ballot mine = cop_view_ballot(cop_node_view(node));
    struct cop_ballot its = cop_view_ballot(view);
    return cop_ballot_compare(&mine, &its) == 0 &&
           cop_view_has(view, id, cop__sim_incarnation(sim, id));
}

/* D7: where others have to confirm it, who hears nobody accuses nobody: its calls take all the
 * time that they have. */
static bool is_at_a_loss(const struct cop_sim *sim, const struct cast *cast)
{
    const struct cop_node *node = cop_sim_node(sim, cast->node);
    return cop__sim_has_views(sim) && sim->config.detect.witnesses > 0 &&
           cop_node_is_degraded(node);
}

/* Where a view cannot be committed some wait for others for ever. */
static bool are_together(const struct state *state, const struct cop_sim *sim,
                         const struct cast *cast)
{
    for (cop_id id = 0; id < cop_sim_nodes(sim); id++)
        if (is_in(state, sim, cast, id) && !is_together(sim, cast, id))
            return false;
    return !is_at_a_loss(sim, cast);
}

static bool is_in_view_of(const struct cop_sim *sim, cop_id of, cop_id id)
{
    const struct cop_node *node = cop_sim_node(sim, of);
    return !node ||
           cop_view_has(cop_node_view(node), id, cop__sim_incarnation(sim, id));
}

/* Where views change who says goodbye, or was silent for long, is not in that of the root any
 * more, and may not have heard of it yet. Without HEAL whoever stands between them says who is
 * lost, and may have the view before the root has. */
static bool was_removed(const struct cop_sim *sim, const struct cast *cast, cop_id id)
{
    if (!cop__sim_has_views(sim))
        return false;
    if (cop_sim_was_disturbed(sim) || !is_in_view_of(sim, cast->node, id))
        return true;
    bool is_plain = !(cast->flags & COP_BCAST_HEAL), has_gone = false;
    for (cop_id of = 0; is_plain && of < cop_sim_nodes(sim) && !has_gone; of++)
        has_gone = !is_in_view_of(sim, of, id);
    return has_gone;
}

/* C1: who has no service, or too old a one. */
static void check_service(const struct state *state, struct cop_sim *sim,
                          const struct cast *cast, const struct cop_failure *failure)
{
    uint32_t lowest = lowest_since(state, sim, failure->at, cast->submitted);
    if (failure->phase == COP_PHASE_SERVICE && lowest > 0)
        cop_sim_fail(sim, NAME, "%llu: %u had its service all the time",
                     (unsigned long long)cast->token, (unsigned)failure->at);
    if (failure->phase == COP_PHASE_VERSION && lowest >= cast->version)
        cop_sim_fail(sim, NAME, "%llu: %u had version %u all the time",
                     (unsigned long long)cast->token, (unsigned)failure->at,
                     (unsigned)cast->version);
}

/* C1: who does not know the group. */
static void check_stranger(const struct state *state, struct cop_sim *sim,
                           const struct cast *cast, const struct cop_failure *failure,
                           bool blameless)
{
    const struct group *group = cast->group ? &state->groups[cast->group - 1] : NULL;
    const struct cop_node *node = cop_sim_node(sim, failure->at);
    struct cop__job job = {cast->token, cast->node, cast->mischief, true};
    unsigned long long token = cast->token;
    bool views = cop__sim_has_views(sim);
    if (group && group->oob) {
        if (!cop__service_errs(sim, &job, failure->at, COP_SIM_RESOLVES_WRONG) &&
            lowest_since(state, sim, failure->at, cast->submitted) > 0)
            cop_sim_fail(sim, NAME, "%llu: %u knew the group", token,
                         (unsigned)failure->at);
        return;
    }
    /* Who has another view, or had one a moment ago, does not know a plain call over that of
     * its root. */
    bool other_view = views && (!group || group->born == UINT64_MAX) && node &&
                      (cop_view_epoch(cop_node_view(node)) != cast->ballot.epoch ||
                       state->viewed[failure->at] >= cast->submitted);
    if (blameless && !other_view && !(views && cop_sim_was_disturbed(sim)))
        cop_sim_fail(sim, NAME, "%llu: %u does not know the group, and never crashed",
                     token, (unsigned)failure->node);
    /* Nobody keeps a group of one that its view does not have. */
    bool creator_is_gone = views && node &&
                           !cop_view_has(cop_node_view(node), cast->node,
                                         cop__sim_incarnation(sim, cast->node));
    if ((cast->flags & COP_BCAST_HEAL) && !(cast->flags & COP_BCAST_ALIVE) &&
        !creator_is_gone)
        cop_sim_fail(sim, NAME, "%llu: nobody told %u of the group", token,
                     (unsigned)failure->node);
}

/* C1: who is named, and why. */
static void check_failure(const struct state *state, struct cop_sim *sim,
                          const struct cast *cast, const struct cop_failure *failure)
{
    cop_id id = failure->node;
    unsigned long long token = cast->token;
    struct cop__job job = {cast->token, cast->node, cast->mischief, true};
    bool heal = (cast->flags & COP_BCAST_HEAL) != 0;
    bool blameless = never_crashed(sim, id) && never_crashed(sim, failure->at) &&
                     !cop_sim_was_lied_to(sim);
    if (failure->status == COP_ELOST && blameless && !was_removed(sim, cast, id) &&
        !was_removed(sim, cast, failure->at))
        cop_sim_fail(sim, NAME, "%llu calls %u lost, which never crashed", token,
                     (unsigned)id);
    if (failure->status == COP_ETIMEDOUT && blameless && !cop_sim_was_disturbed(sim) &&
        (!heal || cast->timeout_ns >= GENEROUS_NS) && !(cast->mischief & LATE) &&
        are_together(state, sim, cast))
        cop_sim_fail(sim, NAME, "%llu calls %u silent, which nothing hindered", token,
                     (unsigned)id);
    if (failure->phase == COP_PHASE_CHECK && failure->status == COP_EREFUSED &&
        !cop__service_errs(sim, &job, failure->at, COP_SIM_REFUSES))
        cop_sim_fail(sim, NAME, "%llu: %u did not refuse", token,
                     (unsigned)failure->at);
    if (failure->phase == COP_PHASE_GROUP)
        check_stranger(state, sim, cast, failure, blameless);
    check_service(state, sim, cast, failure);
    if (failure->phase == COP_PHASE_RUN && failure->status == COP_EIO &&
        !cop__service_errs(sim, &job, id, COP_SIM_REPLIES_ERROR))
        cop_sim_fail(sim, NAME, "%llu: %u did not fail", token, (unsigned)id);
}

/* C2: what is said of versions, and that STRICT ends what it should. */
static void check_versions(const struct state *state, struct cop_sim *sim,
                           const struct cast *cast, int status,
                           const struct cop_bcast_result *result)
{
    bool strict = (cast->flags & COP_BCAST_STRICT) != 0, failed = false, low = false;
    unsigned long long token = cast->token;
    for (uint32_t i = 0; i < result->failure_count; i++)
        failed |= result->failures[i].status == COP_EVERSION;
    for (cop_id id = 0; id < cop_sim_nodes(sim); id++)
        low |= is_in(state, sim, cast, id) &&
               lowest_since(state, sim, id, cast->submitted) < cast->version;
    if (status == COP_EVERSION && !(strict && low))
        cop_sim_fail(sim, NAME, "%llu: nobody's version is too low", token);
    if (strict && failed && status != COP_EVERSION)
        cop_sim_fail(sim, NAME, "%llu is strict, and goes on without a version", token);
    if (result->members > 0 && failed != (result->lowest_version != 0))
        cop_sim_fail(sim, NAME, "%llu says %u of the lowest version", token,
                     (unsigned)result->lowest_version);
    if (result->lowest_version >= cast->version && result->lowest_version != 0)
        cop_sim_fail(sim, NAME, "%llu: version %u is not too low", token,
                     (unsigned)result->lowest_version);
}

/* C1 for those that are counted, and after all is settled for everyone. */
static void check_members(struct state *state, struct cop_sim *sim,
                          const struct cast *cast,
                          const struct cop_bcast_result *result)
{
    bool all = result->members == size_of(state, sim, cast);
    bool exact = cast->settled && are_together(state, sim, cast);
    for (cop_id id = 0; id < cop_sim_nodes(sim); id++) {
        if (!is_in(state, sim, cast, id))
            continue;
        if (all && !state->marks[id] &&
            count_runs(state, id, cast->node, cast->token, COP_TIME_NEVER) == 0)
            cop_sim_fail(sim, NAME, "%llu counts %u, which never ran it",
                         (unsigned long long)cast->token, (unsigned)id);
        if (exact && cop_sim_is_alive(sim, id) == (state->marks[id] != 0) &&
            lowest_since(state, sim, id, cast->submitted) >= cast->version)
            cop_sim_fail(sim, NAME, "%llu, after all was settled, %s %u",
                         (unsigned long long)cast->token,
                         state->marks[id] ? "misses" : "counts", (unsigned)id);
    }
}

static void check_status(struct cop_sim *sim, const struct cast *cast, int status)
{
    unsigned long long token = cast->token;
    cop_time took = cop_sim_now(sim) - cast->submitted;
    if (status != 0 && status != COP_ETIMEDOUT && status != COP_EABORTED &&
        status != COP_EVERSION)
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
    if (!cast || (cast->completed++ && !cast->foreign)) {
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
    check_versions(state, sim, cast, status, &result);
    /* STRICT ends it all, and says nothing of anybody. */
    if (status == COP_EVERSION && result.members == 0)
        return;
    if (mark_failures(state, sim, cast, &result)) {
        check_sum(state, sim, cast, &result);
        check_members(state, sim, cast, &result);
    }
    for (uint32_t i = 0; i < result.failure_count; i++)
        check_failure(state, sim, cast, &result.failures[i]);
    cop_bcast_result_free(&result);
}

/* ---- the end --------------------------------------------------------------------- */

static bool lives_on(const struct cop_sim *sim, cop_id node, cop_time born)
{
    return cop_sim_is_alive(sim, node) && cop_sim_born_at(sim, node) == born;
}

static void check_end_of_run(struct cop_sim *sim, const struct run *run)
{
    enum stage last = run->node == run->root ? STAGE_DONE : STAGE_SENT;
    if (run->stage >= STAGE_RUN && run->stage < last &&
        lives_on(sim, run->node, run->born) && !run->gone)
        cop_sim_fail(sim, NAME, "%u got RUN of %llu, and never DONE or SENT",
                     (unsigned)run->node, (unsigned long long)run->token);
}

static void on_view(void *of, struct cop_sim *sim, cop_id node, struct cop_view *view)
{
    struct state *state = of;
    (void)view;
    state->viewed[node] = cop_sim_now(sim);
}

static void at_quiescence(void *of, struct cop_sim *sim)
{
    struct state *state = of;
    for (uint32_t i = 0; i < state->cast_count; i++) {
        const struct cast *cast = &state->casts[i];
        if (lives_on(sim, cast->node, cast->born) && cast->completed != 1 &&
            !cast->foreign)
            cop_sim_fail(sim, NAME, "%llu of %u never completed",
                         (unsigned long long)cast->token, (unsigned)cast->node);
    }
    for (uint32_t i = 0; i < state->run_count; i++)
        check_end_of_run(sim, &state->runs[i]);
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
        .on_view = on_view,
        .at_quiescence = at_quiescence,
        .fini = fini,
        .digest = digest,
    };
    return &checker;
}
