/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"
#include "number/numbers.h"
#include "sim/torus.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/json.h"
#include "term/say.h"

#include <coppice/error.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/*
 * `coppice model`: what the published models predict. Nothing is started and nothing is
 * measured: L and O, and the latencies in the file, come from elsewhere.
 */
#define ARITIES_MAX 16u

struct options {
    const char *sizes, *arities, *torus, *contention;
    cop_time latency_ns, compute_ns;
    bool is_best, as_json;
};

struct request {
    struct model_machine machine;
    struct numbers sizes;
    uint32_t arities[ARITIES_MAX];
    uint32_t arity_count;
    struct latencies latencies;
    /* What a note below the table has to explain. */
    bool is_extrapolated, is_held, is_borrowed;
};

/* ---- output ---------------------------------------------------------------------- */

static void print_microseconds(double ns, int width)
{
    printf(" %*.1f", width, ns / 1e3);
}

static void print_head(const struct options *options)
{
    char latency[DURATION_SIZE], compute[DURATION_SIZE];
    printf("T_s in us, O = %s", print_duration(options->compute_ns, compute));
    if (options->latency_ns > 0)
        printf(", L = %s", print_duration(options->latency_ns, latency));
    if (options->contention)
        printf(", L(n) of %s", options->contention);
    printf("\n\n%s%8s %-9s %6s", colour(stdout, BOLD), "n", "shape", "levels");
    if (options->latency_ns > 0)
        printf(" %10s", "base");
    if (options->torus)
        printf(" %11s %5s", "torus", "hops");
    if (options->torus && options->latency_ns > 0)
        printf(" %10s", "distance");
    if (options->contention)
        printf(" %9s  %-8s %10s", "L(n)", "from", "contention");
    if (options->contention && options->torus)
        printf(" %10s", "both");
    printf("%s\n", colour(stdout, PLAIN));
}

static char origin_mark(enum latency_origin origin)
{
    static const char marks[] = {[LATENCY_MEASURED] = ' ',
                                 [LATENCY_INTERPOLATED] = ' ',
                                 [LATENCY_EXTRAPOLATED] = '*',
                                 [LATENCY_HELD] = '+'};
    return marks[origin];
}

static const char *print_dims(const uint32_t dims[3], char out[40])
{
    snprintf(out, 40, "%" PRIu32 "x%" PRIu32 "x%" PRIu32, dims[0], dims[1], dims[2]);
    return out;
}

/* The most children that a parent in the tree has. */
static uint32_t widest(const struct model_point *point)
{
    uint32_t others = point->n - 1;
    return point->arity == MODEL_FLAT || point->arity > others ? others : point->arity;
}

static void print_point(struct request *request, const struct model_point *point,
                        const char *remark)
{
    char shape[16], text[40];
    enum latency_origin origin = point->contended.origin;
    cop_shape_print(&point->shape, shape, sizeof shape);
    printf("%8" PRIu32 " %-9s %6" PRIu32, point->n, shape, point->levels);
    if (point->has[MODEL_BASE])
        print_microseconds(point->ts_ns[MODEL_BASE], 10);
    if (request->machine.has_torus)
        printf(" %11s %5" PRIu32, print_dims(point->dims, text), point->hops);
    if (point->has[MODEL_DISTANCE])
        print_microseconds(point->ts_ns[MODEL_DISTANCE], 10);
    if (point->has[MODEL_CONTENTION]) {
        print_microseconds(point->contended.ns, 9);
        printf("%c %-8s", origin_mark(origin),
               pattern_print(point->contended.fan_out, text));
        print_microseconds(point->ts_ns[MODEL_CONTENTION], 10);
        request->is_extrapolated |= origin == LATENCY_EXTRAPOLATED;
        request->is_held |= origin == LATENCY_HELD;
        request->is_borrowed |= point->contended.fan_out < widest(point);
    }
    if (point->has[MODEL_BOTH])
        print_microseconds(point->ts_ns[MODEL_BOTH], 10);
    printf("%s\n", remark);
}

