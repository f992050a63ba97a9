/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/detect.h"

#include "roster/roster.h"
#include "wirenet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* cmocka wants these first */
#include <cmocka.h>

/* kary:2 over 7: node 1 has 0 above it, and 3 and 4 below. */
#define SELF 1u
#define N 7u

static struct wirenet *create(void) { return wirenet_create(N, "kary:2"); }

static enum cop_status status_of(const struct wirenet *net, cop_id at, cop_id about)
{
    return cop_node_belief(net->nodes[at].node, about).status;
}

/* CONNECTs in the effects of the latest step. */
static uint32_t connects_to(const struct wirenet *net, cop_id peer)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < net->effects.count; i++)
        count += net->effects.items[i].kind == COP_EFFECT_CONNECT &&
                 net->effects.items[i].peer == peer;
    return count;
}

static void assert_all_believe(const struct wirenet *net, cop_id about,
                               enum cop_status status)
{
    for (cop_id id = 0; id < net->n; id++)
        if (wirenet_lives(net, id) && status_of(net, id, about) != status)
            fail_msg("node %u does not believe it of %u", (unsigned)id,
                     (unsigned)about);
}

/* ---- evidence -------------------------------------------------------------------- */

static void test_neighbours_are_watched(void **state)
{
    (void)state;
    struct wirenet *net = create();
    for (cop_id id = 0; id < N; id++)
        assert_int_equal(net->wished[SELF][id], id == 0 || id == 3 || id == 4);
    wirenet_destroy(net);
}

/* D1: a connection that closes is tried again; that is all. */
static void test_closed_is_tried_again(void **state)
{
    (void)state;
    struct wirenet *net = create();
    wirenet_down(net, SELF, 3, COP_DOWN_CLOSED);
    assert_int_equal(connects_to(net, 3), 1);
    assert_int_equal(status_of(net, SELF, 3), COP_ALIVE);
    wirenet_down(net, SELF, 6, COP_DOWN_CLOSED); /* nobody here needs it */
    assert_int_equal(net->effects.count, 0);
    assert_int_equal(status_of(net, SELF, 6), COP_ALIVE);
    assert_int_equal(net->nodes[SELF].stats.suspicions, 0);
    wirenet_destroy(net);
}

/* D1, D4: a refusal is a death, and the accused is told, once. */
static void test_refused_is_suspected_and_told(void **state)
{
    (void)state;
    struct wirenet *net = create();
    wirenet_down(net, SELF, 3, COP_DOWN_REFUSED);
    assert_int_equal(status_of(net, SELF, 3), COP_SUSPECT);
    assert_int_equal(wirenet_count(net, SELF, 3, COP__KIND_NEWS), 1);
    const struct wirenet_item *item = wirenet_find(net, SELF, 3, COP__KIND_NEWS);
    struct cop__msg_news news;
    assert_int_equal(
        cop__decode_news(item->frame.payload->data, item->frame.payload->length, &news),
        0);
    assert_int_equal(news.beliefs.count, 1);
    assert_int_equal(cop__belief_at(news.beliefs, 0).id, 3);
    assert_int_equal(cop__belief_at(news.beliefs, 0).status, COP_SUSPECT);
    wirenet_down(net, SELF, 3, COP_DOWN_REFUSED);
    assert_int_equal(wirenet_count(net, SELF, 3, COP__KIND_NEWS), 1);
    assert_int_equal(net->nodes[SELF].stats.suspicions, 1);
    wirenet_destroy(net);
}

/* It is evidence about a member, whether somebody waits for it or not. */
static void test_refused_counts_without_a_watch(void **state)
{
    (void)state;
    struct wirenet *net = create();
    assert_false(cop__is_watched(net->nodes[SELF].node, 6));
    wirenet_down(net, SELF, 6, COP_DOWN_REFUSED);
    assert_int_equal(status_of(net, SELF, 6), COP_SUSPECT);
    assert_int_equal(wirenet_count(net, SELF, 6, COP__KIND_NEWS), 1);
    wirenet_destroy(net);
}

