/* SPDX-License-Identifier: Apache-2.0 */
/* Every built-in filter keeps the laws, for every type; filters that break one are caught. */
#include "brief.h"
#include "failing_alloc.h"
#include "filter/filter.h"
#include "filter/laws.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

#define RUNS (brief() ? 20 : 60)

/* Some that go down do not take arrays of a length that is in their type. */
static bool is_ready(const struct cop_filter *filter, const char *type)
{
    struct cop_buf *ready;
    if (!(filter->flags & COP_FILTER_DOWN))
        return true;
    if (cop_filter_ready(filter, type, "", &ready) != 0)
        return false;
    cop_buf_unref(ready);
    return true;
}

static void try_type(const struct cop_filter *filter, const char *type, uint64_t runs)
{
    struct cop__law_report report;
    const char *params[] = {"", filter->params ? filter->params : ""};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cop__laws_try(filter, type, params[i], 1, runs, NULL, &report),
                         0);
        if (report.broken)
            print_error("%s of %s: %s, error %d, %u packets\n", filter->name, type,
                        cop__law_name(report.broken), report.error,
                        report.smallest.count);
        assert_int_equal(report.broken, COP__LAW_NONE);
        assert_int_equal(report.runs, runs);
        /* Laws that are tried on nothing are not kept, but not broken either. */
        assert_true(report.skipped < runs * COP__LAW_PACKETS / 4);
    }
}

static void test_built_in_filters_keep_the_laws(void **state)
{
    (void)state;
    static const char *const types[] = {"u64",    "i64",   "f64",    "u64[]",
                                        "i64[]",  "f64[]", "u64[3]", "i64[2]",
                                        "i64[3]", "i128",  "text",   "bytes"};
    char room[COP_FILTER_NAME_MAX + 1];
    const struct cop_filter *filter;
    for (uint32_t i = 0; (filter = cop_filter_at(i)); i++) {
        const char *why = NULL;
        assert_int_equal(cop_filter_valid(filter, &why), 0);
        assert_ptr_equal(cop_filter_find(filter->name), filter);
        uint32_t tried = 0;
        for (uint32_t j = 0; j < sizeof types / sizeof *types; j++) {
            if (!cop_filter_output(filter, types[j], room) ||
                !is_ready(filter, types[j]))
                continue;
            try_type(filter, types[j], RUNS);
            tried++;
        }
        assert_true(tried > 0);
    }
}

/* ---- filters that are wrong ------------------------------------------------------ */

/* A sum in one word, and what is wrong with it. */
enum fault {
    RIGHT,
    KEEPS_THE_FIRST,     /* order */
    SUBTRACTS,           /* order too */
    AVERAGES,            /* grouping */
    SAYS_IDEMPOTENT,     /* repetition */
    DIFFERENCE_IS_NOW,   /* difference */
    FAILS_SOMETIMES,     /* join returns an error */
    RESULT_IS_SHORT,     /* result */
    REMEMBERS,           /* purity */
    WRITES_TO_ITS_INPUT, /* purity */
    GROWS,               /* growth */
    STATE_IS_NONE,       /* state */
    REFUSES_ITS_OWN_INIT,
};
static enum fault fault;
static uint64_t memory;

static int bad_init(const char *type, const char *params, struct cop_filter_out *out)
{
    (void)type, (void)params;
    return cop_filter_put_u64(out, 0);
}

static int bad_lift(struct cop_span empty, const struct cop_packet *packet,
                    struct cop_filter_out *out)
{
    (void)empty;
    uint64_t value = cop_filter_get_u64(packet->data.bytes);
    cop_filter_put_u64(out, fault == STATE_IS_NONE && value == 7 ? UINT64_MAX : value);
    return fault == GROWS ? cop_filter_put_u64(out, 0) : out->error;
}

static uint64_t bad_sum(uint64_t x, uint64_t y)
{
    switch (fault) {
    case KEEPS_THE_FIRST:
        return x ? x : y;
    case SUBTRACTS:
        return y ? x - y : x;
    case AVERAGES:
        return x && y ? x / 2 + y / 2 : x + y;
    case REMEMBERS:
        memory += x == 3;
        return x + y + (memory > 1 && x && y);
    default:
        return x + y;
    }
}

