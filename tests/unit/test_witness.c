/* SPDX-License-Identifier: Apache-2.0 */
#include "solo.h"

#include "failing_alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

/* D7 and D9: accusations that others have to confirm, and questions of the application. */

#define ACCUSED 3u
static const struct cop_detect two = {.witnesses = 2};

static struct solo *create(uint32_t n)
{
    return solo_create(n, 0, &two, COP_QUORUM_MAJORITY);
}

static struct cop__msg_witness question(const struct solo *solo, uint32_t i, cop_id *to)
{
    struct cop__msg_witness message;
    const struct cop_effect *effect = solo_frame(solo, COP__KIND_WITNESS, i);
    assert_int_equal(cop__decode_witness(effect->frame.payload->data,
                                         effect->frame.payload->length, &message),
                     0);
    *to = effect->peer;
    return message;
}

static void answer(struct solo *solo, uint32_t i, bool reached)
{
    cop_id witness;
    struct cop__msg_witness asked = question(solo, i, &witness);
    struct cop__msg_witnessed message = {asked.token, asked.suspect, reached};
    solo_recv(solo, witness, COP__KIND_WITNESSED, cop__encode_witnessed(&message));
}

static struct cop_suspicion last_event(const struct solo *solo)
{
    struct cop_suspicion events[COP_SUSPICIONS_MAX];
    uint32_t count = cop_node_events(solo->node, 0, events, COP_SUSPICIONS_MAX);
    assert_true(count > 0);
    return events[count - 1];
}

/* ---- accusing -------------------------------------------------------------------- */

static void test_two_must_confirm(void **state)
{
    (void)state;
    struct solo *solo = create(7);
    solo_down(solo, ACCUSED, COP_DOWN_REFUSED);
    assert_false(solo_suspects(solo, ACCUSED));
    assert_int_equal(solo_sent(solo, COP__KIND_WITNESS, COP_ID_NONE), 2);
    assert_int_equal(solo_sent(solo, COP__KIND_WITNESS, ACCUSED), 0);
    cop_id first, second;
    assert_int_equal(question(solo, 0, &first).suspect, ACCUSED);
    assert_int_equal(question(solo, 1, &second).incarnation, 1);
    assert_true(first != second);
    answer(solo, 0, false);
    assert_false(solo_suspects(solo, ACCUSED));
    answer(solo, 1, false);
    assert_true(solo_suspects(solo, ACCUSED));
    assert_int_equal(last_event(solo).outcome, COP_OUTCOME_PENDING);
    solo_destroy(solo);
}

/* Those with a connection to it first: whom it asks in the ring, and its parent. */
static void test_who_is_near_is_asked_first(void **state)
{
    (void)state;
    const struct cop_detect ring = {.ring_period_ns = 100 * COP_MSEC};
    struct solo *accused = solo_create(21, ACCUSED, &ring, COP_QUORUM_MAJORITY);
    cop_id next = solo_frame(accused, COP__KIND_PING, 0)->peer;
    solo_destroy(accused);
    assert_true(next != 0);
    for (cop_id self = 4; self < 21; self++) {
        if (self == next)
            continue;
        struct solo *solo = solo_create(21, self, &two, COP_QUORUM_MAJORITY);
        solo_down(solo, ACCUSED, COP_DOWN_REFUSED);
        assert_int_equal(solo_sent(solo, COP__KIND_WITNESS, COP_ID_NONE), 2);
        assert_int_equal(solo_sent(solo, COP__KIND_WITNESS, next), 1);
        assert_int_equal(solo_sent(solo, COP__KIND_WITNESS, 0), 1);
        solo_destroy(solo);
    }
}

/* V9: who proposes when the root is gone has to know that itself, and is asked beside the others. */
static void test_the_next_in_line_is_asked_too(void **state)
{
    (void)state;
    static const struct cop_detect one = {.witnesses = 1};
    uint32_t asked = 0;
    for (cop_id self = 1; self < 21; self++) {
        struct solo *solo = solo_create(21, self, &one, COP_QUORUM_MAJORITY);
        solo_down(solo, 0, COP_DOWN_REFUSED);
        assert_int_equal(solo_sent(solo, COP__KIND_WITNESS, 1), self != 1);
        uint32_t all = solo_sent(solo, COP__KIND_WITNESS, COP_ID_NONE);
        asked += all;
        /* It is one more, and not waited for when the others have said what they see. */
        answer(solo, all - 1, false);
        assert_true(solo_suspects(solo, 0));
        solo_forget(solo);
        /* Whoever is not the first in line is nobody's business but that of its neighbours. */
        solo_down(solo, self == 7 ? 8 : 7, COP_DOWN_REFUSED);
        assert_int_equal(solo_sent(solo, COP__KIND_WITNESS, COP_ID_NONE), 1);
        solo_destroy(solo);
    }
    assert_true(asked > 20 + 10);
}

