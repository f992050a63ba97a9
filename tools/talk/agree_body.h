/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_TALK_AGREE_BODY_H
#define COP_TOOLS_TALK_AGREE_BODY_H

#include "talk/command.h"

#include <coppice/agree.h>

/* What is said about agreements of agents: by the command, and from agent to agent. */

#define AGREEMENTS_MAX 200000u  /* in one command */
#define AGREE_CHUNK_MAX 2048u   /* samples in one reply */
#define AGREE_WARM_UP_MAX 1000u /* agreements before those that are told */

/* What a member contributes. */
enum agree_source { AGREE_NUMBER, AGREE_ID };

/* AGREE. All agents of the group call so many agreements, one after the other. */
struct agree_order {
    enum cop_algorithm algorithm;
    uint32_t op; /* enum cop_agree_op, but USER */
    enum agree_source source;
    uint64_t value; /* NUMBER */
    uint32_t count, warm_up;
    uint32_t window;  /* as many under way */
    uint32_t skew_ms; /* each waits so long at most before each call, by chance */
    bool keep_tree;   /* see struct cop_agree_group */
    bool with_dead;   /* also those who were members and are not */
    cop_time timeout_ns;
    char shape[64]; /* "" for the view's own */
};

/* One agent tells another what to take part in. */
struct agree_start {
    struct agree_order order;
    uint64_t group;
    uint32_t count;
    struct cop_life *members;
};

/* One agreement, as the agent that was asked saw it. */
struct agree_sample {
    cop_time at_ns; /* when it was called, on this machine's monotonic clock */
    cop_time elapsed_ns;
    uint64_t value, round;
    int32_t status;
    uint32_t failed;
};

/* Whether all who live have had the same results: that is agreed upon in the end. */
enum agree_verdict { AGREE_UNKNOWN, AGREE_SAME, AGREE_DIFFERENT };

/*
 * A reply: samples, in order; with the last of them the rest. There are fewer than were ordered
 * if one ended without a result: none is called after that.
 */
struct agree_reply {
    cop_id self;
    uint32_t members; /* of the group */
    uint32_t count;
    struct agree_sample *samples;
    cop_epoch epoch;
    cop_id root;
    enum agree_verdict verdict;
    struct cop_ranks failed; /* that were agreed upon last */
};

/* As in command.h. */
struct cop_buf *agree_order_encode(const struct agree_order *order);
int agree_order_decode(struct cop__bytes body, struct agree_order *out);
struct cop_buf *agree_start_encode(const struct agree_start *start);
int agree_start_decode(struct cop__bytes body, struct agree_start *out);
void agree_start_free(struct agree_start *start);
struct cop_buf *agree_reply_encode(const struct agree_reply *reply);
int agree_reply_decode(struct cop__bytes body, struct agree_reply *out);
void agree_reply_free(struct agree_reply *reply);

/* "and", "or", "sum", "min", "max"; NULL, COP_ENOENT: none of them. */
const char *agree_op_name(uint32_t op);
int agree_op_parse(const char *text, uint32_t *out);

#endif
