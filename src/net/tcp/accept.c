/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking connections. Not with uv_listen: when descriptors run out it takes and closes what
 * waits, which looks like a death to whoever connected. Here the others wait for a moment.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "net/tcp/table.h"

#define PAUSE (200 * COP_MSEC)
/* So many at a time, then it is the turn of those who are connected. */
#define ACCEPTS_MAX 64
/* Above the descriptors of all connections, but of a few members of large flat trees. */
#define LISTENER_FD 512

/* The one that has waited longest makes room: it had the most time to say something. */
bool cop__accept_make_room(struct cop__peers *peers)
{
    struct cop__conn *conn = peers->first;
    uint64_t held;
    while (conn && conn->state != COP__CONN_STRANGER && conn->state != COP__CONN_GUEST)
        conn = conn->next;
    if (!conn)
        return false;
    if (cop__notice_is_due(&peers->strangers_full, cop__clock_now(), &held))
        cop__log(peers->config.log, COP_LOG_WARN,
                 "too many connections that say nothing: closing the oldest "
                 "(%llu more like this)",
                 (unsigned long long)held);
    conn->is_guilty = true;
    cop__conn_close(conn);
    return true;
}

static void say_too_often(struct cop__peers *peers, cop__origin origin)
{
    char text[40];
    uint64_t held;
    peers->config.stats->refused_rate++;
    if (cop__notice_is_due(&peers->too_often, cop__clock_now(), &held))
        cop__log(peers->config.log, COP_LOG_WARN,
                 "too many connections from %s came to nothing: closing more of them "
                 "for a while (%llu more like this)",
                 cop__origin_text(origin, text, sizeof text), (unsigned long long)held);
}

static void say_foreign(struct cop__peers *peers)
{
    uint64_t held;
    peers->config.stats->refused_unproven++;
    if (cop__notice_is_due(&peers->foreign_user, cop__clock_now(), &held))
        cop__log(peers->config.log, COP_LOG_WARN,
                 "refused a connection: it is of another user (%llu more like this)",
                 (unsigned long long)held);
}

/* A connection has its options from the listening socket, but not if the kernel made it before
 * they were set there: those come first. */
static bool is_tuned(const struct cop__peers *peers, int fd)
{
    return !peers->has_early || peers->listen_family == AF_UNIX ||
           cop__stream_tune(fd) == 0;
}

static void take(struct cop__peers *peers, int fd, cop__origin origin)
{
    if (!is_tuned(peers, fd)) {
        close(fd);
        return;
    }
    if (!cop__limits_admit(&peers->limits, origin, cop__clock_now())) {
        say_too_often(peers, origin);
        close(fd);
        return;
    }
    if (peers->strangers >= peers->config.strangers_max)
        cop__accept_make_room(peers);
    struct cop__conn *conn = cop__conn_create(peers, COP__CONN_STRANGER);
    if (!conn) {
        close(fd);
        return;
    }
    peers->config.stats->accepts++;
    conn->origin = origin;
    int error = cop__stream_adopt(&conn->stream, fd, peers->listen_family);
    if (error == UV_EACCES)
        say_foreign(peers);
    if (error != 0) {
        cop__conn_discard(conn);
        return;
    }
    cop__conn_expect(conn);
    /* Who calls says who it is at once: on one host that is there already. */
    if (conn->state == COP__CONN_STRANGER)
        cop__stream_take(&conn->stream);
}

static void on_pollable(uv_poll_t *poll, int status, int events);

static void pause_accepting(struct cop__peers *peers, int error)
{
    uint64_t held;
    peers->config.stats->shortages++;
    if (cop__notice_is_due(&peers->shortage, cop__clock_now(), &held))
        cop__log(peers->config.log, COP_LOG_WARN,
                 "cannot take connections for now: %s (%llu more like this)",
                 uv_strerror(error), (unsigned long long)held);
    uv_poll_stop(&peers->listener);
    cop__alarm_start(peers->config.clock, &peers->resume, cop__clock_now() + PAUSE);
}