/* V9: those who work come before spares, and those who are not drained before the drained. */
static void test_who_is_next_in_line(void **state)
{
    (void)state;
    static const struct cop_detect one = {.witnesses = 1};
    struct cop__entry drained = {.id = 1,
                                 .role = 1,
                                 .incarnation = 1,
                                 .presence = COP_PRESENT,
                                 .flags = COP__ENTRY_DRAINED};
    struct cop__entry spare = {
        .id = 0, .role = COP_SPARE, .incarnation = 1, .presence = COP_PRESENT};
    for (cop_id self = 3; self < 21; self++) {
        struct solo *solo = solo_create(21, self, &one, COP_QUORUM_MAJORITY);
        solo_change(solo, drained, 2);
        solo_forget(solo);
        solo_down(solo, 0, COP_DOWN_REFUSED);
        assert_int_equal(solo_sent(solo, COP__KIND_WITNESS, 1), 0);
        assert_int_equal(solo_sent(solo, COP__KIND_WITNESS, 2), 1);
        solo_destroy(solo);
        solo = solo_create(21, self, &one, COP_QUORUM_MAJORITY);
        solo_change(solo, spare, 2);
        solo_forget(solo);
        solo_down(solo, 1, COP_DOWN_REFUSED);
        assert_int_equal(solo_sent(solo, COP__KIND_WITNESS, 2), 1);
        solo_destroy(solo);
    }
}

/* D7: one who may have died with the root is not waited for when somebody else is lost... */
static void test_the_next_in_line_holds_nobody_up(void **state)
{
    (void)state;
    static const struct cop_detect one = {.witnesses = 1};
    struct solo *solo = solo_create(64, 30, &one, COP_QUORUM_MAJORITY);
    cop_id witness, successor;
    solo_down(solo, 0, COP_DOWN_REFUSED);
    assert_int_equal(solo_sent(solo, COP__KIND_WITNESS, COP_ID_NONE), 2);
    (void)question(solo, 0, &successor);
    (void)question(solo, 1, &witness);
    assert_int_equal(successor, 1);
    solo_down(solo, witness, COP_DOWN_REFUSED);
    solo_run(solo, solo->now + COP_MSEC);
    /* Two instead of the one who was silent; and whoever is accused now has one of its own. */
    uint32_t others = 0, all = solo_sent(solo, COP__KIND_WITNESS, COP_ID_NONE);
    for (uint32_t i = 2; i < all; i++)
        others += question(solo, i, &witness).suspect == 0;
    assert_int_equal(others, 2);
    solo_destroy(solo);
}

/* ... and its silence is none of those that say that I am cut off. */
static void test_as_many_are_asked_about_the_root(void **state)
{
    (void)state;
    static const cop_id accused[] = {7, 0};
    uint32_t asked[2] = {0, 0};
    for (uint32_t i = 0; i < 2; i++) {
        struct solo *solo = solo_create(64, 30, &two, COP_QUORUM_MAJORITY);
        solo_down(solo, accused[i], COP_DOWN_REFUSED);
        while (solo->stats.accusations_held == 0)
            solo_run(solo, solo->now + COP_MSEC);
        asked[i] = solo_sent(solo, COP__KIND_WITNESS, COP_ID_NONE);
        solo_destroy(solo);
    }
    assert_int_equal(asked[1], asked[0] + 1);
}

/* After all were silent one is asked whether I am back; that one alone is not enough to convict. */
static void test_two_must_confirm_after_silence_too(void **state)
{
    (void)state;
    struct solo *solo = solo_create(21, 9, &two, COP_QUORUM_MAJORITY);
    cop_id first, second;
    solo_down(solo, ACCUSED, COP_DOWN_REFUSED);
    while (solo->stats.accusations_held == 0)
        solo_run(solo, solo->now + COP_MSEC);
    solo_forget(solo);
    while (solo_sent(solo, COP__KIND_WITNESS, COP_ID_NONE) == 0)
        solo_run(solo, solo->now + COP_MSEC);
    (void)question(solo, 0, &first);
    answer(solo, 0, false);
    assert_false(solo_suspects(solo, ACCUSED));
    (void)question(solo, 1, &second);
    assert_true(first != second);
    answer(solo, 1, false);
    assert_true(solo_suspects(solo, ACCUSED));
    solo_destroy(solo);
}

static void test_one_that_reaches_it_is_enough(void **state)
{
    (void)state;
    struct solo *solo = create(7);
    solo_down(solo, ACCUSED, COP_DOWN_REFUSED);
    answer(solo, 0, false);
    answer(solo, 1, true);
    assert_false(solo_suspects(solo, ACCUSED));
    assert_int_equal(solo->stats.accusations_dropped, 1);
    assert_int_equal(last_event(solo).outcome, COP_OUTCOME_NOT_CONFIRMED);
    /* I try again myself: 3 hangs below me in the tree. */
    solo_forget(solo);
    solo_run(solo, solo->now + 2 * COP_SEC);
    assert_int_equal(solo_effects(solo, COP_EFFECT_CONNECT, ACCUSED), 1);
    assert_int_equal(solo_sent(solo, COP__KIND_WITNESS, COP_ID_NONE), 0);
    solo_destroy(solo);
}

/* Who is heard while others look for it is not accused any more. */
static void test_hearing_the_accused_ends_it(void **state)
{
    (void)state;
    struct solo *solo = create(7);
    struct cop__msg_ping ping = {.number = 1};
    solo_down(solo, ACCUSED, COP_DOWN_REFUSED);
    solo_recv(solo, ACCUSED, COP__KIND_PING, cop__encode_ping(&ping));
    answer(solo, 0, false);
    answer(solo, 1, false);
    assert_false(solo_suspects(solo, ACCUSED));
    assert_int_equal(last_event(solo).outcome, COP_OUTCOME_DENIED);
    assert_int_equal(solo->stats.ignored_unasked, 2);
    solo_destroy(solo);
}

