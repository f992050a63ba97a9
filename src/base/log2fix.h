/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_BASE_LOG2FIX_H
#define COP_BASE_LOG2FIX_H

#include <stdint.h>

/*
 * Logarithms in fixed point: libm's results differ between machines, and whatever a node
 * decides must not. Value is log2(x) * 2^32, error below 2^-30, never falling as
 * x grows, exact for powers of two; x >= 1.
 */
int64_t cop__log2_fixed(uint64_t x);
/* floor and ceiling of log2, x >= 1. */
uint32_t cop__log2_floor(uint64_t x);
uint32_t cop__log2_ceil(uint64_t x);

#endif
