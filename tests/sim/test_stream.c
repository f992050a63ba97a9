/* SPDX-License-Identifier: Apache-2.0 */
#include "scripts.h"
#include "seeds.h"

#include <coppice/filter.h>
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
 * Streams: random clusters, a death at every message boundary, and the cases by name. The
 * checkers of S1 to S3 look on all the while; here they are also seen to fail.
 */
#define STREAM 1u

static void test_swarm(void **state)
{
    (void)state;
    seeds_run(seeds_count() / 10 + 1, COP_SIM_SWARM_STREAM);
}

/* ---- without failures ------------------------------------------------------------ */

/* One frame up each edge for each wave, and one down for each quarter of a window. */
static void test_nothing_fails(void **state)
{
    (void)state;
    struct cop_sim_report report =
        run_text("nodes 21\nshape kary:4\nseed 3\nviews majority\nnet constant 10us\n"
                 "flags codec\nliveness\nstream sum waves 100 window 16 leaves\n");
    assert_int_equal(report.stats.stream_orphans, 0);
    assert_true(report.healed_ns == 0);
    assert_true(report.complete >= 100);
    /* The root and 20 others make each wave once; and wave 0 in up to three stages. */
    assert_true(report.stats.stream_waves >= 2100 && report.stats.stream_waves < 2200);
}

static void test_slow_front_end(void **state)
{
    (void)state;
    struct cop_sim_report report =
        run_text("nodes 7\nshape kary:2\nseed 3\nviews majority\nnet constant 10us\n"
                 "flags codec\nliveness\nstream sum waves 40 window 2 lag 30ms\n");
    assert_true(report.complete >= 40);
}

/* ---- a death at every message boundary ------------------------------------------- */

static void kill_everywhere(const char *stream, uint32_t nodes, const char *shape,
                            uint32_t step)
{
    char text[512];
    for (uint32_t victim = 0; victim < nodes; victim++)
        for (uint32_t count = 1; count <= 24; count += step)
            for (int before = 0; before < 2; before++) {
                snprintf(text, sizeof(text),
                         "nodes %u\nshape %s\nseed %u\nviews majority\nnet constant "
                         "10us\nflags codec cut\nliveness\n%s\ncrash %u %s %u\n",
                         (unsigned)nodes, shape, (unsigned)count, stream,
                         (unsigned)victim, before ? "before-recv" : "after-send",
                         (unsigned)count);
                run_text(text);
            }
}

static void test_deaths_sum(void **state)
{
    (void)state;
    kill_everywhere("stream sum waves 6 window 2 gap 30us", 7, "kary:2", 1);
    kill_everywhere("stream sum waves 6 window 2 gap 30us leaves downs 3", 7, "kary:2",
                    1);
}

static void test_deaths_union(void **state)
{
    (void)state;
    kill_everywhere("stream union waves 5 window 3 gap 20us", 6, "chain", 1);
    kill_everywhere("stream union waves 5 window 3 gap 20us leaves", 8, "knomial:2", 2);
}

/* T20: who is killed where groups are closed, and groups of which nobody has all. */
static void test_deaths_levels(void **state)
{
    (void)state;
    kill_everywhere("stream levels params sum@1,max waves 6 window 2 gap 30us", 7,
                    "kary:2", 2);
    kill_everywhere("stream levels params sum@2,min@1,max waves 5 window 3 gap 20us "
                    "leaves",
                    13, "kary:3", 7);
    kill_everywhere("stream levels params union@1,classes waves 5 window 2 gap 20us "
                    "single",
                    6, "knomial:2", 5);
}

/* T20: groups are closed on the way, as long as all of them are there; who returned, or came later,
 * is not added up with those who were there at the start. */
static void test_levels(void **state)
{
    (void)state;
    struct cop_sim_report report =
        run_text("nodes 21\nshape kary:4\nseed 3\nviews majority\nnet constant 10us\n"
                 "flags codec\nliveness\nstream levels params sum@2,max@1,max waves 10 "
                 "window 4 leaves\n");
    assert_true(report.stats.stream_closed >= 10 * (16 + 4));
    report =
        run_text("nodes 9\nstart 7\nshape kary:2\nseed 1\nviews majority\nnet constant "
                 "10us\nflags codec\nliveness\nstream levels params sum@1,max waves 30 "
                 "window 4 gap 2ms\nat 5ms join\nat 9ms crash 5\nat 20ms restart 5\n"
                 "at 30ms crash 0\nat 40ms restart 0\n");
    assert_true(report.stats.stream_closed > 0);
}

/* T21: whoever dies on the way, what comes of a filter down is what was planned. */
static void test_deaths_down(void **state)
{
    (void)state;
    kill_everywhere("stream sum waves 6 window 2 gap 30us downs 6 down path", 7,
                    "kary:2", 2);
    kill_everywhere("stream sum waves 6 window 2 gap 30us leaves downs 6 down scatter",
                    7, "kary:2", 2);
    kill_everywhere("stream union waves 5 window 3 gap 20us downs 5 down select of "
                    "to=1-2+5",
                    6, "chain", 3);
}

/* T21: also at a root that is a new life, for those who return, and for those who come later. */
static void test_down_after_returning(void **state)
{
    (void)state;
    static const char *const filters[] = {"path", "scatter", "select of to=0+5+7"};
    char text[512];
    for (uint32_t i = 0; i < 3; i++) {
        snprintf(
            text, sizeof(text),
            "nodes 9\nstart 7\nshape kary:2\nseed 1\nviews majority\nnet constant "
            "10us\nflags codec\nliveness\nstream sum waves 30 window 4 gap 2ms downs "
            "30 down %s\nat 5ms join\nat 9ms crash 5\nat 20ms restart 5\nat 30ms "
            "crash 0\nat 40ms restart 0\n",
            filters[i]);
        run_text(text);
    }
}

