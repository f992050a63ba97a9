/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"
#include "scripts.h"

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
 * Members that do not answer, where views change and the ring is on: COPPICE_SEEDS random
 * clusters (one of 200, 60 unless given) with crashes, pauses and partitions, under
 * the checkers of views. A seed that fails is printed with its script.
 */
static uint64_t seeds(void)
{
    const char *text = getenv("COPPICE_SEEDS");
    uint64_t count = text ? strtoull(text, NULL, 10) : 0;
    return count ? count / 200 + 1 : 60;
}

struct draft {
    struct cop__random random;
    FILE *out;
    uint32_t n;
};

static uint64_t below(struct draft *draft, uint64_t bound)
{
    return cop__random_below(&draft->random, bound);
}

static void put_pause(struct draft *draft, unsigned at)
{
    unsigned id = (unsigned)below(draft, draft->n);
    fprintf(draft->out, "at %ums pause %u\n", at, id);
    if (below(draft, 5) > 0)
        fprintf(draft->out, "at %ums resume %u\n",
                at + 1 + (unsigned)below(draft, 3000), id);
}

/* One loses all its links, but for one. */
static void put_lonely(struct draft *draft, unsigned at)
{
    unsigned a = below(draft, 2) ? 0 : (unsigned)below(draft, draft->n);
    unsigned b =
        (a + 1 + (below(draft, 2) ? 0 : (unsigned)below(draft, draft->n - 1))) %
        draft->n;
    const char *comma = "";
    fprintf(draft->out, "at %ums partition %u | ", at, a);
    for (unsigned id = 0; id < draft->n; id++) {
        if (id == a || id == b)
            continue;
        fprintf(draft->out, "%s%u", comma, id);
        comma = ",";
    }
    fprintf(draft->out, "\n");
}

static void put_partition(struct draft *draft, unsigned at)
{
    unsigned border = 1 + (unsigned)below(draft, draft->n - 1);
    if (draft->n > 2 && below(draft, 4) == 0) {
        put_lonely(draft, at);
    } else if (below(draft, 3) == 0) { /* one bad link */
        unsigned a = (unsigned)below(draft, draft->n), b = (a + border) % draft->n;
        fprintf(draft->out, "at %ums partition %u | %u\n", at, a, b);
    } else {
        fprintf(draft->out, "at %ums partition 0-%u %s %u-%u\n", at, border - 1,
                below(draft, 4) ? "|" : ">", border, (unsigned)draft->n - 1);
    }
    if (below(draft, 5) > 0)
        fprintf(draft->out, "at %ums heal\n", at + 1 + (unsigned)below(draft, 4000));
}

static void put_crash(struct draft *draft, unsigned at)
{
    unsigned id = (unsigned)below(draft, draft->n);
    fprintf(draft->out, "at %ums crash %u\n", at, id);
    if (below(draft, 2))
        fprintf(draft->out, "at %ums restart %u\n", at + (unsigned)below(draft, 1000),
                id);
}

static void put_other(struct draft *draft, unsigned at)
{
    unsigned a = (unsigned)below(draft, draft->n), b = (a + 1) % draft->n;
    switch (below(draft, 4)) {
    case 0:
        fprintf(draft->out, "at %ums jump %u %ums\n", at, a,
                (unsigned)below(draft, 5000));
        return;
    case 1:
        fprintf(draft->out, "at %ums slow %u > %u %ums\n", at, a, b,
                (unsigned)below(draft, 400));
        return;
    case 2:
        fprintf(draft->out, "at %ums lie %u about %u\n", at, a, b);
        return;
    default:
        fprintf(draft->out, "at %ums break %u %u\n", at, a, b);
        return;
    }
}

