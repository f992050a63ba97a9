/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/fit.h"
#include "bench/ts.h"
#include "model/model.h"
#include "number/numbers.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/json.h"

#include <coppice/error.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* `coppice bench ts`: changes of the view with real processes, and the models of them. */
#define LIST_MAX 16u
#define POINTS_MAX (LIST_MAX * LIST_MAX)
/* What is promised: see README.md. */
#define STABLE_BUDGET 1.5
#define TOTAL_BUDGET 4.0

struct options {
    const char *sizes, *arities, *transport, *trigger, *victims;
    uint64_t repeat, repetitions;
    cop_time patience_ns;
    bool as_json, as_csv;
};

/* One size and arity: measured, and what the models make of its machine. */
struct point {
    struct ts_config config;
    struct ts_result result;
    struct model_point model;
};

/* Everything that was measured, for the fit. */
struct series {
    struct point points[POINTS_MAX];
    uint32_t count;
};

/* ---- models ---------------------------------------------------------------------- */

/* Two predictions: with the latency of two alone, and with that of n at once. */
static int predict(struct point *point)
{
    const struct ts_result *result = &point->result;
    struct latency_row row = {.fan_out = point->config.arity, .n = point->config.n};
    const struct latencies contended = {.rows = &row, .count = 1};
    row.ns.median = result->contended_ns;
    const struct model_machine machine = {
        .latency_ns = (cop_time)result->latency_ns,
        .compute_ns = (cop_time)result->compute_ns,
        .contended = &contended,
    };
    int error =
        model_predict(&machine, point->config.n, point->config.arity, &point->model);
    return error ? fail(EXIT_FAILED, "model: %s", cop_strerror(error)) : 0;
}

/* What a model leaves open: the latency (base), or what the measured ones miss by. */
static int fit(const struct series *series, enum model_kind kind, struct fit *out,
               double *given_error)
{
    struct fit_point points[POINTS_MAX];
    double sum = 0;
    for (uint32_t i = 0; i < series->count; i++) {
        const struct point *point = &series->points[i];
        double steps = 2.0 * (point->model.levels - 1);
        double measured = point->result.rows[TS_ANY].stages_ns[TS_STABLE].median;
        points[i] = (struct fit_point){
            .ways = kind == MODEL_BASE ? steps : steps * point->result.contended_ns,
            .levels = point->model.levels,
            .measured_ns = measured,
        };
        /* The same as a model without anything open: one way of its own length. */
        const struct fit_point given = {point->model.ts_ns[kind], 1, measured};
        double error = fit_error(&given, 1, 1, 0);
        sum += error * error / series->count;
    }
    *given_error = sqrt(sum);
    return fit_points(points, series->count, out);
}

/* ---- text ------------------------------------------------------------------------ */

static void print_head(const struct options *options, bool tcp)
{
    printf("changes of the view, %s, trigger %s, median of %" PRIu64
           " for each victim, with the interval that holds it in 99 %%\n\n",
           tcp ? "TCP" : "Unix sockets", options->trigger, options->repeat);
    printf("%s%5s %5s %-6s %8s %8s %8s  %-24s %-18s %6s %8s %8s  %-18s %6s %8s %7s "
           "%6s %6s%s\n",
           colour(stdout, BOLD), "n", "arity", "victim", "floor", "again", "T_detect",
           "T_s, ms", "/ floor", "again", "T_commit", "all", "/ floor", "again", "99 %",
           "/ floor", "/ 99 %", "pairs", colour(stdout, PLAIN));
}

static void print_interval(const struct summary *summary, double unit, int decimals,
                           int width, enum colour which)
{
    char text[48];
    snprintf(text, sizeof text, "%.*f (%.*f-%.*f)", decimals, summary->median / unit,
             decimals, summary->low / unit, decimals, summary->high / unit);
    printf(" %s%-*s%s", colour(stdout, which), width, text, colour(stdout, PLAIN));
}

static enum colour judge(const struct summary *summary, double budget)
{
    return summary->median <= budget ? GREEN : YELLOW;
}

