/* SPDX-License-Identifier: Apache-2.0 */
#include "ask/survey.h"

#include "base/rankset.h"
#include "term/bars.h"
#include "term/commands.h"
#include "term/json.h"
#include "term/say.h"

#include <coppice/error.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What to print. */
struct report {
    const struct survey *survey;
    const struct asker *asker;
    const struct roll *roll;
    cop_time *times; /* sorted */
    char *dead, *silent;
    uint32_t complete; /* probes that everybody answered */
    uint32_t failed;   /* probes without a result */
};

/* ---- output ---------------------------------------------------------------------- */

static cop_time at_permille(const struct report *report, uint64_t permille)
{
    uint64_t last = report->asker->count - 1;
    return report->times[(last * permille + 500) / 1000];
}

/* Names, or ids where the names are not known (cluster NULL). */
static char *fold(const struct cluster *cluster, const struct roll *roll,
                  const struct cop_ranks *ids)
{
    return cluster ? roll_fold(roll, cluster, ids->items, ids->count)
                   : nodeset_fold_ids("", ids->items, ids->count);
}

/*
 * Who is known to be lost: found by the probe, or by an earlier one, and out of the view
 * for it by now. Who has left with a goodbye is not missed.
 */
static char *fold_dead(const struct cluster *cluster, const struct roll *roll,
                       const struct cop_ranks *found)
{
    struct cop_ranks dead = {0};
    int error = roll_select(roll, roll_is_removed, &dead);
    for (uint32_t i = 0; i < found->count && !error; i++)
        error = cop__rankset_put(&dead, found->items[i]);
    char *names = error ? NULL : fold(cluster, roll, &dead);
    cop_ranks_free(&dead);
    return names;
}

static int make_report(const struct survey *survey, const struct cluster *cluster,
                       const struct asker *asker, const struct roll *roll,
                       struct report *out)
{
    struct report report = {.survey = survey, .asker = asker, .roll = roll};
    report.times = asker_sorted(asker, 0, asker->count);
    report.dead = fold_dead(cluster, roll, &asker->dead);
    report.silent = fold(cluster, roll, &asker->silent);
    for (uint32_t i = 0; i < asker->count; i++) {
        const struct probe_sample *sample = &asker->samples[i];
        report.complete += sample->status == 0 && sample->dead + sample->silent == 0;
        report.failed += sample->status != 0;
    }
    *out = report;
    return report.times && report.dead && report.silent ? 0 : COP_ENOMEM;
}

static void free_report(struct report *report)
{
    free(report->times);
    free(report->dead);
    free(report->silent);
}

static void print_json(const struct report *report)
{
    const struct asker *asker = report->asker;
    const struct probe_sample *last = &asker->samples[asker->count - 1];
    struct json json;
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", report->survey->schema);
    json_put_u64(&json, "from", asker->self);
    json_put_u64(&json, "members", asker->members);
    json_put_u64(&json, "epoch", cop_view_epoch(report->roll->view));
    json_put_bool(&json, "degraded", report->roll->is_degraded);
    json_put_u64(&json, "answered", last->answered);
    json_put_string(&json, "dead", report->dead);
    json_put_string(&json, "silent", report->silent);
    json_put_string(&json, "status", cop_error_name(last->status));
    json_put_u64(&json, report->survey->is_bcast ? "broadcasts" : "probes",
                 asker->count);
    if (report->survey->is_bcast)
        json_put_u64(&json, "payload_bytes", report->survey->payload.length);
    json_put_u64(&json, "complete", report->complete);
    json_put_u64(&json, "failed", report->failed);
    json_put_u64(&json, "min_ns", report->times[0]);
    json_put_u64(&json, "median_ns", at_permille(report, 500));
    json_put_u64(&json, "p99_ns", at_permille(report, 990));
    json_put_u64(&json, "max_ns", report->times[asker->count - 1]);
    json_end_object(&json);
}

static void print_names(const char *what, const char *names, enum colour which)
{
    if (names[0] != '\0')
        printf("%-9s %s%s%s\n", what, colour(stdout, which), names,
               colour(stdout, PLAIN));
}

static void print_text(const struct report *report)
{
    const struct asker *asker = report->asker;
    const struct probe_sample *last = &asker->samples[asker->count - 1];
    char least[DURATION_SIZE], middle[DURATION_SIZE], high[DURATION_SIZE],
        most[DURATION_SIZE];
    bool all = last->answered == asker->members;
    printf("%-9s %s%" PRIu32 " of %" PRIu32 "%s\n", "answered",
           colour(stdout, all ? GREEN : YELLOW), last->answered, asker->members,
           colour(stdout, PLAIN));
    if (report->roll->is_degraded)
        printf("%-9s too few members can be reached to change the view\n", "degraded");
    print_names("dead", report->dead, RED);
    print_names("silent", report->silent, YELLOW);
    if (asker->count > 1)
        printf("%-9s %" PRIu32 ", %" PRIu32 " of them answered by all\n",
               report->survey->is_bcast ? "sent" : "probes", asker->count,
               report->complete);
    printf("%-9s min %s, median %s, p99 %s, max %s\n", "latency",
           print_duration(report->times[0], least),
           print_duration(at_permille(report, 500), middle),
           print_duration(at_permille(report, 990), high),
           print_duration(report->times[asker->count - 1], most));
    if (report->survey->histogram) {
        struct bars bars = {stdout, has_utf8(), 40};
        bars_histogram(&bars, report->times, asker->count, 10);
    }
}

