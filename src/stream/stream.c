/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/state.h"

#include "roster/roster.h"

#include <stdlib.h>

/* ---- finding --------------------------------------------------------------------- */

struct cop__stream *cop__stream_find(const struct cop_node *node, uint64_t number)
{
    const struct cop__streams *all = cop__streams(node);
    for (uint32_t i = 0; i < all->count; i++) {
        const struct cop__network *network = all->networks[i];
        uint32_t low = 0, high = network->stream_count;
        while (low < high) {
            uint32_t middle = low + (high - low) / 2;
            if (network->streams[middle]->number < number)
                low = middle + 1;
            else
                high = middle;
        }
        if (low < network->stream_count && network->streams[low]->number == number)
            return network->streams[low];
    }
    return NULL;
}

struct cop__stream *cop__stream_named(const struct cop_node *node, uint64_t key)
{
    const struct cop__streams *all = cop__streams(node);
    for (uint32_t i = 0; i < all->count; i++)
        for (uint32_t j = 0; j < all->networks[i]->stream_count; j++)
            if (all->networks[i]->streams[j]->key == key)
                return all->networks[i]->streams[j];
    return NULL;
}

bool cop__stream_was_closed(const struct cop_node *node, uint64_t number)
{
    const struct cop__streams *all = cop__streams(node);
    for (uint32_t i = 0; i < all->closed_count; i++)
        if (all->closed[i].name == number)
            return true;
    return false;
}

/* ---- requests -------------------------------------------------------------------- */

/* As the front-end planned it, or as it would be here. */
static int define(const struct cop_node *node, const struct cop_request *request,
                  struct cop_buf **out)
{
    struct cop__opening opening = {request->stream, request->member,
                                   request->incarnation};
    const struct cop_buf *said = request->stream->definition;
    int error = 0;
    if (said)
        *out = cop_buf_copy(said->data, said->length);
    else
        error = cop__stream_define(node, &opening, out);
    if (error || !*out)
        return error ? error : COP_ENOMEM;
    if (cop__stream_has_room(node, (*out)->length, COP__DEFINED_MAX))
        return 0;
    cop_buf_unref(*out);
    return COP_ETOOBIG;
}

/* T1: the stream is opened here, and in all members as they hear of it. */
static int open_new(struct cop_node *node, const struct cop_request *request,
                    struct cop__stream **out)
{
    struct cop_buf *definition = NULL;
    uint64_t number;
    struct cop_shape shape;
    int error = define(node, request, &definition);
    if (error)
        return error;
    struct cop__stream *stream = cop__stream_make(
        node, (struct cop__bytes){definition->data, definition->length}, &number,
        &shape);
    cop_buf_unref(definition);
    if (stream && stream->number != request->stream->number) {
        cop__stream_free(node, stream);
        stream = NULL;
    }
    if (!stream)
        return node->failed ? node->failed : COP_EINVAL; /* not for that type */
    if (cop__stream_was_closed(node, stream->key)) {
        cop__stream_free(node, stream);
        return COP_EEXIST;
    }
    struct cop__network *network = cop__network_find(node, number);
    bool first = !network;
    if (first)
        network = cop__network_make(node, number, &shape);
    if (!network) {
        cop__stream_free(node, stream);
        return COP_ENOMEM;
    }
    cop__network_add(node, network, stream, NULL, COP_ID_NONE);
    if (first && !node->failed) {
        cop__network_root(node, network);
        cop__network_spread(node, network);
    }
    *out = stream;
    return node->failed;
}

static int open_stream(struct cop_node *node, const struct cop_request *request)
{
    const struct cop_stream_options *options = request->stream;
    if (!options || options->number == 0)
        return COP_EINVAL;
    if (cop_view_root(node->view) != node->self)
        return COP_ESTATE;
    if (cop__stream_was_closed(node, options->number))
        return COP_EEXIST;
    struct cop__stream *stream = cop__stream_find(node, options->number);
    /* Of another one it was that it has taken something. */
    bool counts = !stream || !options->definition ||
                  cop__stream_is_defined(stream, options->definition);
    if (!stream) {
        int error = open_new(node, request, &stream);
        if (error)
            return error;
    }
    cop__emit_complete(node, request->token, 0, NULL);
    cop__front_attach(node, stream, counts ? request->wave : 0,
                      counts ? request->reached : 0);
    return 0;
}

static int close_stream(struct cop_node *node, struct cop__stream *stream,
                        const struct cop_request *request)
{
    bool goes =
        request->kind == COP_REQUEST_STREAM_CLOSE || !(stream->flags & COP_STREAM_KEEP);
    stream->has_front = false;
    if (goes)
        cop__network_close(node, stream, COP_ID_NONE);
    cop__emit_complete(node, request->token, 0, NULL);
    return 0;
}

