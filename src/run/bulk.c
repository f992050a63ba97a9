/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk of a run: where the bytes of its calls come from, and where those of its tasks go. Memory
 * and callbacks are served on the loop's thread; files are read and written by threads of libuv,
 * one piece of a call at a time, for a disk may take long.
 */
#include "base/assert.h"
#include "run/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- files ----------------------------------------------------------------------- */

/* `is_busy` is behind the run's mutex; `owner` belongs to the loop's thread; the thread that works
 * has the rest until it is no longer busy. */
struct cop__job {
    uv_work_t work;
    struct cop_run *run;
    struct cop__job **owner; /* where it is noted; NULL: nobody waits for it any more */
    void (*done)(struct cop__job *job);
    uint64_t number; /* of the task, or of the call */
    uint64_t handle, offset;
    bool writes, is_busy;
    int fd, status;
    uint64_t at; /* in the file */
    uint32_t length;
    struct cop_buf *kept; /* whose bytes are written */
    const uint8_t *from;
    uint8_t to[];
};

static void do_file(struct cop__job *job)
{
    uint32_t done = 0;
    while (done < job->length && job->status == 0) {
        off_t at = (off_t)(job->at + done);
        ssize_t some = job->writes
                           ? pwrite(job->fd, job->from + done, job->length - done, at)
                           : pread(job->fd, job->to + done, job->length - done, at);
        if (some < 0 && errno == EINTR)
            continue;
        if (some <= 0) /* a file that is shorter than was said, too */
            job->status = COP_EIO;
        else
            done += (uint32_t)some;
    }
}

static void on_work(uv_work_t *work)
{
    struct cop__job *job = work->data;
    struct cop_run *run = job->run;
    do_file(job);
    pthread_mutex_lock(&run->mutex);
    job->is_busy = false;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->mutex);
}

static void on_worked(uv_work_t *work, int status)
{
    struct cop__job *job = work->data;
    (void)status;
    if (job->owner != NULL) {
        *job->owner = NULL;
        job->done(job);
    }
    cop_buf_unref(job->kept);
    free(job);
}

static struct cop__job *new_job(struct cop_run *run, struct cop__job **owner,
                                size_t room)
{
    struct cop__job *job = calloc(1, sizeof *job + room);
    if (job == NULL)
        return NULL;
    job->run = run;
    job->owner = owner;
    job->work.data = job;
    job->is_busy = true;
    return job;
}

static void begin_job(struct cop__job *job)
{
    *job->owner = job;
    cop__runner_changed(&job->run->runner);
    if (uv_queue_work(&job->run->loop, &job->work, on_work, on_worked) == 0)
        return;
    /* Without threads it is done here. */
    on_work(&job->work);
    on_worked(&job->work, 0);
}

/* Waits for the thread, if there is one: it is at one piece. */
static void forget_job(struct cop_run *run, struct cop__job **owner)
{
    struct cop__job *job = *owner;
    if (job == NULL)
        return;
    pthread_mutex_lock(&run->mutex);
    while (job->is_busy)
        pthread_cond_wait(&run->changed, &run->mutex);
    pthread_mutex_unlock(&run->mutex);
    job->owner = NULL;
    *owner = NULL;
}

/* ---- where it comes from --------------------------------------------------------- */

int cop__source_open(const struct cop_bulk *bulk, struct cop__source *out)
{
    if (bulk->length > COP_BULK_MAX || bulk->chunk > COP_BULK_CHUNK_MAX)
        return COP_EINVAL;
    *out = (struct cop__source){.given = *bulk};
    if (bulk->bytes != NULL || bulk->give != NULL || bulk->length == 0)
        return 0;
    out->fd = fcntl(bulk->fd, F_DUPFD_CLOEXEC, 3);
    out->has_file = out->fd >= 0;
    return out->has_file ? 0 : errno == EBADF ? COP_EINVAL : COP_EIO;
}

void cop__source_close(struct cop_run *run, struct cop__source *source)
{
    forget_job(run, &source->job);
    if (source->has_file)
        close(source->fd);
    source->has_file = false;
}

void cop__source_rewind(struct cop_run *run, struct cop__source *source)
{
    forget_job(run, &source->job);
}

static void say_given(struct cop_run *run, uint64_t handle, uint64_t offset, int status,
                      const void *bytes, uint32_t length)
{
    struct cop_coll coll = {.handle = handle, .offset = offset, .status = status};
    struct cop_request request = {.kind = COP_REQUEST_GIVE,
                                  .coll = &coll,
                                  .bytes = status ? NULL : bytes,
                                  .length = status ? 0 : length};
    cop__run_submit(run, &request);
}

