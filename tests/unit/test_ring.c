/* SPDX-License-Identifier: Apache-2.0 */
#include "solo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these first */
#include <cmocka.h>

/* D5, D6 and D8: whom the ring asks, how long it waits, and what it does when it doubts. */

#define PERIOD (100 * COP_MSEC)
static const struct cop_detect ring = {.ring_period_ns = PERIOD};

static struct solo *create(uint32_t n)
{
    return solo_create(n, 0, &ring, COP_QUORUM_MAJORITY);
}

static cop_id neighbour(const struct solo *solo)
{
    return solo_frame(solo, COP__KIND_PING, 0)->peer;
}

/* From everyone to the next: one way around, and through everyone. */
static void test_the_ring_is_one_ring(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 40; n++) {
        cop_id next[40];
        for (cop_id id = 0; id < n; id++) {
            struct solo *solo = solo_create(n, id, &ring, COP_QUORUM_MAJORITY);
            assert_int_equal(solo_sent(solo, COP__KIND_PING, COP_ID_NONE), 1);
            next[id] = neighbour(solo);
            solo_destroy(solo);
        }
        uint32_t steps = 1;
        for (cop_id id = next[0]; id != 0; id = next[id])
            assert_true(++steps <= n);
        assert_int_equal(steps, n);
    }
}

/* Those of one rack, who have neighbouring ids, are not neighbours in the ring. */
static void test_racks_are_scattered(void **state)
{
    (void)state;
    uint32_t adjacent = 0;
    for (cop_id id = 0; id < 64; id++) {
        struct solo *solo = solo_create(64, id, &ring, COP_QUORUM_MAJORITY);
        cop_id next = neighbour(solo);
        adjacent += next / 8 == id / 8;
        solo_destroy(solo);
    }
    assert_true(adjacent < 16);
}

static void test_one_question_a_period(void **state)
{
    (void)state;
    struct solo *solo = create(7);
    cop_id peer = neighbour(solo);
    assert_int_equal(solo_effects(solo, COP_EFFECT_CONNECT, peer), 1);
    for (int i = 0; i < 50; i++) {
        solo_pong(solo, peer);
        solo_run(solo, solo->now + PERIOD);
    }
    assert_int_equal(solo_sent(solo, COP__KIND_PING, COP_ID_NONE), 51);
    assert_int_equal(solo_sent(solo, COP__KIND_PING, peer), 51);
    assert_int_equal(solo->stats.accusations, 0);
    solo_destroy(solo);
}

/* Answered, asked a period later, and silent for the least deadline: two periods. */
static void test_silence_is_found_in_two_periods(void **state)
{
    (void)state;
    struct solo *solo = create(7);
    cop_id peer = neighbour(solo);
    solo_pong(solo, peer);
    cop_time answered = solo->now;
    solo_run(solo, answered + 2 * PERIOD - 1);
    assert_false(solo_suspects(solo, peer));
    solo_run(solo, answered + 2 * PERIOD);
    assert_true(solo_suspects(solo, peer));
    assert_true(solo->stats.deadline_ns == PERIOD);
    struct cop_suspicion event;
    assert_int_equal(cop_node_events(solo->node, 0, &event, 1), 1);
    assert_int_equal(event.accused, peer);
    assert_int_equal(event.accuser, 0);
    assert_int_equal(event.reason, COP_REASON_SILENT);
    assert_int_equal(event.outcome, COP_OUTCOME_PENDING);
    assert_int_equal(cop_node_aliveness(solo->node, peer), 1);
    /* The ring closes behind it: somebody else is asked. */
    assert_int_equal(solo_sent(solo, COP__KIND_PING, peer), 2);
    assert_true(solo_sent(solo, COP__KIND_PING, COP_ID_NONE) > 2);
    solo_destroy(solo);
}

