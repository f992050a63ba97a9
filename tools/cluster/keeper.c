/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/keeper.h"

#include "agent/agent.h"
#include "agent/signals.h"
#include "base/assert.h"
#include "cluster/crew.h"
#include "exec/allow.h"
#include "net/tls/keys.h"
#include "net/tls/tls.h"
#include "talk/serve.h"
#include "term/commands.h"
#include "term/say.h"

#include <coppice/error.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define START_TIMEOUT_MS 60000u
#define RESTART_TIMEOUT_MS 20000u
#define STOP_TIMEOUT_MS 10000u

enum phase { STARTING, RUNNING, STOPPING, STOPPED };

struct keeper {
    const struct keeper_config *config;
    pid_t janitor;
    int status_fd;     /* -1 once `up` wants the cluster */
    uv_poll_t starter; /* its answer, or its end */
    bool is_watching;
    struct crew crew;
    struct server *server;
    uv_loop_t loop;
    struct signals signals;
    uv_timer_t timer; /* of the phase */
    uv_pipe_t ready;
    uint8_t partial[sizeof(struct agent_note)]; /* of a note that came in pieces */
    uint32_t partial_used;
    enum phase phase;
    uint32_t ready_count;
    uint32_t pending;        /* members that a restart waits for */
    struct session *restart; /* who asked for it */
    bool restarting;
    struct cop_ranks failed;  /* members that did not come back */
    struct cop_ranks waiting; /* members that run, and are not in the view */
    struct session *down;     /* who asked for the end */
    struct down_reply ended;  /* what to answer */
    int code;
};

static void begin_stop(struct keeper *keeper);

/* ---- telling `up` ---------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void tell(struct keeper *keeper,
                                                       const char *format, ...)
{
    char line[600];
    va_list arguments;
    if (keeper->status_fd < 0 || keeper->phase >= STOPPING)
        return;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    size_t size = (size_t)length < sizeof line - 1 ? (size_t)length : sizeof line - 2;
    line[size++] = '\n';
    /* Nobody there any more: `up` was interrupted, so the cluster is not wanted. */
    if (send(keeper->status_fd, line, size, MSG_NOSIGNAL) != (ssize_t)size)
        begin_stop(keeper);
}

