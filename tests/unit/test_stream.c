/* SPDX-License-Identifier: Apache-2.0 */
/* Streams at one node: what the others say that a simulation hardly ever makes them say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_alloc.h"
#include "solo.h"
#include "stream/stream.h"
#include "view/view.h"

#include <coppice/filter.h>
#include <coppice/stream.h>
#include <string.h>

#define MEMBERS 31u
#define NUMBER 1u

static const struct cop_detect connections;

/* ---- the others ------------------------------------------------------------------ */

static void open_stream(struct solo *root, uint64_t number, uint32_t flags,
                        uint32_t window)
{
    struct cop_stream_options options = {.number = number,
                                         .filter = "sum",
                                         .type = "u64",
                                         .flags = flags,
                                         .window = window};
    struct cop_request request = {.kind = COP_REQUEST_STREAM_OPEN, .stream = &options};
    assert_int_equal(cop_shape_make(COP_SHAPE_KARY, 2, &options.shape), 0);
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &request};
    assert_int_equal(solo_event(root, &event), 0);
}

/* The root, and a stream that it has just opened. */
static struct solo *root_with(uint32_t flags)
{
    struct solo *root = solo_create(MEMBERS, 0, &connections, COP_QUORUM_MAJORITY);
    open_stream(root, NUMBER, flags, 4);
    return root;
}

/* What it tells of that. To be unreferenced. */
static struct cop_buf *news_of_root(uint32_t flags)
{
    struct solo *root = root_with(flags);
    struct cop__msg_adopt message;
    const struct cop_buf *payload = solo_frame(root, COP__KIND_ADOPT, 0)->frame.payload;
    assert_int_equal(cop__decode_adopt(payload->data, payload->length, &message), 0);
    struct cop_buf *news = cop_buf_copy(message.news.data, message.news.length);
    solo_destroy(root);
    return news;
}

static void adopt_with(struct solo *solo, uint32_t flags, cop_id from, uint64_t number,
                       const cop_id *path, uint32_t count)
{
    uint8_t bytes[64];
    struct cop_buf *news = news_of_root(flags);
    struct cop__msg_adopt message = {.network = 0,
                                     .number = number,
                                     .regeneration = 1,
                                     .path = solo_list_ids(path, count, bytes),
                                     .news = {news->data, news->length}};
    solo_recv(solo, from, COP__KIND_ADOPT, cop__encode_adopt(&message));
    cop_buf_unref(news);
}

static void adopt(struct solo *solo, cop_id from, uint64_t number, const cop_id *path,
                  uint32_t count)
{
    adopt_with(solo, COP_STREAM_LEAVES, from, number, path, count);
}

static void say_path(struct solo *solo, cop_id from, const cop_id *path, uint32_t count)
{
    uint8_t bytes[64];
    struct cop__msg_path message = {.network = 0,
                                    .path = solo_list_ids(path, count, bytes)};
    solo_recv(solo, from, COP__KIND_PATH, cop__encode_path(&message));
}

/* Whom it has asked last, and under which number. */
static cop_id asked(const struct solo *solo, uint64_t *number)
{
    uint32_t last = solo_sent(solo, COP__KIND_ATTACH, COP_ID_NONE);
    assert_true(last > 0);
    const struct cop_effect *effect = solo_frame(solo, COP__KIND_ATTACH, last - 1);
    struct cop__msg_attach message;
    assert_int_equal(cop__decode_attach(effect->frame.payload->data,
                                        effect->frame.payload->length, &message),
                     0);
    *number = message.number;
    return effect->peer;
}

static void refuse(struct solo *solo, cop_id from, uint64_t number)
{
    struct cop__msg_detach message = {.network = 0, .number = number};
    solo_recv(solo, from, COP__KIND_DETACH, cop__encode_detach(&message));
}

