/* SPDX-License-Identifier: Apache-2.0 */
#include "filter/filter.h"
#include "filter/records.h"

#include <stdlib.h>
#include <string.h>

/*
 * histogram: how many values lie below the first bound, between it and the second, and so
 * on, and at or above the last. Records: bucket, count. The bounds are the words of the head.
 * Parameter bounds=1:10:100, in order; otherwise powers of ten.
 */

#define INPUTS "u64 i64 u64[] i64[]"
#define BOUNDS_MAX 63u

static bool is_signed(const char *type) { return type[0] == 'i'; }

static uint64_t order(bool with_sign, uint64_t value)
{
    return with_sign ? cop__flip_sign(value) : value;
}

static bool head_is_good(const struct cop__state *state)
{
    bool with_sign = is_signed(state->type);
    if (state->word_count == 0 || state->word_count > BOUNDS_MAX)
        return false;
    for (uint32_t i = 1; i < state->word_count; i++)
        if (order(with_sign, cop__state_word(state, i - 1)) >=
            order(with_sign, cop__state_word(state, i)))
            return false;
    return true;
}

static bool is_good(const struct cop__state *state, const struct cop__record *record)
{
    return record->key[0] <= state->word_count && record->value[0] > 0;
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

static int parse_bounds(bool with_sign, struct cop_span text, uint64_t *bounds,
                        uint32_t *count)
{
    for (uint32_t at = 0; at <= text.length; (*count)++) {
        uint32_t end = at;
        while (end < text.length && text.bytes[end] != ':')
            end++;
        struct cop_span word = {text.bytes + at, end - at};
        if (*count == BOUNDS_MAX ||
            (with_sign ? cop__param_i64 : cop__param_u64)(word, &bounds[*count]))
            return COP_EINVAL;
        if (*count > 0 &&
            order(with_sign, bounds[*count - 1]) >= order(with_sign, bounds[*count]))
            return COP_EINVAL;
        at = end + 1;
    }
    return 0;
}

static int init(const char *type, const char *params, struct cop_filter_out *out)
{
    uint64_t bounds[BOUNDS_MAX];
    uint32_t count = 0, at = 0;
    struct cop__param param;
    int error = cop__param_next(params, &at, &param);
    if (error == COP_ENOENT) {
        for (uint64_t bound = 1; count < 19; bound *= 10)
            bounds[count++] = bound;
        return cop__head_put(out, type, bounds, count);
    }
    if (error || !cop__param_is(&param, "bounds") || params[at] != '\0' ||
        parse_bounds(is_signed(type), param.value, bounds, &count))
        return COP_EINVAL;
    return cop__head_put(out, type, bounds, count);
}

static uint32_t bucket_of(const struct cop__state *state, uint64_t value)
{
    bool with_sign = is_signed(state->type);
    uint32_t bucket = 0;
    while (bucket < state->word_count &&
           order(with_sign, value) >= order(with_sign, cop__state_word(state, bucket)))
        bucket++;
    return bucket;
}

static int lift(struct cop_span empty, const struct cop_packet *packet,
                struct cop_filter_out *out)
{
    struct cop__state state;
    struct cop__record records[BOUNDS_MAX + 1];
    uint64_t counts[BOUNDS_MAX + 1] = {0};
    uint32_t used = 0;
    if (cop__state_read(empty, &state) || !head_is_good(&state))
        return COP_EMALFORMED;
    for (uint32_t i = 0; i + 8 <= packet->data.length; i += 8)
        counts[bucket_of(&state, cop_filter_get_u64(packet->data.bytes + i))]++;
    for (uint32_t i = 0; i <= state.word_count; i++)
        if (counts[i])
            records[used++] = (struct cop__record){.key = {i}, .value = {counts[i]}};
    return cop__records_make(&kind, &state, records, used, out);
}

static int result(struct cop_span bytes, struct cop_filter_out *out)
{
    struct cop__state state;
    struct cop__record record;
    uint64_t counts[BOUNDS_MAX + 1] = {0};
    if (cop__records_check(&kind, bytes) || cop__state_read(bytes, &state))
        return COP_EMALFORMED;
    while (cop__record_next(&kind, &state.body, &record))
        counts[record.key[0]] = record.value[0];
    for (uint32_t i = 0; i <= state.word_count; i++)
        cop_filter_put_u64(out, counts[i]);
    return out->error;
}

const struct cop_filter cop__filter_histogram = {
    .abi = COP_FILTER_ABI,
    .flags = COP_FILTER_CUMULATIVE,
    .name = "histogram",
    .about = "how many values lie between bounds (bounds=1:10:100)",
    .state = "histogram/1",
    .inputs = INPUTS,
    .outputs = "u64[] u64[] u64[] u64[]",
    .params = "bounds=10:1000:100000",
    .init = init,
    .lift = lift,
    .join = join,
    .diff = diff,
    .check = check,
    .result = result,
};