static void on_resume(struct cop__alarm *alarm, cop_time now)
{
    struct cop__peers *peers =
        (struct cop__peers *)((char *)alarm - offsetof(struct cop__peers, resume));
    int error = uv_poll_start(&peers->listener, UV_READABLE, on_pollable);
    (void)now;
    if (error != 0)
        pause_accepting(peers, error);
}

int cop__tcp_take(int listen_fd, cop__origin *from)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    int fd = accept4(listen_fd, (struct sockaddr *)&address, &length,
                     SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return errno == ECONNABORTED || errno == EPROTO ? UV_EINTR : -errno;
    *from = cop__origin_of((const struct sockaddr *)&address);
    return fd;
}

static void take_some(struct cop__peers *peers, uint32_t most)
{
    for (uint32_t i = 0; i < most; i++) {
        cop__origin from;
        int fd = cop__tcp_take(peers->listen_fd, &from);
        if (fd >= 0)
            take(peers, fd, from);
        else if (fd == UV_EAGAIN) {
            peers->has_early = false;
            return;
        } else if ((fd == UV_EMFILE || fd == UV_ENFILE) && cop__accept_make_room(peers))
            continue; /* strangers have them all: the newest may be a member */
        else if (fd != UV_EINTR) {
            pause_accepting(peers, fd);
            return;
        }
    }
}

static void on_pollable(uv_poll_t *poll, int status, int events)
{
    struct cop__peers *peers = poll->data;
    (void)events;
    if (status != 0)
        pause_accepting(peers, status);
    else
        take_some(peers, ACCEPTS_MAX);
}

void cop__accept_look(struct cop__peers *peers, uint32_t expected)
{
    if (peers->listen_fd >= 0 && uv_is_active((const uv_handle_t *)&peers->listener))
        take_some(peers, expected + ACCEPTS_MAX);
}

int cop__tcp_dup_listener(int fd)
{
    struct rlimit files;
    int high = LISTENER_FD;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur <= LISTENER_FD)
        high = (int)files.rlim_cur / 2;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, high);
    return copy >= 0 ? copy : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

static int family_of(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &length) != 0)
        return -1;
    return address.ss_family;
}

static void on_listener_closed(uv_handle_t *handle)
{
    struct cop__peers *peers = handle->data;
    cop__peers_handle_closed(peers);
}

static int start(struct cop__peers *peers)
{
    peers->listen_family = family_of(peers->listen_fd);
    if (peers->listen_family < 0)
        return COP_EIO;
    /* Whoever connects is told which process listens: this one, not the one that made it. */
    if (peers->listen_family == AF_UNIX && listen(peers->listen_fd, SOMAXCONN) != 0)
        return COP_EIO;
    if (peers->listen_family != AF_UNIX && cop__stream_tune(peers->listen_fd) != 0)
        return COP_EIO;
    /* libuv makes the descriptor non-blocking, too. */
    if (uv_poll_init(peers->config.loop, &peers->listener, peers->listen_fd) != 0)
        return COP_EIO;
    peers->listener.data = peers;
    struct pollfd early = {.fd = peers->listen_fd, .events = POLLIN};
    peers->has_early = poll(&early, 1, 0) != 0;
    peers->handles++;
    if (uv_poll_start(&peers->listener, UV_READABLE, on_pollable) != 0)
        pause_accepting(peers, UV_ENOMEM);
    return 0;
}

int cop__accept_start(struct cop__peers *peers)
{
    cop__alarm_init(&peers->resume, on_resume);
    if (peers->listen_fd < 0)
        return 0;
    int error = start(peers);
    if (error != 0)
        close(peers->listen_fd);
    return error;
}

void cop__accept_stop(struct cop__peers *peers)
{
    cop__alarm_stop(peers->config.clock, &peers->resume);
    if (peers->listen_fd < 0)
        return;
    uv_poll_stop(&peers->listener);
    uv_close((uv_handle_t *)&peers->listener, on_listener_closed);
    close(peers->listen_fd);
    peers->listen_fd = -1;
}
