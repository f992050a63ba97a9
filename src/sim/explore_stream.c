/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/explore.h"
#include "stream/stream.h"

/*
 * The front-end and the back-ends of a stream in a world of the explorer. They do at once what
 * they can, in the same step: a back-end gives packets while there is room, the front-end takes
 * what it is told and sends down. When the network carries it is the choice.
 *
 * The front-end is no member, and one for all: it lives on when its root dies, and goes to whoever
 * is root by a later view. A step that has to do with it does not commute with others.
 */

static const struct cop_sim_stream *stream_of(const struct cop__world *world)
{
    return &world->config->stream;
}

static bool is_front_alive(const struct cop__world *world)
{
    return world->front.at != COP_ID_NONE && world->nodes[world->front.at].actor;
}

void cop__world_hear_stream(struct cop__world *world, uint32_t id,
                            const struct cop_effect *effect)
{
    struct cop__front *front = &world->front;
    struct cop_stream_event event;
    cop__sim_after_stream(&world->sim, id, effect);
    if (cop_stream_event(effect->result, &event) != 0)
        return;
    if (event.kind == COP_STREAM_OPENED || event.kind == COP_STREAM_ROOM)
        world->gives[id] = true;
    if (front->at != id || event.kind < COP_STREAM_OUTPUT)
        return;
    world->touched = true;
    if (event.kind == COP_STREAM_OUTPUT)
        front->seen = event.wave;
    else if (event.kind == COP_STREAM_MOVED)
        front->at = COP_ID_NONE;
    else if (event.wave > front->reached)
        front->reached = event.wave;
    front->waits = front->waits && event.kind != COP_STREAM_REACHED;
}

/* A root by a later view than the one at which the front-end is; or by any, if it is nowhere. */
static bool attracts(const struct cop__world *world, uint32_t id)
{
    const struct cop_node *node = world->nodes[id].actor;
    const struct cop_view *view = cop_node_view(node);
    return cop_node_is_member(node) && cop_view_root(view) == id &&
           world->front.at != id &&
           (!is_front_alive(world) || cop_view_epoch(view) > world->front.epoch);
}

/* T15: of those of an earlier view nothing is known. */
static void go_to(struct cop__front *front, cop_epoch epoch)
{
    if (epoch < front->epoch)
        front->reached = 0;
    front->epoch = epoch;
}

/* What somebody at this node has to say; false: nothing. */
static bool next_request(struct cop__world *world, uint32_t id, uint64_t *value,
                         struct cop_request *out)
{
    const struct cop_sim_stream *stream = stream_of(world);
    struct cop__front *front = &world->front;
    struct cop_stream_info info;
    *out = (struct cop_request){.token = COP__STREAM_TOKEN,
                                .group = COP__STREAM_NUMBER,
                                .bytes = value,
                                .length = sizeof(*value)};
    if (attracts(world, id)) {
        go_to(front, cop_view_epoch(cop_node_view(world->nodes[id].actor)));
        out->kind = COP_REQUEST_STREAM_OPEN;
        out->stream = &world->options;
        out->wave = front->taken;
        out->reached = front->reached;
        return true;
    }
    if (front->at == id && front->seen > front->taken) {
        out->kind = COP_REQUEST_STREAM_TAKEN;
        out->wave = front->seen;
        return true;
    }
    if (front->at == id && front->sent < stream->downs && !front->waits) {
        out->kind = COP_REQUEST_STREAM_SEND;
        out->wave = front->sent + 1;
        *value = cop__stream_value(COP__STREAM_NUMBER, 0, 0, out->wave);
        return true;
    }
    if (!world->gives[id] ||
        cop_node_stream(world->nodes[id].actor, COP__STREAM_NUMBER, &info) != 0 ||
        info.given >= stream->waves)
        return false;
    out->kind = COP_REQUEST_STREAM_PUT;
    *value = cop__stream_value(COP__STREAM_NUMBER, id, COP__FIRST_INCARNATION,
                               info.given + 1);
    return true;
}

/* What became of it. */
static void note(struct cop__world *world, uint32_t id,
                 const struct cop_request *request, int status)
{
    struct cop__front *front = &world->front;
    if (request->kind == COP_REQUEST_STREAM_PUT) {
        world->gives[id] = status == 0;
        return;
    }
    world->touched = true;
    if (request->kind == COP_REQUEST_STREAM_TAKEN)
        front->taken = request->wave;
    else if (request->kind == COP_REQUEST_STREAM_SEND && status == 0)
        front->sent++;
    else if (request->kind == COP_REQUEST_STREAM_SEND)
        front->waits = true;
    else if (status != 0)
        cop_sim_fail(&world->sim, "S2", "the root does not take the front-end");
}

/* Before the step: what it says there is said to a front-end that is there. */
static void move_front(struct cop__world *world, uint32_t id)
{
    struct cop__front *front = &world->front;
    front->at = id;
    front->sent = front->reached;
    front->seen = front->taken;
    front->waits = false;
}

void cop__world_serve(struct cop__world *world, uint32_t id, uint8_t cut)
{
    struct cop_request request;
    uint64_t value;
    if (stream_of(world)->waves == 0)
        return;
    world->touched =
        world->touched || (world->front.at == id && !is_front_alive(world));
    while (world->nodes[id].actor && !world->sim.failure[0] &&
           next_request(world, id, &value, &request)) {
        uint32_t sends = world->sends;
        uint8_t left = cut == COP__MOVE_WHOLE ? cut : (uint8_t)(cut - sends);
        struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &request};
        if (request.kind == COP_REQUEST_STREAM_OPEN)
            move_front(world, id);
        int status = cop__world_step(world, id, &event, left);
        note(world, id, &request, status);
        world->sends += sends;
    }
}

void cop__world_open_stream(struct cop__world *world)
{
    const struct cop_sim_stream *stream = stream_of(world);
    world->front.at = COP_ID_NONE;
    world->options = (struct cop_stream_options){
        .number = COP__STREAM_NUMBER,
        .network = 1,
        .filter = stream->filter,
        .params = stream->params,
        .type = "u64",
        .sync = stream->sync,
        .flags = stream->flags | COP_STREAM_KEEP,
        .window = stream->window,
        .down = stream->down[0] ? stream->down : NULL,
        .down_params = stream->down_params,
    };
    /* T1: planned once, whoever opens it. */
    cop_id root = cop_view_root(world->sim.view);
    if (stream->waves > 0 && cop__stream_plan(world->nodes[root].actor, &world->options,
                                              &world->definition) != 0)
        cop_sim_fail(&world->sim, "sim", "the stream cannot be planned");
    world->options.definition = world->definition;
    cop__world_serve(world, root, COP__MOVE_WHOLE);
}

void cop__world_digest_stream(const struct cop__world *world,
                              struct cop__digest *digest)
{
    const struct cop__front *front = &world->front;
    cop__digest_word(digest, (uint64_t)front->at << 1 | front->waits);
    cop__digest_word(digest, front->epoch);
    cop__digest_word(digest, front->seen << 32 | front->taken);
    cop__digest_word(digest, front->sent << 32 | front->reached);
    for (uint32_t id = 0; id < world->config->nodes; id++)
        cop__digest_word(digest, world->gives[id]);
}
