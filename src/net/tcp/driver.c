/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node on one side, the peers on the other. Everything that happens on the loop becomes
 * an event, one at a time; what a step wants is carried out in its order; and what is to be
 * written or told to the application is done once, when the loop has run out of news.
 */
#include "net/tcp/driver.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "net/tcp/clock.h"
#include "net/tcp/peers.h"
#include "net/tcp/runner.h"
#include "net/tcp/warm.h"

#define CONNECT_TIMEOUT (10 * COP_SEC)
#define HANDSHAKE_TIMEOUT (10 * COP_SEC)
#define IDLE_CLOSE (60 * COP_SEC)
#define STRANGERS_MAX 1024u
/* As many ids as can be promised (view.h); what was said with them matters for a while. */
#define ACQUAINTANCES_MAX 65536u
/* So long callbacks may keep back what they have submitted. */
#define TELLING (100 * COP_USEC)

/* An event that came while a step was being carried out, or a frame to ourselves. */
struct waiting {
    struct waiting *next;
    struct cop_event event;
    struct cop_frame frame; /* of RECV, with a reference to the payload */
};

/* Something that the application has not been told yet. */
enum telling {
    TELL_COMPLETE,
    TELL_DELIVER,
    TELL_VIEW,
    TELL_DEGRADED,
    TELL_OUT,
    TELL_UPCALL,
    TELL_HELD,
    TELL_SUSPICION,
    TELL_STREAM,
    TELL_GUEST
};
struct told {
    struct told *next;
    enum telling kind;
    cop_id peer;
    uint64_t token; /* or an incarnation, or the number of a guest */
    int status;
    struct cop_buf *result; /* or what a guest sent */
    struct cop_buf *beside; /* of an upcall: the bytes of a PIECE */
    struct cop_view *view;
};

struct cop__tcp {
    struct cop__tcp_config config;
    struct cop_node *node;
    struct cop_effects effects;
    struct cop__peers *peers;
    struct cop__clock clock;
    struct cop__warmth warmth;
    struct cop__tcp_stats stats;
    uv_check_t check;
    struct cop__rider rider;

    struct waiting *waiting, **waiting_end;
    struct told *told, **told_end;
    struct told *spare; /* memory of one that was told */
    bool is_busy;       /* a step is being carried out: further events wait */
    bool is_telling;    /* what is submitted is written afterwards */
    bool has_stepped;   /* the node may have another deadline by now */
    bool is_started, is_closing;
    bool is_outlived;
    cop_incarnation outlived_by; /* the latest such life that I was told of */
    int failure;                 /* why the node stopped; it takes no more events */
    bool failure_is_told;

    int handles; /* that are not closed yet, the peers as one */
    void (*closed)(void *context);
};

/* ---- events and effects ---------------------------------------------------------- */

COP__COLD static void stop_node(struct cop__tcp *tcp, int error)
{
    if (tcp->failure == 0)
        tcp->failure = error;
}

COP__APART static void wait_with(struct cop__tcp *tcp, const struct cop_event *event)
{
    struct waiting *waiting = calloc(1, sizeof *waiting);
    if (!waiting) {
        stop_node(tcp, COP_ENOMEM);
        return;
    }
    waiting->event = *event;
    if (event->frame) {
        waiting->frame = *event->frame;
        cop_buf_ref(waiting->frame.payload);
        waiting->event.frame = &waiting->frame;
    }
    *tcp->waiting_end = waiting;
    tcp->waiting_end = &waiting->next;
}

static struct waiting *take_waiting(struct cop__tcp *tcp)
{
    struct waiting *waiting = tcp->waiting;
    if (!waiting)
        return NULL;
    tcp->waiting = waiting->next;
    if (!tcp->waiting)
        tcp->waiting_end = &tcp->waiting;
    return waiting;
}

static void free_waiting(struct waiting *waiting)
{
    cop_buf_unref(waiting->frame.payload);
    free(waiting);
}

