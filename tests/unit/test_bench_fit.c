/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bench/fit.h"

#include <coppice/error.h>
#include <math.h>

static void assert_near(double got, double wanted)
{
    assert_true(fabs(got - wanted) <= 1e-6 * fabs(wanted) + 1e-9);
}

/* Trees of 2, 4, 6 and 11 levels, as a machine with these two numbers would do them. */
#define POINTS 4u
static void make_points(struct fit_point points[POINTS], double latency, double compute)
{
    static const double levels[POINTS] = {2, 4, 6, 11};
    for (uint32_t i = 0; i < POINTS; i++) {
        points[i].levels = levels[i];
        points[i].ways = 2 * (levels[i] - 1);
        points[i].measured_ns = latency * points[i].ways + compute * points[i].levels;
    }
}

static void what_the_model_made_is_found(void **state)
{
    (void)state;
    struct fit_point points[POINTS];
    struct fit fit;
    make_points(points, 118000, 2000);
    assert_int_equal(fit_points(points, POINTS, &fit), 0);
    assert_near(fit.latency_ns, 118000);
    assert_near(fit.compute_ns, 2000);
    assert_true(fit.error < 1e-9);
}

/* Everything 10 % off in turn: the fit stays near, and says how far off it is. */
static void noise_is_said(void **state)
{
    (void)state;
    struct fit_point points[POINTS];
    struct fit fit;
    make_points(points, 5000, 3000);
    for (uint32_t i = 0; i < POINTS; i++)
        points[i].measured_ns *= i % 2 ? 1.1 : 0.9;
    assert_int_equal(fit_points(points, POINTS, &fit), 0);
    assert_true(fit.error > 0.01 && fit.error < 0.11);
    assert_near(fit.error, fit_error(points, POINTS, fit.latency_ns, fit.compute_ns));
    assert_true(fit.error <= fit_error(points, POINTS, 5000, 3000));
}

static void neither_is_negative(void **state)
{
    (void)state;
    struct fit_point points[POINTS];
    struct fit fit;
    make_points(points, 5000, -1000);
    assert_int_equal(fit_points(points, POINTS, &fit), 0);
    assert_true(fit.latency_ns > 0);
    assert_near(fit.compute_ns, 0);
    make_points(points, -100, 3000);
    assert_int_equal(fit_points(points, POINTS, &fit), 0);
    assert_near(fit.latency_ns, 0);
    assert_true(fit.compute_ns > 0);
}

/* One size of tree says nothing of which of the two it is. */
static void one_point_is_met(void **state)
{
    (void)state;
    const struct fit_point points[] = {{6, 4, 600}, {6, 4, 600}};
    struct fit fit;
    assert_int_equal(fit_points(points, 1, &fit), 0);
    assert_near(6 * fit.latency_ns + 4 * fit.compute_ns, 600);
    assert_int_equal(fit_points(points, 2, &fit), 0);
    assert_near(6 * fit.latency_ns + 4 * fit.compute_ns, 600);
    assert_true(fit.error < 1e-9);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    const struct fit_point bad[] = {{6, 4, 0}, {0, 4, 5}, {6, 4, NAN}};
    struct fit fit;
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(fit_points(&bad[i], 1, &fit), COP_EINVAL);
    assert_int_equal(fit_points(bad, 0, &fit), COP_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_model_made_is_found),
        cmocka_unit_test(noise_is_said),
        cmocka_unit_test(neither_is_negative),
        cmocka_unit_test(one_point_is_met),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
