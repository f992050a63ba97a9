/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_RUN_LISTEN_H
#define COP_RUN_LISTEN_H

#include "net/tcp/driver.h"

/*
 * Sockets that listen, non-blocking and closed on exec: the descriptor, or -errno. A
 * Unix socket is made with mode 0600; one that nobody listens on any more is replaced,
 * one that somebody does is -EADDRINUSE.
 */
int cop__listen_unix(const char *path);
int cop__listen_address(const struct cop__address *address);

/* A TCP socket on a free port of the loopback; *port gets it. */
int cop__listen_loopback(uint16_t *port);

#endif