/* A vote that waits for its group is judged again and again; its sender has not spoken since. */
static void test_what_was_kept_is_no_sign_of_life(void **state)
{
    (void)state;
    struct solo *solo = create(7);
    struct cop__msg_vote vote = {.group = 7, .number = 1};
    struct cop_agree_group group = {.number = 8};
    struct cop_request request = {.kind = COP_REQUEST_AGREE_GROUP, .new_group = &group};
    struct cop_event submit = {.kind = COP_EVENT_SUBMIT, .request = &request};
    solo_recv(solo, ACCUSED, COP__KIND_VOTE, cop__encode_vote(&vote));
    solo_down(solo, ACCUSED, COP_DOWN_REFUSED);
    assert_int_equal(solo_event(solo, &submit), 0);
    answer(solo, 0, false);
    answer(solo, 1, false);
    assert_true(solo_suspects(solo, ACCUSED));
    solo_destroy(solo);
}

/* The same of a question from a view that I do not have: with each view it is judged again. */
static void test_what_was_held_is_no_sign_of_life(void **state)
{
    (void)state;
    struct solo *solo = create(7);
    struct cop__msg_ask ask = {.initiator = ACCUSED,
                               .incarnation = 1,
                               .sequence = 1,
                               .epoch = cop_view_epoch(solo->view) + 9};
    solo_recv(solo, ACCUSED, COP__KIND_ASK, cop__encode_ask(&ask));
    assert_int_equal(solo->stats.frames_held, 1);
    solo_down(solo, ACCUSED, COP_DOWN_REFUSED);
    solo_without(solo, 5, COP_LEFT, 4); /* whom nobody asked */
    answer(solo, 0, false);
    answer(solo, 1, false);
    assert_true(solo_suspects(solo, ACCUSED));
    solo_destroy(solo);
}

/* A silent witness is replaced by others; all who answer must agree. */
static void test_silent_witnesses_are_replaced(void **state)
{
    (void)state;
    struct solo *solo = create(9);
    solo_down(solo, ACCUSED, COP_DOWN_REFUSED);
    answer(solo, 0, false);
    solo_run(solo, solo->now + COP_SEC / 4);
    uint32_t asked = solo_sent(solo, COP__KIND_WITNESS, COP_ID_NONE);
    assert_true(asked > 2);
    assert_false(solo_suspects(solo, ACCUSED));
    for (uint32_t i = 2; i < asked; i++)
        answer(solo, i, false);
    assert_true(solo_suspects(solo, ACCUSED));
    solo_destroy(solo);
}

/* A witness that dies does not hold anything up. */
static void test_dead_witnesses_are_replaced(void **state)
{
    (void)state;
    struct solo *solo = create(9);
    cop_id witness;
    solo_down(solo, ACCUSED, COP_DOWN_REFUSED);
    (void)question(solo, 0, &witness);
    answer(solo, 1, false);
    solo_down(solo, witness, COP_DOWN_REFUSED);
    assert_true(solo_sent(solo, COP__KIND_WITNESS, COP_ID_NONE) > 2);
    solo_destroy(solo);
}

static void test_two_members_have_no_witness(void **state)
{
    (void)state;
    struct solo *solo = create(2);
    solo_down(solo, 1, COP_DOWN_REFUSED);
    assert_true(solo_suspects(solo, 1));
    assert_int_equal(solo_sent(solo, COP__KIND_WITNESS, COP_ID_NONE), 0);
    solo_destroy(solo);
}

static void test_three_members_have_one(void **state)
{
    (void)state;
    struct solo *solo = create(3);
    solo_down(solo, 1, COP_DOWN_REFUSED);
    assert_int_equal(solo_sent(solo, COP__KIND_WITNESS, 2), 1);
    answer(solo, 0, false);
    assert_true(solo_suspects(solo, 1));
    solo_destroy(solo);
}

/* Somebody outside knows: nobody is asked. */
static void test_outside_needs_no_witness(void **state)
{
    (void)state;
    struct solo *solo = create(7);
    struct cop_request report = {.kind = COP_REQUEST_REPORT, .member = ACCUSED};
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &report};
    assert_int_equal(solo_event(solo, &event), 0);
    assert_true(solo_suspects(solo, ACCUSED));
    assert_int_equal(last_event(solo).reason, COP_REASON_OUTSIDE);
    solo_destroy(solo);
}

/* ---- doubt ----------------------------------------------------------------------- */

/* Nobody answers: it is me who is cut off. I accuse nobody until somebody is heard. */
static void test_silence_of_all_is_doubt(void **state)
{
    (void)state;
    struct solo *solo = create(7);
    solo_down(solo, ACCUSED, COP_DOWN_REFUSED);
    solo_run(solo, solo->now + 60 * COP_SEC);
    assert_false(solo_suspects(solo, ACCUSED));
    assert_int_equal(solo->stats.suspicions, 0);
    assert_true(solo->stats.accusations_held > 0);
    assert_true(cop_node_is_degraded(solo->node));
    assert_int_equal(solo_effects(solo, COP_EFFECT_DEGRADED, COP_ID_NONE), 1);
    /* Not a heap of questions: one now and then. */
    assert_true(solo_sent(solo, COP__KIND_WITNESS, COP_ID_NONE) < 30);
    solo_forget(solo);
    struct cop__msg_ping ping = {.number = 1};
    solo_recv(solo, 5, COP__KIND_PING, cop__encode_ping(&ping));
    solo_run(solo, solo->now + 3 * COP_SEC);
    assert_true(solo_sent(solo, COP__KIND_WITNESS, COP_ID_NONE) >= 2);
    uint32_t last = solo_sent(solo, COP__KIND_WITNESS, COP_ID_NONE);
    answer(solo, last - 1, false);
    assert_false(cop_node_is_degraded(solo->node));
    solo_destroy(solo);
}

