/* SPDX-License-Identifier: Apache-2.0 */
#include "args.h"
#include "commands.h"
#include "local.h"
#include "say.h"

#include <coppice/error.h>
#include <limits.h>
#include <stdlib.h>

#define RESTART_TIMEOUT_NS (60 * COP_SEC)

/* The keeper answers with those that did not come back. */
static int check_failed(const struct local *local, const struct client_reply *reply)
{
    struct cop_ranks failed = {0};
    uint32_t ignored;
    if (ids_decode(reply->body, &ignored, &failed) != 0)
        return fail(EXIT_FAILED, "the keeper says something unintelligible");
    int code = 0;
    if (failed.count > 0) {
        char *names = cluster_fold(&local->cluster, failed.items, failed.count);
        code = fail(EXIT_FAILED, "could not be started: %s; see %s/log",
                    names ? names : "?", local->dir.path);
        free(names);
    }
    cop_ranks_free(&failed);
    return code;
}

static int restart(struct local *local, const struct cop_ranks *ids)
{
    struct client_reply reply;
    struct cop_buf *body = ids_encode(0, ids->items, ids->count);
    if (body == NULL)
        return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    int code = local_call(local, VERB_RESTART, body, RESTART_TIMEOUT_NS, &reply);
    cop_buf_unref(body);
    return code ? code : check_failed(local, &reply);
}

static int run(const char *name, const struct args *args)
{
    struct local local;
    struct cop_ranks ids = {0};
    int code = local_open(name, &local);
    if (code)
        return code;
    code = local_select(&local, "restart", args->operands, args->count, &ids);
    if (code == 0)
        code = restart(&local, &ids);
    cop_ranks_free(&ids);
    local_close(&local);
    return code;
}

int cmd_restart(int argc, char **argv)
{
    const char *name = NULL;
    const struct args_option options[] = {
        {0, "name", "NAME", "of the cluster", ARGS_TEXT, &name, 0, 0},
        {0},
    };
    struct args args = {
        .name = "restart",
        .usage = "[options] MEMBER...",
        .text =
            "Starts members of a local cluster again, with their old id, name and\n"
            "address and a new incarnation; those that live are killed first. Returns\n"
            "when they are up.",
        .options = options,
        .least = 1,
        .most = INT_MAX,
    };
    struct settings settings;
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    code = local_settings(&settings, name);
    return code ? code : run(settings_name(&settings), &args);
}
