/* SPDX-License-Identifier: Apache-2.0 */
#include "run/envoy.h"

#include "base/assert.h"
#include "net/tcp/clock.h"
#include "net/tcp/stream.h"
#include "run/guest.h"
#include "wire/header.h"
#include "wire/messages.h"

#include <coppice/error.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define PATIENCE COP_SEC      /* with one member */
#define PAUSE (20 * COP_MSEC) /* after all were asked; longer each time */
#define PAUSE_DOUBLINGS 5u
#define FRONT_SIZE (COP__RECORD_SIZE + COP__HEADER_SIZE)

/* One question to one member. */
struct attempt {
    struct cop__stream stream; /* first: a stream is its attempt */
    struct cop__envoy *envoy;
    bool is_over;
    uint8_t *input; /* as far as it has come */
    uint32_t used, wanted;
};

struct cop__envoy {
    struct cop__envoy_config config;
    struct cop__stream_base base;
    uint64_t reads, writes;
    struct cop__clock clock;
    struct cop__alarm alarm;
    struct attempt *attempt;
    uint32_t asked;   /* in this round */
    uint32_t rounds;  /* without an answer */
    uint32_t handles; /* that libuv has not let go of */
    bool is_closing;
};

static void ask_next(struct cop__envoy *envoy);

/* ---- ends ------------------------------------------------------------------------ */

static void let_go(struct cop__envoy *envoy)
{
    if (--envoy->handles > 0)
        return;
    cop_buf_unref(envoy->config.question);
    free(envoy);
}

static void on_stream_closed(struct cop__stream *stream)
{
    struct attempt *attempt = (struct attempt *)stream;
    struct cop__envoy *envoy = attempt->envoy;
    free(attempt->input);
    free(attempt);
    let_go(envoy);
}

static void end_attempt(struct cop__envoy *envoy)
{
    struct attempt *attempt = envoy->attempt;
    envoy->attempt = NULL;
    if (attempt == NULL)
        return;
    attempt->is_over = true;
    if (!cop__stream_close(&attempt->stream))
        on_stream_closed(&attempt->stream);
}

static void on_clock_closed(void *context) { let_go(context); }

void cop__envoy_close(struct cop__envoy *envoy)
{
    COP_ASSERT(!envoy->is_closing);
    envoy->is_closing = true;
    end_attempt(envoy);
    cop__alarm_stop(&envoy->clock, &envoy->alarm);
    cop__clock_close(&envoy->clock, on_clock_closed);
}

static void finish(struct cop__envoy *envoy, int status, const struct cop_buf *body)
{
    struct cop__envoy_config config = envoy->config;
    cop__envoy_close(envoy);
    config.done(config.context, status, body);
}

/* ---- an answer ------------------------------------------------------------------- */

/* Errors that another member, or another time, may not give. */
static bool is_final(int status)
{
    return status == COP_EINVAL || status == COP_ERANGE || status == COP_EMALFORMED ||
           status == COP_EEXIST || status == COP_ETOOBIG;
}

static void on_reply(struct cop__envoy *envoy, const struct cop__msg_reply *reply)
{
    int status = cop__reply_status(reply);
    if (status == 0 || (status == COP_EREFUSED && reply->body.length > 0)) {
        struct cop_buf *copy = cop_buf_copy(reply->body.data, reply->body.length);
        finish(envoy, copy ? status : COP_ENOMEM, copy);
        cop_buf_unref(copy);
    } else if (is_final(status)) {
        finish(envoy, status, NULL);
    } else {
        ask_next(envoy);
    }
}

/* How long the whole message is; 0 while that is not known; COP_EMALFORMED. */
static int message_length(const struct attempt *attempt, uint32_t *out)
{
    struct cop__record record;
    struct cop_header header;
    *out = 0;
    if (attempt->used < FRONT_SIZE)
        return 0;
    if (cop__record_decode(attempt->input, &record) != 0 ||
        record.type != COP__RECORD_FRAME ||
        cop__header_decode(attempt->input + COP__RECORD_SIZE, &header) != 0 ||
        header.kind != COP__KIND_REPLY ||
        record.length != COP__HEADER_SIZE + header.length)
        return COP_EMALFORMED;
    *out = FRONT_SIZE + header.length;
    return 0;
}

static int make_room(struct attempt *attempt, uint32_t wanted)
{
    uint8_t *input = realloc(attempt->input, wanted);
    if (input == NULL)
        return COP_ENOMEM;
    attempt->input = input;
    attempt->wanted = wanted;
    return 0;
}

/* 1: the reply is whole. 0: more is to come. Otherwise this member is of no use. */
static int take(struct attempt *attempt, const uint8_t *data, size_t length)
{
    while (length > 0) {
        uint32_t count = attempt->wanted - attempt->used, whole;
        if (count > length)
            count = (uint32_t)length;
        memcpy(attempt->input + attempt->used, data, count);
        attempt->used += count;
        data += count;
        length -= count;
        int error = message_length(attempt, &whole);
        if (!error && whole > attempt->wanted)
            error = make_room(attempt, whole);
        if (error)
            return error;
        if (attempt->used == whole)
            return length == 0 ? 1 : COP_EMALFORMED;
    }
    return 0;
}

