/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_STREAM_H
#define COPPICE_STREAM_H

#include <coppice/buf.h>
#include <coppice/tree.h>
#include <coppice/types.h>

#ifdef __cplusplus
extern "C" {
#endif

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
 * loses nothing that a later one does not say. With COP_STREAM_SINGLE a wave is by itself: it
 * comes out as the join of the k-th packets alone.
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
    /* Waves are single: what a back-end gave before, and what a lost one gave, is in no later
     * one. Every output is whole. While the tree mends itself a wave may be missing. */
    COP_STREAM_SINGLE = 8,
    /* It does not survive a loss: nothing is kept that only a loss would ask for, and it is
     * CLOSED (COP_ELOST) with the view in which it was opened. Only with COP_SYNC_ALL. */
    COP_STREAM_FRAGILE = 16,
};
#define COP_STREAM_FLAGS_ALL 31u

/*
 * COP_REQUEST_STREAM_OPEN, at the root of the view (elsewhere COP_ESTATE). The caller is its
 * front-end from then on. Opening one that is open is attaching to it. COP_EEXIST: it was
 * closed; COP_EINVAL: an option is not possible, or there is no such filter, or it (of levels: the
 * first) is not CUMULATIVE and the stream not COP_STREAM_SINGLE; COP_ETOOBIG: with it there would
 * be too many streams. The definitions of all that are open have to fit into one message: some
 * 5,000 where members were started together, 50 over a thousand that came one by one. COMPLETE at
 * once. `member` and `incarnation` of the request say whose it is: where both that one and the root
 * are lost it is closed, unless it is KEEP. 0: it is nobody's.
 */
struct cop_stream_options {
    uint64_t number;        /* the caller's own, never used again */
    uint64_t network;       /* streams of one network share a tree */
    struct cop_shape shape; /* of the network; kind 0: the view's. No tables */
    /* Name of a filter, type of packets, and parameters. "levels" has one for each level: see
     * cop_levels_valid. Its groups are those of the tree of now. COP_EINVAL where the view's shape
     * is a table, and the network has none of its own. */
    const char *filter;
    const char *type;
    const char *params; /* NULL: "" */
    enum cop_stream_sync sync;
    cop_time timeout_ns;
    uint32_t flags;
    uint32_t window; /* so many waves a back-end may be ahead of the front-end */
    /* Name of a filter down, for packets of the front-end; type of these (NULL: "bytes"), and
     * parameters (NULL: ""). A back-end is given what it makes of a packet at each place of the way
     * of the tree of now, from the top to the back-end, whoever carries it by then (T21). NULL: none.
     * COP_EINVAL where the view's shape is a table, and the network has none of its own. */
    const char *down;
    const char *down_type;
    const char *down_params;
    /* What cop_node_stream said of it where it was open before; NULL: nothing. A root that has not
     * heard of it, for it is a new life, then opens it as it was, and not anew. One that has it open
     * otherwise attaches to that, and what was taken of another does not count. */
    const struct cop_buf *definition;
};
#define COP_STREAM_WINDOW_MAX 1024u
/* Most bytes of a packet, up or down. */
#define COP_STREAM_PACKET_MAX (UINT32_C(1) << 18)

/* What a COP_EFFECT_STREAM says; `token` of the effect is the stream. */
enum cop_stream_event_kind {
    /* A stream was opened, and this member is a back-end of it: it may give packets. `wave` is
     * the number that its first packet has, less one; `key` what tells it from others to which two
     * front-ends gave one number. */
    COP_STREAM_OPENED = 1,
    /* It is over; `status` says why. Where a filter up has failed (T22) `bytes` are the name of it, at
     * the member at which it did, also if that is no back-end. */
    COP_STREAM_CLOSED = 2,
    COP_STREAM_ROOM = 3, /* after COP_EAGAIN: another packet may be given */
    /* `bytes` of the front-end, to every back-end once, in order. With a filter down: what that
     * makes of them, to those for whom it makes something. If it fails there are none, and `status`
     * says why: COP_EBUG it broke its word, COP_EINVAL it does not take such a packet,
     * COP_EMALFORMED, COP_ETOOBIG or COP_ENOMEM what it said itself. */
    COP_STREAM_DOWN = 4,
    /* To the front-end: a state. */
    COP_STREAM_OUTPUT = 5,
    /* To the front-end: all back-ends have its packets up to number `wave`. */
    COP_STREAM_REACHED = 7,
    /* To the front-end: this is not the root any more, or the stream is another one than it opened,
     * for the number was in use; attach to `root`. */
    COP_STREAM_MOVED = 6,
};

