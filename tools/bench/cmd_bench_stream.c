/* SPDX-License-Identifier: Apache-2.0 */
/* `bench stream` and `bench recovery`. */
#include "bench/cost.h"
#include "bench/stream.h"
#include "number/numbers.h"
#include "term/args.h"
#include "term/commands.h"

#include <inttypes.h>
#include <string.h>

#define LIST_MAX 16u
/* Each wave is as any other, but that credit goes down once in a quarter of the window. */
#define COST_WAVES 64u
#define COST_STEPS 1u

static int parse_list(const char *option, const char *text, uint32_t most,
                      struct numbers *out)
{
    if (parse_numbers(text, 2, most, LIST_MAX, out) == 0)
        return 0;
    return fail(EXIT_USAGE,
                "bench: %s takes up to %u numbers from 2 to %" PRIu32
                ", as 4,8, not '%s'",
                option, LIST_MAX, most, text);
}

/* ---- stream ---------------------------------------------------------------------- */

static void print_summary(const struct summary *summary, int decimals, double by)
{
    char text[96];
    snprintf(text, sizeof text, "%.*f (%.*f-%.*f)", decimals, summary->median / by,
             decimals, summary->low / by, decimals, summary->high / by);
    printf(" %-24s", text);
}

static void print_row(const struct stream_config *config,
                      const struct stream_result *result)
{
    printf("%4" PRIu32 "/%-3" PRIu32, config->fan_out * config->fan_out,
           config->fan_out);
    print_summary(&result->flush, 0, 1);
    print_summary(&result->burst, 0, 1);
    print_summary(&result->trip_ns, 3, 1e6);
    print_summary(&result->over_blocking, 2, 1);
    print_summary(&result->over_epoll, 2, 1);
    putchar('\n');
    fflush(stdout);
}

static void put_row(const struct stream_config *config,
                    const struct stream_result *result)
{
    struct json json;
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.bench.stream.v1");
    json_put_u64(&json, "n", result->n);
    json_put_u64(&json, "back_ends", (uint64_t)config->fan_out * config->fan_out);
    json_put_u64(&json, "fan_out", config->fan_out);
    json_put_u64(&json, "rounds", config->rounds);
    json_put_u64(&json, "waves", config->waves);
    json_put_u64(&json, "trips", config->trips);
    json_put_u64(&json, "window", config->window);
    bench_put_summary(&json, "flush_waves_per_second", &result->flush, 1);
    bench_put_summary(&json, "burst_waves_per_second", &result->burst, 1);
    json_put_u64(&json, "message_bytes", result->bytes);
    bench_put_summary(&json, "round_trip_ns", &result->trip_ns, 0);
    bench_put_summary(&json, "floor_blocking_ns", &result->blocking_ns, 0);
    bench_put_summary(&json, "floor_epoll_ns", &result->epoll_ns, 0);
    bench_put_summary(&json, "over_blocking", &result->over_blocking, 4);
    bench_put_summary(&json, "over_epoll", &result->over_epoll, 4);
    json_end_object(&json);
    fflush(stdout);
}

static int run_stream(struct stream_config *config, const struct numbers *fan_outs,
                      bool as_json)
{
    int code = 0;
    if (!as_json)
        printf("an 8-byte sum over TCP, %" PRIu64 " waves and %" PRIu32
               " round trips in each of %" PRIu32 " rounds; waves per second\n\n"
               "b.e./k  %-24s %-24s %-24s %-24s %s\n",
               config->waves, config->trips, config->rounds, "flushed each",
               "as many as there is room", "round trip, ms", "/ floor, blocking",
               "/ floor, epoll");
    for (uint32_t i = 0; i < fan_outs->count && code == 0; i++) {
        struct stream_result result = {0};
        struct progress progress;
        config->fan_out = fan_outs->items[i];
        progress_begin(&progress);
        code = bench_stream(config, &progress, &result);
        progress_end(&progress);
        if (code == 0)
            (as_json ? put_row : print_row)(config, &result);
    }
    return code;
}

/* ---- what it costs to be ready for a loss ---------------------------------------- */

static double more_in_percent(double with, double without)
{
    return without > 0 ? 100 * (with / without - 1) : 0;
}

