/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/bulk.h"

#include <stdlib.h>

/*
 * Chunks between members. Whoever has room asks the one above it (PULL: I have all before
 * `next`, and room for those before `limit`), and is sent what there is, as it comes (CHUNK).
 * So nothing is ever on its way that has no place to go to.
 *
 * Who lost the one above it asks the next one above, from where it is. That one may not have
 * so early a chunk any more, and says from where on it has them (GONE): then the root is asked
 * for what is missing. The one above waits meanwhile if it is not much.
 */

/* Flags of PULL. */
#define PULL_AGAIN 0x01u   /* nothing came for a while: begin at `next` again */
#define PULL_CATCHES 0x02u /* you are not the one above me: do not wait for me */

/* Room is told of when there is so much more of it. */
#define PULL_STEP (COP_BULK_WINDOW / 4)

static struct cop__call *find(const struct cop_node *node, cop_id root,
                              cop_incarnation incarnation, uint64_t number)
{
    struct cop__call *call = cop__colls(node)->calls;
    while (call &&
           (call->over || call->root != root || call->incarnation != incarnation ||
            cop__bulk_number(call) != number))
        call = call->next;
    return call;
}

/* ---- giving ---------------------------------------------------------------------- */

static struct cop__msg_chunk chunk_of(const struct cop__call *call, uint32_t index,
                                      enum cop__chunk_what what)
{
    return (struct cop__msg_chunk){
        .root = call->root,
        .incarnation = call->incarnation,
        .number = cop__bulk_number(call),
        .index = index,
        .what = (uint8_t)what,
    };
}

struct cop_buf *cop__chunk_make(const struct cop__call *call, uint32_t index,
                                struct cop__bytes data)
{
    struct cop__msg_chunk chunk = chunk_of(call, index, CHUNK_DATA);
    chunk.data = data;
    return cop__encode_chunk(&chunk);
}

void cop__bulk_say_failed(struct cop_node *node, const struct cop__bulk *bulk,
                          const struct cop__taker *taker)
{
    struct cop__msg_chunk chunk = chunk_of(bulk->call, bulk->blamed, CHUNK_FAILED);
    chunk.status = (uint32_t)bulk->status;
    cop__roster_send(node, taker->id, COP__KIND_CHUNK, cop__encode_chunk(&chunk));
}

struct cop__taker *cop__bulk_taker(struct cop_node *node, struct cop__bulk *bulk,
                                   cop_id id)
{
    for (uint32_t i = 0; i < bulk->taker_count; i++)
        if (bulk->takers[i].id == id)
            return &bulk->takers[i];
    if (bulk->taker_count == bulk->taker_capacity) {
        uint32_t capacity = bulk->taker_capacity ? 2 * bulk->taker_capacity : 4;
        void *grown = realloc(bulk->takers, capacity * sizeof *bulk->takers);
        if (!grown) {
            cop__fail(node, COP_ENOMEM);
            return NULL;
        }
        bulk->takers = grown;
        bulk->taker_capacity = capacity;
    }
    struct cop__taker *taker = &bulk->takers[bulk->taker_count++];
    *taker = (struct cop__taker){.id = id, .moved = node->now};
    return taker;
}

/* Everyone gets what there is and what it has room for: the same bytes. */
void cop__bulk_serve(struct cop_node *node, struct cop__bulk *bulk)
{
    for (uint32_t i = 0; i < bulk->taker_count; i++) {
        struct cop__taker *taker = &bulk->takers[i];
        for (; taker->sent >= bulk->base && taker->sent < bulk->have &&
               taker->sent < taker->limit;
             taker->sent++)
            cop__roster_send(node, taker->id, COP__KIND_CHUNK,
                             cop_buf_ref(bulk->window[taker->sent % COP_BULK_WINDOW]));
    }
}

static void say_gone(struct cop_node *node, cop_id to, struct cop__msg_chunk chunk,
                     uint32_t index)
{
    chunk.what = CHUNK_GONE;
    chunk.index = index;
    cop__roster_send(node, to, COP__KIND_CHUNK, cop__encode_chunk(&chunk));
}

