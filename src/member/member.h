/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_MEMBER_MEMBER_H
#define COP_MEMBER_MEMBER_H

#include "sweep/sweep.h"

/*
 * Views: who is in the cluster, the same everywhere. A change is reported to the root, which
 * proposes a difference to the last view, collects an acknowledgement from everyone in the
 * proposed one, and commits. Proposal, acknowledgements and commit are one sweep with an
 * outcome (rules V1-V19 of docs/PROTOCOL.md), so what dies on the way is passed around; a
 * proposal in which somebody died does not commit, and is made again without it.
 */
extern const struct cop__layer cop__member_layer;
extern const struct cop__protocol cop__member_protocol;

#define COP__MEMBER_PROTOCOL 1u

/* A proposal that is not answered by then has failed. */
#define COP__PROPOSE_TIMEOUT (UINT64_C(5) * COP_SEC)
/* A failed proposal is made again after this, longer each time. */
#define COP__PROPOSE_AGAIN (UINT64_C(20) * COP_MSEC)
/* Who acknowledged and hears no more asks, and again after this, longer each time. */
#define COP__SYNC_AGAIN (UINT64_C(50) * COP_MSEC)
/* What was reported and is not answered by a view is reported again, at first after this. */
#define COP__REPORT_AGAIN COP_SEC
/* So long a frame of a view that I do not have is kept, and so often I ask for the view. */
#define COP__HELD_FOR (UINT64_C(5) * COP_SEC)
#define COP__HELD_AGAIN COP_SEC
/* Who joins asks again after this, longer each time. */
#define COP__JOIN_AGAIN (UINT64_C(100) * COP_MSEC)
/* Who finds nobody to ask gets another invitation after this. */
#define COP__ALONE COP_SEC
/* Those who come within this join with one view. */
#define COP__JOIN_MOMENT COP_MSEC
/* So long a proposal waits for those who join and were just told of the view before it. */
#define COP__JOIN_GATHER (UINT64_C(20) * COP_MSEC)
/* Who was invited and has not asked to join by then is forgotten. */
#define COP__INVITED_FOR (UINT64_C(10) * COP_SEC)
/* Who asked to leave and is still a member hears of it after this, unless it said otherwise. */
#define COP__LEAVE_TIMEOUT (UINT64_C(30) * COP_SEC)
/* An invitation that does not come by then does not come. */
#define COP__INVITE_TIMEOUT (UINT64_C(2) * COP_SEC)

/* V17: removals are counted over this time. */
#define COP__GUARD_WINDOW (UINT64_C(60) * COP_SEC)

/* Judges the sender of every frame by the view that I have (V12). */
bool cop__member_admit(struct cop_node *node, const struct cop_frame *frame);

/* Gives the view that I have installed to a member that has an earlier one. */
void cop__member_update(struct cop_node *node, cop_id id, cop_incarnation incarnation);
/* Keeps a frame until I have the view of its sender, for which that one is asked. False: it
 * cannot be kept, or was for long enough. */
bool cop__member_hold(struct cop_node *node, const struct cop_frame *frame);

/* The latest proposal that I acknowledged and that may still commit; NULL: none. Borrowed. For
 * who looks on. */
struct cop_view *cop__member_acknowledged(const struct cop_node *node);

cop__handler cop__on_join, cop__on_whole, cop__on_sync, cop__on_out, cop__on_invite,
    cop__on_invited, cop__on_drain;

#endif
