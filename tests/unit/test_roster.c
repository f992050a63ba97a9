/* SPDX-License-Identifier: Apache-2.0 */
#include "roster/roster.h"

#include "wirenet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these first */
#include <cmocka.h>

/* Nobody says anything of the messenger, so that its frames are always welcome. */
#define SELF 0u
#define MESSENGER 1u
#define N 9u
#define BELIEFS 24u

static uint64_t roster_digest(const struct cop_node *node)
{
    struct cop__digest digest;
    cop__digest_init(&digest);
    cop__roster_layer.digest(node, &digest);
    return cop__digest_value(&digest);
}

static void say(struct wirenet *net, cop_id id, cop_incarnation incarnation,
                uint32_t denial, enum cop_status status)
{
    wirenet_tell(net, MESSENGER, SELF,
                 (struct cop__belief){id, incarnation, denial, (uint8_t)status});
}

static void assert_belief(const struct wirenet *net, cop_id id,
                          cop_incarnation incarnation, uint32_t denial,
                          enum cop_status status)
{
    struct cop_belief belief = cop_node_belief(net->nodes[SELF].node, id);
    assert_true(belief.incarnation == incarnation);
    assert_int_equal(belief.denial, denial);
    assert_int_equal(belief.status, status);
    assert_int_equal(cop__roster_is_suspect(net->nodes[SELF].node, id),
                     status >= COP_SUSPECT);
    assert_int_equal(cop_dead_has(cop__roster_dead(net->nodes[SELF].node), id),
                     status >= COP_SUSPECT);
}

/* ---- a join-semilattice ---------------------------------------------------------- */

static struct cop__belief random_belief(struct cop__random *random)
{
    return (struct cop__belief){
        .id = 2 + (cop_id)cop__random_below(random, N - 2),
        .incarnation = 1 + cop__random_below(random, 3),
        .denial = (uint32_t)cop__random_below(random, 3),
        .status = (uint8_t)cop__random_below(random, COP_REPORTED + 1),
    };
}

static void shuffle(struct cop__random *random, struct cop__belief *beliefs,
                    uint32_t count)
{
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = (uint32_t)cop__random_below(random, i);
        struct cop__belief swap = beliefs[i - 1];
        beliefs[i - 1] = beliefs[j];
        beliefs[j] = swap;
    }
}

/* One frame with several of them. */
static void tell_many(struct wirenet *net, const struct cop__belief *beliefs,
                      uint32_t count)
{
    uint8_t bytes[BELIEFS * COP__SIZE_belief];
    struct cop__writer writer = cop__writer(bytes, sizeof bytes);
    for (uint32_t i = 0; i < count; i++)
        cop__belief_put(&writer, &beliefs[i]);
    struct cop__msg_news news = {.beliefs = {bytes, count}};
    struct cop_frame frame =
        wirenet_frame(net, MESSENGER, SELF, COP__KIND_NEWS, cop__encode_news(&news));
    wirenet_recv(net, &frame);
}

/* What a fresh node makes of these, told in frames of random sizes. */
static uint64_t digest_of(struct cop__random *random, const struct cop__belief *beliefs,
                          uint32_t count)
{
    struct wirenet *net = wirenet_create(N, "radix:2");
    for (uint32_t at = 0; at < count;) {
        uint32_t size = 1 + (uint32_t)cop__random_below(random, count - at);
        tell_many(net, beliefs + at, size);
        at += size;
    }
    uint64_t digest = roster_digest(net->nodes[SELF].node);
    wirenet_destroy(net);
    return digest;
}

static void test_merge_is_commutative_and_associative(void **state)
{
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 11);
    for (int round = 0; round < 100; round++) {
        struct cop__belief beliefs[BELIEFS];
        uint32_t count = 1 + (uint32_t)cop__random_below(&random, BELIEFS);
        for (uint32_t i = 0; i < count; i++)
            beliefs[i] = random_belief(&random);
        uint64_t expected = digest_of(&random, beliefs, count);
        for (int order = 0; order < 4; order++) {
            shuffle(&random, beliefs, count);
            assert_true(digest_of(&random, beliefs, count) == expected);
        }
    }
}

static void test_merge_is_idempotent(void **state)
{
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 12);
    for (int round = 0; round < 100; round++) {
        struct wirenet *net = wirenet_create(N, "radix:2");
        struct cop__belief beliefs[BELIEFS];
        for (uint32_t i = 0; i < BELIEFS; i++) {
            beliefs[i] = random_belief(&random);
            tell_many(net, &beliefs[i], 1);
        }
        uint64_t digest = roster_digest(net->nodes[SELF].node);
        uint64_t repeated = net->nodes[SELF].stats.ignored_repeated;
        shuffle(&random, beliefs, BELIEFS);
        for (uint32_t i = 0; i < BELIEFS; i++)
            tell_many(net, &beliefs[i], 1);
        assert_true(roster_digest(net->nodes[SELF].node) == digest);
        assert_int_equal(net->nodes[SELF].stats.ignored_repeated, repeated + BELIEFS);
        wirenet_destroy(net);
    }
}