static void print_notes(const struct request *request, bool is_best)
{
    if (request->is_extrapolated)
        printf("\n* extrapolated: on the line through the last two rows of the file\n");
    if (request->is_held)
        printf("\n+ that of the nearest row: the file has no line to follow there\n");
    if (request->is_borrowed)
        printf(
            "\nA latency from a pattern with fewer children than the tree has is too "
            "small;\nmeasure more of them: coppice bench contention --pattern "
            "tree:8,tree:16.\n");
    if (is_best && request->machine.contended == NULL)
        printf(
            "\nThese models charge a parent nothing for the number of its children;\n"
            "give them measured latencies: coppice bench contention, --contention.\n");
}

static void put_torus(struct json *json, const struct request *request,
                      const struct model_point *point)
{
    char text[40];
    bool has_torus = request->machine.has_torus;
    json_put_string(json, "torus", has_torus ? print_dims(point->dims, text) : NULL);
    json_key(json, "hops");
    if (has_torus)
        json_u64(json, point->hops);
    else
        json_null(json);
}

static void put_contended(struct json *json, const struct latency *latency)
{
    static const char *const origins[] = {[LATENCY_MEASURED] = "measured",
                                          [LATENCY_INTERPOLATED] = "interpolated",
                                          [LATENCY_EXTRAPOLATED] = "extrapolated",
                                          [LATENCY_HELD] = "held"};
    char pattern[PATTERN_SIZE];
    json_key(json, "contended");
    if (latency == NULL) {
        json_null(json);
        return;
    }
    json_begin_object(json);
    json_put_double(json, "latency_ns", latency->ns, 0);
    json_put_string(json, "pattern", pattern_print(latency->fan_out, pattern));
    json_put_string(json, "origin", origins[latency->origin]);
    json_end_object(json);
}

/* The keys of a prediction; the object is the caller's. */
static void put_point(struct json *json, const struct request *request,
                      const struct model_point *point)
{
    static const char *const keys[MODEL_KINDS] = {"base_ns", "distance_ns",
                                                  "contention_ns", "both_ns"};
    char shape[16];
    cop_shape_print(&point->shape, shape, sizeof shape);
    json_put_u64(json, "n", point->n);
    json_put_string(json, "shape", shape);
    json_put_u64(json, "levels", point->levels);
    put_torus(json, request, point);
    put_contended(json, request->machine.contended ? &point->contended : NULL);
    for (int kind = 0; kind < MODEL_KINDS; kind++) {
        json_key(json, keys[kind]);
        if (point->has[kind])
            json_double(json, point->ts_ns[kind], 0);
        else
            json_null(json);
    }
    json_put_string(json, "model", model_name(point->refined));
    json_put_double(json, "ts_ns", point->ts_ns[point->refined], 0);
}

static void put_machine(struct json *json, const struct model_machine *machine)
{
    json_key(json, "latency_ns");
    if (machine->latency_ns > 0)
        json_u64(json, machine->latency_ns);
    else
        json_null(json);
    json_put_u64(json, "compute_ns", machine->compute_ns);
}

/* ---- one size -------------------------------------------------------------------- */

static void show_points(struct request *request, const struct options *options,
                        const struct model_point *points)
{
    for (uint32_t i = 0; i < request->arity_count; i++) {
        struct json json;
        if (!options->as_json) {
            print_point(request, &points[i], "");
            continue;
        }
        json_init(&json, stdout);
        json_begin_object(&json);
        json_put_string(&json, "schema", "coppice.model.ts.v1");
        put_machine(&json, &request->machine);
        put_point(&json, request, &points[i]);
        json_end_object(&json);
    }
}

static void show_best(struct request *request, const struct options *options,
                      const struct model_point *points)
{
    char remark[64];
    uint32_t best = model_best(points, request->arity_count);
    snprintf(remark, sizeof remark, "  %s<- best, by model %s%s", colour(stdout, GREEN),
             model_name(points[best].refined), colour(stdout, PLAIN));
    if (!options->as_json) {
        for (uint32_t i = 0; i < request->arity_count; i++)
            print_point(request, &points[i], i == best ? remark : "");
        return;
    }
    struct json json;
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.model.best.v1");
    put_machine(&json, &request->machine);
    put_point(&json, request, &points[best]);
    json_key(&json, "candidates");
    json_begin_array(&json);
    for (uint32_t i = 0; i < request->arity_count; i++) {
        json_begin_object(&json);
        put_point(&json, request, &points[i]);
        json_end_object(&json);
    }
    json_end_array(&json);
    json_end_object(&json);
}

