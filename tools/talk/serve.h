/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_TALK_SERVE_H
#define COP_TOOLS_TALK_SERVE_H

#include "base/log.h"
#include "talk/command.h"

#include <uv.h>

/*
 * The agent's and the keeper's side of the command socket, on a libuv loop. Only the
 * user who runs it and root are let in (SO_PEERCRED). One command at a time per
 * session; what is not a command ends the session with one line in the log.
 *
 * Everything is bounded: sessions, bytes of a command, replies on the way. There is no
 * timer while nobody is connected.
 */
struct server;
struct session;

#define SERVE_SESSIONS_MAX 32u

struct server_config {
    uv_loop_t *loop;
    const char *path; /* of the socket; what a dead process left there is replaced */
    const struct cop_log *log;
    /*
     * A command came; answer now or later with session_reply, the last time without
     * `more`.
     */
    void (*command)(void *context, struct session *session, enum verb verb,
                    struct cop__bytes body);
    /* All replies of the session have left. May be NULL. */
    void (*written)(void *context, struct session *session);
    /* The session is gone; forget the pointer. */
    void (*closed)(void *context, struct session *session);
    void *context;
};

/* 0, or a negative number of libuv's (uv_strerror). */
int server_create(const struct server_config *config, struct server **out);
/* Closes the socket and all sessions; memory is given back by the loop. */
void server_close(struct server *server);

/* Answers the command in hand. `body` may be NULL. */
void session_reply(struct session *session, int status, bool more,
                   const struct cop_buf *body);
/* Whose process is at the other end. */
uid_t session_uid(const struct session *session);
/* Something of the caller's, NULL at first. */
void session_set_data(struct session *session, void *data);
void *session_data(const struct session *session);

#endif
