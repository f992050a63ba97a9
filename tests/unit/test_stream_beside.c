/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

/* T9: a value that is said by how it differs from the sum in the same frame. */

static struct cop_buf *copy(const char *text)
{
    struct cop_buf *buf = cop_buf_copy(text, strlen(text));
    assert_non_null(buf);
    return buf;
}

static int read_back(const struct cop_buf *sum, const uint8_t *said, uint32_t length,
                     struct cop__pending *out)
{
    /* In a piece of memory of its own, so that who reads behind it is seen. */
    uint8_t *bytes = malloc(length + 1);
    assert_non_null(bytes);
    memcpy(bytes + 1, said, length);
    *out = (struct cop__pending){.wave = 9};
    int error = cop__beside_read((struct cop_span){sum->data, sum->length},
                                 (struct cop__bytes){bytes + 1, length}, out);
    free(bytes);
    return error;
}

/* How many bytes it took. */
static uint32_t said_in(const char *of_sum, const char *of_value)
{
    struct cop_buf *sum = copy(of_sum), *value = copy(of_value);
    uint8_t *room = malloc(COP__BESIDE_HEAD + value->length);
    struct cop__pending pending;
    assert_non_null(room);
    uint32_t length = cop__beside_write(sum, value, room);
    assert_int_equal(read_back(sum, room, length, &pending), 0);
    assert_int_equal(pending.state->length, sum->length);
    assert_memory_equal(pending.state->data, sum->data, sum->length);
    assert_int_equal(cop__beside(&pending).length, value->length);
    assert_memory_equal(cop__beside(&pending).bytes, value->data, value->length);
    cop_buf_unref(pending.state);
    cop_buf_unref(sum);
    cop_buf_unref(value);
    free(room);
    return length - COP__BESIDE_HEAD;
}

static void test_what_is_alike_is_not_said(void **state)
{
    (void)state;
    assert_int_equal(said_in("abcdefghijklmnopq", "abcdefghijklmnopq"), 0);
    assert_int_equal(said_in("headAAAAAAAAAAAAAAAAtail", "headBtail"), 1);
    assert_int_equal(said_in("headBtail", "headAAAAAAAAAAAAAAAAtail"), 16);
    assert_int_equal(said_in("aaaa", "aaaaaaaa"), 4); /* not the same ones twice */
    assert_int_equal(said_in("aaaaaaaa", "aaaa"), 0);
    assert_int_equal(said_in("", "new"), 3);
    assert_int_equal(said_in("old", ""), 0);
    assert_int_equal(said_in("012345678", "0123456x8"), 1);
    assert_int_equal(said_in("x12345678", "y12345678"), 1);
}

/* No more than a byte can say. */
static void test_long_ones(void **state)
{
    (void)state;
    char a[1001], b[1001];
    memset(a, 'a', 1000);
    a[1000] = '\0';
    memcpy(b, a, sizeof b);
    assert_int_equal(said_in(a, b), 1000 - 255 - 255);
    b[500] = 'b';
    assert_int_equal(said_in(a, b), 1000 - 255 - 255);
}

static void test_every_length(void **state)
{
    (void)state;
    char a[40], b[40];
    for (size_t length = 0; length < 30; length++)
        for (size_t other = 0; other < 30; other++)
            for (size_t at = 0; at < other; at++) {
                memset(a, 'a', length);
                memset(b, 'a', other);
                a[length] = b[other] = '\0';
                b[at] = 'b';
                assert_true(said_in(a, b) >= 1);
            }
}

static void test_what_makes_no_sense(void **state)
{
    (void)state;
    struct cop_buf *sum = copy("sum");
    struct cop__pending pending;
    static const uint8_t much[] = {2, 2}, good[] = {1, 2};
    assert_int_equal(read_back(sum, good, 0, &pending), COP_EMALFORMED);
    assert_int_equal(read_back(sum, good, 1, &pending), COP_EMALFORMED);
    assert_int_equal(read_back(sum, much, 2, &pending), COP_EMALFORMED);
    assert_null(pending.state);
    assert_int_equal(read_back(sum, good, 2, &pending), 0);
    cop_buf_unref(pending.state);
    cop_buf_unref(sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_alike_is_not_said),
        cmocka_unit_test(test_long_ones),
        cmocka_unit_test(test_every_length),
        cmocka_unit_test(test_what_makes_no_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
