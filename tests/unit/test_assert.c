/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <coppice/buf.h>

#include "base/assert.h"
#include "base/bitmap.h"
#include "base/histogram.h"
#include "base/log2fix.h"
#include "base/map.h"
#include "base/random.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs something that must fail an assertion in a child, and keeps what it says. */
static void run_and_read(void (*mistake)(void), char *said, size_t size)
{
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        mistake();
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t got; (got = read(ends[0], said + length, size - 1 - length)) > 0;)
        length += (size_t)got;
    said[length] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void plain_mistake(void)
{
    volatile int members = 3;
    COP_ASSERT(members == 4);
}

static void failure_names_condition_and_place(void **state)
{
    (void)state;
    char said[1000];
    run_and_read(plain_mistake, said, sizeof(said));
    assert_non_null(strstr(said, "coppice: "));
    assert_non_null(strstr(said, "test_assert.c:"));
    assert_non_null(strstr(said, "assertion failed: members == 4"));
}

static void truth_passes_and_is_evaluated_once(void **state)
{
    (void)state;
    int count = 0;
    COP_ASSERT(++count == 1);
    assert_int_equal(count, 1);
}

/* ---- mistakes of callers that this layer must not survive
 * ----------------------------- */

static struct cop__random zero_random;

static void random_below_nothing(void) { cop__random_below(&zero_random, 0); }

static void chance_of_nothing(void) { cop__random_chance(&zero_random, 1, 0); }

static void logarithm_of_zero(void) { cop__log2_fixed(0); }

static void ceiling_of_zero(void) { cop__log2_ceil(0); }

static void bucket_beyond_the_last(void)
{
    cop__histogram_floor(COP__HISTOGRAM_BUCKETS);
}

static void map_with_null(void)
{
    struct cop__map map;
    cop__map_init(&map);
    cop__map_put(&map, 1, NULL, NULL);
}

static void bitmap_with_rank_outside(void)
{
    const cop_rank rank = 10;
    cop__bitmap_unref(cop__bitmap_create(10, &rank, 1));
}

static void below_rank_outside(void)
{
    cop__bitmap_below(cop__bitmap_create(10, NULL, 0), 11);
}

static void reference_of_a_dead_buffer(void)
{
    struct cop_buf buf = {.refs = 0};
    cop_buf_ref(&buf);
}

static void too_many_unrefs(void)
{
    struct cop_buf buf = {.refs = 0};
    cop_buf_unref(&buf);
}

static void mistakes_of_callers_end_the_process(void **state)
{
    (void)state;
    void (*const mistakes[])(void) = {
        random_below_nothing,     chance_of_nothing,      logarithm_of_zero,
        ceiling_of_zero,          bucket_beyond_the_last, map_with_null,
        bitmap_with_rank_outside, below_rank_outside,     reference_of_a_dead_buffer,
        too_many_unrefs,
    };
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        char said[1000];
        run_and_read(mistakes[i], said, sizeof(said));
        assert_non_null(strstr(said, "assertion failed: "));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failure_names_condition_and_place),
        cmocka_unit_test(truth_passes_and_is_evaluated_once),
        cmocka_unit_test(mistakes_of_callers_end_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
