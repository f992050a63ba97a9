/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/local.h"
#include "hosts/run.h"
#include "net/tls/keys.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/json.h"
#include "term/say.h"

#include <coppice/error.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long a member may take to read its key again. */
#define REKEY_TIMEOUT_NS (5 * COP_SEC)
#define LOOK_EVERY_US 10000u

struct options {
    const char *name;
    const char *path;
    bool as_json;
    struct settings settings;
};

static const char *step_name(enum cop__keys_step step)
{
    static const char *const names[] = {"alone", "next", "former"};
    return names[step];
}

/* ---- a file ---------------------------------------------------------------------- */

static void print_keys(const struct cop__keys *keys, const struct options *options)
{
    bool has_other = keys->step != COP__KEYS_ALONE;
    struct json json;
    if (!options->as_json) {
        printf("use     %s\n", keys->use.id);
        if (has_other)
            printf("%-7s %s\n", step_name(keys->step), keys->other.id);
        return;
    }
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.key.v1");
    json_put_string(&json, "file", options->path);
    json_put_string(&json, "use", keys->use.id);
    json_put_string(&json, "step", step_name(keys->step));
    json_put_string(&json, "other", has_other ? keys->other.id : "");
    json_end_object(&json);
}

static int read_keys(const struct options *options, struct cop__keys *out)
{
    char message[400];
    int error = cop__keys_read(options->path, out, message, sizeof message);
    if (error)
        return fail(error == COP_EREFUSED ? EXIT_REFUSED : EXIT_FAILED, "%s", message);
    return 0;
}

static int write_keys(const struct options *options, const struct cop__keys *keys,
                      bool is_new)
{
    char message[400];
    if (cop__keys_write(options->path, keys, is_new, message, sizeof message) != 0)
        return fail(EXIT_FAILED, "%s", message);
    return 0;
}

static int key_new(const struct options *options)
{
    struct cop__keys keys = {.step = COP__KEYS_ALONE};
    if (cop__key_make(&keys.use) != 0)
        return fail(EXIT_FAILED, "there are no random numbers");
    int code = write_keys(options, &keys, true);
    if (code == 0)
        print_keys(&keys, options);
    cop__keys_wipe(&keys);
    return code;
}

static int key_show(const struct options *options)
{
    struct cop__keys keys;
    int code = read_keys(options, &keys);
    if (code)
        return code;
    print_keys(&keys, options);
    cop__keys_wipe(&keys);
    return 0;
}

static int rotate_once(const struct options *options, struct cop__keys *keys)
{
    if (cop__keys_rotate(keys) != 0)
        return fail(EXIT_FAILED, "there are no random numbers");
    return write_keys(options, keys, false);
}

/* ---- a local cluster ------------------------------------------------------------- */

/* Whether a member that could not be asked has ended meanwhile. */
static bool is_gone(struct local *local, cop_id slot)
{
    struct list_reply list;
    if (local_list(local, &list) != 0)
        return true;
    bool is = slot >= list.count || list.members[slot].pid == 0;
    list_reply_free(&list);
    return is;
}

/* One member reads its key again. One that has just been started may not listen yet. */
static int rekey(struct local *local, cop_id slot)
{
    cop_time deadline = now_ns() + REKEY_TIMEOUT_NS;
    int error;
    do {
        struct client client;
        struct client_reply reply;
        error = local_connect(local, slot, &client);
        if (error == 0) {
            error = client_call(&client, VERB_REKEY, NULL, REKEY_TIMEOUT_NS, &reply);
            if (error == 0)
                error = reply.status;
            client_close(&client);
        }
        if (error == 0 || is_gone(local, slot))
            return 0;
        usleep(LOOK_EVERY_US);
    } while (now_ns() < deadline);
    return error;
}

/* Everybody who runs now reads the file; who is started from now on does so anyway. */
static int rekey_all(struct local *local)
{
    struct list_reply list;
    int code = local->hosts ? hosts_push_key(local) : 0;
    if (code)
        return code;
    code = local_list(local, &list);
    for (cop_id slot = 0; code == 0 && slot < list.count; slot++) {
        if (list.members[slot].pid == 0)
            continue;
        int error = rekey(local, slot);
        if (error)
            code =
                fail(EXIT_FAILED,
                     "%s of '%s' did not read its key again: %s; nothing is lost: "
                     "run this again when it does",
                     list.members[slot].name[0] ? list.members[slot].name : "a member",
                     local->dir.name, cop_strerror(error));
    }
    if (code == 0)
        list_reply_free(&list);
    return code;
}

