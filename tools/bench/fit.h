/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_BENCH_FIT_H
#define COP_TOOLS_BENCH_FIT_H

#include <coppice/types.h>

/*
 * The models of T_s (model/model.h) the other way round: all of them are
 *
 *   T = latency * ways + compute * levels
 *
 * so two numbers are looked for that come nearest to what was measured. Errors are
 * relative, for the measurements span decades; neither number may be negative.
 */
struct fit_point {
    double ways;   /* 2 (H - 1), or twice the hops; or the same with a known latency */
    double levels; /* H */
    double measured_ns;
};

struct fit {
    double latency_ns; /* a factor, if the ways are in nanoseconds already */
    double compute_ns;
    double error; /* root of the mean square of the relative errors */
};

/* Least squares. COP_EINVAL without a point, or if one of them is not positive. */
int fit_points(const struct fit_point *points, uint32_t count, struct fit *out);

/* The relative error of a model that was not fitted to these points. */
double fit_error(const struct fit_point *points, uint32_t count, double latency_ns,
                 double compute_ns);

#endif
