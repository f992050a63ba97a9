/* SPDX-License-Identifier: Apache-2.0 */
#include "agreenet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

/*
 * Agreement among a few real nodes, with the order of events in the test's hand: operations,
 * what a caller can do wrong, deadlines, and deaths.
 */
/* ---- operations ------------------------------------------------------------------ */

static void test_words(void **state)
{
    (void)state;
    static const struct {
        uint32_t op;
        uint64_t values[AGREENET_NODES], result;
    } cases[] = {
        {COP_AGREE_AND, {15, 7, 13, 5}, 5},
        {COP_AGREE_OR, {1, 2, 4, 16}, 23},
        {COP_AGREE_SUM, {1, UINT64_MAX, 5, 10}, 15},
        {COP_AGREE_MIN, {9, 4, 3, UINT64_MAX}, 3},
        {COP_AGREE_MAX, {9, 4, UINT64_C(1) << 63, 8}, UINT64_C(1) << 63},
    };
    struct agreenet *net = agreenet_create_started();
    agreenet_make_all(net, &(struct cop_agree_group){.number = 7});
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (cop_id id = 0; id < AGREENET_NODES; id++)
            assert_int_equal(
                agreenet_call_word(net, id, i, cases[i].op, cases[i].values[id]), 0);
        agreenet_settle(net);
        agreenet_expect_word(net, i, cases[i].result, 0);
    }
    agreenet_destroy(net);
}

static void expect_bytes(struct agreenet *net, uint64_t token, uint32_t op,
                         const char *const values[AGREENET_NODES], const char *result)
{
    for (cop_id id = 0; id < AGREENET_NODES; id++)
        assert_int_equal(agreenet_call(net, id, token, op, COP_VALUE_BYTES, values[id],
                                       (uint32_t)strlen(values[id])),
                         0);
    agreenet_settle(net);
    for (cop_id id = 0; id < AGREENET_NODES; id++) {
        struct cop_agreed agreed;
        assert_int_equal(agreenet_end_of(net, id, token, &agreed), 0);
        assert_int_equal(agreed.length, strlen(result));
        assert_memory_equal(agreed.value, result, agreed.length);
        cop_agreed_free(&agreed);
    }
}

static void test_bytes(void **state)
{
    (void)state;
    struct agreenet *net = agreenet_create_started();
    agreenet_make_all(
        net, &(struct cop_agree_group){.number = 7, .algorithm = COP_AGREE_STRICT});
    expect_bytes(net, 1, COP_AGREE_MIN,
                 (const char *const[AGREENET_NODES]){"pear", "apple", "app", "fig"},
                 "app");
    expect_bytes(net, 2, COP_AGREE_MAX,
                 (const char *const[AGREENET_NODES]){"pear", "apple", "pea", "fig"},
                 "pear");
    expect_bytes(net, 3, COP_AGREE_OR,
                 (const char *const[AGREENET_NODES]){"a", "b", "`", "d"}, "g");
    expect_bytes(net, 4, COP_AGREE_AND,
                 (const char *const[AGREENET_NODES]){"ag", "cf", "ad", "cd"}, "ad");
    expect_bytes(net, 5, COP_AGREE_SUM,
                 (const char *const[AGREENET_NODES]){"!", "!", "\x01", "\x02"}, "E");
    expect_bytes(net, 6, COP_AGREE_USER,
                 (const char *const[AGREENET_NODES]){"one", "three", "four", "seven"},
                 "three");
    agreenet_destroy(net);
}

/* Who does not fit is everybody's error, and the next agreement is as good as any. */
static void test_values_that_do_not_fit(void **state)
{
    (void)state;
    struct agreenet *net = agreenet_create_started();
    agreenet_make_all(net, &(struct cop_agree_group){.number = 7});
    uint64_t two[2] = {1, 2};
    for (cop_id id = 0; id < AGREENET_NODES; id++)
        assert_int_equal(agreenet_call(net, id, 1, COP_AGREE_SUM, COP_VALUE_WORDS, two,
                                       id == 3 ? 16 : 8),
                         0);
    for (cop_id id = 0; id < AGREENET_NODES; id++)
        assert_int_equal(agreenet_call_word(net, id, 99, COP_AGREE_SUM, 1), COP_EAGAIN);
    agreenet_settle(net);
    for (cop_id id = 0; id < AGREENET_NODES; id++)
        assert_int_equal(agreenet_call(net, id, 2,
                                       id == 2 ? COP_AGREE_MIN : COP_AGREE_SUM,
                                       COP_VALUE_WORDS, two, 8),
                         0);
    agreenet_settle(net);
    for (cop_id id = 0; id < AGREENET_NODES; id++)
        assert_int_equal(
            agreenet_call(net, id, 3, COP_AGREE_USER + 1, COP_VALUE_BYTES, two, 3), 0);
    agreenet_settle(net);
    for (cop_id id = 0; id < AGREENET_NODES; id++)
        assert_int_equal(
            agreenet_call(net, id, 4, COP_AGREE_SUM, COP_VALUE_BYTES, NULL, 0), 0);
    agreenet_settle(net);
    for (cop_id id = 0; id < AGREENET_NODES; id++) {
        struct cop_agreed agreed;
        assert_int_equal(agreenet_end_of(net, id, 1, NULL), COP_EINVAL);
        assert_int_equal(agreenet_end_of(net, id, 2, NULL), COP_EINVAL);
        assert_int_equal(agreenet_end_of(net, id, 3, NULL), COP_ERANGE);
        assert_int_equal(agreenet_end_of(net, id, 4, &agreed), 0);
        assert_null(agreed.value);
        assert_int_equal(agreed.number, 4);
        cop_agreed_free(&agreed);
    }
    agreenet_destroy(net);
}

