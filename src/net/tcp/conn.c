/* SPDX-License-Identifier: Apache-2.0 */
/* One connection from its making to its end: the handshake, what comes in, and ageing. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/assert.h"
#include "net/tcp/table.h"

/* So long the end of what nobody waits for may be put off. */
#define PUT_OFF (200 * COP_MSEC)

/* ---- making and ending ----------------------------------------------------------- */

static void on_alarm(struct cop__alarm *alarm, cop_time now);

struct cop__conn *cop__conn_create(struct cop__peers *peers, enum cop__conn_state state)
{
    struct cop__conn *conn = malloc(sizeof *conn);
    if (!conn)
        return NULL;
    memset(conn, 0, sizeof *conn);
    conn->peers = peers;
    conn->state = state;
    cop__stream_init(&conn->stream, &peers->base);
    cop__link_init(&conn->link);
    conn->link.takes_commands =
        state == COP__CONN_STRANGER && peers->config.guest != NULL;
    cop__alarm_init(&conn->alarm, on_alarm);
    conn->prev = peers->last;
    if (peers->last)
        peers->last->next = conn;
    else
        peers->first = conn;
    peers->last = conn;
    peers->strangers += state == COP__CONN_STRANGER;
    peers->config.stats->connections++;
    peers->handles++;
    return conn;
}

static void unlink_conn(struct cop__conn *conn)
{
    struct cop__peers *peers = conn->peers;
    if (conn->prev)
        conn->prev->next = conn->next;
    else
        peers->first = conn->next;
    if (conn->next)
        conn->next->prev = conn->prev;
    else
        peers->last = conn->prev;
    conn->next = conn->prev = NULL;
}

static void on_closed(struct cop__stream *stream)
{
    struct cop__conn *conn = (struct cop__conn *)stream;
    struct cop__peers *peers = conn->peers;
    cop__link_fini(&conn->link);
    free(conn);
    cop__peers_handle_closed(peers);
}

/* Counted among the strangers. */
static bool is_outsider(const struct cop__conn *conn)
{
    return conn->state == COP__CONN_STRANGER || conn->state == COP__CONN_GUEST;
}

/* Connections that come to nothing are paid for by the address that they come from. */
static void settle_account(struct cop__conn *conn)
{
    struct cop__limits *limits = &conn->peers->limits;
    if (conn->origin == 0)
        return;
    if (conn->state == COP__CONN_OPEN)
        cop__limits_leave(limits, conn->origin);
    else if (conn->is_guilty)
        cop__limits_charge(limits, conn->origin, cop__clock_now());
    else if (conn->is_wise)
        cop__limits_refund(limits, conn->origin, cop__clock_now());
}

/* Nothing may find it any more. */
static void forget(struct cop__conn *conn)
{
    struct cop__peers *peers = conn->peers;
    peers->strangers -= is_outsider(conn);
    settle_account(conn);
    peers->config.stats->connections--;
    cop__alarm_stop(peers->config.clock, &conn->alarm);
    if (peers->heard == conn)
        peers->heard = NULL;
    cop__mark_wipe(conn->mark);
    unlink_conn(conn);
    conn->state = COP__CONN_CLOSING;
}

void cop__conn_close(struct cop__conn *conn)
{
    if (conn->state == COP__CONN_CLOSING)
        return;
    forget(conn);
    bool is_closing = cop__stream_close(&conn->stream);
    COP_ASSERT(is_closing);
}

void cop__conn_discard(struct cop__conn *conn)
{
    forget(conn);
    if (!cop__stream_close(&conn->stream))
        on_closed(&conn->stream);
}

/* Takes an open connection away from its peer. */
static struct cop__peer *detach(struct cop__conn *conn)
{
    struct cop__peer *peer = conn->peer;
    const struct cop__peers_config *config = &peer->peers->config;
    peer->open = NULL;
    peer->is_hearsay = config->known(config->context, peer->id) == 0;
    cop__session_break(&peer->acquaintance.session);
    peer->failures = conn->has_progress ? 0 : peer->failures + 1;
    cop__conn_close(conn);
    return peer;
}

static bool is_silence(int error)
{
    return error == UV_ETIMEDOUT || error == UV_EHOSTUNREACH || error == UV_ENETUNREACH;
}

