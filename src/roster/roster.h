/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_ROSTER_ROSTER_H
#define COP_ROSTER_ROSTER_H

#include "node/node.h"

/*
 * What I have heard of members. For each the largest (incarnation, denial, status)
 * with alive < leaving < suspect < reported: a join-semilattice, so it does not matter in which order, or
 * how often, news arrives. Only members of whom something other than the view says was
 * heard take memory. Nothing irrevocable is done on a suspicion.
 */
extern const struct cop__layer cop__roster_layer;

/* What I hold of a member of the view. */
struct cop__belief cop__roster_get(const struct cop_node *node, cop_id id);

/*
 * Takes in what somebody says, and tells every layer if it changes anything. Rules R1
 * (the larger wins) and R2 (a living member that hears itself suspected denies it).
 * Returns whether it was news.
 */
bool cop__roster_merge(struct cop_node *node, const struct cop__belief *heard);

/* Suspects `id` in the life that I know of: COP_SUSPECT, or COP_REPORTED if somebody outside
 * says so. */
void cop__roster_suspect(struct cop_node *node, cop_id id, enum cop_status how);

/*
 * Where views change, an incarnation is a member by a view and by nothing else, so what is
 * said of any other is not taken in (R4). Two things are: somebody who is about to join, and
 * proof that the life in the view is over (R5), which cannot be denied.
 */
void cop__roster_expect(struct cop_node *node, cop_id id, cop_incarnation incarnation);
void cop__roster_condemn(struct cop_node *node, cop_id id, cop_incarnation incarnation);
#define COP__DENIAL_FINAL (UINT32_MAX - 1)

/* Says of myself that I leave. */
void cop__roster_leave(struct cop_node *node);
bool cop__roster_is_leaving(const struct cop_node *node, cop_id id);

/* Whether this life is suspect, or over because a later one is known. */
bool cop__roster_has_lost(const struct cop_node *node, cop_id id,
                          cop_incarnation incarnation);
/* Of a lost one: whether that is more than a suspicion of ours. A later life has spoken (R5),
 * or somebody outside has. */
bool cop__roster_is_certain(const struct cop_node *node, cop_id id,
                            cop_incarnation incarnation);
/* Whether the view's member is, or is not in the view at all. */
bool cop__roster_is_suspect(const struct cop_node *node, cop_id id);

/* V9: whose turn it is to propose a change of `view`, as if `gone` were not there. NONE: nobody's. */
cop_id cop__roster_proposer(const struct cop_node *node, const struct cop_view *view,
                            cop_id gone);

/* All of these, as ranks; borrowed until the next merge. */
const struct cop_dead *cop__roster_dead(const struct cop_node *node);

/* The tree of the view, repaired around them; borrows as well. */
struct cop_tree cop__roster_tree(const struct cop_node *node);

/* All that differs from the view, by id: how many, and the i-th. */
uint32_t cop__roster_count(const struct cop_node *node);
struct cop__belief cop__roster_at(const struct cop_node *node, uint32_t i);

/* Rule R3: judges the sender of a frame by its incarnation. */
bool cop__roster_admit(struct cop_node *node, const struct cop_header *header);

/* What of the roster is of use to nobody any more, after a view was installed: all that
 * is not about a member of it, but for those that `keep` (may be NULL) wants. */
void cop__roster_prune(struct cop_node *node,
                       bool (*keep)(const struct cop_node *node, cop_id id,
                                    cop_incarnation incarnation));

/* Sends to a member in the life that I know of. Takes over the reference to `payload`. */
void cop__roster_send(struct cop_node *node, cop_id id, enum cop__kind kind,
                      struct cop_buf *payload);

#endif
