/* SPDX-License-Identifier: Apache-2.0 */
/* What the program is told: by callbacks, and by what it may read from other threads. */
#include "run/parts.h"

#include "view/view.h"

/*
 * Callbacks are bracketed by these, so that functions know that they are called from one.
 */
static bool enter(struct cop_run *run)
{
    bool was = run->is_in_callback;
    run->is_in_callback = true;
    return was;
}

static void leave(struct cop_run *run, bool was) { run->is_in_callback = was; }

void cop__tell_log(void *context, enum cop_log_level level, const char *line)
{
    struct cop_run *run = context;
    bool was = enter(run);
    run->settings.on_log(run->settings.context, level, line);
    leave(run, was);
}

/* ---- views ----------------------------------------------------------------------- */

static void call_on_view(struct cop_run *run, struct cop_view *old,
                         struct cop_view *now)
{
    if (run->settings.on_view == NULL)
        return;
    bool was = enter(run);
    run->settings.on_view(run->settings.context, run, old, now);
    leave(run, was);
}

int cop__tell_view(struct cop_run *run, const struct cop_view *view)
{
    struct cop__shared *shared = &run->shared;
    struct cop_view *copy;
    int error = cop__view_copy(view, &copy);
    if (error)
        return error;
    pthread_mutex_lock(&run->mutex);
    struct cop_view *old = shared->view;
    shared->view = copy;
    shared->self = run->id;
    if (shared->state == COP_RUN_JOINING)
        shared->state = COP_RUN_MEMBER;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->mutex);
    run->was_member = true;
    call_on_view(run, old, copy);
    cop_view_unref(old);
    return 0;
}

void cop__tell_state(struct cop_run *run, enum cop_run_state state)
{
    struct cop__shared *shared = &run->shared;
    struct cop_view *old = NULL;
    pthread_mutex_lock(&run->mutex);
    shared->state = state;
    if (state == COP_RUN_JOINING || state == COP_RUN_OVER) {
        old = shared->view;
        shared->view = NULL;
        shared->is_degraded = false;
    }
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->mutex);
    cop_view_unref(old);
}

/* ---- the rest -------------------------------------------------------------------- */

void cop__tell_degraded(void *context, bool is_degraded)
{
    struct cop_run *run = context;
    pthread_mutex_lock(&run->mutex);
    run->shared.is_degraded = is_degraded;
    pthread_mutex_unlock(&run->mutex);
    if (run->settings.on_degraded == NULL)
        return;
    bool was = enter(run);
    run->settings.on_degraded(run->settings.context, run, is_degraded);
    leave(run, was);
}

void cop__tell_message(void *context, cop_id from, cop_incarnation incarnation,
                       struct cop_buf *bytes)
{
    struct cop_run *run = context;
    struct cop_message message = {.from = from,
                                  .incarnation = incarnation,
                                  .bytes = bytes ? bytes->data : NULL,
                                  .length = bytes ? bytes->length : 0};
    if (run->settings.on_message == NULL)
        return;
    bool was = enter(run);
    run->settings.on_message(run->settings.context, run, &message);
    leave(run, was);
}

void cop__tell_out(struct cop_run *run, int why)
{
    if (run->settings.on_out == NULL)
        return;
    bool was = enter(run);
    run->settings.on_out(run->settings.context, run, why);
    leave(run, was);
}

/* ---- suspicions ------------------------------------------------------------------ */

void cop__tell_suspicions(void *context)
{
    struct cop_run *run = context;
    struct cop_suspicion all[COP_SUSPICIONS_MAX];
    if (run->settings.on_suspicion == NULL || run->tcp == NULL)
        return;
    uint32_t count =
        cop_node_events(cop__tcp_node(run->tcp), 0, all, COP_SUSPICIONS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        struct cop__told *told = &run->told[all[i].number % COP_SUSPICIONS_MAX];
        if (told->number == all[i].number + 1 && told->outcome == all[i].outcome)
            continue;
        *told = (struct cop__told){all[i].number + 1, all[i].outcome};
        bool was = enter(run);
        run->settings.on_suspicion(run->settings.context, run, &all[i]);
        leave(run, was);
    }
}