/* `missing`: what it takes to count it here; NULL: it was counted. */
static void print_pair(const char *what, const char *missing, double with,
                       double without)
{
    if (missing == NULL)
        printf("  %-14s %14.1f %14.1f %+9.2f %%\n", what, with, without,
               more_in_percent(with, without));
    else
        printf("  %-14s %14s %14s  %s\n", what, "-", "-", missing);
}

static void print_cost(const struct cost_config *config,
                       const struct cost_result *result)
{
    printf("\n%" PRIu32 " processes, %s give packets, %s\n", result->n,
           config->all ? "all" : "the leaves",
           config->trips ? "a packet down before each wave" : "waves alone");
    print_pair("frames", NULL, result->frames[COST_HEALING],
               result->frames[COST_FRAGILE]);
    print_pair("bytes", NULL, result->bytes[COST_HEALING], result->bytes[COST_FRAGILE]);
    print_pair("instructions", result->has_instructions ? NULL : "needs ptrace(2)",
               result->instructions[COST_HEALING], result->instructions[COST_FRAGILE]);
    print_pair("system calls",
               result->has_calls ? NULL
                                 : "needs root, and tracefs in /sys/kernel/tracing",
               result->calls[COST_HEALING].median, result->calls[COST_FRAGILE].median);
    fflush(stdout);
}

static void put_ways(struct json *json, const char *key, const double values[COST_WAYS])
{
    json_key(json, key);
    json_begin_object(json);
    json_put_double(json, "healing", values[COST_HEALING], 2);
    json_put_double(json, "fragile", values[COST_FRAGILE], 2);
    json_put_double(json, "more_percent",
                    more_in_percent(values[COST_HEALING], values[COST_FRAGILE]), 3);
    json_end_object(json);
}

static void put_cost(const struct cost_config *config, const struct cost_result *result)
{
    struct json json;
    const double calls[COST_WAYS] = {result->calls[COST_HEALING].median,
                                     result->calls[COST_FRAGILE].median};
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.bench.stream_cost.v1");
    json_put_u64(&json, "n", result->n);
    json_put_u64(&json, "fan_out", config->fan_out);
    json_put_string(&json, "back_ends", config->all ? "all" : "leaves");
    json_put_bool(&json, "down", config->trips);
    json_put_u64(&json, "waves", config->waves);
    json_put_u64(&json, "rounds", config->rounds);
    put_ways(&json, "frames", result->frames);
    put_ways(&json, "bytes", result->bytes);
    if (result->has_instructions)
        put_ways(&json, "instructions", result->instructions);
    if (result->has_calls)
        put_ways(&json, "system_calls", calls);
    json_end_object(&json);
    fflush(stdout);
}

static const char *const cost_parts[] = {"leaves", "leaves-down", "all", "all-down"};
#define COST_PARTS 4u

/* "healing:all-down": one way, of one part. */
static int parse_only(const char *text, struct cost_config *out, uint32_t *part)
{
    static const char *const ways[] = {"healing", "fragile"};
    for (uint32_t way = 0; way < COST_WAYS; way++) {
        size_t length = strlen(ways[way]);
        if (strncmp(text, ways[way], length) != 0 || text[length] != ':')
            continue;
        for (uint32_t i = 0; i < COST_PARTS; i++)
            if (strcmp(text + length + 1, cost_parts[i]) == 0) {
                out->only = (enum cost_way)way;
                *part = i;
                return 0;
            }
    }
    return fail(
        EXIT_USAGE,
        "bench: --only is healing or fragile, ':', and leaves, leaves-down, all "
        "or all-down, not '%s'",
        text);
}

/* Nothing is counted here: one part for every fan-out, for a tool around this process. */
static int run_only(const char *only, struct cost_config *config,
                    const struct numbers *fan_outs)
{
    uint32_t part = 0;
    int code = parse_only(only, config, &part);
    config->trips = part & 1;
    config->all = part & 2;
    for (uint32_t i = 0; i < fan_outs->count && code == 0; i++) {
        struct cost_result result;
        struct progress progress;
        config->fan_out = fan_outs->items[i];
        progress_begin(&progress);
        code = bench_cost(config, &progress, &result);
        progress_end(&progress);
        if (code == 0)
            printf("%" PRIu32 " processes, %" PRIu64 " waves\n", result.n,
                   (uint64_t)config->rounds * config->turns);
    }
    return code;
}

