/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "base/timers.h"
#include "failing_alloc.h"

#include <stdlib.h>
#include <string.h>

#define TIMERS 300U

/* The naive timers: deadline and order of each, by which the next is searched. */
struct model {
    cop_time deadline[TIMERS];
    uint64_t order[TIMERS];
    uint64_t started;
};
struct both {
    struct cop__timers timers;
    struct cop__timer timer[TIMERS];
    struct model model;
    struct cop__random random;
};

static void both_init(struct both *both, uint64_t seed)
{
    cop__timers_init(&both->timers);
    cop__random_init(&both->random, seed);
    both->model.started = 0;
    for (uint32_t i = 0; i < TIMERS; i++) {
        cop__timer_init(&both->timer[i]);
        both->model.deadline[i] = COP_TIME_NEVER;
    }
}

static void both_start(struct both *both, uint32_t i, cop_time deadline)
{
    cop__timer_start(&both->timers, &both->timer[i], deadline);
    both->model.deadline[i] = deadline;
    both->model.order[i] = both->model.started++;
}

static void both_stop(struct both *both, uint32_t i)
{
    cop__timer_stop(&both->timers, &both->timer[i]);
    both->model.deadline[i] = COP_TIME_NEVER;
}

/* Which timer must fire first among those that are due and old enough; TIMERS if none.
 */
static uint32_t model_first(const struct model *model, cop_time now, uint64_t limit)
{
    uint32_t best = TIMERS;
    for (uint32_t i = 0; i < TIMERS; i++) {
        cop_time deadline = model->deadline[i];
        if (deadline == COP_TIME_NEVER || deadline > now || model->order[i] >= limit)
            continue;
        if (best == TIMERS || deadline < model->deadline[best] ||
            (deadline == model->deadline[best] && model->order[i] < model->order[best]))
            best = i;
    }
    return best;
}

static void check_state(const struct both *both)
{
    cop_time earliest = COP_TIME_NEVER;
    for (uint32_t i = 0; i < TIMERS; i++) {
        cop_time deadline = both->model.deadline[i];
        assert_int_equal(cop__timer_is_running(&both->timer[i]),
                         deadline != COP_TIME_NEVER);
        assert_int_equal(both->timer[i].deadline, deadline);
        if (deadline < earliest)
            earliest = deadline;
    }
    assert_int_equal(cop__timers_deadline(&both->timers), earliest);
}

/* Pops one of each and compares; false when nothing is left to pop. */
static bool both_pop(struct both *both, cop_time now, uint64_t limit, uint32_t *out)
{
    uint32_t expected = model_first(&both->model, now, limit);
    struct cop__timer *timer = cop__timers_pop(&both->timers, now, limit);
    if (expected == TIMERS) {
        assert_null(timer);
        return false;
    }
    assert_ptr_equal(timer, &both->timer[expected]);
    assert_false(cop__timer_is_running(timer));
    both->model.deadline[expected] = COP_TIME_NEVER;
    *out = expected;
    return true;
}

/* One tick, in which whoever fires starts and stops others, some of them overdue at
 * once. */
static void both_tick(struct both *both, cop_time now, uint32_t spread)
{
    uint64_t limit = cop__timers_limit(&both->timers);
    assert_int_equal(limit, both->model.started);
    for (uint32_t i; both_pop(both, now, limit, &i);) {
        uint32_t other = (uint32_t)cop__random_below(&both->random, TIMERS);
        cop_time deadline = now + cop__random_below(&both->random, spread);
        if (cop__random_chance(&both->random, 1, 3))
            both_start(both, i, deadline - deadline % 4);
        if (cop__random_chance(&both->random, 1, 4))
            both_start(both, other, now - now % 16);
        else if (cop__random_chance(&both->random, 1, 4))
            both_stop(both, other);
    }
}

/* Deadlines from a small range make many equal ones, from a large one hardly any. */
static void run_model(uint64_t seed, uint32_t spread)
{
    struct both *both = malloc(sizeof(*both));
    assert_non_null(both);
    both_init(both, seed);
    cop_time now = 0;
    for (int round = 0; round < 20000; round++) {
        uint32_t i = (uint32_t)cop__random_below(&both->random, TIMERS);
        if (cop__random_chance(&both->random, 6, 10))
            both_start(both, i, now + cop__random_below(&both->random, spread));
        else if (cop__random_chance(&both->random, 5, 10))
            both_stop(both, i);
        else
            both_tick(both, now += cop__random_below(&both->random, spread / 8 + 1),
                      spread);
        if (round % 50 == 0)
            check_state(both);
    }
    for (uint32_t i; both_pop(both, COP_TIME_NEVER - 1, UINT64_MAX, &i);)
        ;
    check_state(both);
    free(both);
}

static void behaves_as_the_model(void **state)
{
    (void)state;
    const uint32_t spreads[] = {1, 2, 10, 1000, 1000000000};
    for (uint32_t i = 0; i < sizeof(spreads) / sizeof(spreads[0]); i++)
        run_model(900 + i, spreads[i]);
}

