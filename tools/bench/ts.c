/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/ts.h"

#include "base/random.h"
#include "bench/compute.h"
#include "bench/contention.h"
#include "bench/floor.h"
#include "cluster/local.h"
#include "number/latencies.h"
#include "term/commands.h"

#include <coppice/error.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAIT_NS (30 * COP_SEC)
#define RESTART_TIMEOUT_NS (60 * COP_SEC)
#define FLOOR_WARM_UP 5u
#define LATENCY_REPETITIONS 100u
/* Counts that nobody asked for travel alone after this long; they are not to meet what is
 * measured. */
#define QUIET_MS 250

/* One change. */
struct sample {
    double stages_ns[TS_STAGES];
    double floors_ns[TS_FLOORS];
};

/* One measurement on its way. */
struct run {
    const struct ts_config *config;
    struct local local;
    struct floor *floor;
    uint32_t bytes;
    struct cop__random random;
    struct sample *samples[TS_VICTIMS]; /* ANY has room for all */
    uint32_t counts[TS_VICTIMS];
};

/* ---- names ----------------------------------------------------------------------- */

static int find_name(const char *const *names, int count, const char *text)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], text) == 0)
            return i;
    return COP_EINVAL;
}

static const char *const trigger_names[TS_TRIGGERS] = {"connection", "inquiry", "ring"};
static const char *const victim_names[TS_VICTIMS] = {"random", "leaf", "inner", "root",
                                                     "any"};

const char *ts_trigger_name(enum ts_trigger trigger) { return trigger_names[trigger]; }

int ts_trigger_parse(const char *text, enum ts_trigger *out)
{
    int found = find_name(trigger_names, TS_TRIGGERS, text);
    if (found < 0)
        return COP_EINVAL;
    *out = (enum ts_trigger)found;
    return 0;
}

const char *ts_victim_name(enum ts_victim victim) { return victim_names[victim]; }

int ts_victim_parse(const char *text, enum ts_victim *out)
{
    int found = find_name(victim_names, TS_ANY, text);
    if (found < 0)
        return COP_EINVAL;
    *out = (enum ts_victim)found;
    return 0;
}

/* ---- who goes -------------------------------------------------------------------- */

/* Ids of a k-ary tree: the root, then those with children, then the leaves. */
static uint32_t first_leaf(uint32_t n, uint32_t arity) { return (n - 2) / arity + 1; }

bool ts_has_victim(uint32_t n, uint32_t arity, enum ts_victim victim)
{
    return victim != TS_INNER || first_leaf(n, arity) > 1;
}

static cop_id choose(struct run *run, enum ts_victim victim)
{
    uint32_t n = run->config->n, leaf = first_leaf(n, run->config->arity);
    uint32_t least = 0, most = n;
    if (victim == TS_ROOT)
        return 0;
    if (victim == TS_LEAF)
        least = leaf;
    if (victim == TS_INNER) {
        least = 1;
        most = leaf;
    }
    return least + (cop_id)cop__random_below(&run->random, most - least);
}

/* ---- what members say afterwards ------------------------------------------------- */

/* What all who live have noted of the view without, or with, somebody. */
struct account {
    cop_epoch epoch;
    cop_time heard_ns, stable_ns, installed_ns;
    bool has_leader;
};

/* The view of one member, once it has `id`, or has it no more. */
static int await(struct client *client, cop_id id, bool present, struct roll *out)
{
    uint64_t known = 0;
    for (;;) {
        int error = client_roll(client, known, WAIT_NS, out);
        if (error)
            return error;
        if ((cop_view_rank(out->view, id) != COP_RANK_NONE) == present)
            return 0;
        known = out->serial;
        roll_free(out);
    }
}

static int await_at(const struct local *local, cop_id slot, cop_id id, bool present,
                    struct roll *out)
{
    struct client client;
    int error = local_connect(local, slot, &client);
    if (error)
        return error;
    error = await(&client, id, present, out);
    client_close(&client);
    return error;
}

