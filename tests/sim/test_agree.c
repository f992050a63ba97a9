/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"
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
 * Agreement: random clusters, every order of events in small ones, a death at every message
 * boundary, and the cases by name. The checkers of A1 to A5 look on all the while.
 */
static const enum cop_algorithm tolerant[] = {COP_AGREE_EARLY, COP_AGREE_STRICT,
                                              COP_AGREE_TREE, COP_AGREE_LINEAR};
#define TOLERANT (sizeof(tolerant) / sizeof(tolerant[0]))

/* ---- random ones ----------------------------------------------------------------- */

static void test_swarm(void **state)
{
    (void)state;
    seeds_run(seeds_count() / 10 + 1, COP_SIM_SWARM_AGREE);
}

static void test_swarm_with_lies(void **state)
{
    (void)state;
    seeds_run(seeds_count() / 20 + 1, COP_SIM_SWARM_AGREE | COP_SIM_SWARM_LIES);
}

/* The seeds would be worth little if they were all alike, or if nobody ever agreed. */
static void test_seeds_differ_in_kind(void **state)
{
    (void)state;
    unsigned algorithms[COP_ALGORITHMS] = {0}, windows[5] = {0}, groups = 0;
    unsigned detectors = 0;
    uint64_t agreements = 0, deaths = 0, revotes = 0, terminations = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct cop_sim_script script;
        assert_int_equal(cop_sim_swarm_script(seed, COP_SIM_SWARM_AGREE, &script), 0);
        algorithms[script.config.agree.algorithm]++;
        windows[script.config.agree.window]++;
        groups += script.config.agree.groups > 0;
        detectors += script.config.detect.ring_period_ns > 0 ||
                     script.config.detect.gossip_period_ns > 0;
        struct cop_sim_report report = run_script(&script);
        agreements += report.agreements;
        deaths += report.deaths;
        revotes += report.stats.revotes;
        terminations += report.stats.terminations;
        cop_sim_script_free(&script);
    }
    for (unsigned i = 0; i < COP_ALGORITHMS; i++)
        assert_in_range(algorithms[i], 10, 200);
    for (unsigned i = 1; i <= 4; i++)
        assert_in_range(windows[i], 20, 250);
    assert_in_range(groups, 50, 250);
    assert_in_range(detectors, 40, 90);
    assert_in_range(agreements, 800, 100000);
    assert_in_range(deaths, 500, 100000);
    assert_in_range(revotes, 50, 100000);
    assert_in_range(terminations, 5, 100000);
}

/* ---- all of them ----------------------------------------------------------------- */

static void explore(struct cop_sim_explore config, const char *shape)
{
    struct cop_sim_explored explored;
    config.agreements = config.agreements ? config.agreements : 1;
    config.reduce = true;
    assert_int_equal(cop_shape_parse(shape, &config.shape, NULL, 0), 0);
    assert_int_equal(cop_sim_explore(&config, &explored), 0);
    if (explored.failure[0])
        print_error("%s, %s: %s\n%s", cop_algorithm_name(config.algorithm), shape,
                    explored.failure, explored.schedule);
    assert_string_equal(explored.failure, "");
    assert_true(explored.exhausted);
    assert_true(explored.terminals > 1);
    free(explored.schedule);
}

/* The trees of three are these two: flat, and a chain. */
static void test_explorer(void **state)
{
    (void)state;
    seeds_skip_if_brief();
    for (size_t i = 0; i < TOLERANT; i++) {
        struct cop_sim_explore config = {.nodes = 3,
                                         .crashes = 1,
                                         .quorum = COP_QUORUM_NONE,
                                         .algorithm = tolerant[i]};
        explore(config, "chain");
        explore(config, "flat");
    }
    struct cop_sim_explore two = {.nodes = 3, .crashes = 2, .quorum = COP_QUORUM_NONE};
#ifndef __SANITIZE_ADDRESS__
    explore(two, "flat");
    two.algorithm = COP_AGREE_TREE;
#endif
    explore(two, "chain");
}

