/* SPDX-License-Identifier: Apache-2.0 */
#include "hosts/run.h"
#include "term/args.h"
#include "term/commands.h"

int cmd_down(int argc, char **argv)
{
    const char *name = NULL;
    bool force = false;
    const struct args_option options[] = {
        {0, "name", "NAME", "of the cluster", ARGS_TEXT, &name, 0, 0},
        {0, "force", NULL, "forget hosts that cannot be reached", ARGS_FLAG, &force, 0,
         0},
        {0},
    };
    struct args args = {
        .name = "down",
        .usage = "[options]",
        .text =
            "Stops a cluster that was started here, on this machine or on hosts, and\n"
            "returns when its processes and files are gone. Hosts that cannot be "
            "reached\n"
            "are named, and the others go on.",
        .options = options,
    };
    struct settings settings;
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    code = local_settings(&settings, name);
    if (code)
        return code;
    const char *which = settings_name(&settings);
    return hosts_is(which) ? hosts_down(which, force) : local_down(which);
}
