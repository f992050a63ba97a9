/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_PROBE_PROBE_H
#define COP_PROBE_PROBE_H

#include "sweep/sweep.h"

/*
 * The smallest protocol on sweeps: ask everyone in a tree, count who answers, name who
 * does not. It is how the command looks at a cluster, and how the tests look at
 * sweeps.
 */
extern const struct cop__layer cop__probe_layer;
extern const struct cop__protocol cop__probe_protocol;

#define COP__PROBE_PROTOCOL 0u
#define COP__PROBE_TIMEOUT (UINT64_C(10) * COP_SEC)

#endif
