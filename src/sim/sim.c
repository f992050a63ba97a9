/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world.h"

#include "base/assert.h"
#include "base/random.h"
#include "view/view.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- small things that all parts use --------------------------------------------- */

cop_incarnation cop__sim_incarnation(const struct cop_sim *sim, cop_id id)
{
    return COP__FIRST_INCARNATION + sim->nodes[id].life;
}

bool cop__sim_alive(const struct cop_sim *sim, cop_id id)
{
    return sim->nodes[id].actor != NULL;
}

struct cop__sim_event *cop__sim_event(struct cop_sim *sim, uint8_t kind, cop_id src,
                                      cop_id dst)
{
    struct cop__sim_event *event = cop__queue_take(&sim->queue);
    if (!event) {
        cop_sim_fail(sim, "sim", "out of memory");
        return NULL;
    }
    *event = (struct cop__sim_event){.kind = kind,
                                     .src = src,
                                     .dst = dst,
                                     .src_life = sim->nodes[src].life,
                                     .dst_life = sim->nodes[dst].life};
    return event;
}

void cop__sim_push(struct cop_sim *sim, struct cop__sim_event *event, cop_time time)
{
    event->time = time;
    cop__queue_push(&sim->queue, event);
}

void cop__sim_drop(struct cop_sim *sim, struct cop__sim_event *event)
{
    cop_buf_unref(event->payload);
    cop__queue_give(&sim->queue, event);
}

void cop_sim_fail(struct cop_sim *sim, const char *checker, const char *format, ...)
{
    if (sim->failure[0])
        return;
    int used = snprintf(sim->failure, sizeof(sim->failure), "%s: ", checker);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sim->failure + used, sizeof(sim->failure) - (size_t)used, format,
              arguments);
    va_end(arguments);
    cop__trace_line(sim, "! %s", sim->failure);
}

uint64_t cop_sim_draw(const struct cop_sim *sim, uint32_t place, uint64_t a, uint64_t b,
                      uint64_t bound)
{
    uint64_t value = cop__mix64(sim->config.seed ^ ((uint64_t)place << 56));
    value = cop__mix64(value + a);
    value = cop__mix64(value ^ b);
    return value % bound;
}

bool cop_sim_buggify(struct cop_sim *sim, uint32_t place, uint32_t rarity)
{
    if (!(sim->config.flags & COP_SIM_BUGGIFY) || sim->calm)
        return false;
    return cop_sim_draw(sim, COP__PLACE_BUGGIFY, place, sim->draws++, rarity) == 0;
}

/* ---- making and ending ----------------------------------------------------------- */

#define NAMED_MAX 64u

/* The ids of a set, as a sorted list; how many there are. */
static uint32_t list(const struct cop_sim_set *set, cop_id out[NAMED_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < set->count; i++)
        for (cop_id id = set->ranges[i].first;
             id <= set->ranges[i].last && count < NAMED_MAX; id++)
            out[count++] = id;
    return count;
}

static int bear(struct cop_sim *sim, cop_id id, struct cop_view *view, const char *name,
                bool spare)
{
    struct cop__sim_node *node = &sim->nodes[id];
    cop_id named[NAMED_MAX];
    struct cop_config config = {
        .self = id,
        .incarnation = cop__sim_incarnation(sim, id),
        .view = view,
        .stats = &sim->stats,
        .now = sim->now,
        .quorum = sim->config.quorum,
        .quorum_ids = named,
        .quorum_count = list(&sim->config.named, named),
        .name = name,
        .spare = spare,
        .detect = sim->config.detect,
        .guard = sim->config.guard,
        .views = sim->views,
    };
    config.services = cop__sim_services(sim, &config.service_count);
    int error = sim->actor->create(sim->actor->context, &config, &node->actor);
    if (error) {
        node->actor = NULL;
        return error;
    }
    struct cop__sim_event *event = cop__sim_event(sim, COP__SIM_TICK, id, id);
    if (!event)
        return COP_ENOMEM;
    node->born = sim->now;
    node->armed = sim->now;
    cop__sim_push(sim, event, sim->now);
    return 0;
}

