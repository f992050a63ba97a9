/* SPDX-License-Identifier: Apache-2.0 */
#include "scripts.h"
#include "seeds.h"

#include "base/random.h"

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
 * Collectives while members die: random clusters with services that misbehave, a death at
 * every message boundary of a broadcast (with and without HEAL, over a group and over all),
 * two at a time, with a restart in the middle; and everything that can happen to a few nodes.
 */
#define NODES_MAX 9
#define BEYOND 2
#ifdef __SANITIZE_ADDRESS__
#define PAIRS 4u
#else
#define PAIRS 40u
#endif

/* ---- random ---------------------------------------------------------------------- */

static void test_without_lies(void **state)
{
    (void)state;
    seeds_run(seeds_count() / 30 + 1, COP_SIM_SWARM_COLL);
}

static void test_with_lies(void **state)
{
    (void)state;
    seeds_run(seeds_count() / 100 + 1, COP_SIM_SWARM_COLL | COP_SIM_SWARM_LIES);
}

/* ---- a death at every boundary --------------------------------------------------- */

struct setting {
    const char *shape;
    uint32_t nodes;
    cop_id root;
    const char *lines; /* %u: the root */
};

struct boundary {
    cop_id victim;
    enum cop_sim_when when;
    uint64_t count;
};

static struct boundary list[NODES_MAX * 512];
static uint32_t list_count;
static uint64_t runs;

static struct cop_sim_script make_script(const struct setting *setting)
{
    char text[512];
    char lines[256];
    unsigned root = (unsigned)setting->root, last = (unsigned)setting->nodes - 1;
    snprintf(lines, sizeof(lines), setting->lines, root, last, root);
    snprintf(text, sizeof(text), "nodes %u\nshape %s\nseed 1\nflags codec quiet\n%s",
             (unsigned)setting->nodes, setting->shape, lines);
    return parse_script(text);
}

static void add(struct cop_sim_script *script, const struct boundary *death)
{
    struct cop_sim_action crash;
    memset(&crash, 0, sizeof(crash));
    crash.kind = COP_SIM_CRASH;
    crash.when = death->when;
    crash.count = death->count;
    crash.a = death->victim;
    crash.b = COP_ID_NONE;
    assert_int_equal(cop_sim_script_add(script, &crash), 0);
}

static void add_restart(struct cop_sim_script *script, cop_id victim, cop_time at)
{
    struct cop_sim_action restart;
    memset(&restart, 0, sizeof(restart));
    restart.kind = COP_SIM_RESTART;
    restart.at = at;
    restart.a = victim;
    restart.b = COP_ID_NONE;
    assert_int_equal(cop_sim_script_add(script, &restart), 0);
}

static void run(const struct setting *setting, const struct boundary *deaths,
                uint32_t count, cop_time restart)
{
    struct cop_sim_script script = make_script(setting);
    struct cop_sim_report report;
    for (uint32_t i = 0; i < count; i++)
        add(&script, &deaths[i]);
    if (restart)
        add_restart(&script, deaths[0].victim, restart);
    assert_int_equal(cop_sim_script_run(&script, &report), 0);
    runs++;
    if (report.failure[0]) {
        char *text = cop_sim_script_print(&script);
        print_error("# %s\n%s", report.failure, text ? text : "");
        free(text);
        fail();
    }
    cop_sim_script_free(&script);
}

static uint64_t sends[NODES_MAX], receives[NODES_MAX];

static void note_counts(void *context, struct cop_sim *sim)
{
    (void)context;
    for (cop_id id = 0; id < cop_sim_nodes(sim); id++) {
        sends[id] = cop_sim_sends(sim, id);
        receives[id] = cop_sim_receives(sim, id);
    }
}

static void push(cop_id victim, enum cop_sim_when when, uint64_t count)
{
    for (uint64_t i = 1; i <= count; i++) {
        assert_true(list_count < sizeof(list) / sizeof(list[0]));
        list[list_count++] = (struct boundary){victim, when, i};
    }
}

/* All boundaries of a run without deaths, and a few more: deaths make others send more. */
static void find_boundaries(const struct setting *setting)
{
    struct cop_sim_script script = make_script(setting);
    struct cop_sim_report report;
    script.config.end = note_counts;
    assert_int_equal(cop_sim_script_run(&script, &report), 0);
    assert_string_equal(report.failure, "");
    assert_true(report.completed >= 1);
    cop_sim_script_free(&script);
    list_count = 0;
    for (cop_id id = 0; id < setting->nodes; id++) {
        push(id, COP_SIM_AFTER_SEND, sends[id] + BEYOND);
        push(id, COP_SIM_BEFORE_RECV, receives[id] + BEYOND);
    }
}