/* D15: who has not answered yet may be starting; who has is found as always. */
static void test_who_may_be_starting_is_not_accused(void **state)
{
    (void)state;
    static const struct cop_detect with = {.ring_period_ns = PERIOD,
                                           .patience_ns = 500 * PERIOD};
    struct solo *solo = solo_create(2, 0, &with, COP_QUORUM_MAJORITY);
    cop_id peer = neighbour(solo);
    cop_time begun = solo->now;
    solo_run(solo, begun + 500 * PERIOD - 1);
    assert_int_equal(solo->stats.accusations, 0);
    solo_run(solo, begun + 503 * PERIOD);
    assert_true(solo_suspects(solo, peer));
    solo_destroy(solo);

    solo = solo_create(2, 0, &with, COP_QUORUM_MAJORITY);
    solo_run(solo, solo->now + 5 * PERIOD);
    assert_int_equal(solo->stats.accusations, 0);
    solo_pong(solo, peer); /* its period is over: it is asked at once */
    solo_pong(solo, peer);
    cop_time answered = solo->now;
    solo_run(solo, answered + 60 * PERIOD);
    assert_true(solo_suspects(solo, peer));
    solo_destroy(solo);
}

/* It is not asked again and again: what is sent to one who lives arrives. */
static void test_one_question_is_open(void **state)
{
    (void)state;
    static const struct cop_detect with = {.ring_period_ns = PERIOD, .witnesses = 1};
    struct solo *solo = solo_create(3, 0, &with, COP_QUORUM_MAJORITY);
    cop_id peer = neighbour(solo);
    solo_run(solo, solo->now + 100 * PERIOD);
    assert_int_equal(solo_sent(solo, COP__KIND_PING, peer), 1);
    /* But on a new connection it is: the old one may have been lost with its frames. */
    struct cop_event up = {.kind = COP_EVENT_PEER_UP, .peer = peer, .incarnation = 1};
    solo_event(solo, &up);
    assert_int_equal(solo_sent(solo, COP__KIND_PING, peer), 2);
    solo_destroy(solo);
}

/* When the next is late, 1, 2, 4, ... of those behind it are asked before its time is up. */
static void test_adjacent_deaths_cost_one_deadline(void **state)
{
    (void)state;
    struct solo *solo = create(64);
    cop_id peer = neighbour(solo);
    solo_pong(solo, peer);
    solo_run(solo, solo->now + PERIOD);
    solo_forget(solo);
    static const uint32_t asked[] = {1, 3, 7};
    for (int i = 0; i < 3; i++) {
        solo_run(solo, solo->now + PERIOD / 4);
        assert_int_equal(solo_sent(solo, COP__KIND_PING, COP_ID_NONE), asked[i]);
    }
    assert_int_equal(solo->stats.accusations, 0);
    solo_run(solo, solo->now + PERIOD);
    assert_int_equal(solo->stats.accusations, 8);
    solo_destroy(solo);
}

/* Once the first answers, the others are left alone. */
static void test_late_is_not_lost(void **state)
{
    (void)state;
    struct solo *solo = create(64);
    cop_id peer = neighbour(solo);
    solo_run(solo, solo->now + PERIOD);
    uint32_t before = solo_sent(solo, COP__KIND_PING, COP_ID_NONE);
    assert_true(before > 2);
    solo_pong(solo, peer); /* its period is over: it is asked at once */
    solo_pong(solo, peer);
    solo_forget(solo);
    solo_run(solo, solo->now + PERIOD);
    assert_int_equal(solo_sent(solo, COP__KIND_PING, COP_ID_NONE), 1);
    assert_int_equal(solo_sent(solo, COP__KIND_PING, peer), 1);
    assert_int_equal(solo->stats.accusations, 0);
    solo_destroy(solo);
}

/* Any word will do, and the deadline follows what was measured. */
static void test_the_deadline_follows_the_way(void **state)
{
    (void)state;
    struct solo *solo = create(2);
    cop_id peer = neighbour(solo);
    for (int i = 0; i < 20; i++) {
        solo_run(solo, solo->now + 9 * PERIOD / 10 + (cop_time)(i % 5) * PERIOD / 10);
        solo_pong(solo, peer);
    }
    assert_int_equal(solo->stats.accusations, 0);
    assert_true(solo->stats.deadline_ns > 11 * PERIOD / 10);
    for (int i = 0; i < 200; i++) {
        solo_run(solo, solo->now + PERIOD);
        solo_pong(solo, peer);
        solo_pong(solo, peer); /* where the period was over, it was asked at once */
    }
    assert_true(solo->stats.deadline_ns == PERIOD);
    solo_destroy(solo);
}

/* A way that was long once in a while is remembered, though most are short: that is what
 * lost frames look like. */
