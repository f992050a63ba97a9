/* SPDX-License-Identifier: Apache-2.0 */
#include "model/bcast.h"
#include "number/numbers.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/json.h"
#include "term/say.h"

#include <coppice/error.h>
#include <inttypes.h>
#include <string.h>

/* `coppice model bcast`: which tree is the best for these two numbers. */
#define SHAPES_MAX 24u

struct options {
    const char *sizes, *shapes;
    cop_time o_ns, l_ns;
    bool simulates, as_json;
};

/* A tree, what the model says of it, and, if it was simulated, what came of that. */
struct point {
    struct model_bcast model;
    bool is_simulated;
    cop_time simulated_ns;
};

struct request {
    struct numbers sizes;
    struct cop_shape shapes[SHAPES_MAX];
    uint32_t shape_count;
};

/* ---- output ---------------------------------------------------------------------- */

static const char *case_of(const struct options *options)
{
    return options->l_ns == options->o_ns  ? "l = o"
           : options->l_ns < options->o_ns ? "l < o"
                                           : "l > o";
}

static const char *explain(const struct options *options)
{
    return options->l_ns == options->o_ns
               ? "all leaves of a binomial tree have it at the same time, and no tree "
                 "is better"
           : options->l_ns < options->o_ns
               ? "the deepest leaf of a binomial tree has it first; fewer sends are "
                 "better than fewer levels"
               : "the deepest leaf of a binomial tree has it last; a wider and "
                 "shallower tree is better";
}

/* Of the model, in percent of what was simulated; positive if it says too much. */
static double error_of(const struct point *point)
{
    double simulated = (double)point->simulated_ns;
    return 100 * ((double)point->model.last_ns - simulated) / simulated;
}

static void print_row(const struct options *options, const struct cop_shape *shape,
                      uint32_t n, const struct point *point, bool is_best)
{
    const struct model_bcast *model = &point->model;
    char text[32];
    cop_shape_print(shape, text, sizeof text);
    printf("%8" PRIu32 " %-10s %6" PRIu32 " %8" PRIu32 " %12.1f %12.1f %12.1f", n, text,
           model->levels, model->most_children, (double)model->first_ns / 1e3,
           (double)model->deepest_ns / 1e3, (double)model->last_ns / 1e3);
    if (point->is_simulated)
        printf(" %12.1f %7.2f %%", (double)point->simulated_ns / 1e3, error_of(point));
    else if (options->simulates)
        printf(" %12s %9s", "", "");
    printf("%s%s%s\n", is_best ? colour(stdout, GREEN) : "", is_best ? "  <- best" : "",
           is_best ? colour(stdout, PLAIN) : "");
}

static void put_point(struct json *json, const struct cop_shape *shape,
                      const struct point *point)
{
    const struct model_bcast *model = &point->model;
    char text[32];
    cop_shape_print(shape, text, sizeof text);
    json_put_string(json, "shape", text);
    json_put_u64(json, "levels", model->levels);
    json_put_u64(json, "children", model->most_children);
    json_put_u64(json, "first_ns", model->first_ns);
    json_put_u64(json, "deepest_ns", model->deepest_ns);
    json_put_u64(json, "last_ns", model->last_ns);
    json_key(json, "simulated_ns");
    if (point->is_simulated)
        json_u64(json, point->simulated_ns);
    else
        json_null(json);
    if (point->is_simulated) {
        json_put_double(json, "error_percent", error_of(point), 4);
        return;
    }
    json_key(json, "error_percent");
    json_null(json);
}

static void print_json(const struct options *options, const struct request *request,
                       uint32_t n, const struct point *points, uint32_t best)
{
    struct json json;
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.model.bcast.v1");
    json_put_u64(&json, "o_ns", options->o_ns);
    json_put_u64(&json, "l_ns", options->l_ns);
    json_put_string(&json, "case", case_of(options));
    json_put_u64(&json, "n", n);
    json_put_u64(&json, "bound_ns", model_bcast_bound(n, options->o_ns, options->l_ns));
    put_point(&json, &request->shapes[best], &points[best]);
    json_key(&json, "candidates");
    json_begin_array(&json);
    for (uint32_t i = 0; i < request->shape_count; i++) {
        json_begin_object(&json);
        put_point(&json, &request->shapes[i], &points[i]);
        json_end_object(&json);
    }
    json_end_array(&json);
    json_end_object(&json);
}

static void print_head(const struct options *options)
{
    char o[DURATION_SIZE], l[DURATION_SIZE];
    printf("o = %s, l = %s: %s\n\n", print_duration(options->o_ns, o),
           print_duration(options->l_ns, l), explain(options));
    printf("%s%8s %-10s %6s %8s %12s %12s %12s%s%s\n", colour(stdout, BOLD), "n",
           "shape", "levels", "children", "first us", "deepest us", "last us",
           options->simulates ? " simulated us     error" : "", colour(stdout, PLAIN));
}

/* ---- the request ----------------------------------------------------------------- */

