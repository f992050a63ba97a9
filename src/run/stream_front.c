/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A front-end, which says what it wants to the desk of whoever is the root, and begins anew
 * with it when that is another one: what it has taken, and the packets that have not come to
 * all, are kept until then.
 */
#include "filter/filter.h"
#include "run/parts.h"
#include "stream/stream.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct cop__front *cop__front_find(const struct cop_run *run, uint64_t number)
{
    struct cop__front *front = run->streams.fronts;
    while (front != NULL && (front->number != number || front->is_over))
        front = front->next;
    return front;
}

/* ---- the end --------------------------------------------------------------------- */

static void free_front(struct cop_run *run, struct cop__front *front)
{
    struct cop__front **link = &run->streams.fronts;
    while (*link != NULL && *link != front)
        link = &(*link)->next;
    if (*link != NULL)
        *link = front->next;
    for (uint32_t i = 0; i < front->parcel_count; i++)
        cop_buf_unref(front->parcels[i].bytes);
    free(front->parcels);
    cop_buf_unref(front->state);
    cop_buf_unref(front->definition);
    free(front);
}

static void tell(struct cop_run *run, struct cop__front *front,
                 const struct cop_stream_event *event)
{
    bool was = run->is_in_callback;
    if (front->told == NULL || front->is_ending)
        return;
    run->is_in_callback = true;
    front->callbacks++;
    front->told(front->context, run, front->number, event);
    front->callbacks--;
    run->is_in_callback = was;
}

void cop__front_over(struct cop_run *run, struct cop__front *front, int status)
{
    struct cop_stream_event event = {.kind = COP_STREAM_CLOSED, .status = status};
    if (!front->is_over) {
        front->last.status = status;
        tell(run, front, &event);
        cop__streams_wake(run);
    }
    front->is_over = true;
    if (front->callbacks == 0)
        free_front(run, front);
}

/* ---- what it is (T1) ------------------------------------------------------------- */

/* Of another stream it was that something was taken of it, or has come to all: the packets that have
 * not are numbered anew. */
static int settle_on(struct cop__front *front, const void *bytes, uint32_t length)
{
    const struct cop_buf *had = front->definition;
    if (length == 0 ||
        (had != NULL && had->length == length && memcmp(had->data, bytes, length) == 0))
        return 0;
    struct cop_buf *definition = cop_buf_copy(bytes, length);
    if (definition == NULL)
        return COP_ENOMEM;
    cop_buf_unref(front->definition);
    front->definition = definition;
    front->taken = front->taken_said = front->come = 0;
    front->is_fresh = front->has_base = false;
    return 0;
}

/* What this member has heard of it. COP_ENOENT: nothing. */
static int take_from_member(struct cop_run *run, struct cop__front *front)
{
    struct cop_stream_info info;
    int error = cop_node_stream(cop__tcp_node(run->tcp), front->number, &info);
    return error ? error
                 : settle_on(front, info.definition->data, info.definition->length);
}

int cop__front_plan(struct cop_run *run, struct cop__front *front)
{
    int error = take_from_member(run, front);
    return error == COP_ENOENT ? cop__stream_plan(cop__tcp_node(run->tcp),
                                                  &front->options, &front->definition)
                               : error;
}

/* ---- saying ---------------------------------------------------------------------- */

static int say(struct cop_run *run, const struct cop__front *front,
               struct cop__said *said)
{
    said->stream = front->number;
    if (front->root == run->id) {
        cop__desk_hear(&run->streams.desk, run->id, run->incarnation, said);
        return 0;
    }
    struct cop_buf *bytes = cop__said_encode(said);
    if (bytes == NULL) {
        run->streams.is_due = true;
        return COP_EAGAIN;
    }
    struct cop_request request = {.kind = COP_REQUEST_SEND,
                                  .op = COP__CHANNEL_STREAM,
                                  .member = front->root,
                                  .bytes = bytes->data,
                                  .length = bytes->length};
    int error = cop__run_submit(run, &request);
    cop_buf_unref(bytes);
    run->streams.is_due = run->streams.is_due || error == COP_EAGAIN;
    return error;
}

