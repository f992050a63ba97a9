/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/bench.h"
#include "cluster/settings.h"
#include "number/numbers.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX 16u

struct options {
    const char *sizes, *arities, *transport;
    uint64_t rounds, repetitions, bytes;
    cop_time idle_ns;
    bool as_json;
};

static int parse_list(const char *option, const char *text, uint32_t least,
                      uint32_t most, struct numbers *out)
{
    if (parse_numbers(text, least, most, LIST_MAX, out) == 0)
        return 0;
    return fail(EXIT_USAGE,
                "bench: %s takes up to %u numbers from %" PRIu32 " to %" PRIu32
                ", as 64,256, not '%s'",
                option, LIST_MAX, least, most, text);
}

/* ---- output ---------------------------------------------------------------------- */

static void print_head(bool sweep, const struct options *options, bool tcp)
{
    printf("%s, %s, median of %" PRIu64 " rounds of %" PRIu64
           ", with the interval that holds it in 99 %%\n\n",
           sweep ? "probe and floors" : "floors", tcp ? "TCP" : "Unix sockets",
           options->rounds, options->repetitions);
    printf("%s%5s %5s %5s  %-26s %-26s", colour(stdout, BOLD), "n", "arity", "bytes",
           "floor, blocking", "floor, epoll");
    if (sweep)
        printf(" %-26s %-18s %-18s", "probe", "/ blocking", "/ epoll");
    printf("%s\n", colour(stdout, PLAIN));
}

static void print_time(const struct summary *summary)
{
    char text[40];
    snprintf(text, sizeof text, "%.3f ms (%.3f-%.3f)", summary->median / 1e6,
             summary->low / 1e6, summary->high / 1e6);
    printf(" %-26s", text);
}

static void print_ratio(const struct summary *summary, double budget)
{
    char text[40];
    bool good = summary->median <= budget;
    snprintf(text, sizeof text, "%.2f (%.2f-%.2f)", summary->median, summary->low,
             summary->high);
    printf(" %s%-18s%s", colour(stdout, good ? GREEN : YELLOW), text,
           colour(stdout, PLAIN));
}

static void print_line(const struct bench_config *config,
                       const struct bench_result *result, bool sweep)
{
    printf("%5" PRIu32 " %5" PRIu32 " %5" PRIu32 " ", config->n, config->arity,
           result->bytes);
    print_time(&result->times_ns[BENCH_BLOCKING]);
    print_time(&result->times_ns[BENCH_EPOLL]);
    if (sweep) {
        print_time(&result->times_ns[BENCH_PROBE]);
        print_ratio(&result->over_blocking, 1.5);
        print_ratio(&result->over_epoll, 1.3);
    }
    putchar('\n');
    fflush(stdout);
}

static void print_agents(const struct bench_config *config,
                         const struct bench_result *result)
{
    char up[DURATION_SIZE];
    printf("%11s up in %s", "", print_duration(result->up_ns, up));
    if (config->idle_ns > 0)
        printf("; an idle agent: %" PRIu64 " KiB private (at most %" PRIu64
               "), %" PRIu64 " KiB resident, %.4f %% CPU",
               result->private_median_bytes / 1024, result->private_most_bytes / 1024,
               result->resident_median_bytes / 1024, result->idle_percent);
    putchar('\n');
    fflush(stdout);
}

static void print_json(const struct bench_config *config,
                       const struct bench_result *result, bool sweep)
{
    struct json json;
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema",
                    sweep ? "coppice.bench.sweep.v1" : "coppice.bench.floor.v1");
    json_put_u64(&json, "n", config->n);
    json_put_u64(&json, "arity", config->arity);
    json_put_string(&json, "transport", config->tcp ? "tcp" : "unix");
    json_put_u64(&json, "message_bytes", result->bytes);
    json_put_u64(&json, "rounds", config->rounds);
    json_put_u64(&json, "repetitions", config->repetitions);
    bench_put_summary(&json, "floor_blocking_ns", &result->times_ns[BENCH_BLOCKING], 0);
    bench_put_summary(&json, "floor_epoll_ns", &result->times_ns[BENCH_EPOLL], 0);
    if (sweep) {
        bench_put_summary(&json, "probe_ns", &result->times_ns[BENCH_PROBE], 0);
        bench_put_summary(&json, "over_blocking", &result->over_blocking, 4);
        bench_put_summary(&json, "over_epoll", &result->over_epoll, 4);
        json_put_u64(&json, "up_ns", result->up_ns);
    }
    if (sweep && config->idle_ns > 0) {
        json_put_u64(&json, "private_bytes", result->private_median_bytes);
        json_put_u64(&json, "private_most_bytes", result->private_most_bytes);
        json_put_u64(&json, "resident_bytes", result->resident_median_bytes);
        json_put_double(&json, "idle_cpu_percent", result->idle_percent, 5);
    }
    json_end_object(&json);
    fflush(stdout);
}

/* ---- the command ----------------------------------------------------------------- */

static int run_point(const struct bench_config *config, bool sweep, bool as_json)
{
    struct bench_result result = {0};
    struct progress progress;
    progress_begin(&progress);
    int code = sweep ? bench_sweep(config, &progress, &result)
                     : bench_floor(config, &progress, &result);
    progress_end(&progress);
    if (code)
        return code;
    if (as_json) {
        print_json(config, &result, sweep);
        return 0;
    }
    print_line(config, &result, sweep);
    if (sweep)
        print_agents(config, &result);
    return 0;
}

