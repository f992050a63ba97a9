/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_EXEC_ROOT_H
#define COP_TOOLS_EXEC_ROOT_H

#include "exec/parts.h"

/* A run as its root knows it: root.c has the rounds, fetch.c what comes of them. */
#define EXEC_TOKENS 8u

struct exec_call {
    struct exec_call *next;
    struct exec *exec;
    struct session *session; /* NULL once it is gone, or has all */
    struct cop_buf *body;    /* the command's; `order` points into it */
    struct exec_order order;
    char user[EXEC_USER_MAX];
    uint64_t run;
    uint64_t group; /* COP_GROUP_ALL, or one of its own */
    cop_time begun;
    struct cop_ranks meant;    /* ids in order */
    struct cop_failure *fates; /* of each; status 0: it has answered */
    bool is_over;              /* nothing more is to be asked or told */
    bool is_cancelled, needs_release;
    bool has_silent; /* somebody was silent in a round: the next wait less for it */
    bool is_patient; /* unless one that was not would be missed */

    enum exec_kind round;
    uint64_t round_token;         /* 0: it is still to be asked */
    uint64_t peek_token;          /* of what is asked beside the round; 0: nothing is */
    uint64_t tokens[EXEC_TOKENS]; /* of all that is under way; 0: free */
    uv_timer_t timer;

    struct cop_ranks thirsty; /* streams: who waits until its piece has left */

    /* What is told comes in waves: those who have answered, if somebody is silent; then the
     * rest. */
    bool *is_shown; /* each who is meant: in an earlier wave; NULL: there was none */
    bool is_fetching, is_final;
    struct cop_buf *pending; /* a round that has ended while a wave is fetched */

    /* What is being fetched. */
    struct cop_buf *result; /* of this wave; NULL before the first */
    uint32_t next_class;    /* offset of the class after this one */
    uint32_t index, ranges_at, range_count;
    uint32_t kept[2];
    int which;
    uint64_t offset;
    cop_id holder;      /* who is asked */
    bool is_asked;      /* and has not answered */
    bool waits_to_send; /* a piece is on its way to the command */
    uint32_t silence;   /* ticks without an answer */
    uint32_t ticks;
};

/* ---- root.c ----------------------------------------------------------------- */

void exec_call_tell(struct exec_call *call, const struct exec_note *note);
/* 0, COP_EAGAIN, COP_ETOOBIG, ... */
int exec_call_ask(struct exec_call *call, enum exec_kind kind, uint32_t flags,
                  cop_time timeout_ns, uint64_t *token);
#define EXEC_WHOLE_ROUND (EXEC_PATIENCE + EXEC_ROUND)
/* What became of a member; NULL if it is not meant. */
struct cop_failure *exec_call_fate(const struct exec_call *call, cop_id id);
/* Nothing more comes of it; the command is told. */
void exec_call_fail(struct exec_call *call, int status);
/* It is over: the members forget it, and then we do. */
void exec_call_settle(struct exec_call *call);
/* What came of a round. */
void exec_call_round(struct exec_call *call, struct cop_buf *bytes);
/* Who still runs it: how many, and the ranges of their ids. */
uint32_t exec_call_running(const struct cop_bcast_result *result,
                           struct cop__list *ranges);
void exec_call_tell_running(struct exec_call *call, uint32_t running,
                            struct cop__list ranges);

/* ---- peek.c ----------------------------------------------------------------- */

/* A round was asked: should it take long, it is looked what the others have said. */
void exec_peek_arm(struct exec_call *call);
void exec_peek_complete(struct exec_call *call, struct cop_buf *result);

/* ---- fetch.c ---------------------------------------------------------------- */

/* Names those who do not answer, after what was shown. */
void exec_call_tell_silent(struct exec_call *call);
/* Tells the command how it ended at those of whom it was not told, and fetches what is long;
 * finally: nobody runs it any more. */
void exec_call_show(struct exec_call *call, struct cop_buf *result, bool is_final);

#endif
