/* SPDX-License-Identifier: Apache-2.0 */
#include "scripts.h"
#include "seeds.h"

#include <coppice/sim.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka needs the first three above. */
#include <cmocka.h>

/*
 * Views: random clusters, crashes at every message boundary, and the cases by name: chains of
 * roots, a death on every level, a rack, a crowd that joins, spares, returns.
 */

/* ---- running a script, and looking at the views ---------------------------------- */

struct look {
    cop_epoch latest;
    uint32_t views; /* how many were committed */
    struct cop_view *view;
    cop_time at;        /* when the first had it */
    uint32_t installed; /* nodes that have the latest */
    uint32_t shared;    /* of these, with the very same one */
    uint32_t deaths;    /* of node 3, by node 6, when it installed the latest */
    int status;         /* with which the last request ended */
};
static struct look look;

static void *look_init(struct cop_sim *sim)
{
    (void)sim;
    look = (struct look){0};
    return &look;
}

static void look_on_view(void *state, struct cop_sim *sim, cop_id node,
                         struct cop_view *view)
{
    (void)state;
    if (node == 6)
        look.deaths = cop_node_aliveness(cop_sim_node(sim, 6), 3);
    if (cop_view_epoch(view) == look.latest) {
        look.installed++;
        look.shared += view == look.view;
    }
    if (cop_view_epoch(view) <= look.latest)
        return;
    look.latest = cop_view_epoch(view);
    look.at = cop_sim_now(sim);
    look.views++;
    look.installed = 1;
    look.shared = 1;
    if (look.view)
        cop_view_unref(look.view);
    look.view = cop_view_ref(view);
}

static void look_on_complete(void *state, struct cop_sim *sim, cop_id node,
                             uint64_t token, int status, const struct cop_buf *result)
{
    (void)state;
    (void)sim;
    (void)node;
    (void)token;
    (void)result;
    look.status = status;
}

static void run(const char *text)
{
    static const struct cop_sim_checker looker = {.name = "look",
                                                  .init = look_init,
                                                  .on_complete = look_on_complete,
                                                  .on_view = look_on_view};
    const struct cop_sim_checker *const checkers[] = {
        cop_sim_checker_node(), cop_sim_checker_member(), cop_sim_checker_letter(),
        &looker, NULL};
    struct cop_sim_script script = parse_script(text);
    if (look.view)
        cop_view_unref(look.view);
    look.view = NULL;
    script.config.checkers = checkers;
    run_script(&script);
    cop_sim_script_free(&script);
}

static bool has(cop_id id) { return cop_view_rank(look.view, id) != COP_RANK_NONE; }

/* ---- random ones ----------------------------------------------------------------- */

static void test_swarm(void **state)
{
    (void)state;
    seeds_run(seeds_count() / 4 + 1, COP_SIM_SWARM_VIEWS);
}

static void test_swarm_with_lies(void **state)
{
    (void)state;
    seeds_run(seeds_count() / 4 + 1, COP_SIM_SWARM_VIEWS | COP_SIM_SWARM_LIES);
}

/* The seeds would be worth little if they were all alike. */
static void test_seeds_differ_in_kind(void **state)
{
    (void)state;
    unsigned kinds[COP_SIM_GO_ON + 1] = {0};
    unsigned quorums[COP_QUORUM_NONE + 1] = {0};
    for (uint64_t seed = 1; seed <= 600; seed++) {
        struct cop_sim_script script;
        uint32_t flags = COP_SIM_SWARM_VIEWS | COP_SIM_SWARM_LIES;
        assert_int_equal(cop_sim_swarm_script(seed, flags, &script), 0);
        quorums[script.config.quorum]++;
        for (uint32_t i = 0; i < script.count; i++)
            kinds[script.actions[i].kind]++;
        cop_sim_script_free(&script);
    }
    for (unsigned i = COP_SIM_CRASH; i <= COP_SIM_SEND; i++)
        assert_in_range(kinds[i], 5, 100000);
    assert_in_range(kinds[COP_SIM_GO_ON], 5, 100000);
    assert_in_range(quorums[COP_QUORUM_MAJORITY], 200, 600);
    assert_in_range(quorums[COP_QUORUM_HAS], 20, 200);
    assert_in_range(quorums[COP_QUORUM_NONE], 40, 400);
}

