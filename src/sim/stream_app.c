/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world.h"
#include "stream/stream.h"

#include <stdlib.h>
#include <string.h>

/*
 * What the programs around the nodes do in a simulation with a stream: a front-end opens it at
 * the root, takes what comes, sends down, and goes where the root goes; a back-end at each
 * node gives packets, as many as there are waves. It looks on like a checker, and never fails.
 *
 * A front-end that is at a member knows of the stream what that member knows, and what a root that
 * lived long enough has answered: no more than one of src/run/stream_front.c.
 */

/* At most one submission of each is under way. */
struct actor {
    uint32_t slot; /* of the action that is submitted, + 1; 0: none yet */
    bool pending;
};

struct back_end {
    struct actor actor;
    cop_incarnation life; /* in which it was told of the stream; 0: not */
    uint64_t key;         /* of the one it was told of, of all that have the number */
    uint64_t packet;
};

struct state {
    uint64_t number;
    struct back_end *back_ends; /* by id */
    struct actor opens, takes, sends, closes;
    bool closed; /* it was through, and was told to go */
    struct cop_stream_options options;
    struct cop_buf *definition; /* of when it was opened first, as far as it knows */
    cop_id front;               /* the member at which it is; NONE: nowhere */
    cop_incarnation front_life;
    bool is_new;      /* its packets go behind those of the one before */
    bool answers;     /* the root has opened it, and has yet to say so */
    uint64_t put_out; /* meanwhile: the last wave */
    uint64_t base;    /* the last packet down of the one before */
    cop_id root;      /* where the front-end is; NONE: nowhere */
    cop_incarnation root_life;
    cop_id wanted; /* where it was last, or is on its way to */
    cop_incarnation wanted_life;
    cop_epoch epoch; /* of the view that made it root */
    uint64_t seen;   /* the last wave that was put out */
    uint64_t taken;
    uint64_t reached, sent; /* packets down */
    uint64_t *packets;
};

/* One for each stream, by its number. */
struct all {
    struct state *streams;
    uint32_t count;
};

uint64_t cop__stream_value(uint64_t number, cop_id id, cop_incarnation life,
                           uint64_t wave)
{
    return (number - 1) * 500009 + (uint64_t)id * 1000003 + life * 10007 + wave * 31 +
           1;
}

static void submit(struct cop_sim *sim, struct actor *actor, uint64_t number, cop_id id,
                   const struct cop_request *request, cop_time delay)
{
    struct cop_sim_action action;
    if (actor->pending)
        return;
    memset(&action, 0, sizeof(action));
    action.kind = COP_SIM_STREAM;
    action.a = id;
    action.b = COP_ID_NONE;
    if (actor->slot == 0) {
        if (cop__sim_keep_action(sim, &action) != 0) {
            cop_sim_fail(sim, "sim", "out of memory");
            return;
        }
        actor->slot = sim->action_count;
    }
    action.request = *request;
    action.request.token = COP__STREAM_TOKEN;
    action.request.group = number;
    sim->actions[actor->slot - 1] = action;
    struct cop__sim_event *event = cop__sim_event(sim, COP__SIM_SUBMIT, id, id);
    if (!event)
        return;
    event->word = actor->slot - 1;
    actor->pending = true;
    cop__sim_push(sim, event, sim->now + delay);
}

/* What is on its way to somebody who does not read yet stays as it was said. */
static void abandon(struct actor *actor)
{
    if (actor->pending)
        actor->slot = 0;
    actor->pending = false;
}

/* But what a front-end says to one root comes in order: of what it said of another stream of this
 * number nothing comes behind its next word. */
static void recall(struct cop_sim *sim, struct actor *actor, cop_id to)
{
    if (actor->pending && sim->actions[actor->slot - 1].a == to)
        sim->actions[actor->slot - 1].request.wave = 0;
    abandon(actor);
}

static cop_time draw(const struct cop_sim *sim, uint64_t a, uint64_t b, cop_time most)
{
    return most ? cop_sim_draw(sim, COP__PLACE_STREAM, a, b, most + 1) : 0;
}

/* ---- the front-end --------------------------------------------------------------- */

/* T15: what came to all of a later view did not come to those of an earlier one, of which only a
 * split leaves anybody: of them nothing is known. */
static void go_to(struct state *state, cop_epoch epoch)
{
    if (epoch < state->epoch)
        state->reached = 0;
    state->epoch = epoch;
}