/* ---- the order of what is said --------------------------------------------------- */

static void test_the_larger_wins(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(N, "radix:2");
    assert_belief(net, 5, 1, 0, COP_ALIVE);
    say(net, 5, 1, 0, COP_SUSPECT);
    assert_belief(net, 5, 1, 0, COP_SUSPECT);
    say(net, 5, 1, 0, COP_ALIVE); /* says no more than was known before */
    assert_belief(net, 5, 1, 0, COP_SUSPECT);
    say(net, 5, 1, 1, COP_ALIVE); /* denied */
    assert_belief(net, 5, 1, 1, COP_ALIVE);
    say(net, 5, 1, 0, COP_SUSPECT); /* late */
    assert_belief(net, 5, 1, 1, COP_ALIVE);
    say(net, 5, 1, 1, COP_SUSPECT);
    assert_belief(net, 5, 1, 1, COP_SUSPECT);
    say(net, 5, 2, 0, COP_ALIVE); /* a new life */
    assert_belief(net, 5, 2, 0, COP_ALIVE);
    say(net, 5, 1, 9, COP_SUSPECT); /* the old one, whatever was said of it */
    assert_belief(net, 5, 2, 0, COP_ALIVE);
    say(net, 5, 3, 0, COP_SUSPECT); /* a life that came and went */
    assert_belief(net, 5, 3, 0, COP_SUSPECT);
    assert_int_equal(net->nodes[SELF].stats.suspicions, 3);
    assert_int_equal(net->nodes[SELF].stats.revivals, 1);
    wirenet_destroy(net);
}

static void test_only_what_differs_is_kept(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(N, "radix:2");
    const struct cop_node *node = net->nodes[SELF].node;
    assert_int_equal(cop__roster_count(node), 0);
    say(net, 7, 1, 0, COP_SUSPECT);
    say(net, 3, 1, 2, COP_ALIVE);
    assert_int_equal(cop__roster_count(node), 2);
    assert_int_equal(cop__roster_at(node, 0).id, 3); /* by id */
    assert_int_equal(cop__roster_at(node, 1).id, 7);
    assert_int_equal(cop_dead_count(cop__roster_dead(node)), 1);
    wirenet_destroy(net);
}

static void test_nonsense_is_not_believed(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(N, "radix:2");
    say(net, N, 1, 0, COP_SUSPECT);
    say(net, COP_ID_NONE, 1, 0, COP_SUSPECT);
    say(net, 3, 1, 0, (enum cop_status)(COP_REPORTED + 1));
    assert_int_equal(net->nodes[SELF].stats.ignored_malformed, 3);
    assert_int_equal(cop__roster_count(net->nodes[SELF].node), 0);
    wirenet_destroy(net);
}

/* ---- denial ---------------------------------------------------------------------- */

static void test_who_lives_denies(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(N, "radix:2");
    say(net, SELF, 1, 0, COP_SUSPECT);
    assert_belief(net, SELF, 1, 1, COP_ALIVE);
    say(net, SELF, 1, 0, COP_SUSPECT); /* already denied */
    assert_belief(net, SELF, 1, 1, COP_ALIVE);
    assert_int_equal(net->nodes[SELF].stats.denials, 1);
    say(net, SELF, 1, 4, COP_SUSPECT); /* denials that I know nothing of */
    assert_belief(net, SELF, 1, 5, COP_ALIVE);
    assert_int_equal(net->nodes[SELF].stats.denials, 2);
    wirenet_destroy(net);
}

static void test_my_own_denials_come_back(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(N, "radix:2");
    say(net, SELF, 1, 3, COP_ALIVE);
    assert_belief(net, SELF, 1, 3, COP_ALIVE);
    assert_int_equal(net->nodes[SELF].stats.denials, 0);
    wirenet_destroy(net);
}

/* Neither what was said of an earlier life nor a claim about a later one is about me. */
static void test_other_lives_of_mine_are_not_denied(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(N, "radix:2");
    wirenet_crash(net, SELF);
    wirenet_settle(net);
    assert_int_equal(wirenet_restart(net, SELF), 0);
    say(net, SELF, 1, 7, COP_SUSPECT);
    assert_belief(net, SELF, 2, 0, COP_ALIVE);
    say(net, SELF, 3, 0, COP_SUSPECT);
    assert_belief(net, SELF, 2, 0, COP_ALIVE);
    assert_int_equal(net->nodes[SELF].stats.denials, 0);
    wirenet_destroy(net);
}

/* Denials are counted in 32 bits. A claim of the last of them must not start them anew: what
 * is held of a member only ever grows. */
