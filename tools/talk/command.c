/* SPDX-License-Identifier: Apache-2.0 */
#include "talk/command.h"

#include "base/assert.h"
#include "wire/header.h"

#include <coppice/error.h>
#include <stdlib.h>
#include <string.h>

static void put_text(struct cop__writer *writer, const char *text)
{
    struct cop__bytes bytes = {(const uint8_t *)text, (uint32_t)strlen(text)};
    cop__put_bytes(writer, bytes);
}

/* Copies bytes that must fit, without a NUL inside. */
static int get_text(struct cop__reader *reader, char *out, size_t size)
{
    struct cop__bytes bytes = cop__get_bytes(reader);
    if (reader->failed || bytes.length >= size ||
        (bytes.length > 0 && memchr(bytes.data, 0, bytes.length) != NULL))
        return COP_EMALFORMED;
    if (bytes.length > 0)
        memcpy(out, bytes.data, bytes.length);
    out[bytes.length] = '\0';
    return 0;
}

static void put_ranks(struct cop__writer *writer, const struct cop_ranks *ranks)
{
    cop__put_u32(writer, ranks->count);
    for (uint32_t i = 0; i < ranks->count; i++)
        cop__put_u32(writer, ranks->items[i]);
}

static int get_ranks(struct cop__reader *reader, struct cop_ranks *out)
{
    struct cop__list list = cop__get_list(reader, 4);
    struct cop__reader each = cop__reader(list.data, (size_t)list.count * 4);
    if (reader->failed)
        return COP_EMALFORMED;
    for (uint32_t i = 0; i < list.count; i++) {
        int error = cop_ranks_push(out, cop__get_u32(&each));
        if (error)
            return error;
    }
    return 0;
}

/* ---- PROBE ----------------------------------------------------------------------- */

struct cop_buf *probe_command_encode(const struct probe_command *command)
{
    struct cop_buf *buf = cop_buf_create(4 + 4 + 8 + 4 + strlen(command->shape));
    if (buf == NULL)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    cop__put_u32(&writer, command->count);
    cop__put_u32(&writer, command->chunk);
    cop__put_u64(&writer, command->timeout_ns);
    put_text(&writer, command->shape);
    COP_ASSERT(!writer.failed && writer.at == writer.end);
    return buf;
}

int probe_command_decode(struct cop__bytes body, struct probe_command *out)
{
    struct cop__reader reader = cop__reader(body.data, body.length);
    struct probe_command command;
    command.count = cop__get_u32(&reader);
    command.chunk = cop__get_u32(&reader);
    command.timeout_ns = cop__get_u64(&reader);
    if (get_text(&reader, command.shape, sizeof command.shape) != 0 ||
        !cop__reader_is_done(&reader))
        return COP_EMALFORMED;
    if (command.count < 1 || command.count > PROBES_MAX ||
        command.chunk > PROBE_CHUNK_MAX)
        return COP_EMALFORMED;
    if (command.chunk == 0)
        command.chunk = PROBE_CHUNK_MAX;
    *out = command;
    return 0;
}

struct cop_buf *bcast_command_encode(const struct bcast_command *command)
{
    struct cop_buf *run = probe_command_encode(&command->run);
    size_t size = run ? 4 + (size_t)run->length + 4 + command->payload.length : 0;
    struct cop_buf *buf = run ? cop_buf_create(size) : NULL;
    if (buf != NULL) {
        struct cop__writer writer = cop__writer(buf->data, size);
        cop__put_bytes(&writer, (struct cop__bytes){run->data, run->length});
        cop__put_bytes(&writer, command->payload);
        COP_ASSERT(!writer.failed && writer.at == writer.end);
    }
    cop_buf_unref(run);
    return buf;
}

int bcast_command_decode(struct cop__bytes body, struct bcast_command *out)
{
    struct cop__reader reader = cop__reader(body.data, body.length);
    struct bcast_command command;
    struct cop__bytes run = cop__get_bytes(&reader);
    command.payload = cop__get_bytes(&reader);
    if (!cop__reader_is_done(&reader))
        return COP_EMALFORMED;
    int error = probe_command_decode(run, &command.run);
    if (!error)
        *out = command;
    return error;
}

#define SAMPLE_SIZE 32u

