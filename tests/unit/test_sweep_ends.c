/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/sweep.h"

#include "wirenet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

/* How sweeps begin and end beside the straight way: window, abort, supplements, and what
 * becomes of those who were taken for dead. */

#define LONG (30 * COP_SEC)

static void hold_upward(struct wirenet *net)
{
    for (cop_id id = 1; id < net->n; id++)
        net->held[id][(id - 1) / 2] = true;
}

/* ---- the window ------------------------------------------------------------------ */

static void test_window(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(2, "chain");
    for (uint64_t token = 1; token <= COP__SWEEP_WINDOW; token++)
        assert_int_equal(wirenet_probe(net, 0, token, false), 0);
    uint64_t digest = cop_node_digest(net->nodes[0].node);
    assert_int_equal(wirenet_probe(net, 0, COP__SWEEP_WINDOW + 1, false), COP_EAGAIN);
    assert_int_equal(net->effects.count, 0);
    assert_true(cop_node_digest(net->nodes[0].node) == digest);
    assert_int_equal(wirenet_probe(net, 1, 1, false), 0); /* others have their own */
    wirenet_settle(net);
    for (uint64_t token = 1; token <= COP__SWEEP_WINDOW; token++) {
        assert_int_equal(wirenet_end(net, 0, token)->status, 0);
        wirenet_assert_result(net, 0, token, 2, 0, 0);
    }
    assert_null(wirenet_end(net, 0, COP__SWEEP_WINDOW + 1));
    assert_int_equal(wirenet_probe(net, 0, COP__SWEEP_WINDOW + 1, false), 0);
    wirenet_settle(net);
    wirenet_assert_result(net, 0, COP__SWEEP_WINDOW + 1, 2, 0, 0);
    wirenet_destroy(net);
}

/* The oldest one that is not over keeps the window where it is. */
static void test_window_waits_for_the_oldest(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(2, "chain");
    struct cop_request slow = {.kind = COP_REQUEST_PROBE, .token = 1};
    net->held[1][0] = true;
    assert_int_equal(wirenet_submit(net, 0, &slow), 0);
    wirenet_settle(net);
    uint64_t token = 2;
    while (wirenet_probe(net, 0, token, false) == 0) {
        struct cop_request abort = {.kind = COP_REQUEST_ABORT, .target = token++};
        assert_int_equal(wirenet_submit(net, 0, &abort), 0);
    }
    assert_int_equal(token, COP__SWEEP_WINDOW + 1);
    wirenet_release(net);
    wirenet_settle(net);
    wirenet_assert_result(net, 0, 1, 2, 0, 0);
    assert_int_equal(wirenet_probe(net, 0, token, false), 0);
    wirenet_settle(net);
    wirenet_assert_result(net, 0, token, 2, 0, 0);
    wirenet_destroy(net);
}

/* Sweeps of one initiator under way together, delivered in any order, keep apart. */
static void test_many_at_once(void **state)
{
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 3);
    struct wirenet *net = wirenet_create(12, "knomial:2");
    net->random = &random;
    for (uint64_t token = 1; token <= 40; token++) {
        assert_int_equal(wirenet_probe(net, (cop_id)(token % 3), token, token % 2), 0);
        for (int i = 0; i < 20; i++)
            wirenet_deliver(net);
    }
    wirenet_settle(net);
    for (uint64_t token = 1; token <= 40; token++)
        wirenet_assert_result(net, (cop_id)(token % 3), token, 12, 0, 0);
    for (cop_id id = 0; id < 12; id++)
        assert_int_equal(net->nodes[id].asks, 40);
    wirenet_destroy(net);
}

/* ---- abort ----------------------------------------------------------------------- */

