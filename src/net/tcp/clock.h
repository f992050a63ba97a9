/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_NET_TCP_CLOCK_H
#define COP_NET_TCP_CLOCK_H

#include <uv.h>

#include "base/timers.h"

/*
 * All deadlines of a driver on one timer. It is only moved when something is due earlier;
 * when it fires and nothing is due, it is set to what is next. So a deadline that is moved
 * on with every message costs nothing, and with no deadline there is no wake-up.
 *
 * The timer is a descriptor, not a uv_timer: while one of those runs, every wait of the loop
 * has a time limit, and the kernel starts and stops a clock for each. Where a message costs
 * a few microseconds, that shows.
 */
struct cop__alarm {
    struct cop__timer timer;
    void (*fire)(struct cop__alarm *alarm, cop_time now);
};

struct cop__clock {
    uv_poll_t uv;
    int fd;
    struct cop__timers timers;
    cop_time set; /* when the timer fires; COP_TIME_NEVER if it does not */
    /* Called whenever the timer fires, after the alarms; it says by cop__clock_wake when
     * it wants to be called again. */
    void (*tick)(void *context, cop_time now);
    void (*closed)(void *context);
    void *context;
};

/* 0 or a code of libuv. */
int cop__clock_init(struct cop__clock *clock, uv_loop_t *loop);
/* Nothing fires any more; `closed` is called from the loop. */
void cop__clock_close(struct cop__clock *clock, void (*closed)(void *context));
cop_time cop__clock_now(void);
/* Fires no later than `deadline`. */
void cop__clock_wake(struct cop__clock *clock, cop_time deadline);

void cop__alarm_init(struct cop__alarm *alarm,
                     void (*fire)(struct cop__alarm *alarm, cop_time now));
void cop__alarm_start(struct cop__clock *clock, struct cop__alarm *alarm,
                      cop_time deadline);
void cop__alarm_stop(struct cop__clock *clock, struct cop__alarm *alarm);
bool cop__alarm_is_set(const struct cop__alarm *alarm);

#endif