static void on_read(struct cop__job *job)
{
    say_given(job->run, job->handle, job->offset, job->status, job->to, job->length);
}

static void read_file(struct cop_run *run, struct cop__source *source,
                      const struct cop_upcall *upcall)
{
    struct cop__job *job =
        source->job ? NULL : new_job(run, &source->job, upcall->length);
    if (job == NULL) {
        say_given(run, upcall->handle, upcall->offset, COP_ENOMEM, NULL, 0);
        return;
    }
    job->done = on_read;
    job->handle = upcall->handle;
    job->offset = upcall->offset;
    job->at = source->given.offset + upcall->offset;
    job->length = upcall->length;
    job->fd = source->fd;
    begin_job(job);
}

static void ask_program(struct cop_run *run, const struct cop__source *source,
                        const struct cop_upcall *upcall)
{
    uint8_t *bytes = malloc(upcall->length);
    int status = COP_ENOMEM;
    if (bytes != NULL) {
        bool was = run->is_in_callback;
        run->is_in_callback = true;
        status = source->given.give(source->given.context, upcall->offset, bytes,
                                    upcall->length);
        run->is_in_callback = was;
    }
    if (status > 0)
        status = COP_EINVAL;
    say_given(run, upcall->handle, upcall->offset, status, bytes, upcall->length);
    free(bytes);
}

COP__APART void cop__bulk_want(struct cop_run *run, const struct cop_upcall *upcall)
{
    struct cop__call *call = cop__call_under_way(run, upcall->token);
    if (call == NULL || call->rpc == NULL)
        return; /* it has ended */
    struct cop__source *source = &call->rpc->source;
    if (source->given.bytes != NULL)
        say_given(run, upcall->handle, upcall->offset, 0,
                  (const uint8_t *)source->given.bytes + upcall->offset,
                  upcall->length);
    else if (source->given.give != NULL)
        ask_program(run, source, upcall);
    else
        read_file(run, source, upcall);
}

/* ---- where it goes --------------------------------------------------------------- */

static struct cop__sink *sink_of(struct cop__task *task)
{
    if (task->sink == NULL)
        task->sink = calloc(1, sizeof *task->sink);
    return task->sink;
}

static void drop_first(struct cop__sink *sink)
{
    cop_buf_unref(sink->held[sink->first].owner);
    sink->held[sink->first].owner = NULL;
    sink->first = (sink->first + 1) % COP_BULK_WINDOW;
    sink->count--;
}

static int say_taken(struct cop_run *run, uint64_t handle, int status)
{
    struct cop_coll coll = {.handle = handle, .status = status};
    struct cop_request request = {.kind = COP_REQUEST_TAKEN, .coll = &coll};
    return cop__run_submit(run, &request);
}

static void write_next(struct cop_run *run, struct cop__task *task);

static void on_written(struct cop__job *job)
{
    struct cop__task *task = cop__task_find(job->run, job->number);
    if (task == NULL)
        return;
    drop_first(task->sink);
    int status = job->status;
    say_taken(job->run, task->handle, status);
    if (status == 0)
        write_next(job->run, task);
}

static void write_next(struct cop_run *run, struct cop__task *task)
{
    struct cop__sink *sink = task->sink;
    if (sink->job != NULL || sink->count == 0)
        return;
    const struct cop__held *held = &sink->held[sink->first];
    struct cop__job *job = new_job(run, &sink->job, 0);
    if (job == NULL) {
        say_taken(run, task->handle, COP_ENOMEM);
        return;
    }
    job->done = on_written;
    job->number = task->told.number;
    job->writes = true;
    job->fd = sink->fd;
    job->at = sink->offset + held->piece.offset;
    job->length = held->piece.length;
    job->kept = cop_buf_ref(held->owner);
    job->from = held->piece.bytes;
    begin_job(job);
}

static void hold(struct cop__sink *sink, struct cop_buf *owner,
                 const struct cop_piece *piece)
{
    COP_ASSERT(sink->count < COP_BULK_WINDOW); /* the node shows no more */
    sink->held[(sink->first + sink->count++) % COP_BULK_WINDOW] =
        (struct cop__held){cop_buf_ref(owner), *piece};
}

static void drop_last(struct cop__sink *sink)
{
    sink->count--;
    struct cop__held *held = &sink->held[(sink->first + sink->count) % COP_BULK_WINDOW];
    cop_buf_unref(held->owner);
    held->owner = NULL;
}

