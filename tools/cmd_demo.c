/* SPDX-License-Identifier: Apache-2.0 */
#include "args.h"
#include "asker.h"
#include "bars.h"
#include "commands.h"
#include "draw.h"
#include "heal.h"
#include "local.h"
#include "say.h"

#include <coppice/error.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * The main job, to look at: a cluster of real processes, probes, a death in the middle
 * of them, and what it cost; then the death of the root, and how the others agree on a
 * view without it.
 */
#define SHAPE "radix:4"
#define CHUNK 10u /* probes between two looks at how far the run is */
#define AROUND 5u /* probes shown before and after the death */
#define BAR_WIDTH 40u

/* An inner member, with a whole branch below it. */
static const cop_rank victim = 1;

struct demo {
    char name[32];
    uint32_t n;
    uint32_t probes;
    bool tcp;
    struct local local;
    struct client client;
    struct cop_shape shape;
    pid_t victim_pid, root_pid;
    cop_time killed_ns; /* 0 before */
};

/* ---- the tree -------------------------------------------------------------------- */

static void headline(const char *text)
{
    printf("\n%s%s%s\n\n", colour(stdout, BOLD), text, colour(stdout, PLAIN));
}

static int draw(const struct demo *demo, bool with_dead)
{
    struct cop_dead dead = {.extra = &victim, .extra_count = 1};
    struct cop_tree tree = {.shape = demo->shape,
                            .n = demo->n,
                            .root = 0,
                            .repair = COP_REPAIR_SPLICE,
                            .dead = with_dead ? &dead : NULL};
    struct draw_options options = {
        .color = has_colour(stdout), .utf8 = has_utf8(), .fold = true};
    int error = draw_tree(stdout, &tree, &options);
    return error
               ? fail(EXIT_FAILED, "the tree cannot be drawn: %s", cop_strerror(error))
               : 0;
}

/* Folded names of the children that the victim has while it lives. */
static char *orphans(const struct demo *demo)
{
    struct cop_tree tree = {.shape = demo->shape, .n = demo->n, .root = 0};
    struct nodeset names = {0};
    struct cop_ranks children = {0};
    char name[NODESET_NAME_LENGTH + 1];
    char *folded = NULL;
    int error = cop_tree_children(&tree, victim, &children);
    for (uint32_t i = 0; i < children.count && !error; i++) {
        cluster_name(&demo->local.cluster, children.items[i], name);
        error = nodeset_add(&names, name);
    }
    if (!error)
        folded = nodeset_fold(&names);
    nodeset_free(&names);
    cop_ranks_free(&children);
    return folded;
}

/* ---- the probes ------------------------------------------------------------------ */

/* Half-way through, the victim dies; nobody is told. */
static int kill_in_the_middle(void *context, const struct asker *asker)
{
    struct demo *demo = context;
    if (demo->killed_ns != 0 || asker->count < demo->probes / 2)
        return 0;
    /* Before it: a probe may heal while this process waits for a processor. */
    demo->killed_ns = now_ns();
    return kill(demo->victim_pid, SIGKILL) == 0 ? 0 : COP_ELOST;
}

static int run_probes(struct demo *demo, struct asker *out)
{
    const struct probe_command command = {
        .count = demo->probes, .chunk = CHUNK, .timeout_ns = 10 * COP_SEC};
    int error = asker_run(&demo->client, &command, kill_in_the_middle, demo, out);
    if (error)
        return fail(EXIT_FAILED, "the probes failed: %s", cop_strerror(error));
    return 0;
}

/* The probe that the death met, or the first one after it. */
static uint32_t find_hit(const struct demo *demo, const struct asker *asker)
{
    for (uint32_t i = 0; i < asker->count; i++)
        if (asker->samples[i].at_ns + asker->samples[i].elapsed_ns >= demo->killed_ns)
            return i;
    return asker->count - 1;
}

/*
 * The first probe that came back without the victim, which is when the tree was whole.
 */
static uint32_t find_healed(const struct asker *asker, uint32_t n, uint32_t hit)
{
    while (hit + 1 < asker->count && asker->samples[hit].answered == n)
        hit++;
    return hit;
}

/*
 * Everybody answered every probe, but for the victim after its death; the numbers that
 * are shown are worth nothing otherwise.
 */
static int check_probes(const struct demo *demo, const struct asker *asker,
                        uint32_t hit, uint32_t healed)
{
    for (uint32_t i = 0; i < asker->count; i++) {
        const struct probe_sample *sample = &asker->samples[i];
        uint32_t least = i < hit ? demo->n : demo->n - 1;
        uint32_t most = i < healed ? demo->n : demo->n - 1;
        if (sample->status != 0 || sample->answered < least || sample->answered > most)
            return fail(EXIT_FAILED,
                        "probe %" PRIu32 " was answered by %" PRIu32 ": %s", i + 1,
                        sample->answered, cop_strerror(sample->status));
    }
    return 0;
}

