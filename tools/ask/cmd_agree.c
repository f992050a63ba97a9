/* SPDX-License-Identifier: Apache-2.0 */
#include "ask/agreer.h"
#include "ask/survey.h"
#include "cluster/local.h"
#include "term/args.h"
#include "term/bars.h"
#include "term/commands.h"
#include "term/json.h"
#include "term/say.h"

#include <coppice/error.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_TIMEOUT_NS (2 * COP_SEC) /* of what an agent answers by itself */
#define PROBE_TIMEOUT_NS COP_SEC        /* for the others, at the most */

struct options {
    const char *from, *agent, *algorithm, *value, *op;
    uint64_t count, window, skew_ms;
    bool keep_tree, with_dead, as_json;
};

/* What to print. */
struct report {
    const struct agreer *agreer;
    const struct agree_order *order;
    cop_time *times; /* sorted */
    char *failed;
    const char *silent; /* who does not answer, if the last one did not end; or "" */
    uint32_t decided, rounds; /* agreements with a result; different rounds */
};

/* ---- output ---------------------------------------------------------------------- */

/* Names, or ids where the names are not known (cluster NULL). */
static char *fold(const struct cluster *cluster, const struct roll *roll,
                  const struct cop_ranks *ids)
{
    return cluster ? roll_fold(roll, cluster, ids->items, ids->count)
                   : nodeset_fold_ids("", ids->items, ids->count);
}

static int make_report(const struct agreer *agreer, const struct agree_order *order,
                       const struct cluster *cluster, const struct roll *roll,
                       const char *silent, struct report *out)
{
    struct report report = {
        .agreer = agreer, .order = order, .silent = silent ? silent : ""};
    report.times = agreer_sorted(agreer);
    report.failed = fold(cluster, roll, &agreer->failed);
    for (uint32_t i = 0; i < agreer->count; i++) {
        report.decided += agreer->samples[i].status == 0;
        report.rounds +=
            i == 0 || agreer->samples[i].round != agreer->samples[i - 1].round;
    }
    *out = report;
    return report.times && report.failed ? 0 : COP_ENOMEM;
}

static void free_report(struct report *report)
{
    free(report->times);
    free(report->failed);
}

/* Of the last agreement. */
static int last_status(const struct agreer *agreer)
{
    return agreer->samples[agreer->count - 1].status;
}

static cop_time at_permille(const struct report *report, uint64_t permille)
{
    uint64_t last = report->agreer->count - 1;
    return report->times[(last * permille + 500) / 1000];
}

static const char *verdict_name(enum agree_verdict verdict)
{
    static const char *const names[] = {"unknown", "same", "different"};
    return names[verdict];
}

static void print_json(const struct report *report)
{
    const struct agreer *agreer = report->agreer;
    const struct agree_sample *last = &agreer->samples[agreer->count - 1];
    struct json json;
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.agree.v1");
    json_put_u64(&json, "from", agreer->self);
    json_put_string(&json, "algorithm", cop_algorithm_name(report->order->algorithm));
    json_put_string(&json, "op", agree_op_name(report->order->op));
    json_put_u64(&json, "members", agreer->members);
    json_put_u64(&json, "agreements", agreer->count);
    json_put_u64(&json, "decided", report->decided);
    json_put_string(&json, "status", cop_error_name(last->status));
    json_put_u64(&json, "value", last->value);
    json_put_string(&json, "failed", report->failed);
    json_put_u64(&json, "failed_count", agreer->failed.count);
    json_put_string(&json, "silent", report->silent);
    json_put_u64(&json, "epoch", agreer->epoch);
    json_put_u64(&json, "round", last->round);
    json_put_u64(&json, "rounds", report->rounds);
    json_put_string(&json, "results", verdict_name(agreer->verdict));
    json_put_u64(&json, "min_ns", report->times[0]);
    json_put_u64(&json, "median_ns", at_permille(report, 500));
    json_put_u64(&json, "p99_ns", at_permille(report, 990));
    json_put_u64(&json, "max_ns", report->times[agreer->count - 1]);
    json_end_object(&json);
}