static void take_pull(struct cop_node *node, struct cop__bulk *bulk,
                      const struct cop_header *header,
                      const struct cop__msg_pull *message)
{
    struct cop__taker *taker = cop__bulk_taker(node, bulk, header->sender);
    if (!taker)
        return;
    bool fresh = taker->incarnation != header->sender_incarnation;
    if (fresh || message->next > taker->next || message->limit > taker->limit)
        taker->moved = node->now;
    if (fresh || (message->flags & PULL_AGAIN) || taker->sent < message->next)
        taker->sent = message->next;
    taker->incarnation = header->sender_incarnation;
    taker->next = message->next;
    taker->limit = message->limit;
    /* K14: who missed a little is waited for, who comes late, or seems dead, is not. */
    taker->holds = !(message->flags & PULL_CATCHES) &&
                   message->next + COP_BULK_WINDOW >= bulk->base &&
                   !cop__bulk_is_lost(node, bulk, cop__bulk_place_of(bulk, taker->id));
    if (bulk->status)
        cop__bulk_say_failed(node, bulk, taker);
    else if (message->next < bulk->base && !cop__bulk_is_root(bulk))
        say_gone(node, taker->id, chunk_of(bulk->call, 0, CHUNK_GONE), bulk->base);
}

void cop__on_pull(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_pull message;
    const struct cop_buf *bytes = frame->payload;
    if (cop__decode_pull(bytes->data, bytes->length, &message) ||
        message.next > message.limit) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    struct cop__call *call =
        find(node, message.root, message.incarnation, message.number);
    if (!call || !call->bulk) {
        struct cop__msg_chunk none = {.root = message.root,
                                      .incarnation = message.incarnation,
                                      .number = message.number};
        say_gone(node, frame->header.sender, none, COP__CHUNK_NONE);
        return;
    }
    struct cop__bulk *bulk = call->bulk;
    cop_rank rank = cop__bulk_place_of(bulk, frame->header.sender);
    if (message.limit > bulk->count) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    if (rank == COP_RANK_NONE || rank == cop__bulk_self(bulk) ||
        !cop_tree_is_below(cop__bulk_tree(bulk), rank, cop__bulk_self(bulk))) {
        COP__COUNT(node, ignored_not_below);
        return;
    }
    if (!call->sweep && !cop__plain_owes(call, frame->header.sender)) {
        /* It was given up: nobody waits for its answer. */
        struct cop__msg_chunk chunk =
            chunk_of(call, cop__bulk_self(bulk), CHUNK_FAILED);
        chunk.status = (uint32_t)COP_ETIMEDOUT;
        cop__roster_send(node, frame->header.sender, COP__KIND_CHUNK,
                         cop__encode_chunk(&chunk));
        return;
    }
    cop__calls_enter(node);
    take_pull(node, bulk, &frame->header, &message);
    cop__bulk_go_on(node, bulk);
    cop__call_settle(node, call);
    cop__calls_leave(node);
}

/* ---- taking ---------------------------------------------------------------------- */

/* How far I have room, of what the source has. */
static uint32_t room(const struct cop__bulk *bulk)
{
    uint32_t limit = bulk->base + COP_BULK_WINDOW;
    if (limit > bulk->count)
        limit = bulk->count;
    if (bulk->source != bulk->parent && bulk->until < limit)
        limit = bulk->until;
    return limit > bulk->have ? limit : bulk->have;
}

static void say_pull(struct cop_node *node, const struct cop__bulk *bulk, cop_id to,
                     uint32_t limit, uint32_t flags)
{
    const struct cop__call *call = bulk->call;
    struct cop__msg_pull pull = {
        .root = call->root,
        .incarnation = call->incarnation,
        .number = cop__bulk_number(call),
        .next = bulk->have,
        .limit = limit,
        .flags = (uint8_t)flags,
    };
    cop__roster_send(node, to, COP__KIND_PULL, cop__encode_pull(&pull));
}

static void send_pull(struct cop_node *node, struct cop__bulk *bulk, uint32_t flags)
{
    if (bulk->source != bulk->parent)
        flags |= PULL_CATCHES;
    bulk->told = bulk->have;
    bulk->granted = room(bulk);
    say_pull(node, bulk, bulk->source, bulk->granted, flags);
}

void cop__bulk_leave_source(struct cop_node *node, struct cop__bulk *bulk)
{
    if (bulk->watches)
        cop__unwatch(node, bulk->source);
    bulk->watches = false;
    bulk->source = COP_ID_NONE;
}

/* The parent is watched by the sweep, if there is one. */
static void set_source(struct cop_node *node, struct cop__bulk *bulk, cop_id source)
{
    cop__bulk_leave_source(node, bulk);
    bulk->source = source;
    bulk->watches =
        source != COP_ID_NONE && (source != bulk->parent || !bulk->call->sweep);
    if (bulk->watches)
        cop__watch(node, source);
    if (source != COP_ID_NONE)
        send_pull(node, bulk, PULL_AGAIN);
}

