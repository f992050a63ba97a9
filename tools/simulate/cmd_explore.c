/* SPDX-License-Identifier: Apache-2.0 */
#include "term/args.h"
#include "term/commands.h"
#include "term/json.h"
#include "term/say.h"

#include <coppice/sim.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* `coppice explore`: everything that can happen in a small cluster. */

struct options {
    const char *protocol, *shape, *algorithm, *quorum, *stream;
    uint64_t nodes, root, crashes, lies, depth, memory_mib, agreements;
    bool promote, free, outcome, timers, all_orders, as_json;
    struct cop_sim_stream the_stream; /* as `stream` says; none: without waves */
};

/* The sum over all trees that were explored. */
struct total {
    uint64_t trees, states, transitions, terminals, steps, memory_bytes;
    uint32_t depth;
    bool exhausted;
    cop_time begun_ns;
    struct progress progress;
    uint64_t states_before;
};

static bool is_agree(const struct options *options)
{
    return strcmp(options->protocol, "agree") == 0;
}

static bool is_stream(const struct options *options)
{
    return strcmp(options->protocol, "stream") == 0;
}

static bool is_coll(const struct options *options)
{
    return strcmp(options->protocol, "coll") == 0;
}

/* The words are those of a script. */
static int parse_stream(struct options *options)
{
    struct cop_sim_script script;
    char text[256];
    char message[200];
    int length = snprintf(text, sizeof(text), "nodes 1\nviews none\nstream %s\n",
                          options->stream);
    if (length >= (int)sizeof(text))
        return fail(EXIT_USAGE, "explore: --stream is too long");
    if (cop_sim_script_parse(text, &script, message, sizeof(message)) != 0)
        return fail(EXIT_USAGE, "explore: --stream '%s': %s", options->stream, message);
    options->the_stream = script.config.stream;
    cop_sim_script_free(&script);
    return EXIT_DONE;
}

/* Agreement and streams are to survive the death of all but one, so by default any side
 * goes on. A call heals by itself: views change beside it only if that is asked for. */
static enum cop_quorum quorum_of(const struct options *options)
{
    if (strcmp(options->protocol, "probe") == 0 ||
        (is_coll(options) && options->quorum == NULL))
        return COP_QUORUM_FIXED;
    if (options->quorum)
        return strcmp(options->quorum, "none") == 0 ? COP_QUORUM_NONE
                                                    : COP_QUORUM_MAJORITY;
    return is_agree(options) || is_stream(options) ? COP_QUORUM_NONE
                                                   : COP_QUORUM_MAJORITY;
}

static enum cop_algorithm algorithm_of(const struct options *options)
{
    enum cop_algorithm algorithm = COP_AGREE_EARLY;
    cop_algorithm_parse(options->algorithm, &algorithm);
    return algorithm;
}

static bool on_progress(void *context, uint64_t states, uint32_t depth)
{
    struct total *total = context;
    (void)depth;
    progress_show(&total->progress, "states so far", total->states_before + states, 0);
    return true;
}

/* ---- output ---------------------------------------------------------------------- */

static void print_json(const struct options *options, const struct total *total,
                       const char *failure)
{
    struct json json;
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.explore.v1");
    json_put_u64(&json, "nodes", options->nodes);
    json_put_u64(&json, "crashes", options->crashes);
    json_put_u64(&json, "lies", options->lies);
    json_put_u64(&json, "trees", total->trees);
    json_put_u64(&json, "states", total->states);
    json_put_u64(&json, "transitions", total->transitions);
    json_put_u64(&json, "terminals", total->terminals);
    json_put_u64(&json, "steps", total->steps);
    json_put_u64(&json, "depth", total->depth);
    json_put_bool(&json, "exhausted", total->exhausted);
    json_put_u64(&json, "memory_bytes", total->memory_bytes);
    json_put_u64(&json, "wall_ns", now_ns() - total->begun_ns);
    json_put_string(&json, "violation", failure);
    json_end_object(&json);
}