/* ---- what is shown --------------------------------------------------------------- */

static int show_latencies(const struct asker *asker)
{
    char least[DURATION_SIZE], middle[DURATION_SIZE], high[DURATION_SIZE],
        most[DURATION_SIZE];
    struct bars bars = {.out = stdout, .utf8 = has_utf8(), .width = BAR_WIDTH};
    uint32_t count = asker->count;
    cop_time *times = asker_sorted(asker, 0, count);
    if (times == NULL)
        return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    bars_histogram(&bars, times, count, 12);
    printf("\n  min %s, median %s, p99 %s, max %s\n", print_duration(times[0], least),
           print_duration(times[(count - 1) / 2], middle),
           print_duration(times[(uint64_t)(count - 1) * 99 / 100], high),
           print_duration(times[count - 1], most));
    free(times);
    return 0;
}

static void show_probe(const struct asker *asker, uint32_t n, uint32_t i, cop_time most,
                       const char *remark)
{
    const struct probe_sample *sample = &asker->samples[i];
    struct bars bars = {.out = stdout, .utf8 = has_utf8(), .width = BAR_WIDTH / 2};
    char took[DURATION_SIZE];
    bool all = sample->answered == n;
    printf("  %7" PRIu32 "   %s%3" PRIu32 " of %" PRIu32 "%s  %9s  ", i + 1,
           colour(stdout, all ? GREEN : YELLOW), sample->answered, n,
           colour(stdout, PLAIN), print_duration(sample->elapsed_ns, took));
    bars_draw(&bars, (double)sample->elapsed_ns, (double)most);
    printf("%s%s\n", remark[0] ? "  <- " : "", remark);
}

/* What is to be said of a probe. */
static const char *remark_on(uint32_t i, uint32_t hit, uint32_t healed)
{
    if (i == hit)
        return hit == healed ? "n1 dies, and the tree heals" : "n1 dies";
    return i == healed ? "healed" : "";
}

static void show_around(const struct asker *asker, uint32_t n, uint32_t hit,
                        uint32_t healed)
{
    uint32_t from = hit > AROUND ? hit - AROUND : 0;
    uint32_t to = healed + AROUND + 1;
    cop_time most = 0;
    if (to > asker->count)
        to = asker->count;
    for (uint32_t i = from; i < to; i++)
        if (asker->samples[i].elapsed_ns > most)
            most = asker->samples[i].elapsed_ns;
    printf("  %s%7s   %-8s  %9s%s\n", colour(stdout, DIM), "probe", "answered", "took",
           colour(stdout, PLAIN));
    for (uint32_t i = from; i < to; i++)
        show_probe(asker, n, i, most, remark_on(i, hit, healed));
}

static void show_next(void)
{
    headline("Try next");
    printf("  coppice up -n 256 && coppice probe --count 100; coppice down\n"
           "  coppice tree knomial:2 64 --dead 32,48\n"
           "  coppice sim --protocol probe --nodes 100000 --seed 7\n\n");
}

/* ---- acts ------------------------------------------------------------------------ */

static int open_cluster(struct demo *demo)
{
    struct list_reply list;
    int code = local_open(demo->name, &demo->local);
    if (code)
        return code;
    code = local_list(&demo->local, &list);
    if (code == 0) {
        demo->victim_pid = (pid_t)list.members[victim].pid;
        demo->root_pid = (pid_t)list.members[0].pid;
        list_reply_free(&list);
        if (local_connect(&demo->local, 0, &demo->client) != 0)
            code = fail(EXIT_FAILED, "n0 does not take commands");
    }
    if (code)
        local_close(&demo->local);
    return code;
}

static int show_death(const struct demo *demo, const struct asker *asker)
{
    uint32_t hit = find_hit(demo, asker), healed = find_healed(asker, demo->n, hit);
    char took[DURATION_SIZE];
    int code = check_probes(demo, asker, hit, healed);
    char *children = orphans(demo);
    if (code == 0 && children == NULL)
        code = fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    if (code == 0) {
        const struct probe_sample *last = &asker->samples[healed];
        cop_time end = last->at_ns + last->elapsed_ns;
        printf("\n%sIn the middle of them: kill -9 of n1 (pid %d)%s\n\n",
               colour(stdout, BOLD), (int)demo->victim_pid, colour(stdout, PLAIN));
        show_around(asker, demo->n, hit, healed);
        printf("\n  %s after the kill a probe had its answer from everybody else;\n"
               "  n0 had taken over %s\n",
               print_duration(end > demo->killed_ns ? end - demo->killed_ns : 0, took),
               children);
    }
    free(children);
    return code;
}

