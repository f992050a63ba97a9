/* SPDX-License-Identifier: Apache-2.0 */
/* Filters for the packets of the front-end: what they make of them, and what is contained. */
#include "failing_alloc.h"
#include "filter/filter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

/* What a filter makes of text at the last of so many places. */
static int send_down(const char *name, const char *type, const char *params,
                     struct cop_place place, const char *text, struct cop_buf **out)
{
    const struct cop_filter *filter = cop_filter_find(name);
    struct cop_packet packet = {
        type, place.leaf, 1, {(const uint8_t *)text, (uint32_t)strlen(text)}};
    struct cop_buf *ready;
    int error = cop_filter_ready(filter, type, params, &ready);
    if (error)
        return error;
    error = cop_filter_down(filter, ready, &place, &packet, out);
    cop_buf_unref(ready);
    return error;
}

static void expect_down(const char *name, const char *params, struct cop_place place,
                        const char *text, const char *expected)
{
    struct cop_buf *out = NULL;
    int error = send_down(name, "bytes", params, place, text, &out);
    assert_int_equal(error, expected ? 0 : COP_ENOENT);
    if (!expected)
        return;
    assert_int_equal(out->length, strlen(expected));
    assert_memory_equal(out->data, expected, out->length);
    cop_buf_unref(out);
}

static struct cop_place place_of(uint32_t index, uint32_t count)
{
    return (struct cop_place){.id = 10 + index,
                              .leaf = 10 + index,
                              .level = 2,
                              .depth = 2,
                              .index = index,
                              .count = count};
}

static void test_scatter(void **state)
{
    (void)state;
    static const char *const slices[] = {"a", "bc", "de", "fg"};
    for (uint32_t i = 0; i < 4; i++)
        expect_down("scatter", "", place_of(i, 4), "abcdefg", slices[i]);
    expect_down("scatter", "", place_of(4, 4), "abcdefg", NULL);
    expect_down("scatter", "", place_of(0, 3), "ab", ""); /* not enough for all */
    struct cop_place above = place_of(1, 4);
    above.level = 1;
    expect_down("scatter", "", above, "abcdefg", "abcdefg");
    /* Of numbers whole ones. */
    struct cop_buf *out;
    assert_int_equal(send_down("scatter", "u64[]", "", place_of(1, 2),
                               "0123456789abcdefABCDEFGH", &out),
                     0);
    assert_int_equal(out->length, 16);
    assert_memory_equal(out->data, "89abcdefABCDEFGH", 16);
    cop_buf_unref(out);
    assert_int_equal(send_down("scatter", "u64[]", "", place_of(1, 2), "short", &out),
                     COP_EINVAL);
    assert_int_equal(send_down("scatter", "u64[3]", "", place_of(1, 2), "", &out),
                     COP_EINVAL);
    assert_int_equal(send_down("scatter", "text", "", place_of(1, 2), "", &out),
                     COP_EINVAL);
    assert_int_equal(send_down("scatter", "bytes", "x=1", place_of(1, 2), "", &out),
                     COP_EINVAL);
}

static void test_select(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "to=",       "to=x",   "to=01", "to=4294967295", "to=18446744073709551617",
        "to=3-1",    "to=1+",  "to=1-", "to=1,",         "of=1",
        "to=1,to=2", "to=1-2x"};
    struct cop_buf *out;
    for (uint32_t i = 0; i < 12; i++)
        expect_down("select", "to=10-12+17", place_of(i, 4), "x",
                    i <= 2 || i == 7 ? "x" : NULL);
    expect_down("select", "", place_of(5, 4), "x", "x");
    for (uint32_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(
            send_down("select", "text", wrong[i], place_of(0, 4), "x", &out),
            COP_EINVAL);
}

static void test_path(void **state)
{
    (void)state;
    expect_down("path", "", place_of(3, 4), "x/0", "x/0/13");
}

/* What goes up does not go down, nor the reverse. */
static void test_directions(void **state)
{
    (void)state;
    const struct cop_filter *down = cop_filter_find("path");
    const struct cop_filter *up = cop_filter_find("sum");
    struct cop_place place = place_of(0, 1);
    struct cop_packet packet = {"bytes", 0, 1, {(const uint8_t *)"x", 1}};
    struct cop_buf *out = NULL, *ready, *empty;
    const char *why;
    assert_int_equal(cop_filter_init(down, "text", "", &out), COP_EINVAL);
    assert_int_equal(cop_filter_ready(up, "u64", "", &out), COP_EINVAL);
    assert_int_equal(cop_filter_ready(down, "text", "", &ready), 0);
    assert_int_equal(cop_filter_init(up, "u64", "", &empty), 0);
    assert_int_equal(cop_filter_lift(down, ready, &packet, &out), COP_EINVAL);
    assert_int_equal(cop_filter_join(down, ready, ready, &out), COP_EINVAL);
    assert_int_equal(cop_filter_diff(down, ready, ready, &out), COP_EINVAL);
    assert_int_equal(cop_filter_check(down, ready, packet.data), COP_EINVAL);
    assert_int_equal(cop_filter_result(down, "text", ready, &out), COP_EINVAL);
    assert_int_equal(cop_filter_down(up, empty, &place, &packet, &out), COP_EINVAL);
    assert_int_equal(cop_levels_valid("bytes", "path@1,count", &why), COP_EINVAL);
    assert_non_null(strstr(why, "down"));
    assert_null(out);
    cop_buf_unref(ready);
    cop_buf_unref(empty);
}

