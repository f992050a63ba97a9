/* SPDX-License-Identifier: Apache-2.0 */
#include "collnet.h"

#include "failing_alloc.h"
#include "wire/codec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

static void step(struct collnet *net, cop_id id, struct cop_event *event, int *status);

uint8_t collnet_byte(uint64_t offset) { return (uint8_t)(offset * 7 + offset / 251); }

/* ---- services -------------------------------------------------------------------- */

static void answer(struct collnet *net, cop_id id, enum cop_request_kind kind,
                   struct cop_coll *coll, const void *bytes, uint32_t length)
{
    struct cop_request request = {.kind = kind, .coll = coll};
    request.bytes = bytes;
    request.length = length;
    int status = net->nodes[id] ? collnet_submit(net, id, &request) : COP_ENOMEM;
    if (!net->starving)
        assert_int_equal(status, 0);
}

static void reply(struct collnet *net, cop_id id, uint64_t handle)
{
    const struct collnet_behaviour *behave = &net->behave[id];
    struct cop_coll coll = {.handle = handle};
    uint8_t own[8];
    struct cop__writer writer = cop__writer(own, sizeof own);
    cop__put_u64(&writer, id);
    const void *bytes = behave->bytes ? behave->bytes : own;
    uint32_t length = behave->bytes ? behave->length : sizeof own;
    if (behave->replies_never)
        return;
    for (uint32_t i = 0; i < behave->pieces; i++) {
        coll.more = true;
        answer(net, id, COP_REQUEST_REPLY, &coll, bytes, length);
    }
    coll.more = false;
    coll.status = behave->status;
    answer(net, id, COP_REQUEST_REPLY, &coll, behave->status ? NULL : bytes,
           behave->status ? 0 : length);
}

static void resolve(struct collnet *net, cop_id id, uint64_t handle)
{
    const struct collnet_behaviour *behave = &net->behave[id];
    struct cop_target targets[COLLNET_NODES] = {{0, NULL, 0}};
    for (uint32_t i = 0; i < behave->member_count; i++)
        targets[i].node = behave->members[i];
    struct cop_coll coll = {.handle = handle,
                            .targets = targets,
                            .target_count = behave->member_count,
                            .status = behave->member_count ? 0 : COP_ENOENT};
    answer(net, id, COP_REQUEST_RESOLVED, &coll, NULL, 0);
}

static void give(struct collnet *net, cop_id id, const struct cop_upcall *upcall)
{
    const struct collnet_behaviour *behave = &net->behave[id];
    struct cop_coll coll = {
        .handle = upcall->handle, .offset = upcall->offset, .status = behave->source};
    uint8_t bytes[COLLNET_BULK];
    bool again = upcall->offset < net->wanted;
    net->rereads += again;
    assert_true(upcall->length <= sizeof bytes);
    for (uint32_t i = 0; i < upcall->length; i++)
        bytes[i] = collnet_byte(upcall->offset + i);
    if (again && behave->source_moves)
        bytes[0] ^= 1;
    if (!again)
        net->wanted = upcall->offset + upcall->length;
    answer(net, id, COP_REQUEST_GIVE, &coll, behave->source ? NULL : bytes,
           behave->source ? 0 : upcall->length);
}

static void take(struct collnet *net, cop_id id, const struct cop_upcall *upcall)
{
    const struct collnet_behaviour *behave = &net->behave[id];
    struct collnet_sink *sink = &net->sinks[id];
    struct cop_coll coll = {.handle = upcall->handle};
    assert_int_equal(upcall->offset, sink->length);
    assert_true(sink->length + upcall->length <= sizeof sink->bytes);
    memcpy(sink->bytes + sink->length, upcall->bytes, upcall->length);
    sink->length += upcall->length;
    if (behave->takes && ++sink->pieces > behave->takes) {
        if (!behave->sink)
            return;
        coll.status = behave->sink;
    }
    answer(net, id, COP_REQUEST_TAKEN, &coll, NULL, 0);
}

