/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp/runner.h"

#include <stdlib.h>
#include <sys/epoll.h>

#include "net/tcp/stream.h"

#define EVENTS_MAX 32

void cop__runner_init(struct cop__runner *runner, uv_loop_t *loop)
{
    *runner = (struct cop__runner){
        .loop = loop, .fd = uv_backend_fd(loop), .is_changed = true};
}

void cop__runner_fini(struct cop__runner *runner)
{
    free(runner->streams);
    runner->streams = NULL;
    runner->size = 0;
}

/* ---- who is on it ---------------------------------------------------------------- */

void cop__runner_join(struct cop__runner *runner, struct cop__rider *rider)
{
    rider->next = runner->riders;
    runner->riders = rider;
}

void cop__runner_leave(struct cop__runner *runner, struct cop__rider *rider)
{
    struct cop__rider **at = &runner->riders;
    while (*at != rider)
        at = &(*at)->next;
    *at = rider->next;
}

static bool make_room(struct cop__runner *runner, uint32_t fd)
{
    uint32_t size = runner->size ? runner->size : 16;
    while (size <= fd)
        size *= 2;
    if (size == runner->size)
        return true;
    struct cop__stream **streams =
        realloc(runner->streams, size * sizeof(struct cop__stream *));
    if (!streams)
        return false;
    for (uint32_t i = runner->size; i < size; i++)
        streams[i] = NULL;
    runner->streams = streams;
    runner->size = size;
    return true;
}

void cop__runner_watch(struct cop__runner *runner, int fd, struct cop__stream *stream)
{
    uint32_t at = (uint32_t)fd;
    runner->is_changed = true;
    if (stream ? make_room(runner, at) : at < runner->size)
        runner->streams[at] = stream;
}

/* ---- the short way --------------------------------------------------------------- */

/* What is ready and ours is read. False: something else is ready, too. */
static bool read_ready(struct cop__runner *runner, const struct epoll_event *events,
                       int count)
{
    bool is_all = count >= 0;
    for (int i = 0; i < count; i++) {
        /* A stream may have been closed since by what came on another one; if its number
         * has been given to the next, that finds nothing to read. */
        uint32_t fd = (uint32_t)events[i].data.fd;
        struct cop__stream *stream = fd < runner->size ? runner->streams[fd] : NULL;
        if (stream && events[i].events == EPOLLIN)
            cop__stream_take(stream);
        else
            is_all = false;
    }
    return is_all;
}

static bool settle(struct cop__runner *runner)
{
    bool is_settled = true;
    for (struct cop__rider *rider = runner->riders; rider; rider = rider->next)
        is_settled &= rider->settle(rider);
    return is_settled;
}

bool cop__runner_turn(struct cop__runner *runner, int timeout_ms)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(runner->fd, events, EVENTS_MAX, timeout_ms);
    bool is_all = read_ready(runner, events, count);
    return settle(runner) && is_all;
}

bool cop__runner_may_wait(struct cop__runner *runner)
{
    if (!runner->is_changed)
        return true;
    runner->is_changed = false;
    return uv_backend_timeout(runner->loop) == -1;
}

/* Waits and reads for as long as that is all there is to do. False: something else is to be
 * done now; true: libuv has to wait in its own way. */
static bool run_short(struct cop__runner *runner)
{
    bool is_all = true;
    runner->is_changed = true;
    while (is_all && cop__runner_may_wait(runner))
        is_all = cop__runner_turn(runner, -1);
    return is_all;
}

bool cop__runner_is_short(const struct cop__runner *runner)
{
    return uv_version() >= COP__RUNNER_UV_VERSION && runner->fd >= 0;
}

void cop__runner_run(struct cop__runner *runner)
{
    if (!cop__runner_is_short(runner)) {
        uv_run(runner->loop, UV_RUN_DEFAULT);
        return;
    }
    while (uv_loop_alive(runner->loop)) {
        bool is_all = run_short(runner);
        uv_run(runner->loop, is_all ? UV_RUN_ONCE : UV_RUN_NOWAIT);
    }
}
