/* SPDX-License-Identifier: Apache-2.0 */
#include "groups/agent.h"
#include "talk/tokens.h"

#include <coppice/error.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TIMEOUT_NS (5 * COP_SEC)
/* So many are told again after one reading, if somebody does not have them. */
#define REPAIRS_MAX 16u

/*
 * What goes to the members: one of these, and then a group for SET. READ is answered with all
 * groups, SET with the version that the member holds now, 8 bytes, and its origin, 4; earlier
 * members of a cluster answer SET with nothing.
 */
enum kind { SET = 1, READ = 2 };
#define HELD_SIZE 12u

struct groups_ask {
    struct groups_ask *next;
    uint64_t token;
    struct session *session; /* NULL once it is gone */
    enum kind kind;
    struct group group; /* SET: what was told */
    bool is_again;      /* it was told with a larger version once more */
};

/* ---- answering ------------------------------------------------------------------- */

static void reply_all(struct session *session, int status, const struct groups *groups)
{
    struct cop_buf *body = groups_encode(groups);
    session_reply(session, body ? status : COP_ENOMEM, false, body);
    cop_buf_unref(body);
}

/* What has come is good, also when somebody was silent; who asks is told both. */
static bool is_told(int status) { return status == 0 || status == COP_ETIMEDOUT; }

static void end_ask(struct groups_agent *agent, struct groups_ask *ask, int status)
{
    struct groups_ask **link = &agent->asks;
    while (*link != ask)
        link = &(*link)->next;
    *link = ask->next;
    if (ask->session != NULL && is_told(status) && ask->kind == READ)
        reply_all(ask->session, status, &agent->groups);
    else if (ask->session != NULL)
        session_reply(ask->session, status, false, NULL);
    free(ask->group.text);
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
                                .op = COP_OP_COUNT};
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

static const struct group *find_any(const struct groups_agent *agent, const char *name)
{
    const struct group *item = agent->groups.items;
    for (uint32_t i = 0; i < agent->groups.count; i++, item++)
        if (strcmp(item->name, name) == 0)
            return item;
    return NULL;
}

/* What is held of this name afterwards, which may be later than what came, goes back. */
static int take(struct groups_agent *agent, struct cop__bytes bytes,
                struct cop_buf **held)
{
    struct group group;
    int error = group_decode(bytes, &group);
    if (error)
        return error;
    error = groups_merge(&agent->groups, &group);
    free(group.text);
    *held = error ? NULL : cop_buf_create(HELD_SIZE);
    if (*held == NULL)
        return COP_ENOMEM;
    const struct group *item = find_any(agent, group.name);
    struct cop__writer writer = cop__writer((*held)->data, HELD_SIZE);
    cop__put_u64(&writer, item->version);
    cop__put_u32(&writer, item->origin);
    return 0;
}

void groups_upcall(struct groups_agent *agent, const struct cop_upcall *upcall)
{
    struct cop_buf *answer = NULL;
    int status = COP_EMALFORMED;
    if (upcall->length > 0 && upcall->bytes[0] == SET) {
        struct cop__bytes bytes = {upcall->bytes + 1, upcall->length - 1};
        status = take(agent, bytes, &answer);
    } else if (upcall->length == 1 && upcall->bytes[0] == READ) {
        answer = groups_encode(&agent->groups);
        status = answer ? 0 : COP_ENOMEM;
    }
    struct cop_coll coll = {.handle = upcall->handle, .status = status};
    struct cop_request request = {.kind = COP_REQUEST_REPLY,
                                  .token = GROUPS_TOKEN | ++agent->next_token,
                                  .bytes = answer ? answer->data : NULL,
                                  .length = answer ? answer->length : 0,
                                  .coll = &coll};
    /* A handle that is void by now is nobody's any more. */
    (void)cop__tcp_submit(agent->tcp, &request);
    cop_buf_unref(answer);
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

/* ---- versions -------------------------------------------------------------------- */

/* Later than this one, and than all that is known of it here, or was told and not taken yet. */
static uint64_t next_version(const struct groups_agent *agent, const char *name,
                             uint64_t after)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t version = (uint64_t)now.tv_sec * COP_SEC + (uint64_t)now.tv_nsec;
    const struct group *known = find_any(agent, name);
    if (known != NULL && known->version > after)
        after = known->version;
    for (const struct groups_ask *ask = agent->asks; ask; ask = ask->next)
        if (strcmp(ask->group.name, name) == 0 && ask->group.version > after)
            after = ask->group.version;
    return version > after ? version : after + 1;
}

