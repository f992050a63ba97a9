/* SPDX-License-Identifier: Apache-2.0 */
#include "run/gather.h"

#include "net/tcp/clock.h"
#include "net/tcp/notice.h"
#include "net/tcp/stream.h"
#include "net/tls/channel.h"

#include <coppice/error.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAUSE (10 * COP_MSEC)
#define AT_ONCE 64 /* attempts under way */
#define GUESTS 64  /* connections of others that are looked at */

struct attempt {
    cop_id id;
    int fd;
};

/* Somebody who has connected to us. */
struct guest {
    int fd;
    cop__origin from;
    struct cop__channel *channel; /* NULL: whatever it says is believed */
};

struct cop__gather {
    struct cop__gather_config config;
    struct cop__clock clock;
    struct cop__alarm alarm;
    cop_time deadline;
    struct attempt attempts[AT_ONCE];
    uint32_t attempt_count;
    struct guest guests[GUESTS];
    uint32_t guest_count;
    struct cop__limits limits;
    struct cop__notice too_often, foreign_user;
    bool has_guest; /* somebody has begun */
    uint32_t missing;
    cop_id next; /* to be tried; goes round */
    bool is_found[];
};

/* ---- ends ------------------------------------------------------------------------ */

static void on_closed(void *context) { free(context); }

static void close_guest(const struct guest *guest)
{
    cop__channel_destroy(guest->channel);
    close(guest->fd);
}

void cop__gather_close(struct cop__gather *gather)
{
    for (uint32_t i = 0; i < gather->attempt_count; i++)
        close(gather->attempts[i].fd);
    for (uint32_t i = 0; i < gather->guest_count; i++)
        close_guest(&gather->guests[i]);
    cop__alarm_stop(&gather->clock, &gather->alarm);
    cop__clock_close(&gather->clock, on_closed);
}

/* ---- others who speak ------------------------------------------------------------ */

/* 1: it has proved to be one of us. 0: it may yet. Otherwise it is not. */
static int shake(const struct guest *guest, const uint8_t *bytes, size_t length)
{
    struct cop__outbox *out = calloc(1, sizeof *out);
    struct cop__bytes in = {bytes, (uint32_t)length};
    int done = out ? cop__channel_shake(guest->channel, &in, out) : COP_ENOMEM;
    /* A flight fits into the buffer of a new socket; if not, the other side tries again. */
    if (out && out->used > 0 &&
        send(guest->fd, out->bytes, out->used, MSG_NOSIGNAL | MSG_DONTWAIT) !=
            (ssize_t)out->used)
        done = COP_EIO;
    free(out);
    return done;
}

/* The same. Who is also only looking closes without a word; who has begun says hello. */
static int listen_to(const struct guest *guest)
{
    uint8_t bytes[4096];
    ssize_t got = recv(guest->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (got <= 0)
        return COP_ELOST;
    return guest->channel ? shake(guest, bytes, (size_t)got) : 1;
}

/* Who only looked has paid for that when it came. */
static void settle(struct cop__gather *gather, cop__origin from, int heard)
{
    if (heard == 1)
        cop__limits_refund(&gather->limits, from, cop__clock_now());
    else if (heard != COP_ELOST)
        cop__limits_charge(&gather->limits, from, cop__clock_now());
}

static void look_at_guests(struct cop__gather *gather)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < gather->guest_count; i++) {
        int heard = listen_to(&gather->guests[i]);
        gather->has_guest |= heard == 1;
        if (heard == 0) {
            gather->guests[kept++] = gather->guests[i];
            continue;
        }
        settle(gather, gather->guests[i].from, heard);
        close_guest(&gather->guests[i]);
    }
    gather->guest_count = kept;
}

/* ---- others who come ------------------------------------------------------------- */

static bool is_local(int fd)
{
    int family = AF_UNSPEC;
    socklen_t length = sizeof family;
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length) == 0 &&
           family == AF_UNIX;
}

static bool is_foreign(struct cop__gather *gather, int fd)
{
    uint64_t held;
    if (!is_local(fd) || cop__stream_is_same_user(fd))
        return false;
    if (cop__notice_is_due(&gather->foreign_user, cop__clock_now(), &held))
        cop__log(gather->config.log, COP_LOG_WARN,
                 "refused a connection: it is of another user (%llu more like this)",
                 (unsigned long long)held);
    return true;
}

static bool comes_too_often(struct cop__gather *gather, cop__origin from)
{
    char text[40];
    uint64_t held;
    if (cop__limits_admit(&gather->limits, from, cop__clock_now()))
        return false;
    if (cop__notice_is_due(&gather->too_often, cop__clock_now(), &held))
        cop__log(gather->config.log, COP_LOG_WARN,
                 "too many connections from %s came to nothing: closing more of them "
                 "for a while (%llu more like this)",
                 cop__origin_text(from, text, sizeof text), (unsigned long long)held);
    return true;
}

