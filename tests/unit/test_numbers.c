/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "number/numbers.h"

#include <coppice/error.h>

static void assert_numbers(const char *text, uint32_t count, const uint32_t *items)
{
    static struct numbers got;
    assert_int_equal(parse_numbers(text, 1, 1u << 24, 100, &got), 0);
    assert_int_equal(got.count, count);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(got.items[i], items[i]);
}

static void lists_and_ranges(void **state)
{
    (void)state;
    assert_numbers("7", 1, (const uint32_t[]){7});
    assert_numbers("64,256,3", 3, (const uint32_t[]){64, 256, 3});
    assert_numbers("5-8", 4, (const uint32_t[]){5, 6, 7, 8});
    assert_numbers("9-9", 1, (const uint32_t[]){9});
    assert_numbers("2-40x2", 5, (const uint32_t[]){2, 4, 8, 16, 32});
    assert_numbers("1-9x3,10,12-13", 6, (const uint32_t[]){1, 3, 9, 10, 12, 13});
    assert_numbers("2-16777216x18446744073709551615", 1, (const uint32_t[]){2});
}

static void mistakes_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",      ",",   "1,",       ",1",    "1,,2",       "-1",
        "1-",    "-",   "8-5",      "x",     "2-8x",       "2-8x1",
        "2-8x0", "2x2", " 1",       "1 ",    "0x9",        "1.5",
        "0",     "0-5", "16777217", "1-101", "1-16777217", "99999999999999999999999",
    };
    static struct numbers got;
    got.count = 4711;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(parse_numbers(wrong[i], 1, 1u << 24, 100, &got), COP_EINVAL);
    assert_int_equal(got.count, 4711);
    assert_int_equal(parse_numbers("1-100", 1, 1u << 24, 100, &got), 0);
    assert_int_equal(parse_numbers("1,2,3", 1, 9, 2, &got), COP_EINVAL);
    assert_int_equal(parse_numbers("1-5000", 1, 9999, 9999, &got), COP_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_and_ranges),
        cmocka_unit_test(mistakes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
