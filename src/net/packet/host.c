/* SPDX-License-Identifier: Apache-2.0 */
#include "net/packet/host.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "net/packet/pair.h"

#define HELLO_TIMEOUT (10 * COP_SEC)
#define BARE_BYTES 20u
/* More than CLOCK_MONOTONIC_COARSE is ever behind: two ticks of the slowest kernel. */
#define COARSE_LAG (20 * COP_MSEC)

/* Another process; made when it is first spoken of. */
struct peer {
    cop_id id;
    struct cop__pair pair;
    cop_incarnation life; /* that the node was told of; 0: it was told of none */
    cop_time asked_until; /* HELLO was sent, and an answer is awaited; or NEVER */
    uint8_t owed;         /* bit by enum cop__packet_kind: bare packets to be sent */
    bool is_broken;       /* what came of it cannot be read: nothing more is */
    bool is_overrun;      /* more waits for it than may: to be given up */
    bool is_gone;         /* no view has it */
    bool is_listed;       /* has something to send */
    struct peer *next;    /* in the list of those */
};

/* Effects for the application, and frames to ourselves. First in, first out. */
struct effects_ring {
    struct cop_effect *items;
    uint32_t capacity, first, count;
};

struct cop__host {
    struct cop__host_config config;
    struct cop_node *node;
    struct cop_effects effects;
    struct cop_view *view; /* the one before, to see who has gone */
    struct peer **peers;   /* by id */
    uint32_t peer_count;   /* slots */
    struct peer *listed;
    struct effects_ring told, mine;
    struct effects_ring telling; /* those that the application is just told, or empty */
    cop_time now; /* of what is being done: the clock is read once for it */
    struct cop__host_stats stats;
    uint64_t backlog;
    cop_time next_hello; /* no answer is due before this */
    bool is_busy, is_choked, is_started;
    int failure;
};

static cop_time read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (cop_time)now.tv_sec * COP_SEC + (cop_time)now.tv_nsec;
}

cop_time cop__host_now(void) { return read_clock(CLOCK_MONOTONIC); }

static void look_at_clock(struct cop__host *host) { host->now = cop__host_now(); }

static void fail(struct cop__host *host, int error)
{
    if (host->failure == 0)
        host->failure = error;
}

/* ---- rings of effects ------------------------------------------------------------ */

static int ring_push(struct effects_ring *ring, const struct cop_effect *effect)
{
    if (ring->count == ring->capacity) {
        uint32_t capacity = ring->capacity ? 2 * ring->capacity : 8;
        struct cop_effect *items = calloc(capacity, sizeof *items);
        if (!items)
            return COP_ENOMEM;
        for (uint32_t i = 0; i < ring->count; i++)
            items[i] = ring->items[(ring->first + i) & (ring->capacity - 1)];
        free(ring->items);
        ring->items = items;
        ring->capacity = capacity;
        ring->first = 0;
    }
    struct cop_effect *slot =
        &ring->items[(ring->first + ring->count++) & (ring->capacity - 1)];
    *slot = *effect;
    cop_buf_ref(slot->result);
    cop_buf_ref(slot->frame.payload);
    if (slot->view)
        cop_view_ref(slot->view);
    return 0;
}

static bool ring_pop(struct effects_ring *ring, struct cop_effect *out)
{
    if (ring->count == 0)
        return false;
    *out = ring->items[ring->first];
    ring->first = (ring->first + 1) & (ring->capacity - 1);
    ring->count--;
    return true;
}

static void release(struct cop_effect *effect)
{
    cop_buf_unref(effect->result);
    cop_buf_unref(effect->frame.payload);
    cop_view_unref(effect->view);
}

static void ring_fini(struct effects_ring *ring)
{
    struct cop_effect effect;
    while (ring_pop(ring, &effect))
        release(&effect);
    free(ring->items);
}

/* ---- peers ----------------------------------------------------------------------- */

/* NULL: no memory, and the node has ended; or there is no such process. */
static struct peer *get_peer(struct cop__host *host, cop_id id)
{
    if (id >= host->peer_count)
        return NULL;
    struct peer *peer = host->peers[id];
    if (peer)
        return peer;
    peer = calloc(1, sizeof *peer);
    if (!peer) {
        fail(host, COP_ENOMEM);
        return NULL;
    }
    peer->id = id;
    peer->asked_until = COP_TIME_NEVER;
    cop__pair_init(&peer->pair);
    peer->pair.fetch_least = host->config.carrier.fetch_least;
    peer->pair.queue_max = host->config.queue_max;
    host->peers[id] = peer;
    return peer;
}