static void take_account(const struct roll *roll, struct account *account)
{
    if (roll->installed_ns > account->installed_ns)
        account->installed_ns = roll->installed_ns;
    if (cop_view_epoch(roll->view) > account->epoch)
        account->epoch = cop_view_epoch(roll->view);
    if (roll->times.epoch != cop_view_epoch(roll->view) || !roll->is_member)
        return;
    account->has_leader = true;
    account->heard_ns = roll->times.heard;
    account->stable_ns = roll->times.stable;
}

/* Everybody but `id` itself, or everybody, when they have the view that is waited for. */
static int ask_all(const struct local *local, cop_id id, bool present,
                   struct account *out)
{
    *out = (struct account){0};
    for (cop_id slot = 0; slot < local->cluster.n; slot++) {
        struct roll roll;
        if (slot == id && !present)
            continue;
        int error = await_at(local, slot, id, present, &roll);
        if (error)
            return fail(EXIT_FAILED, "the view of n%u does not change: %s",
                        (unsigned)slot, cop_strerror(error));
        take_account(&roll, out);
        roll_free(&roll);
    }
    return 0;
}

/* ---- one change ------------------------------------------------------------------ */

static int find_pid(struct local *local, cop_id id, pid_t *out)
{
    struct list_reply list;
    int code = local_list(local, &list);
    if (code)
        return code;
    *out = (pid_t)list.members[id].pid;
    list_reply_free(&list);
    return *out > 0 ? 0 : fail(EXIT_FAILED, "n%u is gone already", (unsigned)id);
}

static int send_inquiry(struct client *client, cop_id about, cop_time patience_ns)
{
    const struct inquire_command command = {about, patience_ns};
    struct cop_buf *body = inquire_command_encode(&command);
    int error = body ? client_send(client, VERB_INQUIRE, body) : COP_ENOMEM;
    cop_buf_unref(body);
    return error;
}

/* Any other member asks the one that has been stopped. */
static int inquire(struct run *run, cop_id victim, cop_time *begun_ns)
{
    struct client client;
    uint32_t n = run->config->n;
    cop_id asker = (victim + 1 + (cop_id)cop__random_below(&run->random, n - 1)) % n;
    int error = local_connect(&run->local, asker, &client);
    if (error == 0) {
        *begun_ns = now_ns();
        error = send_inquiry(&client, victim, run->config->patience_ns);
    }
    if (error == 0) {
        struct client_reply reply;
        error = client_receive(&client, WAIT_NS, &reply);
        if (error == 0 && reply.status != COP_ETIMEDOUT)
            error = reply.status ? reply.status : COP_ESTATE;
        client_close(&client);
    }
    if (error)
        return fail(EXIT_FAILED, "the inquiry failed: %s", cop_strerror(error));
    return 0;
}

static int strike(struct run *run, cop_id victim, pid_t pid, cop_time *begun_ns)
{
    bool is_kill = run->config->trigger == TS_CONNECTION;
    *begun_ns = now_ns();
    if (kill(pid, is_kill ? SIGKILL : SIGSTOP) != 0)
        return fail(EXIT_FAILED, "n%u is gone already", (unsigned)victim);
    return run->config->trigger == TS_INQUIRY ? inquire(run, victim, begun_ns) : 0;
}

/* The last leaf tells when it has the next view: soon after that all have it, and nobody
 * else needs to be disturbed before. */
static int watch_change(struct run *run, cop_id victim, pid_t pid, cop_time *begun_ns,
                        struct account *account)
{
    struct client client;
    struct roll roll;
    cop_id last = run->config->n - 1;
    cop_id watched = victim == last ? last - 1 : last;
    if (local_connect(&run->local, watched, &client) != 0)
        return fail(EXIT_FAILED, "n%u is gone", (unsigned)watched);
    int code = strike(run, victim, pid, begun_ns);
    if (code == 0) {
        int error = await(&client, victim, false, &roll);
        if (error)
            code =
                fail(EXIT_FAILED, "the view does not change: %s", cop_strerror(error));
        else
            roll_free(&roll);
    }
    client_close(&client);
    if (code)
        return code;
    poll(NULL, 0, 2 + (int)run->config->n / 50);
    return ask_all(&run->local, victim, false, account);
}

