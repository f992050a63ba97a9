/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"
#include "base/assert.h"

/* 2^64 divided by the golden ratio: splitmix64's step. */
#define GOLDEN_STEP UINT64_C(0x9e3779b97f4a7c15)

static uint64_t rotate_left(uint64_t value, unsigned by)
{
    return (value << by) | (value >> (64 - by));
}

uint64_t cop__mix64(uint64_t value)
{
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

void cop__random_init(struct cop__random *random, uint64_t seed)
{
    /* Mixing is a bijection of different inputs, so the state is never all zero. */
    for (int i = 0; i < 4; i++) {
        seed += GOLDEN_STEP;
        random->state[i] = cop__mix64(seed);
    }
}

uint64_t cop__random_next(struct cop__random *random)
{
    uint64_t *state = random->state;
    uint64_t result = rotate_left(state[1] * 5, 7) * 9;
    uint64_t shifted = state[1] << 17;

    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = rotate_left(state[3], 45);
    return result;
}

/* The smallest 2^k - 1 that is not below the value. */
static uint64_t mask_of(uint64_t value)
{
    for (unsigned by = 1; by < 64; by *= 2)
        value |= value >> by;
    return value;
}

uint64_t cop__random_below(struct cop__random *random, uint64_t bound)
{
    COP_ASSERT(bound >= 1);
    /* Rejecting is fair for every bound, needs no division, and ends after two draws on
     * average even for the worst bound. */
    uint64_t mask = mask_of(bound - 1);
    uint64_t value;
    do {
        value = cop__random_next(random) & mask;
    } while (value >= bound);
    return value;
}

bool cop__random_chance(struct cop__random *random, uint32_t numerator,
                        uint32_t denominator)
{
    return cop__random_below(random, denominator) < numerator;
}
