/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/state.h"

/* Looking in: for the explorer, for tests. */

static void digest_buf(struct cop__digest *digest, const struct cop_buf *buf)
{
    cop__digest_word(digest, buf != NULL);
    if (buf)
        cop__digest_bytes(digest, buf->data, buf->length);
}

static void digest_lives(struct cop__digest *digest, const struct cop__lives *lives)
{
    for (uint32_t i = 0; i < lives->count; i++) {
        cop__digest_word(digest,
                         (uint64_t)lives->items[i].first << 32 | lives->items[i].count);
        cop__digest_word(digest, lives->items[i].incarnation);
    }
}

static void digest_departed(struct cop__digest *digest, const struct cop__departed *set)
{
    cop__digest_word(digest, set->count);
    for (uint32_t i = 0; i < set->count; i++) {
        cop__digest_word(digest, set->items[i].leaf);
        cop__digest_word(digest, set->items[i].incarnation);
        cop__digest_word(digest, set->items[i].wave);
        digest_buf(digest, set->items[i].state);
    }
}

static void digest_slot(struct cop__digest *digest, const struct cop__stream_slot *slot)
{
    cop__digest_word(digest, (uint64_t)slot->id << 4 | (uint64_t)slot->heard << 3 |
                                 (uint64_t)slot->idle << 2 |
                                 (uint64_t)slot->doubled << 1 |
                                 (uint64_t)slot->partial);
    cop__digest_word(digest, slot->number);
    cop__digest_word(digest, slot->wave);
    cop__digest_word(digest, slot->got);
    cop__digest_word(digest, slot->credited);
    cop__digest_word(digest, slot->reached);
    digest_buf(digest, slot->state);
    digest_lives(digest, &slot->cover);
    digest_departed(digest, &slot->departed);
    cop__digest_word(digest, slot->value.wave);
    digest_buf(digest, slot->value.state);
    for (uint32_t i = 0; i < slot->pending_count; i++) {
        const struct cop__pending *pending = cop__slot_at(slot, i);
        cop__digest_word(digest, pending->wave << 1 | pending->whole);
        digest_buf(digest, pending->state);
        cop__digest_bytes(digest, cop__beside(pending).bytes, pending->beside);
        cop__digest_word(digest, pending->value.wave);
        digest_buf(digest, pending->value.state);
    }
}

static void digest_stream(struct cop__digest *digest, const struct cop__stream *stream)
{
    cop__digest_word(digest, stream->key);
    cop__digest_word(digest, stream->wave);
    cop__digest_word(
        digest, (uint64_t)stream->value_said << 10 | (uint64_t)stream->lean << 9 |
                    (uint64_t)stream->broken << 8 | (uint64_t)stream->made << 7 |
                    (uint64_t)stream->dirty << 6 | (uint64_t)stream->silent << 5 |
                    (uint64_t)stream->doubled << 4 | (uint64_t)stream->partial << 3 |
                    (uint64_t)stream->wants_room << 2 |
                    (uint64_t)stream->has_front << 1 | (uint64_t)stream->output_whole);
    cop__digest_word(digest, stream->mark);
    cop__digest_word(digest, stream->shown);
    cop__digest_word(digest, stream->taken);
    cop__digest_word(digest, stream->completed);
    cop__digest_word(digest, stream->down);
    cop__digest_word(digest, stream->down_mark);
    cop__digest_word(digest, stream->got_said << 2 | (uint64_t)stream->delivered << 1 |
                                 stream->front_is_new);
    digest_slot(digest, &stream->own);
    for (uint32_t i = 0; i < stream->slot_count; i++)
        digest_slot(digest, &stream->slots[i]);
    digest_buf(digest, stream->residue);
    digest_buf(digest, stream->state);
    digest_lives(digest, &stream->cover);
    digest_departed(digest, &stream->departed);
    digest_departed(digest, &stream->all_departed);
}

