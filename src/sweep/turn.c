/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rankset.h"
#include "sweep/state.h"

#include <stdlib.h>

/*
 * Losing one's parent. While I owe an answer, or wait for an outcome, I watch whoever
 * asked me; when it is lost I turn to the nearest living ancestor, and say who was
 * lost on the way, for it may have lost two generations at once and never had a
 * connection to either.
 */

static bool needs_parent(const struct cop__sweep *sweep)
{
    return !sweep->answered || (sweep->wants_outcome && !sweep->has_outcome);
}

/* Watches the parent exactly while something is expected of it. */
void cop__sweep_mind_parent(struct cop_node *node, struct cop__sweep *sweep)
{
    bool need = sweep->parent != COP_RANK_NONE && !sweep->over && needs_parent(sweep);
    if (need == sweep->watches_parent)
        return;
    sweep->watches_parent = need;
    if (need)
        cop__watch(node, cop__sweep_id(sweep, sweep->parent));
    else
        cop__unwatch(node, cop__sweep_id(sweep, sweep->parent));
}

/* The former parent, unless it is lost, may be waiting for me too: it stays an asker. */
void cop__sweep_set_parent(struct cop_node *node, struct cop__sweep *sweep,
                           cop_rank rank)
{
    cop_rank old = sweep->parent;
    if (old == rank)
        return;
    if (sweep->watches_parent) {
        sweep->watches_parent = false;
        cop__unwatch(node, cop__sweep_id(sweep, old));
    }
    if (old != COP_RANK_NONE && cop__rankset_put(&sweep->askers, old))
        cop__fail(node, COP_ENOMEM);
    cop__rankset_drop(&sweep->askers, rank);
    sweep->parent = rank;
    cop__sweep_mind_parent(node, sweep);
}

/*
 * Moves to the nearest ancestor that lives and has not said that it is not in this
 * sweep. False if there is none.
 */
bool cop__sweep_find_parent(struct cop_node *node, struct cop__sweep *sweep)
{
    cop_rank rank = cop_tree_parent(&sweep->tree, sweep->self);
    while (rank != COP_RANK_NONE && (cop__sweep_is_lost(node, sweep, rank) ||
                                     cop__rankset_has(&sweep->strangers, rank)))
        rank = cop_tree_parent(&sweep->tree, rank);
    cop__sweep_set_parent(node, sweep, rank);
    return rank != COP_RANK_NONE;
}

/* Beliefs about the suspects between me and my new parent; the count in *count. */
static uint8_t *encode_lineage(const struct cop_node *node,
                               const struct cop__sweep *sweep, uint32_t *count)
{
    uint32_t level = cop_tree_level(&sweep->tree, sweep->self);
    uint8_t *bytes = malloc((size_t)(level + 1) * COP__SIZE_belief);
    if (!bytes)
        return NULL;
    struct cop__writer writer =
        cop__writer(bytes, (size_t)(level + 1) * COP__SIZE_belief);
    cop_rank rank = cop_tree_parent(&sweep->tree, sweep->self);
    *count = 0;
    for (; rank != sweep->parent; rank = cop_tree_parent(&sweep->tree, rank)) {
        struct cop__belief belief = cop__roster_get(node, cop__sweep_id(sweep, rank));
        if (belief.status < COP_SUSPECT)
            continue;
        cop__belief_put(&writer, &belief);
        ++*count;
    }
    return bytes;
}

/* S3. */
void cop__sweep_turn(struct cop_node *node, struct cop__sweep *sweep)
{
    if (cop__sweep_is_mine(node, sweep) || !needs_parent(sweep) ||
        !cop__sweep_find_parent(node, sweep))
        return;
    uint32_t count;
    uint8_t *lineage = encode_lineage(node, sweep, &count);
    if (!lineage) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    struct cop__msg_turn turn = {
        .initiator = sweep->initiator,
        .incarnation = sweep->incarnation,
        .sequence = sweep->sequence,
        .mark = cop__origin_mark(node, sweep->initiator, sweep->incarnation),
        .lineage = {lineage, count},
    };
    COP__COUNT(node, turns);
    cop__sweep_send(node, sweep, sweep->parent, COP__KIND_TURN,
                    cop__encode_turn(&turn));
    free(lineage);
}

