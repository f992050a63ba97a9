/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_SERVICE_H
#define COPPICE_SERVICE_H

#include <coppice/coll.h>
#include <coppice/run.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Run it everywhere, get one answer: collectives (coppice/coll.h) by callbacks, at a member
 * that is a run (coppice/run.h).
 *
 * One who asks, and needs no callback:
 *
 *   struct cop_call call = {.service = LOAD, .op = COP_OP_MAX};
 *   struct cop_bcast_result all;
 *   if (cop_rpc_wait(run, &call, &all) == 0) {
 *       printf("%u of %u say: at most %lld\n", all.answered, all.members,
 *              (long long)cop_value(&all, 0));
 *       cop_result_free(&all);
 *   }
 *
 * Everyone who is asked:
 *
 *   static int tell_load(void *context, struct cop_run *run, struct cop_task *task)
 *   {
 *       int64_t load = measure();
 *       return cop_reply(run, task->number, 0, &load, sizeof load);
 *   }
 *   struct cop_handlers load = {
 *       .size = sizeof load, .service = LOAD, .run = tell_load};
 *   cop_service_register(run, &load);
 *
 * Tasks, calls and groups are named by numbers. A run gives none of them twice, so whoever
 * is late names nothing (COP_ENOENT), never something else.
 *
 * Threads are as in coppice/run.h. Functions that are called from another thread than the
 * run's own wait until that one has answered, but for cop_rpc, which only leaves the call
 * there: so do not hold a lock that a callback takes. From a callback all of them may be
 * called but those whose names end in _wait.
 */

/* ---- a service ------------------------------------------------------------------- */

/* A request that is to be run here. Borrowed: it is gone when the callback returns. */
struct cop_task {
    uint64_t number; /* for cop_reply and the others below */
    uint64_t service;
    uint64_t group; /* for cop_group_look; COP_GROUP_ALL */
    cop_id root;    /* who asks */
    uint64_t call;  /* at the root the number of the call; elsewhere 0 */
    uint32_t version;
    uint32_t flags;             /* enum cop_bcast_flag of the call */
    const struct cop_tag *tags; /* all that are meant at this member */
    uint32_t tag_count;
    /* The request, as a copy that is the service's own: it may be changed, and stays until
     * `sent`. It is not aligned to anything. */
    uint8_t *bytes;
    uint32_t length;
    cop_time
        service_ns; /* `check` may set how long this member needs; 0: see the call */
    int status;     /* `done`, `sent`: how it ended here */
    void *user;     /* the service's own; at the root it begins as that of the call */
    uint64_t bulk_length; /* how much bulk goes with it; 0: none */
    int bulk_status;      /* `run`: not 0, the bulk is not here, see below */
};

/* What came from a child. */
struct cop_answer {
    cop_id from;
    int status; /* not 0: it failed, in `phase`. COP_ETOOBIG: its buffer is too small */
    enum cop_phase phase;
    bool more; /* without HEAL: another one of it follows */
    const uint8_t *bytes;
    uint32_t length;
};

/* A part of the bulk of a task, the next in order. */
struct cop_piece {
    uint64_t offset;
    const uint8_t *bytes;
    uint32_t length;
};

/* Whom an out-of-band group consists of: filled by `resolve`. */
struct cop_members;
/* One more member. The tags are copied. COP_ENOMEM. */
int cop_members_add(struct cop_members *members, cop_id node,
                    const struct cop_tag *tags, uint32_t tag_count);

/* What `run` returns if it will reply later, and `piece` if it will say so later. */
#define COP_LATER 1

/*
 * A service is its callbacks; each may be NULL. For one task, in this order:
 *
 *   check  may this be run here? Not 0 (a negative code): no, and nobody below is asked. Not
 *          at the root. This is the place for cop_reply_buffer, and to say where bulk goes.
 *   piece  with bulk: the next part of it; any number of times, see below
 *   run    run it. Those below have been asked already. 0: it is done, and if there was no
 *          cop_reply the answer is empty. COP_LATER: cop_reply comes later, from here or, with
 *          a thread, from any thread. Otherwise it has failed, and the code is the answer.
 *   reply  this came from a child; any number of times
 *   done   nothing more comes from any child. Without HEAL this is the place to combine, and
 *          for cop_reply.
 *   sent   the answer has gone up. Not at the root, where the end of the call is the end.
 *
 * Whoever got `run` gets `done` once and then `sent` once, whatever happens: an abort, a
 * time-out, the death of the root, cop_service_unregister, the end of this run. At the root
 * `done` is the last. What a service keeps for a task it can give back there.
 *
 *   resolve  whom does the out-of-band group of this name consist of? With cop_members_add;
 *            not 0: it is not known. Where the group is used it comes from within the
 *            function that does so.
 *
 * What a service does wrong has an end, too:
 *
 *   never replies      it alone fails, with COP_ETIMEDOUT in phase run
 *   replies twice      COP_ESTATE, or COP_ENOENT if the first has gone; nothing happens
 *   replies too late   after an abort, a time-out, its end: COP_ENOENT; after the end of the run:
 *                      COP_ESTATE; nothing happens
 *   replies too early  without HEAL and before `done`: COP_ESTATE; nothing happens
 *   replies with what  the operation cannot take: COP_EINVAL; it may reply again
 *   refuses            it and those below it fail, in phase check, refused by it
 *   unregisters        what it has not replied to fails, with COP_ENOENT in phase service
 */
