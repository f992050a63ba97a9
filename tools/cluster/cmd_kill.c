/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/local.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/say.h"

#include <limits.h>
#include <signal.h>
#include <string.h>

/* "KILL", "SIGKILL"; 0 for others. */
static int find_signal(const char *text)
{
    static const struct {
        const char *name;
        int number;
    } signals[] = {{"KILL", SIGKILL}, {"STOP", SIGSTOP}, {"CONT", SIGCONT}};
    if (strncmp(text, "SIG", 3) == 0)
        text += 3;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (strcmp(signals[i].name, text) == 0)
            return signals[i].number;
    return 0;
}

static int run(const char *name, int number, const struct args *args)
{
    struct local local;
    struct cop_ranks ids = {0};
    int code = local_open(name, &local);
    if (code)
        return code;
    code = local_select(&local, "kill", args->operands, args->count, &ids);
    if (code == 0)
        code = local_signal(&local, number, &ids);
    cop_ranks_free(&ids);
    local_close(&local);
    return code;
}

int cmd_kill(int argc, char **argv)
{
    const char *name = NULL, *signal_name = "KILL";
    const struct args_option options[] = {
        {0, "name", "NAME", "of the cluster", ARGS_TEXT, &name, 0, 0},
        {0, "signal", "SIGNAL", "KILL (which is the default), STOP or CONT", ARGS_TEXT,
         &signal_name, 0, 0},
        {0},
    };
    struct args args = {
        .name = "kill",
        .usage = "[options] MEMBER...",
        .text = "Sends members of a local cluster a signal, and returns when it has "
                "had its\n"
                "effect. Members are names, ids or sets: n3, 7, n[0-3,9], '!n[0-9]'.",
        .options = options,
        .least = 1,
        .most = INT_MAX,
    };
    struct settings settings;
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    int number = find_signal(signal_name);
    if (number == 0)
        return fail(EXIT_USAGE, "kill: --signal is KILL, STOP or CONT, not '%s'",
                    signal_name);
    code = local_settings(&settings, name);
    return code ? code : run(settings_name(&settings), number, &args);
}
