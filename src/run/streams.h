/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_RUN_STREAMS_H
#define COP_RUN_STREAMS_H

#include "net/tcp/notice.h"
#include "wire/codec.h"

#include <coppice/filter.h>
#include <coppice/stream.h>
#include <coppice/view.h>

/*
 * Streams outside of the node. Its front-end must be at the root; here it may be anywhere:
 * at the root is a *desk* (stream_desk.c), which every process has, and to which front-ends
 * (stream_front.c) write letters on a channel of their own. One that is in the process of the
 * root says the same by a call. Everything belongs to the loop's thread.
 */

/* ---- stream_wire.c: what front-ends and desks say to each other ------------------- */

#define COP__CHANNEL_STREAM 1

enum cop__said_kind {
    /* To the desk. */
    /* bytes: the options; wave: the last that was taken; reached: the last packet down that was
     * said to have come to all */
    COP__SAY_OPEN = 1,
    COP__SAY_TAKEN, /* wave */
    COP__SAY_SEND,  /* wave: its number; bytes: the packet */
    COP__SAY_CLOSE,
    COP__SAY_DETACH,
    /* To the front-end. */
    /* wave: the number of the last packet down; bytes: what the stream is, as the root has it */
    COP__SAY_OPENED,
    COP__SAY_EVENT,   /* bytes: what the node said */
    COP__SAY_REACHED, /* wave: the last packet down that all have */
    COP__SAY_GONE,    /* status: you are its front-end no longer */
};

struct cop__said {
    enum cop__said_kind kind;
    uint64_t stream, wave, reached;
    int status;
    struct cop__bytes bytes; /* borrowed */
};
/* NULL: no memory. */
struct cop_buf *cop__said_encode(const struct cop__said *said);
int cop__said_decode(const struct cop_buf *bytes, struct cop__said *out);

/* Options with the texts that they point to. */
struct cop__stream_texts {
    char filter[COP_FILTER_NAME_MAX + 1], type[COP_FILTER_NAME_MAX + 1];
    char params[COP_FILTER_PARAMS_MAX + 1];
    char down[COP_FILTER_NAME_MAX + 1], down_type[COP_FILTER_NAME_MAX + 1];
    char down_params[COP_FILTER_PARAMS_MAX + 1];
    struct cop_buf *definition; /* of options that were read: to be unreferenced */
};
struct cop_buf *cop__options_encode(const struct cop_stream_options *options);
/* COP_EMALFORMED. */
int cop__options_decode(struct cop__bytes bytes, struct cop_stream_options *out,
                        struct cop__stream_texts *texts);

/* ---- stream_desk.c: at the root -------------------------------------------------- */

struct cop__tcp;

/* A packet down that the node has not taken yet. */
struct cop__parcel {
    uint64_t number;
    struct cop_buf *bytes;
};

/* A front-end, somewhere. */
struct cop__customer {
    uint64_t stream;
    cop_id owner;
    cop_incarnation life;
    cop_epoch epoch;            /* of the node's view when it asked */
    struct cop_buf *options;    /* as they came: to attach again */
    struct cop_buf *definition; /* to which one of the number (T1); NULL: not yet */
    uint64_t
        opening; /* the request that attached it, until the node is known to have done so:
                         what it said before was to another, or of another */
    uint64_t taken, marked; /* by the front-end; and as the node knows */
    bool is_attached;       /* and the node knows of it */
    bool is_told;           /* and it has heard that */
    bool is_stale;          /* an output did not reach it: it must be attached again */
    bool wants_whole; /* differences are still those to what the one before it had */
    bool is_lost;     /* it died: the node is to be told */
    bool is_gone;     /* it is to hear `status`, and no more */
    int status;
    uint64_t reached, reached_said;
    struct cop__parcel *parcels; /* in order */
    uint32_t parcel_count, parcel_capacity;
};

struct cop__desk {
    struct cop__tcp *tcp; /* NULL: no node */
    cop_id self;
    uint64_t token;  /* a bit of all requests to the node, that no others have */
    uint64_t opened; /* how often it has asked to attach somebody */
    /* For a front-end in this process. */
    void (*front)(void *context, const struct cop__said *said);
    void *context;
    struct cop__customer *customers;
    uint32_t count, capacity;
    bool
        is_due; /* something could not be said or done: again after a turn of the loop */
};

