/* SPDX-License-Identifier: Apache-2.0 */
#include "member/state.h"

#include <stdlib.h>
#include <string.h>

/*
 * V14: coming in. Somebody outside asks any member for an invitation: the id that its name
 * has, or will have, and a view to start from. As that id, and in a life of its own, it then
 * asks to join; the root proposes it as soon as it holds the view that the proposal changes.
 * The id is its own only by the commit.
 */

/* ---- who wants to join (at the root) --------------------------------------------- */

static uint32_t place_of(const struct cop__member *member, cop_id id)
{
    uint32_t at = 0;
    while (at < member->joiner_count && member->joiners[at].id < id)
        at++;
    return at;
}

struct cop__joiner *cop__member_joiner(const struct cop_node *node, cop_id id)
{
    struct cop__member *member = cop__member(node);
    uint32_t at = place_of(member, id);
    if (at < member->joiner_count && member->joiners[at].id == id)
        return &member->joiners[at];
    return NULL;
}

static struct cop__joiner *add_joiner(struct cop_node *node, cop_id id)
{
    struct cop__member *member = cop__member(node);
    struct cop__joiner *found = cop__member_joiner(node, id);
    if (found)
        return found;
    if (member->joiner_count == member->joiner_capacity) {
        uint32_t capacity = member->joiner_capacity ? 2 * member->joiner_capacity : 4;
        void *grown = realloc(member->joiners, capacity * sizeof *member->joiners);
        if (!grown) {
            cop__fail(node, COP_ENOMEM);
            return NULL;
        }
        member->joiners = grown;
        member->joiner_capacity = capacity;
    }
    uint32_t at = place_of(member, id);
    memmove(member->joiners + at + 1, member->joiners + at,
            (member->joiner_count - at) * sizeof *member->joiners);
    member->joiners[at] = (struct cop__joiner){.id = id};
    member->joiner_count++;
    return &member->joiners[at];
}

/* Who waits is told of the new view, and a little later all of them can join at once. */
static void tell_joiner(struct cop_node *node, struct cop__joiner *joiner)
{
    joiner->ready = false; /* it holds another view than this */
    if (joiner->incarnation == 0)
        return;
    cop__member(node)->gather_until = node->now + COP__JOIN_GATHER;
    cop__member_send_whole(node, joiner->id, joiner->incarnation, node->view);
}

/* Whether somebody of the base is gone or leaves: that does not wait for those who come. */
static bool is_urgent(const struct cop_node *node)
{
    const struct cop_view *base = cop__member(node)->base;
    for (uint32_t i = 0; i < cop__roster_count(node); i++) {
        struct cop__belief belief = cop__roster_at(node, i);
        cop_incarnation life = cop_view_incarnation(base, belief.id);
        if (cop_view_has(base, belief.id, life) && belief.status != COP_ALIVE)
            return true;
    }
    return false;
}

/* Whether others may come at the same time, or somebody has just been told of the view and may
 * still be ready in time. */
bool cop__member_is_gathering(struct cop_node *node)
{
    struct cop__member *member = cop__member(node);
    if (member->joiner_count == 0 || is_urgent(node))
        return false;
    if (node->now < member->moment_until) {
        cop__member_wake_at(node, member->moment_until);
        return true;
    }
    if (node->now >= member->gather_until)
        return false;
    for (uint32_t i = 0; i < member->joiner_count; i++) {
        const struct cop__joiner *joiner = &member->joiners[i];
        if (!joiner->ready && joiner->incarnation != 0 &&
            !cop__roster_has_lost(node, joiner->id, joiner->incarnation)) {
            cop__member_wake_at(node, member->gather_until);
            return true;
        }
    }
    return false;
}

/* Those whom the view has by now, or a later life of whom. */
void cop__member_prune_joiners(struct cop_node *node)
{
    struct cop__member *member = cop__member(node);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < member->joiner_count; i++) {
        struct cop__joiner *joiner = &member->joiners[i];
        if (cop_view_incarnation(node->view, joiner->id) >= joiner->incarnation &&
            joiner->incarnation != 0) {
            cop_buf_unref(joiner->card);
            continue;
        }
        tell_joiner(node, joiner);
        member->joiners[kept++] = *joiner;
    }
    member->joiner_count = kept;
}

