/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TESTS_WIRENET_H
#define COP_TESTS_WIRENET_H

#include "base/random.h"
#include "node/node.h"
#include "sweep/sweep.h"
#include "wire/messages.h"

#include <coppice/node.h>
#include <coppice/stats.h>

/*
 * A handful of real nodes and a network between them that does only what the test says.
 *
 * What nodes send waits in one queue until it is delivered: in the order of sending, or in
 * any order that keeps what one node says to another in its order. Time passes only in
 * wirenet_advance. The invariants of a node are checked after each of its steps.
 *
 * After wirenet_create nothing here allocates memory, so that a test may let the nodes run
 * out of it.
 */
#define WIRENET_NODES 32u
#define WIRENET_ITEMS 8192u
#define WIRENET_ENDS 1024u

/* Something on its way from one node to another. */
struct wirenet_item {
    enum cop_event_kind kind; /* RECV, PEER_UP or PEER_DOWN */
    cop_id from, to;
    struct cop_frame frame;
    cop_incarnation incarnation;
    enum cop_down why;
};

/* One node, and what its application saw of the sweeps of others. */
struct wirenet_node {
    struct cop_stats stats;
    struct cop_node *node; /* NULL while crashed */
    cop_incarnation incarnation;
    int failed;         /* what cop_step said in the end, if the node stopped */
    uint32_t asks;      /* how often the protocol was run here */
    uint32_t outcomes;  /* how often it was told how a sweep ended */
    int outcome_status; /* the latest of them */
    uint32_t losses;    /* how often that the initiator of a sweep is lost */
    uint32_t outcome_length;
};

/* A COMPLETE. */
struct wirenet_end {
    cop_id id;
    uint64_t token;
    int status;
    struct cop_buf *result;
};

struct wirenet {
    uint32_t n;
    cop_time now;
    struct cop_view *view;
    struct cop__stack stack;
    struct cop__protocol witness;
    const struct cop__protocol *protocols[1];
    struct cop_effects effects;
    struct wirenet_node nodes[WIRENET_NODES];
    bool connected[WIRENET_NODES][WIRENET_NODES];
    bool wished[WIRENET_NODES]
               [WIRENET_NODES];              /* the first said CONNECT to the second */
    bool held[WIRENET_NODES][WIRENET_NODES]; /* nothing from the first to the second */
    struct wirenet_item items[WIRENET_ITEMS];
    uint32_t item_count;
    struct wirenet_end ends[WIRENET_ENDS];
    uint32_t end_count;
    struct cop__random *random; /* NULL: first sent, first delivered */
    bool unchecked;             /* invariants are not looked at */
    bool leaves; /* the protocol leaves a sweep that lost its initiator */
};

/* All nodes have had their first tick, and nothing is under way. */
struct wirenet *wirenet_create(uint32_t n, const char *shape);
/* The same without nodes; wirenet_start makes one (without its first tick), and returns what
 * cop_node_create does. */
struct wirenet *wirenet_create_empty(uint32_t n, const char *shape);
int wirenet_start(struct wirenet *net, cop_id id);
void wirenet_destroy(struct wirenet *net);

bool wirenet_lives(const struct wirenet *net, cop_id id);

/* One step of a node, and what it wants done goes on its way. `event->now` is set here. */
int wirenet_event(struct wirenet *net, cop_id id, struct cop_event *event);
int wirenet_submit(struct wirenet *net, cop_id id, const struct cop_request *request);
/* A probe with the default time. */
int wirenet_probe(struct wirenet *net, cop_id id, uint64_t token, bool outcome);
void wirenet_down(struct wirenet *net, cop_id id, cop_id peer, enum cop_down why);

/* Delivers one item; false if there is none that may be. */
bool wirenet_deliver(struct wirenet *net);
/* Delivers the first item from one node to another, held or not; false if none. */
bool wirenet_deliver_from(struct wirenet *net, cop_id from, cop_id to);
/* Delivers all from one node to another, also what comes of it on that way. */
void wirenet_deliver_all(struct wirenet *net, cop_id from, cop_id to);
/* Delivers until nothing is left. */
void wirenet_settle(struct wirenet *net);
/* A tick for everyone whose deadline has come; a new node's has. */
void wirenet_tick(struct wirenet *net);
/* Lets time pass, with ticks when they are due, and delivers all that comes of it. */
void wirenet_advance(struct wirenet *net, cop_time by);

/* Lets nothing through from one to another, until all are released. */
void wirenet_hold(struct wirenet *net, cop_id from, cop_id to);
void wirenet_release(struct wirenet *net);

/* Peers hear that the connection closed, after what had been sent. */
void wirenet_crash(struct wirenet *net, cop_id id);
/* A new life of a crashed node. */
int wirenet_restart(struct wirenet *net, cop_id id);
/* Forgets what is on its way between two. */
void wirenet_lose(struct wirenet *net, cop_id from, cop_id to);
void wirenet_lose_all(struct wirenet *net);
/* The first frame of a kind on its way, or NULL. COP_ID_NONE: from, or to, anybody. */
const struct wirenet_item *wirenet_find(const struct wirenet *net, cop_id from,
                                        cop_id to, enum cop__kind kind);
uint32_t wirenet_count(const struct wirenet *net, cop_id from, cop_id to,
                       enum cop__kind kind);

/* A frame of a living node as it would send it itself. Takes over `payload`. */
struct cop_frame wirenet_frame(const struct wirenet *net, cop_id from, cop_id to,
                               enum cop__kind kind, struct cop_buf *payload);
/* The receiver gets a frame at once, and the reference to its payload is given back. */
void wirenet_recv(struct wirenet *net, const struct cop_frame *frame);
/* What somebody says of a member reaches a node. */
void wirenet_tell(struct wirenet *net, cop_id from, cop_id to,
                  struct cop__belief belief);

/* The COMPLETE of a request, or NULL. */
const struct wirenet_end *wirenet_end(const struct wirenet *net, cop_id id,
                                      uint64_t token);
/* The same, of which there must be exactly one, with its result. */
void wirenet_result(const struct wirenet *net, cop_id id, uint64_t token,
                    struct cop_probe_result *out);
/* Everyone is answered, dead or silent, nobody twice, and the fingerprint is that of the
 * answered. */
void wirenet_assert_partition(const struct wirenet *net,
                              const struct cop_probe_result *result);
bool wirenet_ranks_have(const struct cop_ranks *ranks, cop_rank rank);

/* How many a probe found in each state. */
void wirenet_assert_result(const struct wirenet *net, cop_id id, uint64_t token,
                           uint32_t answered, uint32_t dead, uint32_t silent);
void wirenet_assert_dead(const struct wirenet *net, cop_id id, uint64_t token,
                         cop_id dead);
/* Of one sweep: nobody ran it twice, everyone who lives ran it. */
void wirenet_assert_ran_once(const struct wirenet *net);
/* Of one sweep: everyone who lives but the initiator was told once how it ended. */
void wirenet_assert_told_once(const struct wirenet *net, cop_id initiator, int status);
void wirenet_assert_nothing_kept(const struct wirenet *net);

#endif
