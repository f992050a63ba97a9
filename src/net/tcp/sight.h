/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_NET_TCP_SIGHT_H
#define COP_NET_TCP_SIGHT_H

#include <stdbool.h>
#include <sys/types.h>

#include "net/tcp/link.h"

/*
 * Reading the memory of the process at the other end of a Unix socket. Which process that is
 * the kernel says, and it must be of this very user; nobody's word is taken for it. It shows a
 * mark: bytes that nothing else has, at an address, which are wiped before anything that it
 * has said lies somewhere may go. So whoever reads, and then finds the mark whole, has read
 * what was meant, and not what another process, a later one, or the same one later, had there.
 */
struct cop__sight {
    pid_t pid; /* 0: nothing can be seen */
    uint64_t address;
    uint8_t mark[COP__MARK_SIZE];
};

/* What may be shown on a connection: `secret` is the process's own, `number` the connection's. */
void cop__mark_make(uint64_t secret, uint64_t number, uint8_t out[COP__MARK_SIZE]);
/* Nothing that was shown with it counts any more. */
void cop__mark_wipe(uint8_t mark[COP__MARK_SIZE]);

/* Looks for the mark in the process at the other end of `fd`. Whether it is there. */
bool cop__sight_open(struct cop__sight *sight, int fd, uint64_t address,
                     const uint8_t mark[COP__MARK_SIZE]);
/* 0, or COP_ELOST: it is not there any more, or may not be read any more. */
int cop__sight_read(const struct cop__sight *sight, uint64_t address, uint8_t *out,
                    uint32_t length);

#endif
