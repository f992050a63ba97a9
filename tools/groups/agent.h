/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_GROUPS_AGENT_H
#define COP_TOOLS_GROUPS_AGENT_H

#include "groups/groups.h"
#include "net/tcp/driver.h"
#include "talk/serve.h"

#include <coppice/coll.h>

/*
 * The groups of an agent: a service by which members tell each other, and ask, what they have;
 * and what a command on its socket wants of them.
 */
#define GROUPS_SERVICE UINT64_C(0x67727073)
#define GROUPS_VERSION 1u

struct groups_ask;
struct groups_agent {
    struct cop__tcp *tcp; /* NULL while there is no node */
    cop_id self;
    struct groups groups;
    struct groups_ask *asks;
    uint64_t next_token;
};

/* The node is another, or gone: who waits is answered with this status. */
void groups_set_node(struct groups_agent *agent, struct cop__tcp *tcp, cop_id self,
                     int status);
void groups_close(struct groups_agent *agent);

void groups_upcall(struct groups_agent *agent, const struct cop_upcall *upcall);
/* False: it was none of these. */
bool groups_complete(struct groups_agent *agent, uint64_t token, int status,
                     const struct cop_buf *result);

/* GROUPS: all of them. GROUP_SET: a group, whose version and origin are not looked at. */
void groups_list(struct groups_agent *agent, struct session *session);
void groups_set(struct groups_agent *agent, struct session *session,
                struct cop__bytes body);
void groups_closed(struct groups_agent *agent, const struct session *session);

#endif
