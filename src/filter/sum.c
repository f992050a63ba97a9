/* SPDX-License-Identifier: Apache-2.0 */
#include "filter/filter.h"
#include "filter/number.h"

/*
 * sum, of numbers and of arrays element by element (where one is shorter, the longer one
 * stands). The body is one sum for each element, none while there was no packet. Doubles
 * are added exactly and rounded once, in the result; so their sum is the same in every
 * order, without a list of who sent what.
 */

#define INPUTS "u64 i64 f64 u64[] i64[] f64[]"

static int read(struct cop_span bytes, struct cop__state *out, struct cop__type *type)
{
    if (cop__state_read(bytes, out) || !cop__state_is(out, INPUTS, 0) ||
        cop__type_parse(out->type, out->type_length, type))
        return COP_EMALFORMED;
    return 0;
}

static bool is_left(const struct cop__reader *reader)
{
    return !reader->failed && reader->at < reader->end;
}

/*
 * Nearly all states are of one whole number: a head of 5 bytes ("u64" or "i64", no words), and
 * 16 bytes or none. They are told by their bytes alone, and walk() would say the same of them.
 */
#define PLAIN_HEAD 5u
#define PLAIN_BODY 16u

static uint64_t head_of(const uint8_t *bytes)
{
    return cop__load32(bytes) | (uint64_t)bytes[4] << 32;
}

/* "\3u64\0" and "\3i64\0" as numbers of 5 bytes. */
#define HEAD_U64 UINT64_C(0x0034367503)
#define HEAD_I64 UINT64_C(0x0034366903)

static bool is_plain(struct cop_span a)
{
    if (a.length != PLAIN_HEAD && a.length != PLAIN_HEAD + PLAIN_BODY)
        return false;
    uint64_t head = head_of(a.bytes);
    return head == HEAD_U64 || head == HEAD_I64;
}

/* Both are, and can be joined. */
static bool are_plain(struct cop_span a, struct cop_span b)
{
    return is_plain(a) && is_plain(b) && a.bytes[1] == b.bytes[1];
}

static void get_plain(struct cop_span a, uint64_t out[2])
{
    bool has_body = a.length > PLAIN_HEAD;
    out[0] = has_body ? cop_filter_get_u64(a.bytes + PLAIN_HEAD) : 0;
    out[1] = has_body ? cop_filter_get_u64(a.bytes + PLAIN_HEAD + 8) : 0;
}

static int put_plain(struct cop_span head, const uint64_t words[2],
                     struct cop_filter_out *out)
{
    cop_filter_put(out, head.bytes, PLAIN_HEAD);
    cop_filter_put_u64(out, words[0]);
    return cop_filter_put_u64(out, words[1]);
}

typedef void combine_plain(uint64_t *a, const uint64_t *b, uint32_t words);

/* Whether that could be done. */
static bool walk_plain(struct cop_span a, struct cop_span b, combine_plain *with,
                       struct cop_filter_out *out)
{
    uint64_t x[2], y[2];
    if (!are_plain(a, b))
        return false;
    if (a.length == PLAIN_HEAD && b.length == PLAIN_HEAD) {
        cop_filter_put(out, a.bytes, PLAIN_HEAD);
        return true;
    }
    get_plain(a, x);
    get_plain(b, y);
    with(x, y, 2);
    put_plain(a, x, out);
    return true;
}

static int check(struct cop_span bytes)
{
    struct cop__state state;
    struct cop__type type;
    struct cop__number number;
    uint32_t count = 0;
    if (is_plain(bytes))
        return 0;
    if (read(bytes, &state, &type))
        return COP_EMALFORMED;
    for (; is_left(&state.body); count++)
        cop__number_get(&state.body, type.base, &number);
    if (state.body.failed || (!type.array && count > 1) ||
        (type.count && count != 0 && count != type.count))
        return COP_EMALFORMED;
    return 0;
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
    struct cop__number number;
    if (is_plain(empty) && packet->data.length == 8) {
        uint64_t words[2];
        cop__wide_set(words, 2, cop_filter_get_u64(packet->data.bytes),
                      empty.bytes[1] == 'i');
        return put_plain(empty, words, out);
    }
    if (read(empty, &state, &type))
        return COP_EMALFORMED;
    cop_filter_put(out, state.head.bytes, state.head.length);
    for (uint32_t i = 0; i + 8 <= packet->data.length; i += 8) {
        cop__number_from(&number, type.base,
                         cop_filter_get_u64(packet->data.bytes + i));
        cop__number_put(out, &number);
    }
    return out->error;
}

