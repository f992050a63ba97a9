/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/client.h"

#include "term/commands.h"
#include "term/say.h"

#include <coppice/error.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* A reply that has begun comes at once. */
#define REPLY_TIMEOUT_NS (10 * COP_SEC)
#define CANCEL_TIMEOUT_NS (5 * COP_SEC)

/* ---- what comes ------------------------------------------------------------------ */

static int expand(struct cop__list ranges, struct cop_ranks *out)
{
    for (uint32_t i = 0; i < ranges.count; i++) {
        struct cop_id_range range = exec_range_at(ranges, i);
        for (cop_id id = range.first; id <= range.last; id++)
            if (cop_ranks_push(out, id) != 0)
                return COP_ENOMEM;
    }
    return 0;
}

/* Appends; more than was announced is an error of the agent's. */
static int add_text(struct exec_class *class, int which, struct cop__bytes bytes)
{
    if (bytes.length > class->kept[which] - class->used[which])
        return COP_EMALFORMED;
    if (bytes.length > 0)
        memcpy(class->text[which] + class->used[which], bytes.data, bytes.length);
    class->used[which] += bytes.length;
    return 0;
}

static int fill_class(struct exec_class *class, const struct exec_record *record,
                      const struct exec_note *note)
{
    class->end = record->end;
    class->flags = record->flags;
    class->code = record->code;
    int error = expand(note->ranges, &class->ids);
    for (int which = 0; which < 2 && !error; which++) {
        class->total[which] = record->total[which];
        class->kept[which] = record->kept[which];
        class->text[which] = malloc((size_t)record->kept[which] + 1);
        error = class->text[which] ? add_text(class, which, record->text[which])
                                   : COP_ENOMEM;
    }
    return error;
}

static int add_class(struct exec_outcome *out, const struct exec_note *note)
{
    struct exec_record record;
    int error = exec_record_decode(note->bytes, &record);
    if (error || note->count != out->class_count + 1 || note->ranges.count == 0)
        return COP_EMALFORMED;
    struct exec_class *grown =
        realloc(out->classes, (out->class_count + 1) * sizeof *grown);
    if (grown == NULL)
        return COP_ENOMEM;
    out->classes = grown;
    struct exec_class *class = &grown[out->class_count++];
    *class = (struct exec_class){0};
    return fill_class(class, &record, note);
}

static int add_failures(struct exec_outcome *out, struct cop__bytes bytes)
{
    uint32_t count = bytes.length / EXEC_FAILURE_SIZE;
    struct cop_failure *grown = realloc(
        out->failures, (out->failure_count + (size_t)count + 1) * sizeof *grown);
    if (grown == NULL)
        return COP_ENOMEM;
    out->failures = grown;
    for (uint32_t i = 0; i < count; i++)
        grown[out->failure_count++] = exec_failure_at(bytes, i);
    return 0;
}

static int take_text(struct exec_outcome *out, const struct exec_note *note)
{
    if (note->count == 0 || note->count > out->class_count)
        return COP_EMALFORMED;
    struct exec_class *class = &out->classes[note->count - 1];
    if (note->kind == EXEC_TEXT)
        return add_text(class, note->which, note->bytes);
    class->is_gone = true;
    return 0;
}

static int take_note(struct exec_outcome *out, const struct exec_listener *listener,
                     const struct exec_note *note, uint64_t *run)
{
    switch ((enum exec_note_kind)note->kind) {
    case EXEC_STARTED:
        *run = note->run;
        return 0;
    case EXEC_NEWS:
    case EXEC_OUTPUT:
    case EXEC_WAVE:
        listener->note(listener->context, note);
        return 0;
    case EXEC_CLASS:
        return add_class(out, note);
    case EXEC_TEXT:
    case EXEC_GONE:
        return take_text(out, note);
    case EXEC_FAILURES:
        return add_failures(out, note->bytes);
    case EXEC_END:
        out->members = note->count;
        out->elapsed_ns = note->offset;
        out->is_cancelled |= note->which != 0;
        out->is_whole = true;
        return 0;
    default:
        return COP_EMALFORMED;
    }
}

