/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TESTS_HALL_H
#define COP_TESTS_HALL_H

#include "run_world.h"

#include <coppice/service.h>

/*
 * Runs that all have one service, number SERVICE, which does as its member is told, and writes
 * down which of its callbacks came: c, r, a (an answer of a child), d, s.
 */
#define SERVICE 40u

struct desk {
    /* What to do. */
    int check_status;
    int run_returns;
    bool replies;  /* in `run`, with `value` */
    bool combines; /* in `done`: the sum of its children's replies and its own */
    int64_t value;
    cop_id members[RUNS]; /* `resolve` */
    uint32_t member_count;
    int resolve_status;
    size_t buffer_size; /* in `check`: for each child; 0: none */
    void (*on_run)(struct desk *desk, struct cop_run *run, struct cop_task *task);
    void (*on_done)(struct desk *desk, struct cop_run *run);
    void (*on_resolve)(struct desk *desk, struct cop_run *run);
    /* What came. */
    char trace[64];
    uint64_t task; /* the last that was run */
    uint32_t runs, dones, sents;
    uint32_t tag_count;
    uint64_t group;
    char request[64];
    uint32_t resolves;
    int64_t sum;     /* of the children's replies */
    int replied;     /* what the last cop_reply said */
    int done_status; /* of the last */
    int answer_status;
    enum cop_phase answer_phase;
    uint32_t answer_length;
    cop_id answer_from;
    uint32_t children;
    uint8_t buffers[4][16];
};

struct ended {
    unsigned count;
    int status;
    bool has_result;
    struct cop_bcast_result result; /* a copy: failures and bytes are below */
    struct cop_failure failures[RUNS];
    uint8_t bytes[4096];
};

struct hall {
    struct runs *runs;
    uint32_t n;
    bool rejoins; /* whoever is removed */
    struct desk desks[RUNS];
    struct ended ended;
};

int hall_set_up(void **state);
int hall_tear_down(void **state);
/* n members in a tree of this shape, each with the service in `version`. */
void hall_open(struct hall *hall, uint32_t n, const char *shape);
struct cop_run *hall_run(struct hall *hall, uint32_t i);
struct cop_handlers hall_handlers(struct hall *hall, uint32_t i);
/* For calls: writes into hall->ended. */
void hall_done(void *context, int status, const struct cop_bcast_result *result);
/* Calls, waits, and returns how it ended. */
int hall_rpc(struct hall *hall, uint32_t i, const struct cop_call *call);
/* Makes one step by step, and waits for its end; or what cop_bcast_send says. */
int hall_bcast(struct hall *hall, uint32_t i, const struct cop_call *call);
void hall_until_ended(struct hall *hall);
void hall_until(struct hall *hall, bool (*what)(struct hall *hall));
/* How a member failed in the last result; 0: it did not. */
int hall_failure(const struct hall *hall, cop_id node, enum cop_phase *phase,
                 cop_id *at);

#endif
