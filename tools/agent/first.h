/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_AGENT_FIRST_H
#define COP_TOOLS_AGENT_FIRST_H

#include "names/cluster.h"

/*
 * Whether this is the first start of a member in this instance of its cluster, as a file in a
 * directory remembers it: "started", with the id and the instance of the cluster. It is
 * written before the member starts, so that a second life never takes itself for the first.
 * 0, or an exit code after one line.
 */
int first_start(const char *directory, const struct cluster *cluster, bool *is_first);

#endif
