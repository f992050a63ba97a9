/* SPDX-License-Identifier: Apache-2.0 */
#include "ask/survey.h"
#include "term/args.h"
#include "term/commands.h"

#include <stdio.h>

struct options {
    const char *from, *agent;
    uint64_t count;
    bool as_json;
};

int cmd_probe(int argc, char **argv)
{
    struct options got = {.count = 1};
    const char *flags[SETTINGS_COUNT] = {NULL};
    const struct args_option options[] = {
        {0, "name", "NAME", "of the cluster", ARGS_TEXT, &flags[SETTING_name], 0, 0},
        {0, "from", "MEMBER", "who asks; the lowest that lives otherwise", ARGS_TEXT,
         &got.from, 0, 0},
        {0, "agent", "SOCKET", "ask this agent, not one of a local cluster", ARGS_TEXT,
         &got.agent, 0, 0},
        {'k', "count", "K", "so many probes, one after the other", ARGS_NUMBER,
         &got.count, 1, PROBES_MAX},
        {0, "shape", "SHAPE", "of the tree; the cluster's own otherwise", ARGS_TEXT,
         &flags[SETTING_shape], 0, 0},
        {0, "timeout", "TIME", "of each probe, such as 500ms", ARGS_TEXT,
         &flags[SETTING_timeout], 0, 0},
        {0, "json", NULL, "print one object: coppice.probe.v1", ARGS_FLAG, &got.as_json,
         0, 0},
        {0},
    };
    struct args args = {
        .name = "probe",
        .usage = "[options]",
        .text =
            "Asks every member, in a tree, whether it is there, and prints how many\n"
            "answered, who is dead, who was silent, and how long it took.\n"
            "Exit status: 0 all answered and nobody is dead, 1 otherwise, 3 no such\n"
            "cluster, 4 the member that was asked is not in the view.",
        .options = options,
    };
    struct settings settings;
    struct survey survey = {.command = "probe", .schema = "coppice.probe.v1"};
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    code = settings_load(&settings, flags);
    if (code)
        return code;
    survey.name = settings_name(&settings);
    survey.from = got.from;
    survey.agent = got.agent;
    survey.as_json = got.as_json;
    survey.questions.count = (uint32_t)got.count;
    survey.questions.timeout_ns = settings_timeout(&settings);
    if (flags[SETTING_shape] != NULL)
        snprintf(survey.questions.shape, sizeof survey.questions.shape, "%s",
                 flags[SETTING_shape]);
    return survey_run(&survey);
}
