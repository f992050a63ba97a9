/* SPDX-License-Identifier: Apache-2.0 */
#include "filter/filter.h"
#include "filter/state.h"

/*
 * min and max, of numbers and of arrays element by element (where one is shorter, the longer
 * one stands). The body is the elements as they came, none while there was no packet.
 * Doubles are ordered as everybody orders them, with -0 below 0; what is not a number has
 * no place in an order, and is refused.
 */

#define INPUTS "u64 i64 f64 u64[] i64[] f64[] i128 i128[]"

static bool is_number(uint64_t bits) { return (bits << 1) <= UINT64_C(0x7ff) << 53; }

/* A key that is ordered as an unsigned integer. */
static uint64_t order(enum cop__base_type base, uint64_t bits)
{
    if (base == COP__TYPE_U64)
        return bits;
    if (base == COP__TYPE_I64)
        return cop__flip_sign(bits);
    return bits >> 63 ? ~bits : cop__flip_sign(bits);
}

static uint32_t size_of(enum cop__base_type base)
{
    return base == COP__TYPE_I128 ? 16 : 8;
}

/* Elements of a packet or a body: of the type, and numbers. */
static bool elements_are_good(const struct cop__type *type, const uint8_t *at,
                              size_t length)
{
    uint32_t size = size_of(type->base);
    if (length % size != 0 || (!type->array && length > size))
        return false;
    if (type->count && length != 0 && length / size != type->count)
        return false;
    for (size_t i = 0; type->base == COP__TYPE_F64 && i < length; i += 8)
        if (!is_number(cop_filter_get_u64(at + i)))
            return false;
    return true;
}

static int read(struct cop_span bytes, struct cop__state *out, struct cop__type *type)
{
    if (cop__state_read(bytes, out) || !cop__state_is(out, INPUTS, 0) ||
        cop__type_parse(out->type, out->type_length, type))
        return COP_EMALFORMED;
    size_t length = (size_t)(out->body.end - out->body.at);
    return elements_are_good(type, out->body.at, length) ? 0 : COP_EMALFORMED;
}

static int check(struct cop_span bytes)
{
    struct cop__state state;
    struct cop__type type;
    return read(bytes, &state, &type);
}

static int init(const char *type, const char *params, struct cop_filter_out *out)
{
    return *params ? COP_EINVAL : cop__head_put(out, type, NULL, 0);
}

static int lift(struct cop_span empty, const struct cop_packet *packet,
                struct cop_filter_out *out)
{
    struct cop__state state;
    struct cop__type type;
    if (read(empty, &state, &type))
        return COP_EMALFORMED;
    if (!elements_are_good(&type, packet->data.bytes, packet->data.length))
        return COP_EINVAL;
    cop_filter_put(out, state.head.bytes, state.head.length);
    return cop_filter_put(out, packet->data.bytes, packet->data.length);
}

/* Whether the first of two elements comes before the other. */
static bool is_less(enum cop__base_type base, const uint8_t *x, const uint8_t *y)
{
    if (base != COP__TYPE_I128)
        return order(base, cop_filter_get_u64(x)) < order(base, cop_filter_get_u64(y));
    uint64_t high = cop__flip_sign(cop_filter_get_u64(x + 8));
    uint64_t other = cop__flip_sign(cop_filter_get_u64(y + 8));
    return high != other ? high < other : cop_filter_get_u64(x) < cop_filter_get_u64(y);
}

static int join(struct cop_span a, struct cop_span b, bool largest,
                struct cop_filter_out *out)
{
    struct cop__state left, right;
    struct cop__type type;
    int error = cop__state_read_pair(a, b, &left, &right);
    if (error)
        return error;
    if (read(a, &left, &type) || read(b, &right, &type))
        return COP_EMALFORMED;
    struct cop__reader *longer = &left.body, *shorter = &right.body;
    if (longer->end - longer->at < shorter->end - shorter->at) {
        longer = &right.body;
        shorter = &left.body;
    }
    cop_filter_put(out, left.head.bytes, left.head.length);
    uint32_t size = size_of(type.base);
    for (; shorter->at < shorter->end; longer->at += size, shorter->at += size) {
        bool first = is_less(type.base, longer->at, shorter->at) != largest;
        cop_filter_put(out, first ? longer->at : shorter->at, size);
    }
    return cop_filter_put(out, longer->at, (uint32_t)(longer->end - longer->at));
}

static int join_min(struct cop_span a, struct cop_span b, struct cop_filter_out *out)
{
    return join(a, b, false, out);
}

static int join_max(struct cop_span a, struct cop_span b, struct cop_filter_out *out)
{
    return join(a, b, true, out);
}

/* All of it, or nothing if there is nothing new. */
static int diff(struct cop_span now, struct cop_span old, struct cop_filter_out *out)
{
    struct cop__state left, right;
    int error = cop__state_read_pair(now, old, &left, &right);
    if (error)
        return error;
    bool same = cop__span_compare(now, old) == 0;
    return cop_filter_put(out, now.bytes, same ? left.head.length : now.length);
}

static int result(struct cop_span bytes, struct cop_filter_out *out)
{
    struct cop__state state;
    struct cop__type type;
    if (read(bytes, &state, &type))
        return COP_EMALFORMED;
    uint32_t length = (uint32_t)(state.body.end - state.body.at);
    if (length == 0 && !type.array)
        return COP_ENOENT;
    return cop_filter_put(out, state.body.at, length);
}

#define ROW(which, text)                                                               \
    const struct cop_filter cop__filter_##which = {                                    \
        .abi = COP_FILTER_ABI,                                                         \
        .flags = COP_FILTER_IDEMPOTENT | COP_FILTER_CUMULATIVE,                        \
        .name = #which,                                                                \
        .about = text,                                                                 \
        .state = #which "/1",                                                          \
        .inputs = INPUTS,                                                              \
        .outputs = INPUTS,                                                             \
        .init = init,                                                                  \
        .lift = lift,                                                                  \
        .join = join_##which,                                                          \
        .diff = diff,                                                                  \
        .check = check,                                                                \
        .result = result,                                                              \
    }

ROW(min, "the smallest value, of arrays at each place");
ROW(max, "the largest value, of arrays at each place");
