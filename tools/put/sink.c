/* SPDX-License-Identifier: Apache-2.0 */
/* The member's side of put: pieces into a file. */
#include "put/parts.h"

#include "base/assert.h"

#include <coppice/error.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A piece that waits for its turn. */
struct piece {
    struct cop_buf *owner;
    const uint8_t *bytes;
    uint32_t length;
    uint64_t offset;
};

enum task { TASK_NONE, TASK_WRITE, TASK_FINISH };

/*
 * One file that comes in. While a thread works on it (`task`) it has the descriptor, the names and
 * `why`, and nobody else touches them.
 */
struct put_sink {
    struct put_sink *next;
    struct put *put;
    uint64_t handle;
    uint32_t mode;
    uv_work_t work;
    enum task task;
    int fd;        /* -1: not open yet */
    bool is_named; /* `hidden` exists */
    char path[PUT_PATH_MAX], hidden[PUT_PATH_MAX + 32], folder[PUT_PATH_MAX];
    char why[PUT_TEXT_MAX]; /* what went wrong; "" */
    bool is_ignored;        /* not meant for this member */
    struct piece pieces[COP_BULK_WINDOW];
    uint32_t first, count;
    bool is_whole; /* RUN came: nothing more does */
    bool is_over;  /* nothing is to be said any more */
};

/* ---- in a thread ----------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void blame(struct put_sink *sink,
                                                        const char *format, ...)
{
    va_list args;
    if (sink->why[0] != '\0')
        return;
    va_start(args, format);
    vsnprintf(sink->why, sizeof sink->why, format, args);
    va_end(args);
}

/* What no file may take the place of; NULL: a file. */
static const char *name_special(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFLNK:
        return "a symbolic link";
    case S_IFIFO:
        return "a FIFO";
    case S_IFSOCK:
        return "a socket";
    case S_IFCHR:
    case S_IFBLK:
        return "a device";
    case S_IFDIR:
        return "a folder";
    default:
        return NULL;
    }
}

/* What is there and is no file is somebody's, and nobody could put it back. A link is not
 * followed either: who may write where it stands need not be who owns what it points to. The
 * kind comes first, for a long path is cut off. */
static void check_place(struct put_sink *sink)
{
    struct stat status;
    const char *kind =
        lstat(sink->path, &status) == 0 ? name_special(status.st_mode) : NULL;
    if (kind != NULL)
        blame(sink, "%s is not replaced%s: %s", kind,
              S_ISDIR(status.st_mode) ? " (DEST/ puts the file into it)" : "",
              sink->path);
}