/*
 * A suspect may ask: it lives, or its frame outlived it. Nothing would tell me of its
 * death a second time, so I do not wait for it. It stays an asker, in case it denies.
 */
void cop__sweep_leave_suspect(struct cop_node *node, struct cop__sweep *sweep)
{
    if (sweep->parent != COP_RANK_NONE && !sweep->over &&
        cop__sweep_is_lost(node, sweep, sweep->parent))
        cop__sweep_turn(node, sweep);
}

/* S3: gather, or here is the outcome. (Done, or not here, was said before.) */
static void receive_orphan(struct cop_node *node, struct cop__sweep *sweep,
                           cop_rank orphan)
{
    if (orphan == sweep->self || orphan == COP_RANK_NONE ||
        !cop_tree_is_below(&sweep->tree, orphan, sweep->self)) {
        COP__COUNT(node, ignored_not_below);
        return;
    }
    if (sweep->has_outcome) {
        cop__sweep_send_outcome(node, sweep, orphan);
        return;
    }
    sweep->tangled = true;
    cop__sweep_adopt(node, sweep, orphan);
    cop__sweep_answer_if_complete(node, sweep);
}

void cop__on_turn(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_turn message;
    struct cop_buf *bytes = frame->payload;
    if (cop__decode_turn(bytes->data, bytes->length, &message)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    cop__sweeps_enter(node);
    cop_id sender = frame->header.sender;
    for (uint32_t i = 0; i < message.lineage.count; i++) {
        struct cop__belief belief = cop__belief_at(message.lineage, i);
        cop__roster_merge(node, &belief);
    }
    struct cop__sweep *sweep = cop__sweep_hear_of(
        node, message.initiator, message.incarnation, message.sequence, message.mark);
    if (sweep)
        receive_orphan(node, sweep, cop__sweep_rank(sweep, sender));
    else
        cop__sweep_say_done(node, sender, message.initiator, message.incarnation,
                            message.sequence);
    cop__sweeps_leave(node);
}

/* ---- over, or not here ----------------------------------------------------------- */

/*
 * From above: the initiator's word ends it; anybody else's only means that it is not
 * the one to turn to.
 */
static void done_above(struct cop_node *node, struct cop__sweep *sweep, cop_rank from)
{
    if (from == sweep->tree.root) {
        cop__sweep_give_up(node, sweep, COP_ELOST);
        return;
    }
    if (cop__rankset_put(&sweep->strangers, from)) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    if (from == sweep->parent)
        cop__sweep_turn(node, sweep);
}

/* From below: it will not answer. */
static void done_below(struct cop_node *node, struct cop__sweep *sweep, cop_rank from)
{
    struct cop__child *child = cop__sweep_child(sweep, from);
    if (!child || child->state != CHILD_OWED) {
        COP__COUNT(node, ignored_repeated);
        return;
    }
    cop__sweep_settle_child(node, sweep, child, CHILD_FAILED);
    cop__sweep_tell_part(node, sweep, from, COP_ENOENT, (struct cop__bytes){NULL, 0});
    cop__sweep_answer_if_complete(node, sweep);
}

void cop__on_done(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_done message;
    struct cop_buf *bytes = frame->payload;
    if (cop__decode_done(bytes->data, bytes->length, &message)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    cop__sweeps_enter(node);
    struct cop__sweep *sweep = cop__sweep_hear_of(
        node, message.initiator, message.incarnation, message.sequence, message.mark);
    cop_rank from =
        sweep ? cop__sweep_rank(sweep, frame->header.sender) : COP_RANK_NONE;
    bool has_rank = from != COP_RANK_NONE;
    if (has_rank && cop_tree_is_below(&sweep->tree, sweep->self, from))
        done_above(node, sweep, from);
    else if (has_rank && cop_tree_is_below(&sweep->tree, from, sweep->self))
        done_below(node, sweep, from);
    else if (sweep)
        COP__COUNT(node, ignored_not_below);
    cop__sweeps_leave(node);
}