static void print_text(const struct total *total)
{
    char took[DURATION_SIZE];
    printf("%s: %" PRIu64 " states, %" PRIu64 " transitions, %" PRIu64
           " ends, depth %u, over %" PRIu64 " tree%s\n",
           total->exhausted ? "exhausted" : "not exhausted", total->states,
           total->transitions, total->terminals, (unsigned)total->depth, total->trees,
           total->trees == 1 ? "" : "s");
    printf("%" PRIu64 " steps of nodes in %s, %" PRIu64 " KiB for states\n",
           total->steps, print_duration(now_ns() - total->begun_ns, took),
           total->memory_bytes >> 10);
}

/* ---- exploring ------------------------------------------------------------------- */

static int show_failure(const struct options *options, const struct total *total,
                        const struct cop_sim_explore *config,
                        const struct cop_sim_explored *explored)
{
    if (options->as_json)
        print_json(options, total, explored->failure);
    else
        print_text(total);
    fprintf(stderr, "shortest schedule, in the tree");
    for (cop_rank rank = 1; rank < config->nodes; rank++) {
        struct cop_tree tree = {.shape = config->shape, .n = config->nodes};
        tree.root = config->root;
        cop_rank child = (config->root + rank) % config->nodes;
        fprintf(stderr, " %u<-%u", (unsigned)cop_tree_parent(&tree, child),
                (unsigned)child);
    }
    fprintf(stderr, ":\n%s", explored->schedule ? explored->schedule : "");
    return fail(EXIT_FAILED, "explore: violated: %s", explored->failure);
}

static int explore_tree(const struct options *options, const struct cop_shape *shape,
                        struct total *total)
{
    struct cop_sim_explore config = {
        .nodes = (uint32_t)options->nodes,
        .shape = *shape,
        .root = (cop_id)options->root,
        .crashes = (uint32_t)options->crashes,
        .lies = (uint32_t)options->lies,
        .quorum = quorum_of(options),
        .agreements = is_agree(options) ? (uint32_t)options->agreements : 0,
        .algorithm = algorithm_of(options),
        .promote = options->promote,
        .free = options->free,
        .outcome = options->outcome,
        .coll = is_coll(options),
        .stream = options->the_stream,
        .timers = options->timers,
        .reduce = !options->all_orders,
        .depth_max = (uint32_t)options->depth,
        .memory_max = options->memory_mib << 20,
        .progress = on_progress,
        .context = total,
    };
    struct cop_sim_explored explored;
    total->states_before = total->states;
    int error = cop_sim_explore(&config, &explored);
    if (error)
        return fail(error == COP_EINVAL ? EXIT_USAGE : EXIT_FAILED, "explore: %s",
                    cop_strerror(error));
    total->trees++;
    total->states += explored.states;
    total->transitions += explored.transitions;
    total->terminals += explored.terminals;
    total->steps += explored.steps;
    total->exhausted = total->exhausted && explored.exhausted;
    if (explored.depth > total->depth)
        total->depth = explored.depth;
    if (explored.memory_bytes > total->memory_bytes)
        total->memory_bytes = explored.memory_bytes;
    int code = EXIT_DONE;
    if (explored.failure[0]) {
        progress_end(&total->progress);
        code = show_failure(options, total, &config, &explored);
    }
    free(explored.schedule);
    return code;
}

/* ---- every tree ------------------------------------------------------------------ */

static int explore_parents(const struct options *options, const uint32_t *parents,
                           struct total *total)
{
    char text[COP_SIM_EXPLORE_NODES * 16] = "";
    char message[160];
    struct cop_shape shape;
    uint32_t n;
    for (uint64_t rank = 1; rank < options->nodes; rank++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof(text) - used, "m:%u => m:%u ; ",
                 (unsigned)parents[rank], (unsigned)rank);
    }
    int error = cop_shape_from_topology(text, strlen(text), &shape, &n, message,
                                        sizeof(message));
    if (error)
        return fail(EXIT_FAILED, "explore: %s", message);
    int code = explore_tree(options, &shape, total);
    cop_shape_unref(&shape);
    return code;
}

