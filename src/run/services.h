/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_RUN_SERVICES_H
#define COP_RUN_SERVICES_H

#include "base/map.h"

#include <coppice/service.h>

/*
 * What a run has of collectives. Everything here belongs to the loop's thread. parts.h
 * includes it; the files are service.c, task.c, children.c, bulk.c, team.c and rpc.c.
 */

/* Where the answer of a child is wanted. */
struct cop__buffer {
    uint32_t child;
    uint8_t *bytes;
    size_t size, used;
    bool is_open; /* another piece follows */
};
struct cop__buffers {
    struct cop__buffer *items;
    uint32_t count;
};
int cop__buffers_add(struct cop__buffers *buffers, const struct cop__buffer *buffer);

/* A file that is read or written by a thread of libuv's. The thread has all but the first. */
struct cop__job;

/* Where the bulk of a task goes. */
struct cop__held {
    struct cop_buf *owner;
    struct cop_piece piece;
};
enum cop__sink_kind { COP__SINK_NONE, COP__SINK_MEMORY, COP__SINK_FILE };
struct cop__sink {
    enum cop__sink_kind kind;
    uint8_t *bytes;
    int fd; /* our own copy */
    uint64_t offset;
    struct cop__job *job;                   /* that writes the first of those below */
    struct cop__held held[COP_BULK_WINDOW]; /* in order, from `first` on */
    uint32_t first, count;
};

/* Where that of a call comes from. */
struct cop__source {
    struct cop_bulk given;
    bool has_file;
    int fd; /* our own copy */
    struct cop__job *job;
};

/*
 * A request that is run here. It is in the map from CHECK or RUN on until it is over; its memory
 * stays until its callbacks have returned, for one of them may end it.
 */
struct cop__task {
    struct cop_task told;
    uint64_t handle;    /* the node's */
    uint32_t callbacks; /* that have not returned */
    bool is_checking, is_running, is_done, is_sent, has_replied, is_over;
    bool is_early;          /* at the root: pieces came, and RUN did not yet */
    struct cop__sink *sink; /* NULL: none yet */
    int verdict; /* without HEAL: what `run` returned, until DONE; COP_LATER: nothing */
    struct cop_buf *record;
    struct cop__buffers buffers;
    struct cop__task *outer; /* that is being told of its end, too */
    int end_status;
    uint32_t leaving; /* its service is being unregistered, as the n-th; 0: it is not */
};

/* A group of this run's own. */
struct cop__team {
    uint64_t service;
    bool is_oob;
    uint8_t oob[16];
    struct cop_shape shape;
    char name[COP_NAME_MAX + 1];
    void *user;
};

struct cop__services {
    struct cop_handlers *items;
    uint32_t count;
    /* Tasks: nearly always there is one at most, which is not worth a map. */
    struct cop__task *lone, *spare; /* spare: memory of one that is over */
    struct cop__map tasks;          /* the others, by number */
    struct cop__task *ending; /* over, and being told so: the innermost; in no map */
    uint32_t leavings;
    struct cop__map rpcs;  /* calls that are not over, by number: also those not sent */
    struct cop__map teams; /* by number */
    uint64_t life;         /* nodes that this run has had */
    struct cop__call *backlog, **backlog_end; /* calls that the node has no room for */
};

struct cop__call;

/*
 * What a call is that is a collective; the call owns it. `coll` points into `bytes`.
 */
struct cop__rpc {
    uint64_t number;
    struct cop_coll coll;
    uint64_t group; /* as it was named: perhaps only the living of it */
    cop_call_done *done;
    bool is_counted; /* one of COP_RPC_MAX */
    bool is_listed, is_sent, is_waiting, is_aborted, retry;
    bool is_beginning; /* its group is being resolved */
    void *user;
    uint64_t task; /* at the root: its number; 0: none yet */
    struct cop__buffers buffers;
    struct cop__source source;
    uint8_t bytes[];
};

/* ---- service.c ------------------------------------------------------------------- */

/* Those of the settings. COP_EINVAL with a sentence, COP_ENOMEM. */
int cop__services_take(struct cop_run *run, const struct cop_settings *settings,
                       char *message, size_t size);
