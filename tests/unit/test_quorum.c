/* SPDX-License-Identifier: Apache-2.0 */
#include "solo.h"

#include "view/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these first */
#include <cmocka.h>

/*
 * V10 at one node, for the quorum `has`: from which losses it goes on. It is next in line of the
 * root, which is always among the lost, so that it is its turn.
 */
#define N 7u
#define SELF 1u
static const cop_id named[] = {5, 6};

/* Whether it goes on when the named of `left` have left and those of `lost` are gone; each is a
 * bit by id. Who does not is degraded, and who is degraded does not. */
static bool goes_on(uint32_t left, uint32_t lost)
{
    struct solo *solo = solo_create_named(N, SELF, named, 2);
    for (cop_id id = 0; id < N; id++)
        if (left >> id & 1)
            solo_without(solo, id, COP_LEFT, 2);
    cop_epoch before = cop_view_epoch(cop_node_view(solo->node));
    solo_forget(solo);
    /* The root last: only then is it its turn, and it knows of all others. */
    for (cop_id id = N; id-- > 0;)
        if (lost >> id & 1)
            solo_down(solo, id, COP_DOWN_REFUSED);
    solo_run(solo, solo->now + COP_SEC);
    /* It asks those who are left, or is alone and needs nobody. */
    bool goes = solo_sent(solo, COP__KIND_ASK, COP_ID_NONE) > 0 ||
                cop_view_epoch(cop_node_view(solo->node)) > before;
    assert_int_equal(cop_node_is_degraded(solo->node), !goes);
    solo_destroy(solo);
    return goes;
}

#define BIT(id) (UINT32_C(1) << (id))

static void test_with_all_the_named(void **state)
{
    (void)state;
    const uint32_t others = BIT(0) | BIT(2) | BIT(3) | BIT(4);
    assert_true(goes_on(0, BIT(0)));
    assert_true(goes_on(0, others));
    assert_false(goes_on(0, BIT(0) | BIT(6)));
    assert_false(goes_on(0, others | BIT(5) | BIT(6)));
}

/* Those who are still there decide, whatever their number. */
static void test_one_of_the_named_has_left(void **state)
{
    (void)state;
    assert_true(goes_on(BIT(6), BIT(0) | BIT(2) | BIT(3) | BIT(4)));
    assert_false(goes_on(BIT(6), BIT(0) | BIT(5)));
}

/* Then some rule must still keep two sides from going on: three of five are more than half, two and
 * one are not. */
static void test_all_the_named_have_left(void **state)
{
    (void)state;
    const uint32_t left = BIT(5) | BIT(6);
    assert_true(goes_on(left, BIT(0)));
    assert_true(goes_on(left, BIT(0) | BIT(2)));
    assert_false(goes_on(left, BIT(0) | BIT(2) | BIT(3)));
    assert_false(goes_on(left, BIT(0) | BIT(2) | BIT(3) | BIT(4)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_with_all_the_named),
        cmocka_unit_test(test_one_of_the_named_has_left),
        cmocka_unit_test(test_all_the_named_have_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
