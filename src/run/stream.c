/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of the program: what it may call, and what its back-end is told. */
#include "base/random.h"
#include "filter/levels.h"
#include "net/tcp/clock.h"
#include "run/parts.h"
#include "run/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* So many waves a back-end may be ahead, if nobody says otherwise. */
#define WINDOW 64u

/* ---- settings -------------------------------------------------------------------- */

int cop__streams_take(struct cop_run *run, const struct cop_settings *settings,
                      char *message, size_t size)
{
    uint32_t count = settings->filter_count;
    for (uint32_t i = 0; i < count; i++) {
        const char *why = "it is missing";
        if (settings->filters == NULL || settings->filters[i] == NULL ||
            cop_filter_valid(settings->filters[i], &why) != 0)
            return cop__explain(message, size, "filters[%u]: %s", (unsigned)i, why);
        if (cop_filter_find(settings->filters[i]->name) != NULL)
            return cop__explain(message, size, "filters[%u]: '%s' is in the library",
                                (unsigned)i, settings->filters[i]->name);
    }
    if (count == 0)
        return 0;
    run->streams.filters = calloc(count, sizeof(struct cop_filter *));
    if (run->streams.filters == NULL)
        return COP_ENOMEM;
    memcpy(run->streams.filters, settings->filters,
           count * sizeof(struct cop_filter *));
    return 0;
}

static const struct cop_filter *find_filter(const struct cop_run *run, const char *name)
{
    for (uint32_t i = 0; i < run->settings.filter_count; i++)
        if (strcmp(run->streams.filters[i]->name, name) == 0)
            return run->streams.filters[i];
    return cop_filter_find(name);
}

/* ---- life ------------------------------------------------------------------------ */

void cop__streams_begin(struct cop_run *run)
{
    run->streams.desk = (struct cop__desk){.tcp = run->tcp,
                                           .self = run->id,
                                           .token = COP__DESK_TOKEN,
                                           .front = cop__front_hear,
                                           .context = run};
}

void cop__streams_wake(struct cop_run *run)
{
    pthread_mutex_lock(&run->mutex);
    run->shared.stream_news++;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->mutex);
}

/* Does something for each front-end; any of them may end meanwhile. */
static void each_front(struct cop_run *run,
                       void (*act)(struct cop_run *, struct cop__front *))
{
    struct cop__front *front = run->streams.fronts;
    if (front != NULL)
        front->callbacks++;
    while (front != NULL) {
        if (!front->is_over)
            act(run, front);
        struct cop__front *next = front->next;
        if (next != NULL)
            next->callbacks++;
        front->callbacks--;
        if (front->is_over && front->callbacks == 0)
            cop__front_over(run, front, 0);
        front = next;
    }
}

/*
 * Where the root is another one, or has another life, everything is said again; also if it was
 * so only for a while, for its desk has dropped all then. The node may have the next view already.
 */
static void follow_root(struct cop_run *run, struct cop__front *front)
{
    const struct cop_view *view = cop_node_view(cop__tcp_node(run->tcp));
    const struct cop_view *told = run->streams.told ? run->streams.told : view;
    bool is_new =
        !cop__front_is_at_root(front, view) || !cop__front_is_at_root(front, told);
    if (front->root != COP_ID_NONE && cop_view_epoch(told) <= front->epoch)
        return;
    /* T19: it ended with the view before; a root that is new might not know that, or only that
     * the number was used. */
    if (front->options.flags & COP_STREAM_FRAGILE &&
        (front->has_base || (is_new && front->is_asked))) {
        cop__front_over(run, front, COP_ELOST);
        return;
    }
    if (is_new) {
        front->root = cop_view_root(view);
        front->root_life = cop_view_incarnation(view, front->root);
        front->epoch = cop_view_epoch(view);
        front->is_asked = front->is_opened = front->has_said_end = false;
    }
    cop__front_pump(run, front);
}

void cop__streams_view(struct cop_run *run, const struct cop_view *view)
{
    cop__desk_view(&run->streams.desk, view);
    run->streams.told = view;
    each_front(run, follow_root);
    run->streams.told = NULL;
}

static void end_front(struct cop_run *run, struct cop__front *front)
{
    int status = run->shared.state == COP_RUN_OVER && run->shared.why == COP_EREMOVED
                     ? COP_EREMOVED
                     : COP_ESTATE;
    cop__front_over(run, front, status);
}