/*
 * Every ordered tree: ranks in level order, so the parents are a sequence that does not fall
 * and in which each comes before its child. Counts up through them.
 */
static int explore_all_trees(const struct options *options, struct total *total)
{
    uint32_t parents[COP_SIM_EXPLORE_NODES] = {0};
    uint32_t n = (uint32_t)options->nodes;
    for (;;) {
        int code = explore_parents(options, parents, total);
        if (code != EXIT_DONE)
            return code;
        uint32_t at = n;
        while (at > 1 && parents[at - 1] == at - 2)
            at--;
        if (at <= 1)
            return EXIT_DONE;
        uint32_t next = parents[at - 1] + 1;
        for (uint32_t rank = at - 1; rank < n; rank++)
            parents[rank] = next;
    }
}

static int explore_shape(const struct options *options, const char *text,
                         struct total *total)
{
    struct cop_shape shape;
    char message[200];
    if (cop_shape_parse(text, &shape, message, sizeof(message)) != 0)
        return fail(EXIT_USAGE, "explore: %s", message);
    if (shape.kind == COP_SHAPE_HOSTS || shape.kind == COP_SHAPE_TABLE)
        return fail(EXIT_USAGE,
                    "explore: shape '%s' needs a table; 'all' has every tree", text);
    return explore_tree(options, &shape, total);
}

/* ---- the command ----------------------------------------------------------------- */

/* What would not be looked at is refused: who types it believes that it counts. */
static int check_protocol(const struct args *args, const struct options *options)
{
    static const struct args_way some[] = {
        {"algorithm", "agree"},
        {"agreements", "agree"},
        {"promote", "agree"},
        {"free", "agree"},
        {"stream", "stream"},
        {"quorum", "member, agree, coll or stream"},
        {"root", "probe or coll"},
        {"outcome", "probe"},
        {0},
    };
    const char *protocol = options->protocol;
    if (strcmp(protocol, "probe") != 0 && strcmp(protocol, "member") != 0 &&
        !is_coll(options) && !is_agree(options) && !is_stream(options))
        return fail(EXIT_USAGE,
                    "explore: unknown protocol '%s': there are probe, member, agree, "
                    "coll and stream",
                    protocol);
    const struct args_way *other = args_first_astray(args, some, protocol);
    if (other != NULL)
        return fail(EXIT_USAGE, "explore: --%s is for --protocol %s, not for %s",
                    other->name, other->ways, protocol);
    return EXIT_DONE;
}

static int check(const struct args *args, struct options *options)
{
    enum cop_algorithm algorithm;
    int code = check_protocol(args, options);
    if (code != EXIT_DONE)
        return code;
    if (cop_algorithm_parse(options->algorithm, &algorithm) != 0)
        return fail(EXIT_USAGE,
                    "explore: unknown algorithm '%s': there are early, strict, tree, "
                    "linear and allreduce",
                    options->algorithm);
    if (options->quorum && strcmp(options->quorum, "none") != 0 &&
        strcmp(options->quorum, "majority") != 0)
        return fail(EXIT_USAGE, "explore: --quorum is majority or none, not '%s'",
                    options->quorum);
    if (options->root >= options->nodes)
        return fail(EXIT_USAGE, "explore: --root must be below --nodes (%" PRIu64 ")",
                    options->nodes);
    return is_stream(options) ? parse_stream(options) : EXIT_DONE;
}

