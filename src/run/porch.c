/* SPDX-License-Identifier: Apache-2.0 */
#include "run/porch.h"

#include "net/tcp/driver.h"

#include <unistd.h>

#define PAUSE (200 * COP_MSEC)

static void on_pollable(uv_poll_t *poll, int status, int events);

static void pause_taking(struct cop__porch *porch, int error)
{
    uint64_t held;
    if (cop__notice_is_due(&porch->shortage, cop__clock_now(), &held))
        cop__log(porch->config.log, COP_LOG_WARN,
                 "%s: cannot take connections for now: %s (%llu more like this)",
                 porch->config.name, uv_strerror(error), (unsigned long long)held);
    uv_poll_stop(&porch->poll);
    cop__alarm_start(&porch->clock, &porch->resume, cop__clock_now() + PAUSE);
}

static void resume(struct cop__porch *porch)
{
    int error = uv_poll_start(&porch->poll, UV_READABLE, on_pollable);
    if (error != 0)
        pause_taking(porch, error);
}

static void on_resume(struct cop__alarm *alarm, cop_time now)
{
    (void)now;
    resume((struct cop__porch *)((char *)alarm - offsetof(struct cop__porch, resume)));
}

/* One in a turn of the loop: by what the first says somebody who waits may know that all are there,
 * and then the next has come to its node, and is not to be sent away. */
static void on_pollable(uv_poll_t *poll, int status, int events)
{
    struct cop__porch *porch = poll->data;
    (void)events;
    if (status != 0) {
        pause_taking(porch, status);
        return;
    }
    cop__origin from;
    int fd = cop__tcp_take(porch->config.fd, &from);
    if (fd >= 0 && porch->config.take != NULL)
        porch->config.take(porch->config.context, fd, from);
    else if (fd >= 0)
        close(fd);
    else if (fd != UV_EAGAIN && fd != UV_EINTR)
        pause_taking(porch, fd);
}

int cop__porch_init(struct cop__porch *porch, const struct cop__porch_config *config)
{
    *porch = (struct cop__porch){.config = *config};
    cop__alarm_init(&porch->resume, on_resume);
    int error = cop__clock_init(&porch->clock, config->loop);
    if (error != 0)
        return error;
    porch->clock.context = porch;
    porch->handles = 1;
    /* libuv makes the descriptor non-blocking, too. */
    error = uv_poll_init(config->loop, &porch->poll, config->fd);
    if (error != 0)
        return error;
    porch->poll.data = porch;
    porch->handles = 2;
    return 0;
}

void cop__porch_watch(struct cop__porch *porch)
{
    if (porch->is_watching)
        return;
    porch->is_watching = true;
    resume(porch);
}

void cop__porch_rest(struct cop__porch *porch)
{
    porch->is_watching = false;
    uv_poll_stop(&porch->poll);
    cop__alarm_stop(&porch->clock, &porch->resume);
}

/* ---- the end --------------------------------------------------------------------- */

static void let_go(struct cop__porch *porch)
{
    if (--porch->handles == 0 && porch->closed != NULL)
        porch->closed(porch->config.context);
}

static void on_poll_closed(uv_handle_t *handle) { let_go(handle->data); }

static void on_clock_closed(void *context) { let_go(context); }

void cop__porch_close(struct cop__porch *porch, void (*closed)(void *context))
{
    porch->closed = closed;
    if (porch->handles == 0) {
        if (closed != NULL)
            closed(porch->config.context);
        return;
    }
    porch->is_watching = false;
    cop__alarm_stop(&porch->clock, &porch->resume);
    if (porch->handles == 2)
        uv_close((uv_handle_t *)&porch->poll, on_poll_closed);
    cop__clock_close(&porch->clock, on_clock_closed);
}
