/* SPDX-License-Identifier: Apache-2.0 */
#include "top/watcher.h"

#include "term/commands.h"
#include "term/say.h"

#include <coppice/error.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

/* An agent that was silent for so long is asked whether it is there. */
#define SILENCE_NS (2 * COP_SEC)
#define ASK_TIMEOUT_NS (5 * COP_SEC)

int watcher_open(struct watcher *watcher)
{
    struct roll roll;
    watcher->is_local = watcher->agent == NULL;
    watcher->state = NULL;
    watcher->roll.view = NULL;
    watcher->is_asked = false;
    if (watcher->is_local) {
        int code = local_open(watcher->name, &watcher->local);
        if (code)
            return code;
    }
    watcher->follow = (struct follow){
        .local = watcher->is_local ? &watcher->local : NULL,
        .agent = watcher->agent,
        .command = watcher->command,
        .is_quiet = watcher->is_quiet,
    };
    int code = follow_open(&watcher->follow, &roll);
    if (code == 0)
        roll_free(&roll);
    else if (watcher->is_local)
        local_close(&watcher->local);
    return code;
}

void watcher_close(struct watcher *watcher)
{
    cop_buf_unref(watcher->state);
    if (watcher->roll.view != NULL)
        roll_free(&watcher->roll);
    follow_close(&watcher->follow);
    if (watcher->is_local)
        local_close(&watcher->local);
}

void watcher_name(const struct watcher *watcher, cop_id id, char out[COP_NAME_MAX + 1])
{
    const struct cluster *cluster = watcher->is_local ? &watcher->local.cluster : NULL;
    if (watcher->roll.view != NULL)
        roll_name(&watcher->roll, cluster, id, out);
    else
        snprintf(out, COP_NAME_MAX + 1, "n%u", (unsigned)id);
}

/* ---- asking ---------------------------------------------------------------------- */

static int ask(struct watcher *watcher)
{
    struct cop_buf *body = watch_command_encode(&watcher->watch);
    if (body == NULL)
        return COP_ENOMEM;
    int error = client_send(&watcher->follow.client, VERB_WATCH, body);
    cop_buf_unref(body);
    watcher->is_asked = error == 0;
    watcher->heard_ns = now_ns();
    return error;
}

static int take(struct watcher *watcher, const struct client_reply *reply)
{
    struct watch_reply got;
    int error = watch_reply_decode(reply->body, &got);
    if (error)
        return error;
    struct cop_buf *state = cop_buf_copy(got.state.data, got.state.length);
    if (state == NULL)
        return COP_ENOMEM;
    cop_buf_unref(watcher->state);
    watcher->state = state;
    watcher->reply = got;
    watcher->reply.state = (struct cop__bytes){state->data, state->length};
    watcher->watch.known = got.serial;
    struct roll roll;
    error = client_roll(&watcher->follow.client, 0, ASK_TIMEOUT_NS, &roll);
    if (error)
        return error;
    if (watcher->roll.view != NULL)
        roll_free(&watcher->roll);
    watcher->roll = roll;
    return 0;
}

static int receive(struct watcher *watcher)
{
    struct client_reply reply;
    int error = client_receive(&watcher->follow.client, ASK_TIMEOUT_NS, &reply);
    watcher->is_asked = false;
    watcher->heard_ns = now_ns();
    if (!error)
        error = reply.status;
    return error ? error : take(watcher, &reply);
}

/* Another agent, with a stream of its own; or an exit code after one line. */
static int recover(struct watcher *watcher, int error)
{
    watcher->is_asked = false;
    watcher->watch.known = 0;
    if (error == COP_EINVAL)
        return fail(EXIT_REFUSED,
                    "%s: the view of this cluster does not change, so it has no "
                    "streams; --here shows this host",
                    watcher->command);
    if (error == COP_ENOMEM || error == COP_EMALFORMED || error == COP_ETOOBIG)
        return fail(EXIT_FAILED, "%s: %s", watcher->command, cop_strerror(error));
    if (error == COP_EKIND)
        return fail(EXIT_FAILED, "%s: the agent that was asked is too old for it",
                    watcher->command);
    return follow_move(&watcher->follow);
}

enum watched watcher_next(struct watcher *watcher, cop_time until_ns, int key_fd,
                          int *code)
{
    for (;;) {
        int error = watcher->is_asked ? 0 : ask(watcher);
        cop_time now = now_ns(), silent_at = watcher->heard_ns + SILENCE_NS;
        cop_time wake = until_ns < silent_at ? until_ns : silent_at;
        struct pollfd fds[2] = {{.fd = watcher->follow.client.fd, .events = POLLIN},
                                {.fd = key_fd, .events = POLLIN}};
        int wait_ms = wake > now ? (int)((wake - now) / COP_MSEC) + 1 : 0;
        int got = error ? 0 : poll(fds, 2, wait_ms);
        if (got > 0 && fds[1].revents)
            return WATCHED_KEY;
        if (got > 0 && fds[0].revents) {
            error = receive(watcher);
            if (error == 0)
                return WATCHED_OUTPUT;
        } else if (!error && now_ns() >= until_ns) {
            return WATCHED_NOTHING;
        } else if (!error && now_ns() >= silent_at) {
            watcher->heard_ns = now_ns();
            error = follow_is_there(&watcher->follow) ? 0 : COP_ELOST;
        }
        if (error && (*code = recover(watcher, error)) != 0)
            return WATCHED_END;
    }
}
