/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/compute.h"

#include "term/say.h"

#include <coppice/error.h>
#include <coppice/node.h>
#include <stdlib.h>

#define FIRST 1u /* the incarnation of all */

/* An event that waits for its turn. */
struct item {
    struct item *next;
    cop_id to;
    struct cop_event event;
    struct cop_frame frame; /* of RECV, with a reference to the payload */
};

/* The nodes, and what is on its way between them: first in, first out, without time. */
struct mill {
    uint32_t n;
    cop_id dead; /* COP_ID_NONE: nobody yet */
    struct cop_node **nodes;
    struct cop_view *view;
    struct cop_effects effects;
    struct item *first, **last;
    cop_time now, spent_ns;
};

/* ---- the way between nodes ------------------------------------------------------- */

static int push(struct mill *mill, cop_id to, const struct cop_event *event)
{
    struct item *item = calloc(1, sizeof *item);
    if (item == NULL)
        return COP_ENOMEM;
    item->to = to;
    item->event = *event;
    if (event->frame != NULL) {
        item->frame = *event->frame;
        item->event.frame = &item->frame;
        cop_buf_ref(item->frame.payload);
    }
    *mill->last = item;
    mill->last = &item->next;
    return 0;
}

static struct item *pull(struct mill *mill)
{
    struct item *item = mill->first;
    if (item == NULL)
        return NULL;
    mill->first = item->next;
    if (mill->first == NULL)
        mill->last = &mill->first;
    return item;
}

static void free_item(struct item *item)
{
    cop_buf_unref(item->frame.payload);
    free(item);
}

static int push_down(struct mill *mill, cop_id to, cop_id peer, enum cop_down why)
{
    const struct cop_event event = {
        .kind = COP_EVENT_PEER_DOWN, .peer = peer, .incarnation = FIRST, .why = why};
    return push(mill, to, &event);
}

/* Everybody can reach everybody but the dead one. */
static int carry_out(struct mill *mill, cop_id from, const struct cop_effect *effect)
{
    cop_id to = effect->peer;
    if (effect->kind != COP_EFFECT_SEND && effect->kind != COP_EFFECT_CONNECT)
        return 0;
    if (to == mill->dead)
        return push_down(mill, from, to, COP_DOWN_REFUSED);
    struct cop_event event = {.kind = COP_EVENT_RECV, .peer = from};
    if (effect->kind == COP_EFFECT_SEND) {
        event.frame = &effect->frame;
        return push(mill, to, &event);
    }
    event =
        (struct cop_event){.kind = COP_EVENT_PEER_UP, .peer = to, .incarnation = FIRST};
    return push(mill, from, &event);
}

/* ---- steps ----------------------------------------------------------------------- */

static int step(struct mill *mill, cop_id id, struct cop_event *event)
{
    event->now = mill->now++;
    cop_time begun = now_ns();
    int error = cop_step(mill->nodes[id], event, &mill->effects);
    mill->spent_ns += now_ns() - begun;
    for (uint32_t i = 0; i < mill->effects.count && error == 0; i++)
        error = carry_out(mill, id, &mill->effects.items[i]);
    return error;
}

static bool is_over(const struct mill *mill)
{
    return cop_node_change_times(mill->nodes[0]).epoch != 0;
}

/* Until nothing is on its way, or the root has everybody's word for a new view. */
static int grind(struct mill *mill)
{
    int error = 0;
    while (error == 0 && !is_over(mill)) {
        struct item *item = pull(mill);
        if (item == NULL)
            break;
        if (item->to != mill->dead)
            error = step(mill, item->to, &item->event);
        free_item(item);
    }
    return error;
}

static int start(struct mill *mill)
{
    int error = 0;
    for (cop_id id = 0; id < mill->n && error == 0; id++) {
        struct cop_event tick = {.kind = COP_EVENT_TICK};
        struct cop_config config = {.self = id,
                                    .incarnation = FIRST,
                                    .view = mill->view,
                                    .now = mill->now,
                                    .quorum = COP_QUORUM_MAJORITY};
        error = cop_node_create(&config, &mill->nodes[id]);
        if (error == 0)
            error = step(mill, id, &tick);
    }
    return error ? error : grind(mill);
}

/* The last one dies, a leaf; its parent notices. */
static int change(struct mill *mill, uint32_t arity)
{
    mill->dead = mill->n - 1;
    mill->spent_ns = 0;
    int error = push_down(mill, (mill->dead - 1) / arity, mill->dead, COP_DOWN_CLOSED);
    if (error == 0)
        error = grind(mill);
    return error == 0 && !is_over(mill) ? COP_ESTATE : error;
}

int bench_compute(uint32_t n, uint32_t arity, double *compute_ns)
{
    struct mill mill = {.n = n, .dead = COP_ID_NONE, .now = COP_SEC};
    struct cop_shape shape;
    mill.last = &mill.first;
    int error = n < 3 ? COP_EINVAL : cop_shape_make(COP_SHAPE_KARY, arity, &shape);
    if (error == 0)
        error = cop_view_create_static(n, &shape, FIRST, &mill.view);
    if (error)
        return error;
    mill.nodes = calloc(n, sizeof(struct cop_node *));
    error = mill.nodes ? start(&mill) : COP_ENOMEM;
    if (error == 0)
        error = change(&mill, arity);
    if (error == 0)
        *compute_ns = (double)mill.spent_ns / (n - 1);
    for (struct item *item; (item = pull(&mill)) != NULL;)
        free_item(item);
    for (cop_id id = 0; mill.nodes != NULL && id < n; id++)
        cop_node_destroy(mill.nodes[id]);
    free(mill.nodes);
    cop_effects_free(&mill.effects);
    cop_view_unref(mill.view);
    return error;
}
