/* SPDX-License-Identifier: Apache-2.0 */
#include "failing_alloc.h"
#include "solo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these first */
#include <cmocka.h>

/* D12 and D13: stamps, who is accused for want of a new one, and who says nothing. */

#define N 8u
#define PERIOD (100 * COP_MSEC)
#define LIMIT (6u + 3u * 3u) /* periods, of 8 members */
static const struct cop_detect gossip = {.gossip_period_ns = PERIOD};
static const struct cop_detect stealth = {.gossip_period_ns = PERIOD, .stealth = true};

static struct solo *create(const struct cop_detect *detect)
{
    return solo_create(N, 0, detect, COP_QUORUM_MAJORITY);
}

/* Stamps of all but those in `without` (a bit each), all the same. */
static void hear(struct solo *solo, uint64_t cycle, uint64_t stamp, uint32_t without)
{
    uint8_t bytes[N * COP__SIZE_pulse];
    struct cop__writer writer = cop__writer(bytes, sizeof bytes);
    uint32_t count = 0;
    for (cop_id id = 0; id < N; id++) {
        struct cop__pulse pulse = {id, 1, stamp};
        if (without >> id & 1)
            continue;
        cop__pulse_put(&writer, &pulse);
        count++;
    }
    struct cop__msg_gossip message = {cycle, {bytes, count}};
    solo_recv(solo, 1, COP__KIND_GOSSIP, cop__encode_gossip(&message));
}

static struct cop__msg_gossip said(const struct solo *solo, uint32_t i)
{
    struct cop__msg_gossip message = {0};
    const struct cop_effect *effect = solo_frame(solo, COP__KIND_GOSSIP, i);
    assert_int_equal(cop__decode_gossip(effect->frame.payload->data,
                                        effect->frame.payload->length, &message),
                     0);
    return message;
}

/* One frame a period, to one after the other, with a stamp that grows. */
static void test_one_frame_a_period(void **state)
{
    (void)state;
    struct solo *solo = create(&gossip);
    uint32_t peers = 0;
    solo_run(solo, solo->now + 12 * PERIOD);
    assert_int_equal(solo_sent(solo, COP__KIND_GOSSIP, COP_ID_NONE), 12);
    for (uint32_t i = 0; i < 12; i++) {
        struct cop__msg_gossip message = said(solo, i);
        assert_int_equal(message.cycle, i + 1);
        assert_int_equal(message.pulses.count, 1);
        assert_int_equal(cop__pulse_at(message.pulses, 0).stamp, i + 1);
        peers |= 1u << solo_frame(solo, COP__KIND_GOSSIP, i)->peer;
    }
    assert_int_equal(peers & 1, 0);
    assert_true((peers & (peers - 1)) != 0);
    solo_destroy(solo);
}

/* What I hear I pass on; the larger stamp wins; and I am in the latest cycle of all. */
static void test_stamps_are_merged(void **state)
{
    (void)state;
    struct solo *solo = create(&gossip);
    hear(solo, 50, 48, 1u << 0 | 1u << 5);
    hear(solo, 40, 39, 1u << 0); /* later, but older: only 5 is news */
    hear(solo, 40, 39, 1u << 0);
    assert_int_equal(solo->stats.ignored_repeated, 1);
    solo_run(solo, solo->now + PERIOD);
    struct cop__msg_gossip message = said(solo, 0);
    assert_int_equal(message.cycle, 51);
    assert_int_equal(message.pulses.count, N);
    for (uint32_t i = 0; i < N; i++) {
        struct cop__pulse pulse = cop__pulse_at(message.pulses, i);
        assert_int_equal(pulse.stamp, pulse.id == 0 ? 51 : pulse.id == 5 ? 39 : 48);
    }
    solo_destroy(solo);
}

