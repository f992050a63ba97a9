/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_BASE_RANKSET_H
#define COP_BASE_RANKSET_H

#include <coppice/tree.h>

/* A cop_ranks that is kept sorted and without repetition: a small set of ranks or ids. */
bool cop__rankset_has(const struct cop_ranks *set, cop_rank rank);
/* Adds; nothing if it is there. COP_ENOMEM: unchanged. */
int cop__rankset_put(struct cop_ranks *set, cop_rank rank);
/* Removes; nothing if it is not there. */
void cop__rankset_drop(struct cop_ranks *set, cop_rank rank);

#endif
