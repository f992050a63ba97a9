/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_CLUSTER_LOCAL_H
#define COP_TOOLS_CLUSTER_LOCAL_H

#include "cluster/dir.h"
#include "cluster/keeper.h"
#include "cluster/settings.h"
#include "groups/groups.h"
#include "names/cluster.h"
#include "talk/client.h"
#include "talk/roll.h"

/*
 * A cluster as a command sees it that was started from this machine: its directory, its file
 * and its keeper; or, where its members are on hosts, the way there (hosts/run.h).
 */
struct hosts;
struct local {
    struct dir dir;
    struct cluster cluster;
    struct client keeper;
    struct hosts *hosts; /* NULL: all of it is on this machine */
};

/* 0, or an exit code after one line. */
int local_open(const char *name, struct local *out);
void local_close(struct local *local);

/* How long to wait for an answer that takes this long on one machine. */
cop_time local_patience(const struct local *local, cop_time here_ns);

/* A call to the keeper that must succeed: 0, or EXIT_FAILED after one line. */
int local_call(struct local *local, enum verb verb, const struct cop_buf *body,
               cop_time timeout_ns, struct client_reply *out);
/* The members and how they are; to be freed. */
int local_list(struct local *local, struct list_reply *out);
/* Whether it has left: it ended by itself, and well. */
bool local_has_left(const struct member_status *status);
/* Members as typed: 0, or EXIT_USAGE after one line. */
int local_select(const struct local *local, const char *command, char *const *texts,
                 int count, struct cop_ranks *out);
/*
 * Node sets in which each group, "@NAME", is replaced by its members, as all who answer the agent
 * at the other end know them; to be freed. Who does not answer is named. `cluster` has the names
 * of members, or is NULL. 0, or an exit code after one line.
 */
int client_expand(struct client *client, const struct cluster *cluster,
                  const char *command, char *const *texts, int count, char **out);
/* The named node sets of the agent at the other end; what client_call says. */
int client_groups(struct client *client, struct groups *out);
/* Sends a signal and waits until the keeper has seen what came of it. */
int local_signal(struct local *local, int number, const struct cop_ranks *ids);
/* A connection to a member's own socket: 0, or what client_open says; no line. */
int local_connect(const struct local *local, cop_id id, struct client *out);

/*
 * The view of the agent at the other end, or the next that is not the one with this serial
 * number (0: any). 0; COP_ESTATE while it has none; what client_call says.
 */
int client_roll(struct client *client, uint64_t known, cop_time timeout_ns,
                struct roll *out);
/* The view of a member. 0 or an error of COP_; no line. */
int local_roll(const struct local *local, cop_id id, struct roll *out);
/*
 * A connection to the lowest member that is in the view, its view, and its place; false if
 * nobody is. On hosts, where a host that is away costs time, the one that was found last is
 * tried first.
 */
bool local_find(const struct local *local, struct client *out, struct roll *roll,
                cop_id *slot);
/* Where there is none: one line that says so and what to do, and EXIT_NO_CLUSTER. */
int local_nobody(const struct local *local);
/* The same: 0, or EXIT_NO_CLUSTER after one line. */
int local_connect_any(const struct local *local, struct client *out, struct roll *roll);

/* The same without a connection that stays, and without a line: whether there is one. */
bool local_any_roll(const struct local *local, struct roll *out);

/*
 * What to type where too few members are left to change the view: a sentence, in which what can
 * be typed works as it stands.
 */
#define LOCAL_WAY_OUT_SIZE 420u
const char *local_way_out(const struct local *local, char out[LOCAL_WAY_OUT_SIZE]);

/* A member's counters: lines "name value", to be freed; NULL if it does not answer. */
char *local_status(const struct local *local, cop_id id);

/* Starts a cluster; `dir` in the configuration is filled in. 0, or an exit code. */
int local_up(const char *name, const struct keeper_config *wanted);
/* Ends the cluster and waits until its processes are gone. 0, or an exit code. */
int local_down(const char *name);
/* Starts members again; until they are in the view. 0, or an exit code after a line. */
int local_restart(struct local *local, const struct cop_ranks *ids);

/*
 * The setting `name` from the flag, or from elsewhere. 0, or an exit code after one
 * line.
 */
int local_settings(struct settings *settings, const char *name_flag);

#endif
