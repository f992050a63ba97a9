/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"

#include "agent/echo.h"
#include "agent/parts.h"
#include "agent/privileges.h"
#include "base/assert.h"
#include "exec/exec.h"
#include "net/tls/tls.h"
#include "put/put.h"
#include "talk/tokens.h"
#include "term/commands.h"
#include "term/say.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Lines in the log: so many at once, then one for each second that has passed. */
#define LOG_BURST 50u

/* ---- log ------------------------------------------------------------------------- */

/* A peer that sends garbage all day must not fill the disk. */
static bool may_log(struct agent *agent)
{
    uint64_t allowed = LOG_BURST + (now_ns() - agent->started_ns) / COP_SEC;
    if (agent->log_lines < allowed) {
        agent->log_lines++;
        return true;
    }
    agent->log_dropped++;
    return false;
}

static void write_log(void *context, enum cop_log_level level, const char *line)
{
    struct agent *agent = context;
    if (!may_log(agent))
        return;
    if (agent->log_dropped > 0)
        fprintf(stderr, "coppice[%s]: %" PRIu64 " lines left out\n", agent->name,
                agent->log_dropped);
    agent->log_dropped = 0;
    fprintf(stderr, "coppice[%s]: %s: %s\n", agent->name, cop__log_level_name(level),
            line);
}

/* ---- the end --------------------------------------------------------------------- */

static void close_node(struct agent *agent, int why)
{
    runs_end(&agent->runs, why);
    agreeings_end(&agent->agreeings, why);
    watches_end(&agent->watches, why);
    answer_all(agent, why);
    if (agent->exec != NULL)
        exec_set_node(agent->exec, NULL, COP_ID_NONE, false);
    if (agent->put != NULL)
        put_set_node(agent->put, NULL, COP_ID_NONE);
    groups_set_node(&agent->groups, NULL, COP_ID_NONE, why);
    if (agent->tcp != NULL)
        cop__tcp_close(agent->tcp, NULL);
    agent->tcp = agent->runs.tcp = NULL;
}

void agent_stop(struct agent *agent, int code)
{
    if (agent->stopping)
        return;
    agent->stopping = true;
    agent->code = code;
    close_node(agent, COP_ESTATE);
    runs_close(&agent->runs);
    watches_close(&agent->watches);
    if (agent->exec != NULL)
        exec_close(agent->exec);
    agent->exec = NULL;
    if (agent->put != NULL)
        put_close(agent->put);
    agent->put = NULL;
    if (agent->envoy != NULL)
        cop__envoy_close(agent->envoy);
    agent->envoy = NULL;
    if (agent->server != NULL)
        server_close(agent->server);
    cop__porch_close(&agent->door, NULL);
    if (agent->has_signals)
        signals_close(&agent->signals);
}

static void note_security(struct agent *agent);

int agent_rekey(struct agent *agent)
{
    struct cop__tls *tls = agent->config->tls;
    char message[400], what[64];
    if (tls == NULL)
        return 0;
    int error = cop__tls_reload(tls, message, sizeof message);
    if (error != 0) {
        cop__log(&agent->log, COP_LOG_ERROR, "keys stay as they were: %s", message);
        return error;
    }
    cop__log(&agent->log, COP_LOG_INFO, "keys read again: %s",
             cop__tls_describe(tls, what, sizeof what));
    note_security(agent);
    if (agent->tcp != NULL)
        cop__tcp_rekeyed(agent->tcp);
    return 0;
}

static void on_signal(struct signals *signals, int number)
{
    if (number == SIGHUP)
        agent_rekey(signals->data);
    else
        agent_stop(signals->data, EXIT_DONE);
}

/* ---- what the others know of it -------------------------------------------------- */

