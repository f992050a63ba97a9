/* SPDX-License-Identifier: Apache-2.0 */
#include "seeds.h"

#include <coppice/sim.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the first three above. */
#include <cmocka.h>

/* Random small clusters, nine of ten without lies. */

static void test_without_lies(void **state)
{
    (void)state;
    seeds_run(seeds_count() / 2 + 1, 0);
}

static void test_with_lies(void **state)
{
    (void)state;
    seeds_run(seeds_count() / 10 + 1, COP_SIM_SWARM_LIES);
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
