/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TESTS_AGREENET_H
#define COP_TESTS_AGREENET_H

#include "agree/agree.h"
#include "node/node.h"
#include "wire/messages.h"

#include <coppice/agree.h>

/*
 * A few real nodes that agree, in a chain, and a network that delivers in the order of sending
 * when the test says so. The invariants of a node are checked after each of its steps.
 */
#define AGREENET_NODES 4u
#define AGREENET_ITEMS 1024u
#define AGREENET_ENDS 64u

struct agreenet_end {
    cop_id id;
    uint64_t token;
    int status;
    struct cop_buf *result;
};

struct agreenet {
    struct cop_view *view;
    struct cop_stats stats;
    struct cop_node *nodes[AGREENET_NODES]; /* NULL: dead */
    struct cop_effects effects;
    struct cop_frame items[AGREENET_ITEMS];
    uint32_t item_count;
    struct agreenet_end ends[AGREENET_ENDS];
    uint32_t end_count;
    enum {
        NOTHING,
        CLOSED,
        REFUSED
    } hears[AGREENET_NODES][AGREENET_NODES]; /* yet to, the first of the second */
    cop_time now;
    bool unchecked;
};

/* Who has a connection to it hears of it in agreenet_settle, or by agreenet_down. */
void agreenet_crash(struct agreenet *net, cop_id id);
/* A node that runs out of memory is dead from then on. */
int agreenet_event(struct agreenet *net, cop_id id, struct cop_event *given);
void agreenet_down(struct agreenet *net, cop_id id, cop_id peer);
/* The first frame that is under way. */
void agreenet_deliver_first(struct agreenet *net);
/* Everything that is under way, then who is gone, then time, a few seconds of it. */
void agreenet_settle(struct agreenet *net);
struct agreenet *agreenet_create(void);
void agreenet_start(struct agreenet *net, enum cop_quorum quorum);
struct agreenet *agreenet_create_started(void);
void agreenet_forget_ends(struct agreenet *net);
void agreenet_destroy(struct agreenet *net);
int agreenet_submit(struct agreenet *net, cop_id id, const struct cop_request *request);
int agreenet_make(struct agreenet *net, cop_id id, const struct cop_agree_group *group);
void agreenet_make_all(struct agreenet *net, const struct cop_agree_group *group);
/* In group 7. */
int agreenet_call(struct agreenet *net, cop_id id, uint64_t token, uint32_t op,
                  enum cop_value_type type, const void *bytes, uint32_t length);
int agreenet_call_word(struct agreenet *net, cop_id id, uint64_t token, uint32_t op,
                       uint64_t word);
/* How it ended at a node: the status, and the result, if there is one; 1: it has not. */
int agreenet_end_of(const struct agreenet *net, cop_id id, uint64_t token,
                    struct cop_agreed *out);
/* Everybody alive has ended with this word and so many that failed. */
void agreenet_expect_word(const struct agreenet *net, uint64_t token, uint64_t word,
                          uint32_t failed);
void agreenet_call_all(struct agreenet *net, uint64_t token, uint64_t word);
/* The votes, and nothing else; the rest keeps its order. */
void agreenet_deliver_votes(struct agreenet *net);

#endif