static void say_open(struct cop_run *run, struct cop__front *front)
{
    struct cop_stream_options wanted = front->options;
    /* T1: a root that has not heard of it yet opens it as it is here. */
    bool is_short = take_from_member(run, front) == COP_ENOMEM;
    wanted.definition = front->definition;
    struct cop_buf *options = is_short ? NULL : cop__options_encode(&wanted);
    struct cop__said said = {
        .kind = COP__SAY_OPEN, .wave = front->taken, .reached = front->come};
    if (options == NULL) {
        run->streams.is_due = true;
        return;
    }
    said.bytes = (struct cop__bytes){options->data, options->length};
    front->taken_said = front->taken;
    front->is_asked = true;
    int error = say(run, front, &said);
    cop_buf_unref(options);
    if (error == COP_EAGAIN)
        front->is_asked = false;
}

/* Marks go down in steps of a quarter of the window, so nobody needs more than these. */
static bool taken_is_due(const struct cop_run *run, const struct cop__front *front)
{
    uint64_t step = front->options.window / 4 ? front->options.window / 4 : 1;
    return front->taken >= front->taken_said + (front->root == run->id ? 1 : step);
}

static void say_taken(struct cop_run *run, struct cop__front *front)
{
    struct cop__said said = {.kind = COP__SAY_TAKEN, .wave = front->taken};
    uint64_t before = front->taken_said;
    front->taken_said = front->taken;
    if (say(run, front, &said) == COP_EAGAIN)
        front->taken_said = before;
}

static bool say_packet(struct cop_run *run, struct cop__front *front)
{
    const struct cop_buf *bytes = front->parcels[front->sent - front->reached].bytes;
    struct cop__said said = {.kind = COP__SAY_SEND,
                             .wave = front->base + front->sent + 1,
                             .bytes = {bytes->data, bytes->length}};
    front->sent++;
    if (say(run, front, &said) != COP_EAGAIN)
        return true;
    front->sent--;
    return false;
}

static void say_end(struct cop_run *run, struct cop__front *front)
{
    struct cop__said said = {.kind = front->closes ? COP__SAY_CLOSE : COP__SAY_DETACH};
    front->has_said_end = true;
    if (say(run, front, &said) == COP_EAGAIN)
        front->has_said_end = false;
}

/* What is said may be answered before saying it returns, and that may be the end. */
static void pump(struct cop_run *run, struct cop__front *front)
{
    if (!front->is_asked)
        say_open(run, front);
    if (!front->is_opened || front->is_over)
        return;
    if (front->is_ending) {
        if (!front->has_said_end)
            say_end(run, front);
        return;
    }
    if (taken_is_due(run, front))
        say_taken(run, front);
    while (!front->is_over && front->is_opened && front->sent < front->given &&
           say_packet(run, front))
        continue;
}

bool cop__front_is_at_root(const struct cop__front *front, const struct cop_view *view)
{
    cop_id root = cop_view_root(view);
    return root == front->root && cop_view_incarnation(view, root) == front->root_life;
}

void cop__front_pump(struct cop_run *run, struct cop__front *front)
{
    if (run->tcp == NULL || front->root == COP_ID_NONE || front->is_over)
        return;
    /* The node has another root already: that one will hear all of it when this is told so. */
    if (!cop__front_is_at_root(front, cop_node_view(cop__tcp_node(run->tcp))))
        return;
    front->callbacks++;
    pump(run, front);
    front->callbacks--;
    if (front->is_over && front->callbacks == 0)
        free_front(run, front);
}

/* ---- hearing --------------------------------------------------------------------- */

static void forget_packets(struct cop__front *front, uint64_t reached)
{
    uint32_t count = 0;
    while (front->reached + count < reached && count < front->parcel_count)
        cop_buf_unref(front->parcels[count++].bytes);
    front->parcel_count -= count;
    front->reached += count;
    if (front->sent < front->reached)
        front->sent = front->reached;
    if (count > 0)
        memmove(front->parcels, front->parcels + count,
                front->parcel_count * sizeof *front->parcels);
}

static void hear_opened(struct cop_run *run, struct cop__front *front,
                        const struct cop__said *said)
{
    /* One that was open before is what it was, and not what was planned here. */
    if (settle_on(front, said->bytes.data, said->bytes.length) != 0) {
        cop__front_over(run, front, COP_ENOMEM);
        return;
    }
    front->is_opened = true;
    /* Whoever was its front-end before had numbers, too. */
    if (!front->has_base)
        front->base = said->wave - front->reached;
    front->has_base = true;
    front->sent = front->reached;
}