void exec_outcome_free(struct exec_outcome *outcome)
{
    for (uint32_t i = 0; i < outcome->class_count; i++) {
        cop_ranks_free(&outcome->classes[i].ids);
        free(outcome->classes[i].text[0]);
        free(outcome->classes[i].text[1]);
    }
    free(outcome->classes);
    free(outcome->failures);
    *outcome = (struct exec_outcome){0};
}

/* ---- signals --------------------------------------------------------------------- */

static int open_signals(sigset_t *before)
{
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGINT);
    sigaddset(&wanted, SIGTERM);
    sigaddset(&wanted, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &wanted, before) != 0)
        return -1;
    return signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* By a connection of its own: this one is busy. */
static int cancel(const struct follow *follow, uint64_t run)
{
    struct client client;
    struct client_reply reply;
    int error = follow->local ? local_connect(follow->local, follow->slot, &client)
                              : client_open(follow->agent, &client);
    if (error)
        return error;
    struct cop_buf *body = number_encode(run);
    error = body ? client_call(&client, VERB_CANCEL, body, CANCEL_TIMEOUT_NS, &reply)
                 : COP_ENOMEM;
    cop_buf_unref(body);
    if (!error)
        error = reply.status;
    client_close(&client);
    return error == COP_ENOENT ? 0 : error; /* it was over by then */
}

static int on_signal(const struct follow *follow, int signals, uint64_t run,
                     struct exec_outcome *out)
{
    struct signalfd_siginfo info;
    if (read(signals, &info, sizeof info) != (ssize_t)sizeof info)
        return 0;
    bool is_second = out->is_cancelled;
    out->is_cancelled = true;
    if (is_second || run == 0 || cancel(follow, run) != 0)
        return COP_EABORTED;
    if (isatty(STDERR_FILENO))
        complain("cancelled: waiting for commands to end; again to leave at once");
    return 0;
}

/* ---- the conversation ------------------------------------------------------------ */

static int wait_for(const struct follow *follow, int signals, bool *is_signal)
{
    struct pollfd waits[] = {{.fd = follow->client.fd, .events = POLLIN},
                             {.fd = signals, .events = POLLIN}};
    while (poll(waits, 2, -1) < 0)
        if (errno != EINTR)
            return COP_EIO;
    *is_signal = (waits[1].revents & POLLIN) != 0;
    return 0;
}

static int converse(struct follow *follow, int signals,
                    const struct exec_listener *listener, struct exec_outcome *out)
{
    struct client_reply reply = {.more = true};
    uint64_t run = 0;
    int error = 0;
    while (reply.more && !error) {
        struct exec_note note;
        bool is_signal;
        error = wait_for(follow, signals, &is_signal);
        if (!error && is_signal) {
            error = on_signal(follow, signals, run, out);
            continue;
        }
        if (!error)
            error = client_receive(&follow->client, REPLY_TIMEOUT_NS, &reply);
        if (!error)
            error = reply.status;
        if (!error)
            error = exec_note_decode(reply.body, &note);
        if (!error)
            error = take_note(out, listener, &note, &run);
    }
    return error;
}

int exec_ask(struct follow *follow, const struct exec_order *order,
             const struct exec_listener *listener, struct exec_outcome *out)
{
    sigset_t before;
    *out = (struct exec_outcome){0};
    struct cop_buf *body = exec_order_encode(order);
    if (body == NULL)
        return COP_ENOMEM;
    if (body->length > COMMAND_BODY_MAX) {
        cop_buf_unref(body);
        return COP_ETOOBIG;
    }
    int signals = open_signals(&before);
    int error = signals < 0 ? COP_EIO : client_send(&follow->client, VERB_EXEC, body);
    cop_buf_unref(body);
    if (!error)
        error = converse(follow, signals, listener, out);
    if (signals >= 0) {
        close(signals);
        sigprocmask(SIG_SETMASK, &before, NULL);
    }
    return error;
}
