/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_CLUSTER_KEEPER_H
#define COP_TOOLS_CLUSTER_KEEPER_H

#include "cluster/dir.h"
#include "net/tcp/driver.h"

#include <sys/types.h>

/*
 * The two processes that look after a local cluster.
 *
 *   up -> janitor -> keeper -> members
 *
 * The keeper starts the members, notes their deaths, takes commands on `keeper.sock`,
 * and stops everything when told. The janitor does nothing but wait.
 *
 *   1. Members die with the keeper (PDEATHSIG), and are then the janitor's children
 *      (subreaper): it waits for the last of them and removes the directory.
 *   2. When the janitor dies the keeper (PDEATHSIG) stops the members and removes it.
 *   3. When both die at once the members die all the same, and the lock of the
 *      directory is free: the next command that looks removes it.
 */
struct keeper_one;
struct keeper_config {
    const struct dir *dir;
    uint32_t n;
    const char *shape;
    const char *quorum;
    const char *detector; /* NULL: connections alone */
    uint32_t guard;
    bool tcp;
    bool insecure;          /* TCP is not encrypted */
    const char *key;        /* the file to take the key from; NULL: a new one */
    const char *allow_exec; /* NULL: the user who owns it, unless it is insecure */
    bool is_private;        /* ends with the process that started it */
    /* The one member of a cluster on hosts; NULL: all members are here. The file of members
     * and the key are in the directory already, and n is 1. */
    const struct keeper_one *one;
};

struct keeper_one {
    cop_id id;
    cop_incarnation first;      /* of the file */
    struct cop__address listen; /* the same */
    bool is_first;              /* the start of the whole cluster */
    cop_time patience_ns;       /* so long the others may take to start */
};

/*
 * The socket of the keeper in the directory, and the longest name of any socket there.
 */
#define KEEPER_SOCKET "keeper.sock"
#define KEEPER_SOCKET_LONGEST sizeof(KEEPER_SOCKET)
/* The key of the cluster in the directory, if it uses TCP. */
#define KEEPER_KEY "key"
#define KEEPER_MEMBERS_MAX 16384u

/* What `up` answers to "ready". */
#define KEEPER_WANTED "wanted"

/*
 * Starts janitor, keeper and members, and waits until all members are ready. 0, or an
 * exit code after one line; then nothing is left. Signals that interrupt it do so until the
 * cluster is wanted; after that, unless it is private, SIGINT, SIGTERM and SIGHUP stay blocked:
 * the caller says that it is up, and ends.
 */
int keeper_launch(const struct keeper_config *config);

/*
 * The life of a keeper. Lines to `status_fd`, a socket of packets: "up K" (members ready so
 * far), "ready", or "error TEXT". The cluster stays when KEEPER_WANTED has come back, and
 * ends when the other end closes before. Returns its exit code.
 */
int keeper_run(const struct keeper_config *config, pid_t janitor, int status_fd);

#endif
