/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/sim.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
/* cmocka needs the first three above. */
#include <cmocka.h>

/*
 * V20: a root that has lost its quorum, and is alive to the next in line, holds nobody. All of
 * this also runs under the checkers of views: nobody is in two of them, and in the end, when
 * links are back, nobody is marked as one who resigned.
 */

/* Who reaches whom no more; %1$u is the last member. */
static const char *const cuts[] = {
    "at 1s partition 0 | 2-%1$u\n",   /* the next in line is left */
    "at 1s partition 0 > 2-%1$u\n",   /* heard by it alone */
    "at 1s partition 2-%1$u > 0\n",   /* hears it alone */
    "at 1s partition 0 | 3-%1$u\n",   /* the next two */
    "at 1s partition 0-1 | 3-%1$u\n", /* two of them: both resign */
    "at 1s partition 0 | 2-%1$u\nat 1s partition 1 | 3-%1$u\n", /* one after the other */
    "at 1s partition 0 | 2-%1$u\nat 1s drain 5 about 1\n", /* the next is drained */
};
#define CUTS (sizeof cuts / sizeof *cuts)

static struct cop_sim_report run(const char *text)
{
    struct cop_sim_script script;
    struct cop_sim_report report;
    char message[200] = "";
    if (cop_sim_script_parse(text, &script, message, sizeof message) != 0)
        fail_msg("%s\n%s", message, text);
    assert_int_equal(cop_sim_script_run(&script, &report), 0);
    cop_sim_script_free(&script);
    if (report.failure[0])
        fail_msg("%s\n%s", report.failure, text);
    return report;
}

/* Everybody is in one view, which may be the first. */
static void assert_together(const struct cop_sim_report *report, uint32_t n)
{
    if (report->stats.views_installed == 0)
        return;
    assert_int_equal(report->members, n);
    assert_int_equal(report->installed, n);
}

static void head(char *text, size_t size, unsigned n, const char *shape,
                 unsigned witnesses)
{
    snprintf(text, size,
             "nodes %u\nseed %u\nshape %s\nviews majority\n"
             "detect ring 100ms witnesses %u\nflags codec\n"
             "net constant 50us jitter 30us\n",
             n, n + witnesses, shape, witnesses);
}

static void add(char *text, size_t size, const char *format, unsigned number)
{
    size_t used = strlen(text);
    /* Formats are the constants above. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text + used, size - used, format, number);
#pragma GCC diagnostic pop
}

/* While the cut lasts somebody else dies, and is out of the view of all whom anybody reaches. */
static void test_changes_go_on(void **state)
{
    (void)state;
    static const unsigned sizes[] = {7, 16, 32};
    static const char *const shapes[] = {"radix:2", "flat", "chain"};
    uint64_t resigned = 0;
    for (unsigned i = 0; i < CUTS * 3 * 3 * 2; i++) {
        unsigned n = sizes[i / CUTS % 3], witnesses = i / CUTS / 9 * 2;
        char text[1000];
        head(text, sizeof text, n, shapes[i / CUTS / 3 % 3], witnesses);
        add(text, sizeof text, cuts[i % CUTS], n - 1);
        add(text, sizeof text, "at 10s crash %u\n", n - 2);
        add(text, sizeof text, "at 20s break 2 %u\n", n - 1);
        struct cop_sim_report report = run(text);
        if (report.members >= n || report.installed + 1 < report.members)
            fail_msg("%u in the view, %u have it\n%s", (unsigned)report.members,
                     (unsigned)report.installed, text);
        resigned += report.stats.resignations;
    }
    assert_true(resigned > CUTS * 3);
}

/* When the links are back, whenever that is, all are as they were: also where what was said of a
 * resignation comes when it is over. */
static void test_who_resigned_comes_back(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 40; i++) {
        char text[1000];
        head(text, sizeof text, 7, i % 2 ? "flat" : "radix:2", i % 3);
        add(text, sizeof text, cuts[i % 6], 6);
        /* The way to the next in line is closed when it is about to be said, or just before. */
        if (i % 4 == 0)
            add(text, sizeof text, "at %ums partition 0 > 1\n", 2150 + 10 * i);
        add(text, sizeof text, "at %ums heal\n", 2200 + 60 * i);
        add(text, sizeof text, "at %us probe 1\nliveness\n", 40);
        struct cop_sim_report report = run(text);
        assert_together(&report, 7);
    }
}

/* Whoever dies at whatever message, of the one that resigns and the one that takes over; and a
 * resignation is not believed of the next life. */
static void test_deaths_on_the_way(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 60; i++) {
        char text[1000];
        unsigned who = i % 2;
        head(text, sizeof text, 7, i % 3 ? "radix:2" : "flat", 0);
        add(text, sizeof text, cuts[0], 6);
        add(text, sizeof text,
            who ? "crash 1 after-send %u\n" : "crash 0 after-send %u\n", 60 + 3 * i);
        add(text, sizeof text, who ? "at %us restart 1\n" : "at %us restart 0\n", 8);
        add(text, sizeof text, "at %us heal\nliveness\n", i % 5 ? 9 : 4);
        struct cop_sim_report report = run(text);
        assert_together(&report, 7);
    }
}

/* A link that comes and goes. */
static void test_a_link_that_flaps(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        char text[4000];
        head(text, sizeof text, 7, "radix:2", i % 2);
        for (unsigned at = 1000; at < 20000; at += 800 + 400 * i) {
            add(text, sizeof text, "at %ums partition 0 | 2-6\n", at);
            add(text, sizeof text, "at %ums heal\n", at + 500 + 200 * i);
        }
        add(text, sizeof text, "at %us heal\nliveness\n", 25);
        struct cop_sim_report report = run(text);
        assert_together(&report, 7);
    }
}

/* All of a minority resign, and nothing comes of it: where nobody has a quorum nobody changes the
 * view, and all are in the old one when they meet. */
static void test_a_minority(void **state)
{
    (void)state;
    char text[1000];
    head(text, sizeof text, 6, "radix:2", 0);
    add(text, sizeof text,
        "at 1s partition 0-1 | 2-5\nat 1s partition 2-3 | 4-5\nat %us heal\nliveness\n",
        30);
    struct cop_sim_report report = run(text);
    assert_together(&report, 6);
    assert_true(report.stats.resignations >= 3);
}

/* Somebody outside drains one that has resigned: it stays drained, until somebody says so. */
static void test_the_word_from_outside_stays(void **state)
{
    (void)state;
    char text[1000];
    head(text, sizeof text, 7, "radix:2", 0);
    add(text, sizeof text, cuts[0], 6);
    add(text, sizeof text, "at %us drain 3 about 0\nat 12s heal\nat 60s break 2 4\n",
        5);
    struct cop_sim_report report = run(text);
    assert_int_equal(report.members, 7);
    /* The mark, the word from outside, and nothing more. */
    assert_int_equal(report.stats.views_installed, 14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changes_go_on),
        cmocka_unit_test(test_who_resigned_comes_back),
        cmocka_unit_test(test_deaths_on_the_way),
        cmocka_unit_test(test_a_link_that_flaps),
        cmocka_unit_test(test_a_minority),
        cmocka_unit_test(test_the_word_from_outside_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