static void digest_network(struct cop__digest *digest,
                           const struct cop__network *network)
{
    cop__digest_word(digest, network->number);
    cop__digest_word(digest, (uint64_t)network->parent << 2 |
                                 (uint64_t)network->adopted << 1 |
                                 (uint64_t)network->is_root);
    cop__digest_word(digest, network->attempt);
    cop__digest_word(digest, network->regeneration);
    cop__digest_word(digest, (uint64_t)network->rounds << 1 | network->seeks_root);
    cop__digest_word(digest, network->former.id);
    cop__digest_word(digest, network->former.number);
    for (uint32_t i = 0; i < network->path.count; i++)
        cop__digest_word(digest, network->path.items[i]);
    for (uint32_t i = 0; i < network->tried.count; i++)
        cop__digest_word(digest, network->tried.items[i]);
    for (uint32_t i = 0; i < network->child_count; i++)
        cop__digest_word(digest, (uint64_t)network->children[i].id << 32 |
                                     network->children[i].number);
    for (uint32_t i = 0; i < network->report_count; i++)
        cop__digest_word(digest, (uint64_t)network->reports[i].id << 32 |
                                     network->reports[i].number);
    for (uint32_t i = 0; i < network->stream_count; i++)
        digest_stream(digest, network->streams[i]);
}

void cop__stream_digest(const struct cop_node *node, struct cop__digest *digest)
{
    const struct cop__streams *all = cop__streams(node);
    for (uint32_t i = 0; i < all->count; i++)
        digest_network(digest, all->networks[i]);
    for (uint32_t i = 0; i < all->closed_count; i++) {
        cop__digest_word(digest, all->closed[i].name);
        cop__digest_word(digest, (uint64_t)-all->closed[i].why);
    }
}

/* ---- invariants ------------------------------------------------------------------ */

static const char *check_slot(const struct cop__stream *stream,
                              const struct cop__stream_slot *slot)
{
    uint64_t wave = slot->wave;
    if (slot->pending_count > stream->window)
        return "stream: more waves wait than the window has";
    if (slot->pending_count > 0 && !slot->heard)
        return "stream: waves wait without a state";
    for (uint32_t i = 0; i < slot->pending_count; i++) {
        if (cop__slot_at(slot, i)->wave <= wave)
            return "stream: waves that wait do not ascend";
        wave = cop__slot_at(slot, i)->wave;
    }
    return NULL;
}

static const char *check_stream(const struct cop__network *network,
                                const struct cop__stream *stream)
{
    const char *wrong = check_slot(stream, &stream->own);
    if (stream->slot_count != network->child_count)
        return "stream: not one slot for each child";
    for (uint32_t i = 0; i < stream->slot_count && !wrong; i++) {
        wrong = check_slot(stream, &stream->slots[i]);
        if (stream->slots[i].id != network->children[i].id ||
            stream->slots[i].number != network->children[i].number)
            wrong = "stream: a slot of another child";
    }
    if (stream->packet_count > 0 &&
        (stream->packets[0].number <= stream->down_mark ||
         stream->packets[stream->packet_count - 1].number != stream->down))
        wrong = "stream: keeps other packets than those that somebody may need";
    if (!cop__timer_is_running(&stream->hold.timer) &&
        (cop__stream_owes_reached(stream) ||
         (!network->is_root && cop__stream_owes_got(stream))))
        wrong = "stream: a mark waits without a deadline";
    return wrong;
}

static const char *check_network(const struct cop_node *node,
                                 const struct cop__network *network)
{
    if (network->is_root && network->parent != COP_ID_NONE)
        return "stream: a root with a parent";
    if (network->parent != COP_ID_NONE && !cop__is_watched(node, network->parent))
        return "stream: a parent is not watched";
    if (!network->is_root && !network->adopted &&
        !cop__timer_is_running(&network->timer.timer))
        return "stream: an orphan that waits without a deadline";
    for (uint32_t i = 0; i < network->child_count; i++)
        if (!cop__is_watched(node, network->children[i].id))
            return "stream: a child is not watched";
    for (uint32_t i = 0; i < network->stream_count; i++) {
        const char *wrong = check_stream(network, network->streams[i]);
        if (wrong)
            return wrong;
    }
    return network->stream_count ? NULL : "stream: a network without streams";
}

