/* SPDX-License-Identifier: Apache-2.0 */
#include "node/node.h"

#include "sweep/cover.h"
#include "sweep/sweep.h"
#include "wirenet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

/* Every way for a frame to be ignored is counted, and does nothing else. */

/* kary:2 over 7: node 1 has 0 above it, 3 and 4 below, and 2 beside it. */
#define SELF 1u
#define N 7u

static struct wirenet *create(void) { return wirenet_create(N, "kary:2"); }

static struct cop_stats *stats(struct wirenet *net) { return &net->nodes[SELF].stats; }

/* Everything that a node may do about a frame that it ignores is to count it. */
static void assert_untouched(const struct wirenet *net, uint64_t digest)
{
    assert_int_equal(net->effects.count, 0);
    assert_true(cop_node_digest(net->nodes[SELF].node) == digest);
}

/* ---- frames by hand -------------------------------------------------------------- */

/* The first sweep of node 0, as node 0 would tell of it. */
static struct cop__msg_ask any_ask(void)
{
    return (struct cop__msg_ask){
        .initiator = 0,
        .incarnation = 1,
        .sequence = 1,
        .left_ns = COP_SEC,
        .hop_ns = COP_MSEC,
        .shape = COP_SHAPE_KARY,
        .arity = 2,
        .members = N,
    };
}

static void recv_ask(struct wirenet *net, cop_id from, const struct cop__msg_ask *ask)
{
    struct cop_frame frame =
        wirenet_frame(net, from, SELF, COP__KIND_ASK, cop__encode_ask(ask));
    wirenet_recv(net, &frame);
}

/* Node 1 takes part in the first sweep of node 0, and waits for 3 and 4. */
static struct wirenet *create_in_sweep(void)
{
    struct wirenet *net = create();
    struct cop__msg_ask ask = any_ask();
    recv_ask(net, 0, &ask);
    assert_int_equal(cop_node_sweeps(net->nodes[SELF].node), 1);
    wirenet_lose_all(net);
    return net;
}

/* The answer of a leaf in that sweep, or in another one. */
static struct cop_buf *leaf_answer(cop_rank rank, uint64_t sequence, uint8_t mode)
{
    uint8_t parts[64];
    struct cop__writer writer = cop__writer(parts, sizeof parts);
    const struct cop__mark mark = {rank, mode};
    cop__put_u32(&writer, 1);
    cop__mark_put(&writer, &mark);
    cop__put_u32(&writer, 16);
    cop__put_u64(&writer, 1);
    cop__put_u64(&writer, cop_probe_fingerprint(rank));
    struct cop__msg_answer answer = {
        .initiator = 0,
        .incarnation = 1,
        .sequence = sequence,
        .floor = UINT64_MAX,
        .parts = {parts, (uint32_t)(writer.at - parts)},
    };
    return cop__encode_answer(&answer);
}

static void recv_answer(struct wirenet *net, cop_id from, struct cop_buf *payload)
{
    struct cop_frame frame = wirenet_frame(net, from, SELF, COP__KIND_ANSWER, payload);
    wirenet_recv(net, &frame);
}

static struct cop_buf *done_of(uint64_t sequence)
{
    const struct cop__msg_done done = {.incarnation = 1, .sequence = sequence};
    return cop__encode_done(&done);
}

static struct cop_buf *turn_of(uint64_t sequence)
{
    const struct cop__msg_turn turn = {.incarnation = 1, .sequence = sequence};
    return cop__encode_turn(&turn);
}

static struct cop_buf *outcome_of(uint64_t sequence, int status)
{
    const struct cop__msg_outcome outcome = {
        .incarnation = 1, .sequence = sequence, .status = (uint32_t)status};
    return cop__encode_outcome(&outcome);
}

static struct cop_buf *hold_of(uint64_t sequence)
{
    const struct cop__msg_hold hold = {.incarnation = 1, .sequence = sequence};
    return cop__encode_hold(&hold);
}

