/* SPDX-License-Identifier: Apache-2.0 */
#include "base/timers.h"

/*
 * A pairing heap. Invariants:
 *  1. No timer fires before its parent in the heap; `first` is the root.
 *  2. `child` is the leftmost child, `next` the sibling to the right, `prev` the
 * sibling to the left, or the parent of a leftmost child. The root has neither next nor
 * prev.
 *  3. A timer is in the heap exactly if its deadline is not COP_TIME_NEVER.
 * Nothing here recurses: a heap of a million timers may be a chain, or a million
 * siblings.
 */

void cop__timers_init(struct cop__timers *timers)
{
    *timers = (struct cop__timers){NULL, 0};
}

void cop__timer_init(struct cop__timer *timer)
{
    *timer = (struct cop__timer){.deadline = COP_TIME_NEVER};
}

static bool fires_before(const struct cop__timer *a, const struct cop__timer *b)
{
    if (a->deadline != b->deadline)
        return a->deadline < b->deadline;
    return a->order < b->order;
}

/* Joins two heaps into one; either may be NULL. */
static struct cop__timer *meld(struct cop__timer *a, struct cop__timer *b)
{
    if (a == NULL || b == NULL)
        return a == NULL ? b : a;
    if (fires_before(b, a)) {
        struct cop__timer *swap = a;
        a = b;
        b = swap;
    }
    b->prev = a;
    b->next = a->child;
    if (a->child != NULL)
        a->child->prev = b;
    a->child = b;
    return a;
}

/* Makes a timer, with what is below it, a heap of its own. It must not be the root. */
static void cut(struct cop__timer *timer)
{
    if (timer->prev->child == timer)
        timer->prev->child = timer->next;
    else
        timer->prev->next = timer->next;
    if (timer->next != NULL)
        timer->next->prev = timer->prev;
    timer->next = timer->prev = NULL;
}

/* Takes the leftmost heap from a list of siblings. */
static struct cop__timer *take(struct cop__timer **list)
{
    struct cop__timer *timer = *list;
    if (timer == NULL)
        return NULL;
    *list = timer->next;
    timer->next = timer->prev = NULL;
    return timer;
}

/*
 * Makes one heap of the children: melds them in pairs from the left, then the pairs
 * from the right. The pairs are what gives the logarithmic bound.
 */
static struct cop__timer *meld_children(struct cop__timer *timer)
{
    struct cop__timer *list = timer->child;
    struct cop__timer *pairs = NULL;
    struct cop__timer *heap = NULL;

    timer->child = NULL;
    while (list != NULL) {
        struct cop__timer *left = take(&list);
        struct cop__timer *pair = meld(left, take(&list));
        pair->next = pairs;
        pairs = pair;
    }
    while (pairs != NULL)
        heap = meld(heap, take(&pairs));
    return heap;
}

void cop__timer_stop(struct cop__timers *timers, struct cop__timer *timer)
{
    if (!cop__timer_is_running(timer))
        return;
    struct cop__timer *rest = meld_children(timer);
    if (timer == timers->first) {
        timers->first = rest;
    } else {
        cut(timer);
        timers->first = meld(timers->first, rest);
    }
    timer->deadline = COP_TIME_NEVER;
}

void cop__timer_start(struct cop__timers *timers, struct cop__timer *timer,
                      cop_time deadline)
{
    cop__timer_stop(timers, timer);
    if (deadline == COP_TIME_NEVER)
        return;
    timer->deadline = deadline;
    timer->order = timers->started++;
    timers->first = meld(timers->first, timer);
}

bool cop__timer_is_running(const struct cop__timer *timer)
{
    return timer->deadline != COP_TIME_NEVER;
}

cop_time cop__timers_deadline(const struct cop__timers *timers)
{
    return timers->first == NULL ? COP_TIME_NEVER : timers->first->deadline;
}

static struct cop__timer *parent_of(const struct cop__timer *timer)
{
    while (timer->prev != NULL && timer->prev->child != timer)
        timer = timer->prev;
    return timer->prev;
}

/* The next to visit after a timer and all below it, or NULL at the end. */
static struct cop__timer *after_subtree(struct cop__timer *timer)
{
    while (timer != NULL && timer->next == NULL)
        timer = parent_of(timer);
    return timer == NULL ? NULL : timer->next;
}

/*
 * The first due timer whose order is below the limit. Whoever is below a candidate
 * fires after it, and whoever is below one that is not due is not due either, so only
 * newcomers that are due need to be looked under.
 */
static struct cop__timer *find_due(struct cop__timer *timer, cop_time now,
                                   uint64_t limit)
{
    struct cop__timer *best = NULL;
    while (timer != NULL) {
        bool is_due = timer->deadline <= now;
        bool is_new = timer->order >= limit;
        if (is_due && !is_new && (best == NULL || fires_before(timer, best)))
            best = timer;
        if (is_due && is_new && timer->child != NULL)
            timer = timer->child;
        else
            timer = after_subtree(timer);
    }
    return best;
}

struct cop__timer *cop__timers_pop(struct cop__timers *timers, cop_time now,
                                   uint64_t limit)
{
    struct cop__timer *timer = timers->first;
    if (timer == NULL || timer->deadline > now)
        return NULL;
    if (timer->order >= limit)
        timer = find_due(timer, now, limit);
    if (timer != NULL)
        cop__timer_stop(timers, timer);
    return timer;
}

uint64_t cop__timers_limit(const struct cop__timers *timers) { return timers->started; }
