/* SPDX-License-Identifier: Apache-2.0 */
#include "agreenet.h"
#include "failing_alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

/*
 * Agreement among a few real nodes: what a peer can send, groups that are given back, and
 * memory running out.
 */
/* ---- what a peer can send -------------------------------------------------------- */

static void recv(struct agreenet *net, cop_id from, cop_id to, enum cop__kind kind,
                 cop_epoch epoch, struct cop_buf *payload)
{
    assert_non_null(payload);
    struct cop_frame frame = {.header = {.kind = (uint16_t)kind,
                                         .sender = from,
                                         .receiver = to,
                                         .sender_incarnation = 1,
                                         .receiver_incarnation = 1,
                                         .epoch = epoch,
                                         .length = payload->length},
                              .payload = payload};
    struct cop_event given = {.kind = COP_EVENT_RECV, .peer = from, .frame = &frame};
    agreenet_event(net, to, &given);
    cop_buf_unref(payload);
}

#define EXPECT_IGNORED(net, field, action)                                             \
    do {                                                                               \
        uint64_t before_ = (net)->stats.ignored_##field;                               \
        action;                                                                        \
        assert_int_equal((net)->stats.ignored_##field, before_ + 1);                   \
    } while (0)

static uint64_t digest_of_group(struct agreenet *net)
{
    for (uint32_t i = 0; i < net->item_count; i++) {
        struct cop__msg_vote vote;
        if (net->items[i].header.kind == COP__KIND_VOTE &&
            cop__decode_vote(net->items[i].payload->data, net->items[i].payload->length,
                             &vote) == 0)
            return vote.digest;
    }
    fail();
    return 0;
}

static void test_votes_that_are_ignored(void **state)
{
    (void)state;
    struct agreenet *net = agreenet_create_started();
    cop_epoch epoch = cop_view_epoch(net->view);
    agreenet_make_all(net, &(struct cop_agree_group){.number = 7});
    agreenet_call_word(net, 3, 1, COP_AGREE_SUM, 1);
    struct cop__msg_vote vote = {
        .group = 7, .number = 1, .digest = digest_of_group(net), .op = COP_AGREE_SUM};
    vote.value = (struct cop__bytes){(const uint8_t *)"12345678", 8};
    struct cop__msg_vote bad = vote;
#define VOTE(from) recv(net, from, 1, COP__KIND_VOTE, epoch, cop__encode_vote(&bad))
    EXPECT_IGNORED(net, not_below, VOTE(3)); /* its parent is 2 */
    bad.digest++;
    EXPECT_IGNORED(net, malformed, VOTE(2));
    bad = vote;
    bad.flags = 3;
    EXPECT_IGNORED(net, malformed, VOTE(2));
    bad = vote;
    bad.op = 77;
    EXPECT_IGNORED(net, malformed, VOTE(2));
    bad = vote;
    bad.value.length = 7;
    EXPECT_IGNORED(net, malformed, VOTE(2));
    bad = vote;
    bad.round = epoch + 1;
    EXPECT_IGNORED(net, malformed, VOTE(2));
    bad = vote;
    bad.number = 1000;
    EXPECT_IGNORED(net, repeated, VOTE(2));
    bad.number = 0;
    EXPECT_IGNORED(net, repeated, VOTE(2));
    bad = vote;
    bad.flags = 1; /* a decision that is none */
    EXPECT_IGNORED(net, malformed, VOTE(2));
    bad = vote;
    VOTE(2);
    EXPECT_IGNORED(net, repeated, VOTE(2));
    recv(net, 2, 1, COP__KIND_VOTE, epoch, cop_buf_copy("x", 1));
#undef VOTE
    agreenet_destroy(net);
}

static void test_decisions_that_are_ignored(void **state)
{
    (void)state;
    struct agreenet *net = agreenet_create_started();
    cop_epoch epoch = cop_view_epoch(net->view);
    agreenet_make_all(
        net, &(struct cop_agree_group){.number = 7, .algorithm = COP_AGREE_STRICT});
    agreenet_call_all(net, 1, 1);
    struct cop__msg_decide decide = {.group = 7, .number = 1, .epoch = epoch};
    struct cop__msg_decide bad = decide;
#define DECIDE(from)                                                                   \
    recv(net, from, 1, COP__KIND_DECIDE, epoch, cop__encode_decide(&bad))
    EXPECT_IGNORED(net, not_ancestor, DECIDE(2)); /* who has my vote is 0 */
    bad.status = 1;
    EXPECT_IGNORED(net, malformed, DECIDE(0));
    bad = decide;
    bad.epoch = epoch + 1;
    EXPECT_IGNORED(net, malformed, DECIDE(0));
    bad = decide;
    bad.failed = (struct cop__list){(const uint8_t *)"\3\0\0\0", 1}; /* it lives */
    EXPECT_IGNORED(net, malformed, DECIDE(0));
    struct cop__msg_lock lock = {.group = 7, .number = 1};
    EXPECT_IGNORED(net, repeated, /* not from above */
                   recv(net, 2, 1, COP__KIND_LOCK, epoch, cop__encode_lock(&lock)));
    struct cop__msg_locked locked = {.group = 7, .number = 1};
    EXPECT_IGNORED(
        net, repeated, /* nothing is locked */
        recv(net, 2, 1, COP__KIND_LOCKED, epoch, cop__encode_locked(&locked)));
    struct cop__msg_query query = {.group = 7, .number = 1};
    EXPECT_IGNORED(net, unasked, /* my vote is all that there is to be said */
                   recv(net, 2, 1, COP__KIND_QUERY, epoch, cop__encode_query(&query)));
    struct cop__msg_standing standing = {.group = 7, .number = 1};
    EXPECT_IGNORED(
        net, unasked,
        recv(net, 2, 1, COP__KIND_STANDING, epoch, cop__encode_standing(&standing)));
    agreenet_settle(net);
    bad = decide;
    EXPECT_IGNORED(net, repeated, DECIDE(0));
#undef DECIDE
    agreenet_expect_word(net, 1, 4, 0);
    agreenet_destroy(net);
}

#define LONG_VALUE (COP_VALUE_MAX / 8)

/* All but the root vote in a group of which that hears later, or never. */
static void vote_without_the_root(struct agreenet *net, uint64_t number, uint32_t words)
{
    static uint64_t value[LONG_VALUE] = {1};
    struct cop_agree_group group = {.number = number};
    struct cop_request request = {.kind = COP_REQUEST_AGREE,
                                  .token = number == 7 ? 1 : number,
                                  .group = number,
                                  .op = COP_AGREE_SUM,
                                  .type = COP_VALUE_WORDS,
                                  .bytes = value,
                                  .length = words * (uint32_t)sizeof *value};
    for (cop_id id = 1; id < AGREENET_NODES; id++) {
        assert_int_equal(agreenet_make(net, id, &group), 0);
        assert_int_equal(agreenet_submit(net, id, &request), 0);
    }
    agreenet_settle(net);
}

/* A frame of a view, or of a group, that I do not have yet waits for it; there is room for the latest
 * of them, however many groups there are of which I never hear. */
static void frames_that_come_early(uint64_t others, uint32_t words)
{
    struct agreenet *net = agreenet_create_started();
    struct cop_agree_group group = {.number = 7};
    for (uint64_t number = 100; number < 100 + others; number++) {
        vote_without_the_root(net, number, words);
        agreenet_forget_ends(net);
    }
    vote_without_the_root(net, 7, 1);
    assert_int_equal(agreenet_end_of(net, 1, 1, NULL), 1);
    assert_int_equal(agreenet_make(net, 0, &group), 0);
    assert_int_equal(agreenet_call_word(net, 0, 1, COP_AGREE_SUM, 1), 0);
    agreenet_settle(net);
    agreenet_expect_word(net, 1, 4, 0);
    agreenet_destroy(net);
}

static void test_frames_that_come_early(void **state)
{
    (void)state;
    frames_that_come_early(0, 1);
    frames_that_come_early(4097, 1);
    frames_that_come_early(300, LONG_VALUE);
}

static void test_results_that_are_none(void **state)
{
    (void)state;
    struct agreenet *net = agreenet_create_started();
    agreenet_make_all(net, &(struct cop_agree_group){.number = 7});
    agreenet_call_all(net, 1, 1);
    agreenet_settle(net);
    const struct cop_buf *good = NULL;
    for (uint32_t i = 0; i < net->end_count; i++)
        good = net->ends[i].token == 1 ? net->ends[i].result : good;
    assert_non_null(good);
    for (uint32_t length = 0; length < good->length; length++) {
        struct cop_agreed agreed;
        struct cop_buf *cut = cop_buf_copy(good->data, length);
        assert_int_equal(cop_agreed(cut, &agreed), COP_EMALFORMED);
        cop_buf_unref(cut);
    }
    agreenet_destroy(net);
}

/* ---- giving groups back ----------------------------------------------------------- */

static int give_back(struct agreenet *net, cop_id id, uint64_t number)
{
    struct cop_request request = {
        .kind = COP_REQUEST_AGREE_FREE, .token = 2000 + number, .group = number};
    return agreenet_submit(net, id, &request);
}

static uint32_t count_groups(const struct agreenet *net, uint64_t number)
{
    uint32_t count = 0;
    for (cop_id id = 0; id < AGREENET_NODES; id++)
        count += net->nodes[id] && cop__agree_has_group(net->nodes[id], number);
    return count;
}

static void test_groups_are_given_back(void **state)
{
    (void)state;
    struct agreenet *net = agreenet_create_started();
    assert_int_equal(give_back(net, 0, 7), COP_EINVAL);
    agreenet_make_all(net, &(struct cop_agree_group){.number = 7});
    agreenet_call_all(net, 1, 1);
    /* What is under way goes on, and the last one to say so ends it for all. */
    for (cop_id id = 0; id + 1 < AGREENET_NODES; id++)
        assert_int_equal(give_back(net, id, 7), 0);
    assert_int_equal(give_back(net, 0, 7), COP_EINVAL);
    assert_int_equal(agreenet_call_word(net, 0, 2, COP_AGREE_SUM, 1), COP_EINVAL);
    agreenet_settle(net);
    agreenet_expect_word(net, 1, AGREENET_NODES, 0);
    assert_int_equal(count_groups(net, 7), AGREENET_NODES);
    assert_int_equal(give_back(net, AGREENET_NODES - 1, 7), 0);
    agreenet_settle(net);
    assert_int_equal(count_groups(net, 7), 0);
    assert_int_equal(agreenet_make(net, 0, &(struct cop_agree_group){.number = 7}),
                     COP_EEXIST);
    agreenet_destroy(net);
}

/* 0 tells some that all are done, and dies. Who was told has no group any more: 1, in a chain,
 * when 2 votes to it; 3, in a flat tree, when 1 waits for its vote. */
static void test_the_root_gives_it_back_and_dies(void **state)
{
    (void)state;
    for (uint32_t delivered = 0; delivered < 9; delivered++) {
        struct agreenet *net = agreenet_create_started();
        struct cop_agree_group group = {.number = 7};
        bool flat = delivered == 8;
        if (flat)
            group.shape.kind = COP_SHAPE_FLAT;
        agreenet_make_all(net, &group);
        for (cop_id id = AGREENET_NODES; id-- > 0;)
            give_back(net, id, 7);
        for (uint32_t i = 0; !flat && i < delivered && net->item_count > 0; i++)
            agreenet_deliver_first(net);
        if (flat)
            agreenet_deliver_votes(net);
        for (uint32_t i = net->item_count; flat && i-- > 0;)
            if (net->items[i].header.receiver != 3) {
                cop_buf_unref(net->items[i].payload);
                net->items[i] = net->items[--net->item_count];
            }
        agreenet_crash(net, 0);
        agreenet_settle(net);
        assert_int_equal(count_groups(net, 7), 0);
        agreenet_destroy(net);
    }
}

static void test_numbers_that_are_over(void **state)
{
    (void)state;
    struct agreenet *net = agreenet_create_started();
    static const uint64_t order[] = {3, 1, 2, 9, 8, 5};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        agreenet_make_all(net, &(struct cop_agree_group){.number = order[i]});
        for (cop_id id = 0; id < AGREENET_NODES; id++)
            give_back(net, id, order[i]);
        agreenet_settle(net);
    }
    for (uint64_t number = 0; number < 12; number++) {
        bool over =
            (number >= 1 && number <= 3) || number == 5 || number == 8 || number == 9;
        assert_int_equal(
            agreenet_make(net, 0, &(struct cop_agree_group){.number = number}),
            over ? COP_EEXIST : 0);
    }
    agreenet_destroy(net);
}