/* The state as a whole, from what is new in it. A filter that fails is named. */
static int join_state(const struct cop_run *run, struct cop__front *front,
                      const struct cop_stream_event *event)
{
    struct cop_buf *more = cop_buf_copy(event->bytes, event->length), *whole = NULL;
    bool is_short = false;
    if (more == NULL)
        return COP_ENOMEM;
    if (event->whole) {
        cop_buf_unref(front->state);
        front->state = more;
        return 0;
    }
    int error = front->state ? cop__filter_join(front->filter, front->state, more,
                                                &is_short, &whole)
                             : COP_EMALFORMED;
    cop_buf_unref(more);
    if (error && front->state && !is_short)
        cop__log(&run->log, COP_LOG_WARN,
                 "stream %" PRIu64
                 ": the front-end here ends, for the filter %s failed: %s",
                 front->number, front->filter->name, cop_strerror(error));
    if (error)
        return error;
    cop_buf_unref(front->state);
    front->state = whole;
    return 0;
}

/* Nothing can be made of what comes: the root hears that nobody takes it any more, which closes the
 * stream unless it is to be kept. */
static void give_up(struct cop_run *run, struct cop__front *front, int status)
{
    struct cop_stream_event event = {.kind = COP_STREAM_CLOSED, .status = status};
    tell(run, front, &event);
    front->is_ending = true;
    cop__streams_wake(run);
}

static void hear_output(struct cop_run *run, struct cop__front *front,
                        const struct cop_stream_event *event)
{
    int error = front->is_ending ? 0 : join_state(run, front, event);
    if (error)
        give_up(run, front, error);
    if (front->is_ending)
        return;
    front->last = *event;
    front->last.whole = true;
    front->last.bytes = front->state->data;
    front->last.length = front->state->length;
    front->is_fresh = true;
    if (front->told == NULL) {
        cop__streams_wake(run);
        return;
    }
    front->is_fresh = false;
    /* What the program does there may show that it is another one by now (T1). */
    struct cop_buf *of = cop_buf_ref(front->definition);
    tell(run, front, &front->last);
    if (of == front->definition && event->wave > front->taken)
        front->taken = event->wave;
    cop_buf_unref(of);
}

static void hear_reached(struct cop_run *run, struct cop__front *front, uint64_t number)
{
    /* Of whoever was its front-end before; and the base may be below 0 (T1). */
    uint64_t reached = number - front->base;
    front->come = number > front->come ? number : front->come;
    if (!front->has_base || reached <= front->reached || reached > front->given)
        return;
    forget_packets(front, reached);
    struct cop_stream_event event = {.kind = COP_STREAM_REACHED,
                                     .wave = front->reached};
    tell(run, front, &event);
}

/* A root that was busy, or is none: once more. */
static void hear_gone(struct cop_run *run, struct cop__front *front, int status)
{
    if (status != COP_EAGAIN) {
        cop__front_over(run, front, status);
        return;
    }
    front->is_asked = front->is_opened = front->has_said_end = false;
    run->streams.is_due = true;
}

static void hear_event(struct cop_run *run, struct cop__front *front,
                       struct cop__bytes bytes)
{
    struct cop_stream_event event;
    struct cop_buf *buf = cop_buf_copy(bytes.data, bytes.length);
    if (buf == NULL)
        cop__front_over(run, front, COP_ENOMEM);
    else if (cop_stream_event(buf, &event) == 0 && event.kind == COP_STREAM_OUTPUT)
        hear_output(run, front, &event);
    cop_buf_unref(buf);
}

static void hear(struct cop_run *run, struct cop__front *front,
                 const struct cop__said *said)
{
    if (said->kind == COP__SAY_OPENED)
        hear_opened(run, front, said);
    else if (said->kind == COP__SAY_GONE)
        hear_gone(run, front, said->status);
    else if (!front->is_opened)
        return; /* a root said it before it was none for a while */
    else if (said->kind == COP__SAY_REACHED)
        hear_reached(run, front, said->wave);
    else
        hear_event(run, front, said->bytes);
}

void cop__front_hear(void *context, const struct cop__said *said)
{
    struct cop_run *run = context;
    struct cop__front *front = cop__front_find(run, said->stream);
    if (front == NULL)
        return;
    front->callbacks++;
    hear(run, front, said);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): nobody frees it while that is not 0. */
    front->callbacks--;
    if (front->is_over && front->callbacks == 0)
        free_front(run, front);
    else
        cop__front_pump(run, front);
}
