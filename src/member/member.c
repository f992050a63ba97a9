/* SPDX-License-Identifier: Apache-2.0 */
#include "member/member.h"

#include "base/rankset.h"
#include "detect/detect.h"
#include "member/state.h"

#include <stdlib.h>

/* ---- looking around -------------------------------------------------------------- */

void cop__member_look_soon(struct cop_node *node)
{
    cop__member(node)->restless = true;
    cop__notice(node, COP__SLOT_MEMBER);
}

void cop__member_wake_at(struct cop_node *node, cop_time when)
{
    struct cop__member *member = cop__member(node);
    if (!cop__timer_is_running(&member->timer.timer) ||
        when < member->timer.timer.deadline)
        cop__timer_set(node, &member->timer, when);
}

bool cop__member_is_credible(cop_epoch epoch, cop_epoch than, cop_epoch ahead)
{
    return epoch <= than || epoch - than <= ahead;
}

void cop__member_see_epoch(struct cop_node *node, cop_epoch epoch)
{
    struct cop__member *member = cop__member(node);
    if (epoch > member->highest &&
        cop__member_is_credible(epoch, cop_view_epoch(node->view), COP__EPOCHS_AHEAD))
        member->highest = epoch;
}

cop_id cop__member_proposer(const struct cop_node *node)
{
    return cop__roster_proposer(node, cop__member(node)->base, COP_ID_NONE);
}

/*
 * D4. Who of the suspects lives may never have heard what somebody said of it who then died,
 * and no proposal will tell it. A few at a time: most of them are dead.
 */
#define SUSPECTS_AT_ONCE 16
#define SUSPECTS_PAUSE (100 * COP_MSEC)

static void tell_suspects(struct cop_node *node)
{
    struct cop__member *member = cop__member(node);
    if (!member->degraded)
        return;
    if (node->now >= member->tell_next &&
        !cop__detect_tell_suspects(node, SUSPECTS_AT_ONCE))
        return;
    if (node->now >= member->tell_next)
        member->tell_next = node->now + SUSPECTS_PAUSE;
    cop__member_wake_at(node, member->tell_next);
}

static void mind_degraded(struct cop_node *node)
{
    struct cop__member *member = cop__member(node);
    bool degraded =
        !cop__member_could_change(node, node->view) || cop__go_on_is_blocked(node) ||
        (node->quorum == COP_QUORUM_MAJORITY && cop__detect_is_cut_off(node));
    if (degraded == member->degraded)
        return;
    member->degraded = degraded;
    /* No proposal will tell the others on this side why there is none. */
    if (degraded && cop__detect_finds_silence(node))
        cop__detect_tell_neighbours(node);
    if (degraded)
        cop__detect_forget_told(node);
    cop__emit_state(node, COP_EFFECT_DEGRADED, degraded);
}

/* Without a quorum nobody can leave. The goodbye stands, but who said it hears no later. */
static void mind_leaving(struct cop_node *node)
{
    struct cop__member *member = cop__member(node);
    if (!member->leaving || member->leave_until == COP_TIME_NEVER)
        return;
    if (node->now < member->leave_until) {
        cop__member_wake_at(node, member->leave_until);
        return;
    }
    member->leave_until = COP_TIME_NEVER;
    cop__emit_complete(node, member->leave_token, COP_ETIMEDOUT, NULL);
}

/* V9: of the death of somebody whom no view that I have installed has I would not hear. */
static void watch_proposer(struct cop_node *node, cop_id proposer)
{
    struct cop__member *member = cop__member(node);
    bool is_new = proposer != COP_ID_NONE && proposer != node->self &&
                  cop_view_rank(node->view, proposer) == COP_RANK_NONE;
    cop_id awaited = is_new ? proposer : COP_ID_NONE;
    if (awaited == member->awaited)
        return;
    if (member->awaited != COP_ID_NONE)
        cop__unwatch(node, member->awaited);
    if (awaited != COP_ID_NONE)
        cop__watch(node, awaited);
    member->awaited = awaited;
}

/*
 * Who joins waits for others, but for one case: a view that somebody has installed has it, and all
 * who were there before leave. It cannot install that itself after it has acknowledged a later one
 * (V8), and none of them proposes while there is somebody who stays (V9).
 */
