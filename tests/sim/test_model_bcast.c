/* SPDX-License-Identifier: Apache-2.0 */
#include "model/bcast.h"

#include <coppice/coll.h>
#include <coppice/error.h>
#include <coppice/sim.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
/* cmocka needs the first three above. */
#include <cmocka.h>

/*
 * The model of broadcasts against real nodes on a simulated network that has just its two
 * numbers: LogGP with the gap o, the latency l and nothing else. To the nanosecond.
 */
#define SERVICE 9u

struct world {
    cop_time last; /* when the last member was told to run it */
    uint32_t told;
};

static void on_upcall(void *context, struct cop_sim *sim, cop_id node,
                      const struct cop_upcall *upcall)
{
    struct world *world = context;
    struct cop_coll coll = {.handle = upcall->handle};
    struct cop_request request = {.kind = COP_REQUEST_REPLY, .coll = &coll};
    assert_int_equal(upcall->kind, COP_UPCALL_RUN);
    world->last = cop_sim_now(sim);
    world->told++;
    assert_int_equal(cop_sim_answer(sim, node, &request, 0), 0);
}

static void submit(struct cop_sim *sim, cop_time at, uint64_t token)
{
    struct cop_sim_action bcast;
    memset(&bcast, 0, sizeof(bcast));
    bcast.kind = COP_SIM_BCAST;
    bcast.at = at;
    bcast.b = COP_ID_NONE;
    bcast.request.kind = COP_REQUEST_BCAST;
    bcast.request.token = token;
    bcast.coll.flags = COP_BCAST_HEAL;
    assert_int_equal(cop_sim_at(sim, &bcast), 0);
}

/* The first makes the connections; the second counts. */
static cop_time simulated(const struct cop_shape *shape, uint32_t n, cop_time o_ns,
                          cop_time l_ns)
{
    struct world world = {0};
    struct cop_service service = {1, 1, COP_WANTS(COP_UPCALL_RUN)};
    const struct cop_sim_checker *const checkers[] = {cop_sim_checker_node(), NULL};
    struct cop_sim_config config = {
        .nodes = n,
        .shape = *shape,
        .seed = 1,
        .net = {.kind = COP_SIM_NET_LOGGP, .latency_ns = l_ns, .gap_ns = o_ns},
        .services = &service,
        .service_count = 1,
        .upcall = on_upcall,
        .context = &world,
        .checkers = checkers,
    };
    struct cop_sim *sim;
    assert_int_equal(cop_sim_create(&config, &sim), 0);
    submit(sim, 0, 1);
    submit(sim, COP_SEC, 2);
    cop_sim_run(sim, 2 * COP_SEC);
    assert_null(cop_sim_failure(sim));
    assert_int_equal(world.told, 2 * n);
    cop_sim_destroy(sim);
    return world.last - COP_SEC;
}

static const struct {
    cop_time o_ns, l_ns;
} cases[] = {{5000, 5000}, {9000, 2000}, {1000, 12000}};
static const char *const shapes[] = {"knomial:2", "knomial:3", "knomial:4", "kary:2",
                                     "kary:4",    "flat",      "chain"};

static struct model_bcast predict(const char *text, uint32_t n, size_t i)
{
    struct cop_shape shape;
    struct model_bcast point;
    assert_int_equal(cop_shape_parse(text, &shape, NULL, 0), 0);
    assert_int_equal(model_bcast(&shape, n, cases[i].o_ns, cases[i].l_ns, &point), 0);
    return point;
}

static void test_against_the_simulator(void **state)
{
    static const uint32_t sizes[] = {2, 3, 8, 14, 16, 27, 64, 100};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (size_t j = 0; j < sizeof(shapes) / sizeof(shapes[0]); j++)
            for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
                struct cop_shape shape;
                struct model_bcast point = predict(shapes[j], sizes[k], i);
                assert_int_equal(cop_shape_parse(shapes[j], &shape, NULL, 0), 0);
                cop_time got =
                    simulated(&shape, sizes[k], cases[i].o_ns, cases[i].l_ns);
                if (got != point.last_ns)
                    fail_msg("%s, %u nodes, case %u: %llu ns, not %llu", shapes[j],
                             (unsigned)sizes[k], (unsigned)i, (unsigned long long)got,
                             (unsigned long long)point.last_ns);
            }
}

