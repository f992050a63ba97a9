/* SPDX-License-Identifier: Apache-2.0 */
#include "ask/survey.h"
#include "cluster/local.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/say.h"

#include <coppice/error.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>

#define LEAVE_TIMEOUT_NS (20 * COP_SEC)
/* After this a person wants to know what it waits for; and so long it may take to find out. */
#define QUIET_NS COP_SEC
#define PROBE_TIMEOUT_NS COP_SEC

/* One that is to leave, and how to reach it: as a member of a local cluster, or by its socket. */
struct leaver {
    const char *name;
    const struct local *local; /* NULL: `name` is the socket */
    cop_id slot;
    char *silent; /* whom it waits for, if that was found out */
};

static int open_one(const struct leaver *leaver, struct client *out)
{
    return leaver->local ? local_connect(leaver->local, leaver->slot, out)
                         : client_open(leaver->name, out);
}

/* It is asked itself, by a connection of its own: the first one waits. */
static void find_silent(struct leaver *leaver)
{
    const struct cluster *cluster = leaver->local ? &leaver->local->cluster : NULL;
    struct client other;
    if (open_one(leaver, &other) != 0)
        return;
    leaver->silent = survey_silent(&other, cluster, PROBE_TIMEOUT_NS);
    client_close(&other);
}

/* The goodbye stands, whoever waits for the end of it. */
static int tell_late(const struct leaver *leaver)
{
    return fail(
        EXIT_FAILED,
        "%s was asked to leave, and has not left yet%s%s; it will when the view "
        "changes, see coppice view",
        leaver->name, leaver->silent ? ": no answer from " : "",
        leaver->silent ? leaver->silent : "");
}

static int wait_for_reply(struct client *client, struct leaver *leaver)
{
    cop_time deadline = now_ns() + LEAVE_TIMEOUT_NS;
    struct client_reply reply;
    int error = client_send(client, VERB_LEAVE, NULL);
    if (!error && !client_is_ready(client, QUIET_NS)) {
        find_silent(leaver);
        if (!client_is_ready(client, 0))
            complain("%s has not left yet%s%s", leaver->name,
                     leaver->silent ? ": the view waits for " : "",
                     leaver->silent ? leaver->silent : "");
    }
    cop_time now = now_ns();
    if (!error)
        error = client_receive(client, deadline > now ? deadline - now : 0, &reply);
    return error ? error : reply.status;
}

/* The agent at the other end leaves; until it has, and all others know. */
static int leave(struct client *client, struct leaver *leaver)
{
    const char *name = leaver->name;
    int error = wait_for_reply(client, leaver);
    if (error == COP_EDEGRADED)
        return fail(
            EXIT_REFUSED,
            "%s cannot leave: too few members can be reached to change the view", name);
    if (error == COP_ESTATE)
        return fail(EXIT_REFUSED, "%s is not in the view", name);
    if (error == COP_ETIMEDOUT)
        return tell_late(leaver);
    if (error)
        return fail(EXIT_FAILED, "%s does not leave: %s", name, cop_strerror(error));
    return 0;
}

/* Until the keeper has seen the process end. */
static int wait_for_end(struct local *local, cop_id slot)
{
    cop_time deadline = now_ns() + LEAVE_TIMEOUT_NS;
    for (;;) {
        struct list_reply list;
        int code = local_list(local, &list);
        if (code)
            return code;
        bool is_over = list.members[slot].state == MEMBER_DEAD;
        list_reply_free(&list);
        if (is_over)
            return 0;
        if (now_ns() > deadline)
            return fail(EXIT_FAILED, "it has left, but its process does not end");
        poll(NULL, 0, 1);
    }
}

/* Nobody takes its commands: its process is gone, one way or the other. */
static int explain_silence(struct local *local, cop_id slot, const char *name)
{
    struct list_reply list;
    int code = local_list(local, &list);
    if (code)
        return code;
    bool has_left = local_has_left(&list.members[slot]);
    list_reply_free(&list);
    return fail(EXIT_FAILED, has_left ? "%s has left already" : "%s is dead", name);
}

static int leave_one(struct local *local, cop_id slot)
{
    char name[NODESET_NAME_LENGTH + 1];
    struct client client;
    struct leaver leaver = {.name = name, .local = local, .slot = slot};
    cluster_name(&local->cluster, slot, name);
    if (open_one(&leaver, &client) != 0)
        return explain_silence(local, slot, name);
    int code = leave(&client, &leaver);
    client_close(&client);
    free(leaver.silent);
    return code ? code : wait_for_end(local, slot);
}

static int run_local(const char *cluster, const struct args *args)
{
    struct local local;
    struct cop_ranks slots = {0};
    int code = local_open(cluster, &local);
    if (code)
        return code;
    code = local_select(&local, "leave", args->operands, args->count, &slots);
    for (uint32_t i = 0; i < slots.count && code == 0; i++)
        code = leave_one(&local, slots.items[i]);
    cop_ranks_free(&slots);
    local_close(&local);
    return code;
}

static int run_agent(const char *path)
{
    struct client client;
    struct leaver leaver = {.name = path};
    if (open_one(&leaver, &client) != 0)
        return fail(EXIT_NO_CLUSTER, "no agent takes commands at %s", path);
    int code = leave(&client, &leaver);
    client_close(&client);
    free(leaver.silent);
    return code;
}

int cmd_leave(int argc, char **argv)
{
    const char *name = NULL, *agent = NULL;
    const struct args_option options[] = {
        {0, "name", "NAME", "of the cluster", ARGS_TEXT, &name, 0, 0},
        {0, "agent", "SOCKET", "this agent, not one of a local cluster", ARGS_TEXT,
         &agent, 0, 0},
        {0},
    };
    struct args args = {
        .name = "leave",
        .usage = "[options] MEMBER... | --agent SOCKET",
        .text = "Has members leave with a goodbye: one change of the view, without a\n"
                "detector. Their processes end. Returns when they have left.\n"
                "Exit status: 4 if too few members can be reached to change the view.",
        .options = options,
        .most = INT_MAX,
    };
    struct settings settings;
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    if ((agent != NULL) == (args.count > 0))
        return fail(EXIT_USAGE, "leave: members, or --agent SOCKET (try: coppice help "
                                "leave)");
    if (agent != NULL)
        return run_agent(agent);
    code = local_settings(&settings, name);
    return code ? code : run_local(settings_name(&settings), &args);
}
