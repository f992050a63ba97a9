/* SPDX-License-Identifier: Apache-2.0 */
/* How many calls a second one member can make, by how many are under way. */
#include "bench/bench.h"
#include "bench/crowd.h"
#include "number/numbers.h"
#include "term/args.h"
#include "term/commands.h"

#include <coppice/error.h>
#include <inttypes.h>
#include <stdlib.h>

#define LEVELS_MAX 16u
#define SILENCE_MS 60000

struct options {
    uint64_t n, rounds, requests;
    const char *in_flight;
    bool as_json;
};

/* One turn: `requests` calls, `level` of them at a time. */
struct turn {
    struct cop_run *run;
    uint32_t requests, begun, ended, failed;
    int status; /* of the first that failed */
    struct shot *shots;
    uint64_t *times_ns;
};
struct shot {
    struct turn *turn;
    cop_time begun;
};

struct level {
    double rates[BENCH_ROUNDS_MAX], times_ns[BENCH_ROUNDS_MAX];
};

/* ---- one turn -------------------------------------------------------------------- */

static void shoot(struct turn *turn);

static void note_failure(struct turn *turn, int status)
{
    if (turn->failed++ == 0)
        turn->status = status;
}

static void on_ended(void *context, int status, const struct cop_bcast_result *result)
{
    struct shot *shot = context;
    struct turn *turn = shot->turn;
    turn->times_ns[turn->ended++] = now_ns() - shot->begun;
    if (status != 0 || result->failure_count > 0)
        note_failure(turn, status);
    if (turn->begun < turn->requests && turn->failed == 0)
        shoot(turn);
}

static void shoot(struct turn *turn)
{
    struct cop_call call = {.service = CROWD_SERVICE, .op = COP_OP_SUM};
    struct shot *shot = &turn->shots[turn->begun++];
    *shot = (struct shot){turn, now_ns()};
    int error = cop_rpc(turn->run, &call, on_ended, shot);
    if (error) {
        note_failure(turn, error);
        turn->ended++;
    }
}

static int run_turn(struct turn *turn, uint32_t in_flight, double *rate, double *time)
{
    turn->begun = turn->ended = turn->failed = 0;
    cop_time begun = now_ns();
    while (turn->begun < turn->requests && turn->begun < in_flight)
        shoot(turn);
    while (turn->ended < turn->begun)
        if (cop_poll(turn->run, SILENCE_MS) != 0)
            return fail(EXIT_FAILED, "bench: this member was removed");
    if (turn->failed > 0)
        return fail(EXIT_FAILED, "bench: a call failed: %s",
                    turn->status ? cop_strerror(turn->status) : "not all answered");
    *rate = turn->requests / ((double)(now_ns() - begun) / 1e9);
    *time = median_time(turn->times_ns, turn->requests);
    return 0;
}

static int run_rounds(const struct options *options, const struct numbers *in_flight,
                      struct turn *turn, struct level *levels)
{
    struct progress progress;
    double ignored[2];
    progress_begin(&progress);
    /* Connections are made, and caches filled. */
    int code = run_turn(turn, 1, &ignored[0], &ignored[1]);
    for (uint32_t i = 0; i < options->rounds && code == 0; i++) {
        progress_show(&progress, "rounds", i, options->rounds);
        for (uint32_t k = 0; k < in_flight->count && code == 0; k++)
            code = run_turn(turn, in_flight->items[k], &levels[k].rates[i],
                            &levels[k].times_ns[i]);
    }
    progress_end(&progress);
    return code;
}

/* ---- output ---------------------------------------------------------------------- */