/*
 * Whether what was told has lost, and against which version. Of equal versions neither knew of
 * the other, and the ids decide; what this agent itself was told to set meanwhile is to hold.
 */
static bool has_lost(const struct groups_agent *agent, const struct groups_ask *ask,
                     const struct cop_buf *result, uint64_t *against)
{
    struct cop_bcast_result found;
    const uint8_t *bytes;
    uint32_t at = 0, length, count, ranges;
    struct group latest = ask->group;
    if (cop_bcast_result(result, &found) != 0)
        return false;
    while (cop_count_next(&found, &at, &bytes, &length, &count, &ranges)) {
        struct cop__reader reader = cop__reader(bytes, length);
        struct group held = {.version = cop__get_u64(&reader)};
        held.origin = cop__get_u32(&reader);
        if (cop__reader_is_done(&reader) && held.version <= GROUPS_VERSION_MAX &&
            group_is_later(&held, &latest))
            latest = held;
    }
    cop_bcast_result_free(&found);
    const struct group *known = find_any(agent, ask->group.name);
    bool is_ours = known != NULL && known->origin == agent->self &&
                   known->version >= latest.version;
    *against = latest.version;
    return latest.version > ask->group.version && !is_ours;
}

/*
 * This agent came later than what it was to replace, and its clock is behind: now it knows the
 * version, and tells its group once more. Only once: what holds against that was set meanwhile.
 * True: it is under way.
 */
static bool tell_again(struct groups_agent *agent, struct groups_ask *ask,
                       const struct cop_buf *result, int *status)
{
    uint64_t against;
    if (ask->is_again || !has_lost(agent, ask, result, &against))
        return false;
    ask->is_again = true;
    ask->group.version = next_version(agent, ask->group.name, against);
    ask->token = GROUPS_TOKEN | ++agent->next_token;
    int error = broadcast(agent, SET, &ask->group, ask->token);
    if (error)
        *status = error;
    return error == 0;
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
    if (ask->kind == READ && is_told(status) && result != NULL) {
        int error = merge_all(agent, result);
        status = error ? error : status;
    } else if (ask->kind == SET && result != NULL &&
               tell_again(agent, ask, result, &status)) {
        return true;
    }
    end_ask(agent, ask, status);
    return true;
}

/* ---- commands -------------------------------------------------------------------- */

/* Takes the group's text. */
static void ask(struct groups_agent *agent, struct session *session, enum kind kind,
                struct group group)
{
    struct groups_ask *ask = calloc(1, sizeof *ask);
    int error = ask ? 0 : COP_ENOMEM;
    if (!error) {
        ask->token = GROUPS_TOKEN | ++agent->next_token;
        ask->session = session;
        ask->kind = kind;
        ask->group = group;
        error = broadcast(agent, kind, kind == SET ? &group : NULL, ask->token);
    }
    if (error) {
        free(group.text);
        free(ask);
        session_reply(session, error, false, NULL);
        return;
    }
    ask->next = agent->asks;
    agent->asks = ask;
}

void groups_list(struct groups_agent *agent, struct session *session)
{
    ask(agent, session, READ, (struct group){.text = NULL});
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
    if (error) {
        session_reply(session, error, false, NULL);
        return;
    }
    group.version = next_version(agent, group.name, 0);
    group.origin = agent->self;
    error = check_room(agent, &group);
    if (!error) {
        ask(agent, session, SET, group);
        return;
    }
    free(group.text);
    session_reply(session, error, false, NULL);
}
