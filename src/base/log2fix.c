/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log2fix.h"
#include "base/assert.h"

#define FRACTION_BITS 32

/*
 * The square of a number in [1, 2) with 63 bits behind the point, as one in [1, 4)
 * with 62. The square of the low half is left out: that costs at most two units in the
 * last place, 2^-61, and keeps the result rising with the number.
 */
static uint64_t square(uint64_t number)
{
    uint64_t high = number >> 32;
    uint64_t low = number & UINT32_MAX;
    return high * high + ((high * low) >> 31);
}

/*
 * Digit by digit: squaring a number doubles its logarithm, so each squaring pushes one
 * more binary digit of it in front of the point. An error made at the k-th squaring
 * weighs 2^-k in the result, so those of all squarings together stay far below the last
 * digit.
 */
int64_t cop__log2_fixed(uint64_t x)
{
    uint64_t result = cop__log2_floor(x);
    uint64_t number = x << (63 - result);

    for (int i = 0; i < FRACTION_BITS; i++) {
        uint64_t squared = square(number);
        uint64_t digit = squared >> 63;
        number = squared << (1 - digit);
        result = result << 1 | digit;
    }
    return (int64_t)result;
}

uint32_t cop__log2_floor(uint64_t x)
{
    COP_ASSERT(x >= 1);
    uint32_t result = 0;
    for (uint32_t by = 32; by > 0; by /= 2) {
        uint32_t step = x >> by != 0 ? by : 0;
        x >>= step;
        result += step;
    }
    return result;
}

uint32_t cop__log2_ceil(uint64_t x)
{
    COP_ASSERT(x >= 1);
    return x == 1 ? 0 : cop__log2_floor(x - 1) + 1;
}
