/* SPDX-License-Identifier: Apache-2.0 */
#include "ask/follow.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/say.h"

#include <coppice/error.h>
#include <limits.h>

/* More than a node takes to give up. */
#define DRAIN_TIMEOUT_NS (15 * COP_SEC)

struct options {
    const char *name, *agent;
    bool undo;
};

static int explain(int error, const char *who, bool undo)
{
    if (error == COP_EINVAL)
        return fail(EXIT_REFUSED, "%s is not in the view", who);
    if (error == COP_ELOST)
        return fail(EXIT_REFUSED, "%s is no member any more", who);
    if (error == COP_ETIMEDOUT)
        return fail(EXIT_REFUSED,
                    "%s is not %s: the view does not change just now, see coppice view",
                    who, undo ? "undrained" : "drained");
    return fail(EXIT_FAILED, "%s: %s", who, cop_strerror(error));
}

static int drain_one(struct follow *follow, cop_id id, const char *who, bool undo)
{
    struct client_reply reply;
    struct cop_buf *body = ids_encode(undo, &id, 1);
    if (body == NULL)
        return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    int error = client_send(&follow->client, VERB_DRAIN, body);
    cop_buf_unref(body);
    if (!error)
        follow_wait(follow, COP_SEC, "the view waits for");
    if (!error)
        error = client_receive(&follow->client, DRAIN_TIMEOUT_NS, &reply);
    if (!error)
        error = reply.status;
    return error ? explain(error, who, undo) : 0;
}

/* One after the other: each is a view that all have agreed on before the next. */
static int drain_all(struct follow *follow, const struct roll *roll,
                     const struct cop_ranks *ids, bool undo)
{
    const struct cluster *cluster = follow->local ? &follow->local->cluster : NULL;
    int worst = 0;
    for (uint32_t i = 0; i < ids->count; i++) {
        char name[COP_NAME_MAX + 1];
        roll_name(roll, cluster, ids->items[i], name);
        int code = drain_one(follow, ids->items[i], name, undo);
        worst = worst ? worst : code;
    }
    return worst;
}

/* Members that were typed, as ids of the view. */
static int find_all(const struct local *local, const struct roll *roll,
                    const struct args *args, struct cop_ranks *out)
{
    struct cop_ranks slots = {0};
    int code = 0;
    if (local != NULL)
        code = local_select(local, "drain", args->operands, args->count, &slots);
    uint32_t count = local ? slots.count : (uint32_t)args->count;
    for (uint32_t i = 0; i < count && code == 0; i++) {
        cop_id id = local ? cluster_id(&local->cluster, slots.items[i])
                          : roll_find(roll, NULL, args->operands[i]);
        if (id == COP_ID_NONE)
            code = fail(EXIT_USAGE, "drain: there is no member '%s'",
                        local ? "?" : args->operands[i]);
        else if (cop_ranks_push(out, id) != 0)
            code = fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    }
    cop_ranks_free(&slots);
    return code;
}

static int run(struct local *local, const struct options *options,
               const struct args *args)
{
    struct follow follow = {
        .local = local, .agent = options->agent, .command = "drain"};
    struct roll roll;
    struct cop_ranks ids = {0};
    int code = follow_open(&follow, &roll);
    if (code)
        return code;
    code = find_all(local, &roll, args, &ids);
    if (code == 0)
        code = drain_all(&follow, &roll, &ids, options->undo);
    cop_ranks_free(&ids);
    roll_free(&roll);
    follow_close(&follow);
    return code;
}

int cmd_drain(int argc, char **argv)
{
    struct options got = {0};
    const struct args_option options[] = {
        {0, "name", "NAME", "of the cluster", ARGS_TEXT, &got.name, 0, 0},
        {0, "agent", "SOCKET", "tell this agent, not one of a local cluster", ARGS_TEXT,
         &got.agent, 0, 0},
        {0, "undo", NULL, "they are back: places and watching as before", ARGS_FLAG,
         &got.undo, 0, 0},
        {0},
    };
    struct args args = {
        .name = "drain",
        .usage = "[options] MEMBER...",
        .text = "Makes ready for members to go for a while: they stay members, but "
                "carry\n"
                "nobody in the tree and are not watched, and when they go that is a\n"
                "goodbye. Returns when a view says so.",
        .options = options,
        .least = 1,
        .most = INT_MAX,
    };
    struct settings settings;
    struct local local;
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    if (got.agent != NULL && got.name != NULL)
        return fail(EXIT_USAGE, "drain: --agent excludes --name");
    if (got.agent != NULL)
        return run(NULL, &got, &args);
    code = local_settings(&settings, got.name);
    if (code == 0)
        code = local_open(settings_name(&settings), &local);
    if (code)
        return code;
    code = run(&local, &got, &args);
    local_close(&local);
    return code;
}
