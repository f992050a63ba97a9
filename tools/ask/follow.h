/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_ASK_FOLLOW_H
#define COP_TOOLS_ASK_FOLLOW_H

#include "cluster/local.h"

/*
 * The agent that a command listens to. Where any member of a local cluster will do, one that
 * is gone, does not answer any more or is out of the view is replaced by another.
 */
struct follow {
    struct local *local; /* NULL: the agent at `agent` */
    const char *agent;   /* a socket */
    const char *from;    /* this member and no other; NULL: any */
    const char *command; /* whose messages these are */
    bool is_quiet;       /* does not say that it had to find another */
    /* Filled: */
    struct client client;
    cop_id slot;    /* of a local cluster */
    uint32_t moves; /* how often another had to be found */
};

/* Finds the agent, and gives its view: 0, or an exit code after one line. */
int follow_open(struct follow *follow, struct roll *roll);
void follow_close(struct follow *follow);

/*
 * Waits so long for a reply to what was sent. If there is none, and somebody is silent, that is said:
 * "COMMAND: WHAT n7", once, with the names that a probe finds. Whether there is one by then.
 */
bool follow_wait(struct follow *follow, cop_time quiet_ns, const char *what);
/* Who does not answer the agent, asked by a connection of its own; to be freed. NULL: nobody. */
char *follow_silent(const struct follow *follow);

/* Whether the one who says nothing lives, and has nothing to say. */
bool follow_is_there(const struct follow *follow);
/* Finds another agent, where any will do: 0, or an exit code after one line. */
int follow_move(struct follow *follow);

/*
 * Asks with a verb that is answered when the number `known` is no longer the present one, and
 * waits, for as long as need be. 0; an exit code after one line if nobody is left to ask.
 * After a move the question was asked anew, with 0.
 */
int follow_next(struct follow *follow, enum verb verb, uint64_t known,
                struct client_reply *out);

#endif