/* As the node wants them; NULL: no memory, or none. The caller's. */
struct cop_service *cop__services_list(const struct cop_run *run);
const struct cop_handlers *cop__handlers_find(const struct cop_run *run,
                                              uint64_t service);
/* The driver says so. */
void cop__run_upcall(void *context, struct cop_buf *record);
/* With the bytes of a piece beside it. */
void cop__run_piece(void *context, struct cop_buf *record, struct cop_buf *beside);
/* This life of the run is over: so are its tasks, calls and groups. */
void cop__services_end(struct cop_run *run, int status);
void cop__services_fini(struct cop_run *run);
/* Asks a service who is in a group; the targets are in *out. */
struct cop_members {
    struct cop_target *items;
    uint32_t count, capacity;
};
int cop__resolve(struct cop_run *run, const struct cop_handlers *handlers,
                 const uint8_t name[16], struct cop_members *out);
void cop__members_fini(struct cop_members *members);

/* ---- task.c ---------------------------------------------------------------------- */

void cop__task_upcall(struct cop_run *run, const struct cop_handlers *handlers,
                      const struct cop_upcall *upcall, struct cop_buf *record);
/* Ends all, or those of a service, with the callbacks that were promised. */
void cop__tasks_end(struct cop_run *run, const struct cop_handlers *only, int status);
/* The task with this number; NULL. */
struct cop__task *cop__task_find(const struct cop_run *run, uint64_t number);
/* What its callback says of the piece; COP_LATER also if the task, which is gone then, has
 * ended meanwhile. */
int cop__task_piece(struct cop_run *run, const struct cop_handlers *handlers,
                    struct cop__task *task, const struct cop_piece *piece);
/* The task of an upcall; at the root one begins with the first piece. NULL: there is none. */
struct cop__task *cop__task_of_piece(struct cop_run *run,
                                     const struct cop_upcall *upcall,
                                     struct cop_buf *record);
/* The call is over: so is its task at the root. */
void cop__task_conclude(struct cop_run *run, uint64_t number, int status);

/* ---- bulk.c ---------------------------------------------------------------------- */

/* What a call says of its bulk. COP_EINVAL, COP_ETOOBIG, COP_EIO. */
int cop__source_open(const struct cop_bulk *bulk, struct cop__source *out);
void cop__source_close(struct cop_run *run, struct cop__source *source);
/* The call is made once more: what is still being read is for nobody. */
void cop__source_rewind(struct cop_run *run, struct cop__source *source);
/* The node wants a part of it. */
void cop__bulk_want(struct cop_run *run, const struct cop_upcall *upcall);
/* The node has a piece for a service. */
void cop__bulk_piece(struct cop_run *run, const struct cop_handlers *handlers,
                     const struct cop_upcall *upcall, struct cop_buf *record,
                     struct cop_buf *beside);
/* Nothing more comes; nobody touches the program's memory or file after this. */
void cop__sink_close(struct cop_run *run, struct cop__task *task);

/* ---- team.c ---------------------------------------------------------------------- */

/* The group that is meant, and whether only the living of it are. */
bool cop__group_split(uint64_t named, uint64_t *group);
/* Before a broadcast over an out-of-band group: who is in it now? */
int cop__team_refresh(struct cop_run *run, uint64_t group);
void cop__team_forget(struct cop_run *run, uint64_t group);
void cop__teams_end(struct cop_run *run);

/* ---- rpc.c ----------------------------------------------------------------------- */

/* A collective without a payload, for whoever adds the rest. NULL: no memory. */
struct cop__call *cop__rpc_plain(enum cop_request_kind kind, cop_call_done *done,
                                 void *context);
/* Calls its `done`. */
void cop__rpc_tell(const struct cop__call *call, int status,
                   const struct cop_buf *result);
void cop__rpc_free(struct cop_run *run, struct cop__rpc *rpc);
/* The call that has this number; NULL. */
struct cop__call *cop__rpc_find(const struct cop_run *run, uint64_t number);
/* Calls that wait, as far as there is room now. */
void cop__rpc_pump(struct cop_run *run);
void cop__rpcs_end(struct cop_run *run, int status);

#endif
