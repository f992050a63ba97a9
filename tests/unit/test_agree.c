/* SPDX-License-Identifier: Apache-2.0 */
#include "agree/agree.h"
#include "failing_alloc.h"
#include "node/node.h"
#include "wire/messages.h"

#include <coppice/agree.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

/*
 * Agreement among a few real nodes, with the order of events in the test's hand: operations,
 * what a caller can do wrong, deadlines, what a peer can send, and memory running out.
 */
#define N 4u
#define ITEMS 1024u
#define ENDS 64u

struct end {
    cop_id id;
    uint64_t token;
    int status;
    struct cop_buf *result;
};

struct net {
    struct cop_view *view;
    struct cop_stats stats;
    struct cop_node *nodes[N]; /* NULL: dead */
    struct cop_effects effects;
    struct cop_frame items[ITEMS];
    uint32_t item_count;
    struct end ends[ENDS];
    uint32_t end_count;
    enum { NOTHING, CLOSED, REFUSED } hears[N][N]; /* yet to, the first of the second */
    cop_time now;
    bool unchecked;
};

static int longest(const void *left, uint32_t left_length, const void *right,
                   uint32_t right_length, void *out, uint32_t *out_length)
{
    bool take_left =
        left_length > right_length ||
        (left_length == right_length && memcmp(left, right, left_length) >= 0);
    *out_length = take_left ? left_length : right_length;
    memcpy(out, take_left ? left : right, *out_length);
    return 0;
}

static int refuse(const void *left, uint32_t left_length, const void *right,
                  uint32_t right_length, void *out, uint32_t *out_length)
{
    (void)left;
    (void)left_length;
    (void)right;
    (void)right_length;
    (void)out;
    *out_length = 0;
    return COP_ERANGE;
}

static const struct cop_operation operations[] = {{"longest", longest},
                                                  {"refuse", refuse}};

/* ---- the network ----------------------------------------------------------------- */

static void crash(struct net *net, cop_id id)
{
    cop_node_destroy(net->nodes[id]);
    net->nodes[id] = NULL;
    for (cop_id other = 0; other < N; other++)
        net->hears[other][id] = CLOSED;
}

static void carry(struct net *net, cop_id id, const struct cop_effect *effect)
{
    if (effect->kind == COP_EFFECT_SEND) {
        assert_true(net->item_count < ITEMS);
        net->items[net->item_count] = effect->frame;
        cop_buf_ref(net->items[net->item_count++].payload);
    } else if (effect->kind == COP_EFFECT_COMPLETE) {
        assert_true(net->end_count < ENDS);
        net->ends[net->end_count++] = (struct end){id, effect->token, effect->status,
                                                   cop_buf_ref(effect->result)};
    }
    if ((effect->kind == COP_EFFECT_CONNECT || effect->kind == COP_EFFECT_SEND) &&
        !net->nodes[effect->peer])
        net->hears[id][effect->peer] = REFUSED;
}

static int event(struct net *net, cop_id id, struct cop_event *given)
{
    given->now = net->now;
    if (!net->nodes[id])
        return COP_ELOST;
    int status = cop_step(net->nodes[id], given, &net->effects);
    if (status == COP_ENOMEM) {
        failing_alloc_off();
        net->unchecked = false;
        crash(net, id);
        return status;
    }
    for (uint32_t i = 0; i < net->effects.count; i++)
        carry(net, id, &net->effects.items[i]);
    if (!net->unchecked)
        assert_null(cop_node_check(net->nodes[id]));
    return status;
}

static void down(struct net *net, cop_id id, cop_id peer)
{
    struct cop_event gone = {.kind = COP_EVENT_PEER_DOWN,
                             .peer = peer,
                             .incarnation = 1,
                             .why = net->hears[id][peer] == CLOSED ? COP_DOWN_CLOSED
                                                                   : COP_DOWN_REFUSED};
    net->hears[id][peer] = NOTHING;
    event(net, id, &gone);
}

static bool hear(struct net *net)
{
    for (cop_id id = 0; id < N; id++)
        for (cop_id peer = 0; peer < N; peer++)
            if (net->nodes[id] && !net->nodes[peer] && net->hears[id][peer]) {
                down(net, id, peer);
                return true;
            }
    return false;
}

