/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_BENCH_COMPUTE_H
#define COP_TOOLS_BENCH_COMPUTE_H

#include <coppice/types.h>

/*
 * What a node computes for one change of the view, from its report until everybody has
 * acknowledged it, without any I/O: n nodes in this process hand each other their
 * messages, one of them is dead, and only their own steps are on the clock. The mean
 * over the nodes; the O of the models. 0, COP_EINVAL, COP_ENOMEM; COP_ESTATE if no view
 * comes of it.
 */
int bench_compute(uint32_t n, uint32_t arity, double *compute_ns);

#endif
