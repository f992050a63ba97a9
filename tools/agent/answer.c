/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent answers: at once, or when its node has. */
#include "agent/parts.h"
#include "agree/agree.h"
#include "talk/tokens.h"
#include "term/commands.h"
#include "term/say.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Tokens of asks are not those of probes (runs.h). */

/* ---- replies --------------------------------------------------------------------- */

static void reply(struct agent *agent, const struct caller *caller, int status,
                  const struct cop_buf *body)
{
    if (caller->session != NULL) {
        session_reply(caller->session, status, false, body);
        return;
    }
    if (caller->guest == 0 || agent->tcp == NULL)
        return;
    struct cop_buf *packed = cop__reply_make(caller->token, status, false, body);
    if (packed != NULL)
        cop__tcp_answer(agent->tcp, caller->guest, packed);
    cop_buf_unref(packed);
}

/* The body, or that there was no memory for it. */
static void reply_body(struct agent *agent, const struct caller *caller,
                       struct cop_buf *body)
{
    reply(agent, caller, body ? 0 : COP_ENOMEM, body);
    cop_buf_unref(body);
}

/* ---- what is answered later ------------------------------------------------------ */

static struct ask *add_ask(struct agent *agent, const struct caller *caller,
                           enum verb verb, uint64_t token)
{
    struct ask *ask = malloc(sizeof *ask);
    if (ask == NULL)
        return NULL;
    *ask = (struct ask){agent->asks, *caller, verb, token};
    agent->asks = ask;
    return ask;
}

static struct caller take_ask(struct ask **link)
{
    struct ask *ask = *link;
    struct caller caller = ask->caller;
    *link = ask->next;
    free(ask);
    return caller;
}

/* A request for the node, on behalf of somebody. */
static void submit(struct agent *agent, const struct caller *caller, enum verb verb,
                   struct cop_request *request)
{
    request->token = ASK_TOKEN | ++agent->next_ask;
    struct ask *ask = add_ask(agent, caller, verb, request->token);
    int error = ask ? cop__tcp_submit(agent->tcp, request) : COP_ENOMEM;
    if (error == 0)
        return;
    if (ask != NULL)
        take_ask(&agent->asks);
    reply(agent, caller, error, NULL);
}

static struct cop_buf *make_invited(const struct agent *agent,
                                    const struct cop_buf *result)
{
    bool degraded = agent->roll.is_degraded || agent->roll.held_total > 0;
    struct cop__invited invited = {.degraded = degraded,
                                   .invitation = {result->data, result->length}};
    return cop__invited_encode(&invited);
}

bool answer_complete(struct agent *agent, uint64_t token, int status,
                     const struct cop_buf *result)
{
    struct ask **link = &agent->asks;
    if (!(token & ASK_TOKEN))
        return false;
    while (*link != NULL && (*link)->token != token)
        link = &(*link)->next;
    if (*link == NULL)
        return true;
    struct caller caller = take_ask(link);
    struct cop_buf *body = result ? make_invited(agent, result) : NULL;
    reply(agent, &caller, result && !body ? COP_ENOMEM : status, body);
    cop_buf_unref(body);
    return true;
}

/* Ends all asks of a kind (with any token: 0), or all of them (verb 0). */
static void end_asks(struct agent *agent, enum verb verb, int status,
                     const struct cop_buf *body)
{
    for (struct ask **link = &agent->asks; *link != NULL;) {
        if (verb != 0 && (*link)->verb != verb) {
            link = &(*link)->next;
            continue;
        }
        struct caller caller = take_ask(link);
        reply(agent, &caller, status, body);
    }
}

static bool has_ask(const struct agent *agent, enum verb verb)
{
    const struct ask *ask = agent->asks;
    while (ask != NULL && ask->verb != verb)
        ask = ask->next;
    return ask != NULL;
}

void answer_change(struct agent *agent)
{
    struct cop_buf *body = agent->roll.view ? roll_encode(&agent->roll) : NULL;
    end_asks(agent, VERB_VIEW, body ? 0 : COP_ESTATE, body);
    cop_buf_unref(body);
    agent->diary_serial++;
    answer_diary(agent);
}

static struct cop_buf *make_diary(const struct agent *agent)
{
    struct diary *diary = malloc(sizeof *diary);
    if (diary == NULL)
        return NULL;
    diary->serial = agent->diary_serial;
    diary->roll = agent->roll;
    diary->count = cop_node_events(cop__tcp_node(agent->tcp), 0, diary->suspicions,
                                   COP_SUSPICIONS_MAX);
    struct cop_buf *body = diary_encode(diary);
    free(diary);
    return body;
}