/* D2: silence is not a death. It is tried again later, and once for all who are silent. */
static void test_silent_is_tried_later(void **state)
{
    (void)state;
    struct wirenet *net = create();
    struct cop_event tick = {.kind = COP_EVENT_TICK};
    wirenet_down(net, SELF, 3, COP_DOWN_SILENT);
    wirenet_down(net, SELF, 4, COP_DOWN_SILENT);
    assert_int_equal(net->effects.count, 0);
    wirenet_down(net, SELF, 6, COP_DOWN_SILENT); /* not watched */
    assert_int_equal(cop_deadline(net->nodes[SELF].node), net->now + COP__RETRY_DELAY);
    net->now += COP__RETRY_DELAY - 1;
    wirenet_event(net, SELF, &tick);
    assert_int_equal(net->effects.count, 0);
    net->now += 1;
    wirenet_event(net, SELF, &tick);
    assert_int_equal(net->effects.count, 2);
    assert_int_equal(connects_to(net, 3), 1);
    assert_int_equal(connects_to(net, 4), 1);
    assert_true(cop_deadline(net->nodes[SELF].node) == COP_TIME_NEVER);
    assert_int_equal(net->nodes[SELF].stats.suspicions, 0);
    wirenet_destroy(net);
}

/* Who is not needed any more when the time comes is left alone. */
static void test_silent_and_no_longer_watched(void **state)
{
    (void)state;
    struct wirenet *net = create();
    struct cop_event tick = {.kind = COP_EVENT_TICK};
    wirenet_down(net, SELF, 3, COP_DOWN_SILENT);
    wirenet_tell(net, 0, SELF, (struct cop__belief){3, 1, 0, COP_SUSPECT});
    net->now += COP__NEWS_DELAY;
    wirenet_event(net, SELF, &tick);
    assert_false(net->wished[SELF][3]);
    net->now += COP__RETRY_DELAY;
    wirenet_event(net, SELF, &tick);
    assert_int_equal(connects_to(net, 3), 0);
    wirenet_destroy(net);
}

static void test_evidence_about_strangers_is_none(void **state)
{
    (void)state;
    struct wirenet *net = create();
    static const enum cop_down reasons[] = {COP_DOWN_CLOSED, COP_DOWN_REFUSED,
                                            COP_DOWN_SILENT};
    uint64_t digest = cop_node_digest(net->nodes[SELF].node);
    for (int i = 0; i < 3; i++) {
        wirenet_down(net, SELF, N, reasons[i]);
        assert_int_equal(net->effects.count, 0);
        wirenet_down(net, SELF, SELF, reasons[i]);
        assert_int_equal(net->effects.count, 0);
        wirenet_down(net, SELF, COP_ID_NONE, reasons[i]);
        assert_int_equal(net->effects.count, 0);
    }
    assert_true(cop_node_digest(net->nodes[SELF].node) == digest);
    wirenet_destroy(net);
}

/* D4: a suspect that speaks is told what is said of it, once for each suspicion. */
static void test_who_hears_from_a_suspect_tells_it(void **state)
{
    (void)state;
    struct wirenet *net = create();
    struct cop__msg_news nothing = {0};
    wirenet_tell(net, 0, SELF, (struct cop__belief){6, 1, 0, COP_SUSPECT});
    wirenet_lose_all(net);
    for (int i = 0; i < 3; i++) {
        struct cop_frame frame =
            wirenet_frame(net, 6, SELF, COP__KIND_NEWS, cop__encode_news(&nothing));
        wirenet_recv(net, &frame);
    }
    assert_int_equal(wirenet_count(net, SELF, 6, COP__KIND_NEWS), 1);
    wirenet_tell(net, 0, SELF, (struct cop__belief){6, 1, 1, COP_SUSPECT});
    struct cop_frame frame =
        wirenet_frame(net, 6, SELF, COP__KIND_NEWS, cop__encode_news(&nothing));
    wirenet_recv(net, &frame);
    assert_int_equal(wirenet_count(net, SELF, 6, COP__KIND_NEWS), 2);
    wirenet_destroy(net);
}

/* ---- news ------------------------------------------------------------------------ */

