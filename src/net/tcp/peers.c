/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp/peers.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "net/tcp/table.h"
#include "wire/messages.h"

/* Counts that nothing else carries are told after one to two of these. */
#define TELL_EVERY (100 * COP_MSEC)
/* So much is kept for one whom no view has, and for all of them that are not there. */
#define UNKNOWN_KEPT_MAX (UINT64_C(4) << 20)
#define ABSENT_KEPT_MAX (UINT64_C(64) << 20)

/* ---- the table ------------------------------------------------------------------- */

struct cop__peer *cop__peer_get(struct cop__peers *peers, cop_id id)
{
    struct cop__peer *peer = cop__map_get(&peers->table, id);
    if (peer)
        return peer;
    peer = calloc(1, sizeof *peer);
    if (!peer || cop__map_put(&peers->table, id, peer, NULL) != 0) {
        free(peer);
        return NULL;
    }
    peer->peers = peers;
    peer->id = id;
    cop__acquaintance_init(&peer->acquaintance);
    cop__alarm_init(&peer->again, cop__attempt_again);
    return peer;
}

static void destroy_peer(struct cop__peer *peer)
{
    cop__acquaintance_fini(&peer->acquaintance);
    free(peer);
}

/* It has gone, and nobody knows it: what is kept for it is kept for nobody. */
static bool is_forgotten(const struct cop__peer *peer)
{
    const struct cop__peers_config *config = &peer->peers->config;
    return !peer->open && !peer->attempt && !cop__alarm_is_set(&peer->again) &&
           !cop__peer_is_wanted(peer) && !peer->is_dirty && !peer->is_wanted &&
           config->known(config->context, peer->id) == 0;
}

/*
 * Whoever may speak here may call under any id. Each is remembered, so that it can go on
 * where it was; but not for ever, or the table would grow with each call.
 */
COP__COLD static void forget_some(struct cop__peers *peers)
{
    struct cop__peer *gone = NULL;
    struct cop__map_slot *slot;
    uint32_t at = 0;
    while ((slot = cop__map_next(&peers->table, &at))) {
        struct cop__peer *peer = slot->value;
        if (is_forgotten(peer)) {
            peer->next_dirty = gone;
            gone = peer;
        }
    }
    while (gone) {
        struct cop__peer *next = gone->next_dirty;
        cop__map_remove(&peers->table, gone->id);
        peers->absent_bytes -= gone->absent;
        destroy_peer(gone);
        gone = next;
    }
    peers->forget_at = 2 * peers->table.count;
    if (peers->forget_at < peers->config.acquaintances_max)
        peers->forget_at = peers->config.acquaintances_max;
    peers->forget_bytes = peers->absent_bytes + ABSENT_KEPT_MAX;
}

static void finish(struct cop__peers *peers)
{
    uint32_t at = 0;
    struct cop__map_slot *slot;
    while ((slot = cop__map_next(&peers->table, &at)))
        destroy_peer(slot->value);
    cop__map_fini(&peers->table);
    if (peers->closed)
        peers->closed(peers->closed_context);
    free(peers);
}

void cop__peers_handle_closed(struct cop__peers *peers)
{
    COP_ASSERT(peers->handles > 0);
    peers->handles--;
    if (peers->handles == 0 && peers->is_closing)
        finish(peers);
}

/* ---- events ---------------------------------------------------------------------- */

static void tell(struct cop__peers *peers, const struct cop_event *event)
{
    if (!peers->is_closing)
        peers->config.event(peers->config.context, event);
}

void cop__peer_up(struct cop__peer *peer)
{
    struct cop_event event = {
        .kind = COP_EVENT_PEER_UP,
        .now = cop__clock_now(),
        .peer = peer->id,
        .incarnation = peer->acquaintance.session.incarnation,
    };
    tell(peer->peers, &event);
}

void cop__peer_down(struct cop__peer *peer, cop_incarnation life, enum cop_down why)
{
    struct cop_event event = {
        .kind = COP_EVENT_PEER_DOWN,
        .now = cop__clock_now(),
        .peer = peer->id,
        .incarnation = life,
        .why = why,
    };
    cop__peer_weigh(peer);
    tell(peer->peers, &event);
}