static int run(const struct options *options, bool sweep)
{
    struct numbers sizes, arities;
    int code = parse_list("-n", options->sizes, 2, 4096, &sizes);
    if (code == 0)
        code = parse_list("--arity", options->arities, 1, 4096, &arities);
    if (code)
        return code;
    bool tcp = strcmp(options->transport, "tcp") == 0;
    if (!tcp && strcmp(options->transport, "unix") != 0)
        return fail(EXIT_USAGE, "bench: --transport is unix or tcp, not '%s'",
                    options->transport);
    if (!options->as_json)
        print_head(sweep, options, tcp);
    for (uint32_t i = 0; i < sizes.count && code == 0; i++)
        for (uint32_t j = 0; j < arities.count && code == 0; j++) {
            const struct bench_config config = {
                .n = sizes.items[i],
                .arity = arities.items[j],
                .tcp = tcp,
                .rounds = (uint32_t)options->rounds,
                .repetitions = (uint32_t)options->repetitions,
                .bytes = (uint32_t)options->bytes,
                .idle_ns = options->idle_ns,
            };
            code = run_point(&config, sweep, options->as_json);
        }
    return code;
}

/* Benchmarks with options of their own. */
static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} others[] = {
    {"contention", cmd_bench_contention},
    {"ts", cmd_bench_ts},
    {"tls", cmd_bench_tls},
    {"rpc", cmd_bench_rpc},
    {"agree", cmd_bench_agree},
    {"exec", cmd_bench_exec},
    {"bcast", cmd_bench_bcast},
    {"bulk", cmd_bench_bulk},
    {"stream", cmd_bench_stream},
    {"recovery", cmd_bench_recovery},
};
#define OTHERS (sizeof others / sizeof *others)

/* OTHERS: it is none of them. */
static size_t find_other(const char *name)
{
    size_t i = 0;
    while (i < OTHERS && strcmp(others[i].name, name) != 0)
        i++;
    return i;
}

int cmd_bench(int argc, char **argv)
{
    size_t other = argc > 1 ? find_other(argv[1]) : OTHERS;
    if (other < OTHERS)
        return others[other].run(argc - 1, argv + 1);
    struct options got = {.sizes = "64,256",
                          .arities = "2,4",
                          .transport = "tcp",
                          .rounds = 9,
                          .repetitions = 40,
                          .idle_ns = 3 * COP_SEC};
    bool quick = false;
    const struct args_option options[] = {
        {'n', "members", "LIST", "how many processes: 64,256", ARGS_TEXT, &got.sizes, 0,
         0},
        {0, "arity", "LIST", "of the k-ary tree: 2,4", ARGS_TEXT, &got.arities, 0, 0},
        {0, "transport", "unix|tcp", "tcp, on the loopback and not encrypted",
         ARGS_TEXT, &got.transport, 0, 0},
        {0, "rounds", "R", "how often everybody has a turn: 9", ARGS_NUMBER,
         &got.rounds, 7, BENCH_ROUNDS_MAX},
        {0, "repetitions", "K", "in each turn: 40", ARGS_NUMBER, &got.repetitions, 1,
         100000},
        {0, "bytes", "B", "in a message of the floor; as ours otherwise", ARGS_NUMBER,
         &got.bytes, 1, 65536},
        {0, "idle", "TIME", "how long to watch idle agents: 3s", ARGS_DURATION,
         &got.idle_ns, 0, 0},
        {0, "no-idle", NULL, "do not watch them", ARGS_FLAG, &quick, 0, 0},
        {0, "json", NULL, "one object per line: coppice.bench.sweep.v1, .floor.v1",
         ARGS_FLAG, &got.as_json, 0, 0},
        {0},
    };
    struct args args = {
        .name = "bench",
        .usage =
            "sweep|floor|contention|ts|tls|rpc|agree|exec|bcast|bulk|stream|recovery "
            "[options]",
        .text =
            "`sweep` measures probes of a private cluster against two floors, turn by\n"
            "turn: bare C that moves as many equal messages over the same tree, with\n"
            "blocking sockets and with epoll. `floor` measures the floors alone.\n"
            "Others have options of their own (coppice bench ts --help): "
            "`contention`,\n"
            "`ts` (the time of a change of the view), `tls` (what encryption costs),\n"
            "`rpc` (calls to all), `agree`, `exec` (against pdsh, clush and xargs),\n"
            "`bcast` (an empty request to all, also against MPI), `bulk` (many bytes "
            "to\n"
            "all, against bare copies), `stream` (waves of sums), `recovery` (of a "
            "stream\n"
            "after a death).",
        .options = options,
        .least = 1,
        .most = 1,
    };
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    if (quick)
        got.idle_ns = 0;
    const char *what = args.operands[0];
    if (find_other(what) < OTHERS)
        return fail(EXIT_USAGE, "bench: %s comes first, before its options", what);
    if (strcmp(what, "sweep") != 0 && strcmp(what, "floor") != 0)
        return fail(EXIT_USAGE,
                    "bench: '%s' is no benchmark (coppice help bench lists them)",
                    what);
    return run(&got, strcmp(what, "sweep") == 0);
}