static int bring_back(struct run *run, cop_id victim)
{
    struct client_reply reply;
    struct restart_reply got;
    struct account ignored;
    struct cop_buf *body = ids_encode(0, &victim, 1);
    if (body == NULL)
        return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    int code = local_call(&run->local, VERB_RESTART, body, RESTART_TIMEOUT_NS, &reply);
    cop_buf_unref(body);
    if (code)
        return code;
    if (restart_reply_decode(reply.body, &got) != 0)
        return fail(EXIT_FAILED, "the keeper says something unintelligible");
    bool is_back = got.failed.count == 0 && got.waiting.count == 0;
    restart_reply_free(&got);
    if (!is_back)
        return fail(EXIT_FAILED, "n%u does not come back", (unsigned)victim);
    code = ask_all(&run->local, victim, true, &ignored);
    poll(NULL, 0, QUIET_MS);
    return code;
}

static int turn_floor(struct run *run, uint64_t *elapsed_ns)
{
    if (floor_turn(run->floor, elapsed_ns) == 0)
        return 0;
    return fail(EXIT_FAILED, "the floor: %s", strerror(errno));
}

/* The first turn finds everybody as our members are found: asleep for a while. */
static int time_floor(struct run *run, double out[TS_FLOORS])
{
    uint64_t *times = calloc(run->config->repetitions, sizeof *times), first = 0;
    int code = times ? 0 : fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    if (code == 0)
        code = turn_floor(run, &first);
    for (uint32_t i = 0; i < run->config->repetitions && code == 0; i++)
        code = turn_floor(run, &times[i]);
    if (code == 0) {
        out[TS_FLOOR_ONCE] = (double)first;
        out[TS_FLOOR_AGAIN] = median_time(times, run->config->repetitions);
    }
    free(times);
    return code;
}

static int take_sample(struct run *run, enum ts_victim kind, struct sample *out)
{
    cop_id victim = choose(run, kind);
    struct account account;
    cop_time begun_ns = 0;
    pid_t pid = 0;
    int code = find_pid(&run->local, victim, &pid);
    if (code == 0)
        code = time_floor(run, out->floors_ns);
    if (code == 0)
        code = watch_change(run, victim, pid, &begun_ns, &account);
    if (code)
        return code;
    if (!account.has_leader || account.heard_ns < begun_ns)
        return fail(EXIT_FAILED, "nobody says how it led the change");
    out->stages_ns[TS_DETECT] = (double)(account.heard_ns - begun_ns);
    out->stages_ns[TS_STABLE] = (double)(account.stable_ns - account.heard_ns);
    out->stages_ns[TS_COMMIT] = (double)(account.installed_ns - account.stable_ns);
    out->stages_ns[TS_TOTAL] = (double)(account.installed_ns - begun_ns);
    return bring_back(run, victim);
}

/* ---- all of them ----------------------------------------------------------------- */

/* How long our messages are: of a change that is not measured. */
static int warm_up(struct run *run)
{
    struct bench_traffic before, after;
    struct account ignored;
    cop_time begun_ns;
    pid_t pid = 0;
    cop_id victim = choose(run, TS_LEAF);
    int code = find_pid(&run->local, victim, &pid);
    if (code == 0)
        code = bench_traffic(&run->local, victim, &before);
    if (code == 0)
        code = watch_change(run, victim, pid, &begun_ns, &ignored);
    if (code == 0)
        code = bench_traffic(&run->local, victim, &after);
    if (code == 0)
        run->bytes = bench_message_bytes(&before, &after);
    return code ? code : bring_back(run, victim);
}

