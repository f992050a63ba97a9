/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_BASE_RANDOM_H
#define COP_BASE_RANDOM_H

#include <coppice/types.h>

/* Seeded random numbers (xoshiro256**, seeded through splitmix64): the same everywhere. */
struct cop__random {
    uint64_t state[4];
};

void cop__random_init(struct cop__random *random, uint64_t seed);
uint64_t cop__random_next(struct cop__random *random);
/* Uniform in [0, bound), without bias; bound >= 1. */
uint64_t cop__random_below(struct cop__random *random, uint64_t bound);
/* True in `numerator` of `denominator` cases; denominator >= 1. */
bool cop__random_chance(struct cop__random *random, uint32_t numerator,
                        uint32_t denominator);

/* Mixes a 64-bit number well (splitmix64's finaliser): for hashing ids. */
uint64_t cop__mix64(uint64_t value);

#endif
