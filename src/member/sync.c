/* SPDX-License-Identifier: Apache-2.0 */
#include "member/state.h"

#include "detect/detect.h"

#include <stdlib.h>

/*
 * Who may speak to me, and how those whose views differ come together again.
 */

/* ---- asking for a view, and giving one ------------------------------------------- */

void cop__member_send_whole(struct cop_node *node, cop_id to,
                            cop_incarnation incarnation, const struct cop_view *view)
{
    struct cop_buf *bytes = cop__view_encode(view);
    if (!bytes) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    struct cop__msg_whole whole = {.view = {bytes->data, bytes->length}};
    cop__emit_send(node, to, incarnation, COP__KIND_WHOLE, cop__encode_whole(&whole));
    cop_buf_unref(bytes);
}

void cop__member_ask_view(struct cop_node *node, cop_id of, cop_incarnation incarnation)
{
    struct cop_ballot ballot = cop_view_ballot(node->view);
    struct cop__msg_sync sync = {ballot.epoch, ballot.root, ballot.incarnation,
                                 cop__member(node)->acked.epoch};
    cop__emit_send(node, of, incarnation, COP__KIND_SYNC, cop__encode_sync(&sync));
}

/* The next after `id`, in turn, who is in a proposal, is not me, and may answer. */
static cop_id next_in(const struct cop_node *node, const struct cop_view *view,
                      cop_id id)
{
    for (uint32_t tries = 0; tries <= cop_view_size(view) + 1; tries++) {
        id = cop_view_next(view, id);
        if (id != COP_ID_NONE && id != node->self &&
            !cop__roster_has_lost(node, id, cop_view_incarnation(view, id)))
            return id;
    }
    return COP_ID_NONE;
}

/* The root of my latest proposal first, then all who are in it, in turn; and every other
 * time whoever is to propose now, which need not be one of them. */
static cop_id next_to_ask(const struct cop_node *node)
{
    const struct cop__member *member = cop__member(node);
    const struct cop_view *view = member->proposals[member->proposal_count - 1].view;
    if (member->syncs == 0 && cop_view_ballot(view).root != node->self)
        return cop_view_ballot(view).root;
    cop_id proposer = cop__member_proposer(node);
    if (member->syncs % 2 == 1 && proposer != COP_ID_NONE && proposer != node->self)
        return proposer;
    cop_id id = next_in(node, view, member->sync_target);
    if (id != COP_ID_NONE)
        return id;
    /* All of them are gone, and it was perhaps my own, made without those who live. */
    return proposer != node->self ? proposer : COP_ID_NONE;
}

void cop__member_wonder(struct cop_node *node)
{
    struct cop__member *member = cop__member(node);
    if (member->sync_again != 0)
        return;
    member->syncs = 0;
    member->sync_again = node->now + COP__SYNC_AGAIN;
    cop__member_wake_at(node, member->sync_again);
}

void cop__member_wonder_without_quorum(struct cop_node *node)
{
    const struct cop_view *view = cop__member_acknowledged(node);
    if (view && next_in(node, view, COP_ID_NONE) != COP_ID_NONE)
        cop__member_wonder(node);
}

void cop__member_ask_around(struct cop_node *node)
{
    struct cop__member *member = cop__member(node);
    if (member->proposal_count == 0)
        member->sync_again = 0;
    if (member->sync_again == 0)
        return;
    if (node->now >= member->sync_again) {
        cop_id to = next_to_ask(node);
        if (member->syncs % 2 == 0)
            member->sync_target = to;
        uint32_t doublings = member->syncs < 5 ? member->syncs : 5;
        member->syncs++;
        member->sync_again = node->now + (COP__SYNC_AGAIN << doublings);
        if (to == COP_ID_NONE) {
            member->sync_again = 0; /* nobody is left: until somebody is heard of */
            return;
        }
        struct cop_member peer;
        if (to != COP_ID_NONE && cop_node_member(node, to, &peer) == 0)
            cop__member_ask_view(node, to, peer.incarnation);
    }
    cop__member_wake_at(node, member->sync_again);
}

/* V13: said only from a view that is installed here, and that the other is not in. */
void cop__member_say_out(struct cop_node *node, cop_id to, cop_incarnation incarnation)
{
    struct cop_ballot ballot = cop_view_ballot(node->view);
    struct cop__msg_out out = {ballot.epoch, ballot.root, ballot.incarnation};
    cop__emit_send(node, to, incarnation, COP__KIND_OUT, cop__encode_out(&out));
}

/* Whether this life was a member once, and is none any more. */
static bool is_former(const struct cop_node *node, cop_id id,
                      cop_incarnation incarnation)
{
    struct cop__entry entry;
    if (!cop__view_entry(node->view, id, &entry))
        return false;
    return incarnation < entry.incarnation ||
           (incarnation == entry.incarnation && entry.presence != COP_PRESENT);
}

