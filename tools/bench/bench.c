/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/bench.h"

#include "ask/asker.h"
#include "bench/floor.h"
#include "cluster/local.h"
#include "talk/procfs.h"
#include "term/commands.h"
#include "wire/header.h"

#include <coppice/error.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLOOR_BYTES_DEFAULT 128u
#define WARM_UP 10u
#define PROBE_TIMEOUT_NS (30 * COP_SEC)

/* One measurement on its way: the medians of the rounds so far. */
struct turns {
    const struct bench_config *config;
    uint32_t bytes;
    uint32_t done;
    double *medians[BENCH_KINDS]; /* config->rounds each */
    struct client *client;        /* the member that probes; NULL: the floor alone */
};

static int make_turns(const struct bench_config *config, struct turns *turns)
{
    *turns = (struct turns){.config = config};
    for (int kind = 0; kind < BENCH_KINDS; kind++) {
        turns->medians[kind] = calloc(config->rounds, sizeof(double));
        if (turns->medians[kind] == NULL) {
            complain("%s", cop_strerror(COP_ENOMEM));
            return EXIT_FAILED;
        }
    }
    return 0;
}

static void free_turns(struct turns *turns)
{
    for (int kind = 0; kind < BENCH_KINDS; kind++)
        free(turns->medians[kind]);
}

/* ---- one turn -------------------------------------------------------------------- */

int bench_time_floor(const struct floor_config *floor, double *median)
{
    struct floor_result result = {.message = ""};
    int error = floor_run(floor, &result);
    if (error)
        return fail(EXIT_FAILED, "the floor: %s",
                    result.message[0] ? result.message : cop_strerror(error));
    *median = median_time(result.samples_ns, result.count);
    floor_result_free(&result);
    return 0;
}

static int time_floor(const struct turns *turns, enum bench_kind kind, double *median)
{
    const struct bench_config *config = turns->config;
    const struct floor_config floor = {
        .kind = kind == BENCH_EPOLL ? FLOOR_EPOLL : FLOOR_BLOCKING,
        .transport = config->tcp ? FLOOR_TCP : FLOOR_UNIX,
        .n = config->n,
        .k = config->arity,
        .bytes = turns->bytes,
        .repetitions = config->repetitions,
        .warm_up = WARM_UP,
    };
    return bench_time_floor(&floor, median);
}

static int run_probes(struct client *client, uint32_t count, struct asker *out)
{
    const struct probe_command command = {
        .count = count, .chunk = 0, .timeout_ns = PROBE_TIMEOUT_NS};
    int error = asker_run(client, &command, NULL, NULL, out);
    if (error)
        return fail(EXIT_FAILED, "a probe failed: %s", cop_strerror(error));
    for (uint32_t i = 0; i < out->count; i++)
        if (out->samples[i].status != 0 || out->samples[i].answered != out->members) {
            uint32_t answered = out->samples[i].answered, members = out->members;
            asker_free(out);
            return fail(EXIT_FAILED, "a probe was answered by %" PRIu32 " of %" PRIu32,
                        answered, members);
        }
    return 0;
}

static int time_probe(const struct turns *turns, double *median)
{
    struct asker asker;
    uint32_t count = turns->config->repetitions;
    int code = run_probes(turns->client, WARM_UP + count, &asker);
    if (code)
        return code;
    cop_time *times = asker_sorted(&asker, WARM_UP, WARM_UP + count);
    if (times != NULL)
        *median = median_time(times, count);
    else
        code = fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    free(times);
    asker_free(&asker);
    return code;
}

