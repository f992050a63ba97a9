/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_HOSTS_HOSTS_H
#define COP_TOOLS_HOSTS_HOSTS_H

#include "hosts/list.h"
#include "hosts/ssh.h"
#include "talk/command.h"

#include <limits.h>

/*
 * A cluster on hosts, as the machine knows it from which it was started: a directory,
 * $XDG_STATE_HOME/coppice/NAME, else ~/.local/state/coppice/NAME, mode 0700, and no process.
 * It outlives a logout, as the cluster does.
 *
 *   members   who is in the cluster, and where (names/cluster.h); the same file at every host
 *   key       of the cluster, mode 0600; not with --insecure
 *   hosts     how to get there: lines "ssh WORDS", "remote PATH", "allow-exec LIST", and
 *             "ID USER HOST" for each member, with "-" for no user
 *
 * Every command goes through ssh: to one member that lives where one will do, and to each
 * host's keeper for what is done to processes. At a host `coppice host` does it (cmd_host.c).
 */
#define HOSTS_FILE "hosts"
#define HOSTS_LAST "last" /* whom the last command found alive; a hint */
#define HOSTS_FANOUT 32u

struct hosts {
    char name[64]; /* of the cluster */
    char path[PATH_MAX];
    char remote[256]; /* the command there */
    char allow_exec[1024];
    struct ssh ssh;
    bool is_insecure;
    uint32_t fanout;
    uint32_t count;
    struct hosts_way {
        char *user, *host; /* owned */
    } * ways;              /* by the id of the member */
};

/* Whether there is one of this name. */
bool hosts_is(const char *name);
/* 0, or an exit code after one line. */
int hosts_open(const char *name, struct hosts *out);
void hosts_close(struct hosts *hosts);

/*
 * Makes the directory with all that is in it, of texts that are made already; `key` is NULL
 * for none. 0, or an exit code after one line.
 */
int hosts_create(const struct hosts *hosts, const char *members, const char *key);
/* Forgets it all. */
int hosts_remove(const struct hosts *hosts);
/* Fills in the path of a name. 0, or an exit code after one line. */
int hosts_path(const char *name, struct hosts *out);

/* The member that was found alive last, and is asked first the next time. */
cop_id hosts_preferred(const struct hosts *hosts);
void hosts_prefer(const struct hosts *hosts, cop_id id);

/* The whole of a file in the directory, to be freed; NULL after one line. */
char *hosts_read(const struct hosts *hosts, const char *file);

/* ---- what is done there ---------------------------------------------------------- */

/*
 * "coppice host VERB CLUSTER MEMBER WORD" for each of these members, run at all of them.
 * `inputs` may be NULL, or have one text for each. An array of as many jobs, which gives the
 * outcome (ssh_jobs_free); NULL after one line. *cancelled: by a signal.
 */
struct ssh_job *hosts_do(const struct hosts *hosts, const char *const *names,
                         const struct cop_ranks *ids, const char *verb,
                         const char *word, char *const *inputs, bool *cancelled);

/*
 * What VERB start reads: one line of numbers and lengths, then allow-exec, the file of members
 * and the key. To be freed; NULL: no memory.
 */
struct host_start {
    cop_id id;
    bool is_first, is_insecure;
    cop_time patience_ns;
    const char *allow_exec, *members, *key;
};
char *host_start_encode(const struct host_start *start);
#define HOST_START_LINE "coppice-start 1 %u %d %d %llu %zu %zu %zu\n"
#define HOST_START_SCAN "coppice-start 1 %u %d %d %llu %zu %zu %zu"

/* What VERB check prints: its version, the user there, and where a member can listen. */
#define HOST_CHECK_PRINT "coppice-host %s %s %s\n"
#define HOST_CHECK_SCAN "coppice-host %63s %63s %159s"
#ifndef COPPICE_VERSION
#define COPPICE_VERSION "unknown"
#endif

/* What VERB list prints: the status of the one member in numbers. */
#define HOST_LIST_PRINT "coppice-member %u %d %d %llu %u %llu %llu %llu\n"
#define HOST_LIST_SCAN "coppice-member %u %d %d %llu %u %llu %llu %llu"

#endif