static void on_bytes(struct cop__stream *stream, const uint8_t *data, size_t length)
{
    struct attempt *attempt = (struct attempt *)stream;
    struct cop__msg_reply reply;
    if (attempt->is_over)
        return;
    int got = take(attempt, data, length);
    if (got == 0)
        return;
    if (got < 0 || cop__decode_reply(attempt->input + FRONT_SIZE,
                                     attempt->used - FRONT_SIZE, &reply) != 0)
        ask_next(attempt->envoy);
    else
        on_reply(attempt->envoy, &reply);
}

/* ---- a question ------------------------------------------------------------------ */

static void say_refused(const struct attempt *attempt)
{
    const struct cop__envoy_config *config = &attempt->envoy->config;
    const char *detail;
    enum cop__fault fault = cop__stream_fault(&attempt->stream, &detail);
    if (config->refused)
        config->refused(config->context, cop__fault_text(fault), detail);
}

/* Short enough for the buffer of any socket. */
static bool send_question(struct attempt *attempt)
{
    const struct cop_buf *question = attempt->envoy->config.question;
    struct cop__batch batch = {.bytes = question->length, .count = 1};
    batch.spans[0] =
        (struct iovec){(void *)(uintptr_t)question->data, question->length};
    return cop__stream_write(&attempt->stream, &batch) >= 0 &&
           cop__stream_read(&attempt->stream) == 0;
}

static void on_connected(struct cop__stream *stream, int error)
{
    struct attempt *attempt = (struct attempt *)stream;
    if (attempt->is_over)
        return;
    if (error == COP__STREAM_UNPROVEN)
        say_refused(attempt);
    if (error != 0 || !send_question(attempt))
        ask_next(attempt->envoy);
}

static void on_ended(struct cop__stream *stream, int error)
{
    struct attempt *attempt = (struct attempt *)stream;
    if (!attempt->is_over && error == COP__STREAM_UNPROVEN)
        say_refused(attempt);
    if (!attempt->is_over)
        ask_next(attempt->envoy);
}

static void on_drained(struct cop__stream *stream) { (void)stream; }

static const struct cop__stream_events events = {
    .connected = on_connected,
    .bytes = on_bytes,
    .ended = on_ended,
    .drained = on_drained,
    .closed = on_stream_closed,
};

static void on_alarm(struct cop__alarm *alarm, cop_time now)
{
    (void)now;
    ask_next((struct cop__envoy *)((char *)alarm - offsetof(struct cop__envoy, alarm)));
}

static void wait_for(struct cop__envoy *envoy, cop_time time)
{
    cop__alarm_start(&envoy->clock, &envoy->alarm, cop__clock_now() + time);
}

/* Whether a question is on its way. */
static bool ask(struct cop__envoy *envoy, const struct cop__address *address)
{
    struct attempt *attempt = calloc(1, sizeof *attempt);
    if (attempt == NULL || make_room(attempt, FRONT_SIZE) != 0) {
        free(attempt);
        return false;
    }
    cop__stream_init(&attempt->stream, &envoy->base);
    attempt->envoy = envoy;
    envoy->attempt = attempt;
    envoy->handles++;
    int connected = cop__stream_connect(
        &attempt->stream, (const struct sockaddr *)&address->storage, address->length);
    return connected == 1 ? send_question(attempt) : connected == 0;
}

/* A round has ended: everybody was asked. */
static void rest(struct cop__envoy *envoy)
{
    uint32_t doublings =
        envoy->rounds < PAUSE_DOUBLINGS ? envoy->rounds : PAUSE_DOUBLINGS;
    envoy->asked = 0;
    envoy->rounds++;
    wait_for(envoy, PAUSE << doublings);
    if (envoy->config.alone != NULL)
        envoy->config.alone(envoy->config.context);
}

static void ask_next(struct cop__envoy *envoy)
{
    const struct cop__envoy_config *config = &envoy->config;
    struct cop__address address;
    end_attempt(envoy);
    while (envoy->asked < config->count) {
        if (config->address(config->context, envoy->asked++, &address) == 0 &&
            ask(envoy, &address)) {
            wait_for(envoy, PATIENCE);
            return;
        }
        end_attempt(envoy);
    }
    rest(envoy);
}

/* ---- the beginning --------------------------------------------------------------- */

int cop__envoy_create(const struct cop__envoy_config *config, struct cop__envoy **out)
{
    struct cop__envoy *envoy = config->question ? calloc(1, sizeof *envoy) : NULL;
    int error = envoy ? cop__clock_init(&envoy->clock, config->loop) : UV_ENOMEM;
    if (error != 0) {
        cop_buf_unref(config->question);
        free(envoy);
        return error == UV_ENOMEM ? COP_ENOMEM : COP_EIO;
    }
    envoy->config = *config;
    envoy->clock.context = envoy;
    envoy->base.loop = config->loop;
    envoy->base.events = &events;
    envoy->base.reads = &envoy->reads;
    envoy->base.writes = &envoy->writes;
    envoy->base.tls = config->tls;
    envoy->handles = 1;
    cop__alarm_init(&envoy->alarm, on_alarm);
    wait_for(envoy, 0);
    *out = envoy;
    return 0;
}
