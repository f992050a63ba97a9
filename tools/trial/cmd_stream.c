/* SPDX-License-Identifier: Apache-2.0 */
#include "names/nodeset.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/json.h"
#include "term/say.h"
#include "trial/trial.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct options {
    uint64_t members, arity, waves, window;
    const char *kills, *when, *down, *key_file;
    bool as_json;
};

/* ---- output ---------------------------------------------------------------------- */

static const char *kind_name(enum trial_kind kind)
{
    static const char *const names[] = {"sum", "union", "levels"};
    return names[kind];
}

static void put_kill(struct json *json, const struct trial_kill *one)
{
    char *victims = nodeset_fold_ids("", one->victims, one->count);
    json_begin_object(json);
    json_put_string(json, "what", one->what);
    json_put_string(json, "members", victims);
    json_put_u64(json, "wave", one->wave);
    json_put_u64(json, "complete_after_ns", one->took_ns);
    json_end_object(json);
    free(victims);
}

static void print_json(const struct trial_config *config,
                       const struct trial_result *result)
{
    struct json json;
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.stream.v1");
    json_put_string(&json, "filter", kind_name(config->kind));
    json_put_u64(&json, "members", config->n);
    json_put_u64(&json, "arity", config->arity);
    json_put_u64(&json, "back_ends", result->back_ends);
    json_put_u64(&json, "living", result->living);
    json_put_u64(&json, "waves", result->wave);
    json_put_u64(&json, "outputs", result->outputs);
    json_put_u64(&json, "complete", result->completes);
    json_put_u64(&json, "misaligned", result->misaligned);
    json_put_u64(&json, "total", result->total);
    json_put_u64(&json, "expected", result->expected);
    json_put_bool(&json, "exact", result->is_exact);
    json_put_u64(&json, "kept", result->kept);
    json_put_u64(&json, "given_by_dead", result->lost_most);
    json_put_string(&json, "down", config->down);
    json_put_u64(&json, "packets_down", result->sent);
    json_put_u64(&json, "given_down", result->given);
    json_put_u64(&json, "wrong_down", result->given_wrong);
    json_put_u64(&json, "elapsed_ns", result->elapsed_ns);
    json_key(&json, "kills");
    json_begin_array(&json);
    for (uint32_t i = 0; i < result->kill_count; i++)
        put_kill(&json, &result->kills[i]);
    json_end_array(&json);
    json_end_object(&json);
}

static void print_kill(const struct trial_kill *one)
{
    char took[DURATION_SIZE];
    char *victims = nodeset_fold_ids("n", one->victims, one->count);
    printf("%-9s %s (%s) at wave %" PRIu64, "killed", one->what,
           victims ? victims : "?", one->wave);
    if (one->count == 0)
        printf(": nobody was left");
    else if (one->took_ns > 0)
        printf("; complete again after %s", print_duration(one->took_ns, took));
    putchar('\n');
    free(victims);
}

static void print_text(const struct trial_config *config,
                       const struct trial_result *result)
{
    char took[DURATION_SIZE];
    bool is_good = result->is_exact;
    printf("%-9s %s%" PRIu64 "%s, and it should be %" PRIu64 ": %s\n",
           kind_name(config->kind), colour(stdout, is_good ? GREEN : RED),
           result->total, colour(stdout, PLAIN), result->expected,
           is_good ? "exact" : "WRONG");
    printf("%-9s %" PRIu64 " in %s; %" PRIu64 " of %" PRIu64
           " outputs were complete, %" PRIu64 " of these misaligned\n",
           "waves", result->wave, print_duration(result->elapsed_ns, took),
           result->completes, result->outputs, result->misaligned);
    printf("%-9s %" PRIu32 ", of which %" PRIu32 " live", "back-ends",
           result->back_ends, result->living);
    if (result->living < result->back_ends)
        printf("; the dead gave %" PRIu64 " packets, and %" PRIu64 " of them are in it",
               result->lost_most, result->kept);
    putchar('\n');
    if (config->down != NULL)
        printf("%-9s %" PRIu64 " packets through %s; the living were given %" PRIu64
               ", of all %" PRIu64 " were wrong\n",
               "down", result->sent, config->down, result->given, result->given_wrong);
    for (uint32_t i = 0; i < result->kill_count; i++)
        print_kill(&result->kills[i]);
}

