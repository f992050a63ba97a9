/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <coppice/error.h>

#include <string.h>

struct row {
    int code;
    int value;
    const char *name, *text, *advice;
};
static const struct row rows[] = {
#define ROW(name, value, text, advice) {COP_##name, value, "COP_" #name, text, advice},
    COP_ERRORS(ROW)
#undef ROW
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static void every_code_has_its_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        assert_true(rows[i].code < 0);
        assert_int_equal(rows[i].code, rows[i].value);
        assert_string_equal(cop_error_name(rows[i].code), rows[i].name);
        assert_string_equal(cop_strerror(rows[i].code), rows[i].text);
        assert_string_equal(cop_error_advice(rows[i].code), rows[i].advice);
        assert_true(strlen(rows[i].text) > 0);
        assert_true(strlen(rows[i].advice) > 0);
    }
}

static void codes_names_and_sentences_are_distinct(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(rows[i].code, rows[j].code);
            assert_string_not_equal(rows[i].name, rows[j].name);
            assert_string_not_equal(rows[i].text, rows[j].text);
        }
    }
}

/* Codes are in scripts and on the wire: a code that has been given keeps its number. */
static void codes_keep_their_numbers(void **state)
{
    (void)state;
    assert_int_equal(COP_ENOMEM, -1);
    assert_int_equal(COP_EMALFORMED, -4);
    assert_int_equal(COP_EAGAIN, -8);
    assert_int_equal(COP_EBUG, -17);
}

static void success_and_foreign_codes_have_text(void **state)
{
    (void)state;
    assert_string_equal(cop_error_name(0), "COP_OK");
    assert_string_equal(cop_strerror(0), "success");
    assert_string_equal(cop_error_advice(0), "");
    const int foreign[] = {1, 22, -1000, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        assert_string_equal(cop_error_name(foreign[i]), "unknown");
        assert_string_equal(cop_strerror(foreign[i]), "unknown error");
        assert_string_equal(cop_error_advice(foreign[i]), "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_its_row),
        cmocka_unit_test(codes_names_and_sentences_are_distinct),
        cmocka_unit_test(codes_keep_their_numbers),
        cmocka_unit_test(success_and_foreign_codes_have_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
