/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
/* cmocka needs the four above. */
#include <cmocka.h>

/* What the simulator promises of connections, crashes and faults. Latency is 10 ns. */

static void run(struct cop_sim *sim)
{
    cop_sim_run(sim, COP_TIME_NEVER);
    assert_null(cop_sim_failure(sim));
    cop_sim_destroy(sim);
}

static void test_up_before_the_first_frame(void **state)
{
    (void)state;
    struct cop_sim *sim = fake_sim(3, NULL, COP_SIM_CODEC);
    fake_send(sim, 5, 0, 1, 2);
    run(sim);
    assert_string_equal(fake_log,
                        "[1 up0.1 +15][0 up1.1 +15][1 got0.1 +15][1 got0.2 +15]");
}

static void test_connected_once(void **state)
{
    (void)state;
    struct cop_sim *sim = fake_sim(2, NULL, 0);
    fake_connect(sim, 0, 0, 1);
    fake_connect(sim, 100, 1, 0);
    fake_send(sim, 200, 0, 1, 1);
    run(sim);
    assert_int_equal(fake_count("up"), 2);
}

static void test_a_crash_is_heard_after_the_last_frame(void **state)
{
    (void)state;
    struct cop_sim *sim = fake_sim(3, NULL, 0);
    fake_connect(sim, 0, 2, 0);
    fake_send(sim, 50, 0, 1, 2);
    fake_do(sim, "at 55 crash 0");
    run(sim);
    assert_true(fake_heard("[1 got0.2 +60]"));
    assert_true(fake_heard("[1 closed0 +65]"));
    assert_true(fake_heard("[2 closed0 +65]"));
}

static void test_crash_after_a_send_loses_the_rest(void **state)
{
    (void)state;
    struct cop_sim *sim = fake_sim(3, NULL, 0);
    fake_send(sim, 50, 0, 1, 3);
    fake_do(sim, "crash 0 after-send 2");
    run(sim);
    assert_int_equal(fake_count("got0"), 2);
    assert_true(fake_heard("closed0"));
}

static void test_crash_before_a_receive(void **state)
{
    (void)state;
    struct cop_sim *sim = fake_sim(3, NULL, 0);
    fake_send(sim, 50, 0, 1, 3);
    fake_do(sim, "crash 1 before-recv 2");
    run(sim);
    assert_int_equal(fake_count("got0"), 1);
    assert_true(fake_heard("[0 closed1"));
}

/* With CUT what arrives is a prefix, and every length of prefix comes up for some seed. */
static void test_a_crash_can_cut_what_is_under_way(void **state)
{
    (void)state;
    bool seen[4] = {false};
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct cop_sim_net net = {.latency_ns = 100};
        struct cop_sim *sim = fake_sim(2, &net, COP_SIM_CUT);
        fake_connect(sim, 0, 0, 1);
        for (unsigned i = 0; i < 3; i++)
            fake_send(sim, 200 + seed % 7 + 10 * i, 0, 1, 1);
        char line[64];
        snprintf(line, sizeof(line), "at %u crash 0", 230 + (unsigned)seed);
        fake_do(sim, line);
        run(sim);
        unsigned got = fake_count("got0");
        assert_in_range(got, 0, 3);
        for (unsigned i = 1; i <= got; i++) {
            snprintf(line, sizeof(line), "got0.%u ", i);
            assert_true(fake_heard(line));
        }
        assert_int_equal(fake_count("[1 closed0"), 1);
        seen[got] = true;
    }
    assert_true(seen[0] && seen[1] && seen[2] && seen[3]);
}

static void test_the_dead_refuse(void **state)
{
    (void)state;
    struct cop_sim *sim = fake_sim(3, NULL, 0);
    fake_do(sim, "at 5 crash 1");
    fake_send(sim, 50, 0, 1, 1);
    fake_connect(sim, 100, 2, 1);
    run(sim);
    assert_true(fake_heard("[0 refused1 +60]"));
    assert_true(fake_heard("[2 refused1 +110]"));
    assert_false(fake_heard("closed"));
}

static void test_a_restart_has_a_new_incarnation(void **state)
{
    (void)state;
    struct cop_sim *sim = fake_sim(2, NULL, 0);
    fake_connect(sim, 0, 0, 1);
    fake_do(sim, "at 20 crash 1");
    fake_do(sim, "at 22 restart 1");
    fake_send(sim, 25, 1, 0, 1);
    run(sim);
    const char *closed = strstr(fake_log, "[0 closed1");
    const char *up = strstr(fake_log, "[0 up1.2");
    const char *got = strstr(fake_log, "[0 got1.1");
    assert_non_null(closed);
    assert_non_null(up);
    assert_non_null(got);
    assert_true(closed < up && up < got);
}

