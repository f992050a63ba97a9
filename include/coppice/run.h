/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_RUN_H
#define COPPICE_RUN_H

#include <coppice/error.h>
#include <coppice/log.h>
#include <coppice/node.h>
#include <coppice/stats.h>
#include <coppice/types.h>
#include <coppice/view.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * This program as a member of a cluster.
 *
 * A *run* is a node on sockets. It begins with cop_start, joins or is there from the start,
 * tells the program by callbacks what happens, and is over when it has left, was removed,
 * or was stopped; cop_free takes it away. A program may have several.
 *
 *   struct cop_settings settings = {
 *       .size = sizeof settings, .contact = "unix:/run/user/1000/coppice/default/m0.sock",
 *       .name = "db1", .on_view = print_view};
 *   struct cop_run *run;
 *   char why[200];
 *   if (cop_start(&settings, &run, why, sizeof why) != 0)
 *       errx(1, "%s", why);
 *   while (cop_state(run) != COP_RUN_OVER)
 *       cop_poll(run, -1);
 *   cop_free(run);
 *
 * Threads. There are two ways to run one, and nothing in between:
 *
 *   cop_start          on the caller's thread. Callbacks run inside cop_dispatch and cop_poll
 *                      (and cop_free) and nowhere else. All calls must come from one thread
 *                      at a time.
 *   cop_start_thread   on a thread of the library's own. Callbacks run on that thread. Every
 *                      function may be called from every thread, until cop_free.
 *
 * From a callback every function may be called but those that wait (their names end in
 * _wait), cop_dispatch, cop_poll and cop_free; these return COP_ESTATE there, and cop_free
 * aborts. A callback holds no lock of the library's. What a callback is given is borrowed:
 * it is gone when the callback returns; of a view a reference can be taken.
 *
 * Requests (cop_send, cop_probe, cop_inquire, cop_report) return 0 when they are taken. Then
 * `done`, if it is not NULL, is called exactly once, and never before the function has
 * returned. If they return an error nothing happens and `done` is not called. A run that
 * ends completes what is under way with COP_ESTATE, or COP_EREMOVED if it was removed.
 *
 * No function changes signal handlers, and a thread of the library's gets no signals.
 */
struct cop_run;

struct cop_filter;
struct cop_handlers;
struct cop_operation;
struct cop_stream_event;

/* ---- settings -------------------------------------------------------------------- */

/* Bytes from another member, in the view that on_view was told last. */
struct cop_message {
    cop_id from;
    cop_incarnation incarnation; /* of the sender */
    const void *bytes;
    size_t length;
};

/*
 * All zero but for `size` is a good beginning: whatever is left out has a default. `size`
 * lets later versions add members at the end: a program that was compiled before them goes
 * on, and one that sets what the library does not know is refused. Strings are copied.
 */
struct cop_settings {
    size_t size; /* sizeof(struct cop_settings) */

    /*
     * A cluster that starts together: everybody knows all, and nobody has to agree. All of
     * this must be the same at all members, but for `self`.
     */
    const char *cluster; /* its name: members of another are not let in */
    uint64_t instance;   /* larger with every start of the cluster: say, the time
                                     at which whoever starts it began */
    const char *const *addresses; /* where 0, 1, ... listen: "unix:PATH" or
                                     "tcp:HOST:PORT" with a numeric HOST, e.g. [::1] */
    uint32_t count;               /* how many there are */
    cop_id self;                  /* which of them this is */
    const char *shape;            /* of the tree (coppice/tree.h); NULL: "radix:4" */
    const char *quorum;   /* "majority" (NULL), "none", "fixed", or "has:0,3": the
                                     side with these ids goes on */
    const char *detector; /* "connection", "ring:PERIOD" or
                                     "ring:PERIOD,witnesses:K"; NULL:
                                     "ring:100ms,witnesses:2" */
    uint32_t guard;       /* not more removals a minute without a cop_report; 0: any */

    /*
     * Members need not be started at the same moment: each waits until all of them listen,
     * or for so long; 0: 30 s. Who is not there by then is found dead.
     */
    cop_time patience_ns;