static int run_sizes(struct request *request, const struct options *options)
{
    struct model_point points[ARITIES_MAX];
    for (uint32_t i = 0; i < request->sizes.count; i++) {
        for (uint32_t j = 0; j < request->arity_count; j++) {
            int error = model_predict(&request->machine, request->sizes.items[i],
                                      request->arities[j], &points[j]);
            if (error)
                return fail(EXIT_FAILED, "model: %s", cop_strerror(error));
        }
        if (!options->as_json && i == 0)
            print_head(options);
        if (options->is_best)
            show_best(request, options, points);
        else
            show_points(request, options, points);
    }
    if (!options->as_json)
        print_notes(request, options->is_best);
    return EXIT_DONE;
}

/* ---- the request ----------------------------------------------------------------- */

static int parse_arities(const char *text, struct request *request)
{
    char copy[200];
    size_t length = (size_t)snprintf(copy, sizeof copy, "%s", text);
    char *rest = length < sizeof copy ? copy : NULL;
    for (char *word; (word = strsep(&rest, ",")) != NULL;) {
        uint64_t arity = MODEL_FLAT;
        bool is_arity = strcmp(word, "flat") == 0 ||
                        parse_number(word, 2, MODEL_ARITY_MAX, &arity) == 0;
        if (!is_arity || request->arity_count == ARITIES_MAX) {
            request->arity_count = 0;
            break;
        }
        request->arities[request->arity_count++] = (uint32_t)arity;
    }
    if (request->arity_count > 0)
        return 0;
    return fail(EXIT_USAGE,
                "model: --arity takes up to %u numbers from 2 to %u, or flat, as 2,4, "
                "not '%s'",
                ARITIES_MAX, MODEL_ARITY_MAX, text);
}

/* Powers of two first: of equal predictions the one with fewer children is the best. */
static void take_all_arities(struct request *request)
{
    for (uint32_t arity = 2; arity <= 64; arity *= 2)
        request->arities[request->arity_count++] = arity;
    request->arities[request->arity_count++] = MODEL_FLAT;
}

/* "8,8,16", or "8x8x16" as the simulator's networks have it. */
static bool parse_dims(const char *text, uint32_t dims[3])
{
    char copy[64];
    char *rest = copy;
    if ((size_t)snprintf(copy, sizeof copy, "%s", text) >= sizeof copy)
        return false;
    for (int i = 0; i < 3; i++) {
        uint64_t number;
        const char *word = strsep(&rest, ",x");
        if (word == NULL || parse_number(word, 1, COP_MEMBERS_MAX, &number) != 0)
            return false;
        dims[i] = (uint32_t)number;
    }
    return rest == NULL;
}

static int parse_torus(const char *text, struct request *request)
{
    uint32_t most = 1;
    request->machine.has_torus = true;
    if (strcmp(text, "cube") == 0)
        return 0;
    if (!parse_dims(text, request->machine.dims))
        return fail(EXIT_USAGE,
                    "model: --torus takes X,Y,Z, as 8,8,16, or cube, not '%s'", text);
    for (uint32_t i = 0; i < request->sizes.count; i++)
        most = request->sizes.items[i] > most ? request->sizes.items[i] : most;
    if (!cop__torus_holds(request->machine.dims, most))
        return fail(EXIT_USAGE,
                    "model: the torus %s has no place for %" PRIu32 " nodes", text,
                    most);
    return 0;
}