void answer_diary(struct agent *agent)
{
    if (agent->tcp == NULL || agent->roll.view == NULL || !has_ask(agent, VERB_EVENTS))
        return;
    struct cop_buf *body = make_diary(agent);
    end_asks(agent, VERB_EVENTS, body ? 0 : COP_ENOMEM, body);
    cop_buf_unref(body);
}

void answer_closed(struct agent *agent, const struct session *session)
{
    for (struct ask **link = &agent->asks; *link != NULL;) {
        if ((*link)->caller.session == session)
            take_ask(link);
        else
            link = &(*link)->next;
    }
}

void answer_all(struct agent *agent, int status)
{
    end_asks(agent, (enum verb)0, status, NULL);
}

/* ---- commands -------------------------------------------------------------------- */

static void print_counter(void *context, const char *name, uint64_t value)
{
    fprintf(context, "%s %" PRIu64 "\n", name, value);
}

static void print_driver(FILE *out, const struct cop__tcp_stats *stats)
{
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"connections", stats->connections},
        {"connects", stats->connects},
        {"accepts", stats->accepts},
        {"handshakes", stats->handshakes},
        {"handshakes_awaited", stats->handshakes_awaited},
        {"refused_version", stats->refused_version},
        {"refused_cluster", stats->refused_cluster},
        {"refused_identity", stats->refused_identity},
        {"refused_garbage", stats->refused_garbage},
        {"refused_unproven", stats->refused_unproven},
        {"refused_rate", stats->refused_rate},
        {"timed_out", stats->timed_out},
        {"resent_frames", stats->resent_frames},
        {"acks_sent", stats->acks_sent},
        {"writes", stats->writes},
        {"reads", stats->reads},
        {"backlog_bytes", stats->backlog_bytes},
        {"payloads_read", stats->payloads_read},
        {"payloads_unseen", stats->payloads_unseen},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].value > 0)
            print_counter(out, rows[i].name, rows[i].value);
}

/* Lines "name value". */
static struct cop_buf *make_status(struct agent *agent)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL)
        return NULL;
    const struct cop_node *node = cop__tcp_node(agent->tcp);
    const struct cop_view *view = cop_node_view(node);
    print_counter(out, "id", agent->id);
    print_counter(out, "incarnation", agent->incarnation);
    print_counter(out, "members", cop_view_size(view));
    print_counter(out, "epoch", cop_view_epoch(view));
    print_counter(out, "pid", (uint64_t)getpid());
    print_counter(out, "up_ns", now_ns() - agent->started_ns);
    print_counter(out, "node_bytes", cop_node_bytes(node));
    print_counter(out, "sweeps", cop_node_sweeps(node));
    print_counter(out, "agree_groups", cop__agree_groups(node));
    cop_stats_each(&agent->stats, print_counter, out);
    print_driver(out, cop__tcp_stats(agent->tcp));
    struct cop_buf *body = NULL;
    if (fclose(out) == 0)
        body = cop_buf_copy(text, size);
    free(text);
    return body;
}

static void on_view(struct agent *agent, const struct caller *caller,
                    struct cop__bytes body)
{
    uint64_t known;
    if (number_decode(body, &known) != 0)
        reply(agent, caller, COP_EMALFORMED, NULL);
    else if (known != agent->roll.serial)
        reply_body(agent, caller, roll_encode(&agent->roll));
    else if (add_ask(agent, caller, VERB_VIEW, 0) == NULL)
        reply(agent, caller, COP_ENOMEM, NULL);
}

static void on_events(struct agent *agent, const struct caller *caller,
                      struct cop__bytes body)
{
    uint64_t known;
    if (number_decode(body, &known) != 0)
        reply(agent, caller, COP_EMALFORMED, NULL);
    else if (known != agent->diary_serial)
        reply_body(agent, caller, make_diary(agent));
    else if (add_ask(agent, caller, VERB_EVENTS, 0) == NULL)
        reply(agent, caller, COP_ENOMEM, NULL);
}

static void on_describe(struct agent *agent, const struct caller *caller)
{
    size_t length;
    char *text = cluster_describe(agent->config->cluster, &length);
    if (text != NULL && length > COP__FRAME_MAX - 64)
        reply(agent, caller, COP_ETOOBIG, NULL);
    else
        reply_body(agent, caller, text ? cop_buf_copy(text, length) : NULL);
    free(text);
}

