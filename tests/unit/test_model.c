/* SPDX-License-Identifier: Apache-2.0 */
/* The models, at the parameters of the machines that they were published for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/model.h"

#include <coppice/error.h>
#include <math.h>
#include <string.h>

/* cmocka compares floats; times need more digits. */
static void assert_ns(double got, double wanted)
{
    assert_true(fabs(got - wanted) < 1e-3);
}

static const struct model_machine bluegene = {.latency_ns = 4600, .compute_ns = 2000};
static const struct model_machine ethernet = {.latency_ns = 118000, .compute_ns = 2000};

static double base_of(const struct model_machine *machine, uint32_t n, uint32_t arity)
{
    struct model_point point;
    assert_int_equal(model_predict(machine, n, arity, &point), 0);
    assert_true(point.has[MODEL_BASE]);
    assert_int_equal(point.refined, MODEL_BASE);
    return point.ts_ns[MODEL_BASE];
}

/* By hand: 1,024 nodes are 11 levels of a binary tree and 6 of one with four children. */
static void base_model_on_both_machines(void **state)
{
    (void)state;
    assert_ns(base_of(&bluegene, 1024, 2), 2 * 4600 * 10 + 2000 * 11);
    assert_ns(base_of(&bluegene, 1024, 4), 2 * 4600 * 5 + 2000 * 6);
    assert_ns(base_of(&ethernet, 47, 2), 2 * 118000 * 5 + 2000 * 6);
    assert_ns(base_of(&ethernet, 47, 4), 2 * 118000 * 3 + 2000 * 4);
    assert_ns(base_of(&bluegene, 1, 2), 2000);
    assert_ns(base_of(&bluegene, 1024, MODEL_FLAT), 2 * 4600 + 2 * 2000);
    assert_ns(base_of(&bluegene, 13, 3), 2 * 4600 * 2 + 2000 * 3);
}

/* "the height ... increases by one (above 5 and 21 nodes)" for four children. */
static void base_model_is_a_step_curve(void **state)
{
    (void)state;
    for (uint32_t n = 2; n < 47; n++) {
        bool is_higher = base_of(&ethernet, n + 1, 4) > base_of(&ethernet, n, 4);
        assert_int_equal(is_higher, n == 5 || n == 21);
        is_higher = base_of(&ethernet, n + 1, 2) > base_of(&ethernet, n, 2);
        assert_int_equal(is_higher, ((n + 1) & n) == 0);
    }
}

/*
 * 4 x 2 x 1, binary, seven nodes: 0 to 1 and to 2 are 1 and 2 hops (around); 1 = (1,0) to
 * 3 = (3,0) is 2, to 4 = (0,1) is 2; 2 = (2,0) to 5 = (1,1) is 2, to 6 = (2,1) is 1.
 */
static void distance_model_by_hand(void **state)
{
    (void)state;
    struct model_machine machine = bluegene;
    struct model_point point;
    machine.has_torus = true;
    memcpy(machine.dims, (uint32_t[]){4, 2, 1}, sizeof machine.dims);
    assert_int_equal(model_predict(&machine, 7, 2, &point), 0);
    assert_int_equal(point.hops, 2 + 2);
    assert_int_equal(point.levels, 3);
    assert_int_equal(point.refined, MODEL_DISTANCE);
    assert_ns(point.ts_ns[MODEL_DISTANCE], 2 * 4600 * 4 + 2000 * 3);
    assert_ns(point.ts_ns[MODEL_BASE], 2 * 4600 * 2 + 2000 * 3);
    assert_false(point.has[MODEL_CONTENTION] || point.has[MODEL_BOTH]);
    /* 3 is one hop from 0, around the end; 2 is the farthest. */
    assert_int_equal(model_predict(&machine, 4, MODEL_FLAT, &point), 0);
    assert_int_equal(point.hops, 2);
}

static uint32_t apart(uint32_t a, uint32_t b, uint32_t around)
{
    uint32_t right = (b + around - a) % around, left = (a + around - b) % around;
    return right < left ? right : left;
}

/* Another way to the same sum, over children instead of parents. */
static uint32_t hops_again(uint32_t n, uint32_t k, uint32_t x, uint32_t y, uint32_t z)
{
    uint32_t sum = 0;
    for (uint64_t first = 1, width = k; first < n; first += width, width *= k) {
        uint32_t most = 0;
        for (uint64_t child = first; child < first + width && child < n; child++) {
            uint32_t a = (uint32_t)child, b = (a - 1) / k;
            uint32_t way = apart(a % x, b % x, x) + apart(a / x % y, b / x % y, y) +
                           apart(a / (x * y), b / (x * y), z);
            most = way > most ? way : most;
        }
        sum += most;
    }
    return sum;
}

static void distance_model_again(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 1024; n += n < 40 ? 1 : 41)
        for (uint32_t arity = 2; arity <= 16; arity++) {
            struct model_machine machine = bluegene;
            struct model_point point;
            machine.has_torus = true;
            memcpy(machine.dims, (uint32_t[]){8, 8, 16}, sizeof machine.dims);
            assert_int_equal(model_predict(&machine, n, arity, &point), 0);
            assert_int_equal(point.hops, hops_again(n, arity, 8, 8, 16));
            assert_true(point.ts_ns[MODEL_DISTANCE] >= point.ts_ns[MODEL_BASE]);
        }
}

