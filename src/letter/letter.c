/* SPDX-License-Identifier: Apache-2.0 */
#include "letter/letter.h"

#include "detect/detect.h"
#include "member/member.h"
#include "roster/roster.h"

#include <stdlib.h>
#include <string.h>

/* One that is not answered for. */
struct letter {
    uint64_t token;
    struct cop_buf *bytes;
    uint8_t channel;
    cop_time deadline; /* NEVER: its sender was told that time is up */
};

/*
 * What goes between me and one life of another member. Invariants: `count` letters wait, with
 * numbers from sent - count + 1 to sent; correspondents are sorted by id.
 */
struct correspondent {
    cop_id id;
    cop_incarnation incarnation;
    uint64_t sent;     /* number of my latest */
    uint64_t received; /* number of its latest that was delivered */
    bool missed;       /* one came too early, or in stealth, and could not be kept */
    struct letter *waiting;
    uint32_t count, capacity;
};

struct letters {
    struct cop__node_timer timer; /* runs while somebody has to be told something */
    struct correspondent *all;
    uint32_t count, capacity;
    bool silent; /* something was not sent or not taken because of stealth (D13) */
};

static struct letters *state(const struct cop_node *node)
{
    return cop__layer_state(node, COP__SLOT_LETTER);
}

/* ---- who writes to whom ---------------------------------------------------------- */

