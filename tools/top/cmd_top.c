/* SPDX-License-Identifier: Apache-2.0 */
#include "term/args.h"
#include "term/commands.h"
#include "term/say.h"
#include "term/screen.h"
#include "top/print.h"
#include "top/watcher.h"

#include <coppice/error.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options {
    bool once, json, sample, here;
    const char *name, *agent, *read;
    cop_time interval_ns, timeout_ns;
};

struct hosts {
    struct host_sample *at;
    uint32_t count, room;
};

/* Of two from the same machine one counts: many agents may have looked at it. */
static int add_host(struct hosts *hosts, const struct host_sample *sample)
{
    for (uint32_t i = 0; i < hosts->count; i++)
        if (strcmp(hosts->at[i].key, sample->key) == 0)
            return 0;
    if (hosts->count == hosts->room) {
        uint32_t room = 2 * hosts->room + 8;
        struct host_sample *larger = realloc(hosts->at, room * sizeof *larger);
        if (larger == NULL)
            return COP_ENOMEM;
        hosts->at = larger;
        hosts->room = room;
    }
    hosts->at[hosts->count++] = *sample;
    return 0;
}

/* ---- where samples come from ----------------------------------------------------- */

static int read_lines(FILE *in, const char *path, struct hosts *hosts)
{
    char *line = NULL;
    size_t room = 0;
    int code = 0;
    for (uint32_t number = 1; code == 0 && getline(&line, &room, in) >= 0; number++) {
        struct host_sample sample;
        int error = host_sample_parse(line, &sample);
        if (error == COP_ENOENT)
            continue; /* somebody else's line */
        if (error == 0)
            error = add_host(hosts, &sample);
        if (error)
            code = fail(error == COP_ENOMEM ? EXIT_FAILED : EXIT_USAGE,
                        "top: line %u of %s: %s", (unsigned)number, path,
                        cop_strerror(error));
    }
    if (code == 0 && ferror(in)) /* a directory, for one */
        code = fail(EXIT_USAGE, "top: cannot read %s: %s", path, strerror(errno));
    free(line);
    return code;
}

static int read_file(const char *path, struct hosts *hosts)
{
    bool is_input = strcmp(path, "-") == 0;
    FILE *in = is_input ? stdin : fopen(path, "re");
    if (in == NULL)
        return fail(EXIT_USAGE, "top: cannot read %s: %s", path, strerror(errno));
    int code = read_lines(in, path, hosts);
    if (!is_input)
        fclose(in);
    if (code == 0 && hosts->count == 0)
        code = fail(EXIT_FAILED, "top: no line of 'coppice top --sample' in %s", path);
    return code;
}

/* ---- this host, and lines --------------------------------------------------------- */

static int gather(const struct options *options, struct hosts *hosts)
{
    struct host_sample sample;
    if (options->read)
        return read_file(options->read, hosts);
    int error = host_sample_take(options->interval_ns, &sample);
    if (error)
        return fail(EXIT_FAILED, "top: /proc cannot be read: %s", strerror(errno));
    error = add_host(hosts, &sample);
    return error ? fail(EXIT_FAILED, "%s", cop_strerror(error)) : 0;
}

static void name_sample(const void *context, uint32_t leaf, char out[COP_NAME_MAX + 1])
{
    const struct hosts *hosts = context;
    snprintf(out, COP_NAME_MAX + 1, "%.*s", (int)COP_NAME_MAX, hosts->at[leaf].host);
}

static int show_hosts(const struct options *options, const struct hosts *hosts)
{
    struct cop_buf *state;
    int error = host_fold(hosts->at, hosts->count, &state);
    if (error)
        return fail(EXIT_FAILED, "top: %s", cop_strerror(error));
    struct top_frame frame = {.state = {state->data, state->length},
                              .hosts = hosts->count,
                              .complete = true,
                              .covered = hosts->count,
                              .members = hosts->count,
                              .name = name_sample,
                              .context = hosts};
    error = top_print(stdout, options->json ? TOP_JSON : TOP_TEXT, &frame);
    cop_buf_unref(state);
    if (error)
        return fail(EXIT_FAILED, "top: %s", cop_strerror(error));
    return fflush(stdout) == 0 ? 0 : EXIT_FAILED;
}