static void deliver_first(struct net *net)
{
    struct cop_frame frame = net->items[0];
    struct cop_event recv = {
        .kind = COP_EVENT_RECV, .peer = frame.header.sender, .frame = &frame};
    net->item_count--;
    memmove(net->items, net->items + 1, net->item_count * sizeof *net->items);
    event(net, frame.header.receiver, &recv);
    cop_buf_unref(frame.payload);
}

/* Everything that is under way, then who is gone, then time, a few seconds of it. */
static void settle(struct net *net)
{
    for (int turn = 0; turn < 120; turn++) {
        while (net->item_count > 0)
            deliver_first(net);
        if (hear(net))
            continue;
        net->now += 25 * COP_MSEC;
        for (cop_id id = 0; id < N; id++) {
            struct cop_event tick = {.kind = COP_EVENT_TICK};
            if (net->nodes[id] && cop_deadline(net->nodes[id]) <= net->now)
                event(net, id, &tick);
        }
    }
}

static struct net *create(void)
{
    struct net *net = calloc(1, sizeof *net);
    struct cop_shape shape;
    assert_non_null(net);
    net->now = COP_SEC;
    assert_int_equal(cop_shape_make(COP_SHAPE_CHAIN, 0, &shape), 0);
    assert_int_equal(cop_view_create_static(N, &shape, 1, &net->view), 0);
    return net;
}

static void start(struct net *net, enum cop_quorum quorum)
{
    for (cop_id id = 0; id < N; id++) {
        struct cop_config config = {.self = id,
                                    .incarnation = 1,
                                    .view = net->view,
                                    .stats = &net->stats,
                                    .now = net->now,
                                    .quorum = quorum,
                                    .operations = operations,
                                    .operation_count = 2};
        struct cop_event tick = {.kind = COP_EVENT_TICK};
        if (cop_node_create(&config, &net->nodes[id]) != 0) {
            failing_alloc_off();
            net->unchecked = false;
            net->nodes[id] = NULL; /* it was never there */
        }
        event(net, id, &tick);
    }
}

static struct net *create_started(void)
{
    struct net *net = create();
    start(net, COP_QUORUM_NONE);
    return net;
}

static void destroy(struct net *net)
{
    for (cop_id id = 0; id < N; id++)
        cop_node_destroy(net->nodes[id]);
    for (uint32_t i = 0; i < net->item_count; i++)
        cop_buf_unref(net->items[i].payload);
    for (uint32_t i = 0; i < net->end_count; i++)
        cop_buf_unref(net->ends[i].result);
    cop_effects_free(&net->effects);
    cop_view_unref(net->view);
    free(net);
}

/* ---- requests -------------------------------------------------------------------- */

static int submit(struct net *net, cop_id id, const struct cop_request *request)
{
    struct cop_event given = {.kind = COP_EVENT_SUBMIT, .request = request};
    return event(net, id, &given);
}

static int make(struct net *net, cop_id id, const struct cop_agree_group *group)
{
    struct cop_request request = {
        .kind = COP_REQUEST_AGREE_GROUP, .token = 1000, .new_group = group};
    return submit(net, id, &request);
}

static void make_all(struct net *net, const struct cop_agree_group *group)
{
    for (cop_id id = 0; id < N; id++)
        if (net->nodes[id])
            make(net, id, group);
}

static int call(struct net *net, cop_id id, uint64_t token, uint32_t op,
                enum cop_value_type type, const void *bytes, uint32_t length)
{
    struct cop_request request = {.kind = COP_REQUEST_AGREE,
                                  .token = token,
                                  .group = 7,
                                  .op = op,
                                  .type = type,
                                  .bytes = bytes,
                                  .length = length};
    return submit(net, id, &request);
}

static int call_word(struct net *net, cop_id id, uint64_t token, uint32_t op,
                     uint64_t word)
{
    return call(net, id, token, op, COP_VALUE_WORDS, &word, sizeof word);
}

