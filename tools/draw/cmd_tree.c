/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rankset.h"
#include "draw/draw.h"
#include "names/nodeset.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/json.h"
#include "term/say.h"

#include <coppice/error.h>
#include <coppice/tree.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * `coppice tree`: what a shape looks like, and what a repair makes of it. Nothing is
 * started and nobody is asked: trees are functions.
 */
#define FOLD_ABOVE 40u                     /* ranks; up to here each has its own line */
#define FILE_BYTES_MAX (64u * 1024 * 1024) /* of a topology file */

struct request {
    const char *shape;
    uint64_t n;
    uint64_t root;
    uint64_t hosts;
    uint64_t lines;
    const char *dead, *drained;
    const char *repair;
    bool ascii;
    bool dot;
    bool json;
};

/* ---- the shape ------------------------------------------------------------------- */

/* The whole file, to be freed; NULL if it cannot be had, and it has been said why. */
static char *read_file(const char *path, size_t *length, int *code)
{
    FILE *file = fopen(path, "rb");
    char *text = file == NULL ? NULL : malloc(FILE_BYTES_MAX + 1);
    if (text != NULL) {
        *length = fread(text, 1, FILE_BYTES_MAX + 1, file);
        if (!ferror(file) && *length <= FILE_BYTES_MAX) {
            (void)fclose(file);
            return text;
        }
    }
    const char *why = file != NULL && text != NULL && !ferror(file)
                          ? "it is larger than 64 MiB"
                          : strerror(errno);
    *code = fail(EXIT_USAGE, "tree: cannot read '%s': %s", path, why);
    if (file != NULL)
        (void)fclose(file);
    free(text);
    return NULL;
}

static int load_file(const char *path, uint64_t wanted, struct cop_tree *tree)
{
    char message[256];
    size_t length;
    int code = 0;
    char *text = read_file(path, &length, &code);
    if (text == NULL)
        return code;
    int error = cop_shape_from_topology(text, length, &tree->shape, &tree->n, message,
                                        sizeof message);
    free(text);
    if (error == COP_ENOMEM)
        return fail(EXIT_FAILED, "tree: out of memory");
    if (error != 0)
        return fail(EXIT_USAGE, "tree: %s: %s", path, message);
    if (wanted != 0 && wanted != tree->n)
        return fail(EXIT_USAGE, "tree: '%s' has %u names, not %llu; leave N out", path,
                    tree->n, (unsigned long long)wanted);
    return 0;
}

/* Hosts of equal size, as near as may be, each with consecutive ranks. */
static int spread_over_hosts(uint64_t hosts, struct cop_tree *tree)
{
    struct cop_shape leaders;
    if (hosts == 0)
        return fail(EXIT_USAGE, "tree: a shape with hosts needs --hosts H, how many "
                                "there are");
    if (hosts > tree->n)
        return fail(EXIT_USAGE, "tree: --hosts is %llu, but there are only %u ranks",
                    (unsigned long long)hosts, tree->n);
    uint32_t *host_of = malloc(tree->n * sizeof *host_of);
    if (host_of == NULL)
        return fail(EXIT_FAILED, "tree: out of memory");
    for (uint32_t rank = 0; rank < tree->n; rank++)
        host_of[rank] = (uint32_t)(rank * hosts / tree->n);
    int error = cop_shape_make(tree->shape.inner, tree->shape.k, &leaders);
    if (error == 0)
        error = cop_shape_from_hosts(&leaders, host_of, tree->n, &tree->shape);
    free(host_of);
    return error == 0 ? 0 : fail(EXIT_FAILED, "tree: %s", cop_strerror(error));
}

static int make_shape(const struct request *request, struct cop_tree *tree)
{
    char message[256];
    if (cop_shape_parse(request->shape, &tree->shape, message, sizeof message) != 0)
        return fail(EXIT_USAGE, "tree: %s", message);
    if (request->hosts != 0 && tree->shape.kind != COP_SHAPE_HOSTS)
        return fail(EXIT_USAGE, "tree: --hosts goes with a shape hosts:SHAPE only");
    if (tree->shape.kind == COP_SHAPE_TABLE)
        return load_file(request->shape + strlen("file:"), request->n, tree);
    if (request->n == 0)
        return fail(EXIT_USAGE, "tree: N, the number of ranks, is missing");
    tree->n = (uint32_t)request->n;
    if (tree->shape.kind == COP_SHAPE_HOSTS)
        return spread_over_hosts(request->hosts, tree);
    return 0;
}

