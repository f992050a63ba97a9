/* SPDX-License-Identifier: Apache-2.0 */
/* Where exec meets the rest of the agent. */
#include "base/assert.h"
#include "exec/parts.h"
#include "net/tcp/clock.h"

#include <coppice/error.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

/* How soon a letter that was turned away is tried again. */
#define RETRY_MS 5u

/* ---- life ------------------------------------------------------------------------ */

int exec_create(const struct exec_config *config, struct exec **out)
{
    struct exec *exec = calloc(1, sizeof *exec);
    if (exec == NULL)
        return COP_ENOMEM;
    exec->config = *config;
    exec->minder.fd = -1;
    COP_ASSERT(uv_timer_init(config->loop, &exec->timer) == 0);
    COP_ASSERT(uv_timer_init(config->loop, &exec->retry) == 0);
    exec->timer.data = exec->retry.data = exec;
    exec->handles = 2;
    *out = exec;
    return 0;
}

static void drop_letters(struct exec *exec)
{
    for (struct exec_letter *letter = exec->letters, *next; letter; letter = next) {
        next = letter->next;
        cop_buf_unref(letter->bytes);
        free(letter);
    }
    exec->letters = NULL;
    uv_timer_stop(&exec->retry);
}

static void on_closed(uv_handle_t *handle)
{
    struct exec *exec = handle->data;
    if (--exec->handles == 0)
        free(exec);
}

void exec_close(struct exec *exec)
{
    exec_set_node(exec, NULL, COP_ID_NONE, false);
    minder_stop(&exec->minder);
    uv_close((uv_handle_t *)&exec->timer, on_closed);
    uv_close((uv_handle_t *)&exec->retry, on_closed);
}

void exec_set_node(struct exec *exec, struct cop__tcp *tcp, cop_id self,
                   bool has_letters)
{
    exec_root_end(exec, COP_ESTATE);
    exec_member_end(exec);
    drop_letters(exec);
    exec->tcp = tcp;
    exec->self = self;
    exec->has_letters = has_letters;
}

/* ---- letters --------------------------------------------------------------------- */

uint64_t exec_token(struct exec *exec) { return EXEC_TOKEN | ++exec->next_token; }

uint64_t exec_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * COP_SEC + (uint64_t)now.tv_nsec;
}

/* COP_EAGAIN: not now. Everything else that fails is told by a view. */
static int send_letter(struct exec *exec, cop_id to, const struct cop_buf *bytes)
{
    struct cop_request request = {.kind = COP_REQUEST_SEND,
                                  .token = exec_token(exec),
                                  .member = to,
                                  .bytes = bytes->data,
                                  .length = bytes->length};
    return exec->tcp ? cop__tcp_submit(exec->tcp, &request) : COP_ESTATE;
}

/* Letters to one member stay in order; those to others do not wait for it. */
static bool has_letter_to(const struct exec *exec, cop_id to,
                          const struct exec_letter *before)
{
    const struct exec_letter *letter = exec->letters;
    while (letter != before && letter->to != to)
        letter = letter->next;
    return letter != before;
}

static void on_retry(uv_timer_t *timer)
{
    struct exec *exec = timer->data;
    struct exec_letter **link = &exec->letters;
    while (*link != NULL) {
        struct exec_letter *letter = *link;
        if (has_letter_to(exec, letter->to, letter) ||
            send_letter(exec, letter->to, letter->bytes) == COP_EAGAIN) {
            link = &letter->next;
            continue;
        }
        *link = letter->next;
        cop_buf_unref(letter->bytes);
        free(letter);
    }
    if (exec->letters != NULL)
        uv_timer_start(timer, on_retry, RETRY_MS, 0);
}

static void say_unread(struct exec *exec, cop_id to)
{
    uint64_t held;
    if (cop__notice_is_due(&exec->unread, cop__clock_now(), &held))
        cop__log(exec->config.log, COP_LOG_WARN,
                 "exec: member %u asks and takes no answers: dropped one "
                 "(%" PRIu64 " more like this)",
                 (unsigned)to, held);
}

/* Takes the reference. */
static void keep_letter(struct exec *exec, cop_id to, struct cop_buf *bytes)
{
    struct exec_letter **end = &exec->letters;
    uint32_t kept = 0;
    for (; *end != NULL; end = &(*end)->next)
        kept += (*end)->to == to;
    if (kept >= EXEC_LETTERS_MAX) {
        cop_buf_unref(bytes);
        say_unread(exec, to);
        return;
    }
    struct exec_letter *letter = malloc(sizeof *letter);
    if (letter == NULL) {
        cop_buf_unref(bytes);
        cop__log(exec->config.log, COP_LOG_ERROR, "exec: %s", cop_strerror(COP_ENOMEM));
        return;
    }
    *letter = (struct exec_letter){NULL, to, bytes};
    *end = letter;
    uv_timer_start(&exec->retry, on_retry, RETRY_MS, 0);
}

static void take_note(struct exec *exec, cop_id from, const struct exec_note *note)
{
    if (note->kind == EXEC_GET || note->kind == EXEC_NEXT || note->kind == EXEC_GO)
        exec_member_note(exec, from, note);
    else if (note->kind == EXEC_PART || note->kind == EXEC_OUT ||
             note->kind == EXEC_ASK)
        exec_root_note(exec, from, note);
}

void exec_post(struct exec *exec, cop_id to, const struct exec_note *note)
{
    if (to == exec->self) {
        take_note(exec, to, note);
        return;
    }
    struct cop_buf *bytes = exec_note_encode(note);
    if (bytes == NULL)
        cop__log(exec->config.log, COP_LOG_ERROR, "exec: %s", cop_strerror(COP_ENOMEM));
    else if (has_letter_to(exec, to, NULL) ||
             send_letter(exec, to, bytes) == COP_EAGAIN)
        keep_letter(exec, to, bytes);
    else
        cop_buf_unref(bytes);
}

/* ---- what is told ---------------------------------------------------------------- */

bool exec_deliver(struct exec *exec, cop_id from, const struct cop_buf *bytes)
{
    struct exec_note note;
    if (exec_note_decode((struct cop__bytes){bytes->data, bytes->length}, &note) != 0)
        return false;
    take_note(exec, from, &note);
    return true;
}

void exec_upcall(struct exec *exec, const struct cop_upcall *upcall)
{
    exec_member_question(exec, upcall);
}

bool exec_complete(struct exec *exec, uint64_t token, int status,
                   struct cop_buf *result)
{
    if (!(token & EXEC_TOKEN))
        return false;
    /* Others are letters; who does not get one is out of the view, or soon will be. */
    exec_root_complete(exec, token, status, result);
    return true;
}

void exec_installed(struct exec *exec, const struct cop_view *view)
{
    exec_member_installed(exec, view);
    exec_root_installed(exec, view);
}