/* Whatever step an earlier run was stopped at, this one goes on from there. */
static int rotate_cluster(struct local *local, const struct options *options)
{
    struct cop__keys keys;
    int code = read_keys(options, &keys);
    if (code)
        return code;
    do {
        code = rekey_all(local);
        if (code == 0)
            code = rotate_once(options, &keys);
    } while (code == 0 && keys.step != COP__KEYS_ALONE);
    if (code == 0)
        code = rekey_all(local);
    if (code == 0)
        print_keys(&keys, options);
    cop__keys_wipe(&keys);
    return code;
}

/* Whether everybody in the view uses the key of the file. */
static int check_cluster(struct local *local, const struct options *options)
{
    struct cop__keys keys;
    char wanted[64];
    cop_id others = 0, asked = 0;
    int code = read_keys(options, &keys);
    if (code)
        return code;
    snprintf(wanted, sizeof wanted, "key %s", keys.use.id);
    for (cop_id slot = 0; slot < cluster_count(&local->cluster); slot++) {
        struct roll roll;
        if (local_roll(local, slot, &roll) != 0)
            continue;
        asked++;
        others += strcmp(roll.security, wanted) != 0;
        roll_free(&roll);
    }
    print_keys(&keys, options);
    cop__keys_wipe(&keys);
    if (others > 0)
        return fail(EXIT_FAILED, "%u of %u members use another key: coppice key rotate",
                    others, asked);
    return 0;
}

static int run_local(const struct options *options, bool is_check)
{
    struct options own = *options;
    char path[PATH_MAX + 16];
    struct local local;
    int code = local_open(options->name, &local);
    if (code)
        return code;
    snprintf(path, sizeof path, "%s/" KEEPER_KEY,
             local.hosts ? local.hosts->path : local.dir.path);
    own.path = path;
    if (access(path, F_OK) != 0)
        code = fail(EXIT_USAGE,
                    "cluster '%s' has no key: it does not use TCP, or is "
                    "--insecure",
                    options->name);
    else
        code = is_check ? check_cluster(&local, &own) : rotate_cluster(&local, &own);
    local_close(&local);
    return code;
}

/* ---- the command ----------------------------------------------------------------- */

/* The file that was named, or that is set; "" if neither. */
static int find_path(struct options *options, const char *operand)
{
    const char *flags[SETTINGS_COUNT] = {[SETTING_key] = operand};
    int code = settings_load(&options->settings, flags);
    options->path = options->settings.at[SETTING_key].value;
    return code;
}

static int run(struct options *options, const char *verb)
{
    bool is_check = strcmp(verb, "check") == 0;
    bool is_rotate = strcmp(verb, "rotate") == 0;
    struct cop__keys keys;
    if (options->name != NULL && (is_check || is_rotate))
        return run_local(options, is_check);
    if (options->name != NULL)
        return fail(EXIT_USAGE, "key: --name is for check and rotate");
    if (options->path[0] == '\0')
        return fail(EXIT_USAGE, "key: which file? (try: coppice help key)");
    if (strcmp(verb, "new") == 0)
        return key_new(options);
    if (strcmp(verb, "show") == 0 || is_check)
        return key_show(options);
    if (!is_rotate)
        return fail(EXIT_USAGE, "key: new, show, check or rotate, not '%s'", verb);
    int code = read_keys(options, &keys);
    if (code)
        return code;
    code = rotate_once(options, &keys);
    if (code == 0)
        print_keys(&keys, options);
    cop__keys_wipe(&keys);
    return code;
}

int cmd_key(int argc, char **argv)
{
    struct options got = {0};
    const struct args_option options[] = {
        {0, "name", "NAME", "check, rotate: the key of this local cluster", ARGS_TEXT,
         &got.name, 0, 0},
        {0, "json", NULL, "print one object: coppice.key.v1", ARGS_FLAG, &got.as_json,
         0, 0},
        {0},
    };
    struct args args = {
        .name = "key",
        .usage = "new|show|check|rotate [options] [FILE]",
        .text =
            "Makes a key for the members of a cluster that use TCP, says what is in a\n"
            "file, and takes the next of three steps from one key to another:\n"
            "accept the new one, use it, forget the old one. All members must have\n"
            "taken a step (by SIGHUP) before the next. With --name all of it is done.\n"
            "Keys are never printed, only their names.",
        .options = options,
        .least = 1,
        .most = 2,
    };
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    if (got.name != NULL && args.count == 2)
        return fail(EXIT_USAGE, "key: --name and FILE exclude each other");
    code = find_path(&got, args.count == 2 ? args.operands[1] : NULL);
    return code ? code : run(&got, args.operands[0]);
}