/* A wave of a child, in which nobody has given anything yet, and whom it covers. */
struct lives {
    cop_id first;
    uint32_t count;
};
static void send_wave_as(struct solo *root, cop_id from, uint64_t number, uint64_t wave,
                         const struct lives *lives, uint32_t count)
{
    uint8_t bytes[8 + 4 + 4 * (4 + 4 + 8)];
    struct cop__writer writer = cop__writer(bytes, sizeof bytes);
    struct cop_buf *empty;
    assert_int_equal(cop_filter_init(cop_filter_find("sum"), "u64", "", &empty), 0);
    if (number)
        cop__put_u64(&writer, number);
    cop__put_u32(&writer, 16 * count);
    for (uint32_t i = 0; i < count; i++) {
        cop__put_u32(&writer, lives[i].first);
        cop__put_u32(&writer, lives[i].count);
        cop__put_u64(&writer, 1);
    }
    struct cop__msg_wave message = {
        .stream = solo_stream_key(root, NUMBER),
        .wave = wave,
        .flags = number ? 1 | 16 : 1, /* the whole state; under a number */
        .state = {empty->data, empty->length},
        .rest = {bytes, (uint32_t)(writer.at - bytes)}};
    solo_recv(root, from, COP__KIND_WAVE, cop__encode_wave(&message));
    cop_buf_unref(empty);
}

static void send_wave(struct solo *root, cop_id from, uint64_t wave,
                      const struct lives *lives, uint32_t count)
{
    send_wave_as(root, from, 0, wave, lives, count);
}

/* `from` says that `id` is attached somewhere under a number. */
static void say_attached(struct solo *solo, cop_id from, cop_id id, uint64_t number)
{
    uint8_t bytes[4 + 4 + 4 + 4 + 8 + 8];
    struct cop__writer writer = cop__writer(bytes, sizeof bytes);
    cop__put_u32(&writer, 0); /* streams, and those that are over */
    cop__put_u32(&writer, 0);
    cop__put_u32(&writer, 1);
    cop__put_u32(&writer, id);
    cop__put_u64(&writer, 1);
    cop__put_u64(&writer, number);
    struct cop__msg_network message = {.news = {bytes, sizeof bytes}};
    solo_recv(solo, from, COP__KIND_NETWORK, cop__encode_network(&message));
}

/* Of the last step: whether there was an output, and whether it was complete. */
static bool has_output(const struct solo *solo, bool *complete)
{
    for (uint32_t i = 0; i < solo->effects.count; i++) {
        struct cop_stream_event event;
        if (solo->effects.items[i].kind != COP_EFFECT_STREAM)
            continue;
        assert_int_equal(cop_stream_event(solo->effects.items[i].result, &event), 0);
        *complete = event.complete;
        if (event.kind == COP_STREAM_OUTPUT)
            return true;
    }
    return false;
}

/* ---- tests ----------------------------------------------------------------------- */

/* T7: it is below its parent, which is below 30 by now; and that is below it. It is the lowest of
 * the three, so it lets go and asks another one. */
static void test_lowest_of_a_ring_lets_go(void **state)
{
    (void)state;
    struct solo *solo = solo_create(MEMBERS, 8, &connections, COP_QUORUM_MAJORITY);
    const cop_id start[] = {0, 1, 3};
    uint64_t number;
    adopt(solo, 3, 0, start, 3);
    refuse(solo, 3, 0);
    cop_id parent = asked(solo, &number);
    /* Its heir first (T6); others say no, too, until one is asked that has a higher id. */
    assert_int_equal(parent, 3);
    for (int tries = 0; parent < 9 && tries < (int)MEMBERS; tries++) {
        refuse(solo, parent, number);
        parent = asked(solo, &number);
    }
    assert_true(parent > 8);
    const cop_id way[] = {0, parent};
    adopt(solo, parent, number, way, 2);
    solo_forget(solo);

    const cop_id ring[] = {8, 30, parent};
    say_path(solo, parent, ring, 3);
    assert_int_equal(solo->stats.stream_rings, 1);
    assert_int_equal(solo_sent(solo, COP__KIND_DETACH, parent), 1);
    assert_int_equal(solo_sent(solo, COP__KIND_ATTACH, COP_ID_NONE), 1);
    solo_destroy(solo);
}

/* Somebody else is lower: that one lets go. */
static void test_others_of_a_ring_stay(void **state)
{
    (void)state;
    struct solo *solo = solo_create(MEMBERS, 8, &connections, COP_QUORUM_MAJORITY);
    const cop_id start[] = {0, 1, 3}, ring[] = {8, 30, 3};
    adopt(solo, 3, 0, start, 3);
    solo_forget(solo);
    say_path(solo, 3, ring, 3);
    assert_int_equal(solo->stats.stream_rings, 0);
    assert_int_equal(solo_sent(solo, COP__KIND_DETACH, COP_ID_NONE), 0);
    assert_int_equal(solo_sent(solo, COP__KIND_ATTACH, COP_ID_NONE), 0);
    solo_destroy(solo);
}

