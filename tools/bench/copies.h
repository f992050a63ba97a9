/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_BENCH_COPIES_H
#define COP_TOOLS_BENCH_COPIES_H

#include <coppice/types.h>

/*
 * Bare copies: as many pairs of processes as there are copies, each with a TCP connection over
 * the loopback, of which one writes all bytes and the other reads them; all at once. What bulk
 * through a tree is compared with.
 */
struct copies_config {
    uint32_t count;
    const uint8_t *bytes;
    uint64_t length;
};
/* From the moment when all may begin until the last has all. 0, or EXIT_FAILED after one line. */
int copies_run(const struct copies_config *config, double *took_ns);

#endif