/* ---- the dead -------------------------------------------------------------------- */

/* "7" or "7-9" at the front of the list; *text goes on to what follows it. */
static bool take_range(const char **text, uint64_t *low, uint64_t *high)
{
    char *end;
    if (**text < '0' || **text > '9')
        return false;
    *low = *high = strtoull(*text, &end, 10);
    if (*end == '-') {
        if (end[1] < '0' || end[1] > '9')
            return false;
        *high = strtoull(end + 1, &end, 10);
    }
    *text = end;
    return true;
}

/* Marks the ranks of "3,7-9". */
static int mark_dead(const char *option, const char *list, uint32_t n, bool *is_dead)
{
    for (const char *at = list;; at++) {
        uint64_t low, high;
        if (!take_range(&at, &low, &high) || (*at != ',' && *at != '\0'))
            return fail(EXIT_USAGE, "tree: --%s takes ranks such as 3,7-9, not '%s'",
                        option, list);
        if (low > high)
            return fail(EXIT_USAGE, "tree: --%s %s: a range goes from low to high",
                        option, list);
        if (high >= n)
            return fail(EXIT_USAGE, "tree: --%s %s: the highest rank is %u", option,
                        list, n - 1);
        for (uint64_t rank = low; rank <= high; rank++)
            is_dead[rank] = true;
        if (*at == '\0')
            return 0;
    }
}

static int list_dead(const bool *is_dead, uint32_t n, struct cop_ranks *out)
{
    for (cop_rank rank = 0; rank < n; rank++)
        if (is_dead[rank] && cop_ranks_push(out, rank) != 0)
            return fail(EXIT_FAILED, "tree: out of memory");
    return 0;
}

static int read_dead(const char *option, const char *list, uint32_t n,
                     struct cop_ranks *out)
{
    if (list == NULL)
        return 0;
    bool *is_dead = calloc(n, sizeof *is_dead);
    if (is_dead == NULL)
        return fail(EXIT_FAILED, "tree: out of memory");
    int code = mark_dead(option, list, n, is_dead);
    if (code == 0)
        code = list_dead(is_dead, n, out);
    free(is_dead);
    return code;
}

/* ---- output ---------------------------------------------------------------------- */

static const char *const repair_names[] = {"splice", "promote", "rebalance"};

static const char *label(const void *context, cop_rank rank)
{
    return cop_shape_label(context, rank);
}

static void print_summary(const struct cop_tree *tree)
{
    char shape[64];
    uint32_t dead = cop_dead_count(tree->dead) - tree->leaf_count;
    (void)cop_shape_print(&tree->shape, shape, sizeof shape);
    printf("%s, %u ranks", shape, tree->n);
    if (dead > 0)
        printf(", %u dead, %s", dead, repair_names[tree->repair]);
    if (tree->leaf_count > 0)
        printf(", %u drained", tree->leaf_count);
    if (dead < tree->n) {
        bool bound =
            cop_dead_count(tree->dead) > 0 || tree->shape.kind == COP_SHAPE_HOSTS;
        printf(", %s%u levels", bound ? "at most " : "",
               cop_tree_depth(tree, cop_tree_root(tree)));
    }
    printf("\n");
}

static void json_rank(struct json *json, const char *key, cop_rank rank)
{
    json_key(json, key);
    if (rank == COP_RANK_NONE)
        json_null(json);
    else
        json_u64(json, rank);
}

