/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The front-end of a session's stream, at whichever agent was asked. It says what it wants to the
 * desk of the root, and says all of it again when that is another one. Outputs are whole, and
 * only the last is kept: a command that is slow misses some, and holds up nobody.
 */
#include "top/watch.h"

#include "base/random.h"
#include "stream/stream.h"

#include <coppice/error.h>
#include <stdio.h>
#include <stdlib.h>

/* Waves that may be on their way: what is shown is not to be old. */
#define WINDOW 4u

struct watch_front {
    struct watch_front *next;
    struct session *session; /* NULL: it is gone, and so is this, once the root knows */
    bool is_asked;           /* the session waits for an answer */
    uint64_t known;          /* and has this one */
    uint64_t number;
    enum watch_kind kind;
    cop_time interval_ns;
    struct cop_buf *wish;       /* to be said to all back-ends; may be NULL */
    struct cop_buf *definition; /* what the stream is, for every root; NULL: not yet */

    cop_id root; /* to whom this was said */
    cop_incarnation root_life;
    bool has_said_open, is_opened, has_said_wish, wish_reached, has_said_end;
    uint64_t taken, taken_said;

    uint64_t serial; /* of the last output; 0: none yet */
    struct cop_stream_event last;
    struct cop_buf *state;
};

/* ---- life ------------------------------------------------------------------------ */

static struct watch_front *find(const struct watches *watches, uint64_t stream)
{
    struct watch_front *front = watches->fronts;
    while (front != NULL && front->number != stream)
        front = front->next;
    return front;
}

static void free_front(struct watches *watches, struct watch_front *front)
{
    struct watch_front **link = &watches->fronts;
    while (*link != front)
        link = &(*link)->next;
    *link = front->next;
    cop_buf_unref(front->wish);
    cop_buf_unref(front->definition);
    cop_buf_unref(front->state);
    free(front);
}

/* It is over. Who waits is answered last: that may end its session, which looks for it here. */
static void end_front(struct watches *watches, struct watch_front *front, int status)
{
    struct session *session = front->is_asked ? front->session : NULL;
    free_front(watches, front);
    if (session != NULL)
        session_reply(session, status ? status : COP_ELOST, false, NULL);
}

void watch_fronts_end(struct watches *watches, int why)
{
    while (watches->fronts != NULL)
        end_front(watches, watches->fronts, why);
}

/* ---- saying ---------------------------------------------------------------------- */

/* COP_EAGAIN: not now. What is said may be answered before this returns, and end it. */
static int say(struct watches *watches, struct watch_front *front,
               struct cop__said *said)
{
    said->stream = front->number;
    if (front->root == watches->self) {
        cop__desk_hear(&watches->desk, watches->self, watches->incarnation, said);
        return 0;
    }
    struct cop_buf *bytes = cop__said_encode(said);
    if (bytes == NULL)
        return COP_EAGAIN;
    struct cop_request request = {.kind = COP_REQUEST_SEND,
                                  .token = watches->desk.token,
                                  .op = COP__CHANNEL_STREAM,
                                  .member = front->root,
                                  .bytes = bytes->data,
                                  .length = bytes->length};
    int error = cop__tcp_submit(watches->tcp, &request);
    cop_buf_unref(bytes);
    return error;
}

/* Marks it as said first; an answer may come at once. */
static bool say_once(struct watches *watches, struct watch_front *front, bool *is_said,
                     struct cop__said said)
{
    uint64_t number = front->number;
    *is_said = true;
    int error = say(watches, front, &said);
    if (find(watches, number) != front)
        return false;
    if (error == COP_EAGAIN) {
        *is_said = false;
        watches->is_due = true;
    }
    return error == 0;
}

