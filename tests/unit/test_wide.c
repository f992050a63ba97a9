/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"
#include "filter/wide.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

/* Wide integers and exact sums, against what the compiler and the processor make of them. */

__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 i128;

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t draw(struct cop__random *random)
{
    uint64_t word = cop__random_next(random);
    return cop__random_chance(random, 1, 3) ? word >> cop__random_below(random, 64)
                                            : word;
}

static void test_integers_of_128_bits(void **state)
{
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 1);
    for (int i = 0; i < 20000; i++) {
        uint64_t a[2] = {draw(&random), draw(&random)};
        uint64_t b[2] = {draw(&random), draw(&random)}, c[2], product[2];
        u128 x = (u128)a[1] << 64 | a[0], y = (u128)b[1] << 64 | b[0];
        memcpy(c, a, sizeof c);
        cop__wide_add(c, b, 2);
        assert_true(((u128)c[1] << 64 | c[0]) == x + y);
        cop__wide_subtract(c, b, 2);
        assert_memory_equal(c, a, sizeof a);
        cop__wide_negate(c, 2);
        assert_true(((u128)c[1] << 64 | c[0]) == 0 - x);
        assert_int_equal(cop__wide_is_negative(a, 2), (i128)x < 0);
        cop__wide_multiply(product, a, 1, b, 1);
        assert_true(((u128)product[1] << 64 | product[0]) == (u128)a[0] * b[0]);
        if (a[0] && b[0] <= a[0])
            assert_true(cop__wide_scale(a[1], b[0], a[0]) ==
                        (uint64_t)((u128)a[1] * b[0] / a[0]));
    }
}

/* Quotients of 64-bit numbers in long double have 11 bits more than a double: rounding
 * them again is right unless they lie next to the middle, where they are left out. */
static void test_ratios_are_rounded_to_the_nearest(void **state)
{
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 2);
    for (int i = 0; i < 20000; i++) {
        uint64_t a = draw(&random), b = draw(&random) | 1;
        uint64_t numerator[2] = {a, 0};
        double result = double_of(cop__wide_ratio(numerator, 2, &b, 1));
        if (a < UINT64_C(1) << 53 && b < UINT64_C(1) << 53) {
            /* Both are doubles, so that the processor's division is the nearest. */
            assert_true(result == (double)a / (double)b);
            cop__wide_negate(numerator, 2);
            assert_true(double_of(cop__wide_ratio(numerator, 2, &b, 1)) == -result);
        } else if (b == 1) {
            assert_true(result == (double)a);
        }
    }
}

/* What was added is the same in every order, and exact where the processor's is. */
static void test_sums_of_doubles_are_exact(void **state)
{
    (void)state;
    struct cop__exact sum = {0}, one;
    static const double values[] = {1e308, 1e308, 1.0, -1e308, 0x1p-1074, -1e308, -1.0};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        cop__exact_from(&one, bits_of(values[i]));
        cop__exact_add(&sum, &one);
    }
    assert_true(double_of(cop__exact_round(&sum)) == 0x1p-1074);
    struct cop__random random;
    cop__random_init(&random, 3);
    for (int i = 0; i < 20000; i++) {
        uint64_t word = cop__random_next(&random);
        if ((word >> 52 & 0x7ff) == 0x7ff)
            continue;
        double x = double_of(word),
               y = double_of(word ^ cop__random_next(&random) >> 16);
        struct cop__exact a, b;
        cop__exact_from(&a, bits_of(x));
        assert_true(cop__exact_round(&a) == (x == 0 ? 0 : bits_of(x)));
        cop__exact_from(&b, bits_of(y));
        cop__exact_add(&a, &b);
        assert_true(double_of(cop__exact_round(&a)) == x + y);
        cop__exact_subtract(&a, &b);
        assert_true(double_of(cop__exact_round(&a)) == x);
        assert_true(double_of(cop__exact_mean(&a, 3)) == x / 3);
    }
}

static void test_what_is_not_finite(void **state)
{
    (void)state;
    struct cop__exact plus, minus, sum = {0};
    const uint64_t infinite = UINT64_C(0x7ff) << 52;
    cop__exact_from(&plus, infinite);
    cop__exact_from(&minus, infinite | UINT64_C(1) << 63);
    cop__exact_add(&sum, &plus);
    assert_true(cop__exact_round(&sum) == infinite);
    assert_true(cop__exact_mean(&sum, 2) == infinite);
    cop__exact_add(&sum, &minus);
    assert_true((cop__exact_round(&sum) & infinite) == infinite);
    assert_true(cop__exact_round(&sum) << 12 != 0);
    cop__exact_subtract(&sum, &plus);
    assert_true(cop__exact_round(&sum) == (infinite | UINT64_C(1) << 63));
    /* More than a double can say is infinite. */
    cop__exact_from(&sum, infinite - 1);
    cop__exact_from(&plus, infinite - 1);
    cop__exact_add(&sum, &plus);
    assert_true(cop__exact_round(&sum) == infinite);
    cop__exact_subtract(&sum, &plus);
    assert_true(cop__exact_round(&sum) == infinite - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers_of_128_bits),
        cmocka_unit_test(test_ratios_are_rounded_to_the_nearest),
        cmocka_unit_test(test_sums_of_doubles_are_exact),
        cmocka_unit_test(test_what_is_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
