/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp/stream.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"

/* A peer that does not acknowledge for so long is silent. */
#define SILENCE_MS 10000
#define SILENCE_S 10
#define PROBE_EVERY_S 2
#define PROBES 5
/* What TCP may hold that was not sent yet: control has to wait behind it. */
#define UNSENT_MAX (128 << 10)
/* So many reads of one stream, then it is the turn of the others. */
#define READS_MAX 16

struct cop__pending {
    size_t length, done;
    uint8_t bytes[];
};

void cop__stream_init(struct cop__stream *stream, struct cop__stream_base *base)
{
    memset(stream, 0, sizeof *stream);
    stream->base = base;
    stream->fd = -1;
}

/* ---- reading --------------------------------------------------------------------- */

static bool is_closed(const struct cop__stream *stream) { return stream->fd < 0; }

/* One that we made, and that is not ours to use yet, was never connected. */
COP__COLD static void end(struct cop__stream *stream, int error)
{
    bool was_ours = stream->is_shaking && stream->is_maker;
    if (was_ours)
        stream->base->events->connected(stream, error);
    else
        stream->base->events->ended(stream, error);
}

static void decrypt(struct cop__stream *stream, struct cop__bytes in);

/* One read. Whether there may be more. */
static bool read_once(struct cop__stream *stream)
{
    struct cop__stream_base *base = stream->base;
    ssize_t count = recv(stream->fd, base->space, COP__STREAM_SPACE, 0);
    ++*base->reads;
    if (count > 0) {
        base->is_reading = true;
        if (stream->channel)
            decrypt(stream, (struct cop__bytes){base->space, (uint32_t)count});
        else
            base->events->bytes(stream, base->space, (size_t)count);
        base->is_reading = false;
        return count == COP__STREAM_SPACE && !is_closed(stream);
    }
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    end(stream, count == 0 ? UV_EOF : -errno);
    return false;
}

static void on_readable(struct cop__stream *stream)
{
    for (int i = 0; i < READS_MAX && read_once(stream); i++)
        ;
}

/*
 * libuv stops polling when a socket has an error. What came before it is still to be read,
 * and may end with a BYE; then reading gives the error itself.
 */
COP__COLD static void on_broken(struct cop__stream *stream)
{
    uint64_t reads;
    do {
        reads = *stream->base->reads;
        on_readable(stream);
    } while (!is_closed(stream) && *stream->base->reads == reads + READS_MAX);
    if (!is_closed(stream))
        end(stream, UV_ECONNRESET);
}

/* ---- events of libuv ------------------------------------------------------------- */

static void on_writable(struct cop__stream *stream);
static void on_event(uv_poll_t *uv, int status, int events);

/* Streams that only wait to be read can be read by the runner. */
static void let_run(struct cop__stream *stream, bool may_run)
{
    struct cop__runner *runner = stream->base->runner;
    if (runner)
        cop__runner_watch(runner, stream->fd, may_run ? stream : NULL);
}

static int poll_for(struct cop__stream *stream, int events)
{
    let_run(stream, events == UV_READABLE);
    return uv_poll_start(&stream->uv, events, on_event);
}

static int begin_shaking(struct cop__stream *stream);

static int error_of_socket(int fd)
{
    int error = 0;
    socklen_t length = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? -error : -errno;
}

static void on_connect(struct cop__stream *stream)
{
    int error = error_of_socket(stream->fd);
    stream->is_connecting = false;
    uv_poll_stop(&stream->uv);
    if (error == 0 && stream->is_shaking)
        error = begin_shaking(stream);
    if (error != 0 || !stream->is_shaking)
        stream->base->events->connected(stream, error);
}

static void on_event(uv_poll_t *uv, int status, int events)
{
    struct cop__stream *stream = uv->data;
    if (stream->is_connecting) {
        on_connect(stream);
        return;
    }
    if (status != 0) {
        on_broken(stream);
        return;
    }
    if (events & UV_READABLE)
        on_readable(stream);
    if ((events & UV_WRITABLE) && !is_closed(stream))
        on_writable(stream);
}

void cop__stream_take(struct cop__stream *stream) { on_readable(stream); }

int cop__stream_read(struct cop__stream *stream)
{
    return poll_for(stream, stream->pending ? UV_READABLE | UV_WRITABLE : UV_READABLE);
}

/* ---- making ---------------------------------------------------------------------- */

static int set_option(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof value) == 0 ? 0 : -errno;
}