/* ---- out of memory --------------------------------------------------------------- */

/* One run in which the n-th allocation fails: who was unlucky is dead, the others agree. */
static bool run_short(size_t nth, enum cop_algorithm algorithm)
{
    struct agreenet *net = agreenet_create();
    net->unchecked = true;
    failing_alloc_after(nth);
    agreenet_start(net, COP_QUORUM_NONE);
    agreenet_make_all(net,
                      &(struct cop_agree_group){.number = 7, .algorithm = algorithm});
    agreenet_call_all(net, 1, 1);
    for (int i = 0; i < 3 && net->item_count > 0; i++)
        agreenet_deliver_first(net);
    if (net->nodes[0])
        agreenet_crash(net, 0);
    agreenet_settle(net);
    for (cop_id id = 0; id < AGREENET_NODES; id++)
        if (net->nodes[id])
            give_back(net, id, 7);
    agreenet_settle(net);
    bool hit = failing_alloc_hit();
    failing_alloc_off();
    net->unchecked = false;
    uint64_t value = 0;
    for (cop_id id = 1; id < AGREENET_NODES; id++) {
        struct cop_agreed agreed;
        if (!net->nodes[id])
            continue;
        int status = agreenet_end_of(net, id, 1, &agreed);
        if (status == 0) {
            uint64_t word = cop_agreed_word(&agreed, 0);
            assert_true(value == 0 || value == word);
            value = word;
        } else {
            if (status != COP_UNDECIDED && status != COP_UNCERTAIN)
                print_error("allocation %zu: %u ends with %d\n", nth, (unsigned)id,
                            status);
            assert_true(status == COP_UNDECIDED || status == COP_UNCERTAIN);
        }
        cop_agreed_free(&agreed);
        assert_null(cop_node_check(net->nodes[id]));
    }
    agreenet_destroy(net);
    return hit;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    for (unsigned algorithm = 0; algorithm < COP_AGREE_LINEAR; algorithm++) {
        size_t live = failing_alloc_live();
        size_t nth = 1;
        while (run_short(nth, (enum cop_algorithm)algorithm)) {
            assert_int_equal(failing_alloc_live(), live);
            nth++;
        }
        assert_true(nth > 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_votes_that_are_ignored),
        cmocka_unit_test(test_decisions_that_are_ignored),
        cmocka_unit_test(test_frames_that_come_early),
        cmocka_unit_test(test_results_that_are_none),
        cmocka_unit_test(test_groups_are_given_back),
        cmocka_unit_test(test_the_root_gives_it_back_and_dies),
        cmocka_unit_test(test_numbers_that_are_over),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