static void print_row(const struct point *point, enum ts_victim victim)
{
    const struct ts_row *row = &point->result.rows[victim];
    const struct summary *stages = row->stages_ns, *stable = row->stable_over,
                         *total = row->total_over;
    printf("%5" PRIu32 " %5" PRIu32 " %-6s %8.3f %8.3f %8.3f ", point->config.n,
           point->config.arity, ts_victim_name(victim),
           row->floors_ns[TS_FLOOR_ONCE].median / 1e6,
           row->floors_ns[TS_FLOOR_AGAIN].median / 1e6, stages[TS_DETECT].median / 1e6);
    print_interval(&stages[TS_STABLE], 1e6, 3, 24, PLAIN);
    print_interval(&stable[TS_FLOOR_ONCE], 1, 2, 18,
                   judge(&stable[TS_FLOOR_ONCE], STABLE_BUDGET));
    printf(" %6.2f %8.3f %8.3f ", stable[TS_FLOOR_AGAIN].median,
           stages[TS_COMMIT].median / 1e6, stages[TS_TOTAL].median / 1e6);
    print_interval(&total[TS_FLOOR_ONCE], 1, 2, 18,
                   judge(&total[TS_FLOOR_ONCE], TOTAL_BUDGET));
    printf(" %6.2f %8.3f %7.2f %6.2f %6.2f\n", total[TS_FLOOR_AGAIN].median,
           row->total_p99_ns / 1e6,
           row->total_p99_ns / row->floors_ns[TS_FLOOR_ONCE].median,
           row->total_p99_ns / row->floors_p99_ns[TS_FLOOR_ONCE],
           row->total_p99_over[TS_FLOOR_ONCE]);
}

static uint32_t count_rows(const struct point *point)
{
    uint32_t rows = 0;
    for (int victim = 0; victim < TS_ANY; victim++)
        rows += point->result.rows[victim].count > 0;
    return rows;
}

/* Where there is one row only, all together are the same. */
static bool is_shown(const struct point *point, int victim)
{
    return point->result.rows[victim].count > 0 &&
           (victim != TS_ANY || count_rows(point) > 1);
}

static void print_models(const struct series *series)
{
    printf("\n%s%5s %5s %6s %9s %9s %9s  %9s %9s %11s%s\n", colour(stdout, BOLD), "n",
           "arity", "levels", "L", "L, all", "O", "T_s", "base", "contention",
           colour(stdout, PLAIN));
    for (uint32_t i = 0; i < series->count; i++) {
        const struct point *point = &series->points[i];
        const struct ts_result *result = &point->result;
        printf("%5" PRIu32 " %5" PRIu32 " %6" PRIu32
               " %6.1f us %6.1f us %6.2f us  %6.3f ms %6.3f ms %8.3f ms\n",
               point->config.n, point->config.arity, point->model.levels,
               result->latency_ns / 1e3, result->contended_ns / 1e3,
               result->compute_ns / 1e3,
               result->rows[TS_ANY].stages_ns[TS_STABLE].median / 1e6,
               point->model.ts_ns[MODEL_BASE] / 1e6,
               point->model.ts_ns[MODEL_CONTENTION] / 1e6);
    }
}

static void print_fit(enum model_kind kind, const struct fit *found, double given_error)
{
    printf("%s: off by %.0f %% as measured; best with ", model_name(kind),
           100 * given_error);
    if (kind == MODEL_BASE)
        printf("L = %.1f us", found->latency_ns / 1e3);
    else
        printf("%.2f times the latencies", found->latency_ns);
    printf(" and O = %.1f us: off by %.0f %%\n", found->compute_ns / 1e3,
           100 * found->error);
}

/* ---- JSON and CSV ---------------------------------------------------------------- */

static const struct {
    const char *time, *time_p99, *stable, *total, *p99;
} floor_keys[TS_FLOORS] = {
    {"floor_ns", "floor_p99_ns", "ts_over_floor", "total_over_floor",
     "total_p99_over_floor"},
    {"floor_again_ns", "floor_again_p99_ns", "ts_over_again", "total_over_again",
     "total_p99_over_again"},
};

static const char *const stage_keys[TS_STAGES] = {"detect_ns", "ts_ns", "commit_ns",
                                                  "total_ns"};

