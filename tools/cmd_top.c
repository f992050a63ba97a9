/* SPDX-License-Identifier: Apache-2.0 */
#include "args.h"
#include "commands.h"
#include "host_fold.h"
#include "json.h"
#include "say.h"

#include <coppice/error.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options {
    bool once, json, sample;
    const char *read;
    cop_time interval_ns;
};

struct hosts {
    struct host_sample *at;
    uint32_t count, room;
};

/* Of two from the same machine one counts: many agents may have looked at it. */
static int add_host(struct hosts *hosts, const struct host_sample *sample)
{
    for (uint32_t i = 0; i < hosts->count; i++)
        if (strcmp(hosts->at[i].key, sample->key) == 0)
            return 0;
    if (hosts->count == hosts->room) {
        uint32_t room = 2 * hosts->room + 8;
        struct host_sample *larger = realloc(hosts->at, room * sizeof *larger);
        if (larger == NULL)
            return COP_ENOMEM;
        hosts->at = larger;
        hosts->room = room;
    }
    hosts->at[hosts->count++] = *sample;
    return 0;
}

/* ---- where samples come from ----------------------------------------------------- */

static int read_lines(FILE *in, const char *path, struct hosts *hosts)
{
    char *line = NULL;
    size_t room = 0;
    int code = 0;
    for (uint32_t number = 1; code == 0 && getline(&line, &room, in) >= 0; number++) {
        struct host_sample sample;
        int error = host_sample_parse(line, &sample);
        if (error == COP_ENOENT)
            continue; /* somebody else's line */
        if (error == 0)
            error = add_host(hosts, &sample);
        if (error)
            code = fail(error == COP_ENOMEM ? EXIT_FAILED : EXIT_USAGE,
                        "top: line %u of %s: %s", (unsigned)number, path,
                        cop_strerror(error));
    }
    free(line);
    return code;
}

static int read_file(const char *path, struct hosts *hosts)
{
    bool is_input = strcmp(path, "-") == 0;
    FILE *in = is_input ? stdin : fopen(path, "re");
    if (in == NULL)
        return fail(EXIT_USAGE, "top: cannot read %s: %s", path, strerror(errno));
    int code = read_lines(in, path, hosts);
    if (!is_input)
        fclose(in);
    if (code == 0 && hosts->count == 0)
        code = fail(EXIT_FAILED, "top: no line of 'coppice top --sample' in %s", path);
    return code;
}

static int gather(const struct options *options, struct hosts *hosts)
{
    struct host_sample sample;
    if (options->read)
        return read_file(options->read, hosts);
    int error = host_sample_take(options->interval_ns, &sample);
    if (error)
        return fail(EXIT_FAILED, "top: /proc cannot be read: %s", strerror(errno));
    error = add_host(hosts, &sample);
    return error ? fail(EXIT_FAILED, "%s", cop_strerror(error)) : 0;
}

/* ---- showing ---------------------------------------------------------------------- */

#define VALUE_SIZE 24

static const char *print_value(enum host_metric metric, double value,
                               char out[VALUE_SIZE])
{
    static const char *const units[] = {"", "k", "M", "G", "T"};
    if (metric == HOST_LOAD) {
        snprintf(out, VALUE_SIZE, "%.2f", value / 1000);
    } else if (metric == HOST_CPU || metric == HOST_MEMORY) {
        snprintf(out, VALUE_SIZE, "%.1f%%", value / 10);
    } else {
        uint32_t unit = 0;
        for (; value >= 1000 && unit < 4; unit++)
            value /= 1000;
        snprintf(out, VALUE_SIZE, "%.3g%sB/s", value, units[unit]);
    }
    return out;
}

/* A column for each bucket, as high as it has hosts. */
static void print_spark(const struct host_summary *summary)
{
    static const char *const blocks[] = {" ",      "\u2581", "\u2582",
                                         "\u2583", "\u2584", "\u2585",
                                         "\u2586", "\u2587", "\u2588"};
    static const char *const letters[] = {" ", ".", ".", ":", ":", "|", "|", "#", "#"};
    uint64_t most = 1;
    for (uint32_t i = 0; i < summary->buckets; i++)
        most = summary->bucket[i] > most ? summary->bucket[i] : most;
    for (uint32_t i = 0; i < summary->buckets; i++) {
        uint64_t height = (summary->bucket[i] * 8 + most - 1) / most;
        fputs((has_utf8() ? blocks : letters)[height], stdout);
    }
}

