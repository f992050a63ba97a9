/* SPDX-License-Identifier: Apache-2.0 */
#include "ask/asker.h"
#include "cluster/local.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/say.h"

#include <coppice/error.h>
#include <limits.h>
#include <stdlib.h>

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

static int restart_at_once(struct local *local, const struct cop_ranks *ids)
{
    int code = ids->count > 0 ? local_restart(local, ids) : 0;
    if (code == 0 && ids->count > 0)
        settle(local, ids);
    return code;
}

/* ---- who lets them in ------------------------------------------------------------ */

/* Whoever comes back asks those that run to be let in; where none does it would ask for ever. */
static int check_others(const struct local *local, const struct list_reply *list)
{
    if (local->cluster.quorum == COP_QUORUM_FIXED)
        return 0;
    for (uint32_t i = 0; i < list->count; i++)
        if (list->members[i].state == MEMBER_RUNNING ||
            list->members[i].state == MEMBER_UNREACHABLE)
            return 0;
    return local_nobody(local);
}

/* ---- members that run ------------------------------------------------------------ */

/*
 * Whoever comes back is let in by those who stayed, and these must be enough to change the
 * view. So members that run are restarted in batches, each of which is back before the next
 * is killed; those that do not run anyway are no loss.
 */
static int split(struct local *local, const struct cop_ranks *ids,
                 struct cop_ranks *running, struct cop_ranks *others)
{
    struct list_reply list;
    int code = local_list(local, &list);
    if (code)
        return code;
    int error = 0;
    code = check_others(local, &list);
    for (uint32_t i = 0; i < ids->count && !error && code == 0; i++) {
        bool runs = list.members[ids->items[i]].state == MEMBER_RUNNING;
        error = cop_ranks_push(runs ? running : others, ids->items[i]);
    }
    list_reply_free(&list);
    return error ? fail(EXIT_FAILED, "%s", cop_strerror(error)) : code;
}

/* How many of those in the view run. */
static int count_running(struct local *local, const struct roll *roll, uint32_t *out)
{
    struct list_reply list;
    int code = local_list(local, &list);
    if (code)
        return code;
    *out = 0;
    for (uint32_t i = 0; i < list.count; i++)
        *out += list.members[i].state == MEMBER_RUNNING &&
                cop_view_rank(roll->view, list.members[i].id) != COP_RANK_NONE;
    list_reply_free(&list);
    return 0;
}

/* How many may be killed at once so that the others can still change the view. */
static uint32_t most_at_once(const struct cluster *cluster, uint32_t in_view,
                             uint32_t running)
{
    uint32_t needed = 1;
    if (cluster->quorum == COP_QUORUM_FIXED)
        return UINT32_MAX;
    if (cluster->quorum == COP_QUORUM_MAJORITY)
        needed = in_view / 2 + 1;
    return running > needed ? running - needed : 0;
}

static int count_allowed(struct local *local, uint32_t *out)
{
    struct roll roll;
    uint32_t running;
    *out = 0;
    if (!local_any_roll(local, &roll))
        return 0;
    int code = count_running(local, &roll, &running);
    if (code == 0 && !roll.is_degraded)
        *out = most_at_once(&local->cluster, cop_view_size(roll.view), running);
    roll_free(&roll);
    return code;
}

static int refuse(const struct local *local, const struct cop_ranks *ids)
{
    char *names = cluster_fold(&local->cluster, ids->items, ids->count);
    char way_out[LOCAL_WAY_OUT_SIZE];
    int code = fail(EXIT_REFUSED,
                    "not restarted: %s; too few members would be left to let them in: "
                    "%s",
                    names ? names : "?", local_way_out(local, way_out));
    free(names);
    return code;
}

/* With has:NAMES nobody can do without one of these. */
static int check_has(const struct local *local, const struct cop_ranks *running)
{
    const struct cluster *cluster = &local->cluster;
    struct cop_ranks needed = {0};
    int code = 0;
    for (uint32_t i = 0; cluster->quorum == COP_QUORUM_HAS && i < running->count; i++)
        for (uint32_t k = 0; k < cluster->quorum_ids.count; k++)
            if (running->items[i] == cluster->quorum_ids.items[k] &&
                cop_ranks_push(&needed, running->items[i]) != 0)
                code = fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    if (code == 0 && needed.count > 0)
        code = refuse(local, &needed);
    cop_ranks_free(&needed);
    return code;
}

static int restart_running(struct local *local, const struct cop_ranks *running)
{
    struct progress progress;
    int code = running->count > 0 ? check_has(local, running) : 0;
    progress_begin(&progress);
    for (uint32_t done = 0; done < running->count && code == 0;) {
        struct cop_ranks rest = {.items = running->items + done,
                                 .count = running->count - done};
        uint32_t most;
        progress_show(&progress, "members restarted", done, running->count);
        code = count_allowed(local, &most);
        if (code == 0 && most == 0) {
            progress_end(&progress);
            code = refuse(local, &rest);
        }
        rest.count = rest.count < most ? rest.count : most;
        if (code == 0)
            code = restart_at_once(local, &rest);
        done += rest.count;
    }
    progress_end(&progress);
    return code;
}

static int restart(struct local *local, const struct cop_ranks *ids)
{
    struct cop_ranks running = {0}, others = {0};
    int code = split(local, ids, &running, &others);
    if (code == 0)
        code = restart_at_once(local, &others);
    if (code == 0)
        code = restart_running(local, &running);
    cop_ranks_free(&running);
    cop_ranks_free(&others);
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
            "address and a new incarnation; those that live are killed first, not "
            "more\n"
            "of them at once than the others can let in again. Returns when they are "
            "in\n"
            "the view again, and all others know; on a terminal it says after a "
            "second\n"
            "for whom it waits.\n"
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
