/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/bench.h"
#include "cluster/local.h"
#include "number/numbers.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/json.h"
#include "term/say.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* `true` on N members, against others who start N processes on this machine: how long from
 * the start of the command to its end. */
enum tool { OURS, XARGS, PDSH, CLUSH, TOOLS };
static const char *const titles[TOOLS] = {"coppice exec", "xargs -P32", "pdsh -R exec",
                                          "clush --worker=exec"};
static const char *const keys[TOOLS] = {"exec", "xargs", "pdsh", "clush"};
/* What is wanted: so many times as long as ours they should take, at least. xargs knows nobody,
 * waits for nobody and says nothing of who failed: half as long as ours is allowed. */
static const double goals[TOOLS] = {0, 0.5, 2, 2};

struct options {
    const char *sizes;
    uint64_t rounds;
    bool as_json;
};

struct measured {
    uint32_t n;
    bool is_there[TOOLS];
    double values[TOOLS][BENCH_ROUNDS_MAX];
    struct summary times[TOOLS], ratios[TOOLS]; /* ratios to ours */
};

/* ---- one run --------------------------------------------------------------------- */

#define WORDS_MAX 12

static void make_words(enum tool tool, uint32_t n, const char *cluster, char set[32],
                       const char *words[WORDS_MAX])
{
    const char *const all[TOOLS][WORDS_MAX] = {
        {"/proc/self/exe", "exec", "--name", cluster, "--", "true"},
        {"xargs", "-P32", "-n1", "true"},
        {"pdsh", "-R", "exec", "-f", "32", "-w", set, "true"},
        {"clush", "--worker=exec", "-f", "32", "-w", set, "true"}};
    snprintf(set, 32, "n[0-%" PRIu32 "]", n - 1);
    memcpy(words, all[tool], sizeof all[tool]);
}

/* What xargs reads: a line for each. */
static int open_lines(uint32_t n)
{
    FILE *file = tmpfile();
    if (file == NULL)
        return -1;
    for (uint32_t i = 0; i < n; i++)
        fprintf(file, "%" PRIu32 "\n", i);
    rewind(file);
    int fd = dup(fileno(file));
    fclose(file);
    return fd;
}

