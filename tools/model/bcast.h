/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_MODEL_BCAST_H
#define COP_TOOLS_MODEL_BCAST_H

#include <coppice/tree.h>

/*
 * How long a broadcast takes to the last member, by two numbers: o, the time between two sends
 * of a node, and l, the time of a message from sender to receiver. Whoever has it sends to its
 * children at once, the deepest sub-tree first: the i-th of them (from 0) has it i o + l later.
 * In a binomial tree of 2^k nodes a leaf at level x has it after x l + (k - x) o, so
 *
 *   l = o   all leaves have it at the same time: nobody is idle, no tree is better
 *   l < o   the deepest leaf has it first: a deeper tree, with fewer sends, is better
 *   l > o   the deepest leaf has it last: a shallower and wider tree is better
 */
struct model_bcast {
    uint32_t levels;
    uint32_t most_children;
    uint32_t last_level;        /* of the leaf that has it last; the deepest of those */
    cop_time first_ns, last_ns; /* leaves */
    cop_time deepest_ns;        /* a leaf of the lowest level, the last of those */
};

/* COP_EINVAL: no such tree; COP_ENOMEM. */
int model_bcast(const struct cop_shape *shape, uint32_t n, cop_time o_ns, cop_time l_ns,
                struct model_bcast *out);

/*
 * The same by the simulator: real nodes on a network that has just these two numbers, LogGP with
 * the gap o, the latency l and nothing else. When the last service is told of an empty request
 * of the root. COP_EIO: not everybody answered; COP_EINVAL, COP_ENOMEM.
 */
int model_bcast_simulate(const struct cop_shape *shape, uint32_t n, cop_time o_ns,
                         cop_time l_ns, cop_time *last_ns);

/* No tree is faster: whoever has it sends to another one who has not, for ever. */
cop_time model_bcast_bound(uint32_t n, cop_time o_ns, cop_time l_ns);

#endif
