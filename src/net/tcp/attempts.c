/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our attempts to connect: when one begins, what each way to fail means, and who tries again
 * (see peers.h).
 */
#include "net/tcp/table.h"

/*
 * A process that is killed closes its connections a moment before it stops listening, and
 * whoever is faster is let in and cut off: so the first pause is short. The longest is half
 * a second.
 */
#define PAUSE_FIRST (COP_MSEC / 2)
#define PAUSE_DOUBLINGS 10u
/* The other side's connection is on its way: no use to ask again soon. */
#define PAUSE_CROSSED (500 * COP_MSEC)
/* So long the other side may come first, where two connections would cost too much. */
#define COURTESY (400 * COP_MSEC)
/* So long it is believed that nobody is there. */
#define REFUSAL_HOLDS COP_MSEC

/* What an error of libuv says about an attempt. */
enum meaning {
    SHORTAGE, /* of our own: says nothing about the other side */
    BUSY,     /* it is there, but did not take us now */
    REFUSED,  /* nobody is there */
    UNPROVEN, /* somebody is there, but did not prove to be the one */
    SILENT,   /* nothing came back */
};

static enum meaning meaning_of(int error)
{
    switch (error) {
    case UV_EMFILE:
    case UV_ENFILE:
    case UV_ENOBUFS:
    case UV_ENOMEM:
    case UV_EADDRNOTAVAIL: /* no local port is free */
        return SHORTAGE;
    case UV_EAGAIN: /* a Unix socket whose queue is full */
    case UV_EOF:
    case UV_ECONNRESET:
    case UV_ECONNABORTED:
    case UV_EPIPE:
        return BUSY;
    case UV_ECONNREFUSED:
    case UV_ENOENT:
    case UV_ENOTDIR:
        return REFUSED;
    case COP__STREAM_UNPROVEN:
        return UNPROVEN;
    default:
        return SILENT;
    }
}

static cop_time pause_of(uint32_t failures)
{
    uint32_t doublings = failures < PAUSE_DOUBLINGS ? failures : PAUSE_DOUBLINGS;
    return PAUSE_FIRST << doublings;
}

/* What is only held in reserve is given up without a word: it says nothing of a death. */
static bool gives_up_spare(struct cop__peer *peer)
{
    if (!cop__peer_is_spare(peer))
        return false;
    cop__attempt_drop(peer);
    peer->failures = 0;
    cop__peer_cooled(peer);
    return true;
}

static void give_up(struct cop__peer *peer, enum cop_down why)
{
    if (gives_up_spare(peer))
        return;
    cop__attempt_drop(peer);
    peer->failures = 0;
    if (why == COP_DOWN_SILENT)
        peer->peers->config.stats->timed_out++;
    if (peer->is_warm)
        cop__peer_cooled(peer);
    cop__peer_down(peer, 0, why);
}

static void try_later(struct cop__peer *peer, cop_time pause)
{
    cop__attempt_drop(peer);
    peer->failures++;
    cop__alarm_start(peer->peers->config.clock, &peer->again, cop__clock_now() + pause);
}

static void say_short(struct cop__peers *peers, int error)
{
    uint64_t held;
    peers->config.stats->shortages++;
    if (cop__notice_is_due(&peers->shortage, cop__clock_now(), &held))
        cop__log(peers->config.log, COP_LOG_WARN,
                 "cannot connect for now, will try again: %s (%llu more like this)",
                 uv_strerror(error), (unsigned long long)held);
}

static void say_unproven(struct cop__peer *peer)
{
    struct cop__peers *peers = peer->peers;
    const char *detail;
    enum cop__fault fault = cop__stream_fault(&peer->attempt->stream, &detail);
    uint64_t held;
    if (cop__notice_is_due(&peers->unproven_to_us[fault], cop__clock_now(), &held))
        cop__log(
            peers->config.log, COP_LOG_WARN,
            "whoever listens for member %u is not accepted: %s%s%s (%llu more like "
            "this)",
            (unsigned)peer->id, cop__fault_text(fault), *detail ? ": " : "", detail,
            (unsigned long long)held);
}

