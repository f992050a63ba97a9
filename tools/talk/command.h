/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_TALK_COMMAND_H
#define COP_TOOLS_TALK_COMMAND_H

#include "run/guest.h"
#include "talk/procfs.h"

#include <coppice/tree.h>
#include <stdio.h>

/*
 * What a command and an agent, or a command and a keeper, say to each other over a Unix
 * socket: COMMAND and REPLY messages in the same records and headers that members use.
 * Guests, who want to join, say some of them to the address of a member (run/guest.h).
 * A COMMAND has a verb and a body; a REPLY has a status (0 or -COP_E...), a body, and
 * `more` if another one follows.
 *
 *   X(NAME, number, what it asks for)
 */
#define COP_VERBS(X)                                                                   \
    X(STATUS, 1, "agent: who it is, since when, with what statistics")                 \
    X(PROBE, 2, "agent: run probes back to back")                                      \
    X(VIEW, 3, "agent: its view, now or when it has changed")                          \
    X(DESCRIBE, COP__VERB_DESCRIBE, "agent: how the cluster began; also for guests")   \
    X(INVITE, COP__VERB_INVITE, "agent: an invitation for somebody; also for guests")  \
    X(LEAVE, 6, "agent: leave the cluster with a goodbye")                             \
    X(REPORT, 7, "agent: take a member for dead, because somebody knows")              \
    X(REKEY, 8, "agent: read its key again, and use it")                               \
    X(EVENTS, 9, "agent: whom it suspected, and what has changed; the same")           \
    X(INQUIRE, 10, "agent: ask a member how it is; one that is silent is accused")     \
    X(DRAIN, 11, "agent: have a member carry nobody, or (number 1) again")             \
    X(AGREE, 12, "agent: have all members agree, so many times")                       \
    X(GO_ON, 13, "agent: go on from this view without a quorum")                       \
    X(WATCH, 14, "agent: what all hosts are doing; see top/watch_body.h")              \
    X(LIST, 16, "keeper: the members and how they are")                                \
    X(SIGNAL, 17, "keeper: send members a signal")                                     \
    X(RESTART, 18, "keeper: start members again")                                      \
    X(DOWN, 19, "keeper: stop everything")                                             \
    X(JOIN, 20, "keeper: start a new member, which joins")                             \
    X(EXEC, 32, "agent: have members run a command; see exec/exec.h")                  \
    X(CANCEL, 33, "agent: end the run of this number")                                 \
    X(BCAST, 34, "agent: run broadcasts back to back; answered as PROBE")              \
    X(PUT, 35, "agent: give members a file; see put/put.h")                            \
    X(GROUPS, 36, "agent: the named node sets")                                        \
    X(GROUP_SET, 37, "agent: name a node set, or (empty) take a name back")

enum verb {
#define COP_VERB_ENUM(name, number, text) VERB_##name = number,
    COP_VERBS(COP_VERB_ENUM)
#undef COP_VERB_ENUM
};

#define COMMAND_BODY_MAX 65536u /* bytes in the body of a COMMAND */
#define PROBES_MAX 1000000u     /* in one command */
#define PROBE_CHUNK_MAX 4096u   /* samples in one reply */

/* ---- bodies ---------------------------------------------------------------------- */

struct probe_command {
    uint32_t count;
    uint32_t chunk; /* send the samples after so many; 0 for the most */
    cop_time timeout_ns;
    char shape[64]; /* "" for the view's own */
};

/* The same for broadcasts of some bytes, which are borrowed. */
struct bcast_command {
    struct probe_command run;
    struct cop__bytes payload;
};

/* One probe of a run. */
struct probe_sample {
    cop_time at_ns;      /* when it began, on this machine's monotonic clock */
    cop_time elapsed_ns; /* until its completion */
    uint32_t answered, dead, silent;
    int32_t status;
};

/*
 * A reply to PROBE: samples, and who did not answer the last of them. The last reply
 * has no `more`. Without members the run could not be started or went on no longer: see
 * the status.
 */
