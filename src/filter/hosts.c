/* SPDX-License-Identifier: Apache-2.0 */
#include "filter/hosts.h"
#include "filter/filter.h"
#include "filter/state.h"

#include <string.h>

/*
 * hosts: see hosts.h. A packet is five numbers (u64), the metrics of a host in their order; or none, of
 * a member whose host another one speaks for. The state is the states of the parts of each
 * metric, one after the other. Parameter interval=1000, in milliseconds: for who gives packets.
 */

#define INPUTS "bytes"
#define PART_TYPE "i64"
#define INTERVAL_MAX 3600000u

const char *const cop__host_metric_names[COP__HOST_METRICS] = {
    [COP__HOST_LOAD] = "load",     [COP__HOST_CPU] = "cpu",
    [COP__HOST_MEMORY] = "memory", [COP__HOST_RECEIVE] = "receive",
    [COP__HOST_SEND] = "send",
};

/* Shares of a whole in tenths; loads and rates in steps of a few powers. */
const char *cop__host_bounds(enum cop__host_metric metric)
{
    if (metric == COP__HOST_CPU || metric == COP__HOST_MEMORY)
        return "bounds=100:200:300:400:500:600:700:800:900";
    if (metric == COP__HOST_LOAD)
        return "bounds=100:250:500:1000:2000:4000:8000:16000:32000";
    return "bounds=1:1000:10000:100000:1000000:10000000:100000000:1000000000:"
           "10000000000";
}

static const struct cop_filter *filter_of(enum cop__host_part part)
{
    static const struct cop_filter *const filters[COP__HOST_PARTS] = {
        [COP__PART_COUNT] = &cop__filter_count,
        [COP__PART_MIN] = &cop__filter_min,
        [COP__PART_MAX] = &cop__filter_max,
        [COP__PART_MEAN] = &cop__filter_mean,
        [COP__PART_QUARTILES] = &cop__filter_quantiles,
        [COP__PART_HISTOGRAM] = &cop__filter_histogram,
        [COP__PART_LARGEST] = &cop__filter_top,
        [COP__PART_SMALLEST] = &cop__filter_top,
    };
    return filters[part];
}

static const char *params_of(enum cop__host_metric metric, enum cop__host_part part)
{
    switch (part) {
    case COP__PART_QUARTILES:
        return "at=250:500:750";
    case COP__PART_HISTOGRAM:
        return cop__host_bounds(metric);
    case COP__PART_LARGEST:
    case COP__PART_SMALLEST:
        return "k=8";
    default:
        return "";
    }
}

/* ---- parts ----------------------------------------------------------------------- */

/* What is done with each part: writes one state, out of those of the same part. */
typedef int make_part(enum cop__host_metric metric, enum cop__host_part part,
                      const struct cop_span *from, const void *context,
                      struct cop_filter_out *out);

static int put_part(make_part *make, enum cop__host_metric metric,
                    enum cop__host_part part, const struct cop_span *from,
                    const void *context, struct cop_filter_out *out)
{
    struct cop__sink sink;
    struct cop_buf *made;
    cop__sink_init(&sink, COP_FILTER_STATE_MAX);
    int error = make(metric, part, from, context, &sink.out);
    error = cop__sink_take(&sink, error ? error : sink.out.error, &made);
    if (error)
        return error;
    error = cop__put_span(out, (struct cop_span){made->data, made->length});
    cop_buf_unref(made);
    return error;
}

/* Goes through up to two bodies at once. */
static int put_parts(make_part *make, struct cop__reader *a, struct cop__reader *b,
                     const void *context, struct cop_filter_out *out)
{
    for (uint32_t i = 0; i < COP__HOST_METRICS * COP__HOST_PARTS; i++) {
        struct cop_span from[2] = {{0}};
        if (a)
            from[0] = cop__get_span(a);
        if (b)
            from[1] = cop__get_span(b);
        if ((a && a->failed) || (b && b->failed))
            return COP_EMALFORMED;
        int error =
            put_part(make, (enum cop__host_metric)(i / COP__HOST_PARTS),
                     (enum cop__host_part)(i % COP__HOST_PARTS), from, context, out);
        if (error)
            return error;
    }
    return (a && a->at != a->end) || (b && b->at != b->end) ? COP_EMALFORMED : 0;
}