static void list(struct cop__host *host, struct peer *peer)
{
    if (peer->is_listed)
        return;
    peer->is_listed = true;
    peer->next = host->listed;
    host->listed = peer;
}

static void owe(struct cop__host *host, struct peer *peer, enum cop__packet_kind kind)
{
    peer->owed |= (uint8_t)(1u << kind);
    list(host, peer);
}

/* What others have fetched, or will not fetch, is nobody's to read any more. */
static void conceal_released(struct cop__host *host, struct peer *peer)
{
    struct cop__offer offer;
    while (cop__pair_next_released(&peer->pair, &offer)) {
        host->config.carrier.conceal(host->config.carrier_context, offer.region);
        cop_buf_unref(offer.payload);
    }
}

static void withdraw(struct cop__host *host, struct peer *peer)
{
    cop__pair_withdraw(&peer->pair);
    conceal_released(host, peer);
}

/* What cannot be sent breaks the numbers, and what cannot be read is no stream of frames: this
 * peer is never spoken to again. */
static void break_off(struct cop__host *host, struct peer *peer, enum cop_down why)
{
    peer->is_broken = true;
    peer->owed = 0;
    host->backlog -= peer->pair.queued_bytes;
    withdraw(host, peer);
    cop__pair_fini(&peer->pair);
    cop__host_lost(host, peer->id, why);
}

static void send_packet(struct cop__host *host, struct peer *peer, uint8_t *packet,
                        size_t length)
{
    int error = host->config.carrier.send(host->config.carrier_context, peer->id,
                                          packet, length);
    host->stats.sent++;
    if (error == COP_ELOST)
        break_off(host, peer, COP_DOWN_SILENT);
    else if (error)
        fail(host, error);
}

static void send_bare(struct cop__host *host, struct peer *peer, uint8_t *packet)
{
    enum cop__packet_kind kind = COP__PACKET_CREDIT;
    while (!(peer->owed & 1u << kind))
        kind++;
    peer->owed &= (uint8_t) ~(1u << kind);
    host->stats.bare++;
    size_t length =
        cop__pair_pack_bare(&peer->pair, kind, host->config.node.incarnation, packet);
    send_packet(host, peer, packet, length);
}

/* Whether its payload can be read; then that is said instead of sending it. */
static bool send_offer(struct cop__host *host, struct peer *peer, uint8_t *packet)
{
    struct cop__remote remote;
    void *region;
    if (host->config.carrier.expose(host->config.carrier_context,
                                    cop__pair_next_payload(&peer->pair), &remote,
                                    &region) != 0) {
        peer->pair.is_plain = true;
        return false;
    }
    host->stats.offered++;
    send_packet(host, peer, packet,
                cop__pair_pack_offer(&peer->pair, &remote, region, packet));
    return true;
}

/* What was offered by it is read; whether all that could be begun is. */
static bool fetch(struct cop__host *host, struct peer *peer)
{
    struct cop__fetch *next;
    while (!peer->is_broken && (next = cop__pair_next_fetch(&peer->pair)) != NULL) {
        int error = COP_ELOST;
        if (host->config.carrier.fetch)
            error = host->config.carrier.fetch(host->config.carrier_context, peer->id,
                                               peer->pair.begun, &next->remote,
                                               next->payload);
        if (error == COP_EAGAIN)
            return false;
        if (error)
            break_off(host, peer, COP_DOWN_SILENT);
        else
            peer->pair.begun++;
    }
    return true;
}

static void send_frames(struct cop__host *host, struct peer *peer, uint8_t *packet)
{
    uint64_t before = peer->pair.queued_bytes;
    size_t length = cop__pair_pack(&peer->pair, packet, host->config.packet_bytes);
    host->backlog -= before - peer->pair.queued_bytes;
    send_packet(host, peer, packet, length);
}

/* All that may go to one peer; whether that was all. */
static bool flush_peer(struct cop__host *host, struct peer *peer)
{
    uint8_t *packet;
    if (peer->is_overrun && !peer->is_broken)
        break_off(host, peer, COP_DOWN_SILENT);
    if (!fetch(host, peer))
        return false;
    while (host->failure == 0 && !peer->is_broken) {
        bool has_frames = cop__pair_has_packet(&peer->pair);
        if (peer->owed == 0 && !has_frames && cop__pair_must_tell(&peer->pair))
            peer->owed = 1u << COP__PACKET_CREDIT;
        if (peer->owed == 0 && !has_frames)
            return true;
        int error =
            host->config.carrier.room(host->config.carrier_context, peer->id, &packet);
        if (error == COP_EAGAIN)
            return false;
        if (error)
            fail(host, error);
        else if (peer->owed != 0)
            send_bare(host, peer, packet);
        else if (!cop__pair_wants_offer(&peer->pair))
            send_frames(host, peer, packet);
        /* One that is sent after all waits until those before it are fetched. */
        else if (!send_offer(host, peer, packet) && cop__pair_has_packet(&peer->pair))
            send_frames(host, peer, packet);
    }
    return true;
}