int cop__sim_bear(struct cop_sim *sim, cop_id id)
{
    return bear(sim, id, sim->view, NULL, false);
}

int cop__sim_bear_joiner(struct cop_sim *sim, cop_id id, struct cop_view *view,
                         const struct cop__newcomer *newcomer)
{
    sim->nodes[id].called = newcomer->called;
    return bear(sim, id, view, newcomer->called ? newcomer->name : NULL,
                newcomer->spare);
}

bool cop__sim_has_nodes(const struct cop_sim *sim)
{
    return sim->actor->create == cop_sim_actor_node()->create;
}

bool cop__sim_has_views(const struct cop_sim *sim)
{
    return sim->config.quorum != COP_QUORUM_FIXED;
}

/* Members that are drained from the start: as if a view had said so before it. */
static int drain(struct cop_sim *sim)
{
    const struct cop_sim_set *set = &sim->config.drained;
    struct cop_ballot ballot = cop_view_ballot(sim->view);
    struct cop__delta delta = {0};
    struct cop_view *view = NULL;
    int error = 0;
    for (uint32_t i = 0; i < set->count; i++)
        for (cop_id id = set->ranges[i].first; id <= set->ranges[i].last && !error;
             id++) {
            struct cop__entry entry;
            if (!cop__view_entry(sim->view, id, &entry))
                break;
            entry.flags = COP__ENTRY_DRAINED;
            error = cop__delta_put(&delta, &entry);
        }
    if (!error && delta.count > 0)
        error = cop__view_derive(sim->view, &ballot, &delta, &view);
    cop__delta_free(&delta);
    if (view) {
        cop_view_unref(sim->view);
        sim->view = view;
    }
    return error;
}

static int populate(struct cop_sim *sim)
{
    uint32_t n = sim->config.nodes;
    uint32_t start =
        sim->config.start && cop__sim_has_views(sim) ? sim->config.start : n;
    int error = start <= n ? cop_view_create_static(start, &sim->config.shape,
                                                    COP__FIRST_INCARNATION, &sim->view)
                           : COP_EINVAL;
    if (!error)
        error = drain(sim);
    if (error)
        return error;
    sim->nodes = calloc(n, sizeof(*sim->nodes));
    sim->views = cop_view_pool_create();
    if (!sim->nodes || !sim->views)
        return COP_ENOMEM;
    for (cop_id id = 0; id < n; id++)
        sim->nodes[id].died = COP_TIME_NEVER;
    error = cop__net_create(sim, &sim->net);
    for (cop_id id = 0; id < start && !error; id++)
        error = cop__sim_bear(sim, id);
    return error;
}

int cop_sim_create(const struct cop_sim_config *config, struct cop_sim **out)
{
    struct cop_sim *sim = calloc(1, sizeof(*sim));
    if (!sim)
        return COP_ENOMEM;
    sim->config = *config;
    sim->actor = config->actor ? config->actor : cop_sim_actor_node();
    cop__queue_init(&sim->queue);
    cop__digest_init(&sim->digest);
    cop__map_init(&sim->sides);
    int error = populate(sim);
    if (error) {
        cop_sim_destroy(sim);
        return error;
    }
    cop__sim_take_checkers(sim);
    *out = sim;
    return 0;
}

static void destroy_node(struct cop_sim *sim, struct cop__sim_node *node)
{
    if (node->actor)
        sim->actor->destroy(node->actor);
    while (node->inbox) {
        struct cop__sim_event *event = node->inbox;
        node->inbox = event->next;
        cop__sim_drop(sim, event);
    }
    cop__peers_fini(&node->peers);
}

void cop_sim_destroy(struct cop_sim *sim)
{
    if (!sim)
        return;
    cop__sim_end_checkers(sim);
    cop_effects_free(&sim->effects);
    for (cop_id id = 0; sim->nodes && id < sim->config.nodes; id++)
        destroy_node(sim, &sim->nodes[id]);
    free(sim->nodes);
    cop__links_fini(sim);
    cop__joining_fini(sim);
    cop__service_fini(sim);
    cop__queue_fini(&sim->queue);
    cop__net_destroy(sim->net);
    free(sim->actions);
    free(sim->rules);
    free(sim->partitions);
    cop_view_unref(sim->view);
    cop_view_pool_free(sim->views);
    free(sim);
}

