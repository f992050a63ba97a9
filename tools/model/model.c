/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

#include "base/assert.h"
#include "sim/torus.h"

#include <coppice/error.h>
#include <string.h>

#define LEVELS_MAX 32u /* of a tree of 2^24 ranks and an arity of at least 2 */

const char *model_name(enum model_kind kind)
{
    static const char *const names[MODEL_KINDS] = {"base", "distance", "contention",
                                                   "both"};
    return names[kind];
}

/* ---- trees ----------------------------------------------------------------------- */

uint32_t model_hops(const struct cop_tree *tree, const uint32_t dims[3])
{
    uint32_t longest[LEVELS_MAX] = {0};
    uint32_t sum = 0;
    COP_ASSERT(cop_tree_depth(tree, tree->root) <= LEVELS_MAX);
    for (cop_rank rank = 0; rank < tree->n; rank++) {
        cop_rank parent = cop_tree_parent(tree, rank);
        if (parent == COP_RANK_NONE)
            continue;
        uint32_t hops = cop__torus_hops(dims, parent, rank);
        uint32_t level = cop_tree_level(tree, rank);
        if (hops > longest[level])
            longest[level] = hops;
    }
    for (uint32_t level = 0; level < LEVELS_MAX; level++)
        sum += longest[level];
    return sum;
}

static int make_shape(uint32_t arity, struct cop_shape *out)
{
    if (arity == MODEL_FLAT)
        return cop_shape_make(COP_SHAPE_FLAT, 0, out);
    bool is_power = (arity & (arity - 1)) == 0;
    return cop_shape_make(is_power ? COP_SHAPE_RADIX : COP_SHAPE_KARY, arity, out);
}

/* ---- predictions ----------------------------------------------------------------- */

static int place(const struct model_machine *machine, const struct cop_tree *tree,
                 struct model_point *point)
{
    const uint32_t *dims = machine->dims;
    if (dims[0] == 0 && dims[1] == 0 && dims[2] == 0)
        cop__torus_near_cube(tree->n, point->dims);
    else if (cop__torus_holds(dims, tree->n))
        memcpy(point->dims, dims, sizeof point->dims);
    else
        return COP_ERANGE;
    point->hops = model_hops(tree, point->dims);
    return 0;
}

/* Every model for which there is a latency and a number of steps. */
static void fill_in(const struct model_machine *machine, struct model_point *point)
{
    const bool has_steps[2] = {true, machine->has_torus};
    const bool has_latency[2] = {machine->latency_ns > 0, machine->contended != NULL};
    const double steps[2] = {point->levels - 1, point->hops};
    const double latency_ns[2] = {(double)machine->latency_ns, point->contended.ns};
    double computed_ns = (double)machine->compute_ns * point->levels;
    for (unsigned kind = 0; kind < MODEL_KINDS; kind++) {
        bool far = kind & MODEL_DISTANCE, crowded = kind & MODEL_CONTENTION;
        point->has[kind] = has_steps[far] && has_latency[crowded];
        if (!point->has[kind])
            continue;
        point->ts_ns[kind] = 2 * latency_ns[crowded] * steps[far] + computed_ns;
        point->refined = (enum model_kind)kind;
    }
}

int model_predict(const struct model_machine *machine, uint32_t n, uint32_t arity,
                  struct model_point *out)
{
    struct model_point point = {.n = n, .arity = arity};
    COP_ASSERT(machine->latency_ns > 0 || machine->contended != NULL);
    int error = make_shape(arity, &point.shape);
    struct cop_tree tree = {.shape = point.shape, .n = n};
    if (error == 0)
        error = cop_tree_check(&tree);
    if (error == 0 && machine->has_torus)
        error = place(machine, &tree, &point);
    if (error != 0)
        return error;
    point.levels = cop_tree_depth(&tree, 0);
    if (machine->contended != NULL)
        point.contended =
            latencies_at(machine->contended, arity == MODEL_FLAT ? n - 1 : arity, n);
    fill_in(machine, &point);
    *out = point;
    return 0;
}

uint32_t model_best(const struct model_point *points, uint32_t count)
{
    uint32_t best = 0;
    COP_ASSERT(count >= 1);
    for (uint32_t i = 1; i < count; i++)
        if (points[i].ts_ns[points[i].refined] <
            points[best].ts_ns[points[best].refined])
            best = i;
    return best;
}