void cop__conn_lost(struct cop__conn *conn, int error)
{
    struct cop__peer *peer = detach(conn);
    const struct cop__session *session = &peer->acquaintance.session;
    cop__peer_down(peer, session->incarnation,
                   is_silence(error) ? COP_DOWN_SILENT : COP_DOWN_CLOSED);
    if (cop__session_is_owing(session) && !session->lost)
        cop__peer_connect(peer);
    else if (peer->is_warm)
        cop__peer_cooled(peer);
    cop__peer_mark_dirty(peer);
}

void cop__conn_expel(struct cop__conn *conn)
{
    cop__conn_say_impostor(conn);
    struct cop__peer *peer = detach(conn);
    struct cop__session *session = &peer->acquaintance.session;
    cop_incarnation life = session->incarnation;
    /* What it said of its lives must not keep the owner out. */
    cop__session_meet(session, 0);
    peer->acquaintance.attempts_heard = 0;
    cop__peer_down(peer, life, COP_DOWN_CLOSED);
    if (cop__session_is_owing(session))
        cop__peer_connect(peer);
    cop__peer_mark_dirty(peer);
}

/* ---- the handshake --------------------------------------------------------------- */

/* Writes one record at once; there is nothing in front of it. 0, 1 or an error. */
static int write_greeting(struct cop__conn *conn, const uint8_t *bytes, size_t length)
{
    struct cop__batch batch;
    uint8_t space[COP__GREETING_MAX];
    if (length == 0)
        return UV_ENOMEM;
    if (conn->stream.pending) /* a guest that does not read its answer */
        return UV_EAGAIN;
    cop__batch_init(&batch, space, sizeof space);
    cop__batch_copy(&batch, bytes, length);
    return cop__stream_write(&conn->stream, &batch);
}

void cop__conn_greet(struct cop__conn *conn)
{
    struct cop__peer *peer = conn->peer;
    uint8_t bytes[COP__GREETING_MAX];
    size_t length =
        cop__hello_write(&conn->peers->config.identity, peer->id, &peer->acquaintance,
                         cop__peer_is_wanted(peer), bytes);
    int error = write_greeting(conn, bytes, length);
    conn->state = COP__CONN_GREETED;
    conn->link.keep = cop__peer_is_wanted(peer);
    if (error >= 0)
        error = cop__stream_read(&conn->stream);
    if (error < 0)
        cop__attempt_failed(peer, error);
}

void cop__conn_expect(struct cop__conn *conn)
{
    struct cop__peers *peers = conn->peers;
    cop__alarm_start(peers->config.clock, &conn->alarm,
                     cop__clock_now() + peers->config.handshake_timeout_ns);
    if (cop__stream_read(&conn->stream) != 0)
        cop__conn_close(conn);
}

static void count_refusal(struct cop__tcp_stats *stats, enum cop__refusal refusal)
{
    switch (refusal) {
    case COP__REFUSE_VERSION:
        stats->refused_version++;
        break;
    case COP__REFUSE_CLUSTER:
        stats->refused_cluster++;
        break;
    case COP__REFUSE_GARBAGE:
        stats->refused_garbage++;
        break;
    case COP__REFUSE_CROSSED: /* part of making a connection, no offence */
    case COP__REFUSE_STALE:
        break;
    default:
        stats->refused_identity++;
    }
}

COP__COLD static void refuse_life(struct cop__conn *conn, enum cop__refusal refusal,
                                  cop_incarnation later)
{
    struct cop__peers *peers = conn->peers;
    uint8_t bytes[COP__GREETING_MAX];
    uint64_t held;
    bool is_offence = refusal != COP__REFUSE_CROSSED && refusal != COP__REFUSE_STALE;
    count_refusal(peers->config.stats, refusal);
    if (is_offence &&
        cop__notice_is_due(&peers->refused_them[refusal], cop__clock_now(), &held))
        cop__log(peers->config.log, COP_LOG_WARN,
                 "refused a connection, and said: %s (%llu more like this)",
                 cop__refusal_text(refusal), (unsigned long long)held);
    conn->is_guilty = refusal == COP__REFUSE_GARBAGE;
    /* If it cannot be written, the end of the connection has to say it. */
    write_greeting(conn, bytes, cop__refuse_write(refusal, later, bytes));
    cop__conn_close(conn);
}