    /*
     * Or one that joins. `contact` is the address of any member, or the path of an agent's
     * command socket; all that is above comes from there.
     */
    const char *contact;
    const char *name; /* NULL: that of the host. At most 63 bytes */
    bool spare;       /* without a rank of work, until one is free */

    /*
     * This is not the first life of this member: it was there before, as `self` or by this
     * `name`, and takes its old id. A member of a static start that was restarted must say
     * so; it asks the others to be let in again.
     */
    bool again;
    /* If it is removed though it lives, or meets a larger part of the cluster after a split,
     * it joins again, as a new life. Otherwise that is the end. */
    bool rejoin;

    /* Where to listen; NULL: addresses[self], or, for one that joins, beside the contact's
     * socket or on a free port of the address by which the contact is reached. */
    const char *listen;
    /* Or a socket that listens already; it is the run's once that has started. 0: none, so
     * it cannot be standard input. */
    int listen_fd;
    /*
     * TCP is encrypted, and both sides prove who they are: by a key of the cluster, as
     * `coppice key` makes it, or by a certificate, its private key and the authority that
     * all certificates come from. Files. Names in certificates are not compared with those of
     * members: whoever has one can be any of them. Unix sockets are for processes of the same
     * user.
     */
    const char *key_file;
    const char *authority_file, *certificate_file, *private_key_file;
    /* Or it is not, and whoever can connect is believed. */
    bool insecure;

    /* ---- callbacks; each may be NULL --------------------------------------------- */
    void *context; /* handed to each of them */

    /*
     * A view was committed: `now`. `old` is the one before it, for cop_view_compare, which
     * tells who came, left, returned, and who took over whose work; NULL for the first view
     * of a life. Every member is told the same views in the same order.
     */
    void (*on_view)(void *context, struct cop_run *run, struct cop_view *old,
                    struct cop_view *now);
    /*
     * Too few members can be reached to change the view (true), or no longer (false). The
     * program decides: it keeps the view that it has and waits, goes on without the others
     * (cop_go_on), or ends with cop_stop.
     */
    void (*on_degraded)(void *context, struct cop_run *run, bool is_degraded);
    /* Somebody's cop_send. */
    void (*on_message)(void *context, struct cop_run *run,
                       const struct cop_message *message);
    /* Somebody was accused of being dead; and again when it is known what came of it. */
    void (*on_suspicion)(void *context, struct cop_run *run,
                         const struct cop_suspicion *suspicion);
    /*
     * This life is over: 0 it left; COP_ESTATE it was stopped; COP_EREMOVED it was removed;
     * COP_EEXIST somebody else has its name; COP_ENOMEM, or whatever else ended it. This is
     * the last callback of a run, unless cop_state says that it joins again (`rejoin`).
     */
    void (*on_out)(void *context, struct cop_run *run, int why);
    /* A line for a log; NULL: nothing is logged. At most `log_level`; 0: only errors. */
    void (*on_log)(void *context, enum cop_log_level level, const char *line);
    enum cop_log_level log_level;

    /* What it does for others (coppice/service.h), from its first moment on. Copied. */
    const struct cop_handlers *services;
    uint32_t service_count;

    /* Operations of its own, for agreements (coppice/agree.h): the same list at all members.
     * Copied; the strings and functions must stay. */
    const struct cop_operation *operations;
    uint32_t operation_count;

    /*
     * Streams (coppice/stream.h): this member is a back-end of one: OPENED, ROOM, DOWN, CLOSED.
     * `stream` names it.
     */
    void (*on_stream)(void *context, struct cop_run *run, uint64_t stream,
                      const struct cop_stream_event *event);
    /* Filters of its own for streams: the same at all members, and there as long as the run.
     * The list is copied. */
    const struct cop_filter *const *filters;
    uint32_t filter_count;

    /* Between processes of one host and user that are connected by Unix sockets, bulk is read
     * in the memory of whoever has it, where the system permits that; here it is not. */
    bool no_reads;

    /* Whoever started this cluster has seen to it that all addresses are listened at before
     * anybody begins, as cop_boot does: no member looks for all the others, which are n (n - 1)
     * connections. */
    bool all_listen;
};

