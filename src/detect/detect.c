/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/detect.h"

#include "base/rankset.h"
#include "detect/state.h"

#include <stdlib.h>

/* Beliefs in one NEWS frame; more go in several. */
#define NEWS_MAX 4096u

static void put(struct cop_node *node, struct cop_ranks *set, cop_id id)
{
    if (cop__rankset_put(set, id))
        cop__fail(node, COP_ENOMEM);
}

/* ---- news ------------------------------------------------------------------------ */

/* One frame with beliefs [from, to): of `ids`, or of the whole roster if NULL. */
static struct cop_buf *encode_news(const struct cop_node *node,
                                   const struct cop_ranks *ids, uint32_t from,
                                   uint32_t to)
{
    uint32_t count = to - from;
    uint8_t *bytes = malloc((size_t)count * COP__SIZE_belief);
    if (!bytes)
        return NULL;
    struct cop__writer writer = cop__writer(bytes, (size_t)count * COP__SIZE_belief);
    for (uint32_t i = from; i < to; i++) {
        struct cop__belief belief =
            ids ? cop__roster_get(node, ids->items[i]) : cop__roster_at(node, i);
        cop__belief_put(&writer, &belief);
    }
    struct cop__msg_news news = {.beliefs = {bytes, count}};
    struct cop_buf *buf = cop__encode_news(&news);
    free(bytes);
    return buf;
}

/* To each of `to`; the bytes are made once. */
static void send_news_to(struct cop_node *node, const struct cop_ranks *to,
                         const struct cop_ranks *ids)
{
    uint32_t count = ids ? ids->count : cop__roster_count(node);
    if (to->count == 0)
        return;
    for (uint32_t from = 0; from < count; from += NEWS_MAX) {
        uint32_t end = count - from < NEWS_MAX ? count : from + NEWS_MAX;
        struct cop_buf *frame = encode_news(node, ids, from, end);
        for (uint32_t i = 0; i < to->count; i++)
            cop__roster_send(node, to->items[i], COP__KIND_NEWS, cop_buf_ref(frame));
        cop_buf_unref(frame);
    }
}

static void send_news(struct cop_node *node, cop_id to, const struct cop_ranks *ids)
{
    struct cop_ranks one = {.items = &to, .count = 1};
    send_news_to(node, &one, ids);
}

/* D4: tells a suspect once what is said of it. */
static void tell_suspect(struct cop_node *node, cop_id id)
{
    struct cop__detect *detect = cop__detect(node);
    if (cop__rankset_has(&detect->told, id))
        return;
    put(node, &detect->told, id);
    struct cop_ranks one = {.items = &id, .count = 1};
    send_news(node, id, &one);
}

void cop__detect_tell_suspect(struct cop_node *node, cop_id id)
{
    tell_suspect(node, id);
}

void cop__detect_send_news(struct cop_node *node, cop_id to,
                           const struct cop_ranks *ids)
{
    send_news(node, to, ids);
}

void cop__detect_tell_neighbours(struct cop_node *node)
{
    send_news_to(node, &cop__detect(node)->neighbours, NULL);
}

bool cop__detect_has_found(const struct cop_node *node, cop_id id)
{
    return cop__rankset_has(&cop__detect(node)->found, id);
}

/* Whether somebody thinks of a former life of mine, or has not heard my latest denial. */
static bool is_outdated(const struct cop_node *node, const struct cop__belief *heard)
{
    struct cop__belief mine = cop__roster_get(node, node->self);
    return heard->incarnation < mine.incarnation ||
           (heard->incarnation == mine.incarnation && heard->denial < mine.denial);
}

/* D4: who accuses me hears my denial from me: where two accuse each other, neither is a
 * neighbour of the other any more, and no flood would carry it. */
void cop__detect_tell_about_me(struct cop_node *node, cop_id to)
{
    cop_id self = node->self;
    struct cop_ranks one = {.items = &self, .count = 1};
    send_news(node, to, &one);
}

/* D4: where news goes up and not everywhere, who accuses may not have heard of a denial, and its
 * word would count for nothing here. It is told, finds out, and accuses anew. */
