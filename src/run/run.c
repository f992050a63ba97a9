/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a run, and its loop: on the caller's thread, or on one of its own. */
#include "base/assert.h"
#include "net/tls/tls.h"
#include "run/parts.h"
#include "run/text.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Turns of the loop in one dispatch: enough for all there is, unless more keeps coming. */
#define TURNS_MAX 64

/* ---- what it does in each turn --------------------------------------------------- */

static void leave_now(struct cop_run *run)
{
    struct cop__call *call = NULL;
    int error = COP_ESTATE;
    if (run->shared.state != COP_RUN_JOINING) {
        cop__tell_state(run, COP_RUN_LEAVING);
        call = calloc(1, sizeof *call);
        error = COP_ENOMEM;
    }
    if (call != NULL) {
        call->request.kind = COP_REQUEST_LEAVE;
        error = cop__call_submit(run, call);
        if (error)
            cop__call_free(run, call);
    }
    if (error == COP_EAGAIN || error == COP_ENOMEM)
        return; /* in the next turn */
    pthread_mutex_lock(&run->mutex);
    run->shared.wants_leave = false;
    pthread_mutex_unlock(&run->mutex);
    if (error == COP_EEXIST)
        error = 0; /* it was on its way already */
    /* No node yet, or views that never change: nobody to say goodbye to. */
    if (error == COP_ESTATE || error == COP_EINVAL)
        cop__run_end(run, 0);
}

static void do_turn(struct cop_run *run)
{
    pthread_mutex_lock(&run->mutex);
    bool wants_stop = run->shared.wants_stop, wants_leave = run->shared.wants_leave;
    pthread_mutex_unlock(&run->mutex);
    if (wants_stop)
        cop__run_end(run, COP_ESTATE);
    else if (wants_leave)
        leave_now(run);
    cop__rpc_pump(run);
    cop__streams_turn(run);
}

static void on_turn(uv_check_t *turn) { do_turn(turn->data); }

/* On the runner's short way nobody may be told anything: only whether there is. */
static bool on_settle(struct cop__rider *rider)
{
    struct cop_run *run =
        (struct cop_run *)((char *)rider - offsetof(struct cop_run, rider));
    return run->shared.state != COP_RUN_LEAVING && run->services.backlog == NULL &&
           !cop__streams_are_due(run);
}

static void on_wake(uv_async_t *wake) { cop__calls_take_queue(wake->data); }

/* ---- the end --------------------------------------------------------------------- */

static void close_handles(struct cop_run *run)
{
    pthread_mutex_lock(&run->mutex);
    run->shared.is_deaf = true;
    pthread_mutex_unlock(&run->mutex);
    uv_close((uv_handle_t *)&run->wake, NULL);
    uv_close((uv_handle_t *)&run->turn, NULL);
    cop__porch_close(&run->door, NULL);
    if (run->listen_fd >= 0)
        close(run->listen_fd);
    run->listen_fd = -1;
    if (run->socket[0] != '\0')
        unlink(run->socket);
}

void cop__run_end(struct cop_run *run, int why)
{
    if (run->shared.state == COP_RUN_OVER)
        return;
    cop__join_close(run);
    pthread_mutex_lock(&run->mutex);
    run->shared.why = why;
    pthread_mutex_unlock(&run->mutex);
    cop__tell_state(run, COP_RUN_OVER);
    /* From here on nothing new is taken. */
    cop__calls_end(run, why == COP_EREMOVED ? COP_EREMOVED : COP_ESTATE);
    cop__calls_take_queue(run);
    close_handles(run);
    cop__tell_out(run, why);
}