static void on_upcall(struct collnet *net, cop_id id, const struct cop_effect *effect)
{
    assert_true(net->note_count < COLLNET_NOTES);
    struct collnet_note *note = &net->notes[net->note_count++];
    note->node = id;
    note->record = cop_buf_ref(effect->result);
    assert_int_equal(cop_upcall_read(effect->result, &note->upcall), 0);
    struct cop_upcall upcall;
    assert_int_equal(cop_upcall(effect, &upcall), 0);
    if (upcall.kind == COP_UPCALL_WANT)
        give(net, id, &upcall);
    else if (upcall.kind == COP_UPCALL_PIECE)
        take(net, id, &upcall);
    const struct collnet_behaviour *behave = &net->behave[id];
    struct cop_coll coll = {.handle = upcall.handle, .status = behave->check};
    if (upcall.kind == COP_UPCALL_RUN)
        net->spoiled[id] = upcall.status != 0;
    bool is_time = upcall.kind == COP_UPCALL_RUN
                       ? behave->replies_at_run && upcall.status == 0
                       : upcall.kind == COP_UPCALL_DONE && !behave->replies_at_run &&
                             upcall.status == 0 && !net->spoiled[id];
    if (upcall.kind == COP_UPCALL_CHECK && !behave->checks_never)
        answer(net, id, COP_REQUEST_CHECKED, &coll, NULL, 0);
    else if (is_time)
        reply(net, id, upcall.handle);
    else if (upcall.kind == COP_UPCALL_RESOLVE)
        resolve(net, id, upcall.handle);
}

/* ---- the network ----------------------------------------------------------------- */

static void put(struct collnet *net, cop_id from, const struct cop_effect *effect)
{
    assert_true(net->count < COLLNET_ITEMS);
    uint32_t at = (net->first + net->count++) % COLLNET_ITEMS;
    net->items[at].from = from;
    net->items[at].to = effect->peer;
    net->items[at].refused = effect->kind != COP_EFFECT_SEND;
    net->items[at].frame = effect->frame;
    cop_buf_ref(effect->frame.payload);
    uint16_t kind = effect->frame.header.kind;
    if (effect->kind == COP_EFFECT_SEND) {
        assert_true(effect->frame.header.length <= COP__FRAME_MAX);
        if (kind == COP__KIND_ASK || kind == COP__KIND_CALL) {
            net->calls_sent++;
            net->last_call_length = effect->frame.header.length;
        }
    }
}

static void carry(struct collnet *net, cop_id id, const struct cop_effect *effect)
{
    if (effect->kind == COP_EFFECT_SEND ||
        (effect->kind == COP_EFFECT_CONNECT && !net->nodes[effect->peer])) {
        put(net, id, effect);
    } else if (effect->kind == COP_EFFECT_COMPLETE) {
        cop_buf_unref(net->result);
        net->result = cop_buf_ref(effect->result);
        net->completions++;
        net->dones_at_completion = collnet_count(net, id, COP_UPCALL_DONE);
        net->token = effect->token;
        net->status = effect->status;
    } else if (effect->kind == COP_EFFECT_UPCALL) {
        on_upcall(net, id, effect);
    }
}

static void step(struct collnet *net, cop_id id, struct cop_event *event, int *status)
{
    struct cop_effects effects = {0};
    event->now = net->now;
    int error = cop_step(net->nodes[id], event, &effects);
    if (net->starving && error == COP_ENOMEM) {
        failing_alloc_off();
        net->failed++;
        cop_effects_free(&effects);
        cop_node_destroy(net->nodes[id]);
        net->nodes[id] = NULL;
        if (status)
            *status = error;
        return;
    }
    for (uint32_t i = 0; i < effects.count && net->nodes[id]; i++)
        carry(net, id, &effects.items[i]);
    cop_effects_free(&effects);
    /* What it said may have made it run out of memory; and looking takes memory, too. */
    bool looks = net->nodes[id] && !net->starving;
    const char *wrong = looks ? cop_node_check(net->nodes[id]) : NULL;
    if (wrong)
        fail_msg("node %u: %s", (unsigned)id, wrong);
    if (status)
        *status = error;
    else
        assert_int_equal(error, 0);
}

int collnet_submit(struct collnet *net, cop_id id, const struct cop_request *request)
{
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = request};
    int status;
    step(net, id, &event, &status);
    return status;
}

/* One delivery. To the dead: whoever sent hears that nobody listens. */
static void deliver(struct collnet *net)
{
    cop_id from = net->items[net->first].from, to = net->items[net->first].to;
    struct cop_frame frame = net->items[net->first].frame;
    bool refused = net->items[net->first].refused || !net->nodes[to];
    net->first = (net->first + 1) % COLLNET_ITEMS;
    net->count--;
    if (refused && net->nodes[from] && !net->nodes[to]) {
        struct cop_event down = {
            .kind = COP_EVENT_PEER_DOWN, .peer = to, .why = COP_DOWN_REFUSED};
        step(net, from, &down, NULL);
    } else if (!refused) {
        struct cop_event event = {
            .kind = COP_EVENT_RECV, .peer = from, .frame = &frame};
        step(net, to, &event, NULL);
    }
    cop_buf_unref(frame.payload);
}

void collnet_some(struct collnet *net, uint32_t frames)
{
    while (net->count > 0 && frames-- > 0)
        deliver(net);
}

void collnet_run(struct collnet *net) { collnet_some(net, UINT32_MAX); }

