/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_AGREE_AGREE_H
#define COP_AGREE_AGREE_H

#include "node/node.h"

/*
 * Agreement in groups: votes go up a tree and are combined, the decision comes down, and
 * whoever dies on the way is passed around (rules G1-G13 of docs/PROTOCOL.md).
 */
extern const struct cop__layer cop__agree_layer;

#define COP__AGREE_TIMEOUT (UINT64_C(30) * COP_SEC)

/* Whether the group is there: for checkers. */
bool cop__agree_has_group(const struct cop_node *node, uint64_t number);
/* How many there are. */
uint32_t cop__agree_groups(const struct cop_node *node);

cop__handler cop__on_vote, cop__on_decide, cop__on_lock, cop__on_locked, cop__on_query,
    cop__on_standing;

#endif
