/* SPDX-License-Identifier: Apache-2.0 */
#include "term/say.h"
#include "top/host_fold.h"

#include <coppice/error.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

/* Samples of hosts: as lines, as they are taken, and many as one. */

#define HOSTS 64u

static void fill(struct host_sample *samples, uint64_t value)
{
    memset(samples, 0, HOSTS * sizeof *samples);
    for (uint32_t i = 0; i < HOSTS; i++)
        samples[i].value[COP__HOST_CPU] = value;
}

static int summarize(const struct host_sample *samples, struct host_summary *out)
{
    struct cop_buf *none, *all;
    assert_int_equal(host_fold(samples, HOSTS, &all), 0);
    struct cop_span span = {all->data, all->length};
    int error = host_summarize(span, COP__HOST_CPU, out);
    uint64_t count;
    assert_int_equal(host_count(span, &count), 0);
    assert_int_equal(count, HOSTS);
    assert_int_equal(host_fold(samples, 0, &none), 0);
    assert_int_equal(host_count((struct cop_span){none->data, none->length}, &count),
                     0);
    assert_int_equal(count, 0);
    cop_buf_unref(none);
    cop_buf_unref(all);
    return error;
}

static void test_equal_hosts_have_no_outliers(void **state)
{
    (void)state;
    struct host_sample samples[HOSTS];
    struct host_summary summary;
    for (uint64_t value = 0; value <= 1000; value += 97) {
        fill(samples, value);
        assert_int_equal(summarize(samples, &summary), 0);
        assert_int_equal(summary.least, value);
        assert_int_equal(summary.most, value);
        assert_true(summary.mean == (double)value);
        assert_int_equal(summary.outliers, 0);
        assert_int_equal(summary.buckets, 10);
        assert_int_equal(summary.bucket[value >= 900 ? 9 : value / 100], HOSTS);
    }
}

static void test_who_lies_far_away_is_named(void **state)
{
    (void)state;
    struct host_sample samples[HOSTS];
    struct host_summary summary;
    fill(samples, 500);
    for (uint32_t i = 0; i < HOSTS; i++)
        samples[i].value[COP__HOST_CPU] += i % 5;
    samples[17].value[COP__HOST_CPU] = 990;
    samples[40].value[COP__HOST_CPU] = 3;
    assert_int_equal(summarize(samples, &summary), 0);
    assert_int_equal(summary.outliers, 2);
    assert_int_equal(summary.outlier[0].host, 17);
    assert_int_equal(summary.outlier[0].value, 990);
    assert_int_equal(summary.outlier[1].host, 40);
    assert_int_equal(summary.outlier[1].value, 3);
    assert_int_equal(summary.least, 3);
    assert_int_equal(summary.most, 990);
    assert_true(summary.median >= 498 && summary.median <= 506);
    assert_int_equal(summary.bucket[0] + summary.bucket[5] + summary.bucket[9], HOSTS);
}

static void test_lines_and_back(void **state)
{
    (void)state;
    struct host_sample sample = {"a", "boot:1:2", {1, 2, 3, UINT64_C(1) << 40, 5}},
                       read;
    char line[HOST_LINE_MAX], framed[HOST_LINE_MAX + 16];
    host_sample_print(&sample, line);
    assert_int_equal(host_sample_parse(line, &read), 0);
    assert_memory_equal(&sample, &read, sizeof read);
    snprintf(framed, sizeof framed, "n3: %s\r\n", line);
    assert_int_equal(host_sample_parse(framed, &read), 0);
    assert_memory_equal(&sample, &read, sizeof read);
    assert_int_equal(host_sample_parse("hello", &read), COP_ENOENT);
    static const char *const wrong[] = {
        "coppice-host-1 ",
        "coppice-host-1 host=a key=b load=1 cpu=2 memory=3 receive=4",
        "coppice-host-1 host=a key=b load=x cpu=2 memory=3 receive=4 send=5",
        "coppice-host-1 host= key=b load=1 cpu=2 memory=3 receive=4 send=5",
        "coppice-host-1 host=a key=b load=1 cpu=2 memory=3 receive=4 send",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(host_sample_parse(wrong[i], &read), COP_EMALFORMED);
}

static void test_this_host(void **state)
{
    (void)state;
    struct host_sample first, second;
    assert_int_equal(host_sample_take(COP_MSEC, &first), 0);
    assert_int_equal(host_sample_take(COP_MSEC, &second), 0);
    assert_string_equal(first.key, second.key);
    assert_true(strlen(first.key) > 36);
    assert_true(first.value[COP__HOST_MEMORY] > 0 &&
                first.value[COP__HOST_MEMORY] <= 1000);
    assert_true(first.value[COP__HOST_CPU] <= 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_hosts_have_no_outliers),
        cmocka_unit_test(test_who_lies_far_away_is_named),
        cmocka_unit_test(test_lines_and_back),
        cmocka_unit_test(test_this_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