/* Of the desk of a run, whose other tokens are addresses. */
#define COP__DESK_TOKEN (UINT64_C(1) << 63)

/* What a front-end says, in this process or by a letter. */
void cop__desk_hear(struct cop__desk *desk, cop_id from, cop_incarnation life,
                    const struct cop__said *said);
/* False: it is for a front-end. */
bool cop__said_is_for_desk(const struct cop__said *said);
/* The node says something of a stream; what is for its front-end is passed on. */
void cop__desk_event(struct cop__desk *desk, uint64_t stream,
                     const struct cop_stream_event *event, const struct cop_buf *bytes);
/* One of its requests is done: `token` has its bit. */
void cop__desk_complete(struct cop__desk *desk, uint64_t token);
void cop__desk_view(struct cop__desk *desk, const struct cop_view *view);
void cop__desk_turn(struct cop__desk *desk);
void cop__desk_end(struct cop__desk *desk);

/* ---- stream_front.c, stream.c: in a run ------------------------------------------ */

struct cop_run;

struct cop__front {
    struct cop__front *next;
    uint64_t number;
    struct cop_stream_options options;
    struct cop__stream_texts texts;
    struct cop_buf *definition; /* what it is (T1), as it is said to every root */
    const struct cop_filter *filter;
    cop_stream_told *told;
    void *context;
    uint32_t callbacks; /* that have not returned */
    bool is_over;       /* freed when they have */

    cop_id root; /* to whom this was said; NONE: nobody yet */
    cop_incarnation root_life;
    cop_epoch epoch; /* in which view */
    bool is_asked, is_opened, is_ending, has_said_end, closes;
    struct cop_stream_event last; /* the last output, without its bytes */
    struct cop_buf *state;        /* NULL: none yet */
    bool is_fresh;                /* nobody has taken it */
    uint64_t taken, taken_said;
    bool has_base;
    uint64_t base; /* packets down have the numbers after this */
    uint64_t come; /* the last that came to all, whosever it was; 0: nobody said so */
    uint64_t given, sent, reached; /* of them, counted from the base */
    struct cop__parcel *parcels;   /* from reached + 1 on */
    uint32_t parcel_count, parcel_capacity;
};

/* A stream of which the program here is a back-end. */
struct cop__give {
    uint64_t stream;
    uint64_t key; /* which one of that number (T1) */
    uint64_t
        count; /* so many were there before it, here: what waits for it waits for no other */
    bool
        is_hungry; /* it was turned away because the node was busy: it is told of room */
    struct cop__notice failed; /* its filter down has */
};

struct cop__run_streams {
    struct cop__desk desk;
    struct cop__front *fronts;
    struct cop__give *gives;
    uint32_t give_count, give_capacity;
    uint64_t gives_made;
    const struct cop_view *told; /* while front-ends are told of it */
    bool is_due;                 /* as that of the desk */
    const struct cop_filter **filters;
    uint64_t made; /* numbers */
};

struct cop_settings;
int cop__streams_take(struct cop_run *run, const struct cop_settings *settings,
                      char *message, size_t size);
void cop__streams_begin(struct cop_run *run);
void cop__streams_view(struct cop_run *run, const struct cop_view *view);
void cop__streams_turn(struct cop_run *run);
bool cop__streams_are_due(const struct cop_run *run);
void cop__streams_end(struct cop_run *run, int status);
void cop__streams_fini(struct cop_run *run);
/* The driver says so. */
void cop__run_stream(void *context, uint64_t stream, struct cop_buf *bytes);
void cop__run_letter(void *context, int channel, cop_id from,
                     cop_incarnation incarnation, struct cop_buf *bytes);

/* What a desk says to one of the front-ends here. */
void cop__front_hear(void *context, const struct cop__said *said);
/* Says what is to be said. */
void cop__front_pump(struct cop_run *run, struct cop__front *front);
/* Whether what it has said was to the root of this view. */
bool cop__front_is_at_root(const struct cop__front *front, const struct cop_view *view);
/* Plans the stream in the view of this member; what this has heard of counts more. COP_EINVAL,
 * COP_ENOMEM. */
int cop__front_plan(struct cop_run *run, struct cop__front *front);
struct cop__front *cop__front_find(const struct cop_run *run, uint64_t number);
void cop__front_over(struct cop_run *run, struct cop__front *front, int status);
/* Wakes up who waits for an output or for room. */
void cop__streams_wake(struct cop_run *run);

#endif
