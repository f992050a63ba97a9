/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/crew.h"
#include "cluster/local.h"
#include "talk/procfs.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/json.h"
#include "term/say.h"

#include <coppice/error.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define STATUS_TIMEOUT_NS (5 * COP_SEC)

struct options {
    const char *name, *agent;
    bool as_json, stats;
};

static const char *state_name(enum member_state state)
{
    static const char *const names[] = {"starting", "running", "stopped", "dead",
                                        "unreachable"};
    return names[state];
}

static const char *state_of(const struct member_status *status)
{
    return local_has_left(status) ? "left" : state_name(status->state);
}

static enum colour state_colour(enum member_state state)
{
    static const enum colour colours[] = {YELLOW, GREEN, YELLOW, RED, RED};
    return colours[state];
}

/* ---- rows ------------------------------------------------------------------------ */

/* What is printed of one member. */
struct row {
    char name[NODESET_NAME_LENGTH + 1];
    char address[160];
    char end[64];  /* how it died; "" if it did not */
    char role[16]; /* its rank of work, or "spare"; "" if it is not in the view */
    struct process_use use;
    const struct member_status *status;
    cop_id id;
};

/* What it works as, by the view of one of them. */
static void fill_role(const struct roll *roll, const struct member_status *status,
                      struct row *row)
{
    struct cop_member member;
    if (roll == NULL || cop_view_member(roll->view, status->id, &member) != 0 ||
        member.presence != COP_PRESENT || member.incarnation != status->incarnation)
        return;
    if (member.role == COP_SPARE)
        snprintf(row->role, sizeof row->role, "spare");
    else
        snprintf(row->role, sizeof row->role, "%" PRIu32, member.role);
}

static void fill_row(const struct local *local, const struct list_reply *list,
                     const struct roll *roll, cop_id id, struct row *row)
{
    *row = (struct row){.id = list->members[id].id, .status = &list->members[id]};
    fill_role(roll, row->status, row);
    cluster_name(&local->cluster, id, row->name);
    cluster_address_text(&local->cluster, id, row->address, sizeof row->address);
    if (row->status->state == MEMBER_DEAD)
        crew_print_end(row->status->wait_status, row->end, sizeof row->end);
    else if (local->hosts != NULL)
        row->use = row->status->use;
    else if (!process_use(row->status->pid, &row->use))
        row->use = (struct process_use){0};
}

static void print_row(const struct row *row)
{
    enum member_state state = row->status->state;
    printf("%-10s %s%-9s%s %5s ", row->name, colour(stdout, state_colour(state)),
           state_of(row->status), colour(stdout, PLAIN),
           row->role[0] ? row->role : "-");
    if (state == MEMBER_UNREACHABLE)
        printf("%8s %9s  %s\n", "-", "-", row->address);
    else if (state == MEMBER_DEAD)
        printf("%8s %9s  %s (%s)\n", "-", "-", row->address, row->end);
    else
        printf("%8" PRIu32 " %5" PRIu64 " KiB  %s\n", row->status->pid,
               row->use.private_bytes / 1024, row->address);
}

static void print_json_row(struct json *json, const struct local *local,
                           const struct roll *roll, const struct row *row)
{
    json_begin_object(json);
    json_put_string(json, "schema", "coppice.ps.v1");
    json_put_string(json, "cluster", local->dir.name);
    json_put_string(json, "member", row->name);
    json_key(json, "id");
    if (row->id != COP_ID_NONE)
        json_u64(json, row->id);
    else
        json_null(json);
    json_put_string(json, "state", state_of(row->status));
    json_key(json, "epoch");
    if (roll != NULL)
        json_u64(json, cop_view_epoch(roll->view));
    else
        json_null(json);
    json_put_string(json, "role", row->role[0] ? row->role : NULL);
    json_put_u64(json, "pid", row->status->pid);
    json_put_u64(json, "incarnation", row->status->incarnation);
    json_put_string(json, "address", row->address);
    json_put_u64(json, "private_bytes", row->use.private_bytes);
    json_put_u64(json, "resident_bytes", row->use.resident_bytes);
    json_put_u64(json, "cpu_ns", row->use.cpu_ns);
    json_put_string(json, "end", row->end[0] ? row->end : NULL);
    json_end_object(json);
}

