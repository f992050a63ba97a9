/* SPDX-License-Identifier: Apache-2.0 */
#include "top/host_fold.h"

#include <coppice/error.h>
#include <string.h>

static int lift(const struct cop_filter *filter, const struct cop_buf *empty,
                cop_id leaf, const struct host_sample *sample, struct cop_buf **out)
{
    uint8_t bytes[8 * COP__HOST_METRICS];
    for (uint32_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(sample->value[i / 8] >> (8 * (i % 8)));
    struct cop_packet packet = {"bytes", leaf, 0, {bytes, sizeof bytes}};
    return cop_filter_lift(filter, empty, &packet, out);
}

int host_fold(const struct host_sample *samples, uint32_t count, struct cop_buf **out)
{
    const struct cop_filter *filter = cop_filter_find("hosts");
    struct cop_buf *empty, *state;
    int error = cop_filter_init(filter, "bytes", "", &empty);
    if (error)
        return error;
    state = cop_buf_ref(empty);
    for (uint32_t i = 0; i < count && !error; i++) {
        struct cop_buf *one, *joined = NULL;
        error = lift(filter, empty, i, &samples[i], &one);
        if (error)
            break;
        error = cop_filter_join(filter, state, one, &joined);
        cop_buf_unref(one);
        if (!error) {
            cop_buf_unref(state);
            state = joined;
        }
    }
    cop_buf_unref(empty);
    if (error)
        cop_buf_unref(state);
    else
        *out = state;
    return error;
}

/* ---- what it says ---------------------------------------------------------------- */

int host_count(struct cop_span state, uint64_t *out)
{
    uint32_t used;
    *out = 0;
    return cop__hosts_words(state, COP__HOST_LOAD, COP__PART_COUNT, out, 1, &used);
}

/* The largest, or the smallest, beyond the fence. */
static int add_outliers(struct cop_span state, enum cop__host_metric metric,
                        enum cop__host_part part, uint64_t fence,
                        struct host_summary *out)
{
    bool turned = part == COP__PART_SMALLEST;
    uint64_t words[2 * HOST_EXTREMES];
    uint32_t used;
    int error = cop__hosts_words(state, metric, part, words, 2 * HOST_EXTREMES, &used);
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

static int read_middle(struct cop_span state, enum cop__host_metric metric,
                       struct host_summary *out)
{
    uint64_t words[3] = {0}, mean = 0;
    uint32_t used;
    int error = cop__hosts_words(state, metric, COP__PART_MIN, &out->least, 1, &used);
    if (!error)
        error = cop__hosts_words(state, metric, COP__PART_MAX, &out->most, 1, &used);
    if (!error)
        error = cop__hosts_words(state, metric, COP__PART_MEAN, &mean, 1, &used);
    memcpy(&out->mean, &mean, sizeof out->mean);
    if (!error)
        error = cop__hosts_words(state, metric, COP__PART_QUARTILES, words, 3, &used);
    out->low = within(words[0], out);
    out->median = within(words[1], out);
    out->high = within(words[2], out);
    return error;
}

int host_summarize(struct cop_span state, enum cop__host_metric metric,
                   struct host_summary *out)
{
    struct host_summary summary = {0};
    int error = read_middle(state, metric, &summary);
    if (!error)
        error = cop__hosts_words(state, metric, COP__PART_HISTOGRAM, summary.bucket,
                                 HOST_BUCKETS_MAX, &summary.buckets);
    /* And by more than the quartiles may be off. */
    uint64_t far = 3 * (summary.high - summary.low) + summary.high / 64 + 1;
    if (!error)
        error = add_outliers(state, metric, COP__PART_LARGEST, summary.high + far,
                             &summary);
    if (!error)
        error = add_outliers(state, metric, COP__PART_SMALLEST,
                             summary.low > far ? summary.low - far : 0, &summary);
    if (!error)
        *out = summary;
    return error;
}