static void test_explorer_with_doubt_promoted(void **state)
{
    (void)state;
    struct cop_sim_explore config = {.nodes = 3,
                                     .crashes = 1,
                                     .quorum = COP_QUORUM_MAJORITY,
                                     .algorithm = COP_AGREE_LINEAR,
                                     .promote = true};
    explore(config, "flat");
}

/* Everyone gives the group back, at any time after the agreement. */
static void test_explorer_frees(void **state)
{
    (void)state;
    struct cop_sim_explore config = {
        .nodes = 3, .crashes = 1, .quorum = COP_QUORUM_NONE, .free = true};
#ifndef __SANITIZE_ADDRESS__
    explore(config, "chain");
#endif
    config.nodes = 2;
    for (size_t i = 0; i < TOLERANT; i++) {
        config.algorithm = tolerant[i];
        explore(config, "chain");
    }
}

static void test_explorer_two_in_a_row(void **state)
{
    (void)state;
    struct cop_sim_explore config = {
        .nodes = 2, .crashes = 1, .agreements = 2, .quorum = COP_QUORUM_NONE};
    for (size_t i = 0; i < TOLERANT; i++) {
        config.algorithm = tolerant[i];
        explore(config, "chain");
    }
}

/* ---- a death at every message boundary ------------------------------------------- */

#define NODES_MAX 7u
/* A death makes the others send more than they did without it: a view, and votes again. */
#define BEYOND 6u
#ifdef __SANITIZE_ADDRESS__
#define PAIRS 4u
#else
#define PAIRS 40u
#endif

struct boundary {
    cop_id victim;
    enum cop_sim_when when;
    uint64_t count;
};
struct boundaries {
    struct boundary items[NODES_MAX * 256];
    uint32_t count;
};
static uint64_t runs;

static struct cop_sim_script make(uint32_t n, const char *shape,
                                  enum cop_algorithm algorithm)
{
    char text[256];
    snprintf(text, sizeof(text),
             "nodes %u\nshape %s\nseed 1\nviews none\nagree %s count 3 window %u\n"
             "flags codec quiet\nliveness\n",
             (unsigned)n, shape, cop_algorithm_name(algorithm), n % 2 ? 1u : 2u);
    return parse_script(text);
}

static void note_counts(void *context, struct cop_sim *sim)
{
    struct boundaries *out = context;
    for (cop_id id = 0; id < cop_sim_nodes(sim); id++) {
        uint64_t sends = cop_sim_sends(sim, id) + BEYOND;
        uint64_t receives = cop_sim_receives(sim, id) + BEYOND;
        for (uint64_t i = 1; i <= sends; i++)
            out->items[out->count++] = (struct boundary){id, COP_SIM_AFTER_SEND, i};
        for (uint64_t i = 1; i <= receives; i++)
            out->items[out->count++] = (struct boundary){id, COP_SIM_BEFORE_RECV, i};
    }
}

static void kill_at(uint32_t n, const char *shape, enum cop_algorithm algorithm,
                    const struct boundary *deaths, uint32_t count)
{
    struct cop_sim_script script = make(n, shape, algorithm);
    for (uint32_t i = 0; i < count; i++) {
        struct cop_sim_action crash;
        memset(&crash, 0, sizeof(crash));
        crash.kind = COP_SIM_CRASH;
        crash.when = deaths[i].when;
        crash.count = deaths[i].count;
        crash.a = deaths[i].victim;
        crash.b = COP_ID_NONE;
        assert_int_equal(cop_sim_script_add(&script, &crash), 0);
    }
    run_script(&script);
    cop_sim_script_free(&script);
    runs++;
}

static void kill_everywhere(uint32_t n, const char *shape, enum cop_algorithm algorithm)
{
    static struct boundaries all;
    all.count = 0;
    struct cop_sim_script script = make(n, shape, algorithm);
    script.config.end = note_counts;
    script.config.context = &all;
    struct cop_sim_report report = run_script(&script);
    assert_int_equal(report.agreements, 3);
    cop_sim_script_free(&script);
    for (uint32_t i = 0; i < all.count; i++)
        kill_at(n, shape, algorithm, &all.items[i], 1);
    struct cop__random random;
    cop__random_init(&random, n * 10 + (unsigned)algorithm);
    for (uint32_t i = 0; i < PAIRS; i++) { /* up to all but one */
        struct boundary deaths[NODES_MAX];
        uint32_t count = 2 + (uint32_t)cop__random_below(&random, n - 1);
        for (uint32_t j = 0; j < count; j++)
            deaths[j] = all.items[cop__random_below(&random, all.count)];
        kill_at(n, shape, algorithm, deaths, count);
    }
}