/* ---- life ------------------------------------------------------------------------ */

/*
 * Begins to listen, and to become a member, on the caller's thread: see cop_fd. A member of
 * a static start is one when all are up; one that joins asks as often as need be.
 *   COP_EINVAL    the settings are not possible
 *   COP_EEXIST    somebody listens at that address already
 *   COP_EREFUSED  TCP without a key and without `insecure`; a key that others can read
 *   COP_EIO       no socket, or another resource of the system
 *   COP_ENOMEM
 * On failure `message`, if it is not NULL, gets one sentence that says what is wrong.
 */
int cop_start(const struct cop_settings *settings, struct cop_run **out, char *message,
              size_t size);
/* The same on a thread of its own. */
int cop_start_thread(const struct cop_settings *settings, struct cop_run **out,
                     char *message, size_t size);

/*
 * Asks to be taken out of the view, with a goodbye: the others need no detector. on_out(0)
 * comes when they have agreed. One that is still joining just stops.
 *   COP_EDEGRADED  there are too few to agree on it: use cop_stop
 *   COP_ESTATE     the run is over
 */
int cop_leave(struct cop_run *run);
/*
 * Waits until the run is over; its `why` (see on_out), so 0 if it left. Also COP_ETIMEDOUT,
 * after which it is still leaving, and the errors of cop_leave.
 */
int cop_leave_wait(struct cop_run *run, cop_time timeout_ns);

/* Ends it at once; to the others this is a crash. on_out(COP_ESTATE) follows. COP_ESTATE if
 * it is over. */
int cop_stop(struct cop_run *run);
/*
 * Takes everything away. A run that is not over is stopped first; its last callbacks (`done`
 * of what is under way, on_out) come before this returns. Waits for the library's thread.
 * No other call may be under way or come later. NULL is ignored.
 */
void cop_free(struct cop_run *run);

/* ---- the caller's own loop: cop_start -------------------------------------------- */

/*
 * A descriptor that is readable whenever cop_dispatch has something to do, deadlines
 * included: no time-out is needed. The same for as long as the run lives. Not to be read,
 * written or closed. -1 for a run with a thread.
 */
int cop_fd(const struct cop_run *run);
/* Does what there is to do, calls callbacks, and never waits. COP_ESTATE: from a callback,
 * with a thread, or if the run is over. */
int cop_dispatch(struct cop_run *run);
/* Waits at most so long (-1: for ever), then dispatches. Also COP_EIO. A signal ends the
 * wait. */
int cop_poll(struct cop_run *run, int timeout_ms);

/* ---- what is ---------------------------------------------------------------------- */

enum cop_run_state {
    COP_RUN_JOINING, /* it waits for the others of the start, or asks to be let in */
    COP_RUN_MEMBER,
    COP_RUN_LEAVING, /* a member that said goodbye */
    COP_RUN_OVER,
};
/* See above. COP_RUN_OVER for NULL. */
enum cop_run_state cop_state(const struct cop_run *run);
/* Its id; COP_ID_NONE while it has none. */
cop_id cop_self(const struct cop_run *run);
/* Whether too few can be reached to change the view; see on_degraded. */
bool cop_is_degraded(const struct cop_run *run);
/* Where it listens, as the others are told: "tcp:192.0.2.7:40123". Valid until cop_free. */
const char *cop_address(const struct cop_run *run);
/*
 * The view that was installed last, with a reference for the caller (cop_view_unref); NULL
 * if this life has none. May be kept longer than the run.
 */
struct cop_view *cop_view_current(const struct cop_run *run);
/*
 * With a thread: waits for a view with an epoch above `after` (0: any). The latest, not each
 * one. COP_ETIMEDOUT; COP_ESTATE if the run is over before.
 */
int cop_view_wait(struct cop_run *run, cop_epoch after, cop_time timeout_ns,
                  struct cop_view **out);

/* ---- what to do ------------------------------------------------------------------- */