static void print_level(const struct options *options, uint32_t in_flight,
                        struct level *level)
{
    struct summary rate = summarize(level->rates, (uint32_t)options->rounds);
    struct summary time = summarize(level->times_ns, (uint32_t)options->rounds);
    struct json json;
    if (!options->as_json) {
        printf("%9" PRIu32 " %9.0f /s (%.0f-%.0f) %9.3f ms (%.3f-%.3f)\n", in_flight,
               rate.median, rate.low, rate.high, time.median / 1e6, time.low / 1e6,
               time.high / 1e6);
        return;
    }
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.bench.rpc.v1");
    json_put_u64(&json, "n", options->n);
    json_put_u64(&json, "in_flight", in_flight);
    json_put_u64(&json, "rounds", options->rounds);
    json_put_u64(&json, "requests", options->requests);
    bench_put_summary(&json, "requests_per_second", &rate, 1);
    bench_put_summary(&json, "request_ns", &time, 0);
    json_end_object(&json);
}

static void print_all(const struct options *options, const struct numbers *in_flight,
                      struct level *levels)
{
    if (!options->as_json)
        printf("%" PRIu64 " members, radix:4, TCP, median of %" PRIu64
               " rounds of %" PRIu64 ", with the interval that holds it in 99 %%\n\n"
               "in flight     requests                    one takes\n",
               options->n, options->rounds, options->requests);
    for (uint32_t k = 0; k < in_flight->count; k++)
        print_level(options, in_flight->items[k], &levels[k]);
}

/* ---- the command ----------------------------------------------------------------- */

static int measure(const struct options *options, const struct numbers *in_flight)
{
    struct crowd *crowd = malloc(sizeof *crowd);
    struct level *levels = calloc(in_flight->count, sizeof *levels);
    struct turn turn = {
        .requests = (uint32_t)options->requests,
        .shots = calloc(options->requests, sizeof *turn.shots),
        .times_ns = calloc(options->requests, sizeof *turn.times_ns),
    };
    int code = EXIT_FAILED;
    if (crowd == NULL || levels == NULL || turn.shots == NULL || turn.times_ns == NULL)
        complain("%s", cop_strerror(COP_ENOMEM));
    else
        code = crowd_open(crowd, &(struct crowd_config){.n = (uint32_t)options->n});
    if (code == 0) {
        turn.run = crowd->run;
        code = run_rounds(options, in_flight, &turn, levels);
        crowd_close(crowd);
    }
    if (code == 0)
        print_all(options, in_flight, levels);
    free(turn.shots);
    free(turn.times_ns);
    free(levels);
    free(crowd);
    return code;
}

int cmd_bench_rpc(int argc, char **argv)
{
    struct options got = {
        .n = 64, .rounds = 7, .requests = 500, .in_flight = "1,4,16,64,256"};
    static struct numbers in_flight;
    const struct args_option options[] = {
        {'n', "members", "N", "how many processes: 64", ARGS_NUMBER, &got.n, 2,
         CROWD_MAX},
        {0, "in-flight", "LIST", "calls at a time: 1,4,16,64,256", ARGS_TEXT,
         &got.in_flight, 0, 0},
        {0, "rounds", "R", "how often each has a turn: 7", ARGS_NUMBER, &got.rounds, 1,
         BENCH_ROUNDS_MAX},
        {0, "requests", "K", "in each turn: 500", ARGS_NUMBER, &got.requests, 1,
         1000000},
        {0, "json", NULL, "one object per line: coppice.bench.rpc.v1", ARGS_FLAG,
         &got.as_json, 0, 0},
        {0},
    };
    struct args args = {
        .name = "bench",
        .usage = "rpc [options]",
        .text =
            "Measures calls of one member to all, whose answers are summed up: how\n"
            "many in a second, and how long one takes, with so many under way.",
        .options = options,
        .most = 0,
    };
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    if (parse_numbers(got.in_flight, 1, COP_RPC_MAX, LEVELS_MAX, &in_flight) != 0)
        return fail(EXIT_USAGE,
                    "bench: --in-flight takes up to %u numbers from 1 to %u, as 1,64, "
                    "not '%s'",
                    LEVELS_MAX, COP_RPC_MAX, got.in_flight);
    return measure(&got, &in_flight);
}
