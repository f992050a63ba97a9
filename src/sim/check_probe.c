/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/sim.h>

#include <stdlib.h>
#include <string.h>

/*
 * What a probe promises, seen from outside. P is a probe submitted at time s by a node that
 * lives until P completes at time c.
 *
 *   1. P completes once, and not after its timeout (while nothing was disturbed).
 *   2. Answered, dead and silent are all members, each once; the fingerprint is the sum over
 *      the answered: nobody was counted twice or left out.
 *   3. Who died before s, and was not restarted, did not answer.
 *   4. Without lies, nobody who never crashed is called dead. Without disturbance, nobody
 *      who never crashed is called silent, if the timeout left time enough.
 *   5. P succeeds if and only if nobody is silent.
 *   6. Once all is settled: the dead are exactly those that are dead, and nobody is silent.
 */
#define NAME "probe"
/* A timeout that no healthy network of ours needs. */
#define GENEROUS_NS (5 * COP_SEC)
/* How late the timer that ends a probe may be. */
#define SLACK_NS (50 * COP_MSEC)

struct probe {
    cop_id node;
    uint64_t token;
    cop_time born; /* of the life that submitted it */
    cop_time submitted, timeout_ns;
    bool settled, aborted;
    uint32_t completed;
};

struct state {
    struct probe *probes;
    uint32_t count, capacity;
    uint8_t *marks; /* of every rank, for one result: 0, or MARK_... */
    uint64_t all;   /* fingerprint of everybody */
};
enum { MARK_DEAD = 1, MARK_SILENT = 2 };

static void *init(struct cop_sim *sim)
{
    uint32_t n = cop_sim_nodes(sim);
    struct state *state = calloc(1, sizeof(*state));
    uint8_t *marks = calloc(n, 1);
    if (!state || !marks) {
        free(state);
        free(marks);
        return NULL;
    }
    state->marks = marks;
    for (cop_id id = 0; id < n; id++)
        state->all += cop_probe_fingerprint(id);
    return state;
}

static void fini(void *of)
{
    struct state *state = of;
    free(state->probes);
    free(state->marks);
    free(state);
}

static struct probe *find(struct state *state, struct cop_sim *sim, cop_id node,
                          uint64_t token)
{
    for (uint32_t i = state->count; i-- > 0;) {
        struct probe *probe = &state->probes[i];
        if (probe->node == node && probe->token == token &&
            probe->born == cop_sim_born_at(sim, node))
            return probe;
    }
    return NULL;
}

static void on_submit(void *of, struct cop_sim *sim, cop_id node,
                      const struct cop_request *request, int status)
{
    struct state *state = of;
    if (status == 0 && request->kind == COP_REQUEST_ABORT) {
        struct probe *target = find(state, sim, node, request->target);
        if (target)
            target->aborted = true;
    }
    if (status != 0 || request->kind != COP_REQUEST_PROBE)
        return;
    if (state->count == state->capacity) {
        uint32_t capacity = state->capacity ? 2 * state->capacity : 16;
        struct probe *larger = realloc(state->probes, capacity * sizeof(*larger));
        if (!larger) {
            cop_sim_fail(sim, NAME, "out of memory");
            return;
        }
        state->probes = larger;
        state->capacity = capacity;
    }
    state->probes[state->count++] = (struct probe){
        .node = node,
        .token = request->token,
        .born = cop_sim_born_at(sim, node),
        .submitted = cop_sim_now(sim),
        .timeout_ns = request->timeout_ns,
        .settled = cop_sim_is_settled(sim),
    };
}

/* ---- one result ------------------------------------------------------------------ */

/* Marks a set; false if a rank is not there, or marked already. */
static bool mark(struct state *state, struct cop_sim *sim,
                 const struct cop_ranks *ranks, uint8_t as, uint64_t *sum)
{
    for (uint32_t i = 0; i < ranks->count; i++) {
        cop_rank rank = ranks->items[i];
        if (rank >= cop_sim_nodes(sim) || state->marks[rank])
            return false;
        state->marks[rank] = as;
        *sum += cop_probe_fingerprint(rank);
    }
    return true;
}

static void check_partition(struct state *state, struct cop_sim *sim,
                            const struct probe *probe,
                            const struct cop_probe_result *result)
{
    uint32_t n = cop_sim_nodes(sim);
    uint64_t missing = 0;
    unsigned long long token = probe->token;
    memset(state->marks, 0, n);
    if (!mark(state, sim, &result->dead, MARK_DEAD, &missing) ||
        !mark(state, sim, &result->silent, MARK_SILENT, &missing))
        cop_sim_fail(sim, NAME,
                     "probe %llu names a rank twice, or one that is not there", token);
    else if (result->members != n ||
             result->answered + result->dead.count + result->silent.count != n)
        cop_sim_fail(sim, NAME,
                     "probe %llu: %u answered, %u dead and %u silent are not %u", token,
                     (unsigned)result->answered, (unsigned)result->dead.count,
                     (unsigned)result->silent.count, (unsigned)n);
    else if (result->fingerprint != state->all - missing)
        cop_sim_fail(sim, NAME,
                     "probe %llu: somebody was counted twice, and another not", token);
}

