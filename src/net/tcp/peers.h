/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_NET_TCP_PEERS_H
#define COP_NET_TCP_PEERS_H

#include "net/tcp/clock.h"
#include "net/tcp/driver.h"
#include "net/tcp/handshake.h"

/*
 * All the members that we talk to, and the connections to them: the promises 4 to 8 of
 * coppice/node.h. What comes of it is told as events; this knows nothing of a node.
 *
 * Which connections stay:
 *   - We need one while our node says so (CONNECT until CLOSE), and while frames are kept
 *     that the other side has not counted.
 *   - Every record carries the flag KEEP while our node says so, so each side knows the
 *     other's wish; a change of it is told at once.
 *   - One that is held in reserve is needed, too, but nobody waits for it: whether it can
 *     be had is no news. That it has ended is looked at a moment later, or when somebody
 *     asks for it: many end at once, with a member whose death keeps others busy.
 *   - A connection that neither side needs is closed with BYE by whoever first finds it
 *     unused for idle_close_ns. BYE is no sign of death: a side that needs the connection
 *     after all makes it again, and only if that fails there is a PEER_DOWN.
 *
 * Who tries again:
 *   - If a connection breaks: PEER_DOWN. Then once more, if there are frames to be sent.
 *   - If a new one is cut before the handshake is over, or cannot be taken for now: after a
 *     pause, as long as connect_timeout_ns since the first attempt has not passed.
 *   - If we are short of something ourselves (descriptors, memory, ports): after a pause,
 *     for ever; our own need says nothing about the other side.
 *   - Otherwise nobody: PEER_DOWN, and the node decides.
 */
struct cop__peers;

struct cop__peers_config {
    struct cop__identity identity;
    struct cop__clock *clock;
    uv_loop_t *loop;
    struct cop__runner *runner; /* may be NULL */
    struct cop__tls *tls;       /* may be NULL */
    const struct cop_log *log;
    struct cop__tcp_stats *stats;
    int listen_fd; /* owned from now on; -1 for none */
    cop_time connect_timeout_ns, idle_close_ns, handshake_timeout_ns;
    cop_time patient_until; /* whom we never met may be starting: nobody is refused */
    uint32_t strangers_max;
    uint32_t acquaintances_max; /* whom nobody knows, and who are gone: about so many */
    bool no_reads; /* everything is sent, and nothing read where it lies (sight.h) */

    int (*address)(void *context, cop_id id, struct cop__address *out);
    int (*name_of)(void *context, cop_id id, char *out, size_t size); /* or NULL */
    void *address_context;                                            /* of both */
    /* PEER_UP, PEER_DOWN, RECV and SENT; may be called from inside the functions below. */
    void (*event)(void *context, const struct cop_event *event);
    /* The latest incarnation of a member that anybody has told us of. */
    cop_incarnation (*known)(void *context, cop_id id);
    /* Somebody knows a later life of ours than this; 0: it does not say which. */
    void (*outlived)(void *context, cop_incarnation later);
    /* A command of somebody who is not a member; NULL: there are no guests. */
    void (*guest)(void *context, uint64_t guest, struct cop_buf *command);
    /* A connection that was held in reserve was lost, or could not be made. */
    void (*cooled)(void *context);
    void *context;
};

/* 0, COP_ENOMEM, or COP_EIO if the listening descriptor is of no use. On failure the
 * descriptor is closed. */
int cop__peers_create(const struct cop__peers_config *config, struct cop__peers **out);
/* Closes everything, then calls `closed` from the loop; nothing else is called any more. */
void cop__peers_close(struct cop__peers *peers, void (*closed)(void *context),
                      void *context);

/* Sends a frame, now or as soon as there is a connection. 0 or COP_ENOMEM. */
int cop__peers_send(struct cop__peers *peers, cop_id id, const struct cop_frame *frame);
/* The node needs a connection to this member; it no longer does. 0 or COP_ENOMEM. */
int cop__peers_keep(struct cop__peers *peers, cop_id id);
int cop__peers_release(struct cop__peers *peers, cop_id id);
/* A connection to this member is held in reserve; it no longer is. */
void cop__peers_warm(struct cop__peers *peers, cop_id id);
void cop__peers_cool(struct cop__peers *peers, cop_id id);

/* Sends a guest bytes, if it is still there and has read what it got before. */
void cop__peers_answer(struct cop__peers *peers, uint64_t guest,
                       const struct cop_buf *bytes);

/* Whether a guest that is still there has proved to be called this. */
bool cop__peers_guest_is(const struct cop__peers *peers, uint64_t guest,
                         const char *name);

/* Writes what was sent since the last time: one system call for each peer. */
void cop__peers_flush(struct cop__peers *peers);
bool cop__peers_is_dirty(const struct cop__peers *peers);

/* Makes connections again whose keys are no longer accepted. */
void cop__peers_renew(struct cop__peers *peers);

/* Breaks the connection to a member as if the network had (tests). COP_ENOENT if there is
 * none. */
int cop__peers_cut(struct cop__peers *peers, cop_id id);

#endif