struct cop_stream_event {
    enum cop_stream_event_kind kind;
    uint64_t wave; /* OUTPUT, OPENED; DOWN: the number of the packet */
    /* OUTPUT: of the root that says it. A larger one replaces all that was said before. */
    uint64_t regeneration;
    uint64_t key; /* OPENED, CLOSED: see cop_stream_info */
    bool
        whole; /* the bytes are a state that replaces; otherwise to be joined with the last */
    /* Every back-end of the view is in it, once, with exactly its first `wave` packets. */
    bool complete;
    uint32_t covered;  /* back-ends that are in it */
    uint32_t departed; /* and those who are lost, and whose last value is in it */
    cop_id root;
    const void *bytes; /* borrowed */
    uint32_t length;
    int status; /* CLOSED: why; 0: somebody closed it, or (a back-end) that is not known;
                   COP_ELOST: it is FRAGILE; others: what the filter up said where it failed, or
                   COP_EBUG. DOWN: of the filter down */
};
/* COP_EMALFORMED. */
int cop_stream_event(const struct cop_buf *result, struct cop_stream_event *out);

struct cop_node;
struct cop_filter;
/* A back-end that is lost, and what it had given. */
struct cop_departed {
    cop_id leaf;
    cop_incarnation incarnation;
    uint64_t wave;
    const struct cop_buf *state; /* borrowed until the next step */
};
/* When a node lost its parent for the last time and found another one, in the time of its
 * events. 0: not yet. */
struct cop_stream_recovery {
    cop_time lost;    /* it knew that it had none */
    cop_time asked;   /* the one that took it */
    cop_time adopted; /* and was taken: its state goes there at once */
    uint32_t tries;   /* whom it asked */
};
/* For tests and tools: what a node holds of a stream. */
struct cop_stream_info {
    const struct cop_filter *filter;
    const struct cop_filter *down_filter; /* NULL: none */
    const char *type;                     /* of packets; borrowed until the next step */
    const struct cop_buf *definition;     /* what it is, as bytes; the same */
    uint64_t key; /* of these bytes: by it members name the stream among themselves */
    const struct cop_buf
        *empty;          /* the state of nothing, with the parameters; the same */
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
    struct cop_stream_recovery recovery; /* of its network */
};
/* COP_ENOENT. */
int cop_node_stream(const struct cop_node *node, uint64_t number,
                    struct cop_stream_info *out);
/* The i-th of the departed that it knows of. COP_ENOENT. */
int cop_node_departed(const struct cop_node *node, uint64_t number, uint32_t i,
                      struct cop_departed *out);

/* ---- programs that are members ---------------------------------------------------- */

/*
 * The same for a program that is a member by coppice/run.h, with its rules for threads and
 * callbacks. The front-end may be at any member: the library finds the root, goes with it when
 * it changes, and attaches again with what was taken. So it survives every death but its own.
 *
 * A back-end is told by `on_stream` of its settings that a stream has come, and gives packets:
 *
 *   static void on_stream(void *context, struct cop_run *run, uint64_t stream,
 *                         const struct cop_stream_event *event)
 *   {
 *       if (event->kind != COP_STREAM_OPENED && event->kind != COP_STREAM_ROOM)
 *           return;
 *       while (there is another number &&
 *              cop_stream_send(run, stream, &number, sizeof number) == 0)
 *           ...
 *   }
 *
 * and the front-end, on a thread of its own, gets the sum of all of them, wave by wave:
 *
 *   struct cop_stream_options options = {.filter = "sum", .type = "u64"};
 *   uint64_t stream;
 *   struct cop_stream_output output;
 *   cop_stream_open(run, &options, NULL, NULL, &stream);
 *   while (cop_stream_wait(run, stream, COP_SEC, &output) == 0) {
 *       printf("wave %llu: %llu%s\n", output.event.wave,
 *              cop_filter_get_u64(output.result->data),
 *              output.event.complete ? "" : " (transient)");
 *       cop_stream_output_free(&output);
 *   }
 *
 * A back-end that never gives holds up all waves, unless the stream does not wait
 * (COP_SYNC_TIMEOUT, COP_SYNC_NONE). Filters of a shared object (cop_plugin_load) are given to
 * the settings of all members, and are named like those of the library.
 */
struct cop_run;

/*
 * What a front-end is told: OUTPUT, of which `bytes` are always the whole state; REACHED; and
 * CLOSED, after which nothing comes. Its `status` says why: COP_EINVAL an option is not
 * possible at the root, COP_EEXIST another front-end has attached or the number was used before,
 * COP_ETOOBIG a state is too large for the way to here, or there are too many streams, COP_ELOST
 * somebody is lost and it is COP_STREAM_FRAGILE, COP_ESTATE or COP_EREMOVED the run is over. Where
 * the filter fails at a member, which its log names, it is what the filter said: COP_ENOMEM,
 * COP_ETOOBIG, COP_EINVAL, COP_EMALFORMED, or COP_EBUG if it broke its word.
 */