static void send_frame(struct cop__tcp *tcp, const struct cop_effect *effect)
{
    int error = 0;
    struct cop_event event = {
        .kind = COP_EVENT_RECV, .peer = tcp->config.self, .frame = &effect->frame};
    if (effect->peer == tcp->config.self)
        wait_with(tcp, &event);
    else
        error = cop__peers_send(tcp->peers, effect->peer, &effect->frame);
    if (error != 0)
        stop_node(tcp, error);
}

static void tell_later(struct cop__tcp *tcp, const struct told *what)
{
    struct told *told = tcp->spare ? tcp->spare : malloc(sizeof *told);
    tcp->spare = NULL;
    if (!told) {
        stop_node(tcp, COP_ENOMEM);
        return;
    }
    *told = *what;
    cop_buf_ref(told->result);
    cop_buf_ref(told->beside);
    if (told->view)
        cop_view_ref(told->view);
    *tcp->told_end = told;
    tcp->told_end = &told->next;
}

COP__APART static void tell_effect(struct cop__tcp *tcp, enum telling kind,
                                   const struct cop_effect *effect)
{
    struct told told = {.kind = kind,
                        .peer = effect->peer,
                        .token = effect->token,
                        .status = effect->status,
                        .result = effect->result,
                        .beside = effect->frame.payload,
                        .view = effect->view};
    tell_later(tcp, &told);
}

/* Without encryption a connection costs next to nothing. */
static void renew_warmth(struct cop__tcp *tcp)
{
    if (tcp->config.tls)
        cop__warmth_renew(&tcp->warmth);
}

static void carry_out(struct cop__tcp *tcp, const struct cop_effect *effect)
{
    bool is_self = effect->peer == tcp->config.self;
    int error = 0;
    switch (effect->kind) {
    case COP_EFFECT_SEND:
        send_frame(tcp, effect);
        break;
    case COP_EFFECT_CONNECT:
        error = is_self ? 0 : cop__peers_keep(tcp->peers, effect->peer);
        break;
    case COP_EFFECT_CLOSE:
        error = is_self ? 0 : cop__peers_release(tcp->peers, effect->peer);
        break;
    case COP_EFFECT_COMPLETE:
        tell_effect(tcp, TELL_COMPLETE, effect);
        break;
    case COP_EFFECT_DELIVER:
        tell_effect(tcp, TELL_DELIVER, effect);
        break;
    case COP_EFFECT_VIEW:
        renew_warmth(tcp);
        tell_effect(tcp, TELL_VIEW, effect);
        break;
    case COP_EFFECT_DEGRADED:
        tell_effect(tcp, TELL_DEGRADED, effect);
        break;
    case COP_EFFECT_OUT:
        tell_effect(tcp, TELL_OUT, effect);
        break;
    case COP_EFFECT_UPCALL:
        tell_effect(tcp, TELL_UPCALL, effect);
        break;
    case COP_EFFECT_HELD:
        if (tcp->config.held)
            tell_effect(tcp, TELL_HELD, effect);
        break;
    case COP_EFFECT_SUSPICION:
        if (tcp->config.suspicion)
            tell_effect(tcp, TELL_SUSPICION, effect);
        break;
    case COP_EFFECT_STREAM:
        if (tcp->config.stream)
            tell_effect(tcp, TELL_STREAM, effect);
        break;
    }
    if (error != 0)
        stop_node(tcp, error);
}

/* One step. What it makes happen at once waits behind it. */
static int step(struct cop__tcp *tcp, const struct cop_event *event)
{
    int error = cop_step(tcp->node, event, &tcp->effects);
    if (error != 0 && event->kind != COP_EVENT_SUBMIT)
        stop_node(tcp, error);
    if (error == COP_ENOMEM)
        stop_node(tcp, error);
    for (uint32_t i = 0; error == 0 && i < tcp->effects.count; i++)
        carry_out(tcp, &tcp->effects.items[i]);
    return error;
}