/* A script for a seed; to be freed. */
static char *draw(uint64_t seed)
{
    static void (*const kinds[])(struct draft *, unsigned) = {put_crash, put_pause,
                                                              put_partition, put_other};
    static const char *const shapes[] = {"radix:2", "kary:2", "chain", "flat"};
    char *text = NULL;
    size_t length = 0;
    struct draft draft = {.out = open_memstream(&text, &length)};
    assert_non_null(draft.out);
    cop__random_init(&draft.random, seed);
    draft.n = 2 + (uint32_t)below(&draft, 8);
    fprintf(draft.out, "nodes %u\nseed %llu\nshape %s\nviews %s\n", (unsigned)draft.n,
            (unsigned long long)seed, shapes[below(&draft, 4)],
            below(&draft, 6) ? "majority" : "none");
    bool ring = below(&draft, 8) != 0;
    unsigned period = 10 * (1 + (unsigned)below(&draft, 20));
    unsigned witnesses = (unsigned)below(&draft, 4);
    /* What gossip carries is a matter of chance: alone it accuses a living one now and then. */
    if (!ring && witnesses == 0)
        witnesses = 1;
    fprintf(draft.out, "detect %s %ums witnesses %u\n", ring ? "ring" : "gossip",
            period, witnesses);
    fprintf(draft.out, "flags codec cut%s\nnet constant %uus jitter %uus\n",
            below(&draft, 2) ? " buggify" : "", 1 + (unsigned)below(&draft, 100),
            1 + (unsigned)below(&draft, 100));
    uint64_t count = 1 + below(&draft, 4);
    for (uint64_t i = 0; i < count; i++)
        kinds[below(&draft, 4)](&draft, 1 + (unsigned)below(&draft, 3000));
    fprintf(draft.out, "liveness\n");
    assert_int_equal(fclose(draft.out), 0);
    return text;
}

static void test_random_silence(void **state)
{
    (void)state;
    const char *first = getenv("COPPICE_FIRST_SEED");
    uint64_t from = first ? strtoull(first, NULL, 10) : 1;
    uint64_t failed = 0;
    for (uint64_t seed = from; seed < from + seeds(); seed++) {
        struct cop_sim_script script;
        struct cop_sim_report report;
        char message[256] = "";
        char *text = draw(seed);
        if (cop_sim_script_parse(text, &script, message, sizeof message) != 0)
            fail_msg("seed %llu: %s\n%s", (unsigned long long)seed, message, text);
        assert_int_equal(cop_sim_script_run(&script, &report), 0);
        if (report.failure[0] && failed++ < 10)
            print_error("# seed %llu: %s\n%s\n", (unsigned long long)seed,
                        report.failure, text);
        cop_sim_script_free(&script);
        free(text);
    }
    assert_int_equal(failed, 0);
}

/* ---- one thing at a time ---------------------------------------------------------- */

#define PERIOD (100 * COP_MSEC)

static struct cop_sim *create_with(uint32_t n, enum cop_quorum quorum,
                                   const struct cop_detect *detect)
{
    static const struct cop_sim_checker *checkers[3];
    checkers[0] = cop_sim_checker_node();
    checkers[1] = cop_sim_checker_member();
    struct cop_sim_config config = {
        .nodes = n,
        .quorum = quorum,
        .detect = *detect,
        .net = {.latency_ns = 20 * COP_USEC},
        .flags = COP_SIM_CHECK | COP_SIM_CODEC,
        .checkers = checkers,
    };
    struct cop_sim *sim;
    assert_int_equal(cop_shape_make(COP_SHAPE_RADIX, 2, &config.shape), 0);
    assert_int_equal(cop_sim_create(&config, &sim), 0);
    return sim;
}

static struct cop_sim *create(uint32_t n, enum cop_quorum quorum)
{
    static const struct cop_detect ring = {.ring_period_ns = PERIOD, .witnesses = 2};
    return create_with(n, quorum, &ring);
}

static void run(struct cop_sim *sim, cop_time time)
{
    cop_sim_run(sim, cop_sim_now(sim) + time);
    const char *failure = cop_sim_failure(sim);
    assert_string_equal(failure ? failure : "", "");
}

static void act(struct cop_sim *sim, enum cop_sim_action_kind kind, cop_id a, cop_id b)
{
    struct cop_sim_action action = {.kind = kind, .a = a, .b = b};
    assert_int_equal(cop_sim_do(sim, &action), 0);
}

