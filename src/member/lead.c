/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rankset.h"
#include "detect/detect.h"
#include "member/state.h"

/* What the root does: find out, propose, and judge what came back. */

/* ---- whether it is my turn ------------------------------------------------------- */

static void watch_also(struct cop_node *node, cop_id id)
{
    struct cop__member *member = cop__member(node);
    if (cop__rankset_has(&member->verifying, id))
        return;
    if (cop__rankset_put(&member->verifying, id))
        cop__fail(node, COP_ENOMEM);
    else
        cop__watch(node, id);
}

static void stop_verifying(struct cop_node *node)
{
    struct cop_ranks *ids = &cop__member(node)->verifying;
    for (uint32_t i = 0; i < ids->count; i++)
        cop__unwatch(node, ids->items[i]);
    ids->count = 0;
}

/* Whether a life is over beyond doubt, because a later one of it has spoken. */
static bool is_condemned(const struct cop_node *node, cop_id id)
{
    struct cop__belief belief = cop__roster_get(node, id);
    return belief.denial >= COP__DENIAL_FINAL ||
           belief.incarnation > cop_view_incarnation(cop__member(node)->base, id);
}

/*
 * V9: those before me in line are gone: I have found that out myself. All of them are tried
 * at once. True if all are.
 */
static bool found_all_before(struct cop_node *node)
{
    const struct cop_view *base = cop__member(node)->base;
    bool all = true;
    for (cop_id id = cop_view_next(base, COP_ID_NONE);
         id != COP_ID_NONE && id < node->self; id = cop_view_next(base, id)) {
        if (!cop__roster_has_lost(node, id, cop_view_incarnation(base, id)) ||
            cop__detect_has_found(node, id) || is_condemned(node, id))
            continue; /* lives (and is a spare, or leaves), or is gone for certain */
        watch_also(node, id);
        cop__detect_verify(node, id);
        all = false;
    }
    return all;
}

/*
 * D16: whom somebody outside says is gone I ask myself before I remove it. An address that refuses
 * ends that at once, and so does a denial; silence does after a deadline.
 */
static bool found_all_reported(struct cop_node *node)
{
    const struct cop_view *base = cop__member(node)->base;
    bool all = true;
    for (uint32_t i = 0; i < cop__roster_count(node) && !node->failed; i++) {
        struct cop__belief belief = cop__roster_at(node, i);
        if (belief.status != COP_REPORTED || belief.id == node->self ||
            !cop_view_has(base, belief.id, belief.incarnation) ||
            cop__detect_has_found(node, belief.id) || is_condemned(node, belief.id))
            continue;
        watch_also(node, belief.id);
        cop__detect_verify_report(node, belief.id);
        all = false;
    }
    return all;
}

/* ---- proposing ------------------------------------------------------------------- */

/* Later the further I am from the first place, and the more often I failed. */
static void back_off(struct cop_node *node)
{
    struct cop__member *member = cop__member(node);
    const struct cop_view *base = member->base;
    uint32_t place = 1, doublings = member->failures < 6 ? member->failures : 6;
    for (cop_id id = cop_view_next(base, COP_ID_NONE);
         id != COP_ID_NONE && id < node->self && place < 16;
         id = cop_view_next(base, id))
        place++;
    member->failures++;
    member->not_before = node->now + ((COP__PROPOSE_AGAIN * place) << doublings);
    cop__member_wake_at(node, member->not_before);
}

static void send_proposal(struct cop_node *node, struct cop_view *view,
                          const struct cop__delta *delta, bool forced)
{
    struct cop__member *member = cop__member(node);
    struct cop_buf *payload = cop__proposal_write(member->base, view, delta, forced);
    if (!payload) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    struct cop__sweep_options options = {
        .protocol = COP__MEMBER_PROTOCOL,
        .outcome = true,
        .timeout_ns = COP__PROPOSE_TIMEOUT,
        .payload = {payload->data, payload->length},
        .token = cop_view_epoch(view),
        .world = view,
    };
    COP__COUNT(node, proposals);
    if (member->now_times.heard == 0)
        member->now_times.heard = node->now;
    if (member->now_times.proposed == 0)
        member->now_times.proposed = node->now;
    member->proposing = true;
    int error = cop__sweep_start(node, &options);
    cop_buf_unref(payload);
    if (error) {
        member->proposing = false;
        back_off(node);
    }
}

/*
 * True if there is something to propose. What was acknowledged and did not commit stands in
 * the way of those who acknowledged it, until something later commits: even the same members
 * once more.
 */
