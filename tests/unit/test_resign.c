/* SPDX-License-Identifier: Apache-2.0 */
#include "failing_alloc.h"
#include "solo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these first */
#include <cmocka.h>

/* V20 at one node: when it resigns and comes back, and whose word it takes; and D16. */

static const struct cop_detect connections;

static struct cop_buf *resign(cop_epoch epoch, uint8_t on)
{
    struct cop__msg_resign message = {epoch, 0, 0, on};
    return cop__encode_resign(&message);
}

static struct cop_buf *belief(cop_id id, uint32_t denial, uint8_t status)
{
    uint8_t bytes[COP__SIZE_belief];
    struct cop__belief one = {id, 1, denial, status};
    struct cop__writer writer = cop__writer(bytes, sizeof bytes);
    cop__belief_put(&writer, &one);
    struct cop__msg_news news = {.beliefs = {bytes, 1}};
    return cop__encode_news(&news);
}

static struct solo *create(cop_id self)
{
    return solo_create(5, self, &connections, COP_QUORUM_MAJORITY);
}

static void lose_quorum(struct solo *solo)
{
    for (cop_id id = 2; id < 5; id++)
        solo_down(solo, id, COP_DOWN_REFUSED);
}

/* After a second and not before, to those whom it does not suspect, again and again; what it
 * accuses them of stays with it. */
static void test_without_a_quorum(void **state)
{
    (void)state;
    struct solo *solo = create(0);
    lose_quorum(solo);
    solo_run(solo, solo->now + COP_SEC - COP_MSEC);
    assert_int_equal(solo_sent(solo, COP__KIND_RESIGN, COP_ID_NONE), 0);
    solo_forget(solo);
    solo_run(solo, solo->now + 2 * COP_MSEC);
    assert_int_equal(solo_sent(solo, COP__KIND_RESIGN, 1), 1);
    assert_int_equal(solo_sent(solo, COP__KIND_RESIGN, COP_ID_NONE), 1);
    solo_run(solo, solo->now + 5 * COP_SEC);
    assert_in_range(solo_sent(solo, COP__KIND_RESIGN, 1), 3, 5);
    assert_int_equal(solo_sent(solo, COP__KIND_NEWS, 1), 0);
    assert_int_equal(solo->stats.resignations, 1);
    solo_destroy(solo);
}

static void test_it_comes_back(void **state)
{
    (void)state;
    struct solo *solo = create(0);
    struct cop__msg_resign said;
    lose_quorum(solo);
    solo_run(solo, solo->now + 3 * COP_SEC / 2);
    solo_forget(solo);
    solo_recv(solo, 2, COP__KIND_NEWS, belief(2, 1, COP_ALIVE));
    solo_run(solo, solo->now + 3 * COP_SEC / 2);
    uint32_t before = solo_sent(solo, COP__KIND_RESIGN, COP_ID_NONE);
    solo_run(solo, solo->now + COP_SEC);
    assert_true(solo_sent(solo, COP__KIND_RESIGN, COP_ID_NONE) > before);
    const struct cop_buf *last =
        solo_frame(solo, COP__KIND_RESIGN,
                   solo_sent(solo, COP__KIND_RESIGN, COP_ID_NONE) - 1)
            ->frame.payload;
    assert_int_equal(cop__decode_resign(last->data, last->length, &said), 0);
    assert_int_equal(said.on, 0);
    solo_destroy(solo);
}

/* Nobody took over: then it is as before, and it takes longer the next time. */
static void test_in_vain(void **state)
{
    (void)state;
    struct solo *solo = create(0);
    lose_quorum(solo);
    solo_run(solo, solo->now + 12 * COP_SEC);
    assert_int_equal(solo->stats.resignations, 1);
    solo_run(solo, solo->now + 3 * COP_SEC);
    assert_int_equal(solo->stats.resignations, 2);
    solo_destroy(solo);
}

static void test_who_is_not_first_does_not(void **state)
{
    (void)state;
    struct solo *solo = create(1);
    lose_quorum(solo);
    solo_run(solo, solo->now + 5 * COP_SEC);
    assert_int_equal(solo_sent(solo, COP__KIND_RESIGN, COP_ID_NONE), 0);
    /* When the one before it has, it is first. */
    solo_recv(solo, 0, COP__KIND_RESIGN, resign(1, 1));
    solo_run(solo, solo->now + 3 * COP_SEC);
    assert_true(solo_sent(solo, COP__KIND_RESIGN, 0) > 0);
    solo_destroy(solo);
}