static void look_outside(struct cop_node *node)
{
    cop__member_ask_around(node);
    cop__member_ask_to_join(node);
    if (cop__member(node)->phase == PHASE_JOINING &&
        cop_view_has(cop__member(node)->base, node->self, node->incarnation) &&
        cop__member_proposer(node) == node->self)
        cop__member_lead(node);
}

static void look(struct cop_node *node)
{
    struct cop__member *member = cop__member(node);
    member->restless = false;
    if (member->phase == PHASE_OUT || cop__detect_is_stealthy(node))
        return;
    cop__member_mind_held(node);
    if (member->phase == PHASE_OUT)
        return;
    if (member->phase == PHASE_JOINING) {
        look_outside(node);
        return;
    }
    mind_leaving(node);
    cop__member_mind_errands(node);
    cop__member_mind_invited(node);
    cop__member_ask_around(node);
    cop__go_on_mind(node);
    mind_degraded(node);
    tell_suspects(node);
    cop_id proposer = cop__member_proposer(node);
    watch_proposer(node, proposer);
    cop__member_report(node, proposer);
    cop__drain_mind(node, proposer);
    if (proposer == node->self) {
        cop__member_lead(node);
        cop__member_heal(node);
    } else {
        cop__member_stop_healing(node);
        cop__guard_release(node);
        if (member->proposal_count > 0 && !member->proposing)
            cop__member_wonder(node);
    }
}

/* Looking may change what there is to see: a few times, and then with the next step. */
#define LOOKS_MAX 4

static void settle(struct cop_node *node)
{
    struct cop__member *member = cop__member(node);
    for (int i = 0; i < LOOKS_MAX && member->restless && !node->failed; i++)
        look(node);
    if (member->restless && member->phase != PHASE_OUT)
        cop__member_wake_at(node, node->now);
}

static void on_timer(struct cop_node *node, struct cop__node_timer *timer)
{
    (void)timer;
    cop__member_look_soon(node);
}

/* ---- the end --------------------------------------------------------------------- */

void cop__member_go_out(struct cop_node *node, int why)
{
    struct cop__member *member = cop__member(node);
    if (member->phase == PHASE_OUT)
        return;
    member->phase = PHASE_OUT;
    if (member->leaving)
        why = 0; /* it wanted to */
    cop__timer_cancel(node, &member->timer);
    cop__detect_stop(node);
    cop__member_stop_healing(node);
    cop__drain_end(node, COP_ESTATE);
    cop__go_on_end(node, COP_ESTATE);
    if (member->leaving && member->leave_until != COP_TIME_NEVER)
        cop__emit_complete(node, member->leave_token, 0, NULL);
    cop__emit_state(node, COP_EFFECT_OUT, why);
}

/* ---- requests -------------------------------------------------------------------- */

static int leave(struct cop_node *node, const struct cop_request *request)
{
    struct cop__member *member = cop__member(node);
    if (member->phase != PHASE_MEMBER)
        return COP_ESTATE;
    if (member->leaving)
        return COP_EEXIST;
    member->leaving = true;
    member->leave_token = request->token;
    member->leave_until =
        node->now + (request->timeout_ns ? request->timeout_ns : COP__LEAVE_TIMEOUT);
    /* Nobody is left to say goodbye to. */
    if (cop_view_size(node->view) == 1)
        cop__member_go_out(node, 0);
    else
        cop__roster_leave(node);
    return 0;
}

static int report(struct cop_node *node, const struct cop_request *request)
{
    cop_incarnation life = cop_view_incarnation(node->view, request->member);
    if (!cop_view_has(node->view, request->member, life) ||
        request->member == node->self ||
        (request->incarnation != 0 && request->incarnation != life))
        return COP_EINVAL;
    cop__detect_accuse(node, request->member);
    cop__emit_complete(node, request->token, 0, NULL);
    return 0;
}