static int take_turns(struct turns *turns, struct progress *progress)
{
    char what[64];
    snprintf(what, sizeof what, "n = %" PRIu32 ", arity %" PRIu32, turns->config->n,
             turns->config->arity);
    for (uint32_t i = 0; i < turns->config->rounds; i++) {
        progress_show(progress, what, i, turns->config->rounds);
        int code =
            time_floor(turns, BENCH_BLOCKING, &turns->medians[BENCH_BLOCKING][i]);
        if (code == 0)
            code = time_floor(turns, BENCH_EPOLL, &turns->medians[BENCH_EPOLL][i]);
        if (code == 0 && turns->client)
            code = time_probe(turns, &turns->medians[BENCH_PROBE][i]);
        if (code)
            return code;
        turns->done++;
    }
    return 0;
}

/* Ratios go round by round, before the rounds are sorted. */
static int sum_up(struct turns *turns, struct bench_result *out)
{
    uint32_t rounds = turns->done;
    double *ratios = malloc(rounds * sizeof *ratios);
    if (ratios == NULL)
        return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    for (enum bench_kind floor = BENCH_BLOCKING; floor <= BENCH_EPOLL; floor++) {
        for (uint32_t i = 0; i < rounds; i++)
            ratios[i] = turns->medians[BENCH_PROBE][i] / turns->medians[floor][i];
        struct summary summary = summarize(ratios, rounds);
        *(floor == BENCH_BLOCKING ? &out->over_blocking : &out->over_epoll) = summary;
    }
    free(ratios);
    for (int kind = 0; kind < BENCH_KINDS; kind++)
        out->times_ns[kind] = summarize(turns->medians[kind], rounds);
    out->bytes = turns->bytes;
    return 0;
}

int bench_floor(const struct bench_config *config, struct progress *progress,
                struct bench_result *out)
{
    struct turns turns;
    int code = make_turns(config, &turns);
    turns.bytes = config->bytes ? config->bytes : FLOOR_BYTES_DEFAULT;
    if (code == 0)
        code = take_turns(&turns, progress);
    if (code == 0)
        code = sum_up(&turns, out);
    free_turns(&turns);
    return code;
}

/* ---- the cluster ----------------------------------------------------------------- */

/* Adds up what a member has sent. */
static void add_sent(char *text, uint64_t *bytes, uint64_t *frames)
{
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        char key[64];
        uint64_t value;
        if (sscanf(line, "%63s %" SCNu64, key, &value) != 2)
            continue;
        if (strcmp(key, "sent_bytes") == 0)
            *bytes += value;
        else if (strncmp(key, "sent_", 5) == 0)
            *frames += value;
    }
}

int bench_traffic(const struct local *local, cop_id but, struct bench_traffic *out)
{
    *out = (struct bench_traffic){0};
    for (cop_id id = 0; id < local->cluster.n; id++) {
        if (id == but)
            continue;
        char *text = local_status(local, id);
        if (text == NULL)
            return fail(EXIT_FAILED, "a member does not tell its statistics");
        add_sent(text, &out->bytes, &out->frames);
        free(text);
    }
    return 0;
}

uint32_t bench_message_bytes(const struct bench_traffic *before,
                             const struct bench_traffic *after)
{
    uint64_t frames = after->frames - before->frames;
    if (frames == 0)
        return FLOOR_BYTES_DEFAULT;
    return (uint32_t)((after->bytes - before->bytes) / frames) + COP__RECORD_SIZE;
}

/* The floor's messages are as long as ours are on average. */
static int measure_bytes(const struct local *local, uint32_t *out)
{
    const struct bench_traffic nothing = {0};
    struct bench_traffic sent;
    int code = bench_traffic(local, COP_ID_NONE, &sent);
    if (code == 0)
        *out = bench_message_bytes(&nothing, &sent);
    return code;
}

static uint64_t median_of(uint64_t *values, uint32_t count)
{
    return (uint64_t)median_time(values, count);
}

