/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"
#include "sim/queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
/* cmocka needs the first three above. */
#include <cmocka.h>

/* The calendar against a list that is searched from the front. */

#define MOST 4096

struct model {
    cop_time time[MOST];
    uint64_t name[MOST]; /* grows with every push */
    uint32_t count;
};

static uint32_t first_of(const struct model *model)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < model->count; i++) {
        if (model->time[i] < model->time[best] ||
            (model->time[i] == model->time[best] && model->name[i] < model->name[best]))
            best = i;
    }
    return best;
}

static void push(struct cop__queue *queue, struct model *model, cop_time time,
                 uint64_t name)
{
    struct cop__sim_event *event = cop__queue_take(queue);
    assert_non_null(event);
    memset(event, 0, sizeof(*event));
    event->time = time;
    event->word = name;
    cop__queue_push(queue, event);
    model->time[model->count] = time;
    model->name[model->count++] = name;
}

static cop_time pop(struct cop__queue *queue, struct model *model)
{
    uint32_t best = first_of(model);
    assert_int_equal(cop__queue_next(queue), model->time[best]);
    struct cop__sim_event *event = cop__queue_pop(queue);
    assert_non_null(event);
    assert_int_equal(event->time, model->time[best]);
    assert_int_equal(event->word, model->name[best]);
    cop_time time = event->time;
    cop__queue_give(queue, event);
    model->count--;
    model->time[best] = model->time[model->count];
    model->name[best] = model->name[model->count];
    return time;
}

/* Times near and far, with many equal ones. */
static cop_time draw_time(struct cop__random *random, cop_time now)
{
    switch (cop__random_below(random, 6)) {
    case 0:
        return now;
    case 1:
        return now + 10;
    case 2:
        return now + cop__random_below(random, 64);
    case 3:
        return now + cop__random_below(random, 100000);
    case 4:
        return now + (cop__random_next(random) >> 4 >> cop__random_below(random, 60));
    default:
        return now + 30 * COP_SEC;
    }
}

static void test_against_a_list(void **state)
{
    (void)state;
    static struct model model;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct cop__random random;
        struct cop__queue queue;
        cop_time now = 0;
        cop__random_init(&random, seed);
        cop__queue_init(&queue);
        model.count = 0;
        for (uint64_t i = 0; i < 4000; i++) {
            /* Bursts of pushes, then of pops. */
            bool growing = (i / 150) % 2 == 0;
            if (model.count == 0 || (model.count < MOST - 1 &&
                                     cop__random_chance(&random, growing ? 3 : 1, 4)))
                push(&queue, &model, draw_time(&random, now), i);
            else
                now = pop(&queue, &model);
            assert_int_equal(queue.count, model.count);
        }
        while (model.count > 0)
            now = pop(&queue, &model);
        assert_null(cop__queue_pop(&queue));
        assert_int_equal(cop__queue_next(&queue), COP_TIME_NEVER);
        cop__queue_fini(&queue);
    }
}

/* Looking at what comes next must not keep anybody from pushing something earlier. */
static void test_next_does_not_move_time(void **state)
{
    (void)state;
    static struct model model;
    struct cop__queue queue;
    cop__queue_init(&queue);
    model.count = 0;
    push(&queue, &model, 1000000, 1);
    assert_int_equal(cop__queue_next(&queue), 1000000);
    push(&queue, &model, 3, 2);
    assert_int_equal(pop(&queue, &model), 3);
    push(&queue, &model, 3, 3);
    assert_int_equal(pop(&queue, &model), 3);
    assert_int_equal(pop(&queue, &model), 1000000);
    cop__queue_fini(&queue);
}

static void test_what_is_left_gives_its_payload_back(void **state)
{
    (void)state;
    struct cop__queue queue;
    struct cop_buf *buf = cop_buf_copy("abc", 3);
    cop__queue_init(&queue);
    struct cop__sim_event *event = cop__queue_take(&queue);
    assert_non_null(event);
    memset(event, 0, sizeof(*event));
    event->time = UINT64_MAX - 1;
    event->payload = cop_buf_ref(buf);
    cop__queue_push(&queue, event);
    assert_int_equal(buf->refs, 2);
    cop__queue_fini(&queue);
    assert_int_equal(buf->refs, 1);
    cop_buf_unref(buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_a_list),
        cmocka_unit_test(test_next_does_not_move_time),
        cmocka_unit_test(test_what_is_left_gives_its_payload_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