/* The node has no log. A filter that fails fails on every packet: one line a minute. */
static void name_failed_filter(struct cop_run *run, struct cop__give *give,
                               const struct cop_filter *filter, uint64_t number,
                               int status)
{
    uint64_t held;
    if (!cop__notice_is_due(&give->failed, cop__clock_now(), &held))
        return;
    cop__log(&run->log, COP_LOG_WARN,
             "stream %" PRIu64 ": the filter %s failed on packet %" PRIu64
             ": %s (%" PRIu64 " more like this)",
             give->stream, filter->name, number, cop_strerror(status), held);
}

static void on_failed_down(struct cop_run *run, struct cop__give *give,
                           const struct cop_stream_event *event)
{
    struct cop_stream_info info;
    if (run->tcp != NULL &&
        cop_node_stream(cop__tcp_node(run->tcp), give->stream, &info) == 0 &&
        info.down_filter != NULL)
        name_failed_filter(run, give, info.down_filter, event->wave, event->status);
}

/* T22: with the stream that ends where its filter has failed; so there is one line. */
static void name_failed_end(struct cop_run *run, uint64_t stream,
                            const struct cop_stream_event *event)
{
    cop__log(&run->log, COP_LOG_WARN,
             "stream %" PRIu64 ": closed, for the filter %.*s failed: %s", stream,
             (int)event->length, (const char *)event->bytes,
             cop_strerror(event->status));
}

static void tell_back_end(struct cop_run *run, uint64_t stream,
                          const struct cop_stream_event *event)
{
    bool was = run->is_in_callback;
    if (run->settings.on_stream == NULL)
        return;
    run->is_in_callback = true;
    run->settings.on_stream(run->settings.context, run, stream, event);
    run->is_in_callback = was;
}

void cop__streams_end(struct cop_run *run, int status)
{
    struct cop__run_streams *streams = &run->streams;
    cop__desk_end(&streams->desk);
    each_front(run, end_front);
    while (streams->give_count > 0) {
        struct cop__give last = streams->gives[--streams->give_count];
        struct cop_stream_event event = {
            .kind = COP_STREAM_CLOSED, .status = status, .key = last.key};
        tell_back_end(run, last.stream, &event);
    }
    cop__streams_wake(run);
}

void cop__streams_fini(struct cop_run *run)
{
    free(run->streams.gives);
    free(run->streams.filters);
}

/* ---- the back-end here ----------------------------------------------------------- */

static struct cop__give *find_give(const struct cop_run *run, uint64_t stream)
{
    for (uint32_t i = 0; i < run->streams.give_count; i++)
        if (run->streams.gives[i].stream == stream)
            return &run->streams.gives[i];
    return NULL;
}

static int add_give(struct cop__run_streams *streams, uint64_t stream, uint64_t key)
{
    if (streams->give_count == streams->give_capacity) {
        uint32_t capacity = streams->give_capacity ? 2 * streams->give_capacity : 4;
        void *grown = realloc(streams->gives, capacity * sizeof *streams->gives);
        if (grown == NULL)
            return COP_ENOMEM;
        streams->gives = grown;
        streams->give_capacity = capacity;
    }
    streams->gives[streams->give_count++] = (struct cop__give){
        .stream = stream, .key = key, .count = ++streams->gives_made};
    return 0;
}

static void on_back_end(struct cop_run *run, uint64_t stream,
                        const struct cop_stream_event *event)
{
    struct cop__run_streams *streams = &run->streams;
    struct cop__give *give = find_give(run, stream);
    if (event->kind == COP_STREAM_OPENED && give == NULL) {
        if (add_give(streams, stream, event->key) != 0) {
            cop__run_end(run, COP_ENOMEM);
            return;
        }
    } else if (give == NULL) {
        return; /* only its front-end is here */
    } else if (event->kind == COP_STREAM_CLOSED) {
        *give = streams->gives[--streams->give_count];
    }
    if (event->kind != COP_STREAM_DOWN)
        cop__streams_wake(run);
    else if (event->status != 0)
        on_failed_down(run, give, event);
    tell_back_end(run, stream, event);
}