static void equal_deadlines_fire_in_start_order(void **state)
{
    (void)state;
    struct cop__timers timers;
    struct cop__timer timer[100];
    cop__timers_init(&timers);
    for (int i = 0; i < 100; i++) {
        cop__timer_init(&timer[i]);
        cop__timer_start(&timers, &timer[i], 7);
    }
    /* Moving one to the deadline that it has already puts it behind the others. */
    cop__timer_start(&timers, &timer[40], 7);
    uint64_t limit = cop__timers_limit(&timers);
    for (int i = 0; i < 100; i++) {
        if (i != 40)
            assert_ptr_equal(cop__timers_pop(&timers, 7, limit), &timer[i]);
    }
    assert_ptr_equal(cop__timers_pop(&timers, 7, limit), &timer[40]);
    assert_null(cop__timers_pop(&timers, 7, limit));
}

static void nothing_fires_before_its_deadline(void **state)
{
    (void)state;
    struct cop__timers timers;
    struct cop__timer timer;
    cop__timers_init(&timers);
    cop__timer_init(&timer);
    assert_int_equal(cop__timers_deadline(&timers), COP_TIME_NEVER);
    assert_null(cop__timers_pop(&timers, UINT64_MAX, UINT64_MAX));
    cop__timer_start(&timers, &timer, 100);
    assert_null(cop__timers_pop(&timers, 99, UINT64_MAX));
    assert_int_equal(cop__timers_deadline(&timers), 100);
    assert_ptr_equal(cop__timers_pop(&timers, 100, UINT64_MAX), &timer);
    assert_int_equal(cop__timers_deadline(&timers), COP_TIME_NEVER);
}

/* One that is started overdue while others fire must neither fire nor hide the others.
 */
static void newcomer_waits_for_the_next_tick(void **state)
{
    (void)state;
    struct cop__timers timers;
    struct cop__timer first, second, newcomer;
    cop__timers_init(&timers);
    cop__timer_init(&first);
    cop__timer_init(&second);
    cop__timer_init(&newcomer);
    cop__timer_start(&timers, &first, 10);
    cop__timer_start(&timers, &second, 20);
    uint64_t limit = cop__timers_limit(&timers);
    assert_ptr_equal(cop__timers_pop(&timers, 30, limit), &first);
    cop__timer_start(&timers, &newcomer, 5);
    cop__timer_start(&timers, &first, 15);
    assert_ptr_equal(cop__timers_pop(&timers, 30, limit), &second);
    assert_null(cop__timers_pop(&timers, 30, limit));
    limit = cop__timers_limit(&timers);
    assert_ptr_equal(cop__timers_pop(&timers, 30, limit), &newcomer);
    assert_ptr_equal(cop__timers_pop(&timers, 30, limit), &first);
}

static void never_is_stopped(void **state)
{
    (void)state;
    struct cop__timers timers;
    struct cop__timer timer;
    cop__timers_init(&timers);
    cop__timer_init(&timer);
    cop__timer_stop(&timers, &timer);
    cop__timer_start(&timers, &timer, COP_TIME_NEVER);
    assert_false(cop__timer_is_running(&timer));
    cop__timer_start(&timers, &timer, 1);
    assert_true(cop__timer_is_running(&timer));
    cop__timer_start(&timers, &timer, COP_TIME_NEVER);
    assert_false(cop__timer_is_running(&timer));
    assert_int_equal(cop__timers_deadline(&timers), COP_TIME_NEVER);
}

/* Pops all and checks that they come in order. Returns how many there were. */
static uint32_t drain(struct cop__timers *timers)
{
    uint32_t count = 0;
    cop_time last = 0;
    for (cop_time next; (next = cop__timers_deadline(timers)) != COP_TIME_NEVER;
         count++) {
        assert_true(next >= last);
        last = next;
        assert_non_null(cop__timers_pop(timers, next, UINT64_MAX));
    }
    return count;
}

/* Rising, falling and equal deadlines make the heap a star or a chain: no recursion. */
static void million_timers_need_no_stack_and_no_memory(void **state)
{
    (void)state;
    const uint32_t n = 1000000;
    struct cop__timers timers;
    struct cop__timer *timer = malloc(n * sizeof(*timer));
    assert_non_null(timer);
    cop__timers_init(&timers);
    failing_alloc_after(0);
    for (int kind = 0; kind < 4; kind++) {
        for (uint32_t i = 0; i < n; i++) {
            const cop_time deadline[] = {i, n - i, 5, cop__mix64(i) >> 1};
            cop__timer_init(&timer[i]);
            cop__timer_start(&timers, &timer[i], deadline[kind]);
        }
        for (uint32_t i = 0; i < n; i += 2)
            cop__timer_stop(&timers, &timer[i]);
        assert_int_equal(drain(&timers), n / 2);
    }
    failing_alloc_off();
    assert_false(failing_alloc_hit());
    free(timer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(behaves_as_the_model),
        cmocka_unit_test(equal_deadlines_fire_in_start_order),
        cmocka_unit_test(nothing_fires_before_its_deadline),
        cmocka_unit_test(newcomer_waits_for_the_next_tick),
        cmocka_unit_test(never_is_stopped),
        cmocka_unit_test(million_timers_need_no_stack_and_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