/* ---- callers --------------------------------------------------------------------- */

static void test_groups_that_cannot_be(void **state)
{
    (void)state;
    struct agreenet *net = agreenet_create_started();
    struct cop_life lives[2] = {{0, 1}, {1, 1}};
    struct cop_agree_group group = {.number = 7, .members = lives, .count = 2};
    assert_int_equal(agreenet_make(net, 0, &group), 0);
    assert_int_equal(agreenet_make(net, 0, &group), COP_EEXIST);
    assert_int_equal(agreenet_make(net, 2, &group), COP_EINVAL); /* not in it */
    lives[1].id = AGREENET_NODES - 1;
    assert_int_equal(agreenet_make(net, 1, &group), COP_EINVAL); /* between two of it */
    assert_int_equal(agreenet_make(net, AGREENET_NODES - 1, &group), 0);
    group.number = 8;
    lives[1].incarnation = 2; /* nobody knows of that life */
    assert_int_equal(agreenet_make(net, 0, &group), COP_EINVAL);
    lives[1] = (struct cop_life){0, 1}; /* twice */
    assert_int_equal(agreenet_make(net, 0, &group), COP_EINVAL);
    lives[1] = (struct cop_life){9, 1}; /* no such member */
    assert_int_equal(agreenet_make(net, 0, &group), COP_EINVAL);
    group = (struct cop_agree_group){.number = 8, .window = COP_AGREE_WINDOW_MAX + 1};
    assert_int_equal(agreenet_make(net, 0, &group), COP_EINVAL);
    group.window = 0;
    group.algorithm = (enum cop_algorithm)COP_ALGORITHMS;
    assert_int_equal(agreenet_make(net, 0, &group), COP_EINVAL);
    group.algorithm = COP_AGREE_EARLY;
    group.shape = (struct cop_shape){.kind = COP_SHAPE_KARY, .k = 1};
    assert_int_equal(agreenet_make(net, 0, &group), COP_EINVAL);
    group = (struct cop_agree_group){.number = 8, .members = lives, .count = 0};
    assert_int_equal(agreenet_make(net, 0, &group), COP_EINVAL);
    assert_int_equal(agreenet_make(net, 0, NULL), COP_EINVAL);
    agreenet_destroy(net);
}

/* A list is the same group as the view that it lists. */
static void test_a_group_by_list_and_by_view(void **state)
{
    (void)state;
    struct agreenet *net = agreenet_create_started();
    static const struct cop_life all[AGREENET_NODES] = {{0, 1}, {1, 1}, {2, 1}, {3, 1}};
    struct cop_agree_group group = {.number = 7, .count = AGREENET_NODES};
    for (cop_id id = 0; id < AGREENET_NODES; id++) {
        group.members = id % 2 ? all : NULL;
        assert_int_equal(agreenet_make(net, id, &group), 0);
        assert_int_equal(agreenet_call_word(net, id, 1, COP_AGREE_SUM, id), 0);
    }
    agreenet_settle(net);
    agreenet_expect_word(net, 1, 0 + 1 + 2 + 3, 0);
    agreenet_destroy(net);
}

