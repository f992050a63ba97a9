/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/bulk.h"

#include <stdlib.h>
#include <string.h>

/* The window, the service on both ends of it, and the end of it all. */

#define DIGEST_BYTES 8u

bool cop__bulk_is_root(const struct cop__bulk *bulk) { return bulk->call->is_root; }

/* The digest is the last. */
static uint32_t last_of(const struct cop__bulk *bulk) { return bulk->count - 1; }

uint32_t cop__bulk_length_of(const struct cop__bulk *bulk, uint32_t index)
{
    const struct cop__head *head = &bulk->call->head;
    if (index == last_of(bulk))
        return DIGEST_BYTES;
    uint64_t left = head->bulk_length - (uint64_t)index * head->bulk_chunk;
    return left < head->bulk_chunk ? (uint32_t)left : head->bulk_chunk;
}

static uint64_t offset_of(const struct cop__bulk *bulk, uint32_t index)
{
    return (uint64_t)index * bulk->call->head.bulk_chunk;
}

/* ---- the service here ------------------------------------------------------------ */

/* Shows it what came since. */
static void show(struct cop_node *node, struct cop__bulk *bulk)
{
    if (bulk->taken == bulk->shown && bulk->asked == COP__CHUNK_NONE)
        bulk->took = node->now;
    for (; bulk->sinks && bulk->shown < bulk->have && bulk->shown < last_of(bulk);
         bulk->shown++) {
        struct cop_upcall upcall = cop__call_upcall(bulk->call, COP_UPCALL_PIECE);
        upcall.offset = offset_of(bulk, bulk->shown);
        upcall.length = cop__bulk_length_of(bulk, bulk->shown);
        cop__emit_bulk(node, &upcall,
                       cop_buf_ref(bulk->window[bulk->shown % COP_BULK_WINDOW]));
    }
    /* Nobody is shown the digest, and without a service nobody is shown anything. */
    if (!bulk->sinks || bulk->taken == last_of(bulk))
        bulk->shown = bulk->taken = bulk->have;
    if (bulk->taken == bulk->shown && bulk->asked == COP__CHUNK_NONE)
        bulk->took = node->now;
}

static bool digest_is_right(const struct cop__bulk *bulk)
{
    struct cop__msg_chunk chunk;
    const struct cop_buf *payload = bulk->window[last_of(bulk) % COP_BULK_WINDOW];
    if (cop__decode_chunk(payload->data, payload->length, &chunk))
        return false;
    struct cop__reader reader = cop__reader(chunk.data.data, chunk.data.length);
    return cop__get_u64(&reader) == cop__digest_value(&bulk->digest);
}

/* RUN, when all of it is here. Before the digest leaves the window. */
static void run_if_complete(struct cop_node *node, struct cop__bulk *bulk)
{
    struct cop__call *call = bulk->call;
    if (bulk->taken < bulk->count || !bulk->serves)
        return;
    bool right = digest_is_right(bulk);
    bulk->serves = bulk->sinks = false;
    cop__call_run(node, call, right ? 0 : COP_EMALFORMED, COP_RANK_NONE);
}

bool cop__bulk_owes_run(const struct cop__call *call)
{
    return call->bulk && call->bulk->serves;
}

void cop__bulk_owe_nothing(struct cop__call *call)
{
    call->bulk->serves = call->bulk->sinks = false;
    call->bulk->moves = true;
}

void cop__bulk_unserve(struct cop_node *node, struct cop__call *call)
{
    struct cop__bulk *bulk = call->bulk;
    if (!bulk)
        return;
    bulk->serves = bulk->sinks = false;
    if (cop__bulk_is_root(bulk) && bulk->have < bulk->count)
        cop__bulk_fail(node, bulk, COP_ENOENT, cop__bulk_self(bulk));
    bulk->moves = true;
}

