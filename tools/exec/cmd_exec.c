/* SPDX-License-Identifier: Apache-2.0 */
#include "ask/pick.h"
#include "exec/job.h"
#include "exec/print.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/say.h"

#include <coppice/error.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options {
    const char *name, *agent, *from, *members, *group;
    char at_group[GROUPS_NAME_MAX + 2];
    cop_time timeout_ns;
    uint64_t limit;
    bool is_stream, is_labelled, has_input, as_json;
};

/* What is heard while it runs. */
struct ear {
    struct exec_names names;
    struct exec_lines *lines; /* NULL: folded */
    struct exec_outcome *outcome;
    struct progress progress;
    char *silent; /* who was said to be */
};

/* ---- while it runs --------------------------------------------------------------- */

/* The first of those whom a note names; to be freed, NULL without memory. */
static char *fold_some(const struct ear *ear, struct cop__list ranges, uint32_t most)
{
    struct cop_ranks ids = {0};
    for (uint32_t i = 0; i < ranges.count && ids.count < most; i++) {
        struct cop_id_range range = exec_range_at(ranges, i);
        for (cop_id id = range.first; id <= range.last && ids.count < most; id++)
            if (cop_ranks_push(&ids, id) != 0)
                break;
    }
    char *folded = roll_fold(ear->names.roll, ear->names.cluster, ids.items, ids.count);
    cop_ranks_free(&ids);
    return folded;
}

static void show_progress(struct ear *ear, const struct exec_note *news)
{
    char what[120];
    char *folded = fold_some(ear, news->ranges, 1000);
    snprintf(what, sizeof what, "exec, waiting for %.90s%s", folded ? folded : "?",
             news->count > 1000 ? "..." : "");
    free(folded);
    progress_show(&ear->progress, what, news->offset - news->count, news->offset);
}

/* What has come is shown; for whom it still waits is said once. */
static void show_wave(struct ear *ear, const struct exec_note *wave)
{
    char *folded = fold_some(ear, wave->ranges, UINT32_MAX);
    progress_end(&ear->progress);
    progress_begin(&ear->progress);
    if (ear->lines == NULL)
        exec_print_wave(ear->outcome, &ear->names);
    if (folded != NULL && wave->count > 0 &&
        (ear->silent == NULL || strcmp(ear->silent, folded) != 0))
        complain("no answer yet from %s", folded);
    free(ear->silent);
    ear->silent = folded;
}

static void on_note(void *context, const struct exec_note *note)
{
    struct ear *ear = context;
    if (note->kind == EXEC_NEWS)
        show_progress(ear, note);
    else if (note->kind == EXEC_WAVE)
        show_wave(ear, note);
    else if (ear->lines != NULL)
        exec_lines_add(ear->lines, note);
}

/* ---- asking ---------------------------------------------------------------------- */

static int explain(int error)
{
    switch (error) {
    case COP_ELOST:
        return fail(EXIT_FAILED,
                    "the agent that was asked is gone; what it had members "
                    "run is ended");
    case COP_ESTATE:
        return fail(EXIT_REFUSED, "the agent that was asked is not in the view, or "
                                  "cannot stream (--quorum fixed)");
    case COP_ETOOBIG:
        return fail(EXIT_USAGE,
                    "exec: the command and its input are too long: together they may "
                    "have about %u bytes",
                    COP_BCAST_MAX - 512u);
    case COP_EKIND:
        return fail(EXIT_FAILED, "the agent that was asked is too old for this");
    case COP_EABORTED:
        return EXIT_CANCELLED;
    default:
        return fail(EXIT_FAILED, "exec failed: %s", cop_strerror(error));
    }
}

static int report(int error, const struct options *options,
                  struct exec_outcome *outcome, const struct exec_names *names)
{
    if (options->as_json)
        exec_print_json(outcome, names);
    else if (options->is_stream)
        exec_print_ends(outcome, names);
    else
        exec_print_text(outcome, names);
    return error ? explain(error) : exec_exit_code(outcome);
}