static uint32_t place_of(const struct letters *letters, cop_id id)
{
    uint32_t low = 0, high = letters->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (letters->all[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct correspondent *find(const struct cop_node *node, cop_id id)
{
    struct letters *letters = state(node);
    uint32_t at = place_of(letters, id);
    return at < letters->count && letters->all[at].id == id ? &letters->all[at] : NULL;
}

/* Finds or adds; another life begins with nothing. NULL: no memory. */
static struct correspondent *get(struct cop_node *node, cop_id id,
                                 cop_incarnation incarnation)
{
    struct letters *letters = state(node);
    struct correspondent *found = find(node, id);
    if (found)
        return found;
    if (letters->count == letters->capacity) {
        uint32_t capacity = letters->capacity ? 2 * letters->capacity : 2;
        void *grown = realloc(letters->all, capacity * sizeof *letters->all);
        if (!grown) {
            cop__fail(node, COP_ENOMEM);
            return NULL;
        }
        letters->all = grown;
        letters->capacity = capacity;
    }
    uint32_t at = place_of(letters, id);
    memmove(letters->all + at + 1, letters->all + at,
            (letters->count - at) * sizeof *letters->all);
    letters->count++;
    letters->all[at] = (struct correspondent){.id = id, .incarnation = incarnation};
    return &letters->all[at];
}

static void answer_first(struct cop_node *node, struct correspondent *peer, int status)
{
    struct letter first = peer->waiting[0];
    memmove(peer->waiting, peer->waiting + 1,
            (peer->count - 1) * sizeof *peer->waiting);
    peer->count--;
    cop_buf_unref(first.bytes);
    if (first.deadline != COP_TIME_NEVER)
        cop__emit_complete(node, first.token, status, NULL);
}

/* Time is up for the sender. The letter itself stays: those behind it need its place. */
static void on_timer(struct cop_node *node, struct cop__node_timer *timer)
{
    struct letters *letters = state(node);
    cop_time next = COP_TIME_NEVER;
    for (uint32_t i = 0; i < letters->count; i++) {
        for (uint32_t j = 0; j < letters->all[i].count; j++) {
            struct letter *letter = &letters->all[i].waiting[j];
            if (letter->deadline <= node->now) {
                cop__emit_complete(node, letter->token, COP_ETIMEDOUT, NULL);
                letter->deadline = COP_TIME_NEVER;
            }
            next = letter->deadline < next ? letter->deadline : next;
        }
    }
    if (next != COP_TIME_NEVER)
        cop__timer_set(node, timer, next);
}

/* L4: what was not answered for may or may not have been delivered. */
static void forget(struct cop_node *node, uint32_t at)
{
    struct letters *letters = state(node);
    struct correspondent *peer = &letters->all[at];
    while (peer->count > 0)
        answer_first(node, peer, COP_ELOST);
    free(peer->waiting);
    memmove(peer, peer + 1, (letters->count - at - 1) * sizeof *peer);
    letters->count--;
}

/* ---- sending --------------------------------------------------------------------- */

static void send(struct cop_node *node, const struct correspondent *peer,
                 uint64_t number, const struct letter *what)
{
    if (cop__detect_is_stealthy(node)) {
        state(node)->silent = true;
        return;
    }
    struct cop_ballot ballot = cop_view_ballot(node->view);
    struct cop__msg_letter letter = {
        .number = number,
        .epoch = ballot.epoch,
        .root = ballot.root,
        .incarnation = ballot.incarnation,
        .channel = what->channel,
        .bytes = {what->bytes->data, what->bytes->length},
    };
    cop__emit_send(node, peer->id, peer->incarnation, COP__KIND_LETTER,
                   cop__encode_letter(&letter));
}

/* All that are not answered for, under the numbers that they had. */
static void send_again(struct cop_node *node, const struct correspondent *peer)
{
    for (uint32_t i = 0; i < peer->count; i++)
        send(node, peer, peer->sent - peer->count + 1 + i, &peer->waiting[i]);
}

static int submit(struct cop_node *node, const struct cop_request *request)
{
    cop_id to = request->member;
    if (!cop__has_views(node) || !cop_node_is_member(node))
        return COP_ESTATE;
    if (to == node->self || cop_view_rank(node->view, to) == COP_RANK_NONE ||
        request->op > UINT8_MAX || request->length > COP__LETTER_BYTES ||
        (request->length && !request->bytes))
        return COP_EINVAL;
    struct correspondent *peer = get(node, to, cop_view_incarnation(node->view, to));
    if (!peer)
        return COP_ENOMEM;
    if (peer->count == COP__LETTERS_MAX)
        return COP_EAGAIN;
    if (peer->count == peer->capacity) {
        uint32_t capacity = peer->capacity ? 2 * peer->capacity : 4;
        void *grown = realloc(peer->waiting, capacity * sizeof *peer->waiting);
        if (!grown) {
            cop__fail(node, COP_ENOMEM);
            return COP_ENOMEM;
        }
        peer->waiting = grown;
        peer->capacity = capacity;
    }
    struct cop_buf *bytes = cop_buf_copy(request->bytes, request->length);
    if (!bytes) {
        cop__fail(node, COP_ENOMEM);
        return COP_ENOMEM;
    }
    cop_time deadline =
        node->now + (request->timeout_ns ? request->timeout_ns : COP__LETTER_TIMEOUT);
    struct cop__node_timer *timer = &state(node)->timer;
    if (!cop__timer_is_running(&timer->timer) || deadline < timer->timer.deadline)
        cop__timer_set(node, timer, deadline);
    struct letter letter = {request->token, bytes, (uint8_t)request->op, deadline};
    peer->waiting[peer->count++] = letter;
    send(node, peer, ++peer->sent, &letter);
    return 0;
}

static int on_submit(struct cop_node *node, const struct cop_request *request)
{
    return request->kind == COP_REQUEST_SEND ? submit(node, request) : COP_ENOENT;
}

/* ---- receiving ------------------------------------------------------------------- */

static void say_received(struct cop_node *node, const struct correspondent *peer,
                         bool again)
{
    struct cop__msg_receipt receipt = {.number = peer->received, .again = again};
    cop__emit_send(node, peer->id, peer->incarnation, COP__KIND_RECEIPT,
                   cop__encode_receipt(&receipt));
}

/* L1, L2: the next one, in the view that we share. */
static void take(struct cop_node *node, struct correspondent *peer,
                 const struct cop__msg_letter *letter)
{
    if (letter->number == peer->received + 1) {
        struct cop_buf *bytes = cop_buf_copy(letter->bytes.data, letter->bytes.length);
        if (!bytes) {
            cop__fail(node, COP_ENOMEM);
            return;
        }
        peer->received++;
        cop__emit_deliver(node, peer->id, peer->incarnation, letter->channel, bytes);
    } else {
        COP__COUNT(node, ignored_repeated);
    }
    /* Also for one that came before: its sender may have missed the receipt. One that came
     * too early follows one that was not delivered, and comes again behind it. */
    say_received(node, peer, false);
}

/* D13: it is asked for when I speak again. */
static void miss(struct cop_node *node, const struct cop_header *header)
{
    if (!cop_view_has(node->view, header->sender, header->sender_incarnation))
        return;
    struct correspondent *peer = get(node, header->sender, header->sender_incarnation);
    if (peer)
        peer->missed = state(node)->silent = true;
}

void cop__on_letter(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_letter letter;
    const struct cop_header *header = &frame->header;
    if (cop__decode_letter(frame->payload->data, frame->payload->length, &letter)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    if (cop__detect_is_stealthy(node)) {
        miss(node, header);
        return;
    }
    struct cop_ballot theirs = {letter.epoch, letter.root, letter.incarnation};
    struct cop_ballot mine = cop_view_ballot(node->view);
    int order = cop_ballot_compare(&theirs, &mine);
    if (!cop_view_has(node->view, header->sender, header->sender_incarnation)) {
        COP__COUNT(node, ignored_stranger);
    } else if (order < 0) { /* L3 */
        COP__COUNT(node, ignored_epoch);
        cop__member_update(node, header->sender, header->sender_incarnation);
    } else if (order == 0 || !cop__member_hold(node, frame)) {
        struct correspondent *peer =
            get(node, header->sender, header->sender_incarnation);
        if (peer && order == 0)
            take(node, peer, &letter);
        else if (peer)
            peer->missed = true;
    }
}

void cop__on_receipt(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_receipt receipt;
    if (cop__decode_receipt(frame->payload->data, frame->payload->length, &receipt)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    struct correspondent *peer = find(node, frame->header.sender);
    if (!peer || peer->incarnation != frame->header.sender_incarnation ||
        receipt.number > peer->sent) {
        COP__COUNT(node, ignored_repeated);
        return;
    }
    while (peer->count > 0 && peer->sent - peer->count < receipt.number)
        answer_first(node, peer, 0);
    if (receipt.again)
        send_again(node, peer);
}

/* ---- the layer ------------------------------------------------------------------- */

static void catch_up(struct cop_node *node)
{
    struct letters *letters = state(node);
    for (uint32_t i = 0; i < letters->count; i++) {
        send_again(node, &letters->all[i]);
        if (letters->all[i].missed)
            say_received(node, &letters->all[i], true);
        letters->all[i].missed = false;
    }
}

/* L3: what was not answered for in the last view is sent again in this one, and what I could
 * not keep until I had it is asked for. */
static void on_view(struct cop_node *node, const struct cop_view *old)
{
    (void)old;
    struct letters *letters = state(node);
    for (uint32_t i = letters->count; i > 0; i--) {
        const struct correspondent *peer = &letters->all[i - 1];
        if (!cop_view_has(node->view, peer->id, peer->incarnation))
            forget(node, i - 1);
    }
    catch_up(node);
}

/* The end of stealth. */
static void on_change(struct cop_node *node, const struct cop__change *change)
{
    struct letters *letters = state(node);
    if (change->id != node->self || !letters->silent || cop__detect_is_stealthy(node))
        return;
    letters->silent = false;
    catch_up(node);
}

static void start(struct cop_node *node)
{
    state(node)->timer.fire = on_timer;
    cop__timer_init(&state(node)->timer.timer);
}

static void fini(struct cop_node *node)
{
    struct letters *letters = state(node);
    for (uint32_t i = 0; i < letters->count; i++) {
        for (uint32_t j = 0; j < letters->all[i].count; j++)
            cop_buf_unref(letters->all[i].waiting[j].bytes);
        free(letters->all[i].waiting);
    }
    free(letters->all);
}

static void digest_state(const struct cop_node *node, struct cop__digest *digest)
{
    const struct letters *letters = state(node);
    if (letters->silent)
        cop__digest_word(digest, 1);
    for (uint32_t i = 0; i < letters->count; i++) {
        const struct correspondent *peer = &letters->all[i];
        cop__digest_word(digest, (uint64_t)peer->id << 32 | peer->count);
        cop__digest_word(digest, peer->incarnation);
        cop__digest_word(digest, peer->sent);
        cop__digest_word(digest, peer->received << 1 | peer->missed);
    }
}

static const char *check(const struct cop_node *node)
{
    const struct letters *letters = state(node);
    for (uint32_t i = 0; i < letters->count; i++) {
        const struct correspondent *peer = &letters->all[i];
        if (i > 0 && letters->all[i - 1].id >= peer->id)
            return "letter: correspondents are not sorted";
        if (peer->count > peer->sent || peer->count > COP__LETTERS_MAX)
            return "letter: more wait than were sent";
        if (!cop_view_has(node->view, peer->id, peer->incarnation))
            return "letter: writes to one who is not in the view";
    }
    return NULL;
}

static size_t bytes(const struct cop_node *node)
{
    const struct letters *letters = state(node);
    size_t sum = letters->capacity * sizeof *letters->all;
    for (uint32_t i = 0; i < letters->count; i++)
        sum += letters->all[i].capacity * sizeof(struct letter);
    return sum;
}

const struct cop__layer cop__letter_layer = {
    .name = "letter",
    .size = sizeof(struct letters),
    .for_views = true,
    .start = start,
    .fini = fini,
    .on_change = on_change,
    .on_view = on_view,
    .on_submit = on_submit,
    .digest = digest_state,
    .check = check,
    .bytes = bytes,
};