/* Detectors are in three of ten, alone and together; and some histories are long. */
static void test_seeds_differ_in_detectors(void **state)
{
    (void)state;
    unsigned ring = 0, gossip = 0, stealth = 0, witnesses = 0, both = 0, any = 0,
             many = 0;
    for (uint64_t seed = 1; seed <= 600; seed++) {
        struct cop_sim_script script;
        assert_int_equal(cop_sim_swarm_script(seed, COP_SIM_SWARM_VIEWS, &script), 0);
        const struct cop_detect *detect = &script.config.detect;
        bool has_ring = detect->ring_period_ns > 0,
             has_gossip = detect->gossip_period_ns > 0;
        ring += has_ring;
        gossip += has_gossip;
        both += has_ring && has_gossip;
        stealth += detect->stealth;
        witnesses += detect->witnesses > 0;
        any += has_ring || has_gossip || detect->witnesses > 0;
        many += script.count >= 16;
        cop_sim_script_free(&script);
    }
    assert_in_range(any, 130, 230);
    assert_in_range(ring, 70, 160);
    assert_in_range(gossip, 30, 90);
    assert_in_range(both, 5, 40);
    assert_in_range(stealth, 8, 50);
    assert_in_range(witnesses, 80, 170);
    assert_in_range(many, 30, 120);
}

/* ---- all of them ----------------------------------------------------------------- */

static void explore(uint32_t nodes, const char *shape, uint32_t crashes)
{
    struct cop_sim_explore config = {.nodes = nodes,
                                     .crashes = crashes,
                                     .quorum = COP_QUORUM_MAJORITY,
                                     .reduce = true};
    struct cop_sim_explored explored;
    assert_int_equal(cop_shape_parse(shape, &config.shape, NULL, 0), 0);
    assert_int_equal(cop_sim_explore(&config, &explored), 0);
    if (explored.failure[0])
        print_error("%s\n%s", explored.failure, explored.schedule);
    assert_string_equal(explored.failure, "");
    assert_true(explored.exhausted);
    assert_true(explored.terminals > 1);
    free(explored.schedule);
}

static void test_explorer(void **state)
{
    (void)state;
    static const char *const shapes[] = {"chain", "radix:2", "flat"};
    for (int i = 0; i < 3; i++) {
        explore(3, shapes[i], 2);
        explore(4, shapes[i], 1);
    }
}

/* Every pair of deaths at a message boundary while a death, a join and a goodbye are on
 * their way; all of it with and without a majority left. */
static void test_crash_at_every_boundary(void **state)
{
    (void)state;
    static const char *const shapes[] = {"chain", "flat", "radix:2"};
    static const char *const moves[] = {"at 100us crash 4", "at 100us join",
                                        "at 100us leave 4", "at 100us leave 0"};
    char text[512];
    for (int shape = 0; shape < 3; shape++)
        for (int move = 0; move < 4; move++)
            for (unsigned node = 0; node < 5; node++)
                for (unsigned count = 1; count <= 12; count++) {
                    snprintf(text, sizeof(text),
                             "nodes 7\nshape %s\nviews majority\nstart 5\nnet constant "
                             "10us\n%s\ncrash %u after-send %u\nliveness\n",
                             shapes[shape], moves[move], node, count);
                    run(text);
                    snprintf(
                        text, sizeof(text),
                        "nodes 7\nshape %s\nviews majority\nstart 5\nnet constant "
                        "10us\n%s\ncrash %u after-send %u\ncrash %u before-recv %u\n"
                        "liveness\n",
                        shapes[shape], moves[move], node, count, (node + 1) % 5,
                        count % 5 + 1);
                    run(text);
                }
}

/* ---- by name --------------------------------------------------------------------- */

static void test_one_death(void **state)
{
    (void)state;
    run("nodes 31\nshape radix:2\nviews majority\nat 1ms crash 7\nliveness\n");
    assert_int_equal(look.views, 1);
    assert_int_equal(look.installed, 30);
    assert_false(has(7));
}

/* What a million nodes have all the same is there once. */
static void test_one_view_for_all(void **state)
{
    (void)state;
    run("nodes 31\nshape radix:2\nviews majority\nat 1ms crash 7\nliveness\n");
    assert_int_equal(look.installed, 30);
    assert_int_equal(look.shared, 30);
}