void cop__run_stream(void *context, uint64_t stream, struct cop_buf *bytes)
{
    struct cop_run *run = context;
    struct cop_stream_event event;
    if (cop_stream_event(bytes, &event) != 0)
        return;
    if (event.kind == COP_STREAM_OUTPUT || event.kind == COP_STREAM_REACHED ||
        event.kind == COP_STREAM_CLOSED || event.kind == COP_STREAM_MOVED)
        cop__desk_event(&run->streams.desk, stream, &event, bytes);
    if (event.kind == COP_STREAM_CLOSED && event.length > 0)
        name_failed_end(run, stream, &event);
    if (event.kind != COP_STREAM_OUTPUT && event.kind != COP_STREAM_REACHED &&
        event.kind != COP_STREAM_MOVED)
        on_back_end(run, stream, &event);
}

void cop__run_letter(void *context, int channel, cop_id from,
                     cop_incarnation incarnation, struct cop_buf *bytes)
{
    struct cop_run *run = context;
    struct cop__said said;
    if (channel != COP__CHANNEL_STREAM || cop__said_decode(bytes, &said) != 0)
        return;
    struct cop__front *front = cop__front_find(run, said.stream);
    if (cop__said_is_for_desk(&said))
        cop__desk_hear(&run->streams.desk, from, incarnation, &said);
    else if (front != NULL && front->root == from && front->root_life == incarnation)
        cop__front_hear(run, &said);
}

bool cop__streams_are_due(const struct cop_run *run)
{
    return run->streams.is_due || run->streams.desk.is_due;
}

void cop__streams_turn(struct cop_run *run)
{
    struct cop__run_streams *streams = &run->streams;
    cop__desk_turn(&streams->desk);
    if (!streams->is_due || run->tcp == NULL)
        return;
    streams->is_due = false;
    each_front(run, cop__front_pump);
    for (uint32_t i = 0; i < streams->give_count; i++) {
        struct cop_stream_event event = {.kind = COP_STREAM_ROOM};
        if (!streams->gives[i].is_hungry)
            continue;
        streams->gives[i].is_hungry = false;
        cop__streams_wake(run);
        tell_back_end(run, streams->gives[i].stream, &event);
    }
}

struct packet {
    uint64_t stream;
    const void *bytes;
    uint32_t length;
    uint64_t key;   /* of the one that it is for; 0: whichever there is */
    uint64_t count; /* of the one for which it waits; 0: it does not wait yet */
};

static int put(struct cop_run *run, void *argument)
{
    struct packet *packet = argument;
    struct cop_stream_info info;
    struct cop__give *give = find_give(run, packet->stream);
    if (run->tcp == NULL)
        return COP_ESTATE;
    /* T1: one of the elder is another one, of which the program is told; so is one of another life. */
    if (give == NULL || (packet->key != 0 && packet->key != give->key) ||
        (packet->count != 0 && packet->count != give->count))
        return COP_ENOENT;
    packet->count = give->count;
    struct cop_request request = {.kind = COP_REQUEST_STREAM_PUT,
                                  .group = packet->stream,
                                  .key = give->key,
                                  .bytes = packet->bytes,
                                  .length = packet->length};
    int error = cop__run_submit(run, &request);
    if (error == 0 || error == COP_ENOMEM || run->tcp == NULL ||
        cop_node_stream(cop__tcp_node(run->tcp), packet->stream, &info) != 0)
        return error == COP_ESTATE ? COP_ENOENT : error;
    if (error == COP_EAGAIN && info.given < info.mark + info.window)
        give->is_hungry = run->streams.is_due = true;
    if (error == COP_EBUG || error == COP_EMALFORMED || error == COP_ETOOBIG)
        name_failed_filter(run, give, info.filter, info.given + 1, error);
    return error == COP_ESTATE ? COP_ENOENT : error;
}

int cop_stream_send(struct cop_run *run, uint64_t stream, const void *bytes,
                    size_t length)
{
    if (run == NULL || (bytes == NULL && length > 0) || length > COP_STREAM_PACKET_MAX)
        return COP_EINVAL;
    struct packet packet = {
        .stream = stream, .bytes = bytes, .length = (uint32_t)length};
    return cop__ask_loop(run, put, &packet);
}

/* ---- waiting --------------------------------------------------------------------- */

static uint64_t news(struct cop_run *run)
{
    pthread_mutex_lock(&run->mutex);
    uint64_t seen = run->shared.stream_news;
    pthread_mutex_unlock(&run->mutex);
    return seen;
}