static void test_calls_that_cannot_be(void **state)
{
    (void)state;
    struct agreenet *net = agreenet_create_started();
    char large[8] = {0};
    assert_int_equal(agreenet_call_word(net, 0, 1, COP_AGREE_SUM, 1),
                     COP_EINVAL); /* no group */
    agreenet_make_all(net, &(struct cop_agree_group){.number = 7});
    assert_int_equal(agreenet_call_word(net, 0, 1, COP_AGREE_MAX + 1, 1), COP_EINVAL);
    assert_int_equal(agreenet_call_word(net, 0, 1, COP_AGREE_USER + 2, 1), COP_EINVAL);
    assert_int_equal(agreenet_call(net, 0, 1, COP_AGREE_SUM, COP_VALUE_WORDS, large, 7),
                     COP_EINVAL);
    assert_int_equal(agreenet_call(net, 0, 1, COP_AGREE_SUM, COP_VALUE_BYTES, NULL, 7),
                     COP_EINVAL);
    assert_int_equal(agreenet_call(net, 0, 1, COP_AGREE_SUM, COP_VALUE_BYTES, large,
                                   COP_VALUE_MAX + 1),
                     COP_EINVAL);
    agreenet_destroy(net);
    net = agreenet_create();
    agreenet_start(net, COP_QUORUM_FIXED); /* without views there is no such layer */
    assert_int_equal(agreenet_make(net, 0, &(struct cop_agree_group){.number = 7}),
                     COP_EINVAL);
    agreenet_destroy(net);
}

/* Who gives up waiting has still voted: the others get its value, and it the next one. */
static void test_deadline_and_abort(void **state)
{
    (void)state;
    struct agreenet *net = agreenet_create_started();
    agreenet_make_all(net, &(struct cop_agree_group){.number = 7, .window = 2});
    struct cop_request request = {.kind = COP_REQUEST_AGREE,
                                  .token = 1,
                                  .timeout_ns = 50 * COP_MSEC,
                                  .group = 7,
                                  .op = COP_AGREE_SUM,
                                  .bytes = &(uint64_t){5},
                                  .length = 8};
    assert_int_equal(agreenet_submit(net, 3, &request), 0);
    agreenet_settle(net);
    assert_int_equal(agreenet_end_of(net, 3, 1, NULL), COP_ETIMEDOUT);
    request.timeout_ns = 0;
    request.token = 2;
    assert_int_equal(agreenet_submit(net, 3, &request), 0);
    request.token = 3;
    assert_int_equal(agreenet_submit(net, 3, &request), COP_EAGAIN);
    struct cop_request end = {.kind = COP_REQUEST_ABORT, .token = 50, .target = 2};
    assert_int_equal(agreenet_submit(net, 3, &end), 0);
    assert_int_equal(agreenet_end_of(net, 3, 2, NULL), COP_EABORTED);
    assert_int_not_equal(agreenet_submit(net, 3, &end), 0); /* it is over */
    for (cop_id id = 0; id < 3; id++) {
        assert_int_equal(agreenet_call_word(net, id, 1, COP_AGREE_SUM, 1), 0);
        assert_int_equal(agreenet_call_word(net, id, 2, COP_AGREE_SUM, 2), 0);
    }
    agreenet_settle(net);
    for (cop_id id = 0; id < AGREENET_NODES; id++)
        assert_int_equal(agreenet_call_word(net, id, 3, COP_AGREE_SUM, 3), 0);
    agreenet_settle(net);
    for (cop_id id = 0; id < 3; id++) {
        struct cop_agreed agreed;
        assert_int_equal(agreenet_end_of(net, id, 1, &agreed), 0);
        assert_int_equal(cop_agreed_word(&agreed, 0), 8);
        cop_agreed_free(&agreed);
    }
    agreenet_expect_word(net, 3, 12, 0);
    agreenet_destroy(net);
}

/* ---- deaths ---------------------------------------------------------------------- */

static void test_a_root_dies(void **state)
{
    (void)state;
    struct agreenet *net = agreenet_create_started();
    agreenet_make_all(net, &(struct cop_agree_group){.number = 7});
    agreenet_call_word(net, 1, 1, COP_AGREE_SUM, 10);
    agreenet_call_word(net, 2, 1, COP_AGREE_SUM, 10);
    agreenet_call_word(net, 3, 1, COP_AGREE_SUM, 10);
    agreenet_crash(net, 0);
    agreenet_settle(net);
    agreenet_expect_word(net, 1, 30, 1);
    agreenet_crash(net, 2);
    agreenet_call_all(net, 2, 1);
    agreenet_settle(net);
    agreenet_expect_word(net, 2, 2, 2);
    agreenet_call_all(net, 3, 4); /* and the failures stay agreed upon */
    agreenet_settle(net);
    agreenet_expect_word(net, 3, 8, 2);
    agreenet_destroy(net);
}

/* Only 2 knows that 3 is dead, and votes with 3's vote in its hands: the root waits until a
 * view says whether that is so. */