/* To whoever started this process. What does not fit into the pipe is not worth waiting. */
static void tell_parent(const struct agent *agent, bool is_waiting)
{
    const struct agent_config *config = agent->config;
    struct agent_note note = {.slot = config->slot,
                              .id = agent->id,
                              .incarnation = agent->incarnation,
                              .waiting = is_waiting};
    if (agent->roll.is_member)
        note.epoch = cop_view_epoch(agent->roll.view);
    if (config->note_fd >= 0 &&
        write(config->note_fd, &note, sizeof note) != (ssize_t)sizeof note)
        cop__log(&agent->log, COP_LOG_WARN, "nobody hears of this member: %s",
                 strerror(errno));
}

/* The last events stay. */
static void note_event(struct roll *roll, const struct roll_event *event)
{
    if (roll->event_count == ROLL_EVENTS_MAX) {
        memmove(roll->events, roll->events + 1,
                (ROLL_EVENTS_MAX - 1) * sizeof *roll->events);
        roll->event_count--;
    }
    roll->events[roll->event_count++] = *event;
    roll->event_total++;
}

static void note_view(struct agent *agent, struct cop_view *view)
{
    struct roll *roll = &agent->roll;
    struct roll_event event = {.epoch = cop_view_epoch(view), .at_ns = now_ns()};
    uint64_t at = 0;
    while (roll->view && cop_view_compare(roll->view, view, &at, &event.change)) {
        struct cop_member member;
        event.presence = event.change.kind == COP_VIEW_LEFT &&
                                 cop_view_member(view, event.change.id, &member) == 0
                             ? member.presence
                             : COP_PRESENT;
        note_event(roll, &event);
    }
    cop_view_ref(view);
    cop_view_unref(roll->view);
    roll->view = view;
    roll->installed_ns = event.at_ns;
    roll->self = agent->id;
    roll->incarnation = agent->incarnation;
    roll->is_member = cop_view_has(view, agent->id, agent->incarnation);
    roll->serial++;
    agent->diary_serial++;
}

static bool listens_by_unix(const struct agent *agent)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    return getsockname(agent->listen_fd, (struct sockaddr *)&address, &length) == 0 &&
           address.ss_family == AF_UNIX;
}

/* How those who connect are known. Where they are not, every start says so. */
static void note_security(struct agent *agent)
{
    struct roll *roll = &agent->roll;
    if (listens_by_unix(agent)) {
        snprintf(roll->security, sizeof roll->security, "unix");
    } else if (agent->config->tls != NULL) {
        cop__tls_describe(agent->config->tls, roll->security, sizeof roll->security);
    } else {
        snprintf(roll->security, sizeof roll->security, ROLL_INSECURE);
        cop__log(&agent->log, COP_LOG_WARN,
                 "insecure: nothing is encrypted, and whoever connects is believed");
    }
}

static void begin_roll(struct agent *agent)
{
    const struct cluster *cluster = agent->config->cluster;
    struct roll *roll = &agent->roll;
    note_security(agent);
    roll->n = cluster->n;
    roll->first = cluster->first;
    snprintf(roll->shape, sizeof roll->shape, "%s", cluster->shape_text);
    snprintf(roll->quorum, sizeof roll->quorum, "%s", cluster->quorum_text);
}

/* ---- what the driver wants ------------------------------------------------------- */

static int address_of(void *context, cop_id id, struct cop__address *out)
{
    const struct agent *agent = context;
    const struct cluster *cluster = agent->config->cluster;
    struct cop_member member;
    char text[COP_ADDRESS_MAX + 1];
    if (agent->tcp == NULL ||
        cop_node_member(cop__tcp_node(agent->tcp), id, &member) != 0 ||
        member.address_length == 0)
        return cluster_address(cluster, id, out);
    snprintf(text, sizeof text, "%.*s", (int)member.address_length, member.address);
    return cluster_parse_address(text, cluster->directory, out, NULL, 0) == 0
               ? 0
               : COP_ENOENT;
}

