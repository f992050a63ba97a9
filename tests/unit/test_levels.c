/* SPDX-License-Identifier: Apache-2.0 */
/* Filters by level: what is understood, who is in which group, and that closing is not seen. */
#include "failing_alloc.h"
#include "filter/levels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

static void test_what_is_understood(void **state)
{
    (void)state;
    static const struct {
        const char *type, *params, *why;
    } rows[] = {
        {"u64", "sum@1,max", ""},
        {"text", "", ""},
        {"u64", "max@3,top(k=2)@1,distinct", ""},
        {"u64", "sum@1,max over 1:2:7", ""},
        {"u64", "sum", "at least two stages"},
        {"u64", "sum@1", "at least two stages"},
        {"u64", "sum,max", "says at which level"},
        {"u64", "max@1,max@1,max", "does not end above"},
        {"u64", "max@1,max@2,max", "does not end above"},
        {"u64", "sum@0,max", "from 1 on"},
        {"u64", "sum@01,max", "from 1 on"},
        {"u64", "sum@1,variance", "does not take what the one before it gives"},
        {"text", "sum@1,max", "does not take such packets"},
        {"u64", "sum@1,levels", "not a filter of the library"},
        {"u64", "sum@1,nosuch", "not a filter of the library"},
        {"u64", "max@1,top(k=0)", "not for it"},
        {"u64", "max@1,top(k=1", "without an end"},
        {"u64", "max@1,top()", "empty"},
        {"u64", "max@4,max@3,max@2,max@1,max", "too many"},
        {"u64", "sum@1,max ", "behind the last stage"},
        {"u64", "sum@1,max over 1:2", "no such tree"},
        {"u64", "sum@1,max over 7:2:4", "no such tree"},
        {"u64", "sum@1,max over 1:2:0", "no such tree"},
        {"u64", "sum@1,max over 1:2:7 ", "no such tree"},
    };
    for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *why = NULL;
        int error = cop_levels_valid(rows[i].type, rows[i].params, &why);
        assert_int_equal(error, rows[i].why[0] ? COP_EINVAL : 0);
        if (!strstr(why, rows[i].why))
            fail_msg("%s: %s", rows[i].params, why);
        assert_int_equal(cop_levels_valid(rows[i].type, rows[i].params, NULL), error);
    }
    assert_true(cop__filter_is_cumulative(&cop__filter_levels, "u64", "sum@1,concat"));
    assert_false(
        cop__filter_is_cumulative(&cop__filter_levels, "u64", "concat@1,count"));
}

static struct cop_buf *begin(const char *params)
{
    struct cop_buf *empty;
    assert_int_equal(cop_filter_init(&cop__filter_levels, "u64", params, &empty), 0);
    return empty;
}

static void add(struct cop_buf **state, const struct cop_buf *empty, cop_id leaf,
                uint64_t value)
{
    uint8_t bytes[8] = {(uint8_t)value, (uint8_t)(value >> 8)};
    struct cop_packet packet = {"u64", leaf, 1, {bytes, 8}};
    struct cop_buf *lifted, *joined;
    assert_int_equal(cop_filter_lift(&cop__filter_levels, empty, &packet, &lifted), 0);
    assert_int_equal(cop_filter_join(&cop__filter_levels, *state, lifted, &joined), 0);
    cop_buf_unref(lifted);
    cop_buf_unref(*state);
    *state = joined;
}

/* Everybody up to `count` gives 1, 8, 15, and so on. */
static struct cop_buf *all_of(const struct cop_buf *empty, uint32_t count)
{
    struct cop_buf *state = cop_buf_copy(empty->data, empty->length);
    for (cop_id id = 0; id < count; id++)
        add(&state, empty, id, 1 + 7 * id);
    return state;
}

static uint64_t result_of(const struct cop_buf *state)
{
    struct cop_buf *result;
    assert_int_equal(cop_filter_result(&cop__filter_levels, "u64", state, &result), 0);
    assert_true(result->length >= 8);
    uint64_t value = cop_filter_get_u64(result->data);
    cop_buf_unref(result);
    return value;
}

/* kary:2 of 7: 0 | 1 2 | 3 4 5 6; values 1 8 15 22 29 36 43. */
static void test_groups(void **state)
{
    (void)state;
    static const struct {
        const char *params;
        uint64_t value;
    } rows[] = {
        {"sum@1,max over 1:2:7", 15 + 36 + 43},
        {"sum@1,min over 1:2:7", 1},
        {"sum@2,max over 1:2:7", 43},
        {"max@1,sum over 1:2:7", 1 + 29 + 43},
        {"count@1,max over 1:2:7", 3},
        {"sum@2,max@1,min over 1:2:7", 1},
        {"max@2,min@1,sum over 1:2:7", 1 + 8 + 15},
        {"sum@1,max over 5:0:7", 8 + 15 + 22 + 29 + 36 + 43}, /* a chain */
        {"sum@1,max over 1:2:6", 8 + 22 + 29},                /* 6 came later */
        {"sum@1,max", 43},                                    /* no plan */
    };
    for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct cop_buf *empty = begin(rows[i].params), *all = all_of(empty, 7);
        assert_int_equal(result_of(all), rows[i].value);
        cop_buf_unref(all);
        cop_buf_unref(empty);
    }
}