typedef void combine(struct cop__number *a, const struct cop__number *b);

/* Both at once while there are both; what is left of either is combined with nothing. */
static int walk(struct cop_span a, struct cop_span b, combine *with,
                struct cop_filter_out *out)
{
    struct cop__state left, right;
    struct cop__type type;
    int error = cop__state_read_pair(a, b, &left, &right);
    if (error || (error = read(a, &left, &type)))
        return error;
    cop_filter_put(out, left.head.bytes, left.head.length);
    while (is_left(&left.body) || is_left(&right.body)) {
        struct cop__number x, y;
        if (is_left(&left.body))
            cop__number_get(&left.body, type.base, &x);
        else
            cop__number_zero(&x, type.base);
        if (is_left(&right.body)) {
            cop__number_get(&right.body, type.base, &y);
            with(&x, &y);
        }
        if (left.body.failed || right.body.failed)
            return COP_EMALFORMED;
        cop__number_put(out, &x);
    }
    return out->error;
}

static int join(struct cop_span a, struct cop_span b, struct cop_filter_out *out)
{
    if (walk_plain(a, b, cop__wide_add, out))
        return out->error;
    return walk(a, b, cop__number_add, out);
}

bool cop__sum_absorb(struct cop_buf *state, struct cop_span with)
{
    uint8_t *at = state->data + PLAIN_HEAD;
    const uint8_t *more = with.bytes + PLAIN_HEAD;
    if (state->length != PLAIN_HEAD + PLAIN_BODY || with.length != state->length)
        return false;
    uint64_t head = head_of(state->data);
    if ((head != HEAD_U64 && head != HEAD_I64) || head != head_of(with.bytes))
        return false;
    uint64_t add = cop__load64(more), low = cop__load64(at) + add;
    cop__store64(at, low);
    cop__store64(at + 8, cop__load64(at + 8) + cop__load64(more + 8) + (low < add));
    return true;
}

bool cop__sum_is_like(const struct cop_buf *empty, struct cop_span state)
{
    return are_plain((struct cop_span){empty->data, empty->length}, state);
}

static int diff(struct cop_span now, struct cop_span old, struct cop_filter_out *out)
{
    if (walk_plain(now, old, cop__wide_subtract, out))
        return out->error;
    return walk(now, old, cop__number_subtract, out);
}

static int result(struct cop_span bytes, struct cop_filter_out *out)
{
    struct cop__state state;
    struct cop__type type;
    struct cop__number number;
    if (read(bytes, &state, &type))
        return COP_EMALFORMED;
    if (!type.array && !is_left(&state.body)) {
        cop__number_zero(&number, type.base);
        return cop__number_result(out, &number);
    }
    while (is_left(&state.body)) {
        cop__number_get(&state.body, type.base, &number);
        cop__number_result(out, &number);
    }
    return state.body.failed ? COP_EMALFORMED : out->error;
}

const struct cop_filter cop__filter_sum = {
    .abi = COP_FILTER_ABI,
    .flags = COP_FILTER_CUMULATIVE,
    .name = "sum",
    .about = "the exact sum, of arrays at each place",
    .state = "sum/1",
    .inputs = INPUTS,
    .outputs = "i128 i128 f64 i128[] i128[] f64[]",
    .init = init,
    .lift = lift,
    .join = join,
    .diff = diff,
    .check = check,
    .result = result,
};
