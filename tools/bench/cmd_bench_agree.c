/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/agree.h"
#include "bench/floor.h"
#include "number/numbers.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX 16u

struct options {
    const char *sizes, *kills, *algorithms, *transport;
    uint64_t sets, operations, pairs, warm_up, skew_ms, arity;
    bool as_json;
};

/* ---- output ---------------------------------------------------------------------- */

static const char *variant_name(const struct agree_variant *variant, char out[40])
{
    snprintf(out, 40, "%s%s", cop_algorithm_name(variant->algorithm),
             variant->keep_tree ? ", tree kept" : "");
    return out;
}

static void print_head(const struct options *options, bool tcp)
{
    char tree[40] = "binomial tree";
    if (options->arity)
        snprintf(tree, sizeof tree, "kary:%" PRIu64, options->arity);
    printf("agreements, %s, %s: medians of %" PRIu64 " sets of %" PRIu64
           ", with the interval that holds them in 99 %%\n\n",
           tree, tcp ? "TCP" : "Unix sockets", options->sets, options->operations);
    printf("%s%5s %6s  %-18s %9s  %-26s %-22s %-22s %-20s%s\n", colour(stdout, BOLD),
           "n", "killed", "algorithm", "messages", "one agreement", "/ allreduce",
           "in pairs", "/ floor", colour(stdout, PLAIN));
}

static void print_ratio(const struct summary *summary, int width)
{
    char text[40];
    snprintf(text, sizeof text, "%.3f (%.3f-%.3f)", summary->median, summary->low,
             summary->high);
    printf(" %-*s", width, text);
}

static void print_line(const struct agree_config *config,
                       const struct agree_variant *variant,
                       const struct agree_measured *measured)
{
    char name[40], time[40];
    printf("%5" PRIu32 " %6" PRIu32 "  %-18s %9.2f ", config->n, config->killed,
           variant_name(variant, name), measured->messages);
    snprintf(time, sizeof time, "%.3f ms (%.3f-%.3f)", measured->ns.median / 1e6,
             measured->ns.low / 1e6, measured->ns.high / 1e6);
    printf(" %-26s", time);
    print_ratio(&measured->over_first, 22);
    print_ratio(&measured->paired, 22);
    print_ratio(&measured->over_floor, 20);
    putchar('\n');
    fflush(stdout);
}

static void print_json(const struct agree_config *config,
                       const struct agree_variant *variant,
                       const struct agree_result *result,
                       const struct agree_measured *measured)
{
    struct json json;
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.bench.agree.v1");
    json_put_u64(&json, "n", config->n);
    json_put_u64(&json, "killed", config->killed);
    json_put_string(&json, "algorithm", cop_algorithm_name(variant->algorithm));
    json_put_bool(&json, "keep_tree", variant->keep_tree);
    json_put_string(&json, "transport", config->tcp ? "tcp" : "unix");
    json_put_u64(&json, "sets", config->sets);
    json_put_u64(&json, "operations", config->operations);
    json_put_u64(&json, "pairs", config->pairs);
    json_put_u64(&json, "skew_ms", config->skew_ms);
    json_put_u64(&json, "arity", config->arity);
    json_put_double(&json, "messages", measured->messages, 3);
    bench_put_summary(&json, "agree_ns", &measured->ns, 0);
    bench_put_summary(&json, "floor_ns", &result->floor_ns, 0);
    bench_put_summary(&json, "over_allreduce", &measured->over_first, 4);
    bench_put_summary(&json, "paired_over_allreduce", &measured->paired, 4);
    bench_put_summary(&json, "over_floor", &measured->over_floor, 4);
    json_end_object(&json);
    fflush(stdout);
}

/* ---- the command line ------------------------------------------------------------ */

static bool add_variant(struct agree_config *config, enum cop_algorithm algorithm,
                        bool keep_tree)
{
    for (uint32_t i = 0; i < config->variant_count; i++)
        if (config->variants[i].algorithm == algorithm &&
            config->variants[i].keep_tree == keep_tree)
            return true;
    if (config->variant_count == AGREE_VARIANTS_MAX)
        return false;
    config->variants[config->variant_count++] =
        (struct agree_variant){algorithm, keep_tree};
    return true;
}

/* The baseline first; after deaths each also in the tree as it was. */
static int read_variants(const char *text, bool killed, struct agree_config *config)
{
    char names[200];
    config->variant_count = 0;
    add_variant(config, COP_AGREE_ALLREDUCE, false);
    snprintf(names, sizeof names, "%s", text);
    char *rest = names;
    for (char *name; (name = strsep(&rest, ",")) != NULL;) {
        enum cop_algorithm algorithm;
        if (cop_algorithm_parse(name, &algorithm) != 0)
            return fail(EXIT_USAGE,
                        "bench: --algorithm: unknown algorithm '%s': there are early, "
                        "strict, tree, "
                        "linear and allreduce",
                        name);
        bool room = add_variant(config, algorithm, false);
        if (killed && algorithm != COP_AGREE_ALLREDUCE && algorithm != COP_AGREE_LINEAR)
            room = add_variant(config, algorithm, true) && room;
        if (!room)
            return fail(EXIT_USAGE, "bench: too many algorithms in --algorithm '%s'",
                        text);
    }
    return 0;
}