static int json_node(struct json *json, const struct cop_tree *tree, cop_rank rank,
                     struct cop_ranks *children)
{
    if (cop_tree_children(tree, rank, children) != 0)
        return COP_ENOMEM;
    json_begin_object(json);
    json_put_u64(json, "rank", rank);
    if (cop_shape_label(&tree->shape, rank) != NULL)
        json_put_string(json, "label", cop_shape_label(&tree->shape, rank));
    json_rank(json, "parent", cop_tree_parent(tree, rank));
    json_put_u64(json, "level", cop_tree_level(tree, rank));
    json_put_u64(json, "size", cop_tree_size(tree, rank));
    json_put_u64(json, "depth", cop_tree_depth(tree, rank));
    json_key(json, "children");
    json_begin_array(json);
    for (uint32_t i = 0; i < children->count; i++)
        json_u64(json, children->items[i]);
    json_end_array(json);
    json_end_object(json);
    return 0;
}

static int json_nodes(struct json *json, const struct cop_tree *tree)
{
    struct cop_ranks children = {0};
    int error = 0;
    json_key(json, "nodes");
    json_begin_array(json);
    for (cop_rank rank = 0; rank < tree->n && error == 0; rank++)
        if (!cop_dead_has(tree->dead, rank) || draw_is_drained(tree, rank))
            error = json_node(json, tree, rank, &children);
    json_end_array(json);
    cop_ranks_free(&children);
    return error;
}

/* Folded: those outside that are drained, or are not. To be freed; NULL: no memory. */
static char *fold_outside(const struct cop_tree *tree, bool drained)
{
    const struct cop_dead *dead = tree->dead;
    struct cop_ranks ranks = {0};
    char *folded = NULL;
    int error = 0;
    for (uint32_t i = 0; i < dead->extra_count && error == 0; i++)
        if (draw_is_drained(tree, dead->extra[i]) == drained)
            error = cop_ranks_push(&ranks, dead->extra[i]);
    if (error == 0)
        folded = nodeset_fold_ids("n", ranks.items, ranks.count);
    cop_ranks_free(&ranks);
    return folded;
}

static int print_json(const struct cop_tree *tree)
{
    char shape[64];
    struct json json;
    char *dead = fold_outside(tree, false), *drained = fold_outside(tree, true);
    if (dead == NULL || drained == NULL) {
        free(dead);
        free(drained);
        return COP_ENOMEM;
    }
    (void)cop_shape_print(&tree->shape, shape, sizeof shape);
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.tree.v1");
    json_put_string(&json, "shape", shape);
    json_put_u64(&json, "n", tree->n);
    json_put_string(&json, "repair", repair_names[tree->repair]);
    json_put_string(&json, "dead", dead);
    json_put_string(&json, "drained", drained);
    json_put_u64(&json, "living", tree->n - tree->dead->extra_count + tree->leaf_count);
    json_rank(&json, "root", cop_tree_root(tree));
    int error = json_nodes(&json, tree);
    json_end_object(&json);
    free(dead);
    free(drained);
    return error;
}

static int print_tree(const struct request *request, const struct cop_tree *tree)
{
    struct draw_options options = {
        .color = has_colour(stdout),
        .utf8 = !request->ascii && has_utf8(),
        .fold = tree->n > FOLD_ABOVE,
        .lines = (uint32_t)request->lines,
        .label = tree->shape.kind == COP_SHAPE_TABLE ? label : NULL,
        .context = &tree->shape,
    };
    int error;
    if (request->json) {
        error = print_json(tree);
    } else if (request->dot) {
        error = draw_dot(stdout, tree, &options);
    } else {
        print_summary(tree);
        error = draw_tree(stdout, tree, &options);
    }
    /* main() says what is wrong with the output. */
    if (error == 0 || error == COP_EIO)
        return EXIT_DONE;
    return fail(EXIT_FAILED, "tree: %s", cop_strerror(error));
}

/* ---- the command ----------------------------------------------------------------- */

static int read_repair(const char *text, enum cop_repair *out)
{
    for (unsigned i = 0; i < 3; i++) {
        if (strcmp(text, repair_names[i]) == 0) {
            *out = (enum cop_repair)i;
            return 0;
        }
    }
    return fail(EXIT_USAGE, "tree: --repair is splice, promote or rebalance, not '%s'",
                text);
}

