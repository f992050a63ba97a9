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
 * named by its number: here that it completes, and goes around the lost below. Most trees are kary:2, where the children
 * of r are 2r+1 and 2r+2.
 */

/* Longer than any sweep of these tests takes. */
#define LONG (30 * COP_SEC)

static const char *const shapes[] = {"kary:2",    "kary:3", "radix:4",
                                     "knomial:2", "flat",   "chain"};
#define SHAPES (sizeof shapes / sizeof *shapes)

/* ---- 1: completion --------------------------------------------------------------- */

static void complete_one(const char *shape, uint32_t n, cop_id root, bool outcome)
{
    struct wirenet *net = wirenet_create(n, shape);
    assert_int_equal(wirenet_probe(net, root, 1, outcome), 0);
    wirenet_settle(net);
    assert_int_equal(wirenet_end(net, root, 1)->status, 0);
    wirenet_assert_result(net, root, 1, n, 0, 0);
    wirenet_assert_ran_once(net);
    if (outcome)
        wirenet_assert_told_once(net, root, 0);
    wirenet_advance(net, LONG);
    wirenet_assert_nothing_kept(net);
    wirenet_destroy(net);
}

static void test_1_completes_for_every_shape_and_root(void **state)
{
    (void)state;
    for (size_t shape = 0; shape < SHAPES; shape++)
        for (uint32_t n = 1; n <= 16; n++)
            for (cop_id root = 0; root < n; root++)
                complete_one(shapes[shape], n, root, (root + n) % 2 == 0);
}

/* One that lives but says nothing is waited for until the bound, and then named. */
static void test_1_silence_ends_at_the_bound(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(7, "kary:2");
    struct cop_request probe = {
        .kind = COP_REQUEST_PROBE, .token = 1, .timeout_ns = COP_SEC, .outcome = true};
    wirenet_hold(net, 3, 1);
    assert_int_equal(wirenet_submit(net, 0, &probe), 0);
    wirenet_advance(net, COP_SEC / 4);
    assert_null(wirenet_end(net, 0, 1));
    wirenet_advance(net, COP_SEC - COP_SEC / 4);
    struct cop_probe_result result;
    wirenet_result(net, 0, 1, &result);
    assert_int_equal(result.answered, 6);
    assert_int_equal(result.silent.count, 1);
    assert_int_equal(result.silent.items[0], 3);
    assert_true(result.elapsed_ns <= COP_SEC);
    cop_probe_result_free(&result);
    wirenet_release(net);
    wirenet_advance(net, LONG);
    wirenet_assert_nothing_kept(net);
    wirenet_destroy(net);
}

/* The whole tree is silent: what the initiator has is itself. */
static void test_1_silence_of_everyone(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(7, "kary:2");
    wirenet_hold(net, 1, 0);
    wirenet_hold(net, 2, 0);
    assert_int_equal(wirenet_probe(net, 0, 1, false), 0);
    wirenet_advance(net, LONG);
    assert_int_equal(wirenet_end(net, 0, 1)->status, COP_ETIMEDOUT);
    wirenet_assert_result(net, 0, 1, 1, 0, 6);
    wirenet_assert_nothing_kept(net);
    wirenet_destroy(net);
}

/* A child gives up before its parent, so that what it has still counts. */
static void test_1_deadlines_cascade(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(6, "chain");
    wirenet_hold(net, 5, 4);
    assert_int_equal(wirenet_probe(net, 0, 1, false), 0);
    wirenet_settle(net);
    for (cop_id id = 1; id < 6; id++)
        assert_true(cop_deadline(net->nodes[id].node) <
                    cop_deadline(net->nodes[id - 1].node));
    wirenet_advance(net, LONG);
    wirenet_assert_result(net, 0, 1, 5, 0, 1);
    wirenet_destroy(net);
}

/* ---- 2: a child lost while I wait ------------------------------------------------ */

/* The parts of an ANSWER that is on its way; its bytes are borrowed. */
static struct cop__bytes parts_of(const struct wirenet *net, cop_id from, cop_id to)
{
    const struct wirenet_item *item = wirenet_find(net, from, to, COP__KIND_ANSWER);
    struct cop__msg_answer answer;
    assert_non_null(item);
    assert_int_equal(cop__decode_answer(item->frame.payload->data,
                                        item->frame.payload->length, &answer),
                     0);
    return answer.parts;
}

