/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/histogram.h"
#include "base/random.h"

#include <stdlib.h>

/* Values of all magnitudes: a random number of random bits. */
static uint64_t any_value(struct cop__random *random)
{
    return cop__random_next(random) >> cop__random_below(random, 64);
}

static void buckets_tile_all_values(void **state)
{
    (void)state;
    assert_int_equal(cop__histogram_floor(0), 0);
    for (uint32_t i = 0; i + 1 < COP__HISTOGRAM_BUCKETS; i++) {
        uint64_t floor = cop__histogram_floor(i);
        uint64_t next = cop__histogram_floor(i + 1);
        assert_true(floor < next);
        assert_int_equal(cop__histogram_bucket(floor), i);
        assert_int_equal(cop__histogram_bucket(next - 1), i);
        /* Exact below 16, never wider than a sixteenth after that. */
        assert_true(i < 16 ? next - floor == 1 : next - floor <= floor / 16);
    }
    assert_int_equal(cop__histogram_bucket(UINT64_MAX), COP__HISTOGRAM_BUCKETS - 1);
}

static void empty_one_answers_zero(void **state)
{
    (void)state;
    struct cop__histogram histogram;
    cop__histogram_init(&histogram);
    assert_int_equal(cop__histogram_at(&histogram, 0), 0);
    assert_int_equal(cop__histogram_at(&histogram, 500), 0);
    assert_int_equal(cop__histogram_at(&histogram, 1000), 0);
    assert_int_equal(cop__histogram_mean(&histogram), 0);
}

static int compare_values(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* Never below the true percentile, and at most 1/16 above. */
static void check_percentiles(const struct cop__histogram *histogram,
                              const uint64_t *sorted, uint32_t count)
{
    for (uint32_t permille = 1; permille <= 1000; permille++) {
        uint32_t needed = (count * permille + 999) / 1000;
        uint64_t truth = sorted[needed - 1];
        uint64_t answer = cop__histogram_at(histogram, permille);
        assert_in_range(answer, truth, histogram->max);
        assert_true(answer - truth <= truth / 16);
        if (truth < 16)
            assert_int_equal(answer, truth);
    }
}

static void percentiles_are_close_from_above(void **state)
{
    (void)state;
    static uint64_t values[3000];
    struct cop__random random;
    struct cop__histogram histogram;
    cop__random_init(&random, 16);
    for (uint32_t round = 0; round < 60; round++) {
        uint32_t count = 1 + (uint32_t)cop__random_below(&random, 3000);
        cop__histogram_init(&histogram);
        for (uint32_t i = 0; i < count; i++) {
            values[i] = any_value(&random) >> round;
            cop__histogram_add(&histogram, values[i]);
        }
        qsort(values, count, sizeof(values[0]), compare_values);
        assert_int_equal(histogram.count, count);
        assert_int_equal(histogram.min, values[0]);
        assert_int_equal(histogram.max, values[count - 1]);
        assert_int_equal(cop__histogram_at(&histogram, 0), values[0]);
        assert_int_equal(cop__histogram_at(&histogram, 1000), values[count - 1]);
        assert_int_equal(cop__histogram_at(&histogram, 5000), values[count - 1]);
        check_percentiles(&histogram, values, count);
    }
}

static void mean_is_exact(void **state)
{
    (void)state;
    struct cop__histogram histogram;
    cop__histogram_init(&histogram);
    for (uint64_t value = 1; value <= 1000; value++)
        cop__histogram_add(&histogram, value * 3);
    assert_int_equal(histogram.sum, 3 * 500500);
    assert_int_equal(cop__histogram_mean(&histogram), 1501);
}

static void merge_is_as_adding_all_to_one(void **state)
{
    (void)state;
    struct cop__random random;
    struct cop__histogram parts[3], all, merged;
    cop__random_init(&random, 17);
    cop__histogram_init(&all);
    cop__histogram_init(&merged);
    for (int i = 0; i < 3; i++)
        cop__histogram_init(&parts[i]);
    /* The middle one stays empty: it must not pull the minimum to 0. */
    for (int i = 0; i < 5000; i++) {
        uint64_t value = 100 + (any_value(&random) >> 13);
        cop__histogram_add(&parts[i % 2 * 2], value);
        cop__histogram_add(&all, value);
    }
    for (int i = 0; i < 3; i++)
        cop__histogram_merge(&merged, &parts[i]);
    assert_memory_equal(&merged, &all, sizeof(all));
}

static void counts_saturate(void **state)
{
    (void)state;
    struct cop__histogram histogram, other;
    cop__histogram_init(&histogram);
    cop__histogram_add(&histogram, UINT64_MAX);
    cop__histogram_add(&histogram, UINT64_MAX);
    assert_int_equal(histogram.sum, UINT64_MAX);

    histogram.buckets[3] = UINT32_MAX;
    histogram.count = (uint64_t)UINT32_MAX * 1000;
    cop__histogram_add(&histogram, 3);
    assert_int_equal(histogram.buckets[3], UINT32_MAX);
    other = histogram;
    cop__histogram_merge(&histogram, &other);
    assert_int_equal(histogram.buckets[3], UINT32_MAX);
    /* More than the buckets could count: the answer is still one that was seen. */
    assert_int_equal(cop__histogram_at(&histogram, 999), UINT64_MAX);
}

static void huge_counts_do_not_overflow(void **state)
{
    (void)state;
    struct cop__histogram histogram;
    cop__histogram_init(&histogram);
    cop__histogram_add(&histogram, 1);
    cop__histogram_add(&histogram, 9);
    histogram.count = UINT64_MAX;
    assert_int_equal(cop__histogram_at(&histogram, 999), 9);
    cop__histogram_add(&histogram, 9);
    assert_int_equal(histogram.count, UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_tile_all_values),
        cmocka_unit_test(empty_one_answers_zero),
        cmocka_unit_test(percentiles_are_close_from_above),
        cmocka_unit_test(mean_is_exact),
        cmocka_unit_test(merge_is_as_adding_all_to_one),
        cmocka_unit_test(counts_saturate),
        cmocka_unit_test(huge_counts_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