/* The same as a script, which needs no service of ours, at a size that takes a moment. */
static void test_many(void **state)
{
    static const char text[] = "nodes 16384\nshape knomial:2\nseed 1\nflags quiet\n"
                               "net loggp 2us 0ns 9us 0\nuntil-complete\n"
                               "at 0ns bcast 0 timeout 1s prompt\n";
    struct cop_sim_script script;
    struct cop_sim_report report;
    char message[256];
    (void)state;
    assert_int_equal(cop_sim_script_parse(text, &script, message, sizeof(message)), 0);
    script.config.flags &= ~(uint32_t)COP_SIM_CHECK;
    char *printed = cop_sim_script_print(&script);
    assert_non_null(strstr(printed, " prompt"));
    free(printed);
    assert_int_equal(cop_sim_script_run(&script, &report), 0);
    cop_sim_script_free(&script);
    assert_int_equal(report.answered, 16384);
    struct model_bcast point = predict("knomial:2", 16384, 1);
    assert_int_equal(report.told_ns, point.last_ns);
    assert_true(report.completed_ns > report.told_ns);
}

/* What `coppice model bcast --simulate` does. */
static void test_simulate(void **state)
{
    static const char *const few[] = {"knomial:2", "kary:4", "chain"};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (size_t j = 0; j < sizeof(few) / sizeof(few[0]); j++) {
            struct cop_shape shape;
            cop_time got;
            assert_int_equal(cop_shape_parse(few[j], &shape, NULL, 0), 0);
            assert_int_equal(
                model_bcast_simulate(&shape, 200, cases[i].o_ns, cases[i].l_ns, &got),
                0);
            assert_int_equal(got, predict(few[j], 200, i).last_ns);
        }
    struct cop_shape none = {.kind = COP_SHAPE_KARY};
    cop_time untouched = 7;
    assert_int_equal(model_bcast_simulate(&none, 8, 1, 1, &untouched), COP_EINVAL);
    assert_int_equal(untouched, 7);
}

/* The three cases, by the formula: a leaf at level x of 2^k has it after x l + (k - x) o. */
static void test_three_cases(void **state)
{
    (void)state;
    struct model_bcast equal = predict("knomial:2", 64, 0);
    assert_int_equal(equal.first_ns, 6 * 5000);
    assert_int_equal(equal.last_ns, 6 * 5000);
    assert_int_equal(equal.last_ns, model_bcast_bound(64, 5000, 5000));
    struct model_bcast slow_sends = predict("knomial:2", 64, 1);
    assert_int_equal(slow_sends.deepest_ns, 6 * 2000); /* the first */
    assert_int_equal(slow_sends.first_ns, 6 * 2000);
    assert_int_equal(slow_sends.last_ns, 2000 + 5 * 9000);
    assert_int_equal(slow_sends.last_level, 1);
    struct model_bcast slow_wires = predict("knomial:2", 64, 2);
    assert_int_equal(slow_wires.deepest_ns, 6 * 12000); /* the last */
    assert_int_equal(slow_wires.last_ns, 6 * 12000);
    assert_int_equal(slow_wires.first_ns, 12000 + 5 * 1000);
    /* And then a wider tree is better, as the binomial one is not with l = o. */
    assert_true(predict("knomial:4", 64, 2).last_ns < slow_wires.last_ns);
    assert_true(predict("knomial:4", 64, 0).last_ns > equal.last_ns);
}

static void test_bound(void **state)
{
    (void)state;
    for (uint32_t n = 2; n < 200; n += 7)
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
            for (size_t j = 0; j < sizeof(shapes) / sizeof(shapes[0]); j++)
                assert_true(model_bcast_bound(n, cases[i].o_ns, cases[i].l_ns) <=
                            predict(shapes[j], n, i).last_ns);
    assert_int_equal(model_bcast_bound(2, 7, 100), 100);
    assert_int_equal(model_bcast_bound(3, 7, 100), 107);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_cases),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_simulate),
        cmocka_unit_test(test_against_the_simulator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