/* Those of a state, as it is printed, if there are any: ", 2 dead (n[3,7])". */
static int print_state(const struct local *local, const struct list_reply *list,
                       const struct cop_ranks *ids, const char *state,
                       const char **separator)
{
    struct cop_ranks some = {0};
    int error = 0;
    for (uint32_t i = 0; i < ids->count && !error; i++)
        if (strcmp(state_of(&list->members[ids->items[i]]), state) == 0)
            error = cop_ranks_push(&some, ids->items[i]);
    char *names = error ? NULL : cluster_fold(&local->cluster, some.items, some.count);
    if (names != NULL && some.count > 0) {
        printf("%s%" PRIu32 " %s", *separator, some.count, state);
        if (strcmp(state, state_name(MEMBER_RUNNING)) != 0)
            printf(" (%s)", names);
        *separator = ", ";
    }
    free(names);
    cop_ranks_free(&some);
    return names ? 0 : fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
}

/* "32 members: 30 running, 2 dead (n[3,7])" */
static int print_summary(const struct local *local, const struct list_reply *list,
                         const struct cop_ranks *ids)
{
    static const char *const states[] = {"starting", "running", "stopped",
                                         "dead",     "left",    "unreachable"};
    const char *separator = " ";
    int code = 0;
    printf("%" PRIu32 " member%s:", ids->count, ids->count == 1 ? "" : "s");
    for (size_t i = 0; i < sizeof states / sizeof *states && code == 0; i++)
        code = print_state(local, list, ids, states[i], &separator);
    putchar('\n');
    return code;
}

static void print_view(const struct local *local, const struct roll *roll)
{
    char root[COP_NAME_MAX + 1];
    if (roll == NULL)
        return;
    roll_name(roll, &local->cluster, cop_view_root(roll->view), root);
    printf("view %" PRIu64 ": %" PRIu32 " member%s, root %s%s\n",
           cop_view_epoch(roll->view), cop_view_size(roll->view),
           cop_view_size(roll->view) == 1 ? "" : "s", root,
           roll->is_degraded ? ", degraded" : "");
}

static int print_members(const struct local *local, const struct list_reply *list,
                         const struct roll *roll, const struct cop_ranks *ids,
                         bool as_json)
{
    struct json json;
    struct row row;
    json_init(&json, stdout);
    if (!as_json)
        printf("%s%-10s %-9s %5s %8s %9s  %s%s\n", colour(stdout, BOLD), "MEMBER",
               "STATE", "ROLE", "PID", "PRIVATE", "ADDRESS", colour(stdout, PLAIN));
    for (uint32_t i = 0; i < ids->count; i++) {
        fill_row(local, list, roll, ids->items[i], &row);
        if (as_json)
            print_json_row(&json, local, roll, &row);
        else
            print_row(&row);
    }
    if (as_json)
        return 0;
    print_view(local, roll);
    return print_summary(local, list, ids);
}

/* ---- statistics ------------------------------------------------------------------ */

static void print_stats(const char *name, char *text, struct json *json, bool as_json)
{
    char *rest = text;
    if (as_json) {
        json_begin_object(json);
        json_put_string(json, "schema", "coppice.stats.v1");
        json_put_string(json, "member", name);
    }
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        char key[64];
        uint64_t value;
        if (sscanf(line, "%63s %" SCNu64, key, &value) != 2)
            continue;
        if (as_json)
            json_put_u64(json, key, value);
        else
            printf("%-10s %-24s %20" PRIu64 "\n", name, key, value);
    }
    if (as_json)
        json_end_object(json);
}