static bool is_needed(const struct cop_node *node, const struct cop__delta *delta)
{
    const struct cop__member *member = cop__member(node);
    return delta->count > 0 || member->proposal_count > 0 ||
           member->unsettled > cop_view_epoch(node->view) ||
           cop__is_later(cop_view_ballot(member->base), cop_view_ballot(node->view));
}

static void propose(struct cop_node *node)
{
    struct cop__member *member = cop__member(node);
    struct cop_ballot ballot = {member->highest + 1, node->self, node->incarnation};
    struct cop__delta delta;
    struct cop_view *view = NULL;
    cop_epoch base = cop_view_epoch(member->base);
    /* Only where the view itself is one of somebody who did not keep to the protocol. */
    if (ballot.epoch <= base ||
        !cop__member_is_credible(ballot.epoch, base, 2 * COP__EPOCHS_AHEAD)) {
        back_off(node);
        return;
    }
    int error = cop__member_delta(node, member->base, ballot.epoch, &delta);
    if (error) {
        cop__fail(node, error);
        return;
    }
    bool held = cop__guard_holds(node, &delta);
    if (is_needed(node, &delta) && !held)
        error = cop__view_derive(member->base, &ballot, &delta, &view);
    if (error == COP_ENOMEM)
        cop__fail(node, error);
    if (view)
        view = cop__view_share(node->settings->views, view);
    bool forced = cop__go_on_is_said(node, member->base);
    if (view && (forced || cop__member_has_quorum(node, member->base, view))) {
        member->highest = ballot.epoch; /* V3 */
        send_proposal(node, view, &delta, forced);
    } else if (view) {
        cop__member_wonder_without_quorum(node);
    }
    cop_view_unref(view);
    cop__delta_free(&delta);
}

void cop__member_lead(struct cop_node *node)
{
    struct cop__member *member = cop__member(node);
    if (member->proposing)
        return;
    if (node->now < member->not_before) {
        cop__member_wake_at(node, member->not_before);
        return;
    }
    /* Both ask: who is reported has the longer deadline, also if it stands before me. */
    bool reported = found_all_reported(node);
    if (!found_all_before(node) || !reported)
        return;
    stop_verifying(node);
    if (!cop__member_is_gathering(node))
        propose(node);
}

/* ---- judging what came back ------------------------------------------------------ */

/* V10: whether this earlier proposal may be the current view, for all that I can know. */
static bool may_have_committed(const struct cop__prior *prior,
                               const struct cop_view *view, const struct cop_view *of)
{
    return !prior->denied && prior->acks >= cop__member_asked_by_both(of, view);
}

static bool outweighs_priors(struct cop_node *node, const struct cop_view *base,
                             const struct cop_view *view, const struct cop__ack *ack)
{
    for (uint32_t i = 0; i < ack->prior_count; i++) {
        const struct cop__prior *prior = &ack->priors[i];
        struct cop_view *of;
        int error = cop__view_derive(base, &prior->ballot, &prior->delta, &of);
        if (error) {
            if (error == COP_ENOMEM)
                cop__fail(node, error);
            return false; /* of what cannot be a view nothing can be known */
        }
        bool fine = !may_have_committed(prior, view, of) ||
                    cop__member_has_quorum(node, of, view);
        cop_view_unref(of);
        if (!fine)
            return false;
    }
    return true;
}

/* Epochs and installed views that the answers speak of. */
static void learn_from(struct cop_node *node, const struct cop_view *base,
                       const struct cop__ack *ack)
{
    cop__member_see_epoch(node, ack->standing.epoch);
    cop__member_see_epoch(node, ack->installed.epoch);
    for (uint32_t i = 0; i < ack->prior_count; i++)
        cop__member_see_epoch(node, ack->priors[i].ballot.epoch);
    if (ack->installed.epoch == 0 ||
        !cop__member_is_credible(ack->installed.epoch, cop_view_epoch(node->view),
                                 COP__EPOCHS_AHEAD))
        return;
    struct cop_view *installed;
    int error = cop__view_derive(base, &ack->installed, &ack->delta, &installed);
    if (error) {
        if (error == COP_ENOMEM)
            cop__fail(node, error);
        return;
    }
    cop__member_learn(node, installed);
    cop_view_unref(installed);
}

enum verdict {
    VERDICT_COMMIT,
    VERDICT_AGAIN, /* at once: what stood in the way is known now */
    VERDICT_WAIT,  /* somebody else's turn, somebody is silent, or there is no quorum */
};