static void test_deaths_at_every_boundary(void **state)
{
    (void)state;
    seeds_skip_if_brief();
    static const char *const shapes[] = {"knomial:2", "kary:2", "chain"};
    for (size_t i = 0; i < TOLERANT; i++)
        for (size_t j = 0; j < sizeof(shapes) / sizeof(shapes[0]); j++)
            for (uint32_t n = 2; n <= NODES_MAX; n += n < 4 ? 1u : 2u)
                kill_everywhere(n, shapes[j], tolerant[i]);
    print_message("%llu runs\n", (unsigned long long)runs);
    assert_true(runs > 2000);
}

/* ---- by name --------------------------------------------------------------------- */

static uint64_t messages(const struct cop_sim_report *report)
{
    uint64_t sum = 0;
    for (int i = 0; i < COP_STATS_KINDS; i++)
        sum += report->stats.sent[i];
    return sum;
}

/* So many agreements of n in a tree; what they cost in messages and in time. */
static struct cop_sim_report cost(uint32_t n, const char *shape, const char *algorithm)
{
    char text[256];
    snprintf(text, sizeof(text),
             "nodes %u\nshape %s\nseed 1\nviews none\nflags quiet\n"
             "net loggp 10us 1us 1us 1000\nagree %s count 20 plain\n",
             (unsigned)n, shape, algorithm);
    struct cop_sim_report report = run_text(text);
    assert_int_equal(report.agreements, 20);
    return report;
}

/* Without failures: exactly as many messages as the baseline, of each kind, as many bytes, and
 * as much time. */
static void test_costs_what_allreduce_costs(void **state)
{
    static const uint32_t sizes[] = {2, 8, 37, 64, 512};
    static const char *const shapes[] = {"knomial:2", "kary:4"};
    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (size_t j = 0; j < sizeof(shapes) / sizeof(shapes[0]); j++) {
            struct cop_sim_report base = cost(sizes[i], shapes[j], "allreduce");
            struct cop_sim_report early = cost(sizes[i], shapes[j], "early");
            struct cop_sim_report tree = cost(sizes[i], shapes[j], "tree");
            assert_int_equal(messages(&base), 20 * 2 * (sizes[i] - 1));
            assert_memory_equal(early.stats.sent, base.stats.sent,
                                sizeof(base.stats.sent));
            assert_memory_equal(tree.stats.sent, base.stats.sent,
                                sizeof(base.stats.sent));
            assert_int_equal(early.stats.sent_bytes, base.stats.sent_bytes);
            assert_int_equal(tree.stats.sent_bytes, base.stats.sent_bytes);
            assert_int_equal(early.agree_ns, base.agree_ns);
            assert_int_equal(tree.agree_ns, base.agree_ns);
        }
    struct cop_sim_report linear = cost(37, "knomial:2", "linear");
    assert_int_equal(messages(&linear), 20 * 2 * 36);
    struct cop_sim_report strict = cost(37, "knomial:2", "strict");
    assert_int_equal(messages(&strict), 20 * 4 * 36);
}

/* A dead leaf's parent, and those above it, vote again; a dead root costs one exchange with
 * those who were below it, and nobody else is asked again. */
static void test_a_new_round_is_no_new_gather(void **state)
{
    (void)state;
    struct cop_sim_report report =
        run_text("nodes 31\nshape kary:2\nseed 1\nviews majority\nflags quiet\n"
                 "net constant 10us\nagree early count 1\ncrash 0 before-recv 2\n");
    /* 0 has two children, 1 and 2: 1 is root now, and 2 votes to it. */
    assert_int_equal(report.agreements, 1);
    assert_in_range(report.stats.revotes, 1, 2);
}

