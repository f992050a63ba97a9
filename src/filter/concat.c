/* SPDX-License-Identifier: Apache-2.0 */
#include "filter/filter.h"
#include "filter/records.h"

/*
 * concat: what each leaf sent, in the order of leaves and of their waves. Two different
 * packets of one leaf and wave are a mistake somewhere; the larger one stays, so that
 * everybody keeps the same. Result: leaf, wave and length (u64 each), then the bytes.
 */

static void larger(struct cop__record *a, const struct cop__record *b)
{
    if (cop__span_compare(a->data, b->data) < 0)
        a->data = b->data;
}

static bool differs(struct cop__record *a, const struct cop__record *b)
{
    return cop__span_compare(a->data, b->data) != 0;
}

static bool is_good(const struct cop__state *state, const struct cop__record *record)
{
    (void)state;
    return record->key[0] <= UINT32_MAX;
}

static const struct cop__records kind = {
    .inputs = "any",
    .keys = 2,
    .data = true,
    .is_good = is_good,
    .join = larger,
    .diff = differs,
};
COP__RECORDS_FUNCTIONS(kind)

static int init(const char *type, const char *params, struct cop_filter_out *out)
{
    return *params ? COP_EINVAL : cop__head_put(out, type, NULL, 0);
}

static int lift(struct cop_span empty, const struct cop_packet *packet,
                struct cop_filter_out *out)
{
    struct cop__state state;
    if (cop__state_read(empty, &state))
        return COP_EMALFORMED;
    struct cop__record record = {.key = {packet->leaf, packet->wave},
                                 .data = packet->data};
    return cop__records_make(&kind, &state, &record, 1, out);
}

static int result(struct cop_span bytes, struct cop_filter_out *out)
{
    struct cop__state state;
    struct cop__record record;
    if (cop__state_read(bytes, &state))
        return COP_EMALFORMED;
    while (cop__record_next(&kind, &state.body, &record)) {
        cop_filter_put_u64(out, record.key[0]);
        cop_filter_put_u64(out, record.key[1]);
        cop_filter_put_u64(out, record.data.length);
        cop_filter_put(out, record.data.bytes, record.data.length);
    }
    return state.body.failed ? COP_EMALFORMED : out->error;
}

const struct cop_filter cop__filter_concat = {
    .abi = COP_FILTER_ABI,
    .flags = COP_FILTER_IDEMPOTENT,
    .name = "concat",
    .about = "every packet, in the order of leaves",
    .state = "concat/1",
    .inputs = "any",
    .outputs = "bytes",
    .init = init,
    .lift = lift,
    .join = join,
    .diff = diff,
    .check = check,
    .result = result,
};