static void test_who_is_not_heard_of_is_accused(void **state)
{
    (void)state;
    struct solo *solo = create(&gossip);
    /* It is waited for from the first period on. */
    for (uint64_t cycle = 1; cycle <= LIMIT + 2; cycle++) {
        assert_false(solo_suspects(solo, 5));
        hear(solo, cycle, cycle, 1u << 5);
        solo_run(solo, solo->now + PERIOD);
    }
    assert_true(solo_suspects(solo, 5));
    assert_int_equal(solo->stats.accusations, 1);
    solo_destroy(solo);
}

/* However long I was away: it is one period of mine. */
static void test_a_jump_is_one_period(void **state)
{
    (void)state;
    struct solo *solo = create(&gossip);
    struct cop_event tick = {.kind = COP_EVENT_TICK};
    for (uint32_t i = 0; i < LIMIT; i++) {
        solo->now += 100 * PERIOD;
        solo_event(solo, &tick);
    }
    assert_int_equal(solo->stats.accusations, 0);
    solo_destroy(solo);
}

/* ---- stealth --------------------------------------------------------------------- */

static void assert_silent(struct solo *solo)
{
    struct cop__msg_ping ping = {.number = 1};
    struct cop__msg_witness witness = {1, 4, 1, PERIOD};
    solo_recv(solo, 3, COP__KIND_PING, cop__encode_ping(&ping));
    solo_recv(solo, 3, COP__KIND_WITNESS, cop__encode_witness(&witness));
    solo_down(solo, 6, COP_DOWN_REFUSED);
    for (uint32_t i = 0; i < solo->item_count; i++)
        assert_true(solo->items[i].kind != COP_EFFECT_SEND);
    assert_int_equal(solo->stats.accusations, 0);
}

static void test_stealth_is_silent_and_ends(void **state)
{
    (void)state;
    struct solo *solo = create(&stealth);
    assert_silent(solo);
    hear(solo, 10, 10, 1u << 0);
    solo_run(solo, solo->now + 2 * LIMIT * PERIOD - 1);
    assert_silent(solo);
    solo_run(solo, solo->now + PERIOD);
    assert_int_equal(solo_sent(solo, COP__KIND_GOSSIP, COP_ID_NONE), 1);
    /* It has listened: it knows the others, and the cycle. */
    assert_int_equal(said(solo, 0).cycle, 10 + 2 * LIMIT);
    assert_int_equal(said(solo, 0).pulses.count, N);
    struct cop__msg_ping ping = {.number = 1};
    solo_recv(solo, 3, COP__KIND_PING, cop__encode_ping(&ping));
    assert_int_equal(solo_sent(solo, COP__KIND_PONG, 3), 1);
    solo_destroy(solo);
}

/* A stamp of mine that is a few periods old says nothing; a very old one says it all. */
static void test_an_old_stamp_ends_stealth(void **state)
{
    (void)state;
    struct solo *solo = create(&stealth);
    hear(solo, 100, 100 - LIMIT, 0);
    solo_run(solo, solo->now + PERIOD);
    assert_silent(solo);
    hear(solo, 101, 100 - LIMIT, 0);
    solo_run(solo, solo->now + PERIOD);
    assert_int_equal(solo_sent(solo, COP__KIND_GOSSIP, COP_ID_NONE), 1);
    solo_destroy(solo);
}

/* Who is told that it is out in the meantime is out. */
static void test_out_is_heard_in_stealth(void **state)
{
    (void)state;
    struct solo *solo = create(&stealth);
    struct cop__msg_out out = {.epoch = 9, .root = 1, .incarnation = 1};
    solo_recv(solo, 1, COP__KIND_OUT, cop__encode_out(&out));
    assert_int_equal(solo_effects(solo, COP_EFFECT_OUT, COP_ID_NONE), 1);
    solo_destroy(solo);
}

static void accuse_me(struct solo *solo, cop_id from, cop_incarnation life,
                      uint32_t denial)
{
    uint8_t bytes[COP__SIZE_belief];
    struct cop__writer writer = cop__writer(bytes, sizeof bytes);
    struct cop__belief me = {0, life, denial, COP_SUSPECT};
    cop__belief_put(&writer, &me);
    struct cop__msg_news news = {.beliefs = {bytes, 1}};
    solo_recv(solo, from, COP__KIND_NEWS, cop__encode_news(&news));
}