/* Of this stream it has taken nothing, and nothing of it has come to all. */
static void begin_anew(struct state *state)
{
    state->taken = state->seen = state->reached = state->base = 0;
    state->is_new = true;
}

/* What this node has: it may be another than it was thought to be. */
static void learn(struct state *state, const struct cop_node *node)
{
    struct cop_stream_info info;
    if (!node || cop_node_stream(node, state->number, &info) != 0)
        return;
    const struct cop_buf *had = state->definition;
    if (had && had->length == info.definition->length &&
        memcmp(had->data, info.definition->data, had->length) == 0)
        return;
    if (had)
        begin_anew(state);
    cop_buf_unref(state->definition);
    state->definition = cop_buf_copy(info.definition->data, info.definition->length);
    state->options.definition = state->definition;
}

/* T1: the member at which it is says what the stream is; of one that is nowhere, the root. */
static void plan(struct state *state, struct cop_sim *sim)
{
    bool somewhere = state->front != COP_ID_NONE;
    const struct cop_node *node =
        cop_sim_node(sim, somewhere ? state->front : cop_view_root(sim->view));
    cop_buf_unref(state->definition);
    state->definition = NULL;
    if (cop__stream_plan(node, &state->options, &state->definition) != 0)
        cop_sim_fail(sim, "sim", "the stream cannot be planned");
    state->options.definition = state->definition;
}

static bool is_on(const struct cop_sim *sim, cop_id id, cop_id where,
                  cop_incarnation life)
{
    return id == where && cop__sim_incarnation(sim, id) == life;
}

/* The member at which it is has ended. One that does not survive a loss nobody takes over. */
static bool is_orphaned(const struct state *state, const struct cop_sim *sim)
{
    return state->front != COP_ID_NONE &&
           !(sim->config.stream.flags & COP_STREAM_FRAGILE) &&
           (!cop_sim_is_alive(sim, state->front) ||
            cop__sim_incarnation(sim, state->front) != state->front_life);
}

static bool has_view(const struct cop_sim *sim, cop_id id, const struct cop_view *view)
{
    const struct cop_node *node = cop_sim_node(sim, id);
    if (!node || !cop_sim_is_alive(sim, id) || !cop_node_is_member(node) ||
        !cop_view_has(view, id, cop__sim_incarnation(sim, id)))
        return false;
    struct cop_ballot a = cop_view_ballot(view);
    struct cop_ballot b = cop_view_ballot(cop_node_view(node));
    return cop_ballot_compare(&a, &b) == 0;
}

/* Another one, at any member that has the view of the root, and that knows nothing else. */
static void take_over(struct state *state, struct cop_sim *sim, cop_id root)
{
    const struct cop_view *view = cop_node_view(cop_sim_node(sim, root));
    uint32_t n = sim->config.nodes;
    cop_id first = (cop_id)draw(sim, root, state->epoch, n - 1);
    state->front = root;
    for (uint32_t i = 0; i < n; i++)
        if (has_view(sim, (first + i) % n, view)) {
            state->front = (first + i) % n;
            break;
        }
    state->front_life = cop__sim_incarnation(sim, state->front);
    begin_anew(state);
    plan(state, sim);
}

static void attach(struct state *state, struct cop_sim *sim, cop_id id, cop_time late)
{
    if (is_orphaned(state, sim))
        take_over(state, sim, id);
    if (state->front != COP_ID_NONE)
        learn(state, cop_sim_node(sim, state->front));
    struct cop_request request = {.kind = COP_REQUEST_STREAM_OPEN,
                                  .stream = &state->options,
                                  .wave = state->taken,
                                  .reached = state->reached};
    /* What was closed elsewhere a root that is new would open again. */
    if (sim->config.stream.flags & COP_STREAM_FRAGILE && state->wanted_life != 0)
        return;
    if (sim->config.stream.mortal) {
        if (state->wanted_life != 0)
            return; /* it died there */
        request.member = id;
        request.incarnation = cop__sim_incarnation(sim, id);
    }
    state->root = COP_ID_NONE;
    state->answers = false;
    state->wanted = id;
    state->wanted_life = cop__sim_incarnation(sim, id);
    abandon(&state->opens);
    recall(sim, &state->takes, id);
    recall(sim, &state->sends, id);
    abandon(&state->closes);
    submit(sim, &state->opens, state->number, id, &request,
           draw(sim, id, state->epoch + (state->number - 1) * 1009,
                sim->config.stream.lag_ns) +
               late);
}