/* A member of the file has another name in the view: that of its id. */
static void find_view_name(const struct agent *agent, char name[64])
{
    const struct cluster *cluster = agent->config->cluster;
    char *texts[] = {name};
    struct cop_ranks found = {0};
    if (strspn(name, "0123456789") != strlen(name) &&
        cluster_select(cluster, texts, 1, &found, NULL, 0) == 0 && found.count == 1)
        snprintf(name, 64, "n%u", (unsigned)found.items[0]);
    cop_ranks_free(&found);
}

static bool is_name(const char *text)
{
    struct nodeset one = {0};
    bool is = nodeset_add(&one, text) == 0;
    nodeset_free(&one);
    return is;
}

static bool is_present(const struct agent *agent, const char *name)
{
    const struct cop_view *view = agent->roll.view;
    return cop_view_rank(view, cop_view_find(view, name, strlen(name))) !=
           COP_RANK_NONE;
}

/* Whether it asks for itself; commands of this machine may ask for anybody. */
static bool is_own_name(const struct agent *agent, const struct caller *caller,
                        const char *view_name)
{
    const struct cluster *cluster = agent->config->cluster;
    char name[NODESET_NAME_LENGTH + 1];
    uint64_t id;
    if (caller->session != NULL)
        return true;
    if (view_name[0] != 'n' || parse_number(view_name + 1, 0, cluster->n - 1, &id) != 0)
        return cop__tcp_guest_is(agent->tcp, caller->guest, view_name);
    cluster_name(cluster, (cop_id)id, name);
    return cop__tcp_guest_is(agent->tcp, caller->guest, name);
}

/* Whoever has any certificate can make us say this. */
static void say_uninvited(struct agent *agent, const char *name)
{
    uint64_t held;
    if (cop__notice_is_due(&agent->uninvited, now_ns(), &held))
        cop__log(&agent->log, COP_LOG_WARN,
                 "refused to invite %s: whoever asked has another's certificate "
                 "(%" PRIu64 " more like this)",
                 name, held);
}

static void on_invite(struct agent *agent, const struct caller *caller,
                      struct cop__bytes body)
{
    const struct cluster *cluster = agent->config->cluster;
    struct cop__invite command;
    struct cop_request request = {.kind = COP_REQUEST_INVITE};
    if (cop__invite_decode(body, &command) != 0 || !is_name(command.name)) {
        reply(agent, caller, COP_EMALFORMED, NULL);
    } else if (memcmp(command.cluster, cluster->id, sizeof cluster->id) != 0 ||
               command.instance != cluster->instance) {
        reply(agent, caller, COP_EREFUSED, NULL);
    } else if (find_view_name(agent, command.name),
               command.is_new && is_present(agent, command.name)) {
        reply(agent, caller, COP_EEXIST, NULL);
    } else if (!is_own_name(agent, caller, command.name)) {
        say_uninvited(agent, command.name);
        reply(agent, caller, COP_EINVAL, NULL);
    } else {
        request.name = command.name;
        request.incarnation = command.incarnation;
        submit(agent, caller, VERB_INVITE, &request);
    }
}

static void on_leave(struct agent *agent, const struct caller *caller)
{
    struct cop_request request = {.kind = COP_REQUEST_LEAVE};
    if (agent->roll.is_degraded)
        reply(agent, caller, COP_EDEGRADED, NULL);
    else
        submit(agent, caller, VERB_LEAVE, &request);
}

static void on_report(struct agent *agent, const struct caller *caller,
                      struct cop__bytes body)
{
    struct report_command command;
    struct cop_request request = {.kind = COP_REQUEST_REPORT};
    char name[COP_NAME_MAX + 1];
    if (report_command_decode(body, &command) != 0) {
        reply(agent, caller, COP_EMALFORMED, NULL);
        return;
    }
    request.member = command.member;
    roll_name(&agent->roll, agent->config->cluster, command.member, name);
    cop__log(&agent->log, COP_LOG_INFO, "%s is reported dead: %s", name, command.why);
    submit(agent, caller, VERB_REPORT, &request);
}

static void on_inquire(struct agent *agent, const struct caller *caller,
                       struct cop__bytes body)
{
    struct inquire_command command;
    struct cop_request request = {.kind = COP_REQUEST_INQUIRE};
    if (inquire_command_decode(body, &command) != 0) {
        reply(agent, caller, COP_EMALFORMED, NULL);
        return;
    }
    request.member = command.member;
    request.timeout_ns = command.timeout_ns;
    submit(agent, caller, VERB_INQUIRE, &request);
}