/* D4, D13: who accuses is told nothing yet, does not say it again, and hears my denial in the end. */
static void test_a_denial_waits_for_the_end_of_stealth(void **state)
{
    (void)state;
    struct solo *solo = create(&stealth);
    accuse_me(solo, 3, 1, 0);
    accuse_me(solo, 5, 1, 0);
    accuse_me(solo, 3, 1, 0);
    accuse_me(solo, 6, 2, 0); /* of a life that I am not */
    solo_recv(solo, 4, COP__KIND_NEWS, cop_buf_copy("x", 1));
    solo_run(solo, solo->now + 2 * LIMIT * PERIOD - 1);
    assert_silent(solo);
    solo_run(solo, solo->now + PERIOD);
    assert_int_equal(solo_sent(solo, COP__KIND_NEWS, 3), 1);
    assert_int_equal(solo_sent(solo, COP__KIND_NEWS, 5), 1);
    assert_int_equal(solo_sent(solo, COP__KIND_NEWS, COP_ID_NONE), 2);
    const struct cop_buf *payload = solo_frame(solo, COP__KIND_NEWS, 1)->frame.payload;
    struct cop__msg_news news;
    assert_int_equal(cop__decode_news(payload->data, payload->length, &news), 0);
    struct cop__belief denial = cop__belief_at(news.beliefs, 0);
    assert_int_equal(denial.id, 0);
    assert_int_equal(denial.denial, 1);
    assert_int_equal(denial.status, COP_ALIVE);
    solo_destroy(solo);
}

/* ---- what is ignored ------------------------------------------------------------- */

static void test_nonsense(void **state)
{
    (void)state;
    static const struct cop_detect off = {0};
    struct solo *solo = create(&gossip);
    solo_recv(solo, 1, COP__KIND_GOSSIP, cop_buf_copy("x", 1));
    assert_int_equal(solo->stats.ignored_malformed, 1);
    hear(solo, UINT64_MAX, 1, 0); /* no clock is so far ahead */
    assert_int_equal(solo->stats.ignored_malformed, 2);
    hear(solo, 5, 6, 0); /* stamps of the future */
    assert_int_equal(solo->stats.ignored_repeated, 1);
    solo_run(solo, solo->now + PERIOD);
    assert_int_equal(said(solo, 0).cycle, 6);
    assert_int_equal(said(solo, 0).pulses.count, 1);
    solo_destroy(solo);
    solo = create(&off);
    hear(solo, 5, 5, 0);
    assert_int_equal(solo->stats.ignored_unasked, 1);
    solo_destroy(solo);
}

static void test_every_allocation_can_fail(void **state)
{
    (void)state;
    bool failed = true;
    for (size_t at = 0; failed && at < 2000; at++) {
        struct solo *solo = create(&gossip);
        failing_alloc_after(at);
        solo_run(solo, solo->now + 2 * PERIOD);
        if (!solo->failed)
            hear(solo, 9, 9, 1);
        if (!solo->failed)
            solo_run(solo, solo->now + 3 * LIMIT * PERIOD);
        failing_alloc_off();
        failed = solo->failed != 0 || failing_alloc_hit();
        solo_destroy(solo);
    }
    assert_false(failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_frame_a_period),
        cmocka_unit_test(test_stamps_are_merged),
        cmocka_unit_test(test_who_is_not_heard_of_is_accused),
        cmocka_unit_test(test_a_jump_is_one_period),
        cmocka_unit_test(test_stealth_is_silent_and_ends),
        cmocka_unit_test(test_an_old_stamp_ends_stealth),
        cmocka_unit_test(test_out_is_heard_in_stealth),
        cmocka_unit_test(test_a_denial_waits_for_the_end_of_stealth),
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_every_allocation_can_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
