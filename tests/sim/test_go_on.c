/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/sim.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the first three above. */
#include <cmocka.h>

/* V19: those who are too few go on because somebody says so, and only then. */

#define PERIOD (100 * COP_MSEC)

static int status;
static uint32_t completions;
static void note_complete(void *context, struct cop_sim *sim, cop_id node,
                          uint64_t token, int ended, struct cop_buf *result)
{
    (void)context;
    (void)sim;
    (void)node;
    (void)token;
    (void)result;
    status = ended;
    completions++;
}

/* With the ring and witnesses, or where only somebody outside finds the silent. */
static struct cop_sim *create(uint32_t n, bool detects)
{
    static const struct cop_sim_checker *checkers[3];
    checkers[0] = cop_sim_checker_node();
    checkers[1] = cop_sim_checker_member();
    struct cop_sim_config config = {
        .nodes = n,
        .quorum = COP_QUORUM_MAJORITY,
        .net = {.latency_ns = 20 * COP_USEC},
        .flags = COP_SIM_CHECK | COP_SIM_CODEC,
        .checkers = checkers,
        .complete = note_complete,
    };
    struct cop_sim *sim;
    if (detects)
        config.detect = (struct cop_detect){.ring_period_ns = PERIOD, .witnesses = 2};
    assert_int_equal(cop_shape_make(COP_SHAPE_RADIX, 2, &config.shape), 0);
    assert_int_equal(cop_sim_create(&config, &sim), 0);
    completions = 0;
    return sim;
}

static void run(struct cop_sim *sim, cop_time time)
{
    cop_sim_run(sim, cop_sim_now(sim) + time);
    const char *failure = cop_sim_failure(sim);
    assert_string_equal(failure ? failure : "", "");
}

static void act(struct cop_sim *sim, enum cop_sim_action_kind kind, cop_id a)
{
    struct cop_sim_action action = {.kind = kind, .a = a, .b = COP_ID_NONE};
    assert_int_equal(cop_sim_do(sim, &action), 0);
}

static void part(struct cop_sim *sim, cop_id border)
{
    struct cop_sim_action action = {
        .kind = COP_SIM_PARTITION,
        .left = {.ranges = {{0, border - 1}}, .count = 1},
        .right = {.ranges = {{border, cop_sim_nodes(sim) - 1}}, .count = 1},
    };
    assert_int_equal(cop_sim_do(sim, &action), 0);
}

/* What the request comes to at once. */
static void go_on(struct cop_sim *sim, cop_id id, uint64_t epoch)
{
    struct cop_sim_action action = {
        .kind = COP_SIM_GO_ON,
        .a = id,
        .b = COP_ID_NONE,
        .request = {.kind = COP_REQUEST_GO_ON, .token = 1, .target = epoch}};
    assert_int_equal(cop_sim_do(sim, &action), 0);
    run(sim, COP_SEC);
}

static uint32_t size_at(const struct cop_sim *sim, cop_id id)
{
    return cop_view_size(cop_node_view(cop_sim_node(sim, id)));
}

static bool is_degraded(const struct cop_sim *sim, cop_id id)
{
    return cop_node_is_degraded(cop_sim_node(sim, id));
}

/* Two members, one death: the survivor is degraded until it is told to go on. */
static void test_one_of_two(void **state)
{
    (void)state;
    for (cop_id dead = 0; dead < 2; dead++) {
        struct cop_sim *sim = create(2, false);
        run(sim, COP_SEC);
        act(sim, COP_SIM_CRASH, dead);
        /* Nobody waits for it, so somebody has to say so. */
        struct cop_sim_action report = {
            .kind = COP_SIM_REPORT,
            .a = 1 - dead,
            .b = dead,
            .request = {.kind = COP_REQUEST_REPORT, .member = dead}};
        assert_int_equal(cop_sim_do(sim, &report), 0);
        run(sim, COP_SEC);
        assert_true(is_degraded(sim, 1 - dead));
        assert_int_equal(size_at(sim, 1 - dead), 2);
        completions = 0;
        go_on(sim, 1 - dead, 0);
        assert_int_equal(completions, 1);
        assert_int_equal(status, 0);
        assert_int_equal(size_at(sim, 1 - dead), 1);
        assert_false(is_degraded(sim, 1 - dead));
        cop_sim_destroy(sim);
    }
}

