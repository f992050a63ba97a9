/* SPDX-License-Identifier: Apache-2.0 */
#include "groups_agent.h"
#include "tokens.h"

#include <coppice/error.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TIMEOUT_NS (5 * COP_SEC)
/* So many are told again after one reading, if somebody does not have them. */
#define REPAIRS_MAX 16u

/* What goes to the members: one of these, and then a group for SET. */
enum kind { SET = 1, READ = 2 };

struct groups_ask {
    struct groups_ask *next;
    uint64_t token;
    struct session *session; /* NULL once it is gone */
    bool is_read;
};

/* ---- answering ------------------------------------------------------------------- */

static void reply_all(struct session *session, const struct groups *groups)
{
    struct cop_buf *body = groups_encode(groups);
    session_reply(session, body ? 0 : COP_ENOMEM, false, body);
    cop_buf_unref(body);
}

static void end_ask(struct groups_agent *agent, struct groups_ask *ask, int status)
{
    struct groups_ask **link = &agent->asks;
    while (*link != ask)
        link = &(*link)->next;
    *link = ask->next;
    if (ask->session != NULL && status == 0 && ask->is_read)
        reply_all(ask->session, &agent->groups);
    else if (ask->session != NULL)
        session_reply(ask->session, status, false, NULL);
    free(ask);
}

void groups_set_node(struct groups_agent *agent, struct cop__tcp *tcp, cop_id self,
                     int status)
{
    while (agent->asks != NULL)
        end_ask(agent, agent->asks, status);
    agent->tcp = tcp;
    agent->self = self;
}

void groups_close(struct groups_agent *agent) { groups_free(&agent->groups); }

void groups_closed(struct groups_agent *agent, const struct session *session)
{
    for (struct groups_ask *ask = agent->asks; ask; ask = ask->next)
        if (ask->session == session)
            ask->session = NULL;
}

/* ---- among members --------------------------------------------------------------- */

static int broadcast(struct groups_agent *agent, enum kind kind,
                     const struct group *group, uint64_t token)
{
    struct cop_buf *entry = group ? group_encode(group) : cop_buf_create(0);
    struct cop_buf *bytes = entry ? cop_buf_create(1 + (size_t)entry->length) : NULL;
    int error = COP_ENOMEM;
    if (bytes != NULL) {
        bytes->data[0] = (uint8_t)kind;
        memcpy(bytes->data + 1, entry->data, entry->length);
        struct cop_coll coll = {.service = {.id = GROUPS_SERVICE},
                                .flags = COP_BCAST_HEAL,
                                .version = GROUPS_VERSION,
                                .op = kind == READ ? COP_OP_COUNT : COP_OP_STATUS};
        struct cop_request request = {.kind = COP_REQUEST_BCAST,
                                      .token = token,
                                      .timeout_ns = TIMEOUT_NS,
                                      .bytes = bytes->data,
                                      .length = bytes->length,
                                      .coll = &coll};
        error = cop__tcp_submit(agent->tcp, &request);
    }
    cop_buf_unref(entry);
    cop_buf_unref(bytes);
    return error;
}

static int take(struct groups_agent *agent, struct cop__bytes bytes)
{
    struct group group;
    int error = group_decode(bytes, &group);
    if (error)
        return error;
    error = groups_merge(&agent->groups, &group);
    free(group.text);
    return error;
}

void groups_upcall(struct groups_agent *agent, const struct cop_upcall *upcall)
{
    struct cop_buf *all = NULL;
    int status = COP_EMALFORMED;
    if (upcall->length > 0 && upcall->bytes[0] == SET) {
        status =
            take(agent, (struct cop__bytes){upcall->bytes + 1, upcall->length - 1});
    } else if (upcall->length == 1 && upcall->bytes[0] == READ) {
        all = groups_encode(&agent->groups);
        status = all ? 0 : COP_ENOMEM;
    }
    struct cop_coll coll = {.handle = upcall->handle, .status = status};
    struct cop_request request = {.kind = COP_REQUEST_REPLY,
                                  .token = GROUPS_TOKEN | ++agent->next_token,
                                  .bytes = all ? all->data : NULL,
                                  .length = all ? all->length : 0,
                                  .coll = &coll};
    /* A handle that is void by now is nobody's any more. */
    (void)cop__tcp_submit(agent->tcp, &request);
    cop_buf_unref(all);
}