static int print_all_stats(const struct local *local, const struct cop_ranks *ids,
                           bool as_json)
{
    struct json json;
    struct cop_ranks silent = {0};
    int code = 0;
    json_init(&json, stdout);
    for (uint32_t i = 0; i < ids->count && code == 0; i++) {
        char name[NODESET_NAME_LENGTH + 1];
        char *text = local_status(local, ids->items[i]);
        cluster_name(&local->cluster, ids->items[i], name);
        if (text != NULL)
            print_stats(name, text, &json, as_json);
        else if (cop_ranks_push(&silent, ids->items[i]) != 0)
            code = fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
        free(text);
    }
    if (code == 0 && silent.count > 0) {
        char *names = cluster_fold(&local->cluster, silent.items, silent.count);
        code = fail(EXIT_FAILED,
                    "%" PRIu32 " of %" PRIu32 " members did not answer: %s (dead, or "
                    "stopped: coppice ps --name %s says which)",
                    silent.count, ids->count, names ? names : "?", local->dir.name);
        free(names);
    }
    cop_ranks_free(&silent);
    return code;
}

/* Of an agent that is in no local cluster, by its socket. */
static int run_agent(const struct options *options)
{
    struct client client;
    struct client_reply reply;
    struct json json;
    int error = client_open(options->agent, &client);
    if (error)
        return fail(EXIT_NO_CLUSTER, "no agent takes commands at %s", options->agent);
    char *text = NULL;
    if (client_call(&client, VERB_STATUS, NULL, STATUS_TIMEOUT_NS, &reply) == 0 &&
        reply.status == 0)
        text = strndup((const char *)reply.body.data, reply.body.length);
    client_close(&client);
    if (text == NULL)
        return fail(EXIT_FAILED, "%s did not answer", options->agent);
    json_init(&json, stdout);
    print_stats(options->agent, text, &json, options->as_json);
    free(text);
    return 0;
}

/* ---- the command ----------------------------------------------------------------- */

static int select_members(const struct local *local, const struct args *args,
                          struct cop_ranks *out)
{
    if (args->count > 0)
        return local_select(local, "ps", args->operands, args->count, out);
    for (cop_id id = 0; id < cluster_count(&local->cluster); id++)
        if (cop_ranks_push(out, id) != 0)
            return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    return 0;
}

static int run(const char *name, const struct options *options, const struct args *args)
{
    struct local local;
    struct list_reply list = {0};
    struct cop_ranks ids = {0};
    int code = local_open(name, &local);
    if (code)
        return code;
    code = select_members(&local, args, &ids);
    if (code == 0)
        code = local_list(&local, &list);
    if (code == 0 && options->stats) {
        code = print_all_stats(&local, &ids, options->as_json);
    } else if (code == 0) {
        struct roll roll;
        bool has_view = local_any_roll(&local, &roll);
        code = print_members(&local, &list, has_view ? &roll : NULL, &ids,
                             options->as_json);
        if (has_view)
            roll_free(&roll);
    }
    for (uint32_t i = 0; i < list.count && code == 0; i++)
        if (list.members[i].state == MEMBER_UNREACHABLE)
            code = EXIT_FAILED;
    list_reply_free(&list);
    cop_ranks_free(&ids);
    local_close(&local);
    return code;
}

int cmd_ps(int argc, char **argv)
{
    struct options got = {0};
    const struct args_option options[] = {
        {0, "name", "NAME", "of the cluster", ARGS_TEXT, &got.name, 0, 0},
        {0, "stats", NULL, "what the members have counted, instead", ARGS_FLAG,
         &got.stats, 0, 0},
        {0, "agent", "SOCKET", "with --stats: of this agent, not a local cluster",
         ARGS_TEXT, &got.agent, 0, 0},
        {0, "json", NULL, "one object per line: coppice.ps.v1, coppice.stats.v1",
         ARGS_FLAG, &got.as_json, 0, 0},
        {0},
    };
    struct args args = {
        .name = "ps",
        .usage = "[options] [MEMBER...]",
        .text =
            "Lists the members of a local cluster: state, rank of work, process, "
            "private\n"
            "memory and address, and how the dead died; and the view of one of them.",
        .options = options,
        .most = INT_MAX,
    };
    struct settings settings;
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    if (got.agent != NULL && (!got.stats || args.count > 0))
        return fail(EXIT_USAGE, "ps: --agent goes with --stats, and takes no members");
    if (got.agent != NULL)
        return run_agent(&got);
    code = local_settings(&settings, got.name);
    return code ? code : run(settings_name(&settings), &got, &args);
}