/* T11: an output in which somebody is twice is not complete. */
static void test_nobody_is_in_it_twice(void **state)
{
    (void)state;
    struct solo *root = root_with(COP_STREAM_LEAVES);
    const struct lives most[] = {{1, 1}, {3, 28}}, second[] = {{2, 1}},
                       all[] = {{1, 30}};
    bool complete;
    send_wave(root, 1, 1, most, 2);
    send_wave(root, 2, 1, second, 1);
    assert_true(has_output(root, &complete));
    assert_true(complete);
    send_wave(root, 1, 2, all, 1);
    send_wave(root, 2, 2, second, 1);
    assert_true(has_output(root, &complete));
    assert_false(complete);
    solo_destroy(root);
}

/* T11: 7 gives nothing, but may have what a back-end below it gave that has left. While it is between
 * two parents all back-ends of the view are in the output, and it is not complete. */
static void test_relays_are_waited_for(void **state)
{
    (void)state;
    struct solo *root = root_with(COP_STREAM_LEAVES);
    const struct lives others[] = {{1, 1}, {3, 4}, {8, 23}}, second[] = {{2, 1}},
                       most[] = {{1, 1}, {3, 28}};
    bool complete;
    send_wave(root, 1, 1, others, 3);
    send_wave(root, 2, 1, second, 1);
    assert_true(has_output(root, &complete));
    assert_false(complete);
    send_wave(root, 1, 1, most, 2);
    assert_true(has_output(root, &complete));
    assert_true(complete);
    solo_destroy(root);
}

/* T8: who is attached elsewhere, under a higher number, is not below me any more. */
static void test_higher_number_ends_the_lower(void **state)
{
    (void)state;
    struct solo *root = root_with(COP_STREAM_LEAVES);
    const struct lives first[] = {{1, 1}};
    send_wave(root, 1, 1, first, 1);
    say_attached(root, 2, 1, 0); /* as here */
    send_wave(root, 1, 2, first, 1);
    assert_int_equal(root->stats.ignored_not_below, 0);
    say_attached(root, 2, 1, 1);
    send_wave(root, 1, 3, first, 1);
    assert_int_equal(root->stats.ignored_not_below, 1);
    solo_destroy(root);
}

/* T8: the number of an attachment goes up to the root, and down to a child below which the one who
 * moved may be, who may be the one that has it under a lower number; to nobody else. */
static void test_who_is_told_of_an_attachment(void **state)
{
    (void)state;
    struct solo *solo = solo_create(MEMBERS, 8, &connections, COP_QUORUM_MAJORITY);
    const cop_id way[] = {0, 1, 3};
    adopt(solo, 3, 0, way, 3); /* and has 17 and 18 below it */
    solo_forget(solo);
    say_attached(solo, 17, 30, 1);
    assert_int_equal(solo_sent(solo, COP__KIND_NETWORK, 3), 1);
    assert_int_equal(solo_sent(solo, COP__KIND_NETWORK, COP_ID_NONE), 1);
    say_attached(solo, 17, 30, 1); /* which is known */
    say_attached(solo, 3, 29, 1);  /* and comes from there */
    assert_int_equal(solo_sent(solo, COP__KIND_NETWORK, COP_ID_NONE), 1);
    solo_destroy(solo);

    struct solo *root = root_with(COP_STREAM_LEAVES);
    const struct lives first[] = {{1, 1}, {7, 1}};
    send_wave(root, 1, 1, first, 2);
    solo_forget(root);
    say_attached(root, 2, 9, 1);
    assert_int_equal(solo_sent(root, COP__KIND_NETWORK, COP_ID_NONE), 0);
    say_attached(root, 2, 7, 1);
    assert_int_equal(solo_sent(root, COP__KIND_NETWORK, 1), 1);
    assert_int_equal(solo_sent(root, COP__KIND_NETWORK, COP_ID_NONE), 1);
    solo_destroy(root);
}

static void say_got(struct solo *solo, cop_id from, uint64_t got)
{
    struct cop__msg_got message = {
        .stream = solo_stream_key(solo, NUMBER), .number = 0, .got = got};
    solo_recv(solo, from, COP__KIND_GOT, cop__encode_got(&message));
}

/* T15: what all below have is said of those whom the last whole wave covered. 17 covers others in a
 * wave that waits for 18: what it has got it says of those, and whom it covered before may be on
 * their way with less. */
