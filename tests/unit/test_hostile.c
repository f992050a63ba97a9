/* SPDX-License-Identifier: Apache-2.0 */
#include "solo.h"

#include "member/member.h"
#include "view/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

/*
 * Frames that are well formed, of somebody who has the key, and that no honest member would send:
 * they cost nothing, neither time nor memory, and change nothing.
 */
#define N 5u
#define SELF 1u
#define MEMBER 2u
#define STRANGER 9u

static const struct cop_detect plain;

static struct solo *create(void)
{
    return solo_create(N, SELF, &plain, COP_QUORUM_MAJORITY);
}

static struct cop__msg_ask ask_of(const struct solo *solo, cop_id initiator)
{
    const struct cop_shape *shape = cop_view_shape(solo->view);
    return (struct cop__msg_ask){.initiator = initiator,
                                 .incarnation = 1,
                                 .sequence = 1,
                                 .epoch = 1,
                                 .left_ns = 3600 * COP_SEC,
                                 .hop_ns = COP_SEC,
                                 .shape = (uint8_t)shape->kind,
                                 .arity = shape->k,
                                 .members = N};
}

static void recv_ask(struct solo *solo, cop_id from, const struct cop__msg_ask *ask)
{
    solo_recv(solo, from, COP__KIND_ASK, cop__encode_ask(ask));
}

/* Takes part, and says so. */
static bool is_taken_up(struct solo *solo, cop_id from, const struct cop__msg_ask *ask)
{
    uint64_t before = solo->stats.ignored_malformed;
    solo_forget(solo);
    recv_ask(solo, from, ask);
    return solo->stats.ignored_malformed == before && solo->item_count > 0;
}

/* As many places as there could be, most of them nobody's, and one below the other. */
static void trees_of_everybody(void **state)
{
    (void)state;
    struct solo *solo = create();
    struct cop__msg_ask ask = ask_of(solo, MEMBER);
    ask.shape = COP_SHAPE_CHAIN;
    ask.arity = 0;
    ask.members = COP_MEMBERS_MAX;
    assert_false(is_taken_up(solo, MEMBER, &ask));
    ask.members = N + 1;
    assert_false(is_taken_up(solo, MEMBER, &ask));
    ask.members = N;
    assert_true(is_taken_up(solo, MEMBER, &ask));
    solo_destroy(solo);
}

/* A window of sweeps for each life: so of those that there are. */
static void lives_that_nobody_has(void **state)
{
    (void)state;
    struct solo *solo = create();
    struct cop__msg_ask ask = ask_of(solo, MEMBER);
    ask.shape = COP_SHAPE_FLAT;
    ask.arity = 0;
    for (cop_incarnation life = 2; life < 100; life++) {
        ask.incarnation = life;
        assert_false(is_taken_up(solo, MEMBER, &ask));
    }
    ask.incarnation = 1;
    ask.initiator = STRANGER;
    assert_false(is_taken_up(solo, MEMBER, &ask));
    ask.initiator = MEMBER;
    assert_true(is_taken_up(solo, MEMBER, &ask));
    solo_destroy(solo);
}

/* What somebody proposes: a view without `gone`. */
static struct cop_buf *proposal_of(struct solo *proposer, cop_id gone,
                                   struct cop__msg_ask *ask)
{
    solo_down(proposer, gone, COP_DOWN_CLOSED);
    solo_down(proposer, gone, COP_DOWN_REFUSED);
    solo_run(proposer, proposer->now + COP_SEC);
    for (uint32_t i = 0; i < solo_sent(proposer, COP__KIND_ASK, COP_ID_NONE); i++) {
        struct cop_buf *payload = solo_frame(proposer, COP__KIND_ASK, i)->frame.payload;
        if (cop__decode_ask(payload->data, payload->length, ask) == 0 &&
            ask->protocol == COP__MEMBER_PROTOCOL)
            return cop_buf_ref(payload);
    }
    fail_msg("nothing was proposed");
    return NULL;
}

