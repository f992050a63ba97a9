/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/bench.h"
#include "bench/contention.h"
#include "number/latencies.h"
#include "number/numbers.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/json.h"

#include <coppice/error.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* `coppice bench contention`: latencies for the models, over n and by pattern. */
#define LIST_MAX 16u
#define PATTERNS_MAX 8u
#define POINTS_MAX (LIST_MAX * PATTERNS_MAX)
#define WARM_UP 10u
#define BYTES_DEFAULT 128u

struct options {
    const char *sizes, *patterns, *path;
    uint64_t rounds, repetitions, bytes;
    bool as_json;
};

/* Everything that is measured: all of it once in each round. */
struct series {
    struct contention_config points[POINTS_MAX];
    uint32_t count;
    double latencies_ns[POINTS_MAX][BENCH_ROUNDS_MAX];
    struct latency_row rows[POINTS_MAX];
};

/* ---- what to measure ------------------------------------------------------------- */

static int add_point(const struct options *options, uint32_t fan_out, uint32_t n,
                     struct series *series)
{
    if (fan_out == 1 && n % 2 != 0)
        return fail(EXIT_USAGE, "bench: pairs need an even number, not %" PRIu32, n);
    for (uint32_t i = 0; i < series->count; i++)
        if (series->points[i].fan_out == fan_out && series->points[i].n == n)
            return fail(EXIT_USAGE, "bench: --n has %" PRIu32 " twice", n);
    series->points[series->count++] = (struct contention_config){
        .fan_out = fan_out,
        .n = n,
        .bytes = (uint32_t)options->bytes,
        .repetitions = (uint32_t)options->repetitions,
        .warm_up = WARM_UP,
    };
    return 0;
}

/* Without a list: 1, 2, 4, 8 and 16 full groups. */
static int add_pattern(const struct options *options, const char *word,
                       struct series *series)
{
    struct numbers sizes;
    uint32_t fan_out;
    int code = 0;
    if (pattern_parse(word, &fan_out) != 0)
        return fail(EXIT_USAGE,
                    "bench: --pattern takes pairs and tree:2 to tree:%u, as "
                    "pairs,tree:4, not '%s'",
                    FAN_OUT_MAX, options->patterns);
    for (uint32_t i = 0; i < series->count; i++)
        if (series->points[i].fan_out == fan_out)
            return fail(EXIT_USAGE, "bench: --pattern names %s twice", word);
    for (uint32_t groups = 1; options->sizes == NULL && groups <= 16; groups *= 2)
        add_point(options, fan_out, groups * (fan_out + 1), series);
    if (options->sizes == NULL)
        return 0;
    if (parse_numbers(options->sizes, 2, CONTENTION_N_MAX, LIST_MAX, &sizes) != 0)
        return fail(EXIT_USAGE,
                    "bench: --n takes up to %u numbers from 2 to %u, as 2,4,8 or "
                    "2-32x2, not '%s'",
                    LIST_MAX, CONTENTION_N_MAX, options->sizes);
    for (uint32_t i = 0; i < sizes.count && code == 0; i++)
        code = add_point(options, fan_out, sizes.items[i], series);
    return code;
}

static int list_points(const struct options *options, struct series *series)
{
    char copy[200];
    char *rest = copy;
    int code = 0;
    uint32_t patterns = 0;
    if ((size_t)snprintf(copy, sizeof copy, "%s", options->patterns) >= sizeof copy)
        return fail(EXIT_USAGE, "bench: --pattern is too long");
    for (char *word; code == 0 && (word = strsep(&rest, ",")) != NULL; patterns++) {
        if (patterns == PATTERNS_MAX)
            return fail(EXIT_USAGE, "bench: --pattern takes at most %u patterns",
                        PATTERNS_MAX);
        code = add_pattern(options, word, series);
    }
    return code;
}

/* Before anything is measured: is there a place for the result? */
static int try_path(const char *path)
{
    FILE *out = fopen(path, "a");
    if (out == NULL)
        return fail(EXIT_USAGE, "bench: cannot write '%s': %s", path, strerror(errno));
    fclose(out);
    return 0;
}

/* ---- measuring ------------------------------------------------------------------- */

static int take_rounds(struct series *series, uint32_t rounds)
{
    struct progress progress;
    progress_begin(&progress);
    for (uint32_t round = 0; round < rounds; round++)
        for (uint32_t i = 0; i < series->count; i++) {
            progress_show(&progress, "contention", (uint64_t)round * series->count + i,
                          (uint64_t)rounds * series->count);
            if (contention_run(&series->points[i], &series->latencies_ns[i][round])) {
                int cause = errno;
                progress_end(&progress);
                return fail(EXIT_FAILED, "bench: %" PRIu32 " processes failed: %s",
                            series->points[i].n, strerror(cause));
            }
        }
    progress_end(&progress);
    return 0;
}

