/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_TRIAL_TRIAL_H
#define COP_TOOLS_TRIAL_TRIAL_H

#include <coppice/types.h>

/*
 * A trial of a stream: processes give known numbers, some of them are killed, and what comes
 * out is compared with what was given, to the unit. The sum has a place for each back-end, and
 * the union has all numbers, so that it is known of each how many of its packets are in. With
 * levels one more place has the sum of what is below a child of the root, and of these sums the
 * largest comes out.
 */
enum trial_kind { TRIAL_SUM, TRIAL_UNION, TRIAL_LEVELS };
enum trial_when {
    TRIAL_WAVES, /* evenly over the waves */
    TRIAL_START, /* all as soon as the stream is asked for: it may not be there yet */
    TRIAL_RECOVERY, /* one in the middle, and the others while those below it look for a parent */
};

#define TRIAL_KILLS_MAX 16u
#define TRIAL_VICTIMS_MAX 64u
#define TRIAL_MEMBERS_MAX 256u

struct trial_config {
    enum trial_kind kind;
    uint32_t n;     /* members; this process is the last of them, and the front-end */
    uint32_t arity; /* of the tree */
    uint64_t waves;
    uint32_t window;
    /* Who is killed, one after the other: leaf, inner, pair, level, root, front, or numbers
     * with + between them; commas between. "": nobody. */
    const char *kills;
    enum trial_when when;
    /* A filter down, through which a packet goes for each wave: scatter, select or path; NULL: none,
     * and no packets. */
    const char *down;
    const char *key_file; /* TLS; NULL: in clear */
    /* For whoever looks on, from another thread; may be NULL. */
    void (*on_wave)(void *context, uint64_t wave, uint64_t total, bool is_complete);
    void (*on_kill)(void *context, const char *what, uint64_t wave);
    void *context;
};

/* One of the kills. */
struct trial_kill {
    char what[32];
    cop_id victims[TRIAL_VICTIMS_MAX];
    uint32_t count;
    uint64_t wave;  /* the last that had come out before */
    cop_time at_ns; /* when */
    cop_time
        took_ns; /* until a complete wave was out that was given after it; 0: never */
    uint64_t after; /* the first such wave */
};

struct trial_result {
    uint32_t back_ends, living; /* of those that give packets */
    uint64_t wave;              /* the last that was complete */
    uint64_t outputs, completes;
    uint64_t misaligned;      /* complete waves that were not what they should be */
    uint64_t total, expected; /* in the end: the sum, or how many numbers */
    uint64_t kept,
        lost_most; /* packets of the dead that are in; and that they gave, at most */
    uint64_t sent,
        given; /* packets down; and how many came to those who live, of all */
    uint64_t given_wrong; /* of them: not what they should be */
    bool is_exact;
    cop_time elapsed_ns;
    struct trial_kill kills[TRIAL_KILLS_MAX];
    uint32_t kill_count;
};

/* 0, or an exit code after one line. */
int trial_run(const struct trial_config *config, struct trial_result *out);

#endif
