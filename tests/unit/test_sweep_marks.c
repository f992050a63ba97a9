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
 * named by its number: here late frames, losses heard of, and who joins later. Most trees are kary:2, where the children
 * of r are 2r+1 and 2r+2.
 */

/* Longer than any sweep of these tests takes. */
#define LONG (30 * COP_SEC)

/* ---- 5: late, repeated, foreign -------------------------------------------------- */

/* Every frame twice: as if nothing had happened. */
static void test_5_repeated_frames_do_nothing(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(7, "kary:2");
    assert_int_equal(wirenet_probe(net, 0, 1, true), 0);
    while (net->item_count > 0) {
        struct wirenet_item first = net->items[0];
        cop_buf_ref(first.frame.payload);
        assert_true(wirenet_deliver(net));
        if (first.kind == COP_EVENT_RECV)
            wirenet_recv(net, &first.frame);
    }
    assert_int_equal(wirenet_end(net, 0, 1)->status, 0);
    wirenet_assert_result(net, 0, 1, 7, 0, 0);
    wirenet_assert_ran_once(net);
    wirenet_assert_told_once(net, 0, 0);
    wirenet_destroy(net);
}

/* The ASK of the first sweep, to be said again later. */
static struct cop_frame keep_ask(struct wirenet *net)
{
    const struct wirenet_item *item = wirenet_find(net, 0, 1, COP__KIND_ASK);
    assert_non_null(item);
    struct cop_frame frame = item->frame;
    cop_buf_ref(frame.payload);
    return frame;
}

/* It is said again: nothing runs, and whoever asks is told that it is done. */
static void assert_not_joined_again(struct wirenet *net, const struct cop_frame *ask)
{
    uint32_t asks = net->nodes[1].asks;
    wirenet_lose_all(net);
    cop_buf_ref(ask->payload);
    wirenet_recv(net, ask);
    assert_int_equal(net->nodes[1].asks, asks);
    assert_int_equal(wirenet_count(net, 1, 0, COP__KIND_DONE), 1);
    assert_int_equal(net->item_count, 1);
    wirenet_lose_all(net);
}

static void test_5_the_mark_ends_what_is_below_it(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(7, "kary:2");
    assert_int_equal(wirenet_probe(net, 0, 1, false), 0);
    struct cop_frame ask = keep_ask(net);
    wirenet_settle(net);
    /* The answer is kept: somebody might ask again. */
    assert_int_equal(cop_node_sweeps(net->nodes[1].node), 1);
    assert_int_equal(wirenet_probe(net, 0, 2, false), 0);
    wirenet_settle(net);
    /* The second ASK said that the first is done. */
    assert_int_equal(cop_node_sweeps(net->nodes[1].node), 1);
    assert_int_equal(net->nodes[1].asks, 2);
    assert_not_joined_again(net, &ask);
    cop_buf_unref(ask.payload);
    wirenet_destroy(net);
}

/* Past its deadline nothing of a sweep is kept but that it was. */
static void test_5_a_tombstone_outlives_the_deadline(void **state)
{
    (void)state;
    for (int outcome = 0; outcome < 2; outcome++) {
        struct wirenet *net = wirenet_create(7, "kary:2");
        assert_int_equal(wirenet_probe(net, 0, 1, outcome), 0);
        struct cop_frame ask = keep_ask(net);
        wirenet_settle(net);
        wirenet_advance(net, LONG);
        wirenet_assert_nothing_kept(net);
        assert_not_joined_again(net, &ask);
        cop_buf_unref(ask.payload);
        wirenet_destroy(net);
    }
}

/* The same for one that was never whole. */
static void test_5_a_tombstone_of_what_timed_out(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(7, "kary:2");
    wirenet_hold(net, 1, 0);
    wirenet_hold(net, 3, 1);
    assert_int_equal(wirenet_probe(net, 0, 1, false), 0);
    struct cop_frame ask = keep_ask(net);
    wirenet_advance(net, LONG);
    wirenet_assert_nothing_kept(net);
    assert_not_joined_again(net, &ask);
    cop_buf_unref(ask.payload);
    wirenet_destroy(net);
}

/* Nothing is begun when there is no time left for it. */
static void test_5_without_time_nothing_starts(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(7, "kary:2");
    const struct cop__msg_ask ask = {.incarnation = 1,
                                     .sequence = 1,
                                     .shape = COP_SHAPE_KARY,
                                     .arity = 2,
                                     .members = 7};
    struct cop_frame frame =
        wirenet_frame(net, 0, 1, COP__KIND_ASK, cop__encode_ask(&ask));
    assert_not_joined_again(net, &frame);
    assert_int_equal(net->nodes[1].asks, 0);
    cop_buf_unref(frame.payload);
    wirenet_destroy(net);
}

/* Outcomes are let go once everyone is known to have them. */
static void test_5_outcomes_do_not_pile_up(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(7, "kary:2");
    for (uint64_t token = 1; token <= 200; token++) {
        assert_int_equal(wirenet_probe(net, 0, token, true), 0);
        wirenet_settle(net);
        assert_int_equal(wirenet_end(net, 0, token)->status, 0);
        for (cop_id id = 0; id < 7; id++)
            assert_true(cop_node_sweeps(net->nodes[id].node) <= 2);
    }
    wirenet_destroy(net);
}

/* ---- 6: by connection or by message ---------------------------------------------- */