/* D3: what changes within a short time travels together, to every neighbour. */
static void test_news_travels_together(void **state)
{
    (void)state;
    struct wirenet *net = create();
    struct cop_event tick = {.kind = COP_EVENT_TICK};
    wirenet_tell(net, 0, SELF, (struct cop__belief){5, 1, 0, COP_SUSPECT});
    net->now += COP__NEWS_DELAY / 2;
    wirenet_tell(net, 0, SELF, (struct cop__belief){6, 1, 0, COP_SUSPECT});
    assert_int_equal(wirenet_count(net, SELF, COP_ID_NONE, COP__KIND_NEWS), 0);
    net->now += COP__NEWS_DELAY / 2;
    assert_true(cop_deadline(net->nodes[SELF].node) <= net->now);
    wirenet_event(net, SELF, &tick);
    static const cop_id neighbours[] = {0, 3, 4};
    assert_int_equal(wirenet_count(net, SELF, COP_ID_NONE, COP__KIND_NEWS), 3);
    for (int i = 0; i < 3; i++) {
        const struct wirenet_item *item =
            wirenet_find(net, SELF, neighbours[i], COP__KIND_NEWS);
        struct cop__msg_news news;
        assert_non_null(item);
        assert_int_equal(cop__decode_news(item->frame.payload->data,
                                          item->frame.payload->length, &news),
                         0);
        assert_int_equal(news.beliefs.count, 2);
    }
    wirenet_destroy(net);
}

/* D3: for every shape, whoever dies, everyone left hears of it, and they agree. */
static void test_news_reaches_all(void **state)
{
    (void)state;
    static const char *const shapes[] = {"kary:2", "radix:4", "knomial:2", "flat",
                                         "chain"};
    for (size_t shape = 0; shape < sizeof shapes / sizeof *shapes; shape++)
        for (cop_id victim = 0; victim < 12; victim++) {
            struct wirenet *net = wirenet_create(12, shapes[shape]);
            wirenet_crash(net, victim);
            wirenet_advance(net, COP_SEC);
            assert_all_believe(net, victim, COP_SUSPECT);
            wirenet_destroy(net);
        }
}

/* Two who die together, one below the other, must not cut the news off. */
static void test_news_passes_around_the_dead(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(15, "kary:2");
    wirenet_crash(net, 1);
    wirenet_crash(net, 3);
    wirenet_crash(net, 14);
    wirenet_advance(net, COP_SEC);
    assert_all_believe(net, 1, COP_SUSPECT);
    assert_all_believe(net, 3, COP_SUSPECT);
    assert_all_believe(net, 14, COP_SUSPECT);
    /* Those below the dead have found each other: 7 and 8 hang below 0 now. */
    assert_true(net->wished[7][0] && net->wished[0][7]);
    assert_true(net->wished[8][0] && net->wished[0][8]);
    assert_false(net->wished[7][3]);
    wirenet_destroy(net);
}

/* A new neighbour is told everything, not only what changed last. */
static void test_a_new_neighbour_is_told_everything(void **state)
{
    (void)state;
    struct wirenet *net = create();
    struct cop_event tick = {.kind = COP_EVENT_TICK};
    wirenet_tell(net, 1, 0, (struct cop__belief){6, 1, 3, COP_ALIVE});
    net->now += COP__NEWS_DELAY;
    wirenet_event(net, 0, &tick);
    wirenet_lose_all(net);
    wirenet_tell(net, 2, 0, (struct cop__belief){1, 1, 0, COP_SUSPECT});
    net->now += COP__NEWS_DELAY;
    wirenet_event(net, 0, &tick);
    /* 3 and 4 come to 0 in place of 1; 2 was there before. */
    static const struct {
        cop_id to;
        uint32_t beliefs;
    } expected[] = {{3, 2}, {4, 2}, {2, 1}};
    for (int i = 0; i < 3; i++) {
        const struct wirenet_item *item =
            wirenet_find(net, 0, expected[i].to, COP__KIND_NEWS);
        struct cop__msg_news news;
        assert_non_null(item);
        assert_int_equal(cop__decode_news(item->frame.payload->data,
                                          item->frame.payload->length, &news),
                         0);
        assert_int_equal(news.beliefs.count, expected[i].beliefs);
    }
    wirenet_destroy(net);
}