/* ---- ticks ----------------------------------------------------------------------- */

/*
 * One tick of a node counts, the one at `armed`. A deadline that moves earlier gets a new
 * one, and the old finds `armed` changed; one that moves later is seen when the tick fires
 * too early, and armed again then. So a deadline that is moved at every step costs nothing.
 */
void cop__sim_arm(struct cop_sim *sim, cop_id id)
{
    struct cop__sim_node *node = &sim->nodes[id];
    if (!node->actor || (node->flags & COP__NODE_TICKING))
        return;
    cop_time deadline = sim->actor->deadline(node->actor);
    if (deadline == COP_TIME_NEVER)
        return;
    cop_time time = deadline > node->clock_ns ? deadline - node->clock_ns : 0;
    if (time < sim->now)
        time = sim->now;
    if (time >= node->armed)
        return;
    if (cop_sim_buggify(sim, COP__PLACE_LATE_TICK, 10))
        time += cop_sim_draw(sim, COP__PLACE_LATE_TICK, id, sim->draws, 2 * COP_MSEC);
    struct cop__sim_event *event = cop__sim_event(sim, COP__SIM_TICK, id, id);
    if (!event)
        return;
    node->armed = time;
    cop__sim_push(sim, event, time);
}

static bool tick_is_due(struct cop_sim *sim, const struct cop__sim_event *event)
{
    struct cop__sim_node *node = &sim->nodes[event->dst];
    if (!node->actor || node->life != event->dst_life || node->armed != event->time)
        return false;
    node->armed = COP_TIME_NEVER;
    /* The first tick of a life comes whether it has a deadline or not. */
    cop_time deadline = sim->actor->deadline(node->actor);
    bool first = node->born == event->time;
    if (!first &&
        (deadline == COP_TIME_NEVER || deadline > sim->now + node->clock_ns)) {
        cop__sim_arm(sim, event->dst);
        return false;
    }
    return true;
}

/* ---- one step of one node -------------------------------------------------------- */

static struct cop_event event_for_node(struct cop_sim *sim,
                                       const struct cop__sim_event *event,
                                       struct cop_frame *frame)
{
    static const enum cop_event_kind kinds[] = {
        [COP__SIM_FRAME] = COP_EVENT_RECV,     [COP__SIM_UP] = COP_EVENT_PEER_UP,
        [COP__SIM_DOWN] = COP_EVENT_PEER_DOWN, [COP__SIM_TICK] = COP_EVENT_TICK,
        [COP__SIM_TOLD] = COP_EVENT_PEER_DOWN, [COP__SIM_SUBMIT] = COP_EVENT_SUBMIT,
        [COP__SIM_ANSWER] = COP_EVENT_SUBMIT,
    };
    struct cop_event out = {.kind = kinds[event->kind],
                            .now = sim->now + sim->nodes[event->dst].clock_ns,
                            .peer = event->src};
    if (event->kind == COP__SIM_FRAME) {
        frame->payload = event->payload;
        frame->header = (struct cop_header){
            .kind = event->frame_kind,
            .sender = event->src,
            .receiver = event->dst,
            .sender_incarnation = COP__FIRST_INCARNATION + event->src_life,
            .receiver_incarnation = event->word,
            .epoch = event->view,
            .length = event->payload ? event->payload->length : 0,
        };
        out.frame = frame;
    } else if (event->kind == COP__SIM_UP) {
        out.incarnation = event->word;
    } else if (event->kind == COP__SIM_DOWN || event->kind == COP__SIM_TOLD) {
        out.why = (enum cop_down)event->word;
        out.incarnation = COP__FIRST_INCARNATION + event->src_life;
    } else if (event->kind == COP__SIM_SUBMIT) {
        struct cop_request *request = &sim->actions[event->word].request;
        if (request->kind == COP_REQUEST_SEND) /* the list may have moved */
            request->bytes = &request->token;
        out.request = request;
        if (cop__sim_is_collective(sim->actions[event->word].kind))
            out.request = cop__service_prepare(sim, &sim->actions[event->word]);
    } else if (event->kind == COP__SIM_ANSWER) {
        out.request = cop__service_decode(sim, event->payload);
    }
    return out;
}