static void test_a_suspicion_is_resolved_first(void **state)
{
    (void)state;
    struct agreenet *net = agreenet_create_started();
    agreenet_make_all(net, &(struct cop_agree_group){.number = 7});
    agreenet_call_word(net, 0, 1, COP_AGREE_SUM, 1);
    agreenet_call_word(net, 1, 1, COP_AGREE_SUM, 1);
    agreenet_call_word(net, 3, 1, COP_AGREE_SUM, 1);
    agreenet_deliver_votes(net);
    agreenet_crash(net, 3);
    while (net->hears[2][3] != NOTHING)
        agreenet_down(net, 2, 3);
    agreenet_call_word(net, 2, 1, COP_AGREE_SUM, 1);
    agreenet_deliver_votes(net);
    assert_int_equal(agreenet_end_of(net, 0, 1, NULL), 1);
    agreenet_settle(net);
    agreenet_expect_word(net, 1, 3, 1);
    agreenet_destroy(net);
}

/* Two-phase commit: the coordinator dies with the last vote on its way to it. */
static void expect_doubt(bool promote, bool voted, int status)
{
    struct agreenet *net = agreenet_create_started();
    agreenet_make_all(net, &(struct cop_agree_group){.number = 7,
                                                     .algorithm = COP_AGREE_TREE,
                                                     .promote = promote});
    for (cop_id id = 1; id < AGREENET_NODES; id++)
        if (voted || id != 2)
            agreenet_call_word(net, id, 1, COP_AGREE_SUM, 10);
    while (net->item_count > 0 && net->items[0].header.receiver != 0)
        agreenet_deliver_first(net);
    agreenet_crash(net, 0);
    agreenet_settle(net);
    if (!voted) {
        agreenet_call_word(net, 2, 1, COP_AGREE_SUM, 10);
        agreenet_settle(net);
    }
    for (cop_id id = 1; id < AGREENET_NODES; id++) {
        struct cop_agreed agreed;
        assert_int_equal(agreenet_end_of(net, id, 1, &agreed), status);
        assert_null(agreed.value);
        assert_int_equal(agreed.failed.count, 1);
        assert_int_equal(agreed.failed.items[0], 0);
        cop_agreed_free(&agreed);
    }
    agreenet_call_all(net, 2, 1); /* the next has another coordinator */
    agreenet_settle(net);
    agreenet_expect_word(net, 2, 3, 1);
    agreenet_destroy(net);
}

static void test_doubt(void **state)
{
    (void)state;
    expect_doubt(false, true, COP_UNCERTAIN);
    expect_doubt(true, true, COP_UNDECIDED);
    expect_doubt(false, false, COP_UNDECIDED);
}

static void test_allreduce_dies(void **state)
{
    (void)state;
    struct agreenet *net = agreenet_create_started();
    agreenet_make_all(
        net, &(struct cop_agree_group){.number = 7, .algorithm = COP_AGREE_ALLREDUCE});
    agreenet_call_all(net, 1, 1);
    agreenet_settle(net);
    agreenet_expect_word(net, 1, 4, 0);
    agreenet_crash(net, 2);
    agreenet_call_all(net, 2, 1);
    agreenet_settle(net);
    for (cop_id id = 0; id < AGREENET_NODES; id++)
        if (net->nodes[id])
            assert_int_equal(agreenet_end_of(net, id, 2, NULL), COP_ELOST);
    agreenet_destroy(net);
}

/* STRICT: who dies after it returned leaves its value to everyone. The chain is 0-1-2-3;
 * everybody keeps the decision, 0 releases it to nobody but itself. */
static void test_strict_survives_its_root(void **state)
{
    (void)state;
    struct agreenet *net = agreenet_create_started();
    agreenet_make_all(
        net, &(struct cop_agree_group){.number = 7, .algorithm = COP_AGREE_STRICT});
    agreenet_call_all(net, 1, 1);
    while (net->item_count > 0 && net->items[0].header.kind != COP__KIND_DECIDE)
        agreenet_deliver_first(net);
    assert_int_equal(net->item_count, 1);
    assert_int_equal(agreenet_end_of(net, 0, 1, NULL), 0);
    cop_buf_unref(net->items[0].payload); /* nobody hears of it */
    net->item_count = 0;
    agreenet_crash(net, 0);
    agreenet_settle(net);
    agreenet_expect_word(net, 1, 4,
                         0); /* with the value of 0, and without its failure */
    agreenet_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_values_that_do_not_fit),
        cmocka_unit_test(test_groups_that_cannot_be),
        cmocka_unit_test(test_a_group_by_list_and_by_view),
        cmocka_unit_test(test_calls_that_cannot_be),
        cmocka_unit_test(test_deadline_and_abort),
        cmocka_unit_test(test_a_root_dies),
        cmocka_unit_test(test_a_suspicion_is_resolved_first),
        cmocka_unit_test(test_doubt),
        cmocka_unit_test(test_allreduce_dies),
        cmocka_unit_test(test_strict_survives_its_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