/*
 * Those who were only looking have gone again. If that is not enough, the one that has waited
 * longest makes room: it had the most time to say something.
 */
static void make_room(struct cop__gather *gather)
{
    look_at_guests(gather);
    if (gather->guest_count < GUESTS)
        return;
    cop__limits_charge(&gather->limits, gather->guests[0].from, cop__clock_now());
    close_guest(&gather->guests[0]);
    gather->guest_count--;
    memmove(gather->guests, gather->guests + 1,
            gather->guest_count * sizeof *gather->guests);
}

void cop__gather_guest(struct cop__gather *gather, int fd, cop__origin from)
{
    struct guest guest = {.fd = fd, .from = from};
    if (is_foreign(gather, fd) || comes_too_often(gather, from) ||
        (gather->config.tls != NULL && !is_local(fd) &&
         cop__channel_create(gather->config.tls, true, &guest.channel) != 0)) {
        close(fd);
        return;
    }
    if (gather->guest_count == GUESTS)
        make_room(gather);
    gather->guests[gather->guest_count++] = guest;
}

/* ---- looking for others ---------------------------------------------------------- */

static void found(struct cop__gather *gather, cop_id id)
{
    gather->is_found[id] = true;
    gather->missing--;
}

static void try_one(struct cop__gather *gather, cop_id id)
{
    struct cop__address address;
    if (gather->config.address(gather->config.context, id, &address) != 0)
        return;
    int fd = socket(address.storage.ss_family,
                    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return; /* in the next round */
    int failed = connect(fd, (const struct sockaddr *)&address.storage, address.length);
    /* A full queue of one who listens is EAGAIN, with Unix sockets. */
    if (failed && errno == EINPROGRESS) {
        gather->attempts[gather->attempt_count++] = (struct attempt){id, fd};
        return;
    }
    if (!failed || errno == EAGAIN)
        found(gather, id);
    close(fd);
}

static void look_at_attempts(struct cop__gather *gather)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < gather->attempt_count; i++) {
        struct attempt attempt = gather->attempts[i];
        struct pollfd ready = {.fd = attempt.fd, .events = POLLOUT};
        int error = 0;
        socklen_t length = sizeof error;
        if (poll(&ready, 1, 0) <= 0) {
            gather->attempts[kept++] = attempt;
            continue;
        }
        if (getsockopt(attempt.fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 &&
            error == 0 && !gather->is_found[attempt.id])
            found(gather, attempt.id);
        close(attempt.fd);
    }
    gather->attempt_count = kept;
}

static bool is_tried(const struct cop__gather *gather, cop_id id)
{
    for (uint32_t i = 0; i < gather->attempt_count; i++)
        if (gather->attempts[i].id == id)
            return true;
    return false;
}

/* Goes once round those that are missing, as far as there is room. */
static void try_more(struct cop__gather *gather)
{
    uint32_t count = gather->config.count;
    for (uint32_t i = 0; i < count && gather->attempt_count < AT_ONCE; i++) {
        cop_id id = gather->next;
        gather->next = (id + 1) % count;
        if (!gather->is_found[id] && !is_tried(gather, id))
            try_one(gather, id);
    }
}

/* ---- time ------------------------------------------------------------------------ */

static void on_alarm(struct cop__alarm *alarm, cop_time now)
{
    struct cop__gather *gather =
        (struct cop__gather *)((char *)alarm - offsetof(struct cop__gather, alarm));
    look_at_guests(gather);
    look_at_attempts(gather);
    try_more(gather);
    if (gather->missing > 0 && !gather->has_guest && now < gather->deadline) {
        cop__alarm_start(&gather->clock, &gather->alarm, now + PAUSE);
        return;
    }
    struct cop__gather_config config = gather->config;
    uint32_t missing = gather->missing;
    cop__gather_close(gather);
    config.done(config.context, missing);
}

int cop__gather_create(const struct cop__gather_config *config,
                       struct cop__gather **out)
{
    struct cop__gather *gather = calloc(1, sizeof *gather + config->count);
    int error = gather ? cop__clock_init(&gather->clock, config->loop) : UV_ENOMEM;
    if (error != 0) {
        free(gather);
        return error == UV_ENOMEM ? COP_ENOMEM : COP_EIO;
    }
    cop_time now = cop__clock_now();
    gather->config = *config;
    gather->clock.context = gather;
    gather->missing = config->count;
    for (cop_id id = 0; id < config->count; id++)
        if (config->all_listen || id == config->self)
            found(gather, id);
    gather->deadline = config->patience_ns > COP_TIME_NEVER - now
                           ? COP_TIME_NEVER
                           : now + config->patience_ns;
    cop__alarm_init(&gather->alarm, on_alarm);
    cop__alarm_start(&gather->clock, &gather->alarm, now);
    *out = gather;
    return 0;
}