static void on_drain(struct agent *agent, const struct caller *caller,
                     struct cop__bytes body)
{
    struct cop_request request = {.kind = COP_REQUEST_DRAIN};
    struct cop_ranks ids = {0};
    uint32_t undo;
    int error = ids_decode(body, &undo, &ids);
    if (error == 0 && (ids.count != 1 || undo > 1))
        error = COP_EMALFORMED;
    if (error) {
        reply(agent, caller, error, NULL);
    } else {
        request.member = ids.items[0];
        request.undo = undo != 0;
        submit(agent, caller, VERB_DRAIN, &request);
    }
    cop_ranks_free(&ids);
}

static void on_go_on(struct agent *agent, const struct caller *caller,
                     struct cop__bytes body)
{
    struct cop_request request = {.kind = COP_REQUEST_GO_ON};
    if (number_decode(body, &request.target) != 0 || request.target == 0) {
        reply(agent, caller, COP_EMALFORMED, NULL);
        return;
    }
    cop__log(&agent->log, COP_LOG_WARN,
             "told to go on from view %" PRIu64 " without a quorum", request.target);
    submit(agent, caller, VERB_GO_ON, &request);
}

/* What is done with the others, and so by a member only. */
static bool needs_members(enum verb verb)
{
    return verb == VERB_PROBE || verb == VERB_BCAST || verb == VERB_AGREE ||
           verb == VERB_WATCH || verb == VERB_EXEC || verb == VERB_PUT ||
           verb == VERB_GROUPS || verb == VERB_GROUP_SET;
}

/* Commands that need a node. */
static void answer(struct agent *agent, const struct caller *caller, enum verb verb,
                   struct cop__bytes body)
{
    if (agent->tcp == NULL || agent->roll.view == NULL ||
        (needs_members(verb) && !agent->roll.is_member)) {
        reply(agent, caller, COP_ESTATE, NULL);
        return;
    }
    switch (verb) {
    case VERB_STATUS:
        reply_body(agent, caller, make_status(agent));
        return;
    case VERB_VIEW:
        on_view(agent, caller, body);
        return;
    case VERB_INVITE:
        on_invite(agent, caller, body);
        return;
    case VERB_LEAVE:
        on_leave(agent, caller);
        return;
    case VERB_REPORT:
        on_report(agent, caller, body);
        return;
    case VERB_DRAIN:
        on_drain(agent, caller, body);
        return;
    case VERB_GO_ON:
        on_go_on(agent, caller, body);
        return;
    case VERB_EVENTS:
        on_events(agent, caller, body);
        return;
    case VERB_INQUIRE:
        on_inquire(agent, caller, body);
        return;
    case VERB_GROUPS:
        groups_list(&agent->groups, caller->session);
        return;
    case VERB_GROUP_SET:
        groups_set(&agent->groups, caller->session, body);
        return;
    case VERB_EXEC:
        exec_start(agent->exec, caller->session, body);
        return;
    case VERB_CANCEL:
        exec_cancel(agent->exec, caller->session, body);
        return;
    case VERB_BCAST:
        runs_start_bcast(&agent->runs, caller->session, body);
        return;
    case VERB_AGREE:
        agreeings_order(&agent->agreeings, caller->session, body);
        return;
    case VERB_WATCH:
        watches_order(&agent->watches, caller->session, body);
        return;
    case VERB_PUT:
        put_start(agent->put, caller->session, body);
        return;
    case VERB_PROBE:
        runs_start(&agent->runs, caller->session, body);
        return;
    default:
        reply(agent, caller, COP_EKIND, NULL);
        return;
    }
}

void answer_command(struct agent *agent, struct session *session, enum verb verb,
                    struct cop__bytes body)
{
    struct caller caller = {.session = session};
    if (verb == VERB_DESCRIBE)
        on_describe(agent, &caller);
    else if (verb == VERB_REKEY)
        reply(agent, &caller, agent_rekey(agent), NULL);
    else
        answer(agent, &caller, verb, body);
}

/* Somebody who is not a member may ask what it needs to become one, and nothing else. */
void answer_guest(struct agent *agent, uint64_t guest, const struct cop_buf *payload)
{
    struct cop__msg_command command;
    if (payload == NULL ||
        cop__decode_command(payload->data, payload->length, &command) != 0)
        return;
    struct caller caller = {.guest = guest, .token = command.token};
    if (command.verb == VERB_DESCRIBE)
        on_describe(agent, &caller);
    else if (command.verb == VERB_INVITE)
        answer(agent, &caller, VERB_INVITE, command.body);
    else
        reply(agent, &caller, COP_EREFUSED, NULL);
}
