/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The desk: at the root of a view, where front-ends that are elsewhere have their streams. It
 * does for each what it asks for, and passes on what the node says.
 *
 * Nothing here waits in a list that can grow: outputs that cannot be sent are dropped, and the
 * front-end is attached again later, which gives it the whole state; packets down are no more
 * than the window, because their sender counts them. What cannot be done at once is done after
 * one of the next turns of the loop.
 */
#include "net/tcp/driver.h"
#include "run/streams.h"

#include <stdlib.h>
#include <string.h>

/* ---- customers ------------------------------------------------------------------- */

/* Not one that is only to hear that it is gone. */
static struct cop__customer *find(const struct cop__desk *desk, uint64_t stream)
{
    for (uint32_t i = 0; i < desk->count; i++)
        if (desk->customers[i].stream == stream && !desk->customers[i].is_gone)
            return &desk->customers[i];
    return NULL;
}

static void free_parcels(struct cop__customer *customer, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        cop_buf_unref(customer->parcels[i].bytes);
    customer->parcel_count -= count;
    if (customer->parcel_count > 0)
        memmove(customer->parcels, customer->parcels + count,
                customer->parcel_count * sizeof *customer->parcels);
}

static void drop(struct cop__desk *desk, uint32_t at)
{
    struct cop__customer *customer = &desk->customers[at];
    free_parcels(customer, customer->parcel_count);
    free(customer->parcels);
    cop_buf_unref(customer->options);
    cop_buf_unref(customer->definition);
    desk->count--;
    memmove(customer, customer + 1, (desk->count - at) * sizeof *customer);
}

static uint32_t place_of(const struct cop__desk *desk,
                         const struct cop__customer *customer)
{
    return (uint32_t)(customer - desk->customers);
}

/* Also what it was to hear. */
static void drop_owned(struct cop__desk *desk, uint64_t stream, cop_id owner)
{
    for (uint32_t i = desk->count; i-- > 0;)
        if (desk->customers[i].stream == stream && desk->customers[i].owner == owner)
            drop(desk, i);
}

static struct cop__customer *add(struct cop__desk *desk, uint64_t stream)
{
    if (desk->count == desk->capacity) {
        uint32_t capacity = desk->capacity ? 2 * desk->capacity : 4;
        void *grown = realloc(desk->customers, capacity * sizeof *desk->customers);
        if (grown == NULL)
            return NULL;
        desk->customers = grown;
        desk->capacity = capacity;
    }
    struct cop__customer *customer = &desk->customers[desk->count++];
    *customer = (struct cop__customer){.stream = stream};
    return customer;
}

/* ---- saying ---------------------------------------------------------------------- */

static int submit(struct cop__desk *desk, struct cop_request *request)
{
    request->token |= desk->token;
    int error = cop__tcp_submit(desk->tcp, request);
    desk->is_due = desk->is_due || error == COP_EAGAIN;
    return error;
}

static int send_letter(struct cop__desk *desk, cop_id to, const struct cop__said *said)
{
    struct cop_buf *bytes = cop__said_encode(said);
    if (bytes == NULL) {
        desk->is_due = true;
        return COP_EAGAIN;
    }
    struct cop_request request = {.kind = COP_REQUEST_SEND,
                                  .op = COP__CHANNEL_STREAM,
                                  .member = to,
                                  .bytes = bytes->data,
                                  .length = bytes->length};
    int error = submit(desk, &request);
    cop_buf_unref(bytes);
    return error;
}

/* To whoever is the front-end, which may end it: nobody uses the customer after this. */
static int say(struct cop__desk *desk, cop_id owner, const struct cop__said *said)
{
    if (owner != desk->self)
        return send_letter(desk, owner, said);
    if (desk->front != NULL)
        desk->front(desk->context, said);
    return 0;
}

/* It has no stream here any more, and hears why. */
static void dismiss(struct cop__desk *desk, struct cop__customer *customer, int status)
{
    cop_id owner = customer->owner;
    struct cop__said gone = {
        .kind = COP__SAY_GONE, .stream = customer->stream, .status = status};
    customer->is_gone = true;
    customer->status = status;
    if (owner != desk->self && send_letter(desk, owner, &gone) == COP_EAGAIN)
        return; /* in another turn */
    drop(desk, place_of(desk, customer));
    if (owner == desk->self)
        say(desk, owner, &gone);
}