/* What node 0 does when it learns of the loss of 1, in any tree of seven. */
static uint64_t digest_after_loss(bool by_message, bool outcome, uint32_t *asked)
{
    struct wirenet *net = wirenet_create(7, "kary:2");
    wirenet_hold(net, 1, 0);
    assert_int_equal(wirenet_probe(net, 0, 1, outcome), 0);
    wirenet_settle(net);
    wirenet_lose_all(net);
    if (by_message)
        wirenet_tell(net, 2, 0, (struct cop__belief){1, 1, 0, COP_SUSPECT});
    else
        wirenet_down(net, 0, 1, COP_DOWN_REFUSED);
    *asked = wirenet_count(net, 0, 3, COP__KIND_ASK) +
             wirenet_count(net, 0, 4, COP__KIND_ASK);
    struct cop__digest digest;
    cop__digest_init(&digest);
    cop__sweep_layer.digest(net->nodes[0].node, &digest);
    wirenet_destroy(net);
    return cop__digest_value(&digest);
}

static void test_6_a_loss_heard_of_is_a_loss_seen(void **state)
{
    (void)state;
    for (int outcome = 0; outcome < 2; outcome++) {
        uint32_t seen, heard;
        uint64_t by_connection = digest_after_loss(false, outcome, &seen);
        assert_true(digest_after_loss(true, outcome, &heard) == by_connection);
        assert_int_equal(seen, 2);
        assert_int_equal(heard, 2);
    }
}

/* Whoever answers says whom it lost, and who hears it need not find out again. */
static void test_6_losses_travel_with_the_answer(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(7, "kary:2");
    assert_int_equal(wirenet_probe(net, 0, 1, false), 0);
    wirenet_crash(net, 3);
    wirenet_settle(net); /* no tick, so no news */
    wirenet_assert_result(net, 0, 1, 6, 1, 0);
    wirenet_assert_dead(net, 0, 1, 3);
    assert_int_equal(cop_node_belief(net->nodes[0].node, 3).status, COP_SUSPECT);
    assert_int_equal(net->nodes[0].stats.received[COP__INDEX_NEWS], 0);
    assert_int_equal(net->nodes[0].stats.sent[COP__INDEX_ASK], 2); /* 1 and 2, not 3 */
    wirenet_destroy(net);
}

/* ---- 7: who joins later ---------------------------------------------------------- */

static void test_7_a_new_life_knows_where_everything_stands(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(7, "kary:2");
    for (uint64_t token = 1; token <= 5; token++)
        assert_int_equal(wirenet_probe(net, 5, token, false), 0);
    wirenet_settle(net);
    wirenet_crash(net, 1);
    wirenet_crash(net, 5);
    wirenet_advance(net, COP_SEC);
    assert_int_equal(wirenet_restart(net, 5), 0);
    wirenet_advance(net, COP_SEC);
    assert_int_equal(cop_node_belief(net->nodes[5].node, 1).status, COP_SUSPECT);
    /* It counts its sweeps from one again, and is not taken for its old self. */
    assert_int_equal(wirenet_probe(net, 5, 6, true), 0);
    const struct wirenet_item *item = wirenet_find(net, 5, COP_ID_NONE, COP__KIND_ASK);
    struct cop__msg_ask ask;
    assert_non_null(item);
    assert_int_equal(
        cop__decode_ask(item->frame.payload->data, item->frame.payload->length, &ask),
        0);
    assert_int_equal(ask.sequence, 1);
    assert_int_equal(ask.mark, 0);
    assert_int_equal(ask.incarnation, 2);
    wirenet_settle(net);
    assert_int_equal(wirenet_end(net, 5, 6)->status, 0);
    wirenet_assert_result(net, 5, 6, 6, 1, 0);
    wirenet_assert_dead(net, 5, 6, 1);
    wirenet_destroy(net);
}

/* A new life in the middle of a sweep is asked as what it is, and those below it are not
 * lost by it. */
static void test_7_a_new_life_in_the_middle_of_a_sweep(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(15, "kary:2");
    wirenet_hold(net, 7, 3);
    assert_int_equal(wirenet_probe(net, 0, 1, true), 0);
    wirenet_settle(net);
    wirenet_crash(net, 1);
    assert_int_equal(wirenet_restart(net, 1), 0);
    wirenet_release(net);
    wirenet_advance(net, COP_SEC);
    const struct wirenet_end *end = wirenet_end(net, 0, 1);
    assert_non_null(end);
    assert_int_equal(end->status, 0);
    wirenet_assert_result(net, 0, 1, 15, 0, 0);
    wirenet_assert_told_once(net, 0, 0);
    for (cop_id id = 0; id < 15; id++)
        assert_int_equal(net->nodes[id].asks, id == 1 ? 2 : 1); /* once in each life */
    wirenet_advance(net, LONG);
    wirenet_assert_nothing_kept(net);
    wirenet_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_5_repeated_frames_do_nothing),
        cmocka_unit_test(test_5_the_mark_ends_what_is_below_it),
        cmocka_unit_test(test_5_a_tombstone_outlives_the_deadline),
        cmocka_unit_test(test_5_a_tombstone_of_what_timed_out),
        cmocka_unit_test(test_5_without_time_nothing_starts),
        cmocka_unit_test(test_5_outcomes_do_not_pile_up),
        cmocka_unit_test(test_6_a_loss_heard_of_is_a_loss_seen),
        cmocka_unit_test(test_6_losses_travel_with_the_answer),
        cmocka_unit_test(test_7_a_new_life_knows_where_everything_stands),
        cmocka_unit_test(test_7_a_new_life_in_the_middle_of_a_sweep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