/* How far it is: if `up` is slow to read, the next line says it as well. */
static void tell_count(struct keeper *keeper)
{
    char line[32];
    if (keeper->status_fd < 0 || keeper->phase >= STOPPING)
        return;
    int size = snprintf(line, sizeof line, "up %u\n", keeper->ready_count);
    if (send(keeper->status_fd, line, (size_t)size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
        errno != EAGAIN)
        begin_stop(keeper);
}

static void leave_starter(struct keeper *keeper)
{
    if (keeper->is_watching)
        uv_close((uv_handle_t *)&keeper->starter, NULL);
    keeper->is_watching = false;
    if (keeper->status_fd >= 0)
        close(keeper->status_fd);
    keeper->status_fd = -1;
}

/* `up` wants the cluster; or it is gone before it has said so, and nobody does. */
static void on_starter(uv_poll_t *poll, int status, int events)
{
    struct keeper *keeper = poll->data;
    char answer[sizeof KEEPER_WANTED];
    (void)events;
    ssize_t got =
        status < 0 ? 0 : recv(keeper->status_fd, answer, sizeof answer, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return;
    leave_starter(keeper);
    if (got <= 0)
        begin_stop(keeper);
}

/* The start has failed: nothing of it may stay. */
__attribute__((format(printf, 2, 3))) static void give_up(struct keeper *keeper,
                                                          const char *format, ...)
{
    char text[500];
    va_list arguments;
    if (keeper->phase != STARTING)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    keeper->code = EXIT_FAILED;
    tell(keeper, "error %s", text);
    begin_stop(keeper);
}

/*
 * The last line of the log, for a message about a member that did not do as it was
 * told.
 */
static void last_log_line(const struct keeper *keeper, char *out, size_t size)
{
    char path[DIR_PATH_SIZE + 8];
    snprintf(path, sizeof path, "%s/log", keeper->config->dir->path);
    out[0] = '\0';
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    char line[300];
    while (fgets(line, sizeof line, file))
        snprintf(out, size, ": %.*s", (int)strcspn(line, "\n"), line);
    fclose(file);
}

/* ---- the end --------------------------------------------------------------------- */

static void finish(struct keeper *keeper)
{
    server_close(keeper->server);
    leave_starter(keeper);
    signals_close(&keeper->signals);
    uv_close((uv_handle_t *)&keeper->timer, NULL);
    uv_close((uv_handle_t *)&keeper->ready, NULL);
}

/*
 * Everybody is dead. The files go before the answer: whoever gets it finds nothing
 * left.
 */
static void end_stop(struct keeper *keeper)
{
    keeper->phase = STOPPED;
    if (keeper->ended.unclean.count > 0) {
        size_t used = strlen(keeper->ended.why);
        last_log_line(keeper, keeper->ended.why + used,
                      sizeof keeper->ended.why - used);
    }
    dir_remove(keeper->config->dir);
    if (keeper->down == NULL) {
        finish(keeper);
        return;
    }
    struct cop_buf *body = down_reply_encode(&keeper->ended);
    session_reply(keeper->down, body ? 0 : COP_ENOMEM, false, body);
    cop_buf_unref(body);
}

static void on_stop_timeout(uv_timer_t *timer)
{
    struct keeper *keeper = timer->data;
    for (cop_id id = 0; id < keeper->crew.n; id++)
        crew_signal(&keeper->crew, id, SIGKILL);
}

/* Asks all to end, also those that are stopped; whoever has not in time is killed. */
static void begin_stop(struct keeper *keeper)
{
    if (keeper->phase >= STOPPING)
        return;
    keeper->phase = STOPPING;
    uv_timer_start(&keeper->timer, on_stop_timeout, STOP_TIMEOUT_MS, 0);
    for (cop_id id = 0; id < keeper->crew.n; id++) {
        keeper->crew.members[id].again = false;
        /* In this order: a member that has begun to end is not to be disturbed. */
        crew_signal(&keeper->crew, id, SIGCONT);
        crew_signal(&keeper->crew, id, SIGTERM);
    }
    if (keeper->crew.alive == 0)
        end_stop(keeper);
}

/* ---- restarts -------------------------------------------------------------------- */

static void end_restart(struct keeper *keeper)
{
    keeper->restarting = false;
    if (keeper->phase == RUNNING)
        uv_timer_stop(&keeper->timer);
    if (keeper->restart != NULL) {
        struct restart_reply reply = {keeper->failed, keeper->waiting};
        struct cop_buf *body = restart_reply_encode(&reply);
        session_reply(keeper->restart, body ? 0 : COP_ENOMEM, false, body);
        cop_buf_unref(body);
    }
    keeper->restart = NULL;
    keeper->failed.count = keeper->waiting.count = 0;
}

/* One of them has come up (into no list), or has not. */
static void restart_settled(struct keeper *keeper, cop_id id, struct cop_ranks *into)
{
    if (!keeper->crew.members[id].is_awaited)
        return;
    keeper->crew.members[id].is_awaited = false;
    if (into != NULL && cop_ranks_push(into, id) != 0)
        complain("out of memory: the restart of n%u failed", id);
    if (--keeper->pending == 0)
        end_restart(keeper);
}

/* Who is not in the view by now goes on asking; but nobody waits for it any longer. */
static void on_restart_timeout(uv_timer_t *timer)
{
    struct keeper *keeper = timer->data;
    for (cop_id id = 0; id < keeper->crew.n && keeper->restarting; id++)
        if (keeper->crew.members[id].is_awaited)
            restart_settled(keeper, id, &keeper->waiting);
}

/* Who asked for it is gone: they go on, and whoever asks next need not wait for that. */
static void abandon_restart(struct keeper *keeper)
{
    for (cop_id id = 0; id < keeper->crew.n; id++)
        keeper->crew.members[id].is_awaited = false;
    keeper->restart = NULL;
    end_restart(keeper);
}

static void start_again(struct keeper *keeper, cop_id id)
{
    keeper->crew.members[id].again = false;
    int error = crew_spawn(&keeper->crew, id);
    if (error) {
        complain("n%u cannot start: %s", id, strerror(-error));
        restart_settled(keeper, id, &keeper->failed);
    }
}

static void on_restart(struct keeper *keeper, struct session *session,
                       const struct cop_ranks *ids)
{
    if (keeper->restarting) {
        session_reply(session, COP_EAGAIN, false, NULL);
        return;
    }
    keeper->restarting = true;
    keeper->restart = session;
    uv_timer_start(&keeper->timer, on_restart_timeout, RESTART_TIMEOUT_MS, 0);
    /*
     * One more than there are, so that the last failure here does not answer too early.
     */
    keeper->pending = ids->count + 1;
    for (uint32_t i = 0; i < ids->count; i++) {
        struct crew_member *member = &keeper->crew.members[ids->items[i]];
        member->again = member->pid != 0;
        member->is_awaited = true;
        if (member->again)
            crew_signal(&keeper->crew, ids->items[i], SIGKILL);
        else
            start_again(keeper, ids->items[i]);
    }
    if (--keeper->pending == 0)
        end_restart(keeper);
}

/* ---- joins ----------------------------------------------------------------------- */

/* Whoever asked for this member is told what came of it. */
static void end_join(struct keeper *keeper, cop_id slot, int status, bool is_waiting)
{
    struct crew_member *member = &keeper->crew.members[slot];
    struct session *session = member->waiter;
    member->waiter = NULL;
    if (session == NULL)
        return;
    struct joined joined = {
        .id = member->id, .incarnation = member->incarnation, .waiting = is_waiting};
    snprintf(joined.name, sizeof joined.name, "%s", member->name);
    struct cop_buf *body = status ? NULL : joined_encode(&joined);
    session_reply(session, status ? status : body ? 0 : COP_ENOMEM, false, body);
    cop_buf_unref(body);
}

/* Whether a process of ours has, or had, this name. */
static bool is_known_name(const struct keeper *keeper, const char *name)
{
    char own[16];
    for (cop_id slot = 0; slot < keeper->crew.n; slot++) {
        snprintf(own, sizeof own, CREW_NAME, slot);
        const char *other =
            slot < keeper->crew.start ? own : keeper->crew.members[slot].name;
        if (strcmp(other, name) == 0)
            return true;
    }
    return false;
}

static void on_join(struct keeper *keeper, struct session *session,
                    struct cop__bytes body)
{
    struct join_command command;
    cop_id slot = 0;
    int error = join_command_decode(body, &command);
    if (!error && command.name[0] != '\0')
        error = cop__name_check(command.name, NULL, 0);
    if (!error && keeper->phase != RUNNING)
        error = COP_ESTATE;
    if (!error && keeper->crew.n == KEEPER_MEMBERS_MAX)
        error = COP_ERANGE;
    if (!error && is_known_name(keeper, command.name))
        error = COP_EEXIST;
    for (uint32_t i = keeper->crew.n; !error && command.name[0] == '\0'; i++) {
        snprintf(command.name, sizeof command.name, CREW_NAME, i);
        if (is_known_name(keeper, command.name))
            command.name[0] = '\0';
    }
    if (!error && crew_add(&keeper->crew, command.name, command.spare, &slot) != 0)
        error = COP_ENOMEM;
    if (error) {
        session_reply(session, error, false, NULL);
        return;
    }
    keeper->crew.members[slot].waiter = session;
    int failed = crew_spawn(&keeper->crew, slot);
    if (failed == 0)
        return;
    complain("%s cannot start: %s", keeper->crew.members[slot].name, strerror(-failed));
    end_join(keeper, slot, COP_EIO, false);
}

/* ---- members --------------------------------------------------------------------- */

static void on_note(struct keeper *keeper, const struct agent_note *note)
{
    cop_id slot = note->slot;
    struct crew_member *member =
        slot < keeper->crew.n ? &keeper->crew.members[slot] : NULL;
    if (member == NULL || member->pid == 0)
        return;
    member->id = note->id;
    member->incarnation = note->incarnation;
    if (note->epoch != 0 || note->waiting)
        end_join(keeper, slot, 0, note->waiting);
    bool is_news = member->state == MEMBER_STARTING;
    if (note->epoch != 0 && is_news)
        member->state = MEMBER_RUNNING;
    if (member->is_awaited && (note->epoch != 0 || note->waiting))
        restart_settled(keeper, slot, note->waiting ? &keeper->waiting : NULL);
    if (keeper->phase != STARTING || !is_news)
        return;
    keeper->ready_count++;
    tell_count(keeper);
    if (keeper->ready_count < keeper->crew.n || keeper->phase != STARTING)
        return;
    keeper->phase = RUNNING;
    uv_timer_stop(&keeper->timer);
    tell(keeper, "ready");
}

static void on_ready_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    struct keeper *keeper = stream->data;
    for (ssize_t i = 0; i < got; i++) {
        keeper->partial[keeper->partial_used++] = (uint8_t)buf->base[i];
        if (keeper->partial_used < sizeof keeper->partial)
            continue;
        struct agent_note note;
        memcpy(&note, keeper->partial, sizeof note);
        keeper->partial_used = 0;
        on_note(keeper, &note);
    }
}

static void on_ready_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    static char room[4096];
    (void)handle;
    (void)suggested;
    *buf = uv_buf_init(room, sizeof room);
}