/* T1: a root that is a new life opens a stream that others have as it was. */
static void test_opened_as_it_was(void **state)
{
    (void)state;
    run_text(
        "nodes 10\nshape radix:2\nseed 706\nviews majority\nstart 9\nstream levels "
        "waves "
        "18 window 14 params union@1,classes gap 99231ns leaves\nnet constant 10us\n"
        "at 0ns join\nat 0ns leave 7\nat 50us partition 0 > 1-8\nat 120us lie 1 about "
        "0\nliveness\n");
}

/*
 * T1: whoever dies while it is being opened, in a cluster to which somebody comes meanwhile, there
 * is one plan. The front-end is at the root, at one that carries others, at a leaf; and where it is
 * itself the one that dies another takes over, which may find a root that has not heard of it.
 */
static void kill_while_opening(const char *stream, const char *shape, uint32_t front)
{
    char text[512];
    for (uint32_t victim = 0; victim < 7; victim++)
        for (uint32_t count = 1; count <= 16; count++)
            for (int before = 0; before < 2; before++) {
                snprintf(text, sizeof(text),
                         "nodes 8\nstart 7\nshape %s\nseed %u\nviews majority\nnet "
                         "constant 10us\nflags codec\nliveness\n%s front %u\n"
                         "at %uus join\ncrash %u %s %u\nat 3ms crash %u\n",
                         shape, (unsigned)count, stream, (unsigned)front,
                         (unsigned)(40 * (count % 4)), (unsigned)victim,
                         before ? "before-recv" : "after-send", (unsigned)count,
                         (unsigned)((victim + 1) % 7));
                run_text(text);
            }
}

static void test_deaths_while_opening(void **state)
{
    (void)state;
    static const uint32_t fronts[] = {0, 1, 2, 3, 6};
    for (uint32_t i = 0; i < sizeof(fronts) / sizeof(fronts[0]); i++) {
        kill_while_opening("stream sum waves 4 window 2 gap 30us lag 300us leaves "
                           "downs 4 down scatter",
                           "kary:2", fronts[i]);
        kill_while_opening(
            "stream levels params sum@1,max waves 4 window 2 gap 30us lag "
            "300us downs 2 down path",
            "knomial:2", fronts[i]);
    }
}

/* Found by seeds: the next root had not heard of it, and planned it anew for one more member. */
static void test_planned_once(void **state)
{
    (void)state;
    run_text(
        "nodes 20\nshape chain\nseed 4227\nviews majority\nstart 19\n"
        "stream sum waves 14 window 1 gap 27888ns lag 61298ns timeout 91235ns downs 3 "
        "down scatter front 13\nflags codec cut\nnet constant 10us\nat 60us crash 0\n"
        "at 0ns pause 2\nat 0ns join spare\nliveness\n");
}

/* T1: the root and the front-end die, and the next of each has not heard of the stream, that a
 * third has: the elder stays, and is taken from. */
static void test_taken_over_anew(void **state)
{
    (void)state;
    struct cop_sim_report report = run_text(
        "nodes 3\nshape chain\nseed 15794\nviews majority\nstream concat waves 2 "
        "window 2 gap 12071407ns lag 2950931ns others 2 front 0 single\n"
        "net constant 10us\nat 0ns crash 1\nat 2ms restart 1\nat 8ms crash 0\n"
        "liveness\n");
    assert_true(report.stats.stream_stillborn > 0);
}

/* Streams beside it, in the same network and in others, opened and closed meanwhile: the last of a
 * network, and its network with it. */
static void test_deaths_others(void **state)
{
    (void)state;
    kill_everywhere("stream sum waves 1 window 2 closes", 4, "chain", 1);
    kill_everywhere("stream sum waves 2 window 2 gap 10us others 1", 4, "chain", 3);
    kill_everywhere("stream union waves 2 window 1 gap 10us others 3 leaves downs 1", 5,
                    "kary:2", 3);
}

/* T19: as the others while nothing fails; over with its view, even if nobody is lost, and where
 * somebody is left by mistake, though there is no other view then. */
static void test_fragile(void **state)
{
    (void)state;
    struct cop_sim_report report = run_text(
        "nodes 21\nshape kary:4\nseed 3\nviews majority\nnet constant 10us\n"
        "flags codec\nliveness\nstream sum waves 100 window 16 downs 9 fragile\n");
    assert_true(report.complete >= 100);
    for (uint32_t at = 0; at <= 20; at += 2) { /* before the first packet, and later */
        char text[512];
        snprintf(text, sizeof(text),
                 "nodes 7\nstart 6\nshape kary:2\nseed 1\nviews majority\nnet constant "
                 "10us\nflags codec\nliveness\nstream sum waves 30 window 4 gap 3ms "
                 "fragile\nat %ums join\n",
                 (unsigned)at);
        assert_true(run_text(text).complete < 30);
    }
    kill_everywhere("stream sum waves 3 window 2 gap 30us downs 2 fragile", 5, "kary:2",
                    1);
    kill_everywhere("stream sum waves 8 window 2 lag 36us withdraw single fragile", 5,
                    "flat", 1);
    for (uint32_t seed = 1; seed <= 40; seed++) {
        char text[512];
        snprintf(text, sizeof(text),
                 "nodes 9\nshape chain\nseed %u\nviews majority\nnet constant 10us "
                 "jitter 100us\nliveness\nstream sum waves 8 window 4 gap 300us "
                 "fragile\nat 2000us report 6 about 2\nat 1000us report 5 about 3\n"
                 "at 2500us report 7 about 5\n",
                 (unsigned)seed);
        run_text(text);
    }
}