static int take_samples(struct run *run, struct progress *progress)
{
    const struct ts_config *config = run->config;
    char what[64];
    snprintf(what, sizeof what, "n = %" PRIu32 ", arity %" PRIu32, config->n,
             config->arity);
    for (uint32_t i = 0; i < config->repeat; i++)
        for (int kind = 0; kind < TS_ANY; kind++) {
            struct sample sample;
            if (!config->victims[kind] ||
                !ts_has_victim(config->n, config->arity, (enum ts_victim)kind))
                continue;
            progress_show(progress, what, i, config->repeat);
            int code = take_sample(run, (enum ts_victim)kind, &sample);
            if (code)
                return code;
            run->samples[kind][run->counts[kind]++] = sample;
            run->samples[TS_ANY][run->counts[TS_ANY]++] = sample;
        }
    return 0;
}

/* ---- sums ------------------------------------------------------------------------ */

/* A column of the table: a stage, or a floor, or one over the other. */
struct column {
    int stage, floor; /* -1: not */
};

static double value_of(const struct sample *sample, struct column column)
{
    double stage = column.stage < 0 ? 1 : sample->stages_ns[column.stage];
    double floor = column.floor < 0 ? 1 : sample->floors_ns[column.floor];
    return column.stage < 0 ? floor : stage / floor;
}

/* *p99, if wanted, is exceeded by at most one in a hundred. */
static struct summary sum_column(const struct sample *samples, uint32_t count,
                                 struct column column, double *scratch, double *p99)
{
    for (uint32_t i = 0; i < count; i++)
        scratch[i] = value_of(&samples[i], column);
    struct summary summary = summarize(scratch, count);
    if (p99 != NULL)
        *p99 = scratch[(count * 99 + 99) / 100 - 1];
    return summary;
}

static void sum_row(const struct sample *samples, uint32_t count, double *scratch,
                    struct ts_row *row)
{
    row->count = count;
    for (int stage = 0; stage < TS_STAGES; stage++)
        row->stages_ns[stage] = sum_column(samples, count, (struct column){stage, -1},
                                           scratch, &row->total_p99_ns);
    for (int floor = 0; floor < TS_FLOORS; floor++) {
        row->floors_ns[floor] = sum_column(samples, count, (struct column){-1, floor},
                                           scratch, &row->floors_p99_ns[floor]);
        row->stable_over[floor] = sum_column(
            samples, count, (struct column){TS_STABLE, floor}, scratch, NULL);
        row->total_over[floor] =
            sum_column(samples, count, (struct column){TS_TOTAL, floor}, scratch,
                       &row->total_p99_over[floor]);
    }
}

static int sum_up(const struct run *run, struct ts_result *out)
{
    double *scratch = calloc(run->counts[TS_ANY], sizeof *scratch);
    if (scratch == NULL)
        return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    for (int kind = 0; kind < TS_VICTIMS; kind++)
        if (run->counts[kind] > 0)
            sum_row(run->samples[kind], run->counts[kind], scratch, &out->rows[kind]);
    out->bytes = run->bytes;
    free(scratch);
    return 0;
}

/* ---- what the models want to know ------------------------------------------------ */

static int measure_latency(uint32_t fan_out, uint32_t n, uint32_t bytes, double *out)
{
    const struct contention_config config = {.fan_out = fan_out,
                                             .n = n,
                                             .bytes = bytes,
                                             .repetitions = LATENCY_REPETITIONS,
                                             .warm_up = FLOOR_WARM_UP};
    if (contention_run(&config, out) == 0)
        return 0;
    return fail(EXIT_FAILED, "the latency of %" PRIu32 " processes cannot be measured",
                n);
}

