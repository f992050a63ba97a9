/* SPDX-License-Identifier: Apache-2.0 */
#include "args.h"
#include "asker.h"
#include "commands.h"
#include "local.h"

#include <limits.h>

/* Whoever has the latest view of those that came back. */
static cop_id find_latest(const struct local *local, const struct cop_ranks *ids)
{
    cop_id latest = ids->items[0];
    cop_epoch most = 0;
    for (uint32_t i = 0; i < ids->count; i++) {
        struct roll roll;
        if (local_roll(local, ids->items[i], &roll) != 0)
            continue;
        if (cop_view_epoch(roll.view) > most) {
            most = cop_view_epoch(roll.view);
            latest = ids->items[i];
        }
        roll_free(&roll);
    }
    return latest;
}

/*
 * They are in the view; now until the others know. Who is asked from a later view than its
 * own gets that first, so a probe from the latest goes through all of them.
 */
static void settle(const struct local *local, const struct cop_ranks *ids)
{
    const struct probe_command command = {.count = 1, .timeout_ns = 2 * COP_SEC};
    struct client client;
    struct asker asker;
    if (local_connect(local, find_latest(local, ids), &client) != 0)
        return;
    if (asker_run(&client, &command, NULL, NULL, &asker) == 0)
        asker_free(&asker);
    client_close(&client);
}

static int restart(struct local *local, const struct cop_ranks *ids)
{
    int code = local_restart(local, ids);
    if (code == 0)
        settle(local, ids);
    return code;
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
            "when they are in the view again, and all others know.\n"
            "Exit status: 4 if too few members are left to let them in, or the guard "
            "holds "
            "removals.",
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
