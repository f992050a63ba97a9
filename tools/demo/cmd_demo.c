/* SPDX-License-Identifier: Apache-2.0 */
#include "demo/call.h"
#include "demo/show.h"
#include "demo/stream.h"
#include "demo/watch.h"
#include "draw/across.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/say.h"

#include <coppice/error.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * The tour: a cluster of real processes with all services under way, then the root, two inner
 * members and a leaf die at once, and each service says what it saw. Everything that is
 * shown was checked: who finds something wrong ends with an error.
 */
#define SHAPE "radix:4"
#define CALM_NS COP_SEC        /* before the kill */
#define AFTER_NS (COP_SEC / 2) /* after the last has healed */
#define CALLS 2u               /* broadcasts and agreements */

struct demo {
    char name[32];
    uint32_t n;
    bool tcp, as_json;
    cop_time begun_ns;
    struct local local;
    struct cop_tree tree; /* as long as all live */
    struct demo_victims victims;
    struct demo_watch watch;
    struct demo_call calls[CALLS];
    struct demo_stream stream;
    struct demo_claim claims[DEMO_SERVICES];
};

/* ---- who dies -------------------------------------------------------------------- */

/* Neither n1, which is asked for broadcasts, nor n4, which is for agreements, nor the last,
 * which is the front-end of the stream. */
static void choose_victims(struct demo *demo)
{
    const struct cop_tree *tree = &demo->tree;
    cop_rank inner = demo->n - 2, leaf = demo->n - 2;
    while (cop_tree_child_count(tree, inner) == 0 || inner == 4)
        inner--;
    while (cop_tree_child_count(tree, leaf) > 0 || cop_tree_parent(tree, leaf) == inner)
        leaf--;
    demo->victims = (struct demo_victims){.ids = {0, 2, inner, leaf}};
}

static int find_processes(struct demo *demo)
{
    struct list_reply list;
    int code = local_list(&demo->local, &list);
    if (code)
        return code;
    for (uint32_t i = 0; i < DEMO_VICTIMS; i++)
        demo->victims.pids[i] = (pid_t)list.members[demo->victims.ids[i]].pid;
    list_reply_free(&list);
    return 0;
}

static int kill_victims(struct demo *demo)
{
    int code = demo_stream_go(&demo->stream);
    if (code)
        return code;
    /* Before it: something may heal while this process waits for a processor. */
    demo->victims.killed_ns = now_ns();
    for (uint32_t i = 0; i < DEMO_VICTIMS; i++)
        if (kill(demo->victims.pids[i], SIGKILL) != 0)
            return fail(EXIT_FAILED, "process %d cannot be killed: %s",
                        (int)demo->victims.pids[i], strerror(errno));
    return 0;
}

/* ---- all services at once -------------------------------------------------------- */

static int begin_services(struct demo *demo)
{
    static const enum verb verbs[CALLS] = {VERB_BCAST, VERB_AGREE};
    static const cop_id asked[CALLS] = {1, 4};
    int code = demo_watch_begin(&demo->local, &demo->watch);
    for (uint32_t i = 0; i < CALLS && code == 0; i++)
        code = demo_call_begin(&demo->local, verbs[i], asked[i], &demo->calls[i]);
    return code ? code : demo_stream_go(&demo->stream);
}

static void free_services(struct demo *demo)
{
    demo_watch_free(&demo->watch);
    for (uint32_t i = 0; i < CALLS; i++)
        demo_call_free(&demo->calls[i]);
}

/* The members come first, then the calls, then the stream. */
static int fd_of(const struct demo *demo, uint32_t i)
{
    uint32_t n = demo->watch.count;
    if (i < n)
        return demo->watch.watchers[i].client.fd;
    if (i < n + CALLS)
        return demo->calls[i - n].client.fd;
    return demo->stream.is_over ? -1 : demo->stream.events;
}

static int take_from(struct demo *demo, uint32_t i, bool is_end)
{
    uint32_t n = demo->watch.count;
    if (i < n)
        return demo_watch_take(&demo->watch, i, &demo->victims);
    if (i < n + CALLS)
        return demo_call_take(&demo->calls[i - n], is_end);
    return demo_stream_take(&demo->stream);
}

/* Takes what comes, for a moment. */
static int take_some(struct demo *demo, struct pollfd *fds, bool is_end)
{
    uint32_t count = demo->watch.count + CALLS + 1;
    int code = 0;
    for (uint32_t i = 0; i < count; i++)
        fds[i] = (struct pollfd){.fd = fd_of(demo, i), .events = POLLIN};
    if (poll(fds, count, 20) < 0 && errno != EINTR)
        return fail(EXIT_FAILED, "poll: %s", strerror(errno));
    for (uint32_t i = 0; i < count && code == 0; i++)
        if (fds[i].revents != 0)
            code = take_from(demo, i, is_end);
    return code;
}