/* A step and all that follows from it here. */
static int run(struct cop__tcp *tcp, const struct cop_event *event)
{
    struct waiting *waiting;
    tcp->is_busy = true;
    int result = step(tcp, event);
    while ((waiting = take_waiting(tcp))) {
        if (waiting->event.kind == COP_EVENT_RECV)
            waiting->event.now = cop__clock_now();
        if (tcp->failure == 0)
            step(tcp, &waiting->event);
        free_waiting(waiting);
    }
    tcp->is_busy = false;
    tcp->has_stepped = true;
    return result;
}

/* From the peers. */
static void on_event(void *context, const struct cop_event *event)
{
    struct cop__tcp *tcp = context;
    if (tcp->failure != 0 || tcp->is_closing)
        return;
    if (tcp->is_busy)
        wait_with(tcp, event);
    else
        run(tcp, event);
}

static cop_incarnation on_known(void *context, cop_id id)
{
    struct cop__tcp *tcp = context;
    return cop_node_belief(tcp->node, id).incarnation;
}

/*
 * A peer says that it knows a later life of us: no view can have this one any more, and where
 * views are fixed nobody will listen to it. A life that none could exceed is not believed.
 */
static void on_outlived(void *context, cop_incarnation later)
{
    struct cop__tcp *tcp = context;
    struct told told = {.kind = TELL_OUT, .status = COP_EREMOVED};
    if (later > tcp->outlived_by && later < UINT64_MAX - 1)
        tcp->outlived_by = later;
    bool is_fixed = tcp->config.quorum == COP_QUORUM_FIXED;
    if (!tcp->is_outlived && (!is_fixed || tcp->outlived_by != 0))
        tell_later(tcp, &told);
    tcp->is_outlived = true;
}

cop_incarnation cop__tcp_outlived_by(const struct cop__tcp *tcp)
{
    return tcp->outlived_by;
}

static void on_cooled(void *context)
{
    struct cop__tcp *tcp = context;
    cop__warmth_cooled(&tcp->warmth);
}

static void on_guest(void *context, uint64_t guest, struct cop_buf *command)
{
    struct told told = {.kind = TELL_GUEST, .token = guest, .result = command};
    tell_later(context, &told);
}

/* The very first event is a TICK, whatever the deadline says. */
static void on_tick(void *context, cop_time now)
{
    struct cop__tcp *tcp = context;
    struct cop_event event = {.kind = COP_EVENT_TICK, .now = now};
    if (tcp->failure != 0 || tcp->is_closing)
        return;
    if (!tcp->is_started || cop_deadline(tcp->node) <= now) {
        if (!tcp->is_started)
            renew_warmth(tcp);
        tcp->is_started = true;
        run(tcp, &event);
    } else {
        cop__clock_wake(&tcp->clock, cop_deadline(tcp->node));
    }
}

/* ---- when there is no more news -------------------------------------------------- */

static void tell(const struct cop__tcp_config *config, const struct told *told)
{
    void *context = config->context;
    switch (told->kind) {
    case TELL_COMPLETE:
        if (config->complete)
            config->complete(context, told->token, told->status, told->result);
        return;
    case TELL_DELIVER:
        if (told->status != 0 && config->letter)
            config->letter(context, told->status, told->peer, told->token,
                           told->result);
        else if (told->status == 0 && config->deliver)
            config->deliver(context, told->peer, told->token, told->result);
        return;
    case TELL_VIEW:
        if (config->installed)
            config->installed(context, told->view);
        return;
    case TELL_DEGRADED:
        if (config->degraded)
            config->degraded(context, told->status != 0);
        return;
    case TELL_OUT:
        if (config->out)
            config->out(context, told->status);
        return;
    case TELL_UPCALL:
        if (told->beside && config->piece)
            config->piece(context, told->result, told->beside);
        else if (config->upcall)
            config->upcall(context, told->result);
        return;
    case TELL_HELD:
        config->held(context);
        return;
    case TELL_SUSPICION:
        config->suspicion(context);
        return;
    case TELL_STREAM:
        config->stream(context, told->token, told->result);
        return;
    case TELL_GUEST:
        config->guest(context, told->token, told->result);
        return;
    }
}

