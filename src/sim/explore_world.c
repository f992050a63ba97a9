/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/explore.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A world in which nothing happens by itself. What differs from the simulator:
 *   - time stands still but for ticks;
 *   - news of a crash is not on its way: each peer may hear CLOSED at any later moment, and
 *     what the dead had sent it and it has not got by then is lost; so every prefix is tried;
 *   - REFUSED is on its way once it is asked for (CONNECT or SEND to the dead), and is asked
 *     for at most once at a time.
 */
#define TIMEOUT_NS (10 * COP_SEC)
#define TOKEN 1

/* ---- ways ------------------------------------------------------------------------ */

static void put(struct cop__world *world, uint32_t from, uint32_t to,
                const struct cop__item *item)
{
    struct cop__way *way = &world->ways[from][to];
    if (way->first + way->count == way->capacity) {
        if (way->first > 0) {
            memmove(way->items, way->items + way->first,
                    way->count * sizeof(*way->items));
            way->first = 0;
        } else {
            uint32_t capacity = way->capacity ? 2 * way->capacity : 8;
            struct cop__item *items = realloc(way->items, capacity * sizeof(*items));
            if (!items) {
                cop_buf_unref(item->payload);
                cop_sim_fail(&world->sim, "sim", "out of memory");
                return;
            }
            way->items = items;
            way->capacity = capacity;
        }
    }
    way->items[way->first + way->count++] = *item;
}

static struct cop__item take(struct cop__way *way)
{
    struct cop__item item = way->items[way->first++];
    way->count--;
    if (way->count == 0)
        way->first = 0;
    return item;
}

static void empty(struct cop__way *way)
{
    while (way->count > 0) {
        struct cop__item item = take(way);
        cop_buf_unref(item.payload);
    }
}

/* ---- connections ----------------------------------------------------------------- */

static void put_up(struct cop__world *world, uint32_t of, uint32_t to)
{
    struct cop__item up = {.kind = COP__SIM_UP, .word = COP__FIRST_INCARNATION};
    world->told[to][of] = true;
    if (!world->quiet)
        put(world, of, to, &up);
}

/* False if there is nobody to connect to; then that is on its way to `from`. */
static bool reach(struct cop__world *world, uint32_t from, uint32_t to)
{
    if (world->nodes[to].actor) {
        if (!world->linked[from][to]) {
            world->linked[from][to] = world->linked[to][from] = true;
            put_up(world, from, to);
            put_up(world, to, from);
        } else if (!world->told[from][to]) {
            put_up(world, to, from);
        }
        return true;
    }
    const struct cop__way *back = &world->ways[to][from];
    bool asked = back->count > 0 &&
                 back->items[back->first + back->count - 1].kind == COP__SIM_DOWN;
    struct cop__item refused = {.kind = COP__SIM_DOWN, .word = COP_DOWN_REFUSED};
    if (!world->closing[to][from] && !asked)
        put(world, to, from, &refused);
    return false;
}

static void crash(struct cop__world *world, uint32_t id)
{
    struct cop__sim_node *node = &world->nodes[id];
    if (!node->actor)
        return;
    world->sim.actor->destroy(node->actor);
    node->actor = NULL;
    node->died = world->sim.now;
    world->crashes--;
    for (uint32_t peer = 0; peer < world->config->nodes; peer++) {
        empty(&world->ways[peer][id]);
        world->closing[id][peer] = world->linked[id][peer] && world->nodes[peer].actor;
        world->linked[id][peer] = world->linked[peer][id] = false;
        world->closing[peer][id] = false;
        if (!world->nodes[peer].actor)
            empty(&world->ways[id][peer]);
    }
}

/* ---- effects --------------------------------------------------------------------- */

static void carry_send(struct cop__world *world, uint32_t id,
                       const struct cop_effect *effect)
{
    if (!reach(world, id, effect->peer))
        return;
    struct cop__item frame = {
        .kind = COP__SIM_FRAME,
        .frame_kind = effect->frame.header.kind,
        .word = effect->frame.header.receiver_incarnation,
        .view = effect->frame.header.epoch,
        .payload = cop_buf_ref(effect->frame.payload),
    };
    put(world, id, effect->peer, &frame);
}