static void note_unclean(struct keeper *keeper, cop_id id, const char *how)
{
    struct down_reply *ended = &keeper->ended;
    if (ended->unclean.count == 0)
        snprintf(ended->why, sizeof ended->why, "%s", how);
    if (cop_ranks_push(&ended->unclean, id) != 0)
        complain("out of memory: n%u did not end cleanly", id);
}

static void on_member_end(struct keeper *keeper, cop_id id)
{
    struct crew_member *member = &keeper->crew.members[id];
    char how[64], log[320];
    crew_print_end(member->wait_status, how, sizeof how);
    end_join(keeper, id, COP_EIO, false);
    if (keeper->phase == STOPPING) {
        if (member->wait_status != 0)
            note_unclean(keeper, id, how);
        if (keeper->crew.alive == 0)
            end_stop(keeper);
        return;
    }
    if (member->again) {
        start_again(keeper, id);
    } else if (keeper->phase == STARTING) {
        last_log_line(keeper, log, sizeof log);
        give_up(keeper, "n%u ended before all were up (%s)%s", id, how, log);
    } else if (member->is_awaited) {
        restart_settled(keeper, id, &keeper->failed);
    }
}

static void on_child(struct keeper *keeper)
{
    cop_id id;
    for (;;) {
        uint32_t alive = keeper->crew.alive;
        if (!crew_reap(&keeper->crew, &id))
            return;
        if (keeper->crew.alive < alive)
            on_member_end(keeper, id);
    }
}

