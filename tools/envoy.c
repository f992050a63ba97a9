/* SPDX-License-Identifier: Apache-2.0 */
#include "envoy.h"

#include "base/assert.h"
#include "command.h"
#include "wire/header.h"

#include <coppice/error.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_MS 1000u /* with one member */
#define PAUSE_MS 20u      /* after all were asked; longer each time */
#define PAUSE_DOUBLINGS 5u
#define FRONT_SIZE (COP__RECORD_SIZE + COP__HEADER_SIZE)

/* One question to one member. */
struct attempt {
    uv_poll_t poll;
    struct envoy *envoy; /* NULL once it is over */
    int fd;
    bool is_sent;
    uint8_t *input; /* as far as it has come */
    uint32_t used, wanted;
};

struct envoy {
    struct envoy_config config;
    uv_timer_t timer;
    struct attempt *attempt;
    struct cop_buf *question;
    uint32_t asked;  /* in this round */
    uint32_t rounds; /* without an answer */
    bool is_closing;
};

static void ask_next(struct envoy *envoy);

/* ---- ends ------------------------------------------------------------------------ */

static void on_attempt_closed(uv_handle_t *handle)
{
    struct attempt *attempt = handle->data;
    free(attempt->input);
    free(attempt);
}

static void end_attempt(struct envoy *envoy)
{
    struct attempt *attempt = envoy->attempt;
    envoy->attempt = NULL;
    if (attempt == NULL)
        return;
    attempt->envoy = NULL;
    uv_close((uv_handle_t *)&attempt->poll, on_attempt_closed);
    close(attempt->fd);
}

static void on_closed(uv_handle_t *handle)
{
    struct envoy *envoy = handle->data;
    cop_buf_unref(envoy->question);
    free(envoy);
}

void envoy_close(struct envoy *envoy)
{
    COP_ASSERT(!envoy->is_closing);
    envoy->is_closing = true;
    end_attempt(envoy);
    uv_close((uv_handle_t *)&envoy->timer, on_closed);
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
static int read_more(struct attempt *attempt)
{
    uint32_t length;
    ssize_t got = recv(attempt->fd, attempt->input + attempt->used,
                       attempt->wanted - attempt->used, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (got <= 0)
        return COP_ELOST;
    attempt->used += (uint32_t)got;
    int error = message_length(attempt, &length);
    if (error || length == 0)
        return error;
    if (length > attempt->wanted)
        return make_room(attempt, length);
    return attempt->used == length;
}

static void on_readable(struct envoy *envoy)
{
    struct attempt *attempt = envoy->attempt;
    struct cop__msg_reply reply;
    int got = read_more(attempt);
    if (got == 0)
        return;
    if (got < 0 || cop__decode_reply(attempt->input + FRONT_SIZE,
                                     attempt->used - FRONT_SIZE, &reply) != 0)
        ask_next(envoy);
    else
        on_reply(envoy, &reply);
}

/* ---- a question ------------------------------------------------------------------ */

static void on_event(uv_poll_t *poll, int status, int events)
{
    struct attempt *attempt = poll->data;
    struct envoy *envoy = attempt->envoy;
    (void)events;
    if (envoy == NULL)
        return;
    if (attempt->is_sent) {
        on_readable(envoy);
        return;
    }
    /* Short enough for the buffer of any socket. */
    ssize_t sent = status != 0 ? -1
                               : send(attempt->fd, envoy->question->data,
                                      envoy->question->length, MSG_NOSIGNAL);
    attempt->is_sent = true;
    if (sent != (ssize_t)envoy->question->length ||
        uv_poll_start(&attempt->poll, UV_READABLE, on_event) != 0)
        ask_next(envoy);
}

static void on_timer(uv_timer_t *timer) { ask_next(timer->data); }

/* Whether a question is on its way. */
static bool ask(struct envoy *envoy, const struct cop__address *address)
{
    struct attempt *attempt = calloc(1, sizeof *attempt);
    int fd = attempt ? socket(address->storage.ss_family,
                              SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)
                     : -1;
    if (fd < 0 || make_room(attempt, FRONT_SIZE) != 0 ||
        (connect(fd, (const struct sockaddr *)&address->storage, address->length) !=
             0 &&
         errno != EINPROGRESS) ||
        uv_poll_init(envoy->config.loop, &attempt->poll, fd) != 0) {
        if (fd >= 0)
            close(fd);
        if (attempt)
            free(attempt->input);
        free(attempt);
        return false;
    }
    attempt->fd = fd;
    attempt->envoy = envoy;
    attempt->poll.data = attempt;
    envoy->attempt = attempt;
    return uv_poll_start(&attempt->poll, UV_WRITABLE, on_event) == 0;
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