static void recv(struct wirenet *net, cop_id from, enum cop__kind kind,
                 struct cop_buf *payload)
{
    struct cop_frame frame = wirenet_frame(net, from, SELF, kind, payload);
    wirenet_recv(net, &frame);
}

static struct cop_frame any_news(const struct wirenet *net, cop_id from)
{
    const struct cop__msg_news nothing = {0};
    return wirenet_frame(net, from, SELF, COP__KIND_NEWS, cop__encode_news(&nothing));
}

/* ---- every way to be ignored ----------------------------------------------------- */

static void test_ignored_receiver(void **state)
{
    (void)state;
    struct wirenet *net = create();
    uint64_t digest = cop_node_digest(net->nodes[SELF].node);
    struct cop_frame frame = any_news(net, 0);
    struct cop_event event = {.kind = COP_EVENT_RECV, .peer = 0, .frame = &frame};
    frame.header.receiver = 2;
    wirenet_event(net, SELF, &event);
    assert_int_equal(stats(net)->ignored_receiver, 1);
    frame.header.receiver = SELF;
    frame.header.receiver_incarnation = 2;
    wirenet_event(net, SELF, &event);
    assert_int_equal(stats(net)->ignored_receiver, 2);
    assert_untouched(net, digest);
    cop_buf_unref(frame.payload);
    wirenet_destroy(net);
}

static void test_ignored_incarnation(void **state)
{
    (void)state;
    struct wirenet *net = create();
    wirenet_tell(net, 0, SELF, (struct cop__belief){2, 5, 0, COP_ALIVE});
    uint64_t digest = cop_node_digest(net->nodes[SELF].node);
    struct cop_frame frame = any_news(net, 2);
    frame.header.sender_incarnation = 4;
    wirenet_recv(net, &frame);
    assert_int_equal(stats(net)->ignored_incarnation, 1);
    assert_untouched(net, digest);
    wirenet_destroy(net);
}

static void test_ignored_epoch(void **state)
{
    (void)state;
    struct wirenet *net = create();
    uint64_t digest = cop_node_digest(net->nodes[SELF].node);
    struct cop_frame frame = any_news(net, 0);
    frame.header.epoch++;
    wirenet_recv(net, &frame);
    assert_int_equal(stats(net)->ignored_epoch, 1);
    assert_untouched(net, digest);
    wirenet_destroy(net);
}

static void test_ignored_stranger(void **state)
{
    (void)state;
    struct wirenet *net = create();
    uint64_t digest = cop_node_digest(net->nodes[SELF].node);
    static const struct {
        cop_id peer, sender;
    } strangers[] = {{N, N}, {COP_ID_NONE, COP_ID_NONE}, {0, 2}, {SELF, SELF}};
    for (uint32_t i = 0; i < 4; i++) {
        struct cop_frame frame = any_news(net, 0);
        struct cop_event event = {
            .kind = COP_EVENT_RECV, .peer = strangers[i].peer, .frame = &frame};
        frame.header.sender = strangers[i].sender;
        wirenet_event(net, SELF, &event);
        assert_int_equal(stats(net)->ignored_stranger, i + 1);
        assert_untouched(net, digest);
        cop_buf_unref(frame.payload);
    }
    wirenet_destroy(net);
}

static void test_ignored_kind(void **state)
{
    (void)state;
    struct wirenet *net = create();
    uint64_t digest = cop_node_digest(net->nodes[SELF].node);
    /* Unknown, and known but nobody's here. */
    static const uint16_t kinds[] = {0, 999, UINT16_MAX, COP__KIND_HELLO,
                                     COP__KIND_COMMAND};
    for (uint32_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct cop_frame frame = any_news(net, 0);
        frame.header.kind = kinds[i];
        wirenet_recv(net, &frame);
        assert_int_equal(stats(net)->ignored_kind, i + 1);
        assert_untouched(net, digest);
    }
    wirenet_destroy(net);
}

