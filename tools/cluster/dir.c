/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/dir.h"

#include "term/commands.h"
#include "term/say.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The place of all clusters of this user. */
struct base {
    char path[DIR_PATH_SIZE];
    int fd; /* locked */
};

static int base_path(struct base *base)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    int length;
    if (runtime != NULL && runtime[0] == '/')
        length = snprintf(base->path, sizeof base->path, "%s/coppice", runtime);
    else
        length = snprintf(base->path, sizeof base->path, "/tmp/coppice-%u",
                          (unsigned)geteuid());
    if (length < 0 || (size_t)length >= sizeof base->path)
        return fail(EXIT_FAILED, "XDG_RUNTIME_DIR is too long for sockets below it");
    return 0;
}

/* A directory that others can write to, or that is not ours, is a trap. */
static int check_owner(int fd, const char *path)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return fail(EXIT_FAILED, "%s: %s", path, strerror(errno));
    if (status.st_uid != geteuid())
        return fail(EXIT_FAILED, "%s belongs to somebody else (uid %u): not used", path,
                    (unsigned)status.st_uid);
    if ((status.st_mode & 077) != 0)
        return fail(EXIT_FAILED, "%s is open to others (mode %03o): not used", path,
                    (unsigned)(status.st_mode & 0777));
    return 0;
}