/* V13: who comes back after it was removed may have nothing to say, and would never hear. */
void cop__member_greet(struct cop_node *node, cop_id peer, cop_incarnation incarnation)
{
    if (cop__member(node)->phase == PHASE_MEMBER && is_former(node, peer, incarnation))
        cop__member_say_out(node, peer, incarnation);
}

void cop__member_update(struct cop_node *node, cop_id id, cop_incarnation incarnation)
{
    cop__member_send_whole(node, id, incarnation, node->view);
}

/* Whether a question is from a view, or on top of one, that I do not have. */
static bool is_too_early(const struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_ask ask;
    struct cop__proposal_head head;
    if (frame->header.kind != COP__KIND_ASK ||
        cop__decode_ask(frame->payload->data, frame->payload->length, &ask))
        return false;
    if (ask.protocol != COP__MEMBER_PROTOCOL)
        return ask.epoch > cop_view_epoch(node->view);
    return cop__sweep_split(&ask, NULL) == 0 &&
           cop__proposal_head(ask.payload, &head) == 0 &&
           !cop__member_find_view(node, head.base);
}

/* ---- who may speak --------------------------------------------------------------- */

/* A proposal may reach me through somebody who only comes with it. */
static bool is_proposal(const struct cop_frame *frame)
{
    struct cop__msg_ask ask;
    return frame->header.kind == COP__KIND_ASK &&
           cop__decode_ask(frame->payload->data, frame->payload->length, &ask) == 0 &&
           ask.protocol == COP__MEMBER_PROTOCOL;
}

/* What makes sense from everybody, also from one who is out or not yet in. */
static bool is_for_all(uint16_t kind)
{
    return kind == COP__KIND_JOIN || kind == COP__KIND_WHOLE ||
           kind == COP__KIND_SYNC || kind == COP__KIND_OUT;
}

/* Somebody who is in a proposal that I know takes part in it. */
static bool is_proposed(const struct cop_node *node, cop_id id,
                        cop_incarnation incarnation)
{
    const struct cop__member *member = cop__member(node);
    for (uint32_t i = 0; i < member->proposal_count; i++)
        if (cop_view_has(member->proposals[i].view, id, incarnation))
            return true;
    return cop_view_has(member->base, id, incarnation);
}

/* V12, for one who is not in the view: false to drop the frame. */
COP__COLD static bool admit_stranger(struct cop_node *node,
                                     const struct cop_frame *frame)
{
    const struct cop_header *header = &frame->header;
    cop_id sender = header->sender;
    cop_incarnation life = header->sender_incarnation;
    bool former = is_former(node, sender, life);
    if (is_for_all(header->kind) || is_proposed(node, sender, life) ||
        (!former && is_proposal(frame)))
        return true;
    if (former) {
        COP__COUNT(node, ignored_incarnation);
        cop__member_say_out(node, sender, life);
    } else if (header->epoch > cop_view_epoch(node->view)) {
        /* Perhaps of a view that I have yet to get. */
        cop__member_hold(node, frame);
    } else {
        /* Of another world, then: the two find out whose view is the later one (V13). */
        COP__COUNT(node, ignored_stranger);
        if (header->epoch < cop_view_epoch(node->view))
            cop__member_send_whole(node, sender, life, node->view);
        else
            cop__member_ask_view(node, sender, life);
    }
    return false;
}

/* Who is about to be a member can be suspect before it is one, and has to know, too. */
static bool is_doubted(const struct cop_node *node, const struct cop_header *header)
{
    struct cop__belief belief = cop__roster_get(node, header->sender);
    return belief.status >= COP_SUSPECT &&
           belief.incarnation == header->sender_incarnation;
}

/* D13: to what there is no answer, or none yet. */
static bool admit_in_stealth(struct cop_node *node, const struct cop_frame *frame,
                             bool inside)
{
    switch (frame->header.kind) {
    case COP__KIND_OUT:
        return true;
    case COP__KIND_GOSSIP:
    case COP__KIND_LETTER:
        return inside;
    default:
        cop__detect_hear_in_stealth(node, frame);
        return false;
    }
}

/* Nobody handles these where the view is fixed. */
static bool is_about_views(uint16_t kind)
{
    return is_for_all(kind) || kind == COP__KIND_INVITE || kind == COP__KIND_INVITED ||
           kind == COP__KIND_LETTER || kind == COP__KIND_RECEIPT ||
           kind == COP__KIND_DRAIN ||
           (kind >= COP__KIND_VOTE && kind <= COP__KIND_STANDING);
}

