/* SPDX-License-Identifier: Apache-2.0 */
#include "serve.h"

#include "base/assert.h"
#include "run/listen.h"
#include "wire/header.h"

#include <coppice/error.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define FRONT_SIZE (COP__RECORD_SIZE + COP__HEADER_SIZE)
/* Room for one command of the largest size; a little is enough for nearly all. */
#define INPUT_FIRST 1024u
#define INPUT_MAX (FRONT_SIZE + 64u + COMMAND_BODY_MAX)
#define IDLE_MS 30000u

struct session {
    uv_pipe_t pipe;
    uv_timer_t idle; /* runs while no command is in hand */
    struct server *server;
    struct session *next;
    uint8_t *input;
    uint32_t used, capacity;
    uint64_t token;   /* of the command in hand */
    uint32_t writing; /* replies on the way */
    uint32_t handles; /* not yet closed */
    bool busy;        /* a command is in hand */
    bool closing;
    uid_t uid; /* of the other end */
    void *data;
};

struct server {
    struct server_config config;
    uv_pipe_t listener;
    struct session *sessions;
    uint32_t count;
    bool closing;
};

/* ---- ends ------------------------------------------------------------------------ */

static void free_server_if_done(struct server *server)
{
    if (server->closing && server->count == 0 && server->listener.data == NULL)
        free(server);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct session *session = handle->data;
    struct server *server = session->server;
    if (--session->handles > 0)
        return;
    struct session **link = &server->sessions;
    while (*link != session)
        link = &(*link)->next;
    *link = session->next;
    server->count--;
    free(session->input);
    free(session);
    free_server_if_done(server);
}

static void close_session(struct session *session)
{
    if (session->closing)
        return;
    session->closing = true;
    if (session->server->config.closed)
        session->server->config.closed(session->server->config.context, session);
    uv_close((uv_handle_t *)&session->pipe, on_handle_closed);
    uv_close((uv_handle_t *)&session->idle, on_handle_closed);
}

static void on_listener_closed(uv_handle_t *handle)
{
    struct server *server = handle->data;
    handle->data = NULL;
    free_server_if_done(server);
}

void server_close(struct server *server)
{
    server->closing = true;
    for (struct session *session = server->sessions; session; session = session->next)
        close_session(session);
    uv_close((uv_handle_t *)&server->listener, on_listener_closed);
}

static void on_idle(uv_timer_t *timer) { close_session(timer->data); }

/* Waits for the next command, but not for ever. */
static void set_idle(struct session *session)
{
    if (!session->closing)
        uv_timer_start(&session->idle, on_idle, IDLE_MS, 0);
}

/* ---- replies --------------------------------------------------------------------- */

struct reply {
    uv_write_t request;
    struct session *session;
    struct cop_buf *packed;
};

static void on_written(uv_write_t *request, int status)
{
    struct reply *reply = request->data;
    struct session *session = reply->session;
    cop_buf_unref(reply->packed);
    free(reply);
    session->writing--;
    if (status < 0)
        close_session(session);
    else if (session->writing == 0 && !session->closing &&
             session->server->config.written)
        session->server->config.written(session->server->config.context, session);
}

/*
 * Replies whose memory cannot be had end the session: its command sees that, at least.
 */
void session_reply(struct session *session, int status, bool more,
                   const struct cop_buf *body)
{
    COP_ASSERT(session->busy && status <= 0);
    if (session->closing)
        return;
    struct reply *reply = malloc(sizeof *reply);
    struct cop_buf *packed = cop__reply_make(session->token, status, more, body);
    if (reply == NULL || packed == NULL) {
        free(reply);
        cop_buf_unref(packed);
        close_session(session);
        return;
    }
    *reply = (struct reply){.session = session, .packed = packed};
    reply->request.data = reply;
    session->writing++;
    session->busy = more;
    uv_buf_t buf = uv_buf_init((char *)packed->data, packed->length);
    if (uv_write(&reply->request, (uv_stream_t *)&session->pipe, &buf, 1, on_written)) {
        session->writing--;
        free(reply);
        cop_buf_unref(packed);
        close_session(session);
    } else if (!more) {
        set_idle(session);
    }
}

uid_t session_uid(const struct session *session) { return session->uid; }

void session_set_data(struct session *session, void *data) { session->data = data; }

void *session_data(const struct session *session) { return session->data; }

/* ---- commands -------------------------------------------------------------------- */

static void refuse(struct session *session, const char *why)
{
    cop__log(session->server->config.log, COP_LOG_WARN, "command socket: %s: cut off",
             why);
    close_session(session);
}

/*
 * Length of the whole message at the front of the input; 0: not known yet, or refused.
 */
