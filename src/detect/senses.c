/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/state.h"

#include <stdlib.h>

/*
 * What the detectors that wait for somebody share: one timer, the measure of how long to wait,
 * and the doubt about oneself.
 */

/* Where nothing has a period. */
#define BASE_NS (200 * COP_MSEC)

cop_time cop__senses_base(const struct cop_node *node)
{
    const struct cop_detect *settings = cop__detect_settings(node);
    cop_time period = settings->ring_period_ns ? settings->ring_period_ns
                                               : settings->gossip_period_ns;
    return period ? period : BASE_NS;
}

/* However long the way was once. */
#define PERIODS_MAX 32u

static cop_time at_least(const struct cop_node *node, cop_time least)
{
    const struct cop__senses *senses = cop__senses(node);
    cop_time measured = senses->round_trip + 4 * senses->deviation;
    if (measured < 2 * senses->peak) /* where frames are lost ways are short, or long */
        measured = 2 * senses->peak;
    if (measured < cop__lateness_allowance(node))
        measured = cop__lateness_allowance(node);
    cop_time most = PERIODS_MAX * cop__senses_base(node);
    measured = measured < most ? measured : most;
    return measured > least ? measured : least;
}

/* D6: with the period before the question that is two periods at least. */
cop_time cop__senses_deadline(const struct cop_node *node)
{
    cop_time least = cop__senses_base(node);
    if (cop__senses(node)->round_trip == 0)
        least *= 2;
    cop_time deadline = at_least(node, least);
    if (node->stats)
        node->stats->deadline_ns = deadline;
    return deadline;
}

cop_time cop__senses_patience(const struct cop_node *node)
{
    return at_least(node, cop__senses_base(node) / 2 + 1);
}

bool cop__senses_are_patient(const struct cop_node *node)
{
    return node->now < cop__senses(node)->patient_until;
}

bool cop__detect_finds_silence(const struct cop_node *node)
{
    const struct cop_detect *settings = cop__detect_settings(node);
    return settings->ring_period_ns > 0 || settings->gossip_period_ns > 0;
}

/* ---- life ------------------------------------------------------------------------ */

static void on_timer(struct cop_node *node, struct cop__node_timer *timer)
{
    (void)timer;
    cop__senses_touch(node);
}

struct cop__senses *cop__senses_need(struct cop_node *node)
{
    struct cop__detect *detect = cop__detect(node);
    if (detect->senses)
        return detect->senses;
    detect->senses = calloc(1, sizeof *detect->senses);
    if (!detect->senses) {
        cop__fail(node, COP_ENOMEM);
        return NULL;
    }
    detect->senses->timer.fire = on_timer;
    cop__timer_init(&detect->senses->timer.timer);
    detect->senses->wake = COP_TIME_NEVER;
    detect->senses->reach = 1;
    return detect->senses;
}

void cop__senses_start(struct cop_node *node)
{
    if (!cop__has_views(node))
        return;
    if ((cop__detect_finds_silence(node) || cop__detect_settings(node)->witnesses) &&
        cop__senses_need(node)) {
        cop__gossip_start(node);
        cop__senses_touch(node);
    }
}

void cop__senses_fini(struct cop_node *node)
{
    struct cop__senses *senses = cop__senses(node);
    if (!senses)
        return;
    cop_ranks_free(&senses->awaited);
    cop__gossip_fini(senses->gossip);
    free(senses->looks);
    free(senses->cases);
    free(senses->questions);
    free(senses);
}

/* Also from layers that act when this one has settled: then the timer fires at once. */
void cop__senses_touch(struct cop_node *node)
{
    struct cop__senses *senses = cop__senses(node);
    senses->touched = true;
    cop__notice(node, COP__SLOT_DETECT);
    if (!senses->stopped && senses->timer.timer.deadline > node->now)
        cop__timer_set(node, &senses->timer, node->now);
}

void cop__detect_stop(struct cop_node *node)
{
    struct cop__senses *senses = cop__senses(node);
    if (!senses)
        return;
    senses->stopped = true;
    node->settle_at = COP_TIME_NEVER;
    cop__timer_cancel(node, &senses->timer);
}

/* ---- what others say ------------------------------------------------------------- */

void cop__senses_on_change(struct cop_node *node, const struct cop__change *change)
{
    if (!cop__senses(node))
        return;
    if (change->kind == COP__CHANGE_RESTATED) {
        cop__look_verify_again(node, change->id);
        return;
    }
    if (change->kind != COP__CHANGE_ALIVE) {
        cop__case_close(node, change->id);
        cop__case_lose_witness(node, change->id);
    }
    /* Who is suspect is what a successor looks at; all others may stop. */
    for (int purpose = LOOK_RING; purpose <= LOOK_INQUIRY; purpose++) {
        struct cop__look *look =
            cop__look_find(node, change->id, (enum cop__purpose)purpose);
        bool over = purpose == LOOK_VERIFY ? change->kind != COP__CHANGE_SUSPECT
                                           : change->kind != COP__CHANGE_ALIVE;
        if (look && over)
            cop__look_tell_one(node, look, SIGHT_GONE);
    }
    cop__senses_touch(node);
}