static void refuse(struct cop__conn *conn, enum cop__refusal refusal)
{
    refuse_life(conn, refusal, 0);
}

/* What the other side may look for, if it is a process of this user. */
static void make_mark(struct cop__conn *conn)
{
    struct cop__peers *peers = conn->peers;
    if (peers->config.no_reads || !conn->stream.is_local ||
        (peers->secret == 0 &&
         getrandom(&peers->secret, sizeof peers->secret, GRND_NONBLOCK) < 0))
        return;
    cop__mark_make(peers->secret, ++peers->marks, conn->mark);
    conn->link.mark = conn->mark;
}

/* The handshake is over. */
static void open_conn(struct cop__conn *conn, struct cop__peer *peer)
{
    struct cop__peers *peers = conn->peers;
    peers->strangers -= conn->state == COP__CONN_STRANGER;
    cop__limits_enter(&peers->limits, conn->origin, cop__clock_now());
    cop__limits_refund(&peers->limits, conn->origin, cop__clock_now());
    cop__alarm_stop(peers->config.clock, &conn->alarm);
    cop__alarm_stop(peers->config.clock, &peer->again);
    conn->state = COP__CONN_OPEN;
    conn->peer = peer;
    /* Our greeting told a wish that may have changed since. */
    conn->link.must_tell = conn->link.keep != cop__peer_is_wanted(peer);
    conn->link.keep = cop__peer_is_wanted(peer);
    make_mark(conn);
    cop__link_open(&conn->link, &peer->acquaintance.session);
    cop__session_told(&peer->acquaintance.session);
    peer->open = conn;
    peer->is_hearsay = false;
    peer->refused = 0; /* it is there */
    cop__peer_mark_dirty(peer);
    cop__conn_review(conn);
    /* Held in reserve, by one of the two. */
    if (!peer->keep && !cop__session_is_owing(&peer->acquaintance.session))
        cop__stream_rest(&conn->stream);
    cop__peer_up(peer);
}

static enum cop__attempt attempt_of(const struct cop__peer *peer)
{
    if (!peer->attempt)
        return COP__ATTEMPT_NONE;
    return peer->attempt->state == COP__CONN_GREETED ? COP__ATTEMPT_GREETED
                                                     : COP__ATTEMPT_CONNECTING;
}

/* The other side has made a new connection, so whatever we hold is of no use to it. */
static enum cop__refusal take_over(struct cop__peer *peer,
                                   const struct cop__greeting *greeting)
{
    uint64_t resent;
    struct cop__conn *old = peer->open;
    enum cop__refusal refusal =
        cop__greeting_accept(&peer->acquaintance, greeting, &resent);
    if (refusal != COP__REFUSE_NONE)
        return refusal;
    cop__attempt_drop(peer);
    peer->open = NULL;
    if (old)
        cop__conn_close(old);
    peer->peers->config.stats->resent_frames += resent;
    return COP__REFUSE_NONE;
}

static enum cop__refusal admit(struct cop__conn *conn, const struct cop__item *item,
                               struct cop__peer **out)
{
    const struct cop__peers_config *config = &conn->peers->config;
    struct cop__greeting greeting;
    enum cop__refusal refusal = cop__hello_judge(&config->identity, item, &greeting);
    if (refusal != COP__REFUSE_NONE)
        return refusal;
    if (!cop__conn_is_itself(conn, greeting.sender))
        return COP__REFUSE_NAME;
    struct cop__peer *peer = cop__peer_get(conn->peers, greeting.sender);
    if (!peer)
        return COP__REFUSE_STALE; /* no memory: it may try again */
    if (peer->open && !cop__conn_is_itself(peer->open, peer->id))
        cop__conn_expel(peer->open);
    /* That may have called the member, found no descriptor, and taken this one's. */
    if (conn->state != COP__CONN_STRANGER)
        return COP__REFUSE_STALE;
    cop_incarnation known = config->known(config->context, greeting.sender);
    /* What somebody said who is gone, of an id that nobody had, binds nobody. */
    if (peer->is_hearsay && !peer->open && !peer->attempt &&
        greeting.incarnation < peer->acquaintance.session.incarnation) {
        cop__session_meet(&peer->acquaintance.session, 0);
        peer->acquaintance.attempts_heard = 0;
    }
    refusal = cop__hello_admit(&config->identity, &peer->acquaintance, known,
                               attempt_of(peer), &greeting);
    if (refusal == COP__REFUSE_NONE)
        refusal = take_over(peer, &greeting);
    *out = peer;
    return refusal;
}