/* Whoever was invited, and never came, has lost its place. */
void cop__member_mind_invited(struct cop_node *node)
{
    struct cop__member *member = cop__member(node);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < member->joiner_count; i++) {
        struct cop__joiner *joiner = &member->joiners[i];
        if (joiner->incarnation == 0 && node->now >= joiner->until) {
            cop_buf_unref(joiner->card);
            continue;
        }
        if (joiner->incarnation == 0)
            cop__member_wake_at(node, joiner->until);
        member->joiners[kept++] = *joiner;
    }
    member->joiner_count = kept;
}

/* ---- invitations ----------------------------------------------------------------- */

/* Two of one name come at the same time: the second is turned away as long as the first may
 * still come, or is on its way and not known to be gone. */
static bool is_taken(const struct cop_node *node, const struct cop__joiner *joiner,
                     cop_incarnation incarnation)
{
    if (joiner->asker == incarnation)
        return false;
    if (joiner->incarnation == 0)
        return node->now < joiner->until;
    return joiner->incarnation != incarnation &&
           !cop__roster_has_lost(node, joiner->id, joiner->incarnation);
}

static struct cop_buf *encode_invitation(cop_id id, cop_incarnation exceed,
                                         const struct cop_view *view)
{
    struct cop_buf *whole = cop__view_encode(view);
    struct cop_buf *buf = whole ? cop_buf_create(4 + 8 + 4 + whole->length) : NULL;
    if (buf) {
        struct cop__writer writer = cop__writer(buf->data, buf->length);
        cop__put_u32(&writer, id);
        cop__put_u64(&writer, exceed);
        cop__put_bytes(&writer, (struct cop__bytes){whole->data, whole->length});
    }
    cop_buf_unref(whole);
    return buf;
}

int cop_invitation(const struct cop_buf *result, const struct cop_view *like,
                   struct cop_invitation *out)
{
    struct cop__reader reader = cop__reader(result->data, result->length);
    struct cop_invitation invitation = {.id = cop__get_u32(&reader)};
    invitation.exceed = cop__get_u64(&reader);
    struct cop__bytes whole = cop__get_bytes(&reader);
    if (!cop__reader_is_done(&reader) || invitation.id >= COP_MEMBERS_MAX)
        return COP_EMALFORMED;
    int error = cop__view_decode(whole, like, &invitation.view);
    if (!error)
        *out = invitation;
    return error;
}

/* The id of a name that no view has: the one that it was promised, or a new one. */
static int promise_id(struct cop_node *node, struct cop__bytes name,
                      cop_incarnation incarnation, cop_id *out)
{
    struct cop__member *member = cop__member(node);
    cop_id next = cop_view_slots(member->base);
    for (uint32_t i = 0; i < member->proposal_count; i++) {
        uint32_t slots = cop_view_slots(member->proposals[i].view);
        next = slots > next ? slots : next;
    }
    for (uint32_t i = 0; i < member->joiner_count; i++) {
        const struct cop_buf *card = member->joiners[i].card;
        if (card && card->data[0] == name.length &&
            memcmp(card->data + 1, name.data, name.length) == 0) {
            if (is_taken(node, &member->joiners[i], incarnation))
                return COP_EEXIST;
            member->joiners[i].asker = incarnation;
            *out = member->joiners[i].id;
            return 0;
        }
        if (member->joiners[i].id >= next)
            next = member->joiners[i].id + 1;
    }
    bool fits =
        next < COP_MEMBERS_MAX && next - cop_view_slots(member->base) < COP__HOLES_MAX;
    struct cop__joiner *joiner = fits ? add_joiner(node, next) : NULL;
    if (!joiner)
        return COP_ERANGE;
    joiner->asker = incarnation;
    joiner->until = node->now + COP__INVITED_FOR;
    cop__member_wake_at(node, joiner->until);
    joiner->card = cop__card((const char *)name.data, name.length, "", 0);
    if (!joiner->card)
        cop__fail(node, COP_ENOMEM);
    *out = next;
    return 0;
}

/* The latest life of it that wants, or wanted, to join: no view may ever have had that one, but
 * what hears of a later life does not listen to an earlier one (R3). */
static cop_incarnation latest_joiner(const struct cop_node *node, cop_id id,
                                     cop_incarnation known)
{
    const struct cop__joiner *joiner = cop__member_joiner(node, id);
    cop_incarnation latest = cop__roster_get(node, id).incarnation;
    if (joiner && joiner->incarnation > latest)
        latest = joiner->incarnation;
    return latest > known ? latest : known;
}