static void on_signal(struct signals *signals, int number)
{
    if (number == SIGCHLD)
        on_child(signals->data);
    else
        begin_stop(signals->data);
}

/* ---- commands -------------------------------------------------------------------- */

static void on_list(struct keeper *keeper, struct session *session)
{
    struct list_reply reply = {.keeper_pid = (uint32_t)getpid(),
                               .janitor_pid = (uint32_t)keeper->janitor,
                               .count = keeper->crew.n};
    reply.members = calloc(reply.count, sizeof *reply.members);
    struct cop_buf *body = NULL;
    if (reply.members != NULL) {
        for (cop_id id = 0; id < reply.count; id++) {
            const struct crew_member *member = &keeper->crew.members[id];
            struct member_status *status = &reply.members[id];
            *status = (struct member_status){.pid = (uint32_t)member->pid,
                                             .state = member->state,
                                             .wait_status = member->wait_status,
                                             .incarnation = member->incarnation,
                                             .id = member->id};
            if (id < keeper->crew.start)
                continue;
            snprintf(status->name, sizeof status->name, "%s", member->name);
            crew_address(&keeper->crew, id, status->address, sizeof status->address);
        }
        body = list_reply_encode(&reply);
    }
    list_reply_free(&reply);
    session_reply(session, body ? 0 : COP_ENOMEM, false, body);
    cop_buf_unref(body);
}

