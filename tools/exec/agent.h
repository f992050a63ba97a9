/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_EXEC_AGENT_H
#define COP_TOOLS_EXEC_AGENT_H

#include "exec/allow.h"
#include "net/tcp/driver.h"
#include "talk/serve.h"

#include <coppice/coll.h>

/*
 * All that an agent has to do with `coppice exec`: as a member it runs commands (member side),
 * and for a command on its socket it has others run them (root side). See exec.h.
 */
struct exec;

struct exec_config {
    uv_loop_t *loop;
    const struct cop_log *log;
    const struct exec_allow *allow;
    const char *name; /* of this member */
    /* The name of any member. */
    void (*name_of)(void *context, cop_id id, char out[COP_NAME_MAX + 1]);
    /* One line for each run, which nothing may suppress. */
    void (*audit)(void *context, char *line);
    void *context;
};

/* COP_ENOMEM. */
int exec_create(const struct exec_config *config, struct exec **out);
/* Kills what runs; memory is given back by the loop. */
void exec_close(struct exec *exec);

/* There is another node, or none (NULL): all runs and sessions of the last one end. */
void exec_set_node(struct exec *exec, struct cop__tcp *tcp, cop_id self,
                   bool has_letters);
/* What the driver has to tell. */
/* RUN of the service EXEC. */
void exec_upcall(struct exec *exec, const struct cop_upcall *upcall);
/* A letter; false: it is not of this service. */
bool exec_deliver(struct exec *exec, cop_id from, const struct cop_buf *bytes);
bool exec_complete(struct exec *exec, uint64_t token, int status,
                   struct cop_buf *result);
void exec_installed(struct exec *exec, const struct cop_view *view);

/* EXEC and CANCEL of a session, and what the server has to tell. */
void exec_start(struct exec *exec, struct session *session, struct cop__bytes body);
void exec_cancel(struct exec *exec, struct session *session, struct cop__bytes body);
void exec_written(struct exec *exec, const struct session *session);
void exec_closed(struct exec *exec, const struct session *session);

#endif
