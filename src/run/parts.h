/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_RUN_PARTS_H
#define COP_RUN_PARTS_H

#include "base/cold.h"
#include "net/tcp/driver.h"
#include "net/tcp/runner.h"
#include "run/address.h"
#include "run/envoy.h"
#include "run/gather.h"
#include "run/porch.h"
#include "run/services.h"
#include "run/start.h"
#include "run/streams.h"

#include <coppice/agree.h>
#include <coppice/run.h>
#include <pthread.h>

/*
 * What the files of a run share. Nobody else includes it.
 *
 * Everything of a run is touched by one thread only, the one that runs its loop, but for
 * `shared`, which is behind the mutex. The loop's thread changes `shared` too, and takes the
 * mutex for it; what it alone writes it may read without. No callback is made with the mutex
 * held.
 */

/* Something that the program wants, from when it was taken until `done`. */
struct cop__call {
    struct cop__call *next, **link; /* in the queue, or among those under way */
    struct cop_request request;
    /* One of these; or none. */
    void (*done)(void *context, int status);
    void (*probed)(void *context, int status, const struct cop_probe_result *result);
    int (*ask)(struct cop_run *run,
               void *argument); /* not for the node: for the loop */
    void *argument;
    struct cop_probe_result *result; /* with `done`: what a probe found goes here */
    void *context;
    uint64_t guest, guest_token; /* an invitation, for somebody outside */
    /* A collective: what it is, how it begins (NULL: at the node, at once), and what follows
     * its end; true: it goes on. */
    struct cop__rpc *rpc;
    int (*begin)(struct cop_run *run, struct cop__call *call);
    bool (*end)(struct cop_run *run, struct cop__call *call, int status,
                const struct cop_buf *result);
    /* An agreement: who is told, or where it goes; and by what number it is known. */
    void (*agreed)(void *context, int status, const struct cop_agreed *agreed);
    struct cop_agreed *agreement;
    uint64_t ticket;
    bool is_cancelled; /* before it began */
    uint8_t bytes[];   /* to be sent */
};

/* Outcomes of suspicions that the program was told. */
struct cop__told {
    uint64_t number; /* and one: 0 for none */
    enum cop_outcome outcome;
};

struct cop__shared {
    enum cop_run_state state;
    int why; /* it is over */
    cop_id self;
    bool is_degraded;
    struct cop_view *view; /* a copy of its own (cop__view_copy), or NULL */
    bool wants_stop, wants_leave;
    bool is_deaf; /* the loop cannot be woken any more */
    struct cop__call *queue, **queue_end;
    uint32_t queued;
    size_t queued_bytes;
    uint64_t number;      /* the latest that was given to a call or a group */
    uint32_t rpcs;        /* under way */
    uint64_t stream_news; /* how often somebody who waits for a stream was woken up */
};

struct cop_run {
    /* Set before it runs, and then never again. */
    struct cop_settings settings; /* callbacks and flags; the strings are gone */
    bool has_thread;
    pthread_t thread;
    struct cop_log log;
    char name[64]; /* as views have it */
    char where[COP__ADDRESS_TEXT];
    char socket[COP__ADDRESS_TEXT]; /* to be removed at the end; "": none */
    struct cop__address contact;    /* length 0: none */

    struct cop__tls *tls; /* for TCP; NULL: nothing is encrypted */

    uv_loop_t loop;
    struct cop__runner runner;
    bool is_short; /* it has the runner's short way: not asked libuv for each time */
    struct cop__rider rider;
    uv_async_t wake;
    uv_check_t turn;
    struct cop__porch door; /* takes connections while there is no node */
    int listen_fd;
    bool is_dispatching, is_in_callback;

    struct cop__start start;
    struct cop_view *start_view;
    cop_id id;
    cop_incarnation incarnation;
    cop_incarnation exceed; /* a life of this member that somebody knows */
    bool had_node;          /* in this run */
    bool was_member;        /* in this run */
    bool is_alone;          /* and has said so */
    bool is_unwanted;       /* and has said so */
    struct cop__tcp *tcp;
    struct cop__envoy *envoy;
    struct cop__gather *gather;
    struct cop_stats stats;
    struct cop__call *calls; /* under way at the node */
    struct cop__told told[COP_SUSPICIONS_MAX];
    struct cop__services services;
    struct cop__run_streams streams;
    struct cop_operation *operations; /* settings.operation_count */

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct cop__shared shared;
};

