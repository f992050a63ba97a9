/* SPDX-License-Identifier: Apache-2.0 */
#include "args.h"
#include "commands.h"
#include "local.h"
#include "say.h"

#include <coppice/error.h>
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

static int run_agent(const struct options *options, const char *who)
{
    struct client client;
    struct roll roll;
    if (client_open(options->agent, &client) != 0)
        return fail(EXIT_NO_CLUSTER, "no agent takes commands at %s", options->agent);
    int code = 0;
    if (client_roll(&client, 0, REPORT_TIMEOUT_NS, &roll) != 0) {
        code = fail(EXIT_FAILED, "the agent at %s has no view", options->agent);
    } else {
        cop_id id = roll_find(&roll, NULL, who);
        code = id == COP_ID_NONE
                   ? fail(EXIT_USAGE, "report: there is no member '%s'", who)
                   : report(&client, id, who, options->why);
        roll_free(&roll);
    }
    client_close(&client);
    return code;
}

/* Anybody may hear of it, but the one that it is about. */
static int tell_another(struct local *local, const struct options *options,
                        const char *who)
{
    for (cop_id slot = 0; slot < cluster_count(&local->cluster); slot++) {
        struct client client;
        struct roll roll;
        if (local_connect(local, slot, &client) != 0)
            continue;
        if (client_roll(&client, 0, COP_SEC, &roll) == 0) {
            cop_id id = roll_find(&roll, &local->cluster, who);
            bool is_other = roll.is_member && roll.self != id;
            roll_free(&roll);
            if (id == COP_ID_NONE) {
                client_close(&client);
                return fail(EXIT_USAGE, "report: there is no member '%s'", who);
            }
            if (is_other) {
                int code = report(&client, id, who, options->why);
                client_close(&client);
                return code;
            }
        }
        client_close(&client);
    }
    return fail(EXIT_NO_CLUSTER, "no other member of '%s' lives", local->dir.name);
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
        .usage = "[options] MEMBER",
        .text = "Tells the cluster that a member is dead, because somebody outside "
                "knows:\n"
                "an operator, a scheduler. A member that lives denies it.",
        .options = options,
        .least = 1,
        .most = 1,
    };
    struct settings settings;
    struct local local;
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    if (got.agent != NULL)
        return run_agent(&got, args.operands[0]);
    code = local_settings(&settings, got.name);
    if (code == 0)
        code = local_open(settings_name(&settings), &local);
    if (code)
        return code;
    code = tell_another(&local, &got, args.operands[0]);
    local_close(&local);
    return code;
}