static void free_run(struct cop_run *run)
{
    /* Only handles that are closing are left: this does not wait. */
    uv_run(&run->loop, UV_RUN_DEFAULT);
    int error = uv_loop_close(&run->loop);
    COP_ASSERT(error == 0);
    cop__runner_fini(&run->runner);
    cop__services_fini(run);
    cop__streams_fini(run);
    free(run->operations);
    cop__tls_destroy(run->tls);
    cop__start_free(&run->start);
    cop_view_unref(run->start_view);
    pthread_mutex_destroy(&run->mutex);
    pthread_cond_destroy(&run->changed);
    free(run);
}

/* ---- the beginning --------------------------------------------------------------- */

static void init_shared(struct cop_run *run)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&run->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&run->mutex, NULL);
    run->shared.self = COP_ID_NONE;
    run->shared.queue_end = &run->shared.queue;
    run->services.backlog_end = &run->services.backlog;
}

static int init_loop(struct cop_run *run)
{
    if (uv_loop_init(&run->loop) != 0)
        return COP_EIO;
    if (uv_async_init(&run->loop, &run->wake, on_wake) != 0) {
        uv_loop_close(&run->loop);
        return COP_EIO;
    }
    run->wake.data = run;
    /* epoll hears of it now, so that from here on anything can be woken up for. */
    uv_run(&run->loop, UV_RUN_NOWAIT);
    uv_check_init(&run->loop, &run->turn);
    run->turn.data = run;
    /* The last to be started is the first to be called: drivers come before this. */
    uv_check_start(&run->turn, on_turn);
    cop__runner_init(&run->runner, &run->loop);
    run->is_short = cop__runner_is_short(&run->runner);
    run->rider.settle = on_settle;
    cop__runner_join(&run->runner, &run->rider);
    return 0;
}

/* A run that has nothing yet but a loop. */
static int create(const struct cop_settings *settings, bool has_thread,
                  struct cop_run **out)
{
    struct cop_run *run = calloc(1, sizeof *run);
    if (run == NULL)
        return COP_ENOMEM;
    run->settings = *settings;
    /* The strings are the program's, and may be gone tomorrow. */
    run->settings.cluster = run->settings.shape = run->settings.quorum = NULL;
    run->settings.detector = run->settings.contact = run->settings.name = NULL;
    run->settings.listen = run->settings.key_file = NULL;
    run->settings.authority_file = run->settings.certificate_file = NULL;
    run->settings.private_key_file = NULL;
    run->settings.addresses = NULL;
    run->settings.services = NULL;
    run->settings.operations = NULL;
    run->settings.filters = NULL;
    run->has_thread = has_thread;
    run->id = COP_ID_NONE;
    run->listen_fd = -1;
    cop__start_init(&run->start);
    if (settings->on_log != NULL)
        run->log = (struct cop_log){cop__tell_log, run, settings->log_level};
    init_shared(run);
    int error = init_loop(run);
    if (error) {
        pthread_mutex_destroy(&run->mutex);
        pthread_cond_destroy(&run->changed);
        free(run);
        return error;
    }
    *out = run;
    return 0;
}

/* Nobody has heard of it, and nobody will. */
static void give_up(struct cop_run *run)
{
    run->log = (struct cop_log){0};
    run->settings = (struct cop_settings){0};
    run->has_thread = false;
    cop__run_end(run, COP_ESTATE);
    free_run(run);
}

static int take_operations(struct cop_run *run, const struct cop_settings *settings,
                           char *message, size_t size)
{
    const struct cop_operation *given = settings->operations;
    uint32_t count = settings->operation_count;
    for (uint32_t i = 0; i < count; i++)
        if (given == NULL || given[i].combine == NULL)
            return cop__explain(message, size, "operations[%u] is missing",
                                (unsigned)i);
    if (count == 0)
        return 0;
    run->operations = calloc(count, sizeof *given);
    if (run->operations == NULL)
        return COP_ENOMEM;
    memcpy(run->operations, given, count * sizeof *given);
    return 0;
}

