/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log2fix.h"
#include "filter/filter.h"
#include "filter/records.h"

#include <stdlib.h>
#include <string.h>

/*
 * quantiles: a sketch that merges exactly. Values are counted in buckets whose width is at
 * most 1/128 of their lowest value (below 256 each value has its own), and a quantile is the
 * middle of its bucket: its rank is exact, and it is off by at most 1/256 of itself. Unlike
 * sketches that throw values away at random, it does not depend on who merged with whom, and
 * it can be subtracted. At most 14,848 buckets, however many values.
 *
 * Records: bucket, count. Parameter at=500:990, in thousandths.
 */

#define INPUTS "u64 i64 u64[] i64[]"
#define SUB_BITS 7u
#define SUB (1u << SUB_BITS)
/* Buckets of one sign: fewer than this. Negative ones go down from it. */
#define MIDDLE 8192u
#define POINTS_MAX 32u
#define MILLE 1000u

static uint32_t magnitude_bucket(uint64_t magnitude)
{
    if (magnitude < SUB)
        return (uint32_t)magnitude;
    uint32_t shift = cop__log2_floor(magnitude) - SUB_BITS;
    return shift * SUB + (uint32_t)(magnitude >> shift);
}

static uint32_t bucket_of(bool with_sign, uint64_t value)
{
    if (with_sign && value >> 63)
        return MIDDLE - magnitude_bucket(0 - value);
    return MIDDLE + magnitude_bucket(value);
}

/* The middle of a bucket. */
static uint64_t magnitude_of(uint32_t bucket)
{
    if (bucket < 2 * SUB)
        return bucket;
    uint32_t shift = bucket / SUB - 1;
    uint64_t low = (uint64_t)(bucket % SUB + SUB) << shift;
    return low + ((UINT64_C(1) << shift) >> 1);
}

static uint64_t value_of(uint64_t bucket)
{
    if (bucket < MIDDLE)
        return 0 - magnitude_of((uint32_t)(MIDDLE - bucket));
    return magnitude_of((uint32_t)(bucket - MIDDLE));
}

static bool head_is_good(const struct cop__state *state)
{
    if (state->word_count == 0 || state->word_count > POINTS_MAX)
        return false;
    for (uint32_t i = 0; i < state->word_count; i++)
        if (cop__state_word(state, i) > MILLE)
            return false;
    return true;
}

static bool is_good(const struct cop__state *state, const struct cop__record *record)
{
    bool with_sign = state->type[0] == 'i';
    uint64_t least =
        with_sign ? bucket_of(true, UINT64_C(1) << 63) : bucket_of(false, 0);
    uint64_t most = bucket_of(false, with_sign ? UINT64_MAX >> 1 : UINT64_MAX);
    return record->key[0] >= least && record->key[0] <= most && record->value[0] > 0;
}

static void add(struct cop__record *a, const struct cop__record *b)
{
    a->value[0] += b->value[0];
}

static bool subtract(struct cop__record *a, const struct cop__record *b)
{
    a->value[0] -= b->value[0];
    return a->value[0] != 0;
}

static const struct cop__records kind = {
    .inputs = INPUTS,
    .words = COP__WORDS_ANY,
    .keys = 1,
    .values = 1,
    .head_is_good = head_is_good,
    .is_good = is_good,
    .join = add,
    .diff = subtract,
};
COP__RECORDS_FUNCTIONS(kind)

static int parse_points(struct cop_span text, uint64_t *points, uint32_t *count)
{
    for (uint32_t at = 0; at <= text.length; (*count)++) {
        uint32_t end = at;
        while (end < text.length && text.bytes[end] != ':')
            end++;
        struct cop_span word = {text.bytes + at, end - at};
        if (*count == POINTS_MAX || cop__param_u64(word, &points[*count]) ||
            points[*count] > MILLE)
            return COP_EINVAL;
        at = end + 1;
    }
    return 0;
}

static int init(const char *type, const char *params, struct cop_filter_out *out)
{
    static const uint64_t usual[] = {0, 500, 900, 990, 1000};
    uint64_t points[POINTS_MAX];
    uint32_t count = 0, at = 0;
    struct cop__param param;
    int error = cop__param_next(params, &at, &param);
    if (error == COP_ENOENT)
        return cop__head_put(out, type, usual, sizeof usual / sizeof *usual);
    if (error || !cop__param_is(&param, "at") || params[at] != '\0' ||
        parse_points(param.value, points, &count))
        return COP_EINVAL;
    return cop__head_put(out, type, points, count);
}

static int lift(struct cop_span empty, const struct cop_packet *packet,
                struct cop_filter_out *out)
{
    struct cop__state state;
    uint32_t count = packet->data.length / 8;
    if (cop__state_read(empty, &state))
        return COP_EMALFORMED;
    struct cop__record *records = malloc((count + 1) * sizeof *records);
    if (!records)
        return COP_ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t value = cop_filter_get_u64(packet->data.bytes + (size_t)i * 8);
        uint32_t bucket = bucket_of(state.type[0] == 'i', value);
        records[i] = (struct cop__record){.key = {bucket}, .value = {1}};
    }
    int error = cop__records_make(&kind, &state, records, count, out);
    free(records);
    return error;
}

/* The value whose rank is the first that is at least permille/1000 of all. */
static uint64_t value_at(struct cop__reader body, uint64_t total, uint64_t permille)
{
    struct cop__record record = {0};
    uint64_t rank = total / MILLE * permille + (total % MILLE * permille + 999) / MILLE;
    uint64_t seen = 0;
    while (cop__record_next(&kind, &body, &record)) {
        seen += record.value[0];
        if (seen >= rank)
            break;
    }
    return value_of(record.key[0]);
}

static int result(struct cop_span bytes, struct cop_filter_out *out)
{
    struct cop__state state;
    struct cop__record record;
    uint64_t total = 0;
    if (cop__records_check(&kind, bytes) || cop__state_read(bytes, &state))
        return COP_EMALFORMED;
    struct cop__reader body = state.body;
    while (cop__record_next(&kind, &body, &record))
        total += record.value[0];
    for (uint32_t i = 0; total > 0 && i < state.word_count; i++)
        cop_filter_put_u64(out,
                           value_at(state.body, total, cop__state_word(&state, i)));
    return out->error;
}

const struct cop_filter cop__filter_quantiles = {
    .abi = COP_FILTER_ABI,
    .flags = COP_FILTER_CUMULATIVE,
    .name = "quantiles",
    .about = "values at ranks, off by 1/256 at most (at=500:990, thousandths)",
    .state = "quantiles/1",
    .inputs = INPUTS,
    .outputs = "u64[] i64[] u64[] i64[]",
    .params = "at=0:500:1000",
    .init = init,
    .lift = lift,
    .join = join,
    .diff = diff,
    .check = check,
    .result = result,
};
