/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SIM_SEEDS_H
#define TESTS_SIM_SEEDS_H

#include <stdint.h>

/* COPPICE_SEEDS, or 2,000. */
uint64_t seeds_count(void);

/* Runs the first `count` seeds of the swarm on all cores and expects that none fails. One
 * that does is printed, with the short script that still fails. */
void seeds_run(uint64_t count, uint32_t flags);

#endif
