/* SPDX-License-Identifier: Apache-2.0 */
#include "seeds.h"

#include <coppice/sim.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>
/* cmocka needs the first three above. */
#include <cmocka.h>

uint64_t seeds_count(void)
{
    const char *text = getenv("COPPICE_SEEDS");
    uint64_t count = text ? strtoull(text, NULL, 10) : 0;
    return count ? count : 2000;
}

void seeds_skip_if_brief(void)
{
    if (getenv("COPPICE_BRIEF"))
        skip();
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
        print_error("# seed %llu, flags %u: %s\n%s", (unsigned long long)seed,
                    (unsigned)flags, report.failure, text ? text : "");
        free(text);
        cop_sim_script_free(&small);
    }
    cop_sim_script_free(&script);
}

void seeds_run(uint64_t count, uint32_t flags)
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
