/* SPDX-License-Identifier: Apache-2.0 */
#include "member/state.h"

#include <stdlib.h>

/* A proposal reaches a member, which acknowledges it or says what stands against it. */

/* ---- bytes of a proposal --------------------------------------------------------- */

struct cop_buf *cop__proposal_write(const struct cop_view *base,
                                    const struct cop_view *view,
                                    const struct cop__delta *delta, bool forced)
{
    struct cop_buf *buf =
        cop_buf_create(COP__SIZE_ballot + 8 + 8 + 1 + cop__delta_bytes(delta));
    if (!buf)
        return NULL;
    struct cop_ballot ballot = cop_view_ballot(base);
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    cop__ballot_put(&writer, &ballot);
    cop__put_u64(&writer, cop_view_epoch(view));
    cop__put_u64(&writer, cop_view_digest(view));
    cop__put_u8(&writer, forced);
    cop__delta_write(&writer, delta);
    return buf;
}

static int read_head(struct cop__reader *reader, struct cop__proposal_head *out)
{
    out->base = cop__ballot_get(reader);
    out->epoch = cop__get_u64(reader);
    out->digest = cop__get_u64(reader);
    uint8_t forced = cop__get_u8(reader);
    out->forced = forced != 0;
    return reader->failed || forced > 1 || out->epoch <= out->base.epoch ||
                   !cop__member_is_credible(out->epoch, out->base.epoch,
                                            2 * COP__EPOCHS_AHEAD)
               ? COP_EMALFORMED
               : 0;
}

int cop__proposal_head(struct cop__bytes payload, struct cop__proposal_head *out)
{
    struct cop__reader reader = cop__reader(payload.data, payload.length);
    return read_head(&reader, out);
}

/* The proposed view, out of the base and the difference alone (V4). */
static struct cop_view *read_world(struct cop_node *node, cop_id initiator,
                                   cop_incarnation incarnation,
                                   struct cop__bytes payload)
{
    struct cop__reader reader = cop__reader(payload.data, payload.length);
    struct cop__proposal_head head;
    struct cop__delta delta;
    if (read_head(&reader, &head))
        return NULL;
    const struct cop_view *base = cop__member_find_view(node, head.base);
    /* Only a member of what it changes proposes. */
    if (!base || !cop_view_has(base, initiator, incarnation))
        return NULL;
    int error = cop__delta_read(&reader, &delta);
    if (error) {
        if (error == COP_ENOMEM)
            cop__fail(node, error);
        return NULL;
    }
    struct cop_ballot ballot = {head.epoch, initiator, incarnation};
    struct cop_view *view = NULL;
    error = cop__reader_is_done(&reader)
                ? cop__view_derive(base, &ballot, &delta, &view)
                : COP_EMALFORMED;
    cop__delta_free(&delta);
    if (error == COP_ENOMEM)
        cop__fail(node, error);
    if (!error && cop_view_digest(view) != head.digest) {
        COP__COUNT(node, digests_differ);
        cop_view_unref(view);
        return NULL;
    }
    return error ? NULL : cop__view_share(node->settings->views, view);
}

/* ---- judging it ------------------------------------------------------------------ */

/* What stands against it; epoch 0 if nothing does (V5). */
static struct cop_ballot judge(const struct cop_node *node, const struct cop_view *view,
                               const struct cop_view *base, bool forced)
{
    const struct cop__member *member = cop__member(node);
    struct cop_ballot installed = cop_view_ballot(node->view);
    struct cop_ballot none = {0, 0, 0};
    if (cop_view_epoch(view) <= member->acked.epoch)
        return member->acked;
    if (cop_view_epoch(view) <= installed.epoch)
        return installed;
    /* A proposal that cannot commit would only stand in everybody's way (V10). */
    if (!forced && !cop__member_has_quorum(node, base, view))
        return cop_view_ballot(base);
    return none;
}

/* Everyone who comes with it is somebody of whom things can be said from now on. */
static void expect_joiners(struct cop_node *node, const struct cop_view *base,
                           const struct cop_view *view)
{
    uint64_t at = 0;
    struct cop_view_change change;
    while (cop_view_compare(base, view, &at, &change))
        if (change.kind == COP_VIEW_JOINED || change.kind == COP_VIEW_RETURNED)
            cop__roster_expect(node, change.id, cop_view_incarnation(view, change.id));
}