/* Whoever is in no view proposes none, and nobody another shape. */
static void proposals_of_strangers(void **state)
{
    (void)state;
    struct solo *proposer = solo_create(N, 0, &plain, COP_QUORUM_MAJORITY);
    struct solo *solo = create();
    struct cop__msg_ask ask, other;
    struct cop_buf *payload = proposal_of(proposer, 4, &ask);
    other = ask;
    other.initiator = STRANGER;
    other.members = STRANGER + 1;
    recv_ask(solo, STRANGER, &other);
    other = ask;
    other.shape = COP_SHAPE_CHAIN;
    other.arity = 0;
    recv_ask(solo, 0, &other);
    assert_int_equal(solo_sent(solo, COP__KIND_ANSWER, COP_ID_NONE), 0);
    assert_int_equal(solo_sent(solo, COP__KIND_ASK, COP_ID_NONE), 0);
    recv_ask(solo, 0, &ask);
    assert_true(solo_sent(solo, COP__KIND_ANSWER, COP_ID_NONE) +
                    solo_sent(solo, COP__KIND_ASK, COP_ID_NONE) >
                0);
    solo_destroy(solo);
    solo = create();
    other = ask; /* a life that the base does not have */
    other.incarnation = 2;
    recv_ask(solo, 0, &other);
    assert_int_equal(solo_sent(solo, COP__KIND_ANSWER, COP_ID_NONE), 0);
    assert_int_equal(solo_sent(solo, COP__KIND_ASK, COP_ID_NONE), 0);
    recv_ask(solo, 0, &ask); /* and the one that it has is heard as before */
    assert_true(solo_sent(solo, COP__KIND_ANSWER, COP_ID_NONE) +
                    solo_sent(solo, COP__KIND_ASK, COP_ID_NONE) >
                0);
    cop_buf_unref(payload);
    solo_destroy(proposer);
    solo_destroy(solo);
}

static void recv_view(struct solo *solo, cop_epoch epoch)
{
    struct cop_ballot ballot = cop_view_ballot(solo->view);
    struct cop__delta delta = {0};
    struct cop_view *view;
    ballot.epoch = epoch;
    assert_int_equal(cop__view_derive(solo->view, &ballot, &delta, &view), 0);
    struct cop_buf *bytes = cop__view_encode(view);
    assert_non_null(bytes);
    struct cop__msg_whole whole = {.view = {bytes->data, bytes->length}};
    solo_recv(solo, MEMBER, COP__KIND_WHOLE, cop__encode_whole(&whole));
    cop_buf_unref(bytes);
    cop_view_unref(view);
}

/* After the last epoch there could be no view. */
static void views_of_the_end_of_time(void **state)
{
    (void)state;
    struct solo *solo = create();
    recv_view(solo, UINT64_MAX);
    assert_int_equal(cop_view_epoch(cop_node_view(solo->node)), 1);
    assert_int_equal(solo->stats.ignored_malformed, 1);
    recv_view(solo, 7);
    assert_int_equal(cop_view_epoch(cop_node_view(solo->node)), 7);
    solo_destroy(solo);
}

/* Letters of a view that is yet to come wait for it, but not any number of bytes of them. */
static void letters_of_the_future(void **state)
{
    (void)state;
    static const uint8_t bytes[1000000];
    struct solo *solo = create();
    struct cop__msg_letter letter = {.epoch = cop_view_epoch(solo->view) + 1,
                                     .root = MEMBER,
                                     .incarnation = 1,
                                     .bytes = {bytes, sizeof bytes}};
    for (letter.number = 1; letter.number <= 64; letter.number++)
        solo_recv(solo, MEMBER, COP__KIND_LETTER, cop__encode_letter(&letter));
    assert_true(solo->stats.frames_held > 0);
    assert_true(solo->stats.frames_held * sizeof bytes <= 16u << 20);
    solo_destroy(solo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees_of_everybody),
        cmocka_unit_test(lives_that_nobody_has),
        cmocka_unit_test(proposals_of_strangers),
        cmocka_unit_test(views_of_the_end_of_time),
        cmocka_unit_test(letters_of_the_future),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
