/* SPDX-License-Identifier: Apache-2.0 */
#include "term/args.h"
#include "term/commands.h"
#include "term/json.h"
#include "term/say.h"
#include "trial/filter_check.h"

#include <coppice/error.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>

/* ---- list ------------------------------------------------------------------------ */

static void list_json(const struct cop_filter *filter, const char *origin)
{
    struct json json;
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.filter.v1");
    json_put_string(&json, "filter", filter->name);
    json_put_string(&json, "about", filter->about);
    json_put_string(&json, "inputs", filter->inputs);
    json_put_string(&json, "outputs", filter->outputs);
    json_put_string(&json, "state", filter->state);
    json_put_bool(&json, "idempotent", filter->flags & COP_FILTER_IDEMPOTENT);
    json_put_bool(&json, "cumulative", filter->flags & COP_FILTER_CUMULATIVE);
    json_put_bool(&json, "down", filter->flags & COP_FILTER_DOWN);
    json_put_string(&json, "origin", origin);
    json_end_object(&json);
}

static void list_one(const struct cop_filter *filter, const char *origin, bool as_json)
{
    if (as_json) {
        list_json(filter, origin);
        return;
    }
    printf("%-10s %c%c%c  %s\n", filter->name,
           filter->flags & COP_FILTER_IDEMPOTENT ? 'i' : '-',
           filter->flags & COP_FILTER_CUMULATIVE ? 'c' : '-',
           filter->flags & COP_FILTER_DOWN ? 'd' : '-', filter->about);
}

static int list(const char *path, bool as_json)
{
    const struct cop_filter *filter;
    struct cop_plugin *plugin;
    char why[512];
    if (path == NULL) {
        for (uint32_t i = 0; (filter = cop_filter_at(i)); i++)
            list_one(filter, "built in", as_json);
        return EXIT_DONE;
    }
    if (cop_plugin_load(path, &plugin, why, sizeof why) != 0)
        return fail(EXIT_USAGE, "filter: cannot load '%s': %s", path, why);
    for (uint32_t i = 0; (filter = cop_plugin_at(plugin, i)); i++)
        list_one(filter, path, as_json);
    cop_plugin_unload(plugin);
    return EXIT_DONE;
}

/* ---- check ----------------------------------------------------------------------- */

/* What ended the process before it was done; NULL: nothing did. */
static const char *end_of(const struct filter_trials *trials)
{
    if (trials->finished)
        return NULL;
    if (trials->signal == 0)
        return "it ended the process";
    return trials->signal == SIGXCPU || trials->signal == SIGKILL
               ? "did not come to an end in the seconds of --limit"
               : strsignal(trials->signal);
}

/* The same, if it was this one that was being tried. */
static const char *crash_of(const struct filter_trials *trials, uint32_t i)
{
    return trials->at[i].done ? NULL : end_of(trials);
}

static enum cop__law broken_law(const struct filter_trials *trials, uint32_t i)
{
    if (crash_of(trials, i))
        return trials->law_now < COP__LAWS ? trials->law_now : COP__LAW_NONE;
    return trials->at[i].report.broken;
}

static void check_json(const struct filter_trials *trials, uint32_t i)
{
    const struct filter_trial *trial = &trials->at[i];
    const struct cop__law_report *report = &trial->report;
    const char *crash = crash_of(trials, i);
    enum cop__law law = broken_law(trials, i);
    bool kept = !crash && law == COP__LAW_NONE;
    struct json json;
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.filter.check.v1");
    json_put_string(&json, "filter", trial->filter);
    json_put_string(&json, "type", trial->type);
    json_put_string(&json, "params", trial->params);
    json_put_bool(&json, "kept", kept);
    json_put_string(&json, "law", kept ? NULL : cop__law_name(law));
    json_put_string(&json, "demands", kept ? NULL : cop__law_text(law));
    json_put_string(&json, "error",
                    report->error ? cop_error_name(report->error) : NULL);
    json_put_string(&json, "crash", crash);
    json_put_u64(&json, "cases", report->runs);
    json_put_u64(&json, "refused_packets", report->skipped);
    json_put_u64(&json, "shrink_steps", report->steps);
    json_put_string(&json, "example", kept ? NULL : trial->example);
    json_end_object(&json);
}

static void print_example(const char *example)
{
    for (const char *at = example; *at;) {
        size_t length = strcspn(at, "\n");
        printf("    %.*s\n", (int)length, at);
        at += length + (at[length] ? 1 : 0);
    }
    if (*example == '\0')
        printf("    no packet at all: three empty states\n");
}

