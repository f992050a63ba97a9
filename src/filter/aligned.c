/* SPDX-License-Identifier: Apache-2.0 */
#include "filter/filter.h"
#include "filter/records.h"
#include "filter/wide.h"

#include <stdlib.h>

/*
 * aligned: values that leaves measured over intervals of their own, added up in intervals
 * that are the same for all. A packet is three numbers: when an interval began, how long it
 * was, and the value; the value is spread evenly over what it covers, to the last unit. Only
 * the `bins` newest intervals of `width` are kept (width=1000000000,bins=64).
 *
 * Records: number of the interval; how many packets touched it, the sum (128 bits, the upper
 * half with its sign folded). Result, three numbers for each interval: begin, packets, sum.
 */

#define INPUTS "i64[3]"
#define BINS_MAX 1024u

static bool head_is_good(const struct cop__state *state)
{
    uint64_t width = cop__state_word(state, 0), bins = cop__state_word(state, 1);
    return width >= 1 && !(width >> 62) && bins >= 1 && bins <= BINS_MAX;
}

static bool is_good(const struct cop__state *state, const struct cop__record *record)
{
    uint64_t width = cop__state_word(state, 0);
    return record->key[0] <= (UINT64_MAX >> 1) / width && record->value[0] > 0;
}

static bool keep(const struct cop__state *state, const struct cop__record *record,
                 uint64_t before, const struct cop__record *last)
{
    (void)before;
    return last->key[0] - record->key[0] < cop__state_word(state, 1);
}

static void combine(struct cop__record *a, const struct cop__record *b, bool subtract)
{
    uint64_t x[2] = {a->value[1], cop__unzigzag(a->value[2])};
    uint64_t y[2] = {b->value[1], cop__unzigzag(b->value[2])};
    (subtract ? cop__wide_subtract : cop__wide_add)(x, y, 2);
    a->value[0] = subtract ? a->value[0] - b->value[0] : a->value[0] + b->value[0];
    a->value[1] = x[0];
    a->value[2] = cop__zigzag(x[1]);
}

static void add(struct cop__record *a, const struct cop__record *b)
{
    combine(a, b, false);
}

static bool subtract(struct cop__record *a, const struct cop__record *b)
{
    combine(a, b, true);
    return a->value[0] != 0;
}

static const struct cop__records kind = {
    .inputs = INPUTS,
    .words = 2,
    .keys = 1,
    .values = 3,
    .head_is_good = head_is_good,
    .is_good = is_good,
    .join = add,
    .diff = subtract,
    .keep = keep,
};
COP__RECORDS_FUNCTIONS(kind)

static int init(const char *type, const char *params, struct cop_filter_out *out)
{
    uint64_t words[2] = {COP_SEC, 64};
    struct cop__param param;
    uint32_t at = 0;
    int error;
    while ((error = cop__param_next(params, &at, &param)) == 0) {
        bool width = cop__param_is(&param, "width");
        if ((!width && !cop__param_is(&param, "bins")) ||
            cop__param_u64(param.value, &words[width ? 0 : 1]))
            return COP_EINVAL;
    }
    if (error != COP_ENOENT || words[0] < 1 || words[0] >> 62 || words[1] < 1 ||
        words[1] > BINS_MAX)
        return COP_EINVAL;
    return cop__head_put(out, type, words, 2);
}

/* ---- packets --------------------------------------------------------------------- */

struct span {
    uint64_t begin, length, magnitude;
    bool negative;
};

/* How much of the value lies before a time. Differences of it add up to the value. */
static uint64_t before(const struct span *span, uint64_t time)
{
    if (time <= span->begin)
        return 0;
    if (time - span->begin >= span->length)
        return span->magnitude;
    return cop__wide_scale(span->magnitude, time - span->begin, span->length);
}

static struct cop__record record_of(const struct span *span, uint64_t bin,
                                    uint64_t width, bool last)
{
    uint64_t from = before(span, bin * width);
    uint64_t to = last ? span->magnitude : before(span, (bin + 1) * width);
    uint64_t sum[2] = {to - from, 0};
    if (span->negative)
        cop__wide_negate(sum, 2);
    return (struct cop__record){.key = {bin},
                                .value = {1, sum[0], cop__zigzag(sum[1])}};
}

static int read_packet(struct cop_span data, struct span *out)
{
    uint64_t value = cop_filter_get_u64(data.bytes + 16);
    out->begin = cop_filter_get_u64(data.bytes);
    out->length = cop_filter_get_u64(data.bytes + 8);
    out->negative = value >> 63;
    out->magnitude = out->negative ? 0 - value : value;
    bool fits = !(out->begin >> 62) && !(out->length >> 62);
    return fits ? 0 : COP_EINVAL;
}

static int lift(struct cop_span empty, const struct cop_packet *packet,
                struct cop_filter_out *out)
{
    struct cop__state state;
    struct span span;
    if (cop__state_read(empty, &state) || state.word_count != 2)
        return COP_EMALFORMED;
    if (!head_is_good(&state))
        return COP_EMALFORMED;
    if (read_packet(packet->data, &span))
        return COP_EINVAL;
    uint64_t width = cop__state_word(&state, 0), bins = cop__state_word(&state, 1);
    uint64_t first = span.begin / width;
    uint64_t last = (span.begin + (span.length ? span.length - 1 : 0)) / width;
    if (last - first >= bins)
        first = last - bins + 1;
    struct cop__record *records = malloc((last - first + 1) * sizeof *records);
    if (!records)
        return COP_ENOMEM;
    uint32_t count = 0;
    for (uint64_t bin = first; bin <= last; bin++)
        records[count++] = record_of(&span, bin, width, bin == last);
    int error = cop__records_make(&kind, &state, records, count, out);
    free(records);
    return error;
}

/* As 64 bits, or the most that these can say. */
static uint64_t clamped(uint64_t low, uint64_t high)
{
    if (high == 0 && !(low >> 63))
        return low;
    if (high == UINT64_MAX && low >> 63)
        return low;
    return high >> 63 ? UINT64_C(1) << 63 : UINT64_MAX >> 1;
}

static int result(struct cop_span bytes, struct cop_filter_out *out)
{
    struct cop__state state;
    struct cop__record record;
    if (cop__records_check(&kind, bytes) || cop__state_read(bytes, &state))
        return COP_EMALFORMED;
    while (cop__record_next(&kind, &state.body, &record)) {
        cop_filter_put_u64(out, record.key[0] * cop__state_word(&state, 0));
        cop_filter_put_u64(out, record.value[0]);
        cop_filter_put_u64(out,
                           clamped(record.value[1], cop__unzigzag(record.value[2])));
    }
    return out->error;
}

/* Times within some intervals of each other. */
static int sample(const char *type, const uint64_t *words, uint32_t count,
                  struct cop_filter_out *out)
{
    (void)type;
    cop_filter_put_u64(out, count > 0 ? words[0] % 10000 : 0);
    cop_filter_put_u64(out, count > 1 ? words[1] % 500 : 0);
    return cop_filter_put_u64(out, count > 2 ? words[2] : 0);
}

const struct cop_filter cop__filter_aligned = {
    .abi = COP_FILTER_ABI,
    .flags = COP_FILTER_CUMULATIVE,
    .name = "aligned",
    .about = "sums over common intervals of time (width=1000000000,bins=64)",
    .state = "aligned/1",
    .inputs = INPUTS,
    .outputs = "i64[]",
    .params = "width=100,bins=8",
    .init = init,
    .lift = lift,
    .join = join,
    .diff = diff,
    .check = check,
    .result = result,
    .sample = sample,
};
