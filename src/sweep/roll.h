/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_SWEEP_ROLL_H
#define COP_SWEEP_ROLL_H

#include <coppice/types.h>

/*
 * Whom a sweep is about, when that is not everybody: an ordered list of members. The place in
 * the list is the rank in the sweep's tree. Immutable, counted by reference.
 */
struct cop__roll {
    uint32_t refs;
    uint32_t count;
    cop_id *ids;     /* by rank */
    cop_rank *by_id; /* ranks, in the order of their ids */
};

/* COP_EINVAL if there is nobody, or somebody twice; COP_ENOMEM. */
int cop__roll_create(const cop_id *ids, uint32_t count, struct cop__roll **out);
struct cop__roll *cop__roll_ref(struct cop__roll *roll);
/* NULL is ignored. */
void cop__roll_unref(struct cop__roll *roll);
/* COP_RANK_NONE if it is not in the list. */
cop_rank cop__roll_rank(const struct cop__roll *roll, cop_id id);

#endif