static void abort_everywhere(bool outcome)
{
    struct wirenet *net = wirenet_create(15, "kary:2");
    hold_upward(net);
    assert_int_equal(wirenet_probe(net, 0, 1, outcome), 0);
    wirenet_settle(net);
    struct cop_request abort = {.kind = COP_REQUEST_ABORT, .token = 2, .target = 1};
    assert_int_equal(wirenet_submit(net, 0, &abort), 0);
    const struct wirenet_end *end = wirenet_end(net, 0, 1);
    assert_non_null(end);
    assert_int_equal(end->status, COP_EABORTED);
    assert_null(end->result);
    wirenet_settle(net);
    wirenet_assert_nothing_kept(net);
    for (cop_id id = 0; id < 15; id++) {
        assert_int_equal(net->nodes[id].asks, 1);
        assert_true(cop_deadline(net->nodes[id].node) == COP_TIME_NEVER);
        if (id == 0 || !outcome)
            continue;
        assert_int_equal(net->nodes[id].outcomes, 1);
        assert_int_equal(net->nodes[id].outcome_status, COP_EABORTED);
    }
    assert_int_equal(wirenet_submit(net, 0, &abort), COP_EINVAL); /* over */
    wirenet_release(net);
    wirenet_settle(net); /* the answers come, and mean nothing */
    assert_non_null(wirenet_end(net, 0, 1));
    wirenet_assert_nothing_kept(net);
    wirenet_destroy(net);
}

static void test_abort_reaches_the_leaves(void **state)
{
    (void)state;
    abort_everywhere(false);
    abort_everywhere(true);
}

static void test_abort_after_the_end_is_refused(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(7, "kary:2");
    assert_int_equal(wirenet_probe(net, 0, 1, true), 0);
    wirenet_settle(net);
    struct cop_request abort = {.kind = COP_REQUEST_ABORT, .target = 1};
    assert_int_equal(wirenet_submit(net, 0, &abort), COP_EINVAL);
    assert_int_equal(wirenet_end(net, 0, 1)->status, 0);
    wirenet_destroy(net);
}

/* ---- taken for dead -------------------------------------------------------------- */

/* 1 goes around 3 and answers without it; then 3 denies. What it adds goes up on its own. */
static void test_a_late_part_is_a_supplement(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(15, "kary:2");
    net->held[3][1] = net->held[2][0] = true;
    assert_int_equal(wirenet_probe(net, 0, 1, false), 0);
    wirenet_settle(net);
    net->held[1][3] = true;
    wirenet_down(net, 1, 3, COP_DOWN_REFUSED);
    wirenet_settle(net);
    assert_int_equal(net->nodes[0].stats.received[COP__INDEX_ANSWER], 1);
    assert_int_equal(net->nodes[1].stats.supplements, 0);
    net->held[3][1] = net->held[1][3] = false;
    wirenet_advance(net, COP_SEC);
    assert_int_equal(net->nodes[1].stats.supplements, 1);
    assert_null(wirenet_end(net, 0, 1));
    wirenet_release(net);
    wirenet_settle(net);
    wirenet_assert_result(net, 0, 1, 15, 0, 0);
    wirenet_destroy(net);
}

/* The accused hears of it, denies, and is asked again before anybody misses it. */
static void test_who_denies_is_asked_again(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(7, "kary:2");
    net->held[2][0] = true;
    wirenet_down(net, 1, 3, COP_DOWN_REFUSED);
    assert_int_equal(wirenet_probe(net, 0, 1, true), 0);
    wirenet_advance(net, COP_SEC);
    wirenet_release(net);
    wirenet_settle(net);
    assert_int_equal(wirenet_end(net, 0, 1)->status, 0);
    wirenet_assert_result(net, 0, 1, 7, 0, 0);
    for (cop_id id = 1; id < 7; id++) {
        assert_int_equal(net->nodes[id].asks, 1);
        assert_int_equal(net->nodes[id].outcomes, 1);
    }
    wirenet_destroy(net);
}

/* 1 still goes around 3 when 0 has heard its denial: nobody but 0 will ask it. */
static void test_the_initiator_chases_who_was_passed_around(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(15, "kary:2");
    wirenet_down(net, 1, 3, COP_DOWN_REFUSED);
    wirenet_lose_all(net);
    wirenet_tell(net, 3, 0, (struct cop__belief){3, 1, 1, COP_ALIVE});
    assert_int_equal(wirenet_probe(net, 0, 1, false), 0);
    wirenet_settle(net); /* no tick, so no news */
    assert_int_equal(wirenet_end(net, 0, 1)->status, 0);
    wirenet_assert_result(net, 0, 1, 15, 0, 0);
    assert_int_equal(net->nodes[3].stats.received[COP__INDEX_ASK], 1);
    for (cop_id id = 0; id < 15; id++)
        assert_int_equal(net->nodes[id].asks, 1);
    wirenet_destroy(net);
}