static int prepare(struct cop_run *run, const struct cop_settings *settings,
                   char *message, size_t size)
{
    int error = cop__settings_apply(run, settings, message, size);
    if (error == 0)
        error = cop__services_take(run, settings, message, size);
    if (error == 0)
        error = take_operations(run, settings, message, size);
    if (error == 0)
        error = cop__streams_take(run, settings, message, size);
    if (error)
        return error;
    if (cop__door_init(run) != 0) {
        cop__explain(message, size, "the socket cannot be waited for");
        return COP_EIO;
    }
    error = cop__join_begin(run);
    if (error)
        cop__explain(message, size, "the member cannot start: %s", cop_strerror(error));
    return error;
}

static void *run_thread(void *argument)
{
    struct cop_run *run = argument;
    /* Whoever made this thread has its number by now. */
    pthread_mutex_lock(&run->mutex);
    pthread_mutex_unlock(&run->mutex);
    cop__runner_run(&run->runner);
    return NULL;
}

static int start_thread(struct cop_run *run, char *message, size_t size)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&run->mutex);
    int error = pthread_create(&run->thread, NULL, run_thread, run);
    pthread_mutex_unlock(&run->mutex);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        return 0;
    cop__explain(message, size, "no thread: %s", strerror(error));
    return COP_EIO;
}

static int start(const struct cop_settings *given, bool has_thread,
                 struct cop_run **out, char *message, size_t size)
{
    struct cop_settings settings;
    struct cop_run *run = NULL;
    if (message == NULL)
        size = 0;
    if (out == NULL)
        return cop__explain(message, size, "there is no place for the run");
    int error = cop__settings_take(given, &settings, message, size);
    if (error)
        return error;
    error = create(&settings, has_thread, &run);
    if (error) {
        cop__explain(message, size, "%s", cop_strerror(error));
        return error;
    }
    if (size > 0)
        message[0] = '\0';
    error = prepare(run, &settings, message, size);
    if (error == 0 && has_thread)
        error = start_thread(run, message, size);
    if (error) {
        if (size > 0 && message[0] == '\0')
            cop__explain(message, size, "%s", cop_strerror(error));
        give_up(run);
        return error;
    }
    /* The run has a descriptor of its own; had it failed, this one would be the program's still. */
    if (settings.listen_fd > 0)
        close(settings.listen_fd);
    *out = run;
    return 0;
}

int cop_start(const struct cop_settings *settings, struct cop_run **out, char *message,
              size_t size)
{
    int error = start(settings, false, out, message, size);
    if (error == 0)
        uv_async_send(&(*out)->wake);
    return error;
}

int cop_start_thread(const struct cop_settings *settings, struct cop_run **out,
                     char *message, size_t size)
{
    return start(settings, true, out, message, size);
}

/* ---- the caller's loop ----------------------------------------------------------- */

int cop_fd(const struct cop_run *run)
{
    return run && !run->has_thread ? uv_backend_fd(&run->loop) : -1;
}

int cop_dispatch(struct cop_run *run)
{
    if (run == NULL)
        return COP_EINVAL;
    if (run->has_thread || run->is_in_callback || run->is_dispatching ||
        run->shared.state == COP_RUN_OVER)
        return COP_ESTATE;
    /* What a callback starts to wait for is known to epoll only after another turn; older
     * libraries do not say whether there is any. */
    int least = uv_version() < COP__RUNNER_UV_VERSION ? 3 : 1;
    run->is_dispatching = true;
    cop__runner_changed(&run->runner);
    for (int i = 0; i < TURNS_MAX && run->shared.state != COP_RUN_OVER; i++) {
        uv_run(&run->loop, UV_RUN_NOWAIT);
        if (i + 1 >= least && uv_backend_timeout(&run->loop) != 0)
            break;
    }
    run->is_dispatching = false;
    if (run->shared.state != COP_RUN_OVER && uv_backend_timeout(&run->loop) == 0)
        uv_async_send(&run->wake);
    return 0;
}