static void test_who_has_the_packets(void **state)
{
    (void)state;
    struct solo *solo = solo_create(MEMBERS, 8, &connections, COP_QUORUM_MAJORITY);
    const cop_id way[] = {0, 1, 3};
    const struct lives both[] = {{17, 1}, {30, 1}}, alone[] = {{17, 1}},
                       other[] = {{18, 1}};
    struct cop__msg_down down = {.number = 1, .bytes = {(const uint8_t *)"hello", 5}};
    adopt(solo, 3, 0, way, 3);
    down.stream = solo_stream_key(solo, NUMBER);
    send_wave(solo, 17, 1, both, 2);
    send_wave(solo, 18, 1, other, 1);
    assert_int_equal(solo_sent(solo, COP__KIND_WAVE, 3), 1);
    solo_recv(solo, 3, COP__KIND_DOWN, cop__encode_down(&down));
    assert_int_equal(solo_sent(solo, COP__KIND_DOWN, COP_ID_NONE), 2);
    send_wave(solo, 17, 2, alone, 1);
    say_got(solo, 17, 1);
    say_got(solo, 18, 1);
    solo_run(solo, solo->now + COP_SEC);
    assert_int_equal(solo_sent(solo, COP__KIND_GOT, COP_ID_NONE), 0);
    /* The wave is made: 30 is whoever covers it now to speak of. */
    send_wave(solo, 18, 2, other, 1);
    say_got(solo, 18, 1);
    solo_run(solo, solo->now + COP_SEC);
    assert_int_equal(solo_sent(solo, COP__KIND_WAVE, 3), 2);
    assert_int_equal(solo_sent(solo, COP__KIND_GOT, 3), 1);
    solo_destroy(solo);
}

/* The front-end at the root sends down. */
static void send_down(struct solo *root, uint64_t stream, uint64_t number)
{
    struct cop_request request = {.kind = COP_REQUEST_STREAM_SEND,
                                  .group = stream,
                                  .wave = number,
                                  .bytes = "hello",
                                  .length = 5};
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &request};
    assert_int_equal(solo_event(root, &event), 0);
}

/* An orphan that has `down` packets of the first stream, and knows of no other. */
static void attach(struct solo *root, cop_id from, uint64_t down)
{
    const uint8_t nothing[12] = {0};
    uint8_t place[5 * 8];
    struct cop__writer writer = cop__writer(place, sizeof place);
    cop__put_u64(&writer, solo_stream_key(root, NUMBER));
    for (int i = 0; i < 3; i++) /* wave, and what is taken and has come to all */
        cop__put_u64(&writer, 0);
    cop__put_u64(&writer, down);
    struct cop__msg_attach message = {.network = 0,
                                      .number = 1,
                                      .news = {nothing, sizeof nothing},
                                      .places = {place, sizeof place}};
    solo_recv(root, from, COP__KIND_ATTACH, cop__encode_attach(&message));
}

/* T15: an orphan gets what it has not got, and all of a stream that was opened after it lost its
 * parent: the news of it comes with the adoption, and the packets come after that. */
static void test_orphan_catches_up(void **state)
{
    (void)state;
    struct solo *root = root_with(0);
    open_stream(root, NUMBER + 1, 0, 4);
    for (uint64_t number = 1; number <= 2; number++) {
        send_down(root, NUMBER, number);
        send_down(root, NUMBER + 1, number);
    }
    solo_forget(root);
    attach(root, 8, 1);
    assert_int_equal(solo_sent(root, COP__KIND_ADOPT, 8), 1);
    assert_int_equal(solo_sent(root, COP__KIND_DOWN, COP_ID_NONE), 3);
    const uint64_t one = solo_stream_key(root, NUMBER),
                   other = solo_stream_key(root, NUMBER + 1);
    const uint64_t expected[][2] = {{one, 2}, {other, 1}, {other, 2}};
    for (uint32_t i = 0; i < 3; i++) {
        const struct cop_effect *effect = solo_frame(root, COP__KIND_DOWN, i);
        const struct cop_buf *payload = effect->frame.payload;
        struct cop__msg_down message;
        assert_int_equal(effect->peer, 8);
        assert_int_equal(cop__decode_down(payload->data, payload->length, &message), 0);
        assert_int_equal(message.stream, expected[i][0]);
        assert_int_equal(message.number, expected[i][1]);
    }
    solo_destroy(root);
}