static void tell_next(struct cop__tcp *tcp)
{
    struct told *told = tcp->told;
    tcp->told = told->next;
    if (!tcp->told)
        tcp->told_end = &tcp->told;
    if (!tcp->is_closing)
        tell(&tcp->config, told);
    cop_buf_unref(told->result);
    cop_buf_unref(told->beside);
    cop_view_unref(told->view);
    if (tcp->spare)
        free(told);
    else
        tcp->spare = told;
}

/*
 * All that was to be told when this began: what is submitted meanwhile is written together
 * afterwards, unless callbacks take their time. What is told because of it comes after that
 * write, so whoever is to be asked before a service runs has been asked.
 */
static void tell_some(struct cop__tcp *tcp)
{
    struct told *const *end = tcp->told_end;
    cop_time until = cop__clock_now() + TELLING;
    bool is_last = tcp->told == NULL;
    tcp->is_telling = true;
    while (!is_last && !tcp->is_closing) {
        is_last = &tcp->told->next == end;
        tell_next(tcp);
        is_last |= cop__clock_now() >= until;
    }
    tcp->is_telling = false;
}

/* After all is written, because setting a clock takes a system call. */
static void mind_deadline(struct cop__tcp *tcp)
{
    if (tcp->has_stepped && tcp->failure == 0 && !tcp->is_closing)
        cop__clock_wake(&tcp->clock, cop_deadline(tcp->node));
    tcp->has_stepped = false;
}

static void settle(struct cop__tcp *tcp)
{
    while (!tcp->is_closing && (tcp->told || cop__peers_is_dirty(tcp->peers))) {
        cop__peers_flush(tcp->peers);
        tell_some(tcp);
    }
    mind_deadline(tcp);
    if (tcp->failure != 0 && !tcp->failure_is_told && !tcp->is_closing) {
        tcp->failure_is_told = true;
        if (tcp->config.failed)
            tcp->config.failed(tcp->config.context, tcp->failure);
    }
}

/* After it has read all that there was: one write for each peer, not for each frame. */
static void on_check(uv_check_t *check) { settle(check->data); }

static bool is_swift(const struct cop__tcp_config *config, const struct told *told)
{
    if (!config->is_swift)
        return told->kind == TELL_COMPLETE && (told->token & config->swift_tokens);
    return told->kind == TELL_UPCALL || told->kind == TELL_COMPLETE ||
           told->kind == TELL_STREAM;
}

/*
 * Upcalls, what ended and streams, up to the first that is something else. The loop is the run's
 * own, so callbacks use libuv only through what is here, which says so (cop__runner_changed).
 */
static bool tell_swiftly(struct cop__tcp *tcp)
{
    struct told *const *end = tcp->told_end;
    cop_time until = 0; /* from the first of a stream on */
    bool is_last = tcp->told == NULL;
    tcp->is_telling = true;
    while (!is_last && !tcp->is_closing && is_swift(&tcp->config, tcp->told)) {
        bool is_stream = tcp->told->kind == TELL_STREAM;
        is_last = &tcp->told->next == end;
        if (is_stream && until == 0)
            until = cop__clock_now() + TELLING;
        tell_next(tcp);
        is_last |= is_stream && cop__clock_now() >= until;
    }
    tcp->is_telling = false;
    return is_last;
}

/* The same on the runner's short way, where nobody is told what may need libuv. */
static bool on_settle(struct cop__rider *rider)
{
    struct cop__tcp *tcp =
        (struct cop__tcp *)((char *)rider - offsetof(struct cop__tcp, rider));
    cop__peers_flush(tcp->peers);
    while (tcp->told && tell_swiftly(tcp) && !tcp->is_closing)
        cop__peers_flush(tcp->peers);
    mind_deadline(tcp);
    return !tcp->told && tcp->failure == 0 && !tcp->is_closing;
}

/* ---- life ------------------------------------------------------------------------ */

static cop_time or_default(cop_time value, cop_time standard)
{
    return value != 0 ? value : standard;
}

