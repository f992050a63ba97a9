/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/floor.h"

#include "bench/loopback.h"

#include <coppice/error.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* One process. Edge 0 leads to the parent (-1 at the root), the others to children. */
struct place {
    const struct floor_config *config;
    uint32_t rank, children;
    int *fds;       /* children + 1 */
    uint32_t *have; /* bytes of a message that came, for each edge (epoll) */
    pid_t *pids;    /* children */
    int epoll;
    uint8_t *message;
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- edges ----------------------------------------------------------------------- */

static int make_edge(const struct floor_config *config, int out[2])
{
    int made = config->transport == FLOOR_TCP
                   ? loopback_pair(out)
                   : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out);
    for (int i = 0; made == 0 && config->kind == FLOOR_EPOLL && i < 2; i++)
        fcntl(out[i], F_SETFL, O_NONBLOCK);
    return made;
}

/* ---- messages -------------------------------------------------------------------- */

static int write_down(struct place *place)
{
    for (uint32_t i = 1; i <= place->children; i++)
        if (loopback_write(place->fds[i], place->message, place->config->bytes) != 0)
            return -1;
    return 0;
}

/* ---- blocking -------------------------------------------------------------------- */

static int blocking_down_and_up(struct place *place)
{
    if (write_down(place) != 0)
        return -1;
    for (uint32_t i = 1; i <= place->children; i++)
        if (loopback_read(place->fds[i], place->message, place->config->bytes) != 0)
            return -1;
    return 0;
}

static int blocking_turn(struct place *place)
{
    uint32_t bytes = place->config->bytes;
    if (place->rank != 0 && loopback_read(place->fds[0], place->message, bytes) != 0)
        return -1;
    if (blocking_down_and_up(place) != 0)
        return -1;
    return place->rank == 0 ? 0 : loopback_write(place->fds[0], place->message, bytes);
}

/* ---- epoll ----------------------------------------------------------------------- */

/* 1 if a whole message has come on the edge, 0 if not yet. */
static int take(struct place *place, uint32_t edge)
{
    uint32_t bytes = place->config->bytes;
    ssize_t got = recv(place->fds[edge], place->message, bytes - place->have[edge], 0);
    if (got == 0)
        errno = ECONNRESET;
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (got <= 0)
        return -1;
    place->have[edge] += (uint32_t)got;
    if (place->have[edge] < bytes)
        return 0;
    place->have[edge] = 0;
    return 1;
}

/* Waits and takes until `missing` messages have come from children, or one from above. */
static int epoll_gather(struct place *place, uint32_t missing)
{
    struct epoll_event events[64];
    while (missing > 0) {
        int ready = epoll_wait(place->epoll, events, 64, -1);
        if (ready < 0 && errno != EINTR)
            return -1;
        for (int i = 0; i < ready; i++) {
            int whole = take(place, events[i].data.u32);
            if (whole < 0)
                return -1;
            missing -= (uint32_t)whole;
        }
    }
    return 0;
}

static int epoll_turn(struct place *place)
{
    /* Nobody speaks out of turn: first only the parent does, then only the children. */
    if (place->rank != 0 && epoll_gather(place, 1) != 0)
        return -1;
    if (write_down(place) != 0 || epoll_gather(place, place->children) != 0)
        return -1;
    if (place->rank == 0)
        return 0;
    return loopback_write(place->fds[0], place->message, place->config->bytes);
}

static int open_epoll(struct place *place)
{
    place->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (place->epoll < 0)
        return -1;
    for (uint32_t i = place->rank == 0 ? 1 : 0; i <= place->children; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
        if (epoll_ctl(place->epoll, EPOLL_CTL_ADD, place->fds[i], &event) != 0)
            return -1;
    }
    return 0;
}

static int turn(struct place *place)
{
    return place->config->kind == FLOOR_EPOLL ? epoll_turn(place)
                                              : blocking_turn(place);
}

/* ---- processes ------------------------------------------------------------------- */

static uint32_t count_children(const struct floor_config *config, uint32_t rank)
{
    uint64_t first = (uint64_t)rank * config->k + 1;
    if (first >= config->n)
        return 0;
    uint64_t left = config->n - first;
    return left < config->k ? (uint32_t)left : config->k;
}

static int open_place(struct place *place, const struct floor_config *config,
                      uint32_t rank, int up)
{
    uint32_t children = count_children(config, rank);
    *place = (struct place){.config = config, .rank = rank, .epoll = -1};
    place->fds = calloc(children + 1, sizeof *place->fds);
    place->have = calloc(children + 1, sizeof *place->have);
    place->pids = calloc(children + 1, sizeof *place->pids);
    place->message = calloc(1, config->bytes);
    if (place->fds)
        place->fds[0] = up;
    return place->fds && place->have && place->pids && place->message ? 0 : -1;
}

/* Closing the edges makes the children end; then their ends are waited for. */
static void close_place(struct place *place, bool is_failed)
{
    for (uint32_t i = 0; i <= place->children && place->fds; i++)
        if (place->fds[i] >= 0)
            close(place->fds[i]);
    if (place->epoll >= 0)
        close(place->epoll);
    for (uint32_t i = 0; i < place->children; i++) {
        if (is_failed)
            kill(place->pids[i], SIGKILL);
        while (waitpid(place->pids[i], NULL, 0) < 0 && errno == EINTR)
            ;
    }
    free(place->fds);
    free(place->have);
    free(place->pids);
    free(place->message);
}