/* Where members start one after the other: this one is perhaps not there yet (D15). */
static bool is_awaited(const struct cop__peer *peer)
{
    return peer->acquaintance.session.incarnation == 0 &&
           cop__clock_now() < peer->peers->config.patient_until;
}

void cop__attempt_failed(struct cop__peer *peer, int error)
{
    struct cop__peers *peers = peer->peers;
    bool is_patient = cop__clock_now() < peer->patience;
    uint64_t held;
    if (gives_up_spare(peer))
        return;
    switch (meaning_of(error)) {
    case SHORTAGE:
        say_short(peers, error);
        /* What strangers hold is ours to take back. */
        try_later(peer, (error == UV_EMFILE || error == UV_ENFILE) &&
                                cop__accept_make_room(peers)
                            ? PAUSE_FIRST
                            : pause_of(PAUSE_DOUBLINGS));
        return;
    case BUSY:
        if (is_patient)
            try_later(peer, pause_of(peer->failures));
        else
            give_up(peer, error == UV_EAGAIN ? COP_DOWN_SILENT : COP_DOWN_CLOSED);
        return;
    case REFUSED:
        if (is_awaited(peer))
            try_later(peer, pause_of(peer->failures));
        else
            give_up(peer, COP_DOWN_REFUSED);
        return;
    case UNPROVEN:
        /* A byte may have been changed on the way, or a key is being rotated; but if it
         * stays like this the member is not where it was. */
        say_unproven(peer);
        if (is_patient)
            try_later(peer, pause_of(peer->failures));
        else
            give_up(peer, COP_DOWN_REFUSED);
        return;
    case SILENT:
        if (cop__notice_is_due(&peers->unreachable, cop__clock_now(), &held))
            cop__log(peers->config.log, COP_LOG_INFO,
                     "cannot reach member %u: %s (%llu more like this)",
                     (unsigned)peer->id, uv_strerror(error), (unsigned long long)held);
        if (is_awaited(peer))
            try_later(peer, pause_of(peer->failures));
        else
            give_up(peer, COP_DOWN_SILENT);
        return;
    }
}

void cop__attempt_refused(struct cop__peer *peer, const struct cop__item *item)
{
    struct cop__peers *peers = peer->peers;
    char text[128];
    uint64_t held;
    enum cop__refusal refusal = cop__refuse_read(item, text, sizeof text);
    if (refusal != COP__REFUSE_INCARNATION && gives_up_spare(peer))
        return;
    if (refusal == COP__REFUSE_CROSSED || refusal == COP__REFUSE_STALE) {
        if (cop__clock_now() < peer->patience)
            try_later(peer, PAUSE_CROSSED);
        else
            give_up(peer, COP_DOWN_SILENT);
        return;
    }
    uint32_t index = (uint32_t)refusal < COP__REFUSAL_COUNT ? (uint32_t)refusal : 0;
    if (cop__notice_is_due(&peers->refused_us[index], cop__clock_now(), &held))
        cop__log(peers->config.log, COP_LOG_WARN,
                 "member %u refused our connection: %s (%llu more like this)",
                 (unsigned)peer->id, text, (unsigned long long)held);
    if (refusal == COP__REFUSE_INCARNATION && peers->config.outlived)
        peers->config.outlived(peers->config.context, item->record.count);
    give_up(peer, COP_DOWN_REFUSED);
}

void cop__attempt_drop(struct cop__peer *peer)
{
    struct cop__conn *conn = peer->attempt;
    cop__alarm_stop(peer->peers->config.clock, &peer->again);
    peer->is_courteous = false;
    peer->attempt = NULL;
    if (conn)
        cop__conn_close(conn);
}

/*
 * Who finds that a member is gone tells it so, in case that it lives, and with that would ask the
 * same address again in the same moment: it has nothing else to say.
 */