static void test_denials_do_not_wrap(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(N, "radix:2");
    say(net, SELF, 1, 6, COP_SUSPECT);
    assert_belief(net, SELF, 1, 7, COP_ALIVE);
    say(net, SELF, 1, UINT32_MAX, COP_SUSPECT);
    assert_true(cop_node_belief(net->nodes[SELF].node, SELF).denial >= 7);
    wirenet_destroy(net);
}

/* ---- lives ----------------------------------------------------------------------- */

/* A frame is enough to learn of a new life, and the old one is not heard any more. */
static void test_a_new_life_is_learned_from_its_frame(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(N, "radix:2");
    struct cop__msg_news nothing = {0};
    struct cop_frame frame =
        wirenet_frame(net, 2, SELF, COP__KIND_NEWS, cop__encode_news(&nothing));
    frame.header.sender_incarnation = 4;
    wirenet_recv(net, &frame);
    assert_belief(net, 2, 4, 0, COP_ALIVE);
    frame = wirenet_frame(net, 2, SELF, COP__KIND_NEWS, cop__encode_news(&nothing));
    frame.header.sender_incarnation = 3;
    wirenet_recv(net, &frame);
    assert_int_equal(net->nodes[SELF].stats.ignored_incarnation, 1);
    assert_belief(net, 2, 4, 0, COP_ALIVE);
    wirenet_destroy(net);
}

static void test_a_new_life_is_learned_from_its_connection(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(N, "radix:2");
    struct cop_event up = {.kind = COP_EVENT_PEER_UP, .peer = 2, .incarnation = 4};
    say(net, 2, 1, 0, COP_SUSPECT);
    wirenet_event(net, SELF, &up);
    assert_belief(net, 2, 4, 0, COP_ALIVE);
    up.incarnation = 3;
    wirenet_event(net, SELF, &up);
    assert_belief(net, 2, 4, 0, COP_ALIVE);
    /* The same life that is suspected has to deny it itself. */
    say(net, 2, 4, 0, COP_SUSPECT);
    up.incarnation = 4;
    wirenet_event(net, SELF, &up);
    assert_belief(net, 2, 4, 0, COP_SUSPECT);
    wirenet_destroy(net);
}

static void test_connections_of_strangers_say_nothing(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(N, "radix:2");
    struct cop_event up = {.kind = COP_EVENT_PEER_UP, .peer = N, .incarnation = 4};
    wirenet_event(net, SELF, &up);
    up.peer = SELF;
    wirenet_event(net, SELF, &up);
    assert_int_equal(cop__roster_count(net->nodes[SELF].node), 0);
    wirenet_destroy(net);
}

/* Frames are for one life: what is sent after a restart names the new one. */
static void test_frames_name_the_life_they_are_for(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(N, "radix:2");
    say(net, 2, 6, 0, COP_ALIVE);
    wirenet_lose_all(net);
    assert_int_equal(wirenet_probe(net, SELF, 1, false), 0);
    const struct wirenet_item *ask = wirenet_find(net, SELF, 2, COP__KIND_ASK);
    assert_non_null(ask);
    assert_true(ask->frame.header.receiver_incarnation == 6);
    assert_true(ask->frame.header.sender_incarnation == 1);
    wirenet_destroy(net);
}

static void test_restart_replaces(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(N, "radix:2");
    wirenet_crash(net, 4);
    wirenet_advance(net, COP_SEC);
    assert_belief(net, 4, 1, 0, COP_SUSPECT);
    assert_int_equal(wirenet_restart(net, 4), 0);
    wirenet_advance(net, COP_SEC);
    for (cop_id id = 0; id < N; id++) {
        struct cop_belief belief = cop_node_belief(net->nodes[id].node, 4);
        assert_true(belief.incarnation == 2);
        assert_int_equal(belief.status, COP_ALIVE);
        assert_true(roster_digest(net->nodes[id].node) ==
                    roster_digest(net->nodes[SELF].node));
    }
    wirenet_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merge_is_commutative_and_associative),
        cmocka_unit_test(test_merge_is_idempotent),
        cmocka_unit_test(test_the_larger_wins),
        cmocka_unit_test(test_only_what_differs_is_kept),
        cmocka_unit_test(test_nonsense_is_not_believed),
        cmocka_unit_test(test_who_lives_denies),
        cmocka_unit_test(test_my_own_denials_come_back),
        cmocka_unit_test(test_other_lives_of_mine_are_not_denied),
        cmocka_unit_test(test_denials_do_not_wrap),
        cmocka_unit_test(test_a_new_life_is_learned_from_its_frame),
        cmocka_unit_test(test_a_new_life_is_learned_from_its_connection),
        cmocka_unit_test(test_connections_of_strangers_say_nothing),
        cmocka_unit_test(test_frames_name_the_life_they_are_for),
        cmocka_unit_test(test_restart_replaces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