/* To shape and repair the drained are dead; one who is dead is not drained. */
static int put_outside(uint32_t n, struct cop_ranks *drained, struct cop_ranks *dead)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < drained->count; i++)
        if (!cop__rankset_has(dead, drained->items[i]))
            drained->items[kept++] = drained->items[i];
    drained->count = kept;
    for (uint32_t i = 0; i < kept; i++)
        if (cop__rankset_put(dead, drained->items[i]) != 0)
            return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    return kept > 0 && dead->count == n
               ? fail(EXIT_USAGE, "tree: --drained: nobody is left to carry them")
               : 0;
}

static int run(const struct request *request)
{
    struct cop_tree tree = {.n = 0};
    struct cop_ranks ranks = {0}, drained = {0};
    int code = read_repair(request->repair, &tree.repair);
    if (code == 0)
        code = make_shape(request, &tree);
    if (code == 0 && request->root >= tree.n)
        code = fail(EXIT_USAGE, "tree: --root is %llu, but the highest rank is %u",
                    (unsigned long long)request->root, tree.n - 1);
    if (code == 0)
        code = read_dead("dead", request->dead, tree.n, &ranks);
    if (code == 0)
        code = read_dead("drained", request->drained, tree.n, &drained);
    if (code == 0)
        code = put_outside(tree.n, &drained, &ranks);
    if (code == 0) {
        struct cop_dead dead = {NULL, ranks.items, ranks.count};
        tree.root = (cop_rank)request->root;
        tree.dead = &dead;
        tree.leaves = drained.items;
        tree.leaf_count = drained.count;
        code = print_tree(request, &tree);
    }
    cop_ranks_free(&drained);
    cop_ranks_free(&ranks);
    cop_shape_unref(&tree.shape);
    return code;
}

int cmd_tree(int argc, char **argv)
{
    struct request request = {.lines = 200, .repair = repair_names[0]};
    const struct args_option options[] = {
        {0, "root", "R", "rank of the root (0)", ARGS_NUMBER, &request.root, 0,
         COP_MEMBERS_MAX - 1},
        {0, "dead", "LIST", "ranks that are dead, such as 3,7-9", ARGS_TEXT,
         &request.dead, 0, 0},
        {0, "drained", "LIST", "ranks that live, and have no place inside", ARGS_TEXT,
         &request.drained, 0, 0},
        {0, "repair", "POLICY", "splice (which is the default), promote or rebalance",
         ARGS_TEXT, &request.repair, 0, 0},
        {0, "hosts", "H", "for hosts:SHAPE: spread the ranks over H hosts", ARGS_NUMBER,
         &request.hosts, 1, COP_MEMBERS_MAX},
        {0, "lines", "L", "draw at most so many lines (200); 0 for all", ARGS_NUMBER,
         &request.lines, 0, UINT32_MAX},
        {0, "ascii", NULL, "draw without special characters", ARGS_FLAG, &request.ascii,
         0, 0},
        {0, "dot", NULL, "print it for Graphviz", ARGS_FLAG, &request.dot, 0, 0},
        {0, "json", NULL, "print one object: coppice.tree.v1", ARGS_FLAG, &request.json,
         0, 0},
        {0},
    };
    struct args args = {
        .name = "tree",
        .usage = "[options] SHAPE [N]",
        .text =
            "Draws the tree of N ranks that a shape gives, with children in the order\n"
            "in which a broadcast sends to them, and what a repair makes of it when\n"
            "some are dead. Shapes: binomial, kary:K, radix:A, knomial:K, flat, "
            "chain,\n"
            "hosts:SHAPE (with --hosts), file:PATH (a topology file; without N).",
        .options = options,
        .least = 1,
        .most = 2,
    };
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    request.shape = args.operands[0];
    if (args.count > 1 &&
        parse_number(args.operands[1], 1, COP_MEMBERS_MAX, &request.n) != 0)
        return fail(EXIT_USAGE, "tree: N is a number from 1 to %u, not '%s'",
                    COP_MEMBERS_MAX, args.operands[1]);
    if (request.dot && request.json)
        return fail(EXIT_USAGE, "tree: --dot and --json exclude each other");
    return run(&request);
}
