/* SPDX-License-Identifier: Apache-2.0 */
#include "scripts.h"
#include "seeds.h"

#include <coppice/sim.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
/* cmocka needs the first three above. */
#include <cmocka.h>

/*
 * V17: not more than so many removals a minute without an operator. By name, and in random
 * clusters with random limits, where the checker counts by what really happened.
 */

static struct cop_sim_report report;
static char trace[1 << 16];
static uint32_t held_at_end[64], held_count;

static void on_line(void *context, const char *line)
{
    (void)context;
    size_t used = strlen(trace);
    if (strstr(line, " = ") && used + strlen(line) + 2 < sizeof(trace))
        snprintf(trace + used, sizeof(trace) - used, "%s\n", line);
}

static void at_end(void *context, struct cop_sim *sim)
{
    (void)context;
    held_count = 0;
    for (cop_id id = 0; id < cop_sim_nodes(sim) && held_count == 0; id++)
        if (cop_sim_node(sim, id))
            held_count = cop_node_held(cop_sim_node(sim, id), held_at_end, 64);
}

static void run(const char *text)
{
    struct cop_sim_script script = parse_script(text);
    trace[0] = '\0';
    script.config.flags |= COP_SIM_CHECK;
    script.config.trace = on_line;
    script.config.end = at_end;
    report = run_script(&script);
    cop_sim_script_free(&script);
}

#define SEVEN "nodes 7\nshape radix:2\nviews majority\nguard 2\nnet constant 10us\n"

static void test_within_the_limit(void **state)
{
    (void)state;
    run(SEVEN "at 1ms crash 3\nat 100ms crash 0\nliveness\n");
    assert_int_equal(report.members, 5);
    assert_int_equal(held_count, 0);
    assert_null(strstr(trace, "held"));
}

/* Three at once: nothing changes, and who is held can be asked. */
static void test_too_many_at_once(void **state)
{
    (void)state;
    run(SEVEN "at 1ms crash 4-6\nliveness\n");
    assert_int_equal(report.epoch, 0);
    assert_int_equal(held_count, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(held_at_end[i], 4 + i);
    assert_non_null(strstr(trace, "0 = 3 held by the guard"));
}

/* Two, and a third soon after: it is held until a minute has passed since the two. */
static void test_the_minute_passes(void **state)
{
    (void)state;
    run(SEVEN "at 1ms crash 5-6\nat 10s crash 4\n");
    assert_int_equal(report.members, 4);
    assert_int_equal(report.installed, 4);
    assert_int_equal(held_count, 0);
    assert_true(report.installed_ns >= 60 * COP_SEC);
    const char *held = strstr(trace, "0 = 1 held by the guard");
    assert_non_null(held);
    assert_non_null(strstr(held, "0 = 0 held by the guard"));
}

/* The next root counts by the views that it installed itself. */
static void test_another_root(void **state)
{
    (void)state;
    run(SEVEN "at 1ms crash 5-6\nat 10s crash 0\n");
    assert_int_equal(report.members, 4);
    assert_true(report.installed_ns >= 60 * COP_SEC);
    assert_non_null(strstr(trace, "1 = 1 held by the guard"));
}

/* Of one out of three an operator says that it is dead: the other two are within the limit.
 * What was reported is not counted, by the next root neither. */
static void test_operator(void **state)
{
    (void)state;
    run(SEVEN "at 1ms crash 4-6\nat 5s report 3 about 5\nliveness\n");
    assert_int_equal(report.members, 4);
    assert_true(report.installed_ns < 6 * COP_SEC);
    run("nodes 9\nshape radix:2\nviews majority\nguard 1\nnet constant 10us\n"
        "at 1ms crash 8\nat 1ms report 0 about 8\nat 1s crash 0\nliveness\n");
    assert_int_equal(report.members, 7);
    assert_true(report.installed_ns < 2 * COP_SEC);
}

/* Whom somebody reports is gone before the others are held, too; and reported to one who has
 * its own suspicion already it is more than that. */
static void test_reported_when_suspect(void **state)
{
    (void)state;
    run(SEVEN "at 1ms crash 4-6\nat 3s report 0 about 4\nat 3s report 0 about 4\n"
              "at 3s report 2 about 6\nat 4s report 1 about 5\nliveness\n");
    assert_int_equal(report.members, 4);
    assert_true(report.installed_ns < 5 * COP_SEC);
}

/* Who lives says so, and is not held any more; a return and a goodbye do not count. */
static void test_what_does_not_count(void **state)
{
    (void)state;
    run(SEVEN "at 1ms lie 0 about 4\nat 1ms lie 0 about 5\nat 1ms lie 0 about 6\n"
              "at 2s leave 6\nat 3s leave 5\nat 4s leave 4\nat 5s crash 3\n"
              "at 5s restart 3\nat 6s crash 3\nat 6s restart 3\nat 7s crash 2\nat 7s "
              "restart 2\nliveness\n");
    assert_int_equal(report.members, 4);
    assert_int_equal(held_count, 0);
}

/* Who is held though it lives hears of it, also if its accuser died before it could tell. */
static void test_held_are_told(void **state)
{
    (void)state;
    run("nodes 6\nshape radix:2\nseed 2670\nviews majority\nguard 1\nflags codec cut "
        "buggify\n"
        "net switch 14us 2986ns ports 2\nat 60us crash 1\nat 0ns lie 1 about "
        "5\nliveness\n");
    assert_int_equal(report.members, 5);
}

static void test_swarm(void **state)
{
    (void)state;
    seeds_run(seeds_count() / 20 + 1, COP_SIM_SWARM_VIEWS | COP_SIM_SWARM_GUARD);
}

static void test_swarm_with_lies(void **state)
{
    (void)state;
    seeds_run(seeds_count() / 40 + 1,
              COP_SIM_SWARM_VIEWS | COP_SIM_SWARM_GUARD | COP_SIM_SWARM_LIES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_within_the_limit),
        cmocka_unit_test(test_too_many_at_once),
        cmocka_unit_test(test_the_minute_passes),
        cmocka_unit_test(test_another_root),
        cmocka_unit_test(test_operator),
        cmocka_unit_test(test_reported_when_suspect),
        cmocka_unit_test(test_what_does_not_count),
        cmocka_unit_test(test_held_are_told),
        cmocka_unit_test(test_swarm),
        cmocka_unit_test(test_swarm_with_lies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