/* D10: by the view, and once for each time that it was there. */
static void test_deaths_are_counted(void **state)
{
    (void)state;
    run("nodes 7\nshape radix:2\nviews majority\nat 1ms crash 3\nliveness\n");
    assert_int_equal(look.deaths, 1);
    run("nodes 7\nshape radix:2\nviews majority\nat 1ms crash 3\n"
        "at 200ms restart 3\nliveness\n");
    assert_int_equal(look.deaths, 1);
    run("nodes 7\nshape radix:2\nviews majority\nat 1ms crash 3\n"
        "at 200ms restart 3\nat 400ms crash 3\nliveness\n");
    assert_int_equal(look.deaths, 2);
}

static void test_root_and_its_successors(void **state)
{
    (void)state;
    run("nodes 31\nshape radix:4\nviews majority\nat 1ms crash 0\nliveness\n");
    assert_int_equal(look.views, 1);
    assert_int_equal(cop_view_root(look.view), 1);
    run("nodes 31\nshape radix:4\nviews majority\nat 1ms crash 0-4\nliveness\n");
    assert_in_range(look.views, 1, 2);
    assert_int_equal(cop_view_root(look.view), 5);
    assert_int_equal(look.installed, 26);
}

/* One dead on every level of the tree, all at once. */
static void test_a_death_on_every_level(void **state)
{
    (void)state;
    run("nodes 63\nshape kary:2\nviews majority\nat 1ms crash 0\nat 1ms crash 2\n"
        "at 1ms crash 5\nat 1ms crash 12\nat 1ms crash 25\nat 1ms crash "
        "52\nliveness\n");
    assert_in_range(look.views, 1, 2);
    assert_int_equal(cop_view_size(look.view), 57);
    assert_int_equal(look.installed, 57);
}

/* A rack: sixty-four at once are one view or two. */
static void test_a_rack(void **state)
{
    (void)state;
    run("nodes 256\nshape radix:4\nviews majority\nat 1ms crash 64-127\nliveness\n");
    assert_in_range(look.views, 1, 2);
    assert_int_equal(cop_view_size(look.view), 192);
}

/* A crowd: a thousand who join at the same time are a handful of views. */
static void test_a_crowd(void **state)
{
    (void)state;
    const uint32_t crowd = 1000;
    size_t size = 200 + crowd * 20;
    char *text = malloc(size);
    assert_non_null(text);
    int used =
        snprintf(text, size, "nodes 1016\nshape radix:4\nviews majority\nstart 16\n");
    for (uint32_t i = 0; i < crowd; i++)
        used += snprintf(text + used, size - (size_t)used, "at 1ms join\n");
    snprintf(text + used, size - (size_t)used, "liveness\n");
    run(text);
    free(text);
    assert_in_range(look.views, 1, 6);
    assert_int_equal(cop_view_size(look.view), 1016);
    assert_int_equal(look.installed, 1016);
}

static void test_spare_takes_over(void **state)
{
    (void)state;
    run("nodes 8\nshape radix:2\nviews majority\nstart 5\nat 1ms join spare\n"
        "at 500ms crash 2\nliveness\n");
    assert_false(has(2));
    assert_int_equal(cop_view_worker(look.view, 2), 5);
    /* Who was replaced comes back as a spare. */
    run("nodes 8\nshape radix:2\nviews majority\nstart 5\nat 1ms join spare\n"
        "at 500ms crash 2\nat 900ms restart 2\nliveness\n");
    assert_true(has(2));
    assert_int_equal(cop_view_worker(look.view, 2), 5);
    struct cop_member member;
    assert_int_equal(cop_view_member(look.view, 2, &member), 0);
    assert_int_equal(member.role, COP_SPARE);
}

/* Back before anybody noticed: another life, and the same work. */
static void test_return_before_the_death_is_noticed(void **state)
{
    (void)state;
    run("nodes 7\nshape radix:2\nviews majority\nnet constant 100us\n"
        "at 10ms crash 3\nat 10010us restart 3\nliveness\n");
    struct cop_member member;
    assert_int_equal(cop_view_member(look.view, 3, &member), 0);
    assert_int_equal(member.presence, COP_PRESENT);
    assert_true(member.incarnation > 1);
    assert_int_equal(member.role, 3);
    assert_int_equal(look.installed, 7);
}

/* The lowest id comes back, and is the root again. */
static void test_returned_root(void **state)
{
    (void)state;
    run("nodes 9\nshape radix:2\nviews majority\nat 1ms crash 0\nat 100ms restart 0\n"
        "liveness\n");
    assert_int_equal(cop_view_root(look.view), 0);
    assert_int_equal(cop_view_size(look.view), 9);
}