/* Values above 2^64, and of either sign. */
static void test_sums_are_compared_whole(void **state)
{
    (void)state;
    struct cop_buf *max, *min, *joined, *lifted[2];
    const uint8_t small[16] = {5}, large[16] = {[8] = 1};
    uint8_t negative[16];
    memset(negative, 255, sizeof negative);
    const struct cop_filter *of[] = {cop_filter_find("max"), cop_filter_find("min")};
    assert_int_equal(cop_filter_init(of[0], "i128", "", &max), 0);
    assert_int_equal(cop_filter_init(of[1], "i128", "", &min), 0);
    for (int i = 0; i < 2; i++) {
        struct cop_packet a = {"i128", 0, 0, {small, 16}};
        struct cop_packet b = {"i128", 0, 0, {i ? negative : large, 16}};
        assert_int_equal(cop_filter_lift(of[i], i ? min : max, &a, &lifted[0]), 0);
        assert_int_equal(cop_filter_lift(of[i], i ? min : max, &b, &lifted[1]), 0);
        assert_int_equal(cop_filter_join(of[i], lifted[0], lifted[1], &joined), 0);
        assert_ptr_equal(joined, lifted[1]);
        cop_buf_unref(joined);
        cop_buf_unref(lifted[0]);
        cop_buf_unref(lifted[1]);
    }
    cop_buf_unref(max);
    cop_buf_unref(min);
}

/* Those of which the bit is set. */
static bool may(void *context, uint32_t level, cop_id group)
{
    (void)level;
    return *(uint32_t *)context >> group & 1;
}

static void test_closing_is_not_seen(void **state)
{
    (void)state;
    struct cop_buf *empty = begin("sum@2,max@1,min over 1:2:7"),
                   *all = all_of(empty, 7);
    struct cop_buf *closed, *whole;
    assert_int_equal(cop__levels_close(all, NULL, NULL, &whole), 0);
    for (uint32_t which = 0; which < 128; which++) {
        struct cop_buf *again;
        assert_int_equal(cop__levels_close(all, may, &which, &closed), 0);
        assert_int_equal(
            cop_filter_check(&cop__filter_levels, empty,
                             (struct cop_span){closed->data, closed->length}),
            0);
        assert_true((which == 0) ==
                    (closed->length == all->length &&
                     memcmp(closed->data, all->data, all->length) == 0));
        assert_int_equal(cop__levels_close(closed, NULL, NULL, &again), 0);
        assert_int_equal(again->length, whole->length);
        assert_memory_equal(again->data, whole->data, whole->length);
        cop_buf_unref(again);
        cop_buf_unref(closed);
    }
    assert_int_equal(result_of(whole), result_of(all));
    cop_buf_unref(whole);
    cop_buf_unref(all);
    cop_buf_unref(empty);
}

/* A stage may not take what the one before it said: then nothing is closed. */
static void test_what_a_stage_does_not_take(void **state)
{
    (void)state;
    const uint8_t nan[8] = {[6] = 0xf8, [7] = 0x7f};
    struct cop_packet packet = {"f64", 0, 0, {nan, 8}};
    struct cop_buf *empty, *lifted, *closed = NULL;
    assert_int_equal(
        cop_filter_init(&cop__filter_levels, "f64", "sum@1,max over 1:2:7", &empty), 0);
    assert_int_equal(cop_filter_lift(&cop__filter_levels, empty, &packet, &lifted), 0);
    assert_int_equal(cop__levels_close(lifted, NULL, NULL, &closed), COP_EINVAL);
    assert_null(closed);
    cop_buf_unref(lifted);
    cop_buf_unref(empty);
}

static void test_memory(void **state)
{
    (void)state;
    struct cop_buf *empty = begin("sum@2,max@1,min over 1:2:7"),
                   *all = all_of(empty, 7);
    for (size_t n = 0;; n++) {
        struct cop_buf *closed = NULL;
        size_t live = failing_alloc_live();
        failing_alloc_after(n);
        int error = cop__levels_close(all, NULL, NULL, &closed);
        failing_alloc_off();
        if (!failing_alloc_hit()) {
            cop_buf_unref(closed);
            break;
        }
        assert_int_equal(error, COP_ENOMEM);
        assert_int_equal(failing_alloc_live(), live);
    }
    cop_buf_unref(all);
    cop_buf_unref(empty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_understood),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_sums_are_compared_whole),
        cmocka_unit_test(test_closing_is_not_seen),
        cmocka_unit_test(test_what_a_stage_does_not_take),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