static void print_times(const struct report *report)
{
    uint32_t count = report->agreer->count;
    char least[DURATION_SIZE], middle[DURATION_SIZE], high[DURATION_SIZE],
        most[DURATION_SIZE];
    printf("%-9s min %s, median %s, p99 %s, max %s\n", "latency",
           print_duration(report->times[0], least),
           print_duration(at_permille(report, 500), middle),
           print_duration(at_permille(report, 990), high),
           print_duration(report->times[count - 1], most));
    if (count >= 20) {
        const struct bars bars = {.out = stdout, .utf8 = has_utf8(), .width = 40};
        bars_histogram(&bars, report->times, count, 8);
    }
}

/* The first one that ended so, from 1. */
static uint32_t number_of(const struct agreer *agreer, int status)
{
    uint32_t i = 0;
    while (i + 1 < agreer->count && agreer->samples[i].status != status)
        i++;
    return i + 1;
}

/* Why the last one has no value. */
static void print_reason(const struct report *report)
{
    int status = last_status(report->agreer);
    char limit[DURATION_SIZE];
    printf("%-9s %s", "not", colour(stdout, RED));
    if (status == COP_ETIMEDOUT)
        printf("agreement %" PRIu32 " of %" PRIu32 " did not end within %s",
               number_of(report->agreer, status), report->order->count,
               print_duration(report->order->timeout_ns, limit));
    else if (status == COP_EDEGRADED)
        printf("too few members can be reached to change the view");
    else if (status == COP_EINVAL)
        printf("a member did not wait for the end of agreement %" PRIu32,
               number_of(report->agreer, status) - 1);
    else
        printf("%s", cop_strerror(status));
    printf("%s\n", colour(stdout, PLAIN));
    if (report->silent[0] != '\0')
        printf("%-9s %s%s%s\n", "silent", colour(stdout, YELLOW), report->silent,
               colour(stdout, PLAIN));
}

static void print_text(const struct report *report)
{
    const struct agreer *agreer = report->agreer;
    const struct agree_sample *last = &agreer->samples[agreer->count - 1];
    const char *off = colour(stdout, PLAIN);
    if (last->status == 0)
        printf("%-9s %s%" PRIu64 "%s, the %s over %" PRIu32 " members\n", "agreed",
               colour(stdout, GREEN), last->value, off,
               agree_op_name(report->order->op),
               agreer->members - agreer->failed.count);
    else
        print_reason(report);
    if (agreer->failed.count > 0)
        printf("%-9s %s%s%s\n", "failed", colour(stdout, RED), report->failed, off);
    if (agreer->count > 1)
        printf("%-9s %" PRIu32 ", %" PRIu32 " of them decided, in %" PRIu32 " rounds\n",
               "in a row", agreer->count, report->decided, report->rounds);
    printf("%-9s %s\n", "results",
           agreer->verdict == AGREE_SAME        ? "the same at all who live"
           : agreer->verdict == AGREE_DIFFERENT ? "DIFFERENT at those who live"
                                                : "not known to be the same at all");
    print_times(report);
}

/* ---- asking ---------------------------------------------------------------------- */

static int explain(int error)
{
    if (error == COP_ETIMEDOUT || error == COP_ELOST)
        return fail(EXIT_FAILED, "the agent that was asked %s",
                    error == COP_ELOST ? "is gone" : "does not answer");
    if (error == COP_ESTATE || error == COP_EREMOVED)
        return fail(EXIT_REFUSED, "the agent that was asked is not in the view");
    if (error == COP_EDEGRADED)
        return fail(EXIT_REFUSED, "too few members can be reached to change the view");
    if (error == COP_EINVAL)
        return fail(EXIT_REFUSED,
                    "agreements need views that change: not with a fixed quorum");
    return fail(EXIT_FAILED, "no agreement: %s", cop_strerror(error));
}

/*
 * Whom an agreement waits for is not known where it is asked for: somebody below somebody. But
 * who does not answer a probe right after it is one of them.
 */
static char *find_silent(struct client *client, const struct agree_order *order,
                         const struct cluster *cluster)
{
    cop_time limit =
        order->timeout_ns < PROBE_TIMEOUT_NS ? order->timeout_ns : PROBE_TIMEOUT_NS;
    return survey_silent(client, cluster, limit);
}

