/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/sim.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Cuts a failing script down, greedily: a change is kept if the script still fails. Rounds
 * go on until a whole round keeps nothing. Draws in the simulator depend on what they are
 * about and not on what was drawn before, so most of a script can go without changing the
 * rest.
 */
struct shrink {
    struct cop_sim_script best;
    bool (*fails)(void *context, const struct cop_sim_script *script);
    void *context;
    bool changed;
    int error;
};

/* ---- the same violation ---------------------------------------------------------- */

/* A violation without its numbers: "probe # calls # dead". */
static void kind_of(const char *failure, char *out, size_t size)
{
    size_t at = 0;
    bool digits = false;
    for (; *failure && at + 1 < size; failure++) {
        bool digit = *failure >= '0' && *failure <= '9';
        if (!digit || !digits)
            out[at++] = digit ? '#' : *failure;
        digits = digit;
    }
    out[at] = '\0';
}

struct sought {
    char kind[256];
};

static bool fails_the_same(void *context, const struct cop_sim_script *script)
{
    const struct sought *sought = context;
    struct cop_sim_report report;
    char kind[256];
    if (cop_sim_script_try(script, &report) != 0 || !report.failure[0])
        return false;
    kind_of(report.failure, kind, sizeof(kind));
    return !sought->kind[0] || strcmp(kind, sought->kind) == 0;
}

/* ---- trying ---------------------------------------------------------------------- */

/* Takes over `trial`: as the best so far if it fails, else it is freed. */
static bool keep_if_fails(struct shrink *shrink, struct cop_sim_script *trial)
{
    if (!shrink->fails(shrink->context, trial)) {
        cop_sim_script_free(trial);
        return false;
    }
    cop_sim_script_free(&shrink->best);
    shrink->best = *trial;
    shrink->changed = true;
    return true;
}

static bool copy_best(struct shrink *shrink, struct cop_sim_script *trial)
{
    if (shrink->error == 0)
        shrink->error = cop_sim_script_copy(&shrink->best, trial);
    return shrink->error == 0;
}

static void remove_actions(struct cop_sim_script *script, uint32_t first,
                           uint32_t count)
{
    uint32_t behind = first + count;
    memmove(&script->actions[first], &script->actions[behind],
            (script->count - behind) * sizeof(*script->actions));
    script->count -= count;
}

/* Halves, quarters, ..., single actions. */
static void drop_actions(struct shrink *shrink)
{
    for (uint32_t size = shrink->best.count; size > 0; size /= 2) {
        for (uint32_t first = 0; first + size <= shrink->best.count;) {
            struct cop_sim_script trial;
            if (!copy_best(shrink, &trial))
                return;
            remove_actions(&trial, first, size);
            if (!keep_if_fails(shrink, &trial))
                first += size;
        }
    }
}

/* ---- fewer nodes ----------------------------------------------------------------- */

static bool clip_set(struct cop_sim_set *set, uint32_t nodes)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        struct cop_sim_range range = set->ranges[i];
        if (range.first >= nodes)
            continue;
        range.last = range.last < nodes ? range.last : nodes - 1;
        set->ranges[kept++] = range;
    }
    set->count = kept;
    return kept > 0;
}

/* Makes an action fit fewer nodes; false if it does not. */
static bool clip_action(struct cop_sim_action *action, uint32_t nodes)
{
    if (action->kind == COP_SIM_PARTITION)
        return clip_set(&action->left, nodes) && clip_set(&action->right, nodes);
    if (action->kind == COP_SIM_CRASH && action->b != COP_ID_NONE && action->b >= nodes)
        action->b = nodes - 1 > action->a ? nodes - 1 : COP_ID_NONE;
    return action->a < nodes && (action->b == COP_ID_NONE || action->b < nodes);
}

/* What becomes of an action about a node that is gone. */
enum fold {
    FOLD_DROP, /* it goes, too */
    FOLD_WRAP, /* another node takes the place: counted from the first again */
    FOLD_LAST, /* or the last */
    FOLDS,
};

