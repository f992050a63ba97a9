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
 * V18: members that carry nobody. Random clusters for both protocols, crashes at every message
 * boundary with drained members on the way, and the cases by name.
 */

static struct cop_sim_report report;
static struct cop_view *latest;
static uint32_t asked_by[64]; /* ASK frames that each node sent */

static void on_line(void *context, const char *line)
{
    unsigned node;
    const char *at = strstr(line, "] ");
    (void)context;
    if (at && sscanf(at, "] %u > send ask", &node) == 1 && node < 64 &&
        strstr(at, " send ask "))
        asked_by[node]++;
}

static void on_view(void *context, struct cop_sim *sim, cop_id id,
                    struct cop_view *view)
{
    (void)context;
    (void)sim;
    (void)id;
    if (latest && cop_view_epoch(view) <= cop_view_epoch(latest))
        return;
    cop_view_unref(latest);
    latest = cop_view_ref(view);
}

/* Lines are only made for who reads them. */
static void run_with(const char *text, void (*trace)(void *, const char *))
{
    struct cop_sim_script script = parse_script(text);
    cop_view_unref(latest);
    latest = NULL;
    memset(asked_by, 0, sizeof(asked_by));
    script.config.flags |= COP_SIM_CHECK;
    script.config.trace = trace;
    script.config.viewed = on_view;
    report = run_script(&script);
    cop_sim_script_free(&script);
}

static void run(const char *text) { run_with(text, NULL); }

static struct cop_member member_of(cop_id id)
{
    struct cop_member member = {0};
    assert_non_null(latest);
    assert_int_equal(cop_view_member(latest, id, &member), 0);
    return member;
}

/* ---- probes ---------------------------------------------------------------------- */

static void test_nobody_asks_through_it(void **state)
{
    (void)state;
    run_with("nodes 15\nshape kary:2\nat 1ms probe 0 token 1\nat 5ms probe 9 token 2\n",
             on_line);
    assert_true(asked_by[1] > 0 && asked_by[2] > 0);
    run_with("nodes 15\nshape kary:2\ndrained 1-2\nat 1ms probe 0 token 1\n"
             "at 5ms probe 9 token 2\nliveness\n",
             on_line);
    assert_int_equal(report.answered, 15);
    assert_int_equal(asked_by[1] + asked_by[2] > 2, 1); /* their own, in the end */
}

/* A drained member may ask, too: then it is the root of its own sweep. */
static void test_a_drained_one_asks(void **state)
{
    (void)state;
    run("nodes 15\nshape kary:2\ndrained 0-13\nat 1ms probe 3 token 1\n");
    assert_int_equal(report.answered, 15);
    run("nodes 15\nshape kary:2\ndrained 0-14\nat 1ms probe 3 token 1\n");
    assert_int_equal(report.answered, 15);
}

static void test_swarm_of_probes(void **state)
{
    (void)state;
    seeds_run(seeds_count() / 20 + 1, COP_SIM_SWARM_DRAIN);
}

static void test_swarm_of_probes_with_lies(void **state)
{
    (void)state;
    seeds_run(seeds_count() / 40 + 1, COP_SIM_SWARM_DRAIN | COP_SIM_SWARM_LIES);
}

/* One death at each message boundary of each node, with inner members drained. */
static void test_kill_everywhere(void **state)
{
    (void)state;
    seeds_skip_if_brief();
    static const char *const shapes[] = {"kary:2", "chain", "knomial:2", "flat"};
    static const char *const drained[] = {"1", "0-1", "2,4", "1-2,5", "3-6"};
    char text[400];
    for (size_t shape = 0; shape < 4; shape++)
        for (size_t set = 0; set < 5; set++)
            for (unsigned node = 0; node < 7; node++)
                for (unsigned count = 1; count <= 6; count++)
                    for (int after = 0; after < 2; after++) {
                        snprintf(text, sizeof(text),
                                 "nodes 7\nshape %s\ndrained %s\nnet constant 10us\n"
                                 "at 0 probe 0 outcome token 1\nat 0 probe 5 token 2\n"
                                 "crash %u %s %u\nliveness\n",
                                 shapes[shape], drained[set], node,
                                 after ? "after-send" : "before-recv", count);
                        run(text);
                    }
}