static void show_stage(const char *name, const char *text, cop_time from, cop_time to,
                       cop_time begun)
{
    char took[DURATION_SIZE], all[DURATION_SIZE];
    printf("  %-8s  +%9s  %9s  %s\n", name,
           print_duration(to > from ? to - from : 0, took),
           print_duration(to > begun ? to - begun : 0, all), text);
}

/* The root, whom everybody else relies on. */
static int play_root(struct demo *demo)
{
    struct healing healing;
    char root[NODESET_NAME_LENGTH + 1], text[3][120];
    int code = heal_wait(&demo->local, victim);
    if (code == 0)
        code = heal_after(&demo->local, 0, demo->root_pid, &healing);
    if (code)
        return code;
    cluster_name(&demo->local.cluster, healing.root, root);
    snprintf(text[0], sizeof text[0], "%s, the next in line, has found out", root);
    snprintf(text[1], sizeof text[1],
             "%" PRIu32 " have acknowledged the view without n0", healing.members);
    snprintf(text[2], sizeof text[2],
             "all of them have it: view %" PRIu64 ", %" PRIu32 " members, root %s",
             healing.epoch, healing.members, root);
    printf(
        "\n%sThe root dies%s: kill -9 of n0 (pid %d), and the others agree on a view "
        "without it\n\n",
        colour(stdout, BOLD), colour(stdout, PLAIN), (int)demo->root_pid);
    show_stage("T_detect", text[0], healing.killed_ns, healing.heard_ns,
               healing.killed_ns);
    show_stage("T_s", text[1], healing.heard_ns, healing.stable_ns, healing.killed_ns);
    show_stage("T_commit", text[2], healing.stable_ns, healing.installed_ns,
               healing.killed_ns);
    printf("\n  Each on top of the one before, and since the kill; one clock.\n");
    return 0;
}

static int play(struct demo *demo)
{
    struct asker asker;
    headline("The tree");
    int code = draw(demo, false);
    if (code)
        return code;
    printf("\n%s%" PRIu32 " probes%s from n0, one after the other: each goes down to "
           "everybody and up again\n\n",
           colour(stdout, BOLD), demo->probes, colour(stdout, PLAIN));
    fflush(stdout);
    code = run_probes(demo, &asker);
    if (code)
        return code;
    code = show_latencies(&asker);
    if (code == 0)
        code = show_death(demo, &asker);
    asker_free(&asker);
    if (code)
        return code;
    headline("The tree now");
    code = draw(demo, true);
    return code ? code : play_root(demo);
}

static int run(struct demo *demo)
{
    char took[DURATION_SIZE];
    const struct keeper_config keeper = {.n = demo->n,
                                         .shape = SHAPE,
                                         .quorum = "majority",
                                         .tcp = demo->tcp,
                                         .is_private = true};
    cop_time begun = now_ns();
    int code = local_up(demo->name, &keeper);
    if (code)
        return code;
    printf("%s%" PRIu32 " processes%s on this machine, connected by %s, up in %s\n",
           colour(stdout, BOLD), demo->n, colour(stdout, PLAIN),
           demo->tcp ? "TCP" : "Unix sockets", print_duration(now_ns() - begun, took));
    code = open_cluster(demo);
    if (code == 0) {
        code = play(demo);
        client_close(&demo->client);
        local_close(&demo->local);
    }
    int end = local_down(demo->name);
    code = code ? code : end;
    if (code == 0) {
        printf("\nEverything stopped: no process, socket or file is left.\n");
        show_next();
    }
    return code;
}

int cmd_demo(int argc, char **argv)
{
    struct demo demo = {.n = 32, .probes = 1000};
    uint64_t n = demo.n, probes = demo.probes;
    const struct args_option options[] = {
        {'n', "members", "N", "how many processes: 32", ARGS_NUMBER, &n, 7, 512},
        {'k', "probes", "K", "how many probes: 1000", ARGS_NUMBER, &probes, 40, 100000},
        {0, "tcp", NULL, "TCP on the loopback, not Unix sockets", ARGS_FLAG, &demo.tcp,
         0, 0},
        {0},
    };
    struct args args = {
        .name = "demo",
        .usage = "[options]",
        .text =
            "Starts a cluster of its own, draws its tree, sends probes, kills an "
            "inner\n"
            "process in the middle of them, shows how long each probe took around\n"
            "that; kills the root, and shows how long the others took to agree on a\n"
            "view without it; and stops everything.",
        .options = options,
    };
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    demo.n = (uint32_t)n;
    demo.probes = (uint32_t)probes;
    snprintf(demo.name, sizeof demo.name, "demo-%d", (int)getpid());
    if (cop_shape_parse(SHAPE, &demo.shape, NULL, 0) != 0)
        return fail(EXIT_FAILED, "no shape %s", SHAPE);
    return run(&demo);
}