static void put_sample(struct cop__writer *writer, const struct probe_sample *sample)
{
    cop__put_u64(writer, sample->at_ns);
    cop__put_u64(writer, sample->elapsed_ns);
    cop__put_u32(writer, sample->answered);
    cop__put_u32(writer, sample->dead);
    cop__put_u32(writer, sample->silent);
    cop__put_u32(writer, (uint32_t)sample->status);
}

static struct probe_sample get_sample(struct cop__reader *reader)
{
    struct probe_sample sample;
    sample.at_ns = cop__get_u64(reader);
    sample.elapsed_ns = cop__get_u64(reader);
    sample.answered = cop__get_u32(reader);
    sample.dead = cop__get_u32(reader);
    sample.silent = cop__get_u32(reader);
    sample.status = (int32_t)cop__get_u32(reader);
    return sample;
}

struct cop_buf *probe_reply_encode(const struct probe_reply *reply)
{
    size_t length = 4 + 4 + 4 + (size_t)reply->count * SAMPLE_SIZE + 4 +
                    4 * (size_t)reply->dead.count + 4 + 4 * (size_t)reply->silent.count;
    struct cop_buf *buf = cop_buf_create(length);
    if (buf == NULL)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    cop__put_u32(&writer, reply->self);
    cop__put_u32(&writer, reply->members);
    cop__put_u32(&writer, reply->count);
    for (uint32_t i = 0; i < reply->count; i++)
        put_sample(&writer, &reply->samples[i]);
    put_ranks(&writer, &reply->dead);
    put_ranks(&writer, &reply->silent);
    COP_ASSERT(!writer.failed && writer.at == writer.end);
    return buf;
}

int probe_reply_decode(struct cop__bytes body, struct probe_reply *out)
{
    struct cop__reader reader = cop__reader(body.data, body.length);
    struct probe_reply reply = {0};
    reply.self = cop__get_u32(&reader);
    reply.members = cop__get_u32(&reader);
    struct cop__list samples = cop__get_list(&reader, SAMPLE_SIZE);
    struct cop__reader each =
        cop__reader(samples.data, (size_t)samples.count * SAMPLE_SIZE);
    if (reader.failed)
        return COP_EMALFORMED;
    reply.count = samples.count;
    reply.samples = calloc(samples.count ? samples.count : 1, sizeof *reply.samples);
    int error = reply.samples ? 0 : COP_ENOMEM;
    for (uint32_t i = 0; i < samples.count && !error; i++)
        reply.samples[i] = get_sample(&each);
    if (!error)
        error = get_ranks(&reader, &reply.dead);
    if (!error)
        error = get_ranks(&reader, &reply.silent);
    if (!error && !cop__reader_is_done(&reader))
        error = COP_EMALFORMED;
    if (error) {
        probe_reply_free(&reply);
        return error;
    }
    *out = reply;
    return 0;
}

void probe_reply_free(struct probe_reply *reply)
{
    free(reply->samples);
    cop_ranks_free(&reply->dead);
    cop_ranks_free(&reply->silent);
    *reply = (struct probe_reply){0};
}

/* ---- VIEW, INVITE, REPORT, INQUIRE ----------------------------------------------- */

struct cop_buf *number_encode(uint64_t number)
{
    struct cop_buf *buf = cop_buf_create(8);
    if (buf != NULL) {
        struct cop__writer writer = cop__writer(buf->data, buf->length);
        cop__put_u64(&writer, number);
    }
    return buf;
}

int number_decode(struct cop__bytes body, uint64_t *out)
{
    struct cop__reader reader = cop__reader(body.data, body.length);
    uint64_t number = cop__get_u64(&reader);
    if (!cop__reader_is_done(&reader))
        return COP_EMALFORMED;
    *out = number;
    return 0;
}

struct cop_buf *report_command_encode(const struct report_command *command)
{
    struct cop_buf *buf = cop_buf_create(4 + 4 + strlen(command->why));
    if (buf == NULL)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    cop__put_u32(&writer, command->member);
    put_text(&writer, command->why);
    COP_ASSERT(!writer.failed && writer.at == writer.end);
    return buf;
}

int report_command_decode(struct cop__bytes body, struct report_command *out)
{
    struct cop__reader reader = cop__reader(body.data, body.length);
    struct report_command command = {.member = cop__get_u32(&reader)};
    if (get_text(&reader, command.why, sizeof command.why) != 0 ||
        !cop__reader_is_done(&reader))
        return COP_EMALFORMED;
    *out = command;
    return 0;
}

