/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_COLL_COLL_H
#define COP_COLL_COLL_H

#include "sweep/sweep.h"

#include <coppice/coll.h>

/*
 * Requests to groups of members, and their answers: see coppice/coll.h for what it promises
 * and docs/collectives.md for where each rule is carried out.
 */
extern const struct cop__layer cop__coll_layer;
extern const struct cop__protocol cop__coll_protocol;

#define COP__COLL_PROTOCOL 2u
#define COP__COLL_TIMEOUT (UINT64_C(10) * COP_SEC)

/* Services that are there from the start. COP_EINVAL, COP_ENOMEM. */
int cop__coll_register(struct cop_node *node, const struct cop_service *services,
                       uint32_t count);

/* Whether a call that a service was told of has not ended. */
bool cop__coll_is_under_way(const struct cop_node *node, uint64_t handle);

/* Whether a call that heals can begin here now. */
bool cop__coll_has_room(const struct cop_node *node);

cop__handler cop__on_call, cop__on_returned, cop__on_cancel;
/* bulk */
cop__handler cop__on_pull, cop__on_chunk;

#endif
