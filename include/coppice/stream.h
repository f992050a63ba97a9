/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_STREAM_H
#define COPPICE_STREAM_H

#include <coppice/buf.h>
#include <coppice/tree.h>
#include <coppice/types.h>

/*
 * Streams: back-ends give packets, every process on the way up a tree joins what comes from
 * below with a filter (coppice/filter.h), and a front-end gets one state for each wave; packets
 * of the front-end go down the same tree.
 *
 * A *network* is a tree over all members of the view; its root is the root of the view. It is
 * there as long as a stream of it is. Who loses its parent finds another one by itself, and
 * what it sends then makes up for all that was lost on the way; see docs/streams.md.
 *
 * The *front-end* is an application at the root: it opens streams, takes their output, and sends
 * down. When the root changes it attaches to the new one, with what it has taken so far. Every
 * *back-end* is an application at a member; a member that joins or returns is one too.
 *
 * A *wave* is one packet of every back-end. Packets are cumulative: wave k comes out as the
 * join of all packets that each back-end gave up to its k-th. So an output that is never seen
 * loses nothing that a later one does not say.
 *
 * Needs views (COP_QUORUM_FIXED: COP_EINVAL), and at all members the same filters.
 */

enum cop_stream_sync {
    COP_SYNC_ALL = 0,     /* a wave goes up when all below have given it */
    COP_SYNC_TIMEOUT = 1, /* or when `timeout_ns` is over since the first of it came */
    COP_SYNC_NONE = 2,    /* whatever comes goes up */
};

enum cop_stream_flag {
    /* Not every member is a back-end: only those without children in the tree of the view
     * in which the stream was opened, and whoever comes later. */
    COP_STREAM_LEAVES = 1,
    /* What a back-end gave is taken back when it is lost; otherwise its last value stays. */
    COP_STREAM_WITHDRAW = 2,
    /* It stays open without a front-end. */
    COP_STREAM_KEEP = 4,
};
#define COP_STREAM_FLAGS_ALL 7u

/*
 * COP_REQUEST_STREAM_OPEN, at the root of the view (elsewhere COP_ESTATE). The caller is its
 * front-end from then on. Opening one that is open is attaching to it. COP_EEXIST: it was
 * closed; COP_EINVAL: an option is not possible, or there is no such filter, or it is not
 * CUMULATIVE. COMPLETE at once.
 */
struct cop_stream_options {
    uint64_t number;        /* the caller's own, never used again */
    uint64_t network;       /* streams of one network share a tree */
    struct cop_shape shape; /* of the network; kind 0: the view's. No tables */
    const char *filter;     /* name of a filter, type of packets, and parameters */
    const char *type;
    const char *params; /* NULL: "" */
    enum cop_stream_sync sync;
    cop_time timeout_ns;
    uint32_t flags;
    uint32_t window; /* so many waves a back-end may be ahead of the front-end */
};
#define COP_STREAM_WINDOW_MAX 1024u
/* Most bytes of a packet, up or down. */
#define COP_STREAM_PACKET_MAX (UINT32_C(1) << 18)

/* What a COP_EFFECT_STREAM says; `token` of the effect is the stream. */
enum cop_stream_event_kind {
    /* A stream was opened, and this member is a back-end of it: it may give packets. `wave` is
     * the number that its first packet has, less one. */
    COP_STREAM_OPENED = 1,
    COP_STREAM_CLOSED = 2,
    COP_STREAM_ROOM = 3, /* after COP_EAGAIN: another packet may be given */
    COP_STREAM_DOWN =
        4, /* `bytes` of the front-end, to every back-end once, in order */
    /* To the front-end: a state. */
    COP_STREAM_OUTPUT = 5,
    /* To the front-end: all back-ends have its packets up to number `wave`. */
    COP_STREAM_REACHED = 7,
    /* To the front-end: this is not the root any more; attach to `root`. */
    COP_STREAM_MOVED = 6,
};

struct cop_stream_event {
    enum cop_stream_event_kind kind;
    uint64_t wave; /* OUTPUT, OPENED; DOWN: the number of the packet */
    /* OUTPUT: of the root that says it. A larger one replaces all that was said before. */
    uint64_t regeneration;
    bool
        whole; /* the bytes are a state that replaces; otherwise to be joined with the last */
    /* Every back-end of the view is in it, once, with exactly its first `wave` packets. */
    bool complete;
    uint32_t covered;  /* back-ends that are in it */
    uint32_t departed; /* and those who are lost, and whose last value is in it */
    cop_id root;
    const void *bytes; /* borrowed */
    uint32_t length;
};
/* COP_EMALFORMED. */
int cop_stream_event(const struct cop_buf *result, struct cop_stream_event *out);

struct cop_node;
/* A back-end that is lost, and what it had given. */
struct cop_departed {
    cop_id leaf;
    cop_incarnation incarnation;
    uint64_t wave;
    const struct cop_buf *state; /* borrowed until the next step */
};
/* For tests and tools: what a node holds of a stream. */
struct cop_stream_info {
    uint64_t wave;       /* of the last state that it made */
    uint64_t mark;       /* and the last that the front-end is known to have taken */
    uint64_t given;      /* packets by the back-end here */
    cop_id parent;       /* COP_ID_NONE: none, or it is the root */
    bool root, attached; /* is the root; has a way to it */
    uint32_t children;   /* whose states it holds */
    uint32_t queued;     /* waves that wait, at most, of one of them */
    uint32_t window;     /* and so many may */
    uint32_t departed;   /* back-ends that are lost */
    uint32_t kept;       /* packets down that are kept */
    uint64_t down;       /* the last of them */
};
/* COP_ENOENT. */
int cop_node_stream(const struct cop_node *node, uint64_t number,
                    struct cop_stream_info *out);
/* The i-th of the departed that it knows of. COP_ENOENT. */
int cop_node_departed(const struct cop_node *node, uint64_t number, uint32_t i,
                      struct cop_departed *out);

#endif
