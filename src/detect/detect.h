/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_DETECT_DETECT_H
#define COP_DETECT_DETECT_H

#include "node/node.h"

/*
 * Turns evidence into suspicions, and carries the news.
 *
 * The detector is the simplest that is right: a connection that closes is tried again,
 * and one that is then refused is a death (D1). Silence is not (D2): it is tried again
 * later.
 *
 * News floods over the tree of the view, repaired by what each node knows (D3): what
 * changed goes to my neighbours, and a new neighbour is told everything. Who accuses
 * tells the accused, and so does whoever hears from a suspect (D4), so that one who
 * lives can deny it.
 */
extern const struct cop__layer cop__detect_layer;

/* Changes within this time travel together. */
#define COP__NEWS_DELAY COP_MSEC
/* After silence a watched peer is tried again. */
#define COP__RETRY_DELAY COP_SEC

bool cop__detect_admit(struct cop_node *node, const struct cop_header *header);
cop__handler cop__on_news;

#endif