/* The latest life of it that I know of. */
static cop_incarnation latest_of(const struct cop__peer *peer)
{
    const struct cop__peers_config *config = &peer->peers->config;
    cop_incarnation known = config->known(config->context, peer->id);
    cop_incarnation met = peer->acquaintance.session.incarnation;
    return known > met ? known : met;
}

COP__COLD static void on_hello(struct cop__conn *conn, const struct cop__item *item)
{
    struct cop__peer *peer = NULL;
    uint8_t bytes[COP__GREETING_MAX];
    enum cop__refusal refusal = admit(conn, item, &peer);
    if (conn->state != COP__CONN_STRANGER)
        return;
    if (refusal != COP__REFUSE_NONE) {
        refuse_life(conn, refusal,
                    peer && refusal == COP__REFUSE_INCARNATION ? latest_of(peer) : 0);
        return;
    }
    size_t length =
        cop__welcome_write(&conn->peers->config.identity, &peer->acquaintance,
                           cop__peer_is_wanted(peer), bytes);
    int error = write_greeting(conn, bytes, length);
    conn->link.keep = cop__peer_is_wanted(peer);
    open_conn(conn, peer);
    if (error < 0 && conn->state == COP__CONN_OPEN)
        cop__conn_lost(conn, error);
}

static enum cop__refusal judge_welcome(struct cop__conn *conn,
                                       const struct cop__item *item, uint64_t *resent)
{
    const struct cop__peers_config *config = &conn->peers->config;
    struct cop__greeting greeting;
    cop_id id = conn->peer->id;
    enum cop__refusal refusal =
        cop__welcome_judge(&config->identity, id, item, &greeting);
    if (refusal != COP__REFUSE_NONE)
        return refusal;
    if (greeting.incarnation < config->known(config->context, id))
        return COP__REFUSE_INCARNATION;
    return cop__greeting_accept(&conn->peer->acquaintance, &greeting, resent);
}

COP__COLD static void on_welcome(struct cop__conn *conn, const struct cop__item *item)
{
    struct cop__peers *peers = conn->peers;
    struct cop__peer *peer = conn->peer;
    uint64_t resent, held;
    enum cop__refusal refusal = judge_welcome(conn, item, &resent);
    if (refusal != COP__REFUSE_NONE) {
        if (cop__notice_is_due(&peers->refused_them[refusal], cop__clock_now(), &held))
            cop__log(peers->config.log, COP_LOG_WARN,
                     "member %u answered, but is not the one we know (reason %u, "
                     "%llu more like this)",
                     (unsigned)peer->id, (unsigned)refusal, (unsigned long long)held);
        count_refusal(peers->config.stats, refusal);
        cop__attempt_failed(peer, UV_ECONNREFUSED);
        return;
    }
    peers->config.stats->resent_frames += resent;
    peer->attempt = NULL;
    open_conn(conn, peer);
}

/* ---- guests ---------------------------------------------------------------------- */

/* Each command gives it as much time as a handshake has. One at a time: what is kept of those that
 * are not answered would have no bound. */
COP__COLD static void on_command(struct cop__conn *conn, struct cop__item *item)
{
    struct cop__peers *peers = conn->peers;
    if (conn->is_asking) {
        cop_buf_unref(item->frame.payload);
        refuse(conn, COP__REFUSE_GARBAGE);
        return;
    }
    conn->is_asking = true;
    if (conn->state == COP__CONN_STRANGER)
        conn->guest = ++peers->guests;
    conn->state = COP__CONN_GUEST;
    cop__alarm_start(peers->config.clock, &conn->alarm,
                     cop__clock_now() + peers->config.handshake_timeout_ns);
    peers->config.guest(peers->config.context, conn->guest, item->frame.payload);
    cop_buf_unref(item->frame.payload);
}