static void test_frames_for_an_earlier_life_are_lost(void **state)
{
    (void)state;
    struct cop_sim_net net = {.latency_ns = 100};
    struct cop_sim *sim = fake_sim(2, &net, 0);
    fake_send(sim, 0, 0, 1, 1);
    fake_do(sim, "at 20 crash 1");
    fake_do(sim, "at 30 restart 1");
    run(sim);
    assert_false(fake_heard("got0"));
}

/* Both hear CLOSED, then UP, then everything that was under way, in order. */
static void test_a_broken_connection_loses_nothing(void **state)
{
    (void)state;
    struct cop_sim_net net = {.latency_ns = 1000};
    struct cop_sim *sim = fake_sim(2, &net, 0);
    fake_connect(sim, 0, 0, 1);
    fake_send(sim, 5000, 0, 1, 3);
    fake_send(sim, 5000, 1, 0, 2);
    fake_do(sim, "at 5500 break 0 1");
    fake_send(sim, 5600, 0, 1, 1);
    run(sim);
    assert_int_equal(fake_count("closed"), 2);
    assert_int_equal(fake_count("[0 up1"), 2);
    assert_int_equal(fake_count("[1 up0"), 2);
    const char *closed = strstr(fake_log, "[1 closed0");
    const char *up = strstr(closed, "[1 up0");
    assert_non_null(up);
    const char *at = up;
    for (unsigned i = 1; i <= 4; i++) {
        char frame[32];
        snprintf(frame, sizeof(frame), "[1 got0.%u ", i);
        assert_int_equal(fake_count(frame), 1);
        at = strstr(at, frame);
        assert_non_null(at);
    }
    assert_int_equal(fake_count("[0 got1"), 2);
}

static void test_a_break_and_then_a_crash(void **state)
{
    (void)state;
    struct cop_sim *sim = fake_sim(2, NULL, 0);
    fake_connect(sim, 0, 0, 1);
    fake_do(sim, "at 100 break 0 1");
    fake_send(sim, 101, 0, 1, 1);
    fake_do(sim, "at 102 crash 1");
    run(sim);
    assert_true(fake_heard("[0 refused1"));
}

static void test_a_partition_holds_frames_until_it_heals(void **state)
{
    (void)state;
    struct cop_sim *sim = fake_sim(4, NULL, 0);
    fake_connect(sim, 0, 0, 2);
    fake_do(sim, "at 50 partition 0-1 | 2-3");
    fake_send(sim, 45, 0, 2, 1);
    fake_send(sim, 60, 0, 2, 2);
    fake_send(sim, 70, 0, 1, 1);
    fake_do(sim, "at 1000 heal");
    fake_send(sim, 1001, 0, 2, 1);
    run(sim);
    assert_true(fake_heard("[1 got0.4 +80]"));
    assert_int_equal(fake_count("[2 got0"), 4);
    const char *at = strstr(fake_log, "[2 got0.1 ");
    assert_non_null(at);
    assert_non_null(at = strstr(at, "[2 got0.2 "));
    assert_non_null(at = strstr(at, "[2 got0.3 "));
    assert_non_null(at = strstr(at, "[2 got0.5 "));
    assert_false(fake_heard("silent"));
}

static void test_a_long_partition_is_silent(void **state)
{
    (void)state;
    struct cop_sim *sim = fake_sim(4, NULL, 0);
    fake_connect(sim, 0, 0, 2);
    fake_do(sim, "at 50 partition 0-1 > 2-3");
    fake_connect(sim, 60, 3, 1);
    fake_send(sim, 70, 2, 0, 1);
    fake_send(sim, 80, 0, 2, 1);
    fake_do(sim, "at 5s heal");
    run(sim);
    assert_true(fake_heard("[3 silent1"));
    assert_true(fake_heard("[0 silent2"));
    assert_true(fake_heard("[2 silent0"));
    assert_true(fake_heard("[0 got2.1 +80]")); /* the other way is open */
    const char *silent = strstr(fake_log, "[2 silent0");
    const char *up = strstr(silent, "[2 up0");
    assert_non_null(up);
    assert_non_null(strstr(up, "[2 got0.1"));
}

