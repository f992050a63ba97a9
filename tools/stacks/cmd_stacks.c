/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/stacks.h"
#include "stacks/unwind.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/json.h"
#include "term/say.h"
#include "top/host_sample.h"
#include "top/watcher.h"

#include "filter/stacks.h"
#include "filter/state.h"

#include <coppice/error.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* So long members wait for each other before they go on without one; in a shorter time for a
 * share of it, because one above another may have to wait again, and what is there is to be
 * shown before the time is over. */
#define SILENCE_NS (3 * COP_SEC)
#define SHARES 4u

struct options {
    struct stack_wishes wishes;
    const char *read, *cluster, *agent;
    cop_time timeout_ns;
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
    if ((options->cluster || options->agent) && (options->read || options->sample))
        return fail(EXIT_USAGE,
                    "stacks: --read and --sample are of no cluster; no --cluster or "
                    "--agent with them");
    if (options->cluster && options->agent)
        return fail(EXIT_USAGE, "stacks: --agent excludes --cluster");
    if (options->json + options->dot + options->svg + options->sample > 1)
        return fail(EXIT_USAGE,
                    "stacks: only one of --json, --dot, --svg and --sample");
    return 0;
}

/* Who could not be looked at is said, and the others are shown all the same. */
static void tell_one(const char *host, uint64_t pid, const char *why, bool as_json)
{
    if (!as_json) {
        complain("stacks: %s:%" PRIu64 ": %s", host, pid, why);
        return;
    }
    struct json json;
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.stacks.missed.v1");
    json_put_string(&json, "host", host);
    json_put_u64(&json, "pid", pid);
    json_put_string(&json, "why", why);
    json_end_object(&json);
}