static void test_root_leaves(void **state)
{
    (void)state;
    run("nodes 9\nshape radix:2\nviews majority\nat 1ms leave 0\nliveness\n");
    assert_int_equal(look.views, 1);
    assert_int_equal(cop_view_root(look.view), 1);
    assert_int_equal(cop_view_size(look.view), 8);
}

/* Who acknowledged three views without hearing a commit goes through all of them. */
static void test_nobody_skips_a_view(void **state)
{
    (void)state;
    run("nodes 12\n"
        "shape chain\n"
        "seed 1\n"
        "views majority\n"
        "flags codec\n"
        "net constant 10us\n"
        "at 1ms crash 11\n"
        "at 1345us pause 3\n"
        "at 1400us report 0 about 3\n"
        "at 1595us pause 2\n"
        "at 1700us report 0 about 2\n"
        "at 1865us pause 1\n"
        "at 2000us report 0 about 1\n"
        "liveness\n");
}

/* A place that was promised, and never taken, is nobody's: who is behind it is watched. */
static void test_a_promised_place_stays_empty(void **state)
{
    (void)state;
    run("nodes 8\n"
        "shape chain\n"
        "seed 1\n"
        "views majority\n"
        "start 3\n"
        "flags codec\n"
        "net constant 10us\n"
        "at 100us join\n"
        "at 100us join\n"
        "crash 3 before-recv 1\n"
        "at 3s crash 4\n"
        "liveness\n");
    assert_false(has(3));
    assert_false(has(4));
}

/* V11: the next in line has no quorum of the view that it has, and nobody is left to ask for
 * the one that it acknowledged. It asks when somebody is back, not when the question of the
 * dead root ends, which takes seconds. */
static void test_without_quorum_one_asks(void **state)
{
    (void)state;
    run("nodes 6\n"
        "shape flat\n"
        "views majority\n"
        "flags codec\n"
        "net constant 10us\n"
        "at 1ms crash 5\n"
        "at 1041us partition 0,2-4 | 1,5\n"
        "at 1060us report 1 about 2\n"
        "at 1060us report 1 about 3\n"
        "at 1060us report 1 about 4\n"
        "at 1060us report 1 about 5\n"
        "at 1061us report 1 about 0\n"
        "at 300ms crash 0\n"
        "at 300ms crash 4\n"
        "at 500ms heal\n"
        "liveness\n");
    assert_int_equal(cop_view_size(look.view), 3);
    assert_true(look.at < COP_SEC);
}

/* D13: what is written in stealth is sent when it ends, and what came then is asked for: at the
 * second start 0 does not hear it, for it speaks a second later than 1. */
static void test_letters_wait_for_the_end_of_stealth(void **state)
{
    (void)state;
    run("nodes 2\nshape chain\nviews majority\ndetect gossip 50ms stealth\n"
        "net constant 10us\nat 0ns send 1 > 0 token 20\nliveness\n");
    assert_int_equal(look.status, 0);
    run("nodes 2\nshape chain\nviews majority\ndetect gossip 50ms stealth\n"
        "net constant 10us\nat 10ms pause 0\nat 510ms resume 0\n"
        "at 950ms send 1 > 0 token 20\nliveness\n");
    assert_int_equal(look.status, 0);
}

/* V6: one that denies while others still acknowledge its removal is not removed. */
static void test_a_denial_in_time(void **state)
{
    (void)state;
    run("nodes 6\n"
        "shape flat\n"
        "views majority\n"
        "flags codec cut\n"
        "net constant 100us\n"
        "at 1ms slow 4 50ms\n"
        "at 5ms lie 2 about 3\n"
        "liveness\n");
    assert_true(has(3));
    assert_int_equal(cop_view_incarnation(look.view, 3), 1);
}