static int spread(struct place *place);

/* The life of a process that is not the root: turns, until the edge to the parent ends. */
_Noreturn static void live(const struct floor_config *config, uint32_t rank, int up,
                           pid_t parent)
{
    struct place place;
    /* Nothing of the caller's stays open in here: it could keep others waiting. */
    if (dup2(up, 3) != 3 || close_range(4, ~0u, 0) != 0)
        _exit(1);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(1);
    bool is_ready = open_place(&place, config, rank, 3) == 0 && spread(&place) == 0;
    if (!is_ready) /* the root hears only that it has gone */
        fprintf(stderr, "coppice: process %u of the floor cannot begin: %s\n",
                (unsigned)rank, strerror(errno));
    while (is_ready && turn(&place) == 0)
        ;
    close_place(&place, !is_ready);
    _exit(0);
}

static int fork_child(struct place *place, uint32_t rank)
{
    int edge[2];
    pid_t parent = getpid();
    if (make_edge(place->config, edge) != 0)
        return -1;
    /* fork() makes libuv close, in the child, the pipe that it had when the benchmark began; in
     * here these numbers are sockets by now. */
    pid_t pid = place->rank == 0 ? fork() : _Fork();
    if (pid == 0)
        live(place->config, rank, edge[1], parent);
    close(edge[1]);
    if (pid < 0) {
        close(edge[0]);
        return -1;
    }
    place->pids[place->children++] = pid;
    place->fds[place->children] = edge[0];
    return 0;
}

/* Forks the children of this place, which fork theirs. */
static int spread(struct place *place)
{
    const struct floor_config *config = place->config;
    uint32_t children = count_children(config, place->rank);
    for (uint32_t i = 0; i < children; i++)
        if (fork_child(place, place->rank * config->k + 1 + i) != 0)
            return -1;
    return config->kind == FLOOR_EPOLL ? open_epoll(place) : 0;
}

/* ---- for others ------------------------------------------------------------------ */

struct floor {
    struct floor_config config;
    struct place place; /* of the root */
};

static bool is_sane(const struct floor_config *config)
{
    return config->n >= 1 && config->n <= FLOOR_N_MAX && config->k >= 1 &&
           config->k <= FLOOR_K_MAX && config->bytes >= 1 &&
           config->bytes <= FLOOR_BYTES_MAX && config->repetitions >= 1;
}

int floor_open(const struct floor_config *config, struct floor **out, char *message,
               size_t size)
{
    if (!is_sane(config)) {
        snprintf(message, size,
                 "the floor needs 1 to %u processes, "
                 "an arity of at least 1 and messages of 1 to %u bytes",
                 FLOOR_N_MAX, FLOOR_BYTES_MAX);
        return COP_EINVAL;
    }
    struct floor *floor = calloc(1, sizeof *floor);
    if (!floor) {
        snprintf(message, size, "%s", cop_strerror(COP_ENOMEM));
        return COP_ENOMEM;
    }
    floor->config = *config;
    if (open_place(&floor->place, &floor->config, 0, -1) == 0 &&
        spread(&floor->place) == 0) {
        *out = floor;
        return 0;
    }
    snprintf(message, size, "the floor of %u processes failed: %s", config->n,
             strerror(errno));
    close_place(&floor->place, true);
    free(floor);
    return COP_EIO;
}

int floor_turn(struct floor *floor, uint64_t *elapsed_ns)
{
    uint64_t start = now_ns();
    if (turn(&floor->place) != 0)
        return COP_EIO;
    *elapsed_ns = now_ns() - start;
    return 0;
}

void floor_close(struct floor *floor)
{
    if (!floor)
        return;
    close_place(&floor->place, false);
    free(floor);
}

static int measure(struct floor *floor, uint64_t *samples)
{
    uint64_t ignored;
    int error = 0;
    for (uint32_t i = 0; i < floor->config.warm_up && !error; i++)
        error = floor_turn(floor, &ignored);
    for (uint32_t i = 0; i < floor->config.repetitions && !error; i++)
        error = floor_turn(floor, &samples[i]);
    return error;
}

int floor_run(const struct floor_config *config, struct floor_result *out)
{
    struct floor *floor;
    int error = floor_open(config, &floor, out->message, sizeof out->message);
    if (error)
        return error;
    uint64_t *samples = calloc(config->repetitions, sizeof *samples);
    error = samples ? measure(floor, samples) : COP_ENOMEM;
    if (error)
        snprintf(out->message, sizeof out->message,
                 "the floor of %u processes failed: %s", config->n,
                 error == COP_ENOMEM ? cop_strerror(error) : strerror(errno));
    floor_close(floor);
    if (error) {
        free(samples);
        return error;
    }
    *out = (struct floor_result){.samples_ns = samples, .count = config->repetitions};
    return 0;
}

void floor_result_free(struct floor_result *result)
{
    free(result->samples_ns);
    result->samples_ns = NULL;
    result->count = 0;
}
