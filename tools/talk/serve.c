/* SPDX-License-Identifier: Apache-2.0 */
#include "talk/serve.h"

#include "base/assert.h"
#include "run/listen.h"
#include "run/porch.h"
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

/* Each is one line a minute in the log, however often it happens. */
enum refusal {
    REFUSED_RECORD,
    REFUSED_LENGTH,
    REFUSED_HEADER,
    REFUSED_KIND,
    REFUSED_BODY,
    REFUSED_EARLY,
    REFUSED_MEMORY,
    REFUSED_MANY,
    REFUSED_USER,
    REFUSALS
};

static const char *const refusal_texts[REFUSALS] = {
    [REFUSED_RECORD] = "not a record of ours",
    [REFUSED_LENGTH] = "a command that is too long",
    [REFUSED_HEADER] = "not a header of ours, or one of another version",
    [REFUSED_KIND] = "not a command",
    [REFUSED_BODY] = "a malformed command",
    [REFUSED_EARLY] = "a command before the last one was answered",
    [REFUSED_MEMORY] = "no memory for it",
    [REFUSED_MANY] = "too many at once",
    [REFUSED_USER] = "somebody else's process",
};

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
    struct cop__porch porch;
    int listen_fd;
    struct session *sessions;
    uint32_t count;
    struct cop__notice refused[REFUSALS];
    bool closing, is_deaf; /* is_deaf: the loop knows nothing of the porch any more */
};

/* ---- ends ------------------------------------------------------------------------ */

static void free_server_if_done(struct server *server)
{
    if (server->closing && server->count == 0 && server->is_deaf)
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

static void on_porch_closed(void *context)
{
    struct server *server = context;
    server->is_deaf = true;
    free_server_if_done(server);
}

void server_close(struct server *server)
{
    int listen_fd = server->listen_fd;
    server->closing = true;
    for (struct session *session = server->sessions; session; session = session->next)
        close_session(session);
    cop__porch_close(&server->porch, on_porch_closed);
    close(listen_fd); /* the server may be gone by now */
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

static void say_refused(struct server *server, enum refusal why)
{
    uint64_t held;
    if (cop__notice_is_due(&server->refused[why], cop__clock_now(), &held))
        cop__log(server->config.log, COP_LOG_WARN,
                 "command socket: %s: cut off (%llu more like this)",
                 refusal_texts[why], (unsigned long long)held);
}

static void refuse(struct session *session, enum refusal why)
{
    say_refused(session->server, why);
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
        refuse(session, REFUSED_RECORD);
        return 0;
    }
    if (record.length > INPUT_MAX - COP__RECORD_SIZE) {
        refuse(session, REFUSED_LENGTH);
        return 0;
    }
    if (session->used < FRONT_SIZE)
        return 0;
    int error = cop__header_decode(session->input + COP__RECORD_SIZE, &header);
    if (error || header.kind != COP__KIND_COMMAND ||
        header.length + COP__HEADER_SIZE != record.length) {
        refuse(session, error ? REFUSED_HEADER : REFUSED_KIND);
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
        refuse(session, REFUSED_BODY);
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
        refuse(session, REFUSED_EARLY);
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
            refuse(session, REFUSED_MEMORY);
        close_session(session);
        return;
    }
    session->used += (uint32_t)got;
    if (got > 0 && session->busy)
        refuse(session, REFUSED_EARLY);
    else
        take_input(session);
}

/* ---- sessions -------------------------------------------------------------------- */

/* Whether the other end is run by the same user, or by root. */
static bool may_enter(int fd, uid_t *uid)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
        return false;
    *uid = peer.uid;
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

static void drop(struct server *server, int fd, enum refusal why)
{
    say_refused(server, why);
    close(fd);
}

static void on_connection(void *context, int fd, cop__origin from)
{
    struct server *server = context;
    uid_t uid;
    (void)from;
    if (!may_enter(fd, &uid)) {
        drop(server, fd, REFUSED_USER);
        return;
    }
    if (server->count >= SERVE_SESSIONS_MAX) {
        drop(server, fd, REFUSED_MANY);
        return;
    }
    struct session *session = create_session(server);
    if (session == NULL) {
        drop(server, fd, REFUSED_MEMORY);
        return;
    }
    session->uid = uid;
    if (uv_pipe_open(&session->pipe, fd) != 0) {
        close(fd);
        close_session(session);
    } else if (uv_read_start((uv_stream_t *)&session->pipe, on_alloc, on_read) != 0) {
        close_session(session);
    } else {
        set_idle(session);
    }
}

/*
 * Not with uv_listen: whoever is not taken from it at once, for want of memory, is in the way of
 * all who come later, and when descriptors run out it takes and closes those who wait.
 */
int server_create(const struct server_config *config, struct server **out)
{
    struct server *server = calloc(1, sizeof *server);
    if (server == NULL)
        return UV_ENOMEM;
    server->config = *config;
    server->listen_fd = cop__listen_unix(config->path);
    if (server->listen_fd < 0) {
        int error = server->listen_fd;
        free(server);
        return error;
    }
    struct cop__porch_config porch = {
        .loop = config->loop,
        .fd = server->listen_fd,
        .log = config->log,
        .name = "command socket",
        .take = on_connection,
        .context = server,
    };
    int error = cop__porch_init(&server->porch, &porch);
    if (error) {
        server_close(server);
        return error;
    }
    cop__porch_watch(&server->porch);
    *out = server;
    return 0;
}
