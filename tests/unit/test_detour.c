/* SPDX-License-Identifier: Apache-2.0 */
#include "solo.h"

#include "failing_alloc.h"
#include "wire/header.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

/* D14: frames that go through somebody else, because the straight way is shut. */

#define VIA 2u
#define PEER 3u
static const struct cop_detect two = {.witnesses = 2};

static struct solo *create(void)
{
    return solo_create(7, 1, &two, COP_QUORUM_MAJORITY);
}

/* A question that is answered with a SYNC, for its view is later than mine. */
static struct cop_buf *sync_of(cop_epoch epoch)
{
    struct cop__msg_sync sync = {.epoch = epoch, .root = 0, .incarnation = 1};
    return cop__encode_sync(&sync);
}

/* A RELAY with a frame inside; takes over the reference. */
static struct cop_buf *wrap(cop_id from, cop_id to, enum cop__kind kind,
                            struct cop_buf *payload)
{
    struct cop_frame frame = {
        .header = {.kind = (uint16_t)kind,
                   .sender = from,
                   .receiver = to,
                   .sender_incarnation = 1,
                   .receiver_incarnation = 1,
                   .epoch = 1,
                   .length = payload->length},
        .payload = payload,
    };
    struct cop_buf *wrapped = cop__detour_wrap(&frame);
    cop_buf_unref(payload);
    return wrapped;
}

static void relay(struct solo *solo, cop_id via, cop_id from, cop_id to)
{
    solo_recv(solo, via, COP__KIND_RELAY,
              wrap(from, to, COP__KIND_SYNC, sync_of(solo->now + 9)));
}

/* Of those whom nobody knows only that they want to be let in: all else would be answered, and
 * the answers kept, for as many as somebody makes up. */
static void test_strangers_do_not_speak_through_others(void **state)
{
    (void)state;
    struct solo *solo = create();
    for (cop_id id = 7; id < 50; id++)
        relay(solo, VIA, id, 1);
    relay(solo, VIA, COP_MEMBERS_MAX, 1);
    assert_int_equal(solo->stats.ignored_stranger, 44);
    assert_int_equal(solo_sent(solo, COP__KIND_RELAY, VIA), 0);
    assert_int_equal(solo_sent(solo, COP__KIND_SYNC, COP_ID_NONE), 0);
    solo_destroy(solo);
}

/* The frame inside the i-th RELAY that was sent. */
static struct cop_header inside(const struct solo *solo, uint32_t i)
{
    struct cop__msg_relay message;
    struct cop_header header;
    const struct cop_effect *effect = solo_frame(solo, COP__KIND_RELAY, i);
    assert_int_equal(cop__decode_relay(effect->frame.payload->data,
                                       effect->frame.payload->length, &message),
                     0);
    assert_int_equal(cop__header_decode(message.frame.data, &header), 0);
    return header;
}

/* ---- at the end of the way ------------------------------------------------------- */

static void test_an_answer_goes_back_the_same_way(void **state)
{
    (void)state;
    struct solo *solo = create();
    relay(solo, VIA, PEER, 1);
    assert_int_equal(solo_sent(solo, COP__KIND_SYNC, PEER), 0);
    assert_int_equal(solo_sent(solo, COP__KIND_RELAY, VIA), 1);
    struct cop_header header = inside(solo, 0);
    assert_int_equal(header.kind, COP__KIND_SYNC);
    assert_int_equal(header.sender, 1);
    assert_int_equal(header.receiver, PEER);
    solo_destroy(solo);
}

static void ask_straight(struct solo *solo)
{
    solo_forget(solo);
    solo_run(solo, solo->now + 3 * COP_SEC);
    solo_forget(solo);
    solo_recv(solo, PEER, COP__KIND_SYNC, sync_of(solo->now + 9));
}

static void test_a_straight_word_ends_it(void **state)
{
    (void)state;
    struct solo *solo = create();
    relay(solo, VIA, PEER, 1);
    ask_straight(solo);
    assert_int_equal(solo_sent(solo, COP__KIND_SYNC, PEER), 1);
    assert_int_equal(solo_sent(solo, COP__KIND_RELAY, COP_ID_NONE), 0);
    solo_destroy(solo);
}

static void test_a_connection_ends_it(void **state)
{
    (void)state;
    struct solo *solo = create();
    struct cop_event up = {.kind = COP_EVENT_PEER_UP, .peer = PEER, .incarnation = 1};
    relay(solo, VIA, PEER, 1);
    assert_int_equal(cop__detour_for(solo->node, PEER, COP__KIND_NEWS, 9), VIA);
    solo_event(solo, &up);
    assert_int_equal(cop__detour_for(solo->node, PEER, COP__KIND_NEWS, 9), COP_ID_NONE);
    solo_destroy(solo);
}

/* The one in between is lost, and with it the way. */
static void test_it_ends_with_the_one_in_between(void **state)
{
    (void)state;
    struct solo *solo = create();
    struct cop_request report = {.kind = COP_REQUEST_REPORT, .member = VIA};
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &report};
    relay(solo, VIA, PEER, 1);
    assert_int_equal(solo_event(solo, &event), 0);
    assert_true(solo_suspects(solo, VIA));
    assert_int_equal(cop__detour_for(solo->node, PEER, COP__KIND_NEWS, 9), COP_ID_NONE);
    solo_destroy(solo);
}