static void part(struct cop_sim *sim, cop_id a, cop_id b, cop_id c, cop_id d)
{
    struct cop_sim_action action = {
        .kind = COP_SIM_PARTITION,
        .left = {.ranges = {{a, b}}, .count = 1},
        .right = {.ranges = {{c, d}}, .count = 1},
    };
    assert_int_equal(cop_sim_do(sim, &action), 0);
}

static const struct cop_view *view_of(const struct cop_sim *sim, cop_id id)
{
    assert_true(cop_sim_is_alive(sim, id));
    return cop_node_view(cop_sim_node(sim, id));
}

/* Everyone has one view of all n, and only those in [first, last] live anew. */
static void assert_together(const struct cop_sim *sim, cop_id first, cop_id last)
{
    uint32_t n = cop_sim_nodes(sim);
    uint64_t digest = cop_view_digest(view_of(sim, 0));
    for (cop_id id = 0; id < n; id++) {
        assert_true(cop_view_digest(view_of(sim, id)) == digest);
        assert_int_equal(cop_view_size(view_of(sim, id)), n);
        assert_false(cop_node_is_degraded(cop_sim_node(sim, id)));
        bool anew = id >= first && id <= last;
        assert_int_equal(cop_view_incarnation(view_of(sim, 0), id), anew ? 2 : 1);
    }
}

/* Whether everyone but for `lost` has one view, of exactly these. */
static void assert_all_without(const struct cop_sim *sim, cop_id lost, cop_id *but)
{
    uint32_t n = cop_sim_nodes(sim);
    for (cop_id id = 0; id < n; id++) {
        if (id == lost || (but && id == *but))
            continue;
        const struct cop_view *view = view_of(sim, id);
        assert_int_equal(cop_view_size(view), n - 1 - (but != NULL));
        assert_true(cop_view_rank(view, lost) == COP_RANK_NONE);
        assert_true(!but || cop_view_rank(view, *but) == COP_RANK_NONE);
    }
}

/* V9: the one who is next in line finds out while the witnesses do, and not after them. */
static void test_a_root_that_stops_costs_no_more(void **state)
{
    (void)state;
    for (cop_time phase = 0; phase < 10; phase++) {
        struct cop_sim *sim = create(16, COP_QUORUM_MAJORITY);
        run(sim, COP_SEC + phase * PERIOD / 10);
        act(sim, COP_SIM_PAUSE, 0, COP_ID_NONE);
        run(sim, 2 * PERIOD + PERIOD * 6 / 10);
        assert_all_without(sim, 0, NULL);
        cop_sim_destroy(sim);
    }
}

/* A root that reaches nobody but the next in line, who therefore does not take over, changes
 * views with its help (D7, D14). One that reaches somebody else is removed. */
static void test_a_root_with_one_link(void **state)
{
    (void)state;
    cop_id root = 0;
    struct cop_sim *sim = create(32, COP_QUORUM_MAJORITY);
    run(sim, COP_SEC);
    part(sim, 0, 0, 2, 31);
    run(sim, 5 * COP_SEC);
    act(sim, COP_SIM_CRASH, 17, COP_ID_NONE);
    run(sim, 5 * COP_SEC);
    assert_all_without(sim, 17, NULL);
    assert_false(cop_node_is_degraded(cop_sim_node(sim, 0)));
    cop_sim_destroy(sim);

    sim = create(32, COP_QUORUM_MAJORITY);
    run(sim, COP_SEC);
    part(sim, 0, 0, 1, 19);
    part(sim, 0, 0, 21, 31);
    run(sim, 5 * COP_SEC);
    act(sim, COP_SIM_CRASH, 17, COP_ID_NONE);
    run(sim, 5 * COP_SEC);
    assert_all_without(sim, 17, &root);
    cop_sim_destroy(sim);
}

/* Whoever stops is out of the view in three periods, hears of it when it goes on, and comes
 * back; nobody else is removed. */