/* A suspect that asks is answered, but not waited for. */
static void test_a_suspect_that_asks_is_answered(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(7, "kary:2");
    net->held[0][1] = net->held[2][0] = true;
    assert_int_equal(wirenet_probe(net, 0, 1, true), 0);
    wirenet_settle(net);
    wirenet_down(net, 3, 1, COP_DOWN_REFUSED);
    net->held[3][1] = true; /* the accusation */
    wirenet_release(net);
    net->held[2][0] = true;
    wirenet_advance(net, COP_SEC);
    wirenet_release(net);
    wirenet_settle(net);
    wirenet_assert_result(net, 0, 1, 7, 0, 0);
    for (cop_id id = 1; id < 7; id++) {
        assert_int_equal(net->nodes[id].asks, 1);
        assert_int_equal(net->nodes[id].outcomes, 1);
        assert_int_equal(net->nodes[id].outcome_status, 0);
    }
    wirenet_destroy(net);
}

/* ---- shapes ---------------------------------------------------------------------- */

/* A request may name its own tree. */
static void test_a_shape_of_its_own(void **state)
{
    (void)state;
    static const char *const shapes[] = {"flat", "chain", "knomial:3", "radix:2"};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct wirenet *net = wirenet_create(10, "kary:2");
        struct cop_request probe = {.kind = COP_REQUEST_PROBE, .token = 1};
        assert_int_equal(cop_shape_parse(shapes[i], &probe.shape, NULL, 0), 0);
        assert_int_equal(wirenet_submit(net, 4, &probe), 0);
        if (i == 0)
            assert_int_equal(wirenet_count(net, 4, COP_ID_NONE, COP__KIND_ASK), 9);
        if (i == 1)
            assert_int_equal(wirenet_count(net, 4, COP_ID_NONE, COP__KIND_ASK), 1);
        wirenet_settle(net);
        wirenet_assert_result(net, 4, 1, 10, 0, 0);
        wirenet_destroy(net);
    }
}

/* But not one that the others cannot know. */
static void test_a_table_of_its_own_is_refused(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(4, "kary:2");
    const uint32_t hosts[] = {0, 0, 1, 1};
    struct cop_request probe = {.kind = COP_REQUEST_PROBE, .token = 1};
    struct cop_shape flat;
    assert_int_equal(cop_shape_parse("flat", &flat, NULL, 0), 0);
    assert_int_equal(cop_shape_from_hosts(&flat, hosts, 4, &probe.shape), 0);
    assert_int_equal(wirenet_submit(net, 0, &probe), COP_EINVAL);
    cop_shape_unref(&probe.shape);
    wirenet_destroy(net);
}

/* Whoever is waited for is watched, for as long as that: neither connections nor deadlines
 * pile up. */
static void test_waits_end_with_the_sweep(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(10, "kary:2");
    struct cop_request probe = {.kind = COP_REQUEST_PROBE, .token = 1};
    bool before[WIRENET_NODES][WIRENET_NODES];
    assert_int_equal(cop_shape_parse("flat", &probe.shape, NULL, 0), 0);
    memcpy(before, net->wished, sizeof before);
    assert_int_equal(wirenet_submit(net, 4, &probe), 0);
    assert_true(net->wished[4][7]);
    wirenet_settle(net);
    wirenet_assert_result(net, 4, 1, 10, 0, 0);
    assert_memory_equal(net->wished, before, sizeof before);
    assert_true(cop_deadline(net->nodes[4].node) == COP_TIME_NEVER);
    wirenet_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_window_waits_for_the_oldest),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_abort_reaches_the_leaves),
        cmocka_unit_test(test_abort_after_the_end_is_refused),
        cmocka_unit_test(test_a_late_part_is_a_supplement),
        cmocka_unit_test(test_who_denies_is_asked_again),
        cmocka_unit_test(test_the_initiator_chases_who_was_passed_around),
        cmocka_unit_test(test_a_suspect_that_asks_is_answered),
        cmocka_unit_test(test_a_shape_of_its_own),
        cmocka_unit_test(test_a_table_of_its_own_is_refused),
        cmocka_unit_test(test_waits_end_with_the_sweep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
