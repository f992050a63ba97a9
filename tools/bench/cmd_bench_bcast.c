/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/bcast.h"
#include "bench/crowd.h"
#include "number/numbers.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/json.h"

#include <inttypes.h>

#define LIST_MAX 16u

struct options {
    const char *sizes;
    uint64_t arity, rounds, repetitions;
    bool with_mpi, as_json;
};

static const char *const keys[BCAST_MPIS][2] = {
    {"mpi_tcp_ns", "mpi_tcp_over_call"},
    {"mpi_shared_ns", "mpi_shared_over_call"},
};
static const char *const titles[BCAST_MPIS] = {"TCP", "shared memory"};

static void print_head(const struct options *options)
{
    printf("an empty request and one answer, kary:%" PRIu64 ", TCP: median of %" PRIu64
           " rounds of %" PRIu64 ", with the interval that holds it in 99 %%\n\n",
           options->arity, options->rounds, options->repetitions);
    printf("%s%5s %5s  %-26s %-26s %-26s %-18s%s\n", colour(stdout, BOLD), "n", "bytes",
           "floor, blocking", "call", "to the last member", "call / floor",
           colour(stdout, PLAIN));
}

static void print_time(const struct summary *summary)
{
    char text[40];
    snprintf(text, sizeof text, "%.3f ms (%.3f-%.3f)", summary->median / 1e6,
             summary->low / 1e6, summary->high / 1e6);
    printf(" %-26s", text);
}

static void print_line(const struct bcast_config *config,
                       const struct bcast_result *result)
{
    printf("%5" PRIu32 " %5" PRIu32 " ", config->n, result->bytes);
    print_time(&result->floor_ns);
    print_time(&result->call_ns);
    print_time(&result->one_way_ns);
    printf(" %.2f (%.2f-%.2f)\n", result->over_floor.median, result->over_floor.low,
           result->over_floor.high);
    for (int i = 0; i < BCAST_MPIS && config->with_mpi; i++) {
        const struct summary *over = &result->mpi_over_call[i];
        printf("%12sMPI_Bcast and MPI_Reduce over %s: %.3f ms, %.2f (%.2f-%.2f) times "
               "as long as ours\n",
               "", titles[i], result->mpi_ns[i].median / 1e6, over->median, over->low,
               over->high);
    }
    fflush(stdout);
}

static void put_mpi(struct json *json, const struct bcast_config *config,
                    const struct bcast_result *result)
{
    for (int i = 0; i < BCAST_MPIS; i++) {
        if (config->with_mpi) {
            bench_put_summary(json, keys[i][0], &result->mpi_ns[i], 0);
            bench_put_summary(json, keys[i][1], &result->mpi_over_call[i], 4);
            continue;
        }
        json_key(json, keys[i][0]);
        json_null(json);
        json_key(json, keys[i][1]);
        json_null(json);
    }
}

static void print_json(const struct bcast_config *config,
                       const struct bcast_result *result)
{
    struct json json;
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.bench.bcast.v1");
    json_put_u64(&json, "n", config->n);
    json_put_u64(&json, "arity", config->arity);
    json_put_u64(&json, "message_bytes", result->bytes);
    json_put_u64(&json, "rounds", config->rounds);
    json_put_u64(&json, "repetitions", config->repetitions);
    bench_put_summary(&json, "floor_blocking_ns", &result->floor_ns, 0);
    bench_put_summary(&json, "call_ns", &result->call_ns, 0);
    bench_put_summary(&json, "one_way_ns", &result->one_way_ns, 0);
    bench_put_summary(&json, "over_blocking", &result->over_floor, 4);
    put_mpi(&json, config, result);
    json_end_object(&json);
    fflush(stdout);
}

static int run_point(const struct bcast_config *config, bool as_json)
{
    struct bcast_result result;
    struct progress progress;
    progress_begin(&progress);
    int code = bench_bcast(config, &progress, &result);
    progress_end(&progress);
    if (code == 0)
        (as_json ? print_json : print_line)(config, &result);
    return code;
}

int cmd_bench_bcast(int argc, char **argv)
{
    struct options got = {
        .sizes = "64,256", .arity = 4, .rounds = 9, .repetitions = 100};
    static struct numbers sizes;
    const struct args_option options[] = {
        {'n', "members", "LIST", "how many processes: 64,256", ARGS_TEXT, &got.sizes, 0,
         0},
        {0, "arity", "K", "of the k-ary tree: 4", ARGS_NUMBER, &got.arity, 2,
         CROWD_MAX},
        {0, "mpi", NULL, "also against MPI_Bcast and MPI_Reduce of Open MPI", ARGS_FLAG,
         &got.with_mpi, 0, 0},
        {0, "rounds", "R", "how often all are started anew: 9", ARGS_NUMBER,
         &got.rounds, 1, BENCH_ROUNDS_MAX},
        {0, "repetitions", "K", "in each round: 100", ARGS_NUMBER, &got.repetitions, 1,
         1000000},
        {0, "json", NULL, "one object per line: coppice.bench.bcast.v1", ARGS_FLAG,
         &got.as_json, 0, 0},
        {0},
    };
    struct args args = {
        .name = "bench",
        .usage = "bcast [options]",
        .text =
            "Measures an empty request of one member to all, with all answers made\n"
            "into one, against bare C that moves as many messages over the same tree\n"
            "with blocking sockets; and how long it takes to the last member, one "
            "way.\n"
            "How many there are in a second with many under way says `bench rpc`.",
        .options = options,
        .most = 0,
    };
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    if (parse_numbers(got.sizes, 2, CROWD_MAX, LIST_MAX, &sizes) != 0)
        return fail(
            EXIT_USAGE,
            "bench: -n takes up to %u numbers from 2 to %u, as 64,256, not '%s'",
            LIST_MAX, CROWD_MAX, got.sizes);
    if (!got.as_json)
        print_head(&got);
    for (uint32_t i = 0; i < sizes.count && code == 0; i++) {
        const struct bcast_config config = {.n = sizes.items[i],
                                            .arity = (uint32_t)got.arity,
                                            .rounds = (uint32_t)got.rounds,
                                            .repetitions = (uint32_t)got.repetitions,
                                            .with_mpi = got.with_mpi};
        code = run_point(&config, got.as_json);
    }
    return code;
}