/* The status, and the invitation if it is 0 or COP_EREFUSED; COP_EAGAIN: ask the root. */
static int invite(struct cop_node *node, struct cop__bytes name,
                  cop_incarnation incarnation, struct cop_buf **out)
{
    cop_id id = cop_view_find(node->view, (const char *)name.data, name.length);
    cop_incarnation known = 0;
    if (id != COP_ID_NONE) {
        known = cop_view_incarnation(node->view, id);
        /* V15: where a later life of it speaks, the earlier one is over. */
        if (incarnation > known && cop_view_has(node->view, id, known))
            cop__roster_condemn(node, id, known);
    } else {
        if (cop__member_proposer(node) != node->self)
            return COP_EAGAIN;
        if (cop_view_shape(node->view)->table)
            return COP_EINVAL; /* a table of places has none for newcomers */
        int error = promise_id(node, name, incarnation, &id);
        if (error)
            return error;
    }
    cop_incarnation exceed = latest_joiner(node, id, known);
    /* Who comes again with the life that it asked with may still be let in. */
    if (exceed == incarnation && incarnation > known)
        exceed = known;
    *out = encode_invitation(id, exceed, node->view);
    if (!*out)
        cop__fail(node, COP_ENOMEM);
    return incarnation > exceed ? 0 : COP_EREFUSED;
}

/* ---- errands: somebody outside asked me, and I ask the root ---------------------- */

static int add_errand(struct cop_node *node, uint64_t token, cop_id root)
{
    struct cop__member *member = cop__member(node);
    if (member->errand_count == member->errand_capacity) {
        uint32_t capacity = member->errand_capacity ? 2 * member->errand_capacity : 4;
        void *grown = realloc(member->errands, capacity * sizeof *member->errands);
        if (!grown)
            return COP_ENOMEM;
        member->errands = grown;
        member->errand_capacity = capacity;
    }
    member->errands[member->errand_count++] = (struct cop__errand){
        .token = token, .root = root, .deadline = node->now + COP__INVITE_TIMEOUT};
    cop__watch(node, root);
    return 0;
}

static void end_errand(struct cop_node *node, uint32_t i, int status,
                       struct cop_buf *result)
{
    struct cop__member *member = cop__member(node);
    struct cop__errand errand = member->errands[i];
    memmove(member->errands + i, member->errands + i + 1,
            (member->errand_count - i - 1) * sizeof *member->errands);
    member->errand_count--;
    cop__unwatch(node, errand.root);
    cop__emit_complete(node, errand.token, status, result);
}

void cop__member_mind_errands(struct cop_node *node)
{
    struct cop__member *member = cop__member(node);
    for (uint32_t i = member->errand_count; i > 0; i--) {
        const struct cop__errand *errand = &member->errands[i - 1];
        if (cop__roster_is_suspect(node, errand->root))
            end_errand(node, i - 1, COP_EAGAIN, NULL);
        else if (node->now >= errand->deadline)
            end_errand(node, i - 1, COP_ETIMEDOUT, NULL);
        else
            cop__member_wake_at(node, errand->deadline);
    }
}

int cop__member_invite(struct cop_node *node, const struct cop_request *request)
{
    size_t length = request->name ? strlen(request->name) : 0;
    if (length == 0 || length > COP_NAME_MAX || request->incarnation == 0)
        return COP_EINVAL;
    struct cop__bytes name = {(const uint8_t *)request->name, (uint32_t)length};
    struct cop_buf *result = NULL;
    int status = invite(node, name, request->incarnation, &result);
    if (status != COP_EAGAIN) {
        cop__emit_complete(node, request->token, status, result);
        return 0;
    }
    cop_id root = cop__member_proposer(node);
    if (root == COP_ID_NONE || add_errand(node, request->token, root))
        return COP_EAGAIN;
    struct cop__msg_invite message = {request->token, request->incarnation, name};
    cop__roster_send(node, root, COP__KIND_INVITE, cop__encode_invite(&message));
    cop__member_look_soon(node);
    return 0;
}

void cop__on_invite(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_invite message;
    if (cop__decode_invite(frame->payload->data, frame->payload->length, &message) ||
        message.name.length == 0 || message.name.length > COP_NAME_MAX) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    struct cop_buf *result = NULL;
    int status = cop__member(node)->phase == PHASE_MEMBER
                     ? invite(node, message.name, message.incarnation, &result)
                     : COP_EAGAIN;
    struct cop__msg_invited reply = {.token = message.token,
                                     .status = (uint32_t)status};
    if (result)
        reply.invitation = (struct cop__bytes){result->data, result->length};
    cop__emit_send(node, frame->header.sender, frame->header.sender_incarnation,
                   COP__KIND_INVITED, cop__encode_invited(&reply));
    cop_buf_unref(result);
}

