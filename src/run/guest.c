/* SPDX-License-Identifier: Apache-2.0 */
#include "run/guest.h"

#include "base/assert.h"
#include "wire/header.h"

#include <coppice/error.h>
#include <string.h>

/* ---- INVITE ---------------------------------------------------------------------- */

struct cop_buf *cop__invite_encode(const struct cop__invite *invite)
{
    size_t length = 4 + sizeof invite->cluster + 8 + 8 + 1 + 4 + strlen(invite->name);
    struct cop__bytes name = {(const uint8_t *)invite->name,
                              (uint32_t)strlen(invite->name)};
    struct cop_buf *buf = cop_buf_create(length);
    if (buf == NULL)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    cop__put_bytes(&writer,
                   (struct cop__bytes){invite->cluster, sizeof invite->cluster});
    cop__put_u64(&writer, invite->instance);
    cop__put_u64(&writer, invite->incarnation);
    cop__put_u8(&writer, invite->is_new);
    cop__put_bytes(&writer, name);
    COP_ASSERT(!writer.failed && writer.at == writer.end);
    return buf;
}

int cop__invite_decode(struct cop__bytes body, struct cop__invite *out)
{
    struct cop__reader reader = cop__reader(body.data, body.length);
    struct cop__invite invite = {0};
    struct cop__bytes cluster = cop__get_bytes(&reader);
    invite.instance = cop__get_u64(&reader);
    invite.incarnation = cop__get_u64(&reader);
    invite.is_new = cop__get_u8(&reader) != 0;
    struct cop__bytes name = cop__get_bytes(&reader);
    if (!cop__reader_is_done(&reader) || cluster.length != sizeof invite.cluster ||
        invite.incarnation == 0 || name.length == 0 ||
        name.length >= sizeof invite.name || memchr(name.data, 0, name.length) != NULL)
        return COP_EMALFORMED;
    memcpy(invite.cluster, cluster.data, sizeof invite.cluster);
    memcpy(invite.name, name.data, name.length);
    *out = invite;
    return 0;
}

struct cop_buf *cop__invited_encode(const struct cop__invited *invited)
{
    struct cop_buf *buf = cop_buf_create(1 + 4 + invited->invitation.length);
    if (buf == NULL)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    cop__put_u8(&writer, invited->degraded);
    cop__put_bytes(&writer, invited->invitation);
    COP_ASSERT(!writer.failed && writer.at == writer.end);
    return buf;
}

int cop__invited_decode(struct cop__bytes body, struct cop__invited *out)
{
    struct cop__reader reader = cop__reader(body.data, body.length);
    struct cop__invited invited = {.degraded = cop__get_u8(&reader) != 0};
    invited.invitation = cop__get_bytes(&reader);
    if (!cop__reader_is_done(&reader) || invited.invitation.length == 0)
        return COP_EMALFORMED;
    *out = invited;
    return 0;
}

int cop__invited_read(const struct cop_buf *body, const struct cop_view *like,
                      struct cop_invitation *out, bool *is_degraded)
{
    struct cop__invited invited;
    if (cop__invited_decode((struct cop__bytes){body->data, body->length}, &invited) !=
        0)
        return COP_EMALFORMED;
    struct cop_buf *copy =
        cop_buf_copy(invited.invitation.data, invited.invitation.length);
    int error = copy ? cop_invitation(copy, like, out) : COP_ENOMEM;
    cop_buf_unref(copy);
    if (error == 0)
        *is_degraded = invited.degraded;
    return error;
}

/* ---- messages -------------------------------------------------------------------- */

struct cop_buf *cop__command_pack(uint16_t kind, const struct cop_buf *payload)
{
    uint32_t length = payload->length;
    struct cop_buf *buf = cop_buf_create(COP__RECORD_SIZE + COP__HEADER_SIZE + length);
    if (buf == NULL)
        return NULL;
    struct cop__record record = {
        .type = COP__RECORD_FRAME, .flags = 0, .length = COP__HEADER_SIZE + length};
    struct cop_header header = {
        .kind = kind, .sender = COP_ID_NONE, .receiver = COP_ID_NONE, .length = length};
    cop__record_encode(&record, buf->data);
    cop__header_encode(&header, buf->data + COP__RECORD_SIZE);
    memcpy(buf->data + COP__RECORD_SIZE + COP__HEADER_SIZE, payload->data, length);
    return buf;
}

struct cop_buf *cop__command_make(uint64_t token, uint16_t verb,
                                  const struct cop_buf *body)
{
    struct cop__msg_command command = {.token = token, .verb = verb};
    if (body != NULL)
        command.body = (struct cop__bytes){body->data, body->length};
    struct cop_buf *payload = cop__encode_command(&command);
    struct cop_buf *packed =
        payload ? cop__command_pack(COP__KIND_COMMAND, payload) : NULL;
    cop_buf_unref(payload);
    return packed;
}

struct cop_buf *cop__reply_make(uint64_t token, int status, bool more,
                                const struct cop_buf *body)
{
    struct cop__msg_reply message = {
        .token = token, .status = (uint32_t)-status, .more = more};
    if (body != NULL)
        message.body = (struct cop__bytes){body->data, body->length};
    struct cop_buf *payload = cop__encode_reply(&message);
    struct cop_buf *packed =
        payload ? cop__command_pack(COP__KIND_REPLY, payload) : NULL;
    cop_buf_unref(payload);
    return packed;
}

int cop__reply_status(const struct cop__msg_reply *reply)
{
    return reply->status <= INT32_MAX ? -(int)reply->status : COP_EMALFORMED;
}