/* ---- what waits ------------------------------------------------------------------ */

void cop__peer_weigh(struct cop__peer *peer)
{
    uint64_t backlog = 0;
    bool is_trying = peer->open || peer->attempt || cop__alarm_is_set(&peer->again);
    /* What waits for a peer that nobody tries to reach holds nobody up. */
    if (is_trying)
        backlog = peer->acquaintance.session.unsent_bytes;
    if (peer->open)
        backlog += cop__stream_backlog(&peer->open->stream);
    peer->peers->config.stats->backlog_bytes += backlog - peer->backlog;
    peer->backlog = backlog;
    uint64_t absent =
        is_trying ? 0 : sizeof *peer + peer->acquaintance.session.kept_bytes;
    peer->peers->absent_bytes += absent - peer->absent;
    peer->absent = absent;
}

static void check_backlog(struct cop__peers *peers)
{
    uint64_t backlog = peers->config.stats->backlog_bytes;
    bool is_choked =
        peers->is_choked ? backlog >= COP_BACKLOG_MAX / 2 : backlog > COP_BACKLOG_MAX;
    if (is_choked == peers->is_choked)
        return;
    peers->is_choked = is_choked;
    struct cop_event event = {
        .kind = COP_EVENT_SENT, .now = cop__clock_now(), .backlog_bytes = backlog};
    tell(peers, &event);
}

void cop__peer_mark_dirty(struct cop__peer *peer)
{
    struct cop__peers *peers = peer->peers;
    if (peer->is_dirty)
        return;
    peer->is_dirty = true;
    peer->next_dirty = NULL;
    *peers->dirty_end = peer;
    peers->dirty_end = &peer->next_dirty;
}

bool cop__peers_is_dirty(const struct cop__peers *peers)
{
    return peers->dirty != NULL || peers->wanted != NULL || peers->heard != NULL;
}

/* A connection is wanted: it is begun when all that can be written has been. */
static void want(struct cop__peer *peer)
{
    struct cop__peers *peers = peer->peers;
    if (peer->is_wanted || peer->open)
        return;
    peer->is_wanted = true;
    peer->next_wanted = NULL;
    *peers->wanted_end = peer;
    peers->wanted_end = &peer->next_wanted;
}

/* ---- counts ---------------------------------------------------------------------- */

/*
 * Counts usually travel with frames. Those that have waited for a whole turn go alone; so
 * while there is traffic this sends nothing, and a while after the last frame it stops.
 */
static void on_tell(struct cop__alarm *alarm, cop_time now)
{
    struct cop__peers *peers =
        (struct cop__peers *)((char *)alarm - offsetof(struct cop__peers, tell));
    bool is_needed = false;
    for (struct cop__conn *conn = peers->first; conn; conn = conn->next) {
        if (conn->state != COP__CONN_OPEN ||
            !cop__session_has_untold(&conn->peer->acquaintance.session))
            continue;
        if (conn->is_late) {
            conn->link.must_tell = true;
            cop__peer_mark_dirty(conn->peer);
        } else {
            conn->is_late = true;
            is_needed = true;
        }
    }
    if (is_needed)
        cop__alarm_start(peers->config.clock, alarm, now + TELL_EVERY);
}

static void tell_later(struct cop__peers *peers)
{
    if (!cop__alarm_is_set(&peers->tell))
        cop__alarm_start(peers->config.clock, &peers->tell,
                         cop__clock_now() + TELL_EVERY);
}

/* What came is nearly always answered at once, and the answer takes the count along: only
 * after that it is known whether a clock is needed, which costs a system call. */
void cop__peers_heard(struct cop__conn *conn)
{
    struct cop__peers *peers = conn->peers;
    if (peers->heard && peers->heard != conn)
        tell_later(peers);
    peers->heard = conn;
}

