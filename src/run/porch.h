/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_RUN_PORCH_H
#define COP_RUN_PORCH_H

#include "net/tcp/clock.h"
#include "net/tcp/limits.h"
#include "net/tcp/notice.h"

/*
 * Taking connections where there is no node to take them: of a member that waits or joins, and of
 * commands. When descriptors or memory run out, whoever calls waits for a moment, and nothing
 * spins meanwhile.
 */
struct cop__porch_config {
    uv_loop_t *loop;
    int fd; /* listens; borrowed until the porch is closed */
    const struct cop_log *log;
    const char *name; /* begins its lines in the log */
    /* A connection, non-blocking and given away. NULL: all are closed at once. */
    void (*take)(void *context, int fd, cop__origin from);
    void *context;
};

struct cop__porch {
    struct cop__porch_config config;
    uv_poll_t poll;
    struct cop__clock clock; /* a descriptor: programs wait for those alone */
    struct cop__alarm resume;
    struct cop__notice shortage;
    void (*closed)(void *context);
    uint32_t handles; /* not yet closed */
    bool is_watching;
};

/* 0 or a code of libuv; then, too, it has to be closed. Takes nobody yet. */
int cop__porch_init(struct cop__porch *porch, const struct cop__porch_config *config);
/* Takes who comes, and who has come. */
void cop__porch_watch(struct cop__porch *porch);
/* Takes nobody any more, until it is to watch again. */
void cop__porch_rest(struct cop__porch *porch);
/* The loop calls `closed`, which may be NULL, when the memory is no longer used; at once, if the
 * loop does not know of it. Also good for zeros. */
void cop__porch_close(struct cop__porch *porch, void (*closed)(void *context));

#endif