static bool never_crashed(const struct cop_sim *sim, cop_id id)
{
    return cop_sim_died_at(sim, id) == COP_TIME_NEVER;
}

/* Rules 3, 4 and 6 for one member. */
static void check_member(struct state *state, struct cop_sim *sim,
                         const struct probe *probe, cop_id id)
{
    uint8_t as = state->marks[id];
    unsigned long long token = probe->token;
    bool alive = cop_sim_is_alive(sim, id);
    if (as == 0 && !alive && cop_sim_died_at(sim, id) < probe->submitted)
        cop_sim_fail(sim, NAME, "probe %llu counts %u, which was dead before", token,
                     (unsigned)id);
    if (as == MARK_DEAD && never_crashed(sim, id) && !cop_sim_was_lied_to(sim))
        cop_sim_fail(sim, NAME, "probe %llu calls %u dead, which never crashed", token,
                     (unsigned)id);
    if (as == MARK_SILENT && never_crashed(sim, id) && !cop_sim_was_lied_to(sim) &&
        !cop_sim_was_disturbed(sim) && probe->timeout_ns >= GENEROUS_NS &&
        !probe->aborted)
        cop_sim_fail(sim, NAME, "probe %llu calls %u silent, which nothing hindered",
                     token, (unsigned)id);
    if (probe->settled && alive != (as == 0))
        cop_sim_fail(sim, NAME, "probe %llu, after all was settled, calls %u %s", token,
                     (unsigned)id,
                     as == 0           ? "alive"
                     : as == MARK_DEAD ? "dead"
                                       : "silent");
}

static void check_status(struct cop_sim *sim, const struct probe *probe, int status,
                         const struct cop_probe_result *result)
{
    unsigned long long token = probe->token;
    cop_time took = cop_sim_now(sim) - probe->submitted;
    if (status != 0 && status != COP_ETIMEDOUT && status != COP_EABORTED)
        cop_sim_fail(sim, NAME, "probe %llu ended with %s", token,
                     cop_error_name(status));
    if (status == 0 && result->silent.count > 0)
        cop_sim_fail(sim, NAME, "probe %llu succeeded, but %u are silent", token,
                     (unsigned)result->silent.count);
    if (status == COP_ETIMEDOUT && result->silent.count == 0)
        cop_sim_fail(sim, NAME, "probe %llu timed out, but nobody is silent", token);
    if (status == COP_EABORTED && !probe->aborted)
        cop_sim_fail(sim, NAME, "probe %llu was aborted, but nobody asked for it",
                     token);
    if (probe->timeout_ns && !cop_sim_was_disturbed(sim) &&
        took > probe->timeout_ns + SLACK_NS)
        cop_sim_fail(sim, NAME, "probe %llu took %llu ns, its timeout was %llu", token,
                     (unsigned long long)took, (unsigned long long)probe->timeout_ns);
}

static void on_complete(void *of, struct cop_sim *sim, cop_id node, uint64_t token,
                        int status, const struct cop_buf *buf)
{
    struct state *state = of;
    struct cop_probe_result result;
    struct probe *probe = find(state, sim, node, token);
    if (!probe || probe->completed++) {
        cop_sim_fail(sim, NAME, "probe %llu of node %u completed %s",
                     (unsigned long long)token, (unsigned)node,
                     probe ? "twice" : "but was not submitted");
        return;
    }
    if (!buf && status == COP_EABORTED)
        return;
    if (!buf || cop_probe_result(buf, &result) != 0) {
        cop_sim_fail(sim, NAME, "probe %llu completed without a result",
                     (unsigned long long)token);
        return;
    }
    check_partition(state, sim, probe, &result);
    for (cop_id id = 0; id < cop_sim_nodes(sim); id++)
        check_member(state, sim, probe, id);
    check_status(sim, probe, status, &result);
    cop_probe_result_free(&result);
}

static void at_quiescence(void *of, struct cop_sim *sim)
{
    struct state *state = of;
    for (uint32_t i = 0; i < state->count; i++) {
        const struct probe *probe = &state->probes[i];
        bool same = cop_sim_is_alive(sim, probe->node) &&
                    cop_sim_born_at(sim, probe->node) == probe->born;
        if (same && probe->completed != 1)
            cop_sim_fail(sim, NAME, "probe %llu of node %u never completed",
                         (unsigned long long)probe->token, (unsigned)probe->node);
    }
}

const struct cop_sim_checker *cop_sim_checker_probe(void)
{
    static const struct cop_sim_checker checker = {
        .name = NAME,
        .init = init,
        .on_submit = on_submit,
        .on_complete = on_complete,
        .at_quiescence = at_quiescence,
        .fini = fini,
    };
    return &checker;
}