/* How it ended at a node: the status, and the result, if there is one. */
static int end_of(const struct net *net, cop_id id, uint64_t token,
                  struct cop_agreed *out)
{
    const struct end *found = NULL;
    for (uint32_t i = 0; i < net->end_count; i++) {
        if (net->ends[i].id != id || net->ends[i].token != token)
            continue;
        assert_null(found);
        found = &net->ends[i];
    }
    if (!found)
        return 1;
    if (found->result && out)
        assert_int_equal(cop_agreed(found->result, out), 0);
    return found->status;
}

static void expect_word(const struct net *net, uint64_t token, uint64_t word,
                        uint32_t failed)
{
    for (cop_id id = 0; id < N; id++) {
        struct cop_agreed agreed;
        if (!net->nodes[id])
            continue;
        assert_int_equal(end_of(net, id, token, &agreed), 0);
        assert_int_equal(agreed.group, 7);
        assert_int_equal(cop_agreed_word(&agreed, 0), word);
        assert_int_equal(cop_agreed_word(&agreed, 1), 0);
        assert_int_equal(agreed.failed.count, failed);
        cop_agreed_free(&agreed);
    }
}

/* ---- operations ------------------------------------------------------------------ */

static void test_words(void **state)
{
    (void)state;
    static const struct {
        uint32_t op;
        uint64_t values[N], result;
    } cases[] = {
        {COP_AGREE_AND, {15, 7, 13, 5}, 5},
        {COP_AGREE_OR, {1, 2, 4, 16}, 23},
        {COP_AGREE_SUM, {1, UINT64_MAX, 5, 10}, 15},
        {COP_AGREE_MIN, {9, 4, 3, UINT64_MAX}, 3},
        {COP_AGREE_MAX, {9, 4, UINT64_C(1) << 63, 8}, UINT64_C(1) << 63},
    };
    struct net *net = create_started();
    make_all(net, &(struct cop_agree_group){.number = 7});
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (cop_id id = 0; id < N; id++)
            assert_int_equal(call_word(net, id, i, cases[i].op, cases[i].values[id]),
                             0);
        settle(net);
        expect_word(net, i, cases[i].result, 0);
    }
    destroy(net);
}

static void expect_bytes(struct net *net, uint64_t token, uint32_t op,
                         const char *const values[N], const char *result)
{
    for (cop_id id = 0; id < N; id++)
        assert_int_equal(call(net, id, token, op, COP_VALUE_BYTES, values[id],
                              (uint32_t)strlen(values[id])),
                         0);
    settle(net);
    for (cop_id id = 0; id < N; id++) {
        struct cop_agreed agreed;
        assert_int_equal(end_of(net, id, token, &agreed), 0);
        assert_int_equal(agreed.length, strlen(result));
        assert_memory_equal(agreed.value, result, agreed.length);
        cop_agreed_free(&agreed);
    }
}

static void test_bytes(void **state)
{
    (void)state;
    struct net *net = create_started();
    make_all(net,
             &(struct cop_agree_group){.number = 7, .algorithm = COP_AGREE_STRICT});
    expect_bytes(net, 1, COP_AGREE_MIN,
                 (const char *const[N]){"pear", "apple", "app", "fig"}, "app");
    expect_bytes(net, 2, COP_AGREE_MAX,
                 (const char *const[N]){"pear", "apple", "pea", "fig"}, "pear");
    expect_bytes(net, 3, COP_AGREE_OR, (const char *const[N]){"a", "b", "`", "d"}, "g");
    expect_bytes(net, 4, COP_AGREE_AND, (const char *const[N]){"ag", "cf", "ad", "cd"},
                 "ad");
    expect_bytes(net, 5, COP_AGREE_SUM,
                 (const char *const[N]){"!", "!", "\x01", "\x02"}, "E");
    expect_bytes(net, 6, COP_AGREE_USER,
                 (const char *const[N]){"one", "three", "four", "seven"}, "three");
    destroy(net);
}