/* Whoever is heard then may be the only one that I reach: it is asked before those who stand near
 * the accused. */
static void test_who_is_heard_after_silence_is_asked(void **state)
{
    (void)state;
    for (cop_id heard = 0; heard < 21; heard++) {
        if (heard == 9 || heard == ACCUSED)
            continue;
        struct solo *solo = solo_create(21, 9, &two, COP_QUORUM_MAJORITY);
        solo_down(solo, ACCUSED, COP_DOWN_REFUSED);
        solo_run(solo, solo->now + 60 * COP_SEC);
        assert_true(cop_node_is_degraded(solo->node));
        solo_forget(solo);
        struct cop__msg_ping ping = {.number = 1};
        solo_recv(solo, heard, COP__KIND_PING, cop__encode_ping(&ping));
        solo_run(solo, solo->now + COP_USEC);
        assert_int_equal(solo_sent(solo, COP__KIND_WITNESS, heard), 1);
        solo_destroy(solo);
    }
}

/* Where one alone may go on, it does so after a while. */
static void test_alone_without_a_majority(void **state)
{
    (void)state;
    struct solo *solo = solo_create(3, 0, &two, COP_QUORUM_NONE);
    solo_down(solo, 1, COP_DOWN_REFUSED);
    solo_run(solo, solo->now + COP_SEC / 2);
    assert_false(solo_suspects(solo, 1));
    solo_run(solo, solo->now + 10 * COP_SEC);
    assert_true(solo_suspects(solo, 1));
    solo_destroy(solo);
}

/* ---- being a witness ------------------------------------------------------------- */

static void ask_from(struct solo *solo, cop_id from, cop_id suspect,
                     cop_incarnation incarnation, uint64_t token)
{
    struct cop__msg_witness message = {token, suspect, incarnation, 100 * COP_MSEC};
    solo_recv(solo, from, COP__KIND_WITNESS, cop__encode_witness(&message));
}

static void ask_about(struct solo *solo, cop_id suspect, cop_incarnation incarnation,
                      uint64_t token)
{
    ask_from(solo, 5, suspect, incarnation, token);
}

static bool said_reached(const struct solo *solo)
{
    struct cop__msg_witnessed message;
    const struct cop_effect *effect = solo_frame(solo, COP__KIND_WITNESSED, 0);
    assert_int_equal(effect->peer, 5);
    assert_int_equal(cop__decode_witnessed(effect->frame.payload->data,
                                           effect->frame.payload->length, &message),
                     0);
    assert_int_equal(message.token, 9);
    return message.reached;
}

static void test_a_witness_looks_itself(void **state)
{
    (void)state;
    struct solo *solo = create(7);
    struct cop__msg_ping ping = {.number = 1};
    ask_about(solo, ACCUSED, 1, 9);
    assert_int_equal(solo_sent(solo, COP__KIND_PING, ACCUSED), 1);
    assert_int_equal(solo_sent(solo, COP__KIND_WITNESSED, COP_ID_NONE), 0);
    solo_recv(solo, ACCUSED, COP__KIND_PING, cop__encode_ping(&ping));
    assert_true(said_reached(solo));
    solo_forget(solo);
    ask_about(solo, ACCUSED, 1, 9);
    solo_down(solo, ACCUSED, COP_DOWN_REFUSED);
    assert_false(said_reached(solo));
    solo_destroy(solo);
    solo = create(7);
    ask_about(solo, ACCUSED, 1, 9);
    solo_run(solo, solo->now + 100 * COP_MSEC);
    assert_false(said_reached(solo));
    assert_int_equal(solo->stats.suspicions, 0);
    solo_destroy(solo);
}

static void say_news(struct solo *solo, cop_id id, uint32_t denial, uint8_t status)
{
    uint8_t bytes[COP__SIZE_belief];
    struct cop__writer writer = cop__writer(bytes, sizeof bytes);
    struct cop__belief belief = {id, 1, denial, status};
    cop__belief_put(&writer, &belief);
    struct cop__msg_news news = {.beliefs = {bytes, 1}};
    solo_recv(solo, 5, COP__KIND_NEWS, cop__encode_news(&news));
}

/* When it proposed, after others said that the root is gone, which has denied so often: at once, or
 * later. */
static bool proposes_after(struct solo *solo, uint32_t denials)
{
    say_news(solo, 0, denials, COP_SUSPECT);
    solo_run(solo, solo->now + COP_MSEC);
    bool at_once = solo->stats.proposals > 0;
    solo_run(solo, solo->now + 200 * COP_MSEC);
    assert_true(solo->stats.proposals > 0);
    solo_destroy(solo);
    return at_once;
}

