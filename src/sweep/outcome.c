/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/state.h"

/* How a sweep ends for everyone: the word of its initiator, passed down. */

static struct cop_buf *encode_outcome(const struct cop_node *node,
                                      const struct cop__sweep *sweep)
{
    struct cop__msg_outcome outcome = {
        .initiator = sweep->initiator,
        .incarnation = sweep->incarnation,
        .sequence = sweep->sequence,
        .mark = cop__origin_mark(node, sweep->initiator, sweep->incarnation),
        .status = (uint32_t)sweep->status,
        .payload = {sweep->outcome->data, sweep->outcome->length},
    };
    return cop__encode_outcome(&outcome);
}

void cop__sweep_send_outcome(struct cop_node *node, struct cop__sweep *sweep,
                             cop_rank to)
{
    cop__sweep_send(node, sweep, to, COP__KIND_OUTCOME, encode_outcome(node, sweep));
}

/* To everyone in my list, also those who did not answer in time: they may be waiting. */
static void forward(struct cop_node *node, struct cop__sweep *sweep)
{
    struct cop_buf *frame = NULL;
    for (uint32_t i = 0; i < sweep->child_count && !node->failed; i++) {
        struct cop__child *child = &sweep->children[i];
        if (child->state == CHILD_LOST)
            continue;
        if (child->state == CHILD_OWED)
            cop__sweep_settle_child(node, sweep, child, CHILD_FAILED);
        if (!frame)
            frame = encode_outcome(node, sweep);
        cop__sweep_send(node, sweep, child->rank, COP__KIND_OUTCOME,
                        cop_buf_ref(frame));
    }
    cop_buf_unref(frame);
}

void cop__sweep_set_outcome(struct cop_node *node, struct cop__sweep *sweep, int status,
                            struct cop__bytes payload)
{
    COP_ASSERT(!sweep->has_outcome);
    sweep->outcome = cop_buf_copy(payload.data, payload.length);
    if (!sweep->outcome) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    sweep->has_outcome = true;
    sweep->status = status;
    forward(node, sweep);
    cop__sweep_mind_parent(node, sweep);
    if (cop__sweep_is_mine(node, sweep))
        return;
    cop__sweep_protocol(node, sweep)->on_outcome(node, sweep, status, payload);
    /* Somebody who was passed around by mistake may still wait for what I have. */
    if (status != COP_EABORTED)
        cop__sweep_answer_if_complete(node, sweep);
}

void cop__sweep_conclude(struct cop_node *node, struct cop__sweep *sweep, int status,
                         struct cop__bytes payload)
{
    COP_ASSERT(cop__sweep_is_mine(node, sweep) && sweep->wants_outcome);
    cop__sweep_set_outcome(node, sweep, status, payload);
}

int cop__sweep_abort(struct cop_node *node, uint8_t protocol, uint64_t token)
{
    cop__sweeps_enter(node);
    int error = COP_ENOENT;
    for (struct cop__sweep *sweep = cop__sweeps(node)->first; sweep;
         sweep = sweep->next) {
        if (!cop__sweep_is_mine(node, sweep) || sweep->protocol != protocol ||
            sweep->token != token || sweep->answered || sweep->over)
            continue;
        error = 0;
        COP__COUNT(node, sweeps_aborted);
        sweep->answered = true;
        cop__sweep_set_outcome(node, sweep, COP_EABORTED, (struct cop__bytes){NULL, 0});
        cop__sweep_protocol(node, sweep)->on_complete(node, sweep, COP_EABORTED);
        cop__sweep_end(node, sweep);
        break;
    }
    cop__sweeps_leave(node);
    return error;
}

/* Those below who wait for an outcome must not wait for me. */
static void say_done_below(struct cop_node *node, struct cop__sweep *sweep)
{
    for (uint32_t i = 0; i < sweep->child_count; i++)
        if (sweep->children[i].state != CHILD_LOST)
            cop__sweep_say_done(node, cop__sweep_id(sweep, sweep->children[i].rank),
                                sweep->initiator, sweep->incarnation, sweep->sequence);
}

/* No outcome will come any more: the protocol is told so, once. When time is up those below
 * know it by themselves. */
void cop__sweep_give_up(struct cop_node *node, struct cop__sweep *sweep, int status)
{
    if (sweep->wants_outcome && !sweep->has_outcome &&
        !cop__sweep_is_mine(node, sweep)) {
        cop__sweep_protocol(node, sweep)
            ->on_outcome(node, sweep, status, (struct cop__bytes){NULL, 0});
        /* A sweep with a world of its own is followed by another one of the same
         * initiator, which tells them. */
        if (status != COP_ETIMEDOUT && !sweep->world)
            say_done_below(node, sweep);
    }
    cop__sweep_end(node, sweep);
}

void cop__sweep_leave(struct cop_node *node, struct cop__sweep *sweep)
{
    COP_ASSERT(!cop__sweep_is_mine(node, sweep));
    cop__sweeps_enter(node);
    cop__sweep_end(node, sweep);
    cop__sweeps_leave(node);
}

void cop__sweep_forget(struct cop_node *node, struct cop__sweep *sweep)
{
    COP_ASSERT(cop__sweep_is_mine(node, sweep) && sweep->answered);
    cop__sweeps_enter(node);
    cop__sweep_end(node, sweep);
    cop__sweeps_leave(node);
}

void cop__on_outcome(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_outcome message;
    struct cop_buf *bytes = frame->payload;
    if (cop__decode_outcome(bytes->data, bytes->length, &message)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    cop__sweeps_enter(node);
    struct cop__sweep *sweep = cop__sweep_hear_of(
        node, message.initiator, message.incarnation, message.sequence, message.mark);
    cop_rank from =
        sweep ? cop__sweep_rank(sweep, frame->header.sender) : COP_RANK_NONE;
    int status = (int)message.status;
    if (sweep && (from == sweep->self || from == COP_RANK_NONE ||
                  !cop_tree_is_below(&sweep->tree, sweep->self, from))) {
        COP__COUNT(node, ignored_not_ancestor);
    } else if (sweep && (sweep->has_outcome ||
                         (!sweep->wants_outcome && status != COP_EABORTED))) {
        COP__COUNT(node, ignored_repeated);
    } else if (sweep) {
        cop__sweep_set_outcome(node, sweep, status, message.payload);
        if (status == COP_EABORTED)
            cop__sweep_end(node, sweep);
    }
    cop__sweeps_leave(node);
}