/* Who does not fit is everybody's error, and the next agreement is as good as any. */
static void test_values_that_do_not_fit(void **state)
{
    (void)state;
    struct net *net = create_started();
    make_all(net, &(struct cop_agree_group){.number = 7});
    uint64_t two[2] = {1, 2};
    for (cop_id id = 0; id < N; id++)
        assert_int_equal(
            call(net, id, 1, COP_AGREE_SUM, COP_VALUE_WORDS, two, id == 3 ? 16 : 8), 0);
    for (cop_id id = 0; id < N; id++)
        assert_int_equal(call_word(net, id, 99, COP_AGREE_SUM, 1), COP_EAGAIN);
    settle(net);
    for (cop_id id = 0; id < N; id++)
        assert_int_equal(call(net, id, 2, id == 2 ? COP_AGREE_MIN : COP_AGREE_SUM,
                              COP_VALUE_WORDS, two, 8),
                         0);
    settle(net);
    for (cop_id id = 0; id < N; id++)
        assert_int_equal(call(net, id, 3, COP_AGREE_USER + 1, COP_VALUE_BYTES, two, 3),
                         0);
    settle(net);
    for (cop_id id = 0; id < N; id++)
        assert_int_equal(call(net, id, 4, COP_AGREE_SUM, COP_VALUE_BYTES, NULL, 0), 0);
    settle(net);
    for (cop_id id = 0; id < N; id++) {
        struct cop_agreed agreed;
        assert_int_equal(end_of(net, id, 1, NULL), COP_EINVAL);
        assert_int_equal(end_of(net, id, 2, NULL), COP_EINVAL);
        assert_int_equal(end_of(net, id, 3, NULL), COP_ERANGE);
        assert_int_equal(end_of(net, id, 4, &agreed), 0);
        assert_null(agreed.value);
        assert_int_equal(agreed.number, 4);
        cop_agreed_free(&agreed);
    }
    destroy(net);
}

/* ---- callers --------------------------------------------------------------------- */

static void test_groups_that_cannot_be(void **state)
{
    (void)state;
    struct net *net = create_started();
    struct cop_life lives[2] = {{0, 1}, {1, 1}};
    struct cop_agree_group group = {.number = 7, .members = lives, .count = 2};
    assert_int_equal(make(net, 0, &group), 0);
    assert_int_equal(make(net, 0, &group), COP_EEXIST);
    assert_int_equal(make(net, 2, &group), COP_EINVAL); /* not in it */
    lives[1].id = N - 1;
    assert_int_equal(make(net, 1, &group), COP_EINVAL); /* between two of it */
    assert_int_equal(make(net, N - 1, &group), 0);
    group.number = 8;
    lives[1].incarnation = 2; /* nobody knows of that life */
    assert_int_equal(make(net, 0, &group), COP_EINVAL);
    lives[1] = (struct cop_life){0, 1}; /* twice */
    assert_int_equal(make(net, 0, &group), COP_EINVAL);
    lives[1] = (struct cop_life){9, 1}; /* no such member */
    assert_int_equal(make(net, 0, &group), COP_EINVAL);
    group = (struct cop_agree_group){.number = 8, .window = COP_AGREE_WINDOW_MAX + 1};
    assert_int_equal(make(net, 0, &group), COP_EINVAL);
    group.window = 0;
    group.algorithm = (enum cop_algorithm)COP_ALGORITHMS;
    assert_int_equal(make(net, 0, &group), COP_EINVAL);
    group.algorithm = COP_AGREE_EARLY;
    group.shape = (struct cop_shape){.kind = COP_SHAPE_KARY, .k = 1};
    assert_int_equal(make(net, 0, &group), COP_EINVAL);
    group = (struct cop_agree_group){.number = 8, .members = lives, .count = 0};
    assert_int_equal(make(net, 0, &group), COP_EINVAL);
    assert_int_equal(make(net, 0, NULL), COP_EINVAL);
    destroy(net);
}

/* A list is the same group as the view that it lists. */
static void test_a_group_by_list_and_by_view(void **state)
{
    (void)state;
    struct net *net = create_started();
    static const struct cop_life all[N] = {{0, 1}, {1, 1}, {2, 1}, {3, 1}};
    struct cop_agree_group group = {.number = 7, .count = N};
    for (cop_id id = 0; id < N; id++) {
        group.members = id % 2 ? all : NULL;
        assert_int_equal(make(net, id, &group), 0);
        assert_int_equal(call_word(net, id, 1, COP_AGREE_SUM, id), 0);
    }
    settle(net);
    expect_word(net, 1, 0 + 1 + 2 + 3, 0);
    destroy(net);
}