static bool proposes_at_once(struct solo *solo) { return proposes_after(solo, 0); }

static struct solo *asked_about_the_root(cop_time since)
{
    struct solo *solo = solo_create(7, 1, &two, COP_QUORUM_MAJORITY);
    ask_about(solo, 0, 1, 9);
    solo_run(solo, solo->now + since);
    return solo;
}

/* V9: what it found out as a witness it need not find out once more; nor wait for longer than it
 * has waited. What it knew long ago, or before it heard the accused, it asks again. */
static void test_a_witness_knows_what_it_found(void **state)
{
    (void)state;
    struct cop__msg_ping ping = {.number = 1};
    assert_true(proposes_at_once(asked_about_the_root(101 * COP_MSEC)));
    assert_true(proposes_at_once(asked_about_the_root(150 * COP_MSEC)));
    assert_true(proposes_at_once(asked_about_the_root(99500 * COP_USEC)));
    assert_false(proposes_at_once(asked_about_the_root(90 * COP_MSEC)));
    assert_false(proposes_at_once(asked_about_the_root(300 * COP_MSEC)));
    struct solo *solo = asked_about_the_root(101 * COP_MSEC);
    solo_recv(solo, 0, COP__KIND_PING, cop__encode_ping(&ping));
    assert_false(proposes_at_once(solo));
    /* So is what it knew before the other's connection came, or somebody heard from it. */
    struct cop_event up = {.kind = COP_EVENT_PEER_UP, .peer = 0, .incarnation = 1};
    solo = asked_about_the_root(101 * COP_MSEC);
    solo_event(solo, &up);
    assert_false(proposes_at_once(solo));
    solo = asked_about_the_root(101 * COP_MSEC);
    say_news(solo, 0, 1, COP_ALIVE);
    assert_false(proposes_after(solo, 1));
    /* Also if that came together with the next suspicion. */
    assert_false(proposes_after(asked_about_the_root(101 * COP_MSEC), 1));
}

/* Who is asked by several, one after the other, knows it since the first. */
static void test_a_witness_of_many_knows_it_since_the_first(void **state)
{
    (void)state;
    struct solo *solo = asked_about_the_root(90 * COP_MSEC);
    ask_from(solo, 4, 0, 1, 10);
    solo_run(solo, solo->now + 20 * COP_MSEC);
    assert_true(proposes_at_once(solo));
}

/* A rack that stops: whom it does not have to know about itself takes no place. */
static void test_a_witness_of_a_rack(void **state)
{
    (void)state;
    struct solo *solo = solo_create(21, 1, &two, COP_QUORUM_MAJORITY);
    ask_about(solo, 0, 1, 9);
    for (cop_id id = 6; id < 14; id++)
        ask_about(solo, id, 1, 10 + id);
    solo_run(solo, solo->now + 101 * COP_MSEC);
    assert_true(proposes_at_once(solo));
}

/* D8: one that was stopped while it waited for what was left gives the root its time back. */
static void test_a_witness_that_was_stopped_waits_again(void **state)
{
    (void)state;
    static const struct cop_detect ring = {.ring_period_ns = 100 * COP_MSEC,
                                           .witnesses = 2};
    struct cop_event tick = {.kind = COP_EVENT_TICK};
    struct solo *solo = solo_create(7, 1, &ring, COP_QUORUM_MAJORITY);
    ask_about(solo, 0, 1, 9);
    solo_run(solo, solo->now + 101 * COP_MSEC);
    say_news(solo, 0, 0, COP_SUSPECT);
    assert_int_equal(solo->stats.proposals, 0);
    solo->now += COP_SEC;
    solo_event(solo, &tick);
    assert_int_equal(solo->stats.credits, 1);
    solo_run(solo, solo->now + 40 * COP_MSEC);
    assert_int_equal(solo->stats.proposals, 0);
    solo_run(solo, solo->now + 20 * COP_MSEC);
    assert_int_equal(solo->stats.proposals, 1);
    solo_destroy(solo);
}

static void test_a_witness_knows_some_without_looking(void **state)
{
    (void)state;
    static const struct {
        cop_id suspect;
        cop_incarnation incarnation;
        bool reached;
    } cases[] = {
        {0, 1, true},        /* myself */
        {ACCUSED, 0, false}, /* a life that is over */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct solo *solo = create(7);
        ask_about(solo, cases[i].suspect, cases[i].incarnation, 9);
        assert_int_equal(said_reached(solo), cases[i].reached);
        assert_int_equal(solo_sent(solo, COP__KIND_PING, COP_ID_NONE), 0);
        solo_destroy(solo);
    }
}

/* Of a life that I have not heard of, or of nobody, I say nothing. */
static void test_a_witness_does_not_know_all(void **state)
{
    (void)state;
    struct solo *solo = create(7);
    ask_about(solo, ACCUSED, 2, 9);
    ask_about(solo, 99, 1, 9);
    assert_int_equal(solo->stats.ignored_incarnation, 2);
    assert_int_equal(solo_sent(solo, COP__KIND_WITNESSED, COP_ID_NONE), 0);
    assert_int_equal(solo_sent(solo, COP__KIND_PING, COP_ID_NONE), 0);
    solo_destroy(solo);
}

/* ---- what is ignored ------------------------------------------------------------- */