static int run_cost(struct cost_config *config, const struct numbers *fan_outs,
                    bool as_json)
{
    int code = 0;
    if (!as_json)
        printf(
            "an 8-byte sum, for each wave, in all processes together: a stream that\n"
            "survives losses, one that does not (COP_STREAM_FRAGILE), and how much "
            "more\nthe former costs while nobody is lost\n");
    fflush(stdout);
    for (uint32_t i = 0; i < COST_PARTS * fan_outs->count && code == 0; i++) {
        struct cost_result result;
        struct progress progress;
        config->fan_out = fan_outs->items[i / COST_PARTS];
        config->trips = i & 1;
        config->all = i & 2;
        progress_begin(&progress);
        code = bench_cost(config, &progress, &result);
        progress_end(&progress);
        if (code == 0)
            (as_json ? put_cost : print_cost)(config, &result);
    }
    return code;
}

int cmd_bench_stream(int argc, char **argv)
{
    const char *fan_outs = NULL, *only = NULL;
    uint64_t rounds = 7, waves = 0, trips = 100, window = 64;
    bool as_json = false, cost = false;
    static struct numbers list;
    const struct args_option options[] = {
        {0, "fan-out", "LIST", "k, for k * k back-ends: 4,8,16; --cost: 4", ARGS_TEXT,
         &fan_outs, 0, 0},
        {0, "rounds", "R", "how often each has a turn: 7", ARGS_NUMBER, &rounds, 1,
         BENCH_ROUNDS_MAX},
        {0, "waves", "W", "in each turn: 2000; --cost: 400", ARGS_NUMBER, &waves, 10,
         1000000},
        {0, "trips", "K", "round trips in each turn: 100", ARGS_NUMBER, &trips, 1,
         1000000},
        {0, "window", "W", "how far back-ends may be ahead: 64", ARGS_NUMBER, &window,
         1, 1024},
        {0, "cost", NULL, "what it costs to be ready for a loss, instead", ARGS_FLAG,
         &cost, 0, 0},
        {0, "only", "WHAT", "--cost: waves that another tool counts, e.g. fragile:all",
         ARGS_TEXT, &only, 0, 0},
        {0, "json", NULL,
         "one object per line: coppice.bench.stream.v1, or (--cost) "
         "coppice.bench.stream_cost.v1",
         ARGS_FLAG, &as_json, 0, 0},
        {0},
    };
    struct args args = {
        .name = "bench",
        .usage = "stream [options]",
        .text =
            "Measures a stream of sums from k * k back-ends by k processes to a\n"
            "front-end: waves in a second, if each is sent as soon as it is given,\n"
            "and if back-ends give as many as there is room for; and a packet down\n"
            "to all with the sum of their answers, against bare C that moves one\n"
            "message down and up every edge of the same tree, turn by turn. With\n"
            "--cost: bytes, instructions and system calls of a wave, of a stream that\n"
            "survives losses and of one that does not; --only names one of them\n"
            "(healing or fragile) and who gives (leaves, leaves-down, all, all-down:\n"
            "after a packet down).",
        .options = options,
        .most = 0,
    };
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    if (fan_outs == NULL)
        fan_outs = cost ? "4" : "4,8,16";
    if (waves == 0)
        waves = cost ? 400 : 2000;
    code = parse_list("--fan-out", fan_outs, 31, &list);
    if (code)
        return code;
    struct stream_config config = {.rounds = (uint32_t)rounds,
                                   .waves = waves,
                                   .trips = (uint32_t)trips,
                                   .window = (uint32_t)window};
    struct cost_config costs = {.rounds = (uint32_t)rounds,
                                .turns = (uint32_t)waves,
                                .waves = COST_WAVES,
                                .steps = COST_STEPS,
                                .only = COST_WAYS};
    if (only && (!cost || as_json))
        return fail(EXIT_USAGE, "bench: --only goes with --cost, and without --json");
    if (only)
        return run_only(only, &costs, &list);
    return cost ? run_cost(&costs, &list, as_json)
                : run_stream(&config, &list, as_json);
}