COP__APART int cop__bulk_taken(struct cop_node *node, const struct cop_coll *coll)
{
    struct cop__call *call = cop__call_find(node, coll->handle);
    struct cop__bulk *bulk = call ? call->bulk : NULL;
    if (!bulk)
        return COP_ENOENT;
    if (coll->status > 0)
        return COP_EINVAL;
    if (!bulk->sinks || bulk->taken == bulk->shown)
        return COP_ESTATE;
    cop__calls_enter(node);
    if (coll->status) {
        bulk->serves = bulk->sinks = false;
        cop__call_run(node, call, coll->status, COP_RANK_NONE);
    } else {
        bulk->taken++;
        bulk->took = node->now;
    }
    cop__bulk_go_on(node, bulk);
    cop__call_settle(node, call);
    cop__calls_leave(node);
    return 0;
}

/* ---- the source ------------------------------------------------------------------ */

/* Somebody waits for what the window no longer has: the first such chunk; NONE. */
static uint32_t missed(const struct cop__bulk *bulk)
{
    uint32_t first = COP__CHUNK_NONE;
    for (uint32_t i = 0; i < bulk->taker_count; i++) {
        const struct cop__taker *taker = &bulk->takers[i];
        if (taker->sent < bulk->base && taker->sent < taker->limit &&
            taker->sent < first)
            first = taker->sent;
    }
    return first;
}

static void take_given(struct cop_node *node, struct cop__bulk *bulk,
                       struct cop_buf *payload, struct cop__bytes data)
{
    uint32_t index = bulk->asked;
    bulk->asked = COP__CHUNK_NONE;
    if (index == bulk->have) {
        cop__bulk_append(node, bulk, payload, data);
        return;
    }
    for (uint32_t i = 0; i < bulk->taker_count; i++) {
        struct cop__taker *taker = &bulk->takers[i];
        if (taker->sent != index || taker->sent >= taker->limit)
            continue;
        taker->sent++;
        cop__roster_send(node, taker->id, COP__KIND_CHUNK, cop_buf_ref(payload));
    }
    cop_buf_unref(payload);
}

/* The root makes the last chunk itself. */
static void give_digest(struct cop_node *node, struct cop__bulk *bulk)
{
    uint8_t bytes[DIGEST_BYTES];
    struct cop__writer writer = cop__writer(bytes, sizeof bytes);
    cop__put_u64(&writer, cop__digest_value(&bulk->digest));
    struct cop__bytes data = {bytes, sizeof bytes};
    struct cop_buf *payload = cop__chunk_make(bulk->call, last_of(bulk), data);
    bulk->asked = last_of(bulk);
    if (!payload)
        cop__fail(node, COP_ENOMEM);
    else
        take_given(node, bulk, payload, data);
}

static void want(struct cop_node *node, struct cop__bulk *bulk, uint32_t index)
{
    if (!cop__call_wants(node, bulk->call, COP_UPCALL_WANT)) {
        cop__bulk_fail(node, bulk, COP_ENOENT, cop__bulk_self(bulk));
        return;
    }
    struct cop_upcall upcall = cop__call_upcall(bulk->call, COP_UPCALL_WANT);
    bulk->asked = index;
    bulk->took = node->now;
    upcall.offset = offset_of(bulk, index);
    upcall.length = cop__bulk_length_of(bulk, index);
    cop__emit_upcall(node, &upcall);
}

/* One question at a time; what was missed and what is next take turns. */
static void want_more(struct cop_node *node, struct cop__bulk *bulk)
{
    if (bulk->asked != COP__CHUNK_NONE || bulk->status)
        return;
    uint32_t again = missed(bulk);
    if (again == last_of(bulk)) {
        give_digest(node, bulk);
        again = COP__CHUNK_NONE;
    }
    bool more = bulk->have < last_of(bulk) && bulk->have < bulk->base + COP_BULK_WINDOW;
    if (again != COP__CHUNK_NONE && (!more || !bulk->repeated)) {
        bulk->repeated = true;
        want(node, bulk, again);
    } else if (more) {
        bulk->repeated = false;
        want(node, bulk, bulk->have);
    }
}