static void test_calls_that_cannot_be(void **state)
{
    (void)state;
    struct net *net = create_started();
    char large[8] = {0};
    assert_int_equal(call_word(net, 0, 1, COP_AGREE_SUM, 1), COP_EINVAL); /* no group */
    make_all(net, &(struct cop_agree_group){.number = 7});
    assert_int_equal(call_word(net, 0, 1, COP_AGREE_MAX + 1, 1), COP_EINVAL);
    assert_int_equal(call_word(net, 0, 1, COP_AGREE_USER + 2, 1), COP_EINVAL);
    assert_int_equal(call(net, 0, 1, COP_AGREE_SUM, COP_VALUE_WORDS, large, 7),
                     COP_EINVAL);
    assert_int_equal(call(net, 0, 1, COP_AGREE_SUM, COP_VALUE_BYTES, NULL, 7),
                     COP_EINVAL);
    assert_int_equal(
        call(net, 0, 1, COP_AGREE_SUM, COP_VALUE_BYTES, large, COP_VALUE_MAX + 1),
        COP_EINVAL);
    destroy(net);
    net = create();
    start(net, COP_QUORUM_FIXED); /* without views there is no such layer */
    assert_int_equal(make(net, 0, &(struct cop_agree_group){.number = 7}), COP_EINVAL);
    destroy(net);
}

/* Who gives up waiting has still voted: the others get its value, and it the next one. */
static void test_deadline_and_abort(void **state)
{
    (void)state;
    struct net *net = create_started();
    make_all(net, &(struct cop_agree_group){.number = 7, .window = 2});
    struct cop_request request = {.kind = COP_REQUEST_AGREE,
                                  .token = 1,
                                  .timeout_ns = 50 * COP_MSEC,
                                  .group = 7,
                                  .op = COP_AGREE_SUM,
                                  .bytes = &(uint64_t){5},
                                  .length = 8};
    assert_int_equal(submit(net, 3, &request), 0);
    settle(net);
    assert_int_equal(end_of(net, 3, 1, NULL), COP_ETIMEDOUT);
    request.timeout_ns = 0;
    request.token = 2;
    assert_int_equal(submit(net, 3, &request), 0);
    request.token = 3;
    assert_int_equal(submit(net, 3, &request), COP_EAGAIN);
    struct cop_request end = {.kind = COP_REQUEST_ABORT, .token = 50, .target = 2};
    assert_int_equal(submit(net, 3, &end), 0);
    assert_int_equal(end_of(net, 3, 2, NULL), COP_EABORTED);
    assert_int_not_equal(submit(net, 3, &end), 0); /* it is over */
    for (cop_id id = 0; id < 3; id++) {
        assert_int_equal(call_word(net, id, 1, COP_AGREE_SUM, 1), 0);
        assert_int_equal(call_word(net, id, 2, COP_AGREE_SUM, 2), 0);
    }
    settle(net);
    for (cop_id id = 0; id < N; id++)
        assert_int_equal(call_word(net, id, 3, COP_AGREE_SUM, 3), 0);
    settle(net);
    for (cop_id id = 0; id < 3; id++) {
        struct cop_agreed agreed;
        assert_int_equal(end_of(net, id, 1, &agreed), 0);
        assert_int_equal(cop_agreed_word(&agreed, 0), 8);
        cop_agreed_free(&agreed);
    }
    expect_word(net, 3, 12, 0);
    destroy(net);
}

/* ---- deaths ---------------------------------------------------------------------- */

static void call_all(struct net *net, uint64_t token, uint64_t word)
{
    for (cop_id id = 0; id < N; id++)
        if (net->nodes[id])
            call_word(net, id, token, COP_AGREE_SUM, word);
}