struct cop_buf *inquire_command_encode(const struct inquire_command *command)
{
    struct cop_buf *buf = cop_buf_create(4 + 8);
    if (buf == NULL)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    cop__put_u32(&writer, command->member);
    cop__put_u64(&writer, command->timeout_ns);
    COP_ASSERT(!writer.failed && writer.at == writer.end);
    return buf;
}

int inquire_command_decode(struct cop__bytes body, struct inquire_command *out)
{
    struct cop__reader reader = cop__reader(body.data, body.length);
    struct inquire_command command = {.member = cop__get_u32(&reader)};
    command.timeout_ns = cop__get_u64(&reader);
    if (!cop__reader_is_done(&reader))
        return COP_EMALFORMED;
    *out = command;
    return 0;
}

/* ---- LIST ------------------------------------------------------------------------ */

#define MEMBER_LEAST (21u + 8u)

static size_t list_length(const struct list_reply *reply)
{
    size_t length = 12;
    for (uint32_t i = 0; i < reply->count; i++)
        length += MEMBER_LEAST + strlen(reply->members[i].name) +
                  strlen(reply->members[i].address);
    return length;
}

struct cop_buf *list_reply_encode(const struct list_reply *reply)
{
    struct cop_buf *buf = cop_buf_create(list_length(reply));
    if (buf == NULL)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    cop__put_u32(&writer, reply->keeper_pid);
    cop__put_u32(&writer, reply->janitor_pid);
    cop__put_u32(&writer, reply->count);
    for (uint32_t i = 0; i < reply->count; i++) {
        const struct member_status *member = &reply->members[i];
        cop__put_u32(&writer, member->pid);
        cop__put_u8(&writer, (uint8_t)member->state);
        cop__put_u32(&writer, (uint32_t)member->wait_status);
        cop__put_u64(&writer, member->incarnation);
        cop__put_u32(&writer, member->id);
        put_text(&writer, member->name);
        put_text(&writer, member->address);
    }
    COP_ASSERT(!writer.failed && writer.at == writer.end);
    return buf;
}

static int get_member(struct cop__reader *reader, struct member_status *out)
{
    out->pid = cop__get_u32(reader);
    uint8_t state = cop__get_u8(reader);
    out->state = state <= MEMBER_DEAD ? (enum member_state)state : MEMBER_DEAD;
    out->wait_status = (int32_t)cop__get_u32(reader);
    out->incarnation = cop__get_u64(reader);
    out->id = cop__get_u32(reader);
    int error = get_text(reader, out->name, sizeof out->name);
    return error ? error : get_text(reader, out->address, sizeof out->address);
}

int list_reply_decode(struct cop__bytes body, struct list_reply *out)
{
    struct cop__reader reader = cop__reader(body.data, body.length);
    struct list_reply reply = {0};
    reply.keeper_pid = cop__get_u32(&reader);
    reply.janitor_pid = cop__get_u32(&reader);
    reply.count = cop__get_u32(&reader);
    /* Not more than there can be in these bytes. */
    if (reader.failed || reply.count > body.length / MEMBER_LEAST)
        return COP_EMALFORMED;
    reply.members = calloc(reply.count ? reply.count : 1, sizeof *reply.members);
    if (reply.members == NULL)
        return COP_ENOMEM;
    int error = 0;
    for (uint32_t i = 0; i < reply.count && !error; i++)
        error = get_member(&reader, &reply.members[i]);
    if (error || !cop__reader_is_done(&reader)) {
        list_reply_free(&reply);
        return COP_EMALFORMED;
    }
    *out = reply;
    return 0;
}

void list_reply_free(struct list_reply *reply)
{
    free(reply->members);
    *reply = (struct list_reply){0};
}

/* ---- SIGNAL, RESTART ------------------------------------------------------------- */

struct cop_buf *ids_encode(uint32_t number, const cop_id *ids, uint32_t count)
{
    struct cop_buf *buf = cop_buf_create(8 + (size_t)count * 4);
    if (buf == NULL)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    cop__put_u32(&writer, number);
    cop__put_u32(&writer, count);
    for (uint32_t i = 0; i < count; i++)
        cop__put_u32(&writer, ids[i]);
    COP_ASSERT(!writer.failed && writer.at == writer.end);
    return buf;
}