static void test_ignored_malformed(void **state)
{
    (void)state;
    struct wirenet *net = create_in_sweep();
    uint64_t digest = cop_node_digest(net->nodes[SELF].node);
    static const enum cop__kind kinds[] = {
        COP__KIND_NEWS,    COP__KIND_ASK,  COP__KIND_ANSWER, COP__KIND_TURN,
        COP__KIND_OUTCOME, COP__KIND_DONE, COP__KIND_HOLD};
    uint64_t expected = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        recv(net, 0, kinds[i], cop_buf_copy("\xff\xff\xff\xff", 4));
        assert_int_equal(stats(net)->ignored_malformed, ++expected);
        assert_untouched(net, digest);
    }
    wirenet_destroy(net);
}

/* A frame without payload comes with a NULL one (coppice/node.h). */
static void test_ignored_without_payload(void **state)
{
    (void)state;
    struct wirenet *net = create_in_sweep();
    uint64_t digest = cop_node_digest(net->nodes[SELF].node);
    static const enum cop__kind kinds[] = {
        COP__KIND_NEWS,    COP__KIND_ASK,  COP__KIND_ANSWER, COP__KIND_TURN,
        COP__KIND_OUTCOME, COP__KIND_DONE, COP__KIND_HOLD};
    for (uint32_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct cop_frame frame = any_news(net, 0);
        cop_buf_unref(frame.payload);
        frame.payload = NULL;
        frame.header.length = 0;
        frame.header.kind = (uint16_t)kinds[i];
        wirenet_recv(net, &frame);
        assert_int_equal(stats(net)->ignored_malformed, i + 1);
        assert_untouched(net, digest);
    }
    wirenet_destroy(net);
}

/* An ASK that decodes, but cannot be. */
static void test_ignored_malformed_ask(void **state)
{
    (void)state;
    struct wirenet *net = create();
    uint64_t digest = cop_node_digest(net->nodes[SELF].node);
    struct cop__msg_ask asks[9];
    for (int i = 0; i < 9; i++)
        asks[i] = any_ask();
    asks[0].members = N + 1;
    asks[1].initiator = N;
    asks[2].protocol = 200;
    asks[3].shape = 99;
    asks[4].arity = 0;
    asks[5].left_ns = UINT64_MAX;
    asks[6].hop_ns = UINT64_MAX;
    asks[7].sequence = 0;
    asks[8].sequence = COP__SWEEP_WINDOW + 2; /* with mark 0, outside any window */
    for (uint32_t i = 0; i < 9; i++) {
        recv_ask(net, 0, &asks[i]);
        assert_int_equal(stats(net)->ignored_malformed, i + 1);
        assert_untouched(net, digest);
    }
    wirenet_destroy(net);
}

/* Covers that are no sets, or not the sender's to give; a payload that is no share. */
static void test_ignored_malformed_answer(void **state)
{
    (void)state;
    struct wirenet *net = create_in_sweep();
    uint64_t expected = 0;
    recv_answer(net, 3, leaf_answer(3, 1, COP__TREE_OUT));
    assert_int_equal(stats(net)->ignored_malformed, ++expected);
    recv_answer(net, 3, leaf_answer(3, 1, 9));
    assert_int_equal(stats(net)->ignored_malformed, ++expected);
    recv_answer(net, 3, leaf_answer(4, 1, COP__TREE_IN));
    assert_int_equal(stats(net)->ignored_malformed, ++expected);
    recv_answer(net, 3, leaf_answer(N, 1, COP__TREE_IN));
    assert_int_equal(stats(net)->ignored_malformed, ++expected);
    wirenet_destroy(net);
}

