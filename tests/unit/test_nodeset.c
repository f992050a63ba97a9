/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "names/nodeset.h"

#include <coppice/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads, folds and compares; `count` names. */
static void assert_folds(const char *text, const struct nodeset *all, uint32_t count,
                         const char *folded)
{
    struct nodeset set = {0};
    char message[200] = "";
    int error = nodeset_parse(text, all, &set, message, sizeof message);
    if (error)
        fail_msg("%s: %s", text, message);
    assert_int_equal(set.count, count);
    char *back = nodeset_fold(&set);
    assert_non_null(back);
    assert_string_equal(back, folded);
    free(back);
    nodeset_free(&set);
}

static void folds_and_expands(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t count;
        const char *folded;
    } cases[] = {
        {"n0", 1, "n0"},
        {"n[0-3,7],n12", 6, "n[0-3,7,12]"},
        {"n12 n7 n[0-3]", 6, "n[0-3,7,12]"},
        {"n[3,1,2]", 3, "n[1-3]"},
        {"n1,n1,n[1-1]", 1, "n1"},
        {"n[001-100]", 100, "n[001-100]"},
        {"n[098-101]", 4, "n[098-101]"},
        {"n[98-101]", 4, "n[98-101]"},
        {"n1,n01,n001", 3, "n[1,01,001]"},
        {"n[8-10],n[08-09]", 5, "n[8,08,9,09-10]"},
        {"n[0-10/5]", 3, "n[0,5,10]"},
        {"n[0-11/5]", 3, "n[0,5,10]"},
        {"r[1-2]n[0-3]", 8, "r1n[0-3],r2n[0-3]"},
        {"n[0-1]-ib,n[0-1]", 4, "n[0-1],n[0-1]-ib"},
        {"[0-3]", 4, "[0-3]"},
        {"7", 1, "7"},
        {"login,db2", 2, "db2,login"},
        {"n[0-9],!n7", 9, "n[0-6,8-9]"},
        {"n[0-9]!n7", 9, "n[0-6,8-9]"},
        {"n[0-9],!n[2-8],n5", 4, "n[0-1,5,9]"},
        {"n0,!n0", 0, ""},
        {"n0,!n5", 1, "n0"},
        {"n1234567890123", 1, "n1234567890123"},
        {"n[999999998-999999999]", 2, "n[999999998-999999999]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_folds(cases[i].text, NULL, cases[i].count, cases[i].folded);
}

static void exclusion_begins_with_all(void **state)
{
    (void)state;
    struct nodeset all = {0};
    assert_int_equal(nodeset_parse("n[0-9]", NULL, &all, NULL, 0), 0);
    assert_folds("!n7", &all, 9, "n[0-6,8-9]");
    assert_folds("!n[0-9]", &all, 0, "");
    assert_folds("!n[1-9],n5", &all, 2, "n[0,5]");
    nodeset_free(&all);
}

static void nonsense_is_refused_with_a_sentence(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"", "a name is missing (column 1)"},
        {"n1,", "a name is missing (column 4)"},
        {"n1,,n2", "a name is missing (column 4)"},
        {"!", "there is nothing that '!' could take away from"},
        {"n[", "the bracket of column 2 is not closed"},
        {"n[]", "a number is missing in the brackets (column 3)"},
        {"n[1-]", "a number is missing in the brackets (column 5)"},
        {"n[1,]", "a number is missing in the brackets (column 5)"},
        {"n[3-1]", "the range 3-1 is backwards"},
        {"n[1-2x]", "'x' is not allowed in brackets (column 6)"},
        {"n[1-9/0]", "a step must be at least 1 (column 8)"},
        {"n[01-002]", "both ends of a range need the same padding (column 9)"},
        {"n[1-02]", "both ends of a range need the same padding (column 7)"},
        {"n[1234567890]", "a number may have at most 9 digits (column 12)"},
        {"n1]", "']' cannot be part of a name (column 3)"},
        {"n/1", "'/' cannot be part of a name (column 2)"},
        {"@all", "groups (@...) are not known here (column 1)"},
        {"n[0-65536]", "more than 65536 names"},
        {"n[0-999999999]", "more than 65536 names"},
        {"n[0-999][0-999]", "more than 65536 names"},
        {"a1234567890123456789012345678901234567890123456789012345678901234",
         "a name may have at most 63 bytes"},
        {"a12345678901234567890123456789012345678901234567890123456789012[1]",
         "a name may have at most 63 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct nodeset set = {0};
        char message[200] = "";
        int error = nodeset_parse(cases[i].text, NULL, &set, message, sizeof message);
        assert_int_equal(error, COP_EINVAL);
        assert_string_equal(message, cases[i].message);
        assert_null(set.names);
    }
}

static void names_can_be_added_and_found(void **state)
{
    (void)state;
    struct nodeset set = {0};
    static const char *const names[] = {"n10", "n9", "x", "n010", "n9"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(nodeset_add(&set, names[i]), 0);
    assert_int_equal(set.count, 4);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_true(nodeset_has(&set, names[i]));
    assert_false(nodeset_has(&set, "n1"));
    assert_false(nodeset_has(&set, "n09"));
    assert_int_equal(nodeset_add(&set, ""), COP_EINVAL);
    assert_int_equal(nodeset_add(&set, "a b"), COP_EINVAL);
    assert_int_equal(set.count, 4);
    nodeset_free(&set);
}

static void ids_fold_like_names(void **state)
{
    (void)state;
    static const struct {
        uint32_t ids[6];
        uint32_t count;
        const char *folded;
    } cases[] = {
        {{0}, 0, ""},          {{5}, 1, "n5"},
        {{5, 6}, 2, "n[5-6]"}, {{0, 1, 2, 7, 12, 13}, 6, "n[0-2,7,12-13]"},
        {{3, 5}, 2, "n[3,5]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *folded = nodeset_fold_ids("n", cases[i].ids, cases[i].count);
        assert_non_null(folded);
        assert_string_equal(folded, cases[i].folded);
        free(folded);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folds_and_expands),
        cmocka_unit_test(exclusion_begins_with_all),
        cmocka_unit_test(nonsense_is_refused_with_a_sentence),
        cmocka_unit_test(names_can_be_added_and_found),
        cmocka_unit_test(ids_fold_like_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