static int bad_join(struct cop_span a, struct cop_span b, struct cop_filter_out *out)
{
    uint64_t x = cop_filter_get_u64(a.bytes), y = cop_filter_get_u64(b.bytes);
    if (fault == FAILS_SOMETIMES && x == 5 && y)
        return COP_EMALFORMED;
    if (fault == WRITES_TO_ITS_INPUT && x && y && x != y) {
        cop_filter_put_u64(out, x + y);
        uint8_t *inside;
        memcpy(&inside, &b.bytes, sizeof inside);
        inside[0] ^= 1;
        return out->error;
    }
    cop_filter_put_u64(out, bad_sum(x, y));
    if (fault == GROWS) {
        cop_filter_put(out, a.bytes + 8, a.length - 8);
        cop_filter_put(out, b.bytes + 8, b.length - 8);
    }
    return out->error;
}

static int bad_diff(struct cop_span now, struct cop_span old,
                    struct cop_filter_out *out)
{
    uint64_t x = cop_filter_get_u64(now.bytes), y = cop_filter_get_u64(old.bytes);
    cop_filter_put_u64(out, fault == DIFFERENCE_IS_NOW ? x : x - y);
    for (uint32_t i = old.length; fault == GROWS && i < now.length; i += 8)
        cop_filter_put_u64(out, 0);
    return out->error;
}

static int bad_check(struct cop_span state)
{
    if (fault == REFUSES_ITS_OWN_INIT)
        return COP_EMALFORMED;
    for (uint32_t i = 8; fault == GROWS && i < state.length; i++)
        if (state.bytes[i] != 0)
            return COP_EMALFORMED;
    if (fault == GROWS)
        return state.length >= 8 ? 0 : COP_EMALFORMED;
    if (fault == STATE_IS_NONE && cop_filter_get_u64(state.bytes) == UINT64_MAX)
        return COP_EMALFORMED;
    return state.length == 8 ? 0 : COP_EMALFORMED;
}

static int bad_result(struct cop_span state, struct cop_filter_out *out)
{
    return cop_filter_put(out, state.bytes, fault == RESULT_IS_SHORT ? 7 : 8);
}

static struct cop_filter bad_filter(enum fault which)
{
    fault = which;
    memory = 0;
    return (struct cop_filter){
        .abi = COP_FILTER_ABI,
        .flags = which == SAYS_IDEMPOTENT ? COP_FILTER_IDEMPOTENT
                 : which == GROWS         ? COP_FILTER_CUMULATIVE
                                          : 0,
        .name = "bad",
        .about = "wrong",
        .state = "bad/1",
        .inputs = "u64",
        .outputs = "u64",
        .init = bad_init,
        .lift = bad_lift,
        .join = bad_join,
        .diff = bad_diff,
        .check = bad_check,
        .result = bad_result,
    };
}

static struct cop__law_report try_bad(enum fault which)
{
    struct cop_filter filter = bad_filter(which);
    struct cop__law_report report;
    assert_int_equal(cop_filter_valid(&filter, NULL), 0);
    assert_int_equal(cop__laws_try(&filter, "u64", "", 1, 2000, NULL, &report), 0);
    return report;
}

static void test_broken_filters_are_caught(void **state)
{
    (void)state;
    assert_int_equal(try_bad(RIGHT).broken, COP__LAW_NONE);
    assert_int_equal(try_bad(KEEPS_THE_FIRST).broken, COP__LAW_ORDER);
    assert_int_equal(try_bad(SUBTRACTS).broken, COP__LAW_EMPTY);
    enum cop__law law = try_bad(AVERAGES).broken;
    assert_true(law == COP__LAW_GROUPING || law == COP__LAW_DIFFERENCE);
    assert_int_equal(try_bad(SAYS_IDEMPOTENT).broken, COP__LAW_REPETITION);
    assert_int_equal(try_bad(DIFFERENCE_IS_NOW).broken, COP__LAW_DIFFERENCE);
    assert_int_equal(try_bad(RESULT_IS_SHORT).broken, COP__LAW_RESULT);
    assert_int_equal(try_bad(GROWS).broken, COP__LAW_GROWTH);
    assert_int_equal(try_bad(STATE_IS_NONE).broken, COP__LAW_STATE);
    assert_int_equal(try_bad(REFUSES_ITS_OWN_INIT).broken, COP__LAW_INIT);
    assert_int_not_equal(try_bad(REMEMBERS).broken, COP__LAW_NONE);
    assert_int_not_equal(try_bad(WRITES_TO_ITS_INPUT).broken, COP__LAW_NONE);
    struct cop__law_report report = try_bad(FAILS_SOMETIMES);
    assert_int_not_equal(report.broken, COP__LAW_NONE);
    assert_int_equal(report.error, COP_EMALFORMED);
}

