/* SPDX-License-Identifier: Apache-2.0 */
#include "node/node.h"

#include "view/view.h"
#include "wire/header.h"

#include <stdlib.h>
#include <string.h>

/* ---- life ------------------------------------------------------------------------ */

static size_t round_up(size_t size)
{
    const size_t unit = _Alignof(max_align_t);
    return (size + unit - 1) / unit * unit;
}

/* A node whose view is fixed does without what makes views. */
static bool is_left_out(const struct cop__layer *layer, enum cop_quorum quorum)
{
    return layer->for_views && quorum == COP_QUORUM_FIXED;
}

static size_t block_size(const struct cop__stack *stack, enum cop_quorum quorum)
{
    size_t size = round_up(sizeof(struct cop_node));
    for (int slot = 0; slot < COP__SLOTS; slot++)
        if (!is_left_out(stack->layers[slot], quorum))
            size += round_up(stack->layers[slot]->size);
    return size;
}

static bool config_is_possible(const struct cop_config *config)
{
    cop_incarnation known = cop_view_incarnation(config->view, config->self);
    if (config->quorum == COP_QUORUM_FIXED)
        return known != 0 && config->incarnation >= known;
    return config->self < COP_MEMBERS_MAX && config->incarnation != 0 &&
           config->incarnation >= known && config->quorum <= COP_QUORUM_NONE &&
           config->detect.witnesses <= COP_WITNESSES_MAX &&
           (!config->name || strlen(config->name) <= COP_NAME_MAX) &&
           (!config->address || strlen(config->address) <= COP_ADDRESS_MAX);
}

static void free_settings(struct cop__settings *settings)
{
    if (!settings)
        return;
    cop_ranks_free(&settings->quorum_ids);
    cop_buf_unref(settings->card);
    free(settings);
}

/* Without a name or an address of its own a member keeps the one that the view has. */
static struct cop_buf *make_card(const struct cop_config *config)
{
    struct cop_member known = {.name = "", .address = ""};
    if (cop_view_member(config->view, config->self, &known))
        known.name = known.address = "";
    const char *name = config->name ? config->name : known.name;
    const char *address = config->address ? config->address : known.address;
    return cop__card(name, config->name ? strlen(name) : known.name_length, address,
                     config->address ? strlen(address) : known.address_length);
}

static struct cop__settings *make_settings(const struct cop_config *config)
{
    struct cop__settings *settings = calloc(1, sizeof *settings);
    if (!settings)
        return NULL;
    settings->spare = config->spare;
    settings->guard = config->guard;
    settings->detect = config->detect;
    settings->operations = config->operations;
    settings->operation_count = config->operation_count;
    settings->filters = config->filters;
    settings->filter_count = config->filter_count;
    settings->views = config->views;
    settings->card = make_card(config);
    int error = settings->card ? 0 : COP_ENOMEM;
    for (uint32_t i = 0; i < config->quorum_count && !error; i++)
        error = cop_ranks_push(&settings->quorum_ids, config->quorum_ids[i]);
    if (error) {
        free_settings(settings);
        return NULL;
    }
    return settings;
}

int cop__node_create(const struct cop_config *config, const struct cop__stack *stack,
                     struct cop_node **out)
{
    if (!config_is_possible(config))
        return COP_EINVAL;
    struct cop_node *node = calloc(1, block_size(stack, config->quorum));
    if (!node)
        return COP_ENOMEM;
    node->quorum = config->quorum;
    if (cop__has_views(node)) {
        node->settings = make_settings(config);
        if (!node->settings) {
            free(node);
            return COP_ENOMEM;
        }
    }
    node->stack = stack;
    node->self = config->self;
    node->rank = config->self;
    node->incarnation = config->incarnation;
    node->view = cop_view_ref(config->view);
    node->stats = config->stats;
    node->now = config->now;
    node->settle_at = COP_TIME_NEVER;
    cop__timers_init(&node->timers);
    size_t offset = round_up(sizeof *node);
    for (int slot = 0; slot < COP__SLOTS; slot++) {
        node->offsets[slot] = (uint16_t)offset;
        if (!is_left_out(stack->layers[slot], config->quorum))
            offset += round_up(stack->layers[slot]->size);
    }
    *out = node;
    return 0;
}