void cop__conn_answer(struct cop__conn *conn, const struct cop_buf *bytes)
{
    struct cop__batch batch = {.bytes = bytes->length, .count = 1};
    batch.spans[0] = (struct iovec){(void *)(uintptr_t)bytes->data, bytes->length};
    conn->is_asking = false;
    if (conn->stream.pending || cop__stream_write(&conn->stream, &batch) < 0)
        cop__conn_close(conn);
}

/* ---- what comes in --------------------------------------------------------------- */

static void on_frame(struct cop__conn *conn, struct cop__item *item)
{
    struct cop__peers *peers = conn->peers;
    struct cop_event event = {
        .kind = COP_EVENT_RECV, .peer = conn->peer->id, .frame = &item->frame};
    conn->is_used = conn->has_progress = true;
    if (item->skipped) {
        peers->config.stats->skipped_frames++;
        return;
    }
    event.now = cop__clock_now();
    if (!cop__conn_is_itself(conn, conn->peer->id))
        cop__conn_expel(conn);
    else if (cop__conn_is_own_join(conn, &item->frame))
        peers->config.event(peers->config.context, &event);
    else
        cop__conn_say_impostor(conn);
    cop_buf_unref(item->frame.payload);
}

static void on_nonsense(struct cop__conn *conn, int error);

COP__COLD static void on_show(struct cop__conn *conn, const struct cop__item *item)
{
    struct cop__peer *peer = conn->peer;
    if (conn->link.mark == NULL ||
        peer->unseen == peer->acquaintance.session.incarnation ||
        !cop__sight_open(&conn->sight, conn->stream.fd, item->address, item->mark))
        return; /* then it is sent */
    conn->link.must_see = true;
    cop__peer_mark_dirty(peer);
}

/* It could be read, and cannot any more: over a new connection all that was not counted is sent,
 * if there is still somebody to send it. */
COP__COLD static void on_unseen(struct cop__conn *conn)
{
    conn->peer->unseen = conn->peer->acquaintance.session.incarnation;
    conn->peers->config.stats->payloads_unseen++;
    cop__conn_renew(conn);
}

static void on_there(struct cop__conn *conn, struct cop__item *item)
{
    if (conn->sight.pid == 0) {
        on_nonsense(conn, COP_EMALFORMED);
        return;
    }
    struct cop_buf *payload = cop_buf_create(item->frame.header.length);
    if (payload == NULL) {
        on_nonsense(conn, COP_ENOMEM);
        return;
    }
    if (cop__sight_read(&conn->sight, item->address, payload->data, payload->length) !=
        0) {
        cop_buf_unref(payload);
        on_unseen(conn);
        return;
    }
    conn->peers->config.stats->payloads_read++;
    cop__link_fetched(&conn->link, item, payload);
    on_frame(conn, item);
}

static void on_sees(struct cop__conn *conn)
{
    if (conn->link.shown != COP__SHOWN)
        on_nonsense(conn, COP_EMALFORMED);
    else
        conn->link.shown = COP__SEEN;
}

COP__COLD static void on_bye(struct cop__conn *conn)
{
    struct cop__peer *peer = detach(conn);
    if (cop__peer_is_wanted(peer) || cop__session_is_owing(&peer->acquaintance.session))
        cop__peer_connect(peer);
    cop__peer_mark_dirty(peer);
}

/* As if the other side had said BYE: it is no sign of death, and nothing is lost. */
void cop__conn_renew(struct cop__conn *conn)
{
    if (conn->is_over) {
        cop__conn_lost(conn, UV_EOF);
    } else if (conn->state == COP__CONN_OPEN) {
        cop__conn_say_bye(conn);
        conn->has_progress = true; /* it is not its fault */
        on_bye(conn);
    } else if (conn->peer) {
        cop__attempt_failed(conn->peer, UV_ECONNABORTED);
    } else {
        cop__conn_close(conn);
    }
}