struct cop_handlers {
    size_t size; /* sizeof(struct cop_handlers) */
    uint64_t service;
    uint32_t version; /* the highest of its requests that it understands; 0: 1 */
    void *context;
    int (*check)(void *context, struct cop_run *run, struct cop_task *task);
    int (*run)(void *context, struct cop_run *run, struct cop_task *task);
    void (*reply)(void *context, struct cop_run *run, struct cop_task *task,
                  const struct cop_answer *answer);
    void (*done)(void *context, struct cop_run *run, struct cop_task *task);
    void (*sent)(void *context, struct cop_run *run, struct cop_task *task);
    int (*resolve)(void *context, struct cop_run *run, const uint8_t name[16],
                   struct cop_members *members);
    int (*piece)(void *context, struct cop_run *run, struct cop_task *task,
                 const struct cop_piece *piece);
};

/*
 * From now on, and in later lives of this run. A run that is still joining has its services
 * from its first moment on; one with a thread should have them in its settings, so that no
 * request comes before them.
 *   COP_EEXIST   there is one of this number
 *   COP_ETOOBIG  there are COP_SERVICES_MAX
 *   COP_EAGAIN   too much waits to be sent just now
 */
int cop_service_register(struct cop_run *run, const struct cop_handlers *handlers);
/*
 * No more. Tasks that are under way end before this returns, with `done` and `sent`; after
 * that no callback of the service is called. COP_ENOENT.
 *
 * The same if a callback of the service does so: what was promised for its task comes in the
 * middle of it, and when this returns only what has begun goes on. What such a callback was
 * given stays until it returns, and what it returns counts for nothing. A task of which `check`
 * has not returned was never run, and nothing more comes of it.
 */
int cop_service_unregister(struct cop_run *run, uint64_t service);

/*
 * The answer of this member to a task, once: with HEAL what it has to say itself, to be
 * combined by the operation of the call; without, what its whole sub-tree has to say. Copied.
 * `status` not 0 (a negative code): it has failed. For what else can be returned see above;
 * also COP_ETOOBIG above COP_REPLY_MAX.
 */
int cop_reply(struct cop_run *run, uint64_t task, int status, const void *bytes,
              size_t length);
/* A first part of the answer, which goes up at once; more follows. Not with HEAL, and not at
 * the root (COP_EINVAL). */
int cop_reply_part(struct cop_run *run, uint64_t task, const void *bytes,
                   size_t length);

/* ---- bulk ------------------------------------------------------------------------ */

/*
 * Any number of bytes may go with a call (coppice/coll.h): in pieces, through the same tree, each
 * member passing them on while more come. Nobody keeps more than a window of them in memory, so
 * whoever is slow to take them slows all of it down.
 */

/* Where the bytes of a call come from, and how many there are. */
struct cop_bulk {
    uint64_t length; /* COP_BULK_MAX at most */
    const void
        *bytes; /* in memory, where they stay as they are until `done`; or else: */
    /* Asked for the bytes from `offset` on, which go to `to`; not 0 (a negative code): they
     * cannot be had, and the bulk fails everywhere. The same bytes may be asked for again. Or
     * else: */
    int (*give)(void *context, uint64_t offset, void *to, uint32_t length);
    void *context;
    int fd; /* a file from `offset` on, read by another thread; the descriptor may be closed
               as soon as the call was made, but the file must stay as it is until `done` */
    uint64_t offset;
    uint32_t
        chunk; /* how long a piece is; 0: COP_BULK_CHUNK. COP_BULK_CHUNK_MAX at most */
};