int cop__stream_tune(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, SILENCE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, PROBE_EVERY_S},
        {IPPROTO_TCP, TCP_KEEPCNT, PROBES},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, SILENCE_MS},
        {IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT_MAX},
        /* Most connections carry a small frame now and then. What is lost of it is sent
         * again at an even pace: doubling would make a bad link look like a death. */
        {IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, 1},
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        int error = set_option(fd, options[i].level, options[i].name, options[i].value);
        if (error != 0)
            return error;
    }
    return 0;
}

/*
 * TCP acknowledges what follows a silence at once, with a packet of its own, unless the last
 * that came before it was answered; and the last word of a conversation never is. In a change of the
 * view that made two packets of every message. So what is to be acknowledged is, now, when nobody
 * waits for it; and what comes next is acknowledged with our answer, or when there is none.
 */
void cop__stream_pause(struct cop__stream *stream)
{
    if (stream->is_local || is_closed(stream))
        return;
    /* It is only a hint: where it is not known messages travel as well. */
    set_option(stream->fd, IPPROTO_TCP, TCP_QUICKACK, 1);
    set_option(stream->fd, IPPROTO_TCP, TCP_QUICKACK, 0);
}

/* Takes the descriptor, whoever made the connection. */
static int take_socket(struct cop__stream *stream, int fd, int family)
{
    struct cop__tls *tls = family == AF_UNIX ? NULL : stream->base->tls;
    int error = family == AF_UNIX || !stream->is_maker ? 0 : cop__stream_tune(fd);
    if (error == 0 && tls &&
        cop__channel_create(tls, !stream->is_maker, &stream->channel) != 0)
        error = UV_ENOMEM;
    if (error == 0)
        error = uv_poll_init(stream->base->loop, &stream->uv, fd);
    if (error != 0) {
        cop__channel_destroy(stream->channel);
        stream->channel = NULL;
        close(fd);
        return error;
    }
    stream->is_shaking = stream->channel != NULL;
    stream->is_local = family == AF_UNIX;
    stream->uv.data = stream;
    stream->fd = fd;
    return 0;
}

bool cop__stream_is_same_user(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
        return false;
    return peer.uid == geteuid() || peer.uid == 0;
}

int cop__stream_adopt(struct cop__stream *stream, int fd, int family)
{
    if (family == AF_UNIX && !cop__stream_is_same_user(fd)) {
        close(fd);
        return UV_EACCES;
    }
    return take_socket(stream, fd, family);
}

/*
 * 1: connected. 0: that takes time. Otherwise the error. On one host it is known at once, and
 * nearly always when somebody has died: then no turn of the loop is needed to hear it.
 */
static int dial(int fd, const struct sockaddr *address, socklen_t length)
{
    bool is_asked = false;
    while (connect(fd, address, length) != 0) {
        if (errno == EALREADY)
            return 0;
        /* The second time it says what has come of it. */
        if (errno == EINPROGRESS && !is_asked)
            is_asked = true;
        else if (errno != EINTR)
            return -errno;
    }
    if (address->sa_family == AF_UNIX && !cop__stream_is_same_user(fd))
        return UV_EACCES;
    return 1;
}

int cop__stream_connect(struct cop__stream *stream, const struct sockaddr *address,
                        socklen_t length)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int connected = dial(fd, address, length);
    if (connected < 0) {
        close(fd);
        return connected;
    }
    stream->is_maker = true;
    int error = take_socket(stream, fd, address->sa_family);
    if (error != 0)
        return error;
    stream->is_connecting = connected == 0;
    if (stream->is_connecting)
        return poll_for(stream, UV_WRITABLE);
    return stream->is_shaking ? begin_shaking(stream) : 1;
}

/* ---- writing --------------------------------------------------------------------- */

/* Bytes taken by the kernel, perhaps none, or an error. */
static ssize_t send_spans(struct cop__stream *stream, struct iovec *spans, size_t count)
{
    ssize_t done;
    ++*stream->base->writes;
    do {
        if (count == 1) {
            done = send(stream->fd, spans[0].iov_base, spans[0].iov_len, MSG_NOSIGNAL);
        } else {
            struct msghdr message = {.msg_iov = spans, .msg_iovlen = count};
            done = sendmsg(stream->fd, &message, MSG_NOSIGNAL);
        }
    } while (done < 0 && errno == EINTR);
    if (done < 0)
        return errno == EAGAIN ? 0 : -errno;
    return done;
}