static void flush(struct cop__host *host)
{
    struct peer *again = NULL, *peer;
    while ((peer = host->listed)) {
        host->listed = peer->next;
        peer->is_listed = false;
        if (flush_peer(host, peer))
            continue;
        peer->is_listed = true;
        peer->next = again;
        again = peer;
    }
    host->listed = again;
}

/* ---- steps ----------------------------------------------------------------------- */

static void push_frame(struct cop__host *host, const struct cop_effect *effect)
{
    struct peer *peer = get_peer(host, effect->peer);
    if (!peer) {
        host->stats.dropped++;
        return;
    }
    uint64_t before = peer->pair.queued_bytes;
    /* One who was removed, and takes nothing, is dead more likely than not. */
    bool is_stuck =
        !cop__pair_is_empty(&peer->pair) && !cop__pair_has_packet(&peer->pair);
    bool is_wasted = peer->is_broken || peer->is_overrun || (peer->is_gone && is_stuck);
    int error = is_wasted ? COP_ELOST : cop__pair_push(&peer->pair, &effect->frame);
    host->backlog += peer->pair.queued_bytes - before;
    /* Later frames must not come without this one; the node hears of it after this step. */
    peer->is_overrun |= error == COP_ELOST && !is_wasted;
    if (error == COP_ELOST)
        host->stats.dropped++;
    else if (error)
        fail(host, error);
    list(host, peer);
}

static void ask(struct cop__host *host, cop_id id)
{
    struct peer *peer = get_peer(host, id);
    if (!peer || peer->life != 0 || peer->asked_until != COP_TIME_NEVER)
        return;
    peer->asked_until = host->now + host->config.hello_timeout_ns;
    if (peer->asked_until < host->next_hello)
        host->next_hello = peer->asked_until;
    owe(host, peer, COP__PACKET_HELLO);
}

/* Who is in no view any more is asked again before it counts as reached. */
static void forget_gone(struct cop__host *host, struct cop_view *now)
{
    uint64_t at = 0;
    struct cop_view_change change;
    while (cop_view_compare(host->view, now, &at, &change)) {
        struct peer *peer =
            change.id < host->peer_count ? host->peers[change.id] : NULL;
        bool is_here = change.kind != COP_VIEW_LEFT;
        if (change.kind == COP_VIEW_REPLACED || !peer)
            continue;
        peer->is_gone = !is_here;
        if (is_here)
            continue;
        peer->life = 0;
        host->backlog -= peer->pair.queued_bytes;
        withdraw(host, peer);
        host->backlog += peer->pair.queued_bytes;
        if (!cop__pair_is_empty(&peer->pair) && !cop__pair_has_packet(&peer->pair)) {
            host->backlog -= peer->pair.queued_bytes;
            cop__pair_drop(&peer->pair);
            host->backlog += peer->pair.queued_bytes;
        }
        if (host->config.carrier.forget)
            host->config.carrier.forget(host->config.carrier_context, change.id);
    }
    cop_view_unref(host->view);
    host->view = cop_view_ref(now);
}

static void carry_out(struct cop__host *host, const struct cop_effect *effect)
{
    bool is_self = effect->peer == host->config.node.self;
    switch (effect->kind) {
    case COP_EFFECT_SEND:
        if (!is_self)
            push_frame(host, effect);
        else if (ring_push(&host->mine, effect))
            fail(host, COP_ENOMEM);
        break;
    case COP_EFFECT_CONNECT:
        if (!is_self)
            ask(host, effect->peer);
        break;
    case COP_EFFECT_CLOSE:
        break;
    case COP_EFFECT_VIEW:
        forget_gone(host, effect->view);
        /* fallthrough */
    default:
        if (ring_push(&host->told, effect))
            fail(host, COP_ENOMEM);
    }
}

static int step(struct cop__host *host, const struct cop_event *event)
{
    int error = cop_step(host->node, event, &host->effects);
    if (error == COP_ENOMEM || (error && event->kind != COP_EVENT_SUBMIT))
        fail(host, error);
    for (uint32_t i = 0; error == 0 && i < host->effects.count; i++)
        carry_out(host, &host->effects.items[i]);
    return error;
}

