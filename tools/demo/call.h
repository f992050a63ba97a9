/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_DEMO_CALL_H
#define COP_TOOLS_DEMO_CALL_H

#include "demo/demo.h"
#include "talk/agree_body.h"

/*
 * A service that one member is asked for again and again, a few operations at a time:
 * broadcasts with everybody's answer, or agreements.
 */
struct demo_call {
    enum verb verb; /* BCAST or AGREE */
    struct client client;
    struct cop_buf *command;
    bool is_running; /* the other end works on a command */
    uint32_t runs;   /* that are over */
    struct demo_op *ops;
    uint32_t count, capacity;
    struct cop_ranks failed; /* whom agreements called failed, in order */
    char fault[200];         /* what was wrong first; "" */
};

/* Both: 0, or EXIT_FAILED after one line. */
int demo_call_begin(const struct local *local, enum verb verb, cop_id from,
                    struct demo_call *out);
/* The other end has something to say. When that was the last of a run, the next is begun
 * unless it is the end. */
int demo_call_take(struct demo_call *call, bool is_end);
/* Whether an operation that began after this time is over. */
bool demo_call_has_since(const struct demo_call *call, cop_time at_ns);
/* Everybody who lived took part in everything. */
int demo_call_claim(struct demo_call *call, uint32_t n,
                    const struct demo_victims *victims, struct demo_claim *out);
void demo_call_free(struct demo_call *call);

#endif
