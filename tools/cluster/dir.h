/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_CLUSTER_DIR_H
#define COP_TOOLS_CLUSTER_DIR_H

#include <coppice/types.h>
#include <sys/un.h>

/*
 * The directory of a local cluster: $XDG_RUNTIME_DIR/coppice/NAME, else
 * /tmp/coppice-UID/NAME, mode 0700, ours, no symbolic link.
 *
 *   1. The file `lock` in it is locked (flock) by the processes that look after the
 *      cluster. A directory whose lock nobody holds is stale: everybody may remove it.
 *   2. Directories are made, judged and removed under the lock of the base directory,
 *      so that a late cleaner can never meet the directory of a successor by the same
 *      name.
 *   3. Whoever removes the last cluster removes the base directory as well.
 */
#define DIR_PATH_SIZE sizeof(((struct sockaddr_un *)NULL)->sun_path)

struct dir {
    char path[DIR_PATH_SIZE];
    char name[136]; /* at a host: CLUSTER@MEMBER, see hosts/hosts.h */
    int lock;       /* held by whoever made it and those it forked; -1 for visitors */
};

/*
 * Makes the directory of a new cluster and locks it; what a dead cluster of the same
 * name left is removed first. `longest` is the longest file name that will be a socket
 * in it. 0, or an exit code after one line.
 */
int dir_create(const char *name, size_t longest, struct dir *out);

/* The directory of a cluster that lives. 0, or an exit code after one line. */
int dir_open(const char *name, struct dir *out);
/* The same for a command that needs one: the line says what to type to start it. */
int dir_open_needed(const char *name, struct dir *out);

/* Whether a cluster of this name lives; says nothing. Cleans up after a dead one. */
bool dir_is_live(const char *name);

/*
 * Removes the directory with all that is in it, if it is still the one that we locked.
 */
void dir_remove(const struct dir *dir);

#endif
