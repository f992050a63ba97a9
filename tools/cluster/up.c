/* SPDX-License-Identifier: Apache-2.0 */
/* The start of a local cluster: what is checked before the first process. */
#include "cluster/local.h"
#include "term/commands.h"
#include "term/say.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/*
 * What a process needs beside one descriptor for each member: loop, log, sockets,
 * sessions.
 */
#define SPARE_DESCRIPTORS 64u

/*
 * The keeper binds a socket for each member before it starts the first, and a member
 * may be connected to all others (flat). The soft limit is raised as far as we may.
 */
static int check_descriptors(uint64_t n)
{
    struct rlimit limit;
    uint64_t need = n + SPARE_DESCRIPTORS;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return fail(EXIT_FAILED, "getrlimit: %s", strerror(errno));
    if (limit.rlim_cur >= need)
        return 0;
    if (limit.rlim_max < need)
        return fail(EXIT_FAILED,
                    "%" PRIu64 " members need %" PRIu64
                    " file descriptors, and the limit "
                    "is %" PRIu64 ": raise it with ulimit -n, or start fewer",
                    n, need, (uint64_t)limit.rlim_max);
    limit.rlim_cur = need;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return fail(EXIT_FAILED, "setrlimit: %s", strerror(errno));
    return 0;
}

/* Counts for all processes of a user, but not for root. */
static int check_processes(uint64_t n)
{
    struct rlimit limit;
    if (geteuid() == 0 || getrlimit(RLIMIT_NPROC, &limit) != 0 ||
        limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > n + 2)
        return 0;
    return fail(EXIT_FAILED,
                "%" PRIu64 " members need as many processes, and the limit is %" PRIu64
                ": raise it with ulimit -u, or start fewer",
                n, (uint64_t)limit.rlim_cur);
}

int local_up(const char *name, const struct keeper_config *wanted)
{
    struct keeper_config config = *wanted;
    struct dir dir;
    int code = check_descriptors(config.n);
    if (code == 0)
        code = check_processes(config.n);
    /* "c16383.sock" is as long as "keeper.sock". */
    if (code == 0)
        code = dir_create(name, KEEPER_SOCKET_LONGEST, &dir);
    if (code)
        return code;
    config.dir = &dir;
    code = keeper_launch(&config);
    close(dir.lock);
    return code;
}
