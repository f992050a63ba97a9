/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/queue.h"

#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_EVENTS 1023

struct cop__queue_chunk {
    struct cop__queue_chunk *next;
    struct cop__sim_event events[CHUNK_EVENTS];
};

void cop__queue_init(struct cop__queue *queue) { memset(queue, 0, sizeof(*queue)); }

void cop__queue_fini(struct cop__queue *queue)
{
    for (unsigned level = 0; level < COP__QUEUE_LEVELS; level++) {
        for (unsigned day = 0; day < COP__QUEUE_DAYS; day++) {
            struct cop__sim_event *event = queue->days[level][day].first;
            for (; event; event = event->next)
                cop_buf_unref(event->payload);
        }
    }
    while (queue->chunks) {
        struct cop__queue_chunk *chunk = queue->chunks;
        queue->chunks = chunk->next;
        free(chunk);
    }
    cop__queue_init(queue);
}

static bool add_chunk(struct cop__queue *queue)
{
    struct cop__queue_chunk *chunk = malloc(sizeof(*chunk));
    if (!chunk)
        return false;
    chunk->next = queue->chunks;
    queue->chunks = chunk;
    for (unsigned i = CHUNK_EVENTS; i-- > 0;)
        cop__queue_give(queue, &chunk->events[i]);
    return true;
}

struct cop__sim_event *cop__queue_take(struct cop__queue *queue)
{
    if (!queue->free && !add_chunk(queue))
        return NULL;
    struct cop__sim_event *event = queue->free;
    queue->free = event->next;
    return event;
}

void cop__queue_give(struct cop__queue *queue, struct cop__sim_event *event)
{
    event->next = queue->free;
    queue->free = event;
}

static unsigned highest_bit(uint64_t word)
{
    return 63u - (unsigned)__builtin_clzll(word);
}

static unsigned lowest_bit(uint64_t word) { return (unsigned)__builtin_ctzll(word); }

static void append(struct cop__queue *queue, struct cop__sim_event *event,
                   unsigned level, unsigned day)
{
    struct cop__queue_day *slot = &queue->days[level][day];
    event->next = NULL;
    if (!slot->last) {
        slot->first = event;
        slot->least = event->time;
        slot->mixed = false;
        queue->used[level] |= UINT64_C(1) << day;
    } else {
        slot->last->next = event;
        slot->mixed |= event->time != slot->least;
        if (event->time < slot->least)
            slot->least = event->time;
    }
    slot->last = event;
}

static void place(struct cop__queue *queue, struct cop__sim_event *event)
{
    uint64_t differ = event->time ^ queue->now;
    unsigned level = differ ? highest_bit(differ) / 6 : 0;
    append(queue, event, level, (unsigned)(event->time >> (6 * level)) & 63u);
}

void cop__queue_push(struct cop__queue *queue, struct cop__sim_event *event)
{
    COP_ASSERT(event->time >= queue->now);
    place(queue, event);
    queue->count++;
}

/* The lowest level that has events; the queue must not be empty. */
static unsigned first_level(const struct cop__queue *queue)
{
    unsigned level = 0;
    while (queue->used[level] == 0)
        level++;
    return level;
}

/* Spreads the first day of a level over the days below it. */
static void open_day(struct cop__queue *queue, unsigned level)
{
    unsigned day = lowest_bit(queue->used[level]);
    struct cop__queue_day taken = queue->days[level][day];
    queue->days[level][day] = (struct cop__queue_day){NULL, NULL, 0, false};
    queue->used[level] &= ~(UINT64_C(1) << day);
    /* Everything else is later, so time may go on to the first of them. */
    queue->now = taken.least;
    if (!taken.mixed) {
        unsigned at = (unsigned)taken.least & 63u;
        queue->days[0][at] = taken;
        queue->used[0] |= UINT64_C(1) << at;
        return;
    }
    for (struct cop__sim_event *event = taken.first; event;) {
        struct cop__sim_event *next = event->next;
        place(queue, event);
        event = next;
    }
}

struct cop__sim_event *cop__queue_pop(struct cop__queue *queue)
{
    if (queue->count == 0)
        return NULL;
    for (unsigned level = first_level(queue); level > 0; level = first_level(queue))
        open_day(queue, level);
    unsigned day = lowest_bit(queue->used[0]);
    struct cop__queue_day *slot = &queue->days[0][day];
    struct cop__sim_event *event = slot->first;
    slot->first = event->next;
    if (!slot->first) {
        slot->last = NULL;
        queue->used[0] &= ~(UINT64_C(1) << day);
    }
    queue->now = event->time;
    queue->count--;
    return event;
}

cop_time cop__queue_next(const struct cop__queue *queue)
{
    if (queue->count == 0)
        return COP_TIME_NEVER;
    unsigned level = first_level(queue);
    return queue->days[level][lowest_bit(queue->used[level])].least;
}

const struct cop__sim_event *cop__queue_peek(const struct cop__queue *queue)
{
    return queue->used[0] ? queue->days[0][lowest_bit(queue->used[0])].first : NULL;
}
