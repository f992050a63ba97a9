/* SPDX-License-Identifier: Apache-2.0 */
#include "ask/pick.h"
#include "ask/survey.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/json.h"
#include "term/say.h"

#include <coppice/error.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define SET_TIMEOUT_NS (15 * COP_SEC) /* more than the agent waits, twice */
#define PROBE_TIMEOUT_NS COP_SEC      /* to find out who does not answer */

struct options {
    const char *name, *agent;
    bool as_json;
};

static int explain(struct follow *follow, int error)
{
    const struct cluster *cluster = follow->local ? &follow->local->cluster : NULL;
    char *silent = NULL;
    if (error == COP_ETIMEDOUT)
        silent = survey_silent(&follow->client, cluster, PROBE_TIMEOUT_NS);
    if (silent != NULL) {
        fail(EXIT_FAILED, "group: no answer from %s in time", silent);
        free(silent);
        return EXIT_FAILED;
    }
    if (error == COP_ESTATE || error == COP_EREMOVED)
        return fail(EXIT_REFUSED, "the agent that was asked is not in the view");
    return fail(EXIT_FAILED, "group: %s", cop_strerror(error));
}

/* ---- list ------------------------------------------------------------------------ */

static void print_one(const struct group *group, bool as_json)
{
    struct nodeset set = {0};
    char message[100];
    struct json json;
    uint32_t count = 0;
    if (nodeset_parse(group->text, NULL, &set, message, sizeof message) == 0)
        count = set.count;
    nodeset_free(&set);
    if (!as_json) {
        printf("%-16s %6" PRIu32 "  %s\n", group->name, count, group->text);
        return;
    }
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.group.v1");
    json_put_string(&json, "name", group->name);
    json_put_string(&json, "members", group->text);
    json_put_u64(&json, "count", count);
    json_end_object(&json);
}

static int list(struct follow *follow, const struct options *options,
                const struct args *args)
{
    struct groups groups;
    int code = 0;
    int error = client_groups(&follow->client, &groups);
    if (error)
        return explain(follow, error);
    for (int i = 1; i < args->count && code == 0; i++)
        if (groups_find(&groups, args->operands[i]) == NULL)
            code =
                fail(EXIT_FAILED, "group: there is no group '%s'", args->operands[i]);
    for (int i = 1; i < args->count && code == 0; i++)
        print_one(groups_find(&groups, args->operands[i]), options->as_json);
    for (uint32_t i = 0; i < groups.count && args->count == 1; i++)
        if (groups.items[i].text[0] != '\0')
            print_one(&groups.items[i], options->as_json);
    groups_free(&groups);
    return code;
}

/* ---- set, rm --------------------------------------------------------------------- */

static int tell(struct follow *follow, const char *name, char *text)
{
    struct group group = {.text = text, .origin = COP_ID_NONE};
    struct client_reply reply;
    snprintf(group.name, sizeof group.name, "%s", name);
    if (strlen(text) > GROUPS_TEXT_MAX)
        return fail(EXIT_USAGE, "group: a set has at most %u characters when folded",
                    GROUPS_TEXT_MAX);
    struct cop_buf *body = group_encode(&group);
    int error = body ? client_call(&follow->client, VERB_GROUP_SET, body,
                                   SET_TIMEOUT_NS, &reply)
                     : COP_ENOMEM;
    cop_buf_unref(body);
    if (!error)
        error = reply.status;
    if (error == COP_ETOOBIG)
        return fail(EXIT_FAILED, "group: there are too many groups");
    return error ? explain(follow, error) : 0;
}

/* Several words are one node set. */
static char *join(char *const *words, int count)
{
    char *joined = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&joined, &size);
    for (int i = 0; i < count && out; i++)
        fprintf(out, "%s%s", i > 0 ? "," : "", words[i]);
    return out && fclose(out) == 0 ? joined : NULL;
}