static int run_here(const struct options *options)
{
    int code;
    do {
        struct hosts hosts = {0};
        code = gather(options, &hosts);
        if (code == 0 && options->sample) {
            char line[HOST_LINE_MAX];
            host_sample_print(&hosts.at[0], line);
            printf("%s\n", line);
        } else if (code == 0) {
            code = show_hosts(options, &hosts);
        }
        free(hosts.at);
    } while (code == 0 && !options->once && !options->sample && !options->read);
    return code;
}

/* ---- a cluster -------------------------------------------------------------------- */

static void name_member(const void *context, uint32_t leaf, char out[COP_NAME_MAX + 1])
{
    watcher_name(context, leaf, out);
}

static int make_frame(const struct watcher *watcher, struct top_frame *out)
{
    const struct watch_reply *reply = &watcher->reply;
    *out = (struct top_frame){.state = {reply->state.data, reply->state.length},
                              .wave = reply->wave,
                              .complete = reply->complete,
                              .covered = reply->covered,
                              .members = reply->members,
                              .name = name_member,
                              .context = watcher};
    return host_count(out->state, &out->hosts);
}

static int draw(const struct top_frame *frame)
{
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    if (memory == NULL)
        return COP_ENOMEM;
    int error = top_print(memory, TOP_SCREEN, frame);
    if (fclose(memory) != 0 && !error)
        error = COP_ENOMEM;
    if (!error)
        screen_show(text);
    free(text);
    return error;
}

static int show(const struct options *options, const struct watcher *watcher,
                bool on_screen)
{
    struct top_frame frame;
    int error = make_frame(watcher, &frame);
    if (!error && on_screen)
        error = draw(&frame);
    else if (!error)
        error = top_print(stdout, options->json ? TOP_JSON : TOP_TEXT, &frame);
    if (error)
        return fail(EXIT_FAILED, "top: %s", cop_strerror(error));
    return fflush(stdout) == 0 ? 0 : EXIT_FAILED;
}

/* The first output that everybody is in, or what there is when the time is over. */
static int look_once(const struct options *options, struct watcher *watcher)
{
    cop_time until = now_ns() + options->timeout_ns + options->interval_ns;
    int code = 0;
    for (bool any = false;;) {
        switch (watcher_next(watcher, until, -1, &code)) {
        case WATCHED_OUTPUT:
            any = true;
            if (watcher->reply.complete)
                return show(options, watcher, false);
            break;
        case WATCHED_END:
            return code;
        default:
            if (any)
                show(options, watcher, false);
            return fail(EXIT_FAILED, "top: %s",
                        any ? "some members have not answered in time"
                            : "nobody has answered in time");
        }
    }
}

static int look_on(const struct options *options, struct watcher *watcher,
                   bool on_screen)
{
    int code = 0;
    for (;;) {
        enum watched got = watcher_next(watcher, now_ns() + 60 * COP_SEC,
                                        on_screen ? screen_fd() : -1, &code);
        if (got == WATCHED_OUTPUT)
            code = show(options, watcher, on_screen);
        if (got == WATCHED_END || code)
            return code;
        int number = got == WATCHED_KEY ? screen_signal() : 0;
        if (number != 0)
            return 128 + number; /* 130, EXIT_CANCELLED, by Ctrl-C */
        for (int key; got == WATCHED_KEY && (key = screen_key()) != -1;)
            if (key == 'q' || key == 'Q')
                return 0;
    }
}