static int send_down(struct cop_node *node, struct cop__stream *stream,
                     const struct cop_request *request)
{
    if (request->length > COP_STREAM_PACKET_MAX)
        return COP_EINVAL;
    /* T15: it begins with the first that has not come to all; of those before this root, if it
     * is a new life, may hear from nobody. */
    if (stream->front_is_new && request->wave > stream->down + 1)
        cop__stream_set_mark(node, stream, stream->mark, request->wave - 1);
    stream->front_is_new = false;
    if (request->wave <= stream->down)
        return 0;
    /* A root that is a new life has yet to hear from those below how far they are. */
    if (stream->packet_count >= stream->window ||
        stream->down >= stream->down_mark + stream->window ||
        request->wave > stream->down + 1)
        return COP_EAGAIN;
    struct cop_buf *bytes = cop_buf_copy(request->bytes, request->length);
    if (bytes)
        cop__stream_down(node, stream, request->wave, bytes);
    else
        cop__fail(node, COP_ENOMEM);
    cop_buf_unref(bytes);
    return 0;
}

static int on_submit(struct cop_node *node, const struct cop_request *request)
{
    if (request->kind < COP_REQUEST_STREAM_OPEN ||
        request->kind > COP_REQUEST_STREAM_DETACH)
        return COP_ENOENT;
    if (!cop_node_is_member(node))
        return COP_ESTATE;
    if (request->kind == COP_REQUEST_STREAM_OPEN)
        return open_stream(node, request);
    struct cop__stream *stream = cop__stream_find(node, request->group);
    if (!stream)
        return COP_ESTATE;
    if (request->kind == COP_REQUEST_STREAM_PUT)
        return request->length > COP_STREAM_PACKET_MAX
                   ? COP_EINVAL
                   : cop__stream_put(node, stream, request);
    if (!stream->has_front)
        return COP_ESTATE;
    if (request->kind == COP_REQUEST_STREAM_SEND)
        return send_down(node, stream, request);
    if (request->kind == COP_REQUEST_STREAM_TAKEN) {
        /* Not the last output: that may have gone back when somebody was lost. */
        uint64_t taken = request->wave < stream->shown ? request->wave : stream->shown;
        if (taken > stream->taken)
            stream->taken = taken;
        cop__front_release(node, stream);
        return 0;
    }
    return close_stream(node, stream, request);
}

/* ---- the layer ------------------------------------------------------------------- */

static void on_view(struct cop_node *node, const struct cop_view *old)
{
    struct cop__streams *all = cop__streams(node);
    (void)old;
    all->moved = true;
    for (uint32_t i = 0; i < all->count; i++)
        for (uint32_t j = 0; j < all->networks[i]->stream_count; j++)
            all->networks[i]->streams[j]->is_surveyed = false;
    cop__notice(node, COP__SLOT_STREAM);
}

static void on_change(struct cop_node *node, const struct cop__change *change)
{
    if (change->kind == COP__CHANGE_RESTATED)
        return;
    cop__streams(node)->disturbed = true;
    cop__notice(node, COP__SLOT_STREAM);
}

/* Whether all are there depends on the view. */
static void look_again(struct cop_node *node, struct cop__network *network)
{
    for (uint32_t i = 0; i < network->stream_count && !node->failed; i++) {
        network->streams[i]->dirty = true;
        cop__stream_advance(node, network->streams[i]);
    }
}

/* T19: what does not survive a loss ends with the view. The last takes its network with it. */
static void end_fragile_of(struct cop_node *node, struct cop__network *network)
{
    for (uint32_t i = network->stream_count; i-- > 0 && !node->failed;) {
        struct cop__stream *stream = network->streams[i];
        bool is_last = network->stream_count == 1;
        if (!cop__stream_is_fragile(stream))
            continue;
        stream->status = COP_ELOST;
        cop__network_close(node, stream, COP_ID_NONE);
        if (is_last)
            return;
    }
}

/* The root may have made its network in the very view that comes to me only now (T10). */
static void end_fragile(struct cop_node *node)
{
    struct cop__streams *all = cop__streams(node);
    for (uint32_t i = all->count; i-- > 0 && !node->failed;)
        if (cop_view_epoch(node->view) >= all->networks[i]->regeneration)
            end_fragile_of(node, all->networks[i]);
}

static void settle(struct cop_node *node)
{
    struct cop__streams *all = cop__streams(node);
    if (all->moved)
        end_fragile(node);
    while ((all->moved || all->disturbed) && !node->failed) {
        bool moved = all->moved;
        all->moved = all->disturbed = false;
        for (uint32_t i = 0; i < all->count && !node->failed; i++) {
            struct cop__network *network = all->networks[i];
            cop__network_survey(node, network);
            if (moved && network->is_root) {
                look_again(node, network);
                cop__front_seek(node, network);
            } else if (moved && network->parent == COP_ID_NONE && !node->failed) {
                cop__orphan_begin(node, network);
            }
        }
    }
}

static void fini(struct cop_node *node)
{
    struct cop__streams *all = cop__streams(node);
    for (uint32_t i = 0; i < all->count; i++)
        cop__network_free(node, all->networks[i]);
    free(all->networks);
    free(all->closed);
}

const struct cop__layer cop__stream_layer = {
    .name = "stream",
    .size = sizeof(struct cop__streams),
    .for_views = true,
    .fini = fini,
    .on_view = on_view,
    .on_change = on_change,
    .settle = settle,
    .on_submit = on_submit,
    .digest = cop__stream_digest,
    .check = cop__stream_check,
    .bytes = cop__stream_bytes,
};