/* As people call it: that is what certificates are made for. */
static int name_of(void *context, cop_id id, char *out, size_t size)
{
    const struct agent *agent = context;
    struct cop_member member;
    char name[NODESET_NAME_LENGTH + 1];
    if (id < agent->config->cluster->n) {
        cluster_name(agent->config->cluster, id, name);
        snprintf(out, size, "%s", name);
        return 0;
    }
    if (agent->tcp == NULL ||
        cop_node_member(cop__tcp_node(agent->tcp), id, &member) != 0)
        return COP_ENOENT;
    snprintf(out, size, "%.*s", (int)member.name_length, member.name);
    return 0;
}

static void on_complete(void *context, uint64_t token, int status,
                        struct cop_buf *result)
{
    struct agent *agent = context;
    if (!agreeings_complete(&agent->agreeings, token, status, result) &&
        !answer_complete(agent, token, status, result) &&
        !exec_complete(agent->exec, token, status, result) &&
        !put_complete(agent->put, token, status, result) &&
        !groups_complete(&agent->groups, token, status, result) &&
        !watches_complete(&agent->watches, token))
        runs_complete(&agent->runs, token, status, result);
}

static void on_installed(void *context, struct cop_view *view)
{
    struct agent *agent = context;
    bool was_member = agent->roll.is_member;
    note_view(agent, view);
    agent->roll.times = cop_node_change_times(cop__tcp_node(agent->tcp));
    if (agent->roll.is_member && !was_member)
        cop__log(&agent->log, COP_LOG_INFO, "joined as %u in view %" PRIu64,
                 (unsigned)agent->id, cop_view_epoch(view));
    if (agent->roll.is_member)
        agent->was_member = true;
    if (agent->roll.is_member && !was_member)
        tell_parent(agent, false);
    exec_installed(agent->exec, view);
    watches_view(&agent->watches, view);
    answer_change(agent);
}

static void on_upcall(void *context, struct cop_buf *record)
{
    struct agent *agent = context;
    struct cop_upcall upcall;
    if (cop_upcall_read(record, &upcall) != 0)
        return;
    if (upcall.service == PUT_SERVICE)
        put_upcall(agent->put, record, NULL);
    else if (upcall.kind == COP_UPCALL_RUN && upcall.service == EXEC_SERVICE)
        exec_upcall(agent->exec, &upcall);
    else if (upcall.kind == COP_UPCALL_RUN && upcall.service == GROUPS_SERVICE)
        groups_upcall(&agent->groups, &upcall);
    else if (upcall.kind == COP_UPCALL_RUN && upcall.service == ECHO_SERVICE)
        echo_answer(agent->tcp, ++agent->runs.next_token, &upcall);
}

static void on_piece(void *context, struct cop_buf *record, struct cop_buf *beside)
{
    struct agent *agent = context;
    put_upcall(agent->put, record, beside);
}

static void on_degraded(void *context, bool is_degraded)
{
    struct agent *agent = context;
    agent->roll.is_degraded = is_degraded;
    agent->roll.serial++;
    cop__log(&agent->log, is_degraded ? COP_LOG_WARN : COP_LOG_INFO, "%s",
             is_degraded ? "degraded: too few members can be reached"
                         : "no longer degraded");
    answer_change(agent);
}

/* What the guard keeps this member, as the root, from removing. */
static void on_held(void *context)
{
    struct agent *agent = context;
    struct roll *roll = &agent->roll;
    char *names = NULL;
    roll->held_total =
        cop_node_held(cop__tcp_node(agent->tcp), roll->held, ROLL_HELD_MAX);
    roll->held_ns = now_ns();
    roll->serial++;
    if (roll->held_total > 0)
        names = roll_fold(roll, agent->config->cluster, roll->held, roll_held(roll));
    if (roll->held_total > 0)
        cop__log(&agent->log, COP_LOG_WARN, "the guard holds %u removals: %s",
                 (unsigned)roll->held_total, names ? names : "?");
    else
        cop__log(&agent->log, COP_LOG_INFO, "the guard holds no removals any more");
    free(names);
    answer_change(agent);
}