void cop__on_invited(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__member *member = cop__member(node);
    struct cop__msg_invited message;
    /* A status is 0 or below; whoever is told of it relies on that. */
    if (cop__decode_invited(frame->payload->data, frame->payload->length, &message) ||
        0u - message.status > INT32_MAX) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    for (uint32_t i = 0; i < member->errand_count; i++) {
        const struct cop__errand *errand = &member->errands[i];
        if (errand->token != message.token || errand->root != frame->header.sender)
            continue;
        struct cop_buf *result = NULL;
        if (message.invitation.length > 0) {
            result = cop_buf_copy(message.invitation.data, message.invitation.length);
            if (!result)
                cop__fail(node, COP_ENOMEM);
        }
        end_errand(node, i, (int)message.status, result);
        return;
    }
    COP__COUNT(node, ignored_repeated);
}

/* ---- asking to be let in --------------------------------------------------------- */

/*
 * The root, and every other time somebody else in turn: one who is to be the root of a view
 * that it has not got yet does not answer, and may be asked again before all others are.
 * Whoever is lost to me is passed over.
 */
static cop_id next_target(const struct cop_node *node)
{
    uint32_t attempts = cop__member(node)->attempts;
    cop_id id = cop_view_root(node->view);
    uint32_t left = attempts % 2 == 0 ? 0 : attempts / 2 + 1;
    for (uint32_t tries = 0; tries <= 2 * cop_view_size(node->view) + left; tries++) {
        bool good =
            id != COP_ID_NONE && id != node->self && !cop__roster_is_suspect(node, id);
        if (good && left == 0)
            return id;
        left -= good && left > 0;
        id = cop_view_next(node->view, id);
    }
    return COP_ID_NONE;
}

/* After so many the view that I start from may be one that is no more. */
#define ATTEMPTS_MAX 8u

static void send_join(struct cop_node *node, cop_id to)
{
    struct cop_ballot ballot = cop_view_ballot(node->view);
    const struct cop_buf *card = node->settings->card;
    struct cop__msg_join join = {
        .epoch = ballot.epoch,
        .root = ballot.root,
        .incarnation = ballot.incarnation,
        .spare = node->settings->spare,
        .card = {card->data, card->length},
    };
    cop__emit_send(node, to, cop_view_incarnation(node->view, to), COP__KIND_JOIN,
                   cop__encode_join(&join));
}

/* Whether nobody has been there to ask for a while: a new invitation at once would lead to
 * the same ones. */
static bool is_hopeless(struct cop_node *node)
{
    struct cop__member *member = cop__member(node);
    if (member->alone_until == 0)
        member->alone_until = node->now + COP__ALONE;
    if (node->now >= member->alone_until)
        return true;
    cop__member_wake_at(node, member->alone_until);
    return false;
}

void cop__member_ask_to_join(struct cop_node *node)
{
    struct cop__member *member = cop__member(node);
    bool is_new = member->asked_for != cop_view_epoch(node->view);
    bool is_lost =
        member->target == COP_ID_NONE || cop__roster_is_suspect(node, member->target);
    if (!is_new && !is_lost && node->now < member->join_again) {
        cop__member_wake_at(node, member->join_again);
        return;
    }
    /* Another view may have another root. Time passed without an answer: the next. */
    if (is_new) {
        member->target = COP_ID_NONE;
        member->attempts = 0;
    } else if (!is_lost) {
        member->attempts++; /* who is lost is passed over, and has cost no time */
    }
    member->target = next_target(node);
    if (member->target == COP_ID_NONE && !is_hopeless(node))
        return;
    if (member->target == COP_ID_NONE || member->attempts > ATTEMPTS_MAX) {
        cop__member_go_out(node, COP_ELOST);
        return;
    }
    member->alone_until = 0;
    member->asked_for = cop_view_epoch(node->view);
    uint32_t doublings = member->attempts < 5 ? member->attempts : 5;
    member->join_again = node->now + (COP__JOIN_AGAIN << doublings);
    cop__member_wake_at(node, member->join_again);
    send_join(node, member->target);
}

/* ---- being asked ----------------------------------------------------------------- */

