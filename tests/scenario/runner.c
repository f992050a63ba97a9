/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/sim.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Runs a scenario and compares its transcript with the expected one:
 *
 *   scenario_runner NAME.scn NAME.expected
 *
 * With UPDATE=1 in the environment the expected transcript is written instead, so that a
 * review reads a change of the protocol as a difference of transcripts.
 */
struct transcript {
    FILE *out;
};

static void on_trace(void *context, const char *line)
{
    const struct transcript *transcript = context;
    fprintf(transcript->out, "%s\n", line);
}

static char *read_file(const char *path)
{
    FILE *in = fopen(path, "r");
    if (!in)
        return NULL;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    for (int c; out && (c = getc(in)) != EOF;)
        putc(c, out);
    bool failed = !out || ferror(in) || ferror(out);
    if (out && fclose(out) != 0)
        failed = true;
    fclose(in);
    if (failed) {
        free(text);
        return NULL;
    }
    return text;
}

/* The transcript of a script, to be freed; NULL after saying why there is none. */
static char *run(const char *path)
{
    struct cop_sim_script script;
    struct cop_sim_report report;
    char message[256];
    char *text = read_file(path);
    if (!text) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return NULL;
    }
    int error = cop_sim_script_parse(text, &script, message, sizeof(message));
    free(text);
    if (error) {
        fprintf(stderr, "%s: %s\n", path, message);
        return NULL;
    }
    char *out = NULL;
    size_t length = 0;
    struct transcript transcript = {open_memstream(&out, &length)};
    if (!transcript.out) {
        cop_sim_script_free(&script);
        return NULL;
    }
    script.config.trace = on_trace;
    script.config.context = &transcript;
    error = cop_sim_script_run(&script, &report);
    cop_sim_script_free(&script);
    fprintf(transcript.out, "%s\n",
            error               ? cop_strerror(error)
            : report.failure[0] ? report.failure
                                : "all holds");
    if (fclose(transcript.out) != 0) {
        free(out);
        return NULL;
    }
    return out;
}

static int update(const char *path, const char *transcript)
{
    FILE *out = fopen(path, "w");
    if (!out || fputs(transcript, out) == EOF || fclose(out) != 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }
    return 0;
}

/* Shows the first line that differs. */
static int compare(const char *path, const char *expected, const char *got)
{
    unsigned line = 1;
    for (; *expected && *expected == *got; expected++, got++)
        line += *got == '\n';
    if (*expected == *got)
        return 0;
    while (line > 1 && got[-1] != '\n') {
        expected--;
        got--;
    }
    fprintf(stderr, "%s:%u: the transcript differs (UPDATE=1 writes the new one)\n",
            path, line);
    fprintf(stderr, "expected: %.*s\n", (int)strcspn(expected, "\n"), expected);
    fprintf(stderr, "     got: %.*s\n", (int)strcspn(got, "\n"), got);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s NAME.scn NAME.expected\n", argv[0]);
        return 2;
    }
    char *transcript = run(argv[1]);
    if (!transcript)
        return 1;
    const char *wish = getenv("UPDATE");
    int code;
    if (wish && strcmp(wish, "1") == 0) {
        code = update(argv[2], transcript);
    } else {
        char *expected = read_file(argv[2]);
        if (!expected)
            fprintf(stderr, "%s: %s\n", argv[2], strerror(errno));
        code = expected ? compare(argv[2], expected, transcript) : 1;
        free(expected);
    }
    free(transcript);
    return code;
}
