/* SPDX-License-Identifier: Apache-2.0 */
#include "solo.h"

#include "view/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
/* cmocka wants these first */
#include <cmocka.h>

/*
 * What a member hears is meant for one life of it and said in one view: a former life, a
 * later view and an outdated accusation each are something else.
 */
#define N 5u
#define SELF 1u

static struct solo *create(void)
{
    static const struct cop_detect connections;
    struct solo *solo = solo_create(N, SELF, &connections, COP_QUORUM_MAJORITY);
    solo_forget(solo);
    return solo;
}

static struct cop_buf *news_of(const struct cop__belief *belief)
{
    uint8_t bytes[COP__SIZE_belief];
    struct cop__writer writer = cop__writer(bytes, sizeof bytes);
    cop__belief_put(&writer, belief);
    struct cop__msg_news news = {.beliefs = {bytes, 1}};
    return cop__encode_news(&news);
}

/* The view of now without `gone`, of the next epoch. */
static struct cop_view *view_of(const struct solo *solo, cop_id root, cop_id gone)
{
    const struct cop_view *now = cop_node_view(solo->node);
    struct cop_ballot ballot = cop_view_ballot(now);
    struct cop__entry entry = {.id = gone,
                               .incarnation = 1,
                               .presence = COP_REMOVED,
                               .since = ballot.epoch + 1};
    struct cop__delta delta = {0};
    struct cop_view *view;
    ballot.epoch++;
    ballot.root = root;
    ballot.incarnation = root == cop_view_root(now) ? ballot.incarnation : 1;
    assert_int_equal(cop__delta_put(&delta, &entry), 0);
    assert_int_equal(cop__view_derive(now, &ballot, &delta, &view), 0);
    cop__delta_free(&delta);
    return view;
}

static struct cop_view *view_without(const struct solo *solo, cop_id gone)
{
    return view_of(solo, cop_view_root(cop_node_view(solo->node)), gone);
}

/* Somebody who has it, and is in it, gives it to me. */
static void install(struct solo *solo, struct cop_view *view)
{
    struct cop_buf *bytes = cop__view_encode(view);
    assert_non_null(bytes);
    struct cop__msg_whole whole = {.view = {bytes->data, bytes->length}};
    solo_recv(solo, 2, COP__KIND_WHOLE, cop__encode_whole(&whole));
    cop_buf_unref(bytes);
    assert_int_equal(cop_view_epoch(cop_node_view(solo->node)), cop_view_epoch(view));
}

static void recv_letter(struct solo *solo, cop_id from, uint64_t number, uint64_t epoch)
{
    struct cop_ballot ballot = cop_view_ballot(cop_node_view(solo->node));
    struct cop__msg_letter letter = {number,      epoch,
                                     ballot.root, ballot.incarnation,
                                     0,           {(const uint8_t *)"hello", 5}};
    solo_recv(solo, from, COP__KIND_LETTER, cop__encode_letter(&letter));
}

/* Where in what it wanted the first effect of a kind is. */
static uint32_t place_of(const struct solo *solo, enum cop_effect_kind kind)
{
    for (uint32_t i = 0; i < solo->item_count; i++)
        if (solo->items[i].kind == kind)
            return i;
    fail_msg("there is no effect of kind %d", (int)kind);
    return 0;
}

/* N1 */
static void test_frame_for_another_life(void **state)
{
    (void)state;
    struct solo *solo = create();
    const struct cop__belief belief = {
        .id = 3, .incarnation = 1, .status = COP_SUSPECT};
    struct cop_frame frame = {
        .header = {.kind = COP__KIND_NEWS,
                   .sender = 0,
                   .receiver = SELF,
                   .sender_incarnation = 1,
                   .receiver_incarnation = 2,
                   .epoch = cop_view_epoch(solo->view)},
        .payload = news_of(&belief),
    };
    frame.header.length = frame.payload->length;
    struct cop_event event = {.kind = COP_EVENT_RECV, .peer = 0, .frame = &frame};
    solo_event(solo, &event);
    assert_int_equal(solo->stats.ignored_receiver, 1);
    assert_false(solo_suspects(solo, 3));
    frame.header.receiver_incarnation = 1;
    solo_event(solo, &event);
    assert_int_equal(solo->stats.ignored_receiver, 1);
    assert_true(solo_suspects(solo, 3));
    cop_buf_unref(frame.payload);
    solo_destroy(solo);
}

/* D4: who accuses somebody that has denied it since is told of the denial. */
static void test_denial_is_told(void **state)
{
    (void)state;
    struct solo *solo = create();
    struct cop__belief belief = {.id = 3, .incarnation = 1, .denial = 2};
    solo_recv(solo, 0, COP__KIND_NEWS, news_of(&belief));
    solo_run(solo, solo->now + COP_SEC);
    solo_forget(solo);
    belief.denial = 1;
    belief.status = COP_SUSPECT;
    solo_recv(solo, 2, COP__KIND_NEWS, news_of(&belief));
    solo_run(solo, solo->now + COP_SEC);
    assert_false(solo_suspects(solo, 3));
    assert_int_equal(solo_sent(solo, COP__KIND_NEWS, 2), 1);
    solo_destroy(solo);
}

