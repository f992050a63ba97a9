/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_PICK_H
#define COP_TOOLS_PICK_H

#include "local.h"

/*
 * Members as typed (a node set), as ids of the view, in order. `local` is NULL where the names
 * are those of the view alone. 0, or EXIT_USAGE or EXIT_FAILED after one line.
 */
int pick_ids(const char *command, const struct local *local, const struct roll *roll,
             const char *text, struct cop_ranks *out);

#endif