static void on_suspicion(void *context)
{
    struct agent *agent = context;
    agent->diary_serial++;
    answer_diary(agent);
}

/* Whoever is a member can make us say this. */
static void say_not_for_agents(struct agent *agent, cop_id from)
{
    uint64_t held;
    if (cop__notice_is_due(&agent->not_for_agents, now_ns(), &held))
        cop__log(&agent->log, COP_LOG_INFO,
                 "a message of member %u is not for agents (%" PRIu64
                 " more like this)",
                 (unsigned)from, held);
}

/* Members send each other nothing else; programs that have joined may send anything. */
static void on_deliver(void *context, cop_id from, cop_incarnation incarnation,
                       struct cop_buf *bytes)
{
    struct agent *agent = context;
    (void)incarnation;
    if (bytes != NULL && !agreeings_deliver(&agent->agreeings, bytes) &&
        !exec_deliver(agent->exec, from, bytes))
        say_not_for_agents(agent, from);
}

static void on_letter(void *context, int channel, cop_id from,
                      cop_incarnation incarnation, struct cop_buf *bytes)
{
    struct agent *agent = context;
    watches_letter(&agent->watches, channel, from, incarnation, bytes);
}

static void on_stream(void *context, uint64_t stream, struct cop_buf *event)
{
    struct agent *agent = context;
    watches_stream(&agent->watches, stream, event);
}

static void ask_to_join(struct agent *agent);

static int start_node(struct agent *agent, struct cop_view *view);

/*
 * Where the view is fixed nobody invites. Peers know a later life of this member than this one,
 * for its clock was set back; so it goes on as one that is later still. Once: where two
 * processes are one member they must not outdo each other for ever.
 */
static void outdo(struct agent *agent)
{
    if (agent->is_outdone) {
        agent_stop(agent,
                   fail(EXIT_REFUSED, "another process is member %s now", agent->name));
        return;
    }
    agent->is_outdone = true;
    agent->incarnation = agent->exceed + 1;
    int code = start_node(agent, agent->start);
    agent->roll.is_member = true;
    if (code)
        agent_stop(agent, code);
}

static void on_out(void *context, int why)
{
    struct agent *agent = context;
    agent->exceed = cop__tcp_outlived_by(agent->tcp);
    agent->roll.is_member = false;
    agent->roll.is_degraded = false;
    agent->roll.held_total = 0;
    agent->roll.serial++;
    /* Nobody let it in: but whoever asked for something is not to hear that we are gone. */
    close_node(agent, why == COP_EREMOVED ? why : COP_ESTATE);
    if (why == 0) {
        cop__log(&agent->log, COP_LOG_INFO, "left");
        agent_stop(agent, EXIT_DONE);
        return;
    }
    if (agent->exceed != 0)
        cop__log(&agent->log, COP_LOG_WARN,
                 "a later life of %s is known, as if the clock had been set back: "
                 "goes on as one after that",
                 agent->name);
    else
        cop__log(&agent->log, COP_LOG_WARN, "%s: joining again",
                 why == COP_EREMOVED ? "removed from the view" : "nobody to let it in");
    if (agent->config->cluster->quorum == COP_QUORUM_FIXED)
        outdo(agent);
    else
        ask_to_join(agent);
}

static void on_guest(void *context, uint64_t guest, const struct cop_buf *command)
{
    answer_guest(context, guest, command);
}

/* Nothing that this process could still say would be true; its peers heal. */
static void on_failed(void *context, int error)
{
    struct agent *agent = context;
    fprintf(stderr, "coppice[%s]: error: the node stopped: %s\n", agent->name,
            cop_strerror(error));
    _exit(EXIT_FAILED);
}

/* ---- a node ---------------------------------------------------------------------- */