static int read_latencies(const char *path, struct request *request)
{
    char message[128] = "";
    FILE *in = fopen(path, "r");
    if (in == NULL)
        return fail(EXIT_USAGE, "model: cannot read '%s': %s", path, strerror(errno));
    int error = latencies_read(in, &request->latencies, message, sizeof message);
    fclose(in);
    if (error == COP_ENOMEM)
        return fail(EXIT_FAILED, "model: out of memory");
    if (error)
        return fail(EXIT_USAGE, "model: %s: %s", path, message);
    request->machine.contended = &request->latencies;
    return 0;
}

static int make_request(const struct options *options, struct request *request)
{
    request->machine.latency_ns = options->latency_ns;
    request->machine.compute_ns = options->compute_ns;
    if (options->sizes == NULL)
        return fail(EXIT_USAGE, "model: --n N is needed: how many nodes");
    if (parse_numbers(options->sizes, 1, COP_MEMBERS_MAX, NUMBERS_MAX, &request->sizes))
        return fail(EXIT_USAGE,
                    "model: --n takes up to %u numbers from 1 to %" PRIu32
                    ", as 16,64 or 2-47 or 2-1024x2, not '%s'",
                    NUMBERS_MAX, COP_MEMBERS_MAX, options->sizes);
    if (options->arities == NULL && !options->is_best)
        return fail(EXIT_USAGE, "model: --arity A is needed, or --best");
    if (options->latency_ns == 0 && options->contention == NULL)
        return fail(EXIT_USAGE, "model: --latency L is needed, or --contention FILE");
    if (options->compute_ns == 0)
        return fail(EXIT_USAGE, "model: --compute O is needed: the time in a node");
    int code = 0;
    if (options->arities != NULL)
        code = parse_arities(options->arities, request);
    else
        take_all_arities(request);
    if (code == 0 && options->torus != NULL)
        code = parse_torus(options->torus, request);
    if (code == 0 && options->contention != NULL)
        code = read_latencies(options->contention, request);
    return code;
}

int cmd_model(int argc, char **argv)
{
    struct options got = {.sizes = NULL};
    const struct args_option options[] = {
        {'n', "n", "LIST", "how many nodes: 64,256 or 2-47 or 2-1024x2", ARGS_TEXT,
         &got.sizes, 0, 0},
        {0, "arity", "LIST", "children of each node: 2,4,flat", ARGS_TEXT, &got.arities,
         0, 0},
        {0, "latency", "L", "of one message: 4.6us", ARGS_DURATION, &got.latency_ns, 0,
         0},
        {0, "compute", "O", "what a node computes for one change: 2us", ARGS_DURATION,
         &got.compute_ns, 0, 0},
        {0, "torus", "X,Y,Z", "the network; cube: a near cube for each n", ARGS_TEXT,
         &got.torus, 0, 0},
        {0, "contention", "FILE", "latencies that bench contention wrote", ARGS_TEXT,
         &got.contention, 0, 0},
        {0, "best", NULL, "compare arities: 2, 4, 8, ..., 64 and flat", ARGS_FLAG,
         &got.is_best, 0, 0},
        {0, "json", NULL, "one object per line: coppice.model.ts.v1, .best.v1",
         ARGS_FLAG, &got.as_json, 0, 0},
        {0},
    };
    struct args args = {
        .name = "model",
        .usage = "ts --n LIST --arity LIST --latency L --compute O [options]",
        .text =
            "Predicts T_s, the time of a membership change over a tree: down and up\n"
            "again, with one latency for each level (base), with hops on a torus\n"
            "(distance), and with latencies measured under contention.\n"
            "For the time of a broadcast see: coppice model bcast --help.",
        .options = options,
        .least = 1,
        .most = 1,
    };
    int code;
    if (argc > 1 && strcmp(argv[1], "bcast") == 0)
        return cmd_model_bcast(argc - 1, argv + 1);
    if (!args_parse(&args, argc, argv, &code))
        return code;
    if (strcmp(args.operands[0], "ts") != 0)
        return fail(EXIT_USAGE, "model: ts or bcast, not '%s'", args.operands[0]);
    struct request request = {.arity_count = 0};
    code = make_request(&got, &request);
    if (code == 0)
        code = run_sizes(&request, &got);
    latencies_free(&request.latencies);
    return code;
}
