/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TESTS_RUN_WORLD_H
#define COP_TESTS_RUN_WORLD_H

#include <coppice/run.h>

/*
 * A few runs in one process, over Unix sockets in a folder of their own, and what each was
 * told. Those on the test's own loop are dispatched by `until`; those with threads are just
 * waited for.
 */
#define RUNS 8

struct ending {
    unsigned count; /* how often it was told */
    int status;
};

struct player {
    struct cop_run *run;
    bool is_asleep;                            /* it is not dispatched */
    unsigned views;                            /* told */
    cop_epoch epoch;                           /* of the last */
    uint32_t size;                             /* of the last */
    bool has_old;                              /* the last came with one before it */
    unsigned joined, left, returned, replaced; /* in all of them */
    cop_id replaced_by;
    unsigned degraded, recovered;
    unsigned messages;
    char message[64]; /* the last */
    cop_id from;
    unsigned suspicions, removals; /* told; with that outcome */
    unsigned undecided;            /* told, and nothing came of them yet */
    struct ending out;
    unsigned lines; /* of the log */
    int from_callback[8];
    void (*on_view)(struct player *player, struct cop_run *run);
};

struct runs {
    char folder[32];
    char texts[RUNS][96];
    const char *addresses[RUNS];
    struct player players[RUNS];
};

struct runs *runs_create(void);
void runs_destroy(struct runs *runs);

/* Settings of the i-th of n that start together, with all callbacks. */
struct cop_settings runs_settings(struct runs *runs, uint32_t i, uint32_t n);
/* Settings of one that joins by the first, as players[i]. */
struct cop_settings runs_joiner(struct runs *runs, uint32_t i, const char *name);
void runs_start(struct runs *runs, uint32_t i, const struct cop_settings *settings);
/* The first n, together, each on the test's loop. */
void runs_start_all(struct runs *runs, uint32_t n);
void runs_free(struct runs *runs, uint32_t i);

/* Has the first report the last of three, which sleeps and cannot deny it, until it is removed. */
void runs_remove_third(struct runs *runs);

/* Dispatches all until this is so. It fails if that takes absurdly long. */
void runs_until(struct runs *runs, bool (*is_done)(struct runs *runs));
void runs_until_ended(struct runs *runs, const struct ending *ending);
/* For cop_send and its like. */
void runs_done(void *context, int status);

#endif