static void on_writable(struct cop__stream *stream)
{
    struct cop__pending *pending = stream->pending;
    if (!pending)
        return;
    struct iovec rest = {pending->bytes + pending->done,
                         pending->length - pending->done};
    ssize_t done = send_spans(stream, &rest, 1);
    if (done < 0) {
        end(stream, (int)done);
        return;
    }
    pending->done += (size_t)done;
    if (pending->done < pending->length)
        return;
    free(pending);
    stream->pending = NULL;
    int error = poll_for(stream, UV_READABLE);
    if (error != 0)
        end(stream, error);
    else if (!stream->is_shaking)
        stream->base->events->drained(stream);
}

/* Copies what is behind the first `done` bytes of the batch. */
static void copy_rest(const struct cop__batch *batch, size_t done, uint8_t *out)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct iovec *span = &batch->spans[i];
        if (done >= span->iov_len) {
            done -= span->iov_len;
            continue;
        }
        memcpy(out, (const uint8_t *)span->iov_base + done, span->iov_len - done);
        out += span->iov_len - done;
        done = 0;
    }
}

/*
 * The kernel takes no more for now. The rest is copied, because frames may be dropped from
 * the session before it is written; this is the slow path, and one batch at the most.
 */
COP__COLD static int write_later(struct cop__stream *stream,
                                 const struct cop__batch *batch, size_t done)
{
    size_t length = batch->bytes - done;
    struct cop__pending *pending = malloc(sizeof *pending + length);
    if (!pending)
        return UV_ENOMEM;
    copy_rest(batch, done, pending->bytes);
    pending->length = length;
    pending->done = 0;
    stream->pending = pending;
    int error = poll_for(stream, UV_READABLE | UV_WRITABLE);
    return error != 0 ? error : 1;
}

/* ---- encrypted ------------------------------------------------------------------- */

/* Bytes that have to wait, behind those that wait already. */
static int keep_rest(struct cop__stream *stream, const uint8_t *bytes, size_t length)
{
    struct cop__pending *old = stream->pending;
    size_t before = old ? old->length : 0;
    struct cop__pending *pending = realloc(old, sizeof *pending + before + length);
    if (!pending)
        return UV_ENOMEM;
    memcpy(pending->bytes + before, bytes, length);
    pending->length = before + length;
    if (!old)
        pending->done = 0;
    stream->pending = pending;
    return old ? 0 : poll_for(stream, UV_READABLE | UV_WRITABLE);
}

/* What is held back is of one stream alone, and goes or is dropped before any other's. */
static void let_go(struct cop__stream *stream)
{
    struct cop__stream_base *base = stream->base;
    COP_ASSERT(base->holding == NULL || base->holding == stream);
    base->holding = NULL;
}

/* Writes what the channel has made. 0, also if some of it is pending; or the error. */
static int post(struct cop__stream *stream)
{
    struct cop__outbox *out = &stream->base->out;
    struct iovec all = {out->bytes, out->used};
    ssize_t done = 0;
    let_go(stream);
    if (all.iov_len == 0)
        return 0;
    out->used = 0;
    if (!stream->pending)
        done = send_spans(stream, &all, 1);
    if (done < 0)
        return (int)done;
    size_t rest = all.iov_len - (size_t)done;
    return rest == 0 ? 0 : keep_rest(stream, out->bytes + done, rest);
}

static int error_of(ssize_t error)
{
    switch (error) {
    case COP_ENOMEM:
        return UV_ENOMEM;
    case COP_ELOST:
        return UV_EOF;
    default:
        return COP__STREAM_UNPROVEN;
    }
}

/* 1: the other side has proved itself. 0: not yet. Otherwise the error. */
static int shake(struct cop__stream *stream, struct cop__bytes *in)
{
    int done = cop__channel_shake(stream->channel, in, &stream->base->out);
    /* The end of a handshake that we began goes with what we say next: one write here, and
     * one read over there. */
    if (done == 1 && stream->is_maker) {
        stream->base->holding = stream;
        return 1;
    }
    int error = post(stream); /* an alert, too, if it can be had */
    if (done < 0)
        return error_of(done);
    return error != 0 ? error : done;
}

static int begin_shaking(struct cop__stream *stream)
{
    struct cop__bytes nothing = {NULL, 0};
    int error = shake(stream, &nothing);
    if (error == 0 && !stream->pending)
        error = poll_for(stream, UV_READABLE);
    return error;
}