/* What the swarm found, cut down. */
static const char *const found[] = {
    /* the next in line has no quorum of the view that it has: it asks for the one that it
     * acknowledged, in which it has one */
    "nodes 6\n"
    "shape flat\n"
    "seed 1174527\n"
    "views majority\n"
    "start 6\n"
    "agree strict count 1 window 1\n"
    "net constant 10us jitter 40us\n"
    "at 0ns partition 2-5 | 0-1\n"
    "at 0ns report 2 about 0\n"
    "at 490us report 2 about 1\n"
    "at 580us heal\n"
    "at 587us partition 3-4 | 0-2,5\n"
    "at 1ms crash 2\n"
    "at 710us partition 3 | 0-2,4-5\n"
    "at 790us report 3 about 2\n"
    "at 790us report 3 about 4\n"
    "at 790us report 3 about 5\n"
    "liveness\n",
    /* who falsely accused the root dies before it took that back: the one it told is alone */
    "nodes 3\n"
    "shape chain\n"
    "views majority\n"
    "start 3\n"
    "agree strict count 1 window 2 gap 57780ns promote\n"
    "net constant 10us\n"
    "at 0ns slow 0 > 2 143us\n"
    "at 0ns slow 1 > 2 253us\n"
    "at 110us leave 1\n"
    "at 148us partition 0-1 | 2\n"
    "at 300us heal\n"
    "at 210us lie 1 about 0\n"
    "at 130us lie 2 about 0\n"
    "at 150us report 2 about 1\n"
    "liveness\n",
    /* the only one that was named leaves: two sides may not both go on after that (whom 0
     * reported it would ask first, and be removed meanwhile) */
    "nodes 6\n"
    "shape flat\n"
    "views has 5\n"
    "start 6\n"
    "net constant 10us\n"
    "at 0ns crash 2\n"
    "at 0ns crash 4\n"
    "at 40us leave 5\n"
    "at 90us partition 0,2 > 1,3-5\n"
    "at 100us lie 0 about 1\n"
    "at 100us lie 0 about 3\n"
    "at 170us lie 1 about 0\n",
    /* where any side goes on, two worlds that both went on since they met find each other */
    "nodes 6\n"
    "shape flat\n"
    "seed 8308\n"
    "views none\n"
    "start 6\n"
    "net constant 10us\n"
    "at 0ns partition 1-2,4-5 | 0,3\n"
    "at 0ns report 1 about 0\n"
    "at 0ns report 0 about 4\n"
    "at 0ns report 0 about 5\n"
    "at 310us heal\n"
    "at 310us partition 1-2,4 | 0,3,5\n"
    "at 0ns report 0 about 1\n"
    "at 0ns report 0 about 2\n"
    "at 330us report 1 about 3\n"
    "liveness\n",
    /* who proposed without those who live asks them what became of it */
    "nodes 3\n"
    "shape flat\n"
    "seed 2823\n"
    "views majority\n"
    "net constant 10us\n"
    "at 77us leave 2\n"
    "at 90us report 1 about 2\n"
    "at 110us lie 1 about 0\n"
    "liveness\n",
    /* a letter of a view that cannot be installed waits without asking at every word */
    "nodes 11\n"
    "shape kary:4\n"
    "seed 25554\n"
    "views has 9-10\n"
    "net loggp 29us 4047ns 2406ns 5834 jitter 90us\n"
    "at 400us crash 5\n"
    "at 860us crash 2\n"
    "crash 10 after-send 2\n"
    "at 1058us send 8 > 9 token 14\n"
    "at 1070us send 8 > 9 token 15\n",
    /* a suspicion of one who joined, told before it was a member, is told again */
    "nodes 6\n"
    "shape flat\n"
    "seed 71784\n"
    "views has 5\n"
    "start 6\n"
    "net constant 10us\n"
    "at 820us lie 0 about 5\n"
    "at 0ns crash 1\n"
    "at 0ns restart 1\n"
    "at 0ns crash 0\n"
    "at 0ns restart 0\n"
    "liveness\n",
    /* one who was removed and has nothing to say is found by the next root */
    "nodes 8\n"
    "shape knomial:3\n"
    "seed 94150\n"
    "views majority\n"
    "net constant 10us\n"
    "crash 4 after-send 5\n"
    "at 0ns crash 3\n"
    "at 9ms report 0 about 1\n"
    "at 9310us partition 7 | 0-6\n"
    "at 9340us report 0 about 7\n"
    "at 14ms heal\n"
    "at 11ms report 2 about 0\n"
    "liveness\n",
    /* who accuses one who has denied it since is told, and accuses anew */
    "nodes 9\n"
    "shape radix:2\n"
    "seed 9910\n"
    "views majority\n"
    "start 9\n"
    "flags codec cut\n"
    "net constant 10us\n"
    "crash 4 after-send 10\n"
    "at 0ns report 0 about 3\n"
    "at 0ns report 0 about 4\n"
    "at 0ns pause 2\n"
    "at 0ns report 3 about 2\n"
    "crash 0 before-recv 6\n"
    "at 2ms resume 2\n"
    "liveness\n",
    /* a former life that is only in a view that was never installed here is gone, too */
    "nodes 13\n"
    "shape chain\n"
    "seed 41114\n"
    "views majority\n"
    "start 5\n"
    "net recorded 180000ns,43000ns,137000ns,215000ns,268000ns,308000ns,297000ns\n"
    "at 780us crash 1\n"
    "at 780us restart 1\n"
    "at 6740us crash 1\n"
    "at 6740us restart 1\n"
    "at 6860us crash 0\n"
    "at 0ns join\n"
    "at 0ns join\n"
    "liveness\n",
    /* who found somebody gone, and is told of an earlier denial, looks again */
    "nodes 6\n"
    "shape radix:4\n"
    "seed 46521\n"
    "views majority\n"
    "net constant 10us\n"
    "crash 5 before-recv 4\n"
    "at 0ns partition 1,3-4 > 0,2,5\n"
    "at 0ns report 1 about 0\n"
    "at 0ns report 4 about 0\n"
    "at 0ns report 4 about 5\n"
    "at 400us heal\n"
    "at 70us crash 1\n"
    "at 110us restart 1\n"
    "liveness\n",
    /* a new view begins with telling those whom I still suspect */
    "nodes 8\n"
    "shape chain\n"
    "seed 95629\n"
    "views majority\n"
    "net constant 10us\n"
    "at 0ns partition 0 | 1-6\n"
    "at 0ns report 0 about 1\n"
    "at 0ns report 0 about 2\n"
    "at 0ns report 0 about 3\n"
    "at 0ns report 0 about 4\n"
    "at 0ns report 0 about 5\n"
    "at 0ns report 0 about 6\n"
    "at 190us leave 7\n"
    "at 0ns leave 4\n"
    "at 0ns leave 0\n"
    "liveness\n",
    /* D12: by chance 0 hears nothing of 4, and 2, which is drained, is no witness */
    "nodes 6\n"
    "shape chain\n"
    "seed 195\n"
    "views majority\n"
    "start 4\n"
    "detect gossip 20ms witnesses 3\n"
    "net constant 27us jitter 85us\n"
    "crash 1 before-recv 2\n"
    "at 0ns join\n"
    "at 0ns drain 0 about 2\n"
    "at 3423ms crash 3\n"
    "at 30s drain 0 about 2\n",
};