/* As names, so that it means the same when ids are others. */
static int set(struct follow *follow, const struct roll *roll, const struct args *args)
{
    const struct cluster *cluster = follow->local ? &follow->local->cluster : NULL;
    struct cop_ranks ids = {0};
    char *folded = NULL;
    char *text = join(args->operands + 2, args->count - 2);
    int code = text ? pick_ids(follow, roll, text, &ids)
                    : fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    free(text);
    if (code == 0 && ids.count == 0)
        code = fail(EXIT_USAGE, "group: a group has at least one member");
    if (code == 0) {
        folded = roll_fold(roll, cluster, ids.items, ids.count);
        code = folded ? tell(follow, args->operands[1], folded)
                      : fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    }
    free(folded);
    cop_ranks_free(&ids);
    return code;
}

static int remove_all(struct follow *follow, const struct args *args)
{
    struct groups groups;
    char nothing[] = "";
    int code = 0;
    int error = client_groups(&follow->client, &groups);
    if (error)
        return explain(follow, error);
    for (int i = 1; i < args->count && code == 0; i++)
        code =
            groups_find(&groups, args->operands[i]) == NULL
                ? fail(EXIT_FAILED, "group: there is no group '%s'", args->operands[i])
                : tell(follow, args->operands[i], nothing);
    groups_free(&groups);
    return code;
}

/* ---- the command ----------------------------------------------------------------- */

static int check(const struct args *args)
{
    const char *what = args->operands[0];
    bool is_set = strcmp(what, "set") == 0, is_rm = strcmp(what, "rm") == 0;
    if (!is_set && !is_rm && strcmp(what, "list") != 0)
        return fail(EXIT_USAGE, "group: set, list or rm, not '%s'", what);
    if ((is_set && args->count < 3) || (is_rm && args->count < 2))
        return fail(EXIT_USAGE, "group: %s takes a name%s", what,
                    is_set ? " and its members" : "");
    for (int i = 1; i < (is_set ? 2 : args->count); i++)
        if (!groups_is_name(args->operands[i]))
            return fail(EXIT_USAGE,
                        "group: '%s' cannot be the name of a group: " GROUPS_NAME_RULE,
                        args->operands[i]);
    return 0;
}

static int run(struct local *local, const struct options *options,
               const struct args *args)
{
    struct follow follow = {
        .local = local, .agent = options->agent, .command = "group"};
    struct roll roll;
    int code = follow_open(&follow, &roll);
    if (code)
        return code;
    if (strcmp(args->operands[0], "set") == 0)
        code = set(&follow, &roll, args);
    else if (strcmp(args->operands[0], "rm") == 0)
        code = remove_all(&follow, args);
    else
        code = list(&follow, options, args);
    roll_free(&roll);
    follow_close(&follow);
    return code;
}

int cmd_group(int argc, char **argv)
{
    struct options got = {0};
    const struct args_option options[] = {
        {0, "name", "NAME", "of the cluster", ARGS_TEXT, &got.name, 0, 0},
        {0, "agent", "SOCKET", "ask this agent, not one of a local cluster", ARGS_TEXT,
         &got.agent, 0, 0},
        {0, "json", NULL, "list: one object per line: coppice.group.v1", ARGS_FLAG,
         &got.as_json, 0, 0},
        {0},
    };
    struct args args = {
        .name = "group",
        .usage = "set GROUP NODESET... | list [GROUP...] | rm GROUP...",
        .text = "Gives sets of members a name, which all members keep as long as one "
                "of\n"
                "them runs. Where a command takes members, @GROUP stands for them.",
        .options = options,
        .least = 1,
        .most = INT_MAX,
    };
    struct settings settings;
    struct local local;
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    code = check(&args);
    if (code == 0 && got.agent != NULL && got.name != NULL)
        code = fail(EXIT_USAGE, "group: --agent excludes --name");
    if (code)
        return code;
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
