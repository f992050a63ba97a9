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
 * A death at every message boundary of a probe: after each frame that a node sends, and
 * before each that it gets, for every node of every shape up to 16 nodes, from the first
 * rank as root and from another, with and without an outcome. One death each; then two: all
 * pairs up to PAIRS_ALL nodes, above that a sample (COPPICE_DEEP=1: all). All checkers look
 * on, and after a single death among LIVENESS_NODES or fewer everybody alive must name
 * exactly the dead.
 */
#define NODES_MAX 16
#define LIVENESS_NODES 8
#ifdef __SANITIZE_ADDRESS__
#define PAIRS_ALL                                                                      \
    3 /* ten times slower, and what it looks for is in the code, not in the */
#define PAIRS_SAMPLE 3 /* schedule */
#else
#define PAIRS_ALL 5
#define PAIRS_SAMPLE 30
#endif
/* A death makes others send more than they did without it: boundaries beyond count too. */
#define BEYOND 2

struct boundary {
    cop_id victim;
    enum cop_sim_when when;
    uint64_t count;
};

struct list {
    struct boundary items[NODES_MAX * 64];
    uint32_t count;
};

struct setting {
    const char *shape;
    uint32_t nodes;
    cop_id root;
    bool outcome;
};

static uint64_t runs;

static struct cop_sim_script make_script(const struct setting *setting)
{
    char text[256];
    snprintf(text, sizeof(text),
             "nodes %u\nshape %s\nhosts 3\nseed 1\nflags codec quiet\n"
             "at 0 probe %u timeout 10s%s\n",
             (unsigned)setting->nodes, setting->shape, (unsigned)setting->root,
             setting->outcome ? " outcome" : "");
    return parse_script(text);
}

static void add_deaths(struct cop_sim_script *script, const struct boundary *deaths,
                       uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct cop_sim_action crash;
        memset(&crash, 0, sizeof(crash));
        crash.kind = COP_SIM_CRASH;
        crash.when = deaths[i].when;
        crash.count = deaths[i].count;
        crash.a = deaths[i].victim;
        crash.b = COP_ID_NONE;
        assert_int_equal(cop_sim_script_add(script, &crash), 0);
    }
}

static void run(const struct setting *setting, const struct boundary *deaths,
                uint32_t count)
{
    struct cop_sim_script script = make_script(setting);
    struct cop_sim_report report;
    add_deaths(&script, deaths, count);
    script.liveness = count == 1 && setting->nodes <= LIVENESS_NODES;
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

/* ---- boundaries ------------------------------------------------------------------ */

struct counts {
    uint64_t sends[NODES_MAX], receives[NODES_MAX];
};

static void note_counts(void *context, struct cop_sim *sim)
{
    struct counts *counts = context;
    for (cop_id id = 0; id < cop_sim_nodes(sim); id++) {
        counts->sends[id] = cop_sim_sends(sim, id);
        counts->receives[id] = cop_sim_receives(sim, id);
    }
}

static void add_boundaries(struct list *list, cop_id victim, enum cop_sim_when when,
                           uint64_t count)
{
    for (uint64_t i = 1; i <= count; i++) {
        assert_true(list->count < sizeof(list->items) / sizeof(list->items[0]));
        list->items[list->count++] = (struct boundary){victim, when, i};
    }
}

/* All boundaries of a run without deaths, and `beyond` more for each node. */
static void find_boundaries(const struct setting *setting, uint64_t beyond,
                            struct list *out)
{
    struct cop_sim_script script = make_script(setting);
    struct cop_sim_report report;
    struct counts counts = {{0}, {0}};
    script.config.end = note_counts;
    script.config.context = &counts;
    assert_int_equal(cop_sim_script_run(&script, &report), 0);
    assert_string_equal(report.failure, "");
    assert_int_equal(report.answered, setting->nodes);
    cop_sim_script_free(&script);
    out->count = 0;
    for (cop_id id = 0; id < setting->nodes; id++) {
        add_boundaries(out, id, COP_SIM_AFTER_SEND, counts.sends[id] + beyond);
        add_boundaries(out, id, COP_SIM_BEFORE_RECV, counts.receives[id] + beyond);
    }
}

/* ---- deaths ---------------------------------------------------------------------- */

static void one_death(const struct setting *setting)
{
    static struct list list;
    find_boundaries(setting, 0, &list);
    for (uint32_t i = 0; i < list.count; i++)
        run(setting, &list.items[i], 1);
}

static void pair(const struct setting *setting, const struct list *list, uint32_t i,
                 uint32_t j)
{
    struct boundary deaths[2] = {list->items[i], list->items[j]};
    if (deaths[0].victim != deaths[1].victim)
        run(setting, deaths, 2);
}

static void two_deaths(const struct setting *setting)
{
    static struct list list;
    bool all = setting->nodes <= PAIRS_ALL || getenv("COPPICE_DEEP");
    find_boundaries(setting, BEYOND, &list);
    for (uint32_t i = 0; all && i < list.count; i++) {
        for (uint32_t j = i + 1; j < list.count; j++)
            pair(setting, &list, i, j);
    }
    struct cop__random random;
    cop__random_init(&random, setting->nodes);
    for (uint32_t i = 0; !all && i < PAIRS_SAMPLE; i++)
        pair(setting, &list, (uint32_t)cop__random_below(&random, list.count),
             (uint32_t)cop__random_below(&random, list.count));
}

static void everywhere(void (*kill)(const struct setting *setting))
{
    static const char *const shapes[] = {
        "kary:2",    "kary:3", "radix:2", "radix:4",       "knomial:2",  "knomial:3",
        "knomial:4", "flat",   "chain",   "hosts:radix:2", "hosts:chain"};
    runs = 0;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        for (uint32_t n = 2; n <= NODES_MAX; n++) {
            for (unsigned which = 0; which < 4; which++) {
                struct setting setting = {shapes[i], n, which & 1 ? n / 2 : 0,
                                          (which & 2) != 0};
                kill(&setting);
            }
        }
    }
    print_message("%llu runs\n", (unsigned long long)runs);
}

static void test_one_death(void **state)
{
    (void)state;
    seeds_skip_if_brief();
    everywhere(one_death);
    assert_true(runs > 10000);
}

static void test_two_deaths(void **state)
{
    (void)state;
    seeds_skip_if_brief();
    everywhere(two_deaths);
    assert_true(runs > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_death),
        cmocka_unit_test(test_two_deaths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
