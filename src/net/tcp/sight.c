/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp/sight.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

void cop__mark_make(uint64_t secret, uint64_t number, uint8_t out[COP__MARK_SIZE])
{
    struct cop__writer writer = cop__writer(out, COP__MARK_SIZE);
    cop__put_u64(&writer, secret);
    cop__put_u64(&writer, number);
}

/* Others read it without asking: the wiping is neither left out nor put off. */
void cop__mark_wipe(uint8_t mark[COP__MARK_SIZE])
{
    explicit_bzero(mark, COP__MARK_SIZE);
    atomic_thread_fence(memory_order_seq_cst);
}

/* Of this user, whose processes could trace each other anyway; root is another one. */
static pid_t process_at(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 ||
        peer.uid != geteuid())
        return 0;
    return peer.pid; /* 0: it is in a space of processes that we do not see */
}

/* The payload first and the mark last. */
int cop__sight_read(const struct cop__sight *sight, uint64_t address, uint8_t *out,
                    uint32_t length)
{
    uint8_t found[COP__MARK_SIZE];
    struct iovec to[] = {{out, length}, {found, sizeof found}};
    struct iovec from[] = {{(void *)(uintptr_t)address, length},
                           {(void *)(uintptr_t)sight->address, sizeof found}};
    ssize_t count = process_vm_readv(sight->pid, to, 2, from, 2, 0);
    bool is_whole = count == (ssize_t)(length + sizeof found) &&
                    memcmp(found, sight->mark, sizeof found) == 0;
    return is_whole ? 0 : COP_ELOST;
}

bool cop__sight_open(struct cop__sight *sight, int fd, uint64_t address,
                     const uint8_t mark[COP__MARK_SIZE])
{
    struct cop__sight found = {.pid = process_at(fd), .address = address};
    memcpy(found.mark, mark, sizeof found.mark);
    uint8_t again[COP__MARK_SIZE];
    if (found.pid <= 0 || cop__sight_read(&found, address, again, sizeof again) != 0)
        return false;
    *sight = found;
    return true;
}