void cop_node_destroy(struct cop_node *node)
{
    if (!node)
        return;
    for (int slot = COP__SLOTS - 1; slot >= 0; slot--)
        if (node->stack->layers[slot]->fini &&
            !is_left_out(node->stack->layers[slot], node->quorum))
            node->stack->layers[slot]->fini(node);
    free(node->watches);
    free(node->detours);
    free_settings(node->settings);
    cop_view_unref(node->view);
    free(node);
}

void *cop__layer_state(const struct cop_node *node, enum cop__slot slot)
{
    return (char *)(uintptr_t)node + node->offsets[slot];
}

void cop__fail(struct cop_node *node, int error)
{
    if (!node->failed)
        node->failed = error;
}

/* ---- telling the layers ---------------------------------------------------------- */

#define EACH_LAYER(node, layer)                                                        \
    for (const struct cop__layer *const *at_ = (node)->stack->layers, *layer;          \
         at_ < (node)->stack->layers + COP__SLOTS && (layer = *at_, true); at_++)      \
        if (!is_left_out(layer, (node)->quorum))

void cop__tell_change(struct cop_node *node, const struct cop__change *change)
{
    EACH_LAYER(node, layer)
    if (layer->on_change)
        layer->on_change(node, change);
}

void cop__tell_detour(struct cop_node *node, cop_id peer)
{
    EACH_LAYER(node, layer)
    if (layer->on_detour)
        layer->on_detour(node, peer);
}

static void tell_peer_up(struct cop_node *node, cop_id peer,
                         cop_incarnation incarnation)
{
    EACH_LAYER(node, layer)
    if (layer->on_peer_up)
        layer->on_peer_up(node, peer, incarnation);
}

static void tell_peer_down(struct cop_node *node, cop_id peer,
                           cop_incarnation incarnation, enum cop_down why)
{
    EACH_LAYER(node, layer)
    if (layer->on_peer_down)
        layer->on_peer_down(node, peer, incarnation, why);
}

void cop__set_view(struct cop_node *node, struct cop_view *view, bool installed)
{
    struct cop_view *old = node->view;
    node->view = view;
    cop__detour_prune(node);
    if (installed)
        cop__emit_view(node);
    EACH_LAYER(node, layer)
    if (layer->on_view)
        layer->on_view(node, old);
    cop_view_unref(old);
}

static void start(struct cop_node *node)
{
    node->started = true;
    EACH_LAYER(node, layer)
    if (layer->start)
        layer->start(node);
}

/* What makes room is taken even when there is none. */
static bool ends_something(enum cop_request_kind kind)
{
    return kind == COP_REQUEST_ABORT || kind == COP_REQUEST_CHECKED ||
           kind == COP_REQUEST_REPLY || kind == COP_REQUEST_RESOLVED ||
           kind == COP_REQUEST_UNSERVICE || kind == COP_REQUEST_TAKEN ||
           kind == COP_REQUEST_GIVE;
}

/* Of collectives only one layer knows: what it does not find is not there. */
static bool is_collective(enum cop_request_kind kind)
{
    return (kind >= COP_REQUEST_SERVICE && kind <= COP_REQUEST_RESOLVED) ||
           kind == COP_REQUEST_TAKEN || kind == COP_REQUEST_GIVE;
}