const char *cop__stream_check(const struct cop_node *node)
{
    const struct cop__streams *all = cop__streams(node);
    for (uint32_t i = 0; i < all->count; i++) {
        const char *wrong = check_network(node, all->networks[i]);
        if (wrong)
            return wrong;
    }
    return NULL;
}

/* ---- memory ---------------------------------------------------------------------- */

static size_t bytes_of(const struct cop_buf *buf) { return buf ? buf->length : 0; }

static size_t slot_bytes(const struct cop__stream_slot *slot)
{
    size_t sum = slot->pending_capacity * sizeof *slot->pending +
                 slot->cover.capacity * sizeof(struct cop__range) +
                 slot->departed.capacity * sizeof(struct cop__gone_leaf);
    for (uint32_t i = 0; i < slot->pending_count; i++) {
        const struct cop__pending *pending = cop__slot_at(slot, i);
        sum +=
            pending->state->length + pending->beside + bytes_of(pending->value.state);
    }
    return sum + bytes_of(slot->state) + bytes_of(slot->value.state);
}

static size_t stream_bytes(const struct cop__stream *stream)
{
    size_t sum = sizeof *stream + slot_bytes(&stream->own) +
                 stream->slot_capacity * sizeof *stream->slots +
                 stream->packet_capacity * sizeof *stream->packets;
    for (uint32_t i = 0; i < stream->slot_count; i++)
        sum += slot_bytes(&stream->slots[i]);
    for (uint32_t i = 0; i < stream->packet_count; i++)
        sum += stream->packets[i].bytes->length;
    if (stream->way)
        sum += sizeof *stream->way + stream->way->ready->length +
               stream->way->places.count * sizeof(cop_rank);
    return sum;
}

size_t cop__stream_bytes(const struct cop_node *node)
{
    const struct cop__streams *all = cop__streams(node);
    size_t sum = all->capacity * sizeof(struct cop__network *);
    for (uint32_t i = 0; i < all->count; i++) {
        const struct cop__network *network = all->networks[i];
        sum += sizeof *network + network->child_capacity * sizeof *network->children +
               network->report_capacity * sizeof *network->reports +
               network->stream_capacity * sizeof(struct cop__stream *);
        for (uint32_t j = 0; j < network->stream_count; j++)
            sum += stream_bytes(network->streams[j]);
    }
    return sum;
}

/* ---- for those outside ----------------------------------------------------------- */

int cop_node_stream(const struct cop_node *node, uint64_t number,
                    struct cop_stream_info *out)
{
    const struct cop__stream *stream =
        cop__has_views(node) ? cop__stream_find(node, number) : NULL;
    if (!stream)
        return COP_ENOENT;
    const struct cop__network *network = stream->network;
    *out = (struct cop_stream_info){
        .filter = stream->filter,
        .down_filter = stream->way ? stream->way->filter : NULL,
        .type = stream->type,
        .definition = stream->definition,
        .key = stream->key,
        .empty = stream->empty,
        .recovery = network->recovery,
        .wave = stream->wave,
        .mark = stream->mark,
        .given = stream->own.pending_count
                     ? cop__slot_at(&stream->own, stream->own.pending_count - 1)->wave
                     : stream->own.wave,
        .parent = network->adopted ? network->parent : COP_ID_NONE,
        .root = network->is_root,
        .attached = cop__network_is_attached(node, network),
        .children = network->child_count,
        .window = stream->window,
        .departed = stream->all_departed.count,
        .kept = stream->packet_count,
        .down = stream->down,
    };
    for (uint32_t i = 0; i < stream->slot_count; i++)
        if (stream->slots[i].pending_count > out->queued)
            out->queued = stream->slots[i].pending_count;
    return 0;
}

int cop_node_departed(const struct cop_node *node, uint64_t number, uint32_t i,
                      struct cop_departed *out)
{
    const struct cop__stream *stream =
        cop__has_views(node) ? cop__stream_find(node, number) : NULL;
    if (!stream || i >= stream->all_departed.count)
        return COP_ENOENT;
    const struct cop__gone_leaf *leaf = &stream->all_departed.items[i];
    *out =
        (struct cop_departed){leaf->leaf, leaf->incarnation, leaf->wave, leaf->state};
    return 0;
}