/* All but frames of members. */
COP__APART static void on_other_item(struct cop__conn *conn, struct cop__item *item)
{
    if (item->type == COP__RECORD_FRAME)
        on_command(conn, item);
    else if (item->type == COP__RECORD_THERE)
        on_there(conn, item);
    else if (item->type == COP__RECORD_SHOW)
        on_show(conn, item);
    else if (item->type == COP__RECORD_SEES)
        on_sees(conn);
    else if (item->type == COP__RECORD_BYE)
        on_bye(conn);
    else if (item->type == COP__RECORD_HELLO && conn->state == COP__CONN_STRANGER)
        on_hello(conn, item);
    else if (item->type == COP__RECORD_WELCOME && conn->state == COP__CONN_GREETED)
        on_welcome(conn, item);
    else if (item->type == COP__RECORD_REFUSE && conn->state == COP__CONN_GREETED)
        cop__attempt_refused(conn->peer, item);
    else
        refuse(conn, COP__REFUSE_GARBAGE);
}

static void on_item(struct cop__conn *conn, struct cop__item *item)
{
    conn->is_wise = true;
    if (item->type == COP__RECORD_FRAME && !is_outsider(conn))
        on_frame(conn, item);
    else
        on_other_item(conn, item);
    cop_buf_unref(item->body);
}

/* What came makes no sense. One line, and no more of it. */
COP__COLD static void on_nonsense(struct cop__conn *conn, int error)
{
    struct cop__peers *peers = conn->peers;
    uint64_t held;
    if (is_outsider(conn)) {
        refuse(conn, COP__REFUSE_GARBAGE);
        return;
    }
    if (error != COP_ENOMEM)
        peers->config.stats->refused_garbage++;
    if (cop__notice_is_due(&peers->nonsense, cop__clock_now(), &held))
        cop__log(peers->config.log, COP_LOG_WARN,
                 "cut the connection to member %u: %s (%llu more like this)",
                 (unsigned)conn->peer->id, cop_strerror(error),
                 (unsigned long long)held);
    if (conn->state == COP__CONN_OPEN)
        cop__conn_lost(conn, UV_ECONNRESET);
    else
        cop__attempt_failed(conn->peer, UV_ECONNRESET);
}

/* A connection is good for something if frames come, or if ours are counted. */
static uint64_t counted(const struct cop__conn *conn)
{
    uint64_t sum = 0;
    for (int i = 0; conn->link.session && i < COP__LANES; i++)
        sum += conn->link.session->lanes[i].counted;
    return sum;
}

static void after_input(struct cop__conn *conn, uint64_t counted_before, bool is_count)
{
    struct cop__session *session = &conn->peer->acquaintance.session;
    if (counted(conn) > counted_before) {
        conn->is_used = conn->has_progress = true;
        if (is_count && !cop__session_is_owing(session))
            cop__stream_pause(&conn->stream);
    }
    if (cop__session_must_tell(session)) {
        conn->link.must_tell = true;
        cop__peer_mark_dirty(conn->peer);
    } else if (cop__session_has_untold(session)) {
        cop__peers_heard(conn);
    }
    if (conn->has_progress)
        conn->peer->failures = 0;
    cop__conn_review(conn);
}

static void on_bytes(struct cop__stream *stream, const uint8_t *data, size_t length)
{
    struct cop__conn *conn = (struct cop__conn *)stream;
    struct cop__bytes in = {data, (uint32_t)length};
    struct cop__item item;
    uint64_t counted_before = counted(conn);
    int found = 0;
    bool is_count = true;
    while (conn->state != COP__CONN_CLOSING &&
           (found = cop__link_input(&conn->link, &in, &item)) > 0) {
        on_item(conn, &item);
        is_count = false;
    }
    if (conn->state != COP__CONN_CLOSING && found < 0)
        on_nonsense(conn, found);
    if (conn->state == COP__CONN_OPEN)
        after_input(conn, counted_before, is_count);
}

static void count_handshake(const struct cop__conn *conn)
{
    struct cop__tcp_stats *stats = conn->peers->config.stats;
    stats->handshakes++;
    stats->handshakes_awaited += !cop__peer_is_spare(conn->peer);
}

static void on_connected(struct cop__stream *stream, int error)
{
    struct cop__conn *conn = (struct cop__conn *)stream;
    if (conn->state != COP__CONN_CONNECTING)
        return;
    if (error == 0 && !cop__conn_is_itself(conn, conn->peer->id))
        error = cop__stream_reject(stream, COP__FAULT_NAME);
    if (error != 0) {
        cop__attempt_failed(conn->peer, error);
        return;
    }
    if (stream->channel)
        count_handshake(conn);
    cop__conn_greet(conn);
}