static int ask(struct follow *follow, const struct options *options,
               const struct exec_order *order, const struct exec_names *names)
{
    struct exec_outcome outcome;
    struct ear ear = {.names = *names, .outcome = &outcome};
    struct exec_listener listener = {on_note, &ear};
    if (options->is_stream) {
        ear.lines = exec_lines_create(names, options->is_labelled);
        if (ear.lines == NULL)
            return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    }
    progress_begin(&ear.progress);
    int error = exec_ask(follow, order, &listener, &outcome);
    progress_end(&ear.progress);
    exec_lines_free(ear.lines);
    free(ear.silent);
    bool is_told = error == 0 || error == COP_EABORTED || error == COP_ELOST;
    int code = is_told ? report(error, options, &outcome, names) : explain(error);
    exec_outcome_free(&outcome);
    return code;
}

/* ---- the order ------------------------------------------------------------------- */

/* All of standard input, if that is not too much. */
static int read_input(uint8_t out[JOB_INPUT_MAX], uint32_t *length)
{
    uint8_t one;
    ssize_t got = 1;
    *length = 0;
    while (got > 0 && *length < JOB_INPUT_MAX) {
        got = read(STDIN_FILENO, out + *length, JOB_INPUT_MAX - *length);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got > 0)
            *length += (uint32_t)got;
    }
    if (got > 0)
        got = read(STDIN_FILENO, &one, 1);
    if (got < 0)
        return fail(EXIT_FAILED, "exec: standard input: %s", strerror(errno));
    if (got > 0)
        return fail(EXIT_USAGE,
                    "exec: -i takes %u bytes of standard input at most, with the "
                    "command: send a file (coppice put) instead",
                    COP_BCAST_MAX - 512u);
    return 0;
}

/* The words one after the other, each ended by 0; to be freed. */
static uint8_t *join_words(char **words, int count, uint32_t *length)
{
    size_t size = 0;
    for (int i = 0; i < count; i++)
        size += strlen(words[i]) + 1;
    uint8_t *out = malloc(size ? size : 1), *at = out;
    for (int i = 0; i < count && out; i++) {
        size_t one = strlen(words[i]) + 1;
        memcpy(at, words[i], one);
        at += one;
    }
    *length = (uint32_t)size;
    return out;
}

static int run_order(struct follow *follow, const struct roll *roll,
                     const struct options *options, const struct args *args,
                     const struct cop_ranks *ids)
{
    uint8_t input[JOB_INPUT_MAX];
    struct exec_names names = {roll, follow->local ? &follow->local->cluster : NULL};
    struct exec_order order = {.kind = EXEC_RUN,
                               .timeout_ns = options->timeout_ns,
                               .limit = (uint32_t)options->limit};
    uint32_t length = 0;
    int code = options->has_input ? read_input(input, &length) : 0;
    uint8_t *words = join_words(args->operands, args->count, &order.words.length);
    uint8_t *ranges = pick_ranges(ids, &order.ids.count);
    if (code == 0 && (words == NULL || ranges == NULL))
        code = fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    order.words.data = words;
    order.ids.data = ranges;
    if (options->has_input) {
        order.flags |= EXEC_FLAG_INPUT;
        order.input = (struct cop__bytes){input, length};
    }
    if (!options->as_json)
        order.flags |= EXEC_FLAG_WAVES;
    if (options->is_stream)
        order.flags |= EXEC_FLAG_STREAM;
    else if (isatty(STDERR_FILENO))
        order.flags |= EXEC_FLAG_NEWS;
    if (code == 0)
        code = ask(follow, options, &order, &names);
    free(words);
    free(ranges);
    return code;
}