static int init_part(enum cop__host_metric metric, enum cop__host_part part,
                     const struct cop_span *from, const void *context,
                     struct cop_filter_out *out)
{
    (void)from, (void)context;
    return filter_of(part)->init(PART_TYPE, params_of(metric, part), out);
}

static int lift_part(enum cop__host_metric metric, enum cop__host_part part,
                     const struct cop_span *from, const void *context,
                     struct cop_filter_out *out)
{
    const struct cop_packet *packet = context;
    uint64_t value = cop_filter_get_u64(packet->data.bytes + 8 * (size_t)metric);
    uint8_t bytes[8];
    if (part == COP__PART_SMALLEST)
        value = 0 - value;
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
    struct cop_packet one = {PART_TYPE, packet->leaf, packet->wave, {bytes, 8}};
    return filter_of(part)->lift(from[0], &one, out);
}

static int join_part(enum cop__host_metric metric, enum cop__host_part part,
                     const struct cop_span *from, const void *context,
                     struct cop_filter_out *out)
{
    (void)metric, (void)context;
    return filter_of(part)->join(from[0], from[1], out);
}

static int diff_part(enum cop__host_metric metric, enum cop__host_part part,
                     const struct cop_span *from, const void *context,
                     struct cop_filter_out *out)
{
    (void)metric, (void)context;
    return filter_of(part)->diff(from[0], from[1], out);
}

/* ---- the filter ------------------------------------------------------------------ */

static int read(struct cop_span bytes, struct cop__state *out)
{
    if (cop__state_read(bytes, out) || !cop__state_is(out, INPUTS, 1))
        return COP_EMALFORMED;
    uint64_t interval = cop__state_word(out, 0);
    return interval >= 1 && interval <= INTERVAL_MAX ? 0 : COP_EMALFORMED;
}

static int init(const char *type, const char *params, struct cop_filter_out *out)
{
    uint64_t interval = 1000;
    int error = cop__param_one(params, "interval", 1, INTERVAL_MAX, &interval);
    if (!error)
        error = cop__head_put(out, type, &interval, 1);
    return error ? error : put_parts(init_part, NULL, NULL, NULL, out);
}

static int no_more(struct cop_filter_out *out, uint32_t more)
{
    (void)out, (void)more;
    return COP_ETOOBIG;
}

/* Parts are those of the same init: their heads are as they were then. */
static int check_part(enum cop__host_metric metric, enum cop__host_part part,
                      struct cop_span state)
{
    uint8_t room[512];
    struct cop_filter_out out = {.bytes = room, .room = sizeof room, .grow = no_more};
    struct cop__state its, made;
    int error = init_part(metric, part, NULL, NULL, &out);
    if (error)
        return error;
    if (cop__state_read_pair(state, (struct cop_span){room, out.length}, &its, &made))
        return COP_EMALFORMED;
    return filter_of(part)->check(state);
}

static int check(struct cop_span bytes)
{
    struct cop__state state;
    if (read(bytes, &state))
        return COP_EMALFORMED;
    for (uint32_t i = 0; i < COP__HOST_METRICS * COP__HOST_PARTS; i++) {
        struct cop_span part = cop__get_span(&state.body);
        if (state.body.failed)
            return COP_EMALFORMED;
        int error = check_part((enum cop__host_metric)(i / COP__HOST_PARTS),
                               (enum cop__host_part)(i % COP__HOST_PARTS), part);
        if (error)
            return error;
    }
    return state.body.at == state.body.end ? 0 : COP_EMALFORMED;
}

static int lift(struct cop_span empty, const struct cop_packet *packet,
                struct cop_filter_out *out)
{
    struct cop__state state;
    if (read(empty, &state))
        return COP_EMALFORMED;
    if (packet->data.length == 0)
        return cop_filter_put(out, empty.bytes, empty.length);
    if (packet->data.length != 8 * COP__HOST_METRICS)
        return COP_EINVAL;
    for (uint32_t i = 0; i < COP__HOST_METRICS; i++)
        if (cop_filter_get_u64(packet->data.bytes + 8 * (size_t)i) > INT64_MAX)
            return COP_EINVAL;
    cop_filter_put(out, state.head.bytes, state.head.length);
    return put_parts(lift_part, &state.body, NULL, packet, out);
}

