/* SPDX-License-Identifier: Apache-2.0 */
#include "solo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
/* cmocka wants these first */
#include <cmocka.h>

/* Member `with->self` of `n`; what is the same for all is filled in here. */
static struct solo *create(uint32_t n, const struct cop_config *with)
{
    struct solo *solo = calloc(1, sizeof *solo);
    struct cop_shape shape;
    assert_non_null(solo);
    assert_int_equal(cop_shape_make(COP_SHAPE_FLAT, 0, &shape), 0);
    assert_int_equal(cop_view_create_static(n, &shape, 1, &solo->view), 0);
    struct cop_config config = *with;
    config.incarnation = 1;
    config.view = solo->view;
    config.stats = &solo->stats;
    config.now = COP_SEC;
    solo->now = COP_SEC;
    solo->failed = cop_node_create(&config, &solo->node);
    struct cop_event tick = {.kind = COP_EVENT_TICK};
    if (!solo->failed)
        solo_event(solo, &tick);
    return solo;
}

struct solo *solo_create(uint32_t n, cop_id self, const struct cop_detect *detect,
                         enum cop_quorum quorum)
{
    return create(
        n, &(struct cop_config){.self = self, .detect = *detect, .quorum = quorum});
}

struct solo *solo_create_named(uint32_t n, cop_id self, const cop_id *ids,
                               uint32_t count)
{
    return create(n, &(struct cop_config){.self = self,
                                          .quorum = COP_QUORUM_HAS,
                                          .quorum_ids = ids,
                                          .quorum_count = count});
}

struct solo *solo_create_guarded(uint32_t n, uint32_t guard)
{
    return create(n, &(struct cop_config){.quorum = COP_QUORUM_NONE, .guard = guard});
}

struct solo *solo_create_filtering(uint32_t n, cop_id self,
                                   const struct cop_filter *const *filters,
                                   uint32_t count)
{
    return create(n, &(struct cop_config){.self = self,
                                          .quorum = COP_QUORUM_MAJORITY,
                                          .filters = filters,
                                          .filter_count = count});
}

void solo_change(struct solo *solo, struct cop__entry entry, cop_id from)
{
    const struct cop_view *now = cop_node_view(solo->node);
    struct cop_ballot ballot = cop_view_ballot(now);
    entry.since = ++ballot.epoch;
    struct cop__delta delta = {0};
    struct cop_view *view;
    assert_int_equal(cop__delta_put(&delta, &entry), 0);
    assert_int_equal(cop__view_derive(now, &ballot, &delta, &view), 0);
    cop__delta_free(&delta);
    struct cop_buf *bytes = cop__view_encode(view);
    assert_non_null(bytes);
    struct cop__msg_whole whole = {.view = {bytes->data, bytes->length}};
    solo_recv(solo, from, COP__KIND_WHOLE, cop__encode_whole(&whole));
    cop_buf_unref(bytes);
    cop_view_unref(view);
    assert_int_equal(cop_view_epoch(cop_node_view(solo->node)), ballot.epoch);
}

void solo_without(struct solo *solo, cop_id gone, enum cop_presence how, cop_id from)
{
    struct cop__entry entry = {.id = gone, .incarnation = 1, .presence = (uint8_t)how};
    solo_change(solo, entry, from);
}

void solo_forget(struct solo *solo)
{
    for (uint32_t i = 0; i < solo->item_count; i++)
        cop_buf_unref(solo->items[i].frame.payload);
    solo->item_count = 0;
}

void solo_destroy(struct solo *solo)
{
    solo_forget(solo);
    cop_node_destroy(solo->node);
    cop_effects_free(&solo->effects);
    cop_view_unref(solo->view);
    free(solo);
}

int solo_event(struct solo *solo, struct cop_event *event)
{
    event->now = solo->now;
    int status = cop_step(solo->node, event, &solo->effects);
    if (status == COP_ENOMEM)
        solo->failed = status;
    else
        assert_string_equal(
            cop_node_check(solo->node) ? cop_node_check(solo->node) : "", "");
    for (uint32_t i = 0; i < solo->effects.count; i++) {
        assert_true(solo->item_count < SOLO_ITEMS);
        struct cop_effect *item = &solo->items[solo->item_count++];
        *item = solo->effects.items[i];
        item->result = NULL;
        item->view = NULL;
        cop_buf_ref(item->frame.payload);
    }
    return status;
}