/* Others are opened while those before are at work. */
static bool is_alone(const struct state *state) { return state->number % 2 == 0; }

static cop_time opened_late(const struct state *state, const struct cop_sim *sim)
{
    const struct cop_sim_stream *stream = &sim->config.stream;
    return state->number == 1
               ? 0
               : draw(sim, UINT64_MAX - 2, state->number,
                      2 * (stream->gap_ns + stream->lag_ns) + COP_MSEC / 10);
}

/* Of each two others one is closed when it is through; and at every root that comes later, as long
 * as that has it. */
static bool is_to_close(const struct state *state, const struct cop_sim *sim)
{
    return state->number % 4 >= 2 || sim->config.stream.closes;
}

static void close_stream(struct state *state, struct cop_sim *sim)
{
    struct cop_request request = {.kind = COP_REQUEST_STREAM_CLOSE};
    if (state->root != COP_ID_NONE)
        submit(sim, &state->closes, state->number, state->root, &request, 0);
}

static void take(struct state *state, struct cop_sim *sim)
{
    struct cop_request request = {.kind = COP_REQUEST_STREAM_TAKEN,
                                  .wave = state->seen};
    if (state->root != COP_ID_NONE && state->seen > state->taken)
        submit(sim, &state->takes, state->number, state->root, &request,
               draw(sim, UINT64_MAX, state->seen, sim->config.stream.lag_ns));
}

static void send(struct state *state, struct cop_sim *sim)
{
    if (state->root == COP_ID_NONE || state->sent >= sim->config.stream.downs)
        return;
    struct cop_request request = {.kind = COP_REQUEST_STREAM_SEND,
                                  .wave = state->sent + 1,
                                  .bytes = &state->packets[state->sent],
                                  .length = 8};
    submit(sim, &state->sends, state->number, state->root, &request,
           draw(sim, UINT64_MAX - 1, state->sent, sim->config.stream.gap_ns));
}

static void on_front(struct state *state, struct cop_sim *sim, cop_id id,
                     const struct cop_stream_event *event)
{
    if (state->answers && event->kind == COP_STREAM_OUTPUT &&
        is_on(sim, id, state->wanted, state->wanted_life))
        state->put_out = event->wave;
    if (id != state->root || cop__sim_incarnation(sim, id) != state->root_life)
        return;
    if (event->kind == COP_STREAM_OUTPUT) {
        state->seen = event->wave;
        take(state, sim);
        if (is_to_close(state, sim) && event->complete &&
            event->wave >= sim->config.stream.waves)
            close_stream(state, sim);
    } else if (event->kind == COP_STREAM_REACHED) {
        state->reached = event->wave;
        send(state, sim);
    } else if (event->kind == COP_STREAM_MOVED) {
        state->root = state->wanted = COP_ID_NONE;
    }
}

/* ---- back-ends ------------------------------------------------------------------- */

static void give(struct state *state, struct cop_sim *sim, cop_id id)
{
    struct back_end *back_end = &state->back_ends[id];
    const struct cop_node *node = cop_sim_node(sim, id);
    struct cop_stream_info info;
    if (!node || back_end->life != cop__sim_incarnation(sim, id) ||
        cop_node_stream(node, state->number, &info) != 0 ||
        info.given >= sim->config.stream.waves || back_end->actor.pending)
        return;
    struct cop_request request = {.kind = COP_REQUEST_STREAM_PUT,
                                  .key = back_end->key,
                                  .bytes = &back_end->packet,
                                  .length = 8};
    submit(
        sim, &back_end->actor, state->number, id, &request,
        draw(sim, id, info.given + (back_end->life << 32), sim->config.stream.gap_ns));
}

/* The number of a packet is known when it is given: a life may begin in the middle. */
static void prepare(struct state *state, struct cop_sim *sim, cop_id id)
{
    struct cop_stream_info info;
    const struct cop_node *node = cop_sim_node(sim, id);
    struct back_end *back_end = &state->back_ends[id];
    if (node && cop_node_stream(node, state->number, &info) == 0)
        back_end->packet = cop__stream_value(
            state->number, id, cop__sim_incarnation(sim, id), info.given + 1);
}