/* ---- the command ----------------------------------------------------------------- */

static bool read_when(const char *text, enum trial_when *out)
{
    static const char *const words[] = {"waves", "start", "recovery"};
    for (uint32_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(text, words[i]) == 0) {
            *out = (enum trial_when)i;
            return true;
        }
    return false;
}

static int run(enum trial_kind kind, const struct options *options)
{
    struct trial_result result;
    enum trial_when when;
    if (!read_when(options->when, &when))
        return fail(EXIT_USAGE,
                    "stream: --when takes waves, start or recovery, not '%s'",
                    options->when);
    const struct trial_config config = {.kind = kind,
                                        .n = (uint32_t)options->members,
                                        .arity = (uint32_t)options->arity,
                                        .waves = options->waves,
                                        .window = (uint32_t)options->window,
                                        .kills = options->kills,
                                        .when = when,
                                        .down = options->down,
                                        .key_file = options->key_file};
    int code = trial_run(&config, &result);
    if (code)
        return code;
    (options->as_json ? print_json : print_text)(&config, &result);
    return result.is_exact ? EXIT_DONE : EXIT_FAILED;
}

int cmd_stream(int argc, char **argv)
{
    struct options got = {.members = 15,
                          .arity = 2,
                          .waves = 200,
                          .window = 16,
                          .kills = "",
                          .when = "waves"};
    const struct args_option options[] = {
        {'n', "members", "N", "how many processes: 15", ARGS_NUMBER, &got.members, 4,
         TRIAL_MEMBERS_MAX},
        {0, "arity", "K", "of the k-ary tree: 2", ARGS_NUMBER, &got.arity, 1,
         TRIAL_MEMBERS_MAX},
        {0, "waves", "W", "that each back-end gives: 200", ARGS_NUMBER, &got.waves, 1,
         1000000},
        {0, "window", "W", "how far back-ends may be ahead: 16", ARGS_NUMBER,
         &got.window, 1, 1024},
        {0, "kill", "LIST", "who dies on the way; see above", ARGS_TEXT, &got.kills, 0,
         0},
        {0, "when", "WHEN", "waves, start or recovery: waves", ARGS_TEXT, &got.when, 0,
         0},
        {0, "down", "FILTER", "packets down, too: scatter, select or path", ARGS_TEXT,
         &got.down, 0, 0},
        {0, "key", "FILE", "encrypt with this key (coppice key new)", ARGS_TEXT,
         &got.key_file, 0, 0},
        {0, "json", NULL, "one object: coppice.stream.v1", ARGS_FLAG, &got.as_json, 0,
         0},
        {0},
    };
    struct args args = {
        .name = "stream",
        .usage = "sum|union|levels [options]",
        .text =
            "Starts processes of its own. Those at the bottom of the tree give known\n"
            "numbers, those above join them, and the last one, which is this process,\n"
            "gets the sum or the union; or, with levels, the largest of the sums that\n"
            "were added up below each child of the root. With --kill some get a "
            "SIGKILL meanwhile, "
            "evenly\n"
            "over the waves: leaf, inner, pair (an inner one and one below it), level\n"
            "(all below the root), root, front (the front-end; first in the list), or\n"
            "members with + between, as 1+4; --when start: all at once when the stream "
            "is\n"
            "opened, --when recovery: all while those below the first look for a "
            "parent.\n"
            "What comes out is compared with what was\n"
            "given, to the unit. With --down this process also sends a packet for "
            "each\n"
            "wave, and each back-end compares what a filter down gives it of these "
            "with\n"
            "what it must by its place. Exit code 1 if anything is not that.",
        .options = options,
        .least = 1,
        .most = 1,
    };
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    const char *what = args.operands[0];
    if (strcmp(what, "sum") == 0)
        return run(TRIAL_SUM, &got);
    if (strcmp(what, "union") == 0)
        return run(TRIAL_UNION, &got);
    if (strcmp(what, "levels") == 0)
        return run(TRIAL_LEVELS, &got);
    return fail(EXIT_USAGE, "stream: there are sum, union and levels, not '%s'", what);
}
