/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/torus.h"

void cop__torus_near_cube(uint32_t n, uint32_t dims[3])
{
    dims[0] = dims[1] = dims[2] = 1;
    for (unsigned i = 0; (uint64_t)dims[0] * dims[1] * dims[2] < n; i = (i + 1) % 3)
        dims[i]++;
}

bool cop__torus_holds(const uint32_t dims[3], uint32_t n)
{
    for (int i = 0; i < 3; i++)
        if (dims[i] == 0 || dims[i] > COP_MEMBERS_MAX)
            return false;
    /* Two factors of at most 2^24 do not overflow; the third is compared by division. */
    uint64_t plane = (uint64_t)dims[0] * dims[1];
    return plane >= n || (n + plane - 1) / plane <= dims[2];
}

static uint32_t ring_distance(uint32_t a, uint32_t b, uint32_t around)
{
    uint32_t apart = a > b ? a - b : b - a;
    return apart < around - apart ? apart : around - apart;
}

uint32_t cop__torus_hops(const uint32_t dims[3], uint32_t a, uint32_t b)
{
    uint32_t sum = 0;
    for (int i = 0; i < 3; i++) {
        sum += ring_distance(a % dims[i], b % dims[i], dims[i]);
        a /= dims[i];
        b /= dims[i];
    }
    return sum;
}
