/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/copies.h"

#include "bench/loopback.h"
#include "term/commands.h"
#include "term/say.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* At a time: enough that calls do not count. */
#define PIECE (UINT32_C(128) << 10)

/* All who copy wait for a byte in one pipe, and put one into the other when they have all. */
struct copies {
    const struct copies_config *config;
    int begin[2], end[2];
    pid_t *pids;
    uint32_t forked;
};

static bool wait_and_write(const struct copies *copies, int fd)
{
    const struct copies_config *config = copies->config;
    uint8_t byte;
    bool good = read(copies->begin[0], &byte, 1) == 1;
    for (uint64_t at = 0; at < config->length && good; at += PIECE) {
        uint64_t left = config->length - at;
        uint32_t length = left < PIECE ? (uint32_t)left : PIECE;
        good = loopback_write(fd, config->bytes + at, length) == 0;
    }
    return good;
}

static bool read_all(const struct copies *copies, int fd)
{
    static uint8_t piece[PIECE];
    bool good = true;
    for (uint64_t left = copies->config->length; left > 0 && good;) {
        ssize_t got = recv(fd, piece, sizeof piece, 0);
        good = got > 0;
        left -= good ? (uint64_t)got : 0;
    }
    return good && write(copies->end[1], "", 1) == 1;
}

/* Whether there is one more process, which works on `fd`. */
static bool fork_one(struct copies *copies, int fd,
                     bool (*work)(const struct copies *copies, int fd))
{
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(getppid() == parent && work(copies, fd) ? 0 : 1);
    }
    if (pid > 0)
        copies->pids[copies->forked++] = pid;
    return pid > 0;
}

static bool fork_pairs(struct copies *copies)
{
    bool good = true;
    for (uint32_t i = 0; i < copies->config->count && good; i++) {
        int ends[2];
        good = loopback_pair(ends) == 0;
        if (!good)
            break;
        good = fork_one(copies, ends[0], wait_and_write) &&
               fork_one(copies, ends[1], read_all);
        close(ends[0]);
        close(ends[1]);
    }
    return good;
}

static bool pass_bytes(struct copies *copies)
{
    uint8_t byte = 0;
    bool good = true;
    for (uint32_t i = 0; i < copies->config->count && good; i++)
        good = write(copies->begin[1], &byte, 1) == 1;
    /* Whoever fails ends, and after the last there is nothing to be read. */
    close(copies->end[1]);
    copies->end[1] = -1;
    for (uint32_t i = 0; i < copies->config->count && good; i++)
        good = read(copies->end[0], &byte, 1) == 1;
    return good;
}

static void close_all(struct copies *copies)
{
    for (int i = 0; i < 2; i++) {
        if (copies->begin[i] >= 0)
            close(copies->begin[i]);
        if (copies->end[i] >= 0)
            close(copies->end[i]);
    }
    for (uint32_t i = 0; i < copies->forked; i++) {
        kill(copies->pids[i], SIGKILL);
        while (waitpid(copies->pids[i], NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    free(copies->pids);
}

int copies_run(const struct copies_config *config, double *took_ns)
{
    struct copies copies = {.config = config, .begin = {-1, -1}, .end = {-1, -1}};
    copies.pids = calloc(2 * (size_t)config->count, sizeof *copies.pids);
    fflush(NULL);
    bool good = copies.pids && pipe(copies.begin) == 0 && pipe(copies.end) == 0 &&
                fork_pairs(&copies);
    cop_time begun = now_ns();
    good = good && pass_bytes(&copies);
    *took_ns = (double)(now_ns() - begun);
    int error = errno;
    close_all(&copies);
    return good ? 0
                : fail(EXIT_FAILED, "bench: the copies failed: %s", strerror(error));
}
