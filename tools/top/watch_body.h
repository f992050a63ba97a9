/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_TOP_WATCH_BODY_H
#define COP_TOOLS_TOP_WATCH_BODY_H

#include "talk/command.h"

/*
 * WATCH: what the hosts of all members are doing, as a stream whose back-ends are the agents. The
 * first one of a session opens the stream, and the end of the session closes it. Each is
 * answered with the last output, as soon as that is another one than is known.
 */
enum watch_kind {
    WATCH_HOSTS = 1,  /* the filter `hosts`, a wave each interval */
    WATCH_STACKS = 2, /* the filter `stacks`, one wave */
};

/* Which processes, of WATCH_STACKS; "" stands for any. */
struct watch_wish {
    char pids[1024], name[64], exe[1024];
    bool threads;
    cop_time patience_ns;
};

struct watch_command {
    enum watch_kind kind;
    uint64_t known; /* serial number; 0: none */
    cop_time
        interval_ns; /* STACKS: so long the wave waits for a member that is silent */
    struct cop__bytes wish; /* as bytes, passed on to all back-ends; borrowed */
};

struct watch_reply {
    uint64_t serial, wave;
    bool complete;    /* everybody is in it */
    uint32_t covered; /* members that are */
    uint32_t members; /* of the view */
    cop_id root;
    struct cop__bytes state; /* borrowed */
};

struct cop_buf *watch_wish_encode(const struct watch_wish *wish);
int watch_wish_decode(struct cop__bytes body, struct watch_wish *out);
struct cop_buf *watch_command_encode(const struct watch_command *command);
int watch_command_decode(struct cop__bytes body, struct watch_command *out);
struct cop_buf *watch_reply_encode(const struct watch_reply *reply);
int watch_reply_decode(struct cop__bytes body, struct watch_reply *out);

#endif
