/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_SIM_QUEUE_H
#define COP_SIM_QUEUE_H

#include <coppice/buf.h>
#include <coppice/types.h>

/* What is going to happen. One cache line; owned by the queue's pool. */
struct cop__sim_event {
    cop_time time;
    struct cop__sim_event *next;
    cop_id dst, src;
    uint16_t dst_life, src_life;
    uint16_t frame_kind;
    uint8_t kind;  /* enum cop__sim_kind of sim/world.h */
    uint8_t epoch; /* FRAME: how often the connection had broken when it left */
    uint64_t
        word; /* FRAME: receiver's incarnation; UP: incarnation; others: see world.h */
    cop_epoch view;
    struct cop_buf *payload; /* FRAME: a reference of its own */
};

/*
 * A calendar of calendars. Level 0 has a day for each nanosecond of the present 64, level 1
 * one for each 64 ns of the present 4,096, and so on: the level of an event is the highest
 * 6-bit digit in which its time differs from now, its day the value of that digit. So
 * pushing is O(1), popping moves an event down at most once a level, and far deadlines cost
 * nothing until their day comes.
 *
 * A day on which everything happens at one time, the usual case with constant latencies,
 * is moved as a whole.
 *
 * Equal times come out in the order in which they were pushed: they are always on the same
 * day, a day is a list in order, and opening a day keeps that order.
 */
#define COP__QUEUE_LEVELS 11
#define COP__QUEUE_DAYS 64
struct cop__queue_day {
    struct cop__sim_event *first, *last;
    cop_time least; /* of its events */
    bool mixed;     /* not all are at `least` */
};
struct cop__queue_chunk;
struct cop__queue {
    cop_time now; /* not above the time of any event inside */
    uint64_t count;
    uint64_t used[COP__QUEUE_LEVELS]; /* a bit for each day that has events */
    struct cop__queue_day days[COP__QUEUE_LEVELS][COP__QUEUE_DAYS];
    struct cop__sim_event *free;
    struct cop__queue_chunk *chunks;
};

void cop__queue_init(struct cop__queue *queue);
/* Gives back the payloads of what is left, and all memory. */
void cop__queue_fini(struct cop__queue *queue);

/* A new event, not in the queue, its fields unset; NULL if there is no memory. */
struct cop__sim_event *cop__queue_take(struct cop__queue *queue);
/* Gives one back that is not in the queue. Its payload is the caller's business. */
void cop__queue_give(struct cop__queue *queue, struct cop__sim_event *event);

/* event->time must not be before the last one popped. */
void cop__queue_push(struct cop__queue *queue, struct cop__sim_event *event);
/* The first event, no longer in the queue; NULL if there is none. */
struct cop__sim_event *cop__queue_pop(struct cop__queue *queue);
/* The time of the first; COP_TIME_NEVER if there is none. */
cop_time cop__queue_next(const struct cop__queue *queue);
/* The one that would be popped next, if that is known without work; else NULL. */
const struct cop__sim_event *cop__queue_peek(const struct cop__queue *queue);

#endif
