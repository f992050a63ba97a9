/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_AGENT_RUNS_H
#define COP_TOOLS_AGENT_RUNS_H

#include "net/tcp/driver.h"
#include "talk/serve.h"

/*
 * Runs of probes, or of broadcasts, inside an agent, each for one session: the next probe begins when the
 * last one has ended, so that what is measured is the tree and not the command. Samples
 * go out in chunks; a command that does not read its chunk stops its run, and one that
 * goes away ends it.
 */
struct run;

struct runs {
    struct cop__tcp *tcp; /* NULL while there is no node */
    cop_id self;
    struct run *first;
    uint64_t next_token;
    uv_idle_t idle; /* active while a run has a probe to begin */
};

void runs_init(struct runs *runs, uv_loop_t *loop, cop_id self);
/* The node is gone: all runs end with this status. `tcp` is the next one's, or NULL. */
void runs_end(struct runs *runs, int status);
/* Ends all runs without a word and closes the handle. */
void runs_close(struct runs *runs);

/* The PROBE command of a session. */
void runs_start(struct runs *runs, struct session *session, struct cop__bytes body);
/* The BCAST command. */
void runs_start_bcast(struct runs *runs, struct session *session,
                      struct cop__bytes body);
/* What the driver, and the server, have to tell. */
void runs_complete(struct runs *runs, uint64_t token, int status,
                   struct cop_buf *result);
void runs_written(struct runs *runs, struct session *session);
void runs_closed(struct runs *runs, struct session *session);

#endif
