/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp/handshake.h"

#include <string.h>

#include "base/assert.h"
#include "wire/messages.h"

const char *cop__refusal_text(enum cop__refusal refusal)
{
    switch (refusal) {
#define CASE(name, number, text)                                                       \
    case COP__REFUSE_##name:                                                           \
        return text;
        COP__REFUSALS(CASE)
#undef CASE
    case COP__REFUSE_NONE:
    case COP__REFUSAL_COUNT:
        break;
    }
    return "no reason that is known here";
}

void cop__acquaintance_init(struct cop__acquaintance *acquaintance)
{
    memset(acquaintance, 0, sizeof *acquaintance);
    cop__session_init(&acquaintance->session);
}

void cop__acquaintance_fini(struct cop__acquaintance *acquaintance)
{
    cop__session_fini(&acquaintance->session);
}

/* ---- saying ---------------------------------------------------------------------- */

/* Puts the record in front of a body, and gives the body back. */
static size_t write_record(struct cop__record record, struct cop_buf *body,
                           uint8_t *out)
{
    if (!body)
        return 0;
    size_t length = body->length;
    COP_ASSERT(COP__RECORD_SIZE + length <= COP__GREETING_MAX);
    record.length = body->length;
    cop__record_encode(&record, out);
    memcpy(out + COP__RECORD_SIZE, body->data, length);
    cop_buf_unref(body);
    return COP__RECORD_SIZE + length;
}

static struct cop__record greeting_record(enum cop__record_type type,
                                          const struct cop__acquaintance *acquaintance,
                                          bool keep)
{
    const struct cop__session *session = &acquaintance->session;
    return (struct cop__record){
        .type = (uint8_t)type,
        .flags = keep ? COP__RECORD_KEEP : 0,
        .count = acquaintance->attempts,
        .bulk = session->lanes[COP__LANE_BULK].received,
    };
}

static uint64_t load64(const uint8_t *bytes)
{
    struct cop__reader reader = cop__reader(bytes, 8);
    return cop__get_u64(&reader);
}

size_t cop__hello_write(const struct cop__identity *identity, cop_id receiver,
                        struct cop__acquaintance *acquaintance, bool keep,
                        uint8_t out[COP__GREETING_MAX])
{
    struct cop__session *session = &acquaintance->session;
    struct cop__msg_hello hello = {
        .major = COP__PROTOCOL_MAJOR,
        .minor = COP__PROTOCOL_MINOR,
        .cluster_hi = load64(identity->cluster),
        .cluster_lo = load64(identity->cluster + 8),
        .instance = identity->instance,
        .sender = identity->self,
        .receiver = receiver,
        .incarnation = identity->incarnation,
        .received = session->lanes[COP__LANE_CONTROL].received,
        .peer_incarnation = session->incarnation,
    };
    acquaintance->attempts++;
    struct cop__record record = greeting_record(COP__RECORD_HELLO, acquaintance, keep);
    return write_record(record, cop__encode_hello(&hello), out);
}

size_t cop__welcome_write(const struct cop__identity *identity,
                          struct cop__acquaintance *acquaintance, bool keep,
                          uint8_t out[COP__GREETING_MAX])
{
    struct cop__session *session = &acquaintance->session;
    struct cop__msg_welcome welcome = {
        .major = COP__PROTOCOL_MAJOR,
        .minor = COP__PROTOCOL_MINOR,
        .sender = identity->self,
        .incarnation = identity->incarnation,
        .received = session->lanes[COP__LANE_CONTROL].received,
        .peer_incarnation = session->incarnation,
    };
    struct cop__record record =
        greeting_record(COP__RECORD_WELCOME, acquaintance, keep);
    return write_record(record, cop__encode_welcome(&welcome), out);
}

size_t cop__refuse_write(enum cop__refusal refusal, cop_incarnation later,
                         uint8_t out[COP__GREETING_MAX])
{
    const char *text = cop__refusal_text(refusal);
    struct cop__msg_refuse refuse = {
        .major = COP__PROTOCOL_MAJOR,
        .minor = COP__PROTOCOL_MINOR,
        .reason = (uint16_t)refusal,
        .text = {(const uint8_t *)text, (uint32_t)strlen(text)},
    };
    struct cop__record record = {.type = COP__RECORD_REFUSE, .count = later};
    return write_record(record, cop__encode_refuse(&refuse), out);
}

/* ---- judging --------------------------------------------------------------------- */

/* The version comes first in every greeting, whatever may follow it in another one. */
static bool is_other_version(const struct cop_buf *body)
{
    return body && body->length > 0 && body->data[0] != COP__PROTOCOL_MAJOR;
}

/* Counts that are about an earlier life of ours say nothing about this one. */
static struct cop__counts own_counts(const struct cop__identity *identity,
                                     cop_incarnation about, uint64_t control,
                                     uint64_t bulk)
{
    struct cop__counts counts = {{0, 0}};
    if (about == identity->incarnation)
        counts = (struct cop__counts){{control, bulk}};
    return counts;
}

