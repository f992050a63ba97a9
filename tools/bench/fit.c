/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/fit.h"

#include <coppice/error.h>
#include <math.h>

/* Sums over the points of products of ways, levels and 1, all over the measured time. */
struct sums {
    double ww, wl, ll, w, l;
};

static struct sums add_up(const struct fit_point *points, uint32_t count)
{
    struct sums sums = {0};
    for (uint32_t i = 0; i < count; i++) {
        double ways = points[i].ways / points[i].measured_ns;
        double levels = points[i].levels / points[i].measured_ns;
        sums.ww += ways * ways;
        sums.wl += ways * levels;
        sums.ll += levels * levels;
        sums.w += ways;
        sums.l += levels;
    }
    return sums;
}

double fit_error(const struct fit_point *points, uint32_t count, double latency_ns,
                 double compute_ns)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        double modelled = latency_ns * points[i].ways + compute_ns * points[i].levels;
        double error = modelled / points[i].measured_ns - 1;
        sum += error * error;
    }
    return sqrt(sum / count);
}

static bool is_sane(const struct fit_point *points, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!(points[i].ways > 0 && points[i].levels > 0 && points[i].measured_ns > 0))
            return false;
    return count > 0;
}

/* Where two unknowns cannot be told apart, or one would be negative, one is zero. */
static void fit_one(const struct fit_point *points, uint32_t count,
                    const struct sums *sums, struct fit *out)
{
    double latency = sums->w / sums->ww, compute = sums->l / sums->ll;
    bool by_latency =
        fit_error(points, count, latency, 0) <= fit_error(points, count, 0, compute);
    out->latency_ns = by_latency ? latency : 0;
    out->compute_ns = by_latency ? 0 : compute;
}

/* Columns that are the same but for a factor leave nothing but rounding here. */
#define SINGULAR 1e-9

int fit_points(const struct fit_point *points, uint32_t count, struct fit *out)
{
    struct fit fit;
    if (!is_sane(points, count))
        return COP_EINVAL;
    struct sums sums = add_up(points, count);
    double determinant = sums.ww * sums.ll - sums.wl * sums.wl;
    fit.latency_ns = (sums.w * sums.ll - sums.l * sums.wl) / determinant;
    fit.compute_ns = (sums.ww * sums.l - sums.wl * sums.w) / determinant;
    if (!(determinant > SINGULAR * sums.ww * sums.ll) || fit.latency_ns < 0 ||
        fit.compute_ns < 0)
        fit_one(points, count, &sums, &fit);
    fit.error = fit_error(points, count, fit.latency_ns, fit.compute_ns);
    *out = fit;
    return 0;
}