/* A filter of somebody else, with a mind of its own. */
static enum manner {
    HONEST,
    ODD_CODE,
    ENDLESS,
    OTHER_TYPE,
    SHORT,
    SHORT_IN_SECRET
} manner;

static int own_init(const char *type, const char *params, struct cop_filter_out *out)
{
    (void)type, (void)params;
    return cop_filter_put(out, "s", 1);
}

static int own_down(struct cop_span ready, const struct cop_place *place,
                    const struct cop_packet *packet, struct cop_filter_out *out)
{
    (void)ready, (void)place;
    while (manner == ENDLESS && out->error == 0)
        cop_filter_put(out, "12345678", 8);
    if (manner == ODD_CODE)
        return 17;
    if (manner == SHORT)
        return COP_ENOMEM;
    int error = cop_filter_put(out, packet->data.bytes, manner == OTHER_TYPE ? 7 : 8);
    return manner == SHORT_IN_SECRET ? COP_EINVAL : error;
}

static const struct cop_filter own_filter = {.abi = COP_FILTER_ABI,
                                             .flags = COP_FILTER_DOWN,
                                             .name = "own",
                                             .about = "mine",
                                             .state = "own/1",
                                             .inputs = "u64",
                                             .init = own_init,
                                             .down = own_down};

/* Who has no memory: the filter, which may say so for reasons of its own, or the library, whatever
 * the filter says then. */
static void test_whose_memory_it_is(void **state)
{
    (void)state;
    struct cop_filter own = own_filter;
    static const struct {
        enum manner manner;
        int plain, without;
    } cases[] = {{HONEST, 0, COP_ENOMEM},
                 {SHORT, COP_ENOMEM, COP_ENOMEM},
                 {SHORT_IN_SECRET, COP_EINVAL, COP_ENOMEM}};
    struct cop_place place = place_of(0, 1);
    struct cop_packet packet = {"u64", 0, 1, {(const uint8_t *)"12345678", 8}};
    struct cop_buf *ready, *out;
    bool is_short;
    manner = HONEST;
    assert_int_equal(cop__filter_ready(&own, "u64", "", &is_short, &ready), 0);
    assert_false(is_short);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        manner = cases[i].manner;
        out = NULL;
        assert_int_equal(
            cop__filter_down(&own, ready, &place, &packet, &is_short, &out),
            cases[i].plain);
        assert_false(is_short);
        cop_buf_unref(out);
        failing_alloc_after(0);
        int error = cop__filter_down(&own, ready, &place, &packet, &is_short, &out);
        failing_alloc_off();
        assert_int_equal(error, cases[i].without);
        assert_int_equal(is_short, manner != SHORT); /* that one asked for none */
    }
    manner = HONEST;
    cop_buf_unref(ready);
}

static void test_a_filter_down_that_lies_is_contained(void **state)
{
    (void)state;
    struct cop_filter own = own_filter;
    struct cop_place place = place_of(0, 1);
    struct cop_packet packet = {"u64", 0, 1, {(const uint8_t *)"12345678", 8}};
    struct cop_buf *ready, *out = NULL;
    assert_int_equal(cop_filter_valid(&own, NULL), 0);
    assert_int_equal(cop_filter_ready(&own, "u64", "", &ready), 0);
    assert_int_equal(cop_filter_down(&own, ready, &place, &packet, &out), 0);
    cop_buf_unref(out);
    manner = ODD_CODE;
    assert_int_equal(cop_filter_down(&own, ready, &place, &packet, &out), COP_EBUG);
    manner = OTHER_TYPE;
    assert_int_equal(cop_filter_down(&own, ready, &place, &packet, &out), COP_EBUG);
    manner = ENDLESS;
    assert_int_equal(cop_filter_down(&own, ready, &place, &packet, &out), COP_ETOOBIG);
    manner = HONEST;
    packet.data.length = 7;
    assert_int_equal(cop_filter_down(&own, ready, &place, &packet, &out), COP_EINVAL);
    cop_buf_unref(ready);
    own.down = NULL;
    assert_int_equal(cop_filter_valid(&own, NULL), COP_EINVAL);
    /* A table as it was before there were such has nothing behind `sample`. */
    const struct cop_filter *sum = cop_filter_find("sum");
    struct cop_filter *old = malloc(offsetof(struct cop_filter, down));
    assert_non_null(old);
    memcpy(old, sum, offsetof(struct cop_filter, down));
    assert_int_equal(cop_filter_valid(old, NULL), 0);
    free(old);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scatter),
        cmocka_unit_test(test_select),
        cmocka_unit_test(test_path),
        cmocka_unit_test(test_directions),
        cmocka_unit_test(test_a_filter_down_that_lies_is_contained),
        cmocka_unit_test(test_whose_memory_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
