/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cold.h"
#include "sweep/state.h"

#include <stdlib.h>
#include <string.h>

/*
 * Whom I wait for. The list begins with my children in the sweep's tree. When one is
 * lost its own children are added (they can be computed), so the list grows with the
 * losses, and what hangs below a chain of the dead is found without any of them.
 */

struct cop__child *cop__sweep_child(const struct cop__sweep *sweep, cop_rank rank)
{
    if (sweep->places.count > 0) {
        uintptr_t place = (uintptr_t)cop__map_get(&sweep->places, rank);
        return place ? &sweep->children[place - 1] : NULL;
    }
    for (uint32_t i = 0; i < sweep->child_count; i++)
        if (sweep->children[i].rank == rank)
            return &sweep->children[i];
    return NULL;
}

/* Up to here looking through the list is faster than a map, and needs no memory. */
#define SHORT_LIST 32u

/* Keeps the map up with the list. */
static int note_places(struct cop__sweep *sweep)
{
    if (sweep->child_count <= SHORT_LIST)
        return 0;
    for (uint32_t i = sweep->places.count; i < sweep->child_count; i++)
        if (cop__map_put(&sweep->places, sweep->children[i].rank,
                         (void *)(uintptr_t)(i + 1), NULL))
            return COP_ENOMEM;
    return 0;
}

static struct cop__child *push(struct cop_node *node, struct cop__sweep *sweep,
                               cop_rank rank, enum cop__child_state state)
{
    if (sweep->child_count == sweep->child_capacity) {
        uint32_t capacity = sweep->child_capacity ? sweep->child_capacity * 2 : 4;
        void *grown = realloc(sweep->children, capacity * sizeof *sweep->children);
        if (!grown) {
            cop__fail(node, COP_ENOMEM);
            return NULL;
        }
        sweep->children = grown;
        sweep->child_capacity = capacity;
    }
    struct cop__child *child = &sweep->children[sweep->child_count++];
    *child = (struct cop__child){.rank = rank, .state = (uint8_t)state};
    if (note_places(sweep)) {
        sweep->child_count--;
        cop__fail(node, COP_ENOMEM);
        return NULL;
    }
    return child;
}

/* What the protocol asks, behind those without a place inside; to be freed. */
static struct cop_buf *with_leaves(const struct cop__sweep *sweep,
                                   struct cop__bytes request)
{
    struct cop_buf *buf =
        cop_buf_create(4 + 4 * (size_t)sweep->leaves.count + request.length);
    if (!buf)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    cop__put_u32(&writer, sweep->leaves.count);
    for (uint32_t i = 0; i < sweep->leaves.count; i++)
        cop__put_u32(&writer, sweep->leaves.items[i]);
    if (request.length > 0)
        memcpy(buf->data + buf->length - request.length, request.data, request.length);
    return buf;
}

static struct cop_buf *encode_ask(struct cop_node *node, const struct cop__sweep *sweep,
                                  struct cop__bytes payload)
{
    const struct cop_shape *shape = &sweep->tree.shape;
    struct cop__msg_ask ask = {
        .initiator = sweep->initiator,
        .incarnation = sweep->incarnation,
        .sequence = sweep->sequence,
        .mark = cop__origin_mark(node, sweep->initiator, sweep->incarnation),
        .epoch = sweep->epoch,
        .left_ns = sweep->deadline - node->now - sweep->hop_ns,
        .hop_ns = sweep->hop_ns,
        .protocol = sweep->protocol,
        .flags = sweep->wants_outcome ? ASK_OUTCOME : 0,
        .shape = (uint8_t)shape->kind,
        .inner = (uint8_t)shape->inner,
        .arity = shape->k,
        .members = sweep->tree.n,
        .payload = payload,
    };
    if (sweep->leaves.count == 0)
        return cop__encode_ask(&ask);
    struct cop_buf *whole = with_leaves(sweep, payload), *buf = NULL;
    if (whole) {
        ask.flags |= ASK_LEAVES;
        ask.payload = (struct cop__bytes){whole->data, whole->length};
        buf = cop__encode_ask(&ask);
    }
    cop_buf_unref(whole);
    return buf;
}

/* Time for an answer to come back from below; without it there is no use in asking. */
static bool has_time_to_ask(const struct cop_node *node, const struct cop__sweep *sweep)
{
    return sweep->deadline > node->now && sweep->deadline - node->now > sweep->hop_ns;
}

/* Asks one child; `*frame` is made for the first and shared by all. */
static void ask(struct cop_node *node, struct cop__sweep *sweep,
                struct cop__child *child, struct cop_buf **frame)
{
    if (!has_time_to_ask(node, sweep)) {
        child->state = CHILD_FAILED;
        return;
    }
    if (!*frame)
        *frame = encode_ask(node, sweep, cop__sweep_request(sweep));
    child->state = CHILD_OWED;
    sweep->owed++;
    cop__watch(node, cop__sweep_id(sweep, child->rank));
    cop__sweep_send(node, sweep, child->rank, COP__KIND_ASK, cop_buf_ref(*frame));
}

void cop__sweep_ask_with(struct cop_node *node, struct cop__sweep *sweep, cop_rank rank,
                         struct cop__bytes payload)
{
    if (has_time_to_ask(node, sweep))
        cop__sweep_send(node, sweep, rank, COP__KIND_ASK,
                        encode_ask(node, sweep, payload));
}

