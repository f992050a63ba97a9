/* SPDX-License-Identifier: Apache-2.0 */
#include "host_fold.h"

#include <coppice/error.h>
#include <coppice/filter.h>
#include <string.h>

/* Shares of a whole in tenths; loads and rates in steps of a few powers. */
const char *host_bounds(enum host_metric metric)
{
    if (metric == HOST_CPU || metric == HOST_MEMORY)
        return "bounds=100:200:300:400:500:600:700:800:900";
    if (metric == HOST_LOAD)
        return "bounds=100:250:500:1000:2000:4000:8000:16000:32000";
    return "bounds=1:1000:10000:100000:1000000:10000000:100000000:1000000000:"
           "10000000000";
}

/* Host i is leaf i. */
static int lift_all(const struct cop_filter *filter, struct cop_buf *empty,
                    const struct host_sample *samples, uint32_t count,
                    enum host_metric metric, bool turned, struct cop_buf **out)
{
    struct cop_buf *state = cop_buf_ref(empty);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t value = samples[i].value[metric];
        uint8_t bytes[8];
        struct cop_buf *one, *joined = NULL;
        for (int j = 0; j < 8; j++)
            bytes[j] = (uint8_t)((turned ? 0 - value : value) >> (8 * j));
        struct cop_packet packet = {"i64", i, 0, {bytes, sizeof bytes}};
        int error = cop_filter_lift(filter, empty, &packet, &one);
        if (!error) {
            error = cop_filter_join(filter, state, one, &joined);
            cop_buf_unref(one);
        }
        cop_buf_unref(state);
        if (error)
            return error;
        state = joined;
    }
    *out = state;
    return 0;
}

/* What a filter makes of the metric of all hosts: words of the result. */
static int fold(const char *name, const char *params, const struct host_sample *samples,
                uint32_t count, enum host_metric metric, bool turned, uint64_t *words,
                uint32_t room, uint32_t *used)
{
    const struct cop_filter *filter = cop_filter_find(name);
    struct cop_buf *empty = NULL, *state = NULL, *result = NULL;
    int error = cop_filter_init(filter, "i64", params, &empty);
    if (!error)
        error = lift_all(filter, empty, samples, count, metric, turned, &state);
    if (!error)
        error = cop_filter_result(filter, "i64", state, &result);
    for (*used = 0; !error && *used < room && (*used + 1) * 8 <= result->length;
         (*used)++)
        words[*used] = cop_filter_get_u64(result->data + (size_t)*used * 8);
    cop_buf_unref(empty);
    cop_buf_unref(state);
    cop_buf_unref(result);
    return error;
}

/* The largest, or with `turned` the smallest, beyond the fence. */
static int add_outliers(const struct host_sample *samples, uint32_t count,
                        enum host_metric metric, bool turned, uint64_t fence,
                        struct host_summary *out)
{
    uint64_t words[2 * HOST_EXTREMES];
    uint32_t used;
    int error = fold("top", "k=8", samples, count, metric, turned, words,
                     2 * HOST_EXTREMES, &used);
    for (uint32_t i = 0; !error && i + 1 < used; i += 2) {
        uint64_t value = turned ? 0 - words[i] : words[i];
        if (turned ? value >= fence : value <= fence)
            break;
        out->outlier[out->outliers++] =
            (struct host_extreme){(uint32_t)words[i + 1], value};
    }
    return error;
}

/* A quantile is the middle of a bucket, which may lie beyond all values. */
static uint64_t within(uint64_t value, const struct host_summary *summary)
{
    if (value < summary->least)
        return summary->least;
    return value > summary->most ? summary->most : value;
}

int host_fold(const struct host_sample *samples, uint32_t count,
              enum host_metric metric, struct host_summary *out)
{
    struct host_summary summary = {0};
    uint64_t words[3] = {0};
    uint32_t used;
    int error =
        fold("min", "", samples, count, metric, false, &summary.least, 1, &used);
    if (!error)
        error = fold("max", "", samples, count, metric, false, &summary.most, 1, &used);
    if (!error)
        error = fold("mean", "", samples, count, metric, false, words, 1, &used);
    if (!error)
        memcpy(&summary.mean, words, sizeof summary.mean);
    if (!error)
        error = fold("quantiles", "at=250:500:750", samples, count, metric, false,
                     words, 3, &used);
    summary.low = within(words[0], &summary);
    summary.median = within(words[1], &summary);
    summary.high = within(words[2], &summary);
    if (!error)
        error = fold("histogram", host_bounds(metric), samples, count, metric, false,
                     summary.bucket, HOST_BUCKETS_MAX, &summary.buckets);
    /* And by more than the quartiles may be off. */
    uint64_t far = 3 * (summary.high - summary.low) + summary.high / 64 + 1;
    if (!error)
        error =
            add_outliers(samples, count, metric, false, summary.high + far, &summary);
    if (!error)
        error = add_outliers(samples, count, metric, true,
                             summary.low > far ? summary.low - far : 0, &summary);
    if (!error)
        *out = summary;
    return error;
}
