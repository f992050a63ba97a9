/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/state.h"

#include "base/log2fix.h"
#include "base/random.h"
#include "base/rankset.h"
#include "roster/roster.h"

#include <string.h>

/* ---- choosing: alone, by weighted sampling (T6) ---------------------------------- */

/*
 * Below whom the tree gets no deeper is preferred, then who is near; who carries nobody is
 * taken only where there is little else.
 */
static uint64_t weigh(const struct cop_tree *tree, cop_rank me, cop_rank other)
{
    uint32_t mine = cop_tree_level(tree, me), its = cop_tree_level(tree, other);
    uint64_t weight = 4096;
    if (its >= mine)
        weight >>= its - mine < 8 ? its - mine + 1 : 9;
    cop_rank a = me, b = other;
    uint32_t steps = 0;
    while (a != b && steps < 5) {
        bool up = cop_tree_level(tree, a) >= cop_tree_level(tree, b);
        cop_rank above = cop_tree_parent(tree, up ? a : b);
        if (above == COP_RANK_NONE)
            break;
        *(up ? &a : &b) = above;
        steps++;
    }
    weight = steps <= 3 ? 4 * weight : steps == 4 ? 2 * weight : weight;
    return cop_tree_child_count(tree, other) == 0 ? 1 + weight / 64 : weight;
}

#define WEIGHT_MOST 16384u
/* So many times its children of the start an heir may have. */
#define CROWD 3u

/*
 * Who is my parent in the tree of the view now. That is told of the death, so there is a
 * connection to it, or will be, and one to anybody else would be one more. NONE: there is none,
 * or it carries too many by now.
 */
static cop_id heir_of(struct cop_node *node, const struct cop__network *network)
{
    struct cop_tree tree = cop__network_tree(node, network);
    struct cop_ranks below = {0};
    if (cop__roster_is_suspect(node, node->self))
        return COP_ID_NONE;
    cop_rank heir = cop_tree_parent(&tree, node->rank);
    if (heir == COP_RANK_NONE)
        return COP_ID_NONE;
    if (cop_tree_children(&tree, heir, &below))
        cop__fail(node, COP_ENOMEM);
    uint32_t count = below.count;
    cop_ranks_free(&below);
    tree.dead = NULL;
    tree.leaves = NULL;
    tree.leaf_count = 0;
    return count <= CROWD * cop_tree_child_count(&tree, heir) ? heir : COP_ID_NONE;
}

/*
 * The key is r^(1/w), the largest wins; here -log2(r)/w, in fixed point, and the smallest. As
 * -log2(r) is more than 1 - r, most that are not below `best` are seen without a logarithm.
 */
static uint64_t key_of(const struct cop_node *node, const struct cop__network *network,
                       const struct cop_tree *tree, cop_id other, uint64_t best)
{
    uint64_t r =
        cop__mix64(network->number ^ cop__mix64((uint64_t)node->self << 32 | other) ^
                   cop__mix64(network->attempt + (node->incarnation << 20)));
    uint64_t least = (UINT64_MAX - r) >> 32;
    if (least > 16 && ((least - 16) << 20) / WEIGHT_MOST >= best)
        return UINT64_MAX;
    uint64_t minus = (UINT64_C(64) << 32) - (uint64_t)cop__log2_fixed(r | 1);
    return (minus << 20) / weigh(tree, node->rank, other);
}

/*
 * Who is below me cannot take me in. But the root is below nobody (T10): it may have left whom I carry
 * without my having heard of it, and if that waits for others it tells me only when they have come,
 * which may be when I have a parent.
 */
static bool may_adopt(const struct cop_node *node, const struct cop__network *network,
                      cop_id id)
{
    cop_incarnation life = cop_view_incarnation(node->view, id);
    return id != node->self && cop_view_has(node->view, id, life) &&
           !cop__roster_is_suspect(node, id) &&
           !cop__rankset_has(&network->tried, id) && !cop__network_child(network, id) &&
           (id == cop_view_root(node->view) ||
            cop__lives_find(&network->streams[0]->cover, id) == 0);
}