/* Deaths in between, memory flat, and no agreement mixes with its neighbour (A2 has each
 * member's share in the value). */
static void test_many_in_a_row(void **state)
{
    (void)state;
    static const char *const names[] = {"early", "strict"};
    for (int i = 0; i < 2; i++) {
        uint64_t bytes[2];
        for (int j = 0; j < 2; j++) {
            char text[256];
            snprintf(
                text, sizeof(text),
                "nodes 6\nshape kary:2\nseed 7\nviews none\nagree %s count %d window "
                "3\nat 3ms crash 1\nat 20ms crash 0\n",
                names[i], j ? 4000 : 1000);
            struct cop_sim_report report = run_text(text);
            assert_int_equal(report.agreements, j ? 4000 : 1000);
            bytes[j] = report.node_bytes;
        }
        assert_in_range(bytes[1], bytes[0] / 2, bytes[0] + bytes[0] / 4);
    }
}

/* A joiner is in the next group; groups overlap and are mended at the same time. */
static void test_groups_of_later_views(void **state)
{
    (void)state;
    struct cop_sim_report report = run_text(
        "nodes 8\nstart 5\nshape kary:2\nseed 3\nviews majority\n"
        "agree early count 40 window 2 groups 4 gap 200us\nat 1ms join\n"
        "at 4ms crash 1\nat 6ms join\nat 9ms restart 1\nat 12ms crash 0\nliveness\n");
    assert_in_range(report.agreements, 100, 200);
}

/* Only 0 has the view without 4, in which it could decide at once; the next one is without 0,
 * and has 4, whose vote never left it (seed 31116). That they are told wrongly makes them sure
 * in time: who is only reported is asked first. */
static void test_a_view_that_nobody_else_has(void **state)
{
    (void)state;
    struct cop_sim_report report =
        run_text("nodes 6\nshape kary:3\nseed 31116\nviews majority\nstart 6\n"
                 "agree tree count 6 window 1 gap 5000ns\nnet constant 10us\n"
                 "at 0ns partition 0,2,4-5 | 1,3\nat 0ns lie 0 about 1\n"
                 "at 0ns lie 0 about 3\nat 160us partition 4 | 0-3,5\n"
                 "at 180us lie 0 about 4\nat 210us heal\nat 210us partition 0 | 1-5\n"
                 "at 230us lie 2 about 0\n");
    assert_in_range(report.agreements, 4, 6);
    report =
        run_text("nodes 6\nshape kary:3\nseed 31116\nviews majority\nstart 6\n"
                 "agree linear count 6 window 1 gap 50000ns\nnet constant 10us\n"
                 "at 0ns partition 0,2,4-5 | 1,3\nat 0ns lie 0 about 1\n"
                 "at 0ns lie 0 about 3\nat 90us partition 4 | 0-3,5\n"
                 "at 120us lie 0 about 4\nat 150us heal\nat 150us partition 0 | 1-5\n"
                 "at 160us lie 2 about 0\n");
    assert_in_range(report.agreements, 1, 6);
}

/* The other way round: 1 alone has the view without 0, says that nothing was decided, and dies;
 * 0 was never dead, and decides. Two-phase commit promises no more (seed 46102). */
static void test_a_view_that_dies_with_its_root(void **state)
{
    (void)state;
    struct cop_sim_report report =
        run_text("nodes 5\nshape chain\nseed 46102\nviews majority\n"
                 "agree tree count 1 window 1 gap 11584165ns\n"
                 "net loggp 36us 1445ns 3157ns 9811 compute 19us\n"
                 "at 9ms partition 1,3 | 0,2,4\nat 9ms report 1 about 0\n"
                 "at 10ms report 1 about 2\nat 10ms report 1 about 3\n"
                 "at 10ms report 1 about 4\nat 11080us crash 1\nat 10300us heal\n"
                 "at 10300us partition 0 | 1-4\nliveness\n");
    assert_int_equal(report.agreements, 1);
}

