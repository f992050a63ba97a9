/* SPDX-License-Identifier: Apache-2.0 */
#include "args.h"
#include "commands.h"
#include "json.h"
#include "say.h"
#include "stacks.h"
#include "unwind.h"

#include <coppice/error.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options {
    struct stack_wishes wishes;
    bool json, dot, svg;
};

/* "12,14-16": numbers of processes, and nothing else. */
static bool list_is_good(const char *list)
{
    while (*list) {
        size_t digits = strspn(list, "0123456789");
        if (digits == 0 || digits > 10)
            return false;
        list += digits;
        if (*list == '-') {
            digits = strspn(++list, "0123456789");
            if (digits == 0 || digits > 10)
                return false;
            list += digits;
        }
        if (*list == ',' && list[1] != '\0')
            list++;
        else if (*list != '\0')
            return false;
    }
    return true;
}

static int check_options(const struct options *options)
{
    const struct stack_wishes *wishes = &options->wishes;
    if (!wishes->pids && !wishes->name && !wishes->exe)
        return fail(EXIT_USAGE,
                    "stacks: of which processes? Give --pid, --name or --exe");
    if (wishes->pids && (*wishes->pids == '\0' || !list_is_good(wishes->pids)))
        return fail(EXIT_USAGE,
                    "stacks: bad list of processes '%s'; 12,14-16 would be one",
                    wishes->pids);
    if (options->json + options->dot + options->svg > 1)
        return fail(EXIT_USAGE, "stacks: only one of --json, --dot and --svg");
    return 0;
}

/* "M 12 why": who could not be looked at is said, and the others are shown all the same. */
static uint32_t tell_missed(const char *lines, const char *host, bool as_json)
{
    uint32_t missed = 0;
    for (const char *at = lines; *at;) {
        size_t length = strcspn(at, "\n");
        if (at[0] == 'M' && length > 2) {
            char *end;
            uint64_t pid = strtoull(at + 2, &end, 10);
            char why[160];
            snprintf(why, sizeof why, "%.*s", (int)(length - (size_t)(end - at)), end);
            missed++;
            if (as_json) {
                struct json json;
                json_init(&json, stdout);
                json_begin_object(&json);
                json_put_string(&json, "schema", "coppice.stacks.missed.v1");
                json_put_string(&json, "host", host);
                json_put_u64(&json, "pid", pid);
                json_put_string(&json, "why", why + (why[0] == ' '));
                json_end_object(&json);
            } else {
                complain("stacks: %s:%" PRIu64 ":%s", host, pid, why);
            }
        }
        at += length + (at[length] ? 1 : 0);
    }
    return missed;
}

static bool has_stack(const char *lines)
{
    for (const char *at = lines; *at; at += strcspn(at, "\n") + 1) {
        if (*at == 'S')
            return true;
        if (at[strcspn(at, "\n")] == '\0')
            break;
    }
    return false;
}

static int show(const struct options *options, const char *lines, uint32_t count)
{
    char host[64] = "localhost";
    struct cop_buf *tree;
    gethostname(host, sizeof host - 1);
    const char *hosts[] = {host};
    enum stacks_form form = options->json  ? STACKS_JSON
                            : options->dot ? STACKS_DOT
                            : options->svg ? STACKS_SVG
                                           : STACKS_TEXT;
    uint32_t missed = tell_missed(lines, host, options->json);
    if (!has_stack(lines))
        return fail(EXIT_FAILED, "stacks: none of %u processes could be looked at",
                    (unsigned)count);
    int error = stacks_tree(0, lines, &tree);
    if (!error) {
        error = stacks_print(stdout, form, tree, hosts, 1);
        cop_buf_unref(tree);
    }
    if (error)
        return fail(EXIT_FAILED, "stacks: %s", cop_strerror(error));
    (void)missed; /* said, and no failure */
    return EXIT_DONE;
}

static int run(const struct options *options)
{
    uint32_t *pids, count;
    char why[256], *lines;
    if (!unwind_is_there(why, sizeof why))
        return fail(EXIT_FAILED, "stacks: %s", why);
    int error = stacks_find(&options->wishes, &pids, &count);
    if (error)
        return fail(EXIT_FAILED, "stacks: %s", cop_strerror(error));
    if (count == 0) {
        free(pids);
        return fail(EXIT_FAILED, "stacks: no process on this host matches");
    }
    int code = EXIT_FAILED;
    error = stacks_sample(&options->wishes, pids, count, &lines);
    if (error) {
        fail(EXIT_FAILED, "stacks: %s", cop_strerror(error));
    } else {
        code = show(options, lines, count);
        free(lines);
    }
    free(pids);
    return code;
}

int cmd_stacks(int argc, char **argv)
{
    struct options options = {.wishes.patience_ns = COP_SEC};
    struct stack_wishes *wishes = &options.wishes;
    const struct args_option table[] = {
        {0, "pid", "LIST", "these processes, e.g. 12,14-16", ARGS_TEXT, &wishes->pids,
         0, 0},
        {0, "name", "NAME", "those of this name (/proc/PID/comm)", ARGS_TEXT,
         &wishes->name, 0, 0},
        {0, "exe", "FILE", "those that run this program", ARGS_TEXT, &wishes->exe, 0,
         0},
        {0, "threads", NULL, "name threads instead of processes", ARGS_FLAG,
         &wishes->threads, 0, 0},
        {0, "patience", "TIME", "for each thread, until it can be held (1s)",
         ARGS_DURATION, &wishes->patience_ns, 0, 0},
        {0, "json", NULL, "one object per line: coppice.stacks.v1", ARGS_FLAG,
         &options.json, 0, 0},
        {0, "dot", NULL, "a graph for Graphviz", ARGS_FLAG, &options.dot, 0, 0},
        {0, "svg", NULL, "a flame graph", ARGS_FLAG, &options.svg, 0, 0},
        {0},
    };
    struct args args = {
        .name = "stacks",
        .usage = "[options]",
        .text = "Shows where processes of this host are: their call stacks as one "
                "tree, with\n"
                "who is at each place. All conditions given must hold. Processes are "
                "held for\n"
                "some milliseconds; stopped ones stay stopped.",
        .options = table,
    };
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    code = check_options(&options);
    return code ? code : run(&options);
}
