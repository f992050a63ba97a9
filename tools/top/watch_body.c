/* SPDX-License-Identifier: Apache-2.0 */
#include "top/watch_body.h"

#include "base/assert.h"

#include <coppice/error.h>
#include <string.h>

static struct cop__bytes text(const char *from)
{
    return (struct cop__bytes){(const uint8_t *)from, (uint32_t)strlen(from)};
}

/* What was written into a buffer that was made for the most. */
static struct cop_buf *finish(struct cop_buf *buf, const struct cop__writer *writer)
{
    COP_ASSERT(!writer->failed);
    buf->length = (uint32_t)(writer->at - buf->data);
    return buf;
}

struct cop_buf *watch_wish_encode(const struct watch_wish *wish)
{
    struct cop_buf *buf = cop_buf_create(sizeof *wish + 64);
    if (buf == NULL)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    cop__put_u8(&writer, wish->threads);
    cop__put_u64(&writer, wish->patience_ns);
    cop__put_bytes(&writer, text(wish->pids));
    cop__put_bytes(&writer, text(wish->name));
    cop__put_bytes(&writer, text(wish->exe));
    return finish(buf, &writer);
}

int watch_wish_decode(struct cop__bytes body, struct watch_wish *out)
{
    struct cop__reader reader = cop__reader(body.data, body.length);
    struct watch_wish wish = {.threads = cop__get_u8(&reader) != 0};
    wish.patience_ns = cop__get_u64(&reader);
    cop__get_text(&reader, wish.pids, sizeof wish.pids);
    cop__get_text(&reader, wish.name, sizeof wish.name);
    cop__get_text(&reader, wish.exe, sizeof wish.exe);
    if (!cop__reader_is_done(&reader))
        return COP_EMALFORMED;
    *out = wish;
    return 0;
}

struct cop_buf *watch_command_encode(const struct watch_command *command)
{
    struct cop_buf *buf = cop_buf_create(64 + (size_t)command->wish.length);
    if (buf == NULL)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    cop__put_u8(&writer, (uint8_t)command->kind);
    cop__put_u64(&writer, command->known);
    cop__put_u64(&writer, command->interval_ns);
    cop__put_bytes(&writer, command->wish);
    return finish(buf, &writer);
}

int watch_command_decode(struct cop__bytes body, struct watch_command *out)
{
    struct cop__reader reader = cop__reader(body.data, body.length);
    struct watch_command command = {.kind = (enum watch_kind)cop__get_u8(&reader)};
    command.known = cop__get_u64(&reader);
    command.interval_ns = cop__get_u64(&reader);
    command.wish = cop__get_bytes(&reader);
    if (!cop__reader_is_done(&reader) || command.kind < WATCH_HOSTS ||
        command.kind > WATCH_STACKS || command.interval_ns < COP_MSEC ||
        command.interval_ns > 3600 * COP_SEC)
        return COP_EMALFORMED;
    *out = command;
    return 0;
}

struct cop_buf *watch_reply_encode(const struct watch_reply *reply)
{
    struct cop_buf *buf = cop_buf_create(64 + (size_t)reply->state.length);
    if (buf == NULL)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    cop__put_u64(&writer, reply->serial);
    cop__put_u64(&writer, reply->wave);
    cop__put_u8(&writer, reply->complete);
    cop__put_u32(&writer, reply->covered);
    cop__put_u32(&writer, reply->members);
    cop__put_u32(&writer, reply->root);
    cop__put_bytes(&writer, reply->state);
    return finish(buf, &writer);
}

int watch_reply_decode(struct cop__bytes body, struct watch_reply *out)
{
    struct cop__reader reader = cop__reader(body.data, body.length);
    struct watch_reply reply = {.serial = cop__get_u64(&reader)};
    reply.wave = cop__get_u64(&reader);
    reply.complete = cop__get_u8(&reader) != 0;
    reply.covered = cop__get_u32(&reader);
    reply.members = cop__get_u32(&reader);
    reply.root = cop__get_u32(&reader);
    reply.state = cop__get_bytes(&reader);
    if (!cop__reader_is_done(&reader))
        return COP_EMALFORMED;
    *out = reply;
    return 0;
}
