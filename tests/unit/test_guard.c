/* SPDX-License-Identifier: Apache-2.0 */
#include "failing_alloc.h"
#include "solo.h"
#include "view/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these first */
#include <cmocka.h>

/* V17 at one root: who is held, who hears of it, and what lets them go. */

static int report(struct solo *solo, cop_id member)
{
    struct cop_request request = {
        .kind = COP_REQUEST_REPORT, .token = 1, .member = member};
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &request};
    return solo_event(solo, &event);
}

static void lose(struct solo *solo, cop_id first, cop_id last)
{
    for (cop_id id = first; id <= last && !solo->failed; id++)
        solo_down(solo, id, COP_DOWN_REFUSED);
    if (!solo->failed)
        solo_run(solo, solo->now + COP_SEC);
}

static void assert_held(const struct solo *solo, uint32_t count)
{
    cop_id ids[8] = {0};
    assert_int_equal(cop_node_held(solo->node, ids, 8), count);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(ids[i], 1 + i);
}

static uint32_t size_of(const struct solo *solo)
{
    return cop_view_size(cop_node_view(solo->node));
}

static void test_no_limit(void **state)
{
    (void)state;
    struct solo *solo = solo_create_guarded(4, 0);
    lose(solo, 1, 3);
    assert_int_equal(size_of(solo), 1);
    assert_int_equal(solo_effects(solo, COP_EFFECT_HELD, COP_ID_NONE), 0);
    solo_destroy(solo);
}

static void test_up_to_the_limit(void **state)
{
    (void)state;
    struct solo *solo = solo_create_guarded(4, 3);
    struct cop_member member;
    lose(solo, 1, 3);
    assert_int_equal(size_of(solo), 1);
    assert_held(solo, 0);
    assert_int_equal(cop_view_member(cop_node_view(solo->node), 2, &member), 0);
    assert_int_equal(member.presence, COP_REMOVED);
    assert_false(member.certain);
    solo_destroy(solo);
}

/* Each that is held is told, so that it can deny; for all the time that passes. */
static void test_beyond_it(void **state)
{
    (void)state;
    struct solo *solo = solo_create_guarded(4, 2);
    lose(solo, 1, 3);
    assert_held(solo, 3);
    for (cop_id id = 1; id <= 3; id++)
        assert_true(solo_sent(solo, COP__KIND_NEWS, id) > 0);
    solo_forget(solo);
    solo_run(solo, solo->now + 200 * COP_SEC);
    assert_held(solo, 3);
    assert_int_equal(size_of(solo), 4);
    assert_int_equal(solo_effects(solo, COP_EFFECT_HELD, COP_ID_NONE), 0);
    /* The first of them, if there is room for no more. */
    cop_id first = 0;
    assert_int_equal(cop_node_held(solo->node, &first, 1), 3);
    assert_int_equal(first, 1);
    solo_destroy(solo);
}

/* What is suspect already becomes more than that, and is recorded as such. */
static void test_a_report(void **state)
{
    (void)state;
    struct solo *solo = solo_create_guarded(4, 2);
    struct cop_member member;
    struct cop_suspicion last[8];
    lose(solo, 1, 3);
    assert_held(solo, 3);
    solo_forget(solo);
    assert_int_equal(report(solo, 2), 0);
    solo_run(solo, solo->now + COP_SEC);
    assert_held(solo, 0);
    assert_int_equal(size_of(solo), 1);
    assert_int_equal(solo_effects(solo, COP_EFFECT_HELD, COP_ID_NONE), 1);
    for (cop_id id = 1; id <= 3; id++) {
        assert_int_equal(cop_view_member(cop_node_view(solo->node), id, &member), 0);
        assert_int_equal(member.presence, COP_REMOVED);
        assert_int_equal(member.certain, id == 2);
    }
    uint32_t count = cop_node_events(solo->node, 0, last, 8);
    assert_int_equal(count, 4);
    assert_int_equal(last[3].reason, COP_REASON_OUTSIDE);
    assert_int_equal(last[3].accused, 2);
    assert_int_equal(last[3].outcome, COP_OUTCOME_REMOVED);
    solo_destroy(solo);
}