static int submit(struct cop_node *node, const struct cop_request *request)
{
    const struct cop__layer *coll = node->stack->layers[COP__SLOT_COLL];
    if (node->congested && !ends_something(request->kind))
        return COP_EAGAIN;
    if (is_collective(request->kind))
        return coll->on_submit ? coll->on_submit(node, request) : COP_ENOENT;
    EACH_LAYER(node, layer)
    {
        int error = layer->on_submit ? layer->on_submit(node, request) : COP_ENOENT;
        if (error != COP_ENOENT)
            return error;
    }
    return COP_EINVAL;
}

/* ---- frames ---------------------------------------------------------------------- */

/* Rule N1: a frame is judged before any handler sees it, and each way to be wrong
 * counts. */
static bool ignore_frame(struct cop_node *node, cop_id peer,
                         const struct cop_header *header)
{
    if (header->receiver != node->self ||
        header->receiver_incarnation != node->incarnation) {
        COP__COUNT(node, ignored_receiver);
        return true;
    }
    if (header->sender != peer || header->sender == node->self ||
        (!cop__has_views(node) &&
         cop_view_rank(node->view, header->sender) == COP_RANK_NONE)) {
        COP__COUNT(node, ignored_stranger);
        return true;
    }
    if (!cop__has_views(node) && header->epoch != cop_view_epoch(node->view)) {
        COP__COUNT(node, ignored_epoch);
        return true;
    }
    return false;
}

void cop__take_frame(struct cop_node *node, const struct cop_frame *frame)
{
    enum cop__kind_index index = cop__kind_index(frame->header.kind);
    cop__handler *handler = index < COP__KINDS ? node->stack->handlers[index] : NULL;
    if (!handler)
        COP__COUNT(node, ignored_kind);
    else if (!frame->payload)
        COP__COUNT(node, ignored_malformed); /* every kind that is handled has one */
    else if (node->stack->admit(node, frame))
        handler(node, frame);
}

void cop__take_again(struct cop_node *node, const struct cop_frame *frame)
{
    node->again = true;
    cop__take_frame(node, frame);
    node->again = false;
}

void cop__judge_frame(struct cop_node *node, cop_id peer, const struct cop_frame *frame)
{
    if (!ignore_frame(node, peer, &frame->header))
        cop__take_frame(node, frame);
}

static void on_recv(struct cop_node *node, cop_id peer, const struct cop_frame *frame)
{
    const struct cop_header *header = &frame->header;
    enum cop__kind_index index = cop__kind_index(header->kind);
    if (node->stats && index < COP__KINDS) {
        node->stats->received[index]++;
        node->stats->received_bytes += COP__HEADER_SIZE + header->length;
    }
    if (header->kind != COP__KIND_RELAY)
        cop__detour_end(node, peer);
    cop__judge_frame(node, peer, frame);
}

/* ---- steps ----------------------------------------------------------------------- */

/* What is due is fixed before the first timer fires: one that is started meanwhile
 * waits. */
static void fire_timers(struct cop_node *node)
{
    uint64_t limit = cop__timers_limit(&node->timers);
    struct cop__timer *timer;
    while ((timer = cop__timers_pop(&node->timers, node->now, limit)) != NULL) {
        struct cop__node_timer *due = (struct cop__node_timer *)(void *)timer;
        due->fire(node, due);
    }
}

static int take_event(struct cop_node *node, const struct cop_event *event)
{
    switch (event->kind) {
    case COP_EVENT_RECV:
        on_recv(node, event->peer, event->frame);
        return 0;
    case COP_EVENT_TICK:
        fire_timers(node);
        return 0;
    case COP_EVENT_PEER_UP:
        cop__detour_end(node, event->peer);
        tell_peer_up(node, event->peer, event->incarnation);
        return 0;
    case COP_EVENT_PEER_DOWN:
        tell_peer_down(node, event->peer, event->incarnation, event->why);
        return 0;
    case COP_EVENT_SUBMIT:
        return submit(node, event->request);
    case COP_EVENT_SENT:
        node->congested = event->backlog_bytes > COP_BACKLOG_MAX;
        return 0;
    }
    return COP_EINVAL;
}