/* What another life was about to give comes too late, and so does what this one was about to give to
 * another one of the number. */
static void begin(struct back_end *back_end, cop_incarnation life, uint64_t key)
{
    if (back_end->life == life && back_end->key == key)
        return;
    back_end->life = life;
    back_end->key = key;
    abandon(&back_end->actor);
}

static void on_stream(void *of, struct cop_sim *sim, cop_id id, uint64_t number,
                      const struct cop_stream_event *event)
{
    struct all *all = of;
    if (number == 0 || number > all->count)
        return;
    struct state *state = &all->streams[number - 1];
    if (event->kind == COP_STREAM_OPENED)
        begin(&state->back_ends[id], cop__sim_incarnation(sim, id), event->key);
    if (event->kind == COP_STREAM_OPENED || event->kind == COP_STREAM_ROOM)
        give(state, sim, id);
    else
        on_front(state, sim, id, event);
}

/* ---- looking on ------------------------------------------------------------------ */

static void fini(void *of)
{
    struct all *all = of;
    for (uint32_t i = 0; i < all->count; i++) {
        free(all->streams[i].back_ends);
        free(all->streams[i].packets);
        cop_buf_unref(all->streams[i].definition);
    }
    free(all->streams);
    free(all);
}

static bool init_one(struct cop_sim *sim, struct state *state)
{
    const struct cop_sim_stream *stream = &sim->config.stream;
    state->back_ends = calloc(sim->config.nodes, sizeof(*state->back_ends));
    state->packets = calloc(stream->downs + 1, sizeof(*state->packets));
    if (!state->back_ends || !state->packets)
        return false;
    for (uint32_t i = 0; i < stream->downs; i++)
        state->packets[i] = cop__stream_value(state->number, 0, 0, i + 1);
    state->options = (struct cop_stream_options){
        .number = state->number,
        .network = is_alone(state) ? state->number : 1,
        .filter = sim->config.stream.filter,
        .type = "u64",
        .params = sim->config.stream.params,
        .sync = stream->sync,
        .timeout_ns = stream->timeout_ns,
        .flags = stream->flags | (stream->mortal ? 0 : COP_STREAM_KEEP),
        .window = stream->window,
        .down = stream->down[0] ? stream->down : NULL,
        .down_params = stream->down_params,
    };
    state->front = COP_ID_NONE;
    if (stream->front && cop_sim_is_alive(sim, stream->front - 1)) {
        state->front = stream->front - 1;
        state->front_life = cop__sim_incarnation(sim, state->front);
    }
    plan(state, sim);
    attach(state, sim, cop_view_root(sim->view), opened_late(state, sim));
    return true;
}

static void *init(struct cop_sim *sim)
{
    struct all *all = calloc(1, sizeof(*all));
    if (!all)
        return NULL;
    all->streams = calloc(1 + sim->config.stream.others, sizeof(*all->streams));
    bool good = all->streams != NULL;
    while (good && all->count <= sim->config.stream.others) {
        struct state *state = &all->streams[all->count++];
        state->number = all->count;
        good = init_one(sim, state);
    }
    if (good)
        return all;
    fini(all);
    return NULL;
}

/* What the root says comes with what it has, and behind how many packets. */
static void hear_opened(struct state *state, struct cop_sim *sim, cop_id id)
{
    struct cop_stream_info info;
    const struct cop_node *node = cop_sim_node(sim, id);
    state->answers = false;
    state->root = id;
    state->root_life = cop__sim_incarnation(sim, id);
    abandon(&state->takes);
    abandon(&state->sends);
    learn(state, node);
    state->sent = state->reached;
    if (state->is_new && cop_node_stream(node, state->number, &info) == 0)
        state->sent = state->base = info.down;
    if (state->sent < state->base)
        state->sent = state->base; /* those before are another's */
    state->is_new = false;
    send(state, sim);
    if (state->closed)
        close_stream(state, sim);
}