/*
 * A member that dies ends all that were held in reserve at once, at four times as many as
 * have something to do then: what those do first, these do not delay. Whoever asks for the
 * connection before finds it broken.
 */
static bool put_off(struct cop__conn *conn, int error)
{
    if (error != UV_EOF || conn->stream.pending || !cop__peer_is_spare(conn->peer))
        return false;
    conn->is_over = true;
    cop__stream_mute(&conn->stream);
    cop__alarm_start(conn->peers->config.clock, &conn->alarm,
                     cop__clock_now() + PUT_OFF);
    return true;
}

static void on_ended(struct cop__stream *stream, int error)
{
    struct cop__conn *conn = (struct cop__conn *)stream;
    switch (conn->state) {
    case COP__CONN_CONNECTING:
    case COP__CONN_GREETED:
        cop__attempt_failed(conn->peer, error);
        return;
    case COP__CONN_STRANGER:
    case COP__CONN_GUEST:
        conn->is_guilty = error == COP__STREAM_UNPROVEN;
        if (conn->is_guilty)
            cop__conn_say_unproven(conn);
        cop__conn_close(conn);
        return;
    case COP__CONN_OPEN:
        if (error == COP__STREAM_UNPROVEN)
            cop__conn_say_changed(conn);
        if (!put_off(conn, error))
            cop__conn_lost(conn, error);
        return;
    case COP__CONN_CLOSING:
        return;
    }
}

static void on_drained(struct cop__stream *stream)
{
    struct cop__conn *conn = (struct cop__conn *)stream;
    if (conn->state == COP__CONN_OPEN)
        cop__peer_mark_dirty(conn->peer);
}

const struct cop__stream_events cop__conn_events = {
    .connected = on_connected,
    .bytes = on_bytes,
    .ended = on_ended,
    .drained = on_drained,
    .closed = on_closed,
};

/* ---- ageing ---------------------------------------------------------------------- */

void cop__conn_say_bye(struct cop__conn *conn)
{
    struct cop__batch batch;
    uint8_t space[COP__RECORD_SIZE];
    if (conn->stream.pending)
        return;
    cop__batch_init(&batch, space, sizeof space);
    cop__link_say(&conn->link, &batch, COP__RECORD_BYE);
    /* Without it the other side sees the end of the connection, and finds out as well. */
    cop__stream_write(&conn->stream, &batch);
}

static bool is_needed(const struct cop__conn *conn)
{
    return cop__peer_is_wanted(conn->peer) || conn->link.other_keeps;
}

/*
 * The alarm runs only while nobody needs the connection, and twice before it closes: once
 * to begin a period, once to find that nothing happened in it. So use costs a flag.
 */
void cop__conn_review(struct cop__conn *conn)
{
    struct cop__peers *peers = conn->peers;
    if (conn->is_over)
        return;
    if (is_needed(conn)) {
        cop__alarm_stop(peers->config.clock, &conn->alarm);
    } else if (!cop__alarm_is_set(&conn->alarm)) {
        conn->is_used = false;
        cop__alarm_start(peers->config.clock, &conn->alarm,
                         cop__clock_now() + peers->config.idle_close_ns);
    }
}

static void on_idle(struct cop__conn *conn)
{
    const struct cop__session *session = &conn->peer->acquaintance.session;
    if (conn->is_used || cop__session_is_owing(session)) {
        cop__conn_review(conn);
        return;
    }
    conn->peers->config.stats->aged_out++;
    conn->has_progress = true; /* it was, in its time */
    cop__conn_say_bye(conn);
    detach(conn);
}

static void on_alarm(struct cop__alarm *alarm, cop_time now)
{
    struct cop__conn *conn =
        (struct cop__conn *)((char *)alarm - offsetof(struct cop__conn, alarm));
    (void)now;
    if (conn->is_over) {
        cop__conn_lost(conn, UV_EOF);
    } else if (conn->state == COP__CONN_OPEN) {
        on_idle(conn);
    } else if (conn->peer) {
        cop__attempt_failed(conn->peer, UV_ETIMEDOUT);
    } else {
        conn->peers->config.stats->timed_out++;
        conn->is_guilty = conn->state == COP__CONN_STRANGER;
        cop__conn_close(conn);
    }
}