/* Without a name, so that nothing is left if we are killed; hidden where that cannot be. */
static void open_file(struct put_sink *sink)
{
    check_place(sink);
    if (sink->why[0] != '\0')
        return;
    sink->fd = open(sink->folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (sink->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
        sink->fd = open(sink->hidden,
                        O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, 0600);
        sink->is_named = sink->fd >= 0;
    }
    if (sink->fd < 0)
        blame(sink, "cannot write in %s: %s", sink->folder, strerror(errno));
}

static void write_piece(struct put_sink *sink, const struct piece *piece)
{
    uint32_t done = 0;
    if (sink->fd < 0 && sink->why[0] == '\0')
        open_file(sink);
    while (sink->why[0] == '\0' && done < piece->length) {
        ssize_t wrote = pwrite(sink->fd, piece->bytes + done, piece->length - done,
                               (off_t)(piece->offset + done));
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            blame(sink, "cannot write %s: %s", sink->path, strerror(errno));
        else
            done += (uint32_t)wrote;
    }
}

static int sync_folder(const struct put_sink *sink)
{
    int fd = open(sink->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int error = fsync(fd);
    close(fd);
    return error;
}

/* All of it is on the disk before it has its name, and its name is before we say so. */
static void finish_file(struct put_sink *sink)
{
    char self[64];
    if (sink->fd < 0 && sink->why[0] == '\0')
        open_file(sink);
    if (sink->why[0] != '\0')
        return;
    snprintf(self, sizeof self, "/proc/self/fd/%d", sink->fd);
    if (fchmod(sink->fd, sink->mode) != 0 || fsync(sink->fd) != 0)
        blame(sink, "cannot write %s: %s", sink->path, strerror(errno));
    else if (!sink->is_named &&
             linkat(AT_FDCWD, self, AT_FDCWD, sink->hidden, AT_SYMLINK_FOLLOW) != 0)
        blame(sink, "cannot name %s: %s", sink->hidden, strerror(errno));
    else
        sink->is_named = true;
    /* It took its time: something else may be there by now. */
    check_place(sink);
    if (sink->why[0] == '\0' && rename(sink->hidden, sink->path) != 0)
        blame(sink, "cannot name %s: %s", sink->path, strerror(errno));
    else if (sink->why[0] == '\0')
        sink->is_named = false;
    if (sink->why[0] == '\0' && sync_folder(sink) != 0)
        blame(sink, "%s is there, but perhaps not on the disk: %s", sink->path,
              strerror(errno));
}

static void on_work(uv_work_t *work)
{
    struct put_sink *sink = work->data;
    if (sink->task == TASK_WRITE)
        write_piece(sink, &sink->pieces[sink->first]);
    else
        finish_file(sink);
}

/* ---- in the loop ----------------------------------------------------------------- */

static void drop_piece(struct put_sink *sink)
{
    cop_buf_unref(sink->pieces[sink->first].owner);
    sink->first = (sink->first + 1) % COP_BULK_WINDOW;
    sink->count--;
}

static void free_sink(struct put_sink *sink)
{
    struct put_sink **link = &sink->put->sinks;
    while (*link != sink)
        link = &(*link)->next;
    *link = sink->next;
    while (sink->count > 0)
        drop_piece(sink);
    if (sink->fd >= 0)
        close(sink->fd);
    if (sink->is_named)
        unlink(sink->hidden);
    free(sink);
}

static void on_worked(uv_work_t *work, int status);

static void begin_task(struct put_sink *sink, enum task task)
{
    sink->task = task;
    sink->work.data = sink;
    sink->put->working++;
    COP_ASSERT(uv_queue_work(sink->put->config.loop, &sink->work, on_work, on_worked) ==
               0);
}

static void say_taken(struct put_sink *sink)
{
    struct cop_coll coll = {.handle = sink->handle};
    drop_piece(sink);
    put_submit(sink->put, COP_REQUEST_TAKEN, &coll, NULL, 0);
}

static void say_reply(struct put_sink *sink)
{
    struct cop_coll coll = {.handle = sink->handle};
    sink->is_over = true;
    put_submit(sink->put, COP_REQUEST_REPLY, &coll, sink->why,
               (uint32_t)strlen(sink->why));
}

/* What is next. It may be gone after this. */
static void go_on(struct put_sink *sink)
{
    bool writes = !sink->is_ignored && sink->why[0] == '\0';
    if (sink->task != TASK_NONE)
        return;
    /* Who cannot write takes all the same: those below need it, and we have to say why. */
    while (!sink->is_over && sink->count > 0 && !writes)
        say_taken(sink);
    if (sink->is_over) {
        free_sink(sink);
    } else if (sink->count > 0) {
        begin_task(sink, TASK_WRITE);
    } else if (sink->is_whole && writes) {
        begin_task(sink, TASK_FINISH);
    } else if (sink->is_whole) {
        say_reply(sink);
        free_sink(sink);
    }
}

static void on_worked(uv_work_t *work, int status)
{
    struct put_sink *sink = work->data;
    struct put *put = sink->put;
    enum task task = sink->task;
    COP_ASSERT(status == 0);
    sink->task = TASK_NONE;
    put->working--;
    if (task == TASK_WRITE && !sink->is_over)
        say_taken(sink);
    if (task == TASK_FINISH && !sink->is_over)
        say_reply(sink);
    go_on(sink);
    put_settle(put);
}

/* ---- beginning ------------------------------------------------------------------- */

static bool may_write(const struct put *put, cop_id root, struct cop__bytes user)
{
    char name[COP_NAME_MAX + 1], text[EXEC_USER_MAX];
    put->config.name_of(put->config.context, root, name);
    if (user.length >= sizeof text)
        return false;
    memcpy(text, user.data, user.length);
    text[user.length] = '\0';
    return exec_allow_has(put->config.allow, name, text);
}

static void set_paths(struct put_sink *sink, struct cop__bytes dest)
{
    int error = put_expand(dest, sink->put->config.name, sink->path);
    if (error) {
        blame(sink, "%.*s: %s", (int)(dest.length < 100 ? dest.length : 100),
              (const char *)dest.data,
              error == COP_EINVAL ? "not the whole path of a file" : "too long");
        return;
    }
    const char *slash = strrchr(sink->path, '/');
    int folder = (int)(slash - sink->path);
    snprintf(sink->folder, sizeof sink->folder, "%.*s", folder ? folder : 1,
             sink->path);
    snprintf(sink->hidden, sizeof sink->hidden, "%.*s/.coppice-%u-%" PRIx64, folder,
             sink->path, (unsigned)getpid(), sink->handle);
}

static void say_begun(const struct put_sink *sink, cop_id root, struct cop__bytes user)
{
    char line[PUT_PATH_MAX + PUT_TEXT_MAX + EXEC_USER_MAX + COP_NAME_MAX + 32],
        name[COP_NAME_MAX + 1];
    const struct put_config *config = &sink->put->config;
    config->name_of(config->context, root, name);
    snprintf(line, sizeof line, "put %s, for %.*s at %s%s%s", sink->path,
             (int)user.length, (const char *)user.data, name, sink->why[0] ? ": " : "",
             sink->why);
    config->audit(config->context, line);
}

static struct put_sink *create_sink(struct put *put, const struct cop_upcall *upcall,
                                    const struct put_order *order)
{
    struct put_sink *sink = calloc(1, sizeof *sink);
    if (sink == NULL)
        return NULL;
    sink->put = put;
    sink->handle = upcall->handle;
    sink->mode = order->mode;
    sink->fd = -1;
    sink->is_ignored = upcall->root == put->self && (order->flags & PUT_NOT_ROOT);
    sink->next = put->sinks;
    put->sinks = sink;
    if (sink->is_ignored)
        return sink;
    if (!may_write(put, upcall->root, order->user))
        blame(sink, "%s", PUT_REFUSED);
    set_paths(sink, order->dest);
    say_begun(sink, upcall->root, order->user);
    return sink;
}

static struct put_sink *find_sink(const struct put *put, uint64_t handle)
{
    struct put_sink *sink = put->sinks;
    while (sink != NULL && (sink->handle != handle || sink->is_over))
        sink = sink->next;
    return sink;
}

static void on_check(struct put *put, const struct cop_upcall *upcall)
{
    struct put_order order;
    struct cop_coll coll = {.handle = upcall->handle};
    struct put_sink *sink = NULL;
    if (!(upcall->flags & COP_BCAST_BULK) ||
        put_order_decode((struct cop__bytes){upcall->bytes, upcall->length}, &order) !=
            0)
        coll.status = COP_EINVAL;
    else if ((sink = create_sink(put, upcall, &order)) == NULL)
        coll.status = COP_ENOMEM;
    /* It was over before it began, and nothing more will be said of it. */
    if (put_submit(put, COP_REQUEST_CHECKED, &coll, NULL, 0) != 0 && sink != NULL) {
        sink->is_over = true;
        go_on(sink);
    }
}

/* The root is not asked: its sink begins with what comes first. */
static struct put_sink *own_sink(struct put *put, const struct cop_upcall *upcall)
{
    const struct put_order *order =
        upcall->root == put->self ? put_own_order(put, upcall->token) : NULL;
    return order ? create_sink(put, upcall, order) : NULL;
}

static void on_piece(struct put_sink *sink, const struct cop_upcall *upcall,
                     struct cop_buf *beside)
{
    COP_ASSERT(sink->count < COP_BULK_WINDOW);
    sink->pieces[(sink->first + sink->count++) % COP_BULK_WINDOW] = (struct piece){
        cop_buf_ref(beside), upcall->bytes, upcall->length, upcall->offset};
    go_on(sink);
}

void put_sink_upcall(struct put *put, const struct cop_upcall *upcall,
                     struct cop_buf *beside)
{
    struct put_sink *sink = find_sink(put, upcall->handle);
    if (upcall->kind == COP_UPCALL_CHECK) {
        on_check(put, upcall);
        return;
    }
    if (sink == NULL && upcall->kind != COP_UPCALL_SENT)
        sink = own_sink(put, upcall);
    if (sink == NULL)
        return;
    if (upcall->kind == COP_UPCALL_PIECE) {
        on_piece(sink, upcall, beside);
        return;
    }
    if (upcall->kind == COP_UPCALL_RUN && upcall->status == 0)
        sink->is_whole = true;
    else
        sink->is_over = true; /* the library replies, or it has replied */
    go_on(sink);
}

void put_sinks_end(struct put *put)
{
    for (struct put_sink *sink = put->sinks, *next; sink; sink = next) {
        next = sink->next;
        sink->is_over = true;
        go_on(sink);
    }
}
