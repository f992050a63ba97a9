/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka needs the first three above. */
#include <cmocka.h>

/* A frame of the fake is 48 bytes of header and 12 of payload. */
#define FRAME_BYTES 60

/* When the log says that `to` got frame `number` of `from`. */
static cop_time got_at(cop_id to, cop_id from, unsigned number)
{
    char text[64];
    snprintf(text, sizeof(text), "[%u got%u.%u +", (unsigned)to, (unsigned)from,
             number);
    const char *at = strstr(fake_log, text);
    assert_non_null(at);
    return strtoull(at + strlen(text), NULL, 10);
}

static void finish(struct cop_sim *sim)
{
    cop_sim_run(sim, COP_TIME_NEVER);
    assert_null(cop_sim_failure(sim));
    cop_sim_destroy(sim);
}

static void test_constant_and_compute(void **state)
{
    (void)state;
    struct cop_sim_net net = {.latency_ns = 100, .compute_ns = 7};
    struct cop_sim *sim = fake_sim(3, &net, 0);
    fake_connect(sim, 0, 0, 2);
    fake_connect(sim, 0, 1, 2);
    fake_send(sim, 1000, 0, 2, 1);
    fake_send(sim, 1000, 1, 2, 1);
    finish(sim);
    assert_int_equal(got_at(2, 0, 1), 1107);
    assert_int_equal(got_at(2, 1, 1), 1114); /* 2 was busy with the other */
}

/* Two frames in one step: the second starts when the first has left the interface. */
static void test_loggp(void **state)
{
    (void)state;
    struct cop_sim_net net = {.kind = COP_SIM_NET_LOGGP,
                              .latency_ns = 1000,
                              .overhead_ns = 50,
                              .gap_ns = 20,
                              .byte_ps = 2000};
    struct cop_sim *sim = fake_sim(2, &net, 0);
    fake_connect(sim, 0, 0, 1);
    fake_send(sim, 10000, 0, 1, 2);
    finish(sim);
    cop_time wire = (FRAME_BYTES - 1) * 2;
    assert_int_equal(got_at(1, 0, 1), 10000 + 50 + wire + 1000 + 50);
    /* And the receiver's overhead comes out of the arrival: no wait there. */
    assert_int_equal(got_at(1, 0, 2), 10000 + 2 * (50 + wire) + 1000 + 50);
}

static void test_loggp_gap(void **state)
{
    (void)state;
    struct cop_sim_net net = {
        .kind = COP_SIM_NET_LOGGP, .latency_ns = 1000, .overhead_ns = 5, .gap_ns = 700};
    struct cop_sim *sim = fake_sim(3, &net, 0);
    fake_connect(sim, 0, 0, 1);
    fake_send(sim, 10000, 0, 1, 2);
    finish(sim);
    assert_int_equal(got_at(1, 0, 2) - got_at(1, 0, 1), 700);
}

/* 4 x 4 x 2: rank 0 to 15 = (3,3,0) is one hop around in x and one in y. */
static void test_torus(void **state)
{
    (void)state;
    struct cop_sim_net net = {
        .kind = COP_SIM_NET_TORUS, .latency_ns = 100, .hop_ns = 10, .dims = {4, 4, 2}};
    struct cop_sim *sim = fake_sim(32, &net, 0);
    const struct {
        cop_id to;
        unsigned hops;
    } cases[] = {{1, 1}, {2, 2}, {3, 1}, {4, 1}, {15, 2}, {10, 4}, {16, 1}, {26, 5}};
    for (unsigned i = 0; i < 8; i++)
        fake_send(sim, 1000 * (i + 1), 0, cases[i].to, 1);
    finish(sim);
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(got_at(cases[i].to, 0, i + 1),
                         1000 * (i + 1) + 100 + 10 * cases[i].hops);
}

/* A permutation: the sum of the distances to all others is the same from anywhere. */
static void test_torus_shuffled(void **state)
{
    (void)state;
    cop_time sums[2] = {0, 0};
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        struct cop_sim_net net = {.kind = COP_SIM_NET_TORUS,
                                  .latency_ns = 100,
                                  .hop_ns = 10,
                                  .dims = {3, 3, 3},
                                  .shuffle = shuffle};
        struct cop_sim *sim = fake_sim(27, &net, 0);
        for (cop_id to = 1; to < 27; to++)
            fake_send(sim, 1000 * to, 0, to, 1);
        finish(sim);
        for (cop_id to = 1; to < 27; to++) {
            sums[shuffle] += got_at(to, 0, to) - 1000 * (cop_time)to;
        }
    }
    assert_int_equal(sums[0], sums[1]);
}

