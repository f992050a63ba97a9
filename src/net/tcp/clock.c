/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"

cop_time cop__clock_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now); /* the clock of the descriptor, too */
    return (cop_time)now.tv_sec * COP_SEC + (cop_time)now.tv_nsec;
}

static void set_timer(struct cop__clock *clock, cop_time deadline)
{
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(deadline / COP_SEC),
                     .tv_nsec = (long)(deadline % COP_SEC)},
    };
    /* Zero would stop it. */
    if (deadline == 0)
        when.it_value.tv_nsec = 1;
    clock->set = deadline;
    int error = timerfd_settime(clock->fd, TFD_TIMER_ABSTIME, &when, NULL);
    COP_ASSERT(error == 0);
}

void cop__clock_wake(struct cop__clock *clock, cop_time deadline)
{
    if (deadline < clock->set && clock->fd >= 0)
        set_timer(clock, deadline);
}

static void fire(struct cop__clock *clock, cop_time now)
{
    uint64_t limit = cop__timers_limit(&clock->timers);
    struct cop__timer *timer;
    while ((timer = cop__timers_pop(&clock->timers, now, limit))) {
        struct cop__alarm *alarm = (struct cop__alarm *)timer;
        alarm->fire(alarm, now);
    }
    if (clock->tick)
        clock->tick(clock->context, now);
}

static void on_readable(uv_poll_t *uv, int status, int events)
{
    struct cop__clock *clock = uv->data;
    uint64_t times;
    (void)events;
    COP_ASSERT(status == 0);
    /* It may have been moved on since the loop found it: then there is nothing to read. */
    if (read(clock->fd, &times, sizeof times) < 0 && errno == EAGAIN)
        return;
    clock->set = COP_TIME_NEVER;
    fire(clock, cop__clock_now());
    cop__clock_wake(clock, cop__timers_deadline(&clock->timers));
}

int cop__clock_init(struct cop__clock *clock, uv_loop_t *loop)
{
    memset(clock, 0, sizeof *clock);
    cop__timers_init(&clock->timers);
    clock->set = COP_TIME_NEVER;
    clock->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (clock->fd < 0)
        return -errno;
    int error = uv_poll_init(loop, &clock->uv, clock->fd);
    if (error != 0) {
        close(clock->fd);
        return error;
    }
    clock->uv.data = clock;
    return uv_poll_start(&clock->uv, UV_READABLE, on_readable);
}

static void on_closed(uv_handle_t *handle)
{
    struct cop__clock *clock = handle->data;
    clock->closed(clock->context);
}

void cop__clock_close(struct cop__clock *clock, void (*closed)(void *context))
{
    clock->closed = closed;
    uv_poll_stop(&clock->uv);
    uv_close((uv_handle_t *)&clock->uv, on_closed);
    close(clock->fd);
    clock->fd = -1;
}

void cop__alarm_init(struct cop__alarm *alarm,
                     void (*fire_it)(struct cop__alarm *alarm, cop_time now))
{
    cop__timer_init(&alarm->timer);
    alarm->fire = fire_it;
}

void cop__alarm_start(struct cop__clock *clock, struct cop__alarm *alarm,
                      cop_time deadline)
{
    cop__timer_start(&clock->timers, &alarm->timer, deadline);
    cop__clock_wake(clock, deadline);
}

void cop__alarm_stop(struct cop__clock *clock, struct cop__alarm *alarm)
{
    cop__timer_stop(&clock->timers, &alarm->timer);
}

bool cop__alarm_is_set(const struct cop__alarm *alarm)
{
    return cop__timer_is_running(&alarm->timer);
}
