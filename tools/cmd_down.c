/* SPDX-License-Identifier: Apache-2.0 */
#include "args.h"
#include "commands.h"
#include "local.h"

int cmd_down(int argc, char **argv)
{
    const char *name = NULL;
    const struct args_option options[] = {
        {0, "name", "NAME", "of the cluster", ARGS_TEXT, &name, 0, 0},
        {0},
    };
    struct args args = {
        .name = "down",
        .usage = "[--name NAME]",
        .text =
            "Stops a local cluster, and returns when its processes and files are gone.",
        .options = options,
    };
    struct settings settings;
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    code = local_settings(&settings, name);
    return code ? code : local_down(settings_name(&settings));
}