/* Without the cluster: it would be in the way, and the processes are waited for. */
static int measure_machine(const struct ts_config *config, struct ts_result *out)
{
    uint32_t fan_out = config->arity < FAN_OUT_MAX ? config->arity : FAN_OUT_MAX;
    fan_out = fan_out < config->n ? fan_out : config->n - 1;
    int code = measure_latency(1, 2, out->bytes, &out->latency_ns);
    if (code == 0)
        code = measure_latency(fan_out, fan_out == 1 ? config->n & ~1u : config->n,
                               out->bytes, &out->contended_ns);
    int error = code ? 0 : bench_compute(config->n, config->arity, &out->compute_ns);
    if (error)
        code = fail(EXIT_FAILED, "%" PRIu32 " nodes in memory: %s", config->n,
                    cop_strerror(error));
    return code;
}

/* ---- the cluster ----------------------------------------------------------------- */

static int open_floor(struct run *run)
{
    const struct floor_config config = {
        .kind = FLOOR_BLOCKING,
        .transport = run->config->tcp ? FLOOR_TCP : FLOOR_UNIX,
        .n = run->config->n - 1,
        .k = run->config->arity,
        .bytes = run->bytes,
        .repetitions = 1,
    };
    char message[160];
    uint64_t ignored;
    if (floor_open(&config, &run->floor, message, sizeof message) != 0)
        return fail(EXIT_FAILED, "%s", message);
    /* The very first pass finds memory that was never touched; ours have done a change. */
    return turn_floor(run, &ignored);
}

static int measure(const char *name, struct run *run, struct progress *progress,
                   struct ts_result *out)
{
    struct sample ignored;
    int code = local_open(name, &run->local);
    if (code)
        return code;
    code = warm_up(run);
    if (code == 0)
        code = open_floor(run);
    /* One that is not kept: its floor comes right after a pass, and not after a change, as those of
     * all others do, and takes half their time. */
    if (code == 0)
        code = take_sample(run, TS_LEAF, &ignored);
    if (code == 0)
        code = take_samples(run, progress);
    if (code == 0)
        code = sum_up(run, out);
    floor_close(run->floor);
    local_close(&run->local);
    return code;
}

static int make_run(const struct ts_config *config, struct run *run)
{
    *run = (struct run){.config = config};
    cop__random_init(&run->random, (uint64_t)config->n << 32 | config->arity);
    for (int kind = 0; kind < TS_VICTIMS; kind++) {
        uint32_t room = config->repeat * (kind == TS_ANY ? TS_ANY : 1u);
        run->samples[kind] = calloc(room, sizeof *run->samples[kind]);
        if (run->samples[kind] == NULL)
            return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    }
    return 0;
}

static int run_cluster(const struct ts_config *config, struct run *run,
                       struct progress *progress, struct ts_result *out)
{
    char name[32], shape[32], detector[64], period[DURATION_SIZE];
    snprintf(name, sizeof name, "bench-%d", (int)getpid());
    snprintf(shape, sizeof shape, "kary:%" PRIu32, config->arity);
    snprintf(period, sizeof period, "%" PRIu64 "us", config->patience_ns / 1000);
    snprintf(detector, sizeof detector, "ring:%s,witnesses:1", period);
    const struct keeper_config keeper = {
        .n = config->n,
        .shape = shape,
        .quorum = "majority",
        .detector = config->trigger == TS_RING ? detector : NULL,
        .tcp = config->tcp,
        .insecure = true,
        .is_private = true};
    int code = local_up(name, &keeper);
    if (code)
        return code;
    code = measure(name, run, progress, out);
    int end = local_down(name);
    return code ? code : end;
}

int bench_ts(const struct ts_config *config, struct progress *progress,
             struct ts_result *out)
{
    struct run run;
    *out = (struct ts_result){0};
    int code = make_run(config, &run);
    if (code == 0)
        code = run_cluster(config, &run, progress, out);
    if (code == 0)
        code = measure_machine(config, out);
    for (int kind = 0; kind < TS_VICTIMS; kind++)
        free(run.samples[kind]);
    return code;
}
