/* SPDX-License-Identifier: Apache-2.0 */
#include "seeds.h"

#include <coppice/sim.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
/* cmocka needs the first three above. */
#include <cmocka.h>

/* The explorer over small clusters; and that it finds what is wrong on purpose. */

static struct cop_sim_explored explore(uint32_t nodes, const char *shape,
                                       uint32_t crashes, uint32_t lies, bool outcome,
                                       bool reduce)
{
    struct cop_sim_explore config = {.nodes = nodes,
                                     .crashes = crashes,
                                     .lies = lies,
                                     .outcome = outcome,
                                     .reduce = reduce};
    struct cop_sim_explored explored;
    assert_int_equal(cop_shape_parse(shape, &config.shape, NULL, 0), 0);
    assert_int_equal(cop_sim_explore(&config, &explored), 0);
    return explored;
}

static void expect_exhausted(struct cop_sim_explored explored)
{
    if (explored.failure[0])
        print_error("%s\n%s", explored.failure, explored.schedule);
    assert_string_equal(explored.failure, "");
    assert_true(explored.exhausted);
    assert_true(explored.terminals > 0);
    free(explored.schedule);
}

static void test_four_nodes_two_crashes(void **state)
{
    (void)state;
    seeds_skip_if_brief();
    static const char *const shapes[] = {"radix:2", "chain", "flat", "knomial:2"};
#ifdef __SANITIZE_ADDRESS__
    const int count = 1; /* what it looks for is in the code, not in the schedule */
#else
    const int count = 4;
#endif
    for (int i = 0; i < count; i++)
        expect_exhausted(explore(4, shapes[i], 2, 0, i % 2 == 1, true));
}

static void test_three_nodes_crash_and_lie(void **state)
{
    (void)state;
    seeds_skip_if_brief();
    expect_exhausted(explore(3, "chain", 1, 1, true, true));
    expect_exhausted(explore(3, "radix:2", 1, 1, false, true));
}

/* Sleep sets save moves, never states. */
static void test_reduction_keeps_every_state(void **state)
{
    (void)state;
    seeds_skip_if_brief();
    static const char *const shapes[] = {"chain", "radix:2", "flat"};
    for (int i = 0; i < 3; i++) {
        struct cop_sim_explored all = explore(3, shapes[i], 1, 1, true, false);
        struct cop_sim_explored some = explore(3, shapes[i], 1, 1, true, true);
        expect_exhausted(all);
        expect_exhausted(some);
        assert_int_equal(all.states, some.states);
        assert_int_equal(all.terminals, some.terminals);
        assert_true(some.transitions < all.transitions);
    }
    struct cop_sim_explored all = explore(4, "radix:2", 1, 0, false, false);
    struct cop_sim_explored some = explore(4, "radix:2", 1, 0, false, true);
    assert_int_equal(all.states, some.states);
    assert_true(some.transitions < all.transitions);
}

/* ---- what is wrong on purpose ---------------------------------------------------- */

/* A node that never hears REFUSED of rank 1 waits for it for ever. */
static int deaf_step(void *node, const struct cop_event *event,
                     struct cop_effects *effects)
{
    if (event->kind == COP_EVENT_PEER_DOWN && event->why == COP_DOWN_REFUSED &&
        event->peer == 1) {
        cop_effects_clear(effects);
        return 0;
    }
    return cop_sim_actor_node()->step(node, event, effects);
}

static void test_a_deaf_node_is_found(void **state)
{
    (void)state;
    struct cop_sim_actor deaf = *cop_sim_actor_node();
    struct cop_sim_explore config = {
        .nodes = 3, .crashes = 1, .reduce = true, .actor = &deaf};
    struct cop_sim_explored explored;
    deaf.step = deaf_step;
    assert_int_equal(cop_shape_parse("chain", &config.shape, NULL, 0), 0);
    assert_int_equal(cop_sim_explore(&config, &explored), 0);
    assert_false(explored.exhausted);
    assert_string_not_equal(explored.failure, "");
    assert_non_null(explored.schedule);
    assert_non_null(strstr(explored.schedule, "1 > crash"));
    free(explored.schedule);
}

/* "A node never completes after it heard of a death": false, and shortest in four moves
 * (submit, crash, closed, refused) for two nodes. */
static void no_dead(void *state, struct cop_sim *sim, cop_id node, uint64_t token,
                    int status, const struct cop_buf *result)
{
    struct cop_probe_result found;
    (void)state;
    (void)node;
    (void)token;
    (void)status;
    if (!result || cop_probe_result(result, &found) != 0)
        return;
    if (found.dead.count > 0)
        cop_sim_fail(sim, "wrong", "%u dead", (unsigned)found.dead.count);
    cop_probe_result_free(&found);
}

static void test_the_schedule_is_the_shortest(void **state)
{
    (void)state;
    static const struct cop_sim_checker wrong = {.name = "wrong",
                                                 .on_complete = no_dead};
    static const struct cop_sim_checker *const checkers[] = {&wrong, NULL};
    struct cop_sim_explore config = {
        .nodes = 2, .crashes = 1, .reduce = true, .checkers = checkers};
    struct cop_sim_explored explored;
    unsigned lines = 0;
    assert_int_equal(cop_shape_parse("chain", &config.shape, NULL, 0), 0);
    assert_int_equal(cop_sim_explore(&config, &explored), 0);
    assert_string_equal(explored.failure, "wrong: 1 dead");
    assert_non_null(explored.schedule);
    for (const char *at = explored.schedule; *at; at++)
        lines += *at == '\n';
    assert_int_equal(lines, 4);
    free(explored.schedule);
}

static void test_bounds_are_said(void **state)
{
    (void)state;
    struct cop_sim_explore config = {.nodes = 4, .crashes = 1, .depth_max = 3};
    struct cop_sim_explored explored;
    assert_int_equal(cop_shape_parse("chain", &config.shape, NULL, 0), 0);
    assert_int_equal(cop_sim_explore(&config, &explored), 0);
    assert_false(explored.exhausted);
    assert_int_equal(explored.depth, 3);
    config.nodes = COP_SIM_EXPLORE_NODES + 1;
    assert_int_equal(cop_sim_explore(&config, &explored), COP_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_four_nodes_two_crashes),
        cmocka_unit_test(test_three_nodes_crash_and_lie),
        cmocka_unit_test(test_reduction_keeps_every_state),
        cmocka_unit_test(test_a_deaf_node_is_found),
        cmocka_unit_test(test_the_schedule_is_the_shortest),
        cmocka_unit_test(test_bounds_are_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