/* Those who joined later do not have all: they are told, if it was seen. Nobody waits. */
static void repair(struct groups_agent *agent)
{
    for (uint32_t i = 0; i < agent->groups.count && i < REPAIRS_MAX; i++)
        if (broadcast(agent, SET, &agent->groups.items[i],
                      GROUPS_TOKEN | ++agent->next_token) != 0)
            return;
}

static int merge_all(struct groups_agent *agent, const struct cop_buf *result)
{
    struct cop_bcast_result found;
    const uint8_t *bytes;
    uint32_t at = 0, length, count, ranges, classes = 0;
    int error = cop_bcast_result(result, &found);
    if (error)
        return error;
    while (!error && cop_count_next(&found, &at, &bytes, &length, &count, &ranges)) {
        struct groups groups;
        error = groups_decode((struct cop__bytes){bytes, length}, &groups);
        for (uint32_t i = 0; !error && i < groups.count; i++)
            error = groups_merge(&agent->groups, &groups.items[i]);
        if (!error)
            groups_free(&groups);
        classes++;
    }
    cop_bcast_result_free(&found);
    if (!error && classes > 1)
        repair(agent);
    return error;
}

bool groups_complete(struct groups_agent *agent, uint64_t token, int status,
                     const struct cop_buf *result)
{
    struct groups_ask *ask = agent->asks;
    if (!(token & GROUPS_TOKEN))
        return false;
    while (ask != NULL && ask->token != token)
        ask = ask->next;
    if (ask == NULL)
        return true;
    if (status == 0 && ask->is_read && result != NULL)
        status = merge_all(agent, result);
    end_ask(agent, ask, status);
    return true;
}

/* ---- commands -------------------------------------------------------------------- */

static void ask(struct groups_agent *agent, struct session *session, enum kind kind,
                const struct group *group)
{
    struct groups_ask *ask = calloc(1, sizeof *ask);
    int error = ask ? 0 : COP_ENOMEM;
    if (!error) {
        ask->token = GROUPS_TOKEN | ++agent->next_token;
        ask->session = session;
        ask->is_read = kind == READ;
        error = broadcast(agent, kind, group, ask->token);
    }
    if (error) {
        free(ask);
        session_reply(session, error, false, NULL);
        return;
    }
    ask->next = agent->asks;
    agent->asks = ask;
}

void groups_list(struct groups_agent *agent, struct session *session)
{
    ask(agent, session, READ, NULL);
}

/* Later than what is known of it. */
static uint64_t next_version(const struct groups_agent *agent, const char *name)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t version = (uint64_t)now.tv_sec * COP_SEC + (uint64_t)now.tv_nsec;
    for (uint32_t i = 0; i < agent->groups.count; i++)
        if (strcmp(agent->groups.items[i].name, name) == 0 &&
            agent->groups.items[i].version >= version)
            version = agent->groups.items[i].version + 1;
    return version;
}

static int check_room(const struct groups_agent *agent, const struct group *group)
{
    struct cop_buf *all = groups_encode(&agent->groups);
    int error = all ? 0 : COP_ENOMEM;
    if (!error && all->length + strlen(group->text) > GROUPS_BYTES_MAX)
        error = COP_ETOOBIG;
    cop_buf_unref(all);
    return error;
}

void groups_set(struct groups_agent *agent, struct session *session,
                struct cop__bytes body)
{
    struct group group;
    int error = group_decode(body, &group);
    if (!error) {
        group.version = next_version(agent, group.name);
        group.origin = agent->self;
        error = check_room(agent, &group);
        if (!error)
            ask(agent, session, SET, &group);
        free(group.text);
    }
    if (error)
        session_reply(session, error, false, NULL);
}
