/* SPDX-License-Identifier: Apache-2.0 */
#include "failing_alloc.h"

#include <coppice/error.h>
#include <coppice/view.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these first */
#include <cmocka.h>

static struct cop_shape radix(void)
{
    struct cop_shape shape;
    assert_int_equal(cop_shape_make(COP_SHAPE_RADIX, 4, &shape), 0);
    return shape;
}

static void test_static(void **state)
{
    (void)state;
    struct cop_shape shape = radix();
    struct cop_view *view;
    assert_int_equal(cop_view_create_static(10, &shape, 3, &view), 0);
    assert_int_equal(cop_view_size(view), 10);
    assert_true(cop_view_epoch(view) > 0);
    assert_int_equal(cop_view_shape(view)->kind, COP_SHAPE_RADIX);
    assert_int_equal(cop_view_shape(view)->k, 4);
    for (cop_rank rank = 0; rank < 10; rank++) {
        assert_int_equal(cop_view_rank(view, cop_view_id(view, rank)), rank);
        assert_true(cop_view_incarnation(view, rank) == 3);
    }
    cop_view_unref(view);
}

static void test_strangers(void **state)
{
    (void)state;
    struct cop_shape shape = radix();
    struct cop_view *view;
    assert_int_equal(cop_view_create_static(10, &shape, 3, &view), 0);
    assert_int_equal(cop_view_rank(view, 10), COP_RANK_NONE);
    assert_int_equal(cop_view_rank(view, COP_ID_NONE), COP_RANK_NONE);
    assert_int_equal(cop_view_id(view, 10), COP_ID_NONE);
    assert_int_equal(cop_view_id(view, COP_RANK_NONE), COP_ID_NONE);
    assert_true(cop_view_incarnation(view, 10) == 0);
    cop_view_unref(view);
}

static void test_impossible(void **state)
{
    (void)state;
    struct cop_shape shape = radix(), wrong = {.kind = (enum cop_shape_kind)99};
    struct cop_view *view = NULL;
    assert_int_equal(cop_view_create_static(0, &shape, 1, &view), COP_EINVAL);
    assert_int_equal(cop_view_create_static(COP_MEMBERS_MAX + 1, &shape, 1, &view),
                     COP_EINVAL);
    assert_int_equal(cop_view_create_static(4, &shape, 0, &view), COP_EINVAL);
    assert_int_equal(cop_view_create_static(4, &wrong, 1, &view), COP_EINVAL);
    assert_null(view);
    /* The largest one costs no more than the smallest. */
    assert_int_equal(cop_view_create_static(COP_MEMBERS_MAX, &shape, 1, &view), 0);
    assert_int_equal(cop_view_size(view), COP_MEMBERS_MAX);
    cop_view_unref(view);
}

/* The last reference frees it, and the table of its shape. */
static void test_references(void **state)
{
    (void)state;
    size_t before = failing_alloc_live();
    struct cop_shape leaders = radix(), shape;
    const uint32_t hosts[] = {0, 0, 1, 1, 2};
    struct cop_view *view;
    assert_int_equal(cop_shape_from_hosts(&leaders, hosts, 5, &shape), 0);
    assert_int_equal(cop_view_create_static(4, &shape, 1, &view), COP_EINVAL);
    assert_int_equal(cop_view_create_static(5, &shape, 1, &view), 0);
    cop_shape_unref(&shape); /* the view has its own */
    assert_ptr_equal(cop_view_ref(view), view);
    cop_view_unref(view);
    assert_int_equal(cop_view_size(view), 5);
    assert_ptr_equal(cop_view_shape(view)->table, shape.table);
    cop_view_unref(view);
    cop_view_unref(NULL);
    assert_int_equal(failing_alloc_live(), before);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    struct cop_shape shape = radix();
    struct cop_view *view = NULL;
    failing_alloc_after(0);
    int error = cop_view_create_static(4, &shape, 1, &view);
    failing_alloc_off();
    assert_int_equal(error, COP_ENOMEM);
    assert_null(view);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_static),        cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_impossible),    cmocka_unit_test(test_references),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