/* The calls have done something since then, or (at the end) nothing is left to be done. */
static bool is_ready(const struct demo *demo, cop_time since, bool is_end)
{
    bool is_killed = demo->victims.killed_ns != 0;
    bool is_ready = is_killed ? demo->stream.is_over : demo->stream.is_asking;
    for (uint32_t i = 0; i < CALLS; i++)
        is_ready = is_ready && (is_end ? !demo->calls[i].is_running
                                       : demo_call_has_since(&demo->calls[i], since));
    return is_ready;
}

/*
 * Until the views are without the victims, if these are dead; for some time; until each call
 * has been made once more after that; and until the stream is where it should be: half-way, or,
 * after the kill, at its end.
 */
static int run_services(struct demo *demo, cop_time pause, bool is_end)
{
    struct pollfd *fds = calloc(demo->watch.count + CALLS + 1, sizeof *fds);
    cop_time deadline = now_ns() + DEMO_WAIT_NS, since = 0;
    int code = fds ? 0 : fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    while (code == 0) {
        bool is_whole = demo->victims.killed_ns == 0 ||
                        demo_watch_is_healed(&demo->watch, &demo->victims);
        cop_time now = now_ns();
        if (is_whole && since == 0)
            since = now + pause;
        if (since != 0 && now >= since && is_ready(demo, since - pause, is_end))
            break;
        if (now > deadline)
            code = fail(EXIT_FAILED, is_whole ? "a service does not answer any more"
                                              : "the view does not heal");
        else
            code = take_some(demo, fds, is_end);
    }
    free(fds);
    return code;
}

/* ---- what is shown --------------------------------------------------------------- */

static void headline(const char *text)
{
    printf("\n%s%s%s\n\n", colour(stdout, BOLD), text, colour(stdout, PLAIN));
}

static int draw(const struct demo *demo, const struct cop_tree *tree)
{
    struct across_options options = {.color = has_colour(stdout),
                                     .utf8 = has_utf8(),
                                     .before =
                                         tree == &demo->tree ? NULL : &demo->tree};
    int error = across_draw(stdout, tree, &options);
    return error
               ? fail(EXIT_FAILED, "the tree cannot be drawn: %s", cop_strerror(error))
               : 0;
}

static int show_before(const struct demo *demo, cop_time up_ns)
{
    char took[DURATION_SIZE];
    printf("%s%" PRIu32 " processes%s on this machine, one tree over %s, up in %s\n\n",
           colour(stdout, BOLD), demo->n, colour(stdout, PLAIN),
           demo->tcp ? "TCP" : "Unix sockets", print_duration(up_ns, took));
    int code = draw(demo, &demo->tree);
    headline("Four services, all under way");
    printf(
        "  view       who is here, by everybody's account\n"
        "  broadcast  1 KiB to everybody, and everybody's answer back\n"
        "  agreement  everybody gives a 1, and all get the same sum\n"
        "  stream     numbers from the leaves of as many more processes, added up on "
        "the way\n");
    fflush(stdout);
    return code;
}

static void show_kill(const struct demo *demo)
{
    const cop_id *ids = demo->victims.ids;
    printf("\n%skill -9%s of %sn%u%s, the root, %sn%u%s and %sn%u%s, inner, and "
           "%sn%u%s, a leaf, at once; nobody is told\n\n",
           colour(stdout, BOLD), colour(stdout, PLAIN), colour(stdout, RED), ids[0],
           colour(stdout, PLAIN), colour(stdout, RED), ids[1], colour(stdout, PLAIN),
           colour(stdout, RED), ids[2], colour(stdout, PLAIN), colour(stdout, RED),
           ids[3], colour(stdout, PLAIN));
}

/* The tree of the survivors, as all of them compute it from their view. */
static int show_after(const struct demo *demo)
{
    struct cop_dead dead = {.extra = demo->victims.ids, .extra_count = DEMO_VICTIMS};
    struct cop_tree tree = demo->tree;
    tree.root = cop_view_root(demo_watch_view(&demo->watch));
    tree.repair = COP_REPAIR_SPLICE;
    tree.dead = &dead;
    headline("The tree now (*: has another parent than before)");
    return draw(demo, &tree);
}

static void show_next(void)
{
    const char *self = program_invocation_name;
    headline("Try next");
    printf("  %s up -n 64          # a cluster that stays, to play with\n"
           "  %s exec -- uptime    # at every member, equal outputs once\n"
           "  %s kill n0 n2 && %s view; %s down\n\n",
           self, self, self, self, self);
}

/* ---- acts ------------------------------------------------------------------------ */

static int make_claims(struct demo *demo)
{
    int code = 0;
    demo_watch_claim(&demo->watch, &demo->local, &demo->victims, &demo->claims[0]);
    for (uint32_t i = 0; i < CALLS && code == 0; i++)
        code = demo_call_claim(&demo->calls[i], demo->n, &demo->victims,
                               &demo->claims[i + 1]);
    demo_stream_claim(&demo->stream, demo->n, demo->victims.killed_ns,
                      &demo->claims[CALLS + 1]);
    return code;
}

