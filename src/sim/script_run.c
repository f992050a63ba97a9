/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world.h"

#include <stdio.h>
#include <string.h>

/* Runs a script: its actions, then until all is quiet, then the test of liveness. */

/* Tokens of the probes of the liveness test are above all that a script may use. */
#define LIVENESS_TOKEN (UINT64_C(1) << 62)
#define LIVENESS_TIMEOUT_NS (30 * COP_SEC)
#define LIVENESS_TOGETHER 8
#define LIVENESS_ALL 12
/* Within so much time and so many events after the last timeout, all must be at rest. */
#define REST_NS (60 * COP_SEC)
#define REST_EVENTS 2000000
/* With detectors that ask again and again it never comes to rest: this, and so many of their
 * periods, is enough; less where periods are short. */
#define WATCH_NS (20 * COP_SEC)
#define WATCH_LEAST_NS (4 * COP_SEC)
#define WATCH_PERIODS 40u
/* When all faults are over it ends once all is well, and stayed so. Deadlines grow to 32 periods,
 * and who is in stealth says nothing for longer than that. */
#define PEACE_NS COP_SEC
#define PEACE_PERIODS 8u
#define PEACE_MOST_NS (30 * COP_SEC)
#define PEACE_MOST_PERIODS 200u
#define STEALTH_PERIODS 48u
/* And when the programs have had the time for what they have yet to do, and so much for trying again. */
#define PROGRAMS_NS (10 * COP_SEC)

/* What the guard held goes on after a minute, with all that waited. */
#define GUARD_NS (90 * COP_SEC)

struct run {
    const struct cop_sim_script *script;
    struct cop_sim *sim;
    struct cop_sim_report *report;
    uint32_t expected; /* completions after which a run until complete may stop */
};

static bool has_action(const struct cop_sim_script *script,
                       enum cop_sim_action_kind kind)
{
    for (uint32_t i = 0; i < script->count; i++) {
        if (script->actions[i].kind == kind)
            return true;
    }
    return false;
}

/* Whether it is about broadcasts, and not about probes. */
static bool run_is_collective(const struct run *run)
{
    return has_action(run->script, COP_SIM_BCAST);
}

static void note_result(const struct run *run, const struct cop_buf *buf)
{
    struct cop_sim_report *report = run->report;
    struct cop_probe_result result;
    struct cop_bcast_result answer;
    if (buf && run_is_collective(run) && cop_bcast_result(buf, &answer) == 0) {
        report->answered = answer.answered;
        report->dead = report->silent = 0;
        for (uint32_t i = 0; i < answer.failure_count; i++) {
            report->dead += answer.failures[i].status == COP_ELOST;
            report->silent += answer.failures[i].status == COP_ETIMEDOUT;
        }
        cop_bcast_result_free(&answer);
        return;
    }
    if (!buf || run_is_collective(run) || cop_probe_result(buf, &result) != 0)
        return;
    report->answered = result.answered;
    report->dead = result.dead.count;
    report->silent = result.silent.count;
    cop_probe_result_free(&result);
}

static void on_complete(void *context, struct cop_sim *sim, cop_id node, uint64_t token,
                        int status, struct cop_buf *buf)
{
    struct run *run = context;
    const struct cop_sim_config *config = &run->script->config;
    run->report->completed++;
    run->report->completed_ns = cop_sim_now(sim);
    note_result(run, buf);
    if (config->complete)
        config->complete(config->context, sim, node, token, status, buf);
    if (run->script->until_complete && run->report->completed >= run->expected)
        cop_sim_stop(sim);
}

static void on_view(void *context, struct cop_sim *sim, cop_id node,
                    struct cop_view *view)
{
    struct run *run = context;
    struct cop_sim_report *report = run->report;
    const struct cop_sim_config *config = &run->script->config;
    if (cop_view_epoch(view) > report->epoch) {
        report->epoch = cop_view_epoch(view);
        report->members = cop_view_size(view);
        report->installed = 0;
    }
    if (cop_view_epoch(view) == report->epoch) {
        report->installed++;
        report->installed_ns = cop_sim_now(sim);
    }
    if (config->viewed)
        config->viewed(config->context, sim, node, view);
    if (run->script->until_complete && report->installed == report->members)
        cop_sim_stop(sim);
}

static void on_trace(void *context, const char *line)
{
    const struct cop_sim_config *config = &((struct run *)context)->script->config;
    config->trace(config->context, line);
}

/* Above so many nodes what each keeps is not looked at: a root may have all others below it. */
#define LOOKED_AT_MAX 4096u

