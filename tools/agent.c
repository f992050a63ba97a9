/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"

#include "commands.h"
#include "net/tcp/runner.h"
#include "runs.h"
#include "say.h"
#include "serve.h"
#include "signals.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Lines in the log: so many at once, then one for each second that has passed. */
#define LOG_BURST 50u

struct agent {
    const struct agent_config *config;
    char name[NODESET_NAME_LENGTH + 1];
    uv_loop_t loop;
    struct cop__runner runner;
    struct signals signals;
    bool has_signals;
    struct cop__tcp *tcp;
    struct server *server;
    struct runs runs;
    struct cop_stats stats;
    struct cop_log log;
    cop_time started_ns;
    uint64_t log_lines, log_dropped;
    bool stopping;
    int code;
};

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

/* ---- what the driver wants ------------------------------------------------------- */

static int address_of(void *context, cop_id id, struct cop__address *out)
{
    const struct agent *agent = context;
    return cluster_address(agent->config->cluster, id, out);
}

static void on_complete(void *context, uint64_t token, int status,
                        struct cop_buf *result)
{
    struct agent *agent = context;
    runs_complete(&agent->runs, token, status, result);
}

/* Nothing that this process could still say would be true; its peers heal. */
static void on_failed(void *context, int error)
{
    struct agent *agent = context;
    fprintf(stderr, "coppice[%s]: error: the node stopped: %s\n", agent->name,
            cop_strerror(error));
    _exit(EXIT_FAILED);
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
        {"refused_version", stats->refused_version},
        {"refused_cluster", stats->refused_cluster},
        {"refused_identity", stats->refused_identity},
        {"refused_garbage", stats->refused_garbage},
        {"timed_out", stats->timed_out},
        {"resent_frames", stats->resent_frames},
        {"acks_sent", stats->acks_sent},
        {"writes", stats->writes},
        {"reads", stats->reads},
        {"backlog_bytes", stats->backlog_bytes},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].value > 0)
            print_counter(out, rows[i].name, rows[i].value);
}

/* Lines "name value". */
static struct cop_buf *describe(struct agent *agent)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL)
        return NULL;
    const struct cop_node *node = cop__tcp_node(agent->tcp);
    print_counter(out, "id", agent->config->id);
    print_counter(out, "incarnation", agent->config->incarnation);
    print_counter(out, "members", agent->config->cluster->n);
    print_counter(out, "pid", (uint64_t)getpid());
    print_counter(out, "up_ns", now_ns() - agent->started_ns);
    print_counter(out, "node_bytes", cop_node_bytes(node));
    print_counter(out, "sweeps", cop_node_sweeps(node));
    cop_stats_each(&agent->stats, print_counter, out);
    print_driver(out, cop__tcp_stats(agent->tcp));
    struct cop_buf *body = NULL;
    if (fclose(out) == 0)
        body = cop_buf_copy(text, size);
    free(text);
    return body;
}

static void on_command(void *context, struct session *session, enum verb verb,
                       struct cop__bytes body)
{
    struct agent *agent = context;
    struct cop_buf *text;
    switch (verb) {
    case VERB_STATUS:
        text = describe(agent);
        session_reply(session, text ? 0 : COP_ENOMEM, false, text);
        cop_buf_unref(text);
        return;
    case VERB_PROBE:
        runs_start(&agent->runs, session, body);
        return;
    default:
        session_reply(session, COP_EKIND, false, NULL);
        return;
    }
}

static void on_session_written(void *context, struct session *session)
{
    struct agent *agent = context;
    runs_written(&agent->runs, session);
}

static void on_session_closed(void *context, struct session *session)
{
    struct agent *agent = context;
    runs_closed(&agent->runs, session);
}

/* ---- begin and end --------------------------------------------------------------- */

