/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/local.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/say.h"

#include <coppice/error.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define REPORT_TIMEOUT_NS (5 * COP_SEC)

struct options {
    const char *name, *agent, *why;
};

/* Tells the agent at the other end. */
static int report(struct client *client, cop_id id, const char *who, const char *why)
{
    struct report_command command = {.member = id};
    struct client_reply reply;
    snprintf(command.why, sizeof command.why, "%s", why);
    struct cop_buf *body = report_command_encode(&command);
    if (body == NULL)
        return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    int error = client_call(client, VERB_REPORT, body, REPORT_TIMEOUT_NS, &reply);
    cop_buf_unref(body);
    if (!error)
        error = reply.status;
    if (error == COP_EINVAL)
        return fail(EXIT_REFUSED, "%s is not in the view", who);
    if (error)
        return fail(EXIT_FAILED, "%s was not reported: %s", who, cop_strerror(error));
    return 0;
}

/* Members that were typed, as ids of the view. 0, or an exit code after one line. */
static int find_all(const struct roll *roll, const struct cluster *cluster,
                    char *const *names, int count, struct cop_ranks *out)
{
    for (int i = 0; i < count; i++) {
        cop_id id = roll_find(roll, cluster, names[i]);
        if (id == COP_ID_NONE)
            return fail(EXIT_USAGE, "report: there is no member '%s'", names[i]);
        if (cop_ranks_push(out, id) != 0)
            return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    }
    return 0;
}

/* Of each; one that cannot be reported does not keep the others from it. */
static int report_all(struct client *client, const struct roll *roll,
                      const struct cluster *cluster, const struct cop_ranks *ids,
                      const char *why)
{
    int worst = 0;
    for (uint32_t i = 0; i < ids->count; i++) {
        char name[COP_NAME_MAX + 1];
        roll_name(roll, cluster, ids->items[i], name);
        int code = report(client, ids->items[i], name, why);
        worst = worst ? worst : code;
    }
    return worst;
}

static int run_agent(const struct options *options, char *const *names, int count)
{
    struct client client;
    struct roll roll;
    struct cop_ranks ids = {0};
    if (client_open(options->agent, &client) != 0)
        return fail(EXIT_NO_CLUSTER, "no agent takes commands at %s", options->agent);
    int code = 0;
    if (client_roll(&client, 0, REPORT_TIMEOUT_NS, &roll) != 0) {
        code = fail(EXIT_FAILED, "the agent at %s has no view", options->agent);
    } else {
        code = find_all(&roll, NULL, names, count, &ids);
        if (code == 0)
            code = report_all(&client, &roll, NULL, &ids, options->why);
        roll_free(&roll);
    }
    cop_ranks_free(&ids);
    client_close(&client);
    return code;
}

static bool has(const struct cop_ranks *ids, cop_id id)
{
    uint32_t i = 0;
    while (i < ids->count && ids->items[i] != id)
        i++;
    return i < ids->count;
}

/* Anybody may hear of it, but those that it is about. */
static int tell_another(struct local *local, const struct options *options,
                        const struct cop_ranks *ids)
{
    for (cop_id slot = 0; slot < cluster_count(&local->cluster); slot++) {
        struct client client;
        struct roll roll;
        if (local_connect(local, slot, &client) != 0)
            continue;
        bool has_roll = client_roll(&client, 0, COP_SEC, &roll) == 0;
        if (has_roll && roll.is_member && !has(ids, roll.self)) {
            int code = report_all(&client, &roll, &local->cluster, ids, options->why);
            roll_free(&roll);
            client_close(&client);
            return code;
        }
        if (has_roll)
            roll_free(&roll);
        client_close(&client);
    }
    return fail(EXIT_NO_CLUSTER, "no other member of '%s' lives", local->dir.name);
}

static int run_local(struct local *local, const struct options *options,
                     char *const *names, int count)
{
    struct cop_ranks slots = {0}, ids = {0};
    int code = local_select(local, "report", names, count, &slots);
    for (uint32_t i = 0; i < slots.count && code == 0; i++) {
        cop_id id = cluster_id(&local->cluster, slots.items[i]);
        if (id != COP_ID_NONE && cop_ranks_push(&ids, id) != 0)
            code = fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    }
    if (code == 0)
        code = tell_another(local, options, &ids);
    cop_ranks_free(&slots);
    cop_ranks_free(&ids);
    return code;
}

int cmd_report(int argc, char **argv)
{
    struct options got = {.why = "no reason was given"};
    const struct args_option options[] = {
        {0, "name", "NAME", "of the cluster", ARGS_TEXT, &got.name, 0, 0},
        {0, "agent", "SOCKET", "tell this agent, not one of a local cluster", ARGS_TEXT,
         &got.agent, 0, 0},
        {0, "why", "TEXT", "for the log of the member that is told", ARGS_TEXT,
         &got.why, 0, 0},
        {0},
    };
    struct args args = {
        .name = "report",
        .usage = "[options] MEMBER...",
        .text =
            "Tells the cluster that members are dead, because somebody outside "
            "knows:\n"
            "an operator, a scheduler. A member that lives denies it. The guard does\n"
            "not hold such a removal.",
        .options = options,
        .least = 1,
        .most = INT_MAX,
    };
    struct settings settings;
    struct local local;
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    if (got.agent != NULL)
        return run_agent(&got, args.operands, args.count);
    code = local_settings(&settings, got.name);
    if (code == 0)
        code = local_open(settings_name(&settings), &local);
    if (code)
        return code;
    code = run_local(&local, &got, args.operands, args.count);
    local_close(&local);
    return code;
}