static struct cop__peers_config peers_config(struct cop__tcp *tcp)
{
    const struct cop__tcp_config *config = &tcp->config;
    struct cop__peers_config out = {
        .clock = &tcp->clock,
        .loop = config->loop,
        .runner = config->runner,
        .tls = config->tls,
        .no_reads = config->no_reads,
        .log = config->log,
        .stats = &tcp->stats,
        .listen_fd = config->listen_fd,
        .address = config->address,
        .address_context = config->context,
        .name_of = config->name_of,
        .event = on_event,
        .known = on_known,
        .outlived = on_outlived,
        .guest = config->guest ? on_guest : NULL,
        .cooled = on_cooled,
        .context = tcp,
    };
    memcpy(out.identity.cluster, config->cluster, sizeof out.identity.cluster);
    out.identity.instance = config->instance;
    out.identity.self = config->self;
    out.identity.incarnation = config->incarnation;
    out.identity.view = config->view;
    out.identity.is_open = config->quorum != COP_QUORUM_FIXED;
    out.connect_timeout_ns = or_default(config->connect_timeout_ns, CONNECT_TIMEOUT);
    out.idle_close_ns = or_default(config->idle_close_ns, IDLE_CLOSE);
    out.handshake_timeout_ns =
        or_default(config->handshake_timeout_ns, HANDSHAKE_TIMEOUT);
    if (config->detect.patience_ns > 0)
        out.patient_until = cop__clock_now() + config->detect.patience_ns;
    out.strangers_max =
        config->connections_max ? config->connections_max : STRANGERS_MAX;
    out.acquaintances_max = ACQUAINTANCES_MAX;
    return out;
}

static int start_handles(struct cop__tcp *tcp)
{
    uv_loop_t *loop = tcp->config.loop;
    int error = cop__clock_init(&tcp->clock, loop);
    if (error != 0) {
        cop__log(tcp->config.log, COP_LOG_ERROR, "cannot make a timer: %s",
                 uv_strerror(error));
        return COP_EIO;
    }
    tcp->clock.tick = on_tick;
    tcp->clock.context = tcp;
    uv_check_init(loop, &tcp->check);
    tcp->check.data = tcp;
    uv_check_start(&tcp->check, on_check);
    /* It serves others, and keeps nobody waiting for it. */
    uv_unref((uv_handle_t *)&tcp->check);
    tcp->handles = 2;
    tcp->rider.settle = on_settle;
    if (tcp->config.runner)
        cop__runner_join(tcp->config.runner, &tcp->rider);
    return 0;
}

static void destroy(struct cop__tcp *tcp)
{
    struct waiting *waiting;
    while ((waiting = take_waiting(tcp)))
        free_waiting(waiting);
    while (tcp->told)
        tell_next(tcp);
    free(tcp->spare);
    cop_effects_free(&tcp->effects);
    cop_node_destroy(tcp->node);
    cop_view_unref(tcp->config.view);
    free(tcp);
}

static void on_gone(void *context)
{
    struct cop__tcp *tcp = context;
    if (--tcp->handles > 0)
        return;
    void (*closed)(void *context_) = tcp->closed;
    void *closed_context = tcp->config.context;
    destroy(tcp);
    if (closed)
        closed(closed_context);
}

static void on_handle_closed(uv_handle_t *handle) { on_gone(handle->data); }

static void close_handles(struct cop__tcp *tcp)
{
    tcp->is_closing = true;
    if (tcp->config.runner)
        cop__runner_leave(tcp->config.runner, &tcp->rider);
    cop__clock_close(&tcp->clock, on_gone);
    uv_close((uv_handle_t *)&tcp->check, on_handle_closed);
}

static int create_node(struct cop__tcp *tcp)
{
    struct cop_config config = {
        .self = tcp->config.self,
        .incarnation = tcp->config.incarnation,
        .view = tcp->config.view,
        .stats = tcp->config.stats,
        .now = cop__clock_now(),
        .quorum = tcp->config.quorum,
        .quorum_ids = tcp->config.quorum_ids,
        .quorum_count = tcp->config.quorum_count,
        .detect = tcp->config.detect,
        .services = tcp->config.services,
        .service_count = tcp->config.service_count,
        .operations = tcp->config.operations,
        .operation_count = tcp->config.operation_count,
        .filters = tcp->config.filters,
        .filter_count = tcp->config.filter_count,
        .guard = tcp->config.guard,
        .name = tcp->config.name,
        .address = tcp->config.where,
        .spare = tcp->config.spare,
    };
    return cop_node_create(&config, &tcp->node);
}

