/* SPDX-License-Identifier: Apache-2.0 */
#include "failing_alloc.h"
#include "solo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these first */
#include <cmocka.h>

/* D16 at one node: whom somebody outside says is gone is asked before it is removed. */

static const struct cop_detect connections;

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
        struct solo *solo = create(0);
        failing_alloc_after(at);
        report(solo, 4);
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
        cmocka_unit_test(test_the_reported_is_asked),
        cmocka_unit_test(test_every_allocation_can_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
