/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What others have proved, and what is said where they have not. The line in the log is the
 * only place where the reason is told: the other side learns that it was refused.
 */
#include <string.h>

#include "net/tcp/table.h"
#include "net/tls/tls.h"
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

/* Whoever joins says its name; the certificate must say the same. */
bool cop__conn_is_own_join(const struct cop__conn *conn, const struct cop_frame *frame)
{
    const struct cop__peers_config *config = &conn->peers->config;
    struct cop__msg_join join;
    char name[COP_NAME_MAX + 1];
    if (frame->header.kind != COP__KIND_JOIN || !config->tls || !config->name_of)
        return true;
    if (!frame->payload ||
        cop__decode_join(frame->payload->data, frame->payload->length, &join) != 0 ||
        join.card.length == 0 || join.card.data[0] >= join.card.length)
        return true; /* the node says what it thinks of that */
    memcpy(name, join.card.data + 1, join.card.data[0]);
    name[join.card.data[0]] = '\0';
    return name[0] == '\0' || cop__stream_is_named(&conn->stream, name);
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