static void test_cases_are_made_small(void **state)
{
    (void)state;
    struct cop__law_report report = try_bad(SAYS_IDEMPOTENT);
    /* One packet, other than 0, is enough: a + a is not a. */
    assert_int_equal(report.smallest.count, 1);
    assert_int_equal(report.smallest.packets[0].group, 0);
    assert_int_equal(report.smallest.packets[0].leaf, 0);
    assert_int_equal(report.smallest.packets[0].count, 1);
    report = try_bad(AVERAGES);
    assert_true(report.smallest.count <= 3);
    report = try_bad(KEEPS_THE_FIRST);
    assert_int_equal(report.smallest.count, 2);
}

/* A check that takes a second form of the same state. */
static int loose_check(struct cop_span state)
{
    return state.length >= 8 && state.length <= 9 ? 0 : COP_EMALFORMED;
}

static int loose_init(const char *type, const char *params, struct cop_filter_out *out)
{
    (void)type, (void)params;
    cop_filter_put_u64(out, 0);
    return cop_filter_put(out, "", 1);
}

static int loose_lift(struct cop_span empty, const struct cop_packet *packet,
                      struct cop_filter_out *out)
{
    (void)empty;
    cop_filter_put(out, packet->data.bytes, 8);
    return cop_filter_put(out, "", 1);
}

static int loose_join(struct cop_span a, struct cop_span b, struct cop_filter_out *out)
{
    cop_filter_put_u64(out, cop_filter_get_u64(a.bytes) + cop_filter_get_u64(b.bytes));
    return cop_filter_put(out, "", 1);
}

static int loose_diff(struct cop_span now, struct cop_span old,
                      struct cop_filter_out *out)
{
    cop_filter_put_u64(out,
                       cop_filter_get_u64(now.bytes) - cop_filter_get_u64(old.bytes));
    return cop_filter_put(out, "", 1);
}

static void test_a_second_encoding_is_caught(void **state)
{
    (void)state;
    struct cop_filter filter = bad_filter(RIGHT);
    struct cop__law_report report;
    filter.init = loose_init;
    filter.lift = loose_lift;
    filter.join = loose_join;
    filter.diff = loose_diff;
    filter.check = loose_check;
    assert_int_equal(cop__laws_try(&filter, "u64", "", 1, 2000, NULL, &report), 0);
    assert_int_equal(report.broken, COP__LAW_ENCODING);
}

/* ---- memory ---------------------------------------------------------------------- */

static void test_no_memory_is_said(void **state)
{
    (void)state;
    const struct cop_filter *filter;
    for (uint32_t i = 0; (filter = cop_filter_at(i)); i++) {
        char type[COP_FILTER_NAME_MAX + 1];
        size_t length = strcspn(filter->inputs, " ");
        memcpy(type, filter->inputs, length);
        type[length] = '\0';
        const char *used = strcmp(type, "any") == 0 ? "bytes" : type;
        struct cop__law_report report;
        size_t live = failing_alloc_live();
        int error = COP_ENOMEM;
        for (size_t n = 0; error; n++) {
            assert_true(n < 20000);
            failing_alloc_after(n);
            error = cop__laws_try(filter, used, "", 3, 1, NULL, &report);
            failing_alloc_off();
            assert_int_equal(error, failing_alloc_hit() ? COP_ENOMEM : 0);
            assert_int_equal(failing_alloc_live(), live);
        }
        assert_int_equal(report.broken, COP__LAW_NONE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_built_in_filters_keep_the_laws),
        cmocka_unit_test(test_broken_filters_are_caught),
        cmocka_unit_test(test_cases_are_made_small),
        cmocka_unit_test(test_a_second_encoding_is_caught),
        cmocka_unit_test(test_no_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
