/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/sim.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
/* cmocka needs the first three above. */
#include <cmocka.h>

/*
 * COPPICE_SEEDS random small clusters (2,000 unless given), nine of ten without lies. A seed
 * that fails is printed, and so is the short script that still fails.
 */
static uint64_t seeds(void)
{
    const char *text = getenv("COPPICE_SEEDS");
    uint64_t count = text ? strtoull(text, NULL, 10) : 0;
    return count ? count : 2000;
}

static void explain(uint64_t seed, uint32_t flags)
{
    struct cop_sim_script script;
    struct cop_sim_script small;
    struct cop_sim_report report;
    assert_int_equal(cop_sim_swarm_script(seed, flags, &script), 0);
    if (cop_sim_shrink(&script, NULL, NULL, &small) == 0) {
        char *text = cop_sim_script_print(&small);
        assert_int_equal(cop_sim_script_try(&small, &report), 0);
        print_error("# seed %llu%s: %s\n%s", (unsigned long long)seed,
                    flags ? " with lies" : "", report.failure, text ? text : "");
        free(text);
        cop_sim_script_free(&small);
    }
    cop_sim_script_free(&script);
}

static void run(uint64_t count, uint32_t flags)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct cop_sim_swarm swarm = {.first = 1,
                                  .count = count,
                                  .jobs = cores > 1 ? (uint32_t)cores : 1,
                                  .flags = flags};
    struct cop_sim_swarm_report report;
    assert_int_equal(cop_sim_swarm_run(&swarm, &report), 0);
    assert_int_equal(report.done, count);
    if (report.failed)
        explain(report.first_failed, flags);
    assert_int_equal(report.failed, 0);
}

static void test_without_lies(void **state)
{
    (void)state;
    run(seeds() - seeds() / 10, 0);
}

static void test_with_lies(void **state)
{
    (void)state;
    run(seeds() / 10 + 1, COP_SIM_SWARM_LIES);
}

/* The seeds would be worth little if they were all alike. */
static void test_seeds_differ_in_kind(void **state)
{
    (void)state;
    unsigned kinds[COP_SIM_LIE + 1] = {0};
    unsigned shapes[COP_SHAPE_HOSTS + 1] = {0};
    unsigned nets[COP_SIM_NET_RECORDED + 1] = {0};
    unsigned flags[6] = {0};
    for (uint64_t seed = 1; seed <= 600; seed++) {
        struct cop_sim_script script;
        assert_int_equal(cop_sim_swarm_script(seed, COP_SIM_SWARM_LIES, &script), 0);
        shapes[script.config.shape.kind]++;
        nets[script.config.net.kind]++;
        for (unsigned i = 0; i < 6; i++)
            flags[i] += script.config.flags >> i & 1;
        for (uint32_t i = 0; i < script.count; i++)
            kinds[script.actions[i].kind]++;
        cop_sim_script_free(&script);
    }
    for (unsigned i = 0; i <= COP_SIM_LIE; i++)
        assert_in_range(kinds[i], 5, 100000);
    for (unsigned i = COP_SHAPE_KARY; i <= COP_SHAPE_HOSTS; i++)
        assert_in_range(shapes[i], 5, 600);
    for (unsigned i = 0; i <= COP_SIM_NET_RECORDED; i++)
        assert_in_range(nets[i], 5, 600);
    assert_in_range(flags[3], 100, 500); /* cut */
    assert_in_range(flags[4], 100, 500); /* buggify */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seeds_differ_in_kind),
        cmocka_unit_test(test_without_lies),
        cmocka_unit_test(test_with_lies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