/* ---- settings.c ------------------------------------------------------------------ */

/* The settings as this version knows them. COP_EINVAL with a sentence. */
int cop__settings_take(const struct cop_settings *given, struct cop_settings *out,
                       char *message, size_t size);
/* All that follows from them, and the listening socket. */
int cop__settings_apply(struct cop_run *run, const struct cop_settings *settings,
                        char *message, size_t size);

/* ---- join.c ---------------------------------------------------------------------- */

/* Becomes a member, or begins to ask. */
int cop__join_begin(struct cop_run *run);
/* Ends the node, or the asking, without a word. */
void cop__join_close(struct cop_run *run);

/* ---- door.c ---------------------------------------------------------------------- */

/* Somebody who is no member asks. */
void cop__door_guest(void *context, uint64_t guest, const struct cop_buf *payload);
void cop__door_invited(struct cop_run *run, const struct cop__call *call, int status,
                       const struct cop_buf *result);
/* While there is no node connections are closed. */
int cop__door_init(struct cop_run *run);

/* ---- calls.c --------------------------------------------------------------------- */

/* Whether this is the thread of the loop. Without a thread of its own it always is. */
bool cop__run_is_here(const struct cop_run *run);
/* Wakes the loop up; with the mutex held. */
void cop__run_wake(struct cop_run *run);
/* After something that the node was told outside of a turn: there may be one to take. */
void cop__run_stir(struct cop_run *run);
/* A request of which nobody awaits the end; on the loop's thread. */
int cop__run_submit(struct cop_run *run, const struct cop_request *request);
/* A number for a call or a group; even, and never given again. From any thread. */
uint64_t cop__run_number(struct cop_run *run);
/* Something that only the loop's thread may do; from any thread. */
int cop__ask_loop(struct cop_run *run, int (*ask)(struct cop_run *, void *),
                  void *argument);
/* From any thread. Without success the call is gone, too. */
int cop__call_make(struct cop_run *run, struct cop__call *call);
/* Tells whoever made the call, which is gone then. */
void cop__call_finish(struct cop_run *run, struct cop__call *call, int status,
                      const struct cop_buf *result);
/* NULL is ignored. */
void cop__call_free(struct cop_run *run, struct cop__call *call);
/* Somebody who sleeps until something is done. */
struct cop__waiter {
    struct cop_run *run;
    bool is_done;
    int status;
};
void cop__waiter_done(void *context, int status);
int cop__waiter_wait(struct cop__waiter *waiter);
/* Waits at most until then, with the mutex held. False: it is later. */
bool cop__wait_until(struct cop_run *run, cop_time deadline);
cop_time cop__deadline_after(cop_time timeout_ns);
/* Hands a call to the node. On failure it is still the caller's. */
int cop__call_submit(struct cop_run *run, struct cop__call *call);
/* The call that the node has under this token; NULL: it has ended. */
struct cop__call *cop__call_under_way(const struct cop_run *run, uint64_t token);
/* The collective or agreement of this number that another thread has made, and that has not begun;
 * NULL. Only the loop's thread takes it from where it is. */
struct cop__call *cop__call_queued(struct cop_run *run, uint64_t number);
/* Nobody waits for this agreement any more. COP_ENOENT. */
int cop__agree_give_up(struct cop_run *run, uint64_t ticket);
/* The driver says that one has ended. */
void cop__call_complete(void *context, uint64_t token, int status,
                        struct cop_buf *result);
/* All that are under way end. */
void cop__calls_end(struct cop_run *run, int status);
/* Those that came from other threads. */
void cop__calls_take_queue(struct cop_run *run);

/* ---- tell.c ---------------------------------------------------------------------- */

void cop__tell_log(void *context, enum cop_log_level level, const char *line);
/* The view is this one now. COP_ENOMEM. */
int cop__tell_view(struct cop_run *run, const struct cop_view *view);
void cop__tell_degraded(void *context, bool is_degraded);
void cop__tell_message(void *context, cop_id from, cop_incarnation incarnation,
                       struct cop_buf *bytes);
void cop__tell_suspicions(void *context);
void cop__tell_out(struct cop_run *run, int why);
/* For everyone who waits. */
void cop__tell_state(struct cop_run *run, enum cop_run_state state);

/* ---- run.c ----------------------------------------------------------------------- */

/* This run is over: whatever it has is closed, and the program is told. */
void cop__run_end(struct cop_run *run, int why);

#endif