/* ---- views ----------------------------------------------------------------------- */

#define SEVEN "nodes 7\nshape kary:2\nviews majority\nnet constant 10us\n"

static void test_drain_and_back(void **state)
{
    (void)state;
    run(SEVEN "at 1ms drain 4 about 1\nliveness\n");
    assert_true(member_of(1).drained);
    assert_int_equal(cop_view_size(latest), 7);
    run(SEVEN "at 1ms drain 4 about 1\nat 1s drain 6 about 1 undo\nliveness\n");
    assert_false(member_of(1).drained);
}

/* The root hands over, and gets it back. */
static void test_root(void **state)
{
    (void)state;
    run(SEVEN "at 1ms drain 3 about 0\nliveness\n");
    assert_int_equal(cop_view_root(latest), 1);
    run(SEVEN "at 1ms drain 3 about 0\nat 1s drain 0 about 0 undo\nliveness\n");
    assert_int_equal(cop_view_root(latest), 0);
    run(SEVEN "drained 0-6\nat 1ms crash 3\nliveness\n");
    assert_int_equal(cop_view_root(latest), 0);
    assert_int_equal(cop_view_size(latest), 6);
}

/* It goes, and that was a goodbye: also for the guard. A later life is not drained. */
static void test_it_goes(void **state)
{
    (void)state;
    run(SEVEN "guard 1\ndrained 1-2\nat 1ms crash 1-2\nat 1s crash 6\nliveness\n");
    assert_int_equal(member_of(1).presence, COP_LEFT);
    assert_int_equal(member_of(2).presence, COP_LEFT);
    assert_int_equal(member_of(6).presence, COP_REMOVED);
    assert_true(report.installed_ns < 5 * COP_SEC);
    run(SEVEN "drained 1-2\nat 1ms crash 1\nat 1s restart 1\nliveness\n");
    assert_int_equal(member_of(1).presence, COP_PRESENT);
    assert_false(member_of(1).drained);
    assert_true(member_of(2).drained);
}

/* Silence is not looked for; other silence is. */
static void test_it_is_silent(void **state)
{
    (void)state;
    static const char *const detectors[] = {"ring 100ms witnesses 2", "gossip 100ms"};
    char text[300];
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof(text),
                 SEVEN "detect %s\ndrained 1\nat 1s pause 1\nat 15s resume 1\n",
                 detectors[i]);
        run(text);
        assert_null(latest);
        snprintf(text, sizeof(text),
                 SEVEN "detect %s\nat 1s pause 1\nat 15s resume 1\n", detectors[i]);
        run(text);
        assert_non_null(latest);
    }
}

static void test_swarm(void **state)
{
    (void)state;
    seeds_run(seeds_count() / 20 + 1, COP_SIM_SWARM_VIEWS | COP_SIM_SWARM_DRAIN);
}

static void test_swarm_with_lies(void **state)
{
    (void)state;
    seeds_run(seeds_count() / 40 + 1, COP_SIM_SWARM_VIEWS | COP_SIM_SWARM_DRAIN |
                                          COP_SIM_SWARM_LIES | COP_SIM_SWARM_GUARD);
}

static int forget(void **state)
{
    (void)state;
    cop_view_unref(latest);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_asks_through_it),
        cmocka_unit_test(test_a_drained_one_asks),
        cmocka_unit_test(test_kill_everywhere),
        cmocka_unit_test(test_drain_and_back),
        cmocka_unit_test(test_root),
        cmocka_unit_test(test_it_goes),
        cmocka_unit_test(test_it_is_silent),
        cmocka_unit_test(test_swarm_of_probes),
        cmocka_unit_test(test_swarm_of_probes_with_lies),
        cmocka_unit_test(test_swarm),
        cmocka_unit_test(test_swarm_with_lies),
    };
    return cmocka_run_group_tests(tests, NULL, forget);
}