/* Asks again after each piece of news, until it is not COP_EAGAIN. */
static int ask_until(struct cop_run *run, int (*ask)(struct cop_run *, void *),
                     void *argument, cop_time timeout_ns)
{
    cop_time deadline = cop__deadline_after(timeout_ns);
    bool is_in_time = true;
    if (cop__run_is_here(run))
        return COP_ESTATE;
    for (;;) {
        uint64_t seen = news(run);
        int error = cop__ask_loop(run, ask, argument);
        if (error != COP_EAGAIN)
            return error;
        pthread_mutex_lock(&run->mutex);
        while (run->shared.stream_news == seen && is_in_time &&
               run->shared.state != COP_RUN_OVER)
            is_in_time = cop__wait_until(run, deadline);
        pthread_mutex_unlock(&run->mutex);
        if (!is_in_time)
            return COP_ETIMEDOUT;
    }
}

int cop_stream_send_wait(struct cop_run *run, uint64_t stream, const void *bytes,
                         size_t length, cop_time timeout_ns)
{
    if (run == NULL || (bytes == NULL && length > 0) || length > COP_STREAM_PACKET_MAX)
        return COP_EINVAL;
    struct packet packet = {
        .stream = stream, .bytes = bytes, .length = (uint32_t)length};
    return ask_until(run, put, &packet, timeout_ns);
}

int cop_stream_give(struct cop_run *run, uint64_t stream, uint64_t key,
                    const void *bytes, size_t length, cop_time timeout_ns)
{
    if (run == NULL || (bytes == NULL && length > 0) || length > COP_STREAM_PACKET_MAX)
        return COP_EINVAL;
    struct packet packet = {
        .stream = stream, .bytes = bytes, .length = (uint32_t)length, .key = key};
    return timeout_ns ? ask_until(run, put, &packet, timeout_ns)
                      : cop__ask_loop(run, put, &packet);
}

struct taking {
    uint64_t stream;
    struct cop_stream_output *out;
};

static int take(struct cop_run *run, void *argument)
{
    const struct taking *taking = argument;
    struct cop__front *front = cop__front_find(run, taking->stream);
    struct cop_stream_output output = {0};
    if (front == NULL || front->is_ending)
        return COP_ENOENT;
    if (front->told != NULL)
        return COP_ESTATE;
    if (!front->is_fresh)
        return COP_EAGAIN;
    int error = cop_filter_result(front->filter, front->texts.type, front->state,
                                  &output.result);
    output.state =
        error ? NULL : cop_buf_copy(front->state->data, front->state->length);
    if (error == 0 && output.state == NULL)
        error = COP_ENOMEM;
    if (error) {
        cop_buf_unref(output.result);
        return error;
    }
    output.event = front->last;
    output.event.bytes = output.state->data;
    front->is_fresh = false;
    front->taken = front->last.wave > front->taken ? front->last.wave : front->taken;
    cop__front_pump(run, front);
    cop__run_stir(run);
    *taking->out = output;
    return 0;
}

int cop_stream_wait(struct cop_run *run, uint64_t stream, cop_time timeout_ns,
                    struct cop_stream_output *out)
{
    struct taking taking = {stream, out};
    return run && out ? ask_until(run, take, &taking, timeout_ns) : COP_EINVAL;
}

void cop_stream_output_free(struct cop_stream_output *output)
{
    if (output == NULL)
        return;
    cop_buf_unref(output->state);
    cop_buf_unref(output->result);
    *output = (struct cop_stream_output){0};
}

struct reading {
    uint64_t stream;
    const struct cop_stream_event *event;
    struct cop_buf **out;
};

static int read_result(struct cop_run *run, void *argument)
{
    const struct reading *reading = argument;
    const struct cop__front *front = cop__front_find(run, reading->stream);
    if (front == NULL || reading->event->kind != COP_STREAM_OUTPUT)
        return COP_ENOENT;
    struct cop_buf *state = cop_buf_copy(reading->event->bytes, reading->event->length);
    if (state == NULL)
        return COP_ENOMEM;
    int error =
        cop_filter_result(front->filter, front->texts.type, state, reading->out);
    cop_buf_unref(state);
    return error;
}

int cop_stream_result(struct cop_run *run, uint64_t stream,
                      const struct cop_stream_event *event, struct cop_buf **out)
{
    struct reading reading = {stream, event, out};
    return run && event && out ? cop__ask_loop(run, read_result, &reading) : COP_EINVAL;
}

/* ---- the front-end --------------------------------------------------------------- */

/* Outside of a turn of the loop there may be one to take. */
static void stir(struct cop_run *run)
{
    if (!run->is_in_callback)
        cop__run_stir(run);
}

