/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/sim.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
/* cmocka needs the first three above. */
#include <cmocka.h>

/* A property that is wrong on purpose is found, and its script cut down to the bone. */

/* "No two nodes are ever dead at once." */
static void two_dead(void *state, struct cop_sim *sim, cop_id node)
{
    unsigned dead = 0;
    (void)state;
    (void)node;
    for (cop_id id = 0; id < cop_sim_nodes(sim); id++)
        dead += !cop_sim_is_alive(sim, id);
    if (dead >= 2)
        cop_sim_fail(sim, "wrong", "%u are dead", dead);
}

static const struct cop_sim_checker wrong = {.name = "wrong", .after_step = two_dead};
static const struct cop_sim_checker *const wrong_only[] = {&wrong, NULL};

static bool fails(void *context, const struct cop_sim_script *script)
{
    struct cop_sim_script run = *script;
    struct cop_sim_report report;
    unsigned *runs = context;
    ++*runs;
    run.config.checkers = wrong_only;
    return cop_sim_script_run(&run, &report) == 0 &&
           strncmp(report.failure, "wrong", 5) == 0;
}

static void test_a_long_script_becomes_short(void **state)
{
    (void)state;
    const char *text =
        "nodes 60\nshape knomial:3\nseed 3\nflags codec cut buggify\n"
        "net switch 10us 1us ports 4 jitter 7us compute 2us\n"
        "at 1us probe 3 timeout 1s outcome\n"
        "at 2us probe 50 timeout 1s shape chain\n"
        "at 3us pause 7\nat 40us resume 7\nat 33us break 0 1\n"
        "at 123457ns crash 5\nat 5us slow 8 10us\n"
        "at 20us partition 0-9 | 10-59\nat 2ms heal\n"
        "at 345678ns crash 41\nat 1ms jump 2 3ms\nat 10us slow 4 > 9 3us\n"
        "liveness\n";
    struct cop_sim_script script;
    struct cop_sim_script small;
    char message[256];
    unsigned runs = 0;
    assert_int_equal(cop_sim_script_parse(text, &script, message, sizeof(message)), 0);
    assert_int_equal(cop_sim_shrink(&script, fails, &runs, &small), 0);
    assert_true(fails(&runs, &small));
    assert_int_equal(small.count, 2);
    assert_int_equal(small.actions[0].kind, COP_SIM_CRASH);
    assert_int_equal(small.actions[1].kind, COP_SIM_CRASH);
    assert_int_equal(small.actions[0].at, 0);
    assert_int_equal(small.actions[1].at, 0);
    /* Two deaths, and somebody who hears of them. */
    assert_int_equal(small.config.nodes, 3);
    assert_int_equal(small.config.net.kind, COP_SIM_NET_CONSTANT);
    assert_int_equal(small.config.flags, COP_SIM_CHECK);
    assert_false(small.liveness);
    cop_sim_script_free(&script);
    cop_sim_script_free(&small);
}

static void test_a_good_script_is_not_cut(void **state)
{
    (void)state;
    struct cop_sim_script script;
    struct cop_sim_script small;
    char message[256];
    assert_int_equal(cop_sim_script_parse("nodes 4\nat 0 probe 0 timeout 1s\n", &script,
                                          message, sizeof(message)),
                     0);
    assert_int_equal(cop_sim_shrink(&script, NULL, NULL, &small), COP_ESTATE);
    cop_sim_script_free(&script);
}

/* ---- a node that aborts ---------------------------------------------------------- */

static int step_or_abort(void *node, const struct cop_event *event,
                         struct cop_effects *effects)
{
    if (event->kind == COP_EVENT_PEER_DOWN)
        abort();
    return cop_sim_actor_node()->step(node, event, effects);
}

static void test_an_abort_is_a_violation(void **state)
{
    (void)state;
    struct cop_sim_actor aborting = *cop_sim_actor_node();
    struct cop_sim_script script;
    struct cop_sim_script small;
    struct cop_sim_report report;
    char message[256];
    aborting.step = step_or_abort;
    assert_int_equal(
        cop_sim_script_parse("nodes 9\nat 0 probe 0 timeout 1s\nat 1ms crash 8\n"
                             "at 2us pause 3\nat 4us resume 3\n",
                             &script, message, sizeof(message)),
        0);
    script.config.actor = &aborting;
    assert_int_equal(cop_sim_script_try(&script, &report), 0);
    assert_string_equal(report.failure, "process: ended with signal 6");
    assert_int_equal(cop_sim_shrink(&script, NULL, NULL, &small), 0);
    assert_int_equal(small.count, 1);
    assert_int_equal(small.actions[0].kind, COP_SIM_CRASH);
    assert_int_equal(small.config.nodes, 2);
    cop_sim_script_free(&script);
    cop_sim_script_free(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_long_script_becomes_short),
        cmocka_unit_test(test_a_good_script_is_not_cut),
        cmocka_unit_test(test_an_abort_is_a_violation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