static void put_stages(struct json *json, const struct ts_row *row)
{
    for (int stage = 0; stage < TS_STAGES; stage++)
        bench_put_summary(json, stage_keys[stage], &row->stages_ns[stage], 0);
    json_put_double(json, "total_p99_ns", row->total_p99_ns, 0);
    for (int floor = 0; floor < TS_FLOORS; floor++) {
        bench_put_summary(json, floor_keys[floor].time, &row->floors_ns[floor], 0);
        json_put_double(json, floor_keys[floor].time_p99, row->floors_p99_ns[floor], 0);
        bench_put_summary(json, floor_keys[floor].stable, &row->stable_over[floor], 4);
        bench_put_summary(json, floor_keys[floor].total, &row->total_over[floor], 4);
        json_put_double(json, floor_keys[floor].p99, row->total_p99_over[floor], 4);
    }
}

static void print_json(const struct point *point, enum ts_victim victim)
{
    const struct ts_config *config = &point->config;
    const struct ts_result *result = &point->result;
    struct json json;
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.bench.ts.v1");
    json_put_u64(&json, "n", config->n);
    json_put_u64(&json, "arity", config->arity);
    json_put_string(&json, "transport", config->tcp ? "tcp" : "unix");
    json_put_string(&json, "trigger", ts_trigger_name(config->trigger));
    json_put_string(&json, "victim", ts_victim_name(victim));
    json_put_u64(&json, "changes", result->rows[victim].count);
    json_put_u64(&json, "message_bytes", result->bytes);
    put_stages(&json, &result->rows[victim]);
    json_put_u64(&json, "levels", point->model.levels);
    json_put_double(&json, "latency_ns", result->latency_ns, 0);
    json_put_double(&json, "contended_ns", result->contended_ns, 0);
    json_put_double(&json, "compute_ns", result->compute_ns, 0);
    json_put_double(&json, "base_ns", point->model.ts_ns[MODEL_BASE], 0);
    json_put_double(&json, "contention_ns", point->model.ts_ns[MODEL_CONTENTION], 0);
    json_end_object(&json);
}

static void print_json_fit(enum model_kind kind, const struct series *series,
                           const struct fit *found, double given_error)
{
    struct json json;
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.bench.fit.v1");
    json_put_string(&json, "model", model_name(kind));
    json_put_u64(&json, "points", series->count);
    json_put_double(&json, "measured_error", given_error, 4);
    /* What a model does not have is null, as a number that is none. */
    json_put_double(&json, "latency_ns", kind == MODEL_BASE ? found->latency_ns : NAN,
                    0);
    json_put_double(&json, "latency_factor",
                    kind == MODEL_BASE ? NAN : found->latency_ns, 4);
    json_put_double(&json, "compute_ns", found->compute_ns, 0);
    json_put_double(&json, "error", found->error, 4);
    json_end_object(&json);
}

static void print_csv_summary(const struct summary *summary, int decimals)
{
    printf(",%.*f,%.*f,%.*f", decimals, summary->median, decimals, summary->low,
           decimals, summary->high);
}

static void print_csv_columns(const char *name)
{
    printf(",%s,%s_low,%s_high", name, name, name);
}

static void print_csv_head(void)
{
    printf("n,arity,transport,trigger,victim,changes,message_bytes");
    for (int stage = 0; stage < TS_STAGES; stage++)
        print_csv_columns(stage_keys[stage]);
    for (int floor = 0; floor < TS_FLOORS; floor++) {
        print_csv_columns(floor_keys[floor].time);
        printf(",%s", floor_keys[floor].time_p99);
        print_csv_columns(floor_keys[floor].stable);
        print_csv_columns(floor_keys[floor].total);
        printf(",%s", floor_keys[floor].p99);
    }
    printf(",total_p99_ns,levels,latency_ns,contended_ns,compute_ns,base_ns,"
           "contention_ns\n");
}

static void print_csv_row(const struct ts_row *row)
{
    for (int stage = 0; stage < TS_STAGES; stage++)
        print_csv_summary(&row->stages_ns[stage], 0);
    for (int floor = 0; floor < TS_FLOORS; floor++) {
        print_csv_summary(&row->floors_ns[floor], 0);
        printf(",%.0f", row->floors_p99_ns[floor]);
        print_csv_summary(&row->stable_over[floor], 4);
        print_csv_summary(&row->total_over[floor], 4);
        printf(",%.4f", row->total_p99_over[floor]);
    }
    printf(",%.0f", row->total_p99_ns);
}