/* Both sides of a split decide, because one was told to go on with too few (seed 47040). */
static void test_a_side_that_was_told_to_go_on(void **state)
{
    (void)state;
    struct cop_sim_report report =
        run_text("nodes 7\nshape chain\nseed 47040\nviews majority\n"
                 "agree strict count 1 window 1\nnet constant 10us\n"
                 "at 0ns partition 0-1,5 | 2-4,6\nat 0ns report 0 about 2\n"
                 "at 0ns report 0 about 3\nat 0ns report 0 about 4\n"
                 "at 0ns report 0 about 6\nat 0ns report 2 about 0\n"
                 "at 0ns report 2 about 1\nat 0ns report 2 about 5\nat 0ns go-on 0\n");
    assert_int_equal(report.agreements, 1);
}

/* 4 says that it will leave, votes, and dies; its goodbye, which only the root has heard, does
 * not outweigh what the others find out after that (seed 874272). */
static void test_a_death_after_a_goodbye(void **state)
{
    (void)state;
    struct cop_sim_report report =
        run_text("nodes 6\nshape kary:4\nseed 874272\nviews none\nstart 6\n"
                 "agree linear count 2 window 1 gap 420967ns promote\n"
                 "flags codec buggify\nnet constant 10us\nat 400us leave 5\n"
                 "at 300us crash 0\nat 360us restart 0\nat 490us leave 4\n"
                 "at 550us crash 4\n");
    assert_int_equal(report.agreements, 2);
}

/* A proposal of 1 that came to nothing waits for 5 and 6, whom later views know in another life
 * (seed 915777). */
static void test_a_proposal_outlived(void **state)
{
    (void)state;
    run_text("nodes 7\nshape radix:2\nseed 915777\nviews majority\nstart 7\n"
             "agree strict count 1 window 2 gap 17996288ns promote\n"
             "flags codec buggify\nnet constant 10us\nat 15ms crash 0\n"
             "at 0ns partition 0,5-6 | 1-4\nat 3520us report 1 about 0\n"
             "at 0ns report 0 about 1\nat 3530us report 0 about 2\n"
             "at 0ns report 0 about 3\nat 0ns report 0 about 4\nat 3550us heal\n"
             "at 3550us partition 5-6 > 0-4\nat 3560us report 0 about 5\n"
             "at 3560us report 0 about 6\nat 5ms heal\nat 7ms report 3 about 2\n"
             "at 7ms report 0 about 5\n");
}

/* 1 leaves with values that the root took along; 2 has none, and takes 1 for the coordinator
 * of the next, which nobody decides (seed 1087263). */
static void test_undecided_with_other_names(void **state)
{
    (void)state;
    struct cop_sim_report report =
        run_text("nodes 3\nshape flat\nseed 1087263\nviews majority\nstart 3\n"
                 "agree tree count 5 window 3\nflags codec cut\n"
                 "net recorded 426000ns,47000ns,455000ns,76000ns\nat 840us leave 1\n"
                 "at 540us crash 0\n");
    assert_int_equal(report.agreements, 5);
}

/* 7 finds one coordinator after the other dead, in each of four agreements that are under way
 * together, and is 24 ahead of 6, which has yet to call the first (seed 5682286). */
static void test_ahead_by_all_coordinators(void **state)
{
    (void)state;
    struct cop_sim_report report =
        run_text("nodes 11\nshape chain\nseed 5682286\nviews majority\nstart 8\n"
                 "agree tree count 3 window 4 gap 6505831ns free\nnet constant 10us\n"
                 "at 0ns join\nat 0ns join\nat 0ns join\n"
                 "at 2ms partition 0-2,4-5 > 3,6-7\nat 2ms report 3 about 0\n"
                 "at 2ms report 3 about 1\nat 2ms report 3 about 2\n"
                 "at 2ms report 3 about 4\nat 2ms report 3 about 5\nat 3ms heal\n"
                 "at 7ms pause 3\nat 8ms report 1 about 3\nliveness\n");
    assert_int_equal(report.agreements, 3);
}

/* None of these is decided, so all of them are kept, of which there are more than four windows:
 * the 18th coordinator lives. */