/* With bulk there are many boundaries, and most are alike: every so many-th. */
static uint32_t stride = 1;

static void kill_everywhere(const struct setting *setting)
{
    struct cop__random random;
    find_boundaries(setting);
    cop__random_init(&random, setting->nodes);
    for (uint32_t i = 0; i < list_count; i += stride) {
        run(setting, &list[i], 1, 0);
        run(setting, &list[i], 1, 60 * COP_USEC + cop__random_below(&random, COP_MSEC));
    }
    for (uint32_t i = 0; i < PAIRS; i++) {
        struct boundary pair[2] = {list[cop__random_below(&random, list_count)],
                                   list[cop__random_below(&random, list_count)]};
        if (pair[0].victim != pair[1].victim)
            run(setting, pair, 2, i % 2 ? 300 * COP_USEC : 0);
    }
}

static void everywhere(const char *lines)
{
    static const char *const shapes[] = {"kary:2", "knomial:2", "flat", "chain"};
    runs = 0;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        for (uint32_t n = 2; n <= NODES_MAX; n += i < 2 ? 1 : 3) {
            struct setting setting = {shapes[i], n, n / 3, lines};
            kill_everywhere(&setting);
        }
    }
    print_message("%llu runs\n", (unsigned long long)runs);
    assert_true(runs > 500);
}

static void test_heal(void **state)
{
    (void)state;
    everywhere("at 0 bcast %u token 1 timeout 10s\n");
}

static void test_plain(void **state)
{
    (void)state;
    everywhere("at 0 bcast %u token 1 plain\n");
}

/* A lazy group, the order of which is not that of the ids, and a refusal now and then. */
static void test_group(void **state)
{
    (void)state;
    everywhere("at 0 group %u 1 lazy 1-%u,0 token 7\n"
               "at 1 bcast %u group 1 token 1 timeout 10s mischief 4\n");
}

static void test_misbehaving_services(void **state)
{
    (void)state;
    everywhere("at 0 bcast %u token 1 timeout 10s mischief 31\n");
}

/* Three windows of chunks, so that much of it is gone when somebody has to catch up. */
static void test_bulk(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    stride = 31;
#else
    stride = 7;
#endif
    everywhere("at 0 bcast %u token 1 timeout 60s bulk 470 10\n");
    everywhere("at 0 bcast %u token 1 plain service-time 1s bulk 470 10\n");
    stride = 1;
}

/* 6 is asked by 2, which came back, and by 10, which passed around it, before it has checked. It
 * pulls from 10; 2 waited for it, and so did all others for 2. */
static void test_asked_twice_before_the_check(void **state)
{
    static const char text[] =
        "nodes 12\nshape kary:2\nseed 7708\nflags codec cut\n"
        "net recorded 108000ns,84000ns,433000ns,162000ns,106000ns jitter 48us\n"
        "at 0ns bcast 10 token 1 timeout 10s bulk 2493 46\n"
        "at 59995ns crash 2\nat 85050ns restart 2\n";
    (void)state;
    assert_int_equal(run_text(text).answered, 12);
}

/* 12 comes back, and 27 below it, which has all bytes, answers before 12 has checked: it does not
 * pull any more, and 12 waited for it with what it holds. */
static void test_answered_before_the_check(void **state)
{
    static const char text[] =
        "topology m:0 => m:1 ; m:0 => m:2 ; m:2 => m:3 ; m:2 => m:4 ; m:2 => m:5 ; "
        "m:1 => m:6 ; m:0 => m:7 ; m:2 => m:8 ; m:8 => m:9 ; m:2 => m:10 ; "
        "m:2 => m:11 ; m:7 => m:12 ; m:12 => m:13 ; m:6 => m:14 ; m:4 => m:15 ; "
        "m:10 => m:16 ; m:14 => m:17 ; m:9 => m:18 ; m:7 => m:19 ; m:7 => m:20 ; "
        "m:18 => m:21 ; m:0 => m:22 ; m:2 => m:23 ; m:1 => m:24 ; m:2 => m:25 ; "
        "m:13 => m:26 ; m:15 => m:27 ; m:2 => m:28 ; m:7 => m:29 ; m:6 => m:30 ; "
        "m:0 => m:31 ; m:15 => m:32 ; m:6 => m:33 ; m:23 => m:34 ; m:23 => m:35 ; "
        "m:27 => m:36 ; m:31 => m:37 ; m:20 => m:38 ; m:27 => m:39 ; m:38 => m:40 ; "
        "m:13 => m:41 ; m:12 => m:42 ; m:13 => m:43 ; m:10 => m:44 ; m:1 => m:45 ; "
        "m:21 => m:46 ; m:8 => m:47 ;\nseed 55197\nflags codec buggify\n"
        "net constant 10us\nat 0ns bcast 31 token 2 timeout 10s bulk 1531 25\n"
        "crash 13 after-send 7\ncrash 37 after-send 6\nat 0ns crash 28\n"
        "at 7820us crash 12\nat 17ms restart 12\n"
        "at 8ms group 22 1 now 22-42 shape kary:2 token 2001\n"
        "at 8610us group 42 4 now 11-43 token 2004\n";
    (void)state;
    run_text(text);
}

