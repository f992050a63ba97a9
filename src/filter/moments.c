/* SPDX-License-Identifier: Apache-2.0 */
#include "filter/filter.h"
#include "filter/number.h"

#include <string.h>

/*
 * count, mean and variance. Bodies: how many packets (u64); for mean and variance then the
 * sum; for variance then the sum of squares, 24 bytes. All of them are exact, and one
 * division, rounded once, makes the result.
 */

#define SQUARES 3u

/* What of it a filter has. */
enum depth { COUNT, MEAN, VARIANCE };

static const char *const inputs_of[] = {"any", "u64 i64 f64", "u64 i64"};

struct moments {
    enum cop__base_type base;
    uint64_t count;
    struct cop__number sum;
    uint64_t squares[SQUARES];
};

static int read_body(struct cop__state *state, enum depth depth, struct moments *out)
{
    struct cop__type type;
    if (!cop__state_is(state, inputs_of[depth], 0) ||
        cop__type_parse(state->type, state->type_length, &type))
        return COP_EMALFORMED;
    out->base = type.base;
    out->count = cop__get_u64(&state->body);
    if (depth >= MEAN)
        cop__number_get(&state->body, type.base, &out->sum);
    for (uint32_t i = 0; depth >= VARIANCE && i < SQUARES; i++)
        out->squares[i] = cop__get_u64(&state->body);
    return cop__reader_is_done(&state->body) ? 0 : COP_EMALFORMED;
}

static int read(struct cop_span bytes, enum depth depth, struct cop__state *state,
                struct moments *out)
{
    if (cop__state_read(bytes, state))
        return COP_EMALFORMED;
    return read_body(state, depth, out);
}

static int put(struct cop_filter_out *out, enum depth depth,
               const struct moments *moments)
{
    cop_filter_put_u64(out, moments->count);
    if (depth >= MEAN)
        cop__number_put(out, &moments->sum);
    for (uint32_t i = 0; depth >= VARIANCE && i < SQUARES; i++)
        cop_filter_put_u64(out, moments->squares[i]);
    return out->error;
}

static int init(enum depth depth, const char *type, const char *params,
                struct cop_filter_out *out)
{
    struct moments zero = {0};
    struct cop__type parsed;
    if (*params || cop__type_parse(type, (uint32_t)strlen(type), &parsed))
        return COP_EINVAL;
    cop__number_zero(&zero.sum, parsed.base);
    int error = cop__head_put(out, type, NULL, 0);
    return error ? error : put(out, depth, &zero);
}

/* The square of a number of 64 bits; its sign does not matter. */
static void square(struct moments *moments, uint64_t bits)
{
    bool negative = moments->base == COP__TYPE_I64 && bits >> 63;
    uint64_t magnitude = negative ? 0 - bits : bits;
    cop__wide_multiply(moments->squares, &magnitude, 1, &magnitude, 1);
    moments->squares[2] = 0;
}

static int lift(enum depth depth, struct cop_span empty,
                const struct cop_packet *packet, struct cop_filter_out *out)
{
    struct cop__state state;
    struct moments moments;
    if (read(empty, depth, &state, &moments))
        return COP_EMALFORMED;
    moments.count = 1;
    if (depth >= MEAN) {
        uint64_t bits = cop_filter_get_u64(packet->data.bytes);
        cop__number_from(&moments.sum, moments.base, bits);
        square(&moments, bits);
    }
    cop_filter_put(out, state.head.bytes, state.head.length);
    return put(out, depth, &moments);
}

static int join(enum depth depth, struct cop_span a, struct cop_span b, bool subtract,
                struct cop_filter_out *out)
{
    struct cop__state left, right;
    struct moments x, y;
    int error = cop__state_read_pair(a, b, &left, &right);
    if (error)
        return error;
    if (read_body(&left, depth, &x) || read_body(&right, depth, &y))
        return COP_EMALFORMED;
    x.count = subtract ? x.count - y.count : x.count + y.count;
    if (depth >= MEAN)
        (subtract ? cop__number_subtract : cop__number_add)(&x.sum, &y.sum);
    if (depth >= VARIANCE)
        (subtract ? cop__wide_subtract : cop__wide_add)(x.squares, y.squares, SQUARES);
    cop_filter_put(out, left.head.bytes, left.head.length);
    return put(out, depth, &x);
}