/* Whoever the new view is without. */
void cop__senses_on_view(struct cop_node *node)
{
    struct cop__senses *senses = cop__senses(node);
    if (!senses)
        return;
    for (uint32_t i = senses->look_count; i > 0; i--) {
        struct cop__look *look = &senses->looks[i - 1];
        if (i <= senses->look_count &&
            !cop_view_has(node->view, look->id, look->incarnation))
            cop__look_tell_one(node, look, SIGHT_GONE);
    }
    for (uint32_t i = senses->case_count; i > 0; i--) {
        const struct cop__case *one = &senses->cases[i - 1];
        if (!cop_view_has(node->view, one->id, one->incarnation))
            cop__case_close(node, one->id);
    }
    for (uint32_t i = senses->question_count; i > 0; i--) {
        cop_id witness = senses->questions[i - 1].witness;
        if (cop_view_rank(node->view, witness) == COP_RANK_NONE)
            cop__case_lose_witness(node, witness);
        i = i < senses->question_count + 1 ? i : senses->question_count + 1;
    }
    cop__senses_touch(node);
}

void cop__senses_on_refused(struct cop_node *node, cop_id peer)
{
    if (!cop__senses(node))
        return;
    cop__case_lose_witness(node, peer);
    cop__look_tell(node, peer, SIGHT_REFUSED);
}

void cop__detect_hear(struct cop_node *node, cop_id id)
{
    if (!cop__senses(node))
        return;
    cop__look_forget_unanswered(node, id);
    cop__look_tell(node, id, SIGHT_REACHED);
    cop__case_hear(node, id);
}

/* ---- the doubt about oneself ----------------------------------------------------- */

static bool was_away(const struct cop_node *node)
{
    const struct cop__senses *senses = cop__senses(node);
    return senses->wake != COP_TIME_NEVER && node->now > senses->wake &&
           node->now - senses->wake > cop__senses_base(node) / 2;
}

static void note_lateness(struct cop_node *node)
{
    struct cop__senses *senses = cop__senses(node);
    if (senses->wake != COP_TIME_NEVER && node->now > senses->wake)
        cop__lateness_note(node, node->now - senses->wake);
}

/* Who is always late must find the dead, too: one question is given time only so often. */
#define CREDITS_MAX 4u

static cop_time later_of(cop_time a, cop_time b) { return a > b ? a : b; }

/*
 * D8: I was to look at something long ago, and it is only now: I was stopped or starved, or
 * somebody set my clock. What came meanwhile may still lie before my door. Everyone has the
 * lost time again, and a period at least.
 */
static void credit(struct cop_node *node)
{
    struct cop__senses *senses = cop__senses(node);
    cop_time late = node->now - senses->wake, base = cop__senses_base(node);
    COP__COUNT(node, credits);
    cop__look_forget_unanswered(node, COP_ID_NONE);
    for (uint32_t i = 0; i < senses->look_count; i++) {
        struct cop__look *look = &senses->looks[i];
        if (look->open && look->credits++ >= CREDITS_MAX)
            continue;
        cop_time least = look->patience < base ? look->patience : base;
        look->deadline = later_of(look->deadline + late, node->now + least);
        look->asked = node->now;
        look->measure = false;
    }
    for (uint32_t i = 0; i < senses->question_count; i++) {
        struct cop__question *question = &senses->questions[i];
        if (question->credits++ < CREDITS_MAX)
            question->deadline =
                later_of(question->deadline + late, node->now + 2 * base);
    }
}

/* ---- the timer ------------------------------------------------------------------- */

static cop_time next_deadline(const struct cop_node *node)
{
    const struct cop__senses *senses = cop__senses(node);
    cop_time next = COP_TIME_NEVER;
    for (uint32_t i = 0; i < senses->look_count; i++)
        if (senses->looks[i].deadline < next)
            next = senses->looks[i].deadline;
    for (uint32_t i = 0; i < senses->case_count; i++)
        if (senses->cases[i].deadline < next)
            next = senses->cases[i].deadline;
    for (uint32_t i = 0; i < senses->question_count; i++)
        if (senses->questions[i].deadline < next)
            next = senses->questions[i].deadline;
    if (cop__gossip_next(node) < next)
        next = cop__gossip_next(node);
    cop_time further = cop__ring_further_at(node);
    return further < next ? further : next;
}