static enum cop__refusal judge_hello(const struct cop__identity *identity,
                                     const struct cop__msg_hello *hello)
{
    if (hello->cluster_hi != load64(identity->cluster) ||
        hello->cluster_lo != load64(identity->cluster + 8) ||
        hello->instance != identity->instance)
        return COP__REFUSE_CLUSTER;
    if (hello->sender == identity->self)
        return COP__REFUSE_SELF;
    if (hello->receiver != identity->self)
        return COP__REFUSE_RECEIVER;
    bool is_known = identity->is_open
                        ? hello->sender < COP_MEMBERS_MAX
                        : cop_view_rank(identity->view, hello->sender) != COP_RANK_NONE;
    if (!is_known)
        return COP__REFUSE_STRANGER;
    /* Zero stands for "not known" and is nobody's incarnation; and the last ones could not be
     * exceeded by whoever has the id. */
    return hello->incarnation == 0 || hello->incarnation >= UINT64_MAX - 1
               ? COP__REFUSE_GARBAGE
               : COP__REFUSE_NONE;
}

enum cop__refusal cop__hello_judge(const struct cop__identity *identity,
                                   const struct cop__item *item,
                                   struct cop__greeting *out)
{
    struct cop__msg_hello hello;
    if (item->type != COP__RECORD_HELLO || !item->body)
        return COP__REFUSE_GARBAGE;
    if (is_other_version(item->body))
        return COP__REFUSE_VERSION;
    if (cop__decode_hello(item->body->data, item->body->length, &hello) != 0)
        return COP__REFUSE_GARBAGE;
    enum cop__refusal refusal = judge_hello(identity, &hello);
    if (refusal != COP__REFUSE_NONE)
        return refusal;
    *out = (struct cop__greeting){
        .sender = hello.sender,
        .incarnation = hello.incarnation,
        .attempt = item->record.count,
        .counts = own_counts(identity, hello.peer_incarnation, hello.received,
                             item->record.bulk),
    };
    return COP__REFUSE_NONE;
}

enum cop__refusal cop__welcome_judge(const struct cop__identity *identity,
                                     cop_id expected, const struct cop__item *item,
                                     struct cop__greeting *out)
{
    struct cop__msg_welcome welcome;
    if (item->type != COP__RECORD_WELCOME || !item->body)
        return COP__REFUSE_GARBAGE;
    if (is_other_version(item->body))
        return COP__REFUSE_VERSION;
    if (cop__decode_welcome(item->body->data, item->body->length, &welcome) != 0)
        return COP__REFUSE_GARBAGE;
    if (welcome.sender != expected)
        return COP__REFUSE_RECEIVER;
    if (welcome.incarnation == 0)
        return COP__REFUSE_GARBAGE;
    *out = (struct cop__greeting){
        .sender = welcome.sender,
        .incarnation = welcome.incarnation,
        .attempt = item->record.count,
        .counts = own_counts(identity, welcome.peer_incarnation, welcome.received,
                             item->record.bulk),
    };
    return COP__REFUSE_NONE;
}

enum cop__refusal cop__hello_admit(const struct cop__identity *identity,
                                   const struct cop__acquaintance *acquaintance,
                                   cop_incarnation known, enum cop__attempt attempt,
                                   const struct cop__greeting *greeting)
{
    const struct cop__session *session = &acquaintance->session;
    if (greeting->incarnation < known || greeting->incarnation < session->incarnation)
        return COP__REFUSE_INCARNATION;
    bool is_same = greeting->incarnation == session->incarnation;
    if (is_same && session->lost)
        return COP__REFUSE_LOST;
    if (is_same && greeting->attempt <= acquaintance->attempts_heard)
        return COP__REFUSE_STALE;
    /* Before our HELLO is out there is nothing to cross; and a way that only the other
     * side can go must stay open to it. */
    if (attempt == COP__ATTEMPT_GREETED && identity->self < greeting->sender)
        return COP__REFUSE_CROSSED;
    return COP__REFUSE_NONE;
}

enum cop__refusal cop__greeting_accept(struct cop__acquaintance *acquaintance,
                                       const struct cop__greeting *greeting,
                                       uint64_t *resent)
{
    struct cop__session *session = &acquaintance->session;
    bool is_same = greeting->incarnation == session->incarnation;
    if (greeting->incarnation < session->incarnation)
        return COP__REFUSE_INCARNATION;
    if (is_same && session->lost)
        return COP__REFUSE_LOST;
    /* A life that has just begun cannot have any of our frames. */
    for (int i = 0; !is_same && i < COP__LANES; i++)
        if (greeting->counts.lanes[i] != 0)
            return COP__REFUSE_GARBAGE;
    if (is_same && cop__session_resume(session, &greeting->counts, resent) != 0)
        return COP__REFUSE_GARBAGE;
    if (!is_same) {
        cop__session_meet(session, greeting->incarnation);
        acquaintance->attempts_heard = 0;
        *resent = 0;
    }
    if (acquaintance->attempts_heard < greeting->attempt)
        acquaintance->attempts_heard = greeting->attempt;
    return COP__REFUSE_NONE;
}

enum cop__refusal cop__refuse_read(const struct cop__item *item, char *text,
                                   size_t size)
{
    struct cop__msg_refuse refuse;
    size_t length = 0;
    bool is_readable =
        item->body &&
        cop__decode_refuse(item->body->data, item->body->length, &refuse) == 0;
    for (uint32_t i = 0; is_readable && i < refuse.text.length && length + 1 < size;
         i++) {
        uint8_t byte = refuse.text.data[i];
        text[length++] = byte >= ' ' && byte <= '~' ? (char)byte : '?';
    }
    if (size > 0)
        text[length] = '\0';
    return is_readable ? (enum cop__refusal)refuse.reason : COP__REFUSE_GARBAGE;
}