static int make(struct run *run)
{
    /* Only needed until cop_sim_create returns. */
    const struct cop_sim_checker *const checkers[] = {cop_sim_checker_node(),
                                                      cop_sim_checker_probe(), NULL};
    const struct cop_sim_checker *const collective[] = {
        cop_sim_checker_node(), cop_sim_checker_coll(), cop__bulk_checker(), NULL};
    const struct cop_sim_checker *const with_views[] = {
        cop_sim_checker_node(),  cop_sim_checker_member(), cop_sim_checker_letter(),
        cop_sim_checker_guard(), cop_sim_checker_drain(),  NULL};
    const struct cop_sim_checker *const agreeing[] = {
        cop_sim_checker_agree(),  cop__agree_app(),         cop_sim_checker_node(),
        cop_sim_checker_member(), cop_sim_checker_letter(), NULL};
    const struct cop_sim_checker *const agreeing_many[] = {cop_sim_checker_agree(),
                                                           cop__agree_app(), NULL};
    const struct cop_sim_checker *const streaming[] = {
        cop_sim_checker_node(),   cop_sim_checker_member(), cop_sim_checker_letter(),
        cop_sim_checker_stream(), cop_sim_stream_app(),     NULL};
    struct cop_sim_config config = run->script->config;
    config.complete = on_complete;
    config.viewed = on_view;
    config.trace = config.trace ? on_trace : NULL;
    config.context = run;
    bool many = config.nodes > LOOKED_AT_MAX;
    if ((config.agree.count > 0 || config.stream.waves > 0) &&
        config.quorum == COP_QUORUM_FIXED)
        return COP_EINVAL;
    if (!config.checkers)
        config.checkers = run_is_collective(run)              ? collective
                          : config.quorum == COP_QUORUM_FIXED ? checkers
                          : config.agree.count  ? many ? agreeing_many : agreeing
                          : config.stream.waves ? streaming
                                                : with_views;
    return cop_sim_create(&config, &run->sim);
}

static int schedule(struct run *run)
{
    for (uint32_t i = 0; i < run->script->count; i++) {
        const struct cop_sim_action *action = &run->script->actions[i];
        int error = cop_sim_at(run->sim, action);
        if (error)
            return error;
        run->report->submitted +=
            action->kind == COP_SIM_PROBE || action->kind == COP_SIM_BCAST;
    }
    run->expected = run->report->submitted;
    return 0;
}

/* The longer one of what looks for silence; 0: nothing does. */
static cop_time period_of(const struct cop_sim_script *script)
{
    const struct cop_detect *detect = &script->config.detect;
    return detect->ring_period_ns > detect->gossip_period_ns ? detect->ring_period_ns
                                                             : detect->gossip_period_ns;
}

/* When everything that a script starts should be over, if nothing stands in its way. */
static cop_time horizon(const struct cop_sim_script *script)
{
    cop_time last = 0;
    for (uint32_t i = 0; i < script->count; i++) {
        const struct cop_sim_action *action = &script->actions[i];
        cop_time end = action->at + action->request.timeout_ns + action->amount_ns;
        /* Without HEAL a time-out is a round trip a level, and nobody has measured one. */
        if (action->kind == COP_SIM_BCAST && !(action->coll.flags & COP_BCAST_HEAL))
            end += action->coll.service_ns + script->config.nodes * 2 * COP_SEC;
        if (action->kind == COP_SIM_BCAST && (action->coll.flags & COP_BCAST_BULK) &&
            !(action->coll.flags & COP_BCAST_HEAL))
            end += action->coll.service_ns + script->config.nodes * 20 * COP_SEC;
        last = end > last ? end : last;
    }
    cop_time watch = WATCH_LEAST_NS + WATCH_PERIODS * period_of(script);
    if (watch > WATCH_NS)
        watch = WATCH_NS;
    return last + (period_of(script) ? watch : REST_NS) +
           (script->config.guard ? GUARD_NS : 0);
}

/* Events of detectors, until then: of each period so many at each node. */
#define LOOKS 16u
static uint64_t looks_until(const struct run *run, cop_time until)
{
    const struct cop_detect *detect = &run->script->config.detect;
    cop_time now = run->sim->now, periods = 0, length = until > now ? until - now : 0;
    if (detect->ring_period_ns)
        periods += length / detect->ring_period_ns;
    if (detect->gossip_period_ns)
        periods += length / detect->gossip_period_ns;
    return periods * run->script->config.nodes * LOOKS;
}

/*
 * Runs until nothing is due. What does not come to rest by itself is a fault; but who is
 * behind a partition or waits for somebody paused may try again and again, until `until`.
 */