static void test_found_by_the_swarm(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(found) / sizeof(found[0]); i++)
        run(found[i]);
}

/* A root proposed to admit three, who died, and then to go on without them: who acknowledged
 * the second knows that the first is over, and may go on when the root dies, too. */
static void test_what_its_root_gave_up_is_over(void **state)
{
    (void)state;
    run("nodes 6\nshape flat\nviews majority\nstart 3\nflags codec\nnet constant 10us\n"
        "at 100us join\nat 100us join\nat 100us join\nat 1115us crash 3-5\n"
        "at 1150us crash 0\nliveness\n");
    assert_int_equal(cop_view_size(look.view), 2);
    assert_true(has(1) && has(2));
}

/* Who leaves counts in the change by which it does: two are a majority of two. */
static void test_one_of_two_leaves(void **state)
{
    (void)state;
    run("nodes 2\nshape flat\nviews majority\nat 1ms leave 1\nliveness\n");
    assert_int_equal(cop_view_size(look.view), 1);
    run("nodes 2\nshape flat\nviews majority\nat 1ms leave 0\nliveness\n");
    assert_int_equal(cop_view_root(look.view), 1);
}

/* Where nobody can leave, who wants to hears so. */
static void test_leaving_without_a_quorum(void **state)
{
    (void)state;
    run("nodes 4\nshape flat\nviews majority\nat 1ms crash 2-3\nat 2ms leave 1\n"
        "liveness\n");
    assert_int_equal(look.views, 0);
    assert_int_equal(look.status, COP_ETIMEDOUT);
}

/* The side that has all who are named goes on, the larger one does not. */
static void test_named_ones(void **state)
{
    (void)state;
    run("nodes 7\nshape radix:2\nviews has 1,4\nat 1ms crash 2-3\nat 1ms crash 5-6\n"
        "liveness\n");
    assert_int_equal(cop_view_size(look.view), 3);
    run("nodes 7\nshape radix:2\nviews has 1,4\nat 1ms crash 4\nliveness\n");
    assert_int_equal(look.views, 0);
}