/*
 * Lowest first, each once. What a higher layer makes a lower one notice waits for the next
 * step.
 */
static void settle(struct cop_node *node)
{
    if (node->now >= node->settle_at)
        cop__notice(node, COP__SLOT_DETECT);
    for (unsigned slot = 0; node->noticed >> slot != 0; slot++) {
        const struct cop__layer *layer = node->stack->layers[slot];
        if (!((unsigned)node->noticed >> slot & 1u))
            continue;
        node->noticed &= (uint16_t) ~(1u << slot);
        if (layer->settle && (cop__has_views(node) || layer->settles_always))
            layer->settle(node);
    }
}

int cop_step(struct cop_node *node, const struct cop_event *event,
             struct cop_effects *effects)
{
    cop_effects_clear(effects);
    if (node->failed)
        return node->failed;
    /* A driver's clock may stand still, but for the node time never goes back. */
    if (event->now > node->now)
        node->now = event->now;
    node->effects = effects;
    COP__COUNT(node, steps);
    if (!node->started)
        start(node);
    int error = take_event(node, event);
    if (!node->failed)
        settle(node);
    node->effects = NULL;
    if (node->failed) {
        cop_effects_clear(effects);
        return node->failed;
    }
    return error;
}

cop_time cop_deadline(const struct cop_node *node)
{
    if (node->failed)
        return COP_TIME_NEVER;
    return node->started ? cop__timers_deadline(&node->timers) : 0;
}

void cop__timer_set(struct cop_node *node, struct cop__node_timer *timer,
                    cop_time deadline)
{
    cop__timer_start(&node->timers, &timer->timer, deadline);
}

void cop__timer_cancel(struct cop_node *node, struct cop__node_timer *timer)
{
    cop__timer_stop(&node->timers, &timer->timer);
}

/* ---- questions ------------------------------------------------------------------- */

cop_id cop_node_id(const struct cop_node *node) { return node->self; }

cop_incarnation cop_node_incarnation(const struct cop_node *node)
{
    return node->incarnation;
}

const struct cop_view *cop_node_view(const struct cop_node *node) { return node->view; }

uint64_t cop_node_digest(const struct cop_node *node)
{
    struct cop__digest digest;
    cop__digest_init(&digest);
    cop__digest_word(&digest, node->self);
    cop__digest_word(&digest, node->incarnation);
    cop__digest_word(&digest, (uint64_t)node->started | (uint64_t)node->congested << 1);
    for (uint32_t i = 0; i < node->watch_count; i++) {
        cop__digest_word(&digest, node->watches[i].peer);
        cop__digest_word(&digest, node->watches[i].count);
    }
    for (uint32_t i = 0; i < node->detour_count; i++)
        cop__digest_word(&digest,
                         (uint64_t)node->detours[i].peer << 32 | node->detours[i].via);
    EACH_LAYER(node, layer)
    if (layer->digest)
        layer->digest(node, &digest);
    return cop__digest_value(&digest);
}

const char *cop_node_check(const struct cop_node *node)
{
    for (uint32_t i = 0; i < node->watch_count; i++) {
        if (node->watches[i].count == 0)
            return "node: a watch that nobody holds is kept";
        if (i > 0 && node->watches[i - 1].peer >= node->watches[i].peer)
            return "node: watches are not sorted";
    }
    EACH_LAYER(node, layer)
    {
        const char *wrong = layer->check ? layer->check(node) : NULL;
        if (wrong)
            return wrong;
    }
    return NULL;
}

size_t cop_node_bytes(const struct cop_node *node)
{
    size_t bytes = block_size(node->stack, node->quorum) +
                   node->watch_capacity * sizeof *node->watches +
                   node->detour_capacity * sizeof *node->detours;
    EACH_LAYER(node, layer)
    if (layer->bytes)
        bytes += layer->bytes(node);
    return bytes;
}