/* Of a population: (n * squares - sum * sum) / (n * n). */
static uint64_t variance(const struct moments *moments)
{
    uint64_t sum[2], left[4] = {0}, right[4], below[2];
    memcpy(sum, moments->sum.sum.whole, sizeof sum);
    if (cop__wide_is_negative(sum, 2))
        cop__wide_negate(sum, 2);
    cop__wide_multiply(left, moments->squares, SQUARES, &moments->count, 1);
    cop__wide_multiply(right, sum, 2, sum, 2);
    cop__wide_subtract(left, right, 4);
    cop__wide_multiply(below, &moments->count, 1, &moments->count, 1);
    return cop__wide_ratio(left, 4, below, 2);
}

static int result(enum depth depth, struct cop_span bytes, struct cop_filter_out *out)
{
    struct cop__state state;
    struct moments moments;
    if (read(bytes, depth, &state, &moments))
        return COP_EMALFORMED;
    if (depth == COUNT)
        return cop_filter_put_u64(out, moments.count);
    if (moments.count == 0)
        return COP_ENOENT;
    return cop_filter_put_u64(out, depth == MEAN
                                       ? cop__number_mean(&moments.sum, moments.count)
                                       : variance(&moments));
}

/* ---- the three of them ----------------------------------------------------------- */

#define FUNCTIONS(which, depth)                                                        \
    static int init_##which(const char *type, const char *params,                      \
                            struct cop_filter_out *out)                                \
    {                                                                                  \
        return init(depth, type, params, out);                                         \
    }                                                                                  \
    static int lift_##which(struct cop_span empty, const struct cop_packet *packet,    \
                            struct cop_filter_out *out)                                \
    {                                                                                  \
        return lift(depth, empty, packet, out);                                        \
    }                                                                                  \
    static int join_##which(struct cop_span a, struct cop_span b,                      \
                            struct cop_filter_out *out)                                \
    {                                                                                  \
        return join(depth, a, b, false, out);                                          \
    }                                                                                  \
    static int diff_##which(struct cop_span now, struct cop_span old,                  \
                            struct cop_filter_out *out)                                \
    {                                                                                  \
        return join(depth, now, old, true, out);                                       \
    }                                                                                  \
    static int check_##which(struct cop_span bytes)                                    \
    {                                                                                  \
        struct cop__state state;                                                       \
        struct moments moments;                                                        \
        return read(bytes, depth, &state, &moments);                                   \
    }                                                                                  \
    static int result_##which(struct cop_span bytes, struct cop_filter_out *out)       \
    {                                                                                  \
        return result(depth, bytes, out);                                              \
    }

#define ROW(which, depth, text, in, result_types)                                      \
    FUNCTIONS(which, depth)                                                            \
    const struct cop_filter cop__filter_##which = {                                    \
        .abi = COP_FILTER_ABI,                                                         \
        .flags = COP_FILTER_CUMULATIVE,                                                \
        .name = #which,                                                                \
        .about = text,                                                                 \
        .state = #which "/1",                                                          \
        .inputs = in,                                                                  \
        .outputs = result_types,                                                       \
        .init = init_##which,                                                          \
        .lift = lift_##which,                                                          \
        .join = join_##which,                                                          \
        .diff = diff_##which,                                                          \
        .check = check_##which,                                                        \
        .result = result_##which,                                                      \
    };

ROW(count, COUNT, "how many packets", "any", "u64")
ROW(mean, MEAN, "the mean, exact until it is rounded", "u64 i64 f64", "f64 f64 f64")
ROW(variance, VARIANCE, "the variance of integers, exact until it is rounded",
    "u64 i64", "f64 f64")