/* What is about the way itself, has an order, or is too large goes straight. */
static void test_not_everything_goes_round(void **state)
{
    (void)state;
    struct solo *solo = create();
    relay(solo, VIA, PEER, 1);
    assert_int_equal(cop__detour_for(solo->node, PEER, COP__KIND_ASK, 9), VIA);
    assert_int_equal(cop__detour_for(solo->node, PEER, COP__KIND_PING, 9), COP_ID_NONE);
    assert_int_equal(cop__detour_for(solo->node, PEER, COP__KIND_LETTER, 9),
                     COP_ID_NONE);
    assert_int_equal(cop__detour_for(solo->node, PEER, COP__KIND_RELAY, 9),
                     COP_ID_NONE);
    assert_int_equal(cop__detour_for(solo->node, PEER, COP__KIND_ASK, COP__FRAME_MAX),
                     COP_ID_NONE);
    assert_int_equal(cop__detour_for(solo->node, 5, COP__KIND_ASK, 9), COP_ID_NONE);
    solo_destroy(solo);
}

/* ---- in between ------------------------------------------------------------------ */

static void test_passed_on_as_it_is(void **state)
{
    (void)state;
    struct solo *solo = create();
    relay(solo, PEER, PEER, 5);
    assert_int_equal(solo->stats.relayed, 1);
    assert_int_equal(solo_sent(solo, COP__KIND_RELAY, 5), 1);
    assert_int_equal(inside(solo, 0).sender, PEER);
    /* I have no detour of my own by that. */
    assert_int_equal(cop__detour_for(solo->node, PEER, COP__KIND_NEWS, 9), COP_ID_NONE);
    solo_destroy(solo);
}

static void test_one_step_in_between(void **state)
{
    (void)state;
    struct solo *solo = create();
    relay(solo, VIA, PEER, 5); /* it was passed on already */
    assert_int_equal(solo->stats.ignored_stranger, 1);
    relay(solo, PEER, PEER, 9); /* for nobody */
    assert_int_equal(solo->stats.ignored_stranger, 2);
    relay(solo, PEER, PEER, 1); /* it could have said so itself */
    assert_int_equal(solo->stats.ignored_stranger, 3);
    assert_int_equal(solo_sent(solo, COP__KIND_RELAY, COP_ID_NONE), 0);
    assert_int_equal(solo->stats.relayed, 0);
    solo_destroy(solo);
}

static void test_malformed(void **state)
{
    (void)state;
    struct solo *solo = create();
    uint8_t few[8] = {0};
    struct cop__msg_relay message = {.frame = {few, sizeof few}};
    solo_recv(solo, VIA, COP__KIND_RELAY, cop__encode_relay(&message));
    assert_int_equal(solo->stats.ignored_malformed, 1);
    struct cop__msg_ping ping = {.number = 1};
    solo_recv(solo, VIA, COP__KIND_RELAY,
              wrap(PEER, 1, COP__KIND_PING, cop__encode_ping(&ping)));
    assert_int_equal(solo->stats.ignored_malformed, 2);
    struct cop_buf *cut = wrap(PEER, 1, COP__KIND_SYNC, sync_of(9));
    struct cop__msg_relay whole;
    assert_int_equal(cop__decode_relay(cut->data, cut->length, &whole), 0);
    whole.frame.length--;
    solo_recv(solo, VIA, COP__KIND_RELAY, cop__encode_relay(&whole));
    cop_buf_unref(cut);
    assert_int_equal(solo->stats.ignored_malformed, 3);
    assert_int_equal(solo_sent(solo, COP__KIND_RELAY, COP_ID_NONE), 0);
    solo_destroy(solo);
}

/* ---- finding one ----------------------------------------------------------------- */

static void test_a_witness_that_reaches_it_is_the_way(void **state)
{
    (void)state;
    struct solo *solo = create();
    solo_down(solo, PEER, COP_DOWN_REFUSED);
    const struct cop_effect *effect = solo_frame(solo, COP__KIND_WITNESS, 0);
    struct cop__msg_witness asked;
    cop_id witness = effect->peer;
    assert_int_equal(cop__decode_witness(effect->frame.payload->data,
                                         effect->frame.payload->length, &asked),
                     0);
    struct cop__msg_witnessed says = {asked.token, PEER, true};
    solo_recv(solo, witness, COP__KIND_WITNESSED, cop__encode_witnessed(&says));
    assert_int_equal(cop__detour_for(solo->node, PEER, COP__KIND_NEWS, 9), witness);
    solo_destroy(solo);
}

static void test_every_allocation_can_fail(void **state)
{
    (void)state;
    bool failed = true;
    for (size_t at = 0; failed && at < 200; at++) {
        struct solo *solo = create();
        struct cop_buf *first = wrap(PEER, 1, COP__KIND_SYNC, sync_of(9));
        struct cop_buf *second = wrap(4, 1, COP__KIND_SYNC, sync_of(10));
        struct cop_buf *third = wrap(5, 1, COP__KIND_SYNC, sync_of(11));
        failing_alloc_after(at);
        solo_recv(solo, VIA, COP__KIND_RELAY, first);
        solo_recv(solo, VIA, COP__KIND_RELAY, second);
        solo_recv(solo, VIA, COP__KIND_RELAY, third);
        failing_alloc_off();
        failed = solo->failed != 0;
        solo_destroy(solo);
    }
    assert_false(failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strangers_do_not_speak_through_others),
        cmocka_unit_test(test_an_answer_goes_back_the_same_way),
        cmocka_unit_test(test_a_straight_word_ends_it),
        cmocka_unit_test(test_a_connection_ends_it),
        cmocka_unit_test(test_it_ends_with_the_one_in_between),
        cmocka_unit_test(test_not_everything_goes_round),
        cmocka_unit_test(test_passed_on_as_it_is),
        cmocka_unit_test(test_one_step_in_between),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_a_witness_that_reaches_it_is_the_way),
        cmocka_unit_test(test_every_allocation_can_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