static void acknowledge(struct cop_node *node, struct cop_view *view,
                        struct cop_view *base)
{
    struct cop__member *member = cop__member(node);
    member->acked = cop_view_ballot(view);
    cop__member_see_epoch(node, cop_view_epoch(view));
    cop__member_learn(node, base);
    if (cop__member_keep(node, view, base))
        cop__fail(node, COP_ENOMEM);
    expect_joiners(node, base, view);
}

/* ---- saying so ------------------------------------------------------------------- */

static int add_prior(const struct cop_node *node, const struct cop_view *view,
                     const struct cop_view *base, struct cop__ack *ack)
{
    struct cop__prior *prior = &ack->priors[ack->prior_count];
    *prior = (struct cop__prior){.ballot = cop_view_ballot(view), .acks = 1};
    prior->denied = prior->ballot.root == node->self &&
                    prior->ballot.incarnation == node->incarnation;
    int error = cop__view_difference(base, view, &prior->delta);
    if (!error)
        ack->prior_count++;
    return error;
}

/* V5: all that I acknowledged since the base, and what I have installed since. */
static int gather(const struct cop_node *node, const struct cop_view *view,
                  const struct cop_view *base, struct cop__ack *ack)
{
    const struct cop__member *member = cop__member(node);
    struct cop_ballot installed = cop_view_ballot(node->view);
    int error = 0;
    if (cop__is_later(installed, cop_view_ballot(base)) &&
        member->phase == PHASE_MEMBER) {
        ack->installed = installed;
        error = cop__view_difference(base, node->view, &ack->delta);
    }
    if (member->proposal_count > 0 && !error) {
        ack->priors = calloc(member->proposal_count, sizeof *ack->priors);
        error = ack->priors ? 0 : COP_ENOMEM;
    }
    for (uint32_t i = 0; i < member->proposal_count && !error; i++) {
        struct cop_ballot ballot = cop_view_ballot(member->proposals[i].view);
        if (cop__is_later(ballot, cop_view_ballot(base)) &&
            !cop__is_same_ballot(ballot, cop_view_ballot(view)))
            error = add_prior(node, member->proposals[i].view, base, ack);
    }
    return error;
}

/* V5. */
static void on_ask(struct cop_node *node, struct cop__sweep *sweep)
{
    struct cop_view *view = cop__sweep_world(sweep);
    struct cop__proposal_head head;
    struct cop__ack ack = {0};
    int error = cop__proposal_head(cop__sweep_request(sweep), &head);
    COP_ASSERT(!error); /* it was read before the sweep was joined */
    struct cop_view *base = cop__member_find_view(node, head.base);
    COP_ASSERT(base);
    cop_view_ref(base);
    ack.standing = judge(node, view, base, head.forced);
    if (ack.standing.epoch == 0) {
        ack.acks = 1;
        cop__member_drop_superseded(node, view, cop_view_ballot(base));
        error = gather(node, view, base, &ack);
        acknowledge(node, view, base);
    } else {
        COP__COUNT(node, proposals_refused);
    }
    cop_view_unref(base);
    struct cop_buf *payload = error ? NULL : cop__ack_write(&ack);
    cop__ack_free(&ack);
    cop__sweep_contribute(node, sweep, payload);
}

/* V7, V8. */
static void on_outcome(struct cop_node *node, struct cop__sweep *sweep, int status,
                       struct cop__bytes payload)
{
    (void)payload;
    if (status == 0)
        cop__member_commit(node, cop__sweep_world(sweep));
    else
        cop__member_wonder(node);
    cop__member_look_soon(node);
}

static void on_initiator_lost(struct cop_node *node, struct cop__sweep *sweep)
{
    (void)sweep;
    cop__member_look_soon(node);
}

const struct cop__protocol cop__member_protocol = {
    .name = "member",
    .world = read_world,
    .on_ask = on_ask,
    .fold = cop__ack_fold,
    .accept = cop__ack_accept,
    .on_complete = cop__member_complete,
    .on_initiator_lost = on_initiator_lost,
    .on_outcome = on_outcome,
};