/* The heir, unless it is out of the question; otherwise drawn. */
static cop_id choose(struct cop_node *node, const struct cop__network *network)
{
    struct cop_tree tree = cop__network_tree(node, network);
    uint32_t n = tree.n, count = n < COP__CANDIDATES ? n : COP__CANDIDATES;
    cop_id root = cop_view_root(node->view), best = COP_ID_NONE;
    uint64_t best_key = UINT64_MAX;
    if (!cop_node_is_member(node)) /* nobody would hear me */
        return COP_ID_NONE;
    if (network->seeks_root)
        return may_adopt(node, network, root) ? root : COP_ID_NONE;
    cop_id heir = heir_of(node, network);
    if (heir != COP_ID_NONE && may_adopt(node, network, heir))
        return heir;
    tree.dead = NULL;
    tree.leaves = NULL;
    tree.leaf_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t draw = cop__mix64(cop__mix64(node->self) + i + network->attempt);
        cop_id id = n <= COP__CANDIDATES ? i : i == 0 ? root : (cop_id)(draw % n);
        uint64_t key = may_adopt(node, network, id)
                           ? key_of(node, network, &tree, id, best_key)
                           : UINT64_MAX;
        if (key < best_key) {
            best_key = key;
            best = id;
        }
    }
    return best;
}

/* ---- trying ---------------------------------------------------------------------- */

static void ask(struct cop_node *node, struct cop__network *network, cop_id id)
{
    struct cop_buf *news = cop__network_news(node, network, true);
    struct cop_buf *places = news ? cop__network_places(node, network) : NULL;
    if (!places) {
        cop_buf_unref(news);
        return;
    }
    network->attempt++;
    network->recovery.asked = node->now;
    network->recovery.tries++;
    network->parent = id;
    network->parent_life = cop_view_incarnation(node->view, id);
    network->adopted = false;
    cop__watch(node, id);
    struct cop__msg_attach message = {
        .network = network->number,
        .number = network->attempt,
        .news = {news->data, news->length},
        .places = {places->data, places->length},
    };
    cop__roster_send(node, id, COP__KIND_ATTACH, cop__encode_attach(&message));
    cop_buf_unref(news);
    cop_buf_unref(places);
    cop__timer_set(node, &network->timer, node->now + COP__ATTACH_PATIENCE);
    COP__COUNT(node, stream_attempts);
}

static void try_next(struct cop_node *node, struct cop__network *network)
{
    cop_id id = choose(node, network);
    if (id != COP_ID_NONE) {
        ask(node, network, id);
        return;
    }
    /* Nobody is left to try. What they said may not hold any more: again, after a pause. */
    network->tried.count = 0;
    cop_time pause = COP__ATTACH_AGAIN << (network->rounds < 6 ? network->rounds : 6);
    network->rounds++;
    cop__timer_set(node, &network->timer,
                   node->now +
                       (pause < COP__ATTACH_LONGEST ? pause : COP__ATTACH_LONGEST));
}

static void let_go(struct cop_node *node, struct cop__network *network)
{
    if (network->parent != COP_ID_NONE)
        cop__unwatch(node, network->parent);
    network->parent = COP_ID_NONE;
    network->adopted = false;
    cop__timer_cancel(node, &network->timer);
}

void cop__orphan_next(struct cop_node *node, struct cop__network *network)
{
    if (network->parent != COP_ID_NONE &&
        cop__rankset_put(&network->tried, network->parent)) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    let_go(node, network);
    try_next(node, network);
}

void cop__orphan_begin(struct cop_node *node, struct cop__network *network)
{
    cop_id lost = network->parent;
    network->seeks_root = cop_view_root(node->view) == lost ||
                          (network->path.count == 1 && lost != COP_ID_NONE) ||
                          (lost == COP_ID_NONE && network->attempt > 0);
    if (network->adopted && cop__roster_has_lost(node, lost, network->parent_life))
        network->former =
            (struct cop__stream_child){lost, network->parent_life, network->attempt};
    if (lost != COP_ID_NONE)
        network->recovery = (struct cop_stream_recovery){.lost = node->now};
    let_go(node, network);
    network->attempt++; /* an offer of the start does not come into question any more */
    network->tried.count = 0;
    network->rounds = 0;
    network->path.count = 0;
    network->regeneration = 0;
    for (uint32_t i = 0; i < network->stream_count; i++)
        network->streams[i]->silent = true;
    for (uint32_t i = 0; i < network->child_count && !node->failed; i++)
        cop__network_send_path(node, network, network->children[i].id);
    COP__COUNT(node, stream_orphans);
    if (!node->failed)
        try_next(node, network);
}