int ids_decode(struct cop__bytes body, uint32_t *number, struct cop_ranks *out)
{
    struct cop__reader reader = cop__reader(body.data, body.length);
    struct cop_ranks ids = {0};
    *number = cop__get_u32(&reader);
    int error = get_ranks(&reader, &ids);
    if (!error && !cop__reader_is_done(&reader))
        error = COP_EMALFORMED;
    if (error) {
        cop_ranks_free(&ids);
        return error;
    }
    *out = ids;
    return 0;
}

struct cop_buf *join_command_encode(const struct join_command *command)
{
    struct cop_buf *buf = cop_buf_create(1 + 4 + strlen(command->name));
    if (buf == NULL)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    cop__put_u8(&writer, command->spare);
    put_text(&writer, command->name);
    COP_ASSERT(!writer.failed && writer.at == writer.end);
    return buf;
}

int join_command_decode(struct cop__bytes body, struct join_command *out)
{
    struct cop__reader reader = cop__reader(body.data, body.length);
    struct join_command command = {.spare = cop__get_u8(&reader) != 0};
    if (get_text(&reader, command.name, sizeof command.name) != 0 ||
        !cop__reader_is_done(&reader))
        return COP_EMALFORMED;
    *out = command;
    return 0;
}

struct cop_buf *joined_encode(const struct joined *joined)
{
    struct cop_buf *buf = cop_buf_create(4 + 8 + 1 + 4 + strlen(joined->name));
    if (buf == NULL)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    cop__put_u32(&writer, joined->id);
    cop__put_u64(&writer, joined->incarnation);
    cop__put_u8(&writer, joined->waiting);
    put_text(&writer, joined->name);
    COP_ASSERT(!writer.failed && writer.at == writer.end);
    return buf;
}

int joined_decode(struct cop__bytes body, struct joined *out)
{
    struct cop__reader reader = cop__reader(body.data, body.length);
    struct joined joined = {.id = cop__get_u32(&reader)};
    joined.incarnation = cop__get_u64(&reader);
    joined.waiting = cop__get_u8(&reader) != 0;
    if (get_text(&reader, joined.name, sizeof joined.name) != 0 ||
        !cop__reader_is_done(&reader))
        return COP_EMALFORMED;
    *out = joined;
    return 0;
}

struct cop_buf *restart_reply_encode(const struct restart_reply *reply)
{
    struct cop_buf *buf = cop_buf_create(8 + 4 * (size_t)reply->failed.count +
                                         4 * (size_t)reply->waiting.count);
    if (buf == NULL)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    put_ranks(&writer, &reply->failed);
    put_ranks(&writer, &reply->waiting);
    COP_ASSERT(!writer.failed && writer.at == writer.end);
    return buf;
}

int restart_reply_decode(struct cop__bytes body, struct restart_reply *out)
{
    struct cop__reader reader = cop__reader(body.data, body.length);
    struct restart_reply reply = {0};
    int error = get_ranks(&reader, &reply.failed);
    if (!error)
        error = get_ranks(&reader, &reply.waiting);
    if (!error && !cop__reader_is_done(&reader))
        error = COP_EMALFORMED;
    if (error) {
        restart_reply_free(&reply);
        return error;
    }
    *out = reply;
    return 0;
}

void restart_reply_free(struct restart_reply *reply)
{
    cop_ranks_free(&reply->failed);
    cop_ranks_free(&reply->waiting);
}

/* ---- DOWN ------------------------------------------------------------------------ */

struct cop_buf *down_reply_encode(const struct down_reply *reply)
{
    size_t length = 4 + 4 * (size_t)reply->unclean.count + 4 + strlen(reply->why);
    struct cop_buf *buf = cop_buf_create(length);
    if (buf == NULL)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    put_ranks(&writer, &reply->unclean);
    put_text(&writer, reply->why);
    COP_ASSERT(!writer.failed && writer.at == writer.end);
    return buf;
}

int down_reply_decode(struct cop__bytes body, struct down_reply *out)
{
    struct cop__reader reader = cop__reader(body.data, body.length);
    struct down_reply reply = {0};
    int error = get_ranks(&reader, &reply.unclean);
    if (!error)
        error = get_text(&reader, reply.why, sizeof reply.why);
    if (!error && !cop__reader_is_done(&reader))
        error = COP_EMALFORMED;
    if (error) {
        cop_ranks_free(&reply.unclean);
        return error;
    }
    *out = reply;
    return 0;
}
