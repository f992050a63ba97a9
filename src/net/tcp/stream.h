/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_NET_TCP_STREAM_H
#define COP_NET_TCP_STREAM_H

#include <sys/socket.h>
#include <uv.h>

#include "net/tcp/link.h"
#include "net/tcp/runner.h"
#include "net/tls/channel.h"

/*
 * A stream of bytes between two processes: TCP or a Unix socket. What is above knows only
 * these functions and events. TCP is encrypted if the base has something to do that with:
 * then `connected` comes after the other side has proved who it is, and before that no byte
 * of a connection that was taken is handed up. Unix sockets are not: the kernel says who is
 * at the other end, and whoever is neither this user nor root is not adopted.
 *
 * libuv says when a socket is ready; reading and writing is done here, with one system call
 * for each message and no signal if the other side is gone. Errors are libuv's (negative
 * errno, UV_EOF).
 */
struct cop__stream;

/* Called from the loop only, never from inside one of the functions below. */
struct cop__stream_events {
    void (*connected)(struct cop__stream *stream, int error);
    void (*bytes)(struct cop__stream *stream, const uint8_t *data, size_t length);
    void (*ended)(struct cop__stream *stream, int error); /* still to be closed */
    void (*drained)(struct cop__stream *stream); /* all that was pending is written */
    void (*closed)(struct cop__stream *stream);  /* its memory may be freed */
};

/* What all streams of a driver share. Messages are small, and a process that is one of
 * hundreds has a cold cache whenever it wakes: so one space for everything. */
#define COP__STREAM_SPACE (64u << 10)
struct cop__stream_base {
    uv_loop_t *loop;
    struct cop__runner *runner; /* NULL: libuv alone runs the loop */
    const struct cop__stream_events *events;
    uint64_t *reads, *writes; /* system calls, counted where others want to see them */
    bool is_reading;          /* `bytes` is being called: its data are in the space */
    struct cop__tls *tls;     /* for TCP; NULL: nothing is encrypted */
    struct cop__stream *holding; /* its bytes wait in `out`; NULL: there are none */
    uint8_t space[COP__STREAM_SPACE]; /* to read into; free for others in between */
    uint8_t plain[COP__RECORD_PLAIN]; /* what was read, decrypted */
    struct cop__outbox out;           /* what is to be written, encrypted */
};

struct cop__pending;
struct cop__stream {
    uv_poll_t uv;
    struct cop__stream_base *base;
    int fd; /* -1: there is nothing to be closed */
    bool is_connecting;
    bool is_maker;   /* we made the connection */
    bool is_shaking; /* the other side has yet to prove who it is */
    bool is_local;   /* a Unix socket: the kernel knows whose the other end is */
    struct cop__channel *channel; /* NULL: not encrypted */
    struct cop__pending *pending; /* bytes that the kernel did not take yet */
};

/* The other side is not one of us: see cop__stream_fault. */
#define COP__STREAM_UNPROVEN UV_EPROTO

void cop__stream_init(struct cop__stream *stream, struct cop__stream_base *base);
/* 1: connected at once. 0: `connected` will be called. Otherwise the error. */
int cop__stream_connect(struct cop__stream *stream, const struct sockaddr *address,
                        socklen_t length);
/* Sets what TCP is to do on a socket; those that a listening one takes have it from that. */
int cop__stream_tune(int fd);
/* Whether the process at the other end of a Unix socket is of our user, or root's: whoever could
 * write to our files, or trace us, is not kept out by asking it. */
bool cop__stream_is_same_user(int fd);
/*
 * Takes a connected, non-blocking socket, and owns it even if it fails. UV_EACCES: it is a
 * Unix socket of another user.
 */
int cop__stream_adopt(struct cop__stream *stream, int fd, int family);
/* From now on `bytes` and `ended` come. */
int cop__stream_read(struct cop__stream *stream);
/* It is readable: for the runner. */
void cop__stream_take(struct cop__stream *stream);
/*
 * Writes a batch with one system call. 0: all of it. 1: the rest is pending; write nothing
 * before `drained`. Otherwise the error (UV_ENOMEM too): the connection is of no more use.
 */
int cop__stream_write(struct cop__stream *stream, struct cop__batch *batch);
/* Why it ended with COP__STREAM_UNPROVEN, and what is known beyond that; until it is closed. */
enum cop__fault cop__stream_fault(const struct cop__stream *stream,
                                  const char **detail);
/* Says why it is of no use although it is connected; returns COP__STREAM_UNPROVEN. */
int cop__stream_reject(struct cop__stream *stream, enum cop__fault fault);
/* It will not be used for a while. */
void cop__stream_rest(struct cop__stream *stream);
/* It has ended: nothing more is heard of it. */
void cop__stream_mute(struct cop__stream *stream);
/* All is said for now: what comes next is a question. */
void cop__stream_pause(struct cop__stream *stream);
/* Whether the other side has proved to be called this, where names are proved. */
bool cop__stream_is_named(const struct cop__stream *stream, const char *name);
/* Whether what it was made with is still accepted. */
bool cop__stream_is_current(const struct cop__stream *stream);
/* How many bytes are pending. */
size_t cop__stream_backlog(const struct cop__stream *stream);
/* Whether `closed` will be called; if not, there was nothing to close. */
bool cop__stream_close(struct cop__stream *stream);

#endif