static void test_the_stopped_are_removed_and_return(void **state)
{
    (void)state;
    for (cop_id stopped = 0; stopped < 7; stopped++) {
        struct cop_sim *sim = create(7, COP_QUORUM_MAJORITY);
        run(sim, COP_SEC + stopped * PERIOD / 7);
        act(sim, COP_SIM_PAUSE, stopped, COP_ID_NONE);
        run(sim, 3 * PERIOD);
        for (cop_id id = 0; id < 7; id++) {
            if (id != stopped) {
                assert_int_equal(cop_view_size(view_of(sim, id)), 6);
                assert_true(cop_view_rank(view_of(sim, id), stopped) == COP_RANK_NONE);
            }
        }
        assert_false(cop_node_is_degraded(cop_sim_node(sim, stopped == 6 ? 0 : 6)));
        act(sim, COP_SIM_RESUME, stopped, COP_ID_NONE);
        run(sim, 3 * COP_SEC);
        assert_together(sim, stopped, stopped);
        cop_sim_destroy(sim);
    }
}

/* Half of them at once, neighbours in the ring and in the tree among them: a few deadlines
 * more, and not one each. */
static void test_many_stop_at_once(void **state)
{
    (void)state;
    struct cop_sim *sim = create(25, COP_QUORUM_MAJORITY);
    run(sim, COP_SEC);
    for (cop_id id = 1; id < 25; id += 2)
        act(sim, COP_SIM_PAUSE, id, COP_ID_NONE);
    run(sim, 10 * PERIOD);
    for (cop_id id = 0; id < 25; id += 2)
        assert_int_equal(cop_view_size(view_of(sim, id)), 13);
    cop_sim_destroy(sim);
}

/* A link between two: both live, others reach both, and nobody is removed. */
static void test_a_bad_link_removes_nobody(void **state)
{
    (void)state;
    uint64_t dropped = 0;
    for (cop_id a = 0; a < 6; a++) {
        for (cop_id b = a + 1; b < 6; b++) {
            struct cop_sim *sim = create(6, COP_QUORUM_MAJORITY);
            run(sim, COP_SEC);
            part(sim, a, a, b, b);
            run(sim, 20 * COP_SEC);
            assert_together(sim, 1, 0);
            assert_int_equal(cop_sim_stats(sim)->views_installed, 0);
            dropped += cop_sim_stats(sim)->accusations_dropped;
            act(sim, COP_SIM_HEAL, 0, COP_ID_NONE);
            run(sim, 5 * COP_SEC);
            assert_together(sim, 1, 0);
            cop_sim_destroy(sim);
        }
    }
    assert_true(dropped > 0); /* some of them are neighbours in the ring */
}

/* Somebody else dies, and all others have a view without it, on this network. */
static void assert_change(struct cop_sim *sim, cop_id victim)
{
    uint32_t n = cop_sim_nodes(sim);
    act(sim, COP_SIM_CRASH, victim, COP_ID_NONE);
    run(sim, 2 * COP_SEC);
    uint64_t digest = cop_view_digest(view_of(sim, (victim + 1) % n));
    for (cop_id id = 0; id < n; id++) {
        if (id == victim)
            continue;
        assert_true(cop_view_digest(view_of(sim, id)) == digest);
        assert_int_equal(cop_view_size(view_of(sim, id)), n - 1);
        assert_int_equal(cop_view_incarnation(view_of(sim, id), id), 1);
    }
}

/* D14: nor does it stop anything, between whomever it is. */
static void test_a_bad_link_stops_nothing(void **state)
{
    (void)state;
    uint64_t relayed = 0;
    for (cop_id a = 0; a < 7; a++) {
        for (cop_id b = a + 1; b < 7; b++) {
            struct cop_sim *sim = create(7, COP_QUORUM_MAJORITY);
            run(sim, COP_SEC);
            part(sim, a, a, b, b);
            run(sim, COP_SEC);
            assert_change(sim, b < 6 ? 6 : a < 5 ? 5 : 4);
            relayed += cop_sim_stats(sim)->relayed;
            cop_sim_destroy(sim);
        }
    }
    assert_true(relayed > 0);
}