void cop__bulk_pull(struct cop_node *node, struct cop__bulk *bulk)
{
    if (bulk->source == COP_ID_NONE)
        return;
    if (bulk->source != bulk->parent && bulk->have >= bulk->until &&
        bulk->parent != COP_ID_NONE) {
        bulk->until = COP__CHUNK_NONE;
        set_source(node, bulk, bulk->parent);
        return;
    }
    uint32_t limit = room(bulk);
    bool all = bulk->have == bulk->count && bulk->told < bulk->count;
    bool end = limit > bulk->granted &&
               (limit == bulk->count ||
                (bulk->source != bulk->parent && limit == bulk->until));
    /* What has come is told, too: above they wait to forget it, and if each level told only of
     * its room the lags would add up to a window, and nobody would have any. */
    if (all || end || limit >= bulk->granted + PULL_STEP ||
        bulk->have >= bulk->told + PULL_STEP)
        send_pull(node, bulk, 0);
}

/* Before the check was passed several may have asked: each waits for me from its first chunk on,
 * and I shall pull from one. */
static void excuse_from_others(struct cop_node *node, const struct cop__bulk *bulk,
                               cop_id parent)
{
    const struct cop__sweep *sweep = bulk->call->sweep;
    cop_id id;
    for (uint32_t i = 0; sweep && (id = cop__sweep_asker_at(sweep, i)) != COP_ID_NONE;
         i++)
        if (id != parent && !cop__roster_is_suspect(node, id))
            say_pull(node, bulk, id, bulk->have, PULL_CATCHES);
}

/* K14: whoever asks me is above me, and has the bulk. */
void cop__bulk_mind_parent(struct cop_node *node, struct cop__bulk *bulk)
{
    cop_id parent = cop__bulk_asker(bulk);
    if (parent == bulk->parent || cop__bulk_is_root(bulk))
        return;
    if (bulk->have == bulk->count || bulk->status)
        return;
    /* The former one may live, and must not wait for me. */
    if (bulk->parent == COP_ID_NONE)
        excuse_from_others(node, bulk, parent);
    else if (!cop__roster_is_suspect(node, bulk->parent))
        say_pull(node, bulk, bulk->parent, bulk->have, PULL_CATCHES);
    bulk->until = COP__CHUNK_NONE;
    cop__bulk_leave_source(node, bulk);
    bulk->parent = parent;
    if (parent != COP_ID_NONE)
        set_source(node, bulk, parent);
}

static void take_gone(struct cop_node *node, struct cop__bulk *bulk, uint32_t from)
{
    cop_id root = bulk->call->root;
    if (!bulk->call->sweep) {
        /* It is over there, and nobody else has it for me. */
        cop__bulk_fail(node, bulk, COP_ELOST, cop__bulk_place_of(bulk, bulk->source));
    } else if (bulk->source == root) {
        cop__bulk_leave_source(node, bulk); /* it is over there, so it ends here, too */
    } else if (from <= bulk->have) {
        set_source(node, bulk, bulk->source);
    } else {
        bulk->until = from;
        set_source(node, bulk, root);
    }
}

