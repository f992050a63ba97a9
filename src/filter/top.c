/* SPDX-License-Identifier: Apache-2.0 */
#include "filter/filter.h"
#include "filter/records.h"

/*
 * top: the k largest values, and whose they are (k=10). Records: the value with its order
 * turned, so that the largest comes first; leaf; wave. A value is one of a leaf and a wave,
 * so that hearing of it twice changes nothing. Result: value and leaf, in turns.
 */

#define INPUTS "u64 i64"
#define K_MAX 1024u

static uint64_t turned(const char *type, uint64_t value)
{
    return type[0] == 'i' ? ~cop__flip_sign(value) : ~value;
}

static bool head_is_good(const struct cop__state *state)
{
    uint64_t k = cop__state_word(state, 0);
    return k >= 1 && k <= K_MAX;
}

static bool is_good(const struct cop__state *state, const struct cop__record *record)
{
    (void)state;
    return record->key[1] <= UINT32_MAX;
}

static bool keep(const struct cop__state *state, const struct cop__record *record,
                 uint64_t before, const struct cop__record *last)
{
    (void)record, (void)last;
    return before < cop__state_word(state, 0);
}

static const struct cop__records kind = {
    .inputs = INPUTS,
    .words = 1,
    .keys = 3,
    .head_is_good = head_is_good,
    .is_good = is_good,
    .keep = keep,
};
COP__RECORDS_FUNCTIONS(kind)

static int init(const char *type, const char *params, struct cop_filter_out *out)
{
    uint64_t k = 10;
    int error = cop__param_one(params, "k", 1, K_MAX, &k);
    return error ? error : cop__head_put(out, type, &k, 1);
}

static int lift(struct cop_span empty, const struct cop_packet *packet,
                struct cop_filter_out *out)
{
    struct cop__state state;
    if (cop__state_read(empty, &state))
        return COP_EMALFORMED;
    uint64_t value = cop_filter_get_u64(packet->data.bytes);
    struct cop__record record = {
        .key = {turned(state.type, value), packet->leaf, packet->wave}};
    return cop__records_make(&kind, &state, &record, 1, out);
}

static int result(struct cop_span bytes, struct cop_filter_out *out)
{
    struct cop__state state;
    struct cop__record record;
    if (cop__state_read(bytes, &state))
        return COP_EMALFORMED;
    while (cop__record_next(&kind, &state.body, &record)) {
        cop_filter_put_u64(out, turned(state.type, record.key[0]));
        cop_filter_put_u64(out, record.key[1]);
    }
    return state.body.failed ? COP_EMALFORMED : out->error;
}

const struct cop_filter cop__filter_top = {
    .abi = COP_FILTER_ABI,
    .flags = COP_FILTER_IDEMPOTENT | COP_FILTER_CUMULATIVE,
    .name = "top",
    .about = "the k largest values, and whose they are (k=10)",
    .state = "top/1",
    .inputs = INPUTS,
    .outputs = "u64[] i64[]",
    .params = "k=3",
    .init = init,
    .lift = lift,
    .join = join,
    .diff = diff,
    .check = check,
    .result = result,
};
