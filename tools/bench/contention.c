/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/contention.h"

#include "base/assert.h"
#include "bench/loopback.h"
#include "number/latencies.h"
#include "term/say.h"

#include <coppice/error.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Processes: the caller forks a parent for each group, which forks its children. Each is
 * killed by the kernel when the one who forked it dies, so nobody outlives the caller,
 * however that ends.
 */

/* What all of them share. */
struct stage {
    atomic_uint begun; /* parents that have begun to talk */
    atomic_uint done;  /* parents that have measured enough */
    atomic_int error;  /* errno of one that failed */
    uint64_t samples_ns[];
};

/* One group, as its parent sees it. */
struct group {
    const struct contention_config *config;
    struct stage *stage;
    uint32_t number, groups;
    uint32_t children;
    int fds[FAN_OUT_MAX];
    uint8_t message[CONTENTION_BYTES_MAX];
};

uint32_t contention_groups(const struct contention_config *config)
{
    return (config->n + config->fan_out) / (config->fan_out + 1);
}

uint32_t contention_members(const struct contention_config *config, uint32_t group)
{
    uint32_t groups = contention_groups(config);
    return config->n / groups + (group < config->n % groups);
}

/* ---- a child --------------------------------------------------------------------- */

/* Leaves `fd`, as number 3, and nothing else open, and dies with the one who forked. */
static bool settle(int fd, pid_t forker)
{
    return dup2(fd, 3) == 3 && close_range(4, ~0u, 0) == 0 &&
           prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == forker;
}

/* Answers until its parent is gone. */
_Noreturn static void live_as_child(struct group *group, int fd, pid_t forker)
{
    uint32_t bytes = group->config->bytes;
    if (!settle(fd, forker))
        _exit(1);
    while (loopback_read(3, group->message, bytes) == 0 &&
           loopback_write(3, group->message, bytes) == 0)
        ;
    _exit(0);
}

/* ---- a parent -------------------------------------------------------------------- */

static bool fork_child(struct group *group)
{
    int ends[2];
    pid_t forker = getpid();
    if (loopback_pair(ends) != 0)
        return false;
    pid_t pid = fork();
    if (pid == 0)
        live_as_child(group, ends[1], forker);
    int error = errno;
    close(ends[1]);
    group->fds[group->children++] = ends[0];
    errno = error;
    return pid > 0;
}

static bool talk(struct group *group)
{
    uint32_t bytes = group->config->bytes;
    for (uint32_t i = 0; i < group->children; i++)
        if (loopback_write(group->fds[i], group->message, bytes) != 0)
            return false;
    for (uint32_t i = 0; i < group->children; i++)
        if (loopback_read(group->fds[i], group->message, bytes) != 0)
            return false;
    return true;
}

/*
 * Nothing is measured before the last group has begun, and nobody stops before the last
 * has done its share: while one measures, all others talk.
 */
static bool measure(struct group *group)
{
    struct stage *stage = group->stage;
    uint32_t repetitions = group->config->repetitions;
    uint64_t *samples = stage->samples_ns + (size_t)group->number * repetitions;
    atomic_fetch_add(&stage->begun, 1);
    for (uint32_t i = 0;
         i < group->config->warm_up || atomic_load(&stage->begun) < group->groups; i++)
        if (!talk(group))
            return false;
    for (uint32_t i = 0; i < repetitions; i++) {
        cop_time start = now_ns();
        if (!talk(group))
            return false;
        samples[i] = now_ns() - start;
    }
    atomic_fetch_add(&stage->done, 1);
    while (atomic_load(&stage->done) < group->groups)
        if (!talk(group))
            return false;
    return true;
}

/* Waits at the gate until everybody is there, then works. */
_Noreturn static void live_as_parent(struct group *group, int gate, pid_t forker)
{
    char nothing;
    uint32_t members = contention_members(group->config, group->number);
    bool good = settle(gate, forker);
    while (good && group->children < members - 1)
        good = fork_child(group);
    if (good && read(3, &nothing, 1) != 0)
        good = false;
    if (!good || !measure(group)) {
        atomic_store(&group->stage->error, errno);
        _exit(1);
    }
    /* The children end with their connections; a zombie would be one left behind. */
    close_range(3, ~0u, 0);
    while (wait(NULL) > 0 || errno == EINTR)
        ;
    _exit(0);
}

/* ---- the caller ------------------------------------------------------------------ */

static uint32_t fork_parents(struct group *group, const int gate[2], pid_t *pids)
{
    pid_t forker = getpid();
    for (group->number = 0; group->number < group->groups; group->number++) {
        pids[group->number] = fork();
        if (pids[group->number] == 0)
            live_as_parent(group, gate[0], forker);
        if (pids[group->number] < 0)
            break;
    }
    return group->number;
}

static void kill_all(const pid_t *pids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (pids[i] > 0)
            kill(pids[i], SIGKILL);
}

/* Until all are gone. The others would wait for one that failed: they are ended. */
static bool wait_for_all(pid_t *pids, uint32_t count, bool good)
{
    if (!good)
        kill_all(pids, count);
    for (uint32_t left = count; left > 0;) {
        int status;
        pid_t pid = waitpid(-1, &status, 0);
        if (pid < 0 && errno != EINTR)
            return false;
        for (uint32_t i = 0; i < count && pid > 0; i++) {
            if (pids[i] != pid)
                continue;
            pids[i] = 0;
            left--;
            if (status != 0 && good) {
                good = false;
                kill_all(pids, count);
            }
        }
    }
    return good;
}

static bool play(struct group *group, pid_t *pids)
{
    int gate[2];
    if (pipe(gate) != 0)
        return false;
    uint32_t count = fork_parents(group, gate, pids);
    bool good = count == group->groups;
    int error = errno;
    /* The gate opens: no writer is left. */
    close(gate[0]);
    close(gate[1]);
    if (wait_for_all(pids, count, good))
        return true;
    if (good)
        error = atomic_load(&group->stage->error);
    errno = error ? error : ECHILD;
    return false;
}

int contention_run(const struct contention_config *config, double *latency_ns)
{
    uint32_t groups = contention_groups(config);
    COP_ASSERT(config->fan_out >= 1 && config->fan_out <= FAN_OUT_MAX &&
               config->n >= 2 && config->n <= CONTENTION_N_MAX && config->bytes >= 1 &&
               config->bytes <= CONTENTION_BYTES_MAX && config->repetitions >= 1 &&
               contention_members(config, groups - 1) >= 2);
    size_t count = (size_t)groups * config->repetitions;
    size_t size = sizeof(struct stage) + count * sizeof(uint64_t);
    struct stage *stage =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct group *group = calloc(1, sizeof *group);
    pid_t *pids = calloc(groups, sizeof *pids);
    int result = COP_ENOMEM;
    if (stage != MAP_FAILED && group != NULL && pids != NULL) {
        group->config = config;
        group->stage = stage;
        group->groups = groups;
        result = play(group, pids) ? 0 : COP_EIO;
    }
    int error = errno;
    if (result == 0)
        *latency_ns = median_time(stage->samples_ns, (uint32_t)count) / 2;
    free(group);
    free(pids);
    if (stage != MAP_FAILED)
        munmap(stage, size);
    errno = error;
    return result;
}
