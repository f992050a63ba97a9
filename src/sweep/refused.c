/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/state.h"

/*
 * Somebody who is asked may be unable to take part: it does not know whom the question is
 * about, or knows otherwise. It cannot compute the tree, so it joins nothing, and says so. Who
 * asked counts that as its answer, for it alone; those below it are not asked through it.
 */

void cop__sweep_tell_part(struct cop_node *node, struct cop__sweep *sweep,
                          cop_rank rank, int status, struct cop__bytes payload)
{
    const struct cop__protocol *protocol = cop__sweep_protocol(node, sweep);
    if (protocol->on_part && !node->failed)
        protocol->on_part(node, sweep, rank, status, payload);
}

void cop__sweep_tell_gathered(struct cop_node *node, struct cop__sweep *sweep,
                              int status)
{
    const struct cop__protocol *protocol = cop__sweep_protocol(node, sweep);
    if (sweep->gathered)
        return;
    sweep->gathered = true;
    if (protocol->on_gathered)
        protocol->on_gathered(node, sweep, status);
}

void cop__sweep_say_refused(struct cop_node *node, cop_id to,
                            const struct cop__msg_ask *message, int status)
{
    struct cop__msg_refused refused = {
        .initiator = message->initiator,
        .incarnation = message->incarnation,
        .sequence = message->sequence,
        .mark = cop__origin_mark(node, message->initiator, message->incarnation),
        .status = (uint32_t)status,
    };
    cop__roster_send(node, to, COP__KIND_REFUSED, cop__encode_refused(&refused));
}

/* What the protocol makes of it stands for the one that refused. */
static void count_refusal(struct cop_node *node, struct cop__sweep *sweep,
                          struct cop__child *child, int status)
{
    cop_rank rank = child->rank;
    const struct cop__protocol *protocol = cop__sweep_protocol(node, sweep);
    struct cop_buf *payload =
        protocol->on_refused ? protocol->on_refused(node, sweep, rank, status) : NULL;
    if (!payload)
        return;
    struct cop__part part = {.source = rank, .owner = payload};
    part.payload = (struct cop__bytes){payload->data, payload->length};
    if (cop__cover_add(&part.cover, rank, COP__ONE_IN)) {
        cop_buf_unref(payload);
        cop__fail(node, COP_ENOMEM);
        return;
    }
    cop__sweep_take_part(node, sweep, &part, false);
    cop__sweep_settle_child(node, sweep, cop__sweep_child(sweep, rank), CHILD_ANSWERED);
    cop__sweep_answer_if_complete(node, sweep);
}

void cop__on_refused(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_refused message;
    struct cop_buf *bytes = frame->payload;
    if (cop__decode_refused(bytes->data, bytes->length, &message)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    cop__sweeps_enter(node);
    struct cop__sweep *sweep = cop__sweep_hear_of(
        node, message.initiator, message.incarnation, message.sequence, message.mark);
    cop_rank from =
        sweep ? cop__sweep_rank(sweep, frame->header.sender) : COP_RANK_NONE;
    struct cop__child *child =
        from == COP_RANK_NONE ? NULL : cop__sweep_child(sweep, from);
    if (sweep && (!child || child->state != CHILD_OWED))
        COP__COUNT(node, ignored_unasked);
    else if (sweep)
        count_refusal(node, sweep, child, (int)message.status);
    cop__sweeps_leave(node);
}