static void test_2_children_of_the_lost_answer_me_the_same(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(7, "kary:2");
    wirenet_hold(net, 3, 1);
    wirenet_hold(net, 3, 0);
    assert_int_equal(wirenet_probe(net, 0, 1, false), 0);
    wirenet_settle(net);
    uint8_t said[64];
    struct cop__bytes parts = parts_of(net, 3, 1);
    uint32_t length = parts.length;
    assert_true(length <= sizeof said);
    memcpy(said, parts.data, length);
    wirenet_crash(net, 1);
    wirenet_settle(net);
    parts = parts_of(net, 3, 0);
    assert_int_equal(parts.length, length);
    assert_memory_equal(parts.data, said, length);
    wirenet_release(net);
    wirenet_settle(net);
    wirenet_assert_result(net, 0, 1, 6, 1, 0);
    wirenet_assert_dead(net, 0, 1, 1);
    wirenet_assert_ran_once(net);
    assert_int_equal(net->nodes[0].stats.adoptions, 1);
    wirenet_destroy(net);
}

/* Two losses, one below the other, and the second only while going around the first. */
static void test_2_a_chain_of_the_dead_is_passed_around(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(15, "kary:2");
    wirenet_hold(net, 7, 3);
    assert_int_equal(wirenet_probe(net, 0, 1, false), 0);
    wirenet_settle(net);
    wirenet_crash(net, 3);
    wirenet_crash(net, 1);
    wirenet_release(net);
    wirenet_settle(net);
    assert_int_equal(wirenet_end(net, 0, 1)->status, 0);
    wirenet_assert_result(net, 0, 1, 13, 2, 0);
    wirenet_assert_ran_once(net);
    wirenet_destroy(net);
}

/* What is known to be lost is not asked, and its answer is not missed. */
static void test_2_the_dead_are_passed_around_from_the_start(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(15, "kary:2");
    wirenet_crash(net, 1);
    wirenet_crash(net, 4);
    wirenet_crash(net, 14);
    wirenet_advance(net, COP_SEC);
    assert_int_equal(wirenet_probe(net, 2, 1, false), 0);
    wirenet_settle(net);
    wirenet_assert_result(net, 2, 1, 12, 3, 0);
    wirenet_assert_ran_once(net);
    wirenet_destroy(net);
}

/* Node 0 takes 1 for dead though its answer is on its way: 3 and 4 are asked again. */
static struct wirenet *suspect_who_answers(bool outcome)
{
    struct wirenet *net = wirenet_create(7, "kary:2");
    wirenet_hold(net, 1, 0);
    wirenet_hold(net, 2, 0);
    assert_int_equal(wirenet_probe(net, 0, 1, outcome), 0);
    wirenet_settle(net);
    wirenet_hold(net, 0, 1);
    wirenet_hold(net, 3, 0);
    wirenet_hold(net, 4, 0);
    wirenet_down(net, 0, 1, COP_DOWN_REFUSED);
    wirenet_settle(net);
    return net;
}

static void test_2_the_larger_set_is_kept(void **state)
{
    (void)state;
    struct wirenet *net = suspect_who_answers(false);
    wirenet_deliver_all(net, 3, 0); /* {3} is there; {1, 3, 4} comes, and contains it */
    wirenet_deliver_all(net, 1, 0);
    wirenet_deliver_all(net, 2, 0);
    wirenet_assert_result(net, 0, 1, 7, 0, 0);
    assert_int_equal(net->nodes[0].stats.holds, 0);
    wirenet_release(net);
    wirenet_settle(net);
    wirenet_assert_ran_once(net);
    wirenet_destroy(net);
}

static void test_2_what_the_larger_set_contains_is_dropped(void **state)
{
    (void)state;
    struct wirenet *net = suspect_who_answers(false);
    wirenet_deliver_all(
        net, 1, 0); /* {1, 3, 4} is there; {3} and {4} come, and say nothing new */
    uint64_t repeated = net->nodes[0].stats.ignored_repeated;
    wirenet_deliver_all(net, 3, 0);
    wirenet_deliver_all(net, 4, 0);
    assert_int_equal(net->nodes[0].stats.ignored_repeated, repeated + 2);
    assert_null(wirenet_end(net, 0, 1));
    wirenet_deliver_all(net, 2, 0);
    wirenet_assert_result(net, 0, 1, 7, 0, 0);
    wirenet_release(net);
    wirenet_settle(net);
    wirenet_destroy(net);
}