/* What the agents use while nobody asks them anything. */
static int measure_agents(struct local *local, const struct list_reply *list,
                          cop_time idle_ns, struct bench_result *out)
{
    uint32_t n = list->count;
    struct process_use *before = calloc(n, sizeof *before);
    uint64_t *private = calloc(n, sizeof *private),
             *resident = calloc(n, sizeof *resident);
    bool good = before != NULL && private != NULL && resident != NULL;
    cop_time begun = now_ns(), cpu_ns = 0;
    for (uint32_t i = 0; i < n && good; i++)
        good = process_use(list->members[i].pid, &before[i]);
    poll(NULL, 0, (int)(idle_ns / COP_MSEC));
    for (uint32_t i = 0; i < n && good; i++) {
        struct process_use after;
        good = process_use(list->members[i].pid, &after);
        cpu_ns += good ? after.cpu_ns - before[i].cpu_ns : 0;
        private[i] = good ? after.private_bytes : 0;
        resident[i] = good ? after.resident_bytes : 0;
    }
    cop_time elapsed = now_ns() - begun;
    if (good) {
        out->idle_percent = 100.0 * (double)cpu_ns / (double)elapsed / n;
        out->private_median_bytes = median_of(private, n);
        out->private_most_bytes = private[n - 1];
        out->resident_median_bytes = median_of(resident, n);
    }
    free(before);
    free(private);
    free(resident);
    return good ? 0 : fail(EXIT_FAILED, "a member of '%s' is gone", local->dir.name);
}

static int watch_idle(struct local *local, cop_time idle_ns, struct bench_result *out)
{
    struct list_reply list;
    if (idle_ns == 0)
        return 0;
    int code = local_list(local, &list);
    if (code)
        return code;
    code = measure_agents(local, &list, idle_ns, out);
    list_reply_free(&list);
    return code;
}

/* Turns with a cluster that is up. */
static int measure(const char *name, struct turns *turns, struct progress *progress,
                   struct bench_result *out)
{
    struct local local;
    struct client client;
    struct asker asker;
    int code = local_open(name, &local);
    if (code)
        return code;
    if (local_connect(&local, 0, &client) != 0) {
        local_close(&local);
        return fail(EXIT_FAILED, "member n0 of '%s' is gone", name);
    }
    turns->client = &client;
    turns->bytes = turns->config->bytes;
    code = run_probes(&client, WARM_UP, &asker);
    if (code == 0)
        asker_free(&asker);
    if (code == 0 && turns->bytes == 0)
        code = measure_bytes(&local, &turns->bytes);
    if (code == 0)
        code = take_turns(turns, progress);
    if (code == 0)
        code = sum_up(turns, out);
    client_close(&client);
    turns->client = NULL;
    if (code == 0)
        code = watch_idle(&local, turns->config->idle_ns, out);
    local_close(&local);
    return code;
}

int bench_sweep(const struct bench_config *config, struct progress *progress,
                struct bench_result *out)
{
    struct turns turns;
    char name[32], shape[32];
    snprintf(name, sizeof name, "bench-%d", (int)getpid());
    snprintf(shape, sizeof shape, "kary:%" PRIu32, config->arity);
    const struct keeper_config keeper = {.n = config->n,
                                         .shape = shape,
                                         .quorum = "majority",
                                         .tcp = config->tcp,
                                         .insecure = true,
                                         .is_private = true};
    *out = (struct bench_result){0};
    int code = make_turns(config, &turns);
    if (code == 0) {
        cop_time begun = now_ns();
        code = local_up(name, &keeper);
        out->up_ns = now_ns() - begun;
    }
    if (code == 0) {
        code = measure(name, &turns, progress, out);
        int end = local_down(name);
        code = code ? code : end;
    }
    free_turns(&turns);
    return code;
}

/* ---- output ---------------------------------------------------------------------- */

void bench_put_summary(struct json *json, const char *key,
                       const struct summary *summary, int decimals)
{
    json_key(json, key);
    json_begin_object(json);
    json_put_double(json, "median", summary->median, decimals);
    json_put_double(json, "low", summary->low, decimals);
    json_put_double(json, "high", summary->high, decimals);
    json_put_double(json, "confidence", summary->confidence, 4);
    json_end_object(json);
}