/* It died: its streams are closed, unless they are to be kept. */
static void bury(struct cop__desk *desk, struct cop__customer *customer)
{
    struct cop_request request = {.kind = COP_REQUEST_STREAM_DETACH,
                                  .group = customer->stream};
    customer->is_lost = true;
    if (submit(desk, &request) != COP_EAGAIN)
        drop(desk, place_of(desk, customer));
}

/* ---- what is to be done ---------------------------------------------------------- */

static const struct cop_buf *definition_of(const struct cop__desk *desk,
                                           uint64_t stream)
{
    struct cop_stream_info info;
    return cop_node_stream(cop__tcp_node(desk->tcp), stream, &info) == 0
               ? info.definition
               : NULL;
}

static bool is_same(const struct cop_buf *a, const struct cop_buf *b)
{
    return a != NULL && b != NULL && a->length == b->length &&
           memcmp(a->data, b->data, a->length) == 0;
}

/* T1: the node has another one of the number than it was attached to. MOVED is on its way. */
static bool has_moved(const struct cop__desk *desk,
                      const struct cop__customer *customer)
{
    const struct cop_buf *now = definition_of(desk, customer->stream);
    return customer->is_attached && now != NULL && !is_same(now, customer->definition);
}

/* What it has taken is of the one that it named. If the node has another it begins anew. */
static int begin(struct cop__desk *desk, struct cop__customer *customer,
                 const struct cop_buf *named)
{
    const struct cop_buf *now = definition_of(desk, customer->stream);
    struct cop_buf *copy = now ? cop_buf_copy(now->data, now->length) : NULL;
    if (now != NULL && copy == NULL)
        return COP_ENOMEM;
    if (named != NULL && !is_same(named, now))
        customer->taken = customer->reached = customer->reached_said = 0;
    cop_buf_unref(customer->definition);
    customer->definition = copy;
    customer->is_attached = true;
    customer->is_stale = false;
    customer->wants_whole = true;
    customer->marked = customer->taken;
    return 0;
}

/* Opens it at the node, or attaches to it. */
static int attach(struct cop__desk *desk, struct cop__customer *customer)
{
    struct cop_stream_options options;
    struct cop__stream_texts texts;
    struct cop__bytes bytes = {customer->options->data, customer->options->length};
    int error = cop__options_decode(bytes, &options, &texts);
    struct cop_request request = {.kind = COP_REQUEST_STREAM_OPEN,
                                  .token = ++desk->opened,
                                  .stream = &options,
                                  .member = customer->owner,
                                  .incarnation = customer->life,
                                  .wave = customer->taken,
                                  .reached = customer->reached};
    if (error)
        return error;
    if (customer->is_attached)
        options.definition = customer->definition;
    error = submit(desk, &request);
    if (error == 0) {
        customer->opening = request.token;
        error = begin(desk, customer, options.definition);
    }
    cop_buf_unref(texts.definition);
    return error;
}

void cop__desk_complete(struct cop__desk *desk, uint64_t token)
{
    for (uint32_t i = 0; i < desk->count; i++)
        if (desk->customers[i].opening == token)
            desk->customers[i].opening = 0;
}

static void pass_parcels(struct cop__desk *desk, struct cop__customer *customer)
{
    uint32_t count = 0;
    while (count < customer->parcel_count) {
        const struct cop__parcel *parcel = &customer->parcels[count];
        struct cop_request request = {.kind = COP_REQUEST_STREAM_SEND,
                                      .group = customer->stream,
                                      .wave = parcel->number,
                                      .bytes = parcel->bytes->data,
                                      .length = parcel->bytes->length};
        if (submit(desk, &request) != 0)
            break;
        count++;
    }
    free_parcels(customer, count);
}

static void pass_taken(struct cop__desk *desk, struct cop__customer *customer)
{
    struct cop_request request = {.kind = COP_REQUEST_STREAM_TAKEN,
                                  .group = customer->stream,
                                  .wave = customer->taken};
    if (customer->taken > customer->marked && submit(desk, &request) == 0)
        customer->marked = customer->taken;
}

/* False: it may be no customer any more, or elsewhere in the list. */
static bool say_opened(struct cop__desk *desk, struct cop__customer *customer)
{
    struct cop_stream_info info = {0};
    uint64_t stream = customer->stream;
    cop_node_stream(cop__tcp_node(desk->tcp), stream, &info);
    struct cop__said opened = {
        .kind = COP__SAY_OPENED, .stream = stream, .wave = info.down};
    if (info.definition != NULL)
        opened.bytes =
            (struct cop__bytes){info.definition->data, info.definition->length};
    customer->is_told = true;
    if (say(desk, customer->owner, &opened) != 0) {
        customer->is_told = false;
        return true;
    }
    bool is_there = find(desk, stream) == customer;
    desk->is_due = desk->is_due || !is_there;
    return is_there;
}