/* Answers with the members that were dead already. */
static void on_kill(struct keeper *keeper, struct session *session, uint32_t number,
                    const struct cop_ranks *ids)
{
    struct cop_ranks dead = {0};
    int error = 0;
    if (number != SIGKILL && number != SIGSTOP && number != SIGCONT)
        error = COP_EINVAL;
    for (uint32_t i = 0; i < ids->count && !error; i++)
        if (!crew_signal(&keeper->crew, ids->items[i], (int)number))
            error = cop_ranks_push(&dead, ids->items[i]);
    struct cop_buf *body = error ? NULL : ids_encode(0, dead.items, dead.count);
    session_reply(session, error ? error : body ? 0 : COP_ENOMEM, false, body);
    cop_buf_unref(body);
    cop_ranks_free(&dead);
}

static void on_ids(struct keeper *keeper, struct session *session, enum verb verb,
                   struct cop__bytes body)
{
    struct cop_ranks ids = {0};
    uint32_t number;
    int error = ids_decode(body, &number, &ids);
    for (uint32_t i = 0; i < ids.count && !error; i++)
        error = ids.items[i] < keeper->crew.n ? 0 : COP_ENOENT;
    if (!error && keeper->phase != RUNNING)
        error = COP_ESTATE;
    if (error)
        session_reply(session, error, false, NULL);
    else if (verb == VERB_SIGNAL)
        on_kill(keeper, session, number, &ids);
    else
        on_restart(keeper, session, &ids);
    cop_ranks_free(&ids);
}

static void on_down(struct keeper *keeper, struct session *session)
{
    if (keeper->down != NULL || keeper->phase >= STOPPING) {
        session_reply(session, COP_ESTATE, false, NULL);
        return;
    }
    keeper->down = session;
    tell(keeper, "error stopped by another command while it was starting");
    begin_stop(keeper);
}

static void on_command(void *context, struct session *session, enum verb verb,
                       struct cop__bytes body)
{
    struct keeper *keeper = context;
    switch (verb) {
    case VERB_LIST:
        on_list(keeper, session);
        return;
    case VERB_SIGNAL:
    case VERB_RESTART:
        on_ids(keeper, session, verb, body);
        return;
    case VERB_DOWN:
        on_down(keeper, session);
        return;
    case VERB_JOIN:
        on_join(keeper, session, body);
        return;
    default:
        session_reply(session, COP_EKIND, false, NULL);
        return;
    }
}

static void on_written(void *context, struct session *session)
{
    struct keeper *keeper = context;
    if (keeper->phase == STOPPED && session == keeper->down) {
        keeper->down = NULL;
        finish(keeper);
    }
}

static void on_closed(void *context, struct session *session)
{
    struct keeper *keeper = context;
    if (session == keeper->restart)
        abandon_restart(keeper);
    for (cop_id slot = keeper->crew.start; slot < keeper->crew.n; slot++)
        if (keeper->crew.members[slot].waiter == session)
            keeper->crew.members[slot].waiter = NULL;
    if (session != keeper->down)
        return;
    keeper->down = NULL;
    if (keeper->phase == STOPPED)
        finish(keeper);
}

