/* SPDX-License-Identifier: Apache-2.0 */
/* Being asked: for the first time, again, or when it is over. */
#include "sweep/state.h"

#include "base/rankset.h"
#include "view/view.h"

/* The tree that an ASK names; whether it is one can be checked. */
static struct cop_tree asked_tree(const struct cop_node *node,
                                  const struct cop__msg_ask *message,
                                  const struct cop__roll *roll)
{
    const struct cop_shape *own = cop_view_shape(node->view);
    struct cop_tree tree = {
        .shape = {.kind = (enum cop_shape_kind)message->shape,
                  .k = message->arity,
                  .inner = (enum cop_shape_kind)message->inner},
        .n = cop__has_views(node) ? message->members : cop_view_slots(node->view),
        .root = message->initiator,
    };
    if (roll) {
        tree.n = roll->count;
        tree.root = cop__roll_rank(roll, message->initiator);
    } else if (own->table && own->kind == tree.shape.kind) {
        tree.shape.table = own->table;
    }
    return tree;
}

/* Where somebody stands in the tree of a question. */
static cop_rank asked_rank(const struct cop_tree *tree, const struct cop__roll *roll,
                           cop_id id)
{
    if (roll)
        return cop__roll_rank(roll, id);
    return id < tree->n ? id : COP_RANK_NONE;
}

static bool brings_world(const struct cop_node *node,
                         const struct cop__msg_ask *message)
{
    return node->stack->protocols[message->protocol]->world != NULL;
}

/* True if it is not a question that I can be asked, or not by one above me. */
static bool ignore_ask(struct cop_node *node, const struct cop__msg_ask *message,
                       cop_rank sender, cop_rank self, const struct cop_tree *tree)
{
    if (message->members != tree->n || tree->n > COP_MEMBERS_MAX ||
        tree->root >= tree->n || self >= tree->n || cop_tree_check(tree) ||
        cop__sweep_is_too_large(node, tree, brings_world(node, message)) ||
        message->left_ns > COP__SWEEP_TIMEOUT_MAX ||
        message->hop_ns > COP__SWEEP_TIMEOUT_MAX) {
        COP__COUNT(node, ignored_malformed);
        return true;
    }
    if (sender == self || sender >= tree->n || !cop_tree_is_below(tree, self, sender)) {
        COP__COUNT(node, ignored_not_ancestor);
        return true;
    }
    return false;
}

/* The world that a question brings along, as its protocol reads it; the caller's
 * reference. False if it is not one in which I take part. */
static bool find_world(struct cop_node *node, const struct cop__msg_ask *message,
                       struct cop_view **out)
{
    const struct cop__protocol *protocol = node->stack->protocols[message->protocol];
    *out = NULL;
    if (!protocol->world)
        return true;
    *out = protocol->world(node, message->initiator, message->incarnation,
                           message->payload);
    if (*out && cop_view_slots(*out) == message->members)
        return true;
    COP__COUNT(node, ignored_malformed);
    cop_view_unref(*out);
    return false;
}

static void join(struct cop_node *node, const struct cop_frame *frame,
                 const struct cop__msg_ask *message, const struct cop_tree *tree,
                 struct cop__roll *roll, cop_rank parent)
{
    /* The mark of this frame has just ended the one before: its memory serves again. */
    cop__sweeps_reap(node, 1);
    struct cop_view *world;
    if (!find_world(node, message, &world))
        return;
    struct cop__sweep *sweep = cop__sweep_create(
        node, tree, world, roll, message->left_ns, message->payload, frame->payload);
    cop_view_unref(world);
    if (!sweep) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    sweep->initiator = message->initiator;
    sweep->incarnation = message->incarnation;
    sweep->sequence = message->sequence;
    sweep->epoch = message->epoch;
    sweep->protocol = message->protocol;
    sweep->wants_outcome = (message->flags & ASK_OUTCOME) != 0;
    sweep->hop_ns = message->hop_ns;
    sweep->parent = parent;
    COP__COUNT(node, sweeps_joined);
    cop__sweep_begin(node, sweep);
}

/* S2: asked again, by somebody who lost what was between us: the same answer. */
static void ask_again(struct cop_node *node, struct cop__sweep *sweep, cop_rank from)
{
    cop__rankset_drop(&sweep->strangers, from);
    cop__sweep_set_parent(node, sweep, from);
    if (sweep->answered && !sweep->refining)
        cop__sweep_answer_to(node, sweep, from);
    cop__sweep_leave_suspect(node, sweep);
}

/* Whom the question is about: as the sweep says if I am in it, else as the protocol reads it;
 * the caller's reference. */
static int find_roll(struct cop_node *node, const struct cop_frame *frame,
                     const struct cop__msg_ask *message, struct cop__roll **out)
{
    const struct cop__protocol *protocol = node->stack->protocols[message->protocol];
    const struct cop__sweep *sweep = cop__sweep_find(
        node, message->initiator, message->incarnation, message->sequence);
    *out = NULL;
    if (!protocol->roll)
        return 0;
    if (sweep) {
        *out = cop__roll_ref(sweep->roll);
        return 0;
    }
    return protocol->roll(node, frame, message->payload, out);
}

/*
 * A life that neither my view nor an earlier sweep has shown is believed if the base of what it
 * proposes has it. Otherwise anybody could end the sweeps of somebody else by a later life that
 * there never was.
 */
