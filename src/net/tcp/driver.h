/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_NET_TCP_DRIVER_H
#define COP_NET_TCP_DRIVER_H

#include "base/log.h"
#include "net/tcp/limits.h"

#include <coppice/node.h>
#include <coppice/stats.h>
#include <sys/socket.h>
#include <uv.h>

/*
 * The driver that runs one node over stream sockets (TCP or Unix) on a libuv loop. It
 * keeps the promises listed in coppice/node.h. Everything happens on the loop's
 * thread.
 */
struct cop__tcp;
struct cop__runner;
struct cop__tls;

/* Where a member listens. `length` 0: address not known. */
struct cop__address {
    struct sockaddr_storage storage;
    socklen_t length;
};

struct cop__tcp_config {
    uv_loop_t *loop;
    struct cop__runner *runner; /* of the loop, if it has one (runner.h) */
    /* `upcall`, `piece`, `complete` and `stream` touch nothing of libuv's: they may be
     * called on the runner's short way. */
    bool is_swift;
    /* Otherwise: so does `complete` of tokens that have one of these bits, or it says so
     * (cop__tcp_used_loop). */
    uint64_t swift_tokens;
    uint8_t cluster[16]; /* id of the cluster; peers of another one are refused */
    uint64_t instance;   /* which start of the cluster; part of its identity */
    cop_id self;
    cop_incarnation incarnation;
    struct cop_view *view;
    struct cop_stats *stats;
    const struct cop_log *log;

    /* Views that change, and one who joins: as in struct cop_config. */
    enum cop_quorum quorum;
    const cop_id *quorum_ids;
    uint32_t quorum_count;
    struct cop_detect detect;
    uint32_t guard;
    const char *name, *where; /* `where`: its address as the others are told it */
    bool spare;
    const struct cop_service *services; /* as there */
    uint32_t service_count;
    const struct cop_operation *operations; /* as there: not copied */
    uint32_t operation_count;
    const struct cop_filter *const *filters; /* the same */
    uint32_t filter_count;

    /*
     * What TCP connections are encrypted with, and both sides of them prove who they are
     * (net/tls/tls.h); borrowed. NULL: whoever can connect is believed. Unix sockets are
     * never encrypted, and are for processes of the same user and of root.
     */
    struct cop__tls *tls;
    /* Over Unix sockets too all bulk is sent, and none read in the memory of its sender. */
    bool no_reads;

    int listen_fd; /* bound and listening, TCP or Unix; the driver owns it from now on */
    /* The address of a member; called when one is needed. 0 or COP_ENOENT. */
    int (*address)(void *context, cop_id id, struct cop__address *out);
    /*
     * The name that the certificate of a member must have, where there are certificates. 0
     * or COP_ENOENT: it joins, and says with JOIN how it is called. NULL: names are not
     * looked at, and whoever has a certificate can be anybody.
     */
    int (*name_of)(void *context, cop_id id, char *out, size_t size);
    /* A request ended. `result` is borrowed. */
    void (*complete)(void *context, uint64_t token, int status, struct cop_buf *result);
    /*
     * The effects VIEW, DEGRADED, DELIVER and OUT, in their order among the completions; the view is
     * borrowed. After `out` the driver is of no more use, but to be closed, which may be
     * done from there.
     */
    void (*installed)(void *context, struct cop_view *view);
    void (*degraded)(void *context, bool is_degraded);
    /* Bytes of another member, in the view that was installed last. Borrowed. */
    void (*deliver)(void *context, cop_id from, cop_incarnation incarnation,
                    struct cop_buf *bytes);
    /* The same on another channel than 0. NULL: such are dropped. */
    void (*letter)(void *context, int channel, cop_id from, cop_incarnation incarnation,
                   struct cop_buf *bytes);
    void (*out)(void *context, int why);
    /* A service is to do something: the record of an UPCALL effect. Borrowed. */
    void (*upcall)(void *context, struct cop_buf *record);
    /* The same for a PIECE, with what is beside the record. NULL: `upcall`, without. */
    void (*piece)(void *context, struct cop_buf *record, struct cop_buf *beside);
    /* The effect STREAM: something of a stream, for its front-end or the back-end here. NULL:
     * nobody is one. */
    void (*stream)(void *context, uint64_t stream, struct cop_buf *event);
    /* The effects HELD and SUSPICION. NULL: nobody wants to know. */
    void (*held)(void *context);
    void (*suspicion)(void *context);
    /*
     * Somebody who is no member, and need not become one, sent a COMMAND to the address of
     * members. NULL: such are cut off. The payload is borrowed.
     */
    void (*guest)(void *context, uint64_t guest, const struct cop_buf *command);
    /* The node stopped for good (see cop_step): the process should end. */
    void (*failed)(void *context, int error);
    void *context;

