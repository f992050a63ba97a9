/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_NET_PACKET_HOST_H
#define COP_NET_PACKET_HOST_H

#include <coppice/node.h>

/*
 * A node on a network that carries packets between processes that are known by number, and
 * knows no connections (MPI, endpoints of libfabric). Keeps the promises of coppice/node.h:
 * frames in order, once and whole; PEER_UP before the first frame of a life. What a connection
 * would be is a question and its answer (HELLO, WELCOME): who does not answer in time is
 * silent, and whether it is dead is for others to say.
 *
 * What carries the packets, the *carrier*, calls cop__host_arrived for each that comes, and
 * then cop__host_settle once. Everything happens on the caller's thread, inside these calls.
 */
struct cop__host;
struct cop__remote; /* net/packet/pair.h */

struct cop__carrier {
    /*
     * Room for a packet of packet_bytes; the same once more if nothing was sent in it.
     * COP_EAGAIN: none just now; others end the node.
     */
    int (*room)(void *context, cop_id peer, uint8_t **out);
    /*
     * Sends what is in it. COP_ELOST: it cannot be sent, and so nothing more to this peer
     * can; others end the node.
     */
    int (*send)(void *context, cop_id peer, uint8_t *packet, size_t length);
    /* No view has it any more: what has not gone to it need not be waited for. May be NULL. */
    void (*forget)(void *context, cop_id peer);
    /*
     * These where others can read memory of this process, or NULL. Payloads of bulk frames
     * from `fetch_least` bytes on are then not sent.
     * expose: others may read it; `region` is what conceal gets, which takes that back. Not
     * 0: this one is sent after all.
     */
    uint32_t fetch_least;
    int (*expose)(void *context, struct cop_buf *payload, struct cop__remote *out,
                  void **region);
    void (*conceal)(void *context, void *region);
    /*
     * Reads into `payload`, of which it keeps a reference for as long as it may write there.
     * Ends with one cop__host_fetched. COP_EAGAIN: not just now; others: it cannot be read.
     */
    int (*fetch)(void *context, cop_id peer, uint32_t number,
                 const struct cop__remote *from, struct cop_buf *payload);
};

struct cop__host_config {
    struct cop_config node; /* `now` is ours; the view has all processes */
    size_t packet_bytes;
    struct cop__carrier carrier;
    void *carrier_context;
    /* Every effect but SEND, CONNECT and CLOSE; borrowed. Only from cop__host_settle. */
    void (*effect)(void *context, const struct cop_effect *effect);
    void *context;
    cop_time hello_timeout_ns; /* then PEER_DOWN(SILENT); 0: 10 s */
    uint64_t queue_max; /* a peer for whom more bytes wait is given up; 0: 64 MiB */
};

struct cop__host_stats {
    uint64_t sent, received;   /* packets */
    uint64_t early;            /* that came before their turn */
    uint64_t bare;             /* sent without a frame */
    uint64_t malformed;        /* of those that came */
    uint64_t dropped;          /* frames for one who takes nothing any more */
    uint64_t offered, fetched; /* payloads that were not sent but read */
};

int cop__host_create(const struct cop__host_config *config, struct cop__host **out);
void cop__host_destroy(struct cop__host *host);
/* Result of cop_step. May be called from `effect`. Sends what comes of it. */
int cop__host_submit(struct cop__host *host, const struct cop_request *request);
/* A packet came from `peer`; borrowed. */
void cop__host_arrived(struct cop__host *host, cop_id id, const uint8_t *packet,
                       size_t length);
/* What cop__carrier.fetch began has ended; `error` not 0: without the payload. */
void cop__host_fetched(struct cop__host *host, cop_id id, uint32_t number, int error);
/* The network says that `peer` cannot be reached just now. */
void cop__host_lost(struct cop__host *host, cop_id id, enum cop_down why);
/* The same, and a packet for it is lost: it is not spoken to again. */
void cop__host_cut(struct cop__host *host, cop_id id, enum cop_down why);
/*
 * Does what is due, sends what waits, tells what happened. How many effects were told, or
 * the error that has ended the node.
 */
int cop__host_settle(struct cop__host *host);
/* When cop__host_settle has something to do even if nothing comes. */
cop_time cop__host_deadline(const struct cop__host *host);
/* Whether anything waits for room or for the other side to take more. */
bool cop__host_is_owing(const struct cop__host *host);
const struct cop_node *cop__host_node(const struct cop__host *host);
const struct cop__host_stats *cop__host_stats(const struct cop__host *host);
cop_time cop__host_now(void);

#endif