static int run_point(const struct agree_config *config, bool as_json)
{
    struct agree_result result;
    struct progress progress;
    progress_begin(&progress);
    int code = bench_agree(config, &progress, &result);
    progress_end(&progress);
    for (uint32_t i = 0; i < config->variant_count && code == 0; i++)
        if (as_json)
            print_json(config, &config->variants[i], &result, &result.variants[i]);
        else
            print_line(config, &config->variants[i], &result.variants[i]);
    return code;
}

/* Before anything is measured: what is wrong with the last point is said first. */
static int check_points(const struct options *options, const struct numbers *sizes,
                        const struct numbers *kills)
{
    struct agree_config config;
    for (uint32_t i = 0; i < sizes->count; i++)
        for (uint32_t j = 0; j < kills->count; j++)
            if (kills->items[j] + 2 > sizes->items[i])
                return fail(EXIT_USAGE,
                            "bench: --killed: of %" PRIu32 " not %" PRIu32
                            " can be killed: two must be left",
                            sizes->items[i], kills->items[j]);
    int code = 0;
    for (uint32_t j = 0; j < kills->count && code == 0; j++)
        code = read_variants(options->algorithms, kills->items[j] > 0, &config);
    return code;
}

static int run(const struct options *options)
{
    struct numbers sizes, kills;
    bool tcp = strcmp(options->transport, "tcp") == 0;
    uint64_t pairs =
        options->pairs < options->operations ? options->pairs : options->operations;
    if (!tcp && strcmp(options->transport, "unix") != 0)
        return fail(EXIT_USAGE, "bench: --transport takes unix or tcp, not '%s'",
                    options->transport);
    if (parse_numbers(options->sizes, 2, FLOOR_N_MAX, LIST_MAX, &sizes) != 0)
        return fail(EXIT_USAGE,
                    "bench: -n takes numbers from 2 to %u, as 8,64, not '%s'",
                    FLOOR_N_MAX, options->sizes);
    if (parse_numbers(options->kills, 0, FLOOR_N_MAX, LIST_MAX, &kills) != 0)
        return fail(EXIT_USAGE, "bench: --killed takes numbers, as 0,32, not '%s'",
                    options->kills);
    int code = check_points(options, &sizes, &kills);
    if (code == 0 && !options->as_json)
        print_head(options, tcp);
    for (uint32_t i = 0; i < sizes.count && code == 0; i++)
        for (uint32_t j = 0; j < kills.count && code == 0; j++) {
            struct agree_config config = {.n = sizes.items[i],
                                          .killed = kills.items[j],
                                          .tcp = tcp,
                                          .sets = (uint32_t)options->sets,
                                          .operations = (uint32_t)options->operations,
                                          .pairs = (uint32_t)pairs,
                                          .warm_up = (uint32_t)options->warm_up,
                                          .skew_ms = (uint32_t)options->skew_ms,
                                          .arity = (uint32_t)options->arity};
            code = read_variants(options->algorithms, config.killed > 0, &config);
            if (code == 0)
                code = run_point(&config, options->as_json);
        }
    return code;
}

int cmd_bench_agree(int argc, char **argv)
{
    struct options got = {.sizes = "8,64",
                          .kills = "0",
                          .algorithms = "tree,early",
                          .transport = "tcp",
                          .sets = 20,
                          .operations = 200,
                          .pairs = 10,
                          .warm_up = 5};
    const struct args_option options[] = {
        {'n', "members", "LIST", "how many processes: 8,64", ARGS_TEXT, &got.sizes, 0,
         0},
        {0, "algorithm", "LIST", "beside allreduce: tree,early", ARGS_TEXT,
         &got.algorithms, 0, 0},
        {0, "killed", "LIST", "so many are killed before: 0", ARGS_TEXT, &got.kills, 0,
         0},
        {0, "skew", "MS", "each waits before each call, by chance, at most so long",
         ARGS_NUMBER, &got.skew_ms, 0, 60000},
        {0, "arity", "K", "of a k-ary tree, instead of the binomial one", ARGS_NUMBER,
         &got.arity, 2, FLOOR_K_MAX},
        {0, "sets", "S", "how often everybody has a turn: 20", ARGS_NUMBER, &got.sets,
         1, BENCH_ROUNDS_MAX},
        {0, "operations", "K", "agreements in each turn: 200", ARGS_NUMBER,
         &got.operations, 1, 100000},
        {0, "pairs", "P", "pieces of a turn, in which they alternate: 10", ARGS_NUMBER,
         &got.pairs, 1, 1000},
        {0, "warm-up", "K", "and so many before each piece: 5", ARGS_NUMBER,
         &got.warm_up, 0, 1000},
        {0, "transport", "unix|tcp", "tcp, on the loopback and not encrypted",
         ARGS_TEXT, &got.transport, 0, 0},
        {0, "json", NULL, "one object per line: coppice.bench.agree.v1", ARGS_FLAG,
         &got.as_json, 0, 0},
        {0},
    };
    struct args args = {
        .name = "bench agree",
        .usage = "[options]",
        .text =
            "Measures agreements of a private cluster, in a binomial or a k-ary tree, "
            "turn by turn\n"
            "with an allreduce of our own, which tolerates no failure, and with bare "
            "C\n"
            "that moves as many messages. With --killed the agreements are those of a\n"
            "group some of whose members are dead, with the tree laid anew and with\n"
            "the tree as it was, and the baseline is that of those who are left.",
        .options = options,
    };
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    return run(&got);
}