/* Services answer in the same step: when they do so is no choice of the network's. */
static void hear_upcall(struct cop__world *world, uint32_t id,
                        const struct cop_effect *effect)
{
    struct cop_upcall upcall;
    if (cop_upcall(effect, &upcall) != 0)
        return;
    cop__sim_after_upcall(&world->sim, id, &upcall);
    if (world->answer_count + COP__ANSWERS_MAX <= COP__X_ANSWERS)
        world->answer_count += cop__service_answers(
            &world->sim, id, &upcall, world->answers + world->answer_count);
}

static void carry(struct cop__world *world, uint32_t id, uint8_t cut)
{
    struct cop_effects *effects = &world->sim.effects;
    world->sends = 0;
    for (uint32_t i = 0; i < effects->count && !world->sim.failure[0]; i++) {
        const struct cop_effect *effect = &effects->items[i];
        if (effect->kind == COP_EFFECT_SEND) {
            carry_send(world, id, effect);
            if (++world->sends == cut) {
                crash(world, id);
                return;
            }
        } else if (effect->kind == COP_EFFECT_CONNECT) {
            reach(world, id, effect->peer);
        } else if (effect->kind == COP_EFFECT_COMPLETE) {
            world->completions++;
            cop__sim_after_complete(&world->sim, id, effect);
        } else if (effect->kind == COP_EFFECT_UPCALL) {
            hear_upcall(world, id, effect);
        } else if (effect->kind == COP_EFFECT_STREAM) {
            cop__world_hear_stream(world, id, effect);
        } else if (effect->kind == COP_EFFECT_VIEW) {
            cop__sim_after_view(&world->sim, id, effect->view);
        } else if (effect->kind == COP_EFFECT_OUT) {
            world->crashes++; /* its end is none of those that were asked for */
            crash(world, id);
            return;
        }
    }
}

int cop__world_step(struct cop__world *world, uint32_t id, struct cop_event *event,
                    uint8_t cut)
{
    struct cop_sim *sim = &world->sim;
    event->now = sim->now;
    world->steps++;
    sim->events++;
    int status = sim->actor->step(world->nodes[id].actor, event, &sim->effects);
    if (status == COP_ENOMEM) {
        cop_sim_fail(sim, "sim", "out of memory");
        return status;
    }
    if (event->kind == COP_EVENT_SUBMIT)
        cop__sim_after_submit(sim, id, event->request, status);
    carry(world, id, cut);
    if (world->nodes[id].actor && !sim->failure[0])
        cop__sim_after_step(sim, id);
    return status;
}

/* What services have to say to what just happened, one after the other. */
static void answer_all(struct cop__world *world, uint32_t id, uint8_t cut)
{
    for (uint32_t i = 0; i < world->answer_count; i++) {
        uint32_t sends = world->sends;
        uint8_t left = cut == COP__MOVE_WHOLE ? cut : (uint8_t)(cut - sends);
        if (!world->nodes[id].actor || world->sim.failure[0])
            break;
        cop__service_request(&world->sim, id, &world->answers[i]);
        struct cop_event event = {.kind = COP_EVENT_SUBMIT,
                                  .request = &world->sim.ask.request};
        cop__world_step(world, id, &event, left);
        world->sends += sends;
    }
    world->answer_count = 0;
}

/* ---- moves ----------------------------------------------------------------------- */

static void submit(struct cop__world *world, struct cop__move move)
{
    struct cop_sim_action action = {.a = move.a};
    struct cop_request *request = &action.request;
    *request = (struct cop_request){.kind = COP_REQUEST_PROBE,
                                    .token = TOKEN,
                                    .timeout_ns = TIMEOUT_NS,
                                    .outcome = world->config->outcome};
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = request};
    if (world->config->coll) {
        action.kind = COP_SIM_BCAST;
        request->kind = COP_REQUEST_BCAST;
        action.coll.flags = COP_BCAST_HEAL;
        event.request = cop__service_prepare(&world->sim, &action);
    }
    world->started = true;
    /* Whoever dies from here on may or may not be in the answer. */
    bool settled = world->sim.settled;
    world->sim.settled = false;
    cop__world_step(world, move.a, &event, move.cut);
    world->sim.settled = settled;
}

