/* SPDX-License-Identifier: Apache-2.0 */
#include "agree/state.h"

#include "roster/roster.h"

#include <stdlib.h>

/*
 * Up. Who has been called and has the votes of all its children votes itself (G3); the root
 * decides (G4). A round is (number, root): the number is the epoch of the last view in which
 * somebody of the tree was lost, 0 before that, and the root is the lowest place that the
 * view has. The view is what opens a round: nobody has to be asked.
 *
 * What happens when somebody is lost, by the names that two-phase commit has for it:
 *   Coord_A, Parent_A   a child is lost while I gather: its children are mine (layout.c), and
 *                       vote to me
 *   Coord_B, Parent_D   a child is lost when I have decided: its children vote to me, and are
 *                       told the decision (tell_or_take)
 *   Parent_B, Child_A   my parent is lost before I voted: I vote to whoever is above me now
 *   Parent_C, Child_B   or after: I vote again, which is the question how things stand; the
 *                       answer is the decision, or there is none yet and it gathers
 */

/* Who has voted has done so until the tree is laid again: each child is passed once. */
bool cop__agreement_all_voted(struct cop__agreement *agreement)
{
    while (agreement->first_open < agreement->child_count &&
           agreement->children[agreement->first_open].voted)
        agreement->first_open++;
    return agreement->first_open == agreement->child_count;
}

/* ---- what I know of suspects ----------------------------------------------------- */

/* Whether the roster has doubts about a member of the group that the view has. */
static bool is_doubted(const struct cop_node *node,
                       const struct cop__agree_group *group,
                       const struct cop__belief *belief)
{
    cop_incarnation life = cop_view_incarnation(node->view, belief->id);
    return cop__agree_group_rank(group, belief->id, life) != COP_RANK_NONE &&
           belief->id != node->self && cop_view_has(node->view, belief->id, life) &&
           cop__roster_has_lost(node, belief->id, life);
}

static bool has_doubts(const struct cop_node *node,
                       const struct cop__agree_group *group)
{
    for (uint32_t i = 0; i < cop__roster_count(node); i++) {
        struct cop__belief belief = cop__roster_at(node, i);
        if (is_doubted(node, group, &belief))
            return true;
    }
    return false;
}

/* G8: who votes says whom it suspects; the root decides when each has denied it or is gone
 * from the view. So the agreed list has all that a participant knew of. */
static struct cop_buf *encode_doubts(const struct cop_node *node,
                                     const struct cop__agree_group *group)
{
    uint32_t count = cop__roster_count(node), used = 0;
    struct cop_buf *buf = cop_buf_create((size_t)count * COP__SIZE_belief);
    if (!buf)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    for (uint32_t i = 0; i < count; i++) {
        struct cop__belief belief = cop__roster_at(node, i);
        if (!is_doubted(node, group, &belief))
            continue;
        cop__belief_put(&writer, &belief);
        used++;
    }
    buf->length = used * COP__SIZE_belief;
    return buf;
}

/* ---- voting ---------------------------------------------------------------------- */

/* Own value and those of the children, in the order of places. */
static int fold(const struct cop_node *node, const struct cop__agreement *agreement,
                struct cop__share *out)
{
    *out = agreement->own;
    cop_buf_ref(out->value);
    for (uint32_t i = 0; i < agreement->child_count; i++) {
        int error = cop__share_add(node, out, &agreement->children[i].share);
        if (error) {
            cop__share_free(out);
            return error;
        }
    }
    return 0;
}

static void send_vote(struct cop_node *node, struct cop__agreement *agreement,
                      const struct cop__share *share)
{
    const struct cop__agree_group *group = agreement->group;
    bool has_beliefs = cop__roster_count(node) > 0;
    struct cop_buf *doubts = has_beliefs ? encode_doubts(node, group) : NULL;
    const struct cop_buf *held = agreement->decision;
    uint8_t flags = held ? COP__HELD_DECISION : 0;
    if (has_beliefs && !doubts) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    if (!held) {
        held = cop__agreement_best_lock(agreement);
        flags = held ? COP__HELD_LOCK : 0;
    }
    struct cop__msg_vote vote = {
        .group = group->number,
        .number = agreement->number,
        .round = agreement->round,
        .digest = group->digest,
        .flags = flags,
        .type = share->type,
        .op = share->op,
        .status = (uint32_t)share->status,
    };
    if (doubts)
        vote.lost = (struct cop__list){doubts->data, doubts->length / COP__SIZE_belief};
    if (share->value)
        vote.value = (struct cop__bytes){share->value->data, share->value->length};
    if (held)
        vote.held = (struct cop__bytes){held->data, held->length};
    struct cop_life parent = cop__agreement_life(agreement, agreement->parent);
    cop__emit_send(node, parent.id, parent.incarnation, COP__KIND_VOTE,
                   cop__encode_vote(&vote));
    cop_buf_unref(doubts);
}

void cop__agreement_cast(struct cop_node *node, struct cop__agreement *agreement)
{
    struct cop__share share = {0};
    if (!agreement->decision && fold(node, agreement, &share)) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    if (agreement->ever_cast)
        COP__COUNT(node, revotes);
    agreement->cast = agreement->ever_cast = true;
    agreement->cast_round = agreement->round;
    send_vote(node, agreement, &share);
    cop__share_free(&share);
}

/* ---- deciding -------------------------------------------------------------------- */