static void test_malformed_frames(void **state)
{
    (void)state;
    static const enum cop__kind kinds[] = {COP__KIND_PING, COP__KIND_PONG,
                                           COP__KIND_WITNESS, COP__KIND_WITNESSED};
    struct solo *solo = create(7);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        solo_recv(solo, 5, kinds[i], cop_buf_copy("x", 1));
        assert_int_equal(solo->stats.ignored_malformed, i + 1);
    }
    struct cop__msg_witnessed odd = {1, 1, 2};
    solo_recv(solo, 5, COP__KIND_WITNESSED, cop__encode_witnessed(&odd));
    assert_int_equal(solo->stats.ignored_malformed, 5);
    solo_destroy(solo);
}

static void test_answers_that_nobody_asked_for(void **state)
{
    (void)state;
    struct solo *solo = create(7);
    struct cop__msg_pong pong = {.number = 77};
    struct cop__msg_witnessed witnessed = {.token = 77, .suspect = ACCUSED};
    solo_recv(solo, 5, COP__KIND_PONG, cop__encode_pong(&pong));
    assert_int_equal(solo->stats.ignored_unasked, 1);
    solo_recv(solo, 5, COP__KIND_WITNESSED, cop__encode_witnessed(&witnessed));
    assert_int_equal(solo->stats.ignored_unasked, 2);
    solo_destroy(solo);
}

static void test_favours_are_bounded(void **state)
{
    (void)state;
    struct solo *solo = create(7);
    ask_about(solo, ACCUSED, 1, 0);
    ask_about(solo, ACCUSED, 1, 0);
    assert_int_equal(solo->stats.ignored_unasked, 1);
    for (uint64_t token = 1; token < 2000; token++)
        ask_about(solo, ACCUSED, 1, token);
    assert_true(solo->stats.ignored_unasked > 900);
    solo_forget(solo);
    solo_run(solo, solo->now + 100 * COP_MSEC);
    assert_int_equal(solo_sent(solo, COP__KIND_WITNESSED, 5), 1024);
    solo_destroy(solo);
}

/* A node whose view is fixed says how it is, and looks for nobody. */
static void test_fixed_views_have_no_witnesses(void **state)
{
    (void)state;
    struct solo *solo = solo_create(7, 0, &two, COP_QUORUM_FIXED);
    struct cop__msg_ping ping = {.number = 4};
    solo_recv(solo, 5, COP__KIND_PING, cop__encode_ping(&ping));
    assert_int_equal(solo_sent(solo, COP__KIND_PONG, 5), 1);
    ask_about(solo, ACCUSED, 1, 9);
    assert_int_equal(solo->stats.ignored_unasked, 1);
    solo_destroy(solo);
}

/* ---- inquiries ------------------------------------------------------------------- */

static int inquire(struct solo *solo, cop_id member, uint64_t token)
{
    struct cop_request request = {
        .kind = COP_REQUEST_INQUIRE, .member = member, .token = token};
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &request};
    return solo_event(solo, &event);
}

static int status_of(const struct solo *solo, uint64_t token)
{
    for (uint32_t i = 0; i < solo->item_count; i++)
        if (solo->items[i].kind == COP_EFFECT_COMPLETE && solo->items[i].token == token)
            return solo->items[i].status;
    return 1;
}

static void test_inquiries(void **state)
{
    (void)state;
    struct solo *solo = create(7);
    assert_int_equal(inquire(solo, 0, 1), COP_EINVAL);
    assert_int_equal(inquire(solo, 7, 1), COP_EINVAL);
    assert_int_equal(inquire(solo, 4, 1), 0);
    assert_int_equal(inquire(solo, ACCUSED, 2), 0);
    assert_int_equal(inquire(solo, 6, 3), 0);
    assert_int_equal(status_of(solo, 1), 1);
    solo_pong(solo, 4);
    assert_int_equal(status_of(solo, 1), 0);
    solo_down(solo, 6, COP_DOWN_REFUSED);
    assert_int_equal(status_of(solo, 3), COP_ELOST);
    solo_forget(solo);
    solo_run(solo, solo->now + COP_SEC);
    assert_int_equal(status_of(solo, 2), COP_ETIMEDOUT);
    assert_int_equal(last_event(solo).accused, ACCUSED);
    assert_int_equal(last_event(solo).reason, COP_REASON_INQUIRY);
    assert_false(solo_suspects(solo, ACCUSED)); /* there are witnesses */
    solo_destroy(solo);
}

static void test_inquiry_about_a_suspect(void **state)
{
    (void)state;
    static const struct cop_detect off = {0};
    struct solo *solo = solo_create(7, 0, &off, COP_QUORUM_MAJORITY);
    assert_int_equal(inquire(solo, ACCUSED, 1), 0);
    solo_down(solo, ACCUSED, COP_DOWN_REFUSED);
    assert_int_equal(status_of(solo, 1), COP_ELOST);
    assert_int_equal(inquire(solo, ACCUSED, 2), 0);
    assert_int_equal(status_of(solo, 2), COP_ELOST);
    solo_destroy(solo);
    solo = solo_create(7, 0, &off, COP_QUORUM_FIXED);
    assert_int_equal(inquire(solo, ACCUSED, 1), COP_EINVAL);
    solo_destroy(solo);
}

/* ---- what is remembered ---------------------------------------------------------- */