static bool say_open(struct watches *watches, struct watch_front *front)
{
    char params[32];
    struct cop_stream_options options = {
        .number = front->number,
        .network = 0,
        .flags = COP_STREAM_SINGLE,
        .window = WINDOW,
        .sync = COP_SYNC_TIMEOUT,
        .params = params,
    };
    snprintf(params, sizeof params, "interval=%llu",
             (unsigned long long)(front->interval_ns / COP_MSEC));
    if (front->kind == WATCH_HOSTS) {
        options.filter = "hosts";
        options.type = "bytes";
        options.timeout_ns = front->interval_ns;
    } else {
        options.filter = "stacks";
        options.type = "text";
        options.params = "";
        options.timeout_ns = front->interval_ns;
    }
    /* T1: planned once, here. What cannot be planned the root refuses. */
    int error = front->definition ? 0
                                  : cop__stream_plan(cop__tcp_node(watches->tcp),
                                                     &options, &front->definition);
    options.definition = front->definition;
    struct cop_buf *bytes = error == COP_ENOMEM ? NULL : cop__options_encode(&options);
    if (bytes == NULL) {
        watches->is_due = true;
        return false;
    }
    bool is_said = say_once(watches, front, &front->has_said_open,
                            (struct cop__said){.kind = COP__SAY_OPEN,
                                               .wave = front->taken,
                                               .reached = front->wish_reached,
                                               .bytes = {bytes->data, bytes->length}});
    cop_buf_unref(bytes);
    return is_said;
}

static void say_taken(struct watches *watches, struct watch_front *front)
{
    struct cop__said said = {.kind = COP__SAY_TAKEN, .wave = front->taken};
    uint64_t before = front->taken_said, number = front->number;
    front->taken_said = front->taken;
    if (say(watches, front, &said) == COP_EAGAIN && find(watches, number) == front) {
        front->taken_said = before;
        watches->is_due = true;
    }
}

static void pump(struct watches *watches, struct watch_front *front)
{
    uint64_t number = front->number;
    if (front->root == COP_ID_NONE)
        return;
    if (!front->has_said_open && !say_open(watches, front))
        return;
    if (find(watches, number) != front || !front->is_opened)
        return;
    if (front->session == NULL) {
        if (!front->has_said_end)
            say_once(watches, front, &front->has_said_end,
                     (struct cop__said){.kind = COP__SAY_CLOSE});
        return;
    }
    if (front->wish != NULL && !front->wish_reached && !front->has_said_wish &&
        !say_once(
            watches, front, &front->has_said_wish,
            (struct cop__said){.kind = COP__SAY_SEND,
                               .wave = 1,
                               .bytes = {front->wish->data, front->wish->length}}))
        return;
    if (find(watches, number) == front && front->taken > front->taken_said)
        say_taken(watches, front);
}

void watch_fronts_turn(struct watches *watches)
{
    for (struct watch_front *front = watches->fronts, *next; front != NULL;
         front = next) {
        next = front->next;
        pump(watches, front);
    }
}

/* Where the root is another one, or has another life, everything is said again. */
static void follow_root(struct watch_front *front, const struct cop_view *view)
{
    cop_id root = cop_view_root(view);
    cop_incarnation life = cop_view_incarnation(view, root);
    if (root == front->root && life == front->root_life)
        return;
    front->root = root;
    front->root_life = life;
    front->has_said_open = front->is_opened = false;
    front->has_said_wish = front->has_said_end = false;
}

void watch_fronts_view(struct watches *watches, const struct cop_view *view)
{
    for (struct watch_front *front = watches->fronts; front; front = front->next)
        follow_root(front, view);
    watch_fronts_turn(watches);
}

/* ---- hearing --------------------------------------------------------------------- */

static void answer(struct watches *watches, struct watch_front *front)
{
    const struct cop_view *view = cop_node_view(cop__tcp_node(watches->tcp));
    if (!front->is_asked || front->session == NULL || front->serial == front->known)
        return;
    struct watch_reply reply = {
        .serial = front->serial,
        .wave = front->last.wave,
        .complete = front->last.complete,
        .covered = front->last.covered,
        .members = cop_view_size(view),
        .root = front->last.root,
        .state = {front->state->data, front->state->length},
    };
    struct cop_buf *body = watch_reply_encode(&reply);
    front->is_asked = false;
    session_reply(front->session, body ? 0 : COP_ENOMEM, false, body);
    cop_buf_unref(body);
}