/* What agents do for each other. */
static const struct cop_service services[] = {
    {EXEC_SERVICE, EXEC_VERSION, COP_WANTS(COP_UPCALL_RUN)},
    {ECHO_SERVICE, ECHO_VERSION, COP_WANTS(COP_UPCALL_RUN)},
    {PUT_SERVICE, PUT_VERSION, PUT_WANTS},
    {GROUPS_SERVICE, GROUPS_VERSION, COP_WANTS(COP_UPCALL_RUN)},
};

static int start_node(struct agent *agent, struct cop_view *view)
{
    const struct agent_config *config = agent->config;
    const struct cluster *cluster = config->cluster;
    bool joins = !cop_view_has(view, agent->id, agent->incarnation) &&
                 cluster->quorum != COP_QUORUM_FIXED;
    struct cop__tcp_config driver = {
        .loop = &agent->loop,
        .runner = &agent->runner,
        .swift_tokens = AGREE_TOKEN,
        .instance = cluster->instance,
        .self = agent->id,
        .incarnation = agent->incarnation,
        .view = view,
        .stats = &agent->stats,
        .log = &agent->log,
        .quorum = cluster->quorum,
        .quorum_ids = cluster->quorum_ids.items,
        .quorum_count = cluster->quorum_ids.count,
        .detect = cluster->detect,
        .tls = config->tls,
        .guard = cluster->guard,
        .name = joins ? config->name : NULL,
        .where = joins ? (config->where ? config->where : "") : NULL,
        .spare = config->is_spare,
        .listen_fd = cop__tcp_dup_listener(agent->listen_fd),
        .address = address_of,
        .name_of = name_of,
        .complete = on_complete,
        .installed = on_installed,
        .degraded = on_degraded,
        .deliver = on_deliver,
        .letter = on_letter,
        .stream = on_stream,
        .out = on_out,
        .held = on_held,
        .suspicion = on_suspicion,
        .services = services,
        .service_count = sizeof services / sizeof *services,
        .upcall = on_upcall,
        .piece = on_piece,
        .guest = on_guest,
        .failed = on_failed,
        .context = agent,
    };
    if (!joins && config->is_first)
        driver.detect.patience_ns = config->patience_ns;
    memcpy(driver.cluster, cluster->id, sizeof driver.cluster);
    cop__porch_rest(&agent->door);
    int error = driver.listen_fd < 0 ? COP_EIO : cop__tcp_create(&driver, &agent->tcp);
    if (error)
        return fail(EXIT_FAILED, "the member cannot start: %s", cop_strerror(error));
    agent->had_node = true;
    agent->runs.tcp = agent->tcp;
    agent->runs.self = agent->id;
    exec_set_node(agent->exec, agent->tcp, agent->id,
                  cluster->quorum != COP_QUORUM_FIXED);
    agreeings_begin(&agent->agreeings, agent->tcp, agent->id, agent->incarnation);
    watches_begin(&agent->watches, agent->tcp, agent->id, agent->incarnation);
    put_set_node(agent->put, agent->tcp, agent->id);
    groups_set_node(&agent->groups, agent->tcp, agent->id, COP_ESTATE);
    note_view(agent, view);
    return 0;
}

/* ---- joining --------------------------------------------------------------------- */

/* Whether another process lives as this member. */
static bool is_taken_over(const struct agent *agent,
                          const struct cop_invitation *invitation)
{
    return agent->was_member && invitation->exceed > agent->incarnation &&
           cop_view_has(invitation->view, invitation->id, invitation->exceed);
}

static int accept_invitation(struct agent *agent,
                             const struct cop_invitation *invitation)
{
    if (is_taken_over(agent, invitation))
        return fail(EXIT_REFUSED, "another process is member %s now", agent->name);
    agent->id = invitation->id;
    /* A life that had a node is over, whether a view ever had it or not. */
    if (agent->had_node)
        agent->incarnation++;
    cop_incarnation exceed =
        agent->exceed > invitation->exceed ? agent->exceed : invitation->exceed;
    if (agent->incarnation <= exceed)
        agent->incarnation = exceed + 1;
    return start_node(agent, invitation->view);
}