static void test_hearsay_and_the_end_of_the_list(void **state)
{
    (void)state;
    static const struct cop_detect off = {0};
    struct solo *solo = solo_create(7, 1, &off, COP_QUORUM_MAJORITY);
    struct cop_suspicion events[COP_SUSPICIONS_MAX + 1];
    for (uint32_t denial = 0; denial < 100; denial++) {
        uint8_t bytes[2 * COP__SIZE_belief];
        struct cop__writer writer = cop__writer(bytes, sizeof bytes);
        struct cop__belief accused = {ACCUSED, 1, denial, COP_SUSPECT};
        struct cop__belief denied = {ACCUSED, 1, denial + 1, COP_ALIVE};
        cop__belief_put(&writer, &accused);
        cop__belief_put(&writer, &denied);
        struct cop__msg_news news = {.beliefs = {bytes, 2}};
        solo_recv(solo, 5, COP__KIND_NEWS, cop__encode_news(&news));
    }
    uint32_t count = cop_node_events(solo->node, 0, events, COP_SUSPICIONS_MAX + 1);
    assert_int_equal(count, COP_SUSPICIONS_MAX);
    assert_int_equal(events[0].number, 100 - COP_SUSPICIONS_MAX);
    assert_int_equal(events[0].accuser, 5);
    assert_int_equal(events[0].reason, COP_REASON_HEARSAY);
    assert_int_equal(events[0].outcome, COP_OUTCOME_DENIED);
    assert_int_equal(cop_node_events(solo->node, 98, events, 10), 2);
    assert_int_equal(events[1].number, 99);
    assert_int_equal(cop_node_events(solo->node, 100, events, 10), 0);
    assert_int_equal(cop_node_aliveness(solo->node, ACCUSED), 100);
    assert_int_equal(cop_node_aliveness(solo->node, 5), 0);
    solo_destroy(solo);
}

/* V9: also if the denial, or the connection, came while the question was open. */
static void test_a_word_during_the_question(void **state)
{
    (void)state;
    struct solo *solo = asked_about_the_root(90 * COP_MSEC);
    say_news(solo, 0, 1, COP_ALIVE);
    solo_run(solo, solo->now + 11 * COP_MSEC);
    assert_false(said_reached(solo));
    assert_false(proposes_after(solo, 1));
}

/* The same while it waits for what is left. */
static void test_a_word_while_it_waits(void **state)
{
    (void)state;
    struct solo *solo = asked_about_the_root(90 * COP_MSEC);
    say_news(solo, 0, 0, COP_SUSPECT);
    solo_run(solo, solo->now + 5 * COP_MSEC);
    assert_int_equal(solo->stats.proposals, 0);
    say_news(solo, 0, 1, COP_SUSPECT);
    solo_run(solo, solo->now + 10 * COP_MSEC);
    assert_int_equal(solo->stats.proposals, 0);
    solo_run(solo, solo->now + 200 * COP_MSEC);
    assert_true(solo->stats.proposals > 0);
    solo_destroy(solo);
}

static void test_a_connection_during_the_question(void **state)
{
    (void)state;
    struct cop_event up = {.kind = COP_EVENT_PEER_UP, .peer = 0, .incarnation = 1};
    struct solo *solo = asked_about_the_root(90 * COP_MSEC);
    solo_event(solo, &up);
    solo_run(solo, solo->now + 11 * COP_MSEC);
    assert_false(said_reached(solo));
    assert_false(proposes_at_once(solo));
}

/* D7: one who is asked as one more is not one of those whom the accusation needs, while others can
 * be asked: it may share its way to the accused with me. */
static void test_the_next_in_line_is_one_more(void **state)
{
    (void)state;
    static const struct cop_detect one = {.witnesses = 1};
    struct solo *solo = solo_create(64, 30, &one, COP_QUORUM_MAJORITY);
    cop_id successor, witness;
    solo_down(solo, 0, COP_DOWN_REFUSED);
    assert_int_equal(solo_sent(solo, COP__KIND_WITNESS, COP_ID_NONE), 2);
    (void)question(solo, 0, &successor);
    (void)question(solo, 1, &witness);
    assert_int_equal(successor, 1);
    answer(solo, 0, false);
    solo_run(solo, solo->now + 300 * COP_MSEC);
    assert_false(solo_suspects(solo, 0));
    assert_true(solo_sent(solo, COP__KIND_WITNESS, COP_ID_NONE) > 2);
    answer(solo, 2, false);
    answer(solo, 3, false);
    assert_true(solo_suspects(solo, 0));
    solo_destroy(solo);
}

/* ... but where nobody else answers, that it does not reach the accused is enough. */
static void test_the_next_in_line_alone_is_enough(void **state)
{
    (void)state;
    static const struct cop_detect one = {.witnesses = 1};
    for (int i = 0; i < 2; i++) {
        struct solo *solo = solo_create(64, 30, &one, COP_QUORUM_MAJORITY);
        solo_down(solo, 0, COP_DOWN_REFUSED);
        if (i == 1)
            answer(solo, 0, false);
        solo_run(solo, solo->now + 10 * COP_SEC);
        assert_int_equal(solo_suspects(solo, 0), i);
        solo_destroy(solo);
    }
}

/* It stays one more when those who stand near the accused are found to be gone meanwhile: it is not
 * waited for when the others have confirmed. */