static void run_to_rest(struct run *run, cop_time until)
{
    struct cop_sim *sim = run->sim;
    uint64_t limit = cop_sim_events(sim) + REST_EVENTS +
                     1000 * (uint64_t)run->script->config.nodes +
                     looks_until(run, until);
    sim->stopped = false;
    while (!sim->stopped && cop_sim_step(sim)) {
        bool late = sim->now > until;
        /* Where views change, who is without one asks for one for ever. */
        if (late && (cop__sim_has_views(sim) || !cop__faults_over(sim)))
            return;
        if (late || cop_sim_events(sim) > limit) {
            cop_sim_fail(sim, "sim", "does not come to rest");
            return;
        }
    }
}

static void submit_probe(struct run *run, cop_id id, uint64_t token)
{
    struct cop_sim_action action;
    memset(&action, 0, sizeof(action));
    action.kind = COP_SIM_PROBE;
    action.a = id;
    action.b = COP_ID_NONE;
    action.request.kind = COP_REQUEST_PROBE;
    action.request.token = token;
    action.request.timeout_ns = LIVENESS_TIMEOUT_NS;
    if (run_is_collective(run)) {
        action.kind = COP_SIM_BCAST;
        action.request.kind = COP_REQUEST_BCAST;
        action.coll.flags = COP_BCAST_HEAL;
    }
    if (cop_sim_do(run->sim, &action) != 0)
        cop_sim_fail(run->sim, "sim", "out of memory");
    run->report->submitted++;
}

/* Whether a node takes part in the test: all of few, by the seed some of many. */
static bool is_chosen(const struct run *run, cop_id id)
{
    uint32_t n = cop_sim_nodes(run->sim);
    return cop_sim_is_alive(run->sim, id) &&
           (n <= LIVENESS_ALL ||
            cop_sim_draw(run->sim, COP__PLACE_LIVENESS, id, 0, n) < LIVENESS_ALL);
}

/* Whether no call is left anywhere. */
static bool calls_are_over(const struct cop_sim *sim)
{
    for (cop_id id = 0; id < sim->config.nodes; id++)
        if (cop_sim_is_alive(sim, id) && cop_node_calls(cop_sim_node(sim, id)) > 0)
            return false;
    return true;
}

/* Until calls are over; where detectors look on for ever it never comes to rest. */
static void run_calls(struct run *run)
{
    struct cop_sim *sim = run->sim;
    cop_time until = sim->now + LIVENESS_TIMEOUT_NS + REST_NS;
    cop_time step = COP_SEC + period_of(run->script);
    if (!period_of(run->script) || !cop__sim_has_nodes(sim)) {
        run_to_rest(run, until);
        return;
    }
    do {
        run_to_rest(run, sim->now + step);
    } while (sim->now < until && !cop_sim_failure(sim) && !cop_sim_is_quiet(sim) &&
             !calls_are_over(sim));
}

/* A few at a time: all at once would be n * n messages in flight, and prove no more. */
static void probe_from_everybody(struct run *run, uint32_t round)
{
    uint32_t n = cop_sim_nodes(run->sim);
    uint32_t together = 0;
    for (cop_id id = 0; id < n; id++) {
        if (!is_chosen(run, id))
            continue;
        submit_probe(run, id, LIVENESS_TOKEN + (uint64_t)round * n + id);
        if (++together % LIVENESS_TOGETHER == 0)
            run_calls(run);
    }
    run_calls(run);
}

/* Whether exactly those who live are in a view, all in the same one. */
static bool is_peace(const struct cop_sim *sim)
{
    const struct cop_view *view = NULL;
    uint32_t alive = 0;
    for (cop_id id = 0; id < sim->config.nodes; id++) {
        const struct cop_node *node = sim->nodes[id].actor;
        if (!node)
            continue;
        view = view ? view : cop_node_view(node);
        if (!cop_node_is_member(node) || cop_node_is_degraded(node) ||
            cop_view_digest(cop_node_view(node)) != cop_view_digest(view) ||
            !cop_view_has(view, id, cop__sim_incarnation(sim, id)))
            return false;
        alive++;
    }
    for (uint32_t i = 0; i < sim->newcomer_count; i++)
        if (!sim->newcomers[i]->done)
            return false;
    return view && cop_view_size(view) == alive;
}

/* What the programs around the nodes have yet to do, if they have not begun. */
static cop_time work_of(const struct cop_sim_script *script)
{
    const struct cop_sim_agree *agree = &script->config.agree;
    const struct cop_sim_stream *stream = &script->config.stream;
    cop_time wave = stream->gap_ns + stream->lag_ns + stream->timeout_ns;
    if (agree->count == 0 && stream->waves == 0)
        return 0;
    return PROGRAMS_NS + agree->count * agree->gap_ns +
           (stream->waves + stream->downs) * wave;
}

/* Where detectors look on for ever: until all is well, and a while longer. Who is removed by chance
 * and comes back begins its work anew. */