static bool wants_screen(const struct options *options)
{
    char why[256];
    if (options->once || options->json || !isatty(STDOUT_FILENO) ||
        !isatty(STDIN_FILENO))
        return false;
    if (screen_open(why, sizeof why))
        return true;
    complain("top: %s; printing text", why);
    return false;
}

static int run_cluster(const struct options *options, const char *name)
{
    struct watcher watcher = {
        .name = name,
        .agent = options->agent,
        .command = "top",
        .watch = {.kind = WATCH_HOSTS, .interval_ns = options->interval_ns},
    };
    int code = watcher_open(&watcher);
    if (code)
        return code;
    bool on_screen = wants_screen(options);
    watcher.follow.is_quiet = on_screen;
    code = options->once ? look_once(options, &watcher)
                         : look_on(options, &watcher, on_screen);
    if (on_screen)
        screen_close();
    watcher_close(&watcher);
    return code;
}

/* ---- the command ------------------------------------------------------------------ */

static int check_options(const struct options *options)
{
    bool alone = options->sample || options->read || options->here;
    if (options->sample && options->read)
        return fail(EXIT_USAGE,
                    "top: --sample prints this host, --read reads others; not both");
    if (options->sample && options->json)
        return fail(EXIT_USAGE, "top: --sample prints a line for --read; no --json "
                                "with it (--here --once --json shows this host)");
    if (alone && (options->name || options->agent))
        return fail(EXIT_USAGE,
                    "top: --here, --sample and --read ask no cluster; no --name or "
                    "--agent with them");
    if (options->name && options->agent)
        return fail(EXIT_USAGE, "top: --agent excludes --name");
    if (options->interval_ns < COP_MSEC || options->interval_ns > 3600 * COP_SEC)
        return fail(EXIT_USAGE, "top: --interval takes a time from 1ms to 3600s");
    return 0;
}

int cmd_top(int argc, char **argv)
{
    struct options options = {.interval_ns = COP_SEC, .timeout_ns = 10 * COP_SEC};
    const struct args_option table[] = {
        {0, "name", "NAME", "the cluster (default)", ARGS_TEXT, &options.name, 0, 0},
        {0, "agent", "SOCKET", "ask this agent, not one of a local cluster", ARGS_TEXT,
         &options.agent, 0, 0},
        {0, "here", NULL, "this host only, without a cluster", ARGS_FLAG, &options.here,
         0, 0},
        {0, "once", NULL, "one look at all, then end", ARGS_FLAG, &options.once, 0, 0},
        {0, "timeout", "TIME", "with --once: wait so long for all (10s)", ARGS_DURATION,
         &options.timeout_ns, 0, 0},
        {0, "interval", "TIME", "over which rates are taken (1s)", ARGS_DURATION,
         &options.interval_ns, 0, 0},
        {0, "sample", NULL, "print this host as a line for --read", ARGS_FLAG,
         &options.sample, 0, 0},
        {0, "read", "FILE", "hosts from lines of --sample; -: standard input",
         ARGS_TEXT, &options.read, 0, 0},
        {0, "json", NULL, "one object per metric: coppice.top.v1", ARGS_FLAG,
         &options.json, 0, 0},
        {0},
    };
    struct args args = {
        .name = "top",
        .usage = "[options]",
        .text =
            "Shows load, CPU, memory and network of all hosts of a cluster, of this "
            "host, or\n"
            "of those whose samples are read: least, median, mean, most, how they "
            "are\n"
            "spread, and who lies far from the others. Agents sample, one on each "
            "host, and\n"
            "their samples are folded on the way, in the tree of a stream.",
        .options = table,
    };
    struct settings settings;
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    code = check_options(&options);
    if (code)
        return code;
    if (options.here || options.sample || options.read)
        return run_here(&options);
    if (options.agent)
        return run_cluster(&options, NULL);
    code = local_settings(&settings, options.name);
    return code ? code : run_cluster(&options, settings_name(&settings));
}
