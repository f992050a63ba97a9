/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SIM_SEEDS_H
#define TESTS_SIM_SEEDS_H

#include <stdint.h>

/* COPPICE_SEEDS, or 2,000. */
uint64_t seeds_count(void);

/*
 * With COPPICE_BRIEF set, ends the test that calls it, as skipped. For tests that try
 * everything: a sanitized build would take minutes for them, and random seeds take it to the
 * same places.
 */
void seeds_skip_if_brief(void);

/* Runs the first `count` seeds of the swarm on all cores and expects that none fails. One
 * that does is printed, with the short script that still fails. */
void seeds_run(uint64_t count, uint32_t flags);

#endif
