/* SPDX-License-Identifier: Apache-2.0 */
#include "args.h"
#include "commands.h"
#include "exec_allow.h"
#include "json.h"
#include "local.h"
#include "say.h"

#include <inttypes.h>

static void print_result(const struct settings *settings, uint64_t n,
                         cop_time elapsed_ns, bool as_json)
{
    char took[DURATION_SIZE];
    struct json json;
    const char *shape = settings->at[SETTING_shape].value;
    const char *transport = settings->at[SETTING_transport].value;
    if (!as_json) {
        printf("cluster '%s': %" PRIu64 " member%s up in %s (%s, %s)\n",
               settings_name(settings), n, n == 1 ? "" : "s",
               print_duration(elapsed_ns, took), shape, transport);
        return;
    }
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.up.v1");
    json_put_string(&json, "cluster", settings_name(settings));
    json_put_u64(&json, "members", n);
    json_put_string(&json, "shape", shape);
    json_put_string(&json, "transport", transport);
    json_put_u64(&json, "elapsed_ns", elapsed_ns);
    json_end_object(&json);
}

/* A quorum of members that there are not would keep all from starting. */
static int check_quorum(const char *text, uint64_t n)
{
    enum cop_quorum quorum;
    const char *names;
    struct nodeset set = {0};
    char message[200];
    int code = 0;
    if (cluster_parse_quorum(text, &quorum, &names) != 0 || quorum != COP_QUORUM_HAS)
        return 0;
    if (nodeset_parse(names, NULL, &set, message, sizeof message) != 0)
        return fail(EXIT_USAGE, "up: --quorum %s: %s", text, message);
    for (uint32_t i = 0; i < set.count && code == 0; i++) {
        uint64_t id;
        if (set.names[i][0] != 'n' ||
            parse_number(set.names[i] + 1, 0, n - 1, &id) != 0)
            code = fail(EXIT_USAGE, "up: --quorum %s: there is no member '%s'", text,
                        set.names[i]);
    }
    nodeset_free(&set);
    return code;
}

int cmd_up(int argc, char **argv)
{
    uint64_t n = 0;
    bool insecure = false, as_json = false;
    const char *allow_exec = NULL;
    const char *flags[SETTINGS_COUNT] = {NULL};
    const struct args_option options[] = {
        {'n', "members", "N", "how many processes (needed)", ARGS_NUMBER, &n, 1,
         KEEPER_MEMBERS_MAX},
        {0, "shape", "SHAPE", "of the tree, such as radix:4 or knomial:2", ARGS_TEXT,
         &flags[SETTING_shape], 0, 0},
        {0, "name", "NAME", "of the cluster", ARGS_TEXT, &flags[SETTING_name], 0, 0},
        {0, "transport", "unix|tcp", "Unix sockets, or TCP on the loopback", ARGS_TEXT,
         &flags[SETTING_transport], 0, 0},
        {0, "quorum", "QUORUM", "majority, none, has:NAMES, or fixed: no views",
         ARGS_TEXT, &flags[SETTING_quorum], 0, 0},
        {0, "detector", "D", "connection, or ring:100ms,witnesses:2: the silent, too",
         ARGS_TEXT, &flags[SETTING_detector], 0, 0},
        {0, "insecure", NULL, "TCP without encryption, for anybody", ARGS_FLAG,
         &insecure, 0, 0},
        {0, "guard", "K", "not more than K removals a minute without a report; 0: any",
         ARGS_TEXT, &flags[SETTING_guard], 0, 0},
        {0, "allow-exec", "LIST",
         "who may run commands: members, user:NAME, all or none", ARGS_TEXT,
         &allow_exec, 0, 0},
        {0, "json", NULL, "print one object: coppice.up.v1", ARGS_FLAG, &as_json, 0, 0},
        {0},
    };
    struct args args = {
        .name = "up",
        .usage = "-n N [options]",
        .text = "Starts a cluster of N members on this machine, each a process of its "
                "own,\n"
                "and returns when all of them are up. They stay until `coppice down`.",
        .options = options,
    };
    struct settings settings;
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    if (n == 0)
        return fail(EXIT_USAGE, "up: -n N is needed (try: coppice help up)");
    code = settings_load(&settings, flags);
    if (code == 0 && insecure && !settings_is_tcp(&settings))
        code = fail(EXIT_USAGE, "up: --insecure is for --transport tcp");
    if (code == 0)
        code = check_quorum(settings.at[SETTING_quorum].value, n);
    if (code == 0)
        code = exec_allow_check("up", allow_exec);
    cop_time begun = now_ns();
    const struct keeper_config config = {
        .n = (uint32_t)n,
        .guard = code == 0 ? settings_guard(&settings) : 0,
        .shape = settings.at[SETTING_shape].value,
        .quorum = settings.at[SETTING_quorum].value,
        .detector = settings.at[SETTING_detector].value,
        .tcp = code == 0 && settings_is_tcp(&settings),
        .insecure = insecure,
        .allow_exec = allow_exec,
    };
    if (code == 0)
        code = local_up(settings_name(&settings), &config);
    if (code == 0)
        print_result(&settings, n, now_ns() - begun, as_json);
    return code;
}