static cop_id fold_id(cop_id id, uint32_t nodes, enum fold fold)
{
    if (id < nodes || id == COP_ID_NONE)
        return id;
    return fold == FOLD_WRAP ? id % nodes : nodes - 1;
}

static void fold_action(struct cop_sim_action *action, uint32_t nodes, enum fold fold)
{
    if (fold == FOLD_DROP)
        return;
    action->a = fold_id(action->a, nodes, fold);
    if (action->kind != COP_SIM_CRASH)
        action->b = fold_id(action->b, nodes, fold);
}

static bool with_shape(struct cop_sim_script *script, uint32_t nodes, const char *shape,
                       enum fold fold)
{
    char message[200];
    uint32_t kept = 0;
    script->config.nodes = nodes;
    if (script->config.start > nodes)
        script->config.start = nodes;
    free(script->topology);
    script->topology = NULL;
    for (uint32_t i = 0; i < script->count; i++) {
        fold_action(&script->actions[i], nodes, fold);
        if (clip_action(&script->actions[i], nodes))
            script->actions[kept++] = script->actions[i];
    }
    script->count = kept;
    if (script->config.quorum == COP_QUORUM_HAS &&
        !clip_set(&script->config.named, nodes))
        return false;
    return cop_sim_script_shape(script, shape, script->per_host, message,
                                sizeof(message)) == 0;
}

static bool try_nodes(struct shrink *shrink, uint32_t nodes, const char *shape,
                      enum fold fold)
{
    struct cop_sim_script trial;
    if (!copy_best(shrink, &trial))
        return false;
    if (with_shape(&trial, nodes, shape, fold))
        return keep_if_fails(shrink, &trial);
    cop_sim_script_free(&trial);
    return false;
}

static void drop_nodes(struct shrink *shrink)
{
    char shape[128];
    if (shrink->best.topology)
        snprintf(shape, sizeof(shape), "radix:2");
    else
        cop_shape_print(&shrink->best.config.shape, shape, sizeof(shape));
    for (uint32_t step = shrink->best.config.nodes / 2; step > 0;) {
        uint32_t nodes = shrink->best.config.nodes;
        bool kept = false;
        for (int fold = FOLD_DROP; nodes > step && !kept && fold < FOLDS; fold++)
            kept = try_nodes(shrink, nodes - step, shape, (enum fold)fold);
        if (!kept)
            step /= 2;
    }
}

static void simplify_shape(struct shrink *shrink)
{
    static const char *const simple[] = {"chain", "flat", "radix:2"};
    char now[128] = "";
    if (!shrink->best.topology)
        cop_shape_print(&shrink->best.config.shape, now, sizeof(now));
    for (size_t i = 0; i < sizeof(simple) / sizeof(simple[0]); i++) {
        if (strcmp(now, simple[i]) == 0 ||
            try_nodes(shrink, shrink->best.config.nodes, simple[i], FOLD_DROP))
            return;
    }
}

/* ---- simpler options ------------------------------------------------------------- */

static void plain_net(struct cop_sim_script *script)
{
    script->config.net = (struct cop_sim_net){.latency_ns = 10 * COP_USEC};
    free(script->table);
    script->table = NULL;
}

static void no_jitter(struct cop_sim_script *script)
{
    script->config.net.jitter_ns = 0;
}

static void no_compute(struct cop_sim_script *script)
{
    script->config.net.compute_ns = 0;
}

static void no_flags(struct cop_sim_script *script)
{
    script->config.flags &= COP_SIM_CHECK;
}

static void no_buggify(struct cop_sim_script *script)
{
    script->config.flags &= ~(uint32_t)COP_SIM_BUGGIFY;
}

static void no_cut(struct cop_sim_script *script)
{
    script->config.flags &= ~(uint32_t)COP_SIM_CUT;
}

static void no_liveness(struct cop_sim_script *script) { script->liveness = false; }

static void fewer_agreements(struct cop_sim_script *script)
{
    script->config.agree.count -= script->config.agree.count / 2;
}

static void one_group(struct cop_sim_script *script)
{
    script->config.agree.groups = 0;
}