static void after_front(struct state *state, struct cop_sim *sim, cop_id id,
                        const struct cop_request *request, int status)
{
    struct actor *actor = request->kind == COP_REQUEST_STREAM_OPEN    ? &state->opens
                          : request->kind == COP_REQUEST_STREAM_TAKEN ? &state->takes
                          : request->kind == COP_REQUEST_STREAM_CLOSE ? &state->closes
                                                                      : &state->sends;
    bool here = request->kind == COP_REQUEST_STREAM_OPEN
                    ? is_on(sim, id, state->wanted, state->wanted_life)
                    : is_on(sim, id, state->root, state->root_life);
    if (!here)
        return; /* what was said to a former root */
    actor->pending = false;
    /* COP_EEXIST: the root knows that it is closed, which is what was wanted. */
    if (status != 0 && request->kind == COP_REQUEST_STREAM_OPEN && status != COP_EEXIST)
        state->wanted = COP_ID_NONE;
    if (status != 0)
        return;
    if (request->kind == COP_REQUEST_STREAM_OPEN)
        state->taken = request->wave;
    if (request->kind == COP_REQUEST_STREAM_OPEN && state->front != COP_ID_NONE &&
        state->front != id) {
        state->answers = true; /* if it lives through this step */
        state->put_out = 0;
    } else if (request->kind == COP_REQUEST_STREAM_OPEN) {
        hear_opened(state, sim, id);
    } else if (request->kind == COP_REQUEST_STREAM_CLOSE) {
        state->closed = true;
    } else if (request->kind == COP_REQUEST_STREAM_TAKEN) {
        state->taken = request->wave > state->taken ? request->wave : state->taken;
        take(state, sim);
    } else {
        state->sent = request->wave;
        send(state, sim);
    }
}

static void on_submit(void *of, struct cop_sim *sim, cop_id id,
                      const struct cop_request *request, int status)
{
    struct all *all = of;
    if (request->token != COP__STREAM_TOKEN)
        return;
    struct state *state = &all->streams[request->group - 1];
    if (request->kind != COP_REQUEST_STREAM_PUT) {
        after_front(state, sim, id, request, status);
        return;
    }
    if (request->key != state->back_ends[id].key)
        return;
    state->back_ends[id].actor.pending = false;
    if (status == 0)
        give(state, sim, id);
}

/* Whether the front-end is somewhere, or on its way to somebody who lives. */
static bool is_somewhere(const struct state *state, const struct cop_sim *sim)
{
    return state->wanted != COP_ID_NONE && cop_sim_is_alive(sim, state->wanted) &&
           state->wanted_life == cop__sim_incarnation(sim, state->wanted);
}

/* The packet of a submission is made just before it is looked at. A front-end whose root is gone
 * finds whoever is root: the next view may have come before that death. */
static void look_at(struct state *state, struct cop_sim *sim, cop_id id)
{
    const struct cop_node *node = cop_sim_node(sim, id);
    prepare(state, sim, id);
    if (state->answers && is_on(sim, id, state->wanted, state->wanted_life)) {
        hear_opened(state, sim, id);
        state->seen = state->put_out;
        take(state, sim);
    }
    if (is_orphaned(state, sim))
        state->root = state->wanted = COP_ID_NONE;
    if (is_somewhere(state, sim) || !node || !cop_sim_is_alive(sim, id) ||
        !cop_node_is_member(node) || cop_view_root(cop_node_view(node)) != id)
        return;
    go_to(state, cop_view_epoch(cop_node_view(node)));
    attach(state, sim, id, 0);
}

static void after_step(void *of, struct cop_sim *sim, cop_id id)
{
    struct all *all = of;
    for (uint32_t i = 0; i < all->count; i++)
        look_at(&all->streams[i], sim, id);
}

/* Who gets a view in which it is the root gets the front-end, too. */
static void see_view(struct state *state, struct cop_sim *sim, cop_id id,
                     const struct cop_view *view)
{
    bool there = is_somewhere(state, sim);
    /* Where every side of a split goes on, the one with the later view may die. */
    if (cop_view_root(view) != id || (there && state->wanted == id) ||
        (there && cop_view_epoch(view) < state->epoch))
        return;
    go_to(state, cop_view_epoch(view));
    attach(state, sim, id, 0);
}

static void on_view(void *of, struct cop_sim *sim, cop_id id, struct cop_view *view)
{
    struct all *all = of;
    for (uint32_t i = 0; i < all->count; i++)
        see_view(&all->streams[i], sim, id, view);
}

const struct cop_sim_checker *cop_sim_stream_app(void)
{
    static const struct cop_sim_checker app = {
        .name = "stream-app",
        .init = init,
        .on_submit = on_submit,
        .after_step = after_step,
        .on_stream = on_stream,
        .on_view = on_view,
        .fini = fini,
    };
    return &app;
}