static void test_the_deadline_remembers_the_longest(void **state)
{
    (void)state;
    struct solo *solo = create(2);
    cop_id peer = neighbour(solo);
    for (int i = 0; i < 100; i++) {
        solo_run(solo, solo->now + PERIOD);
        if (i % 25 == 0)
            solo_run(solo, solo->now + 9 * PERIOD / 10);
        solo_pong(solo, peer);
    }
    assert_int_equal(solo->stats.accusations, 0);
    solo_run(solo, solo->now + PERIOD);
    assert_true(solo->stats.deadline_ns > 12 * PERIOD / 10);
    solo_destroy(solo);
}

/* Who is late itself gives others as much time. */
static void test_the_deadline_knows_my_own_lateness(void **state)
{
    (void)state;
    struct solo *solo = create(2);
    cop_id peer = neighbour(solo);
    struct cop_event tick = {.kind = COP_EVENT_TICK};
    solo_pong(solo, peer);
    solo->now = cop_deadline(solo->node) + PERIOD;
    assert_int_equal(solo_event(solo, &tick), 0);
    solo_pong(solo, peer);
    solo_run(solo, solo->now + PERIOD);
    assert_true(solo->stats.deadline_ns > 18 * PERIOD / 10);
    solo_destroy(solo);
}

/* How late the others are they say; that counts as my own, and is forgotten in time. */
static void test_the_deadline_knows_the_lateness_of_others(void **state)
{
    (void)state;
    struct solo *solo = create(7);
    cop_id peer = neighbour(solo);
    solo_pong(solo, peer);
    struct cop__msg_ping ping = {.number = 1, .late_us = 50000};
    solo_recv(solo, 6, COP__KIND_PING, cop__encode_ping(&ping));
    solo_run(solo, solo->now + PERIOD);
    assert_true(solo->stats.deadline_ns == 3 * PERIOD);
    /* What somebody claims is not believed without end. */
    ping.late_us = UINT32_MAX;
    solo_recv(solo, 6, COP__KIND_PING, cop__encode_ping(&ping));
    for (int i = 0; i < 400; i++) {
        solo_pong(solo, peer);
        solo_run(solo, solo->now + PERIOD);
        if (i == 0)
            assert_true(solo->stats.deadline_ns == 24 * PERIOD);
    }
    assert_true(solo->stats.deadline_ns == 6 * PERIOD);
    assert_int_equal(solo->stats.accusations, 0);
    solo_destroy(solo);
}

/* And I say how late I was, to whom I ask and to whoever asks. */
static void test_lateness_is_told(void **state)
{
    (void)state;
    struct solo *solo = create(7);
    struct cop_event tick = {.kind = COP_EVENT_TICK};
    solo_pong(solo, neighbour(solo));
    solo->now = cop_deadline(solo->node) + PERIOD / 4;
    solo_forget(solo);
    assert_int_equal(solo_event(solo, &tick), 0);
    struct cop__msg_ping ping = {.number = 1};
    solo_recv(solo, 6, COP__KIND_PING, cop__encode_ping(&ping));
    const struct cop_buf *asked = solo_frame(solo, COP__KIND_PING, 0)->frame.payload;
    const struct cop_buf *answer = solo_frame(solo, COP__KIND_PONG, 0)->frame.payload;
    struct cop__msg_pong pong;
    assert_int_equal(cop__decode_ping(asked->data, asked->length, &ping), 0);
    assert_int_equal(cop__decode_pong(answer->data, answer->length, &pong), 0);
    assert_int_equal(ping.late_us, PERIOD / 4 / COP_USEC);
    assert_int_equal(pong.late_us, PERIOD / 4 / COP_USEC);
    solo_destroy(solo);
}

/* D8: who is late every time finds the dead all the same. */
static void test_always_late_is_no_excuse(void **state)
{
    (void)state;
    struct solo *solo = create(7);
    struct cop_event tick = {.kind = COP_EVENT_TICK};
    for (int i = 0; i < 60 && solo->stats.accusations == 0; i++) {
        solo->now = cop_deadline(solo->node) + 6 * PERIOD / 10;
        assert_int_equal(solo_event(solo, &tick), 0);
    }
    assert_true(solo->stats.credits > 2);
    assert_true(solo->stats.accusations > 0);
    solo_destroy(solo);
}