typedef void cop_stream_told(void *context, struct cop_run *run, uint64_t stream,
                             const struct cop_stream_event *event);

/*
 * Opens a stream over all members of the view, of which this program is the front-end; or
 * attaches to one that is open, if `number` of the options is its. 0 in these options is the
 * default: a `number` that nobody has, and a `window` of 64. `told` is called from then on,
 * and what it was told is taken when it returns; without it use cop_stream_wait. *out gets the
 * number.
 *   COP_EINVAL   an option is not possible, or there is no such filter
 *   COP_EEXIST   this program is its front-end already, or it was closed
 *   COP_ESTATE   it is no member, or views do not change
 * Waits for the library's thread, if this is another one; so do all of the following.
 */
int cop_stream_open(struct cop_run *run, const struct cop_stream_options *options,
                    cop_stream_told *told, void *context, uint64_t *out);
/* Closes it, everywhere. Nothing is told any more. COP_ENOENT: this is not its front-end. */
int cop_stream_close(struct cop_run *run, uint64_t stream);
/* Is its front-end no longer; it stays open if it is COP_STREAM_KEEP. COP_ENOENT. */
int cop_stream_detach(struct cop_run *run, uint64_t stream);

/* What was put out. The buffers are the caller's. */
struct cop_stream_output {
    struct cop_stream_event event; /* its bytes are those of `state` */
    struct cop_buf *state;
    struct cop_buf *result; /* what the state says: see cop_filter_result */
};
/*
 * With a thread, and without `told`: waits for an output that was not taken yet, and takes it.
 * Of several the last: it has all that the others had. COP_ETIMEDOUT; COP_ENOENT this is not its
 * front-end, or no longer.
 */
int cop_stream_wait(struct cop_run *run, uint64_t stream, cop_time timeout_ns,
                    struct cop_stream_output *out);
/* Gives the buffers back. */
void cop_stream_output_free(struct cop_stream_output *output);
/* What the state of an OUTPUT says, from `told`. The errors of cop_filter_result; COP_ENOENT. */
int cop_stream_result(struct cop_run *run, uint64_t stream,
                      const struct cop_stream_event *event, struct cop_buf **out);

/*
 * Bytes from the front-end to every back-end, once and in order; or what the filter down makes of
 * them. Copied. COP_EAGAIN: as many as the window have not come to all; again after REACHED.
 * COP_EINVAL: they are not of the `down_type` with which it was opened here; COP_ETOOBIG; COP_ENOENT.
 */
int cop_stream_multicast(struct cop_run *run, uint64_t stream, const void *bytes,
                         size_t length);

/*
 * The next packet of the back-end here: one value of the type of the stream, e.g. 8 bytes of
 * a u64, little-endian. Copied.
 *   COP_EAGAIN   the front-end is a whole window behind; on_stream says when there is ROOM
 *   COP_EINVAL   it is not of that type, or the filter does not take it
 *   COP_ENOENT   there is no such stream here, or not yet; or it has just given way to another one
 *                of the number, and on_stream is about to say CLOSED, and OPENED of that one
 *   COP_EBUG     the filter broke its word, or had no memory; COP_EMALFORMED, COP_ETOOBIG it said so.
 *                The log names it. The packet was not taken, and the stream goes on
 */
int cop_stream_send(struct cop_run *run, uint64_t stream, const void *bytes,
                    size_t length);
/* Waits until there is room in the stream that there is now. Also COP_ETIMEDOUT. */
int cop_stream_send_wait(struct cop_run *run, uint64_t stream, const void *bytes,
                         size_t length, cop_time timeout_ns);
/*
 * The same, for programs that give from other threads: to the stream of which OPENED said `key`, and to
 * no other of its number, of which this thread has not heard yet (COP_ENOENT). Waits for room up to
 * `timeout_ns` (COP_ETIMEDOUT), or does not (0: COP_EAGAIN).
 */
int cop_stream_give(struct cop_run *run, uint64_t stream, uint64_t key,
                    const void *bytes, size_t length, cop_time timeout_ns);
/* What this member holds of a stream; the pointers in it are valid in a callback only. */
int cop_stream_info(struct cop_run *run, uint64_t stream, struct cop_stream_info *out);

#ifdef __cplusplus
}
#endif

#endif
