/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What others have proved, and what is said where they have not. The line in the log is the
 * only place where the reason is told: the other side learns that it was refused.
 */
#include <string.h>

#include "net/tcp/table.h"
#include "net/tls/tls.h"
#include "wire/header.h"
#include "wire/messages.h"

/* ---- names ----------------------------------------------------------------------- */

/*
 * Whether a member's certificate is its own. Without certificates all are trusted. An id that
 * has no name yet is somebody's who joins; it is asked for again until it has one, for by then
 * it may be somebody else's.
 */
bool cop__conn_prove(struct cop__conn *conn, cop_id id)
{
    const struct cop__peers_config *config = &conn->peers->config;
    char name[COP_NAME_MAX + 1];
    if (!config->tls || !config->name_of || !cop__tls_has_certificates(config->tls))
        return conn->is_named = true;
    if (config->name_of(config->address_context, id, name, sizeof name) != 0)
        return true; /* it joins: see below */
    return conn->is_named = cop__stream_is_named(&conn->stream, name);
}

/* What is malformed is let through: the node says what it thinks of that. */
static bool says_own_name(const struct cop__conn *conn, struct cop__bytes payload)
{
    struct cop__msg_join join;
    char name[COP_NAME_MAX + 1];
    if (cop__decode_join(payload.data, payload.length, &join) != 0 ||
        join.card.length == 0 || join.card.data[0] >= join.card.length)
        return true;
    memcpy(name, join.card.data + 1, join.card.data[0]);
    name[join.card.data[0]] = '\0';
    return name[0] == '\0' || cop__stream_is_named(&conn->stream, name);
}

/* Of a frame that is to be passed on: whether it is a JOIN of whoever gave it to us. */
static bool holds_join(const struct cop__conn *conn, struct cop__bytes *payload)
{
    struct cop__msg_relay relay;
    struct cop_header header;
    if (cop__decode_relay(payload->data, payload->length, &relay) != 0 ||
        relay.frame.length < COP__HEADER_SIZE ||
        cop__header_decode(relay.frame.data, &header) != 0 ||
        header.kind != COP__KIND_JOIN || header.sender != conn->peer->id)
        return false;
    payload->data = relay.frame.data + COP__HEADER_SIZE;
    payload->length = relay.frame.length - COP__HEADER_SIZE;
    return true;
}

/* Whoever joins says its name; the certificate must say the same. The root cannot see that of
 * one who comes by way of us, so we do. */
bool cop__conn_is_own_join(const struct cop__conn *conn, const struct cop_frame *frame)
{
    const struct cop__peers_config *config = &conn->peers->config;
    uint16_t kind = frame->header.kind;
    if ((kind != COP__KIND_JOIN && kind != COP__KIND_RELAY) || !config->tls ||
        !config->name_of || !frame->payload)
        return true;
    struct cop__bytes payload = {frame->payload->data, frame->payload->length};
    if (kind == COP__KIND_RELAY && !holds_join(conn, &payload))
        return true;
    return says_own_name(conn, payload);
}

/* ---- what is said ---------------------------------------------------------------- */

void cop__conn_say_impostor(struct cop__conn *conn)
{
    struct cop__peers *peers = conn->peers;
    uint64_t held;
    peers->config.stats->refused_unproven++;
    if (cop__notice_is_due(&peers->unproven[COP__FAULT_NAME], cop__clock_now(), &held))
        cop__log(peers->config.log, COP_LOG_WARN,
                 "refused to take somebody for member %u: %s (%llu more like this)",
                 (unsigned)conn->peer->id, cop__fault_text(COP__FAULT_NAME),
                 (unsigned long long)held);
}

/* Somebody on the way has changed what a member sent: it is to be had again. */
void cop__conn_say_changed(struct cop__conn *conn)
{
    struct cop__peers *peers = conn->peers;
    const char *detail;
    uint64_t held;
    cop__stream_fault(&conn->stream, &detail);
    peers->config.stats->refused_garbage++;
    if (cop__notice_is_due(&peers->nonsense, cop__clock_now(), &held))
        cop__log(peers->config.log, COP_LOG_WARN,
                 "cut the connection to member %u: what came is not what it sent: %s "
                 "(%llu more like this)",
                 (unsigned)conn->peer->id, detail, (unsigned long long)held);
}

/* A stranger that is not one of us: it learns no more than that, and the log says it once. */
void cop__conn_say_unproven(struct cop__conn *conn)
{
    struct cop__peers *peers = conn->peers;
    const char *detail;
    enum cop__fault fault = cop__stream_fault(&conn->stream, &detail);
    uint64_t held;
    peers->config.stats->refused_unproven++;
    if (cop__notice_is_due(&peers->unproven[fault], cop__clock_now(), &held))
        cop__log(peers->config.log, COP_LOG_WARN,
                 "refused a connection: %s%s%s (%llu more like this)",
                 cop__fault_text(fault), *detail ? ": " : "", detail,
                 (unsigned long long)held);
}