/* Whether there may be more of it. */
static bool decrypt_some(struct cop__stream *stream, struct cop__bytes *in)
{
    struct cop__stream_base *base = stream->base;
    ssize_t got = cop__channel_read(stream->channel, in, base->plain,
                                    sizeof base->plain, &base->out);
    /* What OpenSSL says by itself is an answer (to KeyUpdate): who does not read answers gets no
     * more of them kept. Honest members never ask. */
    bool is_deaf = base->out.used > 0 && stream->pending;
    int error = is_deaf ? UV_ENOBUFS : post(stream);
    if (is_deaf)
        base->out.used = 0;
    if (got < 0 || error != 0)
        end(stream, got < 0 ? error_of(got) : error);
    else if (got > 0)
        base->events->bytes(stream, base->plain, (size_t)got);
    return got > 0 && error == 0 && !is_closed(stream) && in->length > 0;
}

/* Whoever hears of it greets, and if not, the end of the handshake goes alone. */
static void tell_connected(struct cop__stream *stream)
{
    stream->base->events->connected(stream, 0);
    if (stream->base->holding == stream) {
        int error = post(stream);
        if (error != 0)
            end(stream, error);
    }
}

static void decrypt(struct cop__stream *stream, struct cop__bytes in)
{
    if (stream->is_shaking) {
        int done = shake(stream, &in);
        if (done < 0)
            end(stream, done);
        if (done != 1)
            return;
        stream->is_shaking = false;
        if (stream->is_maker)
            tell_connected(stream);
        if (is_closed(stream) || in.length == 0)
            return;
    }
    while (decrypt_some(stream, &in))
        ;
}

/* Each span is one record, or several if it is long; they are written together. */
static int write_encrypted(struct cop__stream *stream, const struct cop__batch *batch)
{
    struct cop__outbox *out = &stream->base->out;
    int error = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        const uint8_t *at = batch->spans[i].iov_base;
        size_t left = batch->spans[i].iov_len;
        while (left > 0 && error == 0) {
            size_t count = left < COP__RECORD_PLAIN ? left : COP__RECORD_PLAIN;
            if (out->used + COP__OUTBOX_ROOM > sizeof out->bytes)
                error = post(stream);
            if (error == 0 && cop__channel_write(stream->channel, at, count, out) != 0)
                error = UV_ENOMEM;
            at += count;
            left -= count;
        }
    }
    if (error == 0)
        error = post(stream);
    else
        let_go(stream);
    out->used = 0;
    return error != 0 ? error : stream->pending != NULL;
}

enum cop__fault cop__stream_fault(const struct cop__stream *stream, const char **detail)
{
    *detail = stream->channel ? cop__channel_detail(stream->channel) : "";
    return stream->channel ? cop__channel_fault(stream->channel) : COP__FAULT_BROKEN;
}

int cop__stream_reject(struct cop__stream *stream, enum cop__fault fault)
{
    if (stream->channel)
        cop__channel_reject(stream->channel, fault);
    return COP__STREAM_UNPROVEN;
}

void cop__stream_rest(struct cop__stream *stream)
{
    if (stream->channel)
        cop__channel_rest(stream->channel);
}

void cop__stream_mute(struct cop__stream *stream)
{
    let_run(stream, false);
    uv_poll_stop(&stream->uv);
}

bool cop__stream_is_named(const struct cop__stream *stream, const char *name)
{
    return !stream->channel || cop__channel_is_named(stream->channel, name);
}

bool cop__stream_is_current(const struct cop__stream *stream)
{
    return !stream->channel || stream->is_shaking ||
           cop__channel_is_current(stream->channel);
}

/* ---- both ------------------------------------------------------------------------ */

int cop__stream_write(struct cop__stream *stream, struct cop__batch *batch)
{
    COP_ASSERT(!stream->pending && !is_closed(stream) && !stream->is_shaking);
    if (stream->channel)
        return write_encrypted(stream, batch);
    ssize_t done = send_spans(stream, batch->spans, batch->count);
    if (done < 0)
        return (int)done;
    return (size_t)done == batch->bytes ? 0 : write_later(stream, batch, (size_t)done);
}

size_t cop__stream_backlog(const struct cop__stream *stream)
{
    return stream->pending ? stream->pending->length - stream->pending->done : 0;
}

/* ---- closing --------------------------------------------------------------------- */

static void on_close(uv_handle_t *handle)
{
    struct cop__stream *stream = handle->data;
    stream->base->events->closed(stream);
}

bool cop__stream_close(struct cop__stream *stream)
{
    if (is_closed(stream))
        return false;
    if (stream->base->holding == stream) {
        let_go(stream);
        stream->base->out.used = 0;
    }
    free(stream->pending);
    stream->pending = NULL;
    cop__channel_destroy(stream->channel);
    stream->channel = NULL;
    let_run(stream, false);
    uv_close((uv_handle_t *)&stream->uv, on_close);
    close(stream->fd);
    stream->fd = -1;
    return true;
}