/* Who has its quorum, or speaks of another view, is not listened to. */
static void test_only_where_it_is_needed(void **state)
{
    (void)state;
    struct cop_sim *sim = create(5, true);
    run(sim, COP_SEC);
    go_on(sim, 0, 0);
    assert_int_equal(completions, 0);
    part(sim, 2);
    run(sim, 5 * COP_SEC);
    assert_true(is_degraded(sim, 0));
    uint64_t epoch = cop_view_epoch(cop_node_view(cop_sim_node(sim, 0)));
    go_on(sim, 0, epoch + 1);
    run(sim, 20 * COP_SEC);
    assert_int_equal(completions, 0);
    assert_int_equal(size_at(sim, 0), 5);
    assert_int_equal(size_at(sim, 4), 3);
    cop_sim_destroy(sim);
}

/* The smaller side goes on, too, and the members of the one with the lower ballot come back as
 * new lives when both meet. */
static void test_a_minority_goes_on(void **state)
{
    (void)state;
    for (cop_id border = 1; border <= 3; border++) {
        struct cop_sim *sim = create(7, true);
        run(sim, COP_SEC);
        part(sim, border);
        run(sim, 10 * COP_SEC);
        go_on(sim, 0, 0);
        assert_int_equal(completions, 1);
        assert_int_equal(status, 0);
        for (cop_id id = 0; id < border; id++) {
            assert_int_equal(size_at(sim, id), border);
            assert_false(is_degraded(sim, id));
        }
        assert_int_equal(size_at(sim, 6), 7 - border);
        act(sim, COP_SIM_HEAL, 0);
        run(sim, 30 * COP_SEC);
        uint64_t digest = cop_view_digest(cop_node_view(cop_sim_node(sim, 0)));
        for (cop_id id = 0; id < 7; id++) {
            assert_int_equal(size_at(sim, id), 7);
            assert_true(cop_view_digest(cop_node_view(cop_sim_node(sim, id))) ==
                        digest);
        }
        cop_sim_destroy(sim);
    }
}

/* It counts where it is somebody's turn to propose; elsewhere nothing comes of it. */
static void test_only_the_first_in_line_goes_on(void **state)
{
    (void)state;
    struct cop_sim *sim = create(7, true);
    run(sim, COP_SEC);
    part(sim, 3);
    run(sim, 10 * COP_SEC);
    go_on(sim, 2, 0);
    run(sim, 20 * COP_SEC);
    assert_int_equal(completions, 1);
    assert_int_equal(status, COP_ETIMEDOUT);
    assert_int_equal(size_at(sim, 2), 7);
    /* Both: who is not first has the view of the first. */
    struct cop_sim_action both = {.kind = COP_SIM_GO_ON,
                                  .a = 2,
                                  .b = COP_ID_NONE,
                                  .request = {.kind = COP_REQUEST_GO_ON, .token = 1}};
    assert_int_equal(cop_sim_do(sim, &both), 0);
    go_on(sim, 0, 0);
    assert_int_equal(completions, 3);
    assert_int_equal(status, 0);
    assert_int_equal(size_at(sim, 2), 3);
    cop_sim_destroy(sim);
}

/* One quorum is given up, and no more: the next change needs one of the new view. */
static void test_it_counts_once(void **state)
{
    (void)state;
    struct cop_sim *sim = create(7, true);
    run(sim, COP_SEC);
    part(sim, 3);
    run(sim, 10 * COP_SEC);
    go_on(sim, 0, 0);
    assert_int_equal(size_at(sim, 0), 3);
    act(sim, COP_SIM_CRASH, 1);
    act(sim, COP_SIM_CRASH, 2);
    run(sim, 10 * COP_SEC);
    assert_int_equal(size_at(sim, 0), 3);
    assert_true(is_degraded(sim, 0));
    cop_sim_destroy(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_of_two),
        cmocka_unit_test(test_only_where_it_is_needed),
        cmocka_unit_test(test_a_minority_goes_on),
        cmocka_unit_test(test_only_the_first_in_line_goes_on),
        cmocka_unit_test(test_it_counts_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