/* Those above hear that I am cut off, or no longer, as if it were news. */
static void tell_cut_off(struct cop_node *node)
{
    struct cop__senses *senses = cop__senses(node);
    bool cut_off = cop__detect_is_cut_off(node);
    if (cut_off == senses->cut_off)
        return;
    senses->cut_off = cut_off;
    struct cop__change change = {COP__CHANGE_RESTATED, node->self, node->rank};
    cop__tell_change(node, &change);
}

void cop__senses_settle(struct cop_node *node)
{
    struct cop__senses *senses = cop__senses(node);
    if (!senses || senses->stopped || (!senses->touched && node->now < senses->wake))
        return;
    if (senses->patient_until == 0)
        senses->patient_until = node->now + cop__detect_settings(node)->patience_ns;
    note_lateness(node);
    if (was_away(node))
        credit(node);
    senses->touched = false;
    cop__look_mind(node);
    cop__gossip_mind(node);
    cop__ring_mind(node);
    cop__look_scan(node);
    cop__case_mind(node);
    cop__look_mind(node);
    tell_cut_off(node);
    if (node->failed)
        return;
    cop_time next = next_deadline(node);
    senses->touched = false;
    senses->wake = node->settle_at = next;
    if (next != senses->timer.timer.deadline)
        cop__timer_set(node, &senses->timer, next);
}

/* ---- looking in ------------------------------------------------------------------ */

static cop_time left(const struct cop_node *node, cop_time deadline)
{
    return deadline > node->now ? deadline - node->now : 0;
}

void cop__senses_digest(const struct cop_node *node, struct cop__digest *digest)
{
    const struct cop__senses *senses = cop__senses(node);
    if (!senses)
        return;
    cop__gossip_digest(senses->gossip, digest);
    cop__digest_word(digest, (uint64_t)senses->look_count << 32 | senses->case_count);
    for (uint32_t i = 0; i < senses->look_count; i++) {
        const struct cop__look *look = &senses->looks[i];
        uint64_t flags = (look->open ? 1u : 0u) | (look->heard ? 2u : 0u);
        cop__digest_word(digest, (uint64_t)look->id << 32 | look->misses);
        cop__digest_word(digest, (uint64_t)look->purpose << 2 | flags);
        cop__digest_word(digest, left(node, look->deadline));
        cop__digest_word(digest, look->denial);
        if (look->purpose != LOOK_FAVOUR)
            continue;
        cop__digest_word(digest, look->patience); /* says since when it was asked */
        cop__digest_word(digest, look->connected ? node->now - look->connected + 1 : 0);
    }
    cop__look_digest_unanswered(node, digest);
    for (uint32_t i = 0; i < senses->case_count; i++) {
        const struct cop__case *one = &senses->cases[i];
        cop__digest_word(digest, (uint64_t)one->id << 32 | one->confirmed << 16 |
                                     one->silent << 8 | one->held);
        cop__digest_word(digest, (uint64_t)one->near << 32 | one->walked);
        cop__digest_word(digest, (uint64_t)one->first << 32 | one->successor);
        cop__digest_word(digest, (one->first_is_asked ? 1u : 0u) |
                                     (one->successor_is_asked ? 2u : 0u) |
                                     (one->exhausted ? 4u : 0u) |
                                     (one->successor_is_extra ? 8u : 0u) |
                                     (one->successor_confirms ? 16u : 0u));
    }
    for (uint32_t i = 0; i < senses->question_count; i++)
        cop__digest_word(digest, left(node, senses->questions[i].deadline) ^
                                     (uint64_t)senses->questions[i].witness << 40);
}

const char *cop__senses_check(const struct cop_node *node)
{
    const struct cop__senses *senses = cop__senses(node);
    if (!senses || senses->stopped)
        return NULL;
    for (uint32_t i = 0; i < senses->look_count; i++)
        if (!cop__is_watched(node, senses->looks[i].id))
            return "detect: somebody is looked at, and not watched";
    for (uint32_t i = 0; i < senses->question_count; i++)
        if (!cop__is_watched(node, senses->questions[i].witness))
            return "detect: a witness is not watched";
    bool waits = senses->look_count + senses->case_count > 0;
    if (waits && !cop__timer_is_running(&senses->timer.timer))
        return "detect: somebody is looked at without a deadline";
    return NULL;
}

size_t cop__senses_bytes(const struct cop_node *node)
{
    const struct cop__senses *senses = cop__senses(node);
    if (!senses)
        return 0;
    return sizeof *senses + senses->look_capacity * sizeof *senses->looks +
           senses->case_capacity * sizeof *senses->cases +
           senses->question_capacity * sizeof *senses->questions +
           senses->awaited.capacity * sizeof(cop_rank) +
           cop__gossip_bytes(senses->gossip);
}
