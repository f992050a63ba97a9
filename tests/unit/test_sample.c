/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "number/sample.h"

#define EPSILON 1e-9

static void median_of_odd_and_even(void **state)
{
    (void)state;
    double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2}, one[] = {7};
    assert_float_equal(summarize(odd, 3).median, 2, EPSILON);
    assert_float_equal(summarize(even, 4).median, 2.5, EPSILON);
    assert_float_equal(summarize(one, 1).median, 7, EPSILON);
    uint64_t times[] = {9, 1, 5, 3};
    assert_float_equal(median_time(times, 4), 4, EPSILON);
    uint64_t few[] = {2, 9, 1};
    assert_float_equal(median_time(few, 3), 2, EPSILON);
}

/* Table of the sign test: the least and the largest of 7 hold the median in 98.4 %. */
static void few_values_give_all_there_is(void **state)
{
    (void)state;
    double values[] = {7, 6, 5, 4, 3, 2, 1};
    struct summary summary = summarize(values, 7);
    assert_float_equal(summary.low, 1, EPSILON);
    assert_float_equal(summary.high, 7, EPSILON);
    assert_float_equal(summary.confidence, 1 - 2.0 / 128, EPSILON);
    double one[] = {5};
    assert_float_equal(summarize(one, 1).confidence, 0, EPSILON);
}

static void narrowest_interval_of_99_percent(void **state)
{
    (void)state;
    double values[50];
    for (uint32_t i = 0; i < 50; i++)
        values[i] = 50 - i;
    /* Tables give the 16th and the 35th of 50 for 99 %. */
    struct summary summary = summarize(values, 50);
    assert_float_equal(summary.low, 16, EPSILON);
    assert_float_equal(summary.high, 35, EPSILON);
    assert_true(summary.confidence >= 0.99);
    /* 8 is the first count that reaches it at all. */
    summary = summarize(values, 8);
    assert_true(summary.confidence >= 0.99);
    assert_float_equal(summary.low, values[0], EPSILON);
    assert_float_equal(summary.high, values[7], EPSILON);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(median_of_odd_and_even),
        cmocka_unit_test(few_values_give_all_there_is),
        cmocka_unit_test(narrowest_interval_of_99_percent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