static bool was_denied(const struct cop_node *node, const struct cop__belief *heard)
{
    if (!cop__has_views(node) || heard->status < COP_SUSPECT || heard->id == node->self)
        return false;
    struct cop__belief mine = cop__roster_get(node, heard->id);
    return mine.incarnation == heard->incarnation && mine.denial > heard->denial &&
           mine.status == COP_ALIVE;
}

void cop__on_news(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_news news;
    if (cop__decode_news(frame->payload->data, frame->payload->length, &news)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    bool any = false, wrong = false;
    struct cop_ranks denied = {0};
    cop__detect(node)->teller = frame->header.sender;
    for (uint32_t i = 0; i < news.beliefs.count; i++) {
        struct cop__belief belief = cop__belief_at(news.beliefs, i);
        any |= cop__roster_merge(node, &belief);
        wrong |= belief.id == node->self && is_outdated(node, &belief);
        if (was_denied(node, &belief))
            put(node, &denied, belief.id);
    }
    cop__detect(node)->teller = COP_ID_NONE;
    if (wrong)
        cop__detect_tell_about_me(node, frame->header.sender);
    if (denied.count > 0)
        send_news(node, frame->header.sender, &denied);
    cop_ranks_free(&denied);
    if (!any)
        COP__COUNT(node, ignored_repeated);
}

/* ---- neighbours ------------------------------------------------------------------ */

/* My parent and children in the repaired tree, as sorted ids. */
static void find_neighbours(struct cop_node *node, struct cop_ranks *out)
{
    struct cop_tree tree = cop__roster_tree(node);
    struct cop_ranks children = {0};
    /* Who is not in the view has no place in its tree yet. */
    if (cop__roster_is_suspect(node, node->self))
        return;
    if (cop_tree_children(&tree, node->rank, &children))
        cop__fail(node, COP_ENOMEM);
    cop_rank parent = cop_tree_parent(&tree, node->rank);
    if (parent != COP_RANK_NONE)
        put(node, out, cop_view_id(node->view, parent));
    /* From the end: there the ranks rise, and each goes to the end of the set. */
    for (uint32_t i = children.count; i > 0; i--)
        put(node, out, cop_view_id(node->view, children.items[i - 1]));
    cop_ranks_free(&children);
}

static void swap_neighbours(struct cop_node *node, struct cop_ranks *now)
{
    struct cop__detect *detect = cop__detect(node);
    for (uint32_t i = 0; i < now->count; i++)
        if (!cop__rankset_has(&detect->neighbours, now->items[i]))
            cop__watch(node, now->items[i]);
    for (uint32_t i = 0; i < detect->neighbours.count; i++)
        if (!cop__rankset_has(now, detect->neighbours.items[i]))
            cop__unwatch(node, detect->neighbours.items[i]);
    struct cop_ranks old = detect->neighbours;
    detect->neighbours = *now;
    *now = old;
}

/* D3: to old neighbours what changed (also to one that I lose now, if it lives), to new
 * ones everything. */
static void pass_on(struct cop_node *node, const struct cop_ranks *old)
{
    struct cop__detect *detect = cop__detect(node);
    struct cop_ranks known = {0}, new = {0};
    if (cop__has_views(node))
        return;
    for (uint32_t i = 0; i < detect->neighbours.count; i++) {
        cop_id id = detect->neighbours.items[i];
        put(node, cop__rankset_has(old, id) ? &known : &new, id);
    }
    for (uint32_t i = 0; i < old->count; i++)
        if (!cop__roster_is_suspect(node, old->items[i]))
            put(node, &known, old->items[i]);
    send_news_to(node, &known, &detect->dirty);
    send_news_to(node, &new, NULL);
    cop_ranks_free(&known);
    cop_ranks_free(&new);
}

static void on_flush(struct cop_node *node, struct cop__node_timer *timer)
{
    (void)timer;
    struct cop_ranks other = {0};
    find_neighbours(node, &other);
    if (!node->failed) {
        swap_neighbours(node, &other);
        pass_on(node, &other);
    }
    cop__detect(node)->dirty.count = 0;
    cop_ranks_free(&other);
}

/* D10. With a fixed view everyone hears of every death, and would only count them. */
static void record_change(struct cop_node *node, const struct cop__change *change)
{
    cop_id id = change->id;
    cop_incarnation life = cop__roster_get(node, id).incarnation;
    if (change->kind == COP__CHANGE_SUSPECT) {
        cop__record_death(node, id, life);
        if (cop__has_views(node) && !cop__record_is_pending(node, id))
            cop__record_accusation(node, cop__detect(node)->teller, id,
                                   COP_REASON_HEARSAY);
    } else if (change->kind == COP__CHANGE_ALIVE) {
        cop__record_life(node, id, life, node->view);
        cop__record_outcome(node, id, life, COP_OUTCOME_DENIED);
    } else if (change->kind == COP__CHANGE_REPLACED) {
        cop__record_death(node, id, life - 1);
        cop__record_life(node, id, life, node->view);
    }
}

static void on_change(struct cop_node *node, const struct cop__change *change)
{
    struct cop__detect *detect = cop__detect(node);
    cop__rankset_drop(&detect->told, change->id);
    if (change->kind == COP__CHANGE_SUSPECT || change->kind == COP__CHANGE_REPLACED)
        cop__detour_lose(node, change->id);
    /* D4: whom I found gone myself, and somebody says it lives: I look again. */
    if (change->kind == COP__CHANGE_ALIVE && cop__has_views(node) &&
        cop__is_watched(node, change->id) &&
        cop__rankset_has(&detect->found, change->id))
        cop__emit_connect(node, change->id);
    if (change->kind == COP__CHANGE_ALIVE || change->kind == COP__CHANGE_REPLACED)
        cop__rankset_drop(&detect->found, change->id);
    /* A new life knows nothing, also if it came so fast that it never ceased to be one. */
    if (change->kind == COP__CHANGE_REPLACED && !cop__has_views(node) &&
        cop__rankset_has(&detect->neighbours, change->id))
        send_news(node, change->id, NULL);
    /* The accuser may die before its word gets there. */
    if (change->kind == COP__CHANGE_SUSPECT &&
        cop__rankset_has(&detect->neighbours, change->id))
        tell_suspect(node, change->id);
    record_change(node, change);
    cop__senses_on_change(node, change);
    put(node, &detect->dirty, change->id);
    cop_time delay = cop__has_views(node) ? COP__NEIGHBOURS_DELAY : COP__NEWS_DELAY;
    if (!cop__timer_is_running(&detect->flush.timer))
        cop__timer_set(node, &detect->flush, node->now + delay);
}

/* ---- evidence -------------------------------------------------------------------- */

void cop__detect_find(struct cop_node *node, cop_id id)
{
    put(node, &cop__detect(node)->found, id);
}

void cop__detect_convict(struct cop_node *node, cop_id id, enum cop_status how)
{
    /* What somebody outside says I have not found out. */
    if (how != COP_REPORTED)
        cop__detect_find(node, id);
    /* Of the life that is known: it may be one that no view has yet. */
    if (cop__roster_get(node, id).status < (uint8_t)how) {
        cop__roster_suspect(node, id, how);
        tell_suspect(node, id);
    }
}

void cop__detect_accuse(struct cop_node *node, cop_id id)
{
    cop__accuse(node, id, COP_REASON_OUTSIDE);
}

void cop__detect_try_later(struct cop_node *node, cop_id id)
{
    struct cop__detect *detect = cop__detect(node);
    put(node, &detect->silent, id);
    if (!cop__timer_is_running(&detect->retry.timer))
        cop__timer_set(node, &detect->retry, node->now + COP__RETRY_DELAY);
}

/* What is said of a life that is over may come when a later one is a member. */
static bool is_outlived(const struct cop_node *node, cop_id peer,
                        cop_incarnation incarnation)
{
    return cop__has_views(node) && incarnation != 0 &&
           incarnation < cop__roster_get(node, peer).incarnation;
}

/* Whom a view removed nobody accuses any more. */
static bool is_over(const struct cop_node *node, cop_id peer)
{
    cop_incarnation life = cop__roster_get(node, peer).incarnation;
    return cop__has_views(node) && cop_view_rank(node->view, peer) == COP_RANK_NONE &&
           life <= cop_view_incarnation(node->view, peer);
}

static void on_peer_down(struct cop_node *node, cop_id peer,
                         cop_incarnation incarnation, enum cop_down why)
{
    bool known = cop_view_rank(node->view, peer) != COP_RANK_NONE ||
                 (cop__has_views(node) && cop__is_watched(node, peer));
    if (!known || peer == node->self)
        return;
    bool outlived = is_outlived(node, peer, incarnation);
    if (why == COP_DOWN_REFUSED && !outlived) { /* D1 */
        cop__senses_on_refused(node, peer);
        if (!is_over(node, peer))
            cop__accuse(node, peer, COP_REASON_REFUSED);
    } else if (cop__is_watched(node, peer)) {
        if (outlived || why == COP_DOWN_CLOSED)
            cop__emit_connect(node, peer);
        else
            cop__detect_try_later(node, peer); /* D2 */
    }
}

static void on_peer_up(struct cop_node *node, cop_id peer, cop_incarnation incarnation)
{
    (void)incarnation;
    cop__senses_on_peer_up(node, peer);
}

static void record_view(struct cop_node *node, const struct cop_view *old)
{
    uint64_t at = 0;
    struct cop_view_change change;
    while (cop_view_compare(old, node->view, &at, &change)) {
        if (change.kind != COP_VIEW_LEFT && change.kind != COP_VIEW_RETURNED)
            continue;
        cop_incarnation was = cop_view_incarnation(old, change.id);
        cop_incarnation is = cop_view_incarnation(node->view, change.id);
        if (cop_view_has(old, change.id, was))
            cop__record_death(node, change.id, was);
        if (cop_view_has(node->view, change.id, is))
            cop__record_life(node, change.id, is, old);
    }
    cop__record_view(node);
}

static bool may_deny(const struct cop_node *node, const struct cop__belief *belief)
{
    return belief->status >= COP_SUSPECT && belief->id != node->self &&
           cop_view_has(node->view, belief->id, belief->incarnation);
}

void cop__detect_forget_told(struct cop_node *node)
{
    cop__detect(node)->told.count = 0;
}

bool cop__detect_tell_suspects(struct cop_node *node, uint32_t limit)
{
    for (uint32_t i = 0; i < cop__roster_count(node); i++) {
        struct cop__belief belief = cop__roster_at(node, i);
        if (!may_deny(node, &belief) ||
            cop__rankset_has(&cop__detect(node)->told, belief.id))
            continue;
        if (limit-- == 0)
            return true;
        tell_suspect(node, belief.id);
    }
    return false;
}

/* D4: a suspect that is in the new view lives, or nobody else has heard of it. What I said to it
 * before may have been the word of one who was no member. */
static void tell_suspects_again(struct cop_node *node)
{
    cop__detect_forget_told(node);
    cop__detect_tell_suspects(node, UINT32_MAX);
}

/* The tree is another one. */
static void on_view(struct cop_node *node, const struct cop_view *old)
{
    struct cop__detect *detect = cop__detect(node);
    struct cop_ranks other = {0};
    record_view(node, old);
    for (uint32_t i = detect->found.count; i > 0; i--)
        if (cop_view_rank(node->view, detect->found.items[i - 1]) == COP_RANK_NONE)
            cop__rankset_drop(&detect->found, detect->found.items[i - 1]);
    find_neighbours(node, &other);
    if (!node->failed)
        swap_neighbours(node, &other);
    cop_ranks_free(&other);
    /* There is nothing left to pass on, and the neighbours are those of what I know. */
    detect->dirty.count = 0;
    cop__timer_cancel(node, &detect->flush);
    tell_suspects_again(node);
    cop__senses_on_view(node);
}

static int on_submit(struct cop_node *node, const struct cop_request *request)
{
    return request->kind == COP_REQUEST_INQUIRE ? cop__inquire(node, request)
                                                : COP_ENOENT;
}

static void on_retry(struct cop_node *node, struct cop__node_timer *timer)
{
    (void)timer;
    struct cop__detect *detect = cop__detect(node);
    for (uint32_t i = 0; i < detect->silent.count; i++)
        if (cop__is_watched(node, detect->silent.items[i]))
            cop__emit_connect(node, detect->silent.items[i]);
    detect->silent.count = 0;
}

bool cop__detect_admit(struct cop_node *node, const struct cop_header *header)
{
    if (!cop__roster_admit(node, header))
        return false;
    if (cop__roster_is_suspect(node, header->sender))
        tell_suspect(node, header->sender);
    return true;
}

/* ---- the layer ------------------------------------------------------------------- */

static void start(struct cop_node *node)
{
    struct cop__detect *detect = cop__detect(node);
    detect->flush.fire = on_flush;
    detect->retry.fire = on_retry;
    cop__timer_init(&detect->flush.timer);
    cop__timer_init(&detect->retry.timer);
    detect->teller = COP_ID_NONE;
    cop__senses_start(node);
    struct cop_ranks none = {0};
    find_neighbours(node, &none);
    if (node->failed) {
        cop_ranks_free(&none);
        return;
    }
    swap_neighbours(node, &none);
    pass_on(node, &none);
}

static void fini(struct cop_node *node)
{
    struct cop__detect *detect = cop__detect(node);
    cop_ranks_free(&detect->neighbours);
    cop_ranks_free(&detect->dirty);
    cop_ranks_free(&detect->silent);
    cop_ranks_free(&detect->told);
    cop_ranks_free(&detect->found);
    cop__senses_fini(node);
    cop__record_fini(node);
}

static void digest_set(const struct cop_ranks *set, struct cop__digest *digest)
{
    cop__digest_word(digest, set->count);
    for (uint32_t i = 0; i < set->count; i++)
        cop__digest_word(digest, set->items[i]);
}

static void digest_state(const struct cop_node *node, struct cop__digest *digest)
{
    const struct cop__detect *detect = cop__detect(node);
    digest_set(&detect->neighbours, digest);
    digest_set(&detect->dirty, digest);
    digest_set(&detect->silent, digest);
    digest_set(&detect->told, digest);
    if (cop__has_views(node))
        digest_set(&detect->found, digest);
    cop__senses_digest(node, digest);
}

static const char *check(const struct cop_node *node)
{
    const struct cop__detect *detect = cop__detect(node);
    for (uint32_t i = 0; i < detect->neighbours.count; i++)
        if (!cop__is_watched(node, detect->neighbours.items[i]))
            return "detect: a neighbour is not watched";
    if (node->started &&
        (detect->dirty.count > 0) != cop__timer_is_running(&detect->flush.timer))
        return "detect: news waits without a deadline";
    if (node->started && detect->silent.count > 0 &&
        !cop__timer_is_running(&detect->retry.timer))
        return "detect: a silent peer waits without a deadline";
    return cop__senses_check(node);
}

static size_t bytes(const struct cop_node *node)
{
    const struct cop__detect *detect = cop__detect(node);
    return sizeof(cop_rank) * (detect->neighbours.capacity + detect->dirty.capacity +
                               detect->silent.capacity + detect->told.capacity +
                               detect->found.capacity) +
           cop__senses_bytes(node) + cop__record_bytes(node);
}

const struct cop__layer cop__detect_layer = {
    .name = "detect",
    .size = sizeof(struct cop__detect),
    .start = start,
    .fini = fini,
    .on_peer_up = on_peer_up,
    .on_peer_down = on_peer_down,
    .on_change = on_change,
    .on_view = on_view,
    .settle = cop__senses_settle,
    .on_submit = on_submit,
    .digest = digest_state,
    .check = check,
    .bytes = bytes,
};