/* Whether the name on the card is the one that the id has. */
static bool is_its_name(const struct cop_node *node, cop_id id, struct cop__bytes card)
{
    char name[COP_NAME_MAX + 1];
    struct cop_member known;
    uint32_t length = card.data[0];
    if (cop_view_member(node->view, id, &known) || length == 0)
        return true;
    int written = cop_view_name(node->view, id, name, sizeof name);
    return (uint32_t)written == length && memcmp(name, card.data + 1, length) == 0;
}

static void note_joiner(struct cop_node *node, const struct cop_header *header,
                        const struct cop__msg_join *message)
{
    struct cop__joiner *joiner = add_joiner(node, header->sender);
    struct cop_buf *card = cop_buf_copy(message->card.data, message->card.length);
    struct cop_ballot theirs = {message->epoch, message->root, message->incarnation};
    const struct cop_view *base = cop__member(node)->base;
    if (!joiner || !card || joiner->incarnation > header->sender_incarnation) {
        cop_buf_unref(card);
        return;
    }
    cop_buf_unref(joiner->card);
    joiner->card = card;
    joiner->incarnation = header->sender_incarnation;
    joiner->spare = message->spare != 0;
    joiner->ready = cop__is_same_ballot(theirs, cop_view_ballot(base));
    if (node->now >= cop__member(node)->moment_until)
        cop__member(node)->moment_until = node->now + COP__JOIN_MOMENT;
    cop__roster_expect(node, joiner->id, joiner->incarnation);
    if (!joiner->ready)
        cop__member_send_whole(node, header->sender, header->sender_incarnation, base);
    cop__member_look_soon(node);
}

/* Ids are promised one by one (promise_id): one that no view could have is nobody's. */
static bool id_is_possible(const struct cop_node *node, cop_id id)
{
    return id < cop_view_slots(cop__member(node)->base) + COP__HOLES_MAX;
}

/* V15: of a view that I have, or that I know to have been committed. */
static void condemn_former(struct cop_node *node, const struct cop_view *view,
                           const struct cop_header *header)
{
    cop_incarnation former = cop_view_incarnation(view, header->sender);
    if (former != 0 && former < header->sender_incarnation &&
        cop_view_has(view, header->sender, former))
        cop__roster_condemn(node, header->sender, former);
}

static void take_join(struct cop_node *node, const struct cop_header *header,
                      const struct cop__msg_join *message)
{
    cop_id id = header->sender;
    cop_incarnation known = cop_view_incarnation(node->view, id);
    struct cop_ballot theirs = {message->epoch, message->root, message->incarnation};
    bool is_behind = cop__is_later(cop_view_ballot(node->view), theirs);
    bool is_named_so = is_its_name(node, id, message->card);
    if (is_named_so && cop_view_has(node->view, id, header->sender_incarnation)) {
        if (is_behind) /* it missed the commit that took it in */
            cop__member_send_whole(node, id, header->sender_incarnation, node->view);
        return;
    }
    if (header->sender_incarnation <= known || !is_named_so) {
        struct cop_ballot ballot = cop_view_ballot(node->view);
        struct cop__msg_out out = {ballot.epoch, ballot.root, ballot.incarnation};
        cop__emit_send(node, id, header->sender_incarnation, COP__KIND_OUT,
                       cop__encode_out(&out));
        return;
    }
    condemn_former(node, node->view, header);
    if (cop__member(node)->base != node->view)
        condemn_former(node, cop__member(node)->base, header);
    if (cop__member_proposer(node) == node->self)
        note_joiner(node, header, message);
    else if (is_behind)
        cop__member_send_whole(node, id, header->sender_incarnation, node->view);
    cop__member_look_soon(node);
}

void cop__on_join(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_join message;
    if (cop__decode_join(frame->payload->data, frame->payload->length, &message) ||
        !cop__card_is_sane(message.card) ||
        !id_is_possible(node, frame->header.sender)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    if (cop__member(node)->phase == PHASE_MEMBER)
        take_join(node, &frame->header, &message);
}

/* ---- where somebody is ----------------------------------------------------------- */

int cop_node_member(const struct cop_node *node, cop_id id, struct cop_member *out)
{
    const struct cop__member *member = cop__member(node);
    /* The latest word first: a proposal may bring a new life, at a new address. */
    for (uint32_t i = cop__has_views(node) ? member->proposal_count : 0; i > 0; i--)
        if (cop_view_member(member->proposals[i - 1].view, id, out) == 0 &&
            out->presence == COP_PRESENT)
            return 0;
    return cop_view_member(node->view, id, out);
}
