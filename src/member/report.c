/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rankset.h"
#include "detect/detect.h"
#include "member/state.h"

/*
 * V2: what a member hears goes to whoever proposes: up the tree of the view, so that many
 * reports of one death become one; straight to it where the tree does not lead there. What I
 * have reported is reported again, all of it, when the proposer or the way to it is another.
 */

static struct cop_tree view_tree(const struct cop_node *node)
{
    return (struct cop_tree){
        .shape = *cop_view_shape(node->view),
        .n = cop_view_slots(node->view),
        .root = cop_view_root(node->view),
        .repair = COP_REPAIR_SPLICE,
        .dead = cop__roster_dead(node),
    };
}

static cop_id next_hop(const struct cop_node *node, cop_id proposer)
{
    struct cop_tree tree = view_tree(node);
    if (cop_tree_root(&tree) != proposer || proposer == node->self)
        return proposer;
    cop_rank parent = cop_tree_parent(&tree, node->rank);
    return parent == COP_RANK_NONE ? proposer : parent;
}

/* Everything in the roster, not only what is new. */
static void report_all(struct cop_node *node, cop_id to)
{
    struct cop_ranks ids = {0};
    for (uint32_t i = 0; i < cop__roster_count(node); i++)
        if (cop_ranks_push(&ids, cop__roster_at(node, i).id))
            cop__fail(node, COP_ENOMEM);
    if (ids.count > 0)
        cop__detect_send_news(node, to, &ids);
    cop_ranks_free(&ids);
}

void cop__member_report(struct cop_node *node, cop_id proposer)
{
    struct cop__member *member = cop__member(node);
    if (proposer == COP_ID_NONE || proposer == node->self) {
        member->dirty.count = 0;
        member->reported_to = COP_ID_NONE;
        return;
    }
    if (member->dirty.count == 0 && cop__roster_count(node) == 0)
        return;
    cop_id to = next_hop(node, proposer);
    if (to != member->reported_to)
        report_all(node, to);
    else if (member->dirty.count > 0)
        cop__detect_send_news(node, to, &member->dirty);
    member->reported_to = to;
    member->dirty.count = 0;
}