/* The same for one that is slow in one direction. */
static void test_a_slow_link_removes_nobody(void **state)
{
    (void)state;
    for (cop_id b = 1; b < 6; b++) {
        struct cop_sim *sim = create(6, COP_QUORUM_MAJORITY);
        run(sim, COP_SEC);
        struct cop_sim_action slow = {
            .kind = COP_SIM_SLOW_LINK, .a = 0, .b = b, .amount_ns = 5 * PERIOD};
        assert_int_equal(cop_sim_do(sim, &slow), 0);
        run(sim, 20 * COP_SEC);
        assert_together(sim, 1, 0);
        assert_int_equal(cop_sim_stats(sim)->views_installed, 0);
        cop_sim_destroy(sim);
    }
}

/* The larger side goes on, the smaller is degraded; then they are one again. */
static void test_a_partition_heals(void **state)
{
    (void)state;
    for (cop_id border = 1; border <= 3; border++) {
        struct cop_sim *sim = create(7, COP_QUORUM_MAJORITY);
        run(sim, COP_SEC);
        part(sim, 0, border - 1, border, 6);
        run(sim, 10 * COP_SEC);
        for (cop_id id = 0; id < border; id++) {
            assert_true(cop_node_is_degraded(cop_sim_node(sim, id)));
            assert_int_equal(cop_view_size(view_of(sim, id)), 7);
        }
        for (cop_id id = border; id < 7; id++) {
            assert_false(cop_node_is_degraded(cop_sim_node(sim, id)));
            assert_int_equal(cop_view_size(view_of(sim, id)), 7 - border);
        }
        act(sim, COP_SIM_HEAL, 0, COP_ID_NONE);
        run(sim, 10 * COP_SEC);
        assert_together(sim, 0, border - 1);
        cop_sim_destroy(sim);
    }
}

/* Without a majority both sides go on, and come together again. */
static void test_two_worlds_meet(void **state)
{
    (void)state;
    struct cop_sim *sim = create(7, COP_QUORUM_NONE);
    run(sim, COP_SEC);
    part(sim, 0, 2, 3, 6);
    run(sim, 10 * COP_SEC);
    assert_int_equal(cop_view_size(view_of(sim, 0)), 3);
    assert_int_equal(cop_view_size(view_of(sim, 6)), 4);
    act(sim, COP_SIM_HEAL, 0, COP_ID_NONE);
    run(sim, 30 * COP_SEC);
    for (cop_id id = 0; id < 7; id++)
        assert_int_equal(cop_view_size(view_of(sim, id)), 7);
    cop_sim_destroy(sim);
}

/* A clock that jumps accuses nobody. */
static void test_a_jump_accuses_nobody(void **state)
{
    (void)state;
    struct cop_sim *sim = create(7, COP_QUORUM_MAJORITY);
    run(sim, COP_SEC);
    for (cop_id id = 0; id < 7; id++) {
        struct cop_sim_action jump = {
            .kind = COP_SIM_JUMP, .a = id, .amount_ns = (id + 1) * COP_SEC};
        assert_int_equal(cop_sim_do(sim, &jump), 0);
        run(sim, 5 * COP_SEC);
    }
    assert_true(cop_sim_stats(sim)->credits >= 7);
    assert_int_equal(cop_sim_stats(sim)->accusations, 0);
    assert_together(sim, 1, 0);
    cop_sim_destroy(sim);
}

/* What a member sends while nothing happens does not depend on how many there are. */
static void test_background_traffic(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {4, 64, 512};
    uint64_t rates[3];
    for (int i = 0; i < 3; i++) {
        struct cop_sim *sim = create(sizes[i], COP_QUORUM_MAJORITY);
        run(sim, COP_SEC);
        uint64_t before = cop_sim_stats(sim)->sent_bytes;
        run(sim, 10 * COP_SEC);
        rates[i] = (cop_sim_stats(sim)->sent_bytes - before) / sizes[i] / 10;
        assert_true(rates[i] < 4096);
        assert_int_equal(rates[i], rates[0]);
        cop_sim_destroy(sim);
    }
}