static void check_text(const struct filter_trials *trials, uint32_t i)
{
    const struct filter_trial *trial = &trials->at[i];
    const struct cop__law_report *report = &trial->report;
    const char *crash = crash_of(trials, i);
    enum cop__law law = broken_law(trials, i);
    if (crash) {
        printf("%s of %s: CRASH: %s, in '%s'\n", trial->filter, trial->type, crash,
               cop__law_name(law));
        return;
    }
    if (law == COP__LAW_NONE) {
        printf("%s of %s: all laws kept in %" PRIu64 " cases", trial->filter,
               trial->type, report->runs);
        if (report->skipped)
            printf(" (%" PRIu64 " packets refused)", report->skipped);
        printf("\n");
        return;
    }
    printf("%s of %s: BROKEN: %s: %s\n", trial->filter, trial->type, cop__law_name(law),
           cop__law_text(law));
    if (report->error)
        printf("    a function returned %s\n", cop_error_name(report->error));
    print_example(trial->example);
}

static int judge(const struct filter_trials *trials, const struct filter_wishes *wishes,
                 bool as_json)
{
    if (trials->error == COP_ENOMEM)
        return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    if (trials->error)
        return fail(
            EXIT_USAGE,
            "filter: '%s' is neither built in (coppice filter list) nor can it be "
            "loaded: %s",
            wishes->what, trials->why);
    if (trials->count == 0 && !trials->finished)
        return fail(EXIT_FAILED, "filter: loading '%s': %s", wishes->what,
                    end_of(trials));
    if (trials->count == 0)
        return fail(EXIT_USAGE, "filter: '%s' takes no packets of type '%s'",
                    wishes->what, wishes->type ? wishes->type : "");
    uint32_t bad = 0;
    for (uint32_t i = 0; i < trials->count; i++) {
        (as_json ? check_json : check_text)(trials, i);
        bad += crash_of(trials, i) || broken_law(trials, i) != COP__LAW_NONE;
    }
    if (bad == 0)
        return EXIT_DONE;
    return fail(EXIT_FAILED, "filter: %u of %u checks of '%s' failed", (unsigned)bad,
                (unsigned)trials->count, wishes->what);
}

static int check(const struct filter_wishes *wishes, bool as_json)
{
    if (wishes->type && cop_type_valid(wishes->type) != 0)
        return fail(
            EXIT_USAGE,
            "filter: bad type '%s'; u64, i64, f64, i128, text or bytes, numbers "
            "also with [] or [3]",
            wishes->type);
    struct filter_trials *trials = filter_trials_run(wishes);
    if (trials == NULL)
        return fail(EXIT_FAILED, "filter: no process for the check: %s",
                    strerror(errno));
    int code = judge(trials, wishes, as_json);
    filter_trials_free(trials);
    return code;
}

int cmd_filter(int argc, char **argv)
{
    bool as_json = false;
    struct filter_wishes wishes = {.seed = 1, .runs = 1000, .seconds = 60};
    const struct args_option options[] = {
        {0, "type", "TYPE", "only packets of this type", ARGS_TEXT, &wishes.type, 0, 0},
        {0, "params", "TEXT", "parameters of the filter, e.g. k=5", ARGS_TEXT,
         &wishes.params, 0, 0},
        {0, "runs", "N", "random cases for each type (1000)", ARGS_NUMBER, &wishes.runs,
         1, 1000000000},
        {0, "seed", "SEED", "of the first case (1)", ARGS_NUMBER, &wishes.seed, 0,
         UINT64_MAX},
        {0, "limit", "S", "seconds of CPU for all of it (60)", ARGS_NUMBER,
         &wishes.seconds, 1, 1000000},
        {0, "json", NULL, "one object per line: coppice.filter.v1, .check.v1",
         ARGS_FLAG, &as_json, 0, 0},
        {0},
    };
    struct args args = {
        .name = "filter",
        .usage = "[options] list [FILE.so] | check NAME|FILE.so",
        .text =
            "list: the built-in filters, or those of a shared object; i: idempotent,\n"
            "c: cumulative. check: tries what a filter must keep on random states, in\n"
            "a process of its own, and shows the smallest case that breaks it.",
        .options = options,
        .least = 1,
        .most = 2,
    };
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    const char *verb = args.operands[0];
    wishes.what = args.count > 1 ? args.operands[1] : NULL;
    const char *other = args_first_but(&args, " --json ");
    if (strcmp(verb, "list") == 0 && other != NULL)
        return fail(EXIT_USAGE, "filter: --%s is for check, not for list", other);
    if (strcmp(verb, "list") == 0)
        return list(wishes.what, as_json);
    if (strcmp(verb, "check") != 0)
        return fail(EXIT_USAGE, "filter: list or check, not '%s'", verb);
    if (wishes.what == NULL)
        return fail(EXIT_USAGE,
                    "filter: check what? A name (coppice filter list) or the "
                    "path of a shared object");
    return check(&wishes, as_json);
}
