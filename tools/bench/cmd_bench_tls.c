/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What encryption costs: the same things with and without it, turn by turn in one run, and
 * their ratios, so that whatever the machine does to one it does to the other.
 */
#include "ask/asker.h"
#include "bench/bench.h"
#include "cluster/local.h"
#include "term/args.h"
#include "term/commands.h"

#include <coppice/error.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROBE_TIMEOUT_NS (30 * COP_SEC)
#define CHANGE_TIMEOUT_NS (30 * COP_SEC)
#define WARM_UP 10u
/* Members that have nothing to do get ready for a death (net/tcp/warm.h). */
#define REST_US 1500000
#define REST_EACH_US 2000

enum what { WHAT_UP, WHAT_PROBE, WHAT_CHANGE, WHATS };
static const char *const titles[] = {"up", "probe", "view change"};
enum side { PLAIN_SIDE, TLS_SIDE, SIDES };

struct options {
    uint64_t n, rounds, repetitions;
    bool as_json;
};

struct measured {
    double values[WHATS][SIDES][BENCH_ROUNDS_MAX];
};

/* ---- one cluster ----------------------------------------------------------------- */

static int time_probes(struct local *local, uint32_t warm_up, uint32_t repetitions,
                       double *out)
{
    const struct probe_command command = {.count = warm_up + repetitions,
                                          .timeout_ns = PROBE_TIMEOUT_NS};
    struct client client;
    struct asker asker;
    if (local_connect(local, 0, &client) != 0)
        return fail(EXIT_FAILED, "member n0 of '%s' is gone", local->dir.name);
    int error = asker_run(&client, &command, NULL, NULL, &asker);
    client_close(&client);
    if (error)
        return fail(EXIT_FAILED, "a probe failed: %s", cop_strerror(error));
    cop_time *times = asker_sorted(&asker, warm_up, asker.count);
    if (times != NULL)
        *out = median_time(times, asker.count - warm_up);
    free(times);
    asker_free(&asker);
    return times ? 0 : fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
}

/* From the death of an inner node until the root has committed a view without it. */
static int time_change(struct local *local, double *out)
{
    struct client client;
    struct roll roll;
    cop_id inner = 1;
    struct cop_ranks dead = {.items = &inner, .count = 1};
    if (local_connect(local, 0, &client) != 0)
        return fail(EXIT_FAILED, "member n0 of '%s' is gone", local->dir.name);
    int error = client_roll(&client, 0, CHANGE_TIMEOUT_NS, &roll);
    cop_time killed = now_ns();
    int code = error ? fail(EXIT_FAILED, "no view: %s", cop_strerror(error))
                     : local_signal(local, SIGKILL, &dead);
    while (code == 0 && cop_view_rank(roll.view, inner) != COP_RANK_NONE) {
        uint64_t serial = roll.serial;
        roll_free(&roll);
        error = client_roll(&client, serial, CHANGE_TIMEOUT_NS, &roll);
        if (error)
            code = fail(EXIT_FAILED, "no view without n1: %s", cop_strerror(error));
    }
    if (code == 0)
        *out = (double)(roll.times.committed - killed);
    if (!error)
        roll_free(&roll);
    client_close(&client);
    return code;
}

/* The life of one cluster: started, asked, and robbed of a member. */
static int run_side(const struct options *options, enum side side, uint32_t round,
                    struct measured *out)
{
    char name[40];
    struct local local;
    snprintf(name, sizeof name, "bench-%s-%d", side == TLS_SIDE ? "tls" : "plain",
             (int)getpid());
    const struct keeper_config keeper = {.n = (uint32_t)options->n,
                                         .shape = "radix:4",
                                         .quorum = "majority",
                                         .tcp = true,
                                         .insecure = side == PLAIN_SIDE,
                                         .is_private = true};
    cop_time begun = now_ns();
    int code = local_up(name, &keeper);
    if (code)
        return code;
    code = local_open(name, &local);
    double *probe = &out->values[WHAT_PROBE][side][round];
    if (code == 0) {
        /* It is formed when all have answered: `up` returns while some still connect. */
        code = time_probes(&local, 0, 1, probe);
        out->values[WHAT_UP][side][round] = (double)(now_ns() - begun);
        if (code == 0)
            code = time_probes(&local, WARM_UP, (uint32_t)options->repetitions, probe);
        usleep((useconds_t)(REST_US + REST_EACH_US * options->n));
        if (code == 0)
            code = time_change(&local, &out->values[WHAT_CHANGE][side][round]);
        local_close(&local);
    }
    int end = local_down(name);
    return code ? code : end;
}