/* Four bits for each member, as everywhere in the simulator. */
static void call_agreement(struct cop__world *world, struct cop__move move)
{
    uint64_t share = UINT64_C(1) << 4 * move.a;
    struct cop_request request = {.kind = COP_REQUEST_AGREE,
                                  .token =
                                      cop__agree_token(1, world->called[move.a] + 1),
                                  .timeout_ns = COP__AGREE_FOREVER,
                                  .group = 1,
                                  .op = COP_AGREE_SUM,
                                  .type = COP_VALUE_WORDS,
                                  .bytes = &share,
                                  .length = sizeof(share)};
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &request};
    if (world->called[move.a] == world->config->agreements) {
        request.kind = COP_REQUEST_AGREE_FREE;
        request.token = cop__agree_token(1, COP__AGREE_FREED);
    }
    /* Refused while the one before is under way: then this was nothing. */
    world->called[move.a] += cop__world_step(world, move.a, &event, move.cut) == 0;
}

static void receive(struct cop__world *world, struct cop__move move)
{
    struct cop__item item = take(&world->ways[move.b][move.a]);
    struct cop_event event = {.peer = move.b};
    struct cop_frame frame;
    if (item.kind == COP__SIM_FRAME) {
        frame.payload = item.payload;
        frame.header = (struct cop_header){
            .kind = item.frame_kind,
            .sender = move.b,
            .receiver = move.a,
            .sender_incarnation = COP__FIRST_INCARNATION,
            .receiver_incarnation = item.word,
            .epoch = item.view,
            .length = item.payload ? item.payload->length : 0,
        };
        event.kind = COP_EVENT_RECV;
        event.frame = &frame;
    } else if (item.kind == COP__SIM_UP) {
        event.kind = COP_EVENT_PEER_UP;
        event.incarnation = item.word;
    } else {
        event.kind = COP_EVENT_PEER_DOWN;
        event.why = (enum cop_down)item.word;
        world->told[move.a][move.b] = false;
    }
    cop__world_step(world, move.a, &event, move.cut);
    cop_buf_unref(item.payload);
}

static void hear_down(struct cop__world *world, struct cop__move move,
                      enum cop_down why)
{
    struct cop_event event = {.kind = COP_EVENT_PEER_DOWN, .peer = move.b, .why = why};
    world->told[move.a][move.b] = false;
    cop__world_step(world, move.a, &event, move.cut);
}

static void tick(struct cop__world *world, struct cop__move move)
{
    struct cop_event event = {.kind = COP_EVENT_TICK};
    cop_time deadline = world->sim.actor->deadline(world->nodes[move.a].actor);
    if (deadline > world->sim.now)
        world->sim.now = deadline;
    cop__world_step(world, move.a, &event, move.cut);
}

static void apply(struct cop__world *world, struct cop__move move)
{
    world->sends = 0;
    switch (move.kind) {
    case COP__MOVE_SUBMIT:
        submit(world, move);
        return;
    case COP__MOVE_RECV:
        receive(world, move);
        return;
    case COP__MOVE_CLOSED:
        world->closing[move.b][move.a] = false;
        empty(&world->ways[move.b][move.a]);
        hear_down(world, move, COP_DOWN_CLOSED);
        return;
    case COP__MOVE_TICK:
        tick(world, move);
        return;
    case COP__MOVE_CRASH:
        crash(world, move.a);
        return;
    case COP__MOVE_AGREE:
        call_agreement(world, move);
        return;
    default:
        world->lies--;
        world->sim.lied = true;
        hear_down(world, move, COP_DOWN_REFUSED);
        return;
    }
}

