/* SPDX-License-Identifier: Apache-2.0 */
/* What a member says to those who are none, but may want to be. */
#include "run/guest.h"
#include "run/parts.h"
#include "wire/header.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct question {
    uint64_t guest, token;
};

static void reply(struct cop_run *run, struct question question, int status,
                  const struct cop_buf *body)
{
    if (run->tcp == NULL)
        return;
    struct cop_buf *packed = cop__reply_make(question.token, status, false, body);
    /* Without memory it hears nothing, and asks the next. */
    if (packed != NULL)
        cop__tcp_answer(run->tcp, question.guest, packed);
    cop_buf_unref(packed);
}

static void describe(struct cop_run *run, struct question question)
{
    struct cop_buf *body = cop__start_describe(&run->start);
    if (body != NULL && body->length > COP__FRAME_MAX - 64)
        reply(run, question, COP_ETOOBIG, NULL);
    else
        reply(run, question, body ? 0 : COP_ENOMEM, body);
    cop_buf_unref(body);
}

/* A member of the start has, in views, the name of its id. */
static void find_view_name(const struct cop_run *run, char name[64])
{
    cop_id id = cop__start_find(&run->start, name);
    if (id != COP_ID_NONE)
        snprintf(name, 64, "n%u", (unsigned)id);
}

static bool is_present(const struct cop_run *run, const char *name)
{
    const struct cop_view *view = cop_node_view(cop__tcp_node(run->tcp));
    return cop_view_rank(view, cop_view_find(view, name, strlen(name))) !=
           COP_RANK_NONE;
}

static int submit_invite(struct cop_run *run, struct question question,
                         const struct cop__invite *invite)
{
    struct cop__call *call = calloc(1, sizeof *call);
    if (call == NULL)
        return COP_ENOMEM;
    call->guest = question.guest;
    call->guest_token = question.token;
    call->request = (struct cop_request){.kind = COP_REQUEST_INVITE,
                                         .name = invite->name,
                                         .incarnation = invite->incarnation};
    int error = cop__call_submit(run, call);
    if (error)
        free(call);
    return error;
}

static void invite(struct cop_run *run, struct question question,
                   struct cop__bytes body)
{
    struct cop__invite wanted;
    int error = cop__invite_decode(body, &wanted);
    if (error == 0 && (memcmp(wanted.cluster, run->start.cluster, 16) != 0 ||
                       wanted.instance != run->start.instance))
        error = COP_EREFUSED;
    if (error == 0) {
        find_view_name(run, wanted.name);
        error = wanted.is_new && is_present(run, wanted.name) ? COP_EEXIST : 0;
    }
    if (error == 0)
        error = submit_invite(run, question, &wanted);
    if (error)
        reply(run, question, error, NULL);
}

void cop__door_invited(struct cop_run *run, const struct cop__call *call, int status,
                       const struct cop_buf *result)
{
    struct question question = {call->guest, call->guest_token};
    struct cop__invited invited = {.degraded = run->shared.is_degraded};
    if (result == NULL) {
        reply(run, question, status, NULL);
        return;
    }
    invited.invitation = (struct cop__bytes){result->data, result->length};
    struct cop_buf *body = cop__invited_encode(&invited);
    reply(run, question, body ? status : COP_ENOMEM, body);
    cop_buf_unref(body);
}

void cop__door_guest(void *context, uint64_t guest, const struct cop_buf *payload)
{
    struct cop_run *run = context;
    struct cop__msg_command command;
    if (payload == NULL ||
        cop__decode_command(payload->data, payload->length, &command) != 0)
        return;
    struct question question = {guest, command.token};
    if (command.verb == COP__VERB_DESCRIBE)
        describe(run, question);
    else if (command.verb == COP__VERB_INVITE)
        invite(run, question, command.body);
    else
        reply(run, question, COP_EREFUSED, NULL);
}

/* ---- no node --------------------------------------------------------------------- */

/* Nobody is kept waiting: two who ask each other would wait for long. */
static void on_call(void *context, int fd, cop__origin from)
{
    struct cop_run *run = context;
    if (run->gather != NULL)
        cop__gather_guest(run->gather, fd, from);
    else
        close(fd);
}

int cop__door_init(struct cop_run *run)
{
    struct cop__porch_config config = {
        .loop = &run->loop,
        .fd = run->listen_fd,
        .log = &run->log,
        .name = "no node yet",
        .take = on_call,
        .context = run,
    };
    return cop__porch_init(&run->door, &config);
}
