/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log2fix.h"
#include "base/random.h"

#define ONE (INT64_C(1) << 32)
/* The promise is 2^-30; the last digit is 2^-32. */
#define ERROR_MAX (ONE >> 30)

/* log2(x) * 2^32 rounded down, computed with 60 decimal digits. */
static const struct {
    uint64_t x;
    int64_t log2;
} exact[] = {
    {UINT64_C(3), INT64_C(6807362105)},
    {UINT64_C(5), INT64_C(9972605231)},
    {UINT64_C(6), INT64_C(11102329401)},
    {UINT64_C(7), INT64_C(12057497578)},
    {UINT64_C(9), INT64_C(13614724211)},
    {UINT64_C(10), INT64_C(14267572527)},
    {UINT64_C(11), INT64_C(14858145664)},
    {UINT64_C(13), INT64_C(15893267570)},
    {UINT64_C(97), INT64_C(28346409813)},
    {UINT64_C(100), INT64_C(28535145054)},
    {UINT64_C(127), INT64_C(30016172171)},
    {UINT64_C(129), INT64_C(30112991766)},
    {UINT64_C(255), INT64_C(34335486563)},
    {UINT64_C(257), INT64_C(34383895622)},
    {UINT64_C(1000), INT64_C(42802717581)},
    {UINT64_C(4095), INT64_C(51538094591)},
    {UINT64_C(4097), INT64_C(51541120142)},
    {UINT64_C(65535), INT64_C(68719382186)},
    {UINT64_C(65537), INT64_C(68719571283)},
    {UINT64_C(1000000), INT64_C(85605435163)},
    {UINT64_C(1000003), INT64_C(85605453752)},
    {UINT64_C(16777215), INT64_C(103079214734)},
    {UINT64_C(16777217), INT64_C(103079215473)},
    {UINT64_C(2147483647), INT64_C(133143986173)},
    {UINT64_C(2147483649), INT64_C(133143986178)},
    {UINT64_C(4294967295), INT64_C(137438953470)},
    {UINT64_C(4294967297), INT64_C(137438953473)},
    {UINT64_C(3141592653589793238), INT64_C(263909427355)},
    {UINT64_C(2718281828459045235), INT64_C(263012633508)},
    {UINT64_C(10000000000), INT64_C(142675725272)},
    {UINT64_C(1000000000000), INT64_C(171210870326)},
    {UINT64_C(1000000000000000), INT64_C(214013587908)},
    {UINT64_C(1000000000000000000), INT64_C(256816305489)},
    {UINT64_C(4503599627370497), INT64_C(223338299392)},
    {UINT64_C(9007199254740991), INT64_C(227633266687)},
    {UINT64_C(4611686018427387905), INT64_C(266287972352)},
    {UINT64_C(9223372036854775807), INT64_C(270582939647)},
    {UINT64_C(9223372036854775809), INT64_C(270582939648)},
    {UINT64_C(11400714819323198485), INT64_C(271896160629)},
    {UINT64_C(18446744073709551614), INT64_C(274877906943)},
    {UINT64_C(18446744073709551615), INT64_C(274877906943)},
};

static int64_t distance(int64_t a, int64_t b) { return a < b ? b - a : a - b; }

static void powers_of_two_are_exact(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 64; i++) {
        assert_int_equal(cop__log2_fixed(UINT64_C(1) << i), i * ONE);
        assert_int_equal(cop__log2_floor(UINT64_C(1) << i), i);
        assert_int_equal(cop__log2_ceil(UINT64_C(1) << i), i);
    }
}

/* The true value lies in [log2, log2 + 1) of the table, so equal is right to the digit.
 */
static void values_are_as_in_the_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(exact) / sizeof(exact[0]); i++)
        assert_true(distance(cop__log2_fixed(exact[i].x), exact[i].log2) <= 1);
}

static void never_falls(void **state)
{
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 2);
    for (uint64_t x = 1; x < 50000; x++)
        assert_true(cop__log2_fixed(x) < cop__log2_fixed(x + 1));
    for (int i = 0; i < 50000; i++) {
        uint64_t x = (cop__random_next(&random) >> cop__random_below(&random, 63)) | 1;
        uint64_t more = cop__random_next(&random) >> cop__random_below(&random, 63);
        uint64_t y = more > UINT64_MAX - x ? UINT64_MAX : x + more;
        assert_true(cop__log2_fixed(x) <= cop__log2_fixed(y));
        assert_true(x == UINT64_MAX || cop__log2_fixed(x) <= cop__log2_fixed(x + 1));
    }
}

/* log2(a * b) = log2(a) + log2(b), which no table can miss by luck. */
static void product_is_sum(void **state)
{
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 3);
    for (int i = 0; i < 50000; i++) {
        uint64_t a = 1 + cop__random_below(&random, UINT32_MAX);
        uint64_t b = 1 + cop__random_below(&random, UINT32_MAX);
        int64_t sum = cop__log2_fixed(a) + cop__log2_fixed(b);
        assert_true(distance(cop__log2_fixed(a * b), sum) <= ERROR_MAX);
    }
}

static void check_whole(uint64_t x)
{
    uint32_t floor = cop__log2_floor(x);
    uint32_t ceil = cop__log2_ceil(x);
    assert_true(x >> floor == 1);
    assert_int_equal(ceil, floor + ((x & (x - 1)) != 0));
    assert_int_equal(cop__log2_fixed(x) / ONE, floor);
}

static void floor_and_ceiling_enclose(void **state)
{
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 4);
    for (uint64_t x = 1; x < 5000; x++)
        check_whole(x);
    for (int i = 0; i < 20000; i++)
        check_whole((cop__random_next(&random) | 1) >> cop__random_below(&random, 2));
    for (uint32_t i = 1; i < 64; i++) {
        check_whole((UINT64_C(1) << i) - 1);
        check_whole((UINT64_C(1) << i) + 1);
    }
    check_whole(UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(powers_of_two_are_exact),
        cmocka_unit_test(values_are_as_in_the_table),
        cmocka_unit_test(never_falls),
        cmocka_unit_test(product_is_sum),
        cmocka_unit_test(floor_and_ceiling_enclose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