static void keep_groups(struct cop_sim_script *script)
{
    script->config.agree.free = false;
}

static void simplify_options(struct shrink *shrink)
{
    static void (*const changes[])(struct cop_sim_script *) = {
        no_liveness, no_flags,   no_buggify,       no_cut,    plain_net,
        no_jitter,   no_compute, fewer_agreements, one_group, keep_groups,
    };
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        struct cop_sim_script trial;
        if (!copy_best(shrink, &trial))
            return;
        changes[i](&trial);
        char *before = cop_sim_script_print(&shrink->best);
        char *after = cop_sim_script_print(&trial);
        if (before && after && strcmp(before, after) != 0)
            keep_if_fails(shrink, &trial);
        else
            cop_sim_script_free(&trial);
        free(before);
        free(after);
    }
}

/* ---- simpler actions ------------------------------------------------------------- */

static bool plain_shape(struct cop_sim_action *action)
{
    bool had = action->request.shape.kind != 0;
    memset(&action->request.shape, 0, sizeof(action->request.shape));
    return had;
}

static bool no_outcome(struct cop_sim_action *action)
{
    bool had = action->request.outcome;
    action->request.outcome = false;
    return had;
}

static bool only_one(struct cop_sim_action *action)
{
    bool had = action->kind == COP_SIM_CRASH && action->b != COP_ID_NONE;
    if (had)
        action->b = COP_ID_NONE;
    return had;
}

/* Times in round numbers are easier on the reader. */
static bool rounded(struct cop_sim_action *action, cop_time unit)
{
    if (action->when != COP_SIM_AT || action->at % unit == 0)
        return false;
    action->at -= action->at % unit;
    return true;
}

static bool at_zero(struct cop_sim_action *action)
{
    return rounded(action, UINT64_MAX);
}

static bool in_ms(struct cop_sim_action *action) { return rounded(action, COP_MSEC); }

static bool in_10us(struct cop_sim_action *action)
{
    return rounded(action, 10 * COP_USEC);
}

static bool in_us(struct cop_sim_action *action) { return rounded(action, COP_USEC); }

static void simplify_actions(struct shrink *shrink)
{
    static bool (*const changes[])(struct cop_sim_action *) = {
        plain_shape, no_outcome, only_one, at_zero, in_ms, in_10us, in_us,
    };
    for (uint32_t i = 0; i < shrink->best.count; i++) {
        for (size_t j = 0; j < sizeof(changes) / sizeof(changes[0]); j++) {
            struct cop_sim_script trial;
            if (!copy_best(shrink, &trial))
                return;
            if (changes[j](&trial.actions[i]))
                keep_if_fails(shrink, &trial);
            else
                cop_sim_script_free(&trial);
        }
    }
}

/* ---- all of it ------------------------------------------------------------------- */

static void shrink_rounds(struct shrink *shrink)
{
    do {
        shrink->changed = false;
        drop_actions(shrink);
        drop_nodes(shrink);
        simplify_options(shrink);
        simplify_shape(shrink);
        simplify_actions(shrink);
    } while (shrink->changed && shrink->error == 0);
}

int cop_sim_shrink(const struct cop_sim_script *script,
                   bool (*fails)(void *context, const struct cop_sim_script *script),
                   void *context, struct cop_sim_script *out)
{
    struct sought sought = {""};
    struct shrink shrink = {.fails = fails ? fails : fails_the_same,
                            .context = fails ? context : &sought};
    if (!fails) {
        struct cop_sim_report report;
        int error = cop_sim_script_try(script, &report);
        if (error)
            return error;
        kind_of(report.failure, sought.kind, sizeof(sought.kind));
        if (!report.failure[0])
            return COP_ESTATE;
    } else if (!fails(context, script)) {
        return COP_ESTATE;
    }
    shrink.error = cop_sim_script_copy(script, &shrink.best);
    if (shrink.error)
        return shrink.error;
    shrink_rounds(&shrink);
    if (shrink.error) {
        cop_sim_script_free(&shrink.best);
        return shrink.error;
    }
    *out = shrink.best;
    return 0;
}
