/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rankset.h"
#include "detect/detect.h"
#include "member/state.h"

/*
 * V2: what a member hears goes to whoever proposes: up the tree of the view, so that many
 * reports of one death become one; straight to it where the tree does not lead there. What I
 * have reported is reported again, all of it, when the proposer or the way to it is another.
 */

static cop_id next_hop(const struct cop_node *node, cop_id proposer)
{
    struct cop_tree tree = cop__roster_tree(node);
    if (cop_tree_root(&tree) != proposer || proposer == node->self)
        return proposer;
    cop_rank parent = cop_tree_parent(&tree, node->rank);
    return parent == COP_RANK_NONE ? proposer : parent;
}

/* That somebody is about to join comes from the proposer, and is no news to it. */
static bool is_worth_it(const struct cop__belief *belief)
{
    return belief->status != COP_ALIVE || belief->denial > 0;
}

/* Everything in the roster, or only what is new. */
static void send(struct cop_node *node, cop_id to, bool all)
{
    const struct cop_ranks *dirty = &cop__member(node)->dirty;
    struct cop_ranks ids = {0};
    for (uint32_t i = 0; i < cop__roster_count(node); i++) {
        struct cop__belief belief = cop__roster_at(node, i);
        if (is_worth_it(&belief) && (all || cop__rankset_has(dirty, belief.id)) &&
            cop_ranks_push(&ids, belief.id))
            cop__fail(node, COP_ENOMEM);
    }
    if (ids.count > 0)
        cop__detect_send_news(node, to, &ids);
    cop_ranks_free(&ids);
}

/* Whether the view still has somebody of whom I reported something. */
static bool is_unanswered(const struct cop_node *node)
{
    for (uint32_t i = 0; i < cop__roster_count(node); i++) {
        struct cop__belief belief = cop__roster_at(node, i);
        if (belief.status != COP_ALIVE &&
            cop_view_has(node->view, belief.id, belief.incarnation))
            return true;
    }
    return false;
}

/* The proposer may have gone on without me, and not have told me: then it does now. */
static bool is_time_again(struct cop_node *node)
{
    struct cop__member *member = cop__member(node);
    if (!is_unanswered(node)) {
        member->report_again = 0;
        member->reports = 0;
        return false;
    }
    bool again = member->report_again != 0 && node->now >= member->report_again;
    if (member->report_again == 0 || again) {
        uint32_t doublings = member->reports < 5 ? member->reports : 5;
        member->reports++;
        member->report_again = node->now + (COP__REPORT_AGAIN << doublings);
    }
    cop__member_wake_at(node, member->report_again);
    return again;
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
    bool again = is_time_again(node);
    cop_id to = again ? proposer : next_hop(node, proposer);
    bool all = again || to != member->reported_to;
    if (all || member->dirty.count > 0) {
        send(node, to, all);
        if (member->report_again != 0)
            cop__detect_rely(node, to);
    }
    member->reported_to = to;
    member->dirty.count = 0;
}