static uint32_t message_length(struct session *session)
{
    struct cop__record record;
    struct cop_header header;
    if (session->used < COP__RECORD_SIZE)
        return 0;
    if (cop__record_decode(session->input, &record) != 0 ||
        record.type != COP__RECORD_FRAME || record.length < COP__HEADER_SIZE) {
        refuse(session, "not a record of ours");
        return 0;
    }
    if (record.length > INPUT_MAX - COP__RECORD_SIZE) {
        refuse(session, "a command that is too long");
        return 0;
    }
    if (session->used < FRONT_SIZE)
        return 0;
    int error = cop__header_decode(session->input + COP__RECORD_SIZE, &header);
    if (error || header.kind != COP__KIND_COMMAND ||
        header.length + COP__HEADER_SIZE != record.length) {
        refuse(session, error ? cop_strerror(error) : "not a command");
        return 0;
    }
    return COP__RECORD_SIZE + record.length;
}

/* Runs the command at the front of the input, if it is whole and none is in hand. */
static void take_input(struct session *session)
{
    struct cop__msg_command command;
    if (session->busy || session->closing)
        return;
    uint32_t length = message_length(session);
    if (length == 0 || session->used < length)
        return;
    const uint8_t *payload = session->input + FRONT_SIZE;
    if (cop__decode_command(payload, length - FRONT_SIZE, &command) != 0) {
        refuse(session, "a malformed command");
        return;
    }
    session->busy = true;
    session->token = command.token;
    uv_timer_stop(&session->idle);
    /* The body points into the input, so a command must have copied what it keeps. */
    uint8_t *whole = session->input;
    uint32_t rest = session->used - length;
    session->input = NULL;
    session->used = session->capacity = 0;
    if (rest > 0) {
        refuse(session, "a command before the last one was answered");
    } else {
        const struct server_config *config = &session->server->config;
        config->command(config->context, session, (enum verb)command.verb,
                        command.body);
    }
    free(whole);
}

/*
 * Room for what comes: a little at first, the whole message once its length is known.
 */
static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct session *session = handle->data;
    uint32_t wanted = INPUT_FIRST;
    (void)suggested;
    *buf = uv_buf_init(NULL, 0);
    if (session->used == session->capacity && session->capacity > 0)
        wanted = INPUT_MAX;
    if (wanted > session->capacity) {
        uint8_t *input = realloc(session->input, wanted);
        if (input == NULL)
            return;
        session->input = input;
        session->capacity = wanted;
    }
    *buf = uv_buf_init((char *)session->input + session->used,
                       session->capacity - session->used);
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    struct session *session = stream->data;
    (void)buf;
    if (got < 0) {
        if (got == UV_ENOBUFS)
            refuse(session, "too much at once");
        close_session(session);
        return;
    }
    session->used += (uint32_t)got;
    if (got > 0 && session->busy)
        refuse(session, "a command before the last one was answered");
    else
        take_input(session);
}

/* ---- sessions -------------------------------------------------------------------- */

/* Whether the other end is run by the same user, or by root. */
static bool may_enter(struct session *session)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    uv_os_fd_t fd;
    if (uv_fileno((const uv_handle_t *)&session->pipe, &fd) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
        return false;
    session->uid = peer.uid;
    return peer.uid == geteuid() || peer.uid == 0;
}

static struct session *create_session(struct server *server)
{
    struct session *session = calloc(1, sizeof *session);
    if (session == NULL)
        return NULL;
    session->server = server;
    session->handles = 2;
    COP_ASSERT(uv_pipe_init(server->config.loop, &session->pipe, 0) == 0);
    COP_ASSERT(uv_timer_init(server->config.loop, &session->idle) == 0);
    session->pipe.data = session->idle.data = session;
    session->next = server->sessions;
    server->sessions = session;
    server->count++;
    return session;
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct server *server = listener->data;
    struct session *session = status == 0 ? create_session(server) : NULL;
    if (session == NULL)
        return;
    if (uv_accept(listener, (uv_stream_t *)&session->pipe) != 0) {
        close_session(session);
        return;
    }
    if (server->count > SERVE_SESSIONS_MAX)
        refuse(session, "too many at once");
    else if (!may_enter(session))
        refuse(session, "somebody else's process");
    else if (uv_read_start((uv_stream_t *)&session->pipe, on_alloc, on_read) != 0)
        close_session(session);
    else
        set_idle(session);
}

int server_create(const struct server_config *config, struct server **out)
{
    struct server *server = calloc(1, sizeof *server);
    if (server == NULL)
        return UV_ENOMEM;
    server->config = *config;
    int fd = cop__listen_unix(config->path);
    if (fd < 0) {
        free(server);
        return fd;
    }
    COP_ASSERT(uv_pipe_init(config->loop, &server->listener, 0) == 0);
    server->listener.data = server;
    int error = uv_pipe_open(&server->listener, fd);
    if (!error)
        error = uv_listen((uv_stream_t *)&server->listener, 16, on_connection);
    if (error) {
        server_close(server);
        return error;
    }
    *out = server;
    return 0;
}
