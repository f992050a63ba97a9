/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_ASK_PICK_H
#define COP_TOOLS_ASK_PICK_H

#include "ask/follow.h"

/*
 * Members as typed (a node set), as ids of the view, in order. 0, or an exit code after one
 * line.
 */
int pick_ids(struct follow *follow, const struct roll *roll, const char *text,
             struct cop_ranks *out);

/* Ids in order as *count ranges, as they go over the wire: the first and the last of each. To
 * be freed; NULL: no memory. */
uint8_t *pick_ranges(const struct cop_ranks *ids, uint32_t *count);

#endif
