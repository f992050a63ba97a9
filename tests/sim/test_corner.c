/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/sim.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the first three above. */
#include <cmocka.h>

/*
 * D17: those before in line have lost most of their links, one by one, and reach only each other and
 * one of the rest. They are few, and agree with each other on whatever they see; but those whom they
 * do not reach are connected with each other (the core), and nobody of the core is removed.
 */

#define PERIOD (100 * COP_MSEC)
#define CUTS_MAX 3

/* Each cuts a..b off from c..d; LAST is the last member. */
#define LAST COP_ID_NONE
static const struct schedule {
    const char *name;
    uint32_t core; /* all from here on */
    bool drained;  /* 1 is */
    struct {
        cop_id a, b, c, d;
    } cuts[CUTS_MAX];
} schedules[] = {
    {"0 reaches 1", 1, false, {{0, 0, 2, LAST}}},
    {"0 reaches 1, which reaches 2", 2, false, {{0, 0, 2, LAST}, {1, 1, 3, LAST}}},
    {"a chain of three", 3, false, {{0, 0, 2, LAST}, {1, 1, 3, LAST}, {2, 2, 4, LAST}}},
    {"0 and 1 reach 2", 2, false, {{0, 1, 3, LAST}}},
    {"0 reaches 2, which reaches 3",
     3,
     false,
     {{0, 0, 1, 1}, {0, 0, 3, LAST}, {2, 2, 4, LAST}}},
    {"0 reaches 1, which is drained", 2, true, {{0, 0, 2, LAST}}},
    {"a chain, and 1 is drained", 2, true, {{0, 0, 2, LAST}, {1, 1, 3, LAST}}},
};
#define SCHEDULES (sizeof schedules / sizeof *schedules)

static struct cop_sim *create(uint32_t n, int shape, uint32_t witnesses, uint64_t seed)
{
    static const struct cop_sim_checker *checkers[3];
    static const enum cop_shape_kind kinds[] = {COP_SHAPE_FLAT, COP_SHAPE_RADIX,
                                                COP_SHAPE_CHAIN};
    checkers[0] = cop_sim_checker_node();
    checkers[1] = cop_sim_checker_member();
    struct cop_sim_config config = {
        .nodes = n,
        .seed = seed,
        .quorum = COP_QUORUM_MAJORITY,
        .detect = {.ring_period_ns = PERIOD, .witnesses = witnesses},
        .net = {.latency_ns = 50 * COP_USEC, .jitter_ns = 30 * COP_USEC},
        .flags = COP_SIM_CHECK | COP_SIM_CODEC,
        .checkers = checkers,
    };
    struct cop_sim *sim;
    assert_int_equal(cop_shape_make(kinds[shape], shape == 1 ? 2 : 0, &config.shape),
                     0);
    assert_int_equal(cop_sim_create(&config, &sim), 0);
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

static void drain(struct cop_sim *sim, cop_id by, cop_id whom)
{
    struct cop_sim_action action = {
        .kind = COP_SIM_DRAIN,
        .a = by,
        .b = whom,
        .request = {.kind = COP_REQUEST_DRAIN, .token = 7, .member = whom}};
    assert_int_equal(cop_sim_do(sim, &action), 0);
    run(sim, COP_SEC);
}

static void cut(struct cop_sim *sim, const struct schedule *schedule)
{
    cop_id last = cop_sim_nodes(sim) - 1;
    for (int i = 0; i < CUTS_MAX && schedule->cuts[i].d != 0; i++) {
        cop_id d = schedule->cuts[i].d == LAST ? last : schedule->cuts[i].d;
        struct cop_sim_action action = {
            .kind = COP_SIM_PARTITION,
            .left = {.ranges = {{schedule->cuts[i].a, schedule->cuts[i].b}},
                     .count = 1},
            .right = {.ranges = {{schedule->cuts[i].c, d}}, .count = 1},
        };
        assert_int_equal(cop_sim_do(sim, &action), 0);
    }
}

static const struct cop_view *view_at(const struct cop_sim *sim, cop_id id)
{
    return cop_node_view(cop_sim_node(sim, id));
}

/* All of the core are in its views, and never were out: else they had other lives. */
static void check_core(const struct cop_sim *sim, const struct schedule *schedule)
{
    for (cop_id id = schedule->core; id < cop_sim_nodes(sim); id++)
        for (cop_id of = schedule->core; of < cop_sim_nodes(sim); of++)
            if (!cop_sim_node(sim, id) || !cop_view_has(view_at(sim, id), of, 1))
                fail_msg("%s, n %u: %u is not in the view of %u", schedule->name,
                         (unsigned)cop_sim_nodes(sim), (unsigned)of, (unsigned)id);
}

/* A chain of three is nearly half of seven: there it is not promised. */
static bool is_promised(const struct schedule *schedule, uint32_t n)
{
    return n > 7 || schedule->core < 3;
}

static void test_the_core_is_not_worn_down(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {7, 16, 32};
    for (uint32_t i = 0; i < SCHEDULES * 3 * 3; i++) {
        const struct schedule *schedule = &schedules[i % SCHEDULES];
        uint32_t n = sizes[i / SCHEDULES % 3];
        if (!is_promised(schedule, n))
            continue;
        struct cop_sim *sim = create(n, (int)(i / SCHEDULES / 3), 2, i);
        run(sim, COP_SEC);
        if (schedule->drained)
            drain(sim, 0, 1);
        cut(sim, schedule);
        run(sim, 15 * COP_SEC);
        check_core(sim, schedule);
        act(sim, COP_SIM_HEAL, 0);
        run(sim, 10 * COP_SEC);
        check_core(sim, schedule);
        cop_sim_destroy(sim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_core_is_not_worn_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