static void mind_heard(struct cop__peers *peers)
{
    struct cop__conn *conn = peers->heard;
    peers->heard = NULL;
    if (conn && cop__session_has_untold(&conn->peer->acquaintance.session))
        tell_later(peers);
}

/* ---- writing --------------------------------------------------------------------- */

static void flush_conn(struct cop__conn *conn)
{
    struct cop__peers *peers = conn->peers;
    struct cop__batch batch;
    bool has_more;
    int error;
    do {
        cop__batch_init(&batch, peers->base.space, sizeof peers->base.space);
        has_more = cop__link_gather(&conn->link, &batch);
        if (batch.bytes == 0)
            return;
        peers->config.stats->acks_sent += batch.frames == 0;
        error = cop__stream_write(&conn->stream, &batch);
        if (conn->is_late && batch.frames == 0)
            cop__stream_pause(&conn->stream);
        conn->is_late = false;
    } while (error == 0 && has_more);
    if (error < 0)
        cop__conn_lost(conn, error);
}

static void flush_peer(struct cop__peer *peer)
{
    if (peer->open && !cop__conn_is_itself(peer->open, peer->id))
        cop__conn_expel(peer->open);
    if (peer->open && !peer->open->stream.pending)
        flush_conn(peer->open);
    cop__peer_weigh(peer);
}

static struct cop__peer *take_dirty(struct cop__peers *peers)
{
    struct cop__peer *peer = peers->dirty;
    peers->dirty = peer->next_dirty;
    if (!peers->dirty)
        peers->dirty_end = &peers->dirty;
    peer->is_dirty = false;
    return peer;
}

/*
 * Who can be written to does not wait while connections to others are begun. A death makes
 * those who are left call each other at the same moment; who calls second sees the call of the
 * other if it looks, and does not make one that comes to nothing. (Not with TLS, where those who
 * call are heard after a handshake, and have a connection in reserve.)
 */
static void begin_wanted(struct cop__peers *peers)
{
    uint32_t wanted = 0;
    for (const struct cop__peer *peer = peers->wanted; peer; peer = peer->next_wanted)
        wanted++;
    /* All of them may have called: the children of one who died are many. */
    if (wanted != 0 && !peers->config.tls)
        cop__accept_look(peers, wanted);
    while (peers->wanted) {
        struct cop__peer *peer = peers->wanted;
        peers->wanted = peer->next_wanted;
        if (!peers->wanted)
            peers->wanted_end = &peers->wanted;
        peer->is_wanted = false;
        cop__peer_connect(peer);
        /* What waits for it counts from now on. */
        cop__peer_mark_dirty(peer);
    }
}

void cop__peers_flush(struct cop__peers *peers)
{
    /* The space is read into as well: not before all of that is taken. */
    COP_ASSERT(!peers->base.is_reading);
    while (peers->dirty || peers->wanted) {
        while (peers->dirty) {
            flush_peer(take_dirty(peers));
            if (!peers->dirty)
                check_backlog(peers);
        }
        begin_wanted(peers);
    }
    mind_heard(peers);
    /* Here, where nobody has one of them in hand. */
    if (peers->table.count >= peers->forget_at ||
        peers->absent_bytes >= peers->forget_bytes)
        forget_some(peers);
}

/* ---- what the node wants --------------------------------------------------------- */

COP__COLD static void on_overflow(struct cop__peer *peer)
{
    struct cop__peers *peers = peer->peers;
    uint64_t held;
    if (cop__notice_is_due(&peers->overflow, cop__clock_now(), &held))
        cop__log(peers->config.log, COP_LOG_WARN,
                 "member %u takes no frames and too many wait for it: given up "
                 "(%llu more like this)",
                 (unsigned)peer->id, (unsigned long long)held);
    peers->config.stats->dropped_frames++;
    if (peer->open)
        cop__conn_lost(peer->open, UV_ETIMEDOUT);
}

/*
 * A frame for a later life than the one that we are connected to, or look for: that one is
 * over, and the new one may be somewhere else.
 */