/*
 * Two false suspicions: 1 goes around 3, and 0 goes around 1. Then 0 holds {3, 7, 8} from 3
 * when {1, 4, 7, 8, 9, 10} comes from 1: neither contains the other.
 */
static struct wirenet *overlap(void)
{
    struct wirenet *net = wirenet_create(15, "kary:2");
    wirenet_hold(net, 3, 1);
    wirenet_hold(net, 2, 0);
    assert_int_equal(wirenet_probe(net, 0, 1, false), 0);
    wirenet_settle(net);
    wirenet_hold(net, 1, 3);
    wirenet_hold(net, 1, 0);
    wirenet_down(net, 1, 3, COP_DOWN_REFUSED);
    wirenet_settle(net);
    wirenet_hold(net, 0, 1);
    wirenet_down(net, 0, 1, COP_DOWN_REFUSED);
    wirenet_settle(net);
    return net;
}

static void test_2_an_overlap_comes_in_pieces(void **state)
{
    (void)state;
    struct wirenet *net = overlap();
    wirenet_deliver_all(net, 1, 0);
    assert_int_equal(net->nodes[0].stats.holds, 1);
    assert_int_equal(wirenet_count(net, 0, 1, COP__KIND_HOLD), 1);
    net->held[1][0] = net->held[0][1] = false;
    wirenet_settle(net);
    /* 1 says it again, in pieces; what 0 has already is dropped, the rest is kept. */
    assert_null(wirenet_end(net, 0, 1));
    wirenet_release(net);
    wirenet_settle(net);
    wirenet_assert_result(net, 0, 1, 15, 0, 0);
    wirenet_assert_ran_once(net);
    wirenet_advance(net, LONG);
    wirenet_assert_nothing_kept(net);
    wirenet_destroy(net);
}

/*
 * The same, where the one who has to say it in pieces has none that are small enough: 3
 * goes around 7, and 0 around 1 and 3. Then 0 holds {7, 15, 16} when 1 offers what it has
 * of 3, {3, 8, 15, 16, 17, 18}, as one.
 */
static void test_2_pieces_are_asked_for_further_down(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(31, "kary:2");
    wirenet_hold(net, 7, 3);
    wirenet_hold(net, 2, 0);
    assert_int_equal(wirenet_probe(net, 0, 1, false), 0);
    wirenet_settle(net);
    wirenet_hold(net, 3, 7);
    wirenet_hold(net, 1, 0);
    wirenet_down(net, 3, 7, COP_DOWN_REFUSED);
    wirenet_settle(net);
    wirenet_hold(net, 0, 1);
    wirenet_hold(net, 0, 3);
    wirenet_down(net, 0, 3, COP_DOWN_REFUSED);
    wirenet_down(net, 0, 1, COP_DOWN_REFUSED);
    wirenet_settle(net);
    wirenet_deliver_all(net, 1, 0);
    assert_int_equal(net->nodes[0].stats.holds, 1);
    net->held[1][0] = net->held[0][1] = false;
    wirenet_settle(net);
    assert_int_equal(net->nodes[1].stats.holds, 1); /* to 3 */
    assert_null(wirenet_end(net, 0, 1));
    wirenet_release(net);
    wirenet_settle(net);
    wirenet_assert_result(net, 0, 1, 31, 0, 0);
    wirenet_assert_ran_once(net);
    wirenet_advance(net, LONG);
    wirenet_assert_nothing_kept(net);
    wirenet_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_1_completes_for_every_shape_and_root),
        cmocka_unit_test(test_1_silence_ends_at_the_bound),
        cmocka_unit_test(test_1_silence_of_everyone),
        cmocka_unit_test(test_1_deadlines_cascade),
        cmocka_unit_test(test_2_children_of_the_lost_answer_me_the_same),
        cmocka_unit_test(test_2_a_chain_of_the_dead_is_passed_around),
        cmocka_unit_test(test_2_the_dead_are_passed_around_from_the_start),
        cmocka_unit_test(test_2_the_larger_set_is_kept),
        cmocka_unit_test(test_2_what_the_larger_set_contains_is_dropped),
        cmocka_unit_test(test_2_an_overlap_comes_in_pieces),
        cmocka_unit_test(test_2_pieces_are_asked_for_further_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