/* Nobody fails because somebody else, or only a clock, stands still for a while. The root knows that 1
 * was slow before, yet gives it up before it comes back, and before 2 gives up the root. */
static void test_who_is_served_does_not_give_up(void **state)
{
    static const char slow[] =
        "nodes 3\nshape flat\nseed 1\nnet constant 10us\n"
        "at 0ns bcast 0 token 5 timeout 10s service-time 300s plain\n"
        "at 5us pause 1\nat 20s resume 1\n"
        "at 30s bcast 0 token 6 timeout 10s plain bulk 2210 56\n"
        "at 30000045us pause 1\nat 80s resume 1\n";
    static const char jump[] =
        "nodes 3\nshape flat\nseed 1\nnet constant 10us\n"
        "at 0ns bcast 0 token 6 timeout 10s plain bulk 22100 56\nat 60us jump 2 60s\n";
    (void)state;
    assert_true(run_text(slow).completed_ns < 80 * COP_SEC);
    assert_int_equal(run_text(jump).answered, 3);
}

/* 42 stands still, nobody looks after it, and who was told of bytes pulled from it for ever. */
static void test_source_stands_still(void **state)
{
    static const char text[] =
        "nodes 74\nshape flat\nseed 69165\nnet constant 10us\n"
        "at 0ns bcast 42 token 5 timeout 10s service-time 178ms bulk 2210 56 plain\n"
        "at 8us pause 42\nliveness\n";
    (void)state;
    run_text(text);
}

/* A new life does not know the group: whoever asks it tells it, whenever that is. */
static void test_a_new_life_is_told_of_the_group(void **state)
{
    static const char *const texts[] = {
        "nodes 10\nshape flat\nseed 37468\nnet constant 10us\n"
        "at 2ms bcast 8 group 1 token 1 timeout 10s mischief 21\n"
        "at 270us crash 9\nat 1940us restart 9\n"
        "at 0ns group 8 1 now 4-9 shape kary:2 token 2001\n",
        "nodes 11\nshape chain\nseed 31794\nnet constant 10us\n"
        "at 9ms bcast 4 group 2 token 2 timeout 10s mischief 44\n"
        "at 16ms crash 10\nat 23ms restart 10\n"
        "at 0ns group 4 2 now 4-10 shape kary:2 token 2002\n",
        /* 5 has answered the last call of the group when 6 comes back and has to be told. */
        "nodes 7\nshape knomial:2\nseed 417128\nnet constant 10us\n"
        "at 7ms bcast 3 group 4 token 4 timeout 10s mischief 384 last bulk 2268 63\n"
        "at 6ms crash 6\nat 15ms restart 6\nat 0ns group 3 4 now 3-6 token 2004\n",
        /* Two questions were on their way to it, and both are refused. */
        "nodes 6\nshape chain\nviews majority\nflags codec\nnet constant 10us\n"
        "at 10us group 0 1 now 0-5 shape chain token 1\nat 200ms crash 4\n"
        "at 2s restart 4\nat 3s slow 3 > 4 5ms\n"
        "at 4s bcast 0 group 1 token 2 timeout 20s service-time 1s\n"
        "at 4000045us lie 5 about 4\n",
        /* The definition is cut off, and it is asked again on a way around. */
        "nodes 6\nshape chain\nviews majority\ndetect ring 100ms witnesses 2\n"
        "flags codec\nnet constant 10us\n"
        "at 10us group 0 1 now 0-5 shape chain token 1\nat 200ms crash 4\n"
        "at 2s restart 4\n"
        "at 4s bcast 0 group 1 token 2 timeout 20s service-time 1s\n"
        "at 4000055us partition 3 | 4\nat 10s heal\n",
        /* So is its refusal. */
        "nodes 6\n"
        "shape chain\n"
        "views majority\n"
        "detect ring 100ms witnesses 2\n"
        "flags codec\n"
        "net constant 10us\n"
        "at 10us group 0 1 now 0-5 shape chain token 1\n"
        "at 200ms crash 4\n"
        "at 2s restart 4\n"
        "at 3s partition 3 | 4\n"
        "at 4s bcast 0 group 1 token 2 timeout 20s service-time 1s\n"
        "at 40s heal\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        uint64_t answered = run_text(texts[i]).answered;
        /* Of the others nobody is missing. */
        if (i >= 3)
            assert_int_equal(answered, 6);
    }
}