static void hand_over(struct cop_run *run, const struct cop_handlers *handlers,
                      struct cop__task *task, const struct cop_piece *piece,
                      struct cop_buf *owner)
{
    hold(task->sink, owner, piece);
    int status = cop__task_piece(run, handlers, task, piece);
    if (status == COP_LATER)
        return;
    /* The callback may have said so itself; twice would be of the next one, too. */
    if (task->sink->count > 0)
        drop_last(task->sink);
    else if (status == 0)
        return;
    say_taken(run, task->handle, status > 0 ? COP_EINVAL : status);
}

void cop__bulk_piece(struct cop_run *run, const struct cop_handlers *handlers,
                     const struct cop_upcall *upcall, struct cop_buf *record,
                     struct cop_buf *beside)
{
    struct cop__task *task = cop__task_of_piece(run, upcall, record);
    struct cop__sink *sink = task ? sink_of(task) : NULL;
    const struct cop_piece piece = {upcall->offset, upcall->bytes, upcall->length};
    if (sink == NULL) {
        say_taken(run, upcall->handle, COP_ENOMEM);
    } else if (sink->kind == COP__SINK_MEMORY) {
        memcpy(sink->bytes + piece.offset, piece.bytes, piece.length);
        say_taken(run, upcall->handle, 0);
    } else if (sink->kind == COP__SINK_FILE) {
        hold(sink, beside, &piece);
        write_next(run, task);
    } else if (handlers->piece != NULL) {
        hand_over(run, handlers, task, &piece, beside);
    } else {
        say_taken(run, upcall->handle, 0);
    }
}

COP__APART void cop__sink_close(struct cop_run *run, struct cop__task *task)
{
    struct cop__sink *sink = task->sink;
    if (sink == NULL)
        return;
    forget_job(run, &sink->job);
    while (sink->count > 0)
        drop_first(sink);
    if (sink->kind == COP__SINK_FILE)
        close(sink->fd);
    free(sink);
    task->sink = NULL;
}

/* ---- what a service says --------------------------------------------------------- */

struct place {
    uint64_t task;
    enum cop__sink_kind kind;
    uint8_t *bytes;
    size_t size;
    int fd;
    uint64_t offset;
    int status;
};

static int do_place(struct cop_run *run, void *argument)
{
    const struct place *place = argument;
    struct cop__task *task = cop__task_find(run, place->task);
    if (task == NULL)
        return COP_ENOENT;
    if (!task->is_checking || task->sink)
        return COP_ESTATE;
    if (place->kind == COP__SINK_MEMORY && place->size < task->told.bulk_length)
        return COP_ETOOBIG;
    int fd = place->kind == COP__SINK_FILE ? fcntl(place->fd, F_DUPFD_CLOEXEC, 3) : 0;
    if (fd < 0)
        return COP_EIO;
    struct cop__sink *sink = sink_of(task);
    if (sink == NULL) {
        if (place->kind == COP__SINK_FILE)
            close(fd);
        return COP_ENOMEM;
    }
    sink->kind = place->kind;
    sink->bytes = place->bytes;
    sink->fd = fd;
    sink->offset = place->offset;
    return 0;
}

int cop_bulk_to_memory(struct cop_run *run, uint64_t task, void *bytes, size_t size)
{
    struct place place = {
        .task = task, .kind = COP__SINK_MEMORY, .bytes = bytes, .size = size};
    if (run == NULL || (bytes == NULL && size > 0))
        return COP_EINVAL;
    return cop__ask_loop(run, do_place, &place);
}

int cop_bulk_to_file(struct cop_run *run, uint64_t task, int fd, uint64_t offset)
{
    struct place place = {
        .task = task, .kind = COP__SINK_FILE, .fd = fd, .offset = offset};
    return run ? cop__ask_loop(run, do_place, &place) : COP_EINVAL;
}

static int do_piece_done(struct cop_run *run, void *argument)
{
    const struct place *place = argument;
    struct cop__task *task = cop__task_find(run, place->task);
    if (task == NULL)
        return COP_ENOENT;
    if (task->sink == NULL || task->sink->kind != COP__SINK_NONE ||
        task->sink->count == 0)
        return COP_ESTATE;
    drop_first(task->sink);
    return say_taken(run, task->handle, place->status);
}

int cop_piece_done(struct cop_run *run, uint64_t task, int status)
{
    struct place place = {.task = task, .status = status};
    if (run == NULL || status > 0)
        return COP_EINVAL;
    return cop__ask_loop(run, do_piece_done, &place);
}
