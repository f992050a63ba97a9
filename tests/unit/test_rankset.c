/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"
#include "base/rankset.h"
#include "failing_alloc.h"

#include <coppice/error.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these first */
#include <cmocka.h>

#define LIMIT 40u

static void assert_is(const struct cop_ranks *set, const bool *expected)
{
    uint32_t count = 0;
    for (cop_rank rank = 0; rank < LIMIT; rank++) {
        assert_int_equal(cop__rankset_has(set, rank), expected[rank]);
        if (expected[rank])
            assert_int_equal(set->items[count++],
                             rank); /* sorted, without repetition */
    }
    assert_int_equal(set->count, count);
}

static void test_against_an_array(void **state)
{
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 5);
    struct cop_ranks set = {0};
    bool expected[LIMIT] = {false};
    for (int round = 0; round < 5000; round++) {
        cop_rank rank = (cop_rank)cop__random_below(&random, LIMIT);
        bool put = cop__random_chance(&random, 1, 2);
        if (put)
            assert_int_equal(cop__rankset_put(&set, rank), 0);
        else
            cop__rankset_drop(&set, rank);
        expected[rank] = put;
        assert_is(&set, expected);
    }
    cop_ranks_free(&set);
}

static void test_ends(void **state)
{
    (void)state;
    struct cop_ranks set = {0};
    assert_false(cop__rankset_has(&set, 0));
    cop__rankset_drop(&set, 0);
    assert_int_equal(cop__rankset_put(&set, UINT32_MAX), 0);
    assert_int_equal(cop__rankset_put(&set, 0), 0);
    assert_int_equal(cop__rankset_put(&set, UINT32_MAX), 0);
    assert_int_equal(set.count, 2);
    assert_true(cop__rankset_has(&set, 0));
    assert_true(cop__rankset_has(&set, UINT32_MAX));
    assert_false(cop__rankset_has(&set, 1));
    cop__rankset_drop(&set, UINT32_MAX);
    assert_int_equal(set.count, 1);
    cop_ranks_free(&set);
}

static void test_out_of_memory_changes_nothing(void **state)
{
    (void)state;
    struct cop_ranks set = {0};
    bool expected[LIMIT] = {false};
    uint32_t failures = 0;
    for (cop_rank rank = LIMIT; rank-- > 0;) {
        failing_alloc_after(0);
        int error = cop__rankset_put(&set, rank);
        failing_alloc_off();
        if (error) {
            failures++;
            assert_int_equal(error, COP_ENOMEM);
            assert_is(&set, expected);
            assert_int_equal(cop__rankset_put(&set, rank), 0);
        }
        expected[rank] = true;
        assert_is(&set, expected);
    }
    assert_true(failures > 0);
    cop_ranks_free(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_an_array),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_out_of_memory_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