/* ---- the beginning --------------------------------------------------------------- */

/* Descriptors 3 to 9 stay free of ours: members get theirs there. */
static int reserve_descriptors(void)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd < 9)
        fd = fcntl(fd, F_DUPFD_CLOEXEC, fd + 1);
    return fd < 0 ? -errno : 0;
}

static void on_start_timeout(uv_timer_t *timer)
{
    struct keeper *keeper = timer->data;
    give_up(keeper, "only %u of %u members were ready after %u s", keeper->ready_count,
            keeper->crew.n, START_TIMEOUT_MS / 1000);
}

static int start_handles(struct keeper *keeper)
{
    uv_loop_t *loop = &keeper->loop;
    sigset_t wanted;
    int ends[2];
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGCHLD);
    sigaddset(&wanted, SIGTERM);
    sigaddset(&wanted, SIGINT);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    keeper->crew.ready_fd = ends[1];
    COP_ASSERT(uv_timer_init(loop, &keeper->timer) == 0);
    COP_ASSERT(uv_pipe_init(loop, &keeper->ready, 0) == 0);
    keeper->timer.data = keeper->ready.data = keeper->signals.data = keeper;
    int error = uv_pipe_open(&keeper->ready, ends[0]);
    if (!error)
        error =
            uv_read_start((uv_stream_t *)&keeper->ready, on_ready_alloc, on_ready_read);
    if (!error)
        error = signals_start(&keeper->signals, loop, &wanted, on_signal);
    if (!error)
        error = uv_timer_start(&keeper->timer, on_start_timeout, START_TIMEOUT_MS, 0);
    if (!error)
        error = uv_poll_init(loop, &keeper->starter, keeper->status_fd);
    /* What must arrive waits until it can. */
    if (!error && fcntl(keeper->status_fd, F_SETFL, 0) != 0)
        error = -errno;
    keeper->is_watching = error == 0;
    keeper->starter.data = keeper;
    if (!error)
        error = uv_poll_start(&keeper->starter, UV_READABLE, on_starter);
    return error;
}

static int start_server(struct keeper *keeper)
{
    char path[DIR_PATH_SIZE + 16];
    static const struct cop_log silence;
    snprintf(path, sizeof path, "%s/%s", keeper->config->dir->path, KEEPER_SOCKET);
    struct server_config server = {
        .loop = &keeper->loop,
        .path = path,
        .log = &silence,
        .command = on_command,
        .written = on_written,
        .closed = on_closed,
        .context = keeper,
    };
    return server_create(&server, &keeper->server);
}

/*
 * A key of its own, or a copy of the one that was given, which only this user can read, and
 * which goes with the directory. Who is forked from here inherits what OpenSSL has set up once
 * for all.
 */
static int make_key(const char *from, const char *path, char *message, size_t size)
{
    struct cop__keys keys = {.step = COP__KEYS_ALONE};
    int error =
        from ? cop__keys_read(from, &keys, message, size) : cop__key_make(&keys.use);
    if (error && from == NULL)
        snprintf(message, size, "no random numbers: %s", strerror(errno));
    if (!error)
        error = cop__keys_write_brief(path, &keys, message, size);
    cop__keys_wipe(&keys);
    return error;
}

static int open_key(struct keeper *keeper)
{
    char path[DIR_PATH_SIZE + 16], message[400];
    struct cop__tls_files files = {.key = path};
    snprintf(path, sizeof path, "%s/" KEEPER_KEY, keeper->config->dir->path);
    int error = keeper->config->one
                    ? 0
                    : make_key(keeper->config->key, path, message, sizeof message);
    if (!error)
        error = cop__tls_create(&files, &keeper->crew.tls, message, sizeof message);
    if (error)
        give_up(keeper, "%s", message);
    return error;
}