/* A step, and what the node has said to itself. */
static int run(struct cop__host *host, const struct cop_event *event)
{
    struct cop_effect effect;
    if (host->failure)
        return host->failure;
    COP_ASSERT(!host->is_busy);
    host->is_busy = true;
    int result = step(host, event);
    while (host->failure == 0 && ring_pop(&host->mine, &effect)) {
        struct cop_event own = {.kind = COP_EVENT_RECV,
                                .now = host->now,
                                .peer = host->config.node.self,
                                .frame = &effect.frame};
        step(host, &own);
        release(&effect);
    }
    host->is_busy = false;
    return result;
}

/* ---- what comes ------------------------------------------------------------------ */

/* Of one that lives as `life`: the node hears of that before it hears anything else. */
static void meet(struct cop__host *host, struct peer *peer, cop_incarnation life)
{
    peer->asked_until = COP_TIME_NEVER;
    if (life <= peer->life)
        return;
    peer->life = life;
    struct cop_event event = {.kind = COP_EVENT_PEER_UP,
                              .now = host->now,
                              .peer = peer->id,
                              .incarnation = life};
    run(host, &event);
}

static void give_frames(struct cop__host *host, struct peer *peer)
{
    struct cop_frame frame;
    uint32_t given = peer->pair.given;
    int more;
    while ((more = cop__pair_next(&peer->pair, &frame)) == 1) {
        meet(host, peer, frame.header.sender_incarnation);
        struct cop_event event = {.kind = COP_EVENT_RECV,
                                  .now = host->now,
                                  .peer = peer->id,
                                  .frame = &frame};
        run(host, &event);
        cop_buf_unref(frame.payload);
    }
    host->stats.malformed += more == COP_EMALFORMED;
    if (more == COP_ENOMEM)
        fail(host, more);
    else if (more != 0)
        break_off(host, peer, COP_DOWN_SILENT);
    if (!peer->is_broken && given != peer->pair.given)
        owe(host, peer, COP__PACKET_FETCHED);
}

void cop__host_arrived(struct cop__host *host, cop_id id, const uint8_t *packet,
                       size_t length)
{
    struct peer *peer = get_peer(host, id);
    struct cop__said said;
    if (!peer || host->failure || peer->is_broken)
        return;
    look_at_clock(host);
    host->stats.received++;
    host->backlog -= peer->pair.queued_bytes;
    int error = cop__pair_take(&peer->pair, packet, length, &said);
    conceal_released(host, peer);
    host->backlog += peer->pair.queued_bytes;
    if (error == COP_ENOMEM)
        fail(host, error);
    if (error) {
        host->stats.malformed += error == COP_EMALFORMED;
        return;
    }
    if (said.kind == COP__PACKET_HELLO)
        owe(host, peer, COP__PACKET_WELCOME);
    if (said.incarnation != 0)
        meet(host, peer, said.incarnation);
    bool is_numbered = said.kind <= COP__PACKET_BULK || said.kind == COP__PACKET_OFFER;
    host->stats.early += peer->pair.stream == NULL && is_numbered;
    give_frames(host, peer);
    list(host, peer);
}

void cop__host_fetched(struct cop__host *host, cop_id id, uint32_t number, int error)
{
    struct peer *peer = get_peer(host, id);
    if (!peer || host->failure || peer->is_broken)
        return;
    if (error) {
        break_off(host, peer, COP_DOWN_SILENT);
        return;
    }
    look_at_clock(host);
    host->stats.fetched++;
    cop__pair_on_fetched(&peer->pair, number);
    give_frames(host, peer);
}

void cop__host_lost(struct cop__host *host, cop_id id, enum cop_down why)
{
    struct peer *peer = get_peer(host, id);
    if (!peer || host->failure)
        return;
    look_at_clock(host);
    struct cop_event event = {.kind = COP_EVENT_PEER_DOWN,
                              .now = host->now,
                              .peer = id,
                              .incarnation = peer->life,
                              .why = why};
    peer->life = 0;
    peer->asked_until = COP_TIME_NEVER;
    run(host, &event);
}

void cop__host_cut(struct cop__host *host, cop_id id, enum cop_down why)
{
    struct peer *peer = get_peer(host, id);
    if (peer && !peer->is_broken && host->failure == 0)
        break_off(host, peer, why);
}

/* ---- what is due ----------------------------------------------------------------- */

static void give_up_asking(struct cop__host *host)
{
    cop_time now = host->now;
    host->next_hello = COP_TIME_NEVER;
    for (cop_id id = 0; id < host->peer_count; id++) {
        struct peer *peer = host->peers[id];
        if (!peer || peer->asked_until == COP_TIME_NEVER)
            continue;
        if (peer->asked_until <= now)
            cop__host_lost(host, id, COP_DOWN_SILENT);
        else if (peer->asked_until < host->next_hello)
            host->next_hello = peer->asked_until;
    }
}

