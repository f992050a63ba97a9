/* SPDX-License-Identifier: Apache-2.0 */
#include "member/state.h"

#include <stdlib.h>
#include <string.h>

/*
 * Views that I hold: the installed one, those that I acknowledged, their bases, and the latest
 * that I know anybody to have installed. An acknowledgement installs nothing; a commit does.
 */

struct cop_view *cop__member_find_view(const struct cop_node *node,
                                       struct cop_ballot ballot)
{
    const struct cop__member *member = cop__member(node);
    if (cop__is_same_ballot(cop_view_ballot(node->view), ballot))
        return node->view;
    if (cop__is_same_ballot(cop_view_ballot(member->base), ballot))
        return member->base;
    /* Who is a view behind, and proposes, has to be told what it missed. */
    if (member->former && cop__is_same_ballot(cop_view_ballot(member->former), ballot))
        return member->former;
    for (uint32_t i = 0; i < member->proposal_count; i++) {
        const struct cop__proposal *proposal = &member->proposals[i];
        if (cop__is_same_ballot(cop_view_ballot(proposal->view), ballot))
            return proposal->view;
        if (cop__is_same_ballot(cop_view_ballot(proposal->base), ballot))
            return proposal->base;
    }
    return NULL;
}

void cop__member_learn(struct cop_node *node, struct cop_view *view)
{
    struct cop__member *member = cop__member(node);
    cop__member_see_epoch(node, cop_view_epoch(view));
    if (!cop__is_later(cop_view_ballot(view), cop_view_ballot(member->base)))
        return;
    struct cop_view *old = member->base;
    member->base = cop_view_ref(view);
    cop_view_unref(old);
    cop__member_look_soon(node);
}

/* ---- proposals ------------------------------------------------------------------- */

static void free_proposal(struct cop__proposal *proposal)
{
    cop_view_unref(proposal->view);
    cop_view_unref(proposal->base);
}

int cop__member_keep(struct cop_node *node, struct cop_view *view,
                     struct cop_view *base)
{
    struct cop__member *member = cop__member(node);
    if (member->proposal_count == member->proposal_capacity) {
        uint32_t capacity =
            member->proposal_capacity ? 2 * member->proposal_capacity : 2;
        void *grown = realloc(member->proposals, capacity * sizeof *member->proposals);
        if (!grown)
            return COP_ENOMEM;
        member->proposals = grown;
        member->proposal_capacity = capacity;
    }
    uint32_t at = member->proposal_count;
    while (at > 0 && cop__is_later(cop_view_ballot(member->proposals[at - 1].view),
                                   cop_view_ballot(view)))
        at--;
    memmove(member->proposals + at + 1, member->proposals + at,
            (member->proposal_count - at) * sizeof *member->proposals);
    member->proposals[at] =
        (struct cop__proposal){cop_view_ref(view), cop_view_ref(base)};
    member->proposal_count++;
    return 0;
}

/* Drops those for which `is_over` says so. */
static void drop_proposals(struct cop_node *node,
                           bool (*is_over)(const struct cop__proposal *proposal,
                                           const void *context),
                           const void *context)
{
    struct cop__member *member = cop__member(node);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < member->proposal_count; i++) {
        if (is_over(&member->proposals[i], context))
            free_proposal(&member->proposals[i]);
        else
            member->proposals[kept++] = member->proposals[i];
    }
    member->proposal_count = kept;
}

struct successor {
    const struct cop__member *member;
    struct cop_ballot ballot;
    struct cop_ballot base;
};

/* Whether the base of the new one is this, or was built on it: then it was committed, and I
 * have yet to go through it (V7). */
static bool is_built_on(const struct successor *successor, struct cop_ballot ballot)
{
    const struct cop__member *member = successor->member;
    struct cop_ballot base = successor->base;
    for (uint32_t i = member->proposal_count; i > 0; i--) {
        const struct cop__proposal *proposal = &member->proposals[i - 1];
        struct cop_ballot at = cop_view_ballot(proposal->view);
        if (!cop__is_later(at, ballot))
            break; /* below it some may be freed already */
        if (cop__is_same_ballot(at, base))
            base = cop_view_ballot(proposal->base);
    }
    return cop__is_same_ballot(base, ballot);
}

/* A root makes one proposal at a time: when it makes another that does not build on the
 * one before, it has not committed that one, and will not (V6). */
