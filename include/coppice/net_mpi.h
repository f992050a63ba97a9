/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_NET_MPI_H
#define COPPICE_NET_MPI_H

#include <coppice/node.h>
#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A node (coppice/node.h) whose frames go over MPI, for jobs that may not open sockets, or
 * whose network only MPI knows. In libcoppice-mpi.
 *
 *   struct cop_mpi_config config = {
 *       .size = sizeof config, .comm = MPI_COMM_WORLD, .effect = on_effect,
 *       .node = {.quorum = COP_QUORUM_NONE, .detect = {.ring_period_ns = 100 * COP_MSEC}}};
 *   struct cop_mpi *mpi;
 *   char why[200];
 *   if (cop_mpi_create(&config, &mpi, why, sizeof why) != 0)
 *       errx(1, "%s", why);
 *   cop_mpi_submit(mpi, &request);
 *   while (!done)
 *       cop_mpi_wait(mpi, COP_TIME_NEVER);
 *   cop_mpi_destroy(mpi, COP_SEC);
 *
 * All processes of the communicator are members from the start; the id of a member is its
 * rank. What a member sends goes by MPI_Isend to the others, on a communicator of the
 * driver's own, in pieces that MPI need not ask for; nobody has more than a window of them
 * under way to one that has not taken them.
 *
 * Progress. There is no thread: everything happens inside cop_mpi_progress and cop_mpi_wait,
 * callbacks as well. A program that computes calls cop_mpi_progress now and then: one that
 * does not for longer than the ring of its detector waits (cop_detect; that follows what
 * was measured) is taken for dead. The ring may be off (all zero); then deaths are what the
 * program reports (COP_REQUEST_REPORT), at every process, as the one that is to lead the next
 * view believes nobody else that those before it are gone.
 *
 * Threads. All functions are called by one thread at a time, one that may call MPI:
 * MPI_THREAD_FUNNELED is enough if that is the main one, MPI_THREAD_SERIALIZED if it changes.
 *
 * Failures. MPI says nothing of them. It takes one that lets the others go on: Open MPI
 * started by `mpirun --enable-recovery`; with others this works as long as nobody dies. A
 * process that is removed though it lives (COP_EFFECT_OUT) does not come back.
 */
struct cop_mpi;

/* All zero but for the first three is a good beginning. */
struct cop_mpi_config {
    size_t size;   /* sizeof(struct cop_mpi_config) */
    MPI_Comm comm; /* all who take part; it is duplicated, and stays the caller's */
    /*
     * What happens: every effect of the node but SEND, CONNECT and CLOSE, in order; borrowed.
     * From cop_mpi_progress, cop_mpi_wait and cop_mpi_destroy, and nowhere else. May call
     * cop_mpi_submit.
     */
    void (*effect)(void *context, const struct cop_effect *effect);
    void *context;
    /* As for cop_node_create, but `self`, `incarnation`, `view` and `now` are the driver's.
     * The same at all processes where it says so. */
    struct cop_config node;
    const char *shape; /* of the tree (coppice/tree.h); NULL: by their number */
    /*
     * The largest message, 0: 4032. It has to be one that MPI sends without asking whether
     * it is received: one that does not, and whose sender dies meanwhile, takes one of the
     * receives with it.
     */
    uint32_t packet_bytes;
    uint32_t receives; /* that are posted; 0: 16 */
};

/*
 * Collective over `comm`. SIGPIPE is ignored from then on, unless the program has something else in
 * mind: MPI may write to the socket of a dead process. On failure `why` (may be NULL) gets a sentence.
 *   COP_EINVAL  a setting that cannot be
 *   COP_EIO     MPI failed
 *   COP_ENOMEM
 */
int cop_mpi_create(const struct cop_mpi_config *config, struct cop_mpi **out, char *why,
                   size_t why_size);
/* A request for the node: result of cop_step. What it leads to is sent at once; what comes
 * of it is told by `effect`, never before this returns. */
int cop_mpi_submit(struct cop_mpi *mpi, const struct cop_request *request);
/*
 * Takes what has come, does what is due, sends, and tells; does not wait. How many packets
 * came and effects were told, or the error that has ended this node.
 */
int cop_mpi_progress(struct cop_mpi *mpi);
/*
 * The same over and over until something happened or so much time has passed. It polls, as
 * MPI does, and gives the processor to others in between where MPI does not do that.
 */
int cop_mpi_wait(struct cop_mpi *mpi, cop_time timeout_ns);
/* The node, to ask it things; borrowed. */
const struct cop_node *cop_mpi_node(const struct cop_mpi *mpi);
/* What was carried. */
struct cop_mpi_stats {
    uint64_t packets_sent, packets_received;
    uint64_t packets_early;  /* that MPI handed over before their turn */
    uint64_t packets_bare;   /* sent without a frame */
    uint64_t malformed;      /* packets that came and could not be read */
    uint64_t frames_dropped; /* for one who takes nothing any more */
    uint64_t errors;         /* of MPI */
};
/* See above. */
struct cop_mpi_stats cop_mpi_stats(const struct cop_mpi *mpi);
/*
 * Sends what is still to be sent, for at most so long, and ends it. Before MPI_Finalize; by
 * all who live, at about the same time. NULL is ignored.
 */
void cop_mpi_destroy(struct cop_mpi *mpi, cop_time patience_ns);

#ifdef __cplusplus
}
#endif

#endif