/* "M 12 why". */
static void tell_missed(const char *lines, const char *host, bool as_json)
{
    for (const char *at = lines; *at;) {
        size_t length = strcspn(at, "\n");
        if (at[0] == 'M' && length > 2) {
            char *end;
            uint64_t pid = strtoull(at + 2, &end, 10);
            char why[160];
            snprintf(why, sizeof why, "%.*s", (int)(length - (size_t)(end - at)), end);
            tell_one(host, pid, why + (why[0] == ' '), as_json);
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

static enum stacks_form form_of(const struct options *options)
{
    return options->json  ? STACKS_JSON
           : options->dot ? STACKS_DOT
           : options->svg ? STACKS_SVG
                          : STACKS_TEXT;
}

static int print_tree(const struct options *options, const struct stack_hosts *hosts)
{
    struct cop_buf *tree = NULL;
    const char **names = calloc(hosts->count, sizeof *names);
    int error = names ? stacks_join(hosts, &tree) : COP_ENOMEM;
    for (uint32_t i = 0; !error && i < hosts->count; i++)
        names[i] = hosts->at[i].name;
    if (!error)
        error = stacks_print(stdout, form_of(options), tree, names, hosts->count);
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
    int why = ferror(in) ? errno : 0; /* a directory, for one */
    if (!is_input)
        fclose(in);
    if (!error && why) {
        stacks_hosts_fini(&hosts);
        return fail(EXIT_USAGE, "stacks: cannot read %s: %s", options->read,
                    strerror(why));
    }
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

/* ---- a cluster -------------------------------------------------------------------- */

/* Frames "!why" are who could not be looked at; `tree` gets the others. */
static int part(const struct options *options, const struct watcher *watcher,
                struct cop_buf **tree, bool *any, bool *missed)
{
    struct cop_span bytes = {watcher->state->data, watcher->state->length};
    struct cop__state state;
    struct cop__frame frame;
    int error = cop__state_read(bytes, &state);
    struct cop_buf *out = error ? NULL : cop_buf_create(bytes.length);
    if (out == NULL)
        return error ? error : COP_ENOMEM;
    memcpy(out->data, state.head.bytes, state.head.length);
    out->length = state.head.length;
    for (const uint8_t *at = state.body.at; cop__frame_next(&state.body, &frame);
         at = state.body.at) {
        if (frame.depth > 1 || frame.label.bytes[0] != '!') {
            memcpy(out->data + out->length, at, (size_t)(state.body.at - at));
            out->length += (uint32_t)(state.body.at - at);
            *any = true;
            continue;
        }
        *missed = true;
        struct cop__ranges ranges = cop__ranges_begin(frame.set);
        struct cop__range range;
        char why[160], name[COP_NAME_MAX + 1];
        snprintf(why, sizeof why, "%.*s", (int)frame.label.length - 1,
                 (const char *)frame.label.bytes + 1);
        while (cop__ranges_next(&ranges, &range))
            for (uint64_t member = range.first; member <= range.last; member++) {
                watcher_name(watcher, cop__stack_leaf(member), name);
                tell_one(name, member & UINT32_MAX, why, options->json);
            }
    }
    *tree = out;
    return 0;
}

static int print_named(const struct options *options, const struct watcher *watcher,
                       struct cop_buf *tree)
{
    uint32_t count = cop_view_slots(watcher->roll.view);
    char(*names)[COP_NAME_MAX + 1] = calloc(count, sizeof *names);
    const char **list = calloc(count, sizeof *list);
    int error = names && list ? 0 : COP_ENOMEM;
    for (cop_id id = 0; !error && id < count; id++) {
        watcher_name(watcher, id, names[id]);
        list[id] = names[id];
    }
    if (!error)
        error = stacks_print(stdout, form_of(options), tree, list, count);
    free(names);
    free(list);
    return error;
}

/* `what` there is before the time is over, and who is missing. */
static int tell_late(const struct watcher *watcher, const char *what)
{
    char *silent = follow_silent(&watcher->follow);
    int code = silent ? fail(EXIT_FAILED,
                             "stacks: %s; no answer from %s: stopped, or out of reach",
                             what, silent)
                      : fail(EXIT_FAILED,
                             "stacks: %s; to wait for all: a longer --timeout", what);
    free(silent);
    return code;
}

static int tell_incomplete(const struct watcher *watcher, bool any)
{
    char what[120];
    snprintf(what, sizeof what, "%s%u of %u members have answered%s",
             any ? "" : "no process matches: ", (unsigned)watcher->reply.covered,
             (unsigned)watcher->reply.members,
             watcher->reply.covered < watcher->reply.members
                 ? ""
                 : ", not all of them whole");
    return tell_late(watcher, what);
}

static int show_watched(const struct options *options, const struct watcher *watcher)
{
    struct cop_buf *tree = NULL;
    bool any = false, missed = false;
    int error = part(options, watcher, &tree, &any, &missed);
    int code = 0;
    if (!error && any)
        error = print_named(options, watcher, tree);
    cop_buf_unref(tree);
    if (error)
        return fail(EXIT_FAILED, "stacks: %s", cop_strerror(error));
    if (!any && missed)
        code = fail(EXIT_FAILED, "stacks: nobody who matches could be looked at");
    else if (!any && watcher->reply.complete)
        code = fail(EXIT_FAILED, "stacks: no process on these hosts matches");
    if (!watcher->reply.complete)
        code = tell_incomplete(watcher, any || missed);
    return code;
}

static cop_time wave_wait(const struct options *options)
{
    cop_time share = options->timeout_ns / SHARES;
    return share > SILENCE_NS ? SILENCE_NS : share < COP_MSEC ? COP_MSEC : share;
}

/* What all have said, or what there is when the time is over. */
static int watch(const struct options *options, struct watcher *watcher, cop_time until)
{
    int code = 0;
    for (bool any = false;;) {
        switch (watcher_next(watcher, until, -1, &code)) {
        case WATCHED_OUTPUT:
            any = true;
            if (watcher->reply.complete || now_ns() >= until)
                return show_watched(options, watcher);
            break;
        case WATCHED_END:
            return code;
        default:
            return any ? show_watched(options, watcher)
                       : tell_late(watcher, "nobody has answered in time");
        }
    }
}

/* "./solver" means the one here, also to agents, which are elsewhere; false: too long. */
static bool place_exe(const char **exe, char out[PATH_MAX])
{
    char here[PATH_MAX];
    const char *rest = *exe;
    if (rest == NULL || rest[0] == '/' || strchr(rest, '/') == NULL)
        return true;
    while (rest[0] == '.' && rest[1] == '/')
        rest += strspn(rest + 1, "/") + 1;
    if (getcwd(here, sizeof here) == NULL)
        return false;
    int length = snprintf(out, PATH_MAX, "%s/%s", here, rest);
    *exe = out;
    return length > 0 && length < PATH_MAX;
}

static struct cop_buf *make_wish(const struct stack_wishes *wishes)
{
    struct watch_wish wish = {.threads = wishes->threads,
                              .patience_ns = wishes->patience_ns};
    snprintf(wish.pids, sizeof wish.pids, "%s", wishes->pids ? wishes->pids : "");
    snprintf(wish.name, sizeof wish.name, "%s", wishes->name ? wishes->name : "");
    snprintf(wish.exe, sizeof wish.exe, "%s", wishes->exe ? wishes->exe : "");
    if ((wishes->pids && strcmp(wish.pids, wishes->pids) != 0) ||
        (wishes->name && strcmp(wish.name, wishes->name) != 0) ||
        (wishes->exe && strcmp(wish.exe, wishes->exe) != 0)) {
        complain("stacks: a list, name or path is too long");
        return NULL;
    }
    return watch_wish_encode(&wish);
}

/* All hosts of a cluster: each is looked at by an agent, and the trees are joined on the way. */
static int run_cluster(const struct options *options)
{
    struct settings settings;
    int code = options->agent ? 0 : local_settings(&settings, options->cluster);
    if (code)
        return code;
    struct cop_buf *wish = make_wish(&options->wishes);
    if (wish == NULL)
        return EXIT_USAGE;
    struct watcher watcher = {
        .name = options->agent ? NULL : settings_name(&settings),
        .agent = options->agent,
        .command = "stacks",
        .watch = {.kind = WATCH_STACKS,
                  .interval_ns = wave_wait(options),
                  .wish = {wish->data, wish->length}},
    };
    cop_time until = now_ns() + options->timeout_ns;
    code = watcher_open(&watcher);
    if (code == 0) {
        code = watch(options, &watcher, until);
        watcher_close(&watcher);
    }
    cop_buf_unref(wish);
    return code;
}

static int run(const struct options *options)
{
    uint32_t *pids, count;
    char why[256];
    if (options->cluster || options->agent)
        return run_cluster(options);
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
    struct options options = {.wishes.patience_ns = COP_SEC,
                              .timeout_ns = 20 * COP_SEC};
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
        {0, "cluster", "NAME", "on all hosts of this cluster", ARGS_TEXT,
         &options.cluster, 0, 0},
        {0, "agent", "SOCKET", "on all hosts of the cluster of this agent", ARGS_TEXT,
         &options.agent, 0, 0},
        {0, "timeout", "TIME", "wait so long for all hosts (20s)", ARGS_DURATION,
         &options.timeout_ns, 0, 0},
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
        .text = "Shows where processes of this host, or of all hosts of a cluster, "
                "are: their\n"
                "call stacks as one tree, with who is at each place. All conditions "
                "given must\n"
                "hold. Processes are held for some milliseconds; stopped ones stay "
                "stopped.",
        .options = table,
    };
    char exe[PATH_MAX];
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    code = check_options(&options);
    if (code == 0 && !place_exe(&options.wishes.exe, exe))
        code = fail(EXIT_USAGE, "stacks: the path of --exe is too long");
    return code ? code : run(&options);
}