static void hear_output(struct watches *watches, struct watch_front *front,
                        struct cop__bytes bytes)
{
    struct cop_stream_event event;
    struct cop_buf *buf = cop_buf_copy(bytes.data, bytes.length);
    /* Before the first wave there is nothing to be seen. */
    if (buf == NULL || cop_stream_event(buf, &event) != 0 ||
        event.kind != COP_STREAM_OUTPUT || event.wave == 0) {
        cop_buf_unref(buf);
        return;
    }
    struct cop_buf *state = cop_buf_copy(event.bytes, event.length);
    cop_buf_unref(buf);
    if (state == NULL)
        return;
    cop_buf_unref(front->state);
    front->state = state;
    front->last = event;
    front->last.bytes = NULL;
    front->serial++;
    front->taken = event.wave > front->taken ? event.wave : front->taken;
    answer(watches, front);
}

static void hear_gone(struct watches *watches, struct watch_front *front, int status)
{
    if (status != COP_EAGAIN) {
        end_front(watches, front, status);
        return;
    }
    front->has_said_open = front->is_opened = front->has_said_end = false;
    front->has_said_wish = false;
    watches->is_due = true;
}

void watch_front_hear(void *context, const struct cop__said *said)
{
    struct watches *watches = context;
    struct watch_front *front = find(watches, said->stream);
    if (front == NULL)
        return;
    if (said->kind == COP__SAY_GONE) {
        hear_gone(watches, front, said->status);
        return;
    }
    if (said->kind == COP__SAY_OPENED)
        front->is_opened = true;
    else if (said->kind == COP__SAY_REACHED)
        front->wish_reached = front->wish_reached || said->wave > 0;
    else
        hear_output(watches, front, said->bytes);
    /* Not from here: whoever says this may be in the middle of something. */
    watches->is_due = true;
}

bool watch_front_is_heard(const struct watches *watches, uint64_t stream, cop_id from,
                          cop_incarnation incarnation)
{
    const struct watch_front *front = find(watches, stream);
    return front != NULL && front->root == from && front->root_life == incarnation;
}

/* ---- sessions -------------------------------------------------------------------- */

static struct watch_front *find_session(const struct watches *watches,
                                        const struct session *session)
{
    struct watch_front *front = watches->fronts;
    while (front != NULL && front->session != session)
        front = front->next;
    return front;
}

static struct watch_front *add_front(struct watches *watches, struct session *session,
                                     const struct watch_command *command)
{
    struct watch_front *front = calloc(1, sizeof *front);
    if (front == NULL)
        return NULL;
    uint64_t seed = watches->incarnation ^ (uint64_t)watches->self << 40;
    front->number = cop__mix64(cop__mix64(seed ^ watches->instance) + ++watches->made);
    front->number += front->number == 0;
    front->session = session;
    front->kind = command->kind;
    front->interval_ns = command->interval_ns;
    if (command->wish.length > 0)
        front->wish = cop_buf_copy(command->wish.data, command->wish.length);
    if (command->wish.length > 0 && front->wish == NULL) {
        free(front);
        return NULL;
    }
    front->root = COP_ID_NONE;
    front->next = watches->fronts;
    watches->fronts = front;
    follow_root(front, cop_node_view(cop__tcp_node(watches->tcp)));
    return front;
}

void watches_order(struct watches *watches, struct session *session,
                   struct cop__bytes body)
{
    struct watch_command command;
    struct watch_front *front = find_session(watches, session);
    if (watch_command_decode(body, &command) != 0) {
        session_reply(session, COP_EMALFORMED, false, NULL);
        return;
    }
    if (front == NULL)
        front = add_front(watches, session, &command);
    if (front == NULL) {
        session_reply(session, COP_ENOMEM, false, NULL);
        return;
    }
    front->is_asked = true;
    front->known = command.known;
    uint64_t number = front->number;
    pump(watches, front);
    if (find(watches, number) == front)
        answer(watches, front);
}

void watches_closed(struct watches *watches, const struct session *session)
{
    struct watch_front *front = find_session(watches, session);
    if (front == NULL)
        return;
    front->session = NULL;
    front->is_asked = false;
    pump(watches, front);
}