static int code_of(const struct report *report)
{
    const struct agreer *agreer = report->agreer;
    if (last_status(agreer) == COP_EDEGRADED)
        return EXIT_REFUSED;
    return report->decided == report->order->count && agreer->verdict != AGREE_DIFFERENT
               ? EXIT_DONE
               : EXIT_FAILED;
}

static int tell(struct client *client, const struct agree_order *order,
                const struct cluster *cluster, const struct agreer *agreer,
                bool as_json)
{
    struct report report;
    struct roll roll;
    char *silent = NULL;
    int code = EXIT_FAILED, status = last_status(agreer);
    if (status == COP_ETIMEDOUT || status == COP_EDEGRADED)
        silent = find_silent(client, order, cluster);
    int error = client_roll(client, 0, ANSWER_TIMEOUT_NS, &roll);
    if (error) {
        free(silent);
        return explain(error);
    }
    if (make_report(agreer, order, cluster, &roll, silent, &report) != 0) {
        fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    } else {
        (as_json ? print_json : print_text)(&report);
        code = code_of(&report);
    }
    free_report(&report);
    roll_free(&roll);
    free(silent);
    return code;
}

/* Who does not even tell its view is not asked for more. */
static int check_agent(struct client *client)
{
    struct roll roll;
    int error = client_roll(client, 0, ANSWER_TIMEOUT_NS, &roll);
    if (error)
        return error;
    bool is_member = roll.is_member;
    roll_free(&roll);
    return is_member ? 0 : COP_ESTATE;
}

static int ask(struct client *client, const struct agree_order *order,
               const struct cluster *cluster, bool as_json)
{
    struct agreer agreer;
    int error = check_agent(client);
    if (!error)
        error = agreer_run(client, order, &agreer);
    if (error)
        return explain(error);
    int code = tell(client, order, cluster, &agreer, as_json);
    agreer_free(&agreer);
    return code;
}

static int open_member(struct local *local, const char *from, struct client *out)
{
    struct cop_ranks ids = {0};
    struct roll roll;
    char *texts[] = {(char *)(uintptr_t)from};
    if (from == NULL) {
        int none = local_connect_any(local, out, &roll);
        if (none == 0)
            roll_free(&roll);
        return none;
    }
    int code = local_select(local, "agree", texts, 1, &ids);
    if (code)
        return code;
    if (ids.count != 1)
        code = fail(EXIT_USAGE, "agree: --from takes one member, not '%s'", from);
    else if (local_connect(local, ids.items[0], out) != 0)
        code =
            fail(EXIT_NO_CLUSTER, "member %s of '%s' is dead", from, local->dir.name);
    cop_ranks_free(&ids);
    return code;
}

static int run_agent(const struct options *options, const struct agree_order *order)
{
    struct client client;
    int error = client_open(options->agent, &client);
    if (error == COP_ENOENT || error == COP_EINVAL)
        return fail(EXIT_NO_CLUSTER, "no agent takes commands at %s", options->agent);
    if (error)
        return fail(EXIT_FAILED, "%s: %s", options->agent, cop_strerror(error));
    int code = ask(&client, order, NULL, options->as_json);
    client_close(&client);
    return code;
}

static int run_local(const char *name, const struct options *options,
                     const struct agree_order *order)
{
    struct local local;
    struct client client;
    int code = local_open(name, &local);
    if (code)
        return code;
    code = open_member(&local, options->from, &client);
    if (code == 0) {
        code = ask(&client, order, &local.cluster, options->as_json);
        client_close(&client);
    }
    local_close(&local);
    return code;
}

/* ---- the command line ------------------------------------------------------------ */

