/* SPDX-License-Identifier: Apache-2.0 */
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
 * What a node remembers of suspicions, in random clusters: an actor around the real one reads
 * its records before and after every step. Nothing changes without the effect that says so,
 * and not the other way round; an outcome is final; nobody is suspect that the view has ended.
 */

static char broken[200];
static uint64_t outcomes[COP_OUTCOME_REMOVED + 1], reasons[COP_REASON_HEARSAY + 1];

static void say(const struct cop_node *node, const char *what,
                const struct cop_suspicion *record)
{
    if (!broken[0])
        snprintf(broken, sizeof(broken), "node %u, record %llu about %u: %s",
                 (unsigned)cop_node_id(node), (unsigned long long)record->number,
                 (unsigned)record->accused, what);
}

static bool is_same(const struct cop_suspicion *a, const struct cop_suspicion *b)
{
    return a->number == b->number && a->at == b->at && a->accuser == b->accuser &&
           a->accused == b->accused && a->incarnation == b->incarnation &&
           a->reason == b->reason;
}

/* A pending one is of a life that is in the view, or has yet to come. */
static bool is_over(const struct cop_node *node, const struct cop_suspicion *record)
{
    const struct cop_view *view = cop_node_view(node);
    return !cop_view_has(view, record->accused, record->incarnation) &&
           record->incarnation <= cop_view_incarnation(view, record->accused);
}

static const struct cop_suspicion *find(const struct cop_suspicion *records,
                                        uint32_t count, uint64_t number)
{
    for (uint32_t i = 0; i < count; i++)
        if (records[i].number == number)
            return &records[i];
    return NULL;
}

/* Whether anything is another than it was. */
static bool compare(const struct cop_node *node, const struct cop_suspicion *old,
                    uint32_t old_count, const struct cop_suspicion *new, uint32_t count)
{
    bool changed = false;
    for (uint32_t i = 0; i < count; i++) {
        const struct cop_suspicion *was = find(old, old_count, new[i].number);
        if (i > 0 && new[i].number != new[i - 1].number + 1)
            say(node, "has a gap before it", &new[i]);
        if (!was) {
            changed = true;
            reasons[new[i].reason]++;
        } else if (!is_same(was, &new[i])) {
            say(node, "is another one now", &new[i]);
        } else if (was->outcome != new[i].outcome) {
            changed = true;
            outcomes[new[i].outcome]++;
            if (was->outcome != COP_OUTCOME_PENDING)
                say(node, "has a second outcome", &new[i]);
        }
        if (new[i].outcome == COP_OUTCOME_PENDING && is_over(node, &new[i]))
            say(node, "is pending, and its life is over", &new[i]);
    }
    return changed;
}

static int step(void *node, const struct cop_event *event, struct cop_effects *effects)
{
    static struct cop_suspicion old[COP_SUSPICIONS_MAX], new[COP_SUSPICIONS_MAX];
    static const struct cop_suspicion nobody;
    uint32_t old_count = cop_node_events(node, 0, old, COP_SUSPICIONS_MAX);
    int error = cop_step(node, event, effects);
    if (error)
        return error;
    uint32_t count = cop_node_events(node, 0, new, COP_SUSPICIONS_MAX), said = 0;
    for (uint32_t i = 0; i < effects->count; i++)
        said += effects->items[i].kind == COP_EFFECT_SUSPICION;
    bool changed = compare(node, old, old_count, new, count);
    if (said != (changed ? 1u : 0u))
        say(node,
            changed ? "changed, and it did not say so once"
                    : "it says that something changed",
            count ? &new[count - 1] : &nobody);
    return 0;
}

static void run_seed(uint64_t seed, uint32_t flags)
{
    struct cop_sim_script script;
    struct cop_sim_report report;
    struct cop_sim_actor actor = *cop_sim_actor_node();
    actor.step = step;
    assert_int_equal(cop_sim_swarm_script(seed, flags, &script), 0);
    script.config.actor = &actor;
    assert_int_equal(cop_sim_script_run(&script, &report), 0);
    cop_sim_script_free(&script);
    if (broken[0] || report.failure[0])
        print_error("seed %llu, flags %u: %s %s\n", (unsigned long long)seed,
                    (unsigned)flags, broken, report.failure);
    assert_string_equal(broken, "");
    assert_string_equal(report.failure, "");
}

static void test_records(void **state)
{
    (void)state;
    uint64_t count = seeds_count() / 50 + 1;
    for (uint64_t seed = 1; seed <= count; seed++) {
        run_seed(seed, COP_SIM_SWARM_VIEWS);
        run_seed(seed, COP_SIM_SWARM_VIEWS | COP_SIM_SWARM_LIES);
        run_seed(seed, COP_SIM_SWARM_LIES);
    }
    /* Worth little if there was nothing to see. */
    assert_true(outcomes[COP_OUTCOME_DENIED] > count / 8);
    assert_true(outcomes[COP_OUTCOME_REMOVED] > count);
    assert_true(reasons[COP_REASON_REFUSED] > count);
    assert_true(reasons[COP_REASON_OUTSIDE] > 0);
    assert_true(reasons[COP_REASON_HEARSAY] > count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_records)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