/* Everything that needs no handle, so that it can be undone at once. */
static int prepare(const struct cop__tcp_config *config, struct cop__tcp **out)
{
    struct cop__tcp *tcp = calloc(1, sizeof *tcp);
    if (!tcp)
        return COP_ENOMEM;
    tcp->config = *config;
    tcp->waiting_end = &tcp->waiting;
    tcp->told_end = &tcp->told;
    cop_view_ref(config->view);
    /* Zero stands for "not known yet" in the handshake. */
    int error = config->incarnation == 0 ? COP_EINVAL : create_node(tcp);
    if (error == 0)
        error = start_handles(tcp);
    if (error != 0) {
        destroy(tcp);
        return error;
    }
    *out = tcp;
    return 0;
}

int cop__tcp_create(const struct cop__tcp_config *config, struct cop__tcp **out)
{
    struct cop__tcp *tcp;
    int error = prepare(config, &tcp);
    if (error != 0) {
        if (config->listen_fd >= 0)
            close(config->listen_fd);
        return error;
    }
    struct cop__peers_config peers = peers_config(tcp);
    error = cop__peers_create(&peers, &tcp->peers);
    if (error != 0) {
        close_handles(tcp);
        return error;
    }
    tcp->handles++;
    cop__warmth_init(&tcp->warmth, &tcp->clock, tcp->peers, tcp->node, &tcp->stats);
    cop__clock_wake(&tcp->clock, cop__clock_now());
    *out = tcp;
    return 0;
}

int cop__tcp_submit(struct cop__tcp *tcp, const struct cop_request *request)
{
    struct cop_event event = {
        .kind = COP_EVENT_SUBMIT, .now = cop__clock_now(), .request = request};
    if (tcp->failure != 0)
        return tcp->failure;
    COP_ASSERT(!tcp->is_busy && !tcp->is_closing);
    int error = run(tcp, &event);
    if (tcp->is_telling)
        return error;
    /* Nothing on the loop has happened, so nobody else will do this now. What is over
     * already is told from the loop, after the caller knows that it was taken. */
    cop__peers_flush(tcp->peers);
    mind_deadline(tcp);
    if (tcp->told || tcp->failure != 0)
        cop__clock_wake(&tcp->clock, 0);
    return error;
}

void cop__tcp_used_loop(struct cop__tcp *tcp)
{
    if (tcp->config.runner)
        cop__runner_changed(tcp->config.runner);
}

void cop__tcp_answer(struct cop__tcp *tcp, uint64_t guest, const struct cop_buf *bytes)
{
    if (!tcp->is_closing)
        cop__peers_answer(tcp->peers, guest, bytes);
}

bool cop__tcp_guest_is(const struct cop__tcp *tcp, uint64_t guest, const char *name)
{
    return !tcp->is_closing && cop__peers_guest_is(tcp->peers, guest, name);
}

void cop__tcp_rekeyed(struct cop__tcp *tcp)
{
    if (tcp->is_closing)
        return;
    cop__peers_renew(tcp->peers);
    /* As after a submission: nothing on the loop has happened. */
    cop__peers_flush(tcp->peers);
    mind_deadline(tcp);
}

const struct cop_node *cop__tcp_node(const struct cop__tcp *tcp) { return tcp->node; }

const struct cop__tcp_stats *cop__tcp_stats(const struct cop__tcp *tcp)
{
    return &tcp->stats;
}

void cop__tcp_close(struct cop__tcp *tcp, void (*closed)(void *context))
{
    if (tcp->is_closing)
        return;
    tcp->closed = closed;
    cop__warmth_fini(&tcp->warmth);
    cop__peers_flush(tcp->peers);
    close_handles(tcp);
    cop__peers_close(tcp->peers, on_gone, tcp);
}
