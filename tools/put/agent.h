/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_PUT_AGENT_H
#define COP_TOOLS_PUT_AGENT_H

#include "exec/allow.h"
#include "net/tcp/driver.h"
#include "talk/serve.h"

/*
 * All that an agent has to do with `coppice put`: as a member it writes files (sink.c), and
 * for a command on its socket it reads one and gives it to the others (agent.c). Files are
 * read and written by threads of the loop: a slow disk must not keep a member from answering.
 */
struct put;

struct put_config {
    uv_loop_t *loop;
    const struct exec_allow *allow; /* whoever may run commands may write files */
    const char *name;               /* of this member */
    /* The name of any member. */
    void (*name_of)(void *context, cop_id id, char out[COP_NAME_MAX + 1]);
    /* One line for each file, which nothing may suppress. */
    void (*audit)(void *context, char *line);
    void *context;
};

/* COP_ENOMEM. */
int put_create(const struct put_config *config, struct put **out);
/* Ends all; memory is given back when the last thread has returned. */
void put_close(struct put *put);

/* There is another node, or none (NULL): all that is under way ends. */
void put_set_node(struct put *put, struct cop__tcp *tcp, cop_id self);
/* What the driver has to tell; `beside` are the bytes of a PIECE. */
void put_upcall(struct put *put, struct cop_buf *record, struct cop_buf *beside);
bool put_complete(struct put *put, uint64_t token, int status, struct cop_buf *result);

/* PUT of a session, and what the server has to tell. */
void put_start(struct put *put, struct session *session, struct cop__bytes body);
void put_written(struct put *put, const struct session *session);
void put_closed(struct put *put, const struct session *session);

#endif