static void test_many_dead_coordinators(void **state)
{
    (void)state;
    char text[1024];
    for (int count = 3; count <= 200; count += 197) {
        int at = snprintf(text, sizeof(text),
                          "nodes 19\nshape chain\nseed 1\nviews none\n"
                          "agree tree count %d window 8 free\n",
                          count);
        for (int i = 0; i < 17; i++)
            at +=
                snprintf(text + at, sizeof(text) - (size_t)at, "at 0ns crash %d\n", i);
        snprintf(text + at, sizeof(text) - (size_t)at, "liveness\n");
        struct cop_sim_report report = run_text(text);
        assert_int_equal(report.agreements, count);
    }
}

/* Where no view can be committed the deadline says why, to who knows that it is so. */
struct ends {
    unsigned degraded, timed_out, decided;
};
static void note_end(void *context, struct cop_sim *sim, cop_id node, uint64_t token,
                     int status, struct cop_buf *result)
{
    struct ends *ends = context;
    (void)sim;
    (void)node;
    (void)token;
    ends->degraded += status == COP_EDEGRADED && !result;
    ends->timed_out += status == COP_ETIMEDOUT && !result;
    ends->decided += status == 0 && result;
}

static void test_degraded(void **state)
{
    (void)state;
    struct ends ends = {0, 0, 0};
    struct cop_sim_script script =
        parse_script("nodes 4\nshape flat\nseed 1\nviews majority\n"
                     "agree early count 1 gap 1ms timeout 3s\nat 0 crash 2-3\n");
    script.config.complete = note_end;
    script.config.context = &ends;
    run_script(&script);
    cop_sim_script_free(&script);
    assert_in_range(ends.degraded, 1, 2);
    assert_int_equal(ends.degraded + ends.timed_out, 2);
    assert_int_equal(ends.decided, 0);
}

/* ---- 512 of which half are dead -------------------------------------------------- */

/* Laying the tree anew is worth it: a quarter of 128 dead, and the tree is that of 96. */
static void test_rebalancing(void **state)
{
    (void)state;
    cop_time took[3];
    static const char *const lines[] = {
        "nodes 96\nagree early count 40 plain\n",
        "nodes 128\nagree early count 40 plain\nat 0 crash 32-63\n",
        "nodes 128\nagree early count 40 plain keep-tree\nat 0 crash 32-63\n",
    };
    for (int i = 0; i < 3; i++) {
        char text[256];
        snprintf(text, sizeof(text),
                 "shape knomial:2\nseed 1\nviews none\nflags quiet\n"
                 "net loggp 10us 1us 1us 1000\n%s",
                 lines[i]);
        took[i] = run_text(text).agree_ns;
    }
    assert_in_range(took[1], took[0] - took[0] / 20, took[0] + took[0] / 20);
    assert_true(took[2] >= took[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_costs_what_allreduce_costs),
        cmocka_unit_test(test_a_new_round_is_no_new_gather),
        cmocka_unit_test(test_groups_of_later_views),
        cmocka_unit_test(test_a_view_that_nobody_else_has),
        cmocka_unit_test(test_a_view_that_dies_with_its_root),
        cmocka_unit_test(test_a_side_that_was_told_to_go_on),
        cmocka_unit_test(test_a_death_after_a_goodbye),
        cmocka_unit_test(test_a_proposal_outlived),
        cmocka_unit_test(test_undecided_with_other_names),
        cmocka_unit_test(test_ahead_by_all_coordinators),
        cmocka_unit_test(test_many_dead_coordinators),
        cmocka_unit_test(test_degraded),
        cmocka_unit_test(test_rebalancing),
        cmocka_unit_test(test_swarm),
        cmocka_unit_test(test_swarm_with_lies),
        cmocka_unit_test(test_seeds_differ_in_kind),
        cmocka_unit_test(test_explorer_two_in_a_row),
        cmocka_unit_test(test_explorer_frees),
        cmocka_unit_test(test_explorer),
        cmocka_unit_test(test_explorer_with_doubt_promoted),
        cmocka_unit_test(test_deaths_at_every_boundary),
        cmocka_unit_test(test_many_in_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
