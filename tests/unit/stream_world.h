/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TESTS_STREAM_WORLD_H
#define COP_TESTS_STREAM_WORLD_H

#include "run_world.h"

#include <coppice/stream.h>

/*
 * Five programs that are members, with streams: every one of them gives packets as soon as it may, up to
 * `most` of its giver, of which the sum is known for each wave; what front-ends are told is noted in
 * takers.
 */
#define MEMBERS 5u
#define WAVES 20u

/* What a back-end has done and was told. */
struct giver {
    uint64_t stream, given, most; /* packets; and how many it may give */
    uint64_t begins;              /* after this wave */
    uint64_t key;                 /* of the stream */
    unsigned opened, closed, turned_away;
    int why;
    char down[64]; /* the packets that came, behind one another */
    int down_why;  /* what was said with the last of them */
};
/* And a front-end. */
struct taker {
    uint64_t stream, wave, sum, reached;
    unsigned outputs, completes;
    uint32_t covered, departed;
    bool complete, went_back;
    unsigned closed;
    int why;
    cop_epoch closed_in; /* of the last view that the program had been told */
};
extern struct giver givers[MEMBERS];
extern struct taker takers[2];
extern struct runs *streams_world;
extern bool streams_are_single; /* each wave is by itself */
extern const struct cop_stream_options streams_sums;

/* What a member gives for a wave; and what those from `first` on have given up to it. */
uint64_t streams_value(cop_id id, uint64_t wave);
uint64_t streams_sum(cop_id first, uint64_t waves);
/* As much as it may. */
void streams_give(struct cop_run *run, struct giver *giver);
/* Of back-ends, and of front-ends, whose context is a taker. */
void streams_on_stream(void *context, struct cop_run *run, uint64_t stream,
                       const struct cop_stream_event *event);
void streams_on_told(void *context, struct cop_run *run, uint64_t stream,
                     const struct cop_stream_event *event);
int streams_set_up(void **state);
int streams_tear_down(void **state);
void streams_open(struct runs *runs, uint32_t i, const struct cop_stream_options *what,
                  struct taker *taker);
/* Up to `most`, by all that live. */
void streams_give_all(struct runs *runs, uint64_t most);
/* Forgets what there was, and runs sums from the first wave to the last. */
void streams_run_another(struct runs *runs, uint32_t front);
/* For runs_until: the first taker has all waves, half of them, three packets down have come to all, it
 * was told CLOSED; all back-ends that live were. */
bool streams_all_are_in(struct runs *runs);
bool streams_half_is_in(struct runs *runs);
bool streams_have_reached(struct runs *runs);
bool streams_is_refused(struct runs *runs);
bool streams_all_are_closed(struct runs *runs);
bool streams_all_are_members(struct runs *runs);

#endif