static void print_row(const struct hosts *hosts, enum host_metric metric,
                      const struct host_summary *summary)
{
    char text[4][VALUE_SIZE];
    printf("%-8s %10s %10s %10s %10s  ", host_metric_names[metric],
           print_value(metric, (double)summary->least, text[0]),
           print_value(metric, (double)summary->median, text[1]),
           print_value(metric, summary->mean, text[2]),
           print_value(metric, (double)summary->most, text[3]));
    print_spark(summary);
    for (uint32_t i = 0; i < summary->outliers; i++)
        printf(" %s=%s", hosts->at[summary->outlier[i].host].host,
               print_value(metric, (double)summary->outlier[i].value, text[0]));
    printf("\n");
}

static void print_json(const struct hosts *hosts, enum host_metric metric,
                       const struct host_summary *summary)
{
    struct json json;
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.top.v1");
    json_put_u64(&json, "hosts", hosts->count);
    json_put_string(&json, "metric", host_metric_names[metric]);
    json_put_u64(&json, "min", summary->least);
    json_put_u64(&json, "low", summary->low);
    json_put_u64(&json, "median", summary->median);
    json_put_double(&json, "mean", summary->mean, 3);
    json_put_u64(&json, "high", summary->high);
    json_put_u64(&json, "max", summary->most);
    json_put_string(&json, "bounds", strchr(host_bounds(metric), '=') + 1);
    json_key(&json, "histogram");
    json_begin_array(&json);
    for (uint32_t i = 0; i < summary->buckets; i++)
        json_u64(&json, summary->bucket[i]);
    json_end_array(&json);
    json_key(&json, "outliers");
    json_begin_array(&json);
    for (uint32_t i = 0; i < summary->outliers; i++) {
        json_begin_object(&json);
        json_put_string(&json, "host", hosts->at[summary->outlier[i].host].host);
        json_put_u64(&json, "value", summary->outlier[i].value);
        json_end_object(&json);
    }
    json_end_array(&json);
    json_end_object(&json);
}

static int show(const struct options *options, const struct hosts *hosts)
{
    if (!options->json) {
        if (!options->once && isatty(STDOUT_FILENO))
            fputs("\033[H\033[2J", stdout);
        printf("%u host%s\n%-8s %10s %10s %10s %10s  %s\n", (unsigned)hosts->count,
               hosts->count == 1 ? "" : "s", "", "min", "median", "mean", "max",
               "histogram and outliers");
    }
    for (enum host_metric metric = 0; metric < HOST_METRICS; metric++) {
        struct host_summary summary;
        int error = host_fold(hosts->at, hosts->count, metric, &summary);
        if (error)
            return fail(EXIT_FAILED, "top: %s", cop_strerror(error));
        (options->json ? print_json : print_row)(hosts, metric, &summary);
    }
    return fflush(stdout) == 0 ? 0 : EXIT_FAILED;
}

static int run(const struct options *options)
{
    int code;
    do {
        struct hosts hosts = {0};
        code = gather(options, &hosts);
        if (code == 0 && options->sample) {
            char line[HOST_LINE_MAX];
            host_sample_print(&hosts.at[0], line);
            printf("%s\n", line);
        } else if (code == 0) {
            code = show(options, &hosts);
        }
        free(hosts.at);
    } while (code == 0 && !options->once && !options->sample && !options->read);
    return code;
}

int cmd_top(int argc, char **argv)
{
    struct options options = {.interval_ns = COP_SEC};
    const struct args_option table[] = {
        {0, "once", NULL, "one look, then end", ARGS_FLAG, &options.once, 0, 0},
        {0, "interval", "TIME", "over which rates are taken (1s)", ARGS_DURATION,
         &options.interval_ns, 0, 0},
        {0, "sample", NULL, "print this host as a line for --read", ARGS_FLAG,
         &options.sample, 0, 0},
        {0, "read", "FILE", "hosts from lines of --sample; -: standard input",
         ARGS_TEXT, &options.read, 0, 0},
        {0, "json", NULL, "one object per metric: coppice.top.v1", ARGS_FLAG,
         &options.json, 0, 0},
        {0},
    };
    struct args args = {
        .name = "top",
        .usage = "[options]",
        .text =
            "Shows load, CPU, memory and network of this host, or of all hosts whose\n"
            "samples are read: least, median, mean, most, how they are spread, and "
            "who\n"
            "lies far from the others. A host that was sampled twice counts once.",
        .options = table,
    };
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    if (options.sample && options.read)
        return fail(EXIT_USAGE,
                    "top: --sample prints this host, --read reads others; not both");
    return run(&options);
}
