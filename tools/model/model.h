/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_MODEL_MODEL_H
#define COP_TOOLS_MODEL_MODEL_H

#include "number/latencies.h"

#include <coppice/tree.h>

/*
 * T_s: how long a membership change takes to go down a tree and be acknowledged up it.
 * Models of Varma et al., ICS 2006, with the height H in levels, the latency L of one
 * message and the time O that a node computes:
 *
 *   base        2 L (H - 1) + O H
 *   distance    2 L D + O H, D the sum over the levels of the longest way in hops
 *               between a parent and a child on a torus
 *   contention  base, with the latency that was measured for as many nodes as L
 *   both        distance with that latency; this one is not theirs
 *
 * All four are 2 * latency * steps + O H. Two refinements, each taken or not, are the
 * two bits of a model's number; a model with more bits is the more refined one.
 */
enum model_kind {
    MODEL_BASE = 0,
    MODEL_DISTANCE = 1,
    MODEL_CONTENTION = 2,
    MODEL_BOTH = 3,
};
#define MODEL_KINDS 4

/* "base", "distance", ... */
const char *model_name(enum model_kind kind);

/* What is known of a machine. */
struct model_machine {
    cop_time latency_ns; /* L; 0: not known */
    cop_time compute_ns; /* O */
    bool has_torus;
    uint32_t dims[3];                  /* all 0: the smallest near cube for each n */
    const struct latencies *contended; /* NULL: not measured; borrowed */
};

/* What is predicted for one tree. */
struct model_point {
    uint32_t n;
    uint32_t arity; /* MODEL_FLAT for everybody below the root */
    struct cop_shape shape;
    uint32_t levels;
    uint32_t dims[3], hops;   /* with a torus: D */
    struct latency contended; /* with measured latencies */
    bool has[MODEL_KINDS];
    double ts_ns[MODEL_KINDS];
    enum model_kind refined; /* the most refined model that there is */
};
#define MODEL_FLAT 0u
#define MODEL_ARITY_MAX 1024u /* as a shape allows */

/* D of a tree whose rank r is at position r of a torus that holds them all. */
uint32_t model_hops(const struct cop_tree *tree, const uint32_t dims[3]);

/*
 * The tree of n ranks is radix:A if the arity is a power of two, else kary:K. COP_EINVAL
 * if the arity or n is not allowed, COP_ERANGE if the torus does not hold n. At least L
 * or the measured latencies must be known.
 */
int model_predict(const struct model_machine *machine, uint32_t n, uint32_t arity,
                  struct model_point *out);

/*
 * The index of the point with the least T_s by its most refined model; of equals the
 * first. count >= 1.
 */
uint32_t model_best(const struct model_point *points, uint32_t count);

#endif