void cop__orphan_leave(struct cop_node *node, struct cop__network *network)
{
    struct cop__stream_child former = network->former;
    bool is_member = former.id != COP_ID_NONE &&
                     cop_view_has(node->view, former.id, former.incarnation);
    if (is_member && cop__roster_has_lost(node, former.id, former.incarnation))
        return;
    network->former.id = COP_ID_NONE;
    if (is_member && cop_node_is_member(node))
        cop__detach_send(node, network->number, former.id, former.number);
}

/* One who lives does not answer, or the pause is over. */
void cop__orphan_timer(struct cop_node *node, struct cop__node_timer *timer)
{
    struct cop__network *network = (struct cop__network *)(void *)timer;
    if (network->is_root || network->adopted)
        return;
    if (network->rounds > 1)
        network->seeks_root = false;
    cop__orphan_next(node, network);
}

/* ---- the way to the root --------------------------------------------------------- */

bool cop__network_is_attached(const struct cop_node *node,
                              const struct cop__network *network)
{
    if (network->is_root)
        return true;
    return network->adopted && network->regeneration != 0 && network->path.count > 0 &&
           !cop__roster_is_suspect(node, network->path.items[0]);
}

struct cop_buf *cop__network_path_bytes(struct cop_node *node,
                                        const struct cop__network *network)
{
    struct cop_buf *buf = cop_buf_create((network->path.count + 1) * COP__SIZE_rank);
    if (!buf) {
        cop__fail(node, COP_ENOMEM);
        return NULL;
    }
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    for (uint32_t i = 0; i < network->path.count; i++)
        cop__put_u32(&writer, network->path.items[i]);
    cop__put_u32(&writer, node->self);
    return buf;
}

void cop__network_send_path(struct cop_node *node, const struct cop__network *network,
                            cop_id to)
{
    struct cop_buf *bytes = cop__network_path_bytes(node, network);
    if (!bytes)
        return;
    struct cop__msg_path message = {
        .network = network->number,
        .regeneration = network->regeneration,
        .path = {bytes->data, network->path.count + 1},
    };
    cop__roster_send(node, to, COP__KIND_PATH, cop__encode_path(&message));
    cop_buf_unref(bytes);
}

/* Index behind the last place at which I am in it; 0: nowhere. */
static uint32_t behind_me(const struct cop_node *node, struct cop__list path)
{
    uint32_t at = path.count;
    while (at > 0 && cop__listed_rank(path, at - 1) != node->self)
        at--;
    return at;
}

static bool is_lowest(const struct cop_node *node, struct cop__list path, uint32_t from)
{
    for (uint32_t i = from; i < path.count; i++)
        if (cop__listed_rank(path, i) < node->self)
            return false;
    return true;
}

static bool is_same(const struct cop__network *network, uint64_t regeneration,
                    struct cop__list path, uint32_t from)
{
    if (network->regeneration != regeneration ||
        network->path.count != path.count - from)
        return false;
    for (uint32_t i = from; i < path.count; i++)
        if (network->path.items[i - from] != cop__listed_rank(path, i))
            return false;
    return true;
}

/* T7: where I am above myself there is a ring, and one lap of it goes round until the lowest of
 * it has seen it, and lets go. */
void cop__network_set_path(struct cop_node *node, struct cop__network *network,
                           uint64_t regeneration, struct cop__list path)
{
    uint32_t from = behind_me(node, path);
    if (from > 0 && is_lowest(node, path, from)) {
        COP__COUNT(node, stream_rings);
        cop__detach_send(node, network->number, network->parent, network->attempt);
        cop__orphan_begin(node, network);
        return;
    }
    if (from > 0)
        regeneration = 0;
    if (is_same(network, regeneration, path, from))
        return;
    network->path.count = 0;
    for (uint32_t i = from; i < path.count; i++)
        if (cop_ranks_push(&network->path, cop__listed_rank(path, i))) {
            cop__fail(node, COP_ENOMEM);
            return;
        }
    network->regeneration = regeneration;
    for (uint32_t i = 0; i < network->child_count && !node->failed; i++)
        cop__network_send_path(node, network, network->children[i].id);
}

void cop__on_path(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_path message;
    if (cop__decode_path(frame->payload->data, frame->payload->length, &message) ||
        message.path.count == 0 || message.path.count > COP_MEMBERS_MAX) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    if (cop__network_is_early(node, frame))
        return;
    struct cop__network *network = cop__network_find(node, message.network);
    if (!network || !network->adopted || network->parent != frame->header.sender)
        COP__COUNT(node, ignored_not_ancestor);
    else
        cop__network_set_path(node, network, message.regeneration, message.path);
}