static int open_directory(int at, const char *name)
{
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Whether the path still leads to what `fd` is open on. */
static bool is_same(int at, const char *name, int fd)
{
    struct stat by_name, by_fd;
    return fstat(fd, &by_fd) == 0 &&
           fstatat(at, name, &by_name, AT_SYMLINK_NOFOLLOW) == 0 &&
           by_name.st_ino == by_fd.st_ino && by_name.st_dev == by_fd.st_dev;
}

/*
 * Opens and locks the base directory. -1 with errno ENOENT if it is not there and
 * `create` is false. The one that was locked may have been removed while we waited: try
 * again.
 */
static int lock_base(struct base *base, bool create)
{
    for (;;) {
        if (create && mkdir(base->path, 0700) != 0 && errno != EEXIST)
            return -1;
        base->fd = open_directory(AT_FDCWD, base->path);
        if (base->fd < 0 && errno == ENOENT && create)
            continue;
        if (base->fd < 0)
            return -1;
        int locked;
        do
            locked = flock(base->fd, LOCK_EX);
        while (locked != 0 && errno == EINTR);
        if (locked == 0 && is_same(AT_FDCWD, base->path, base->fd))
            return 0;
        int error = errno;
        close(base->fd);
        if (locked != 0) {
            errno = error;
            return -1;
        }
    }
}

/* Sockets and files only; there are no directories below a cluster's own. */
static void remove_tree(int at, const char *name)
{
    int fd = open_directory(at, name);
    DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
    if (list == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    for (struct dirent *entry; (entry = readdir(list)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(fd, entry->d_name, 0);
    closedir(list);
    if (unlinkat(at, name, AT_REMOVEDIR) != 0)
        complain("%s: cannot be removed: %s", name, strerror(errno));
}

static void unlock_base(const struct base *base)
{
    /* Fails while there are clusters left: as it should. */
    rmdir(base->path);
    close(base->fd);
}

enum state { ABSENT, STALE, LIVE, FOREIGN };

/* Says what is at NAME; for FOREIGN one line has been printed. */
static enum state judge(const struct base *base, const char *name)
{
    char path[2 * DIR_PATH_SIZE];
    snprintf(path, sizeof path, "%s/%s", base->path, name);
    int fd = open_directory(base->fd, name);
    if (fd < 0 && errno == ENOENT)
        return ABSENT;
    if (fd < 0) {
        fail(EXIT_FAILED, "%s is not a directory of ours: %s", path, strerror(errno));
        return FOREIGN;
    }
    enum state state = FOREIGN;
    if (check_owner(fd, path) == 0) {
        int lock = openat(fd, "lock", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        bool held = lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) != 0;
        state = held ? LIVE : STALE;
        if (lock >= 0)
            close(lock);
    }
    close(fd);
    return state;
}

static int make(const struct base *base, const char *name, struct dir *out)
{
    if (mkdirat(base->fd, name, 0700) != 0)
        return fail(EXIT_FAILED, "%s: %s", out->path, strerror(errno));
    int fd = open_directory(base->fd, name);
    out->lock = fd < 0
                    ? -1
                    : openat(fd, "lock",
                             O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int error = errno;
    if (fd >= 0)
        close(fd);
    if (out->lock >= 0 && flock(out->lock, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (out->lock >= 0) {
        error = errno;
        close(out->lock);
    }
    remove_tree(base->fd, name);
    return fail(EXIT_FAILED, "%s: %s", out->path, strerror(error));
}

static int fill(const struct base *base, const char *name, size_t longest,
                struct dir *out)
{
    size_t need = strlen(base->path) + 1 + strlen(name) + 1 + longest;
    if (need >= DIR_PATH_SIZE)
        return fail(EXIT_FAILED,
                    "%s/%s is too long: its sockets would need %zu bytes, the system "
                    "allows %zu; set XDG_RUNTIME_DIR to a shorter path",
                    base->path, name, need, DIR_PATH_SIZE - 1);
    snprintf(out->name, sizeof out->name, "%s", name);
    size_t length = strlen(base->path);
    memcpy(out->path, base->path, length);
    out->path[length] = '/';
    memcpy(out->path + length + 1, name, strlen(name) + 1);
    out->lock = -1;
    return 0;
}

int dir_create(const char *name, size_t longest, struct dir *out)
{
    struct base base;
    int code = base_path(&base);
    if (code == 0)
        code = fill(&base, name, longest, out);
    if (code)
        return code;
    if (lock_base(&base, true) != 0)
        return fail(EXIT_FAILED, "%s: %s", base.path, strerror(errno));
    code = check_owner(base.fd, base.path);
    if (code) {
        close(base.fd);
        return code;
    }
    enum state state = judge(&base, name);
    if (state == LIVE)
        code =
            fail(EXIT_FAILED,
                 "cluster '%s' is already up; choose another --name, or: coppice down "
                 "--name %s",
                 name, name);
    else if (state == FOREIGN)
        code = EXIT_FAILED;
    else if (state == STALE)
        remove_tree(base.fd, name);
    if (code == 0)
        code = make(&base, name, out);
    unlock_base(&base);
    return code;
}

/* What is at NAME; a stale directory is removed. */
static enum state visit(struct base *base, const char *name)
{
    if (lock_base(base, false) != 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            return ABSENT;
        fail(EXIT_FAILED, "%s: %s", base->path, strerror(errno));
        return FOREIGN;
    }
    if (check_owner(base->fd, base->path) != 0) {
        close(base->fd);
        return FOREIGN;
    }
    enum state state = judge(base, name);
    if (state == STALE)
        remove_tree(base->fd, name);
    unlock_base(base);
    return state;
}

static int open_live(const char *name, bool is_needed, struct dir *out)
{
    struct base base;
    int code = base_path(&base);
    if (code == 0)
        code = fill(&base, name, 0, out);
    if (code)
        return code;
    switch (visit(&base, name)) {
    case LIVE:
        return 0;
    case FOREIGN:
        return EXIT_FAILED;
    case ABSENT:
    case STALE:
        break;
    }
    if (!is_needed)
        return fail(EXIT_NO_CLUSTER, "there is no cluster '%s'", name);
    return fail(EXIT_NO_CLUSTER,
                "there is no cluster '%s'; start one with: coppice up -n 8 --name %s",
                name, name);
}

int dir_open(const char *name, struct dir *out) { return open_live(name, false, out); }

int dir_open_needed(const char *name, struct dir *out)
{
    return open_live(name, true, out);
}

bool dir_is_live(const char *name)
{
    struct base base;
    return base_path(&base) == 0 && visit(&base, name) == LIVE;
}

void dir_remove(const struct dir *dir)
{
    struct base base;
    if (base_path(&base) != 0 || lock_base(&base, false) != 0)
        return;
    int fd = open_directory(base.fd, dir->name);
    if (fd >= 0) {
        bool ours = is_same(fd, "lock", dir->lock);
        close(fd);
        if (ours)
            remove_tree(base.fd, dir->name);
    }
    unlock_base(&base);
}