/* A relay that dies, or only stands still as one does whose death no connection tells, is
 * reported, at any time of a transfer, and a view comes without it: nobody else is missed. */
static void lose_reported(uint32_t nodes, const char *shape, const char *what,
                          unsigned at_us)
{
    static const unsigned later_us[] = {0, 15, 700};
    for (size_t i = 0; i < 2 * sizeof(later_us) / sizeof(later_us[0]); i++) {
        unsigned last = (unsigned)nodes - 1;
        char text[300];
        snprintf(text, sizeof(text),
                 "nodes %u\nshape %s\nseed 1\nflags codec quiet\nviews majority\n"
                 "at 0 bcast 0 token 1 timeout 60s bulk 470 10\n"
                 "at %uus %s 1\nat %uus report %u about 1\n",
                 (unsigned)nodes, shape, at_us, what, at_us + later_us[i / 2],
                 i % 2 ? last : 0);
        uint64_t answered = run_text(text).answered;
        if (answered < nodes - 1)
            fail_msg("%u answered\n%s", (unsigned)answered, text);
        runs++;
    }
}

static void test_bulk_reported(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    const unsigned step_us = 997;
#else
    const unsigned step_us = 167;
#endif
    for (unsigned at_us = 5; at_us < 9000; at_us += step_us) {
        lose_reported(3, "chain", "crash", at_us);
        lose_reported(3, "chain", "pause", at_us);
        lose_reported(7, "kary:2", "crash", at_us);
        lose_reported(7, "kary:2", "pause", at_us);
    }
}

/* ---- everything ------------------------------------------------------------------ */

static void explore_under(enum cop_quorum quorum, uint32_t nodes, const char *shape,
                          uint32_t crashes, uint32_t lies)
{
    struct cop_sim_explore config = {.nodes = nodes,
                                     .crashes = crashes,
                                     .lies = lies,
                                     .quorum = quorum,
                                     .coll = true,
                                     .reduce = true};
    struct cop_sim_explored explored;
    assert_int_equal(cop_shape_parse(shape, &config.shape, NULL, 0), 0);
    assert_int_equal(cop_sim_explore(&config, &explored), 0);
    if (explored.failure[0])
        print_error("%s\n%s", explored.failure, explored.schedule);
    assert_string_equal(explored.failure, "");
    assert_true(explored.exhausted);
    assert_true(explored.terminals > 0);
    free(explored.schedule);
}

static void explore(uint32_t nodes, const char *shape, uint32_t crashes, uint32_t lies)
{
    explore_under(COP_QUORUM_FIXED, nodes, shape, crashes, lies);
}

/* The views change beside the call. */
static void test_every_order_of_views(void **state)
{
    (void)state;
    explore_under(COP_QUORUM_MAJORITY, 3, "chain", 2, 0);
    explore_under(COP_QUORUM_NONE, 3, "flat", 2, 0);
    explore_under(COP_QUORUM_NONE, 3, "chain", 1, 1);
}

static void test_every_order(void **state)
{
    (void)state;
    seeds_skip_if_brief();
    explore(3, "chain", 1, 1);
    explore(3, "flat", 1, 1);
    explore(4, "kary:2", 1, 0);
    explore(4, "chain", 1, 0);
}

/* What a seed prints is what it runs. */
static void test_scripts_print(void **state)
{
    (void)state;
    unsigned kinds[COP_SIM_STREAM + 1] = {0}, bulks = 0, strict = 0, oob = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct cop_sim_script script;
        assert_int_equal(cop_sim_swarm_script(seed, COP_SIM_SWARM_COLL, &script), 0);
        char *text = cop_sim_script_print(&script);
        assert_non_null(text);
        struct cop_sim_script again = parse_script(text);
        char *twice = cop_sim_script_print(&again);
        assert_string_equal(text, twice);
        for (uint32_t i = 0; i < script.count; i++)
            kinds[script.actions[i].kind]++;
        for (uint32_t i = 0; i < script.count; i++)
            bulks += (script.actions[i].coll.flags & COP_BCAST_BULK) != 0;
        for (uint32_t i = 0; i < script.count; i++) {
            strict += (script.actions[i].coll.flags & COP_BCAST_STRICT) != 0;
            oob += script.actions[i].kind == COP_SIM_GROUP &&
                   script.actions[i].coll.kind == COP_GROUP_OOB;
        }
        free(text);
        free(twice);
        cop_sim_script_free(&script);
        cop_sim_script_free(&again);
    }
    for (unsigned kind = COP_SIM_GROUP; kind <= COP_SIM_UNSERVICE; kind++)
        assert_in_range(kinds[kind], 20, 10000);
    assert_int_equal(kinds[COP_SIM_PROBE], 0);
    assert_in_range(bulks, 20, 10000);
    assert_in_range(strict, 20, 10000);
    assert_in_range(oob, 10, 10000);
}