/*
 * Where the bulk of a task goes: to be said by `check`, once. Otherwise each piece goes to the
 * callback `piece`, and if there is none they are only passed on. The root is not asked: it
 * has the bytes, but its `piece` is called as everybody's.
 *
 * `run` comes when all of it has been put away and is what the root gave, by a digest. If that
 * cannot be, `run` comes with bulk_status, so that the service can give back what it has: it
 * was not possible to put it away here (COP_EIO, or what `piece` said), the root cannot give it,
 * the call has ended (COP_EABORTED, COP_ETIMEDOUT, COP_ELOST), or, without HEAL, whoever is above
 * died (COP_ELOST). Then what `run` returns counts for nothing and cop_reply is refused, for the
 * library has answered, with COP_PHASE_BULK. Whoever has passed `check` gets `run` once.
 *
 *   COP_ENOENT   there is no such task
 *   COP_ESTATE   it has begun, or has such a place already
 *   COP_ETOOBIG  `size` is below bulk_length
 *   COP_EIO      the descriptor cannot be kept
 */
/* Into memory, which must live until `run`. */
int cop_bulk_to_memory(struct cop_run *run, uint64_t task, void *bytes, size_t size);
/* Into a file, from `offset` on, by pwrite in another thread. The descriptor may be closed as
 * soon as this returns; nothing is written after `run`, and nothing is flushed to a disk. */
int cop_bulk_to_file(struct cop_run *run, uint64_t task, int fd, uint64_t offset);
/*
 * The oldest piece for which `piece` returned COP_LATER is put away; its bytes were valid until
 * now. Not 0 (a negative code): it cannot be. `piece` itself may say so of its own, if there is
 * no older one, and then returns 0 or COP_LATER. COP_ENOENT; COP_ESTATE if there is none.
 */
int cop_piece_done(struct cop_run *run, uint64_t task, int status);

/* ---- the tree -------------------------------------------------------------------- */

/* One child in the tree of a task, or of a call that was made and not yet sent. */
struct cop_child {
    cop_id node;
    uint32_t nodes;    /* in its sub-tree, itself included */
    uint32_t entities; /* tags of all of them */
    cop_time
        patience_ns; /* how long it is waited for, without HEAL; 0: not known yet */
};
/* How many there are; COP_ENOENT. */
int cop_children(struct cop_run *run, uint64_t number);
/* The i-th of them. */
int cop_child(struct cop_run *run, uint64_t number, uint32_t i, struct cop_child *out);
/*
 * Where the answer of the i-th child goes: from `check`, or between cop_bcast_new and
 * cop_bcast_send. What came is in it, in one piece, when `reply` is called without `more` for
 * this child; it must live until then, and in any case no longer than until `done`. More than
 * `size` bytes: `reply` gets COP_ETOOBIG and the first `size`. Without one an answer is
 * borrowed for `reply` only. COP_ENOENT; COP_EEXIST: it has one.
 */
int cop_reply_buffer(struct cop_run *run, uint64_t number, uint32_t i, void *buffer,
                     size_t size);

/* ---- ends ------------------------------------------------------------------------ */

/*
 * How a call ended: 0, and the result says who answered, what, and who failed and why. Also
 * COP_ETIMEDOUT, with what came by then; COP_EABORTED; COP_EVERSION with COP_BCAST_STRICT.
 * With other errors, and without memory, the result is NULL. It is borrowed.
 */
typedef void cop_call_done(void *context, int status,
                           const struct cop_bcast_result *result);

/* ---- groups ---------------------------------------------------------------------- */

struct cop_group_spec {
    enum cop_group_kind kind; /* COP_GROUP_NOW or COP_GROUP_LAZY */
    uint64_t service;
    const char *name; /* at most COP_NAME_MAX bytes; may be NULL */
    const struct cop_target *targets;
    uint32_t target_count;  /* this member must be one of them */
    struct cop_shape shape; /* kind 0: the view's */
    void *user;             /* for cop_group_look */
};
/*
 * *out is its number, at once. COP_GROUP_LAZY: it may be used. COP_GROUP_NOW: it may be used
 * when `done` was called with 0; with COP_ELOST somebody could not be told, who is among the
 * failures of the result (NULL with other errors), and the group is gone. Groups end with
 * this life of the run.
 *   COP_EINVAL   members that are not in the view, this one missing, or a long name
 *   COP_ETOOBIG  too many groups, or too many targets
 *   COP_EAGAIN   too much in flight
 *   COP_ESTATE   it is no member
 */
int cop_group_create(struct cop_run *run, const struct cop_group_spec *spec,
                     uint64_t *out, cop_call_done *done, void *context);
/* Waits. */
int cop_group_create_wait(struct cop_run *run, const struct cop_group_spec *spec,
                          uint64_t *out);
/*
 * A group that everybody knows by other means, under this name: no message is sent. Of `spec`
 * the service, the name, the shape and `user` are taken. The service's `resolve` is called
 * here, now and whenever it is broadcast over, and at the others; who comes to other members
 * refuses. COP_ENOENT: it has no `resolve`, or went meanwhile; or what that said.
 */
int cop_group_create_oob(struct cop_run *run, const struct cop_group_spec *spec,
                         const uint8_t name[16], uint64_t *out);