/* Two at once: neighbours, a whole level, the root and its heir. */
static void test_zones(void **state)
{
    (void)state;
    static const char *const crashes[] = {
        "at 200us crash 1\nat 200us crash 3\n", "at 200us crash 1-2\n",
        "at 200us crash 0-1\n", "at 200us crash 0\nat 900us crash 1\n",
        "at 200us crash 1\nat 1ms crash 2\nat 3ms crash 0\n"};
    static const char *const filters[] = {"sum", "union", "max"};
    for (uint32_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
        for (uint32_t j = 0; j < 3; j++)
            for (uint32_t seed = 1; seed <= 5; seed++) {
                char text[512];
                snprintf(text, sizeof(text),
                         "nodes 15\nshape kary:2\nseed %u\nviews none\nnet constant "
                         "10us\nflags codec\nliveness\nstream %s waves 30 window 4 gap "
                         "200us leaves\n%s",
                         (unsigned)seed, filters[j], crashes[i]);
                struct cop_sim_report report = run_text(text);
                assert_true(report.stats.stream_adoptions > 0);
                assert_true(report.complete > 0);
                /* To be noticed it takes a message, and one to attach. */
                assert_true(report.healed_ns >= 20 * COP_USEC);
            }
}

/* ---- what a recovery costs ------------------------------------------------------- */

/* Frames of a network itself, without waves and marks. */
static void add_frames(void *context, const char *name, uint64_t value)
{
    static const char *const kinds[] = {"sent_network", "sent_attach", "sent_adopt",
                                        "sent_detach", "sent_path"};
    for (uint32_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(name, kinds[i]) == 0)
            *(uint64_t *)context += value;
}

/* One dies below whom there are k. */
static uint64_t frames_of_orphans(uint32_t k)
{
    char text[256];
    uint64_t frames = 0;
    snprintf(
        text, sizeof(text),
        "nodes %u\nshape kary:%u\nseed 1\nviews majority\nnet constant 10us\n"
        "liveness\nstream sum waves 12 window 4 gap 200us leaves\nat 2ms crash 1\n",
        (unsigned)(2 * k + 1), (unsigned)k);
    struct cop_sim_report report = run_text(text);
    assert_true(report.stats.stream_orphans >= k);
    cop_stats_each(&report.stats, add_frames, &frames);
    return frames;
}

/* In proportion to the orphans: all of them tell a few, and nobody tells all. */
static void test_frames_of_a_recovery(void **state)
{
    (void)state;
    uint64_t few = frames_of_orphans(8), many = frames_of_orphans(64);
    assert_true(few <= 8 * 8);
    assert_true(many <= 8 * 64);
}

/* ---- all schedules --------------------------------------------------------------- */

static void explore(uint32_t nodes, uint32_t crashes, const char *shape,
                    const char *filter, uint32_t waves, uint32_t flags)
{
    struct cop_sim_explored explored;
    struct cop_sim_explore config = {
        .nodes = nodes,
        .crashes = crashes,
        .quorum = COP_QUORUM_NONE,
        .reduce = true,
        .stream = {.waves = waves, .window = 1, .downs = 1, .flags = flags},
    };
    snprintf(config.stream.filter, sizeof(config.stream.filter), "%s", filter);
    assert_int_equal(cop_shape_parse(shape, &config.shape, NULL, 0), 0);
    assert_int_equal(cop_sim_explore(&config, &explored), 0);
    if (explored.failure[0])
        print_error("%s: %s\n%s", shape, explored.failure, explored.schedule);
    assert_string_equal(explored.failure, "");
    assert_true(explored.exhausted);
    assert_true(explored.terminals > 1);
    free(explored.schedule);
}

/* Every order of deliveries and every death, in both trees of three. */
static void test_explorer(void **state)
{
    (void)state;
    explore(2, 1, "flat", "sum", 2, 0);
    explore(2, 1, "flat", "union", 2, COP_STREAM_LEAVES);
    seeds_skip_if_brief();
    explore(3, 1, "chain", "sum", 1, 0);
    explore(3, 1, "flat", "sum", 1, COP_STREAM_LEAVES);
}

/* ---- departed -------------------------------------------------------------------- */

/* What the last root has of lost leaves. */
static uint32_t departed_at_the_end;

static void count_departed(void *context, struct cop_sim *sim)
{
    struct cop_departed gone;
    (void)context;
    const struct cop_node *node = cop_sim_node(sim, 0);
    departed_at_the_end = 0;
    while (cop_node_departed(node, STREAM, departed_at_the_end, &gone) == 0)
        departed_at_the_end++;
}

static void test_values_of_lost_leaves_stay(void **state)
{
    (void)state;
    static const char text[] =
        "nodes 7\nshape kary:2\nseed 1\nviews majority\nnet constant 10us\n"
        "flags codec\nliveness\nstream sum waves 20 window 4 gap 500us leaves%s\n"
        "at 3ms crash 3\nat 6ms crash 1\n";
    char full[512];
    for (int withdraw = 0; withdraw < 2; withdraw++) {
        snprintf(full, sizeof(full), text, withdraw ? " withdraw" : "");
        struct cop_sim_script script = parse_script(full);
        script.config.end = count_departed;
        run_script(&script);
        cop_sim_script_free(&script);
        assert_int_equal(departed_at_the_end, withdraw ? 0 : 1);
    }
}

/* The lost one was between others: what it gave itself stays, and they are in nobody's value. */
static void test_values_of_those_between_stay(void **state)
{
    (void)state;
    struct cop_sim_script script = parse_script(
        "nodes 7\nshape kary:2\nseed 1\nviews majority\nnet constant 10us\n"
        "flags codec\nliveness\nstream sum waves 20 window 4 gap 500us\n"
        "at 3ms crash 1\nat 8ms crash 2\n");
    script.config.end = count_departed;
    run_script(&script);
    cop_sim_script_free(&script);
    assert_int_equal(departed_at_the_end, 2);
}

/* ---- coming later ---------------------------------------------------------------- */

static void test_joining_and_returning(void **state)
{
    (void)state;
    struct cop_sim_report report = run_text(
        "nodes 9\nstart 6\nshape kary:2\nseed 1\nviews majority\nnet constant "
        "10us\nflags codec\nliveness\nstream sum waves 30 window 4 gap 2ms downs 9\n"
        "at 5ms join\nat 9ms join\nat 12ms crash 0\nat 20ms restart 0\n");
    assert_true(report.stats.stream_adoptions >= 3);
}

static uint64_t begun_at; /* the wave before the first of the one who came last */

static void note_opened(void *state, struct cop_sim *sim, cop_id node, uint64_t number,
                        const struct cop_stream_event *event)
{
    if (event->kind == COP_STREAM_OPENED && node == 6)
        begun_at = event->wave;
    cop_sim_checker_stream()->on_stream(state, sim, node, number, event);
}

static void test_who_comes_later_begins_later(void **state)
{
    (void)state;
    struct cop_sim_checker noting = *cop_sim_checker_stream();
    struct cop_sim_script script = parse_script(
        "nodes 7\nstart 6\nshape kary:2\nseed 1\nviews majority\nnet constant "
        "10us\nflags codec\nliveness\nstream sum waves 30 window 4 gap 2ms\n"
        "at 20ms join\n");
    noting.on_stream = note_opened;
    const struct cop_sim_checker *const checkers[] = {&noting, cop_sim_stream_app(),
                                                      NULL};
    script.config.checkers = checkers;
    begun_at = 0;
    run_script(&script);
    cop_sim_script_free(&script);
    assert_true(begun_at >= 5);
}

/* Whom somebody left because it seemed lost hears so, even where waves wait for the one who
 * went, so that nobody above knows of it. */
static void test_left_by_mistake(void **state)
{
    (void)state;
    run_text("nodes 15\nshape chain\nseed 28\nviews majority\nnet constant 10us jitter "
             "100us\nliveness\nstream sum waves 8 window 4 gap 300us\n"
             "at 2000us report 11 about 2\nat 1000us report 5 about 3\n"
             "at 2500us report 13 about 5\n");
    run_text(
        "nodes 20\nshape radix:2\nseed 612\nviews majority\nnet constant 10us jitter "
        "100us\nliveness\nstream sum waves 8 window 4 gap 300us\n"
        "at 1000us report 15 about 3\nat 2500us report 5 about 3\n"
        "at 2000us report 3 about 5\n");
    run_text(
        "nodes 7\nshape chain\nseed 959\nviews majority\nstart 7\nstream union waves 3 "
        "window 2 gap 84941ns lag 78924ns timeout 57866ns downs 3 leaves\n"
        "net recorded 167000ns,287000ns,263000ns,88000ns\nat 1ms report 5 about 3\n"
        "liveness\n");
}

/* The front-end was at the root, and died with it: nobody will take what comes. */
static void test_nobody_takes(void **state)
{
    (void)state;
    run_text("nodes 7\nshape kary:2\nseed 1\nviews majority\nnet constant 10us\n"
             "flags codec\nliveness\nstream sum waves 20 window 4 gap 500us mortal\n"
             "at 3ms crash 0\n");
    run_text("nodes 5\nshape chain\nseed 2\nviews majority\nnet constant 10us\n"
             "flags codec\nliveness\nstream sum waves 20 window 4 gap 500us others 2 "
             "mortal\n"
             "at 3ms crash 0-1\n");
    /* As long as it lives nothing is closed. */
    struct cop_sim_report report = run_text(
        "nodes 7\nshape kary:2\nseed 1\nviews majority\nnet constant 10us\n"
        "flags codec\nliveness\nstream sum waves 20 window 4 gap 500us mortal\n"
        "at 3ms crash 1\n");
    assert_true(report.complete >= 15);
}

/* T12: one of the orphans is late. Waves without it would be complete for nobody, and do not
 * use up what the others may give. */
static void test_credit_waits_for_orphans(void **state)
{
    (void)state;
    struct cop_sim_report report =
        run_text("nodes 21\nshape kary:4\nseed 3\nviews majority\nnet constant 100us\n"
                 "flags codec\nliveness\nstream sum waves 400 window 4 leaves\n"
                 "at 9ms pause 5\nat 9ms crash 1\nat 59ms resume 5\n");
    assert_true(report.complete >= 390);
}

/* Found by seeds: a mark that overtook the adoption it was for; an offer that was taken twice; a new
 * life as root, which knows nothing of packets down. */
static void test_found_by_seeds(void **state)
{
    (void)state;
    run_text(
        "nodes 4\nshape flat\nseed 3111\nviews majority\nstart 4\nstream max waves 12 "
        "window "
        "1 gap 34156ns lag 28954ns leaves\nflags codec buggify\nnet constant 10us\n"
        "at 0ns crash 2\nat 110us lie 1 about 0\nliveness\n");
    run_text(
        "nodes 7\nshape knomial:3\nseed 125\nviews majority\nstart 7\nstream sum waves "
        "18 "
        "window 1 downs 2 withdraw\nnet recorded "
        "174000ns,312000ns,383000ns,114000ns,264000ns\nat 250us report 2 about 0\n"
        "at 410us lie 2 about 1\nliveness\n");
    run_text(
        "nodes 3\nshape chain\nseed 73\nviews majority\nstream sum waves 6 window 4 "
        "gap "
        "380004ns timeout 563167ns downs 4 leaves\nnet constant 10us\n"
        "at 0ns partition 0 | 1\nat 310us report 1 about 0\nliveness\n");
}

/* A time-out that nothing can be made of, over and over; a new life as root that nobody could tell
 * what had come to all; what was taken, of a wave that has since gone back. */
static void test_found_by_more_seeds(void **state)
{
    (void)state;
    run_text(
        "nodes 6\nshape flat\nseed 21111\nviews majority\nstart 6\nstream sum waves 5 "
        "window 4 gap 236575ns timeout 25671ns downs 4 leaves\nnet constant 10us\n"
        "at 0ns partition 0-4 | 5\n");
    run_text(
        "nodes 6\nshape knomial:4\nseed 24664\nviews majority\nstart 6\nstream sum "
        "waves 6 window 4 gap 10731ns lag 33177ns timeout 14774ns downs 5 leaves\n"
        "net constant 10us jitter 16us\nat 197us partition 0 | 1-5\nat 490us heal\n"
        "at 190us lie 1 about 0\nat 270us report 2 about 0\nat 240us lie 2 about 1\n"
        "liveness\n");
    run_text(
        "nodes 4\nshape chain\nseed 49574\nviews none\nstream union waves 6 window 1 "
        "gap 14268587ns lag 3280141ns downs 6 none\nflags codec buggify\n"
        "net constant 10us\nat 9ms pause 3\nat 10ms crash 1\nliveness\n");
}

/* Packets down: those below one who died count until a wave without them is made; a root that is
 * a new life begins where all are, or leaves none out. */
static void test_packets_of_those_between(void **state)
{
    (void)state;
    run_text(
        "nodes 4\nshape chain\nseed 65720\nviews majority\nstart 4\nstream sum waves 5 "
        "window 3 gap 206511ns downs 4\nflags codec cut\nnet constant 10us\n"
        "crash 2 after-send 9\n");
    run_text(
        "nodes 4\nshape radix:2\nseed 68377\nviews none\nstream union waves 8 window 4 "
        "downs 5\nflags codec cut\nnet constant 26us jitter 94us compute 7us\n"
        "crash 3 before-recv 10\ncrash 0 after-send 12\nat 630us restart 0\n"
        "crash 2 after-send 6\n");
}

/* Who is adopted in a network of which it knew one stream gets the packets of the others, too. */
static void test_packets_of_other_streams(void **state)
{
    (void)state;
    run_text(
        "nodes 6\nshape chain\nseed 995\nviews majority\nstream sum waves 5 window 1 "
        "gap "
        "14179669ns lag 1769566ns downs 6 others 2\nflags codec buggify\n"
        "net constant 10us jitter 3us\nat 6ms crash 4-5\n"
        "at 15ms partition 2 | 0-1,3-5\nat 15ms report 2 about 0\n"
        "at 15ms report 2 about 1\nat 15ms report 2 about 3\nat 15ms go-on 2\n"
        "at 18ms heal\nliveness\n");
}

/* Credit in steps: those who stand a wave behind one who skipped it get the rest of it. */
static void test_credit_below_a_step(void **state)
{
    (void)state;
    run_text(
        "nodes 7\nshape radix:2\nseed 48953\nviews majority\nstart 7\nstream sum waves "
        "23 "
        "window 12 lag 71634ns others 2 withdraw\nnet constant 10us\n"
        "at 0ns partition 0-1,5-6 | 2-4\nat 0ns report 0 about 2\nat 120us heal\n"
        "at 120us partition 0 | 1-6\nat 150us report 1 about 0\n"
        "at 80us partition 0 | 1-5\nat 110us report 0 about 1\n"
        "at 110us report 0 about 5\nat 3ms heal\nliveness\n");
}

/* A front-end that found two roots stays with the later, and finds another when that dies; it
 * does not ask of one side what it said to the other. */
static void test_front_ends_of_two_sides(void **state)
{
    (void)state;
    run_text(
        "nodes 6\nshape flat\nseed 27715\nviews has 5\nstream max waves 29 window 7 "
        "gap "
        "948661ns lag 284637ns\nnet constant 10us\nat 30us crash 4\n"
        "crash 0 after-send 12\nat 120us pause 0\nat 160us report 1 about 0\n"
        "at 650us resume 0\nliveness\n");
    run_text(
        "nodes 9\nshape radix:2\nseed 52305\nviews majority\nstream max waves 3 window "
        "2 gap 761062ns downs 7 leaves\nflags codec buggify\nnet constant 10us\n"
        "at 0ns crash 8\nat 660us partition 0,2,5 | 1,3-4,6-8\n"
        "at 720us report 0 about 1\nat 720us report 0 about 3\n"
        "at 720us report 0 about 4\nat 720us report 0 about 6\n"
        "at 720us report 0 about 7\nat 1ms report 1 about 0\n"
        "at 0ns report 4 about 0\nat 1ms report 4 about 2\n"
        "at 1ms report 4 about 5\nat 1990us go-on 0\n");
    run_text(
        "nodes 4\nshape radix:2\nseed 28458\nviews none\nstart 4\nstream union waves 5 "
        "window 1 gap 8588ns lag 37320ns downs 7 leaves\nflags codec buggify\n"
        "net constant 10us\nat 0ns partition 0-2 | 3\nat 0ns report 0 about 3\n"
        "crash 0 after-send 15\nat 129us heal\nat 140us report 0 about 1\n"
        "at 140us report 0 about 2\n");
}

/* Outputs in whose view the only back-end is not any more, and that lack what it gave. */
static uint32_t lacking, complete_and_lacking;

static void note_lacking(void *state, struct cop_sim *sim, cop_id node, uint64_t number,
                         const struct cop_stream_event *event)
{
    const struct cop_view *view = cop_node_view(cop_sim_node(sim, node));
    if (event->kind == COP_STREAM_OUTPUT && !cop_view_has(view, 5, 1) &&
        event->covered == 0 && event->departed == 0) {
        lacking++;
        complete_and_lacking += event->complete;
    }
    cop_sim_checker_stream()->on_stream(state, sim, node, number, event);
}

/*
 * Two relays leave one after the other, and with the second of them the back-end at the end of the
 * chain: those between are on their way to another parent, and have what it gave, so until they are
 * back no output is complete. The checker has no verdict on that, for it asks what became of a life
 * only where nobody else was lost. Whether they are on their way in time is a matter of microseconds,
 * so it is also asserted that they were.
 */
static void test_departed_of_those_on_their_way(void **state)
{
    (void)state;
    struct cop_sim_checker noting = *cop_sim_checker_stream();
    noting.on_stream = note_lacking;
    const struct cop_sim_checker *const checkers[] = {&noting, cop_sim_stream_app(),
                                                      NULL};
    lacking = complete_and_lacking = 0;
    for (uint32_t at = 9000; at <= 9200; at += 10) {
        char text[512];
        snprintf(text, sizeof(text),
                 "nodes 6\nshape chain\nseed 1\nviews majority\nnet constant 10us\n"
                 "flags codec\nliveness\nstream sum waves 8 window 4 gap 4ms leaves\n"
                 "at 9000us leave 1\nat %uus leave 2\nat %uus leave 5\n",
                 (unsigned)at, (unsigned)at);
        struct cop_sim_script script = parse_script(text);
        script.config.checkers = checkers;
        run_script(&script);
        cop_sim_script_free(&script);
    }
    assert_true(lacking > 0);
    assert_int_equal(complete_and_lacking, 0);
}

/* A front-end whose root died finds one that the others had removed, to which not all came that
 * came to all of them. */
static void test_front_of_a_removed_root(void **state)
{
    (void)state;
    run_text(
        "nodes 7\nshape knomial:3\nseed 3030713\nviews majority\nstart 7\n"
        "stream sum waves 8 window 1 gap 449527ns lag 457035ns timeout 155498ns "
        "downs 8 single\nnet constant 7us compute 14us\nat 770us report 0 about 6\n"
        "crash 1 after-send 28\nat 920us partition 0 | 1-6\n"
        "at 970us report 1 about 0\nat 850us pause 6\nat 870us report 1 about 6\n"
        "at 1500us resume 6\n");
}

/* Who asked for a parent is answered when that stream is over, with news of the next one. */
static void test_adopted_after_its_end(void **state)
{
    (void)state;
    run_text(
        "nodes 6\nshape knomial:4\nseed 14546\nviews majority\n"
        "stream sum waves 2 window 2 lag 919852ns timeout 234654ns downs 8 others 3 "
        "leaves\nnet constant 32us jitter 25us\nat 300us crash 1\nat 0ns crash 0\n"
        "at 1ms crash 4\n");
}

/* The root opens it in a view that others install only then: that one is no loss. */
static void test_fragile_in_a_new_view(void **state)
{
    (void)state;
    run_text("nodes 8\nshape chain\nseed 109902\nviews majority\nstart 8\n"
             "stream sum waves 7 window 3 lag 11746844ns leaves fragile\n"
             "flags codec cut buggify\nnet constant 10us\nat 0ns leave 6\n"
             "at 10ms leave 4\nliveness\n");
}

/* Who breaks it off has just left its parent, which lives, and is believed dead by nobody else. */
static void test_fragile_broken_off_by_an_orphan(void **state)
{
    (void)state;
    run_text("nodes 5\nshape chain\nseed 133613\nviews majority\nstart 5\n"
             "stream sum waves 8 window 2 gap 8712794ns lag 7543446ns leaves withdraw "
             "fragile\n"
             "net constant 10us jitter 38us\nat 4ms report 3 about 0\n"
             "at 4ms report 3 about 2\nliveness\n");
}

/* That the younger of two plans is over is heard before there is anybody who tells of the elder;
 * and who was a back-end by the younger may be none by the elder. */
static void test_younger_waits_for_the_elder(void **state)
{
    (void)state;
    run_text(
        "nodes 6\nshape knomial:2\nseed 77153\nviews majority\n"
        "stream levels waves 7 window 1 params sum@2,min@1,max gap 72223ns downs 6 "
        "down scatter others 3 front 0 none leaves single\nnet constant 10us\n"
        "at 50us crash 5\nat 0ns lie 1 about 0\nat 70us report 2 about 0\n"
        "crash 0 after-send 20\nat 0ns report 1 about 0\ncrash 1 after-send 30\n"
        "liveness\n");
    /* What a front-end had taken of the younger came behind its opening of the elder, at one root. */
    run_text(
        "nodes 7\nshape flat\nseed 177800\nviews majority\nstart 7\n"
        "stream levels waves 15 window 6 params sum@1,max lag 26334ns downs 4 front 6 "
        "none\nflags codec cut buggify\nnet torus 28us 714ns shuffle jitter 52us\n"
        "at 50us crash 6\nat 0ns crash 5\ncrash 0 after-send 9\nliveness\n");
    run_text("nodes 5\nshape flat\nseed 180198\nviews majority\nstart 5\n"
             "stream levels waves 11 window 4 params max@1,sum lag 7939338ns downs 6 "
             "front 0 leaves single\nflags codec cut\nnet constant 10us jitter 17us\n"
             "at 8ms restart 0\ncrash 0 after-send 19\nliveness\n");
}

/* A stream is opened between its asking and its being taken in, which a split has delayed: who takes
 * it in has not heard of it, and would ignore its waves. */
static void test_opened_while_it_is_between_two(void **state)
{
    (void)state;
    run_text(
        "nodes 9\nshape knomial:2\nseed 435131\nviews majority\nstart 9\n"
        "stream sum waves 7 window 3 gap 169505ns timeout 299678ns others 2 leaves\n"
        "flags codec buggify\nnet constant 10us\nat 90us report 3 about 0\n"
        "at 0ns report 3 about 2\nat 110us partition 1,4,6 | 0,2-3,5,7-8\n"
        "at 130us report 0 about 4\nat 650us heal\nliveness\n");
}

/* Who leaves right after the one above it takes along what it gave, for nobody has its slot. */
static void test_leaves_after_its_parent(void **state)
{
    (void)state;
    run_text("nodes 4\nshape chain\nseed 222433\nviews majority\n"
             "stream sum waves 6 window 4 gap 10733752ns leaves\nnet constant 10us\n"
             "at 14050us leave 2\nat 14070us leave 3\n");
}

/*
 * More waves wait than the window has, again and again, because their parent is slow, or was away:
 * they are joined into the last of them, and what their sender gave itself is in it once. Then that
 * dies, and leaves what it gave.
 */
static void test_joined_for_want_of_room(void **state)
{
    (void)state;
    run_text("nodes 8\nshape knomial:2\nseed 40316\nviews majority\n"
             "stream sum waves 80 window 3 gap 2ms timeout 300us lag 300us downs 5\n"
             "at 36364us slow 4 5000us\nat 508260us crash 6\n");
    run_text(
        "nodes 16\nshape kary:2\nviews majority\n"
        "stream sum waves 200 window 4 gap 500us\nat 20ms pause 3\nat 20ms crash 1\n"
        "at 400ms resume 3\nat 480ms crash 7\n");
    run_text(
        "nodes 29\nshape chain\nviews majority\nstream levels params sum@1,max waves "
        "80 "
        "window 3 gap 100us timeout 5ms lag 300us\nat 3276us pause 26\n"
        "at 503276us resume 26\nat 507352us crash 27\n");
}

/*
 * Front-end and root are gone, and those who heard last what was taken are below one who did not: 3 stood
 * still meanwhile, and is the root now; 2 opened another stream of that number, and has just heard of the
 * elder. What it waits for it could only give when something had been taken, and that waits for it.
 */
static void test_waves_say_what_was_taken(void **state)
{
    (void)state;
    run_text("nodes 8\nshape radix:2\nseed 6056\nviews has 3-5\nstart 8\n"
             "detect ring 400ms witnesses 2\n"
             "stream max waves 30 window 4 lag 194327327ns front 1\n"
             "net constant 10us\nat 1403ms crash 0-2\nat 1019ms pause 3\n"
             "at 1182ms report 1 about 3\nat 1592ms resume 3\nliveness\n");
    run_text("nodes 5\nshape flat\nseed 12053\nviews majority\nstart 4\n"
             "detect witnesses 2\n"
             "stream sum waves 41 window 2 gap 433us lag 2629654ns downs 2 front 2 "
             "single\n"
             "net constant 10us\nat 0ns crash 1\nat 0ns partition 3 | 2\n"
             "at 0ns leave 2\nat 147ms restart 2\nat 198ms join spare\n"
             "at 230ms crash 0\nliveness\n");
}

/* Long after the last fault gossip removes nearly all, by chance. They come back and give all of it again, for which
 * there has to be time before it is judged. */
static void test_removed_by_chance(void **state)
{
    (void)state;
    run_text("nodes 9\nshape flat\nseed 120833\nviews none\nstart 9\n"
             "detect ring 200ms gossip 50ms\n"
             "stream levels waves 6 window 16 params sum@2,min@1,max gap 181629137ns "
             "downs 3 down select of to=1-3+6 front 7 leaves\n"
             "net constant 10us\nat 3167ms crash 7\nliveness\n");
}

/* 6 carries all others when 1 becomes the root and leaves 5, which is below 6. That stays covered for 6,
 * because those between wait for others: it asks 1 all the same. */
static void test_the_root_is_below_nobody(void **state)
{
    (void)state;
    run_text(
        "nodes 8\nshape knomial:3\nseed 40405\nviews majority\nstart 8\n"
        "stream sum waves 50 window 4 gap 160us lag 79476ns timeout 80065ns front 0 "
        "leaves single\nnet constant 10us jitter 40us\nat 69us pause 6\n"
        "at 330us report 0 about 6\ncrash 0 after-send 38\nliveness\n");
}

/* The root has the next view before who waited with what the one that left had said: its output is
 * complete, and has that a moment later. */
static void test_departed_a_moment_later(void **state)
{
    (void)state;
    run_text(
        "nodes 11\nshape radix:2\nviews majority\n"
        "stream sum waves 200 window 2 gap 100us lag 300us leaves\nat 2880us pause 10\n"
        "at 6601us crash 4\nat 277739us leave 10\nliveness\n");
}

/* ---- the checkers can fail ------------------------------------------------------- */

static bool lie_about_state, lie_about_completeness, lie_about_down;

/* The checker, hearing something else than was said. */
static void mishear(void *state, struct cop_sim *sim, cop_id node, uint64_t number,
                    const struct cop_stream_event *event)
{
    struct cop_stream_event heard = *event;
    uint8_t bytes[64];
    if (event->kind == COP_STREAM_OUTPUT && event->wave == 3 && lie_about_state &&
        event->length > 6 && event->length <= sizeof(bytes)) {
        memcpy(bytes, event->bytes, event->length);
        bytes[6] ^= 1;
        heard.bytes = bytes;
    }
    if (event->kind == COP_STREAM_DOWN && lie_about_down && event->wave == 2 &&
        event->length > 0 && event->length <= sizeof(bytes)) {
        memcpy(bytes, event->bytes, event->length);
        bytes[event->length - 1] ^= 1;
        heard.bytes = bytes;
    }
    if (lie_about_completeness && event->kind == COP_STREAM_OUTPUT)
        heard.complete = true;
    cop_sim_checker_stream()->on_stream(state, sim, node, number, &heard);
}

static void expect_failure(const char *text, const char *property)
{
    struct cop_sim_checker wrong = *cop_sim_checker_stream();
    struct cop_sim_script script = parse_script(text);
    struct cop_sim_report report;
    wrong.on_stream = mishear;
    const struct cop_sim_checker *const checkers[] = {&wrong, cop_sim_stream_app(),
                                                      NULL};
    script.config.checkers = checkers;
    assert_int_equal(cop_sim_script_run(&script, &report), 0);
    assert_non_null(strstr(report.failure, property));
    cop_sim_script_free(&script);
}

static void test_checkers_fail(void **state)
{
    (void)state;
    static const char text[] =
        "nodes 7\nshape kary:2\nseed 1\nviews majority\nnet constant 10us\n"
        "flags codec\nliveness\nstream sum waves 6 window 4 gap 50us\n";
    lie_about_state = true;
    expect_failure(text, "S1");
    lie_about_state = false;
    lie_about_completeness = true;
    expect_failure(text, "S1");
    lie_about_completeness = false;
    static const char *const filters[] = {"", "down path", "down scatter",
                                          "down select of to=3"};
    lie_about_down = true;
    for (uint32_t i = 0; i < 4; i++) {
        char down[320];
        snprintf(down, sizeof(down), "%.*s downs 3 %s\n", (int)strlen(text) - 1, text,
                 filters[i]);
        expect_failure(down, "S2");
    }
    lie_about_down = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_fails),
        cmocka_unit_test(test_slow_front_end),
        cmocka_unit_test(test_deaths_sum),
        cmocka_unit_test(test_deaths_union),
        cmocka_unit_test(test_deaths_others),
        cmocka_unit_test(test_deaths_levels),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_deaths_down),
        cmocka_unit_test(test_down_after_returning),
        cmocka_unit_test(test_opened_as_it_was),
        cmocka_unit_test(test_deaths_while_opening),
        cmocka_unit_test(test_planned_once),
        cmocka_unit_test(test_taken_over_anew),
        cmocka_unit_test(test_fragile),
        cmocka_unit_test(test_zones),
        cmocka_unit_test(test_frames_of_a_recovery),
        cmocka_unit_test(test_explorer),
        cmocka_unit_test(test_values_of_lost_leaves_stay),
        cmocka_unit_test(test_values_of_those_between_stay),
        cmocka_unit_test(test_joining_and_returning),
        cmocka_unit_test(test_who_comes_later_begins_later),
        cmocka_unit_test(test_left_by_mistake),
        cmocka_unit_test(test_nobody_takes),
        cmocka_unit_test(test_credit_waits_for_orphans),
        cmocka_unit_test(test_found_by_seeds),
        cmocka_unit_test(test_found_by_more_seeds),
        cmocka_unit_test(test_packets_of_those_between),
        cmocka_unit_test(test_packets_of_other_streams),
        cmocka_unit_test(test_credit_below_a_step),
        cmocka_unit_test(test_front_ends_of_two_sides),
        cmocka_unit_test(test_departed_of_those_on_their_way),
        cmocka_unit_test(test_front_of_a_removed_root),
        cmocka_unit_test(test_adopted_after_its_end),
        cmocka_unit_test(test_fragile_in_a_new_view),
        cmocka_unit_test(test_fragile_broken_off_by_an_orphan),
        cmocka_unit_test(test_younger_waits_for_the_elder),
        cmocka_unit_test(test_opened_while_it_is_between_two),
        cmocka_unit_test(test_leaves_after_its_parent),
        cmocka_unit_test(test_joined_for_want_of_room),
        cmocka_unit_test(test_waves_say_what_was_taken),
        cmocka_unit_test(test_removed_by_chance),
        cmocka_unit_test(test_the_root_is_below_nobody),
        cmocka_unit_test(test_departed_a_moment_later),
        cmocka_unit_test(test_checkers_fail),
        cmocka_unit_test(test_swarm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