/* Said of a member that denied since, it is a suspicion like others: the next denial ends it. */
static void test_a_denial(void **state)
{
    (void)state;
    struct solo *solo = solo_create_guarded(4, 2);
    lose(solo, 1, 3);
    solo_forget(solo);
    uint8_t bytes[COP__SIZE_belief];
    struct cop__belief belief = {3, 1, 1, COP_ALIVE};
    struct cop__writer writer = cop__writer(bytes, sizeof bytes);
    cop__belief_put(&writer, &belief);
    struct cop__msg_news news = {.beliefs = {bytes, 1}};
    solo_recv(solo, 3, COP__KIND_NEWS, cop__encode_news(&news));
    solo_run(solo, solo->now + COP_SEC);
    assert_held(solo, 0);
    /* Two may go, and the third is asked about it. */
    assert_true(solo_sent(solo, COP__KIND_ASK, 3) > 0);
    solo_destroy(solo);
}

/* The next root has to know why: it is part of the view, of its bytes and its digest. */
static void test_it_is_in_the_view(void **state)
{
    (void)state;
    struct cop_shape shape;
    struct cop_view *start, *views[2], *again;
    struct cop_buf *bytes[2];
    struct cop_ballot ballot = {2, 0, 1};
    assert_int_equal(cop_shape_make(COP_SHAPE_FLAT, 0, &shape), 0);
    assert_int_equal(cop_view_create_static(4, &shape, 1, &start), 0);
    for (uint8_t flags = 0; flags < 2; flags++) {
        struct cop__entry entry = {3, 3, 1, 2, NULL, COP_REMOVED, flags};
        struct cop__delta delta = {&entry, 1, 1};
        struct cop_member member;
        assert_int_equal(cop__view_derive(start, &ballot, &delta, &views[flags]), 0);
        bytes[flags] = cop__view_encode(views[flags]);
        assert_non_null(bytes[flags]);
        struct cop__bytes body = {bytes[flags]->data, bytes[flags]->length};
        assert_int_equal(cop__view_decode(body, start, &again), 0);
        assert_true(cop_view_digest(again) == cop_view_digest(views[flags]));
        assert_int_equal(cop_view_member(again, 3, &member), 0);
        assert_int_equal(member.certain, flags);
        cop_view_unref(again);
    }
    assert_true(cop_view_digest(views[0]) != cop_view_digest(views[1]));
    /* Flags that nobody knows yet are refused, and so is what is no presence. */
    const uint32_t how = COP__SIZE_ballot + 4 + 4 + 4 + 8 + 8;
    struct cop__bytes body = {bytes[0]->data, bytes[0]->length};
    assert_int_equal(bytes[0]->data[how], COP_REMOVED);
    bytes[0]->data[how] = (COP__ENTRY_FLAGS + 1) << 2 | COP_REMOVED;
    assert_int_equal(cop__view_decode(body, start, &again), COP_EMALFORMED);
    bytes[0]->data[how] = COP_LEFT + 1;
    assert_int_equal(cop__view_decode(body, start, &again), COP_EMALFORMED);
    for (int i = 0; i < 2; i++) {
        cop_buf_unref(bytes[i]);
        cop_view_unref(views[i]);
    }
    cop_view_unref(start);
}

static void test_every_allocation_can_fail(void **state)
{
    (void)state;
    bool failed = true;
    for (size_t at = 0; failed && at < 1000; at++) {
        struct solo *solo = solo_create_guarded(4, 2);
        failing_alloc_after(at);
        lose(solo, 1, 3);
        if (!solo->failed)
            report(solo, 1);
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
        cmocka_unit_test(test_no_limit),
        cmocka_unit_test(test_up_to_the_limit),
        cmocka_unit_test(test_beyond_it),
        cmocka_unit_test(test_a_report),
        cmocka_unit_test(test_a_denial),
        cmocka_unit_test(test_it_is_in_the_view),
        cmocka_unit_test(test_every_allocation_can_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