/* G4: everyone whom the view has has voted, and nobody is in doubt. */
static void conclude(struct cop_node *node, struct cop__agreement *agreement)
{
    struct cop__share share;
    if (agreement->group->algorithm != COP_AGREE_ALLREDUCE &&
        has_doubts(node, agreement->group))
        return;
    if (agreement->group->algorithm == COP_AGREE_STRICT) {
        cop__agreement_lock(node, agreement);
        return;
    }
    if (fold(node, agreement, &share)) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    struct cop_buf *payload = cop__decision_make(node, agreement, share.status, &share);
    cop__share_free(&share);
    if (!payload)
        return;
    cop__agreement_decide(node, agreement, payload);
    cop_buf_unref(payload);
}

/* The baseline knows nothing of deaths. */
static void give_up(struct cop_node *node, struct cop__agreement *agreement)
{
    struct cop_buf *payload = cop__decision_make(node, agreement, COP_ELOST, NULL);
    if (!payload)
        return;
    cop__agreement_decide(node, agreement, payload);
    cop_buf_unref(payload);
}

void cop__agreement_advance(struct cop_node *node, struct cop__agreement *agreement)
{
    if (agreement->decision || node->failed)
        return;
    if (!agreement->laid)
        cop__agreement_lay(node, agreement);
    if (node->failed)
        return;
    if (agreement->group->algorithm == COP_AGREE_ALLREDUCE && agreement->lost_count) {
        give_up(node, agreement);
    } else if (cop__agree_group_is_two_phase(agreement->group) &&
               agreement->coordinator_lost && agreement->parent == COP_RANK_NONE) {
        cop__agreement_terminate(node, agreement);
    } else if (agreement->called && cop__agreement_all_voted(agreement)) {
        if (agreement->parent == COP_RANK_NONE)
            conclude(node, agreement);
        else if (!agreement->cast)
            cop__agreement_cast(node, agreement);
    }
}

/* ---- hearing a vote -------------------------------------------------------------- */

static bool is_well_formed(struct cop_node *node, const struct cop__msg_vote *vote,
                           const struct cop__agree_group *group)
{
    if (vote->flags > COP__HELD_LOCK || vote->digest != group->digest ||
        vote->round > cop_view_epoch(node->view))
        return false;
    return vote->flags == COP__HELD_DECISION || (int32_t)vote->status < 0 ||
           (vote->status == 0 &&
            cop__op_is_possible(node, vote->op, vote->type, vote->value.length));
}

static void hear_doubts(struct cop_node *node, const struct cop__msg_vote *vote)
{
    for (uint32_t i = 0; i < vote->lost.count && !node->failed; i++) {
        struct cop__belief belief = cop__belief_at(vote->lost, i);
        cop__roster_merge(node, &belief);
    }
}

static void keep_vote(struct cop_node *node, struct cop__agreement *agreement,
                      struct cop__child *child, const struct cop__msg_vote *vote)
{
    struct cop_buf *value = cop_buf_copy(vote->value.data, vote->value.length);
    struct cop_buf *lock = NULL;
    if (vote->flags == COP__HELD_LOCK)
        lock = cop_buf_copy(vote->held.data, vote->held.length);
    if (!value || (vote->flags == COP__HELD_LOCK && !lock)) {
        cop_buf_unref(value);
        cop_buf_unref(lock);
        cop__fail(node, COP_ENOMEM);
        return;
    }
    cop__share_free(&child->share);
    cop_buf_unref(child->lock);
    child->share = (struct cop__share){value, vote->op, vote->type, (int)vote->status};
    child->lock = lock;
    child->voted = true;
    child->round = vote->round;
    cop__agreement_advance(node, agreement);
}

/* Coord_B, Parent_D: who asks hears the decision. A decision from below is one that somebody
 * above me took, who is gone: it is the decision of this round too (G6). */
static bool tell_or_take(struct cop_node *node, struct cop__agreement *agreement,
                         cop_rank from, const struct cop__msg_vote *vote)
{
    bool brings = vote->flags == COP__HELD_DECISION;
    if (!agreement->decision && brings) {
        if (!cop__agreement_child(agreement, from))
            COP__COUNT(node, ignored_not_below);
        else if (!cop__agreement_decide_copy(node, agreement, vote->held))
            COP__COUNT(node, ignored_malformed);
        else if (agreement->parent != COP_RANK_NONE)
            cop__agreement_cast(node, agreement);
    } else if (agreement->decision && !brings) {
        cop__agreement_tell(node, agreement, from);
    }
    return brings || agreement->decision;
}

void cop__on_vote(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_vote vote;
    cop_rank from;
    if (cop__decode_vote(frame->payload->data, frame->payload->length, &vote)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    struct cop__agreement *agreement =
        cop__agree_find(node, frame, vote.group, vote.number, &from);
    if (!agreement)
        return;
    if (!is_well_formed(node, &vote, agreement->group)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    hear_doubts(node, &vote);
    if (tell_or_take(node, agreement, from, &vote))
        return;
    struct cop__child *child = cop__agreement_child(agreement, from);
    if (!child)
        COP__COUNT(node, ignored_not_below);
    else if (vote.round < cop__agreement_touched(agreement, from) ||
             (child->voted && vote.round <= child->round))
        COP__COUNT(node, ignored_repeated); /* it votes again when it has my view */
    else
        keep_vote(node, agreement, child, &vote);
}