static int judge(const struct demo *demo)
{
    for (uint32_t i = 0; i < DEMO_SERVICES; i++)
        if (!demo->claims[i].is_kept)
            return fail(EXIT_FAILED, "%s: %s", demo->claims[i].name,
                        demo->claims[i].text);
    return 0;
}

static int show_services(const struct demo *demo)
{
    show_kill(demo);
    demo_show_times(demo->claims, DEMO_SERVICES, demo->victims.killed_ns);
    putchar('\n');
    demo_show_claims(demo->claims, DEMO_SERVICES);
    return show_after(demo);
}

static int show_json(const struct demo *demo)
{
    const struct cop_view *view = demo_watch_view(&demo->watch);
    char root[NODESET_NAME_LENGTH + 1];
    char *killed = nodeset_fold_ids("n", demo->victims.ids, DEMO_VICTIMS);
    if (killed == NULL)
        return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    cluster_name(&demo->local.cluster, cop_view_root(view), root);
    const struct demo_summary summary = {.members = demo->n,
                                         .survivors = cop_view_size(view),
                                         .transport = demo->tcp ? "tcp" : "unix",
                                         .killed = killed,
                                         .root = root,
                                         .elapsed_ns = now_ns() - demo->begun_ns,
                                         .claims = demo->claims,
                                         .count = DEMO_SERVICES};
    demo_show_json(&summary);
    free(killed);
    return 0;
}

static int play(struct demo *demo)
{
    int code = find_processes(demo);
    if (code == 0)
        code = begin_services(demo);
    if (code == 0)
        code = run_services(demo, CALM_NS, false);
    if (code == 0)
        code = kill_victims(demo);
    if (code == 0)
        code = run_services(demo, AFTER_NS, false);
    if (code == 0)
        code = run_services(demo, 0, true);
    if (code == 0)
        code = make_claims(demo);
    if (code == 0)
        code = demo->as_json ? show_json(demo) : show_services(demo);
    if (code == 0)
        code = judge(demo);
    free_services(demo);
    return code;
}

static int run(struct demo *demo)
{
    const struct keeper_config keeper = {.n = demo->n,
                                         .shape = SHAPE,
                                         .quorum = "majority",
                                         .tcp = demo->tcp,
                                         .is_private = true};
    demo->begun_ns = now_ns();
    int code = demo_stream_fork(demo->n, &demo->victims, &demo->stream);
    if (code)
        return code;
    cop_time begun = now_ns();
    code = local_up(demo->name, &keeper);
    if (code) {
        demo_stream_free(&demo->stream);
        return code;
    }
    if (!demo->as_json)
        code = show_before(demo, now_ns() - begun);
    if (code == 0)
        code = local_open(demo->name, &demo->local);
    if (code == 0) {
        code = play(demo);
        local_close(&demo->local);
    }
    demo_stream_free(&demo->stream);
    int end = local_down(demo->name);
    code = code ? code : end;
    if (code == 0 && !demo->as_json) {
        printf("\n  Stopped: no process, socket or file is left.\n");
        show_next();
    }
    return code;
}

int cmd_demo(int argc, char **argv)
{
    struct demo demo = {.calls = {{.client.fd = -1}, {.client.fd = -1}},
                        .stream = {.events = -1, .words = -1}};
    uint64_t n = 64;
    const struct args_option options[] = {
        {'n', "members", "N", "how many processes: 64", ARGS_NUMBER, &n,
         DEMO_MEMBERS_MIN, 256},
        {0, "tcp", NULL, "TCP on the loopback, not Unix sockets", ARGS_FLAG, &demo.tcp,
         0, 0},
        {0, "json", NULL, "print one object: coppice.demo.v1", ARGS_FLAG, &demo.as_json,
         0, 0},
        {0},
    };
    struct args args = {
        .name = "demo",
        .usage = "[options]",
        .text =
            "Starts a cluster of its own and draws its tree; runs views, broadcasts,\n"
            "agreements and a stream; kills the root, two inner processes and a leaf\n"
            "in the middle of that; shows what each service saw, how long it took,\n"
            "and the tree of the survivors; and stops everything.\n"
            "Exit status: 0 if every service kept what it promises, 1 otherwise.",
        .options = options,
    };
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    demo.n = (uint32_t)n;
    snprintf(demo.name, sizeof demo.name, "demo-%d", (int)getpid());
    if (cop_shape_parse(SHAPE, &demo.tree.shape, NULL, 0) != 0)
        return fail(EXIT_FAILED, "no shape %s", SHAPE);
    demo.tree.n = demo.n;
    choose_victims(&demo);
    return run(&demo);
}