static void test_a_root_dies(void **state)
{
    (void)state;
    struct net *net = create_started();
    make_all(net, &(struct cop_agree_group){.number = 7});
    call_word(net, 1, 1, COP_AGREE_SUM, 10);
    call_word(net, 2, 1, COP_AGREE_SUM, 10);
    call_word(net, 3, 1, COP_AGREE_SUM, 10);
    crash(net, 0);
    settle(net);
    expect_word(net, 1, 30, 1);
    crash(net, 2);
    call_all(net, 2, 1);
    settle(net);
    expect_word(net, 2, 2, 2);
    call_all(net, 3, 4); /* and the failures stay agreed upon */
    settle(net);
    expect_word(net, 3, 8, 2);
    destroy(net);
}

/* Delivers the votes, and nothing else; the rest keeps its order. */
static void deliver_votes(struct net *net)
{
    for (uint32_t i = 0; i < net->item_count;) {
        if (net->items[i].header.kind != COP__KIND_VOTE) {
            i++;
            continue;
        }
        struct cop_frame vote = net->items[i];
        memmove(net->items + 1, net->items, i * sizeof vote);
        net->items[0] = vote;
        deliver_first(net);
        i = 0;
    }
}

/* Only 2 knows that 3 is dead, and votes with 3's vote in its hands: the root waits until a
 * view says whether that is so. */
static void test_a_suspicion_is_resolved_first(void **state)
{
    (void)state;
    struct net *net = create_started();
    make_all(net, &(struct cop_agree_group){.number = 7});
    call_word(net, 0, 1, COP_AGREE_SUM, 1);
    call_word(net, 1, 1, COP_AGREE_SUM, 1);
    call_word(net, 3, 1, COP_AGREE_SUM, 1);
    deliver_votes(net);
    crash(net, 3);
    while (net->hears[2][3] != NOTHING)
        down(net, 2, 3);
    call_word(net, 2, 1, COP_AGREE_SUM, 1);
    deliver_votes(net);
    assert_int_equal(end_of(net, 0, 1, NULL), 1);
    settle(net);
    expect_word(net, 1, 3, 1);
    destroy(net);
}

/* Two-phase commit: the coordinator dies with the last vote on its way to it. */
static void expect_doubt(bool promote, bool voted, int status)
{
    struct net *net = create_started();
    make_all(net, &(struct cop_agree_group){
                      .number = 7, .algorithm = COP_AGREE_TREE, .promote = promote});
    for (cop_id id = 1; id < N; id++)
        if (voted || id != 2)
            call_word(net, id, 1, COP_AGREE_SUM, 10);
    while (net->item_count > 0 && net->items[0].header.receiver != 0)
        deliver_first(net);
    crash(net, 0);
    settle(net);
    if (!voted) {
        call_word(net, 2, 1, COP_AGREE_SUM, 10);
        settle(net);
    }
    for (cop_id id = 1; id < N; id++) {
        struct cop_agreed agreed;
        assert_int_equal(end_of(net, id, 1, &agreed), status);
        assert_null(agreed.value);
        assert_int_equal(agreed.failed.count, 1);
        assert_int_equal(agreed.failed.items[0], 0);
        cop_agreed_free(&agreed);
    }
    call_all(net, 2, 1); /* the next has another coordinator */
    settle(net);
    expect_word(net, 2, 3, 1);
    destroy(net);
}

static void test_doubt(void **state)
{
    (void)state;
    expect_doubt(false, true, COP_UNCERTAIN);
    expect_doubt(true, true, COP_UNDECIDED);
    expect_doubt(false, false, COP_UNDECIDED);
}

static void test_allreduce_dies(void **state)
{
    (void)state;
    struct net *net = create_started();
    make_all(net,
             &(struct cop_agree_group){.number = 7, .algorithm = COP_AGREE_ALLREDUCE});
    call_all(net, 1, 1);
    settle(net);
    expect_word(net, 1, 4, 0);
    crash(net, 2);
    call_all(net, 2, 1);
    settle(net);
    for (cop_id id = 0; id < N; id++)
        if (net->nodes[id])
            assert_int_equal(end_of(net, id, 2, NULL), COP_ELOST);
    destroy(net);
}

/* STRICT: who dies after it returned leaves its value to everyone. The chain is 0-1-2-3;
 * everybody keeps the decision, 0 releases it to nobody but itself. */