struct opening {
    const struct cop_stream_options *options;
    cop_stream_told *told;
    void *context;
    uint64_t number;
};

static const char *down_type_of(const struct cop_stream_options *options)
{
    return options->down_type ? options->down_type : "bytes";
}

static int check_down(const struct cop_run *run,
                      const struct cop_stream_options *options)
{
    const struct cop_filter *filter = find_filter(run, options->down);
    const char *params = options->down_params ? options->down_params : "";
    struct cop_buf *ready;
    int error = filter ? cop_filter_ready(filter, down_type_of(options), params, &ready)
                       : COP_EINVAL;
    if (error)
        return error == COP_ENOMEM ? error : COP_EINVAL;
    cop_buf_unref(ready);
    return 0;
}

/* All that can be known here and now; the root looks again. */
static int check_options(const struct cop_run *run,
                         const struct cop_stream_options *options,
                         const struct cop_filter **filter)
{
    const char *params = options->params ? options->params : "";
    struct cop_buf *empty;
    *filter = options->filter ? find_filter(run, options->filter) : NULL;
    if (*filter == NULL || options->type == NULL ||
        strlen(options->type) > COP_FILTER_NAME_MAX ||
        strlen(params) > COP_FILTER_PARAMS_MAX ||
        ((options->flags & COP_STREAM_SINGLE) == 0 &&
         !cop__filter_is_cumulative(*filter, options->type, params)) ||
        options->window > COP_STREAM_WINDOW_MAX ||
        (options->flags & ~COP_STREAM_FLAGS_ALL) != 0 ||
        (unsigned)options->sync > COP_SYNC_NONE ||
        (options->flags & COP_STREAM_FRAGILE && options->sync != COP_SYNC_ALL) ||
        options->shape.kind > COP_SHAPE_CHAIN)
        return COP_EINVAL;
    int error = cop_filter_init(*filter, options->type, params, &empty);
    if (error)
        return error == COP_ENOMEM ? error : COP_EINVAL;
    cop_buf_unref(empty);
    return options->down ? check_down(run, options) : 0;
}

static uint64_t make_number(struct cop_run *run)
{
    uint64_t seed = run->incarnation ^ (uint64_t)run->id << 40;
    uint64_t number = cop__mix64(cop__mix64(seed) + ++run->streams.made);
    return number ? number : 1;
}

/* Texts of the caller's, which may be gone when they are wanted again. */
static void copy_texts(const struct cop_stream_options *from, struct cop__front *front)
{
    struct cop__stream_texts *texts = &front->texts;
    struct cop_stream_options *to = &front->options;
    memcpy(texts->filter, from->filter, strlen(from->filter));
    memcpy(texts->type, from->type, strlen(from->type));
    if (from->params != NULL)
        memcpy(texts->params, from->params, strlen(from->params));
    to->filter = texts->filter;
    to->type = texts->type;
    to->params = texts->params;
    to->down_type = to->down_params = NULL;
    if (from->down == NULL)
        return;
    memcpy(texts->down, from->down, strlen(from->down));
    memcpy(texts->down_type, down_type_of(from), strlen(down_type_of(from)));
    if (from->down_params != NULL)
        memcpy(texts->down_params, from->down_params, strlen(from->down_params));
    to->down = texts->down;
    to->down_type = texts->down_type;
    to->down_params = texts->down_params;
}

static struct cop__front *new_front(const struct opening *opening,
                                    const struct cop_filter *filter)
{
    const struct cop_stream_options *options = opening->options;
    struct cop__front *front = calloc(1, sizeof *front);
    if (front == NULL)
        return NULL;
    front->number = opening->number;
    front->options = *options;
    front->options.number = opening->number;
    front->options.window = options->window ? options->window : WINDOW;
    copy_texts(options, front);
    front->options.definition = NULL;
    front->filter = filter;
    front->told = opening->told;
    front->context = opening->context;
    front->root = COP_ID_NONE;
    return front;
}