/* The next in line proposes at once; what was said is over after a while. */
static void test_the_next_takes_over(void **state)
{
    (void)state;
    struct solo *next = create(1), *third = create(2);
    solo_recv(next, 0, COP__KIND_RESIGN, resign(1, 1));
    assert_true(solo_sent(next, COP__KIND_ASK, 0) > 0);
    solo_recv(third, 0, COP__KIND_RESIGN, resign(1, 1));
    solo_run(third, third->now + COP_SEC);
    assert_int_equal(solo_sent(third, COP__KIND_ASK, COP_ID_NONE), 0);
    solo_run(next, next->now + 40 * COP_SEC);
    solo_forget(next);
    solo_down(next, 4, COP_DOWN_REFUSED);
    assert_int_equal(solo_sent(next, COP__KIND_ASK, COP_ID_NONE), 0);
    assert_true(solo_sent(next, COP__KIND_NEWS, 0) > 0);
    solo_destroy(next);
    solo_destroy(third);
}

static void test_what_is_ignored(void **state)
{
    (void)state;
    struct solo *solo = create(1);
    solo_recv(solo, 0, COP__KIND_RESIGN, resign(1, 2));
    assert_int_equal(solo->stats.ignored_malformed, 1);
    /* Said of another view: the two find out which is the later one. */
    solo_recv(solo, 0, COP__KIND_RESIGN, resign(2, 1));
    assert_int_equal(solo_sent(solo, COP__KIND_SYNC, 0), 1);
    solo_recv(solo, 0, COP__KIND_RESIGN, resign(0, 1));
    assert_int_equal(solo_sent(solo, COP__KIND_WHOLE, 0), 1);
    solo_recv(solo, 0, COP__KIND_RESIGN, resign(1, 1));
    solo_recv(solo, 0, COP__KIND_RESIGN, resign(1, 0)); /* taken back */
    solo_forget(solo);
    solo_run(solo, solo->now + 30 * COP_SEC);
    solo_forget(solo);
    solo_down(solo, 4, COP_DOWN_REFUSED);
    assert_int_equal(solo_sent(solo, COP__KIND_ASK, COP_ID_NONE), 0);
    solo_destroy(solo);
}

/* ---- D16 ------------------------------------------------------------------------- */

static void report(struct solo *solo, cop_id id)
{
    struct cop_request request = {.kind = COP_REQUEST_REPORT, .member = id};
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &request};
    int error = solo_event(solo, &event);
    assert_true(error == 0 || solo->failed);
}

static void test_the_reported_is_asked(void **state)
{
    (void)state;
    struct solo *solo = create(0);
    report(solo, 3);
    assert_true(solo_suspects(solo, 3));
    assert_int_equal(solo_sent(solo, COP__KIND_PING, 3), 1);
    solo_run(solo, solo->now + 100 * COP_MSEC);
    assert_int_equal(solo_sent(solo, COP__KIND_ASK, COP_ID_NONE), 0);
    solo_recv(solo, 3, COP__KIND_NEWS, belief(3, 1, COP_ALIVE));
    solo_run(solo, solo->now + COP_SEC);
    assert_int_equal(solo_sent(solo, COP__KIND_ASK, COP_ID_NONE), 0);
    /* Silence, in the end, is what was said; here nobody takes it for that otherwise. */
    report(solo, 3);
    solo_run(solo, solo->now + COP_SEC);
    assert_true(solo_sent(solo, COP__KIND_ASK, COP_ID_NONE) > 0);
    solo_destroy(solo);
    /* An address that refuses ends it at once; one that has, before, needs no question. */
    solo = create(0);
    report(solo, 3);
    solo_down(solo, 3, COP_DOWN_REFUSED);
    assert_true(solo_sent(solo, COP__KIND_ASK, COP_ID_NONE) > 0);
    solo_destroy(solo);
    solo = create(0);
    solo_down(solo, 3, COP_DOWN_REFUSED);
    report(solo, 3);
    assert_int_equal(solo_sent(solo, COP__KIND_PING, 3), 0);
    solo_destroy(solo);
}

static void test_every_allocation_can_fail(void **state)
{
    (void)state;
    bool failed = true;
    for (size_t at = 0; failed && at < 1000; at++) {
        struct solo *solo = create(1);
        failing_alloc_after(at);
        solo_recv(solo, 0, COP__KIND_RESIGN, resign(1, 1));
        if (!solo->failed)
            report(solo, 4);
        if (!solo->failed)
            lose_quorum(solo);
        if (!solo->failed)
            solo_run(solo, solo->now + 3 * COP_SEC);
        failing_alloc_off();
        failed = solo->failed != 0;
        solo_destroy(solo);
    }
    assert_false(failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_a_quorum),
        cmocka_unit_test(test_it_comes_back),
        cmocka_unit_test(test_in_vain),
        cmocka_unit_test(test_who_is_not_first_does_not),
        cmocka_unit_test(test_the_next_takes_over),
        cmocka_unit_test(test_what_is_ignored),
        cmocka_unit_test(test_the_reported_is_asked),
        cmocka_unit_test(test_every_allocation_can_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