static void stop(struct agent *agent)
{
    if (agent->stopping)
        return;
    agent->stopping = true;
    runs_close(&agent->runs);
    if (agent->server)
        server_close(agent->server);
    if (agent->tcp)
        cop__tcp_close(agent->tcp, NULL);
    if (agent->has_signals)
        signals_close(&agent->signals);
}

static void on_signal(struct signals *signals, int number)
{
    (void)number;
    stop(signals->data);
}

static int start_driver(struct agent *agent)
{
    const struct agent_config *config = agent->config;
    const struct cluster *cluster = config->cluster;
    struct cop__tcp_config driver = {
        .loop = &agent->loop,
        .runner = &agent->runner,
        .instance = cluster->instance,
        .self = config->id,
        .incarnation = config->incarnation,
        .stats = &agent->stats,
        .log = &agent->log,
        .listen_fd = config->listen_fd,
        .address = address_of,
        .complete = on_complete,
        .failed = on_failed,
        .context = agent,
    };
    memcpy(driver.cluster, cluster->id, sizeof driver.cluster);
    int error = cop_view_create_static(cluster->n, &cluster->shape, cluster->first,
                                       &driver.view);
    if (error)
        return fail(EXIT_FAILED, "no view of %u members in %s: %s", cluster->n,
                    cluster->shape_text, cop_strerror(error));
    error = cop__tcp_create(&driver, &agent->tcp);
    cop_view_unref(driver.view);
    if (error)
        return fail(EXIT_FAILED, "the member cannot start: %s", cop_strerror(error));
    agent->runs.tcp = agent->tcp;
    return 0;
}

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

static int start_signals(struct agent *agent)
{
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGTERM);
    sigaddset(&wanted, SIGINT);
    agent->signals.data = agent;
    int error = signals_start(&agent->signals, &agent->loop, &wanted, on_signal);
    if (error)
        return fail(EXIT_FAILED, "no signals: %s", uv_strerror(error));
    agent->has_signals = true;
    return 0;
}

static int tell_ready(const struct agent *agent)
{
    uint32_t id = agent->config->id;
    int fd = agent->config->ready_fd;
    if (fd < 0)
        return 0;
    ssize_t written = write(fd, &id, sizeof id);
    int error = errno;
    close(fd);
    if (written != (ssize_t)sizeof id)
        return fail(EXIT_FAILED, "nobody waits for this member: %s", strerror(error));
    return 0;
}

static int start(struct agent *agent)
{
    int code = start_signals(agent);
    if (code == 0)
        code = start_driver(agent);
    if (code == 0)
        code = start_server(agent);
    if (code == 0)
        code = tell_ready(agent);
    return code;
}

static void set_title(const struct agent *agent)
{
    char title[16];
    snprintf(title, sizeof title, "coppice:%.7s", agent->name);
    /* Only what `ps` shows of us; a failure would change nothing. */
    (void)prctl(PR_SET_NAME, title);
}

int agent_run(const struct agent_config *config)
{
    struct agent *agent = calloc(1, sizeof *agent);
    if (agent == NULL)
        return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    /* A peer that goes away while we write is news for the driver, not our end. */
    signal(SIGPIPE, SIG_IGN);
    agent->config = config;
    agent->started_ns = now_ns();
    agent->log = (struct cop_log){write_log, agent, COP_LOG_INFO};
    cluster_name(config->cluster, config->id, agent->name);
    set_title(agent);
    int error = uv_loop_init(&agent->loop);
    if (error) {
        free(agent);
        return fail(EXIT_FAILED, "no event loop: %s", uv_strerror(error));
    }
    cop__runner_init(&agent->runner, &agent->loop);
    runs_init(&agent->runs, &agent->loop, config->id, config->cluster->n);
    int code = start(agent);
    if (code != 0)
        stop(agent);
    cop__runner_run(&agent->runner);
    cop__runner_fini(&agent->runner);
    error = uv_loop_close(&agent->loop);
    if (error && code == 0)
        code = fail(EXIT_FAILED, "handles are left open: %s", uv_strerror(error));
    free(agent);
    return code;
}