/* D8: who was stopped itself accuses nobody for it. */
static void test_a_jump_is_credited(void **state)
{
    (void)state;
    struct solo *solo = create(7);
    cop_id peer = neighbour(solo);
    solo_pong(solo, peer);
    solo_run(solo, solo->now + PERIOD);
    struct cop_event tick = {.kind = COP_EVENT_TICK};
    solo->now += 50 * PERIOD;
    solo_event(solo, &tick);
    assert_int_equal(solo->stats.credits, 1);
    assert_int_equal(solo->stats.accusations, 0);
    /* The same if a frame is the first that it sees. */
    solo->now += 50 * PERIOD;
    struct cop__msg_ping ping = {.number = 1};
    solo_recv(solo, 6, COP__KIND_PING, cop__encode_ping(&ping));
    solo_event(solo, &tick);
    assert_int_equal(solo->stats.credits, 2);
    assert_int_equal(solo->stats.accusations, 0);
    /* But a credit is not for ever. */
    solo_run(solo, solo->now + PERIOD);
    assert_true(solo_suspects(solo, peer));
    solo_destroy(solo);
}

/* The ring follows suspicions: of the living, and back when it was wrong. */
static void test_the_ring_follows_suspicions(void **state)
{
    (void)state;
    struct solo *solo = create(7);
    cop_id peer = neighbour(solo);
    solo_pong(solo, peer);
    solo_forget(solo);
    solo_down(solo, peer, COP_DOWN_REFUSED);
    assert_int_equal(solo_sent(solo, COP__KIND_PING, COP_ID_NONE), 1);
    cop_id other = neighbour(solo);
    assert_true(other != peer);
    solo_pong(solo, other);
    solo_forget(solo);
    struct cop__msg_news news;
    uint8_t bytes[COP__SIZE_belief];
    struct cop__writer writer = cop__writer(bytes, sizeof bytes);
    struct cop__belief denial = {peer, 1, 1, COP_ALIVE};
    cop__belief_put(&writer, &denial);
    news.beliefs = (struct cop__list){bytes, 1};
    solo_recv(solo, other, COP__KIND_NEWS, cop__encode_news(&news));
    assert_int_equal(solo_sent(solo, COP__KIND_PING, peer), 1);
    struct cop_suspicion event;
    assert_int_equal(cop_node_events(solo->node, 0, &event, 1), 1);
    assert_int_equal(event.reason, COP_REASON_REFUSED);
    assert_int_equal(event.outcome, COP_OUTCOME_DENIED);
    /* Dead, alive, dead again: two deaths. */
    solo_down(solo, peer, COP_DOWN_REFUSED);
    assert_int_equal(cop_node_aliveness(solo->node, peer), 2);
    solo_destroy(solo);
}

/* Nothing is asked where the view is fixed, or nobody wants it. */
static void test_off_is_off(void **state)
{
    (void)state;
    static const struct cop_detect off = {0};
    struct solo *solo = solo_create(7, 0, &off, COP_QUORUM_MAJORITY);
    assert_true(cop_deadline(solo->node) == COP_TIME_NEVER);
    solo_destroy(solo);
    solo = solo_create(7, 0, &ring, COP_QUORUM_FIXED);
    assert_true(cop_deadline(solo->node) == COP_TIME_NEVER);
    solo_destroy(solo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_ring_is_one_ring),
        cmocka_unit_test(test_racks_are_scattered),
        cmocka_unit_test(test_one_question_a_period),
        cmocka_unit_test(test_silence_is_found_in_two_periods),
        cmocka_unit_test(test_who_may_be_starting_is_not_accused),
        cmocka_unit_test(test_one_question_is_open),
        cmocka_unit_test(test_adjacent_deaths_cost_one_deadline),
        cmocka_unit_test(test_late_is_not_lost),
        cmocka_unit_test(test_the_deadline_follows_the_way),
        cmocka_unit_test(test_the_deadline_remembers_the_longest),
        cmocka_unit_test(test_the_deadline_knows_my_own_lateness),
        cmocka_unit_test(test_the_deadline_knows_the_lateness_of_others),
        cmocka_unit_test(test_lateness_is_told),
        cmocka_unit_test(test_always_late_is_no_excuse),
        cmocka_unit_test(test_a_jump_is_credited),
        cmocka_unit_test(test_the_ring_follows_suspicions),
        cmocka_unit_test(test_off_is_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