/* Whether all who did not answer are known to be gone: then the next one does without. */
static bool are_all_lost(const struct cop_node *node, const struct cop_view *view,
                         const struct cop_ranks *missing)
{
    for (uint32_t i = 0; i < missing->count; i++)
        if (!cop__roster_has_lost(node, missing->items[i],
                                  cop_view_incarnation(view, missing->items[i])))
            return false;
    return true;
}

/*
 * Whether one whom this would remove has denied by now: where frames are lost its word comes
 * late, but the acknowledgements do so, too.
 */
static bool removes_the_living(const struct cop_node *node, const struct cop_view *view)
{
    for (uint32_t i = 0; i < cop_view_changes(view); i++) {
        const struct cop__entry *entry = cop__view_change(view, i);
        if (entry->presence == COP_REMOVED && entry->since == cop_view_epoch(view) &&
            !cop__roster_has_lost(node, entry->id, entry->incarnation))
            return true;
    }
    return false;
}

static enum verdict judge(struct cop_node *node, const struct cop_view *base,
                          const struct cop_view *view, const struct cop__ack *ack,
                          const struct cop_ranks *missing, bool forced)
{
    const struct cop__member *member = cop__member(node);
    /* V8: I never commit below what I have acknowledged. */
    if (ack->standing.epoch != 0 ||
        !cop__is_same_ballot(member->acked, cop_view_ballot(view)))
        return VERDICT_WAIT;
    if (ack->installed.epoch != 0) /* V6 */
        return VERDICT_AGAIN;
    if (missing->count > 0)
        return are_all_lost(node, view, missing) ? VERDICT_AGAIN : VERDICT_WAIT;
    if (removes_the_living(node, view))
        return VERDICT_AGAIN;
    if (forced || outweighs_priors(node, base, view, ack))
        return VERDICT_COMMIT;
    cop__go_on_outweighed(node);
    return VERDICT_WAIT;
}

/* V13: one that was removed though it lives has to know, also if the root that removed it
 * did not come to say so. */
static void tell_removed(struct cop_node *node, const struct cop_view *view,
                         cop_epoch since)
{
    for (uint32_t i = 0; i < cop_view_changes(view); i++) {
        const struct cop__entry *entry = cop__view_change(view, i);
        if (cop__entry_is_missed(entry) && entry->since >= since)
            cop__member_say_out(node, entry->id, entry->incarnation);
    }
}

static void act(struct cop_node *node, struct cop__sweep *sweep, enum verdict verdict,
                cop_epoch base)
{
    struct cop__member *member = cop__member(node);
    struct cop_view *view = cop_view_ref(cop__sweep_world(sweep));
    if (verdict == VERDICT_COMMIT) {
        struct cop_change_times times = member->now_times;
        cop__sweep_conclude(node, sweep, 0, (struct cop__bytes){NULL, 0});
        member->not_before = 0;
        if (!node->failed)
            cop__member_commit(node, view);
        tell_removed(node, view, base);
        times.epoch = cop_view_epoch(view);
        times.stable = times.committed = node->now;
        member->last_times = times;
    } else {
        COP__COUNT(node, proposals_failed);
        cop__sweep_forget(node, sweep);
        if (verdict == VERDICT_WAIT)
            back_off(node);
    }
    cop_view_unref(view);
    cop__member_look_soon(node);
}

void cop__member_complete(struct cop_node *node, struct cop__sweep *sweep, int status)
{
    struct cop__member *member = cop__member(node);
    struct cop_view *view = cop__sweep_world(sweep);
    struct cop__proposal_head head;
    struct cop__sweep_result result;
    struct cop__ack ack = {0};
    member->proposing = false;
    if (status == COP_EABORTED)
        return;
    if (cop__sweep_result(node, sweep, &result)) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    struct cop__bytes bytes = {result.payload->data, result.payload->length};
    int error = cop__ack_read(bytes, &ack);
    if (!error)
        error = cop__proposal_head(cop__sweep_request(sweep), &head);
    struct cop_view *base = error ? NULL : cop__member_find_view(node, head.base);
    if (error) {
        cop__fail(node, error);
    } else if (!base) {
        act(node, sweep, VERDICT_AGAIN, 0); /* others have moved on, and I with them */
    } else {
        cop_view_ref(base);
        learn_from(node, base, &ack);
        enum verdict verdict =
            judge(node, base, view, &ack, &result.missing, head.forced);
        act(node, sweep, verdict, head.base.epoch);
        cop_view_unref(base);
    }
    cop__ack_free(&ack);
    cop_buf_unref(result.payload);
    cop_ranks_free(&result.missing);
}