static void become(const char *const *words, int input)
{
    int null = open("/dev/null", O_WRONLY);
    if (null < 0 || dup2(input, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
        _exit(126);
    execvp(words[0], (char *const *)(uintptr_t)words);
    _exit(errno == ENOENT ? 127 : 126);
}

/* Its exit status, and the time. */
static int time_tool(enum tool tool, uint32_t n, const char *cluster, double *out)
{
    const char *words[WORDS_MAX];
    char set[32];
    int status = 0;
    make_words(tool, n, cluster, set, words);
    int input = open_lines(n);
    if (input < 0)
        return -1;
    lseek(input, 0, SEEK_SET);
    cop_time begun = now_ns();
    pid_t pid = fork();
    if (pid == 0)
        become(words, input);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    *out = (double)(now_ns() - begun);
    close(input);
    return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- rounds ---------------------------------------------------------------------- */

/* Once for each before it counts: who is not installed is left out. */
static int warm_up(struct measured *measured, const char *cluster)
{
    double ignored;
    for (enum tool tool = 0; tool < TOOLS; tool++) {
        int status = time_tool(tool, measured->n, cluster, &ignored);
        if (status != 0 && (status != 127 || tool == OURS))
            return fail(EXIT_FAILED, "bench: %s ended with exit status %d",
                        titles[tool], status);
        measured->is_there[tool] = status == 0;
    }
    return 0;
}

static int run_rounds(struct measured *measured, uint32_t rounds, const char *cluster)
{
    int code = warm_up(measured, cluster);
    for (uint32_t i = 0; i < rounds && code == 0; i++)
        for (enum tool tool = 0; tool < TOOLS && code == 0; tool++)
            if (measured->is_there[tool] &&
                time_tool(tool, measured->n, cluster, &measured->values[tool][i]) != 0)
                code = fail(EXIT_FAILED, "bench: %s failed", titles[tool]);
    return code;
}

static void sum_up(struct measured *measured, uint32_t rounds)
{
    double ratios[BENCH_ROUNDS_MAX];
    for (enum tool tool = 0; tool < TOOLS; tool++) {
        for (uint32_t i = 0; i < rounds; i++)
            ratios[i] = measured->values[tool][i] / measured->values[OURS][i];
        if (tool != OURS && measured->is_there[tool])
            measured->ratios[tool] = summarize(ratios, rounds);
    }
    /* Sorting comes last: the ratios are of one round each. */
    for (enum tool tool = 0; tool < TOOLS; tool++)
        if (measured->is_there[tool])
            measured->times[tool] = summarize(measured->values[tool], rounds);
}

static int measure(uint32_t rounds, struct measured *measured)
{
    char name[40];
    snprintf(name, sizeof name, "bench-exec-%d", (int)getpid());
    const struct keeper_config keeper = {
        .n = measured->n, .shape = "radix:4", .quorum = "majority", .is_private = true};
    int code = local_up(name, &keeper);
    if (code)
        return code;
    code = run_rounds(measured, rounds, name);
    int end = local_down(name);
    if (code == 0)
        sum_up(measured, rounds);
    return code ? code : end;
}

/* ---- output ---------------------------------------------------------------------- */

/* What one member more costs, from the smallest size to this one. */
static double per_node(const struct measured *first, const struct measured *now,
                       enum tool tool)
{
    return (now->times[tool].median - first->times[tool].median) /
           (double)(now->n - first->n);
}

/* The median decides; the interval says whether that can be relied on. */
static bool is_met(const struct measured *now, enum tool tool)
{
    return now->ratios[tool].median >= goals[tool];
}

static const char *verdict_of(const struct measured *now, enum tool tool)
{
    const struct summary *ratio = &now->ratios[tool];
    bool is_sure =
        is_met(now, tool) ? ratio->low >= goals[tool] : ratio->high < goals[tool];
    if (is_met(now, tool))
        return is_sure ? "met" : "met by the median only";
    return is_sure ? "missed" : "missed by the median";
}

static void put_goal(struct json *json, const struct measured *now, enum tool tool)
{
    char key[40];
    snprintf(key, sizeof key, "%s_goal", keys[tool]);
    json_put_double(json, key, goals[tool], 1);
    snprintf(key, sizeof key, "%s_met", keys[tool]);
    if (now->is_there[tool])
        json_put_bool(json, key, is_met(now, tool));
    else
        json_put_string(json, key, NULL);
}

static void print_json(const struct measured *first, const struct measured *now,
                       uint64_t rounds)
{
    struct json json;
    char key[40];
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.bench.exec.v1");
    json_put_u64(&json, "n", now->n);
    json_put_u64(&json, "rounds", rounds);
    for (enum tool tool = 0; tool < TOOLS; tool++) {
        snprintf(key, sizeof key, "%s_ns", keys[tool]);
        if (now->is_there[tool])
            bench_put_summary(&json, key, &now->times[tool], 0);
        else
            json_put_string(&json, key, NULL);
        snprintf(key, sizeof key, "%s_ratio", keys[tool]);
        if (tool != OURS && now->is_there[tool])
            bench_put_summary(&json, key, &now->ratios[tool], 4);
        else if (tool != OURS)
            json_put_string(&json, key, NULL);
        if (tool != OURS)
            put_goal(&json, now, tool);
        snprintf(key, sizeof key, "%s_per_node_ns", keys[tool]);
        if (now->n != first->n && now->is_there[tool] && first->is_there[tool])
            json_put_double(&json, key, per_node(first, now, tool), 0);
        else
            json_put_string(&json, key, NULL);
    }
    json_end_object(&json);
}

static void print_text(const struct measured *first, const struct measured *now)
{
    printf("\n%" PRIu32 " members\n", now->n);
    for (enum tool tool = 0; tool < TOOLS; tool++) {
        const struct summary *time = &now->times[tool], *ratio = &now->ratios[tool];
        if (!now->is_there[tool]) {
            printf("%-20s is not installed\n", titles[tool]);
            continue;
        }
        printf("%-20s %8.1f ms (%.1f-%.1f)", titles[tool], time->median / 1e6,
               time->low / 1e6, time->high / 1e6);
        if (tool != OURS)
            printf("  %.2f (%.2f-%.2f) of ours", ratio->median, ratio->low,
                   ratio->high);
        if (now->n != first->n)
            printf("  %.0f us for each node more", per_node(first, now, tool) / 1e3);
        printf("\n");
        if (tool != OURS)
            printf("%20s goal: %.1f at least: %s\n", "", goals[tool],
                   verdict_of(now, tool));
    }
}

/* ---- the command ----------------------------------------------------------------- */

static int run(const struct options *options, const struct numbers *sizes)
{
    struct measured *all = calloc(sizes->count, sizeof *all);
    int code = all ? 0 : fail(EXIT_FAILED, "out of memory");
    if (code == 0 && !options->as_json)
        printf("true at every member, median of %" PRIu64
               " rounds, with the interval that holds it in 99 %%\n",
               options->rounds);
    for (uint32_t i = 0; i < sizes->count && code == 0; i++) {
        all[i].n = sizes->items[i];
        code = measure((uint32_t)options->rounds, &all[i]);
        if (code == 0 && options->as_json)
            print_json(&all[0], &all[i], options->rounds);
        else if (code == 0)
            print_text(&all[0], &all[i]);
    }
    free(all);
    return code;
}

int cmd_bench_exec(int argc, char **argv)
{
    struct options got = {.sizes = "64,256", .rounds = 9};
    const struct args_option options[] = {
        {'n', "members", "LIST", "how many processes: 64,256", ARGS_TEXT, &got.sizes, 0,
         0},
        {0, "rounds", "R", "how often all have a turn: 9", ARGS_NUMBER, &got.rounds, 7,
         BENCH_ROUNDS_MAX},
        {0, "json", NULL, "one object per line: coppice.bench.exec.v1", ARGS_FLAG,
         &got.as_json, 0, 0},
        {0},
    };
    struct args args = {
        .name = "bench",
        .usage = "exec [options]",
        .text =
            "Measures `coppice exec -- true` in a private cluster against pdsh, clush\n"
            "and xargs, which start as many processes on this machine, 32 at a time,\n"
            "in turn. Those that are not installed are left out. The goals: at most\n"
            "half as long as pdsh and clush, and at most twice as long as xargs.",
        .options = options,
        .most = 0,
    };
    struct numbers sizes;
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    if (parse_numbers(got.sizes, 1, 4096, 16, &sizes) != 0)
        return fail(EXIT_USAGE,
                    "bench: -n takes up to 16 numbers from 1 to 4096, not "
                    "'%s'",
                    got.sizes);
    return run(&got, &sizes);
}
