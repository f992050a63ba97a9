/* SPDX-License-Identifier: Apache-2.0 */
#include "args.h"
#include "commands.h"
#include "host_sample.h"
#include "json.h"
#include "say.h"
#include "stacks.h"
#include "unwind.h"

#include <coppice/error.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct options {
    struct stack_wishes wishes;
    const char *read;
    bool json, dot, svg, sample;
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
    bool chosen = wishes->pids || wishes->name || wishes->exe;
    if (options->read && (chosen || options->sample))
        return fail(EXIT_USAGE,
                    "stacks: --read has its samples; no --pid, --name, --exe or "
                    "--sample with it");
    if (!options->read && !chosen)
        return fail(EXIT_USAGE,
                    "stacks: of which processes? Give --pid, --name or --exe");
    if (wishes->pids && (*wishes->pids == '\0' || !list_is_good(wishes->pids)))
        return fail(EXIT_USAGE,
                    "stacks: bad list of processes '%s'; 12,14-16 would be one",
                    wishes->pids);
    if (options->json + options->dot + options->svg + options->sample > 1)
        return fail(EXIT_USAGE,
                    "stacks: only one of --json, --dot, --svg and --sample");
    return 0;
}

/* "M 12 why": who could not be looked at is said, and the others are shown all the same. */
static void tell_missed(const char *lines, const char *host, bool as_json)
{
    for (const char *at = lines; *at;) {
        size_t length = strcspn(at, "\n");
        if (at[0] == 'M' && length > 2) {
            char *end;
            uint64_t pid = strtoull(at + 2, &end, 10);
            char why[160];
            snprintf(why, sizeof why, "%.*s", (int)(length - (size_t)(end - at)), end);
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

static int print_tree(const struct options *options, const struct stack_hosts *hosts)
{
    enum stacks_form form = options->json  ? STACKS_JSON
                            : options->dot ? STACKS_DOT
                            : options->svg ? STACKS_SVG
                                           : STACKS_TEXT;
    struct cop_buf *tree = NULL;
    const char **names = calloc(hosts->count, sizeof *names);
    int error = names ? stacks_join(hosts, &tree) : COP_ENOMEM;
    for (uint32_t i = 0; !error && i < hosts->count; i++)
        names[i] = hosts->at[i].name;
    if (!error)
        error = stacks_print(stdout, form, tree, names, hosts->count);
    cop_buf_unref(tree);
    free(names);
    return error ? fail(EXIT_FAILED, "stacks: %s", cop_strerror(error)) : EXIT_DONE;
}

/* Who could not be looked at is said, and is no failure as long as somebody could. */
static int show(const struct options *options, const struct stack_hosts *hosts)
{
    bool any = false;
    for (uint32_t i = 0; i < hosts->count; i++) {
        tell_missed(hosts->at[i].lines, hosts->at[i].name, options->json);
        any |= has_stack(hosts->at[i].lines);
    }
    if (!any)
        return fail(EXIT_FAILED, "stacks: nobody who matches could be looked at");
    return print_tree(options, hosts);
}

static int show_file(const struct options *options)
{
    bool is_input = strcmp(options->read, "-") == 0;
    struct stack_hosts hosts;
    FILE *in = is_input ? stdin : fopen(options->read, "re");
    if (in == NULL)
        return fail(EXIT_USAGE, "stacks: cannot read %s: %s", options->read,
                    strerror(errno));
    int error = stacks_read(in, &hosts);
    if (!is_input)
        fclose(in);
    if (error)
        return fail(EXIT_FAILED, "stacks: %s", cop_strerror(error));
    int code = hosts.count ? show(options, &hosts)
                           : fail(EXIT_FAILED,
                                  "stacks: no line of 'coppice stacks --sample' in %s",
                                  options->read);
    stacks_hosts_fini(&hosts);
    return code;
}

/* Samples this host and shows it, or prints the lines for others to join. */
static int look(const struct options *options, const uint32_t *pids, uint32_t count)
{
    struct host_sample self;
    char *lines;
    int error = host_sample_name(&self);
    if (!error)
        error = stacks_sample(&options->wishes, pids, count, &lines);
    if (error)
        return fail(EXIT_FAILED, "stacks: %s", cop_strerror(error));
    int code = EXIT_DONE;
    if (options->sample) {
        stacks_mark(stdout, self.host, self.key, lines);
    } else {
        struct stack_host host = {.lines = lines, .length = strlen(lines)};
        snprintf(host.name, sizeof host.name, "%s", self.host);
        code = show(options, &(struct stack_hosts){&host, 1});
    }
    free(lines);
    return code;
}

static int run(const struct options *options)
{
    uint32_t *pids, count;
    char why[256];
    if (options->read)
        return show_file(options);
    if (!unwind_is_there(why, sizeof why))
        return fail(EXIT_FAILED, "stacks: %s", why);
    int error = stacks_find(&options->wishes, &pids, &count);
    if (error)
        return fail(EXIT_FAILED, "stacks: %s", cop_strerror(error));
    /* A host on which there is none has nothing to say to the others. */
    int code = EXIT_DONE;
    if (count > 0)
        code = look(options, pids, count);
    else if (!options->sample)
        code = fail(EXIT_FAILED, "stacks: no process on this host matches");
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
        {0, "sample", NULL, "print this host as lines for --read", ARGS_FLAG,
         &options.sample, 0, 0},
        {0, "read", "FILE", "hosts from lines of --sample; -: standard input",
         ARGS_TEXT, &options.read, 0, 0},
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
