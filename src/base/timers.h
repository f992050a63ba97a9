/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_BASE_TIMERS_H
#define COP_BASE_TIMERS_H

#include <coppice/types.h>

/*
 * Timers embedded in their owners: a pairing heap, so that starting and stopping one never
 * allocates. Equal deadlines fire in the order in which they were started.
 */
struct cop__timer {
    cop_time deadline; /* COP_TIME_NEVER while stopped */
    uint64_t order;
    struct cop__timer *child, *next, *prev; /* of the heap */
};
struct cop__timers {
    struct cop__timer *first;
    uint64_t started; /* gives `order` */
};

void cop__timers_init(struct cop__timers *timers);
void cop__timer_init(struct cop__timer *timer);
/* Starts, or moves a running one, which goes behind its equals. COP_TIME_NEVER stops it. */
void cop__timer_start(struct cop__timers *timers, struct cop__timer *timer,
                      cop_time deadline);
/* Does nothing if it is not running. */
void cop__timer_stop(struct cop__timers *timers, struct cop__timer *timer);
bool cop__timer_is_running(const struct cop__timer *timer);
/* Earliest deadline, or COP_TIME_NEVER. */
cop_time cop__timers_deadline(const struct cop__timers *timers);
/*
 * Takes out and returns one timer whose deadline is <= now and whose order is below `limit`,
 * or NULL. Take the limit from cop__timers_limit before the first call: a timer that is
 * started while others fire then waits for the next tick, even if it is due already. The
 * price is a walk over such overdue newcomers; there is none where all start in the future.
 */
struct cop__timer *cop__timers_pop(struct cop__timers *timers, cop_time now,
                                   uint64_t limit);
uint64_t cop__timers_limit(const struct cop__timers *timers);

#endif