/* D4 and R2 together: whoever is accused falsely, by whomever, is alive to all in the end. */
static void test_a_lie_is_denied_everywhere(void **state)
{
    (void)state;
    for (cop_id liar = 0; liar < N; liar++)
        for (cop_id accused = 0; accused < N; accused++) {
            if (liar == accused)
                continue;
            struct wirenet *net = create();
            wirenet_down(net, liar, accused, COP_DOWN_REFUSED);
            wirenet_advance(net, COP_SEC);
            assert_all_believe(net, accused, COP_ALIVE);
            assert_int_equal(net->nodes[accused].stats.denials, 1);
            for (cop_id id = 0; id < N; id++) {
                assert_int_equal(cop_node_belief(net->nodes[id].node, accused).denial,
                                 1);
                /* The tree is as it was. */
                assert_int_equal(net->wished[SELF][id], id == 0 || id == 3 || id == 4);
            }
            wirenet_destroy(net);
        }
}

/* ---- many ------------------------------------------------------------------------ */

/* More than fits in one frame goes in several, and all of it arrives. */
static void test_news_larger_than_a_frame(void **state)
{
    (void)state;
    enum { MANY = 10000 };
    struct cop_shape shape;
    struct cop_view *view;
    struct cop_node *node;
    struct cop_effects effects = {0};
    assert_int_equal(cop_shape_make(COP_SHAPE_CHAIN, 0, &shape), 0);
    assert_int_equal(cop_view_create_static(MANY, &shape, 1, &view), 0);
    struct cop_config config = {.self = 0, .incarnation = 1, .view = view};
    assert_int_equal(cop_node_create(&config, &node), 0);
    struct cop_event event = {.kind = COP_EVENT_TICK, .now = 1};
    assert_int_equal(cop_step(node, &event, &effects), 0);
    for (cop_id id = 2; id < MANY; id++) {
        event = (struct cop_event){
            .kind = COP_EVENT_PEER_UP, .now = 1, .peer = id, .incarnation = 2};
        assert_int_equal(cop_step(node, &event, &effects), 0);
    }
    event = (struct cop_event){.kind = COP_EVENT_TICK, .now = 1 + COP__NEWS_DELAY};
    assert_int_equal(cop_step(node, &event, &effects), 0);
    cop_id next = 2;
    for (uint32_t i = 0; i < effects.count; i++) {
        struct cop_effect *effect = &effects.items[i];
        struct cop__msg_news news;
        assert_int_equal(effect->kind, COP_EFFECT_SEND);
        assert_true(effect->frame.header.length <= COP__FRAME_MAX);
        assert_int_equal(cop__decode_news(effect->frame.payload->data,
                                          effect->frame.payload->length, &news),
                         0);
        for (uint32_t j = 0; j < news.beliefs.count; j++)
            assert_int_equal(cop__belief_at(news.beliefs, j).id, next++);
    }
    assert_int_equal(next, MANY);
    assert_true(effects.count > 1);
    cop_effects_free(&effects);
    cop_node_destroy(node);
    cop_view_unref(view);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_neighbours_are_watched),
        cmocka_unit_test(test_closed_is_tried_again),
        cmocka_unit_test(test_refused_is_suspected_and_told),
        cmocka_unit_test(test_refused_counts_without_a_watch),
        cmocka_unit_test(test_silent_is_tried_later),
        cmocka_unit_test(test_silent_and_no_longer_watched),
        cmocka_unit_test(test_evidence_about_strangers_is_none),
        cmocka_unit_test(test_who_hears_from_a_suspect_tells_it),
        cmocka_unit_test(test_news_travels_together),
        cmocka_unit_test(test_news_reaches_all),
        cmocka_unit_test(test_news_passes_around_the_dead),
        cmocka_unit_test(test_a_new_neighbour_is_told_everything),
        cmocka_unit_test(test_a_lie_is_denied_everywhere),
        cmocka_unit_test(test_news_larger_than_a_frame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
