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
 * Members on a machine with far more to do than it can: each does not run for a while, again
 * and again, mostly for some milliseconds and now and then for most of a second, alone or
 * with all that share its core. Nobody dies, so nobody may be removed (M6, with deadlines
 * that follow); and one who really stops has to be found all the same.
 */
#define NODES 8u
#define CORES 2u
#define SECONDS 40u

static uint64_t seeds(void)
{
    const char *text = getenv("COPPICE_SEEDS");
    uint64_t count = text ? strtoull(text, NULL, 10) : 0;
    return count ? count / 5000 + 1 : 4;
}

/*
 * In microseconds: each doubling is less than half as likely (2^-1.25). The load rises for some
 * seconds: if the first thing that ever happens is that one of them does not run for most of a
 * second, nobody can know that it is not dead.
 */
static uint64_t stall(struct cop__random *random, uint64_t at)
{
    uint64_t length = 5000, rise = at / 1000000,
             most = UINT64_C(10000) << (rise < 6 ? rise : 6);
    while (length < 320000 && length < most && cop__random_chance(random, 42, 100))
        length *= 2;
    return length + cop__random_below(random, length);
}

/* Until `until`, in microseconds, everyone in [first, NODES) by steps of `step`. */
static void put_stalls(FILE *out, struct cop__random *random, unsigned first,
                       unsigned step, uint64_t gap, uint64_t until)
{
    uint64_t at = cop__random_below(random, gap);
    while (at < until) {
        uint64_t length = stall(random, at);
        for (unsigned id = first; id < NODES; id += step) {
            fprintf(out, "at %lluus pause %u\n", (unsigned long long)at, id);
            fprintf(out, "at %lluus resume %u\n", (unsigned long long)(at + length),
                    id);
        }
        at += length + cop__random_below(random, 2 * gap);
    }
}

/* A script for a seed, and what else happens; to be freed. */
static char *draw(uint64_t seed, const char *last)
{
    char *text = NULL;
    size_t length = 0;
    struct cop__random random;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    cop__random_init(&random, seed);
    fprintf(out,
            "nodes %u\nseed %llu\nshape radix:4\nviews majority\n"
            "detect ring 100ms witnesses 2\nnet constant 100us jitter 100us\n",
            NODES, (unsigned long long)seed);
    for (unsigned id = 0; id < NODES; id++)
        put_stalls(out, &random, id, NODES, 40000, SECONDS * UINT64_C(1000000));
    for (unsigned core = 0; core < CORES; core++)
        put_stalls(out, &random, core, CORES, 200000, SECONDS * UINT64_C(1000000));
    fputs(last, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void test_the_starving_are_not_removed(void **state)
{
    (void)state;
    uint64_t removed = 0, credits = 0;
    for (uint64_t seed = 1; seed <= seeds(); seed++) {
        char *text = draw(seed, "");
        struct cop_sim_report report = run_text(text);
        credits += report.stats.credits;
        if (report.stats.views_installed > 0) {
            print_error("# seed %llu: %llu views, %llu accusations, %llu suspicions, "
                        "%llu denials\n",
                        (unsigned long long)seed,
                        (unsigned long long)report.stats.views_installed,
                        (unsigned long long)report.stats.accusations,
                        (unsigned long long)report.stats.suspicions,
                        (unsigned long long)report.stats.denials);
            removed++;
        }
        free(text);
    }
    assert_true(credits > 0); /* else nobody starved */
    assert_int_equal(removed, 0);
}

/* The same load, and then one that never goes on: it takes longer than elsewhere, but not for
 * ever, and nobody else is removed for it. */
static void test_the_stopped_are_found_among_the_starving(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= seeds(); seed++) {
        char *text = draw(seed, "at 42s pause 3\nat 50s probe 0\n");
        struct cop_sim_report report = run_text(text);
        assert_int_equal(report.stats.views_installed, NODES - 1);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_starving_are_not_removed),
        cmocka_unit_test(test_the_stopped_are_found_among_the_starving),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