static int open_here(struct cop_run *run, void *argument)
{
    struct opening *opening = argument;
    const struct cop_filter *filter;
    if (run->tcp == NULL || run->shared.state == COP_RUN_JOINING ||
        run->start.quorum == COP_QUORUM_FIXED)
        return COP_ESTATE;
    int error = check_options(run, opening->options, &filter);
    if (error)
        return error;
    opening->number = opening->options->number;
    if (opening->number == 0)
        opening->number = make_number(run);
    if (cop__front_find(run, opening->number) != NULL)
        return COP_EEXIST;
    struct cop__front *front = new_front(opening, filter);
    if (front == NULL)
        return COP_ENOMEM;
    error = cop__front_plan(run, front);
    if (error) {
        free(front);
        return error;
    }
    front->next = run->streams.fronts;
    run->streams.fronts = front;
    /* What the desk of this process refuses at once is not told, but returned. */
    front->callbacks++;
    cop_stream_told *told = front->told;
    front->told = NULL;
    follow_root(run, front);
    front->told = told;
    front->callbacks--;
    stir(run);
    if (!front->is_over)
        return 0;
    error = front->last.status;
    cop__front_over(run, front, 0);
    return error;
}

int cop_stream_open(struct cop_run *run, const struct cop_stream_options *options,
                    cop_stream_told *told, void *context, uint64_t *out)
{
    struct opening opening = {options, told, context, 0};
    if (run == NULL || options == NULL)
        return COP_EINVAL;
    int error = cop__ask_loop(run, open_here, &opening);
    if (error == 0 && out != NULL)
        *out = opening.number;
    return error;
}

struct ending {
    uint64_t stream;
    bool closes;
};

static int end_here(struct cop_run *run, void *argument)
{
    const struct ending *ending = argument;
    struct cop__front *front = cop__front_find(run, ending->stream);
    if (front == NULL || front->is_ending)
        return COP_ENOENT;
    front->is_ending = true;
    front->closes = ending->closes;
    cop__streams_wake(run);
    cop__front_pump(run, front);
    stir(run);
    return 0;
}

int cop_stream_close(struct cop_run *run, uint64_t stream)
{
    struct ending ending = {stream, true};
    return run ? cop__ask_loop(run, end_here, &ending) : COP_EINVAL;
}

int cop_stream_detach(struct cop_run *run, uint64_t stream)
{
    struct ending ending = {stream, false};
    return run ? cop__ask_loop(run, end_here, &ending) : COP_EINVAL;
}

static int keep_parcel(struct cop__front *front, const struct packet *packet)
{
    struct cop_buf *bytes = cop_buf_copy(packet->bytes, packet->length);
    if (front->parcel_count == front->parcel_capacity) {
        uint32_t capacity = front->parcel_capacity ? 2 * front->parcel_capacity : 4;
        void *grown = realloc(front->parcels, capacity * sizeof *front->parcels);
        if (grown != NULL) {
            front->parcels = grown;
            front->parcel_capacity = capacity;
        }
    }
    if (bytes == NULL || front->parcel_count == front->parcel_capacity) {
        cop_buf_unref(bytes);
        return COP_ENOMEM;
    }
    front->parcels[front->parcel_count++] = (struct cop__parcel){0, bytes};
    front->given++;
    return 0;
}

static int multicast(struct cop_run *run, void *argument)
{
    const struct packet *packet = argument;
    struct cop__front *front = cop__front_find(run, packet->stream);
    if (front == NULL || front->is_ending)
        return COP_ENOENT;
    if (front->options.down != NULL &&
        cop_type_check(front->options.down_type,
                       (struct cop_span){packet->bytes, packet->length}) != 0)
        return COP_EINVAL;
    if (front->given - front->reached >= front->options.window)
        return COP_EAGAIN;
    int error = keep_parcel(front, packet);
    if (error == 0)
        cop__front_pump(run, front);
    stir(run);
    return error;
}

int cop_stream_multicast(struct cop_run *run, uint64_t stream, const void *bytes,
                         size_t length)
{
    if (run == NULL || (bytes == NULL && length > 0))
        return COP_EINVAL;
    if (length > COP_STREAM_PACKET_MAX)
        return COP_ETOOBIG;
    struct packet packet = {
        .stream = stream, .bytes = bytes, .length = (uint32_t)length};
    return cop__ask_loop(run, multicast, &packet);
}

struct asking {
    uint64_t stream;
    struct cop_stream_info *out;
};

static int get_info(struct cop_run *run, void *argument)
{
    const struct asking *asking = argument;
    return run->tcp
               ? cop_node_stream(cop__tcp_node(run->tcp), asking->stream, asking->out)
               : COP_ESTATE;
}

int cop_stream_info(struct cop_run *run, uint64_t stream, struct cop_stream_info *out)
{
    struct asking asking = {stream, out};
    return run && out ? cop__ask_loop(run, get_info, &asking) : COP_EINVAL;
}