/* Half is no majority: nothing is committed. */
static void test_no_majority(void **state)
{
    (void)state;
    run("nodes 6\nshape radix:2\nviews majority\nat 1ms crash 3-5\nliveness\n");
    assert_int_equal(look.views, 0);
    run("nodes 6\nshape radix:2\nviews none\nat 1ms crash 3-5\nliveness\n");
    assert_int_equal(cop_view_size(look.view), 3);
}

static int forget_view(void **state)
{
    (void)state;
    if (look.view)
        cop_view_unref(look.view);
    return 0;
}

/* Most are started anew at the same time, and find others like them before one who lives: whom they pass
 * over costs them no attempt, or they would never come to the end of the row. */
static void test_most_come_back_at_once(void **state)
{
    char text[2048];
    int length = snprintf(text, sizeof(text),
                          "nodes 20\nshape flat\nseed 1\nviews majority\n"
                          "detect ring 100ms witnesses 2\nat 1s crash 0-15\n");
    (void)state;
    for (unsigned id = 0; id < 16; id++)
        length += snprintf(text + length, sizeof(text) - (size_t)length,
                           "at 1100ms restart %u\n", id);
    snprintf(text + length, sizeof(text) - (size_t)length, "liveness\n");
    run(text);
}

/* 1 has to acknowledge what brings 3 and proposes itself in one moment; so 3 is in a view of
 * 0's, and cannot install it. */
#define ALL_LEAVE                                                                      \
    "nodes 4\nshape flat\nseed 1\nviews none\nstart 3\nnet constant 10us\n"            \
    "at 0ns leave 2\nat 0ns join\nat 860us pause 1\nat 8ms leave 0\nat 12ms leave 1\n" \
    "at 100ms resume 1\nliveness\n"

/* V9: it is the only one who stays, so it proposes. */
static void test_all_leave_while_one_joins(void **state)
{
    (void)state;
    run(ALL_LEAVE);
    assert_true(has(3));
    assert_int_equal(cop_view_size(look.view), 1);
}

/* V9: and if it dies, whoever waits for it finds out, though no view there has it. */
static void test_the_one_who_would_stay_dies(void **state)
{
    (void)state;
    for (unsigned joiner = 5; joiner <= 45; joiner += 10)
        for (unsigned root = 15; root <= 105; root += 10) {
            char text[400];
            snprintf(text, sizeof text, ALL_LEAVE "at %uus crash 3\nat %uus crash 0\n",
                     100000 + joiner, 100000 + root);
            run(text);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_death),
        cmocka_unit_test(test_one_view_for_all),
        cmocka_unit_test(test_deaths_are_counted),
        cmocka_unit_test(test_root_and_its_successors),
        cmocka_unit_test(test_a_death_on_every_level),
        cmocka_unit_test(test_a_rack),
        cmocka_unit_test(test_a_crowd),
        cmocka_unit_test(test_spare_takes_over),
        cmocka_unit_test(test_return_before_the_death_is_noticed),
        cmocka_unit_test(test_returned_root),
        cmocka_unit_test(test_root_leaves),
        cmocka_unit_test(test_nobody_skips_a_view),
        cmocka_unit_test(test_a_promised_place_stays_empty),
        cmocka_unit_test(test_without_quorum_one_asks),
        cmocka_unit_test(test_letters_wait_for_the_end_of_stealth),
        cmocka_unit_test(test_a_denial_in_time),
        cmocka_unit_test(test_found_by_the_swarm),
        cmocka_unit_test(test_what_its_root_gave_up_is_over),
        cmocka_unit_test(test_one_of_two_leaves),
        cmocka_unit_test(test_named_ones),
        cmocka_unit_test(test_leaving_without_a_quorum),
        cmocka_unit_test(test_no_majority),
        cmocka_unit_test(test_crash_at_every_boundary),
        cmocka_unit_test(test_explorer),
        cmocka_unit_test(test_seeds_differ_in_kind),
        cmocka_unit_test(test_seeds_differ_in_detectors),
        cmocka_unit_test(test_swarm),
        cmocka_unit_test(test_swarm_with_lies),
        cmocka_unit_test(test_most_come_back_at_once),
        cmocka_unit_test(test_all_leave_while_one_joins),
        cmocka_unit_test(test_the_one_who_would_stay_dies),
    };
    return cmocka_run_group_tests(tests, NULL, forget_view);
}
