/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_TOP_WATCH_H
#define COP_TOOLS_TOP_WATCH_H

#include "exec/minder.h"
#include "net/tcp/driver.h"
#include "run/streams.h"
#include "talk/serve.h"
#include "top/host_sample.h"
#include "top/watch_body.h"

/*
 * Streams of agents (WATCH, watch_body.h). An agent has three parts in them:
 *   watch.c          the desk, for front-ends of any kind while it is the root
 *   watch_front.c    the front-end of each session that asked it to watch
 *   watch_sample.c   the back-end: what its host is doing, if no other agent of the host says it
 */
struct watch_front;
struct sampler;

struct watches {
    struct cop__tcp *tcp; /* NULL while there is no node */
    uv_loop_t *loop;
    const struct cop_log *log;
    cop_id self;
    cop_incarnation incarnation;
    uint64_t instance; /* of the cluster */
    struct cop__desk desk;
    uv_check_t
        turn; /* what could not be done at once is done after a turn of the loop */
    uv_timer_t again; /* of which there is one soon */
    bool is_open;
    struct watch_front *fronts;
    bool is_due;
    uint64_t made; /* numbers */
    struct sampler *samplers;
    int host_fd; /* bound by the one agent of this host that samples; -1: not this one */
    struct minder minder;
};

int watches_init(struct watches *watches, uv_loop_t *loop, const struct cop_log *log,
                 uint64_t instance);
/* A node is there. */
void watches_begin(struct watches *watches, struct cop__tcp *tcp, cop_id self,
                   cop_incarnation incarnation);
/* It is gone: whoever waits is told why. */
void watches_end(struct watches *watches, int why);
/* The loop is to end. */
void watches_close(struct watches *watches);

/* What the driver says. */
void watches_view(struct watches *watches, const struct cop_view *view);
void watches_letter(struct watches *watches, int channel, cop_id from,
                    cop_incarnation incarnation, const struct cop_buf *bytes);
/* False: it is not of streams. */
bool watches_complete(struct watches *watches, uint64_t token);
void watches_stream(struct watches *watches, uint64_t stream,
                    const struct cop_buf *bytes);

/* The WATCH command of a session. */
void watches_order(struct watches *watches, struct session *session,
                   struct cop__bytes body);
void watches_closed(struct watches *watches, const struct session *session);

/* ---- watch_front.c: for watch.c -------------------------------------------------- */

/* What a desk says to one of the front-ends here; `context`: the watches. */
void watch_front_hear(void *context, const struct cop__said *said);
bool watch_front_is_heard(const struct watches *watches, uint64_t stream, cop_id from,
                          cop_incarnation incarnation);
void watch_fronts_view(struct watches *watches, const struct cop_view *view);
void watch_fronts_turn(struct watches *watches);
void watch_fronts_end(struct watches *watches, int why);

/* ---- watch_sample.c: for watch.c ------------------------------------------------- */

/* The node says something to the back-end here. */
void samplers_event(struct watches *watches, uint64_t stream,
                    const struct cop_stream_event *event);
void samplers_end(struct watches *watches);

#endif
