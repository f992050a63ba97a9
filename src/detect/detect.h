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

/*
 * Where views change (V-rules), news does not flood: the layer that makes views carries it to
 * the root, and its proposals tell everyone else.
 */

/* Whether I have found out myself that `id` is gone: what others say is no proof. */
bool cop__detect_has_found(const struct cop_node *node, cop_id id);
/* Somebody outside knows that it is gone. */
void cop__detect_accuse(struct cop_node *node, cop_id id);
/* Tells a suspect, once, what is said of it. */
void cop__detect_tell_suspect(struct cop_node *node, cop_id id);
/* Sends what I hold of `ids` (NULL: of everyone) to `to`. */
void cop__detect_send_news(struct cop_node *node, cop_id to,
                           const struct cop_ranks *ids);

bool cop__detect_admit(struct cop_node *node, const struct cop_header *header);
cop__handler cop__on_news;

#endif