COP__APART int cop__bulk_give(struct cop_node *node, const struct cop_request *request)
{
    const struct cop_coll *coll = request->coll;
    struct cop__call *call = cop__call_find(node, coll->handle);
    struct cop__bulk *bulk = call ? call->bulk : NULL;
    struct cop__bytes data = {request->bytes, request->length};
    if (!bulk)
        return COP_ENOENT;
    if (bulk->asked == COP__CHUNK_NONE || coll->offset != offset_of(bulk, bulk->asked))
        return COP_ESTATE;
    if (coll->status > 0 ||
        (coll->status == 0 && (data.length != cop__bulk_length_of(bulk, bulk->asked) ||
                               (data.length && !data.data))))
        return COP_EINVAL;
    struct cop_buf *payload = NULL;
    if (!coll->status) {
        payload = cop__chunk_make(call, bulk->asked, data);
        if (!payload) {
            cop__fail(node, COP_ENOMEM);
            return COP_ENOMEM;
        }
    }
    cop__calls_enter(node);
    if (payload) {
        take_given(node, bulk, payload, data);
        cop__bulk_go_on(node, bulk);
    } else {
        cop__bulk_fail(node, bulk, coll->status, cop__bulk_self(bulk));
    }
    cop__call_settle(node, call);
    cop__calls_leave(node);
    return 0;
}

/* ---- going on -------------------------------------------------------------------- */

void cop__bulk_append(struct cop_node *node, struct cop__bulk *bulk,
                      struct cop_buf *payload, struct cop__bytes data)
{
    COP_ASSERT(bulk->have < bulk->base + COP_BULK_WINDOW);
    if (bulk->have < last_of(bulk))
        cop__digest_block(&bulk->digest, data.data, data.length);
    bulk->window[bulk->have % COP_BULK_WINDOW] = payload;
    bulk->have++;
    bulk->moved = node->now;
    bulk->unanswered = 0;
}

/* K13: what everyone has is forgotten. */
static void slide(struct cop__bulk *bulk)
{
    uint32_t to = bulk->taken;
    for (uint32_t i = 0; i < bulk->taker_count; i++)
        if (bulk->takers[i].holds && bulk->takers[i].next < to)
            to = bulk->takers[i].next;
    for (; bulk->base < to; bulk->base++) {
        cop_buf_unref(bulk->window[bulk->base % COP_BULK_WINDOW]);
        bulk->window[bulk->base % COP_BULK_WINDOW] = NULL;
    }
}

void cop__bulk_go_on(struct cop_node *node, struct cop__bulk *bulk)
{
    if (bulk->status || bulk->call->over)
        return;
    if (cop__bulk_is_root(bulk) && bulk->have == last_of(bulk) &&
        bulk->have < bulk->base + COP_BULK_WINDOW)
        give_digest(node, bulk);
    show(node, bulk);
    run_if_complete(node, bulk);
    cop__bulk_serve(node, bulk);
    slide(bulk);
    if (cop__bulk_is_root(bulk))
        want_more(node, bulk);
    else
        cop__bulk_pull(node, bulk);
}

void cop__bulk_fail(struct cop_node *node, struct cop__bulk *bulk, int status,
                    cop_rank at)
{
    struct cop__call *call = bulk->call;
    bool serves = bulk->serves;
    if (bulk->status)
        return;
    bulk->status = status;
    bulk->blamed = at;
    bulk->asked = COP__CHUNK_NONE;
    bulk->serves = bulk->sinks = false;
    for (uint32_t i = 0; i < bulk->taker_count; i++) {
        bulk->takers[i].moved = node->now;
        if (bulk->takers[i].incarnation)
            cop__bulk_say_failed(node, bulk, &bulk->takers[i]);
    }
    if (serves)
        cop__call_run(node, call, status, at);
}