static void test_torus_too_small_is_refused(void **state)
{
    (void)state;
    struct cop_sim_config config = {.nodes = 9, .actor = &fake_actor};
    struct cop_sim *sim;
    assert_int_equal(cop_shape_make(COP_SHAPE_FLAT, 0, &config.shape), 0);
    config.net = (struct cop_sim_net){.kind = COP_SIM_NET_TORUS, .dims = {2, 2, 2}};
    assert_int_equal(cop_sim_create(&config, &sim), COP_EINVAL);
}

/* Frames to one receiver queue at its port; others do not mind. */
static void test_switch(void **state)
{
    (void)state;
    struct cop_sim_net net = {
        .kind = COP_SIM_NET_SWITCH, .latency_ns = 100, .service_ns = 30};
    struct cop_sim *sim = fake_sim(5, &net, 0);
    for (cop_id id = 0; id < 4; id++)
        fake_connect(sim, 0, id, 4);
    fake_connect(sim, 0, 0, 1);
    for (cop_id id = 0; id < 3; id++)
        fake_send(sim, 10000, id, 4, 1);
    fake_send(sim, 10000, 3, 4, 1);
    fake_send(sim, 10000, 0, 1, 1);
    finish(sim);
    for (cop_id id = 0; id < 4; id++)
        assert_int_equal(got_at(4, id, 1), 10000 + 100 + 30 * (id + 1));
    assert_int_equal(got_at(1, 0, 2), 10130);
}

/* Two switches of two: what crosses shares the uplink. */
static void test_switch_uplink(void **state)
{
    (void)state;
    struct cop_sim_net net = {
        .kind = COP_SIM_NET_SWITCH, .latency_ns = 100, .service_ns = 30, .ports = 2};
    struct cop_sim *sim = fake_sim(4, &net, 0);
    fake_connect(sim, 0, 0, 2);
    fake_connect(sim, 0, 1, 3);
    fake_send(sim, 10000, 0, 2, 1);
    fake_send(sim, 10000, 1, 3, 1);
    finish(sim);
    assert_int_equal(got_at(2, 0, 1), 10000 + 2 * (100 + 30));
    assert_int_equal(got_at(3, 1, 1), 10000 + 2 * (100 + 30) + 30);
}

static void test_recorded(void **state)
{
    (void)state;
    static const uint32_t table[] = {100, 1000, 10000};
    struct cop_sim_net net = {
        .kind = COP_SIM_NET_RECORDED, .table = table, .table_count = 3};
    struct cop_sim *sim = fake_sim(2, &net, 0);
    bool seen[3] = {false};
    fake_connect(sim, 0, 0, 1);
    for (unsigned i = 1; i <= 40; i++)
        fake_send(sim, 100000 * i, 0, 1, 1);
    finish(sim);
    for (unsigned i = 1; i <= 40; i++) {
        cop_time took = got_at(1, 0, i) - 100000 * i;
        assert_true(took == 100 || took == 1000 || took == 10000);
        seen[took == 100 ? 0 : took == 1000 ? 1 : 2] = true;
    }
    assert_true(seen[0] && seen[1] && seen[2]);
}

/* Whatever the jitter, frames of a pair stay in order. */
static void test_jitter_keeps_order(void **state)
{
    (void)state;
    struct cop_sim_net net = {.latency_ns = 100, .jitter_ns = 500};
    struct cop_sim *sim = fake_sim(2, &net, 0);
    fake_connect(sim, 0, 0, 1);
    for (unsigned i = 1; i <= 50; i++)
        fake_send(sim, 10000 + 20 * i, 0, 1, 1);
    finish(sim);
    const char *at = fake_log;
    bool late = false;
    for (unsigned i = 1; i <= 50; i++) {
        char text[32];
        snprintf(text, sizeof(text), "[1 got0.%u ", i);
        at = strstr(at, text);
        assert_non_null(at);
        cop_time took = got_at(1, 0, i) - (10000 + 20 * i);
        assert_in_range(took, 100, 600);
        late |= took > 150;
    }
    assert_true(late);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constant_and_compute),
        cmocka_unit_test(test_loggp),
        cmocka_unit_test(test_loggp_gap),
        cmocka_unit_test(test_torus),
        cmocka_unit_test(test_torus_shuffled),
        cmocka_unit_test(test_torus_too_small_is_refused),
        cmocka_unit_test(test_switch),
        cmocka_unit_test(test_switch_uplink),
        cmocka_unit_test(test_recorded),
        cmocka_unit_test(test_jitter_keeps_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