static void test_strict_survives_its_root(void **state)
{
    (void)state;
    struct net *net = create_started();
    make_all(net,
             &(struct cop_agree_group){.number = 7, .algorithm = COP_AGREE_STRICT});
    call_all(net, 1, 1);
    while (net->item_count > 0 && net->items[0].header.kind != COP__KIND_DECIDE)
        deliver_first(net);
    assert_int_equal(net->item_count, 1);
    assert_int_equal(end_of(net, 0, 1, NULL), 0);
    cop_buf_unref(net->items[0].payload); /* nobody hears of it */
    net->item_count = 0;
    crash(net, 0);
    settle(net);
    expect_word(net, 1, 4, 0); /* with the value of 0, and without its failure */
    destroy(net);
}

/* ---- what a peer can send -------------------------------------------------------- */

static void recv(struct net *net, cop_id from, cop_id to, enum cop__kind kind,
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
    event(net, to, &given);
    cop_buf_unref(payload);
}

#define EXPECT_IGNORED(net, field, action)                                             \
    do {                                                                               \
        uint64_t before_ = (net)->stats.ignored_##field;                               \
        action;                                                                        \
        assert_int_equal((net)->stats.ignored_##field, before_ + 1);                   \
    } while (0)

static uint64_t digest_of_group(struct net *net)
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
    struct net *net = create_started();
    cop_epoch epoch = cop_view_epoch(net->view);
    make_all(net, &(struct cop_agree_group){.number = 7});
    call_word(net, 3, 1, COP_AGREE_SUM, 1);
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
    destroy(net);
}

static void test_decisions_that_are_ignored(void **state)
{
    (void)state;
    struct net *net = create_started();
    cop_epoch epoch = cop_view_epoch(net->view);
    make_all(net,
             &(struct cop_agree_group){.number = 7, .algorithm = COP_AGREE_STRICT});
    call_all(net, 1, 1);
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
    settle(net);
    bad = decide;
    EXPECT_IGNORED(net, repeated, DECIDE(0));
#undef DECIDE
    expect_word(net, 1, 4, 0);
    destroy(net);
}

/* A frame of a view, or of a group, that I do not have yet waits for it. */
static void test_frames_that_come_early(void **state)
{
    (void)state;
    struct net *net = create_started();
    struct cop_agree_group group = {.number = 7};
    for (cop_id id = 1; id < N; id++) {
        assert_int_equal(make(net, id, &group), 0);
        assert_int_equal(call_word(net, id, 1, COP_AGREE_SUM, 1), 0);
    }
    settle(net);
    assert_int_equal(end_of(net, 1, 1, NULL), 1);
    assert_int_equal(make(net, 0, &group), 0);
    assert_int_equal(call_word(net, 0, 1, COP_AGREE_SUM, 1), 0);
    settle(net);
    expect_word(net, 1, 4, 0);
    destroy(net);
}

static void test_results_that_are_none(void **state)
{
    (void)state;
    struct net *net = create_started();
    make_all(net, &(struct cop_agree_group){.number = 7});
    call_all(net, 1, 1);
    settle(net);
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
    destroy(net);
}

/* ---- giving groups back ----------------------------------------------------------- */

static int give_back(struct net *net, cop_id id, uint64_t number)
{
    struct cop_request request = {
        .kind = COP_REQUEST_AGREE_FREE, .token = 2000 + number, .group = number};
    return submit(net, id, &request);
}

static uint32_t count_groups(const struct net *net, uint64_t number)
{
    uint32_t count = 0;
    for (cop_id id = 0; id < N; id++)
        count += net->nodes[id] && cop__agree_has_group(net->nodes[id], number);
    return count;
}