static bool was_refused_just_now(const struct cop__peer *peer)
{
    const struct cop__peers_config *config = &peer->peers->config;
    return peer->refused != 0 && cop__clock_now() - peer->refused < REFUSAL_HOLDS &&
           config->known(config->context, peer->id) == peer->refused_life;
}

static void note_refusal(struct cop__peer *peer, int error)
{
    const struct cop__peers_config *config = &peer->peers->config;
    bool is_refused = meaning_of(error) == REFUSED && !is_awaited(peer);
    peer->refused = is_refused ? cop__clock_now() : 0;
    peer->refused_life = config->known(config->context, peer->id);
}

static void begin(struct cop__peer *peer)
{
    struct cop__peers *peers = peer->peers;
    struct cop__address address;
    if (peer->patience == 0)
        peer->patience = cop__clock_now() + peers->config.connect_timeout_ns;
    if (was_refused_just_now(peer)) {
        cop__attempt_failed(peer, UV_ECONNREFUSED);
        return;
    }
    if (peers->config.address(peers->config.address_context, peer->id, &address) != 0 ||
        address.length == 0) {
        give_up(peer, COP_DOWN_REFUSED);
        return;
    }
    struct cop__conn *conn = cop__conn_create(peers, COP__CONN_CONNECTING);
    if (!conn) {
        cop__attempt_failed(peer, UV_ENOMEM);
        return;
    }
    conn->peer = peer;
    peer->attempt = conn;
    peers->config.stats->connects++;
    cop__alarm_start(peers->config.clock, &conn->alarm,
                     cop__clock_now() + peers->config.connect_timeout_ns);
    int connected = cop__stream_connect(
        &conn->stream, (const struct sockaddr *)&address.storage, address.length);
    if (connected < 0) {
        peer->attempt = NULL;
        cop__conn_discard(conn);
        note_refusal(peer, connected);
        cop__attempt_failed(peer, connected);
    } else if (connected == 1) {
        cop__conn_greet(conn);
    }
}

void cop__attempt_again(struct cop__alarm *alarm, cop_time now)
{
    struct cop__peer *peer =
        (struct cop__peer *)((char *)alarm - offsetof(struct cop__peer, again));
    (void)now;
    peer->is_courteous = false;
    /* The wish may have gone while we waited. */
    if (cop__peer_is_wanted(peer) || cop__session_is_owing(&peer->acquaintance.session))
        begin(peer);
    else
        peer->failures = 0;
    cop__peer_weigh(peer);
}

/*
 * Members that start together call each other at the same time, and one of the two
 * connections is for nothing. A handshake costs half a millisecond: so where there is one,
 * whoever would lose (handshake.h) waits a moment, once, and if it has nothing to say.
 */
static bool is_courteous(const struct cop__peer *peer)
{
    const struct cop__acquaintance *acquaintance = &peer->acquaintance;
    const struct cop__peers_config *config = &peer->peers->config;
    return config->tls != NULL && peer->keep && peer->id < config->identity.self &&
           acquaintance->attempts == 0 && acquaintance->session.incarnation == 0 &&
           !cop__session_is_owing(&acquaintance->session);
}

void cop__peer_connect(struct cop__peer *peer)
{
    struct cop__peers *peers = peer->peers;
    cop_time now;
    if (peer->is_courteous && cop__session_is_owing(&peer->acquaintance.session)) {
        peer->is_courteous = false;
        cop__alarm_stop(peers->config.clock, &peer->again);
    }
    if (peer->open || peer->attempt || cop__alarm_is_set(&peer->again) ||
        peers->is_closing)
        return;
    now = cop__clock_now();
    if (is_courteous(peer)) {
        peer->is_courteous = true;
        cop__alarm_start(peers->config.clock, &peer->again, now + COURTESY);
        return;
    }
    peer->patience = now + peers->config.connect_timeout_ns;
    /* One break is no reason to wait; one after the other is. */
    if (peer->failures > 1)
        cop__alarm_start(peers->config.clock, &peer->again,
                         now + pause_of(peer->failures));
    else
        begin(peer);
}