static void print_csv(const struct point *point, enum ts_victim victim)
{
    const struct ts_config *config = &point->config;
    const struct ts_result *result = &point->result;
    printf("%" PRIu32 ",%" PRIu32 ",%s,%s,%s,%" PRIu32 ",%" PRIu32, config->n,
           config->arity, config->tcp ? "tcp" : "unix",
           ts_trigger_name(config->trigger), ts_victim_name(victim),
           result->rows[victim].count, result->bytes);
    print_csv_row(&result->rows[victim]);
    printf(",%" PRIu32 ",%.0f,%.0f,%.0f,%.0f,%.0f\n", point->model.levels,
           result->latency_ns, result->contended_ns, result->compute_ns,
           point->model.ts_ns[MODEL_BASE], point->model.ts_ns[MODEL_CONTENTION]);
}

/* ---- the command ----------------------------------------------------------------- */

static void print_point(const struct options *options, const struct point *point)
{
    for (int victim = 0; victim < TS_VICTIMS; victim++) {
        if (!is_shown(point, victim))
            continue;
        if (options->as_json)
            print_json(point, (enum ts_victim)victim);
        else if (options->as_csv)
            print_csv(point, (enum ts_victim)victim);
        else
            print_row(point, (enum ts_victim)victim);
    }
    fflush(stdout);
}

static int print_end(const struct options *options, const struct series *series)
{
    if (options->as_csv)
        return 0;
    if (!options->as_json)
        print_models(series);
    for (unsigned kind = MODEL_BASE; kind <= MODEL_CONTENTION;
         kind += MODEL_CONTENTION) {
        struct fit found;
        double given_error;
        if (fit(series, (enum model_kind)kind, &found, &given_error) != 0)
            return fail(EXIT_FAILED, "there is nothing to fit the models to");
        if (options->as_json)
            print_json_fit((enum model_kind)kind, series, &found, given_error);
        else
            print_fit((enum model_kind)kind, &found, given_error);
    }
    return 0;
}

static int run_point(const struct options *options, struct series *series,
                     const struct ts_config *config)
{
    struct point *point = &series->points[series->count];
    struct progress progress;
    point->config = *config;
    progress_begin(&progress);
    int code = bench_ts(config, &progress, &point->result);
    progress_end(&progress);
    if (code == 0)
        code = predict(point);
    if (code)
        return code;
    series->count++;
    print_point(options, point);
    return 0;
}

static int run_all(const struct options *options, const struct ts_config *common,
                   const struct numbers *sizes, const struct numbers *arities)
{
    struct series *series = calloc(1, sizeof *series);
    int code = 0;
    if (series == NULL)
        return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    for (uint32_t i = 0; i < sizes->count && code == 0; i++)
        for (uint32_t j = 0; j < arities->count && code == 0; j++) {
            struct ts_config config = *common;
            config.n = sizes->items[i];
            config.arity = arities->items[j];
            code = run_point(options, series, &config);
        }
    if (code == 0)
        code = print_end(options, series);
    free(series);
    return code;
}

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

static int parse_victims(const char *text, struct ts_config *config)
{
    char copy[100];
    char *rest =
        (size_t)snprintf(copy, sizeof copy, "%s", text) < sizeof copy ? copy : NULL;
    bool good = rest != NULL;
    for (char *word; good && (word = strsep(&rest, ",")) != NULL;) {
        enum ts_victim victim;
        good = ts_victim_parse(word, &victim) == 0 && !config->victims[victim];
        if (good)
            config->victims[victim] = true;
    }
    return good ? 0
                : fail(EXIT_USAGE,
                       "bench: --victim takes random, leaf, inner and root, as "
                       "leaf,root, not '%s'",
                       text);
}

/* There must be something to measure for every size and arity. */
static int check_victims(const struct ts_config *config, const struct numbers *sizes,
                         const struct numbers *arities)
{
    bool is_inner_only = config->victims[TS_INNER] && !config->victims[TS_RANDOM] &&
                         !config->victims[TS_LEAF] && !config->victims[TS_ROOT];
    for (uint32_t i = 0; i < sizes->count && is_inner_only; i++)
        for (uint32_t j = 0; j < arities->count; j++)
            if (!ts_has_victim(sizes->items[i], arities->items[j], TS_INNER))
                return fail(EXIT_USAGE,
                            "bench: --victim inner: of %" PRIu32
                            " members in a tree of arity %" PRIu32
                            " all but the root are leaves",
                            sizes->items[i], arities->items[j]);
    return 0;
}