/* D7: who has nobody left to confirm that the others are dead accuses nobody, and its call takes all its
 * time. And who stood still takes part in a call that is over for a while: until its time is up. */
static void test_calls_where_silence_is_looked_for(void **state)
{
    (void)state;
    run_text("nodes 3\nshape chain\nseed 1938\nviews majority\ndetect witnesses 2\n"
             "net constant 10us\nat 0ns bcast 0 group 2 token 2 timeout 10s version 1 "
             "mischief 40 strict bulk 122 2\nat 0ns crash 1-2\nliveness\n");
    run_text("nodes 4\nshape chain\nseed 1233\nviews majority\ndetect ring 400ms\n"
             "net constant 10us\nat 0ns bcast 3 token 2 timeout 10s version 1 strict "
             "bulk 191 5\ncrash 2 before-recv 5\nat 0ns pause 1\nliveness\n");
}

/* C2: who dies and comes back while it runs is named, and who comes later is not. */
static void test_over_a_view_that_changes(void **state)
{
    (void)state;
    run_text("nodes 4\nshape flat\nseed 2\nviews majority\nnet constant 10us\n"
             "at 100us bcast 0 token 1 timeout 5s mischief 1\nat 105us crash 3\n"
             "at 2ms restart 3\n");
    run_text("nodes 4\nshape flat\nseed 2\nviews majority\nnet constant 10us\n"
             "at 1us crash 3\nat 10ms bcast 0 token 1 timeout 5s mischief 1\n"
             "at 20ms restart 3\nat 40ms crash 3\nat 50ms report 0 about 3\n");
}

/* K2: the root says last to 3 that there is a view without 5, which who calls has by then. */
static void test_a_call_ahead_of_its_view(void **state)
{
    static const char text[] =
        "nodes 6\nshape flat\nviews majority\nflags codec\nnet constant 10us\n"
        "at 10ms crash 5\nat 10035us slow 0 > 3 5ms\n"
        "at 11ms bcast 1 token 1 timeout 10s service-time 1s plain\n";
    /* Taken back while 3 holds it: nobody waits for its service, which never answers. */
    static const char taken_back[] =
        "nodes 6\nshape flat\nviews majority\nflags codec\nnet constant 10us\n"
        "at 10ms crash 5\nat 10035us slow 0 > 3 5ms\nat 10035us slow 3 > 1 1ms\n"
        "at 11ms bcast 1 token 1 timeout 10s service-time 100s mischief 1 plain\n"
        "at 11200us abort 1 1\n";
    (void)state;
    assert_int_equal(run_text(text).answered, 5);
    assert_true(run_text(taken_back).virtual_ns < 50 * COP_SEC);
}

/* Who has not been let in has nobody to call. */
static void test_before_it_is_a_member(void **state)
{
    (void)state;
    run_text("nodes 3\nshape flat\nseed 4692\nviews majority\nnet switch 46us 2340ns\n"
             "at 870684ns bcast 1 token 1 plain\nat 244469ns crash 1\n"
             "at 253469ns restart 1\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scripts_print),
        cmocka_unit_test(test_without_lies),
        cmocka_unit_test(test_with_lies),
        cmocka_unit_test(test_heal),
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_group),
        cmocka_unit_test(test_misbehaving_services),
        cmocka_unit_test(test_bulk),
        cmocka_unit_test(test_bulk_reported),
        cmocka_unit_test(test_asked_twice_before_the_check),
        cmocka_unit_test(test_answered_before_the_check),
        cmocka_unit_test(test_who_is_served_does_not_give_up),
        cmocka_unit_test(test_source_stands_still),
        cmocka_unit_test(test_a_new_life_is_told_of_the_group),
        cmocka_unit_test(test_every_order),
        cmocka_unit_test(test_every_order_of_views),
        cmocka_unit_test(test_calls_where_silence_is_looked_for),
        cmocka_unit_test(test_over_a_view_that_changes),
        cmocka_unit_test(test_a_call_ahead_of_its_view),
        cmocka_unit_test(test_before_it_is_a_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
