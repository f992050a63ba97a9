/* SPDX-License-Identifier: Apache-2.0 */
#include "filter/filter.h"
#include "filter/records.h"

#include <stdlib.h>

/*
 * union. Of numbers one record, a set of ranges (signed ones with the sign turned, so that
 * they keep their order); of text and bytes one record for each.
 */

#define INPUTS "u64 i64 u64[] i64[] text bytes"

static const struct cop__records of_numbers = {.inputs = INPUTS, .set = true};
static const struct cop__records of_bytes = {.inputs = INPUTS, .name = true};

static const struct cop__records *
kind_of(struct cop_span bytes, struct cop__state *state, struct cop__type *type)
{
    if (cop__state_read(bytes, state) || !cop__state_is(state, INPUTS, 0) ||
        cop__type_parse(state->type, state->type_length, type))
        return NULL;
    bool numbers = type->base == COP__TYPE_U64 || type->base == COP__TYPE_I64;
    return numbers ? &of_numbers : &of_bytes;
}

static int init(const char *type, const char *params, struct cop_filter_out *out)
{
    return *params ? COP_EINVAL : cop__head_put(out, type, NULL, 0);
}

static uint64_t turned(const struct cop__type *type, uint64_t value)
{
    return type->base == COP__TYPE_I64 ? cop__flip_sign(value) : value;
}

static int lift_numbers(const struct cop__state *state, const struct cop__type *type,
                        struct cop_span data, struct cop_filter_out *out)
{
    uint32_t count = data.length / 8;
    cop_filter_put(out, state->head.bytes, state->head.length);
    if (count == 0)
        return out->error;
    uint64_t *numbers = malloc(count * sizeof *numbers);
    if (!numbers)
        return COP_ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        numbers[i] = turned(type, cop_filter_get_u64(data.bytes + (size_t)i * 8));
    cop__ranges_make(out, numbers, count);
    free(numbers);
    return out->error;
}

static int lift(struct cop_span empty, const struct cop_packet *packet,
                struct cop_filter_out *out)
{
    struct cop__state state;
    struct cop__type type;
    const struct cop__records *kind = kind_of(empty, &state, &type);
    if (!kind)
        return COP_EMALFORMED;
    if (kind == &of_numbers)
        return lift_numbers(&state, &type, packet->data, out);
    struct cop__record record = {.name = packet->data};
    return cop__records_make(kind, &state, &record, 1, out);
}

static int join(struct cop_span a, struct cop_span b, struct cop_filter_out *out)
{
    struct cop__state state;
    struct cop__type type;
    const struct cop__records *kind = kind_of(a, &state, &type);
    return kind ? cop__records_join(kind, a, b, out) : COP_EMALFORMED;
}

static int diff(struct cop_span now, struct cop_span old, struct cop_filter_out *out)
{
    struct cop__state state;
    struct cop__type type;
    const struct cop__records *kind = kind_of(now, &state, &type);
    return kind ? cop__records_diff(kind, now, old, out) : COP_EMALFORMED;
}

static int check(struct cop_span bytes)
{
    struct cop__state state;
    struct cop__type type;
    const struct cop__records *kind = kind_of(bytes, &state, &type);
    return kind ? cop__records_check(kind, bytes) : COP_EMALFORMED;
}

/* A range is short to say and may be long to list, so one too long is not begun. */
static int put_numbers(const struct cop__type *type, struct cop_span set,
                       struct cop_filter_out *out)
{
    struct cop__ranges ranges = cop__ranges_begin(set);
    struct cop__range range;
    while (out->error == 0 && cop__ranges_next(&ranges, &range)) {
        if (range.last - range.first >= COP_FILTER_STATE_MAX / 8)
            return COP_ETOOBIG;
        for (uint64_t i = 0; i <= range.last - range.first && out->error == 0; i++)
            cop_filter_put_u64(out, turned(type, range.first + i));
    }
    return out->error;
}

/* Numbers one after the other; text and bytes as lines. */
static int result(struct cop_span bytes, struct cop_filter_out *out)
{
    struct cop__state state;
    struct cop__type type;
    struct cop__record record;
    const struct cop__records *kind = kind_of(bytes, &state, &type);
    if (!kind)
        return COP_EMALFORMED;
    while (cop__record_next(kind, &state.body, &record)) {
        if (kind == &of_numbers) {
            int error = put_numbers(&type, record.set, out);
            if (error)
                return error;
            continue;
        }
        cop__put_escaped(out, record.name);
        cop__put_text(out, "\n");
    }
    return state.body.failed ? COP_EMALFORMED : out->error;
}

const struct cop_filter cop__filter_union = {
    .abi = COP_FILTER_ABI,
    .flags = COP_FILTER_IDEMPOTENT | COP_FILTER_CUMULATIVE,
    .name = "union",
    .about = "every different value, once",
    .state = "union/1",
    .inputs = INPUTS,
    .outputs = "u64[] i64[] u64[] i64[] text text",
    .init = init,
    .lift = lift,
    .join = join,
    .diff = diff,
    .check = check,
    .result = result,
};