static void follow(struct cop__peer *peer, cop_incarnation life)
{
    struct cop__session *session = &peer->acquaintance.session;
    cop_incarnation before = peer->sought;
    if (life <= before)
        return;
    peer->sought = life;
    if (peer->open && peer->acquaintance.session.incarnation < life)
        cop__conn_lost(peer->open, UV_ECONNRESET);
    else if (!peer->open && before != 0)
        cop__attempt_drop(peer);
    /* That too much was kept for the life before is no reason to keep nothing for this one. */
    if (session->lost && session->incarnation < life) {
        cop__session_meet(session, life);
        peer->acquaintance.attempts_heard = 0;
    }
}

int cop__peers_send(struct cop__peers *peers, cop_id id, const struct cop_frame *frame)
{
    struct cop__peer *peer = cop__peer_get(peers, id);
    if (!peer)
        return COP_ENOMEM;
    const struct cop__kind_info *info = cop__kind_info(frame->header.kind);
    bool is_bulk = info && info->class == COP__CLASS_BULK;
    COP_ASSERT(frame->header.length == (frame->payload ? frame->payload->length : 0));
    cop__conn_face(peer->open);
    follow(peer, frame->header.receiver_incarnation);
    if (peer->acquaintance.session.kept_bytes > UNKNOWN_KEPT_MAX &&
        peers->config.known(peers->config.context, id) == 0)
        peer->acquaintance.session.lost = true; /* as if it had been too much */
    int error = cop__session_push(&peer->acquaintance.session,
                                  is_bulk ? COP__LANE_BULK : COP__LANE_CONTROL, frame);
    if (error == COP_ELOST) {
        on_overflow(peer);
        return 0;
    }
    if (error != 0)
        return error;
    if (peer->open)
        peer->open->is_used = true;
    cop__peer_mark_dirty(peer);
    want(peer);
    return 0;
}

/* The other side learns of a changed wish with the next record, or with one of its own. */
static void set_wish(struct cop__peer *peer, bool keep, bool is_warm)
{
    struct cop__conn *conn = peer->open;
    bool was_wanted = cop__peer_is_wanted(peer);
    peer->keep = keep;
    peer->is_warm = is_warm;
    if (!conn || cop__peer_is_wanted(peer) == was_wanted)
        return;
    conn->link.keep = !was_wanted;
    conn->link.must_tell = true;
    cop__peer_mark_dirty(peer);
    cop__conn_review(conn);
}

COP__APART int cop__peers_keep(struct cop__peers *peers, cop_id id)
{
    struct cop__peer *peer = cop__peer_get(peers, id);
    if (!peer)
        return COP_ENOMEM;
    cop__conn_face(peer->open);
    set_wish(peer, true, peer->is_warm);
    want(peer);
    return 0;
}

COP__APART int cop__peers_release(struct cop__peers *peers, cop_id id)
{
    struct cop__peer *peer = cop__map_get(&peers->table, id);
    if (peer)
        set_wish(peer, false, peer->is_warm);
    return 0;
}

void cop__peers_warm(struct cop__peers *peers, cop_id id)
{
    struct cop__peer *peer = cop__peer_get(peers, id);
    if (!peer)
        return;
    set_wish(peer, peer->keep, true);
    want(peer);
}

void cop__peers_cool(struct cop__peers *peers, cop_id id)
{
    struct cop__peer *peer = cop__map_get(&peers->table, id);
    if (peer)
        set_wish(peer, peer->keep, false);
}

bool cop__peer_is_spare(const struct cop__peer *peer)
{
    return peer->is_warm && !peer->keep &&
           !cop__session_is_owing(&peer->acquaintance.session);
}

void cop__peer_cooled(struct cop__peer *peer)
{
    struct cop__peers *peers = peer->peers;
    set_wish(peer, peer->keep, false);
    if (!peers->is_closing)
        peers->config.cooled(peers->config.context);
}

static struct cop__conn *find_outdated(const struct cop__peers *peers)
{
    struct cop__conn *conn = peers->first;
    while (conn && cop__stream_is_current(&conn->stream))
        conn = conn->next;
    return conn;
}