static int read_order(const struct options *options, const struct settings *settings,
                      const char *shape, struct agree_order *out)
{
    struct agree_order order = {.count = (uint32_t)options->count,
                                .window = (uint32_t)options->window,
                                .skew_ms = (uint32_t)options->skew_ms,
                                .keep_tree = options->keep_tree,
                                .with_dead = options->with_dead,
                                .timeout_ns = settings_timeout(settings)};
    if (cop_algorithm_parse(options->algorithm, &order.algorithm) != 0)
        return fail(EXIT_USAGE,
                    "agree: unknown algorithm '%s': there are early, strict, tree, "
                    "linear and allreduce",
                    options->algorithm);
    if (agree_op_parse(options->op, &order.op) != 0)
        return fail(
            EXIT_USAGE,
            "agree: unknown operation '%s': there are and, or, sum, min and max",
            options->op);
    if (strcmp(options->value, "id") == 0)
        order.source = AGREE_ID;
    else if (parse_number(options->value, 0, UINT64_MAX, &order.value) != 0)
        return fail(EXIT_USAGE,
                    "agree: --value takes a number, or id for that of each member, not "
                    "'%s'",
                    options->value);
    if (shape != NULL)
        snprintf(order.shape, sizeof order.shape, "%s", shape);
    *out = order;
    return 0;
}

int cmd_agree(int argc, char **argv)
{
    struct options got = {
        .algorithm = "early", .value = "1", .op = "sum", .count = 1, .window = 1};
    const char *flags[SETTINGS_COUNT] = {NULL};
    const struct args_option options[] = {
        {0, "name", "NAME", "of the cluster", ARGS_TEXT, &flags[SETTING_name], 0, 0},
        {0, "from", "MEMBER", "who tells the others; the lowest that lives otherwise",
         ARGS_TEXT, &got.from, 0, 0},
        {0, "agent", "SOCKET", "ask this agent, not one of a local cluster", ARGS_TEXT,
         &got.agent, 0, 0},
        {0, "algorithm", "A", "early, strict, tree, linear or allreduce", ARGS_TEXT,
         &got.algorithm, 0, 0},
        {0, "value", "V", "what each contributes: a number (1), or id", ARGS_TEXT,
         &got.value, 0, 0},
        {0, "op", "O", "how they are combined: and, or, sum, min, max", ARGS_TEXT,
         &got.op, 0, 0},
        {'k', "count", "K", "so many agreements, one after the other", ARGS_NUMBER,
         &got.count, 1, AGREEMENTS_MAX},
        {0, "window", "W", "so many of them under way at a time", ARGS_NUMBER,
         &got.window, 1, COP_AGREE_WINDOW_MAX},
        {0, "skew", "MS", "each waits before each call, by chance, at most so long",
         ARGS_NUMBER, &got.skew_ms, 0, 60000},
        {0, "keep-tree", NULL, "mend the tree around who failed, do not lay it anew",
         ARGS_FLAG, &got.keep_tree, 0, 0},
        {0, "with-dead", NULL, "have those in the group who are gone already",
         ARGS_FLAG, &got.with_dead, 0, 0},
        {0, "shape", "SHAPE", "of the tree; the cluster's own otherwise", ARGS_TEXT,
         &flags[SETTING_shape], 0, 0},
        {0, "timeout", "TIME", "of each agreement, such as 500ms", ARGS_TEXT,
         &flags[SETTING_timeout], 0, 0},
        {0, "json", NULL, "print one object: coppice.agree.v1", ARGS_FLAG, &got.as_json,
         0, 0},
        {0},
    };
    struct args args = {
        .name = "agree",
        .usage = "[options]",
        .text =
            "Has all members agree: each contributes a value, and all who survive get\n"
            "the same combination of them, and the same list of who failed. Prints\n"
            "what came of the last one, and how long they took. Without options it\n"
            "counts the living.\n"
            "Exit status: 0 all were decided, 1 otherwise, 3 no such cluster, 4 the\n"
            "member that was asked is not in the view, or too few can be reached.",
        .options = options,
    };
    struct settings settings;
    struct agree_order order;
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    code = settings_load(&settings, flags);
    if (code == 0)
        code = read_order(&got, &settings, flags[SETTING_shape], &order);
    if (code)
        return code;
    if (got.agent != NULL && got.from != NULL)
        return fail(EXIT_USAGE, "agree: --agent and --from exclude each other");
    if (got.agent != NULL)
        return run_agent(&got, &order);
    return run_local(settings_name(&settings), &got, &order);
}