/* The best of those trees that were typed, or of all that there are. */
static int predict(const struct options *options, const struct request *request,
                   uint32_t n, struct point *points, uint32_t *best)
{
    *best = 0;
    for (uint32_t j = 0; j < request->shape_count; j++) {
        points[j] = (struct point){.is_simulated = false};
        int error = model_bcast(&request->shapes[j], n, options->o_ns, options->l_ns,
                                &points[j].model);
        if (error)
            return fail(EXIT_FAILED, "model: %s", cop_strerror(error));
        if (points[j].model.last_ns < points[*best].model.last_ns)
            *best = j;
    }
    return 0;
}

/* Where nobody said which trees, the best one. */
static int simulate(const struct options *options, const struct request *request,
                    uint32_t n, struct point *points, uint32_t best)
{
    for (uint32_t j = 0; j < request->shape_count; j++) {
        if (options->shapes == NULL && j != best)
            continue;
        int error = model_bcast_simulate(&request->shapes[j], n, options->o_ns,
                                         options->l_ns, &points[j].simulated_ns);
        if (error)
            return fail(EXIT_FAILED, "model: the simulation failed: %s",
                        error == COP_EIO ? "not everybody answered"
                                         : cop_strerror(error));
        points[j].is_simulated = true;
    }
    return 0;
}

static int run(const struct options *options, const struct request *request)
{
    struct point points[SHAPES_MAX];
    for (uint32_t i = 0; i < request->sizes.count; i++) {
        uint32_t n = request->sizes.items[i], best;
        int code = predict(options, request, n, points, &best);
        if (code == 0 && options->simulates)
            code = simulate(options, request, n, points, best);
        if (code)
            return code;
        if (options->as_json) {
            print_json(options, request, n, points, best);
            continue;
        }
        if (i == 0)
            print_head(options);
        for (uint32_t j = 0; j < request->shape_count; j++)
            print_row(options, &request->shapes[j], n, &points[j], j == best);
        printf("%8" PRIu32 " %-10s %6s %8s %12s %12s %12.1f\n", n, "any tree", "", "",
               "", "",
               (double)model_bcast_bound(n, options->o_ns, options->l_ns) / 1e3);
    }
    return EXIT_DONE;
}

static int parse_shapes(const char *text, struct request *request)
{
    char copy[400], message[200];
    char *rest = copy;
    if ((size_t)snprintf(copy, sizeof copy, "%s", text) >= sizeof copy)
        return fail(EXIT_USAGE, "model: --shape has too many shapes");
    for (char *word; (word = strsep(&rest, ",")) != NULL;) {
        if (request->shape_count == SHAPES_MAX)
            return fail(EXIT_USAGE, "model: --shape takes %u shapes at most",
                        SHAPES_MAX);
        if (cop_shape_parse(word, &request->shapes[request->shape_count++], message,
                            sizeof message) != 0)
            return fail(EXIT_USAGE, "model: --shape: %s", message);
    }
    return 0;
}

static const char usual[] =
    "knomial:2,knomial:3,knomial:4,knomial:6,knomial:8,knomial:16,knomial:32,kary:2,"
    "kary:3,kary:4,kary:8,kary:16,flat,chain";

static int make_request(const struct options *options, struct request *request)
{
    if (options->sizes == NULL)
        return fail(EXIT_USAGE, "model: --n N is needed: how many nodes");
    if (parse_numbers(options->sizes, 2, COP_MEMBERS_MAX, NUMBERS_MAX, &request->sizes))
        return fail(EXIT_USAGE,
                    "model: --n takes up to %u numbers from 2 to %" PRIu32
                    ", as 16,64 or 2-47 or 2-1024x2, not '%s'",
                    NUMBERS_MAX, COP_MEMBERS_MAX, options->sizes);
    if (options->o_ns == 0 || options->l_ns == 0)
        return fail(EXIT_USAGE, "model: --o O and --l L are needed: the time between "
                                "two sends, and that of a message");
    return parse_shapes(options->shapes ? options->shapes : usual, request);
}

int cmd_model_bcast(int argc, char **argv)
{
    struct options got = {.shapes = NULL};
    const struct args_option options[] = {
        {'n', "n", "LIST", "how many nodes: 64,256 or 2-47 or 2-1024x2", ARGS_TEXT,
         &got.sizes, 0, 0},
        {0, "o", "O", "from one send of a node to the next: 1us", ARGS_DURATION,
         &got.o_ns, 0, 0},
        {0, "l", "L", "of one message: 5us", ARGS_DURATION, &got.l_ns, 0, 0},
        {0, "shape", "LIST", "trees to compare: knomial:4,kary:2,...", ARGS_TEXT,
         &got.shapes, 0, 0},
        {0, "simulate", NULL, "also run it: the trees of --shape, or else the best one",
         ARGS_FLAG, &got.simulates, 0, 0},
        {0, "json", NULL, "one object per line: coppice.model.bcast.v1", ARGS_FLAG,
         &got.as_json, 0, 0},
        {0},
    };
    struct args args = {
        .name = "model bcast",
        .usage = "--o O --l L --n LIST [options]",
        .text =
            "Predicts when a broadcast has reached the last member of a tree, and "
            "which\n"
            "tree is the best, by the time O between two sends of a node and the "
            "time L\n"
            "of a message; and what no tree can beat. With --simulate, real nodes "
            "run it\n"
            "on a simulated network of these two numbers, and the error is printed.",
        .options = options,
    };
    struct request request = {.shape_count = 0};
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    code = make_request(&got, &request);
    return code ? code : run(&got, &request);
}