/* Gossip accuses nobody who lives, finds one who stopped in a number of periods that grows
 * with the logarithm, and takes it back. */
static void test_gossip_finds_the_stopped(void **state)
{
    (void)state;
    static const struct cop_detect gossip = {.gossip_period_ns = PERIOD,
                                             .witnesses = 2};
    static const uint32_t sizes[] = {3, 8, 33, 128};
    for (int i = 0; i < 4; i++) {
        struct cop_sim *sim = create_with(sizes[i], COP_QUORUM_MAJORITY, &gossip);
        run(sim, 20 * COP_SEC);
        assert_int_equal(cop_sim_stats(sim)->accusations, 0);
        act(sim, COP_SIM_PAUSE, 1, COP_ID_NONE);
        uint64_t log = 0;
        while (1u << log < sizes[i])
            log++;
        run(sim, (6 + 5 * log + 3) * PERIOD);
        assert_int_equal(cop_view_size(view_of(sim, 0)), sizes[i] - 1);
        act(sim, COP_SIM_RESUME, 1, COP_ID_NONE);
        run(sim, 10 * COP_SEC);
        assert_together(sim, 1, 1);
        cop_sim_destroy(sim);
    }
}

/* All start in stealth: nothing is said for a while, and then all is as ever. */
static void test_all_start_in_stealth(void **state)
{
    (void)state;
    static const struct cop_detect stealth = {
        .gossip_period_ns = PERIOD, .ring_period_ns = PERIOD, .stealth = true};
    struct cop_sim *sim = create_with(6, COP_QUORUM_MAJORITY, &stealth);
    run(sim, COP_SEC);
    assert_int_equal(cop_sim_stats(sim)->sent_bytes, 0);
    run(sim, 20 * COP_SEC);
    assert_int_equal(cop_sim_stats(sim)->accusations, 0);
    act(sim, COP_SIM_PAUSE, 4, COP_ID_NONE);
    run(sim, 2 * COP_SEC);
    assert_int_equal(cop_view_size(view_of(sim, 0)), 5);
    act(sim, COP_SIM_RESUME, 4, COP_ID_NONE);
    run(sim, 20 * COP_SEC);
    assert_together(sim, 4, 4);
    cop_sim_destroy(sim);
}

/* V14: who reaches whom it asks for an invitation, and not the root, is not let in; changes of
 * others do not wait for it; and it is in when the way is back. */
static void test_a_joiner_that_does_not_reach_the_root(void **state)
{
    (void)state;
    static const char *const ways[] = {"0 | 5", "0 > 5", "5 > 0"};
    for (int i = 0; i < 6; i++) {
        char text[400];
        bool heals = i >= 3;
        snprintf(text, sizeof text,
                 "nodes 6\nstart 5\nshape kary:2\nviews majority\n"
                 "detect ring 100ms witnesses 2\nnet constant 50us\n"
                 "at 500ms partition %s\nat 1s join\nat 8s crash 3\n"
                 "at 25s probe 1\n%s",
                 ways[i % 3], heals ? "at 26s heal\nat 50s probe 1\nliveness\n" : "");
        struct cop_sim_report report = run_text(text);
        /* Four without the dead one, and five with the one that came. */
        assert_int_equal(report.stats.views_installed, heals ? 9 : 4);
        assert_true(report.stats.proposals <= 3);
    }
}

/* M6, D7: who reaches the root not, and the next in line, whom a bad way has in common with it, are
 * not enough: others reach the root, and are asked when a witness is late. */
