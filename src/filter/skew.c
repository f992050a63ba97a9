/* SPDX-License-Identifier: Apache-2.0 */
#include "filter/filter.h"
#include "filter/records.h"

/*
 * skew: how far the clock of each leaf is from the one that asked. A packet is two numbers,
 * the offset that a leaf has seen and the round trip in which it was seen: the true one is
 * within half of that. The shortest round trip of a leaf stays. Records: leaf; round trip,
 * offset. Result, three numbers for each leaf: leaf, offset, how far it may be off.
 */

#define INPUTS "i64[2]"

static bool is_better(const struct cop__record *a, const struct cop__record *b)
{
    if (a->value[0] != b->value[0])
        return a->value[0] < b->value[0];
    return a->value[1] < b->value[1];
}

static void better(struct cop__record *a, const struct cop__record *b)
{
    if (is_better(b, a)) {
        a->value[0] = b->value[0];
        a->value[1] = b->value[1];
    }
}

static bool improves(struct cop__record *a, const struct cop__record *b)
{
    return is_better(a, b);
}

static bool is_good(const struct cop__state *state, const struct cop__record *record)
{
    (void)state;
    return record->key[0] <= UINT32_MAX && !(record->value[0] >> 63);
}

static const struct cop__records kind = {
    .inputs = INPUTS,
    .keys = 1,
    .values = 2,
    .is_good = is_good,
    .join = better,
    .diff = improves,
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
    uint64_t offset = cop_filter_get_u64(packet->data.bytes);
    uint64_t trip = cop_filter_get_u64(packet->data.bytes + 8);
    if (trip >> 63)
        return COP_EINVAL;
    struct cop__record record = {.key = {packet->leaf},
                                 .value = {trip, cop__zigzag(offset)}};
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
        cop_filter_put_u64(out, cop__unzigzag(record.value[1]));
        cop_filter_put_u64(out, record.value[0] / 2 + record.value[0] % 2);
    }
    return state.body.failed ? COP_EMALFORMED : out->error;
}

const struct cop_filter cop__filter_skew = {
    .abi = COP_FILTER_ABI,
    .flags = COP_FILTER_IDEMPOTENT | COP_FILTER_CUMULATIVE,
    .name = "skew",
    .about = "offset of each leaf's clock, by the shortest round trip",
    .state = "skew/1",
    .inputs = INPUTS,
    .outputs = "i64[]",
    .init = init,
    .lift = lift,
    .join = join,
    .diff = diff,
    .check = check,
    .result = result,
};