static void start_members(struct keeper *keeper)
{
    uint8_t id[16];
    cop_id failed = 0;
    if (keeper->config->tcp && !keeper->config->insecure && open_key(keeper) != 0)
        return;
    if (getrandom(id, sizeof id, 0) != (ssize_t)sizeof id) {
        give_up(keeper, "no random numbers: %s", strerror(errno));
        return;
    }
    int error = crew_bind(&keeper->crew, &failed);
    if (error) {
        give_up(keeper, "no socket for n%u: %s", failed, strerror(-error));
        return;
    }
    error = keeper->config->one
                ? 0
                : crew_write_file(&keeper->crew, id, keeper->config->shape,
                                  keeper->config->quorum,
                                  keeper->config->detector ? keeper->config->detector
                                                           : "connection",
                                  keeper->config->guard);
    if (error) {
        give_up(keeper, "%s/members: %s", keeper->config->dir->path, strerror(-error));
        return;
    }
    for (cop_id i = 0; i < keeper->crew.n && keeper->phase == STARTING; i++) {
        error = crew_spawn(&keeper->crew, i);
        if (error)
            give_up(keeper, "n%u cannot be started: %s", i, strerror(-error));
    }
}

/* Nanoseconds since 1970: no two starts of a cluster share one. */
static cop_incarnation make_instance(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (cop_incarnation)now.tv_sec * COP_SEC + (cop_incarnation)now.tv_nsec;
}

/* Errors before the loop runs: there is nobody to stop yet. */
static int fail_early(struct keeper *keeper, int error)
{
    dprintf(keeper->status_fd, "error the keeper cannot start: %s\n", strerror(-error));
    dir_remove(keeper->config->dir);
    return EXIT_FAILED;
}

static int run(struct keeper *keeper)
{
    int error = reserve_descriptors();
    if (!error)
        error = uv_loop_init(&keeper->loop);
    if (!error)
        error = start_handles(keeper);
    if (!error)
        error = start_server(keeper);
    if (error)
        return fail_early(keeper, error);
    start_members(keeper);
    uv_run(&keeper->loop, UV_RUN_DEFAULT);
    error = uv_loop_close(&keeper->loop);
    if (error)
        complain("keeper: handles are left open: %s", uv_strerror(error));
    return keeper->code;
}

/*
 * Whoever can be a member here is the owner of the processes, or root, and could run anything
 * anyway; but for TCP without encryption, where anybody can be a member.
 */
static const char *name_owner(const struct keeper_config *config, char *out,
                              size_t size)
{
    char user[EXEC_USER_MAX];
    exec_user_name(geteuid(), user);
    snprintf(out, size, "user:%s,user:root", user);
    return config->insecure ? "none" : out;
}

int keeper_run(const struct keeper_config *config, pid_t janitor, int status_fd)
{
    struct keeper keeper = {
        .config = config, .janitor = janitor, .status_fd = status_fd};
    char owner[2 * EXEC_USER_MAX];
    signal(SIGPIPE, SIG_IGN);
    (void)prctl(PR_SET_NAME, "coppice:keeper");
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != janitor)
        return fail_early(&keeper, -ESRCH);
    cop_incarnation first = config->one ? config->one->first : make_instance();
    int error = crew_create(config->dir, config->n, config->tcp, first, &keeper.crew);
    if (error)
        return fail_early(&keeper, -ENOMEM);
    keeper.crew.one = config->one;
    if (config->one != NULL && keeper.crew.last < make_instance())
        keeper.crew.last = make_instance();
    keeper.crew.allow_exec = config->allow_exec;
    if (config->allow_exec == NULL)
        keeper.crew.allow_exec = name_owner(config, owner, sizeof owner);
    int code = run(&keeper);
    crew_free(&keeper.crew);
    cop__tls_destroy(keeper.crew.tls);
    cop_ranks_free(&keeper.failed);
    cop_ranks_free(&keeper.waiting);
    cop_ranks_free(&keeper.ended.unclean);
    return code;
}