struct probe_reply {
    cop_id self;
    uint32_t members;
    uint32_t count;
    struct probe_sample *samples;
    struct cop_ranks dead, silent;
};

/* REPORT. */
struct report_command {
    cop_id member;
    char why[200];
};

/* INQUIRE. The status of the reply is that of COP_REQUEST_INQUIRE. */
struct inquire_command {
    cop_id member;
    cop_time timeout_ns; /* 0: the default */
};

/* UNREACHABLE is never sent: it is what a command knows of a host that does not answer. */
enum member_state {
    MEMBER_STARTING,
    MEMBER_RUNNING,
    MEMBER_STOPPED,
    MEMBER_DEAD,
    MEMBER_UNREACHABLE
};

struct member_status {
    uint32_t pid; /* 0 if dead */
    enum member_state state;
    int32_t wait_status; /* of its last death, as waitpid gives it */
    cop_incarnation incarnation;
    cop_id id;              /* in the view */
    char name[64];          /* "" for members of the file */
    char address[160];      /* the same */
    struct process_use use; /* of one at another host; never sent */
};

/* JOIN. The reply is a `joined`. */
struct join_command {
    bool spare;
    char name[64]; /* "": one that is free */
};

struct joined {
    cop_id id;
    cop_incarnation incarnation;
    bool
        waiting; /* not in the view: too few are left to let it in, or the guard holds */
    char name[64];
};

struct list_reply {
    uint32_t keeper_pid, janitor_pid;
    uint32_t count;
    struct member_status *members;
};

/* What came of RESTART. */
struct restart_reply {
    struct cop_ranks failed;  /* could not be started */
    struct cop_ranks waiting; /* run, and are not in the view */
};

/* What came of DOWN. */
struct down_reply {
    struct cop_ranks unclean; /* members that did not end as they were told */
    char why[400]; /* how the first of them ended, and the log's last words */
};

/*
 * Encoders return a new buffer or NULL (no memory); decoders 0, COP_EMALFORMED,
 * COP_ENOMEM.
 */
struct cop_buf *probe_command_encode(const struct probe_command *command);
int probe_command_decode(struct cop__bytes body, struct probe_command *out);
struct cop_buf *bcast_command_encode(const struct bcast_command *command);
int bcast_command_decode(struct cop__bytes body, struct bcast_command *out);
struct cop_buf *probe_reply_encode(const struct probe_reply *reply);
int probe_reply_decode(struct cop__bytes body, struct probe_reply *out);
void probe_reply_free(struct probe_reply *reply);
struct cop_buf *report_command_encode(const struct report_command *command);
int report_command_decode(struct cop__bytes body, struct report_command *out);
struct cop_buf *inquire_command_encode(const struct inquire_command *command);
int inquire_command_decode(struct cop__bytes body, struct inquire_command *out);
/* VIEW: the serial number (struct roll) that is known already; 0: answer at once. */
struct cop_buf *number_encode(uint64_t number);
int number_decode(struct cop__bytes body, uint64_t *out);
struct cop_buf *list_reply_encode(const struct list_reply *reply);
int list_reply_decode(struct cop__bytes body, struct list_reply *out);
void list_reply_free(struct list_reply *reply);
/* A number (a signal; 0 where none is needed) and ids. */
struct cop_buf *ids_encode(uint32_t number, const cop_id *ids, uint32_t count);
int ids_decode(struct cop__bytes body, uint32_t *number, struct cop_ranks *out);
struct cop_buf *join_command_encode(const struct join_command *command);
int join_command_decode(struct cop__bytes body, struct join_command *out);
struct cop_buf *joined_encode(const struct joined *joined);
int joined_decode(struct cop__bytes body, struct joined *out);
struct cop_buf *restart_reply_encode(const struct restart_reply *reply);
int restart_reply_decode(struct cop__bytes body, struct restart_reply *out);
void restart_reply_free(struct restart_reply *reply);
struct cop_buf *down_reply_encode(const struct down_reply *reply);
int down_reply_decode(struct cop__bytes body, struct down_reply *out);

#endif
