/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_AGENT_PARTS_H
#define COP_TOOLS_AGENT_PARTS_H

#include "agent/agent.h"
#include "agent/agreeing.h"
#include "agent/runs.h"
#include "agent/signals.h"
#include "exec/agent.h"
#include "groups/agent.h"
#include "net/tcp/notice.h"
#include "net/tcp/runner.h"
#include "put/agent.h"
#include "run/envoy.h"
#include "run/porch.h"
#include "talk/diary.h"
#include "talk/serve.h"
#include "top/watch.h"

/* What the files of an agent share. Nobody else includes it. */

/* Who is to be answered: a session of the command socket, or a guest of the driver. */
struct caller {
    struct session *session; /* NULL for a guest, or if it is gone */
    uint64_t guest, token;
};

/* A command that is answered later. */
struct ask {
    struct ask *next;
    struct caller caller;
    enum verb verb;
    uint64_t token; /* of the request at the node; 0 if there is none */
};

struct agent {
    const struct agent_config *config;
    char name[NODESET_NAME_LENGTH + 1];      /* as people call it */
    char view_name[NODESET_NAME_LENGTH + 1]; /* as the view does */
    cop_id id;
    cop_incarnation incarnation;
    bool had_node;          /* in this life, or in one before it in this process */
    bool was_member;        /* in this life, or in one before it in this process */
    bool is_outdone;        /* went on as a later life, because a later one was known */
    cop_incarnation exceed; /* a life of this member that somebody knows */

    uv_loop_t loop;
    struct cop__runner runner;
    struct signals signals;
    bool has_signals;
    struct cop__tcp *tcp;     /* NULL while it has no node */
    struct cop__envoy *envoy; /* while it asks for an invitation */
    struct cop__porch door;   /* takes and closes connections while it has no node */
    int listen_fd;
    struct server *server;
    struct runs runs;
    struct exec *exec;
    struct put *put;
    struct groups_agent groups;
    struct exec_allow allow_exec;
    struct agreeings agreeings;
    struct watches watches;
    struct ask *asks;
    uint64_t next_ask;

    struct cop_view *start; /* of the static start */
    struct roll roll;       /* what is told of the view; the view is NULL without one */
    uint64_t diary_serial;  /* another one after every change of what is in a diary */
    struct cop_stats stats;
    struct cop_log log;
    cop_time started_ns;
    uint64_t log_lines, log_dropped;
    struct cop__notice uninvited, not_for_agents;
    bool is_alone; /* and has said so */
    bool is_unwanted;
    bool stopping;
    int code;
};

/* ---- agent.c --------------------------------------------------------------------- */

void agent_stop(struct agent *agent, int code);
/* Reads the files of keys or certificates again. 0, or an error, which is logged. */
int agent_rekey(struct agent *agent);

/* ---- answer.c -------------------------------------------------------------------- */

void answer_command(struct agent *agent, struct session *session, enum verb verb,
                    struct cop__bytes body);
void answer_guest(struct agent *agent, uint64_t guest, const struct cop_buf *payload);
/* A request at the node ended; false if it was none of these. */
bool answer_complete(struct agent *agent, uint64_t token, int status,
                     const struct cop_buf *result);
/* The view, or what is thought of it, has changed: who waits for that is answered. */
void answer_change(struct agent *agent);
/* Something happened that a diary has. */
void answer_diary(struct agent *agent);
/* The session is gone. */
void answer_closed(struct agent *agent, const struct session *session);
/* The node is gone: all that wait for it get this status. */
void answer_all(struct agent *agent, int status);

#endif