static bool is_superseded(const struct cop__proposal *proposal, const void *context)
{
    const struct successor *successor = context;
    struct cop_ballot ballot = cop_view_ballot(proposal->view);
    return ballot.root == successor->ballot.root &&
           ballot.incarnation == successor->ballot.incarnation &&
           ballot.epoch < successor->ballot.epoch && !is_built_on(successor, ballot);
}

void cop__member_drop_superseded(struct cop_node *node, const struct cop_view *view,
                                 struct cop_ballot base)
{
    struct cop__member *member = cop__member(node);
    struct successor successor = {member, cop_view_ballot(view), base};
    drop_proposals(node, is_superseded, &successor);
}

static bool is_not_later(const struct cop__proposal *proposal, const void *context)
{
    const struct cop_view *installed = context;
    return !cop__is_later(cop_view_ballot(proposal->view), cop_view_ballot(installed));
}

/* ---- installing ------------------------------------------------------------------ */

/* Who is about to join in a proposal that may still commit stays known. */
static bool is_expected(const struct cop_node *node, cop_id id,
                        cop_incarnation incarnation)
{
    const struct cop__member *member = cop__member(node);
    for (uint32_t i = 0; i < member->proposal_count; i++)
        if (cop_view_has(member->proposals[i].view, id, incarnation))
            return true;
    const struct cop__joiner *joiner = cop__member_joiner(node, id);
    return joiner && joiner->incarnation == incarnation;
}

static void put_in_place(struct cop_node *node, struct cop_view *view)
{
    struct cop__member *member = cop__member(node);
    COP__COUNT(node, views_installed);
    member->now_times = (struct cop_change_times){0};
    cop_view_unref(member->former);
    member->former = member->phase == PHASE_MEMBER ? cop_view_ref(node->view) : NULL;
    struct cop_view *old = cop_view_ref(node->view);
    cop__set_view(node, cop_view_ref(view), true);
    cop__guard_note(node, old);
    cop_view_unref(old);
    drop_proposals(node, is_not_later, view);
    cop__member_learn(node, view);
    cop__roster_prune(node, is_expected);
    if (cop_view_has(view, node->self, node->incarnation))
        member->phase = PHASE_MEMBER;
}

/* The view before it in the chain of those that were committed, if I hold it. */
static struct cop_view *base_of(const struct cop_node *node,
                                const struct cop_view *view)
{
    const struct cop__member *member = cop__member(node);
    for (uint32_t i = 0; i < member->proposal_count; i++)
        if (cop__is_same_ballot(cop_view_ballot(member->proposals[i].view),
                                cop_view_ballot(view)))
            return member->proposals[i].base;
    return NULL;
}

/* V7: the base first, if I am in it; so everyone goes through the same views. */
static void install(struct cop_node *node, struct cop_view *view)
{
    struct cop_view *base = base_of(node, view);
    cop_view_ref(view);
    if (base && cop__is_later(cop_view_ballot(base), cop_view_ballot(node->view)) &&
        cop_view_has(base, node->self, node->incarnation)) {
        cop_view_ref(base);
        install(node, base);
        cop_view_unref(base);
    }
    put_in_place(node, view);
    cop_view_unref(view);
}

static void leave_by(struct cop_node *node, const struct cop_view *view)
{
    struct cop_member me;
    bool left = cop_view_member(view, node->self, &me) == 0 &&
                me.incarnation == node->incarnation && me.presence == COP_LEFT;
    cop__member_go_out(node, left ? 0 : COP_EREMOVED);
}

/* Who joins starts from a later view now. */
static void hold_as_base(struct cop_node *node, struct cop_view *view)
{
    cop__set_view(node, cop_view_ref(view), false);
    drop_proposals(node, is_not_later, view);
    cop__roster_prune(node, is_expected);
}

void cop__member_commit(struct cop_node *node, struct cop_view *view)
{
    struct cop__member *member = cop__member(node);
    struct cop_ballot ballot = cop_view_ballot(view);
    if (!cop__is_later(ballot, cop_view_ballot(node->view)) ||
        member->phase == PHASE_OUT)
        return;
    cop_view_ref(view);
    if (!cop_view_has(view, node->self, node->incarnation)) {
        /* Who leaves, or is out, has no use for it; who joins holds it as the next base. */
        if (member->phase == PHASE_MEMBER)
            leave_by(node, view);
        else
            hold_as_base(node, view);
        cop__member_learn(node, view);
    } else if (cop__is_later(member->acked, ballot)) {
        cop__member_learn(node, view); /* V8 */
    } else {
        install(node, view);
        member->failures = 0;
        cop__member_prune_joiners(node);
        cop__member_look_soon(node);
    }
    cop_view_unref(view);
}
