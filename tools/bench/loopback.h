/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_BENCH_LOOPBACK_H
#define COP_TOOLS_BENCH_LOOPBACK_H

#include <coppice/types.h>

/* Bare connections on this machine and whole messages on them, for measurements. */

/*
 * Two ends of a TCP connection over the loopback, without delay of small messages; the
 * system picks the port. Not inherited by exec. 0, or -1 with errno.
 */
int loopback_pair(int out[2]);

/* All `length` bytes, also if the socket does not block. 0, or -1 with errno. */
int loopback_write(int fd, const uint8_t *message, uint32_t length);
/* All `length` bytes from a socket that blocks; the end is ECONNRESET. */
int loopback_read(int fd, uint8_t *message, uint32_t length);

#endif