static void test_ignored_not_ancestor(void **state)
{
    (void)state;
    struct wirenet *net = create();
    struct cop__msg_ask ask = any_ask();
    recv_ask(net, 3, &ask); /* below me */
    recv_ask(net, 2, &ask); /* beside me */
    assert_int_equal(stats(net)->ignored_not_ancestor, 2);
    assert_int_equal(net->nodes[SELF].asks, 0);
    ask.initiator = SELF; /* nobody is above me in my own sweep */
    recv_ask(net, 0, &ask);
    assert_int_equal(stats(net)->ignored_not_ancestor, 3);
    wirenet_destroy(net);

    net = create_in_sweep();
    uint64_t digest = cop_node_digest(net->nodes[SELF].node);
    recv(net, 3, COP__KIND_OUTCOME, outcome_of(1, COP_EABORTED));
    assert_int_equal(stats(net)->ignored_not_ancestor, 1);
    recv(net, 2, COP__KIND_HOLD, hold_of(1));
    assert_int_equal(stats(net)->ignored_not_ancestor, 2);
    assert_untouched(net, digest);
    wirenet_destroy(net);
}

static void test_ignored_not_below(void **state)
{
    (void)state;
    struct wirenet *net = create_in_sweep();
    uint64_t digest = cop_node_digest(net->nodes[SELF].node);
    recv_answer(net, 2, leaf_answer(2, 1, COP__ONE_IN));
    assert_int_equal(stats(net)->ignored_not_below, 1);
    recv_answer(net, 0, leaf_answer(0, 1, COP__ONE_IN));
    assert_int_equal(stats(net)->ignored_not_below, 2);
    recv(net, 2, COP__KIND_TURN, turn_of(1));
    assert_int_equal(stats(net)->ignored_not_below, 3);
    recv(net, 2, COP__KIND_DONE, done_of(1));
    assert_int_equal(stats(net)->ignored_not_below, 4);
    assert_untouched(net, digest);
    wirenet_destroy(net);
}

static void test_ignored_sweep_over(void **state)
{
    (void)state;
    struct wirenet *net = create_in_sweep();
    struct cop__msg_ask ask = any_ask();
    recv(net, 0, COP__KIND_OUTCOME, outcome_of(1, COP_EABORTED));
    assert_int_equal(cop_node_sweeps(net->nodes[SELF].node), 0);
    wirenet_lose_all(net);
    recv_ask(net, 0, &ask);
    assert_int_equal(stats(net)->ignored_sweep_over, 1);
    assert_int_equal(net->nodes[SELF].asks, 1);
    assert_int_equal(wirenet_count(net, SELF, 0, COP__KIND_DONE), 1);
    recv_answer(net, 3, leaf_answer(3, 1, COP__ONE_IN));
    assert_int_equal(stats(net)->ignored_sweep_over, 2);
    assert_int_equal(net->effects.count, 0);
    wirenet_tell(net, 0, SELF, (struct cop__belief){0, 3, 0, COP_ALIVE});
    ask.sequence = 2; /* of a life that is over */
    struct cop_frame frame =
        wirenet_frame(net, 0, SELF, COP__KIND_ASK, cop__encode_ask(&ask));
    frame.header.sender_incarnation = 3;
    wirenet_recv(net, &frame);
    assert_int_equal(stats(net)->ignored_sweep_over, 3);
    assert_int_equal(net->nodes[SELF].asks, 1);
    wirenet_destroy(net);
}

static void test_ignored_sweep_unknown(void **state)
{
    (void)state;
    struct wirenet *net = create();
    recv_answer(net, 3, leaf_answer(3, 5, COP__ONE_IN));
    assert_int_equal(stats(net)->ignored_sweep_unknown, 1);
    recv(net, 0, COP__KIND_OUTCOME, outcome_of(5, 0));
    assert_int_equal(stats(net)->ignored_sweep_unknown, 2);
    recv(net, 0, COP__KIND_HOLD, hold_of(5));
    assert_int_equal(stats(net)->ignored_sweep_unknown, 3);
    recv(net, 3, COP__KIND_DONE, done_of(5));
    assert_int_equal(stats(net)->ignored_sweep_unknown, 4);
    assert_int_equal(net->item_count, 0);
    recv(net, 3, COP__KIND_TURN, turn_of(5)); /* who turns to me is told */
    assert_int_equal(stats(net)->ignored_sweep_unknown, 5);
    assert_int_equal(wirenet_count(net, SELF, 3, COP__KIND_DONE), 1);
    assert_int_equal(cop_node_sweeps(net->nodes[SELF].node), 0);
    wirenet_destroy(net);
}

