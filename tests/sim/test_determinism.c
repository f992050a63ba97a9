/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/sim.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka needs the first three above. */
#include <cmocka.h>

/* The same seed, the same trace; and what a seed runs is what its script says. */

static uint64_t digest_of(uint64_t seed, bool reread)
{
    struct cop_sim_script script;
    struct cop_sim_report report;
    assert_int_equal(cop_sim_swarm_script(seed, COP_SIM_SWARM_LIES, &script), 0);
    if (reread) {
        char message[256];
        char *text = cop_sim_script_print(&script);
        struct cop_sim_script again;
        assert_non_null(text);
        assert_int_equal(cop_sim_script_parse(text, &again, message, sizeof(message)),
                         0);
        free(text);
        cop_sim_script_free(&script);
        script = again;
    }
    assert_int_equal(cop_sim_script_run(&script, &report), 0);
    cop_sim_script_free(&script);
    return report.trace_digest;
}

static void test_same_seed_same_trace(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint64_t digest = digest_of(seed, false);
        assert_int_equal(digest, digest_of(seed, false));
        assert_int_equal(digest, digest_of(seed, true));
    }
}

static void test_other_seed_other_trace(void **state)
{
    (void)state;
    uint64_t seen[60];
    for (uint64_t seed = 0; seed < 60; seed++) {
        seen[seed] = digest_of(seed, false);
        for (uint64_t other = 0; other < seed; other++)
            assert_int_not_equal(seen[seed], seen[other]);
    }
}

/* One bit of one seed: only the seed of the draws differs, not the script. */
static void test_the_seed_reaches_the_network(void **state)
{
    (void)state;
    const char *text =
        "nodes 16\nseed %u\nnet constant 10us jitter 5us\nat 0 probe 0 timeout 1s\n";
    uint64_t digests[2];
    for (unsigned seed = 0; seed < 2; seed++) {
        char script_text[200];
        char message[256];
        struct cop_sim_script script;
        struct cop_sim_report report;
        snprintf(script_text, sizeof(script_text), text, seed);
        assert_int_equal(
            cop_sim_script_parse(script_text, &script, message, sizeof(message)), 0);
        assert_int_equal(cop_sim_script_run(&script, &report), 0);
        assert_string_equal(report.failure, "");
        digests[seed] = report.trace_digest;
        cop_sim_script_free(&script);
    }
    assert_int_not_equal(digests[0], digests[1]);
}

static void test_jobs_do_not_matter(void **state)
{
    (void)state;
    struct cop_sim_swarm_report reports[3];
    const uint32_t jobs[] = {0, 1, 3};
    for (int i = 0; i < 3; i++) {
        struct cop_sim_swarm swarm = {.first = 1000, .count = 50, .jobs = jobs[i]};
        assert_int_equal(cop_sim_swarm_run(&swarm, &reports[i]), 0);
        assert_int_equal(reports[i].done, 50);
    }
    assert_int_equal(reports[0].digest, reports[1].digest);
    assert_int_equal(reports[0].digest, reports[2].digest);
    assert_int_equal(reports[0].events, reports[2].events);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_seed_same_trace),
        cmocka_unit_test(test_other_seed_other_trace),
        cmocka_unit_test(test_the_seed_reaches_the_network),
        cmocka_unit_test(test_jobs_do_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
