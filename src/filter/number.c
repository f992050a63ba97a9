/* SPDX-License-Identifier: Apache-2.0 */
#include "filter/number.h"

#include <string.h>

void cop__number_zero(struct cop__number *out, enum cop__base_type base)
{
    out->real = base == COP__TYPE_F64;
    if (out->real)
        out->sum.exact = (struct cop__exact){0};
    else
        cop__wide_set(out->sum.whole, 2, 0, false);
}

void cop__number_from(struct cop__number *out, enum cop__base_type base, uint64_t bits)
{
    out->real = base == COP__TYPE_F64;
    if (out->real)
        cop__exact_from(&out->sum.exact, bits);
    else
        cop__wide_set(out->sum.whole, 2, bits, base == COP__TYPE_I64);
}

void cop__number_add(struct cop__number *a, const struct cop__number *b)
{
    if (a->real)
        cop__exact_add(&a->sum.exact, &b->sum.exact);
    else
        cop__wide_add(a->sum.whole, b->sum.whole, 2);
}

void cop__number_subtract(struct cop__number *a, const struct cop__number *b)
{
    if (a->real)
        cop__exact_subtract(&a->sum.exact, &b->sum.exact);
    else
        cop__wide_subtract(a->sum.whole, b->sum.whole, 2);
}

/* ---- bytes ----------------------------------------------------------------------- */

static void put_u8(struct cop_filter_out *out, uint32_t value)
{
    uint8_t byte = (uint8_t)value;
    cop_filter_put(out, &byte, 1);
}

/* The highest word says nothing if it only repeats the sign of the next one. */
static bool repeats_sign(const uint64_t *top)
{
    return top[0] == (top[-1] >> 63 ? UINT64_MAX : 0);
}

static int put_exact(struct cop_filter_out *out, const struct cop__exact *sum)
{
    uint32_t low = 0, high = COP__EXACT_WORDS;
    while (low < high && sum->word[low] == 0)
        low++;
    while (high > low + 1 && repeats_sign(&sum->word[high - 1]))
        high--;
    cop__put_varint(out, sum->nan);
    cop__put_varint(out, sum->positive);
    cop__put_varint(out, sum->negative);
    put_u8(out, low < high ? low : 0);
    put_u8(out, high - low);
    for (uint32_t i = low; i < high; i++)
        cop_filter_put_u64(out, sum->word[i]);
    return out->error;
}

static void get_exact(struct cop__reader *reader, struct cop__exact *out)
{
    *out = (struct cop__exact){0};
    out->nan = cop__get_varint(reader);
    out->positive = cop__get_varint(reader);
    out->negative = cop__get_varint(reader);
    uint32_t low = cop__get_u8(reader), count = cop__get_u8(reader);
    if (low + count > COP__EXACT_WORDS || (count == 0 && low != 0)) {
        reader->failed = true;
        return;
    }
    for (uint32_t i = low; i < low + count; i++)
        out->word[i] = cop__get_u64(reader);
    if (count == 0 || reader->failed)
        return;
    const uint64_t *top = &out->word[low + count - 1];
    if (out->word[low] == 0 || (count > 1 && repeats_sign(top)))
        reader->failed = true;
    for (uint32_t i = low + count; i < COP__EXACT_WORDS; i++)
        out->word[i] = *top >> 63 ? UINT64_MAX : 0;
}

int cop__number_put(struct cop_filter_out *out, const struct cop__number *number)
{
    if (number->real)
        return put_exact(out, &number->sum.exact);
    cop_filter_put_u64(out, number->sum.whole[0]);
    return cop_filter_put_u64(out, number->sum.whole[1]);
}

void cop__number_get(struct cop__reader *reader, enum cop__base_type base,
                     struct cop__number *out)
{
    out->real = base == COP__TYPE_F64;
    if (out->real) {
        get_exact(reader, &out->sum.exact);
        return;
    }
    out->sum.whole[0] = cop__get_u64(reader);
    out->sum.whole[1] = cop__get_u64(reader);
}

/* ---- results --------------------------------------------------------------------- */

int cop__number_result(struct cop_filter_out *out, const struct cop__number *number)
{
    if (number->real)
        return cop_filter_put_u64(out, cop__exact_round(&number->sum.exact));
    cop_filter_put_u64(out, number->sum.whole[0]);
    return cop_filter_put_u64(out, number->sum.whole[1]);
}

uint64_t cop__number_mean(const struct cop__number *number, uint64_t count)
{
    if (number->real)
        return cop__exact_mean(&number->sum.exact, count);
    return cop__wide_ratio(number->sum.whole, 2, &count, 1);
}