static void test_ignored_repeated(void **state)
{
    (void)state;
    struct wirenet *net = create();
    wirenet_tell(net, 0, SELF, (struct cop__belief){5, 1, 0, COP_SUSPECT});
    wirenet_tell(net, 0, SELF, (struct cop__belief){5, 1, 0, COP_SUSPECT});
    assert_int_equal(stats(net)->ignored_repeated, 1);
    wirenet_destroy(net);

    net = create_in_sweep();
    recv_answer(net, 3, leaf_answer(3, 1, COP__TREE_IN));
    recv_answer(net, 3, leaf_answer(3, 1, COP__TREE_IN));
    assert_int_equal(stats(net)->ignored_repeated, 1);
    recv(net, 3, COP__KIND_DONE, done_of(1)); /* it has answered */
    assert_int_equal(stats(net)->ignored_repeated, 2);
    recv(net, 0, COP__KIND_OUTCOME, outcome_of(1, 0)); /* of a sweep without one */
    assert_int_equal(stats(net)->ignored_repeated, 3);
    assert_int_equal(net->nodes[SELF].outcomes, 0);
    wirenet_destroy(net);
}

/* Where views change there is more of it, in test_witness.c. */
static void test_ignored_unasked(void **state)
{
    (void)state;
    struct wirenet *net = create();
    uint64_t digest = cop_node_digest(net->nodes[SELF].node);
    const struct cop__msg_pong pong = {.number = 1};
    const struct cop__msg_witness witness = {.suspect = 3, .incarnation = 1};
    const struct cop__msg_witnessed witnessed = {.suspect = 3};
    recv(net, 0, COP__KIND_PONG, cop__encode_pong(&pong));
    assert_untouched(net, digest);
    recv(net, 0, COP__KIND_WITNESS, cop__encode_witness(&witness));
    assert_untouched(net, digest);
    recv(net, 0, COP__KIND_WITNESSED, cop__encode_witnessed(&witnessed));
    assert_untouched(net, digest);
    const struct cop__msg_gossip gossip = {.cycle = 1};
    recv(net, 0, COP__KIND_GOSSIP, cop__encode_gossip(&gossip));
    assert_untouched(net, digest);
    assert_int_equal(stats(net)->ignored_unasked, 4);
    wirenet_destroy(net);
}

/* One frame must not make a node unable to start sweeps of its own. */
static void test_claims_about_my_own_future_are_not_believed(void **state)
{
    (void)state;
    struct wirenet *net = create();
    const struct cop__msg_turn turn = {
        .initiator = SELF, .incarnation = 9, .sequence = 1};
    recv(net, 3, COP__KIND_TURN, cop__encode_turn(&turn));
    wirenet_lose_all(net);
    assert_int_equal(wirenet_probe(net, SELF, 1, false), 0);
    wirenet_settle(net);
    struct cop_probe_result result;
    wirenet_result(net, SELF, 1, &result);
    assert_int_equal(result.answered, N);
    cop_probe_result_free(&result);
    wirenet_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
/* Every counter of coppice/stats.h: a new one without a test does not compile. */
#define IGNORED(name, text) cmocka_unit_test(test_ignored_##name),
        COP_IGNORES(IGNORED)
#undef IGNORED
            cmocka_unit_test(test_ignored_without_payload),
        cmocka_unit_test(test_ignored_malformed_ask),
        cmocka_unit_test(test_ignored_malformed_answer),
        cmocka_unit_test(test_claims_about_my_own_future_are_not_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
