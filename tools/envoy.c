/* SPDX-License-Identifier: Apache-2.0 */
#include "envoy.h"

#include "base/assert.h"
#include "command.h"
#include "net/tcp/stream.h"
#include "wire/header.h"

#include <coppice/error.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define PATIENCE_MS 1000u /* with one member */
#define PAUSE_MS 20u      /* after all were asked; longer each time */
#define PAUSE_DOUBLINGS 5u
#define FRONT_SIZE (COP__RECORD_SIZE + COP__HEADER_SIZE)

/* One question to one member. */
struct attempt {
    struct cop__stream stream; /* first: a stream is its attempt */
    struct envoy *envoy;
    bool is_over;
    uint8_t *input; /* as far as it has come */
    uint32_t used, wanted;
};

struct envoy {
    struct envoy_config config;
    struct cop__stream_base base;
    uint64_t reads, writes;
    uv_timer_t timer;
    struct attempt *attempt;
    struct cop_buf *question;
    uint32_t asked;   /* in this round */
    uint32_t rounds;  /* without an answer */
    uint32_t handles; /* that libuv has not let go of */
    bool is_closing;
};

static void ask_next(struct envoy *envoy);

/* ---- ends ------------------------------------------------------------------------ */

static void let_go(struct envoy *envoy)
{
    if (--envoy->handles > 0)
        return;
    cop_buf_unref(envoy->question);
    free(envoy);
}

static void on_stream_closed(struct cop__stream *stream)
{
    struct attempt *attempt = (struct attempt *)stream;
    struct envoy *envoy = attempt->envoy;
    free(attempt->input);
    free(attempt);
    let_go(envoy);
}

static void end_attempt(struct envoy *envoy)
{
    struct attempt *attempt = envoy->attempt;
    envoy->attempt = NULL;
    if (attempt == NULL)
        return;
    attempt->is_over = true;
    if (!cop__stream_close(&attempt->stream))
        on_stream_closed(&attempt->stream);
}

static void on_timer_closed(uv_handle_t *handle) { let_go(handle->data); }

void envoy_close(struct envoy *envoy)
{
    COP_ASSERT(!envoy->is_closing);
    envoy->is_closing = true;
    end_attempt(envoy);
    uv_close((uv_handle_t *)&envoy->timer, on_timer_closed);
}

static void finish(struct envoy *envoy, int status, const struct cop_buf *invitation,
                   bool degraded)
{
    struct envoy_config config = envoy->config;
    envoy_close(envoy);
    config.done(config.context, status, invitation, degraded);
}

/* ---- an answer ------------------------------------------------------------------- */

/* Errors that another member, or another time, may not give. */
static bool is_final(int status)
{
    return status == COP_EINVAL || status == COP_ERANGE || status == COP_EMALFORMED ||
           status == COP_EEXIST;
}

static void on_reply(struct envoy *envoy, const struct cop__msg_reply *reply)
{
    int status = -(int)reply->status;
    struct invited invited;
    if ((status == 0 || status == COP_EREFUSED) &&
        invited_decode(reply->body, &invited) == 0) {
        struct cop_buf *copy =
            cop_buf_copy(invited.invitation.data, invited.invitation.length);
        if (copy == NULL)
            status = COP_ENOMEM;
        finish(envoy, status, copy, invited.degraded);
        cop_buf_unref(copy);
    } else if (is_final(status)) {
        finish(envoy, status, NULL, false);
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
    const struct envoy_config *config = &attempt->envoy->config;
    const char *detail;
    enum cop__fault fault = cop__stream_fault(&attempt->stream, &detail);
    if (config->refused)
        config->refused(config->context, cop__fault_text(fault), detail);
}

/* Short enough for the buffer of any socket. */
static bool send_question(struct attempt *attempt)
{
    const struct cop_buf *question = attempt->envoy->question;
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

static void on_timer(uv_timer_t *timer) { ask_next(timer->data); }

/* Whether a question is on its way. */
static bool ask(struct envoy *envoy, const struct cop__address *address)
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

/* Whom to ask as the i-th of a round; false if that is nobody. */
static bool find_address(const struct envoy *envoy, uint32_t i,
                         struct cop__address *out)
{
    const struct envoy_config *config = &envoy->config;
    uint32_t n = config->cluster->n;
    if (i == 0) {
        *out = config->contact;
        return out->length > 0;
    }
    cop_id id = (config->self == COP_ID_NONE ? i - 1 : config->self % n + i) % n;
    return id != config->self && cluster_address(config->cluster, id, out) == 0;
}

/* A round has ended: everybody was asked. */
static void rest(struct envoy *envoy)
{
    uint32_t doublings =
        envoy->rounds < PAUSE_DOUBLINGS ? envoy->rounds : PAUSE_DOUBLINGS;
    envoy->asked = 0;
    envoy->rounds++;
    uv_timer_start(&envoy->timer, on_timer, PAUSE_MS << doublings, 0);
    if (envoy->config.alone != NULL)
        envoy->config.alone(envoy->config.context);
}

static void ask_next(struct envoy *envoy)
{
    struct cop__address address;
    end_attempt(envoy);
    while (envoy->asked <= envoy->config.cluster->n) {
        if (find_address(envoy, envoy->asked++, &address) && ask(envoy, &address)) {
            uv_timer_start(&envoy->timer, on_timer, PATIENCE_MS, 0);
            return;
        }
        end_attempt(envoy);
    }
    rest(envoy);
}

/* ---- the beginning --------------------------------------------------------------- */

static struct cop_buf *make_question(const struct envoy_config *config)
{
    struct invite_command command = {.instance = config->cluster->instance,
                                     .incarnation = config->incarnation,
                                     .is_new = config->is_new};
    memcpy(command.cluster, config->cluster->id, sizeof command.cluster);
    if (strlen(config->name) >= sizeof command.name)
        return NULL;
    memcpy(command.name, config->name, strlen(config->name) + 1);
    struct cop_buf *body = invite_command_encode(&command);
    struct cop_buf *question = body ? command_make(1, VERB_INVITE, body) : NULL;
    cop_buf_unref(body);
    return question;
}

int envoy_create(const struct envoy_config *config, struct envoy **out)
{
    struct envoy *envoy = calloc(1, sizeof *envoy);
    if (envoy == NULL)
        return COP_ENOMEM;
    envoy->config = *config;
    envoy->base.loop = config->loop;
    envoy->base.events = &events;
    envoy->base.reads = &envoy->reads;
    envoy->base.writes = &envoy->writes;
    envoy->base.tls = config->tls;
    envoy->handles = 1;
    envoy->question = make_question(config);
    if (envoy->question == NULL) {
        free(envoy);
        return COP_ENOMEM;
    }
    COP_ASSERT(uv_timer_init(config->loop, &envoy->timer) == 0);
    envoy->timer.data = envoy;
    uv_timer_start(&envoy->timer, on_timer, 0, 0);
    *out = envoy;
    return 0;
}
