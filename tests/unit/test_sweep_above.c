/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/sweep.h"

#include "wirenet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

/*
 * What a sweep guarantees (docs/PROTOCOL.md, rules S1-S7), at least one test for each,
 * named by its number: here what becomes of those whose parent or initiator is lost. Most trees are kary:2, where the children
 * of r are 2r+1 and 2r+2.
 */

/* Longer than any sweep of these tests takes. */
#define LONG (30 * COP_SEC)

/* ---- 3: my parent lost ----------------------------------------------------------- */

/* 0 never had a connection to 3, and is told of its death by the lineage in the question. */
static void test_3_lineage_names_two_lost_generations(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(31, "kary:2");
    wirenet_hold(net, 15, 7);
    assert_int_equal(wirenet_probe(net, 0, 1, false), 0);
    wirenet_settle(net);
    wirenet_hold(net, 1, 0);
    wirenet_hold(net, 7, 0);
    wirenet_crash(net, 3);
    wirenet_crash(net, 1);
    wirenet_settle(net);
    const struct wirenet_item *item = wirenet_find(net, 7, 0, COP__KIND_TURN);
    struct cop__msg_turn turn;
    assert_non_null(item);
    assert_int_equal(
        cop__decode_turn(item->frame.payload->data, item->frame.payload->length, &turn),
        0);
    assert_int_equal(turn.lineage.count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        struct cop__belief belief = cop__belief_at(turn.lineage, i);
        assert_int_equal(belief.id, i == 0 ? 3 : 1);
        assert_int_equal(belief.status, COP_SUSPECT);
    }
    assert_int_equal(cop_node_belief(net->nodes[0].node, 3).status, COP_ALIVE);
    wirenet_deliver_all(net, 7, 0);
    assert_int_equal(cop_node_belief(net->nodes[0].node, 3).status, COP_SUSPECT);
    assert_int_equal(cop_node_belief(net->nodes[0].node, 1).status, COP_SUSPECT);
    wirenet_release(net);
    wirenet_settle(net);
    wirenet_assert_result(net, 0, 1, 29, 2, 0);
    wirenet_assert_ran_once(net);
    wirenet_destroy(net);
}

/* The outcome waits in front of 1 when it dies, or behind it: both times it was the only
 * copy for those below. */
static void lose_outcome_with_parent(bool received)
{
    struct wirenet *net = wirenet_create(15, "kary:2");
    assert_int_equal(wirenet_probe(net, 0, 1, true), 0);
    wirenet_deliver_all(net, 0, 1);
    wirenet_hold(net, 0, 1);
    wirenet_settle(net);
    assert_non_null(wirenet_end(net, 0, 1));
    assert_int_equal(wirenet_count(net, 0, 1, COP__KIND_OUTCOME), 1);
    if (received) {
        assert_true(wirenet_deliver_from(net, 0, 1));
        assert_int_equal(net->nodes[1].outcomes, 1);
        assert_int_equal(wirenet_count(net, 1, 3, COP__KIND_OUTCOME), 1);
        wirenet_lose(net, 1, COP_ID_NONE);
    }
    wirenet_crash(net, 1);
    wirenet_settle(net);
    wirenet_assert_told_once(net, 0, 0);
    assert_int_equal(wirenet_end(net, 0, 1)->status, 0);
    wirenet_assert_ran_once(net);
    wirenet_advance(net, LONG);
    wirenet_assert_nothing_kept(net);
    wirenet_destroy(net);
}

static void test_3_orphans_get_the_outcome(void **state)
{
    (void)state;
    lose_outcome_with_parent(false);
    lose_outcome_with_parent(true);
}

/* An outcome goes to everyone who is adopted after its answer was counted. */
static void test_3_the_outcome_reaches_the_adopted(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(15, "kary:2");
    wirenet_hold(net, 2, 0);
    assert_int_equal(wirenet_probe(net, 0, 1, true), 0);
    wirenet_settle(net); /* 0 has the answer of 1 and all below it */
    wirenet_crash(net, 1);
    wirenet_settle(net);
    wirenet_release(net);
    wirenet_settle(net);
    wirenet_assert_result(net, 0, 1, 15, 0, 0); /* 1 answered before it died */
    wirenet_assert_told_once(net, 0, 0);
    wirenet_assert_ran_once(net);
    wirenet_destroy(net);
}

