/* SPDX-License-Identifier: Apache-2.0 */
#include "failing_alloc.h"
#include "solo.h"
#include "sweep/sweep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these first */
#include <cmocka.h>

/* V18 at one node: what it is asked, what it tells the root, and what it does not believe. */

static const struct cop_detect connections;

static int submit(struct solo *solo, cop_id member, uint64_t token)
{
    struct cop_request request = {
        .kind = COP_REQUEST_DRAIN, .token = token, .member = member};
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &request};
    return solo_event(solo, &event);
}

static struct cop_buf *wish(cop_id member, cop_incarnation incarnation, uint8_t on)
{
    struct cop__msg_drain message = {member, incarnation, on};
    return cop__encode_drain(&message);
}

/* The root is told, again and again, until there is no more time. */
static void test_the_root_is_told(void **state)
{
    (void)state;
    struct solo *solo = solo_create(4, 2, &connections, COP_QUORUM_MAJORITY);
    assert_int_equal(submit(solo, 9, 1), COP_EINVAL);
    assert_int_equal(submit(solo, 3, 1), 0);
    assert_int_equal(submit(solo, 3, 1), COP_EINVAL);
    assert_int_equal(solo_sent(solo, COP__KIND_DRAIN, 0), 1);
    solo_run(solo, solo->now + 2 * COP_SEC);
    assert_in_range(solo_sent(solo, COP__KIND_DRAIN, 0), 3, 6);
    assert_int_equal(solo_effects(solo, COP_EFFECT_COMPLETE, COP_ID_NONE), 0);
    solo_run(solo, solo->now + 20 * COP_SEC);
    assert_int_equal(solo_effects(solo, COP_EFFECT_COMPLETE, COP_ID_NONE), 1);
    solo_destroy(solo);
}

static void test_what_is_ignored(void **state)
{
    (void)state;
    struct solo *root = solo_create(4, 0, &connections, COP_QUORUM_MAJORITY);
    struct solo *other = solo_create(4, 1, &connections, COP_QUORUM_MAJORITY);
    solo_recv(root, 2, COP__KIND_DRAIN, wish(3, 1, 2));
    assert_int_equal(root->stats.ignored_malformed, 1);
    solo_recv(root, 2, COP__KIND_DRAIN, wish(3, 7, 1)); /* a life that nobody knows */
    assert_int_equal(root->stats.ignored_unasked, 1);
    solo_recv(other, 2, COP__KIND_DRAIN, wish(3, 1, 1)); /* not the root */
    assert_int_equal(other->stats.ignored_unasked, 1);
    assert_int_equal(solo_sent(root, COP__KIND_ASK, COP_ID_NONE), 0);
    solo_recv(root, 2, COP__KIND_DRAIN, wish(3, 1, 1));
    solo_run(root, root->now + COP_MSEC);
    assert_true(solo_sent(root, COP__KIND_ASK, COP_ID_NONE) > 0);
    solo_destroy(root);
    solo_destroy(other);
}

/* The list in front of a question: sorted, of members, without the initiator, all there. */
static int split(const uint32_t *leaves, uint32_t count, uint32_t claimed)
{
    uint8_t bytes[64];
    struct cop_ranks out = {0};
    struct cop__writer writer = cop__writer(bytes, sizeof bytes);
    cop__put_u32(&writer, claimed);
    for (uint32_t i = 0; i < count; i++)
        cop__put_u32(&writer, leaves[i]);
    struct cop__msg_ask ask = {
        .flags = 2, .members = 5, .payload = {bytes, 4 + 4 * count}};
    int error = cop__sweep_split(&ask, &out);
    cop_ranks_free(&out);
    return error;
}

static void test_lists_of_leaves(void **state)
{
    (void)state;
    assert_int_equal(split((uint32_t[]){1, 4}, 2, 2), 0);
    assert_int_equal(split((uint32_t[]){4, 1}, 2, 2), COP_EMALFORMED);
    assert_int_equal(split((uint32_t[]){1, 1}, 2, 2), COP_EMALFORMED);
    assert_int_equal(split((uint32_t[]){1, 5}, 2, 2), COP_EMALFORMED);
    assert_int_equal(split((uint32_t[]){0, 1}, 2, 2), COP_EMALFORMED);
    assert_int_equal(split((uint32_t[]){1, 4}, 2, 3), COP_EMALFORMED);
    assert_int_equal(split((uint32_t[]){1, 4}, 2, UINT32_MAX), COP_EMALFORMED);
    assert_int_equal(split((uint32_t[]){1}, 0, 0), COP_EMALFORMED);
}

static void test_every_allocation_can_fail(void **state)
{
    (void)state;
    bool failed = true;
    for (size_t at = 0; failed && at < 1000; at++) {
        struct solo *solo = solo_create(4, 0, &connections, COP_QUORUM_NONE);
        failing_alloc_after(at);
        solo_down(solo, 1, COP_DOWN_REFUSED);
        if (!solo->failed)
            submit(solo, 2, 1);
        for (cop_id id = 2; id < 4 && !solo->failed; id++)
            solo_down(solo, id, COP_DOWN_REFUSED);
        if (!solo->failed)
            solo_run(solo, solo->now + COP_SEC);
        failing_alloc_off();
        failed = solo->failed != 0;
        solo_destroy(solo);
    }
    assert_false(failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_root_is_told),
        cmocka_unit_test(test_what_is_ignored),
        cmocka_unit_test(test_lists_of_leaves),
        cmocka_unit_test(test_every_allocation_can_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
