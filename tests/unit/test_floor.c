/* SPDX-License-Identifier: Apache-2.0 */
/* The floor runs in every variant, measures what it was asked for, and leaves nobody. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <coppice/error.h>
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "bench/floor.h"

static int count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static void assert_alone(int descriptors)
{
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(count_descriptors(), descriptors);
}

static void every_variant_measures(void **state)
{
    (void)state;
    static const struct {
        uint32_t n, k;
    } trees[] = {{1, 2}, {2, 1}, {5, 1}, {7, 2}, {20, 4}, {9, 16}};
    int descriptors = count_descriptors();
    for (uint32_t i = 0; i < 4 * 6; i++) {
        struct floor_config config = {
            .kind = i % 2 ? FLOOR_EPOLL : FLOOR_BLOCKING,
            .transport = i / 2 % 2 ? FLOOR_TCP : FLOOR_UNIX,
            .n = trees[i / 4].n,
            .k = trees[i / 4].k,
            .bytes = i % 3 ? 150 : FLOOR_BYTES_MAX,
            .repetitions = 20,
            .warm_up = 2,
        };
        struct floor_result result = {0};
        assert_int_equal(floor_run(&config, &result), 0);
        assert_int_equal(result.count, 20);
        for (uint32_t j = 0; config.n > 1 && j < result.count; j++)
            assert_true(result.samples_ns[j] > 0);
        floor_result_free(&result);
        assert_alone(descriptors);
    }
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    static const struct floor_config configs[] = {
        {.n = 0, .k = 2, .bytes = 1, .repetitions = 1},
        {.n = 2, .k = 0, .bytes = 1, .repetitions = 1},
        {.n = 2, .k = 2, .bytes = 0, .repetitions = 1},
        {.n = 2, .k = 2, .bytes = 1, .repetitions = 0},
        {.n = FLOOR_N_MAX + 1, .k = 2, .bytes = 1, .repetitions = 1},
    };
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        struct floor_result result = {0};
        assert_int_equal(floor_run(&configs[i], &result), COP_EINVAL);
        assert_true(strlen(result.message) > 0);
    }
}

/* Too few descriptors, here or further down: a sentence, and nobody is left. */
static void a_failure_leaves_nobody(void **state)
{
    (void)state;
    struct floor_config config = {.kind = FLOOR_EPOLL,
                                  .transport = FLOOR_TCP,
                                  .n = 40,
                                  .k = 3,
                                  .bytes = 100,
                                  .repetitions = 5};
    int descriptors = count_descriptors();
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    for (rlim_t limit = 4; limit <= 6; limit++) {
        struct floor_result result = {0};
        struct rlimit few = {limit, old.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        int error = floor_run(&config, &result);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
        assert_int_equal(error, COP_EIO);
        assert_non_null(strstr(result.message, "the floor of 40 processes failed"));
        assert_alone(descriptors);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant_measures),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(a_failure_leaves_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