/*
 * `length` bytes to a member: in order, once, and delivered in the view in which they were
 * sent. Copied. `done`: 0 it was delivered, and on_message is called there next; COP_ELOST
 * that member left the view, and may or may not have got it; COP_ETIMEDOUT nothing was heard, though it may still be delivered.
 *   COP_EINVAL   to itself, or to nobody in the view
 *   COP_ETOOBIG  more than COP_MESSAGE_MAX
 *   COP_EAGAIN   too much is under way: again after a `done`
 *   COP_ESTATE   it is no member
 * With a thread these may also come by `done`, but for COP_ETOOBIG and COP_ESTATE.
 */
int cop_send(struct cop_run *run, cop_id to, const void *bytes, size_t length,
             void (*done)(void *context, int status), void *context);
/* Waits; the status. */
int cop_send_wait(struct cop_run *run, cop_id to, const void *bytes, size_t length);
#define COP_MESSAGE_MAX (1000u * 1000u)

/*
 * Goes on with those who can be reached, though they are too few: the next view is committed
 * without a quorum, and the others are removed. Only while it is degraded (COP_ESTATE
 * otherwise), in the view with this `epoch` (COP_EINVAL; 0: whichever it is).
 *
 * A quorum is there so that one side goes on and never two. Whoever calls this has to know that
 * the others do not: that they are dead, or cannot do harm. If they do go on there are two
 * clusters, until they meet: then the members of one of them start anew in the other, and what
 * they did meanwhile is theirs alone.
 *
 * It counts at the lowest member that is left; all that are left may call it. `done`: 0 there
 * is another view; COP_ETIMEDOUT after 10 s there is none.
 */
int cop_go_on(struct cop_run *run, cop_epoch epoch,
              void (*done)(void *context, int status), void *context);

/*
 * A member is dead: the program knows it from elsewhere. `incarnation` 0: whichever life it
 * is in. `done`: 0 it is on its way to the root. Removed it is when a view says so.
 */
int cop_report(struct cop_run *run, cop_id member, cop_incarnation incarnation,
               void (*done)(void *context, int status), void *context);

/*
 * How are you, `member`? `done`: 0 it answered; COP_ETIMEDOUT it did not, and is accused of
 * it; COP_ELOST nobody listens there, or it is no member any more.
 */
int cop_inquire(struct cop_run *run, cop_id member, cop_time timeout_ns,
                void (*done)(void *context, int status), void *context);
/* Waits; the status. */
int cop_inquire_wait(struct cop_run *run, cop_id member, cop_time timeout_ns);

/*
 * Asks everyone, through the tree, and counts who answers. `done`: 0, or COP_ETIMEDOUT with
 * what was found by then; the result is borrowed, and NULL with other errors.
 */
int cop_probe(struct cop_run *run, cop_time timeout_ns,
              void (*done)(void *context, int status,
                           const struct cop_probe_result *result),
              void *context);
/* Waits; on 0 and COP_ETIMEDOUT *out is the caller's (cop_probe_result_free). */
int cop_probe_wait(struct cop_run *run, cop_time timeout_ns,
                   struct cop_probe_result *out);

/* ---- what was --------------------------------------------------------------------- */

/*
 * These ask the library's thread and wait for its answer, if they come from another one. So
 * do not hold a lock that a callback takes. COP_ESTATE if the run is over or has no node
 * yet.
 */

/* The counters of all lives of this run. `size` is sizeof *out. */
int cop_counters(struct cop_run *run, struct cop_stats *out, size_t size);
/*
 * When the last change of the view that this member led went through its stages; all 0 if it
 * led none. stable - heard is T_s, from the first news to the last acknowledgement;
 * committed - heard is T_commit.
 */
int cop_changes(struct cop_run *run, struct cop_change_times *out);
/*
 * Reads the files of the key again, and makes connections anew whose key is no longer
 * accepted. On failure everything stays as it was, and `message` says why.
 */
int cop_rekey(struct cop_run *run, char *message, size_t size);
/* As cop_node_events; *count gets how many. */
int cop_suspicions(struct cop_run *run, uint64_t from, struct cop_suspicion *out,
                   uint32_t max, uint32_t *count);

#ifdef __cplusplus
}
#endif

#endif
