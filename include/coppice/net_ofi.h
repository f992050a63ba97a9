/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_NET_OFI_H
#define COPPICE_NET_OFI_H

#include <coppice/node.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A node (coppice/node.h) whose frames go over libfabric: reliable datagram endpoints
 * (FI_EP_RDM) of any provider that has messages. In libcoppice-ofi.
 *
 * Endpoints have names that the program hands around by its own means (a launcher, a file,
 * MPI) between the two steps:
 *
 *   struct cop_ofi *ofi;
 *   char why[200];
 *   if (cop_ofi_open("tcp;ofi_rxm", NULL, &ofi, why, sizeof why) != 0)
 *       errx(1, "%s", why);
 *   cop_ofi_name(ofi, &mine);
 *   ... all processes have the names of all ...
 *   struct cop_ofi_config config = {
 *       .size = sizeof config, .names = names, .count = n, .self = rank,
 *       .incarnation = start, .effect = on_effect,
 *       .node = {.quorum = COP_QUORUM_NONE, .detect = {.ring_period_ns = 100 * COP_MSEC}}};
 *   cop_ofi_start(ofi, &config, why, sizeof why);
 *   while (!done)
 *       cop_ofi_wait(ofi, COP_TIME_NEVER);
 *   cop_ofi_destroy(ofi, COP_SEC);
 *
 * Progress, threads and failures are as with coppice/net_mpi.h: everything happens inside
 * cop_ofi_progress and cop_ofi_wait, by one thread at a time; who does not call them for
 * longer than the ring waits is taken for dead. That a packet could not be sent is no death
 * either; but numbers would be missing, so that peer is not spoken to again.
 */
struct cop_ofi;

/* The longest name of an endpoint. */
#define COP_OFI_NAME_MAX 240u
/* The name of an endpoint: bytes that the same provider understands. */
struct cop_ofi_name {
    uint32_t length;
    uint8_t bytes[COP_OFI_NAME_MAX];
};

/* All zero but for the first six is a good beginning. */
struct cop_ofi_config {
    size_t size;                      /* sizeof(struct cop_ofi_config) */
    const struct cop_ofi_name *names; /* of all members, by id */
    uint32_t count;
    cop_id self;
    cop_incarnation incarnation; /* of the start, the same at all; not 0 */
    /* What happens: as in struct cop_mpi_config (coppice/net_mpi.h). May call
     * cop_ofi_submit. */
    void (*effect)(void *context, const struct cop_effect *effect);
    void *context;
    /* As for cop_node_create, but `self`, `incarnation`, `view` and `now` are the driver's. */
    struct cop_config node;
    const char *shape; /* of the tree (coppice/tree.h); NULL: by their number */
    bool no_reads;     /* large payloads are sent in packets, too, as where the
                          provider cannot read the memory of others */
};

/*
 * Opens an endpoint of `provider` ("tcp;ofi_rxm", "shm", "verbs;ofi_rxm", "cxi", "efa"; NULL:
 * whichever libfabric names first), at `node`, an address of this host (NULL: the provider's
 * choice). On failure `why` (may be NULL) gets a sentence.
 *   COP_ENOENT  no such provider, or it has no such endpoints here
 *   COP_EIO     libfabric failed
 *   COP_ENOMEM
 */
int cop_ofi_open(const char *provider, const char *node, struct cop_ofi **out,
                 char *why, size_t why_size);
/* The name of this endpoint, for the others. */
void cop_ofi_name(const struct cop_ofi *ofi, struct cop_ofi_name *out);
/* Becomes a member; once. COP_EINVAL, COP_EIO, COP_ENOMEM. */
int cop_ofi_start(struct cop_ofi *ofi, const struct cop_ofi_config *config, char *why,
                  size_t why_size);
/* A request for the node: result of cop_step. What comes of it is told by `effect`, never
 * before this returns. */
int cop_ofi_submit(struct cop_ofi *ofi, const struct cop_request *request);
/*
 * Takes what has come, does what is due, sends, and tells; does not wait. How many packets
 * came and effects were told, or the error that has ended this node.
 */
int cop_ofi_progress(struct cop_ofi *ofi);
/* The same over and over until something happened or so much time has passed. It polls, and
 * gives the processor to others in between. */
int cop_ofi_wait(struct cop_ofi *ofi, cop_time timeout_ns);
/* The node, to ask it things; borrowed. NULL before cop_ofi_start. */
const struct cop_node *cop_ofi_node(const struct cop_ofi *ofi);
/* What was carried. */
struct cop_ofi_stats {
    uint64_t packets_sent, packets_received;
    uint64_t payloads_offered, payloads_read; /* that were not sent but read */
};
/* See above. All zero before cop_ofi_start. */
struct cop_ofi_stats cop_ofi_stats(const struct cop_ofi *ofi);
/* Sends what is still to be sent, for at most so long, and ends it. NULL is ignored. */
void cop_ofi_destroy(struct cop_ofi *ofi, cop_time patience_ns);

#ifdef __cplusplus
}
#endif

#endif