static int run(struct local *local, const struct options *options,
               const struct args *args)
{
    struct follow follow = {.local = local,
                            .agent = options->agent,
                            .from = options->from,
                            .command = "exec"};
    struct roll roll;
    struct cop_ranks ids = {0};
    int code = follow_open(&follow, &roll);
    if (code)
        return code;
    if (options->members != NULL)
        code = pick_ids(&follow, &roll, options->members, &ids);
    if (code == 0 && options->members != NULL && ids.count == 0)
        code = fail(EXIT_USAGE, "exec: '%s' is nobody", options->members);
    if (code == 0)
        code = run_order(&follow, &roll, options, args, &ids);
    cop_ranks_free(&ids);
    roll_free(&roll);
    follow_close(&follow);
    return code;
}

/* ---- the command ----------------------------------------------------------------- */

static int check(struct options *got)
{
    got->is_stream |= got->is_labelled;
    if (got->group != NULL && got->members != NULL)
        return fail(EXIT_USAGE, "exec: -g excludes -w");
    if (got->group != NULL && !groups_is_name(got->group))
        return fail(EXIT_USAGE, "exec: '%s' cannot be the name of a group", got->group);
    if (got->group != NULL) {
        snprintf(got->at_group, sizeof got->at_group, "@%s", got->group);
        got->members = got->at_group;
    }
    if (got->agent != NULL && (got->name != NULL || got->from != NULL))
        return fail(EXIT_USAGE, "exec: --agent excludes --name and --from");
    if (got->as_json && got->is_stream)
        return fail(EXIT_USAGE, "exec: --json excludes --stream and --label");
    return 0;
}

int cmd_exec(int argc, char **argv)
{
    struct options got = {.limit = EXEC_LIMIT_DEFAULT};
    const struct args_option options[] = {
        {'w', "members", "NODESET", "who runs it; all members otherwise", ARGS_TEXT,
         &got.members, 0, 0},
        {'g', "group", "GROUP", "the same for a named node set", ARGS_TEXT, &got.group,
         0, 0},
        {'t', "timeout", "TIME", "end it after this time, such as 30s", ARGS_DURATION,
         &got.timeout_ns, 0, 0},
        {'i', "input", NULL, "everybody gets our standard input", ARGS_FLAG,
         &got.has_input, 0, 0},
        {0, "stream", NULL, "lines as they come, not folded", ARGS_FLAG, &got.is_stream,
         0, 0},
        {'l', "label", NULL, "the same, each behind the name of the member", ARGS_FLAG,
         &got.is_labelled, 0, 0},
        {0, "limit", "BYTES", "keep so much of each output (1 MiB)", ARGS_NUMBER,
         &got.limit, 1, EXEC_LIMIT_MAX},
        {0, "json", NULL, "print one object: coppice.exec.v1", ARGS_FLAG, &got.as_json,
         0, 0},
        {0, "name", "NAME", "of the cluster", ARGS_TEXT, &got.name, 0, 0},
        {0, "from", "MEMBER", "who has it run; the lowest that lives otherwise",
         ARGS_TEXT, &got.from, 0, 0},
        {0, "agent", "SOCKET", "ask this agent, not one of a local cluster", ARGS_TEXT,
         &got.agent, 0, 0},
        {0},
    };
    struct args args = {
        .name = "exec",
        .usage = "[options] -- COMMAND [ARGUMENT...]",
        .text = "Runs a command at every member, or at some, and prints what it said: "
                "equal\n"
                "outputs once, with the members whose they are. No shell is involved "
                "unless\n"
                "you type one. Interrupted, it ends the command everywhere.\n"
                "Exit status: 0 all ran it and it exited with 0, 1 otherwise, 4 all "
                "refused,\n"
                "130 interrupted.",
        .options = options,
        .least = 1,
        .most = INT_MAX,
    };
    struct settings settings;
    struct local local;
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    code = check(&got);
    if (code)
        return code;
    if (got.agent != NULL)
        return run(NULL, &got, &args);
    code = local_settings(&settings, got.name);
    if (code == 0)
        code = local_open(settings_name(&settings), &local);
    if (code)
        return code;
    code = run(&local, &got, &args);
    local_close(&local);
    return code;
}