/* Those of a group who are not known to be dead, whenever it is broadcast over: a number for
 * calls only. */
uint64_t cop_group_alive(uint64_t group);
/*
 * Ends it. `done` comes when all members have heard of it, or cannot.
 *   COP_ENOENT   there is no such group
 *   COP_EINVAL   it is somebody else's
 *   COP_EAGAIN   calls over it are under way
 */
int cop_group_end(struct cop_run *run, uint64_t group, cop_call_done *done,
                  void *context);
/* Waits. */
int cop_group_end_wait(struct cop_run *run, uint64_t group);

struct cop_group_facts {
    char name[COP_NAME_MAX + 1];
    uint8_t digest[16]; /* what it is called on the wire; zero for COP_GROUP_ALL */
    void *user;         /* NULL if somebody else made it */
};
/* One's own, or one that came with a task. COP_ENOENT. */
int cop_group_look(struct cop_run *run, uint64_t group, struct cop_group_facts *out);

/* ---- calls ----------------------------------------------------------------------- */

/* All zero but for the service is a good beginning: everybody, and who failed. Copied, with
 * all that it points to. */
struct cop_call {
    uint64_t service; /* with a group: that of the group counts */
    uint64_t group;   /* COP_GROUP_ALL; cop_group_alive */
    const void *bytes;
    size_t length; /* with portions and a lazy group: below COP_BCAST_MAX */
    /* For these members something else than `bytes`. */
    const struct cop_portion *portions;
    uint32_t portion_count;
    enum cop_op op;
    uint32_t argument;   /* of COP_OP_TOP */
    cop_time timeout_ns; /* HEAL: of it all; 0: 10 s */
    cop_time service_ns; /* how long a member may need; without HEAL */
    uint32_t flags;      /* enum cop_bcast_flag; COP_BCAST_BULK is set by `bulk` */
    uint32_t version;
    const struct cop_bulk *bulk; /* NULL: none. Needs a service here */
    /*
     * If some member understands only lower versions: again, with the lowest of them, until
     * all understand. Whoever understood a higher one runs it again, so it must be harmless
     * to run twice. The result is that of the last.
     */
    bool retry;
    void *user; /* of the task at the root */
    uint64_t
        *number; /* cop_rpc: may be NULL; gets the number, for cop_bcast_abort, before
                         any callback comes */
};
/*
 * One call, one callback, one folded answer: whoever is alive runs it exactly once, and the
 * others are named. COP_BCAST_HEAL is always set.
 *   COP_EINVAL   something in the call is not possible
 *   COP_ENOENT   no such group; out of band: its service has no `resolve`. Or what that said
 *   COP_EABORTED `resolve` has aborted it
 *   COP_ETOOBIG  the request has more than COP_BCAST_MAX bytes
 *   COP_EAGAIN   COP_RPC_MAX are under way: again after a `done`
 *   COP_ESTATE   it is no member
 * From another thread all but COP_ETOOBIG, COP_EAGAIN and COP_ESTATE come by `done`. The
 * node has room for the 512 after the oldest that has not ended; others wait in their order,
 * and `timeout_ns` begins after that.
 */
int cop_rpc(struct cop_run *run, const struct cop_call *call, cop_call_done *done,
            void *context);
#define COP_RPC_MAX 4096u
/* Waits. With 0, COP_ETIMEDOUT and COP_EVERSION *out is the caller's (cop_result_free). */
int cop_rpc_wait(struct cop_run *run, const struct cop_call *call,
                 struct cop_bcast_result *out);
/* Also of cop_rpc_wait's bytes. */
void cop_result_free(struct cop_bcast_result *result);

/*
 * The same in steps, and only with the flags that are given: without COP_BCAST_HEAL the
 * services combine, the one here included, and the result has what it replied. cop_bcast_new
 * sends nothing; the tree can be asked for, and buffers given. A call that is not sent goes
 * by cop_bcast_abort, or with the run.
 */
int cop_bcast_new(struct cop_run *run, const struct cop_call *call, cop_call_done *done,
                  void *context, uint64_t *out);
/*
 * Once. Errors as those of cop_rpc; COP_ELOST: without HEAL, and a member is known to be
 * dead; *lost (may be NULL) says who. After an error `done` is not called, and the call may
 * be sent again, but for COP_EABORTED: `resolve` has aborted it, and it is gone.
 */
int cop_bcast_send(struct cop_run *run, uint64_t number, cop_id *lost);
/*
 * Ends a call, of cop_rpc too: its `done` gets COP_EABORTED, and those who run it hear of it.
 * COP_ENOENT if it has ended.
 */
int cop_bcast_abort(struct cop_run *run, uint64_t number);

#ifdef __cplusplus
}
#endif

#endif