/* T8: a child that is behind the others, and has been for a second, is offered its place again;
 * one that is not behind is not. */
static void test_who_keeps_waiting_is_asked(void **state)
{
    (void)state;
    struct solo *root = root_with(COP_STREAM_LEAVES);
    const struct lives first[] = {{1, 1}}, second[] = {{2, 1}};
    send_wave(root, 1, 1, first, 1);
    send_wave(root, 2, 1, second, 1);
    send_wave(root, 1, 2, first, 1);
    send_wave(root, 1, 3, first, 1);
    solo_forget(root);
    solo_run(root, root->now + 5 * COP_SEC);
    assert_true(solo_sent(root, COP__KIND_ADOPT, 2) > 0);
    assert_int_equal(solo_sent(root, COP__KIND_ADOPT, 1), 0);
    solo_destroy(root);
}

/* T12: what was shown can be taken, also when waves have gone back since: the first whole wave of
 * an orphan may be an earlier one. Otherwise who was given nothing more would wait for ever. */
static void test_what_was_shown_is_taken(void **state)
{
    (void)state;
    struct solo *root = root_with(COP_STREAM_LEAVES);
    const struct lives most[] = {{1, 1}, {3, 28}}, second[] = {{2, 1}},
                       orphan[] = {{8, 1}};
    struct cop_request request = {
        .kind = COP_REQUEST_STREAM_TAKEN, .group = NUMBER, .wave = 3};
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &request};
    struct cop_stream_info info;
    for (uint64_t wave = 1; wave <= 3; wave++) {
        send_wave(root, 1, wave, most, 2);
        send_wave(root, 2, wave, second, 1);
    }
    refuse(root, 1, 0);
    refuse(root, 2, 0);
    attach(root, 8, 0);
    send_wave_as(root, 8, 1, 2, orphan, 1);
    assert_int_equal(cop_node_stream(root->node, NUMBER, &info), 0);
    assert_int_equal(info.wave, 2);
    assert_int_equal(info.mark, 0);
    assert_int_equal(solo_event(root, &event), 0);
    assert_int_equal(cop_node_stream(root->node, NUMBER, &info), 0);
    assert_int_equal(info.mark, 3);
    solo_destroy(root);
}

/* T12: credit goes down in steps of a quarter of the window, but at once to who has used all. */
static void test_who_starves_gets_credit(void **state)
{
    (void)state;
    struct solo *root = solo_create(MEMBERS, 0, &connections, COP_QUORUM_MAJORITY);
    const struct lives most[] = {{1, 1}, {3, 28}}, second[] = {{2, 1}};
    struct cop_request request = {
        .kind = COP_REQUEST_STREAM_TAKEN, .group = NUMBER, .wave = 1};
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &request};
    open_stream(root, NUMBER, COP_STREAM_LEAVES, 16);
    for (uint64_t wave = 1; wave <= 16; wave++)
        send_wave(root, 1, wave, most, 2);
    for (uint64_t wave = 1; wave <= 5; wave++)
        send_wave(root, 2, wave, second, 1);
    assert_int_equal(solo_event(root, &event), 0);
    assert_int_equal(solo_sent(root, COP__KIND_CREDIT, 1), 1);
    assert_int_equal(solo_sent(root, COP__KIND_CREDIT, 2), 0);
    request.wave = 4;
    assert_int_equal(solo_event(root, &event), 0);
    assert_int_equal(solo_sent(root, COP__KIND_CREDIT, 1), 1);
    assert_int_equal(solo_sent(root, COP__KIND_CREDIT, 2), 1);
    solo_destroy(root);
}

/* T15: a front-end that attaches says what has come to all; the root may be a new life, and counts
 * its packets from there. */
static void test_front_end_says_what_came_to_all(void **state)
{
    (void)state;
    struct solo *root = root_with(0);
    struct cop_stream_options options = {
        .number = NUMBER, .filter = "sum", .type = "u64", .window = 4};
    struct cop_request request = {
        .kind = COP_REQUEST_STREAM_OPEN, .stream = &options, .reached = 2};
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &request};
    struct cop_stream_info info;
    assert_int_equal(cop_shape_make(COP_SHAPE_KARY, 2, &options.shape), 0);
    assert_int_equal(solo_event(root, &event), 0);
    assert_int_equal(cop_node_stream(root->node, NUMBER, &info), 0);
    assert_int_equal(info.down, 2);
    send_down(root, NUMBER, 3);
    assert_int_equal(cop_node_stream(root->node, NUMBER, &info), 0);
    assert_int_equal(info.down, 3);
    assert_int_equal(info.kept, 1);
    solo_destroy(root);
}

