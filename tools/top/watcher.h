/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_TOP_WATCHER_H
#define COP_TOOLS_TOP_WATCHER_H

#include "ask/follow.h"
#include "top/watch_body.h"

/*
 * The command's side of WATCH: outputs of a stream, one after the other. When the agent that was
 * asked is gone, another one is, and opens a stream of its own.
 */
struct watcher {
    /* Filled in by the caller: */
    const char *name, *agent; /* the cluster, or (not NULL) the socket of an agent */
    const char *command;      /* whose messages these are */
    struct watch_command watch;
    bool is_quiet; /* says nothing on standard error while it goes on */
    /* Filled: */
    struct local local;
    bool is_local;
    struct follow follow;
    bool is_asked;
    cop_time heard_ns;
    struct watch_reply reply; /* the last output */
    struct cop_buf *state;    /* its state */
    struct roll roll; /* who was there then; the view is NULL before the first */
};

/* 0, or an exit code after one line. */
int watcher_open(struct watcher *watcher);
void watcher_close(struct watcher *watcher);

enum watched { WATCHED_OUTPUT, WATCHED_KEY, WATCHED_NOTHING, WATCHED_END };
/*
 * Waits for the next output until then; or until `key_fd` (-1: none) can be read. END: nobody is
 * left to ask, and *code is an exit code after one line.
 */
enum watched watcher_next(struct watcher *watcher, cop_time until_ns, int key_fd,
                          int *code);

/* What a member is called. */
void watcher_name(const struct watcher *watcher, cop_id id, char out[COP_NAME_MAX + 1]);

#endif
