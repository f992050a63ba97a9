/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_TALK_CLIENT_H
#define COP_TOOLS_TALK_CLIENT_H

#include "net/tcp/driver.h"
#include "talk/command.h"

#include <sys/types.h>

/*
 * The command's side of a conversation with an agent or a keeper: blocking, with
 * deadlines. Who says nothing for long is hung up on (talk/serve.c); then the next command opens
 * the conversation again, where that takes no proof of who is there.
 */
struct secret_line;
struct client {
    int fd;
    struct secret_line *line; /* of a connection by TLS; NULL otherwise */
    uint64_t token;
    struct cop_buf *buffer;      /* of the last reply */
    struct cop__address address; /* to open it again; without a length: not */
};

/* What came back; the body is borrowed until the next call. */
struct client_reply {
    int status;
    bool more;
    struct cop__bytes body;
};

/* 0; COP_ENOENT (nobody listens there), COP_EREFUSED (not ours), COP_EIO. */
int client_open(const char *path, struct client *out);
/*
 * The same for any address; with `tls`, TCP is encrypted. Where the other end does not
 * prove who it is the message says so, with COP_EREFUSED.
 */
int client_open_address(const struct cop__address *address, struct cop__tls *tls,
                        struct client *out, char *message, size_t size);
void client_close(struct client *client);

/* The process at the other end, as the kernel knows it; 0 if it does not. */
pid_t client_peer(const struct client *client);

/* 0, COP_ENOMEM, COP_ELOST (the other end is gone), COP_EIO. `body` may be NULL. */
int client_send(struct client *client, enum verb verb, const struct cop_buf *body);
/*
 * The next reply. 0; COP_ETIMEDOUT; COP_ELOST (the other end is gone); COP_EMALFORMED.
 */
int client_receive(struct client *client, cop_time timeout_ns,
                   struct client_reply *out);
/* Whether something comes, or the other end goes, within this time. */
bool client_is_ready(const struct client *client, cop_time timeout_ns);
/* Both. */
int client_call(struct client *client, enum verb verb, const struct cop_buf *body,
                cop_time timeout_ns, struct client_reply *out);

#endif