/* From the start each time: what follows from the end of one may end others, too. */
void cop__peers_renew(struct cop__peers *peers)
{
    struct cop__conn *conn;
    while ((conn = find_outdated(peers)))
        cop__conn_renew(conn);
}

int cop__peers_cut(struct cop__peers *peers, cop_id id)
{
    struct cop__peer *peer = cop__map_get(&peers->table, id);
    if (!peer || !peer->open)
        return COP_ENOENT;
    cop__conn_lost(peer->open, UV_ECONNRESET);
    return 0;
}

static struct cop__conn *find_guest(const struct cop__peers *peers, uint64_t guest)
{
    struct cop__conn *conn = peers->first;
    while (conn && (conn->state != COP__CONN_GUEST || conn->guest != guest))
        conn = conn->next;
    return conn;
}

void cop__peers_answer(struct cop__peers *peers, uint64_t guest,
                       const struct cop_buf *bytes)
{
    struct cop__conn *conn = find_guest(peers, guest);
    if (conn)
        cop__conn_answer(conn, bytes);
}

bool cop__peers_guest_is(const struct cop__peers *peers, uint64_t guest,
                         const char *name)
{
    const struct cop__conn *conn = find_guest(peers, guest);
    return conn && cop__stream_is_named(&conn->stream, name);
}

/* ---- life ------------------------------------------------------------------------ */

/*
 * All of it is zero but the space of the streams, of which most is never touched: where
 * the heap was used before, as in a process that was forked, zeroing it would make each of
 * its pages our own.
 */
static struct cop__peers *allocate(void)
{
    struct cop__peers *peers = malloc(sizeof *peers);
    const size_t space = offsetof(struct cop__peers, base.space);
    const size_t behind = offsetof(struct cop__peers, base) + sizeof peers->base;
    if (peers) {
        memset(peers, 0, space);
        memset((char *)peers + behind, 0, sizeof *peers - behind);
        peers->base.out.used = 0;
    }
    return peers;
}

int cop__peers_create(const struct cop__peers_config *config, struct cop__peers **out)
{
    struct cop__peers *peers = allocate();
    if (!peers) {
        if (config->listen_fd >= 0)
            close(config->listen_fd);
        return COP_ENOMEM;
    }
    peers->config = *config;
    peers->forget_at = config->acquaintances_max;
    peers->forget_bytes = ABSENT_KEPT_MAX;
    cop__map_init(&peers->table);
    cop__alarm_init(&peers->tell, on_tell);
    peers->dirty_end = &peers->dirty;
    peers->wanted_end = &peers->wanted;
    peers->base.loop = config->loop;
    peers->base.runner = config->runner;
    peers->base.tls = config->tls;
    peers->base.events = &cop__conn_events;
    peers->base.reads = &config->stats->reads;
    peers->base.writes = &config->stats->writes;
    peers->listen_fd = config->listen_fd;
    int error = cop__accept_start(peers);
    if (error != 0) {
        free(peers);
        return error;
    }
    *out = peers;
    return 0;
}

void cop__peers_close(struct cop__peers *peers, void (*closed)(void *context),
                      void *context)
{
    uint32_t at = 0;
    struct cop__map_slot *slot;
    peers->closed = closed;
    peers->closed_context = context;
    peers->is_closing = true;
    cop__alarm_stop(peers->config.clock, &peers->tell);
    while ((slot = cop__map_next(&peers->table, &at))) {
        struct cop__peer *peer = slot->value;
        cop__alarm_stop(peers->config.clock, &peer->again);
    }
    /* One handle of our own, so that the last connection does not end it in here. */
    peers->handles++;
    cop__accept_stop(peers);
    for (struct cop__conn *conn = peers->first, *next; conn; conn = next) {
        next = conn->next;
        if (conn->state == COP__CONN_OPEN)
            cop__conn_say_bye(conn);
        cop__conn_close(conn);
    }
    cop__peers_handle_closed(peers);
}