/* Gives the event to the node and carries out what it wants. */
static void step_node(struct cop_sim *sim, const struct cop__sim_event *event)
{
    struct cop__sim_node *node = &sim->nodes[event->dst];
    struct cop_frame frame;
    struct cop_event given = event_for_node(sim, event, &frame);
    sim->events++;
    cop__trace_event(sim, event);
    if (event->kind == COP__SIM_FRAME)
        node->receives++;
    sim->depart = sim->now + sim->config.net.compute_ns + node->slow_ns;
    int status = sim->actor->step(node->actor, &given, &sim->effects);
    if (status == COP_ENOMEM) {
        cop_sim_fail(sim, "sim", "out of memory");
        return;
    }
    if (event->kind == COP__SIM_SUBMIT || event->kind == COP__SIM_ANSWER) {
        /* A copy: what looks on may submit, and so move the list. */
        struct cop_request request = *given.request;
        cop__sim_after_submit(sim, event->dst, &request, status);
    }
    cop__trace_effects(sim, event->dst);
    cop__sim_carry(sim, event->dst);
    node->busy = sim->depart;
    if (sim->config.net.overhead_ns > 0 && node->port > node->busy)
        node->busy = node->port;
    sim->depart = sim->now;
    if (node->actor) {
        cop__sim_after_step(sim, event->dst);
        cop__sim_arm(sim, event->dst);
    }
}

static bool dies_before(const struct cop_sim *sim, const struct cop__sim_event *event)
{
    const struct cop__sim_node *node = &sim->nodes[event->dst];
    return event->kind == COP__SIM_FRAME && (node->flags & COP__NODE_RULES) &&
           cop__faults_due(sim, event->dst, COP_SIM_BEFORE_RECV,
                           (uint64_t)node->receives + 1);
}

static void handle(struct cop_sim *sim, struct cop__sim_event *event)
{
    if (dies_before(sim, event))
        cop__faults_crash(sim, event->dst);
    else
        step_node(sim, event);
    cop__sim_drop(sim, event);
}

/* ---- what waits for a busy node -------------------------------------------------- */

void cop__sim_wake(struct cop_sim *sim, cop_id id, cop_time time)
{
    struct cop__sim_node *node = &sim->nodes[id];
    if (node->flags & COP__NODE_WAKING)
        return;
    struct cop__sim_event *event = cop__sim_event(sim, COP__SIM_WAKE, id, id);
    if (!event)
        return;
    node->flags |= COP__NODE_WAKING;
    cop__sim_push(sim, event, time < sim->now ? sim->now : time);
}

static void put_in_inbox(struct cop_sim *sim, struct cop__sim_event *event)
{
    struct cop__sim_node *node = &sim->nodes[event->dst];
    event->next = NULL;
    if (node->inbox_last)
        node->inbox_last->next = event;
    else
        node->inbox = event;
    node->inbox_last = event;
    if (event->kind == COP__SIM_TICK)
        node->flags |= COP__NODE_TICKING;
    if (!(node->flags & COP__NODE_PAUSED))
        cop__sim_wake(sim, event->dst, node->busy);
}

static void look_into_inbox(struct cop_sim *sim, cop_id id)
{
    struct cop__sim_node *node = &sim->nodes[id];
    node->flags &= (uint8_t)~COP__NODE_WAKING;
    if ((node->flags & COP__NODE_PAUSED) || !node->inbox)
        return;
    if (node->busy <= sim->now) {
        struct cop__sim_event *event = node->inbox;
        node->inbox = event->next;
        if (!node->inbox)
            node->inbox_last = NULL;
        if (event->kind == COP__SIM_TICK)
            node->flags &= (uint8_t)~COP__NODE_TICKING;
        event->time = sim->now;
        handle(sim, event);
    }
    if (node->inbox)
        cop__sim_wake(sim, id, node->busy);
}

