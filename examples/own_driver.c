/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract between a node and its driver, whole: seven nodes in one process, whose
 * "network" is a queue. Node 1, a relay, is dead from the start; node 0 asks everyone.
 */
#include <coppice/coppice.h>
#include <stdio.h>
#include <stdlib.h>

#define NODES 7
#define DEAD 1
#define QUEUE 4096

struct delivery {
    cop_id to;
    struct cop_event event;
    struct cop_frame frame; /* what event.frame points to, for RECV */
};

static struct cop_node *nodes[NODES];
static struct delivery queue[QUEUE];
static unsigned head, tail;

static void deliver(cop_id to, struct cop_event event)
{
    struct delivery *slot = &queue[tail++ % QUEUE];
    slot->to = to;
    slot->event = event;
    if (event.kind == COP_EVENT_RECV) {
        slot->frame = *event.frame;
        cop_buf_ref(slot->frame.payload);
        slot->event.frame = &slot->frame;
    }
}

static void print_result(const struct cop_effect *effect)
{
    struct cop_probe_result result;
    if (cop_probe_result(effect->result, &result) != 0)
        exit(1);
    printf("%u of %u answered:", result.answered, result.members);
    for (uint32_t i = 0; i < result.dead.count; i++)
        printf(" %u is dead", result.dead.items[i]);
    printf("\n");
    if (result.answered != NODES - 1 || result.dead.count != 1)
        exit(1);
    cop_probe_result_free(&result);
}

/* Carries out what a node wants. Nobody listens at the dead one's address. */
static void carry_out(cop_id from, const struct cop_effects *effects)
{
    for (uint32_t i = 0; i < effects->count; i++) {
        const struct cop_effect *effect = &effects->items[i];
        bool reaches =
            effect->kind == COP_EFFECT_SEND || effect->kind == COP_EFFECT_CONNECT;
        if (reaches && effect->peer == DEAD)
            deliver(from, (struct cop_event){.kind = COP_EVENT_PEER_DOWN,
                                             .peer = DEAD,
                                             .why = COP_DOWN_REFUSED});
        else if (effect->kind == COP_EFFECT_SEND)
            deliver(effect->peer, (struct cop_event){.kind = COP_EVENT_RECV,
                                                     .peer = from,
                                                     .frame = &effect->frame});
        else if (effect->kind == COP_EFFECT_COMPLETE)
            print_result(effect);
    }
}

static void step(cop_id to, const struct cop_event *event)
{
    static struct cop_effects effects;
    if (event && cop_step(nodes[to], event, &effects) != 0)
        exit(1);
    if (event)
        carry_out(to, &effects);
    else
        cop_effects_free(&effects);
}

int main(void)
{
    struct cop_shape shape;
    struct cop_view *view;
    if (cop_shape_parse("kary:2", &shape, NULL, 0) ||
        cop_view_create_static(NODES, &shape, 1, &view))
        return 1;
    for (cop_id id = 0; id < NODES; id++) {
        struct cop_config config = {.self = id, .incarnation = 1, .view = view};
        if (cop_node_create(&config, &nodes[id]))
            return 1;
    }
    struct cop_request probe = {.kind = COP_REQUEST_PROBE, .token = 1};
    struct cop_event submit = {.kind = COP_EVENT_SUBMIT, .request = &probe};
    step(0, &submit);
    for (; head != tail; head++) {
        struct delivery *next = &queue[head % QUEUE];
        step(next->to, &next->event);
        if (next->event.kind == COP_EVENT_RECV)
            cop_buf_unref(next->frame.payload);
    }
    step(0, NULL);
    for (cop_id id = 0; id < NODES; id++)
        cop_node_destroy(nodes[id]);
    cop_view_unref(view);
    return 0;
}
