/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_EXEC_PARTS_H
#define COP_TOOLS_EXEC_PARTS_H

#include "exec/agent.h"
#include "exec/exec.h"
#include "exec/job.h"
#include "net/tcp/notice.h"
#include "talk/tokens.h"

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

/* An order that took long: whether it is still wanted the root was asked. */
struct exec_late {
    struct exec_late *next;
    cop_id root;
    uint64_t number;
    uint64_t handle;
    cop_time asked;
    struct cop_buf *order;
};

/* A letter that could not be sent yet; of those to one member there are at most so many. */
#define EXEC_LETTERS_MAX 256u

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
    struct cop__notice unread;
    struct exec_run *runs;
    uint32_t run_count;
    struct exec_late *late;
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

/* ---- agent.c ---------------------------------------------------------------- */

/* A letter, now or when there is room; to itself at once. */
void exec_post(struct exec *exec, cop_id to, const struct exec_note *note);
uint64_t exec_token(struct exec *exec);
/* Nanoseconds since 1970. */
uint64_t exec_clock(void);

/* ---- member.c --------------------------------------------------------------- */

void exec_member_question(struct exec *exec, const struct cop_upcall *upcall);
/* GET, NEXT and GO. */
void exec_member_note(struct exec *exec, cop_id from, const struct exec_note *note);
void exec_member_installed(struct exec *exec, const struct cop_view *view);
void exec_member_end(struct exec *exec);
/* Runs it if it may; the question is answered then, or now. */
void exec_member_begin(struct exec *exec, const struct cop_upcall *upcall,
                       const struct exec_order *order);
void exec_member_reply(struct exec *exec, uint64_t handle, int status,
                       const void *bytes, uint32_t length);
/* "root at n0: uname -a", without what would break a line. */
void exec_member_describe(const struct exec *exec, cop_id root,
                          const struct exec_order *order, char *out, size_t size);

/* ---- late.c ----------------------------------------------------------------- */

/* Whether the order came late: then it is dealt with here, now or by the root's word. */
bool exec_late_takes(struct exec *exec, const struct cop_upcall *upcall,
                     const struct exec_order *order);
/* GO. */
void exec_late_go(struct exec *exec, cop_id root, const struct exec_note *go);
/* What a root wanted that is gone goes; all without a view (NULL). */
void exec_late_installed(struct exec *exec, const struct cop_view *view);

/* ---- root.c ----------------------------------------------------------------- */

/* PART, OUT and ASK. */
void exec_root_note(struct exec *exec, cop_id from, const struct exec_note *note);
bool exec_root_complete(struct exec *exec, uint64_t token, int status,
                        struct cop_buf *result);
void exec_root_installed(struct exec *exec, const struct cop_view *view);
void exec_root_end(struct exec *exec, int status);

#endif
