/* SPDX-License-Identifier: Apache-2.0 */
/* Groups cover all processes, every pattern measures something, and nobody is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <coppice/error.h>
#include <dirent.h>
#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "bench/contention.h"
#include "number/latencies.h"

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

static void groups_are_even_and_cover_all(void **state)
{
    (void)state;
    for (uint32_t fan_out = 1; fan_out <= FAN_OUT_MAX; fan_out++)
        for (uint32_t n = 2; n <= 300; n += fan_out == 1 ? 2 : 1) {
            struct contention_config config = {.fan_out = fan_out, .n = n};
            uint32_t groups = contention_groups(&config), sum = 0;
            for (uint32_t i = 0; i < groups; i++) {
                uint32_t members = contention_members(&config, i);
                assert_true(members >= 2 && members <= fan_out + 1);
                assert_true(contention_members(&config, 0) - members <= 1);
                sum += members;
            }
            assert_int_equal(sum, n);
        }
}

static void every_pattern_measures(void **state)
{
    (void)state;
    static const struct contention_config configs[] = {
        {.fan_out = 1, .n = 2, .bytes = 1, .repetitions = 1},
        {.fan_out = 1, .n = 8, .bytes = 128, .repetitions = 20, .warm_up = 3},
        {.fan_out = 2, .n = 7, .bytes = CONTENTION_BYTES_MAX, .repetitions = 5},
        {.fan_out = 4, .n = 20, .bytes = 128, .repetitions = 10},
        {.fan_out = FAN_OUT_MAX, .n = 65, .bytes = 128, .repetitions = 3},
    };
    int descriptors = count_descriptors();
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        double latency_ns = 0;
        assert_int_equal(contention_run(&configs[i], &latency_ns), 0);
        assert_true(latency_ns > 0);
        assert_alone(descriptors);
    }
}

/* Too few descriptors, for the gate or for the connections of a group. */
static void a_failure_leaves_nobody(void **state)
{
    (void)state;
    struct contention_config config = {
        .fan_out = 4, .n = 20, .bytes = 128, .repetitions = 10};
    int descriptors = count_descriptors();
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    for (rlim_t limit = 3; limit <= 8; limit++) {
        struct rlimit few = {limit, old.rlim_max};
        double latency_ns = -1;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        int error = contention_run(&config, &latency_ns);
        int cause = errno;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
        assert_int_equal(error, COP_EIO);
        assert_int_equal(cause, EMFILE);
        assert_true(latency_ns < 0);
        assert_alone(descriptors);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_are_even_and_cover_all),
        cmocka_unit_test(every_pattern_measures),
        cmocka_unit_test(a_failure_leaves_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
