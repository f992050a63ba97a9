/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/settings.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/json.h"

static void print_json(const struct settings *settings)
{
    struct json json;
    json_init(&json, stdout);
    for (enum setting i = 0; i < SETTINGS_COUNT; i++) {
        json_begin_object(&json);
        json_put_string(&json, "schema", "coppice.config.v1");
        json_put_string(&json, "setting", setting_key(i));
        json_put_string(&json, "value", settings->at[i].value);
        json_put_string(&json, "origin", settings->at[i].origin);
        json_end_object(&json);
    }
}

static void print_table(const struct settings *settings)
{
    for (enum setting i = 0; i < SETTINGS_COUNT; i++)
        printf("%-10s %-16s %s\n", setting_key(i), settings->at[i].value,
               settings->at[i].origin);
}

int cmd_config(int argc, char **argv)
{
    bool as_json = false;
    const char *flags[SETTINGS_COUNT] = {NULL};
    const struct args_option options[] = {
        {0, "name", "NAME", "as another command would get it", ARGS_TEXT,
         &flags[SETTING_name], 0, 0},
        {0, "shape", "SHAPE", "the same", ARGS_TEXT, &flags[SETTING_shape], 0, 0},
        {0, "transport", "T", "the same", ARGS_TEXT, &flags[SETTING_transport], 0, 0},
        {0, "timeout", "TIME", "the same", ARGS_TEXT, &flags[SETTING_timeout], 0, 0},
        {0, "quorum", "QUORUM", "the same", ARGS_TEXT, &flags[SETTING_quorum], 0, 0},
        {0, "detector", "D", "the same", ARGS_TEXT, &flags[SETTING_detector], 0, 0},
        {0, "key", "FILE", "the same", ARGS_TEXT, &flags[SETTING_key], 0, 0},
        {0, "guard", "K", "the same", ARGS_TEXT, &flags[SETTING_guard], 0, 0},
        {0, "hosts", "HOSTS", "the same", ARGS_TEXT, &flags[SETTING_hosts], 0, 0},
        {0, "user", "USER", "the same", ARGS_TEXT, &flags[SETTING_user], 0, 0},
        {0, "ssh", "COMMAND", "the same", ARGS_TEXT, &flags[SETTING_ssh], 0, 0},
        {0, "remote", "PATH", "the same", ARGS_TEXT, &flags[SETTING_remote], 0, 0},
        {0, "port", "PORT", "the same", ARGS_TEXT, &flags[SETTING_port], 0, 0},
        {0, "json", NULL, "one object per line: coppice.config.v1", ARGS_FLAG, &as_json,
         0, 0},
        {0},
    };
    struct args args = {
        .name = "config",
        .usage = "[options]",
        .text =
            "Prints every setting, its value, and where that comes from: a flag, a\n"
            "COPPICE_* variable, /etc/coppice/coppice.conf or the default.",
        .options = options,
    };
    struct settings settings;
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    code = settings_load(&settings, flags);
    if (code)
        return code;
    if (as_json)
        print_json(&settings);
    else
        print_table(&settings);
    return EXIT_DONE;
}
