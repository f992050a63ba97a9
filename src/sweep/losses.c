/* SPDX-License-Identifier: Apache-2.0 */
/* What deaths, returns and views change in the sweeps that are under way. */
#include "sweep/state.h"

#include "base/rankset.h"
#include "view/view.h"

/*
 * Somebody below me is lost. An answer of it that I hold stays; but if an outcome is
 * to come, those below it have to get it from me.
 */
static void lose_below(struct cop_node *node, struct cop__sweep *sweep,
                       struct cop__child *child)
{
    bool waits = child->state == CHILD_OWED;
    bool owes_outcome = child->state == CHILD_ANSWERED && sweep->wants_outcome;
    if ((waits || owes_outcome) && !sweep->has_outcome)
        cop__sweep_lose_child(node, sweep, child);
}

static void lose(struct cop_node *node, struct cop__sweep *sweep, cop_rank rank)
{
    struct cop__child *child = cop__sweep_child(sweep, rank);
    sweep->tangled = true;
    if (child)
        lose_below(node, sweep, child);
    if (rank == sweep->parent)
        cop__sweep_turn(node, sweep);
}

/* Passed around by mistake, or returned: it has to answer, or to hear how it ended. */
static void regain_child(struct cop_node *node, struct cop__sweep *sweep,
                         struct cop__child *child)
{
    if (sweep->has_outcome)
        cop__sweep_send_outcome(node, sweep, child->rank);
    else if (cop__sweep_holds(sweep, child->rank))
        cop__sweep_settle_child(node, sweep, child, CHILD_ANSWERED);
    else
        cop__sweep_ask_one(node, sweep, child->rank);
}

/*
 * Somebody lives after all, or again: if nothing of it is held it is asked (once
 * more); if it had asked me it has not got my answer; and if nobody is left above me
 * it may be the one.
 */
static void regain(struct cop_node *node, struct cop__sweep *sweep, cop_rank rank)
{
    if (sweep->answered && !sweep->refining &&
        (rank == sweep->parent || cop__rankset_has(&sweep->askers, rank)))
        cop__sweep_answer_to(node, sweep, rank);
    struct cop__child *child = cop__sweep_child(sweep, rank);
    if (child && child->state == CHILD_LOST)
        regain_child(node, sweep, child);
    if (sweep->parent == COP_RANK_NONE && !cop__sweep_is_mine(node, sweep))
        cop__sweep_turn(node, sweep);
}

/* S4: the protocol is told once, and decides; a new life ends all sweeps of the old one.
 * True if nothing is left to do. */
static bool lose_initiator(struct cop_node *node, struct cop__sweep *sweep,
                           const struct cop__change *change)
{
    bool replaced = change->kind == COP__CHANGE_REPLACED;
    /* The sweep may be of the new life: its frames can overtake the news. */
    if (replaced && sweep->incarnation >= cop__roster_get(node, change->id).incarnation)
        return true;
    const struct cop__protocol *protocol = cop__sweep_protocol(node, sweep);
    if ((replaced || change->kind == COP__CHANGE_SUSPECT) && !sweep->told) {
        sweep->told = true;
        if (protocol->on_initiator_lost)
            protocol->on_initiator_lost(node, sweep);
    }
    if (replaced && !sweep->over)
        cop__sweep_give_up(node, sweep, COP_ELOST);
    return sweep->over;
}