void cop__bulk_lose(struct cop_node *node, struct cop__call *call, cop_id id)
{
    struct cop__bulk *bulk = call->bulk;
    if (!bulk || bulk->source != id || bulk->have == bulk->count || bulk->status)
        return;
    cop__bulk_fail(node, bulk, COP_ELOST, cop__bulk_place_of(bulk, id));
    cop__call_settle(node, call);
}

void cop__bulk_release(struct cop__call *call, cop_id child)
{
    struct cop__bulk *bulk = call->bulk;
    for (uint32_t i = 0; bulk && i < bulk->taker_count; i++) {
        if (bulk->takers[i].id != child)
            continue;
        bulk->taker_count--;
        memmove(bulk->takers + i, bulk->takers + i + 1,
                (bulk->taker_count - i) * sizeof *bulk->takers);
        bulk->moves = true;
        break;
    }
}

/* ---- beginning and ending -------------------------------------------------------- */

static void on_timer(struct cop_node *node, struct cop__node_timer *timer)
{
    struct cop__bulk *bulk = (struct cop__bulk *)(void *)timer;
    struct cop__call *call = bulk->call;
    cop__calls_enter(node);
    cop__bulk_retry(node, bulk);
    cop__bulk_go_on(node, bulk);
    cop__call_settle(node, call);
    if (!call->over)
        cop__timer_set(node, &bulk->timer, node->now + COP__BULK_RETRY);
    cop__calls_leave(node);
}

/*
 * K13: those who were asked will pull, and are waited for from the first chunk on. But not who has
 * answered already, to one who was started anew: it has all of it, and will not.
 */
static void expect_children(struct cop_node *node, struct cop__bulk *bulk)
{
    const struct cop__sweep *sweep = bulk->call->sweep;
    struct cop_ranks children = {0};
    if (cop_tree_children(cop__bulk_tree(bulk), cop__bulk_self(bulk), &children))
        cop__fail(node, COP_ENOMEM);
    for (uint32_t i = 0; i < children.count; i++) {
        if (cop__bulk_is_lost(node, bulk, children.items[i]) ||
            (sweep && cop__sweep_has_part_of(sweep, children.items[i])))
            continue;
        struct cop__taker *taker =
            cop__bulk_taker(node, bulk, cop__bulk_id(bulk, children.items[i]));
        if (taker)
            taker->holds = true;
    }
    cop_ranks_free(&children);
}

COP__APART void cop__bulk_begin(struct cop_node *node, struct cop__call *call,
                                bool serves)
{
    struct cop__bulk *bulk = calloc(1, sizeof *bulk);
    if (!bulk) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    const struct cop__head *head = &call->head;
    call->bulk = bulk;
    cop__colls(node)->bulk_count++;
    cop__notice(node, COP__SLOT_COLL);
    bulk->call = call;
    bulk->count =
        (uint32_t)((head->bulk_length + head->bulk_chunk - 1) / head->bulk_chunk) + 1;
    bulk->serves = serves;
    bulk->sinks = serves && cop__call_wants(node, call, COP_UPCALL_PIECE);
    bulk->parent = bulk->source = COP_ID_NONE;
    bulk->until = bulk->asked = COP__CHUNK_NONE;
    bulk->moved = bulk->took = node->now;
    cop__digest_init(&bulk->digest);
    bulk->timer.fire = on_timer;
    cop__timer_init(&bulk->timer.timer);
    cop__timer_set(node, &bulk->timer, node->now + COP__BULK_RETRY);
    expect_children(node, bulk);
    cop__bulk_mind_parent(node, bulk);
    if (!call->sweep && !call->is_root && cop__roster_is_suspect(node, call->parent))
        cop__bulk_lose(node, call, call->parent);
    cop__bulk_go_on(node, bulk);
}

void cop__bulk_end(struct cop_node *node, struct cop__call *call)
{
    if (!call->bulk)
        return;
    cop__timer_cancel(node, &call->bulk->timer);
    cop__bulk_leave_source(node, call->bulk);
    cop__colls(node)->bulk_count--;
}

