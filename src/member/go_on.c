/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/detect.h"
#include "member/state.h"

/*
 * V19. Where too few are left to change the view, or what stands in the way can never be known,
 * somebody outside may decide that those who are here go on. That is said of one view, at
 * whoever proposes; the proposal says so, and then nobody asks for a quorum. Whoever says it
 * answers for that no others go on: they would be two clusters.
 */
#define GO_ON_TIMEOUT (UINT64_C(10) * COP_SEC)
/* So many proposals in a row had no quorum of an earlier one. */
#define BLOCKED_AFTER 3u

static void end(struct cop_node *node, int status)
{
    struct cop__go_on *go_on = &cop__member(node)->go_on;
    uint64_t token = go_on->token;
    *go_on = (struct cop__go_on){0};
    cop__detect_go_on(node, 0);
    cop__emit_complete(node, token, status, NULL);
}

bool cop__go_on_is_blocked(const struct cop_node *node)
{
    const struct cop__member *member = cop__member(node);
    return member->outweighed >= BLOCKED_AFTER &&
           cop__is_same_ballot(member->outweighed_in, cop_view_ballot(node->view));
}

void cop__go_on_outweighed(struct cop_node *node)
{
    struct cop__member *member = cop__member(node);
    if (!cop__is_same_ballot(member->outweighed_in, cop_view_ballot(node->view)))
        member->outweighed = 0;
    member->outweighed_in = cop_view_ballot(node->view);
    member->outweighed++;
}

int cop__go_on_submit(struct cop_node *node, const struct cop_request *request)
{
    struct cop__member *member = cop__member(node);
    if (member->go_on.until != 0)
        return COP_EEXIST;
    if (request->target != 0 && request->target != cop_view_epoch(node->view))
        return COP_EINVAL;
    if (!member->degraded)
        return COP_ESTATE;
    member->go_on = (struct cop__go_on){
        .token = request->token,
        .of = cop_view_ballot(node->view),
        .until =
            node->now + (request->timeout_ns ? request->timeout_ns : GO_ON_TIMEOUT),
    };
    member->not_before = 0;
    cop__detect_go_on(node, member->go_on.until);
    cop__member_look_soon(node);
    return 0;
}

bool cop__go_on_is_said(const struct cop_node *node, const struct cop_view *base)
{
    const struct cop__member *member = cop__member(node);
    return member->go_on.until != 0 &&
           cop__is_same_ballot(member->go_on.of, cop_view_ballot(base));
}

void cop__go_on_mind(struct cop_node *node)
{
    const struct cop__go_on *go_on = &cop__member(node)->go_on;
    if (go_on->until == 0)
        return;
    if (!cop__is_same_ballot(go_on->of, cop_view_ballot(node->view)))
        end(node, 0);
    else if (node->now >= go_on->until)
        end(node, COP_ETIMEDOUT);
    else
        cop__member_wake_at(node, go_on->until);
}

void cop__go_on_end(struct cop_node *node, int status)
{
    if (cop__member(node)->go_on.until != 0)
        end(node, status);
}
