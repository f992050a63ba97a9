/* SPDX-License-Identifier: Apache-2.0 */
#include "ask/follow.h"

#include "ask/survey.h"
#include "term/commands.h"
#include "term/say.h"

#include <coppice/error.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ASK_TIMEOUT_NS COP_SEC
#define PROBE_TIMEOUT_NS COP_SEC /* to find out who does not answer */
/* Silent for so long: nothing happened, or it was stopped. */
#define SILENCE_NS (2 * COP_SEC)

static int explain(int error, const char *who)
{
    if (error == COP_ENOENT || error == COP_EINVAL)
        return fail(EXIT_NO_CLUSTER, "no agent takes commands at %s", who);
    if (error == COP_ESTATE)
        return fail(EXIT_REFUSED, "%s is not in the view", who);
    if (error == COP_ETIMEDOUT)
        return fail(EXIT_FAILED,
                    "%s does not answer: it is stopped, or busy; ask another one", who);
    return fail(EXIT_FAILED, "%s: %s", who, cop_strerror(error));
}

/* ---- finding one ----------------------------------------------------------------- */

static int open_agent(struct follow *follow, struct roll *roll)
{
    int error = client_open(follow->agent, &follow->client);
    if (error)
        return explain(error, follow->agent);
    error = client_roll(&follow->client, 0,
                        local_patience(follow->local, ASK_TIMEOUT_NS), roll);
    return error ? explain(error, follow->agent) : 0;
}

static int open_named(struct follow *follow, struct roll *roll)
{
    struct cop_ranks slots = {0};
    char *texts[] = {(char *)(uintptr_t)follow->from};
    int code = local_select(follow->local, follow->command, texts, 1, &slots);
    if (code)
        return code;
    uint32_t count = slots.count;
    follow->slot = slots.items[0];
    cop_ranks_free(&slots);
    if (count != 1)
        return fail(EXIT_USAGE, "%s: one member is needed, not '%s'", follow->command,
                    follow->from);
    if (local_connect(follow->local, follow->slot, &follow->client) != 0)
        return fail(EXIT_NO_CLUSTER, "member %s of '%s' is dead", follow->from,
                    follow->local->dir.name);
    int error = client_roll(&follow->client, 0,
                            local_patience(follow->local, ASK_TIMEOUT_NS), roll);
    return error ? explain(error, follow->from) : 0;
}

int follow_open(struct follow *follow, struct roll *roll)
{
    follow->client = (struct client){.fd = -1};
    follow->moves = 0;
    int code = 0;
    if (follow->local == NULL)
        code = open_agent(follow, roll);
    else if (follow->from != NULL)
        code = open_named(follow, roll);
    else if (!local_find(follow->local, &follow->client, roll, &follow->slot))
        code = local_nobody(follow->local);
    if (code)
        follow_close(follow);
    return code;
}

void follow_close(struct follow *follow) { client_close(&follow->client); }

/* ---- who is silent --------------------------------------------------------------- */

char *follow_silent(const struct follow *follow)
{
    struct client client;
    int error = follow->local ? local_connect(follow->local, follow->slot, &client)
                              : client_open(follow->agent, &client);
    if (error)
        return NULL;
    char *names = survey_silent(&client, follow->local ? &follow->local->cluster : NULL,
                                PROBE_TIMEOUT_NS);
    client_close(&client);
    return names;
}

bool follow_wait(struct follow *follow, cop_time quiet_ns, const char *what)
{
    if (client_is_ready(&follow->client, quiet_ns))
        return true;
    char *silent = follow_silent(follow);
    bool is_there = client_is_ready(&follow->client, 0);
    if (silent != NULL && !is_there)
        complain("%s: %s %s", follow->command, what, silent);
    free(silent);
    return is_there;
}

/* ---- and the next ---------------------------------------------------------------- */

/* Others may have joined since: who is in the cluster is asked again. */
static int move(struct follow *follow)
{
    char name[sizeof follow->local->dir.name];
    char gone[NODESET_NAME_LENGTH + 1], next[NODESET_NAME_LENGTH + 1];
    struct roll roll;
    cluster_name(&follow->local->cluster, follow->slot, gone);
    memcpy(name, follow->local->dir.name, sizeof name);
    follow_close(follow);
    local_close(follow->local);
    int code = local_open(name, follow->local);
    if (code) {
        *follow->local = (struct local){.keeper = {.fd = -1}};
        return code;
    }
    if (!local_find(follow->local, &follow->client, &roll, &follow->slot))
        return fail(EXIT_FAILED, "no member of '%s' is left", name);
    cluster_name(&follow->local->cluster, follow->slot, next);
    if (!follow->is_quiet)
        complain("%s does not answer any more; going on with %s", gone, next);
    follow->moves++;
    roll_free(&roll);
    return 0;
}

static bool may_move(const struct follow *follow)
{
    return follow->local != NULL && follow->from == NULL;
}

bool follow_is_there(const struct follow *follow)
{
    struct roll roll;
    if (!may_move(follow))
        return true; /* there is nobody else */
    if (local_roll(follow->local, follow->slot, &roll) != 0)
        return false;
    roll_free(&roll);
    return true;
}

int follow_move(struct follow *follow)
{
    if (!may_move(follow))
        return fail(EXIT_FAILED, "the agent that was asked is gone");
    return move(follow);
}

/* Who reads our output may go while nothing happens ("| head -1"): then there is nobody to
 * wait for, and we end as if we had written. */
static bool is_read(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    if (poll(&out, 1, 0) <= 0 || (out.revents & POLLERR) == 0)
        return true;
    raise(SIGPIPE);
    return false;
}

static int ask(struct follow *follow, enum verb verb, uint64_t known,
               struct client_reply *out)
{
    struct cop_buf *body = number_encode(known);
    if (body == NULL)
        return COP_ENOMEM;
    int error = client_send(&follow->client, verb, body);
    cop_buf_unref(body);
    while (!error && !client_is_ready(&follow->client, SILENCE_NS))
        if (!is_read())
            error = COP_EABORTED;
        else if (!follow_is_there(follow))
            error = COP_ELOST;
    if (!error)
        error = client_receive(&follow->client,
                               local_patience(follow->local, ASK_TIMEOUT_NS), out);
    return error ? error : out->status;
}

int follow_next(struct follow *follow, enum verb verb, uint64_t known,
                struct client_reply *out)
{
    for (;;) {
        int error = ask(follow, verb, known, out);
        if (error == 0)
            return 0;
        if (error == COP_EABORTED)
            return fail(EXIT_FAILED, "cannot write the output: nobody reads it");
        if (error == COP_ENOMEM)
            return fail(EXIT_FAILED, "%s", cop_strerror(error));
        int code = follow_move(follow);
        if (code)
            return code;
        known = 0;
    }
}