/* S2, S3, S4, S6: the same whether I lost the connection or was told. */
static void change_one(struct cop_node *node, struct cop__sweep *sweep,
                       const struct cop__change *change)
{
    bool replaced = change->kind == COP__CHANGE_REPLACED;
    if (change->id == sweep->initiator && lose_initiator(node, sweep, change))
        return;
    cop_rank rank = cop__sweep_rank(sweep, change->id);
    if (rank == COP_RANK_NONE)
        return;
    /* A new life of somebody above me knows nothing of this sweep. */
    if (replaced && !sweep->world &&
        cop_tree_is_below(&sweep->tree, sweep->self, rank) &&
        cop__rankset_put(&sweep->strangers, rank))
        cop__fail(node, COP_ENOMEM);
    /* That a new life is known is no loss where the new one takes part. */
    bool lost = cop__sweep_is_lost(node, sweep, rank);
    if (change->kind == COP__CHANGE_SUSPECT || (replaced && (lost || !sweep->world)))
        lose(node, sweep, rank);
    if ((replaced || change->kind == COP__CHANGE_ALIVE) &&
        !cop__sweep_is_lost(node, sweep, rank))
        regain(node, sweep, rank);
    cop__sweep_answer_if_complete(node, sweep);
}

void cop__sweeps_on_change(struct cop_node *node, const struct cop__change *change)
{
    if (change->kind == COP__CHANGE_RESTATED || change->id == node->self)
        return;
    cop__sweeps_enter(node);
    for (struct cop__sweep *sweep = cop__sweeps(node)->first; sweep;
         sweep = sweep->next)
        if (!sweep->over && !node->failed)
            change_one(node, sweep, change);
    cop__sweeps_leave(node);
}

/* Somebody of this sweep is not in the new view, or not in the life that it had. */
static void lose_by_view(struct cop_node *node, struct cop__sweep *sweep, cop_id id)
{
    if (id == sweep->initiator && id != node->self &&
        cop__sweep_life_is_over(node, id, sweep->incarnation)) {
        const struct cop__protocol *protocol = cop__sweep_protocol(node, sweep);
        if (!sweep->told && protocol->on_initiator_lost)
            protocol->on_initiator_lost(node, sweep);
        sweep->told = true;
        if (!sweep->over)
            cop__sweep_give_up(node, sweep, COP_ELOST);
        return;
    }
    cop_rank rank = cop__sweep_rank(sweep, id);
    if (rank != COP_RANK_NONE && cop__sweep_is_lost(node, sweep, rank))
        lose(node, sweep, rank);
    cop__sweep_answer_if_complete(node, sweep);
}

/* Whoever is lost by now, for whatever reason, is not waited for. */
static void lose_all_lost(struct cop_node *node, struct cop__sweep *sweep)
{
    for (uint32_t i = 0; i < sweep->child_count && !node->failed; i++)
        if (sweep->children[i].state == CHILD_OWED &&
            cop__sweep_is_lost(node, sweep, sweep->children[i].rank))
            lose(node, sweep, sweep->children[i].rank);
    if (!sweep->over)
        cop__sweep_leave_suspect(node, sweep);
    cop__sweep_answer_if_complete(node, sweep);
}

void cop__sweeps_on_view(struct cop_node *node, const struct cop_view *old)
{
    uint64_t at = 0;
    struct cop_view_change change;
    cop__sweeps_enter(node);
    while (cop_view_compare(old, node->view, &at, &change)) {
        if (change.kind != COP_VIEW_LEFT && change.kind != COP_VIEW_RETURNED)
            continue;
        for (struct cop__sweep *sweep = cop__sweeps(node)->first; sweep;
             sweep = sweep->next)
            if (!sweep->over && !node->failed)
                lose_by_view(node, sweep, change.id);
    }
    for (struct cop__sweep *sweep = cop__sweeps(node)->first; sweep;
         sweep = sweep->next)
        if (!sweep->over && !node->failed)
            lose_all_lost(node, sweep);
    cop__sweeps_leave(node);
}

void cop__sweeps_on_detour(struct cop_node *node, cop_id peer)
{
    for (struct cop__sweep *sweep = cop__sweeps(node)->first; sweep;
         sweep = sweep->next)
        if (!sweep->over && cop__sweep_rank(sweep, peer) != COP_RANK_NONE)
            cop__sweep_ask_again(node, sweep, cop__sweep_rank(sweep, peer));
}