/* Figures 4 and 5: "in the order of hundreds of microseconds" on two midplanes. */
static void distance_model_on_bluegene(void **state)
{
    (void)state;
    struct model_machine machine = bluegene;
    struct model_point two, four;
    machine.has_torus = true;
    memcpy(machine.dims, (uint32_t[]){8, 8, 16}, sizeof machine.dims);
    assert_int_equal(model_predict(&machine, 1024, 2, &two), 0);
    assert_int_equal(model_predict(&machine, 1024, 4, &four), 0);
    assert_true(two.ts_ns[MODEL_DISTANCE] > 100e3 && two.ts_ns[MODEL_DISTANCE] < 1e6);
    assert_true(four.ts_ns[MODEL_DISTANCE] > 100e3 && four.ts_ns[MODEL_DISTANCE] < 1e6);
    assert_true(four.ts_ns[MODEL_DISTANCE] < two.ts_ns[MODEL_DISTANCE]);
}

static void a_torus_that_is_not_given_is_a_cube(void **state)
{
    (void)state;
    struct model_machine machine = bluegene;
    struct model_point point;
    machine.has_torus = true;
    assert_int_equal(model_predict(&machine, 60, 2, &point), 0);
    assert_int_equal(point.dims[0] * point.dims[1] * point.dims[2], 64);
    assert_int_equal(point.hops, hops_again(60, 2, 4, 4, 4));
    memcpy(machine.dims, (uint32_t[]){4, 4, 4}, sizeof machine.dims);
    assert_int_equal(model_predict(&machine, 64, 2, &point), 0);
    assert_int_equal(model_predict(&machine, 65, 2, &point), COP_ERANGE);
    memcpy(machine.dims, (uint32_t[]){8, 8, 0}, sizeof machine.dims);
    assert_int_equal(model_predict(&machine, 4, 2, &point), COP_ERANGE);
    assert_int_equal(model_predict(&bluegene, 4, 1, &point), COP_EINVAL);
    assert_int_equal(model_predict(&bluegene, 0, 2, &point), COP_EINVAL);
}

/* Latencies that grow with n and with the fan-out, as contention makes them. */
static struct latency_row grown[] = {
    {.fan_out = 1, .n = 2, .ns.median = 100e3},
    {.fan_out = 2, .n = 3, .ns.median = 120e3},
    {.fan_out = 2, .n = 31, .ns.median = 400e3},
    {.fan_out = 4, .n = 5, .ns.median = 200e3},
    {.fan_out = 4, .n = 45, .ns.median = 1000e3},
};
static const struct latencies contended = {.rows = grown, .count = 5};

static void contention_replaces_the_latency(void **state)
{
    (void)state;
    struct model_machine machine = ethernet;
    struct model_point point;
    machine.contended = &contended;
    assert_int_equal(model_predict(&machine, 31, 2, &point), 0);
    assert_int_equal(point.refined, MODEL_CONTENTION);
    assert_int_equal(point.contended.origin, LATENCY_MEASURED);
    assert_ns(point.ts_ns[MODEL_CONTENTION], 2 * 400e3 * 4 + 2000 * 5);
    assert_ns(point.ts_ns[MODEL_BASE], 2 * 118e3 * 4 + 2000 * 5);
    assert_int_equal(model_predict(&machine, 15, 4, &point), 0);
    assert_int_equal(point.contended.fan_out, 4);
    assert_ns(point.ts_ns[MODEL_CONTENTION], 2 * 400e3 * 2 + 2000 * 3);
}

static void both_refinements_at_once(void **state)
{
    (void)state;
    struct model_machine machine = {.compute_ns = 2000,
                                    .has_torus = true,
                                    .dims = {4, 2, 1},
                                    .contended = &contended};
    struct model_point point;
    assert_int_equal(model_predict(&machine, 7, 2, &point), 0);
    assert_false(point.has[MODEL_BASE] || point.has[MODEL_DISTANCE]);
    assert_int_equal(point.refined, MODEL_BOTH);
    double latency = 120e3 + (400e3 - 120e3) * 4 / 28;
    assert_ns(point.ts_ns[MODEL_BOTH], 2 * latency * 4 + 2000 * 3);
    assert_ns(point.ts_ns[MODEL_CONTENTION], 2 * latency * 2 + 2000 * 3);
}

static void the_best_is_the_least_and_the_first(void **state)
{
    (void)state;
    static const uint32_t arities[] = {2, 4, 8, MODEL_FLAT};
    struct model_machine machine = ethernet;
    struct model_point points[4];
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(model_predict(&machine, 9, arities[i], &points[i]), 0);
    /* 9 nodes below 8 children are flat, too: of equals the first. */
    assert_int_equal(model_best(points, 4), 2);
    machine.contended = &contended;
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(model_predict(&machine, 45, arities[i], &points[i]), 0);
    /* 6 levels at 540 us, 4 at 1 ms, 3 at 1 ms, 2 at 1 ms. */
    assert_int_equal(model_best(points, 2), 0);
    assert_int_equal(model_best(points, 4), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(base_model_on_both_machines),
        cmocka_unit_test(base_model_is_a_step_curve),
        cmocka_unit_test(distance_model_by_hand),
        cmocka_unit_test(distance_model_again),
        cmocka_unit_test(distance_model_on_bluegene),
        cmocka_unit_test(a_torus_that_is_not_given_is_a_cube),
        cmocka_unit_test(contention_replaces_the_latency),
        cmocka_unit_test(both_refinements_at_once),
        cmocka_unit_test(the_best_is_the_least_and_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