static int measure(const struct options *options, struct series *series)
{
    uint32_t rounds = (uint32_t)options->rounds;
    int code = take_rounds(series, rounds);
    for (uint32_t i = 0; i < series->count && code == 0; i++)
        series->rows[i] = (struct latency_row){
            .fan_out = series->points[i].fan_out,
            .n = series->points[i].n,
            .ns = summarize(series->latencies_ns[i], rounds),
        };
    return code;
}

/* ---- output ---------------------------------------------------------------------- */

static void print_text(const struct options *options, const struct series *series)
{
    printf("one way, TCP, %" PRIu64 " bytes, median of %" PRIu64 " rounds of %" PRIu64
           ", with the interval that holds it in 99 %%\n\n",
           options->bytes, options->rounds, options->repetitions);
    printf("%s%-8s %5s %6s  %s%s\n", colour(stdout, BOLD), "pattern", "n", "groups",
           "latency", colour(stdout, PLAIN));
    for (uint32_t i = 0; i < series->count; i++) {
        const struct latency_row *row = &series->rows[i];
        char pattern[PATTERN_SIZE];
        printf("%-8s %5" PRIu32 " %6" PRIu32 "  %.1f us (%.1f-%.1f)\n",
               pattern_print(row->fan_out, pattern), row->n,
               contention_groups(&series->points[i]), row->ns.median / 1e3,
               row->ns.low / 1e3, row->ns.high / 1e3);
    }
}

static void print_json(const struct options *options, const struct series *series)
{
    for (uint32_t i = 0; i < series->count; i++) {
        const struct latency_row *row = &series->rows[i];
        char pattern[PATTERN_SIZE];
        struct json json;
        json_init(&json, stdout);
        json_begin_object(&json);
        json_put_string(&json, "schema", "coppice.bench.contention.v1");
        json_put_string(&json, "pattern", pattern_print(row->fan_out, pattern));
        json_put_u64(&json, "n", row->n);
        json_put_u64(&json, "groups", contention_groups(&series->points[i]));
        json_put_string(&json, "transport", "tcp");
        json_put_u64(&json, "message_bytes", options->bytes);
        json_put_u64(&json, "rounds", options->rounds);
        json_put_u64(&json, "repetitions", options->repetitions);
        bench_put_summary(&json, "latency_ns", &row->ns, 0);
        json_end_object(&json);
    }
}

static int write_file(const char *path, const struct series *series)
{
    FILE *out = fopen(path, "w");
    if (out == NULL)
        return fail(EXIT_FAILED, "bench: cannot write '%s': %s", path, strerror(errno));
    latencies_write(out, series->rows, series->count);
    bool good = !ferror(out);
    if (fclose(out) == 0 && good)
        return 0;
    return fail(EXIT_FAILED, "bench: cannot write '%s': %s", path, strerror(errno));
}

static int run(const struct options *options)
{
    struct series *series = calloc(1, sizeof *series);
    if (series == NULL)
        return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    int code = list_points(options, series);
    if (code == 0 && options->path != NULL)
        code = try_path(options->path);
    if (code == 0)
        code = measure(options, series);
    if (code == 0 && options->as_json)
        print_json(options, series);
    else if (code == 0)
        print_text(options, series);
    if (code == 0 && options->path != NULL)
        code = write_file(options->path, series);
    free(series);
    return code;
}

int cmd_bench_contention(int argc, char **argv)
{
    struct options got = {.patterns = "pairs,tree:2,tree:4",
                          .rounds = 9,
                          .repetitions = 100,
                          .bytes = BYTES_DEFAULT};
    const struct args_option options[] = {
        {0, "pattern", "LIST", "who talks with whom: pairs,tree:2,tree:4", ARGS_TEXT,
         &got.patterns, 0, 0},
        {'n', "n", "LIST", "how many processes: 1, 2, 4, 8, 16 full groups", ARGS_TEXT,
         &got.sizes, 0, 0},
        {0, "out", "FILE", "write the latencies there, for model --contention",
         ARGS_TEXT, &got.path, 0, 0},
        {0, "rounds", "R", "how often each is measured, in turn: 9", ARGS_NUMBER,
         &got.rounds, 7, BENCH_ROUNDS_MAX},
        {0, "repetitions", "K", "in each turn, by each parent: 100", ARGS_NUMBER,
         &got.repetitions, 1, 10000},
        {0, "bytes", "B", "in a message: 128", ARGS_NUMBER, &got.bytes, 1,
         CONTENTION_BYTES_MAX},
        {0, "json", NULL, "one object per line: coppice.bench.contention.v1", ARGS_FLAG,
         &got.as_json, 0, 0},
        {0},
    };
    struct args args = {
        .name = "bench",
        .usage = "contention [options]",
        .text =
            "Measures what a message takes one way, over TCP on the loopback, while\n"
            "n processes talk at once: in pairs, or each parent with its children.",
        .options = options,
        .most = 0,
    };
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    return run(&got);
}