static int on_submit(struct cop_node *node, const struct cop_request *request)
{
    if (request->kind != COP_REQUEST_LEAVE && request->kind != COP_REQUEST_REPORT &&
        request->kind != COP_REQUEST_INVITE && request->kind != COP_REQUEST_DRAIN &&
        request->kind != COP_REQUEST_GO_ON)
        return COP_ENOENT;
    if (!cop__has_views(node))
        return COP_EINVAL;
    if (request->kind == COP_REQUEST_LEAVE)
        return leave(node, request);
    if (cop__member(node)->phase != PHASE_MEMBER)
        return COP_ESTATE;
    if (request->kind == COP_REQUEST_REPORT)
        return report(node, request);
    if (request->kind == COP_REQUEST_DRAIN)
        return cop__drain_submit(node, request);
    if (request->kind == COP_REQUEST_GO_ON)
        return cop__go_on_submit(node, request);
    return cop__member_invite(node, request);
}

/* ---- the layer ------------------------------------------------------------------- */

static void on_change(struct cop_node *node, const struct cop__change *change)
{
    struct cop__member *member = cop__member(node);
    if (!cop__has_views(node))
        return;
    if (member->now_times.heard == 0)
        member->now_times.heard = node->now;
    if (cop__rankset_put(&member->dirty, change->id))
        cop__fail(node, COP_ENOMEM);
    cop__member_look_soon(node);
}

static void on_peer_up(struct cop_node *node, cop_id peer, cop_incarnation incarnation)
{
    if (!cop__has_views(node) || cop__detect_is_stealthy(node))
        return;
    cop__member_heal_up(node, peer, incarnation);
    cop__member_greet(node, peer, incarnation);
}

static void on_peer_down(struct cop_node *node, cop_id peer,
                         cop_incarnation incarnation, enum cop_down why)
{
    (void)incarnation;
    if (!cop__has_views(node))
        return;
    cop__member_heal_down(node, peer, why);
    cop__member_look_soon(node);
}

static void start(struct cop_node *node)
{
    struct cop__member *member = cop__member(node);
    if (!cop__has_views(node))
        return;
    member->timer.fire = on_timer;
    cop__timer_init(&member->timer.timer);
    member->base = cop_view_ref(node->view);
    member->highest = cop_view_epoch(node->view);
    member->reported_to = member->target = member->awaited = COP_ID_NONE;
    member->phase = cop_view_has(node->view, node->self, node->incarnation)
                        ? PHASE_MEMBER
                        : PHASE_JOINING;
    cop__member_look_soon(node);
}

static void fini(struct cop_node *node)
{
    struct cop__member *member = cop__member(node);
    for (uint32_t i = 0; i < member->proposal_count; i++) {
        cop_view_unref(member->proposals[i].view);
        cop_view_unref(member->proposals[i].base);
    }
    for (uint32_t i = 0; i < member->joiner_count; i++)
        cop_buf_unref(member->joiners[i].card);
    for (uint32_t i = 0; i < member->held_count; i++)
        cop_buf_unref(member->held[i].frame.payload);
    free(member->proposals);
    free(member->joiners);
    free(member->errands);
    free(member->wishes);
    free(member->held);
    cop_ranks_free(&member->verifying);
    cop_ranks_free(&member->dirty);
    cop_view_unref(member->base);
    cop__member_heal_fini(node);
    cop__guard_fini(node);
    cop_view_unref(member->former);
}

static void digest_ballot(struct cop__digest *digest, struct cop_ballot ballot)
{
    cop__digest_word(digest, ballot.epoch);
    cop__digest_word(digest, (uint64_t)ballot.root << 32 ^ ballot.incarnation);
}