static void check_backlog(struct cop__host *host)
{
    bool is_choked = host->is_choked ? host->backlog >= COP_BACKLOG_MAX / 2
                                     : host->backlog > COP_BACKLOG_MAX;
    if (is_choked == host->is_choked)
        return;
    host->is_choked = is_choked;
    look_at_clock(host);
    struct cop_event event = {
        .kind = COP_EVENT_SENT, .now = host->now, .backlog_bytes = host->backlog};
    run(host, &event);
}

cop_time cop__host_deadline(const struct cop__host *host)
{
    if (!host->is_started)
        return 0;
    cop_time tick = cop_deadline(host->node);
    return tick < host->next_hello ? tick : host->next_hello;
}

/* Of a process that waits this is the only thing to be done, over and over: the clock that
 * takes several times as long to read is left alone until the deadline is near. */
static bool is_far(cop_time deadline)
{
    return deadline == COP_TIME_NEVER ||
           (deadline > COARSE_LAG &&
            read_clock(CLOCK_MONOTONIC_COARSE) < deadline - COARSE_LAG);
}

static void do_what_is_due(struct cop__host *host)
{
    cop_time deadline = cop__host_deadline(host);
    if (is_far(deadline))
        return;
    look_at_clock(host);
    if (host->now < deadline)
        return;
    if (host->next_hello <= host->now)
        give_up_asking(host);
    if (!host->is_started || cop_deadline(host->node) <= host->now) {
        struct cop_event event = {.kind = COP_EVENT_TICK, .now = host->now};
        host->is_started = true;
        run(host, &event);
    }
}

/* What comes of what is submitted meanwhile is told the next time. */
static int tell(struct cop__host *host)
{
    struct effects_ring telling = host->told;
    host->told = host->telling;
    for (uint32_t i = 0; i < telling.count; i++) {
        struct cop_effect *effect =
            &telling.items[(telling.first + i) & (telling.capacity - 1)];
        host->config.effect(host->config.context, effect);
        release(effect);
    }
    host->telling = (struct effects_ring){telling.items, telling.capacity, 0, 0};
    return (int)telling.count;
}

int cop__host_settle(struct cop__host *host)
{
    if (host->failure)
        return host->failure;
    do_what_is_due(host);
    check_backlog(host);
    if (host->listed)
        flush(host);
    int told = host->told.count > 0 ? tell(host) : 0;
    return host->failure ? host->failure : told;
}

int cop__host_submit(struct cop__host *host, const struct cop_request *request)
{
    look_at_clock(host);
    struct cop_event event = {
        .kind = COP_EVENT_SUBMIT, .now = host->now, .request = request};
    int error = run(host, &event);
    flush(host);
    return error;
}

bool cop__host_is_owing(const struct cop__host *host)
{
    return host->listed != NULL || host->backlog > 0;
}

const struct cop_node *cop__host_node(const struct cop__host *host)
{
    return host->node;
}

const struct cop__host_stats *cop__host_stats(const struct cop__host *host)
{
    return &host->stats;
}

/* ---- life ------------------------------------------------------------------------ */

int cop__host_create(const struct cop__host_config *config, struct cop__host **out)
{
    struct cop__host *host = calloc(1, sizeof *host);
    if (!host)
        return COP_ENOMEM;
    host->config = *config;
    if (config->hello_timeout_ns == 0)
        host->config.hello_timeout_ns = HELLO_TIMEOUT;
    host->next_hello = COP_TIME_NEVER;
    host->view = cop_view_ref(config->node.view);
    host->peer_count = cop_view_slots(config->node.view);
    host->peers = calloc(host->peer_count, sizeof(struct peer *));
    look_at_clock(host);
    host->config.node.now = host->now;
    int error =
        host->peers ? cop_node_create(&host->config.node, &host->node) : COP_ENOMEM;
    if (error) {
        cop__host_destroy(host);
        return error;
    }
    *out = host;
    return 0;
}

void cop__host_destroy(struct cop__host *host)
{
    if (!host)
        return;
    for (cop_id id = 0; host->peers && id < host->peer_count; id++) {
        if (host->peers[id]) {
            withdraw(host, host->peers[id]);
            cop__pair_fini(&host->peers[id]->pair);
        }
        free(host->peers[id]);
    }
    free(host->peers);
    ring_fini(&host->told);
    ring_fini(&host->telling);
    ring_fini(&host->mine);
    cop_effects_free(&host->effects);
    cop_node_destroy(host->node);
    cop_view_unref(host->view);
    free(host);
}