void cop__world_apply(struct cop__world *world, struct cop__move move)
{
    world->answer_count = 0;
    world->touched = false;
    apply(world, move);
    answer_all(world, move.a, move.cut);
    cop__world_serve(world, move.a, move.cut);
}

static void add(struct cop__move *moves, uint32_t *count, enum cop__move_kind kind,
                uint32_t a, uint32_t b)
{
    moves[(*count)++] =
        (struct cop__move){(uint8_t)kind, (uint8_t)a, (uint8_t)b, COP__MOVE_WHOLE};
}

/* Ticks of those whose deadline is the earliest. */
static void add_ticks(const struct cop__world *world, struct cop__move *moves,
                      uint32_t *count)
{
    cop_time first = COP_TIME_NEVER;
    for (uint32_t a = 0; a < world->config->nodes; a++) {
        cop_time due = world->nodes[a].actor
                           ? world->sim.actor->deadline(world->nodes[a].actor)
                           : COP_TIME_NEVER;
        first = due < first ? due : first;
    }
    for (uint32_t a = 0; a < world->config->nodes && first != COP_TIME_NEVER; a++) {
        if (world->nodes[a].actor &&
            world->sim.actor->deadline(world->nodes[a].actor) == first)
            add(moves, count, COP__MOVE_TICK, a, 0);
    }
}

static void add_faults(const struct cop__world *world, struct cop__move *moves,
                       uint32_t *count)
{
    uint32_t n = world->config->nodes;
    for (uint32_t a = 0; a < n; a++) {
        if (!world->nodes[a].actor)
            continue;
        if (world->crashes > 0)
            add(moves, count, COP__MOVE_CRASH, a, 0);
        for (uint32_t b = 0; b < n && world->lies > 0; b++) {
            if (a != b && world->nodes[b].actor && world->linked[a][b])
                add(moves, count, COP__MOVE_LIE, a, b);
        }
    }
}

uint32_t cop__world_moves(const struct cop__world *world,
                          struct cop__move moves[COP__MOVES_MAX])
{
    uint32_t n = world->config->nodes;
    uint32_t count = 0;
    if (!world->started) {
        add(moves, &count, COP__MOVE_SUBMIT, world->config->root, 0);
        return count;
    }
    for (uint32_t a = 0; a < n; a++) {
        if (world->nodes[a].actor &&
            world->called[a] < world->config->agreements + world->config->free)
            add(moves, &count, COP__MOVE_AGREE, a, 0);
        for (uint32_t b = 0; b < n && world->nodes[a].actor; b++) {
            if (world->ways[b][a].count > 0)
                add(moves, &count, COP__MOVE_RECV, a, b);
            if (world->closing[b][a])
                add(moves, &count, COP__MOVE_CLOSED, a, b);
        }
    }
    if (count == 0 || world->config->timers)
        add_ticks(world, moves, &count);
    add_faults(world, moves, &count);
    return count;
}

/* ---- looking --------------------------------------------------------------------- */

static void digest_way(const struct cop__way *way, struct cop__digest *digest)
{
    cop__digest_word(digest, way->count);
    for (uint32_t i = 0; i < way->count; i++) {
        const struct cop__item *item = &way->items[way->first + i];
        cop__digest_word(digest, (uint64_t)item->kind << 16 | item->frame_kind);
        cop__digest_word(digest, item->word);
        cop__digest_word(digest, item->view);
        if (item->payload)
            cop__digest_bytes(digest, item->payload->data, item->payload->length);
    }
}