static void test_the_next_in_line_convicts_nobody(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "nodes 8\nshape radix:2\nviews majority\ndetect ring 100ms witnesses 1\n"
        "net constant 20us jitter 20us\nat 1050ms partition 0 | 1,4\n"
        "at 1150ms pause 3\nat 1310ms resume 3\nat 6s heal\nliveness\n",
        "nodes 8\nshape radix:2\nviews majority\ndetect ring 100ms witnesses 1\n"
        "net constant 20us jitter 20us\nat 1050ms partition 0 | 4\n"
        "at 1050ms slow 0 > 1 70ms\n"
        "at 1150ms pause 3\nat 1310ms resume 3\nat 6s heal\nliveness\n",
        "nodes 15\nshape flat\nviews majority\ndetect ring 100ms witnesses 2\n"
        "net constant 20us jitter 20us\nat 1050ms partition 0 | 1,3,14\n"
        "at 1194ms pause 13\nat 1328ms resume 13\nat 6s heal\nliveness\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct cop_sim_report report = run_text(texts[i]);
        assert_true(report.stats.accusations > 0);
        assert_int_equal(report.stats.views_installed, 0);
    }
}

/* D7, V8: 6 and 7 have the view with 7 when its root dies, and then 7 does: 6 asks those who have only
 * acknowledged it, and without their word everybody waits for 7 for ever. */
static void test_a_newcomer_dies_with_the_root(void **state)
{
    (void)state;
    struct cop_sim_report report =
        run_text("nodes 8\nshape knomial:3\nseed 590833\nviews majority\nstart 7\n"
                 "detect witnesses 1 gossip 400ms\n"
                 "agree strict count 2 window 1 gap 88440121ns promote\n"
                 "net constant 10us\nat 235ms join\ncrash 7 before-recv 5\n"
                 "crash 0 after-send 13\ncrash 1 after-send 32\nliveness\n");
    assert_int_equal(report.members, 5);
    assert_int_equal(report.installed, 5);
}

static int inquiry_status;
static void note_complete(void *context, struct cop_sim *sim, cop_id node,
                          uint64_t token, int status, struct cop_buf *result)
{
    (void)context;
    (void)sim;
    (void)node;
    (void)token;
    (void)result;
    inquiry_status = status;
}

/* An inquiry about one that is stopped removes it, also where nobody watches it. */
static void test_an_inquiry_finds_the_stopped(void **state)
{
    (void)state;
    static const char *const text = "nodes 5\nviews majority\ndetect witnesses 2\n"
                                    "at 1s inquire 1 about 4\nat 2s pause 4\n"
                                    "at 3s inquire 1 about 4 timeout 500ms\n";
    struct cop_sim_script script = parse_script(text);
    script.config.complete = note_complete;
    inquiry_status = 1;
    struct cop_sim_report report = run_script(&script);
    assert_int_equal(inquiry_status, COP_ETIMEDOUT);
    assert_int_equal(report.stats.views_installed, 4);
    assert_int_equal(report.stats.accusations, 1);
    cop_sim_script_free(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_stopped_are_removed_and_return),
        cmocka_unit_test(test_a_root_that_stops_costs_no_more),
        cmocka_unit_test(test_a_root_with_one_link),
        cmocka_unit_test(test_many_stop_at_once),
        cmocka_unit_test(test_a_bad_link_removes_nobody),
        cmocka_unit_test(test_a_bad_link_stops_nothing),
        cmocka_unit_test(test_a_slow_link_removes_nobody),
        cmocka_unit_test(test_a_partition_heals),
        cmocka_unit_test(test_two_worlds_meet),
        cmocka_unit_test(test_a_jump_accuses_nobody),
        cmocka_unit_test(test_background_traffic),
        cmocka_unit_test(test_gossip_finds_the_stopped),
        cmocka_unit_test(test_all_start_in_stealth),
        cmocka_unit_test(test_a_joiner_that_does_not_reach_the_root),
        cmocka_unit_test(test_the_next_in_line_convicts_nobody),
        cmocka_unit_test(test_a_newcomer_dies_with_the_root),
        cmocka_unit_test(test_an_inquiry_finds_the_stopped),
        cmocka_unit_test(test_random_silence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