static void test_news_of_a_death_waits_behind_a_partition(void **state)
{
    (void)state;
    struct cop_sim *sim = fake_sim(2, NULL, 0);
    fake_connect(sim, 0, 0, 1);
    fake_do(sim, "at 50 partition 0 | 1");
    fake_do(sim, "at 60 crash 1");
    fake_do(sim, "at 1000 heal");
    run(sim);
    assert_int_equal(fake_count("[0 closed1"), 1);
    assert_false(fake_heard("+70]"));
}

static void test_a_paused_node_hears_later_in_order(void **state)
{
    (void)state;
    struct cop_sim *sim = fake_sim(2, NULL, 0);
    fake_connect(sim, 0, 0, 1);
    fake_do(sim, "at 50 pause 1");
    fake_send(sim, 60, 0, 1, 2);
    fake_do(sim, "at 500 resume 1");
    fake_send(sim, 490, 0, 1, 1);
    run(sim);
    const char *at = strstr(fake_log, "[1 got0.1 +500]");
    assert_non_null(at);
    assert_non_null(at = strstr(at, "[1 got0.2 +500]"));
    assert_non_null(strstr(at, "[1 got0.3 +500]"));
}

static void test_slow_and_jumping(void **state)
{
    (void)state;
    struct cop_sim *sim = fake_sim(3, NULL, 0);
    fake_connect(sim, 0, 0, 1);
    fake_do(sim, "at 20 slow 0 > 1 100");
    fake_do(sim, "at 20 slow 2 1000");
    fake_do(sim, "at 20 jump 1 5000");
    fake_send(sim, 30, 0, 1, 1);
    fake_send(sim, 30, 2, 0, 1);
    run(sim);
    assert_true(fake_heard("[1 got0.1 +5140]"));
    assert_true(fake_heard("[0 got2.1 +1040]"));
}

static void test_a_lie_is_a_refusal_by_the_living(void **state)
{
    (void)state;
    struct cop_sim *sim = fake_sim(2, NULL, 0);
    fake_connect(sim, 0, 0, 1);
    fake_do(sim, "at 50 lie 0 about 1");
    fake_connect(sim, 60, 0, 1);
    fake_send(sim, 70, 1, 0, 1);
    cop_sim_run(sim, COP_TIME_NEVER);
    assert_true(cop_sim_was_lied_to(sim));
    assert_false(cop_sim_was_disturbed(sim));
    cop_sim_destroy(sim);
    assert_true(fake_heard("[0 refused1 +50]"));
    assert_true(fake_heard("[0 up1.1 +70]"));
    assert_true(fake_heard("[0 got1.1 +80]"));
}

static void test_actions_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    struct cop_sim *sim = fake_sim(2, NULL, 0);
    struct cop_sim_action action;
    memset(&action, 0, sizeof(action));
    action.kind = COP_SIM_PAUSE;
    action.a = 2;
    assert_int_equal(cop_sim_at(sim, &action), COP_EINVAL);
    action.a = 0;
    action.kind = COP_SIM_BREAK;
    action.b = 0;
    assert_int_equal(cop_sim_do(sim, &action), COP_EINVAL);
    action.kind = COP_SIM_PARTITION;
    assert_int_equal(cop_sim_do(sim, &action), COP_EINVAL);
    action.kind = COP_SIM_PAUSE;
    action.when = COP_SIM_AFTER_SEND;
    action.count = 1;
    assert_int_equal(cop_sim_at(sim, &action), COP_EINVAL);
    cop_sim_destroy(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_up_before_the_first_frame),
        cmocka_unit_test(test_connected_once),
        cmocka_unit_test(test_a_crash_is_heard_after_the_last_frame),
        cmocka_unit_test(test_crash_after_a_send_loses_the_rest),
        cmocka_unit_test(test_crash_before_a_receive),
        cmocka_unit_test(test_a_crash_can_cut_what_is_under_way),
        cmocka_unit_test(test_the_dead_refuse),
        cmocka_unit_test(test_a_restart_has_a_new_incarnation),
        cmocka_unit_test(test_frames_for_an_earlier_life_are_lost),
        cmocka_unit_test(test_a_broken_connection_loses_nothing),
        cmocka_unit_test(test_a_break_and_then_a_crash),
        cmocka_unit_test(test_a_partition_holds_frames_until_it_heals),
        cmocka_unit_test(test_a_long_partition_is_silent),
        cmocka_unit_test(test_news_of_a_death_waits_behind_a_partition),
        cmocka_unit_test(test_a_paused_node_hears_later_in_order),
        cmocka_unit_test(test_slow_and_jumping),
        cmocka_unit_test(test_a_lie_is_a_refusal_by_the_living),
        cmocka_unit_test(test_actions_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