void cop__world_digest(const struct cop__world *world, uint64_t out[2])
{
    struct cop__digest digest;
    uint32_t n = world->config->nodes;
    cop__digest_init(&digest);
    cop__digest_word(&digest, world->sim.now);
    cop__digest_word(&digest, (uint64_t)world->crashes << 32 | world->lies);
    cop__digest_word(&digest, (uint64_t)world->completions << 32 | world->started);
    for (uint32_t a = 0; a < n; a++) {
        const void *actor = world->nodes[a].actor;
        cop__digest_word(&digest, world->called[a]);
        cop__digest_word(&digest, actor ? world->sim.actor->digest(actor) : 0);
        uint64_t flags = actor != NULL;
        for (uint32_t b = 0; b < n; b++) {
            flags = flags << 3 | (uint64_t)world->linked[a][b] << 2 |
                    (uint64_t)world->told[a][b] << 1 | (uint64_t)world->closing[a][b];
            digest_way(&world->ways[a][b], &digest);
        }
        cop__digest_word(&digest, flags);
    }
    cop__world_digest_stream(world, &digest);
    for (uint32_t i = 0; i < world->sim.checker_count; i++) {
        if (world->sim.checkers[i]->digest)
            cop__digest_word(&digest,
                             world->sim.checkers[i]->digest(world->sim.states[i]));
    }
    out[0] = cop__digest_value(&digest);
    /* The same stream, one word longer: for chance, as good as a second digest. */
    cop__digest_word(&digest, UINT64_C(0x9216d5d98979fb1b));
    out[1] = cop__digest_value(&digest);
}

static void print_item(const struct cop__world *world, struct cop__move move, char *out,
                       size_t size)
{
    const struct cop__way *way = &world->ways[move.b][move.a];
    const struct cop__item *item = &way->items[way->first];
    char whom[32];
    snprintf(whom, sizeof(whom), "from %u", (unsigned)move.b);
    if (item->kind == COP__SIM_FRAME)
        cop__print_frame("recv", whom, item->frame_kind, item->payload, out, size);
    else if (item->kind == COP__SIM_UP)
        snprintf(out, size, "peer %u is up", (unsigned)move.b);
    else
        snprintf(out, size, "peer %u is down: %s", (unsigned)move.b,
                 cop__down_name(item->word));
}

void cop__world_print_move(const struct cop__world *world, struct cop__move move,
                           char *out, size_t size)
{
    char what[400];
    char then[48] = "";
    switch (move.kind) {
    case COP__MOVE_SUBMIT:
        snprintf(what, sizeof(what), "%s", world->config->coll ? "bcast" : "probe");
        break;
    case COP__MOVE_RECV:
        print_item(world, move, what, sizeof(what));
        break;
    case COP__MOVE_CLOSED:
        snprintf(what, sizeof(what), "peer %u is down: closed", (unsigned)move.b);
        break;
    case COP__MOVE_TICK:
        snprintf(what, sizeof(what), "tick");
        break;
    case COP__MOVE_CRASH:
        snprintf(what, sizeof(what), "crash");
        break;
    case COP__MOVE_AGREE:
        snprintf(what, sizeof(what), "agree");
        break;
    default:
        snprintf(what, sizeof(what), "peer %u is down: refused (a lie)",
                 (unsigned)move.b);
        break;
    }
    if (move.cut != COP__MOVE_WHOLE)
        snprintf(then, sizeof(then), " -> crash after %u sends", (unsigned)move.cut);
    snprintf(out, size, "%u > %s%s", (unsigned)move.a, what, then);
}

/* ---- making ---------------------------------------------------------------------- */

static int bear(struct cop__world *world, uint32_t id)
{
    struct cop_config config = {
        .self = id,
        .incarnation = COP__FIRST_INCARNATION,
        .view = world->sim.view,
        .stats = &world->sim.stats,
        .quorum = world->config->quorum,
    };
    config.services = cop__sim_services(&world->sim, &config.service_count);
    world->nodes[id].died = COP_TIME_NEVER;
    return world->sim.actor->create(world->sim.actor->context, &config,
                                    &world->nodes[id].actor);
}

/* Everybody is in one group, which is there from the start. */
static void make_groups(struct cop__world *world)
{
    struct cop_life members[COP__X_NODES];
    uint32_t n = world->config->nodes;
    for (uint32_t id = 0; id < n; id++)
        members[id] = (struct cop_life){id, COP__FIRST_INCARNATION};
    struct cop_agree_group group = {.number = 1,
                                    .members = members,
                                    .count = n,
                                    .algorithm = world->config->algorithm,
                                    .promote = world->config->promote};
    struct cop_request request = {.kind = COP_REQUEST_AGREE_GROUP,
                                  .token = cop__agree_token(1, 0),
                                  .new_group = &group};
    for (uint32_t id = 0; id < n && world->config->agreements; id++) {
        struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &request};
        cop__world_step(world, id, &event, COP__MOVE_WHOLE);
    }
}