static void test_groups_are_given_back(void **state)
{
    (void)state;
    struct net *net = create_started();
    assert_int_equal(give_back(net, 0, 7), COP_EINVAL);
    make_all(net, &(struct cop_agree_group){.number = 7});
    call_all(net, 1, 1);
    /* What is under way goes on, and the last one to say so ends it for all. */
    for (cop_id id = 0; id + 1 < N; id++)
        assert_int_equal(give_back(net, id, 7), 0);
    assert_int_equal(give_back(net, 0, 7), COP_EINVAL);
    assert_int_equal(call_word(net, 0, 2, COP_AGREE_SUM, 1), COP_EINVAL);
    settle(net);
    expect_word(net, 1, N, 0);
    assert_int_equal(count_groups(net, 7), N);
    assert_int_equal(give_back(net, N - 1, 7), 0);
    settle(net);
    assert_int_equal(count_groups(net, 7), 0);
    assert_int_equal(make(net, 0, &(struct cop_agree_group){.number = 7}), COP_EEXIST);
    destroy(net);
}

/* 0 tells some that all are done, and dies. Who was told has no group any more: 1, in a chain,
 * when 2 votes to it; 3, in a flat tree, when 1 waits for its vote. */
static void test_the_root_gives_it_back_and_dies(void **state)
{
    (void)state;
    for (uint32_t delivered = 0; delivered < 9; delivered++) {
        struct net *net = create_started();
        struct cop_agree_group group = {.number = 7};
        bool flat = delivered == 8;
        if (flat)
            group.shape.kind = COP_SHAPE_FLAT;
        make_all(net, &group);
        for (cop_id id = N; id-- > 0;)
            give_back(net, id, 7);
        for (uint32_t i = 0; !flat && i < delivered && net->item_count > 0; i++)
            deliver_first(net);
        if (flat)
            deliver_votes(net);
        for (uint32_t i = net->item_count; flat && i-- > 0;)
            if (net->items[i].header.receiver != 3) {
                cop_buf_unref(net->items[i].payload);
                net->items[i] = net->items[--net->item_count];
            }
        crash(net, 0);
        settle(net);
        assert_int_equal(count_groups(net, 7), 0);
        destroy(net);
    }
}

static void test_numbers_that_are_over(void **state)
{
    (void)state;
    struct net *net = create_started();
    static const uint64_t order[] = {3, 1, 2, 9, 8, 5};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        make_all(net, &(struct cop_agree_group){.number = order[i]});
        for (cop_id id = 0; id < N; id++)
            give_back(net, id, order[i]);
        settle(net);
    }
    for (uint64_t number = 0; number < 12; number++) {
        bool over =
            (number >= 1 && number <= 3) || number == 5 || number == 8 || number == 9;
        assert_int_equal(make(net, 0, &(struct cop_agree_group){.number = number}),
                         over ? COP_EEXIST : 0);
    }
    destroy(net);
}

/* ---- out of memory --------------------------------------------------------------- */

/* One run in which the n-th allocation fails: who was unlucky is dead, the others agree. */
static bool run_short(size_t nth, enum cop_algorithm algorithm)
{
    struct net *net = create();
    net->unchecked = true;
    failing_alloc_after(nth);
    start(net, COP_QUORUM_NONE);
    make_all(net, &(struct cop_agree_group){.number = 7, .algorithm = algorithm});
    call_all(net, 1, 1);
    for (int i = 0; i < 3 && net->item_count > 0; i++)
        deliver_first(net);
    if (net->nodes[0])
        crash(net, 0);
    settle(net);
    for (cop_id id = 0; id < N; id++)
        if (net->nodes[id])
            give_back(net, id, 7);
    settle(net);
    bool hit = failing_alloc_hit();
    failing_alloc_off();
    net->unchecked = false;
    uint64_t value = 0;
    for (cop_id id = 1; id < N; id++) {
        struct cop_agreed agreed;
        if (!net->nodes[id])
            continue;
        int status = end_of(net, id, 1, &agreed);
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
    destroy(net);
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
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_values_that_do_not_fit),
        cmocka_unit_test(test_groups_that_cannot_be),
        cmocka_unit_test(test_a_group_by_list_and_by_view),
        cmocka_unit_test(test_calls_that_cannot_be),
        cmocka_unit_test(test_deadline_and_abort),
        cmocka_unit_test(test_a_root_dies),
        cmocka_unit_test(test_a_suspicion_is_resolved_first),
        cmocka_unit_test(test_doubt),
        cmocka_unit_test(test_allreduce_dies),
        cmocka_unit_test(test_strict_survives_its_root),
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
