/* SPDX-License-Identifier: Apache-2.0 */
#include "ask/survey.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/say.h"

#include <coppice/coll.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* What rides with the bytes has to fit, too: the head of a call to everybody. */
#define HEAD_BYTES 109u
#define PAYLOAD_MAX (COP_BCAST_MAX - HEAD_BYTES)

struct options {
    const char *from, *agent;
    uint64_t count, bytes;
    bool as_json, histogram;
};

/* The operands, one space between two, or so many bytes. */
static int make_payload(const struct args *args, uint64_t bytes,
                        uint8_t out[PAYLOAD_MAX], struct cop__bytes *payload)
{
    uint32_t used = 0;
    if (bytes > 0 && args->count > 0)
        return fail(EXIT_USAGE, "bcast: --bytes excludes a text");
    for (int i = 0; i < args->count; i++) {
        size_t length = strlen(args->operands[i]);
        if (used + length + (i > 0) > PAYLOAD_MAX)
            return fail(EXIT_USAGE,
                        "bcast: a text has at most %u bytes; coppice put gives "
                        "everybody a file",
                        PAYLOAD_MAX);
        if (i > 0)
            out[used++] = ' ';
        memcpy(out + used, args->operands[i], length);
        used += (uint32_t)length;
    }
    for (; used < bytes; used++)
        out[used] = (uint8_t)used;
    *payload = (struct cop__bytes){out, used};
    return 0;
}

static int run(const struct options *got, const char *const flags[SETTINGS_COUNT],
               const struct args *args)
{
    uint8_t payload[PAYLOAD_MAX];
    struct settings settings;
    struct survey survey = {.command = "bcast",
                            .schema = "coppice.bcast.v1",
                            .from = got->from,
                            .agent = got->agent,
                            .as_json = got->as_json,
                            .histogram = got->histogram,
                            .is_bcast = true};
    int code = settings_load(&settings, flags);
    if (code == 0)
        code = make_payload(args, got->bytes, payload, &survey.payload);
    if (code)
        return code;
    survey.name = settings_name(&settings);
    survey.questions.count = (uint32_t)got->count;
    survey.questions.timeout_ns = settings_timeout(&settings);
    if (flags[SETTING_shape] != NULL)
        snprintf(survey.questions.shape, sizeof survey.questions.shape, "%s",
                 flags[SETTING_shape]);
    return survey_run(&survey);
}

int cmd_bcast(int argc, char **argv)
{
    struct options got = {.count = 1};
    const char *flags[SETTINGS_COUNT] = {NULL};
    const struct args_option options[] = {
        {0, "name", "NAME", "of the cluster", ARGS_TEXT, &flags[SETTING_name], 0, 0},
        {0, "from", "MEMBER", "who sends it; the lowest that lives otherwise",
         ARGS_TEXT, &got.from, 0, 0},
        {0, "agent", "SOCKET", "ask this agent, not one of a local cluster", ARGS_TEXT,
         &got.agent, 0, 0},
        {0, "bytes", "N", "send so many bytes instead of a text", ARGS_NUMBER,
         &got.bytes, 1, PAYLOAD_MAX},
        {'k', "count", "K", "so many times, one after the other", ARGS_NUMBER,
         &got.count, 1, PROBES_MAX},
        {0, "histogram", NULL, "draw how long they took", ARGS_FLAG, &got.histogram, 0,
         0},
        {0, "shape", "SHAPE", "of the tree; the cluster's own otherwise", ARGS_TEXT,
         &flags[SETTING_shape], 0, 0},
        {0, "timeout", "TIME", "of each, such as 500ms", ARGS_TEXT,
         &flags[SETTING_timeout], 0, 0},
        {0, "json", NULL, "print one object: coppice.bcast.v1", ARGS_FLAG, &got.as_json,
         0, 0},
        {0},
    };
    struct args args = {
        .name = "bcast",
        .usage = "[options] [TEXT...]",
        .text =
            "Sends a text, or some bytes, to every member through the tree; each "
            "answers\n"
            "with a check sum. Prints how many have it, who is dead, who was "
            "silent, and\n"
            "how long it took until all answers were back.\n"
            "Exit status: 0 all have it and nobody is dead, 1 otherwise, 3 no such\n"
            "cluster, 4 the member that was asked is not in the view.",
        .options = options,
        .most = INT_MAX,
    };
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    return run(&got, flags, &args);
}