static int populate(struct cop__world *world)
{
    uint32_t n = world->config->nodes;
    int error = cop_view_create_static(n, &world->config->shape, COP__FIRST_INCARNATION,
                                       &world->sim.view);
    for (uint32_t id = 0; id < n && !error; id++)
        error = bear(world, id);
    if (error)
        return error;
    cop__sim_take_checkers(&world->sim);
    world->quiet = true;
    for (uint32_t id = 0; id < n; id++) {
        struct cop_event event = {.kind = COP_EVENT_TICK};
        cop__world_step(world, id, &event, COP__MOVE_WHOLE);
    }
    make_groups(world);
    cop__world_open_stream(world);
    world->quiet = false;
    return 0;
}

int cop__world_create(const struct cop_sim_explore *config, struct cop__world **out)
{
    const struct cop_sim_checker *const checkers[] = {cop_sim_checker_node(),
                                                      cop_sim_checker_probe(), NULL};
    const struct cop_sim_checker *const with_views[] = {cop_sim_checker_node(),
                                                        cop_sim_checker_member(), NULL};
    const struct cop_sim_checker *const collective[] = {
        cop_sim_checker_node(), cop_sim_checker_coll(), cop__bulk_checker(), NULL};
    const struct cop_sim_checker *const moving[] = {
        cop_sim_checker_node(), cop_sim_checker_member(), cop_sim_checker_coll(), NULL};
    const struct cop_sim_checker *const agreeing[] = {cop_sim_checker_node(),
                                                      cop_sim_checker_member(),
                                                      cop_sim_checker_agree(), NULL};
    const struct cop_sim_checker *const streaming[] = {cop_sim_checker_node(),
                                                       cop_sim_checker_member(),
                                                       cop_sim_checker_stream(), NULL};
    bool views = config->quorum != COP_QUORUM_FIXED;
    struct cop__world *world = calloc(1, sizeof(*world));
    if (!world)
        return COP_ENOMEM;
    world->config = config;
    world->crashes = config->crashes;
    world->lies = config->lies;
    /* A timer that fires early makes somebody look silent who is only slow. */
    world->sim.disturbed = config->timers;
    world->sim.config.nodes = config->nodes;
    world->sim.config.flags = COP_SIM_CHECK;
    world->sim.config.quorum = config->quorum;
    world->sim.config.stream = config->stream;
    world->sim.config.checkers = config->checkers        ? config->checkers
                                 : config->stream.waves  ? streaming
                                 : config->agreements    ? agreeing
                                 : config->coll && views ? moving
                                 : views                 ? with_views
                                 : config->coll          ? collective
                                                         : checkers;
    world->started = views && !config->coll;
    world->sim.settled = views; /* what ends here has heard of everything */
    world->sim.actor = config->actor ? config->actor : cop_sim_actor_node();
    world->sim.nodes = world->nodes;
    int error = populate(world);
    if (error) {
        cop__world_destroy(world);
        return error;
    }
    *out = world;
    return 0;
}

void cop__world_destroy(struct cop__world *world)
{
    if (!world)
        return;
    cop__sim_end_checkers(&world->sim);
    cop_effects_free(&world->sim.effects);
    cop__service_fini(&world->sim);
    for (uint32_t a = 0; a < COP__X_NODES; a++) {
        if (world->nodes[a].actor)
            world->sim.actor->destroy(world->nodes[a].actor);
        for (uint32_t b = 0; b < COP__X_NODES; b++) {
            empty(&world->ways[a][b]);
            free(world->ways[a][b].items);
        }
    }
    cop_view_unref(world->sim.view);
    cop_buf_unref(world->definition);
    free(world);
}