static bool is_real(struct cop_node *node, const struct cop__msg_ask *message)
{
    struct cop_view *world = NULL;
    if (!brings_world(node, message) ||
        cop__sweep_may_begin(node, message->initiator, message->incarnation, false) ||
        cop__origin_has(node, message->initiator, message->incarnation))
        return true;
    bool is_in_base = find_world(node, message, &world);
    cop_view_unref(world);
    return is_in_base;
}

static void take_question(struct cop_node *node, const struct cop_frame *frame,
                          const struct cop__msg_ask *message,
                          const struct cop_dead *outside, struct cop__roll *roll,
                          int refused, bool is_heard)
{
    cop_id asker = frame->header.sender;
    struct cop_tree tree = asked_tree(node, message, roll);
    if (outside->extra_count > 0 && !roll) {
        tree.dead = outside;
        tree.leaves = outside->extra;
        tree.leaf_count = outside->extra_count;
    }
    cop_rank sender = asked_rank(&tree, roll, asker);
    if (!refused &&
        ignore_ask(node, message, sender, asked_rank(&tree, roll, node->self), &tree))
        return;
    if (!is_real(node, message))
        return;
    struct cop__origin *origin =
        is_heard ? cop__origin_get(node, message->initiator, message->incarnation)
                 : cop__sweep_hear_mark(node, message->initiator, message->incarnation,
                                        message->sequence, message->mark,
                                        brings_world(node, message));
    if (!origin)
        return;
    struct cop__sweep *sweep = cop__sweep_find(node, message->initiator,
                                               message->incarnation, message->sequence);
    if (sweep) {
        ask_again(node, sweep, sender);
    } else if (cop__origin_is_over(origin, message->sequence) ||
               message->left_ns == 0) {
        COP__COUNT(node, ignored_sweep_over);
        cop__sweep_say_done(node, asker, message->initiator, message->incarnation,
                            message->sequence);
    } else if (refused) {
        cop__sweep_say_refused(node, asker, message, refused);
    } else {
        join(node, frame, message, &tree, roll, sender);
    }
}

static bool are_leaves(const struct cop__msg_ask *message,
                       const struct cop_ranks *leaves)
{
    for (uint32_t i = 0; i < leaves->count; i++)
        if (leaves->items[i] >= message->members ||
            leaves->items[i] == message->initiator ||
            (i > 0 && leaves->items[i] <= leaves->items[i - 1]))
            return false;
    return leaves->count > 0;
}

int cop__sweep_split(struct cop__msg_ask *message, struct cop_ranks *leaves)
{
    if (!(message->flags & ASK_LEAVES))
        return 0;
    struct cop__reader reader =
        cop__reader(message->payload.data, message->payload.length);
    struct cop__list list = cop__get_list(&reader, 4);
    struct cop__reader each = cop__reader(list.data, (size_t)list.count * 4);
    if (reader.failed)
        return COP_EMALFORMED;
    message->payload.data += 4 + 4 * list.count;
    message->payload.length -= 4 + 4 * list.count;
    if (!leaves)
        return 0;
    for (uint32_t i = 0; i < list.count; i++)
        if (cop_ranks_push(leaves, cop__get_u32(&each)))
            return COP_ENOMEM;
    return are_leaves(message, leaves) ? 0 : COP_EMALFORMED;
}

/* Whoever has to find out whom a question is about does not do so for one that is over. */
static bool is_over(struct cop_node *node, const struct cop_frame *frame,
                    const struct cop__msg_ask *message)
{
    const struct cop__origin *origin = cop__sweep_hear_mark(
        node, message->initiator, message->incarnation, message->sequence,
        message->mark, brings_world(node, message));
    if (!origin)
        return true;
    if (!cop__origin_is_over(origin, message->sequence) && message->left_ns > 0)
        return false;
    if (cop__sweep_find(node, message->initiator, message->incarnation,
                        message->sequence))
        return false;
    COP__COUNT(node, ignored_sweep_over);
    cop__sweep_say_done(node, frame->header.sender, message->initiator,
                        message->incarnation, message->sequence);
    return true;
}

static void take_ask(struct cop_node *node, const struct cop_frame *frame,
                     const struct cop__msg_ask *message, const struct cop_dead *outside)
{
    struct cop__roll *roll = NULL;
    if (message->protocol >= node->stack->protocol_count) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    bool has_roll = node->stack->protocols[message->protocol]->roll != NULL;
    if (has_roll && is_over(node, frame, message))
        return;
    int status = find_roll(node, frame, message, &roll);
    if (status == COP_EMALFORMED)
        COP__COUNT(node, ignored_malformed);
    else if (status == COP_ENOMEM)
        cop__fail(node, COP_ENOMEM);
    else if (status != COP_EAGAIN)
        take_question(node, frame, message, outside, roll, status, has_roll);
    cop__roll_unref(roll);
}

/* S1, S2, S5, S7. */
void cop__on_ask(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_ask message;
    if (cop__decode_ask(frame->payload->data, frame->payload->length, &message)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    struct cop_ranks leaves = {0};
    int error = cop__sweep_split(&message, &leaves);
    struct cop_dead outside = {NULL, leaves.items, leaves.count};
    cop__sweeps_enter(node);
    if (error == COP_ENOMEM)
        cop__fail(node, error);
    else if (error)
        COP__COUNT(node, ignored_malformed);
    else
        take_ask(node, frame, &message, &outside);
    cop__sweeps_leave(node);
    cop_ranks_free(&leaves);
}