/* It does not wait for them to find out: 3 and 4 have not heard of the death of 1. */
static void test_3_the_outcome_reaches_those_who_know_nothing(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(15, "kary:2");
    wirenet_hold(net, 2, 0);
    assert_int_equal(wirenet_probe(net, 0, 1, true), 0);
    wirenet_settle(net);
    wirenet_hold(net, 1, 3);
    wirenet_hold(net, 1, 4);
    wirenet_crash(net, 1);
    wirenet_settle(net);
    net->held[2][0] = false;
    wirenet_settle(net);
    assert_int_equal(wirenet_end(net, 0, 1)->status, 0);
    assert_int_equal(cop_node_belief(net->nodes[3].node, 1).status, COP_ALIVE);
    wirenet_assert_told_once(net, 0, 0);
    wirenet_release(net);
    wirenet_settle(net);
    wirenet_assert_told_once(net, 0, 0);
    wirenet_destroy(net);
}

/* Somebody above who is not in the sweep says so, and the next one is turned to. */
static void test_3_who_is_not_in_it_is_passed_by(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(5, "chain");
    const struct cop__msg_ask ask = {
        .incarnation = 1,
        .sequence = 1,
        .left_ns = COP_SEC,
        .hop_ns = COP_MSEC,
        .flags = 1,
        .shape = COP_SHAPE_CHAIN,
        .members = 5,
    };
    struct cop_frame frame =
        wirenet_frame(net, 1, 4, COP__KIND_ASK, cop__encode_ask(&ask));
    wirenet_recv(net, &frame);
    wirenet_lose_all(net);
    wirenet_down(net, 4, 1, COP_DOWN_REFUSED);
    static const cop_id turned_to[] = {3, 2, 0};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(net->nodes[4].stats.turns, i + 1);
        assert_int_equal(wirenet_count(net, 4, turned_to[i], COP__KIND_TURN), 1);
        wirenet_deliver_all(net, 4, turned_to[i]);
        assert_int_equal(wirenet_count(net, turned_to[i], 4, COP__KIND_DONE), 1);
        assert_int_equal(net->nodes[4].outcomes, 0);
        wirenet_deliver_all(net, turned_to[i], 4);
    }
    /* The initiator's own word ends it. */
    assert_int_equal(net->nodes[4].outcomes, 1);
    assert_int_equal(net->nodes[4].outcome_status, COP_ELOST);
    assert_int_equal(cop_node_sweeps(net->nodes[4].node), 0);
    wirenet_destroy(net);
}

/* ---- 4: the initiator's death ---------------------------------------------------- */

static struct wirenet *lose_initiator(void)
{
    struct wirenet *net = wirenet_create(7, "kary:2");
    wirenet_hold(net, 3, 1);
    assert_int_equal(wirenet_probe(net, 0, 1, true), 0);
    wirenet_settle(net);
    wirenet_crash(net, 0);
    wirenet_release(net);
    wirenet_settle(net);
    return net;
}

static void test_4_the_protocol_may_leave(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(7, "kary:2");
    net->leaves = true;
    wirenet_hold(net, 3, 1);
    assert_int_equal(wirenet_probe(net, 0, 1, true), 0);
    wirenet_settle(net);
    wirenet_crash(net, 0);
    wirenet_release(net);
    wirenet_advance(net, COP_SEC); /* long before the bound */
    wirenet_assert_nothing_kept(net);
    for (cop_id id = 1; id < 7; id++)
        assert_int_equal(net->nodes[id].losses, 1);
    wirenet_destroy(net);
}

static void test_4_the_protocol_is_told_once(void **state)
{
    (void)state;
    struct wirenet *net = lose_initiator();
    wirenet_advance(net, LONG);
    for (cop_id id = 1; id < 7; id++)
        assert_int_equal(net->nodes[id].losses, 1);
    wirenet_assert_told_once(net, 0, COP_ETIMEDOUT);
    wirenet_assert_nothing_kept(net);
    wirenet_destroy(net);
}

static void test_4_a_new_life_of_it_ends_the_old_sweeps(void **state)
{
    (void)state;
    struct wirenet *net = lose_initiator();
    assert_int_equal(wirenet_restart(net, 0), 0);
    wirenet_advance(net, COP_SEC); /* long before the bound */
    wirenet_assert_told_once(net, 0, COP_ELOST);
    wirenet_assert_nothing_kept(net);
    assert_int_equal(wirenet_probe(net, 0, 2, true), 0);
    wirenet_settle(net);
    wirenet_assert_result(net, 0, 2, 7, 0, 0);
    wirenet_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_3_lineage_names_two_lost_generations),
        cmocka_unit_test(test_3_orphans_get_the_outcome),
        cmocka_unit_test(test_3_the_outcome_reaches_the_adopted),
        cmocka_unit_test(test_3_the_outcome_reaches_those_who_know_nothing),
        cmocka_unit_test(test_3_who_is_not_in_it_is_passed_by),
        cmocka_unit_test(test_4_the_protocol_is_told_once),
        cmocka_unit_test(test_4_the_protocol_may_leave),
        cmocka_unit_test(test_4_a_new_life_of_it_ends_the_old_sweeps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