/* ---- recovery -------------------------------------------------------------------- */

static const char *const part_names[RECOVERY_PARTS] = {"notice", "choose", "connect",
                                                       "state", "all"};

static void print_recovery(const struct recovery_config *config,
                           const struct recovery_result *result)
{
    printf("%7" PRIu32 " %5" PRIu32, config->fan_out, result->n);
    for (int part = 0; part < RECOVERY_PARTS; part++)
        printf("  %8.2f %8.2f", result->ns[part].median / 1e6,
               result->p99_ns[part] / 1e6);
    putchar('\n');
    fflush(stdout);
}

static void put_recovery(const struct recovery_config *config,
                         const struct recovery_result *result)
{
    struct json json;
    char key[32];
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.bench.recovery.v1");
    json_put_u64(&json, "n", result->n);
    json_put_u64(&json, "fan_out", config->fan_out);
    json_put_u64(&json, "kills", result->kills);
    json_put_bool(&json, "tls", config->key_file != NULL);
    json_put_bool(&json, "at_rest", config->at_rest);
    for (int part = 0; part < RECOVERY_PARTS; part++) {
        snprintf(key, sizeof key, "%s_ns", part_names[part]);
        bench_put_summary(&json, key, &result->ns[part], 0);
        snprintf(key, sizeof key, "%s_p99_ns", part_names[part]);
        json_put_double(&json, key, result->p99_ns[part], 0);
    }
    json_end_object(&json);
    fflush(stdout);
}

static int run_recovery(struct recovery_config *config, const struct numbers *fan_outs,
                        bool as_json)
{
    int code = 0;
    if (!as_json) {
        printf("an inner process is killed, %" PRIu32
               " times; median and p99 in ms, %s%s\n\nfan-out     n",
               config->kills, config->key_file ? "TLS" : "TCP in clear",
               config->at_rest ? ", at rest" : "");
        for (int part = 0; part < RECOVERY_PARTS; part++)
            printf("  %-17s", part_names[part]);
        putchar('\n');
    }
    for (uint32_t i = 0; i < fan_outs->count && code == 0; i++) {
        struct recovery_result result;
        struct progress progress;
        config->fan_out = fan_outs->items[i];
        progress_begin(&progress);
        code = bench_recovery(config, &progress, &result);
        progress_end(&progress);
        if (code == 0)
            (as_json ? put_recovery : print_recovery)(config, &result);
    }
    return code;
}

int cmd_bench_recovery(int argc, char **argv)
{
    const char *fan_outs = "2,4,8,16,32,64,128";
    uint64_t kills = 10;
    bool as_json = false;
    static struct numbers list;
    struct recovery_config config = {0};
    const struct args_option options[] = {
        {0, "fan-out", "LIST", "of the process that is killed: 2,4,8,16,32,64,128",
         ARGS_TEXT, &fan_outs, 0, 0},
        {0, "kills", "K", "each in a cluster of its own: 10", ARGS_NUMBER, &kills, 1,
         10000},
        {0, "at-rest", NULL, "the sum is asked for, and nothing else under way",
         ARGS_FLAG, &config.at_rest, 0, 0},
        {0, "key", "FILE", "encrypt with this key (coppice key new)", ARGS_TEXT,
         &config.key_file, 0, 0},
        {0, "json", NULL, "one object per line: coppice.bench.recovery.v1", ARGS_FLAG,
         &as_json, 0, 0},
        {0},
    };
    struct args args = {
        .name = "bench",
        .usage = "recovery [options]",
        .text =
            "Kills an inner process below which k back-ends are, while a sum streams,\n"
            "and measures until a complete sum is out that was given after that. By\n"
            "part: until the orphans know (notice), until each has asked the one that\n"
            "takes it (choose), until it is taken (connect), from the last of these "
            "to\n"
            "the complete sum (state), and all of it.",
        .options = options,
        .most = 0,
    };
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    code = parse_list("--fan-out", fan_outs, 500, &list);
    if (code)
        return code;
    config.kills = (uint32_t)kills;
    return run_recovery(&config, &list, as_json);
}
