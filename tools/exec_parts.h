/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_EXEC_PARTS_H
#define COP_TOOLS_EXEC_PARTS_H

#include "exec.h"
#include "exec_agent.h"
#include "job.h"
#include "tokens.h"

/* What the files of exec in an agent share. Nobody else includes it. */

/* A run as a member knows it. */
struct exec_run {
    struct exec_run *next;
    struct exec *exec;
    cop_id root;
    cop_incarnation root_life;
    uint64_t number;
    struct job *job;
    struct cop_buf *record; /* once it is over */
    uint64_t handle;        /* of the question that is open; 0: none */
    uint8_t question;       /* enum exec_kind */
    cop_time answer_by;     /* of the question */
    cop_time lease;         /* until when the root is believed to live */
    uint32_t inline_max;
    bool is_stream, is_cancelled;
    bool is_sending; /* a piece is on its way */
};

/* A letter that could not be sent yet. */
struct exec_letter {
    struct exec_letter *next;
    cop_id to;
    struct cop_buf *bytes;
};

struct exec_call;

#define EXEC_FORGOTTEN 64u

struct exec {
    struct exec_config config;
    struct cop__tcp *tcp; /* NULL without a node */
    cop_id self;
    bool has_letters;
    struct minder minder;
    uv_timer_t timer; /* of the member side: answers and leases */
    uv_timer_t retry; /* of letters */
    struct exec_letter *letters;
    struct exec_run *runs;
    uint32_t run_count;
    uint64_t kept_bytes;
    /* Runs that were ended, and must not begin any more: an order may come late. */
    struct {
        cop_id root;
        uint64_t number;
    } forgotten[EXEC_FORGOTTEN];
    uint32_t next_forgotten;
    struct exec_call *calls;
    uint64_t next_token, next_group, last_run;
    uint32_t handles;
};

#define EXEC_GROUP_BASE (UINT64_C(0x65780000) << 32)

/* ---- exec_agent.c ---------------------------------------------------------------- */

/* A letter, now or when there is room; to itself at once. */
void exec_post(struct exec *exec, cop_id to, const struct exec_note *note);
uint64_t exec_token(struct exec *exec);

/* ---- exec_member.c --------------------------------------------------------------- */

void exec_member_question(struct exec *exec, const struct cop_upcall *upcall);
/* GET and NEXT. */
void exec_member_note(struct exec *exec, cop_id from, const struct exec_note *note);
void exec_member_installed(struct exec *exec, const struct cop_view *view);
void exec_member_end(struct exec *exec);

/* ---- exec_root.c ----------------------------------------------------------------- */

/* PART and OUT. */
void exec_root_note(struct exec *exec, cop_id from, const struct exec_note *note);
bool exec_root_complete(struct exec *exec, uint64_t token, int status,
                        struct cop_buf *result);
void exec_root_installed(struct exec *exec, const struct cop_view *view);
void exec_root_end(struct exec *exec, int status);

#endif