int cop_poll(struct cop_run *run, int timeout_ms)
{
    if (run == NULL)
        return COP_EINVAL;
    if (run->has_thread || run->is_in_callback || run->shared.state == COP_RUN_OVER)
        return COP_ESTATE;
    /* As a thread of ours would: a loop that only polls touches nothing of libuv. */
    if (run->is_short && cop__runner_may_wait(&run->runner)) {
        run->is_dispatching = true;
        bool is_all = cop__runner_turn(&run->runner, timeout_ms);
        run->is_dispatching = false;
        return is_all ? 0 : cop_dispatch(run);
    }
    struct pollfd wait = {.fd = cop_fd(run), .events = POLLIN};
    if (poll(&wait, 1, timeout_ms) < 0 && errno != EINTR)
        return COP_EIO;
    return cop_dispatch(run);
}

/* ---- ends that the program wants ------------------------------------------------- */

int cop_stop(struct cop_run *run)
{
    int error = 0;
    if (run == NULL)
        return COP_EINVAL;
    pthread_mutex_lock(&run->mutex);
    if (run->shared.state == COP_RUN_OVER)
        error = COP_ESTATE;
    run->shared.wants_stop = true;
    cop__run_wake(run);
    pthread_mutex_unlock(&run->mutex);
    return error;
}

int cop_leave(struct cop_run *run)
{
    int error = 0;
    if (run == NULL)
        return COP_EINVAL;
    struct cop__shared *shared = &run->shared;
    pthread_mutex_lock(&run->mutex);
    if (shared->state == COP_RUN_OVER) {
        error = COP_ESTATE;
    } else if (shared->is_degraded) {
        error = COP_EDEGRADED;
    } else if (shared->state != COP_RUN_LEAVING) {
        shared->wants_leave = true;
        cop__run_wake(run);
    }
    pthread_mutex_unlock(&run->mutex);
    return error;
}

void cop_free(struct cop_run *run)
{
    if (run == NULL)
        return;
    if (run->has_thread) {
        COP_ASSERT(!pthread_equal(pthread_self(), run->thread));
        cop_stop(run);
        pthread_join(run->thread, NULL);
    } else {
        COP_ASSERT(!run->is_in_callback && !run->is_dispatching);
        cop__run_end(run, COP_ESTATE);
    }
    free_run(run);
}

/* ---- what is --------------------------------------------------------------------- */

/* Only the mutex of a run that is asked is touched. */
static pthread_mutex_t *mutex_of(const struct cop_run *run)
{
    return (pthread_mutex_t *)(uintptr_t)&run->mutex;
}

enum cop_run_state cop_state(const struct cop_run *run)
{
    if (run == NULL)
        return COP_RUN_OVER;
    pthread_mutex_lock(mutex_of(run));
    enum cop_run_state state = run->shared.state;
    if (state == COP_RUN_MEMBER && run->shared.wants_leave)
        state = COP_RUN_LEAVING;
    pthread_mutex_unlock(mutex_of(run));
    return state;
}

cop_id cop_self(const struct cop_run *run)
{
    if (run == NULL)
        return COP_ID_NONE;
    pthread_mutex_lock(mutex_of(run));
    cop_id self = run->shared.self;
    pthread_mutex_unlock(mutex_of(run));
    return self;
}

bool cop_is_degraded(const struct cop_run *run)
{
    if (run == NULL)
        return false;
    pthread_mutex_lock(mutex_of(run));
    bool is_degraded = run->shared.is_degraded;
    pthread_mutex_unlock(mutex_of(run));
    return is_degraded;
}

const char *cop_address(const struct cop_run *run) { return run ? run->where : ""; }

struct cop_view *cop_view_current(const struct cop_run *run)
{
    struct cop_view *view = NULL;
    if (run == NULL)
        return NULL;
    pthread_mutex_lock(mutex_of(run));
    if (run->shared.view != NULL)
        view = cop_view_ref(run->shared.view);
    pthread_mutex_unlock(mutex_of(run));
    return view;
}
