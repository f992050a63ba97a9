/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/name.h"

#include <coppice/error.h>
#include <string.h>

#define NAME_63 "a23456789012345678901234567890123456789012345678901234567890123"

static void names_that_can_be(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "n0", "0a", "db-1.example_x:2", NAME_63};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(cop__name_check(good[i], NULL, 0), 0);
}

static void names_that_cannot_be(void **state)
{
    (void)state;
    static const char *const bad[] = {"",    "0",     "12",       "a b", "n[0-3]",
                                      "x,y", "!x",    "@g",       "a/b", "\xc3\xbc",
                                      "a\n", "\033a", NAME_63 "4"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char message[200] = "";
        assert_int_equal(cop__name_check(bad[i], message, sizeof message), COP_EINVAL);
        assert_non_null(strstr(message, "cannot be a name: " COP__MEMBER_NAME_RULE));
        assert_int_equal(cop__name_check(bad[i], NULL, 0), COP_EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_can_be),
        cmocka_unit_test(names_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