static void tick_due(struct collnet *net)
{
    for (cop_id id = 0; id < net->n; id++) {
        struct cop_event tick = {.kind = COP_EVENT_TICK};
        if (net->nodes[id] && cop_deadline(net->nodes[id]) <= net->now)
            step(net, id, &tick, NULL);
    }
    collnet_run(net);
}

void collnet_wait(struct collnet *net, cop_time by)
{
    cop_time until = net->now + by;
    for (;;) {
        cop_time next = COP_TIME_NEVER;
        for (cop_id id = 0; id < net->n; id++)
            if (net->nodes[id] && cop_deadline(net->nodes[id]) < next)
                next = cop_deadline(net->nodes[id]);
        if (next > until)
            break;
        net->now = next > net->now ? next : net->now;
        tick_due(net);
    }
    net->now = until;
}

void collnet_kill(struct collnet *net, cop_id id)
{
    cop_node_destroy(net->nodes[id]);
    net->nodes[id] = NULL;
    for (cop_id peer = 0; peer < net->n; peer++) {
        struct cop_event down = {
            .kind = COP_EVENT_PEER_DOWN, .peer = id, .why = COP_DOWN_REFUSED};
        if (net->nodes[peer])
            step(net, peer, &down, NULL);
    }
}

/* ---- looking --------------------------------------------------------------------- */

uint32_t collnet_count(const struct collnet *net, cop_id id, enum cop_upcall_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < net->note_count; i++)
        count += net->notes[i].node == id && net->notes[i].upcall.kind == kind;
    return count;
}

const struct cop_upcall *collnet_last(const struct collnet *net, cop_id id,
                                      enum cop_upcall_kind kind)
{
    for (uint32_t i = net->note_count; i-- > 0;)
        if (net->notes[i].node == id && net->notes[i].upcall.kind == kind)
            return &net->notes[i].upcall;
    return NULL;
}

struct cop_bcast_result collnet_result(struct collnet *net)
{
    struct cop_bcast_result result;
    assert_non_null(net->result);
    assert_int_equal(cop_bcast_result(net->result, &result), 0);
    return result;
}

int collnet_failure(struct collnet *net, cop_id id, enum cop_phase *phase, cop_id *at)
{
    struct cop_bcast_result result = collnet_result(net);
    int status = 0;
    for (uint32_t i = 0; i < result.failure_count; i++) {
        if (result.failures[i].node != id)
            continue;
        status = result.failures[i].status;
        if (phase)
            *phase = result.failures[i].phase;
        if (at)
            *at = result.failures[i].at;
    }
    cop_bcast_result_free(&result);
    return status;
}

void collnet_forget(struct collnet *net)
{
    for (uint32_t i = 0; i < net->note_count; i++)
        cop_buf_unref(net->notes[i].record);
    net->note_count = 0;
    cop_buf_unref(net->result);
    net->result = NULL;
    net->completions = 0;
    net->calls_sent = 0;
}

bool collnet_is_clean(const struct collnet *net)
{
    for (cop_id id = 0; id < net->n; id++)
        if (net->nodes[id] && cop_node_calls(net->nodes[id]) > 0)
            return false;
    return true;
}

/* ---- making ---------------------------------------------------------------------- */

struct collnet *collnet_create(uint32_t n, const char *shape, uint32_t version)
{
    struct collnet *net = calloc(1, sizeof *net);
    struct cop_shape parsed;
    struct cop_service service = {COLLNET_SERVICE, version, COP_WANTS_ALL};
    assert_non_null(net);
    assert_int_equal(cop_shape_parse(shape, &parsed, NULL, 0), 0);
    assert_int_equal(cop_view_create_static(n, &parsed, 1, &net->view), 0);
    net->n = n;
    for (cop_id id = 0; id < n; id++) {
        struct cop_config config = {
            .self = id,
            .incarnation = 1,
            .view = net->view,
            .stats = &net->stats,
            .services = &service,
            .service_count = 1,
        };
        assert_int_equal(cop_node_create(&config, &net->nodes[id]), 0);
    }
    for (cop_id id = 0; id < n; id++) {
        struct cop_event tick = {.kind = COP_EVENT_TICK};
        step(net, id, &tick, NULL);
    }
    collnet_run(net);
    return net;
}

void collnet_destroy(struct collnet *net)
{
    collnet_forget(net);
    while (net->count > 0) {
        cop_buf_unref(net->items[net->first].frame.payload);
        net->first = (net->first + 1) % COLLNET_ITEMS;
        net->count--;
    }
    for (cop_id id = 0; id < net->n; id++)
        cop_node_destroy(net->nodes[id]);
    cop_view_unref(net->view);
    free(net);
}