static void test_it_stays_one_more(void **state)
{
    (void)state;
    static const struct cop_detect one = {.witnesses = 1};
    struct cop_request report = {.kind = COP_REQUEST_REPORT};
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &report};
    for (cop_id kept = 2; kept < 16; kept++) {
        cop_id to;
        struct solo *solo = solo_create(16, 9, &one, COP_QUORUM_MAJORITY);
        solo_down(solo, 0, COP_DOWN_REFUSED);
        uint32_t asked = solo_sent(solo, COP__KIND_WITNESS, COP_ID_NONE);
        (void)question(solo, asked - 1, &to);
        for (cop_id id = 2; id < 16 && kept != 9 && asked == 2; id++) {
            report.member = id;
            if (id != 9 && id != kept)
                assert_int_equal(solo_event(solo, &event), 0);
        }
        solo_run(solo, solo->now + COP_MSEC);
        uint32_t all = solo_sent(solo, COP__KIND_WITNESS, kept);
        if (kept != 9 && asked == 2 && all > 0) {
            struct cop__msg_witnessed message = {.suspect = 0, .reached = false};
            for (uint32_t i = 0; i < solo_sent(solo, COP__KIND_WITNESS, COP_ID_NONE);
                 i++) {
                message.token = question(solo, i, &to).token;
                if (to == kept && question(solo, i, &to).suspect == 0)
                    solo_recv(solo, kept, COP__KIND_WITNESSED,
                              cop__encode_witnessed(&message));
            }
            assert_true(solo_suspects(solo, 0));
        }
        solo_destroy(solo);
    }
}

/* ---- without memory -------------------------------------------------------------- */

/* The node of this test lives until an allocation fails: then it stops, and nothing leaks. */
static void live_and_die(struct solo *solo)
{
    solo_down(solo, ACCUSED, COP_DOWN_REFUSED);
    if (!solo->failed)
        solo_run(solo, solo->now + COP_SEC);
    if (!solo->failed)
        ask_about(solo, 4, 1, 9);
    if (!solo->failed)
        inquire(solo, 6, 1);
    if (!solo->failed)
        solo_run(solo, solo->now + 5 * COP_SEC);
}

static void test_every_allocation_can_fail(void **state)
{
    (void)state;
    static const struct cop_detect all = {.ring_period_ns = 50 * COP_MSEC,
                                          .witnesses = 2};
    bool failed = true;
    for (size_t at = 0; failed && at < 2000; at++) {
        struct solo *solo = solo_create(9, 0, &all, COP_QUORUM_MAJORITY);
        failing_alloc_after(at);
        live_and_die(solo);
        failing_alloc_off();
        failed = solo->failed != 0;
        solo_destroy(solo);
    }
    assert_false(failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_must_confirm),
        cmocka_unit_test(test_who_is_near_is_asked_first),
        cmocka_unit_test(test_the_next_in_line_is_asked_too),
        cmocka_unit_test(test_who_is_next_in_line),
        cmocka_unit_test(test_the_next_in_line_holds_nobody_up),
        cmocka_unit_test(test_as_many_are_asked_about_the_root),
        cmocka_unit_test(test_two_must_confirm_after_silence_too),
        cmocka_unit_test(test_one_that_reaches_it_is_enough),
        cmocka_unit_test(test_hearing_the_accused_ends_it),
        cmocka_unit_test(test_what_was_kept_is_no_sign_of_life),
        cmocka_unit_test(test_what_was_held_is_no_sign_of_life),
        cmocka_unit_test(test_silent_witnesses_are_replaced),
        cmocka_unit_test(test_dead_witnesses_are_replaced),
        cmocka_unit_test(test_two_members_have_no_witness),
        cmocka_unit_test(test_three_members_have_one),
        cmocka_unit_test(test_outside_needs_no_witness),
        cmocka_unit_test(test_silence_of_all_is_doubt),
        cmocka_unit_test(test_who_is_heard_after_silence_is_asked),
        cmocka_unit_test(test_alone_without_a_majority),
        cmocka_unit_test(test_a_witness_looks_itself),
        cmocka_unit_test(test_a_witness_knows_what_it_found),
        cmocka_unit_test(test_a_witness_of_many_knows_it_since_the_first),
        cmocka_unit_test(test_a_witness_of_a_rack),
        cmocka_unit_test(test_a_word_during_the_question),
        cmocka_unit_test(test_a_word_while_it_waits),
        cmocka_unit_test(test_a_connection_during_the_question),
        cmocka_unit_test(test_the_next_in_line_is_one_more),
        cmocka_unit_test(test_the_next_in_line_alone_is_enough),
        cmocka_unit_test(test_it_stays_one_more),
        cmocka_unit_test(test_a_witness_that_was_stopped_waits_again),
        cmocka_unit_test(test_a_witness_knows_some_without_looking),
        cmocka_unit_test(test_a_witness_does_not_know_all),
        cmocka_unit_test(test_malformed_frames),
        cmocka_unit_test(test_answers_that_nobody_asked_for),
        cmocka_unit_test(test_favours_are_bounded),
        cmocka_unit_test(test_fixed_views_have_no_witnesses),
        cmocka_unit_test(test_inquiries),
        cmocka_unit_test(test_inquiry_about_a_suspect),
        cmocka_unit_test(test_hearsay_and_the_end_of_the_list),
        cmocka_unit_test(test_every_allocation_can_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
