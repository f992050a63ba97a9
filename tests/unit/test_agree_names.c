/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/agree.h>
#include <coppice/error.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these first */
#include <cmocka.h>

/* What algorithms and operations are called. */

static void test_names(void **state)
{
    (void)state;
    enum cop_algorithm algorithm;
    for (unsigned i = 0; i < COP_ALGORITHMS; i++) {
        const char *name = cop_algorithm_name((enum cop_algorithm)i);
        assert_int_equal(cop_algorithm_parse(name, &algorithm), 0);
        assert_int_equal(algorithm, i);
    }
    assert_null(cop_algorithm_name((enum cop_algorithm)COP_ALGORITHMS));
    assert_int_equal(cop_algorithm_parse("late", &algorithm), COP_ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