/* Who speaks is not silent; and is told that it is doubted, if it is. */
static void hear(struct cop_node *node, const struct cop_header *header, bool inside)
{
    if (inside)
        cop__detect_hear(node, header->sender);
    if (inside ? cop__roster_is_suspect(node, header->sender)
               : is_doubted(node, header))
        cop__detect_tell_suspect(node, header->sender);
}

bool cop__member_admit(struct cop_node *node, const struct cop_frame *frame)
{
    const struct cop_header *header = &frame->header;
    if (!cop__has_views(node)) {
        if (!is_about_views(header->kind))
            return cop__detect_admit(node, header);
        COP__COUNT(node, ignored_kind);
        return false;
    }
    const struct cop__member *member = cop__member(node);
    if (member->phase == PHASE_OUT)
        return false;
    bool inside = cop_view_has(node->view, header->sender, header->sender_incarnation);
    if (cop__detect_is_stealthy(node))
        return admit_in_stealth(node, frame, inside);
    if (!inside && !admit_stranger(node, frame))
        return false;
    if (!node->again)
        hear(node, header, inside);
    if (is_too_early(node, frame)) {
        cop__member_hold(node, frame);
        return false;
    }
    return true;
}

/* ---- handlers -------------------------------------------------------------------- */

/* V8: who has acknowledged more than was committed installs nothing below it: whoever
 * proposes has to go above. */
static void settle_later(struct cop_node *node, cop_epoch acked)
{
    struct cop__member *member = cop__member(node);
    cop__member_see_epoch(node, acked);
    if (acked > member->unsettled)
        member->unsettled = acked;
    cop__member_look_soon(node);
}

/* V11: whoever is behind gets the view; whoever is ahead is asked for it. */
void cop__on_sync(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_sync message;
    const struct cop_header *header = &frame->header;
    if (cop__decode_sync(frame->payload->data, frame->payload->length, &message)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    if (cop__member(node)->phase != PHASE_MEMBER)
        return;
    if (cop_view_has(node->view, header->sender, header->sender_incarnation))
        settle_later(node, message.acked);
    struct cop_ballot theirs = {message.epoch, message.root, message.incarnation};
    struct cop_ballot mine = cop_view_ballot(node->view);
    if (cop__is_later(theirs, mine))
        cop__member_ask_view(node, header->sender, header->sender_incarnation);
    else if (is_former(node, header->sender, header->sender_incarnation))
        cop__member_say_out(node, header->sender, header->sender_incarnation);
    else if (cop__is_later(mine, theirs))
        cop__member_send_whole(node, header->sender, header->sender_incarnation,
                               node->view);
}

/* V13: who has an earlier view than mine, and is not in mine, has to know: it may be of another
 * world, and have asked when mine was the earlier one. */
static void answer_earlier(struct cop_node *node, const struct cop_header *header)
{
    if (cop__member(node)->phase == PHASE_MEMBER &&
        !cop_view_has(node->view, header->sender, header->sender_incarnation))
        cop__member_send_whole(node, header->sender, header->sender_incarnation,
                               node->view);
}

/* V11: a view that its sender has installed is committed. */
void cop__on_whole(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_whole message;
    struct cop_view *view;
    if (cop__decode_whole(frame->payload->data, frame->payload->length, &message)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    int error = cop__view_decode(message.view, node->view, &view);
    if (error == COP_ENOMEM) {
        cop__fail(node, error);
        return;
    }
    /* After the last epoch there could be no other: no view would ever change again. */
    if (error == 0 &&
        !cop__member_is_credible(cop_view_epoch(view), cop_view_epoch(node->view),
                                 COP__EPOCHS_AHEAD)) {
        cop_view_unref(view);
        error = COP_EMALFORMED;
    }
    if (error) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    /* My own copy of it knows what it was proposed on. */
    struct cop_view *held = cop__member_find_view(node, cop_view_ballot(view));
    if (cop__is_later(cop_view_ballot(node->view), cop_view_ballot(view)))
        answer_earlier(node, &frame->header);
    else
        cop__member_commit(node, held ? held : view);
    cop_view_unref(view);
    cop__member_look_soon(node);
}

/* V13: who has a later view than the one that is said to be without it stays. */
void cop__on_out(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_out message;
    if (cop__decode_out(frame->payload->data, frame->payload->length, &message)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    struct cop_ballot ballot = {message.epoch, message.root, message.incarnation};
    if (cop__is_later(ballot, cop_view_ballot(node->view)))
        cop__member_go_out(node, COP_EREMOVED);
    else if (cop__member(node)->phase == PHASE_MEMBER &&
             !cop_view_has(node->view, frame->header.sender,
                           frame->header.sender_incarnation))
        /* Two worlds meet, and mine is the later: it is the other that is out (D11). */
        cop__member_ask_view(node, frame->header.sender,
                             frame->header.sender_incarnation);
}