static void push_children_of(struct cop_node *node, struct cop__sweep *sweep,
                             cop_rank rank)
{
    struct cop_ranks *below = &cop__sweeps(node)->scratch;
    if (cop_tree_children(&sweep->tree, rank, below))
        cop__fail(node, COP_ENOMEM);
    /* Without a loss the list is the tree's and has no repetition to look for. */
    for (uint32_t i = 0; i < below->count; i++)
        if (!sweep->tangled || !cop__sweep_child(sweep, below->items[i]))
            push(node, sweep, below->items[i], CHILD_FAILED);
}

/* Asks everyone in the list from `from` on; a suspect is passed around, which makes the
 * list longer. */
static void ask_from(struct cop_node *node, struct cop__sweep *sweep, uint32_t from)
{
    struct cop_buf *frame = NULL;
    for (uint32_t i = from; i < sweep->child_count && !node->failed; i++) {
        cop_rank rank = sweep->children[i].rank;
        if (cop__sweep_is_lost(node, sweep, rank)) {
            sweep->tangled = true;
            sweep->children[i].state = CHILD_LOST;
            cop__sweep_tell_part(node, sweep, rank, COP_ELOST,
                                 (struct cop__bytes){NULL, 0});
            push_children_of(node, sweep, rank);
        } else if (sweep->tangled && cop__sweep_holds(sweep, rank)) {
            sweep->children[i].state = CHILD_ANSWERED;
        } else {
            ask(node, sweep, &sweep->children[i], &frame);
        }
    }
    cop_buf_unref(frame);
}

void cop__sweep_ask_all(struct cop_node *node, struct cop__sweep *sweep)
{
    uint32_t from =
        sweep->child_count; /* orphans may have come before the gate opened */
    sweep->forwarded = true;
    push_children_of(node, sweep, sweep->self);
    ask_from(node, sweep, from);
}

void cop__sweep_forward(struct cop_node *node, struct cop__sweep *sweep)
{
    COP_ASSERT(!sweep->forwarded && !sweep->contributed);
    cop__sweep_ask_all(node, sweep);
}

/* They are listed, as ones that will not answer: what I say is for me alone. */
COP__APART void cop__sweep_refuse(struct cop_node *node, struct cop__sweep *sweep,
                                  struct cop_buf *payload)
{
    COP_ASSERT(!sweep->forwarded);
    sweep->forwarded = true;
    push_children_of(node, sweep, sweep->self);
    cop__sweep_contribute(node, sweep, payload);
}

/*
 * Asks somebody below me, listed or not, again or for the first time. A suspect is
 * passed around; should it deny, it is asked then.
 */
void cop__sweep_ask_one(struct cop_node *node, struct cop__sweep *sweep, cop_rank rank)
{
    struct cop__child *child = cop__sweep_child(sweep, rank);
    if (child && child->state == CHILD_OWED)
        return;
    sweep->tangled = true;
    if (!child) {
        if (push(node, sweep, rank, CHILD_FAILED))
            ask_from(node, sweep, sweep->child_count - 1);
    } else if (!cop__sweep_is_lost(node, sweep, rank)) {
        struct cop_buf *frame = NULL;
        ask(node, sweep, child, &frame);
        cop_buf_unref(frame);
    } else if (child->state != CHILD_LOST) {
        cop__sweep_lose_child(node, sweep, child);
    }
}

void cop__sweep_ask_again(struct cop_node *node, struct cop__sweep *sweep,
                          cop_rank rank)
{
    const struct cop__child *child = cop__sweep_child(sweep, rank);
    if (child && child->state == CHILD_OWED && has_time_to_ask(node, sweep))
        cop__sweep_send(node, sweep, rank, COP__KIND_ASK,
                        encode_ask(node, sweep, cop__sweep_request(sweep)));
}

/* Takes in an orphan: its answer, unless that is here already, and its wait for the
 * outcome. */
void cop__sweep_adopt(struct cop_node *node, struct cop__sweep *sweep, cop_rank rank)
{
    if (!cop__sweep_holds(sweep, rank))
        cop__sweep_ask_one(node, sweep, rank);
    else if (!cop__sweep_child(sweep, rank))
        push(node, sweep, rank, CHILD_ANSWERED);
}

void cop__sweep_settle_child(struct cop_node *node, struct cop__sweep *sweep,
                             struct cop__child *child, enum cop__child_state state)
{
    if (child->state == CHILD_OWED) {
        sweep->owed--;
        cop__unwatch(node, cop__sweep_id(sweep, child->rank));
    }
    child->state = (uint8_t)state;
}

/* S2: the children of the lost one are mine now, and each is asked again. */
void cop__sweep_lose_child(struct cop_node *node, struct cop__sweep *sweep,
                           struct cop__child *child)
{
    cop_rank rank = child->rank;
    uint32_t from = sweep->child_count;
    COP__COUNT(node, adoptions);
    sweep->tangled = true;
    cop__sweep_settle_child(node, sweep, child, CHILD_LOST);
    cop__sweep_tell_part(node, sweep, rank, COP_ELOST, (struct cop__bytes){NULL, 0});
    push_children_of(node, sweep, rank);
    ask_from(node, sweep, from);
}
