/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TESTS_COLLNET_H
#define COP_TESTS_COLLNET_H

#include "wire/messages.h"

#include <coppice/coll.h>
#include <coppice/stats.h>

/*
 * A few real nodes with a service each, and a network that delivers in the order of sending.
 * What a service does is what the test puts into `behave` of its node; every upcall is noted.
 * The invariants of a node are checked after each of its steps.
 */
#define COLLNET_NODES 16u
#define COLLNET_ITEMS 4096u
#define COLLNET_NOTES 8192u
#define COLLNET_SERVICE 7u

struct collnet_behaviour {
    int check;         /* what CHECK is answered with */
    bool checks_never; /* CHECK is not answered at all */
    bool replies_never;
    bool replies_at_run; /* else at DONE */
    int status;          /* of the reply */
    const void *bytes;   /* NULL: the id as a 64-bit integer */
    uint32_t length;
    uint32_t pieces;       /* replies with `more` before the last */
    uint32_t takes;        /* pieces of bulk that it puts away before `sink`; 0: all */
    int sink;              /* what it says then; 0: nothing at all */
    int source;            /* as the root: what it says instead of giving */
    bool source_moves;     /* it gives other bytes the second time */
    const cop_id *members; /* what RESOLVE is answered with */
    uint32_t member_count;
};

struct collnet_note {
    cop_id node;
    struct cop_upcall upcall;
    struct cop_buf *record;
};

#define COLLNET_BULK 4096u

/* What a service has of the bulk. */
struct collnet_sink {
    uint8_t bytes[COLLNET_BULK];
    uint32_t length, pieces;
};

struct collnet {
    uint32_t n;
    struct cop_view *view;
    struct cop_stats stats;
    struct cop_node *nodes[COLLNET_NODES]; /* NULL: dead */
    struct collnet_behaviour behave[COLLNET_NODES];
    struct collnet_sink sinks[COLLNET_NODES];
    bool spoiled[COLLNET_NODES]; /* its bulk failed: the library replies */
    uint64_t wanted;             /* bulk was asked for up to here */
    uint32_t rereads;            /* and so often before that */
    cop_time now;
    struct {
        cop_id from, to;
        struct cop_frame frame;
        bool refused;
    } items[COLLNET_ITEMS];
    uint32_t first, count;
    struct collnet_note notes[COLLNET_NOTES];
    uint32_t note_count;
    uint32_t completions;
    uint32_t
        dones_at_completion; /* how many DONE the one who completed had got by then */
    uint64_t token;          /* of the last COMPLETE */
    int status;
    struct cop_buf *result;
    uint32_t calls_sent; /* frames that carry a request: ASK and CALL */
    uint32_t last_call_length;
    bool starving;   /* memory may run out: who says so is dead */
    uint32_t failed; /* how many did */
};

/* What the root gives. */
uint8_t collnet_byte(uint64_t offset);
struct collnet *collnet_create(uint32_t n, const char *shape, uint32_t version);
void collnet_destroy(struct collnet *net);
int collnet_submit(struct collnet *net, cop_id id, const struct cop_request *request);
/* Delivers all that is under way. */
void collnet_run(struct collnet *net);
/* Delivers at most so many frames. */
void collnet_some(struct collnet *net, uint32_t frames);
/* Lets time pass, with a TICK at each deadline on the way, and delivers. */
void collnet_wait(struct collnet *net, cop_time by);
/* Dies without a word: what it sent arrives, what is sent to it is refused. */
void collnet_kill(struct collnet *net, cop_id id);
/* How many upcalls of a kind a node got. */
uint32_t collnet_count(const struct collnet *net, cop_id id, enum cop_upcall_kind kind);
const struct cop_upcall *collnet_last(const struct collnet *net, cop_id id,
                                      enum cop_upcall_kind kind);
/* The answer of the last COMPLETE; to be freed. */
struct cop_bcast_result collnet_result(struct collnet *net);
/* The status that the answer gives for a member; 0 if it answered. */
int collnet_failure(struct collnet *net, cop_id id, enum cop_phase *phase, cop_id *at);
void collnet_forget(struct collnet *net);
/* No call is left anywhere. */
bool collnet_is_clean(const struct collnet *net);

#endif