static int combine(make_part *make, struct cop_span a, struct cop_span b,
                   struct cop_filter_out *out)
{
    struct cop__state x, y;
    int error = cop__state_read_pair(a, b, &x, &y);
    if (error)
        return error;
    cop_filter_put(out, x.head.bytes, x.head.length);
    return put_parts(make, &x.body, &y.body, NULL, out);
}

static int join(struct cop_span a, struct cop_span b, struct cop_filter_out *out)
{
    return combine(join_part, a, b, out);
}

static int diff(struct cop_span now, struct cop_span old, struct cop_filter_out *out)
{
    return combine(diff_part, now, old, out);
}

/* ---- what it says ---------------------------------------------------------------- */

int cop__hosts_interval(struct cop_span bytes, cop_time *out)
{
    struct cop__state state;
    if (read(bytes, &state))
        return COP_EMALFORMED;
    *out = cop__state_word(&state, 0) * COP_MSEC;
    return 0;
}

int cop__hosts_words(struct cop_span bytes, enum cop__host_metric metric,
                     enum cop__host_part part, uint64_t *words, uint32_t room,
                     uint32_t *used)
{
    struct cop__state state;
    struct cop_span of = {0};
    struct cop__sink sink;
    struct cop_buf *said;
    if (read(bytes, &state))
        return COP_EMALFORMED;
    for (uint32_t i = 0; i <= metric * COP__HOST_PARTS + part; i++)
        of = cop__get_span(&state.body);
    if (state.body.failed)
        return COP_EMALFORMED;
    cop__sink_init(&sink, COP_FILTER_STATE_MAX);
    int error = cop__sink_take(&sink, filter_of(part)->result(of, &sink.out), &said);
    if (error)
        return error;
    for (*used = 0; *used < room && (*used + 1) * 8 <= said->length; (*used)++)
        words[*used] = cop_filter_get_u64(said->data + (size_t)*used * 8);
    cop_buf_unref(said);
    return 0;
}

/* A line for each metric: its name, how many hosts, least, median, most. */
static int result(struct cop_span bytes, struct cop_filter_out *out)
{
    for (enum cop__host_metric metric = 0; metric < COP__HOST_METRICS; metric++) {
        uint64_t count = 0, least = 0, most = 0, quartiles[3] = {0};
        uint32_t used;
        int error = cop__hosts_words(bytes, metric, COP__PART_COUNT, &count, 1, &used);
        if (!error)
            error = cop__hosts_words(bytes, metric, COP__PART_MIN, &least, 1, &used);
        if (!error)
            error = cop__hosts_words(bytes, metric, COP__PART_MAX, &most, 1, &used);
        if (!error)
            error = cop__hosts_words(bytes, metric, COP__PART_QUARTILES, quartiles, 3,
                                     &used);
        if (error)
            return error;
        const uint64_t columns[] = {count, least, quartiles[1], most};
        cop__put_text(out, cop__host_metric_names[metric]);
        for (uint32_t i = 0; i < (count ? 4u : 1u); i++) {
            cop__put_text(out, "\t");
            cop__put_decimal(out, columns[i]);
        }
        cop__put_text(out, "\n");
    }
    return out->error;
}

/* None or five numbers, which a host could have. */
static int sample(const char *type, const uint64_t *words, uint32_t count,
                  struct cop_filter_out *out)
{
    (void)type;
    if (count == 0 || words[0] % 4 == 3)
        return out->error;
    for (uint32_t i = 0; i < COP__HOST_METRICS; i++)
        cop_filter_put_u64(out, (words[i % count] >> (4 * i)) % 3000);
    return out->error;
}

const struct cop_filter cop__filter_hosts = {
    .abi = COP_FILTER_ABI,
    .flags = COP_FILTER_CUMULATIVE,
    .name = "hosts",
    .about = "load, CPU, memory and network of hosts: how they are spread",
    .state = "hosts/1",
    .inputs = INPUTS,
    .outputs = "text",
    .params = "interval=500",
    .init = init,
    .lift = lift,
    .join = join,
    .diff = diff,
    .check = check,
    .result = result,
    .sample = sample,
};