static void say_reached(struct cop__desk *desk, struct cop__customer *customer)
{
    struct cop__said said = {.kind = COP__SAY_REACHED,
                             .stream = customer->stream,
                             .wave = customer->reached};
    uint64_t before = customer->reached_said;
    if (customer->reached <= before || !customer->is_told)
        return;
    customer->reached_said = customer->reached;
    if (say(desk, customer->owner, &said) != 0)
        customer->reached_said = before;
}

static void serve(struct cop__desk *desk, struct cop__customer *customer)
{
    if (customer->is_lost || customer->is_gone) {
        (void)(customer->is_lost ? bury(desk, customer)
                                 : dismiss(desk, customer, customer->status));
        return;
    }
    if (has_moved(desk, customer)) {
        dismiss(desk, customer, COP_EAGAIN);
        return;
    }
    if (!customer->is_attached || customer->is_stale) {
        int error = attach(desk, customer);
        if (error == COP_EAGAIN)
            return;
        if (error) {
            /* The node is root no longer, and this is about to be told of it. */
            dismiss(desk, customer, error == COP_ESTATE ? COP_EAGAIN : error);
            return;
        }
    }
    if (!customer->is_told && !say_opened(desk, customer))
        return;
    pass_taken(desk, customer);
    pass_parcels(desk, customer);
    say_reached(desk, customer);
}

void cop__desk_turn(struct cop__desk *desk)
{
    if (!desk->is_due || desk->tcp == NULL)
        return;
    desk->is_due = false;
    for (uint32_t i = 0; i < desk->count; i++) {
        uint32_t before = desk->count;
        serve(desk, &desk->customers[i]);
        /* One that ends moves others to other places: they have a turn after the next. */
        desk->is_due = desk->is_due || desk->count != before;
    }
}

/* ---- what front-ends say --------------------------------------------------------- */

static void hear_open(struct cop__desk *desk, cop_id from, cop_incarnation life,
                      const struct cop__said *said)
{
    struct cop__customer *customer = find(desk, said->stream);
    /* The former one may be dead by now, so that it need not hear it. */
    if (customer != NULL && (customer->owner != from || customer->life != life))
        dismiss(desk, customer, COP_EEXIST);
    drop_owned(desk, said->stream, from);
    customer = add(desk, said->stream);
    struct cop_buf *options = cop_buf_copy(said->bytes.data, said->bytes.length);
    if (customer == NULL || options == NULL) {
        struct cop__said gone = {
            .kind = COP__SAY_GONE, .stream = said->stream, .status = COP_ENOMEM};
        if (customer != NULL)
            drop(desk, place_of(desk, customer));
        cop_buf_unref(options);
        say(desk, from, &gone);
        return;
    }
    customer->owner = from;
    customer->life = life;
    customer->epoch = cop_view_epoch(cop_node_view(cop__tcp_node(desk->tcp)));
    customer->options = options;
    customer->taken = said->wave;
    customer->reached = customer->reached_said = said->reached;
    serve(desk, customer);
}

static void hear_send(struct cop__desk *desk, struct cop__customer *customer,
                      const struct cop__said *said)
{
    struct cop_buf *bytes = cop_buf_copy(said->bytes.data, said->bytes.length);
    if (customer->parcel_count == customer->parcel_capacity) {
        uint32_t capacity =
            customer->parcel_capacity ? 2 * customer->parcel_capacity : 4;
        void *grown = realloc(customer->parcels, capacity * sizeof *customer->parcels);
        if (grown != NULL) {
            customer->parcels = grown;
            customer->parcel_capacity = capacity;
        }
    }
    if (bytes == NULL || customer->parcel_count == customer->parcel_capacity ||
        customer->parcel_count >= COP_STREAM_WINDOW_MAX) {
        cop_buf_unref(bytes);
        dismiss(desk, customer, COP_ENOMEM);
        return;
    }
    customer->parcels[customer->parcel_count++] =
        (struct cop__parcel){said->wave, bytes};
    serve(desk, customer);
}