    /* 0 takes the default. */
    cop_time connect_timeout_ns; /* then PEER_DOWN(SILENT) */
    cop_time idle_close_ns;      /* unneeded connections are closed after this */
    cop_time handshake_timeout_ns;
    uint32_t connections_max; /* strangers waiting for their handshake */
};

/* What the driver counts beside the node's own statistics. */
struct cop__tcp_stats {
    uint64_t connects, accepts, connections; /* made, taken, open now */
    uint64_t refused_version, refused_cluster, refused_identity, refused_garbage;
    uint64_t handshakes;         /* of TLS that we began and that succeeded */
    uint64_t handshakes_awaited; /* those for which somebody waited (warm.h) */
    uint64_t timed_out, resent_frames, acks_sent, writes, reads;
    uint64_t backlog_bytes;
    uint64_t skipped_frames;   /* of an unknown kind or a newer minor version */
    uint64_t dropped_frames;   /* for a peer for whom too many were waiting already */
    uint64_t shortages;        /* how often descriptors, memory or ports were short */
    uint64_t aged_out;         /* connections closed because nobody used them */
    uint64_t refused_unproven; /* connections whose other side did not prove itself */
    uint64_t refused_rate;     /* connections that came too fast from one address */
    uint64_t payloads_read;    /* in the memory of their senders (sight.h) */
    uint64_t payloads_unseen;  /* that could not be, and were sent after all */
};

/*
 * Another descriptor of a listening socket, with a high number; -1 and errno. Linux closes those
 * of a process that was killed from the highest down, so that whoever sees a connection end is
 * refused when it looks whether the process lives: with a low one it would be let in by a
 * process that is just dying, and know no more until that has closed all it had.
 */
int cop__tcp_dup_listener(int fd);
/*
 * The next who waits at a listening socket: a descriptor, non-blocking and closed on exec, and
 * where it is from. UV_EAGAIN: nobody waits. UV_EINTR: try again, that one has gone. Otherwise
 * something is short, and will be the next time, too: a pause is needed.
 */
int cop__tcp_take(int listen_fd, cop__origin *from);

/*
 * 0; COP_EINVAL (`self` is not in a fixed view, or `incarnation` is 0, which stands for "not
 * known" between drivers), COP_ENOMEM, COP_EIO. On failure the listening descriptor is
 * closed; if the loop is not closed at once, run it, so that libuv lets go of its handles.
 * The first event of the node, a TICK, comes from the loop.
 */
int cop__tcp_create(const struct cop__tcp_config *config, struct cop__tcp **out);
/*
 * Hands a request to the node; result of cop_step. Completion comes by `complete`, always
 * from the loop and never before this returns. May be called from `complete`, not from
 * `address`.
 */
int cop__tcp_submit(struct cop__tcp *tcp, const struct cop_request *request);

/* A callback that may be told on the runner's short way has used libuv after all. */
void cop__tcp_used_loop(struct cop__tcp *tcp);
const struct cop_node *cop__tcp_node(const struct cop__tcp *tcp);
/* The latest life of this member that a peer said it knows, later than this; 0: none did. */
cop_incarnation cop__tcp_outlived_by(const struct cop__tcp *tcp);
const struct cop__tcp_stats *cop__tcp_stats(const struct cop__tcp *tcp);
/*
 * Sends a guest bytes, a record with a REPLY in it; it may ask again after that. One who has
 * gone, or does not read, gets nothing.
 */
void cop__tcp_answer(struct cop__tcp *tcp, uint64_t guest, const struct cop_buf *bytes);
/* Whether a guest has proved to be called this, where names are proved. */
bool cop__tcp_guest_is(const struct cop__tcp *tcp, uint64_t guest, const char *name);
/*
 * The keys of `tls` have changed: connections that were made with one that is no longer
 * accepted are made again. Nothing is lost by that.
 */
void cop__tcp_rekeyed(struct cop__tcp *tcp);
/* Says BYE to everyone, closes all handles, then calls `closed` (may be NULL) from the loop. */
void cop__tcp_close(struct cop__tcp *tcp, void (*closed)(void *context));

#endif