void solo_run(struct solo *solo, cop_time until)
{
    struct cop_event tick = {.kind = COP_EVENT_TICK};
    while (!solo->failed && cop_deadline(solo->node) <= until) {
        if (cop_deadline(solo->node) > solo->now)
            solo->now = cop_deadline(solo->node);
        solo_event(solo, &tick);
    }
    solo->now = until;
}

void solo_recv(struct solo *solo, cop_id from, enum cop__kind kind,
               struct cop_buf *payload)
{
    struct cop_frame frame = {
        .header = {.kind = (uint16_t)kind,
                   .sender = from,
                   .receiver = cop_node_id(solo->node),
                   .sender_incarnation = 1,
                   .receiver_incarnation = 1,
                   .epoch = cop_view_epoch(solo->view),
                   .length = payload ? payload->length : 0},
        .payload = payload,
    };
    struct cop_event event = {.kind = COP_EVENT_RECV, .peer = from, .frame = &frame};
    solo_event(solo, &event);
    cop_buf_unref(payload);
}

void solo_down(struct solo *solo, cop_id peer, enum cop_down why)
{
    struct cop_event event = {.kind = COP_EVENT_PEER_DOWN, .peer = peer, .why = why};
    solo_event(solo, &event);
}

static bool is_frame(const struct cop_effect *item, enum cop__kind kind, cop_id peer)
{
    return item->kind == COP_EFFECT_SEND && item->frame.header.kind == kind &&
           (peer == COP_ID_NONE || item->peer == peer);
}

uint32_t solo_sent(const struct solo *solo, enum cop__kind kind, cop_id peer)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < solo->item_count; i++)
        count += is_frame(&solo->items[i], kind, peer);
    return count;
}

const struct cop_effect *solo_frame(const struct solo *solo, enum cop__kind kind,
                                    uint32_t i)
{
    for (uint32_t at = 0; at < solo->item_count; at++)
        if (is_frame(&solo->items[at], kind, COP_ID_NONE) && i-- == 0)
            return &solo->items[at];
    fail_msg("there is no such frame");
    return NULL;
}

uint32_t solo_effects(const struct solo *solo, enum cop_effect_kind kind, cop_id peer)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < solo->item_count; i++)
        count += solo->items[i].kind == kind &&
                 (peer == COP_ID_NONE || solo->items[i].peer == peer);
    return count;
}

void solo_pong(struct solo *solo, cop_id peer)
{
    struct cop__msg_ping ping = {0};
    for (uint32_t i = solo->item_count; i > 0; i--) {
        const struct cop_effect *item = &solo->items[i - 1];
        if (!is_frame(item, COP__KIND_PING, peer))
            continue;
        assert_int_equal(cop__decode_ping(item->frame.payload->data,
                                          item->frame.payload->length, &ping),
                         0);
        break;
    }
    struct cop__msg_pong pong = {.number = ping.number};
    solo_recv(solo, peer, COP__KIND_PONG, cop__encode_pong(&pong));
}

bool solo_suspects(const struct solo *solo, cop_id id)
{
    return cop_node_belief(solo->node, id).status >= COP_SUSPECT;
}

uint32_t solo_tells(const struct solo *solo, enum cop_stream_event_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < solo->effects.count; i++) {
        struct cop_stream_event event;
        if (solo->effects.items[i].kind != COP_EFFECT_STREAM)
            continue;
        assert_int_equal(cop_stream_event(solo->effects.items[i].result, &event), 0);
        count += event.kind == kind;
    }
    return count;
}

uint64_t solo_stream_key(const struct solo *solo, uint64_t number)
{
    struct cop_stream_info info;
    assert_int_equal(cop_node_stream(solo->node, number, &info), 0);
    return info.key;
}

struct cop__list solo_list_ids(const cop_id *ids, uint32_t count, uint8_t *bytes)
{
    struct cop__writer writer = cop__writer(bytes, 4 * (size_t)count);
    for (uint32_t i = 0; i < count; i++)
        cop__put_u32(&writer, ids[i]);
    return (struct cop__list){bytes, count};
}
