/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_DETECT_HEIR_H
#define COP_DETECT_HEIR_H

#include "node/node.h"

/*
 * Who would be my parent if the one that I have died now: its parent, or the stand-in of the
 * root. `crowd` is about how many members have the same one.
 */
struct cop__heir {
    cop_id id; /* COP_ID_NONE: I have no parent, or would be the root */
    uint32_t crowd;
};

/* 0 or COP_ENOMEM. */
int cop__heir(const struct cop_node *node, struct cop__heir *out);

#endif