static int run(const struct options *options)
{
    struct total total = {.exhausted = true, .begun_ns = now_ns()};
    progress_begin(&total.progress);
    bool all = strcmp(options->shape, "all") == 0;
    int code = all && options->nodes > 1
                   ? explore_all_trees(options, &total)
                   : explore_shape(options, all ? "flat" : options->shape, &total);
    if (code != EXIT_DONE)
        return code;
    progress_end(&total.progress);
    if (options->as_json)
        print_json(options, &total, NULL);
    else
        print_text(&total);
    if (total.exhausted)
        return EXIT_DONE;
    /* Nothing is said of what was not seen, and nobody may take it for seen. */
    return fail(EXIT_FAILED, "explore: not all was seen: there is more %s",
                total.memory_bytes > options->memory_mib << 20
                    ? "than --memory has room for"
                    : "behind --depth");
}

int cmd_explore(int argc, char **argv)
{
    struct options options = {.protocol = "probe",
                              .shape = "all",
                              .algorithm = "early",
                              .stream = "sum waves 1 window 1 downs 1",
                              .agreements = 1,
                              .nodes = 4,
                              .crashes = 1,
                              .memory_mib = 4096};
    const struct args_option table[] = {
        {0, "protocol", "NAME", "what the nodes do: probe, member, agree, coll, stream",
         ARGS_TEXT, &options.protocol, 0, 0},
        {0, "algorithm", "NAME", "of agree: early, strict, tree, linear, allreduce",
         ARGS_TEXT, &options.algorithm, 0, 0},
        {0, "agreements", "K", "agree: how many agreements", ARGS_NUMBER,
         &options.agreements, 1, 64},
        {0, "promote", NULL, "agree: what is uncertain is undecided", ARGS_FLAG,
         &options.promote, 0, 0},
        {0, "free", NULL, "agree: and then everyone gives the group back", ARGS_FLAG,
         &options.free, 0, 0},
        {0, "stream", "STREAM",
         "of stream, as in scripts: 'sum waves 1 window 1 downs 1'", ARGS_TEXT,
         &options.stream, 0, 0},
        {0, "quorum", "Q",
         "majority (member) or none (agree, stream); coll: views stand still",
         ARGS_TEXT, &options.quorum, 0, 0},
        {'n', "nodes", "N", "how many nodes", ARGS_NUMBER, &options.nodes, 1,
         COP_SIM_EXPLORE_NODES},
        {0, "shape", "SHAPE", "one tree, or all: every tree of N nodes", ARGS_TEXT,
         &options.shape, 0, 0},
        {0, "root", "NODE", "probe, coll: who asks", ARGS_NUMBER, &options.root, 0,
         COP_SIM_EXPLORE_NODES - 1},
        {0, "crashes", "K", "at most so many nodes crash, anywhere", ARGS_NUMBER,
         &options.crashes, 0, COP_SIM_EXPLORE_NODES},
        {0, "lies", "K", "at most so many false suspicions", ARGS_NUMBER, &options.lies,
         0, 16},
        {0, "outcome", NULL, "probe: tell everyone the result, too", ARGS_FLAG,
         &options.outcome, 0, 0},
        {0, "timers", NULL,
         "timers fire at any time, not only when nothing else can happen", ARGS_FLAG,
         &options.timers, 0, 0},
        {0, "all-orders", NULL, "without partial-order reduction", ARGS_FLAG,
         &options.all_orders, 0, 0},
        {0, "depth", "D", "look no further than D steps (0: no bound)", ARGS_NUMBER,
         &options.depth, 0, UINT32_MAX},
        {0, "memory", "MIB", "most memory for states", ARGS_NUMBER, &options.memory_mib,
         1, 1 << 20},
        {0, "json", NULL, "print one JSON object", ARGS_FLAG, &options.as_json, 0, 0},
        {0, NULL, NULL, NULL, ARGS_FLAG, NULL, 0, 0},
    };
    struct args args = {
        .name = "explore",
        .usage = "[options]",
        .text =
            "Tries every order of deliveries and every crash, also in the middle of a\n"
            "step, in a cluster of a few nodes. Prints the shortest schedule that "
            "violates\n"
            "a property, and exits with 1 then, and if it could not see all.",
        .options = table,
    };
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    code = check(&args, &options);
    return code == EXIT_DONE ? run(&options) : code;
}