static void on_invited(void *context, int status, const struct cop_buf *body)
{
    struct agent *agent = context;
    struct cop_invitation invitation;
    bool is_degraded = false;
    agent->envoy = NULL;
    COP_ASSERT(body != NULL || status != 0);
    int error = body ? cop__invited_read(body, agent->start, &invitation, &is_degraded)
                     : status;
    if (error) {
        agent_stop(agent, fail(EXIT_REFUSED, "%s cannot join: %s", agent->name,
                               cop_strerror(error)));
        return;
    }
    int code = accept_invitation(agent, &invitation);
    cop_view_unref(invitation.view);
    if (code)
        agent_stop(agent, code);
    else if (is_degraded)
        tell_parent(agent, true);
}

/* A wrong key looks like this. It is said once: the next member says the same. */
static void on_refused(void *context, const char *why, const char *detail)
{
    struct agent *agent = context;
    if (!agent->is_unwanted)
        cop__log(&agent->log, COP_LOG_WARN, "a member was asked to be let in: %s%s%s",
                 why, *detail ? ": " : "", detail);
    agent->is_unwanted = true;
}

static void on_alone(void *context)
{
    struct agent *agent = context;
    if (!agent->is_alone)
        cop__log(&agent->log, COP_LOG_WARN,
                 "no member answers; will go on asking to be taken in");
    agent->is_alone = true;
}

/* The contact, then the members of the file, beginning after our own place. */
static int whom_to_ask(void *context, uint32_t i, struct cop__address *out)
{
    const struct agent *agent = context;
    const struct agent_config *config = agent->config;
    uint32_t n = config->cluster->n;
    cop_id self = config->id;
    if (i == 0) {
        *out = config->contact;
        return out->length > 0 ? 0 : COP_ENOENT;
    }
    cop_id id = (self == COP_ID_NONE ? i - 1 : self % n + i) % n;
    return id == self ? COP_ENOENT : cluster_address(config->cluster, id, out);
}

static struct cop_buf *make_question(const struct agent *agent)
{
    const struct cluster *cluster = agent->config->cluster;
    struct cop__invite invite = {.instance = cluster->instance,
                                 .incarnation = agent->incarnation,
                                 .is_new = agent->config->is_new && !agent->had_node};
    memcpy(invite.cluster, cluster->id, sizeof invite.cluster);
    snprintf(invite.name, sizeof invite.name, "%s", agent->view_name);
    struct cop_buf *body = cop__invite_encode(&invite);
    struct cop_buf *question =
        body ? cop__command_make(1, COP__VERB_INVITE, body) : NULL;
    cop_buf_unref(body);
    return question;
}

static void ask_to_join(struct agent *agent)
{
    struct cop__envoy_config envoy = {
        .loop = &agent->loop,
        .address = whom_to_ask,
        .count = agent->config->cluster->n + 1,
        .tls = agent->config->tls,
        .question = make_question(agent),
        .done = on_invited,
        .refused = on_refused,
        .alone = on_alone,
        .context = agent,
    };
    /* Nobody is kept waiting meanwhile: two who ask each other would, for long. */
    cop__porch_watch(&agent->door);
    int error = cop__envoy_create(&envoy, &agent->envoy);
    if (error)
        agent_stop(agent, fail(EXIT_FAILED, "%s", cop_strerror(error)));
}

/* ---- commands -------------------------------------------------------------------- */

static void on_command(void *context, struct session *session, enum verb verb,
                       struct cop__bytes body)
{
    answer_command(context, session, verb, body);
}

static void on_session_written(void *context, struct session *session)
{
    struct agent *agent = context;
    runs_written(&agent->runs, session);
    if (agent->exec != NULL)
        exec_written(agent->exec, session);
    agreeings_written(&agent->agreeings, session);
    if (agent->put != NULL)
        put_written(agent->put, session);
}

