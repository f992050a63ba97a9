/* SPDX-License-Identifier: Apache-2.0 */
#include "top/print.h"

#include "term/json.h"
#include "term/say.h"

#include <coppice/error.h>
#include <inttypes.h>
#include <string.h>

#define VALUE_SIZE 24

static const char *print_value(enum cop__host_metric metric, double value,
                               char out[VALUE_SIZE])
{
    static const char *const units[] = {"", "k", "M", "G", "T"};
    if (metric == COP__HOST_LOAD) {
        snprintf(out, VALUE_SIZE, "%.2f", value / 1000);
    } else if (metric == COP__HOST_CPU || metric == COP__HOST_MEMORY) {
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
static void print_spark(FILE *out, const struct host_summary *summary)
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
        fputs((has_utf8() ? blocks : letters)[height], out);
    }
}

static void print_outliers(FILE *out, const struct top_frame *frame,
                           enum cop__host_metric metric,
                           const struct host_summary *summary)
{
    char text[VALUE_SIZE], name[COP_NAME_MAX + 1];
    for (uint32_t i = 0; i < summary->outliers; i++) {
        frame->name(frame->context, summary->outlier[i].host, name);
        fprintf(out, " %s=%s", name,
                print_value(metric, (double)summary->outlier[i].value, text));
    }
}

static void print_row(FILE *out, enum cop__host_metric metric,
                      const struct host_summary *summary)
{
    char text[4][VALUE_SIZE];
    fprintf(out, "%-8s %10s %10s %10s %10s  ", cop__host_metric_names[metric],
            print_value(metric, (double)summary->least, text[0]),
            print_value(metric, (double)summary->median, text[1]),
            print_value(metric, summary->mean, text[2]),
            print_value(metric, (double)summary->most, text[3]));
    print_spark(out, summary);
}

/* ---- forms ----------------------------------------------------------------------- */

static void print_json(FILE *out, const struct top_frame *frame,
                       enum cop__host_metric metric, const struct host_summary *summary)
{
    struct json json;
    char name[COP_NAME_MAX + 1];
    json_init(&json, out);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.top.v1");
    json_put_u64(&json, "hosts", frame->hosts);
    json_put_string(&json, "metric", cop__host_metric_names[metric]);
    json_put_u64(&json, "min", summary->least);
    json_put_u64(&json, "low", summary->low);
    json_put_u64(&json, "median", summary->median);
    json_put_double(&json, "mean", summary->mean, 3);
    json_put_u64(&json, "high", summary->high);
    json_put_u64(&json, "max", summary->most);
    json_put_string(&json, "bounds", strchr(cop__host_bounds(metric), '=') + 1);
    json_key(&json, "histogram");
    json_begin_array(&json);
    for (uint32_t i = 0; i < summary->buckets; i++)
        json_u64(&json, summary->bucket[i]);
    json_end_array(&json);
    json_key(&json, "outliers");
    json_begin_array(&json);
    for (uint32_t i = 0; i < summary->outliers; i++) {
        frame->name(frame->context, summary->outlier[i].host, name);
        json_begin_object(&json);
        json_put_string(&json, "host", name);
        json_put_u64(&json, "value", summary->outlier[i].value);
        json_end_object(&json);
    }
    json_end_array(&json);
    json_put_u64(&json, "wave", frame->wave);
    json_put_bool(&json, "complete", frame->complete);
    json_put_u64(&json, "covered", frame->covered);
    json_put_u64(&json, "members", frame->members);
    json_end_object(&json);
}

static void print_head(FILE *out, const struct top_frame *frame)
{
    fprintf(out, "%" PRIu64 " host%s", frame->hosts, frame->hosts == 1 ? "" : "s");
    if (frame->wave > 0)
        fprintf(out, ", %" PRIu32 " of %" PRIu32 " members, wave %" PRIu64 "%s",
                frame->covered, frame->members, frame->wave,
                frame->complete ? "" : ", not complete");
}

#define COLUMNS "%-8s %10s %10s %10s %10s  %s\n", "", "min", "median", "mean", "max"

static void print_text(FILE *out, const struct top_frame *frame,
                       const struct host_summary *summaries)
{
    print_head(out, frame);
    fprintf(out, "\n" COLUMNS, "histogram and outliers");
    for (enum cop__host_metric metric = 0; metric < COP__HOST_METRICS; metric++) {
        print_row(out, metric, &summaries[metric]);
        print_outliers(out, frame, metric, &summaries[metric]);
        fputc('\n', out);
    }
}

/* The first character of a line is how it looks. */
static void print_screen(FILE *out, const struct top_frame *frame,
                         const struct host_summary *summaries)
{
    fputc(frame->complete ? '*' : '!', out);
    print_head(out, frame);
    fprintf(out, "\n \n*" COLUMNS, "histogram");
    for (enum cop__host_metric metric = 0; metric < COP__HOST_METRICS; metric++) {
        fputc(' ', out);
        print_row(out, metric, &summaries[metric]);
        fputc('\n', out);
    }
    fputs(" \n*unlike the others\n", out);
    for (enum cop__host_metric metric = 0; metric < COP__HOST_METRICS; metric++)
        if (summaries[metric].outliers > 0) {
            fprintf(out, "!%-8s", cop__host_metric_names[metric]);
            print_outliers(out, frame, metric, &summaries[metric]);
            fputc('\n', out);
        }
    fputs(" \n q: quit\n", out);
}

int top_print(FILE *out, enum top_form form, const struct top_frame *frame)
{
    struct host_summary summaries[COP__HOST_METRICS] = {{0}};
    for (enum cop__host_metric metric = 0;
         metric < COP__HOST_METRICS && frame->hosts > 0; metric++) {
        int error = host_summarize(frame->state, metric, &summaries[metric]);
        if (error)
            return error;
    }
    if (form == TOP_TEXT)
        print_text(out, frame, summaries);
    else if (form == TOP_SCREEN)
        print_screen(out, frame, summaries);
    for (enum cop__host_metric metric = 0;
         form == TOP_JSON && metric < COP__HOST_METRICS; metric++)
        print_json(out, frame, metric, &summaries[metric]);
    return 0;
}
