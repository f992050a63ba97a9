/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_alloc.h"
#include "number/latencies.h"

#include <coppice/error.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* cmocka compares floats; times need more digits. */
static void assert_ns(double got, double wanted)
{
    assert_true(fabs(got - wanted) < 1e-3);
}

static int read_text(const char *text, struct latencies *out, char message[128])
{
    FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    assert_non_null(in);
    message[0] = '\0';
    int error = latencies_read(in, out, message, 128);
    fclose(in);
    return error;
}

static void patterns(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "", "pair", "tree", "tree:", "tree:1", "tree:x", "tree:65", "tree:+2"};
    char text[PATTERN_SIZE];
    uint32_t fan_out = 0;
    assert_int_equal(pattern_parse("pairs", &fan_out), 0);
    assert_string_equal(pattern_print(fan_out, text), "pairs");
    assert_int_equal(pattern_parse("tree:64", &fan_out), 0);
    assert_string_equal(pattern_print(fan_out, text), "tree:64");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(pattern_parse(wrong[i], &fan_out), COP_EINVAL);
    assert_int_equal(fan_out, 64);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    static const struct latency_row rows[] = {
        {.fan_out = 4, .n = 5, .ns = {50000, 49000, 52000, 0.99}},
        {.fan_out = 1, .n = 4, .ns = {21000, 20000, 22000, 0.99}},
        {.fan_out = 1, .n = 2, .ns = {20000, 19000, 21000, 0.99}},
    };
    char *text = NULL, message[128];
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    latencies_write(out, rows, 3);
    assert_int_equal(fclose(out), 0);
    struct latencies latencies;
    assert_int_equal(read_text(text, &latencies, message), 0);
    assert_int_equal(latencies.count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(latencies.rows[i].fan_out, rows[2 - i].fan_out);
        assert_int_equal(latencies.rows[i].n, rows[2 - i].n);
        assert_ns(latencies.rows[i].ns.median, rows[2 - i].ns.median);
    }
    latencies_free(&latencies);
    free(text);
}

#define HEAD "pattern,n,latency_ns\n"
#define TEN "0123456789"
#define FIFTY TEN TEN TEN TEN TEN
#define LONG FIFTY FIFTY FIFTY FIFTY FIFTY TEN

static void mistakes_have_a_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"\n", "there are no rows"},
        {HEAD, "there are no rows"},
        {"# nothing\npairs,2,1000\n", "line 2: the columns"},
        {"pattern,n,latency_nsx\n", "line 1: the columns"},
        {HEAD "pairs,2\n", "line 2: expected a row"},
        {HEAD "pairs,2,\n", "line 2: expected a row"},
        {HEAD "pairs,2,0\n", "line 2: expected a row"},
        {HEAD "pairs,2,inf\n", "line 2: expected a row"},
        {HEAD "pairs,2,1.2.3\n", "line 2: expected a row"},
        {HEAD "pairs,2,99999999999999999\n", "line 2: expected a row"},
        {HEAD "pairs,2,1us\n", "line 2: expected a row"},
        {HEAD "pairs,1,1000\n", "line 2: expected a row"},
        {HEAD "pairs,16777217,1000\n", "line 2: expected a row"},
        {HEAD "pears,2,1000\n", "line 2: expected a row"},
        {HEAD "pairs,2,1000\n\ntree:2,-3,5\n", "line 4: expected a row"},
        {HEAD "# " LONG "\n", "line 2: it is too long"},
        {HEAD "tree:2,6,5\npairs,2,1\ntree:2,6,7\n", "two rows for tree:2 and n = 6"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct latencies latencies = {.count = 4711};
        char message[128];
        assert_int_equal(read_text(cases[i].text, &latencies, message), COP_EINVAL);
        assert_non_null(strstr(message, cases[i].message));
        assert_int_equal(latencies.count, 4711);
    }
}

static void assert_at(const struct latencies *latencies, uint32_t fan_out, uint32_t n,
                      double ns, uint32_t from, enum latency_origin origin)
{
    struct latency latency = latencies_at(latencies, fan_out, n);
    assert_ns(latency.ns, ns);
    assert_int_equal(latency.fan_out, from);
    assert_int_equal(latency.origin, origin);
}

static void between_and_beyond_the_rows(void **state)
{
    (void)state;
    struct latencies latencies;
    char message[128];
    assert_int_equal(read_text(HEAD "tree:2,12,2000,and,more\r\ntree:2,3,1100\n"
                                    "tree:2,6,1400\n# a remark\ntree:8,9,5000\n"
                                    "tree:16,17,9000\ntree:16,34,8000\n",
                               &latencies, message),
                     0);
    assert_at(&latencies, 2, 6, 1400, 2, LATENCY_MEASURED);
    assert_at(&latencies, 2, 4, 1200, 2, LATENCY_INTERPOLATED);
    assert_at(&latencies, 2, 9, 1700, 2, LATENCY_INTERPOLATED);
    assert_at(&latencies, 2, 2, 1100, 2, LATENCY_HELD);
    assert_at(&latencies, 2, 14, 2200, 2, LATENCY_EXTRAPOLATED);
    assert_at(&latencies, 2, 1000012, 100002000, 2, LATENCY_EXTRAPOLATED);
    /* Other fan-outs: the largest that is not above, or the smallest there is. */
    assert_at(&latencies, 1, 6, 1400, 2, LATENCY_MEASURED);
    assert_at(&latencies, 7, 6, 1400, 2, LATENCY_MEASURED);
    assert_at(&latencies, 8, 9, 5000, 8, LATENCY_MEASURED);
    assert_at(&latencies, 15, 9, 5000, 8, LATENCY_MEASURED);
    assert_at(&latencies, 999, 34, 8000, 16, LATENCY_MEASURED);
    /* One row makes no line, and a line that falls is not followed. */
    assert_at(&latencies, 8, 900, 5000, 8, LATENCY_HELD);
    assert_at(&latencies, 16, 900, 8000, 16, LATENCY_HELD);
    latencies_free(&latencies);
}

static void without_memory(void **state)
{
    (void)state;
    static const char text[] = HEAD "pairs,2,1\npairs,4,2\npairs,6,3\n";
    size_t live = failing_alloc_live(), n = 0;
    for (;; n++) {
        struct latencies latencies = {.count = 0};
        char message[128];
        FILE *in = fmemopen((void *)(uintptr_t)text, sizeof text - 1, "r");
        assert_non_null(in);
        failing_alloc_after(n);
        int error = latencies_read(in, &latencies, message, sizeof message);
        failing_alloc_off();
        fclose(in);
        if (!failing_alloc_hit()) {
            assert_int_equal(error, 0);
            latencies_free(&latencies);
            break;
        }
        assert_int_equal(error, COP_ENOMEM);
        assert_int_equal(failing_alloc_live(), live);
    }
    assert_int_equal(n, 3); /* room for 1, 2 and 4 rows */
    assert_int_equal(failing_alloc_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(mistakes_have_a_line),
        cmocka_unit_test(between_and_beyond_the_rows),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
