/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_BENCH_TS_H
#define COP_TOOLS_BENCH_TS_H

#include "bench/bench.h"

/*
 * What a change of the view costs with real processes: a member of a private cluster
 * goes, over and over, and comes back in between. Each time the bare floor has a turn
 * right before, with as many processes as survive, in the same tree.
 *
 * Members write down themselves when they heard, stabilised and installed, and are asked
 * when it is over: nobody is looked at while it counts, but for one leaf.
 */
enum ts_trigger {
    TS_CONNECTION, /* kill -9: its connections close */
    TS_INQUIRY,    /* it is stopped, and another member asks it how it is */
    TS_RING,       /* it is stopped, and its neighbour in the ring notices */
};
#define TS_TRIGGERS 3
/* "connection", "inquiry", "ring"; NULL and COP_EINVAL for what is not one of them. */
const char *ts_trigger_name(enum ts_trigger trigger);
int ts_trigger_parse(const char *text, enum ts_trigger *out);

/* Who goes. TS_ANY is not asked for: it is all the others together. */
enum ts_victim { TS_RANDOM, TS_LEAF, TS_INNER, TS_ROOT, TS_ANY };
#define TS_VICTIMS 5
const char *ts_victim_name(enum ts_victim victim);
int ts_victim_parse(const char *text, enum ts_victim *out);
/* Whether a tree has such a member. */
bool ts_has_victim(uint32_t n, uint32_t arity, enum ts_victim victim);

struct ts_config {
    uint32_t n, arity;
    bool tcp;
    enum ts_trigger trigger;
    bool victims[TS_VICTIMS];
    uint32_t repeat;      /* for each of them */
    uint32_t repetitions; /* of the floor, each time */
    cop_time patience_ns; /* INQUIRY: how long it may be silent; RING: the period */
};
#define TS_N_LEAST 4u

/* The stages of a change, in the order of time; the last is all of them together. */
enum ts_stage {
    TS_DETECT, /* until whoever proposes the next view has heard of it */
    TS_STABLE, /* until everybody has acknowledged that view: T_s */
    TS_COMMIT, /* until the last of them has installed it */
    TS_TOTAL,
};
#define TS_STAGES 4

/*
 * The floor, one message down and one up every edge, by as many processes as survive: once,
 * after they have slept as long as our members have, and over and over, which is the
 * fastest that it can be.
 */
enum ts_floor { TS_FLOOR_ONCE, TS_FLOOR_AGAIN };
#define TS_FLOORS 2

/* Of one kind of victim. */
struct ts_row {
    uint32_t count; /* 0: there is no such member, or it was not asked for */
    struct summary stages_ns[TS_STAGES];
    struct summary floors_ns[TS_FLOORS];
    struct summary stable_over[TS_FLOORS], total_over[TS_FLOORS];
    double total_p99_ns, total_p99_over[TS_FLOORS], floors_p99_ns[TS_FLOORS];
};

struct ts_result {
    struct ts_row rows[TS_VICTIMS];
    uint32_t bytes;      /* of a message, ours on average and the floor's */
    double latency_ns;   /* between two processes that are alone */
    double contended_ns; /* while all of them talk */
    double compute_ns;
};

/* 0, or an exit code after one line. Nothing is left running. */
int bench_ts(const struct ts_config *config, struct progress *progress,
             struct ts_result *out);

#endif