static void on_session_closed(void *context, struct session *session)
{
    struct agent *agent = context;
    answer_closed(agent, session);
    runs_closed(&agent->runs, session);
    groups_closed(&agent->groups, session);
    if (agent->exec != NULL)
        exec_closed(agent->exec, session);
    agreeings_closed(&agent->agreeings, session);
    watches_closed(&agent->watches, session);
    if (agent->put != NULL)
        put_closed(agent->put, session);
}

/* ---- the beginning --------------------------------------------------------------- */

static int start_server(struct agent *agent)
{
    if (agent->config->command_path == NULL)
        return 0;
    struct server_config server = {
        .loop = &agent->loop,
        .path = agent->config->command_path,
        .log = &agent->log,
        .command = on_command,
        .written = on_session_written,
        .closed = on_session_closed,
        .context = agent,
    };
    int error = server_create(&server, &agent->server);
    if (error)
        return fail(EXIT_FAILED, "%s: %s", server.path, uv_strerror(error));
    return 0;
}

static void name_member(void *context, cop_id id, char out[COP_NAME_MAX + 1])
{
    const struct agent *agent = context;
    roll_name(&agent->roll, agent->config->cluster, id, out);
}

/* Not by write_log, which leaves lines out when there are many. */
static void audit(void *context, char *line)
{
    const struct agent *agent = context;
    cop__log_clean(line);
    fprintf(stderr, "coppice[%s]: exec: %s\n", agent->name, line);
}

static int start_exec(struct agent *agent)
{
    char message[200];
    struct exec_config exec = {.loop = &agent->loop,
                               .log = &agent->log,
                               .allow = &agent->allow_exec,
                               .name = agent->name,
                               .name_of = name_member,
                               .audit = audit,
                               .context = agent};
    int error = exec_allow_parse(agent->config->allow_exec, &agent->allow_exec, message,
                                 sizeof message);
    if (error)
        return fail(EXIT_USAGE, "--allow-exec: %s", message);
    error = exec_create(&exec, &agent->exec);
    struct put_config put = {.loop = exec.loop,
                             .allow = exec.allow,
                             .name = exec.name,
                             .name_of = exec.name_of,
                             .audit = exec.audit,
                             .context = exec.context};
    if (!error)
        error = put_create(&put, &agent->put);
    return error ? fail(EXIT_FAILED, "%s", cop_strerror(error)) : 0;
}

static int start_signals(struct agent *agent)
{
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGTERM);
    sigaddset(&wanted, SIGINT);
    if (agent->config->tls != NULL)
        sigaddset(&wanted, SIGHUP);
    agent->signals.data = agent;
    int error = signals_start(&agent->signals, &agent->loop, &wanted, on_signal);
    if (error)
        return fail(EXIT_FAILED, "no signals: %s", uv_strerror(error));
    agent->has_signals = true;
    return 0;
}

static int start_door(struct agent *agent)
{
    int fd = cop__tcp_dup_listener(agent->config->listen_fd);
    if (fd < 0)
        return fail(EXIT_FAILED, "cannot listen: %s", strerror(errno));
    close(agent->config->listen_fd);
    agent->listen_fd = fd;
    struct cop__porch_config door = {
        .loop = &agent->loop, .fd = fd, .log = &agent->log, .name = "not a member yet"};
    int error = cop__porch_init(&agent->door, &door);
    return error ? fail(EXIT_FAILED, "cannot listen: %s", uv_strerror(error)) : 0;
}