static void hear_end(struct cop__desk *desk, struct cop__customer *customer,
                     enum cop__said_kind kind)
{
    struct cop_request request = {.kind = kind == COP__SAY_CLOSE
                                              ? COP_REQUEST_STREAM_CLOSE
                                              : COP_REQUEST_STREAM_DETACH,
                                  .group = customer->stream};
    int error = has_moved(desk, customer) ? COP_EAGAIN : submit(desk, &request);
    if (error == COP_ESTATE && definition_of(desk, customer->stream) != NULL)
        error = COP_EAGAIN;
    /* A node that is busy, or has another front-end by now, or is the root no longer: the front-end
     * says it again. */
    dismiss(desk, customer, error == COP_EAGAIN ? COP_EAGAIN : 0);
}

void cop__desk_hear(struct cop__desk *desk, cop_id from, cop_incarnation life,
                    const struct cop__said *said)
{
    if (desk->tcp == NULL)
        return;
    if (said->kind == COP__SAY_OPEN) {
        hear_open(desk, from, life, said);
        return;
    }
    struct cop__customer *customer = find(desk, said->stream);
    if (customer == NULL || customer->owner != from || customer->life != life ||
        customer->is_gone)
        return; /* it has heard that it is gone, or will */
    if (said->kind == COP__SAY_SEND) {
        hear_send(desk, customer, said);
    } else if (said->kind == COP__SAY_TAKEN) {
        if (said->wave > customer->taken)
            customer->taken = said->wave;
        serve(desk, customer);
    } else {
        hear_end(desk, customer, said->kind);
    }
}

/* ---- what the node says ---------------------------------------------------------- */

static void pass_output(struct cop__desk *desk, struct cop__customer *customer,
                        bool is_whole, const struct cop_buf *bytes)
{
    struct cop__said said = {.kind = COP__SAY_EVENT,
                             .stream = customer->stream,
                             .bytes = {bytes->data, bytes->length}};
    uint64_t stream = customer->stream;
    /* What was on its way from the node before it was attached comes now. */
    if (customer->is_stale || (customer->wants_whole && !is_whole))
        return;
    if (!customer->is_told) {
        customer->is_stale = desk->is_due = true;
        return;
    }
    customer->wants_whole = false;
    int error = say(desk, customer->owner, &said);
    customer = find(desk, stream);
    if (error == 0 || customer == NULL)
        return;
    if (error == COP_EINVAL) { /* no letter is as long as that */
        dismiss(desk, customer, COP_ETOOBIG);
        return;
    }
    customer->is_stale = desk->is_due = true;
}

void cop__desk_event(struct cop__desk *desk, uint64_t stream,
                     const struct cop_stream_event *event, const struct cop_buf *bytes)
{
    struct cop__customer *customer = find(desk, stream);
    if (customer == NULL || !customer->is_attached || customer->is_gone ||
        customer->is_lost || customer->opening != 0)
        return;
    if (event->kind == COP_STREAM_OUTPUT) {
        pass_output(desk, customer, event->whole, bytes);
        customer = find(desk, stream);
        /* Packets that were turned away may be taken now. */
        if (customer != NULL && customer->parcel_count > 0)
            pass_parcels(desk, customer);
    } else if (event->kind == COP_STREAM_REACHED) {
        customer->reached = event->wave;
        pass_parcels(desk, customer);
        say_reached(desk, customer);
    } else if (event->kind == COP_STREAM_CLOSED) {
        dismiss(desk, customer, event->status);
    } else if (event->kind == COP_STREAM_MOVED && event->root == desk->self) {
        /* T1: it is another stream than it opened. What is on its way from it is of that one, and
         * is dropped until it asks again. */
        dismiss(desk, customer, COP_EAGAIN);
    }
}

/* ---- the world ------------------------------------------------------------------- */

/* Who is lost is the front-end of nothing; and where this is the root no longer all go to
 * the new one by themselves. But those who asked in a later view, which is yet to be told, stay. */
void cop__desk_view(struct cop__desk *desk, const struct cop_view *view)
{
    bool is_root = cop_view_root(view) == desk->self;
    for (uint32_t i = desk->count; i-- > 0;) {
        struct cop__customer *customer = &desk->customers[i];
        if (is_root && cop_view_has(view, customer->owner, customer->life))
            continue;
        if (is_root && !customer->is_gone)
            bury(desk, customer);
        else if (is_root || customer->epoch < cop_view_epoch(view))
            drop(desk, i);
    }
}

void cop__desk_end(struct cop__desk *desk)
{
    while (desk->count > 0)
        drop(desk, desk->count - 1);
    free(desk->customers);
    desk->customers = NULL;
    desk->capacity = 0;
    desk->tcp = NULL;
    desk->is_due = false;
}
