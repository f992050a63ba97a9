/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/local.h"
#include "exec/allow.h"
#include "hosts/hosts.h"
#include "hosts/up.h"
#include "net/tls/keys.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/json.h"
#include "term/say.h"

#include <coppice/error.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* What was typed beside the settings. */
struct options {
    uint64_t n, fanout;   /* 0: not typed */
    cop_time patience_ns; /* the same */
    const char *config, *allow_exec;
    bool insecure, keep_going, print, as_json;
};

/* How long hosts may take to start, all of them. */
#define PATIENCE_NS (60 * COP_SEC)
#define FANOUT_MAX 1024u

static void print_result(const struct settings *settings, uint64_t n,
                         const char *transport, const char *failed, cop_time elapsed_ns,
                         bool as_json)
{
    char took[DURATION_SIZE];
    struct json json;
    const char *shape = settings->at[SETTING_shape].value;
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
    json_put_string(&json, "failed", failed);
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

/* ---- on this machine ------------------------------------------------------------- */

/* What was typed and would do nothing is refused: whoever typed it relies on it. */
static int check_here(const char *const flags[SETTINGS_COUNT],
                      const struct options *options, bool is_tcp)
{
    static const enum setting of_hosts[] = {SETTING_user, SETTING_ssh, SETTING_remote,
                                            SETTING_port};
    for (size_t i = 0; i < sizeof of_hosts / sizeof *of_hosts; i++)
        if (flags[of_hosts[i]] != NULL)
            return fail(EXIT_USAGE, "up: --%s is for --hosts, not for -n",
                        setting_key(of_hosts[i]));
    if (options->fanout > 0 || options->patience_ns > 0)
        return fail(EXIT_USAGE, "up: --%s is for --hosts, not for -n",
                    options->fanout > 0 ? "fanout" : "patience");
    if (options->keep_going || options->print)
        return fail(EXIT_USAGE, "up: --keep-going and --print are for --hosts");
    if (options->insecure && !is_tcp)
        return fail(EXIT_USAGE, "up: --insecure is for --transport tcp");
    if (flags[SETTING_key] != NULL && options->insecure)
        return fail(EXIT_USAGE, "up: --key and --insecure exclude each other");
    if (flags[SETTING_key] != NULL && !is_tcp)
        return fail(EXIT_USAGE, "up: --key is for --transport tcp, or --hosts");
    return 0;
}

/*
 * A key that was given is checked before anything is started. Its path is made one for the
 * keeper, which is in another directory.
 */
static int check_key(const char *path, char absolute[PATH_MAX])
{
    struct cop__keys keys;
    char message[400];
    int error = cop__keys_read(path, &keys, message, sizeof message);
    if (error)
        return fail(error == COP_EREFUSED ? EXIT_REFUSED : EXIT_FAILED, "%s", message);
    cop__keys_wipe(&keys);
    return realpath(path, absolute)
               ? 0
               : fail(EXIT_FAILED, "%s: %s", path, strerror(errno));
}

static int run_here(const struct settings *settings,
                    const char *const flags[SETTINGS_COUNT],
                    const struct options *options)
{
    bool is_tcp = settings_is_tcp(settings), has_key = flags[SETTING_key] != NULL;
    char key[PATH_MAX];
    int code = check_here(flags, options, is_tcp);
    if (code == 0 && has_key)
        code = check_key(flags[SETTING_key], key);
    if (code)
        return code;
    if (hosts_is(settings_name(settings)))
        return fail(EXIT_FAILED,
                    "cluster '%s' is up on hosts; choose another --name, or: coppice "
                    "down --name %s",
                    settings_name(settings), settings_name(settings));
    code = check_quorum(settings->at[SETTING_quorum].value, options->n);
    cop_time begun = now_ns();
    const struct keeper_config config = {
        .n = (uint32_t)options->n,
        .guard = settings_guard(settings),
        .shape = settings->at[SETTING_shape].value,
        .quorum = settings->at[SETTING_quorum].value,
        .detector = settings->at[SETTING_detector].value,
        .tcp = is_tcp,
        .insecure = options->insecure,
        .key = has_key ? key : NULL,
        .allow_exec = options->allow_exec,
    };
    if (code == 0)
        code = local_up(settings_name(settings), &config);
    if (code == 0)
        print_result(settings, options->n, is_tcp ? "tcp" : "unix", "",
                     now_ns() - begun, options->as_json);
    return code;
}

/* ---- on hosts -------------------------------------------------------------------- */

static int run_hosts(const struct settings *settings, const struct options *options)
{
    const struct hosts_order order = {
        .settings = settings,
        .allow_exec = options->allow_exec,
        .is_insecure = options->insecure,
        .keep_going = options->keep_going,
        .print = options->print,
        .fanout = options->fanout ? (uint32_t)options->fanout : HOSTS_FANOUT,
        .patience_ns = options->patience_ns ? options->patience_ns : PATIENCE_NS,
    };
    struct hosts_result result;
    cop_time begun = now_ns();
    int code = hosts_up(&order, &result);
    if (result.members > 0)
        print_result(settings, result.members, "tcp",
                     result.failed ? result.failed : "", now_ns() - begun,
                     options->as_json);
    free(result.failed);
    return code;
}

static int run(const char *const flags[SETTINGS_COUNT], const struct options *options)
{
    struct settings settings;
    if (options->config != NULL && setenv("COPPICE_CONF", options->config, 1) != 0)
        return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    int code = settings_load(&settings, flags);
    if (code == 0)
        code = exec_allow_check("up", options->allow_exec);
    if (code)
        return code;
    if (options->n > 0 && flags[SETTING_hosts] != NULL)
        return fail(EXIT_USAGE, "up: -n and --hosts exclude each other");
    if (options->n > 0)
        return run_here(&settings, flags, options);
    if (settings.at[SETTING_hosts].value[0] == '\0')
        return fail(EXIT_USAGE,
                    "up: -n N is needed, or --hosts (try: coppice help up)");
    if (flags[SETTING_transport] != NULL && !settings_is_tcp(&settings))
        return fail(EXIT_USAGE, "up: hosts are reached by TCP, not by Unix sockets");
    return run_hosts(&settings, options);
}

/* ---- the command ----------------------------------------------------------------- */

int cmd_up(int argc, char **argv)
{
    struct options got = {0};
    const char *flags[SETTINGS_COUNT] = {NULL};
    const struct args_option options[] = {
        {'n', "members", "N", "so many processes on this machine", ARGS_NUMBER, &got.n,
         1, KEEPER_MEMBERS_MAX},
        {0, "hosts", "HOSTS", "one on each: a node set, or with a '/' a file of them",
         ARGS_TEXT, &flags[SETTING_hosts], 0, 0},
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
         &got.insecure, 0, 0},
        {0, "guard", "K", "not more than K removals a minute without a report; 0: any",
         ARGS_TEXT, &flags[SETTING_guard], 0, 0},
        {0, "allow-exec", "LIST",
         "who may run commands: members, user:NAME, all or none", ARGS_TEXT,
         &got.allow_exec, 0, 0},
        {0, "config", "FILE", "settings from here, not /etc/coppice/coppice.conf",
         ARGS_TEXT, &got.config, 0, 0},
        {0, "user", "USER", "hosts: log in as this user", ARGS_TEXT,
         &flags[SETTING_user], 0, 0},
        {0, "ssh", "COMMAND", "hosts: the ssh client with its options", ARGS_TEXT,
         &flags[SETTING_ssh], 0, 0},
        {0, "remote", "PATH", "hosts: where the coppice command is there", ARGS_TEXT,
         &flags[SETTING_remote], 0, 0},
        {0, "port", "PORT", "hosts: members listen here (7640)", ARGS_TEXT,
         &flags[SETTING_port], 0, 0},
        {0, "key", "FILE", "of TCP: the key of the cluster; a new one otherwise",
         ARGS_TEXT, &flags[SETTING_key], 0, 0},
        {0, "fanout", "N", "hosts: so many at a time (32)", ARGS_NUMBER, &got.fanout, 1,
         FANOUT_MAX},
        {0, "patience", "TIME", "hosts: so long all may take to start (60s)",
         ARGS_DURATION, &got.patience_ns, 0, 0},
        {0, "keep-going", NULL, "hosts: also without those that fail", ARGS_FLAG,
         &got.keep_going, 0, 0},
        {0, "print", NULL, "hosts: print the file of members, and start nothing",
         ARGS_FLAG, &got.print, 0, 0},
        {0, "json", NULL, "print one object: coppice.up.v1", ARGS_FLAG, &got.as_json, 0,
         0},
        {0},
    };
    struct args args = {
        .name = "up",
        .usage = "-n N | --hosts HOSTS [options]",
        .text = "Starts a cluster of N members on this machine, each a process of its "
                "own,\n"
                "or of one on each of some hosts, by ssh, and returns when all of them "
                "are\n"
                "up. They stay until `coppice down`.",
        .options = options,
    };
    int code;
    return args_parse(&args, argc, argv, &code) ? run(flags, &got) : code;
}