/* ---- output ---------------------------------------------------------------------- */

static void print_what(const struct options *options, struct json *json,
                       struct measured *measured, enum what what)
{
    static const char *const keys[WHATS][3] = {
        {"up_plain_ns", "up_tls_ns", "up_ratio"},
        {"probe_plain_ns", "probe_tls_ns", "probe_ratio"},
        {"change_plain_ns", "change_tls_ns", "change_ratio"}};
    double(*values)[BENCH_ROUNDS_MAX] = measured->values[what];
    uint32_t rounds = (uint32_t)options->rounds;
    double ratios[BENCH_ROUNDS_MAX];
    for (uint32_t i = 0; i < rounds; i++)
        ratios[i] = values[TLS_SIDE][i] / values[PLAIN_SIDE][i];
    const struct summary all[3] = {summarize(values[PLAIN_SIDE], rounds),
                                   summarize(values[TLS_SIDE], rounds),
                                   summarize(ratios, rounds)};
    for (int i = 0; options->as_json && i < 3; i++)
        bench_put_summary(json, keys[what][i], &all[i], i == 2 ? 4 : 0);
    if (!options->as_json)
        printf("%-12s %8.3f ms (%.3f-%.3f) %8.3f ms (%.3f-%.3f)   %.2f (%.2f-%.2f)\n",
               titles[what], all[0].median / 1e6, all[0].low / 1e6, all[0].high / 1e6,
               all[1].median / 1e6, all[1].low / 1e6, all[1].high / 1e6, all[2].median,
               all[2].low, all[2].high);
}

static void print_all(const struct options *options, struct measured *measured)
{
    struct json json;
    json_init(&json, stdout);
    if (options->as_json) {
        json_begin_object(&json);
        json_put_string(&json, "schema", "coppice.bench.tls.v1");
        json_put_u64(&json, "n", options->n);
        json_put_u64(&json, "rounds", options->rounds);
        json_put_u64(&json, "repetitions", options->repetitions);
    } else {
        printf("%" PRIu64 " members, radix:4, TCP, median of %" PRIu64
               " rounds, with the interval that holds it in 99 %%\n\n"
               "%-12s %-29s %-29s %s\n",
               options->n, options->rounds, "", "   in clear", "   TLS", "  ratio");
    }
    for (enum what what = 0; what < WHATS; what++)
        print_what(options, &json, measured, what);
    if (options->as_json)
        json_end_object(&json);
}

/* ---- the command ----------------------------------------------------------------- */

static int run(const struct options *options)
{
    struct measured measured = {0};
    struct progress progress;
    int code = 0;
    progress_begin(&progress);
    for (uint32_t i = 0; i < options->rounds && code == 0; i++) {
        progress_show(&progress, "rounds", i, (uint32_t)options->rounds);
        code = run_side(options, PLAIN_SIDE, i, &measured);
        if (code == 0)
            code = run_side(options, TLS_SIDE, i, &measured);
    }
    progress_end(&progress);
    if (code == 0)
        print_all(options, &measured);
    return code;
}

int cmd_bench_tls(int argc, char **argv)
{
    struct options got = {.n = 64, .rounds = 9, .repetitions = 200};
    const struct args_option options[] = {
        {'n', "members", "N", "how many processes: 64", ARGS_NUMBER, &got.n, 3, 4096},
        {0, "rounds", "R", "how often both have a turn: 9", ARGS_NUMBER, &got.rounds, 7,
         BENCH_ROUNDS_MAX},
        {0, "repetitions", "K", "probes in each turn: 200", ARGS_NUMBER,
         &got.repetitions, 1, 100000},
        {0, "json", NULL, "one object: coppice.bench.tls.v1", ARGS_FLAG, &got.as_json,
         0, 0},
        {0},
    };
    struct args args = {
        .name = "bench",
        .usage = "tls [options]",
        .text = "Measures what encryption costs: private clusters in clear and with "
                "TLS,\n"
                "in turn; how long they take to form, to answer a probe, and to agree "
                "on\n"
                "a view after the death of an inner node.",
        .options = options,
        .most = 0,
    };
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    return run(&got);
}