/* ---- asking ---------------------------------------------------------------------- */

/* The member to ask: the one that was named, or the lowest that takes a connection. */
static int open_member(struct local *local, const struct survey *survey,
                       struct client *out)
{
    struct cop_ranks ids = {0};
    struct roll roll;
    const char *from = survey->from;
    char *texts[] = {(char *)(uintptr_t)from};
    if (from == NULL) {
        int none = local_connect_any(local, out, &roll);
        if (none == 0)
            roll_free(&roll);
        return none;
    }
    int code = local_select(local, survey->command, texts, 1, &ids);
    if (code)
        return code;
    if (ids.count != 1)
        code = fail(EXIT_USAGE, "%s: --from takes one member, not '%s'",
                    survey->command, from);
    else if (local_connect(local, ids.items[0], out) != 0)
        code =
            fail(EXIT_NO_CLUSTER, "member %s of '%s' is dead", from, local->dir.name);
    cop_ranks_free(&ids);
    return code;
}

static int ask_all(struct client *client, const struct survey *survey,
                   struct asker *out)
{
    struct bcast_command command = {survey->questions, survey->payload};
    return survey->is_bcast ? asker_bcast(client, &command, out)
                            : asker_run(client, &survey->questions, NULL, NULL, out);
}

static int ask(struct client *client, const struct survey *survey,
               const struct cluster *cluster)
{
    struct asker asker;
    struct report report;
    struct roll roll;
    int error = ask_all(client, survey, &asker);
    /* After the probe: whom that found is in one of the two. */
    if (!error) {
        error = client_roll(client, 0, survey->questions.timeout_ns + COP_SEC, &roll);
        if (error)
            asker_free(&asker);
    }
    const char *who = survey->from    ? survey->from
                      : survey->agent ? survey->agent
                                      : "the agent that was asked";
    if (error == COP_ELOST)
        return fail(EXIT_FAILED, "%s is gone", who);
    if (error == COP_ETIMEDOUT)
        return fail(EXIT_FAILED,
                    "%s does not answer: it is stopped, or busy; ask another one", who);
    if (error == COP_ESTATE || error == COP_EREMOVED)
        return fail(EXIT_REFUSED, "%s is not in the view", who);
    if (error == COP_ETOOBIG)
        return fail(EXIT_USAGE, "%s: %u bytes are more than one message has room for",
                    survey->command, survey->payload.length);
    if (error)
        return fail(EXIT_FAILED, "%s failed: %s", survey->command, cop_strerror(error));
    int code;
    if (make_report(survey, cluster, &asker, &roll, &report) != 0) {
        code = fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    } else {
        (survey->as_json ? print_json : print_text)(&report);
        bool is_whole = report.complete == asker.count && report.dead[0] == '\0';
        code = is_whole ? EXIT_DONE : EXIT_FAILED;
    }
    free_report(&report);
    asker_free(&asker);
    roll_free(&roll);
    return code;
}

static int run_agent(const struct survey *survey)
{
    struct client client;
    int error = client_open(survey->agent, &client);
    if (error == COP_ENOENT || error == COP_EINVAL)
        return fail(EXIT_NO_CLUSTER, "no agent takes commands at %s", survey->agent);
    if (error)
        return fail(EXIT_FAILED, "%s: %s", survey->agent, cop_strerror(error));
    int code = ask(&client, survey, NULL);
    client_close(&client);
    return code;
}

static int run_local(const struct survey *survey)
{
    struct local local;
    struct client client;
    int code = local_open(survey->name, &local);
    if (code)
        return code;
    code = open_member(&local, survey, &client);
    if (code == 0) {
        code = ask(&client, survey, &local.cluster);
        client_close(&client);
    }
    local_close(&local);
    return code;
}

int survey_run(const struct survey *survey)
{
    if (survey->agent != NULL && survey->from != NULL)
        return fail(EXIT_USAGE, "%s: --agent and --from exclude each other",
                    survey->command);
    return survey->agent ? run_agent(survey) : run_local(survey);
}

/* ---- who is silent --------------------------------------------------------------- */

#define ANSWER_TIMEOUT_NS (2 * COP_SEC) /* of the agent itself */

static int unite(const struct asker *asker, struct cop_ranks *out)
{
    int error = 0;
    for (uint32_t i = 0; i < asker->silent.count && !error; i++)
        error = cop__rankset_put(out, asker->silent.items[i]);
    for (uint32_t i = 0; i < asker->dead.count && !error; i++)
        error = cop__rankset_put(out, asker->dead.items[i]);
    return error;
}

char *survey_silent(struct client *client, const struct cluster *cluster,
                    cop_time timeout_ns)
{
    const struct probe_command probe = {.count = 1, .timeout_ns = timeout_ns};
    struct cop_ranks ids = {0};
    struct asker asker;
    struct roll roll;
    char *names = NULL;
    if (asker_run(client, &probe, NULL, NULL, &asker) != 0)
        return NULL;
    if (unite(&asker, &ids) == 0 && ids.count > 0 &&
        client_roll(client, 0, ANSWER_TIMEOUT_NS, &roll) == 0) {
        names = fold(cluster, &roll, &ids);
        roll_free(&roll);
    }
    asker_free(&asker);
    cop_ranks_free(&ids);
    return names;
}
