/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest.h"
#include "base/log2fix.h"
#include "base/random.h"
#include "filter/filter.h"
#include "filter/records.h"
#include "filter/wide.h"

/*
 * distinct: about how many different packets, in a few KiB (HyperLogLog with 4,096
 * registers: standard error 1.04 / 64 = 1.6 %). A register keeps the largest number of
 * leading zeroes, plus one, of the hashes that fell to it. Records: register, number.
 * All arithmetic is in integers.
 */

#define BITS 12u
#define REGISTERS (1u << BITS)
#define RANK_MAX (64 - BITS + 1)
/* Powers of 1/2 down to the smallest, as integers; and alpha = 0.7213 / (1 + 1.079 / m). */
#define ONE_BITS 50u
#define ALPHA_2_20 756139u
/* ln 2 * 2^32. */
#define LN2_2_32 UINT64_C(2977044472)

static bool is_good(const struct cop__state *state, const struct cop__record *record)
{
    (void)state;
    return record->key[0] < REGISTERS && record->value[0] >= 1 &&
           record->value[0] <= RANK_MAX;
}

static void larger(struct cop__record *a, const struct cop__record *b)
{
    if (a->value[0] < b->value[0])
        a->value[0] = b->value[0];
}

static bool is_larger(struct cop__record *a, const struct cop__record *b)
{
    return a->value[0] > b->value[0];
}

static const struct cop__records kind = {
    .inputs = "any",
    .keys = 1,
    .values = 1,
    .is_good = is_good,
    .join = larger,
    .diff = is_larger,
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
    struct cop__digest digest;
    if (cop__state_read(empty, &state))
        return COP_EMALFORMED;
    cop__digest_init(&digest);
    cop__digest_bytes(&digest, packet->data.bytes, packet->data.length);
    uint64_t hash = cop__mix64(cop__digest_value(&digest));
    uint64_t rest = hash << BITS;
    uint64_t rank = rest ? 64 - cop__log2_floor(rest) : RANK_MAX;
    struct cop__record record = {.key = {hash >> (64 - BITS)}, .value = {rank}};
    return cop__records_make(&kind, &state, &record, 1, out);
}

/* Few values: from how many registers none fell to, m * ln(m / empty). */
static uint64_t count_few(uint64_t empty)
{
    uint64_t log = (uint64_t)(cop__log2_fixed(REGISTERS) - cop__log2_fixed(empty));
    uint64_t natural = cop__wide_scale(log, LN2_2_32, UINT64_C(1) << 32);
    return (natural * REGISTERS + (UINT64_C(1) << 31)) >> 32;
}

/* alpha * m^2 / sum of 2^-register. */
static uint64_t count_many(uint64_t sum)
{
    uint32_t shift = 2 * BITS + ONE_BITS - 20;
    return sum >> BITS ? cop__wide_scale(ALPHA_2_20, UINT64_C(1) << shift, sum)
                       : UINT64_MAX;
}

static int result(struct cop_span bytes, struct cop_filter_out *out)
{
    struct cop__state state;
    struct cop__record record;
    uint64_t empty = REGISTERS, sum = 0;
    if (cop__state_read(bytes, &state))
        return COP_EMALFORMED;
    for (; cop__record_next(&kind, &state.body, &record); empty--)
        if (record.value[0] <= ONE_BITS)
            sum += UINT64_C(1) << (ONE_BITS - record.value[0]);
    if (state.body.failed)
        return COP_EMALFORMED;
    uint64_t many = count_many(sum + (empty << ONE_BITS));
    bool few = empty > 0 && many <= 5 * REGISTERS / 2;
    return cop_filter_put_u64(out, few ? count_few(empty) : many);
}

const struct cop_filter cop__filter_distinct = {
    .abi = COP_FILTER_ABI,
    .flags = COP_FILTER_IDEMPOTENT | COP_FILTER_CUMULATIVE,
    .name = "distinct",
    .about = "about how many different values (standard error 1.6 %)",
    .state = "distinct/1",
    .inputs = "any",
    .outputs = "u64",
    .init = init,
    .lift = lift,
    .join = join,
    .diff = diff,
    .check = check,
    .result = result,
};