static void take_chunk(struct cop_node *node, struct cop__bulk *bulk,
                       const struct cop_frame *frame,
                       const struct cop__msg_chunk *message)
{
    if (message->what == CHUNK_GONE) {
        if (frame->header.sender == bulk->source && bulk->have < bulk->count)
            take_gone(node, bulk, message->index);
        return;
    }
    if (message->what == CHUNK_FAILED) {
        if (bulk->have < bulk->count)
            cop__bulk_fail(node, bulk, (int)message->status, message->index);
        return;
    }
    /* Who changes from one above to another hears some from both. */
    if (message->index != bulk->have || bulk->have >= bulk->base + COP_BULK_WINDOW) {
        COP__COUNT(node, ignored_repeated);
        return;
    }
    if (message->data.length != cop__bulk_length_of(bulk, message->index)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    cop__bulk_append(node, bulk, cop_buf_ref(frame->payload), message->data);
    cop__bulk_go_on(node, bulk);
}

static bool is_sane(const struct cop__msg_chunk *message)
{
    if (message->what == CHUNK_FAILED)
        return (int)message->status < 0;
    return message->what <= CHUNK_GONE && message->status == 0;
}

void cop__on_chunk(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_chunk message;
    const struct cop_buf *bytes = frame->payload;
    if (cop__decode_chunk(bytes->data, bytes->length, &message) || !is_sane(&message)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    struct cop__call *call =
        find(node, message.root, message.incarnation, message.number);
    if (!call || !call->bulk || call->is_root || call->bulk->status) {
        COP__COUNT(node, ignored_unasked);
        return;
    }
    const struct cop__bulk *bulk = call->bulk;
    cop_rank rank = cop__bulk_place_of(bulk, frame->header.sender);
    if (rank == COP_RANK_NONE ||
        !cop_tree_is_below(cop__bulk_tree(bulk), cop__bulk_self(bulk), rank)) {
        COP__COUNT(node, ignored_not_ancestor);
        return;
    }
    if (message.what == CHUNK_FAILED && message.index >= cop__bulk_tree(bulk)->n) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    cop__calls_enter(node);
    take_chunk(node, call->bulk, frame, &message);
    cop__call_settle(node, call);
    cop__calls_leave(node);
}

/* ---- time ------------------------------------------------------------------------ */

cop_time cop__bulk_stall(const struct cop__bulk *bulk, cop_rank rank)
{
    return COP__BULK_STALL * cop_tree_depth(cop__bulk_tree(bulk), rank);
}

static bool lags(const struct cop__bulk *bulk, const struct cop__taker *taker)
{
    return taker->holds && taker->next < bulk->have;
}

/* K13: one that gets no further for long is not waited for; the root has what it missed. */
static void drop_stalled(struct cop_node *node, struct cop__bulk *bulk)
{
    for (uint32_t i = 0; i < bulk->taker_count; i++) {
        struct cop__taker *taker = &bulk->takers[i];
        cop_rank rank = cop__bulk_place_of(bulk, taker->id);
        if (lags(bulk, taker) &&
            node->now - taker->moved >= cop__bulk_stall(bulk, rank))
            taker->holds = false;
    }
}

/* K12, without HEAL: who has all that there is waits, as I do; who lags has its time. */
bool cop__bulk_excuses(const struct cop_node *node, const struct cop__call *call,
                       cop_rank rank, cop_time patience)
{
    const struct cop__bulk *bulk = call->bulk;
    if (!bulk)
        return false;
    for (uint32_t i = 0; i < bulk->taker_count; i++) {
        const struct cop__taker *taker = &bulk->takers[i];
        if (taker->id != cop__bulk_id(bulk, rank))
            continue;
        bool waits = !bulk->status && taker->next < bulk->count && !lags(bulk, taker);
        return waits ||
               node->now < taker->moved + patience + cop__bulk_stall(bulk, rank);
    }
    return false;
}

/* K12, without HEAL: there is no time for all of it, so each wait for a service has one. */
static void judge_service(struct cop_node *node, struct cop__bulk *bulk)
{
    cop_time allowed = COP__BULK_STALL + bulk->call->service_ns;
    if (bulk->call->sweep || bulk->status || node->now - bulk->took < allowed)
        return;
    if (bulk->asked != COP__CHUNK_NONE) {
        cop__bulk_fail(node, bulk, COP_ETIMEDOUT, cop__bulk_self(bulk));
    } else if (bulk->sinks && bulk->taken < bulk->shown) {
        bulk->serves = bulk->sinks = false;
        cop__call_run(node, bulk->call, COP_ETIMEDOUT, COP_RANK_NONE);
    }
}

/*
 * K12, without HEAL: a source that stands still, and is not known to be dead, is not pulled from for
 * ever. It may itself wait for a taker, or for a service: each has at most what is said here, and so
 * twice that is longer than anybody waits who is going to be served. Questions are counted, not time:
 * a clock may jump.
 */
static void judge_source(struct cop_node *node, struct cop__bulk *bulk)
{
    const struct cop__call *call = bulk->call;
    cop_rank top = cop_tree_root(cop__bulk_tree(bulk));
    cop_time service = call->head.service_ns > call->service_ns ? call->head.service_ns
                                                                : call->service_ns;
    cop_time allowed = 2 * (cop__bulk_stall(bulk, top) + service);
    if (call->sweep || bulk->unanswered < allowed / COP__BULK_RETRY)
        return;
    cop__bulk_fail(node, bulk, COP_ETIMEDOUT, cop__bulk_place_of(bulk, bulk->source));
}

void cop__bulk_retry(struct cop_node *node, struct cop__bulk *bulk)
{
    if (bulk->call->sweep)
        drop_stalled(node, bulk);
    judge_service(node, bulk);
    if (cop__bulk_is_root(bulk) || bulk->have == bulk->count || bulk->status ||
        node->now - bulk->moved < COP__BULK_RETRY)
        return;
    bulk->unanswered++;
    judge_source(node, bulk);
    if (bulk->status)
        return;
    if (bulk->source != COP_ID_NONE) {
        send_pull(node, bulk, PULL_AGAIN);
    } else if (bulk->parent != COP_ID_NONE) {
        bulk->until = COP__CHUNK_NONE;
        set_source(node, bulk, bulk->parent);
    }
}