static void run_to_peace(struct run *run)
{
    struct cop_sim *sim = run->sim;
    bool calls = run_is_collective(run), was_peace = false;
    cop_time period = period_of(run->script), work = work_of(run->script);
    cop_time first =
        sim->now + work +
        (run->script->config.detect.stealth ? STEALTH_PERIODS * period : 0);
    cop_time last = sim->now + 2 * work + PEACE_MOST_NS + PEACE_MOST_PERIODS * period +
                    (run->script->config.guard ? GUARD_NS : 0) +
                    (calls ? horizon(run->script) : 0);
    cop_time step = PEACE_NS + PEACE_PERIODS * period;
    uint64_t installed = cop_sim_stats(sim)->views_installed;
    while (sim->now < last && !cop_sim_failure(sim)) {
        run_to_rest(run, sim->now + step);
        if (cop_sim_stats(sim)->views_installed != installed && first < sim->now + work)
            first = sim->now + work;
        installed = cop_sim_stats(sim)->views_installed;
        bool peace =
            sim->now >= first && is_peace(sim) && (!calls || calls_are_over(sim));
        if (peace && was_peace)
            return;
        was_peace = peace;
        if (cop_sim_is_quiet(sim))
            return;
    }
}

/*
 * All faults end, and every living node probes. It need not know yet who came back, or that
 * it was lied to; asking everyone is how it learns. So where that happened, the probes of a
 * second round are the ones that must be exact.
 */
static void test_liveness(struct run *run)
{
    const struct cop_sim_script *script = run->script;
    bool news = has_action(script, COP_SIM_RESTART) || has_action(script, COP_SIM_LIE);
    uint32_t rounds = news ? 2 : 1;
    cop_sim_heal(run->sim);
    if (period_of(script) && cop__sim_has_views(run->sim) &&
        cop__sim_has_nodes(run->sim))
        run_to_peace(run);
    else
        run_to_rest(run, horizon(script) + run->sim->now);
    if (cop__sim_has_views(run->sim)) {
        cop_sim_settle(run->sim);
        cop_sim_quiescence(run->sim);
        if (run_is_collective(run) && !cop_sim_failure(run->sim)) {
            probe_from_everybody(run, 0);
            cop_sim_quiescence(run->sim);
        }
        return;
    }
    for (uint32_t round = 0; round < rounds; round++) {
        if (round + 1 == rounds)
            cop_sim_settle(run->sim);
        probe_from_everybody(run, round);
        cop_sim_quiescence(run->sim);
    }
}

/* Only the real node keeps them. */
static void note_times(struct run *run)
{
    const struct cop_sim *sim = run->sim;
    if (!cop__sim_has_views(sim) || !cop__sim_has_nodes(sim))
        return;
    for (cop_id id = 0; id < cop_sim_nodes(sim); id++) {
        const struct cop_node *node = cop_sim_node(sim, id);
        struct cop_change_times times = {0};
        if (node)
            times = cop_node_change_times(node);
        if (times.epoch == run->report->epoch && times.epoch != 0)
            run->report->times = times;
    }
}

static void conclude(struct run *run)
{
    struct cop_sim_report *report = run->report;
    const char *failure = cop_sim_failure(run->sim);
    snprintf(report->failure, sizeof(report->failure), "%s", failure ? failure : "");
    report->trace_digest = cop_sim_digest(run->sim);
    report->events = cop_sim_events(run->sim);
    report->virtual_ns = cop_sim_now(run->sim);
    report->node_bytes = cop_sim_node_bytes(run->sim);
    note_times(run);
    report->agreements = run->sim->agreements;
    report->deaths = run->sim->deaths;
    report->agree_ns = run->sim->agree_ns;
    report->told_ns = run->sim->told;
    report->outputs = run->sim->outputs;
    report->complete = run->sim->complete;
    if (run->sim->deaths > 0 && run->sim->healed > 0)
        report->healed_ns = run->sim->healed - run->sim->died;
    report->stats = *cop_sim_stats(run->sim);
}

int cop_sim_script_run(const struct cop_sim_script *script, struct cop_sim_report *out)
{
    struct cop_sim_report report;
    memset(&report, 0, sizeof(report));
    struct run run = {.script = script, .report = &report};
    int error = make(&run);
    if (error)
        return error;
    error = schedule(&run);
    if (!error) {
        if (script->config.begin)
            script->config.begin(script->config.context, run.sim);
        run_to_rest(&run, horizon(script));
        if (cop_sim_is_quiet(run.sim) && cop__faults_over(run.sim))
            cop_sim_quiescence(run.sim);
        if (script->liveness && !cop_sim_failure(run.sim))
            test_liveness(&run);
        if (script->config.end)
            script->config.end(script->config.context, run.sim);
        conclude(&run);
        *out = report;
    }
    cop_sim_destroy(run.sim);
    return error;
}
