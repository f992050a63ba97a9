/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <coppice/buf.h>

#include "failing_alloc.h"

#include <string.h>

static void create_gives_room_and_one_reference(void **state)
{
    (void)state;
    size_t live = failing_alloc_live();
    const size_t lengths[] = {0, 1, 7, 8, 4096, 1000003};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct cop_buf *buf = cop_buf_create(lengths[i]);
        assert_non_null(buf);
        assert_int_equal(buf->refs, 1);
        assert_int_equal(buf->length, lengths[i]);
        memset(buf->data, 0xa5, lengths[i]);
        cop_buf_unref(buf);
    }
    assert_int_equal(failing_alloc_live(), live);
}

static void copy_holds_the_same_bytes(void **state)
{
    (void)state;
    uint8_t bytes[257];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 7);
    for (size_t length = 0; length <= sizeof(bytes); length++) {
        struct cop_buf *buf = cop_buf_copy(bytes, length);
        assert_non_null(buf);
        assert_int_equal(buf->length, length);
        assert_memory_equal(buf->data, bytes, length);
        cop_buf_unref(buf);
    }
}

static void nothing_may_be_copied_from_null(void **state)
{
    (void)state;
    struct cop_buf *buf = cop_buf_copy(NULL, 0);
    assert_non_null(buf);
    assert_int_equal(buf->length, 0);
    cop_buf_unref(buf);
}

static void only_the_last_reference_frees(void **state)
{
    (void)state;
    size_t live = failing_alloc_live();
    struct cop_buf *buf = cop_buf_copy("abc", 3);
    for (int i = 0; i < 100; i++)
        assert_ptr_equal(cop_buf_ref(buf), buf);
    assert_int_equal(buf->refs, 101);
    for (int i = 0; i < 100; i++)
        cop_buf_unref(buf);
    assert_memory_equal(buf->data, "abc", 3);
    assert_int_equal(failing_alloc_live(), live + 1);
    cop_buf_unref(buf);
    assert_int_equal(failing_alloc_live(), live);
}

static void null_is_ignored(void **state)
{
    (void)state;
    assert_null(cop_buf_ref(NULL));
    cop_buf_unref(NULL);
}

static void too_long_is_refused_without_asking_for_memory(void **state)
{
    (void)state;
    failing_alloc_after(0);
    assert_null(cop_buf_create(SIZE_MAX));
    assert_null(cop_buf_create(SIZE_MAX - sizeof(struct cop_buf) + 1));
#if SIZE_MAX > UINT32_MAX
    assert_null(cop_buf_create((size_t)UINT32_MAX + 1));
#endif
    assert_false(failing_alloc_hit());
    failing_alloc_off();
}

static void no_memory_gives_null(void **state)
{
    (void)state;
    size_t live = failing_alloc_live();
    failing_alloc_after(0);
    struct cop_buf *created = cop_buf_create(10);
    struct cop_buf *copied = cop_buf_copy("abc", 3);
    failing_alloc_off();
    assert_null(created);
    assert_null(copied);
    assert_true(failing_alloc_hit());
    assert_int_equal(failing_alloc_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create_gives_room_and_one_reference),
        cmocka_unit_test(copy_holds_the_same_bytes),
        cmocka_unit_test(nothing_may_be_copied_from_null),
        cmocka_unit_test(only_the_last_reference_frees),
        cmocka_unit_test(null_is_ignored),
        cmocka_unit_test(too_long_is_refused_without_asking_for_memory),
        cmocka_unit_test(no_memory_gives_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
