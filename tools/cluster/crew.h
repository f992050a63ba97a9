/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_CLUSTER_CREW_H
#define COP_TOOLS_CLUSTER_CREW_H

#include "cluster/dir.h"
#include "cluster/keeper.h"
#include "names/nodeset.h"
#include "talk/command.h"

#include <sys/types.h>

/*
 * The members of a local cluster as processes: their sockets, their file, their starts
 * and their deaths. Used by the keeper, which is their parent.
 */
struct session;

struct crew_member {
    pid_t pid; /* 0 while dead */
    enum member_state state;
    int wait_status; /* of the last death */
    cop_incarnation incarnation;
    int listen_fd;   /* -1 once it was handed to the process */
    uint16_t port;   /* TCP */
    bool again;      /* start it again when it is dead */
    bool is_awaited; /* a restart waits until it is in the view */
    cop_id id;       /* in the view */
    /* Of one who joined later. */
    char name[NODESET_NAME_LENGTH + 1];
    bool is_spare;
    uint32_t lives;         /* how often it was started */
    struct session *waiter; /* who asked for it, until it is in the view */
};

struct crew {
    const struct dir *dir;
    uint32_t n;     /* slots: of the start, and of those who joined later */
    uint32_t start; /* of the start */
    bool tcp;
    cop_incarnation first; /* all begin with this one, which is the instance as well */
    cop_incarnation last;  /* given out so far */
    uint32_t alive;
    struct cop__tls *tls;   /* of TCP, with the key of the directory; or NULL */
    const char *allow_exec; /* of the agents */
    const struct keeper_one
        *one;     /* the one of this host (keeper.h); NULL: all are here */
    int ready_fd; /* the end of the pipe that processes inherit */
    struct crew_member *members;
};

/* Paths of a member's sockets in its cluster's directory. */
#define CREW_SOCKET_NAME "m%u.sock"
#define CREW_COMMAND_NAME "c%u.sock"
#define CREW_NAME "n%u"

/* COP_ENOMEM. */
int crew_create(const struct dir *dir, uint32_t n, bool tcp, cop_incarnation first,
                struct crew *out);
void crew_free(struct crew *crew);

/*
 * Binds the sockets of all, then writes the file that says where they are. 0 or -errno.
 */
int crew_bind(struct crew *crew, cop_id *failed);
int crew_write_file(const struct crew *crew, const uint8_t id[16], const char *shape,
                    const char *quorum, const char *detector, uint32_t guard);

/* A slot for somebody who joins, to be started. 0 or -errno. */
int crew_add(struct crew *crew, const char *name, bool is_spare, cop_id *out);
/* The address that a member who joined later has, as text. */
void crew_address(const struct crew *crew, cop_id slot, char *out, size_t size);

/* Starts a member; binds its socket again if the last life had it. 0 or -errno. */
int crew_spawn(struct crew *crew, cop_id id);

/*
 * Takes one change of state of a child, as waitpid has it: true, and whose it was; false
 * if there is none. Other children are ignored.
 */
bool crew_reap(struct crew *crew, cop_id *out);

/* Sends a signal to a member that lives; false if it does not. */
bool crew_signal(const struct crew *crew, cop_id id, int number);

/* "exit status 1", "killed by SIGKILL". */
const char *crew_print_end(int wait_status, char *out, size_t size);

#endif
