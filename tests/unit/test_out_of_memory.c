/* SPDX-License-Identifier: Apache-2.0 */
#include "failing_alloc.h"
#include "wirenet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
/* cmocka wants these first */
#include <cmocka.h>

/*
 * The n-th allocation fails, for every n until none does. Whoever was unlucky has stopped for
 * good, which to the others is a crash; they must not care more than that.
 *
 * All allocations of the unlucky step from the n-th on fail; after that step memory is back.
 */
#define N 5u
#define INITIATOR 0u
#define VICTIM 3u
#define LIAR 2u
#define ACCUSED 1u

struct scenario {
    struct wirenet *net;
    bool submitted;
};

/* After each step of a node: who failed has said so, and nobody failed in silence. */
static bool look(struct wirenet *net)
{
    if (!failing_alloc_hit())
        return false;
    failing_alloc_off();
    net->unchecked = false;
    return true;
}

/* Delivers until nothing is left; memory is back after the step that ran out of it. */
static void settle(struct wirenet *net)
{
    while (wirenet_deliver(net))
        look(net);
    look(net);
}

static void tick(struct wirenet *net, cop_time by)
{
    net->now += by;
    for (cop_id id = 0; id < N; id++) {
        struct cop_event event = {.kind = COP_EVENT_TICK};
        if (wirenet_lives(net, id) && cop_deadline(net->nodes[id].node) <= net->now)
            wirenet_event(net, id, &event);
        look(net);
    }
    settle(net);
}

/* Nodes that cannot even be made have never been there. */
static void start_all(struct wirenet *net)
{
    for (cop_id id = 0; id < N; id++) {
        int error = wirenet_start(net, id);
        if (error)
            net->nodes[id].failed = error;
        look(net);
    }
    tick(net, 0);
}

/* A probe with outcome, a crash in the middle of it, a lie, a second probe. */
static void play(struct scenario *scenario)
{
    struct wirenet *net = scenario->net;
    start_all(net);
    if (wirenet_lives(net, INITIATOR)) {
        scenario->submitted = wirenet_probe(net, INITIATOR, 1, true) == 0;
        look(net);
    }
    for (int i = 0; i < 5 && wirenet_deliver(net); i++)
        look(net);
    if (wirenet_lives(net, VICTIM))
        wirenet_crash(net, VICTIM);
    for (int i = 0; i < 3 && wirenet_deliver(net); i++)
        look(net);
    if (wirenet_lives(net, LIAR)) {
        wirenet_down(net, LIAR, ACCUSED, COP_DOWN_REFUSED);
        look(net);
    }
    settle(net);
    for (int i = 0; i < 5; i++)
        tick(net, 2 * COP_MSEC);
    if (wirenet_lives(net, INITIATOR))
        wirenet_probe(net, INITIATOR, 2, false);
    look(net);
    settle(net);
    tick(net, 30 * COP_SEC);
    tick(net, 30 * COP_SEC);
}

static uint32_t failures(const struct wirenet *net)
{
    uint32_t count = 0;
    for (cop_id id = 0; id < N; id++)
        if (net->nodes[id].failed) {
            assert_int_equal(net->nodes[id].failed, COP_ENOMEM);
            assert_false(wirenet_lives(net, id));
            count++;
        }
    return count;
}

/* The second probe names the victim, and nobody who lived through it. */
static void check_second_probe(const struct wirenet *net)
{
    struct cop_probe_result result;
    wirenet_result(net, INITIATOR, 2, &result);
    assert_true(wirenet_ranks_have(&result.dead, VICTIM));
    for (cop_id id = 0; id < N; id++)
        if (wirenet_lives(net, id))
            assert_false(wirenet_ranks_have(&result.dead, id));
    cop_probe_result_free(&result);
}

static void check(const struct scenario *scenario)
{
    struct wirenet *net = scenario->net;
    for (cop_id id = 0; id < N; id++) {
        if (!wirenet_lives(net, id))
            continue;
        assert_null(cop_node_check(net->nodes[id].node));
        assert_int_equal(cop_node_sweeps(net->nodes[id].node), 0);
        assert_true(net->nodes[id].asks <= 2);
    }
    if (!scenario->submitted || !wirenet_lives(net, INITIATOR))
        return;
    struct cop_probe_result result;
    wirenet_result(net, INITIATOR, 1, &result);
    cop_probe_result_free(&result);
    check_second_probe(net);
}

/* One run; whether an allocation failed in it. */
static bool run(size_t nth)
{
    size_t live = failing_alloc_live();
    struct scenario scenario = {.net = wirenet_create_empty(N, "kary:2")};
    scenario.net->unchecked = true; /* looking takes memory, too */
    failing_alloc_after(nth);
    play(&scenario);
    bool hit = failing_alloc_hit();
    failing_alloc_off();
    /* No failure without somebody who says so, and nobody says so without one. */
    assert_int_equal(failures(scenario.net), hit ? 1 : 0);
    check(&scenario);
    wirenet_destroy(scenario.net);
    assert_int_equal(failing_alloc_live(), live);
    return hit;
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    size_t nth = 0;
    while (run(nth))
        nth++;
    /* The scenario does allocate: a run that never failed would prove nothing. */
    assert_true(nth > 50);
    printf("%zu allocations, each failed once\n", nth);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