/* D4: a suspect that is in the next view, too, is told again: it may not have listened before. */
static void test_suspects_are_told_in_every_view(void **state)
{
    (void)state;
    struct solo *solo = create();
    const struct cop__belief belief = {
        .id = 3, .incarnation = 1, .status = COP_SUSPECT};
    solo_recv(solo, 0, COP__KIND_NEWS, news_of(&belief));
    solo_run(solo, solo->now + COP_SEC);
    solo_forget(solo);
    struct cop_view *view = view_without(solo, 4);
    install(solo, view);
    cop_view_unref(view);
    assert_true(solo_suspects(solo, 3));
    assert_int_equal(solo_sent(solo, COP__KIND_NEWS, 3), 1);
    solo_destroy(solo);
}

/* L1: a letter waits for the view that it was written in. */
static void test_letter_of_a_later_view(void **state)
{
    (void)state;
    struct solo *solo = create();
    struct cop_view *view = view_without(solo, 4);
    recv_letter(solo, 2, 1, cop_view_epoch(view));
    assert_int_equal(solo_effects(solo, COP_EFFECT_DELIVER, COP_ID_NONE), 0);
    install(solo, view);
    cop_view_unref(view);
    assert_int_equal(solo_effects(solo, COP_EFFECT_DELIVER, COP_ID_NONE), 1);
    assert_true(place_of(solo, COP_EFFECT_VIEW) < place_of(solo, COP_EFFECT_DELIVER));
    solo_destroy(solo);
}

/* L1: each letter once and in order, however often it comes; and each time a receipt, for the
 * one before may be lost. One that came too early comes again behind the one that is missing. */
static void test_letter_that_comes_again(void **state)
{
    static const struct {
        uint64_t number;
        uint32_t delivered, repeated;
    } steps[] = {{1, 1, 0}, {1, 1, 1}, {3, 1, 2}, {2, 2, 2}, {1, 2, 3}, {3, 3, 3}};
    (void)state;
    struct solo *solo = create();
    for (uint32_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        recv_letter(solo, 2, steps[i].number, cop_view_epoch(solo->view));
        assert_int_equal(solo_effects(solo, COP_EFFECT_DELIVER, 2), steps[i].delivered);
        assert_int_equal(solo->stats.ignored_repeated, steps[i].repeated);
        assert_int_equal(solo_sent(solo, COP__KIND_RECEIPT, 2), i + 1);
    }
    solo_destroy(solo);
}

/* Who waits for somebody that the view has lost hears of the view first. */
static void test_view_before_what_follows(void **state)
{
    (void)state;
    struct solo *solo = create();
    struct cop_request request = {.kind = COP_REQUEST_SEND,
                                  .token = 7,
                                  .member = 4,
                                  .bytes = "hello",
                                  .length = 5};
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &request};
    assert_int_equal(solo_event(solo, &event), 0);
    assert_int_equal(solo_effects(solo, COP_EFFECT_COMPLETE, COP_ID_NONE), 0);
    struct cop_view *view = view_without(solo, 4);
    install(solo, view);
    cop_view_unref(view);
    assert_true(place_of(solo, COP_EFFECT_VIEW) < place_of(solo, COP_EFFECT_COMPLETE));
    solo_destroy(solo);
}

/* D11: a root tries those who left without a goodbye, and tells them that they are out, until
 * nobody listens there. */
static void test_the_removed_are_told(void **state)
{
    (void)state;
    struct solo *solo = create();
    struct cop_view *view = view_of(solo, SELF, 0);
    install(solo, view);
    cop_view_unref(view);
    solo_run(solo, solo->now + 3 * COP_SEC);
    assert_int_equal(solo_sent(solo, COP__KIND_OUT, 0), 1);
    assert_true(solo_effects(solo, COP_EFFECT_CONNECT, 0) > 0);
    solo_down(solo, 0, COP_DOWN_REFUSED);
    solo_run(solo, solo->now + COP_SEC);
    solo_forget(solo);
    solo_run(solo, solo->now + 5 * COP_SEC);
    assert_int_equal(solo_effects(solo, COP_EFFECT_CONNECT, 0), 0);
    solo_destroy(solo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frame_for_another_life),
        cmocka_unit_test(test_denial_is_told),
        cmocka_unit_test(test_suspects_are_told_in_every_view),
        cmocka_unit_test(test_letter_of_a_later_view),
        cmocka_unit_test(test_letter_that_comes_again),
        cmocka_unit_test(test_view_before_what_follows),
        cmocka_unit_test(test_the_removed_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