static int run(const struct options *options)
{
    struct ts_config config = {.repeat = (uint32_t)options->repeat,
                               .repetitions = (uint32_t)options->repetitions,
                               .patience_ns = options->patience_ns};
    struct numbers *lists = calloc(2, sizeof *lists);
    if (lists == NULL)
        return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    int code = parse_list("-n", options->sizes, TS_N_LEAST, 4096, &lists[0]);
    if (code == 0)
        code = parse_list("--arity", options->arities, 2, MODEL_ARITY_MAX, &lists[1]);
    if (code == 0 && ts_trigger_parse(options->trigger, &config.trigger) != 0)
        code = fail(EXIT_USAGE,
                    "bench: --trigger is connection, inquiry or ring, not '%s'",
                    options->trigger);
    if (code == 0)
        code = parse_victims(options->victims, &config);
    if (code == 0)
        code = check_victims(&config, &lists[0], &lists[1]);
    config.tcp = strcmp(options->transport, "tcp") == 0;
    if (code == 0 && !config.tcp && strcmp(options->transport, "unix") != 0)
        code = fail(EXIT_USAGE, "bench: --transport is unix or tcp, not '%s'",
                    options->transport);
    if (code == 0 && options->as_csv)
        print_csv_head();
    else if (code == 0 && !options->as_json)
        print_head(options, config.tcp);
    if (code == 0)
        code = run_all(options, &config, &lists[0], &lists[1]);
    free(lists);
    return code;
}

int cmd_bench_ts(int argc, char **argv)
{
    struct options got = {.sizes = "16,64",
                          .arities = "2,4",
                          .transport = "tcp",
                          .trigger = "connection",
                          .victims = "random,leaf,inner,root",
                          .repeat = 9,
                          .repetitions = 20,
                          .patience_ns = 20 * COP_MSEC};
    const struct args_option options[] = {
        {'n', "members", "LIST", "how many processes: 16,64", ARGS_TEXT, &got.sizes, 0,
         0},
        {0, "arity", "LIST", "of the k-ary tree: 2,4", ARGS_TEXT, &got.arities, 0, 0},
        {0, "trigger", "T", "how it is noticed: connection, inquiry or ring", ARGS_TEXT,
         &got.trigger, 0, 0},
        {0, "victim", "LIST", "who goes: random,leaf,inner,root", ARGS_TEXT,
         &got.victims, 0, 0},
        {0, "repeat", "K", "how often each of them: 9", ARGS_NUMBER, &got.repeat, 1,
         250},
        {0, "repetitions", "R", "of the floor, each time: 20", ARGS_NUMBER,
         &got.repetitions, 1, 10000},
        {0, "patience", "TIME", "of an inquiry, or the ring's period: 20ms",
         ARGS_DURATION, &got.patience_ns, 0, 0},
        {0, "transport", "unix|tcp", "tcp, on the loopback and not encrypted",
         ARGS_TEXT, &got.transport, 0, 0},
        {0, "json", NULL, "one object per line: coppice.bench.ts.v1, .fit.v1",
         ARGS_FLAG, &got.as_json, 0, 0},
        {0, "csv", NULL, "one line for each size, arity and victim", ARGS_FLAG,
         &got.as_csv, 0, 0},
        {0},
    };
    struct args args = {
        .name = "bench",
        .usage = "ts [options]",
        .text =
            "Measures changes of the view: members of a private cluster are killed, "
            "or\n"
            "stopped, one at a time, and come back. T_detect ends when whoever "
            "proposes\n"
            "has heard of it, T_s when everybody has acknowledged, T_commit when the\n"
            "last has the new view. Beside it the bare floor of those who are left, "
            "one\n"
            "message down and one up every edge, and what the models say.",
        .options = options,
        .most = 0,
    };
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    if (got.as_json && got.as_csv)
        return fail(EXIT_USAGE, "bench: --json or --csv, not both");
    return run(&got);
}