/* What the last step told of the end of the stream: 1 if nothing. */
static int end_of(const struct solo *solo)
{
    struct cop_stream_event event;
    int status = 1;
    for (uint32_t i = 0; i < solo->effects.count; i++) {
        const struct cop_effect *effect = &solo->effects.items[i];
        if (effect->kind != COP_EFFECT_STREAM)
            continue;
        assert_int_equal(cop_stream_event(effect->result, &event), 0);
        if (event.kind == COP_STREAM_CLOSED)
            status = event.status;
    }
    return status;
}

static bool has_stream(const struct solo *solo)
{
    struct cop_stream_info info;
    return cop_node_stream(solo->node, NUMBER, &info) == 0;
}

/* T19: where a child is dropped it is over at once, and not before: no time goes by. */
static void test_fragile_ends_with_a_child(void **state)
{
    (void)state;
    struct cop_event tick = {.kind = COP_EVENT_TICK};
    struct solo *solo = root_with(COP_STREAM_FRAGILE);
    assert_true(has_stream(solo));
    refuse(solo, 1, 0);
    assert_true(cop_deadline(solo->node) <= solo->now);
    solo_event(solo, &tick);
    assert_int_equal(end_of(solo), COP_ELOST);
    assert_false(has_stream(solo));
    solo_destroy(solo);

    solo = root_with(0);
    refuse(solo, 1, 0);
    solo_event(solo, &tick);
    assert_int_equal(end_of(solo), 1);
    assert_true(has_stream(solo));
    solo_destroy(solo);
}

/* T19: with the view, even if who is lost was nowhere near; in the step that brings it. */
static void test_fragile_ends_with_its_view(void **state)
{
    (void)state;
    const cop_id way[] = {0, 1, 3};
    for (int fragile = 0; fragile < 2; fragile++) {
        struct solo *solo = solo_create(MEMBERS, 8, &connections, COP_QUORUM_MAJORITY);
        adopt_with(solo, fragile ? COP_STREAM_FRAGILE : 0, 3, 0, way, 3);
        assert_true(has_stream(solo));
        solo_without(solo, 30, COP_REMOVED, 0);
        assert_int_equal(end_of(solo), fragile ? COP_ELOST : 1);
        assert_int_equal(has_stream(solo), !fragile);
        solo_destroy(solo);
    }
}

/* T19: only where all are waited for. */
static void test_fragile_waits_for_all(void **state)
{
    (void)state;
    struct solo *solo = solo_create(MEMBERS, 0, &connections, COP_QUORUM_MAJORITY);
    struct cop_stream_options options = {.number = NUMBER,
                                         .filter = "sum",
                                         .type = "u64",
                                         .flags = COP_STREAM_FRAGILE,
                                         .sync = COP_SYNC_NONE,
                                         .window = 4};
    struct cop_request request = {.kind = COP_REQUEST_STREAM_OPEN, .stream = &options};
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &request};
    assert_int_equal(solo_event(solo, &event), COP_EINVAL);
    assert_false(has_stream(solo));
    solo_destroy(solo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lowest_of_a_ring_lets_go),
        cmocka_unit_test(test_others_of_a_ring_stay),
        cmocka_unit_test(test_nobody_is_in_it_twice),
        cmocka_unit_test(test_relays_are_waited_for),
        cmocka_unit_test(test_higher_number_ends_the_lower),
        cmocka_unit_test(test_who_is_told_of_an_attachment),
        cmocka_unit_test(test_who_has_the_packets),
        cmocka_unit_test(test_orphan_catches_up),
        cmocka_unit_test(test_who_keeps_waiting_is_asked),
        cmocka_unit_test(test_what_was_shown_is_taken),
        cmocka_unit_test(test_who_starves_gets_credit),
        cmocka_unit_test(test_front_end_says_what_came_to_all),
        cmocka_unit_test(test_fragile_ends_with_a_child),
        cmocka_unit_test(test_fragile_ends_with_its_view),
        cmocka_unit_test(test_fragile_waits_for_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