void cop__bulk_free(struct cop__call *call)
{
    struct cop__bulk *bulk = call->bulk;
    for (uint32_t i = 0; bulk && i < COP_BULK_WINDOW; i++)
        cop_buf_unref(bulk->window[i]);
    if (bulk)
        free(bulk->takers);
    free(bulk);
    call->bulk = NULL;
}

void cop__bulks_settle(struct cop_node *node)
{
    if (cop__colls(node)->bulk_count == 0)
        return;
    cop__notice(node, COP__SLOT_COLL); /* at the end of the next step, too */
    cop__calls_enter(node);
    for (struct cop__call *call = cop__colls(node)->calls; call; call = call->next) {
        if (!call->bulk || call->over)
            continue;
        cop__bulk_mind_parent(node, call->bulk);
        if (!call->bulk->moves)
            continue;
        call->bulk->moves = false;
        cop__bulk_go_on(node, call->bulk);
        cop__call_settle(node, call);
    }
    cop__calls_leave(node);
}

/* ---- looking --------------------------------------------------------------------- */

const char *cop__bulk_check(const struct cop_node *node, const struct cop__call *call)
{
    const struct cop__bulk *bulk = call->bulk;
    if (!bulk)
        return NULL;
    if (bulk->base > bulk->taken || bulk->taken > bulk->shown ||
        bulk->shown > bulk->have || bulk->have > bulk->count)
        return "bulk: its marks are out of order";
    if (bulk->have > bulk->base + COP_BULK_WINDOW)
        return "bulk: keeps more than a window";
    for (uint32_t i = 0; i < COP_BULK_WINDOW; i++) {
        uint32_t index = bulk->base + (i - bulk->base) % COP_BULK_WINDOW;
        if ((bulk->window[i] != NULL) != (index < bulk->have))
            return "bulk: its window has a hole, or something that is over";
    }
    if (bulk->granted > bulk->base + COP_BULK_WINDOW)
        return "bulk: promises more room than there is";
    for (uint32_t i = 0; i < bulk->taker_count; i++)
        if (bulk->takers[i].sent > bulk->have &&
            bulk->takers[i].sent > bulk->takers[i].next)
            return "bulk: sent what it does not have";
    if (!cop__timer_is_running(&bulk->timer.timer))
        return "bulk: kept without a timer";
    if (bulk->watches && !cop__is_watched(node, bulk->source))
        return "bulk: waits for somebody without watching it";
    return NULL;
}

void cop__bulk_digest(const struct cop__call *call, struct cop__digest *digest)
{
    const struct cop__bulk *bulk = call->bulk;
    if (!bulk)
        return;
    cop__digest_word(digest, (uint64_t)bulk->base << 32 | bulk->taken);
    cop__digest_word(digest, (uint64_t)bulk->shown << 32 | bulk->have);
    cop__digest_word(digest, (uint64_t)bulk->asked << 32 | bulk->granted);
    cop__digest_word(digest, (uint64_t)bulk->source << 32 | bulk->until);
    cop__digest_word(digest, (uint64_t)bulk->serves << 33 |
                                 (uint64_t)bulk->sinks << 32 | (uint32_t)bulk->status);
    for (uint32_t i = 0; i < bulk->taker_count; i++) {
        const struct cop__taker *taker = &bulk->takers[i];
        cop__digest_word(digest, (uint64_t)taker->id << 32 | taker->next);
        cop__digest_word(digest, (uint64_t)taker->sent << 32 | taker->limit);
        cop__digest_word(digest, taker->holds);
    }
}

size_t cop__bulk_bytes(const struct cop__call *call)
{
    const struct cop__bulk *bulk = call->bulk;
    return bulk ? sizeof *bulk + bulk->taker_capacity * sizeof *bulk->takers : 0;
}