static void digest_state(const struct cop_node *node, struct cop__digest *digest)
{
    const struct cop__member *member = cop__member(node);
    if (!cop__has_views(node) || !member->base)
        return;
    digest_ballot(digest, cop_view_ballot(node->view));
    digest_ballot(digest, member->acked);
    digest_ballot(digest, cop_view_ballot(member->base));
    if (member->former)
        digest_ballot(digest, cop_view_ballot(member->former));
    cop__digest_word(digest, member->unsettled);
    cop__digest_word(digest, member->highest);
    cop__digest_word(digest,
                     (uint64_t)member->outweighed << 1 | (member->go_on.until != 0));
    cop__digest_word(digest,
                     (uint64_t)member->phase << 3 | (uint64_t)member->degraded << 2 |
                         (uint64_t)member->proposing << 1 | (uint64_t)member->leaving);
    cop__digest_word(digest, member->proposal_count);
    for (uint32_t i = 0; i < member->proposal_count; i++) {
        digest_ballot(digest, cop_view_ballot(member->proposals[i].view));
        digest_ballot(digest, cop_view_ballot(member->proposals[i].base));
    }
    cop__digest_word(
        digest, member->not_before > node->now ? member->not_before - node->now : 0);
    cop__digest_word(digest, member->gather_until > node->now);
    cop__digest_word(digest, (uint64_t)member->failures << 32 | member->reported_to);
    for (uint32_t i = 0; i < member->dirty.count; i++)
        cop__digest_word(digest, member->dirty.items[i]);
    for (uint32_t i = 0; i < member->joiner_count; i++)
        cop__digest_word(digest, member->joiners[i].incarnation << 1 |
                                     member->joiners[i].ready);
    cop__digest_word(digest, (uint64_t)member->held_count << 32 | member->errand_count);
    cop__digest_word(digest, (uint64_t)member->sync_target << 32 | member->syncs);
    cop__digest_word(digest, (uint64_t)member->target << 32 | member->attempts);
    for (uint32_t i = 0; i < member->wish_count; i++)
        cop__digest_word(digest, (uint64_t)member->wishes[i].id << 1 |
                                     (uint64_t)member->wishes[i].on);
    cop__guard_digest(node, digest);
}

static const char *check(const struct cop_node *node)
{
    const struct cop__member *member = cop__member(node);
    if (!cop__has_views(node) || !member->base)
        return NULL;
    struct cop_ballot installed = cop_view_ballot(node->view);
    bool inside = cop_view_has(node->view, node->self, node->incarnation);
    if (member->phase == PHASE_MEMBER && !inside)
        return "member: I am not in the view that I have installed";
    if (member->phase == PHASE_JOINING && inside)
        return "member: a view has me, and I do not know it";
    if (cop__is_later(installed, cop_view_ballot(member->base)))
        return "member: installed a view later than any that was";
    for (uint32_t i = 0; i < member->proposal_count; i++) {
        struct cop_ballot ballot = cop_view_ballot(member->proposals[i].view);
        if (!cop__is_later(ballot, installed))
            return "member: keeps a proposal that is over";
        if (cop__is_later(ballot, member->acked))
            return "member: forgot what it acknowledged";
        if (i > 0 &&
            !cop__is_later(ballot, cop_view_ballot(member->proposals[i - 1].view)))
            return "member: proposals are not sorted";
    }
    return NULL;
}

static size_t bytes(const struct cop_node *node)
{
    const struct cop__member *member = cop__member(node);
    return member->proposal_capacity * sizeof *member->proposals +
           member->joiner_capacity * sizeof *member->joiners +
           member->errand_capacity * sizeof *member->errands +
           member->wish_capacity * sizeof *member->wishes +
           member->held_capacity * sizeof *member->held +
           (member->verifying.capacity + member->dirty.capacity) * sizeof(cop_rank) +
           cop__member_heal_bytes(node) + cop__guard_bytes(node);
}

const struct cop__layer cop__member_layer = {
    .name = "member",
    .size = sizeof(struct cop__member),
    .for_views = true,
    .start = start,
    .fini = fini,
    .on_peer_up = on_peer_up,
    .on_peer_down = on_peer_down,
    .on_change = on_change,
    .on_submit = on_submit,
    .settle = settle,
    .digest = digest_state,
    .check = check,
    .bytes = bytes,
};

bool cop_node_is_member(const struct cop_node *node)
{
    return cop_view_has(node->view, node->self, node->incarnation) ||
           !cop__has_views(node);
}

struct cop_change_times cop_node_change_times(const struct cop_node *node)
{
    return cop__has_views(node) ? cop__member(node)->last_times
                                : (struct cop_change_times){0};
}

bool cop_node_is_degraded(const struct cop_node *node)
{
    return cop__has_views(node) && cop__member(node)->degraded;
}