/* Whoever is started for the first time is in the view of the file, as all others are. */
static int start_member(struct agent *agent)
{
    const struct cluster *cluster = agent->config->cluster;
    int error = cop_view_create_static(cluster->n, &cluster->shape, cluster->first,
                                       &agent->start);
    if (error)
        return fail(EXIT_FAILED, "no view of %u members in %s: %s", cluster->n,
                    cluster->shape_text, cop_strerror(error));
    begin_roll(agent);
    if (!agent->config->is_first && cluster->quorum != COP_QUORUM_FIXED) {
        ask_to_join(agent);
        return 0;
    }
    int code = start_node(agent, agent->start);
    agent->was_member = true;
    agent->roll.is_member = true;
    if (code == 0)
        tell_parent(agent, false);
    return code;
}

/* All sockets are bound, also to low ports and in others' directories. */
static int drop_privileges(struct agent *agent)
{
    int dropped = privileges_drop();
    if (dropped < 0)
        return fail(EXIT_FAILED, "cannot give up what root may do: %s",
                    strerror(-dropped));
    if (dropped && agent->config->note_fd < 0)
        cop__log(&agent->log, COP_LOG_INFO,
                 "runs with the capabilities of root no longer");
    return 0;
}

static int start(struct agent *agent)
{
    int code = start_signals(agent);
    if (code == 0)
        code = start_exec(agent);
    if (code == 0)
        code = start_door(agent);
    if (code == 0)
        code = start_server(agent);
    if (code == 0)
        code = drop_privileges(agent);
    if (code == 0)
        code = start_member(agent);
    return code;
}

static void set_title(const struct agent *agent)
{
    char title[16];
    snprintf(title, sizeof title, "coppice:%.7s", agent->name);
    /* Only what `ps` shows of us; a failure would change nothing. */
    (void)prctl(PR_SET_NAME, title);
}

static void set_names(struct agent *agent)
{
    const struct agent_config *config = agent->config;
    if (config->id == COP_ID_NONE) {
        snprintf(agent->name, sizeof agent->name, "%s", config->name);
        snprintf(agent->view_name, sizeof agent->view_name, "%s", config->name);
        return;
    }
    cluster_name(config->cluster, config->id, agent->name);
    snprintf(agent->view_name, sizeof agent->view_name, "n%u", (unsigned)config->id);
}

static int run(struct agent *agent)
{
    int error = uv_loop_init(&agent->loop);
    if (error)
        return fail(EXIT_FAILED, "no event loop: %s", uv_strerror(error));
    cop__runner_init(&agent->runner, &agent->loop);
    runs_init(&agent->runs, &agent->loop, agent->id);
    agreeings_init(&agent->agreeings, &agent->loop, &agent->log);
    watches_init(&agent->watches, &agent->loop, &agent->log,
                 agent->config->cluster->instance);
    int code = start(agent);
    if (code != 0)
        agent_stop(agent, code);
    cop__runner_run(&agent->runner);
    error = uv_loop_close(&agent->loop);
    cop__runner_fini(&agent->runner);
    if (error && agent->code == 0)
        return fail(EXIT_FAILED, "handles are left open: %s", uv_strerror(error));
    return agent->code;
}

int agent_run(const struct agent_config *config)
{
    struct agent *agent = calloc(1, sizeof *agent);
    if (agent == NULL)
        return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    /* A peer that goes away while we write is news for the driver, not our end. */
    signal(SIGPIPE, SIG_IGN);
    agent->config = config;
    agent->id = config->id;
    agent->incarnation = config->incarnation;
    agent->listen_fd = -1;
    agent->started_ns = now_ns();
    agent->log = (struct cop_log){write_log, agent, COP_LOG_INFO};
    set_names(agent);
    set_title(agent);
    int code = run(agent);
    if (agent->listen_fd >= 0)
        close(agent->listen_fd);
    if (config->socket != NULL)
        unlink(config->socket);
    /* Only what this one made: the path may have been somebody else's. */
    if (agent->server != NULL)
        unlink(config->command_path);
    cop_view_unref(agent->roll.view);
    cop_view_unref(agent->start);
    exec_allow_free(&agent->allow_exec);
    groups_close(&agent->groups);
    free(agent);
    return code;
}