static void deliver(struct cop_sim *sim, struct cop__sim_event *event)
{
    const struct cop__sim_node *node = &sim->nodes[event->dst];
    if (!node->actor || node->life != event->dst_life)
        cop__sim_drop(sim, event);
    else if ((node->flags & COP__NODE_PAUSED) || node->busy > sim->now || node->inbox)
        put_in_inbox(sim, event);
    else
        handle(sim, event);
}

/* ---- the loop -------------------------------------------------------------------- */

/* What moves the world rather than a node. */
static void dispatch_world(struct cop_sim *sim, struct cop__sim_event *event)
{
    switch (event->kind) {
    case COP__SIM_WAKE:
        look_into_inbox(sim, event->dst);
        break;
    case COP__SIM_ACTION:
        cop__faults_apply(sim, (uint32_t)event->word);
        break;
    case COP__SIM_RECONNECT:
        cop__links_reconnect(sim, event->src, event->dst);
        break;
    case COP__SIM_SILENT:
        cop__links_silent(sim, event);
        break;
    case COP__SIM_CUTOFF:
        cop__faults_cutoff(sim, event->word);
        break;
    case COP__SIM_JOINING:
        cop__joining_try(sim, (uint32_t)event->word, event->view);
        break;
    default:
        COP_ASSERT(false);
    }
    cop__sim_drop(sim, event);
}

static void dispatch(struct cop_sim *sim, struct cop__sim_event *event)
{
    switch (event->kind) {
    case COP__SIM_FRAME:
    case COP__SIM_UP:
    case COP__SIM_DOWN:
        if (cop__links_admit(sim, event))
            deliver(sim, event);
        return;
    case COP__SIM_TICK:
        if (tick_is_due(sim, event))
            deliver(sim, event);
        else
            cop__sim_drop(sim, event);
        return;
    case COP__SIM_TOLD:
    case COP__SIM_SUBMIT:
    case COP__SIM_ANSWER:
        deliver(sim, event);
        return;
    default:
        dispatch_world(sim, event);
    }
}

/* The next nodes are known before their turn: have them in the cache by then. */
#define CACHE_LINE 64u
#define NODE_LINES 8u /* of a node's block: node_bytes of an idle one is below 512 */

static void prefetch(const struct cop_sim *sim)
{
    const struct cop__sim_event *next = cop__queue_peek(&sim->queue);
    if (!next)
        return;
    const char *block = sim->nodes[next->dst].actor;
    for (uint32_t i = 0; i < NODE_LINES && block; i++)
        __builtin_prefetch(block + (size_t)i * CACHE_LINE);
    __builtin_prefetch(next->payload);
    const struct cop__sim_event *after = next->next;
    if (!after)
        return;
    __builtin_prefetch(&sim->nodes[after->dst]);
    __builtin_prefetch((const char *)&sim->nodes[after->dst] + CACHE_LINE);
    __builtin_prefetch(after->next);
}

bool cop_sim_step(struct cop_sim *sim)
{
    if (sim->failure[0])
        return false;
    struct cop__sim_event *event = cop__queue_pop(&sim->queue);
    if (!event)
        return false;
    prefetch(sim);
    sim->now = event->time;
    sim->depart = sim->now;
    dispatch(sim, event);
    return sim->failure[0] == '\0';
}

void cop_sim_run(struct cop_sim *sim, cop_time until)
{
    sim->stopped = false;
    while (!sim->stopped &&
           (until == COP_TIME_NEVER || cop__queue_next(&sim->queue) <= until)) {
        if (!cop_sim_step(sim))
            break;
    }
    if (until != COP_TIME_NEVER && !sim->stopped && !sim->failure[0] &&
        until > sim->now)
        sim->now = until;
}

void cop_sim_stop(struct cop_sim *sim) { sim->stopped = true; }

bool cop_sim_is_quiet(const struct cop_sim *sim) { return sim->queue.count == 0; }
