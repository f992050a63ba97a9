/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_NET_TCP_RUNNER_H
#define COP_NET_TCP_RUNNER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

/*
 * Runs a loop of libuv, with a short way for what happens all the time: a message comes, a
 * few go out. While there is nothing to wait for but descriptors the runner itself waits on
 * the loop's epoll, reads the streams that are ready, and lets their drivers write. Anything
 * else that is ready is left to libuv, which is told of it again.
 *
 * A member that is one of hundreds on a machine has cold caches whenever it wakes up. On the
 * short way it touches nothing of libuv: neither code nor memory.
 *
 * On the short way no timer is looked at and libuv's idea of the time does not move; so
 * nothing is called on it that the application could have given.
 */
struct cop__stream;

/* Since 1.44 uv_backend_timeout knows of descriptors that are not in the epoll yet. Before
 * that libuv has to do everything. */
#define COP__RUNNER_UV_VERSION ((1u << 16) | (44u << 8))

/* A driver on the loop. It is asked after its streams were read. */
struct cop__rider {
    struct cop__rider *next;
    /* Writes what is to be written. False: something is left for the long way. */
    bool (*settle)(struct cop__rider *rider);
};

struct cop__runner {
    uv_loop_t *loop;
    int fd;          /* of its epoll */
    bool is_changed; /* libuv may have something to do since it was last asked */
    struct cop__rider *riders;
    struct cop__stream **streams; /* by descriptor: those that only wait to be read */
    uint32_t size;
};

/* Something used libuv, or may have: it has to be asked before it can be gone around again. */
static inline void cop__runner_changed(struct cop__runner *runner)
{
    runner->is_changed = true;
}

void cop__runner_init(struct cop__runner *runner, uv_loop_t *loop);
/* As uv_run(loop, UV_RUN_DEFAULT). */
void cop__runner_run(struct cop__runner *runner);
void cop__runner_fini(struct cop__runner *runner);

/* Whether there is a short way. */
bool cop__runner_is_short(const struct cop__runner *runner);
/* Whether it can be taken now: libuv, which is asked only if it may have something to do, has
 * not. If false, whoever lets it do that says so with cop__runner_changed. */
bool cop__runner_may_wait(struct cop__runner *runner);
/*
 * Once the short way, while it can be taken: waits at most so long (-1: for ever), reads and
 * writes. False: libuv has something to do now.
 */
bool cop__runner_turn(struct cop__runner *runner, int timeout_ms);

void cop__runner_join(struct cop__runner *runner, struct cop__rider *rider);
void cop__runner_leave(struct cop__runner *runner, struct cop__rider *rider);
/*
 * Takes a stream that polls for reading and for nothing else, or NULL if this is no longer
 * so. Without memory the stream goes the long way.
 */
void cop__runner_watch(struct cop__runner *runner, int fd, struct cop__stream *stream);

#endif
