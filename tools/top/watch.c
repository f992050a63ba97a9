/* SPDX-License-Identifier: Apache-2.0 */
#include "top/watch.h"

#include "talk/tokens.h"

#include <coppice/error.h>

/* How soon something that could not be done is tried again, in milliseconds. */
#define AGAIN_MS 2u

/* ---- turns ----------------------------------------------------------------------- */

static void on_again(uv_timer_t *timer) { (void)timer; }

static void on_turn(uv_check_t *turn)
{
    struct watches *watches = turn->data;
    if (watches->tcp == NULL)
        return;
    cop__desk_turn(&watches->desk);
    if (watches->is_due) {
        watches->is_due = false;
        watch_fronts_turn(watches);
    }
    if ((watches->is_due || watches->desk.is_due) &&
        !uv_is_active((uv_handle_t *)&watches->again))
        uv_timer_start(&watches->again, on_again, AGAIN_MS, 0);
}

int watches_init(struct watches *watches, uv_loop_t *loop, const struct cop_log *log,
                 uint64_t instance)
{
    *watches = (struct watches){.loop = loop,
                                .log = log,
                                .instance = instance,
                                .host_fd = -1,
                                .minder = {.fd = -1}};
    uv_check_init(loop, &watches->turn);
    uv_timer_init(loop, &watches->again);
    watches->turn.data = watches->again.data = watches;
    watches->is_open = true;
    return uv_check_start(&watches->turn, on_turn);
}

void watches_begin(struct watches *watches, struct cop__tcp *tcp, cop_id self,
                   cop_incarnation incarnation)
{
    watches->tcp = tcp;
    watches->self = self;
    watches->incarnation = incarnation;
    watches->desk = (struct cop__desk){.tcp = tcp,
                                       .self = self,
                                       .token = WATCH_TOKEN,
                                       .front = watch_front_hear,
                                       .context = watches};
}

void watches_end(struct watches *watches, int why)
{
    if (watches->tcp == NULL)
        return;
    samplers_end(watches);
    watch_fronts_end(watches, why);
    cop__desk_end(&watches->desk);
    watches->tcp = NULL;
}

void watches_close(struct watches *watches)
{
    if (!watches->is_open)
        return;
    watches->is_open = false;
    uv_close((uv_handle_t *)&watches->turn, NULL);
    uv_close((uv_handle_t *)&watches->again, NULL);
    minder_stop(&watches->minder);
}

/* ---- what the driver says -------------------------------------------------------- */

void watches_view(struct watches *watches, const struct cop_view *view)
{
    if (watches->tcp == NULL)
        return;
    cop__desk_view(&watches->desk, view);
    watch_fronts_view(watches, view);
}

void watches_letter(struct watches *watches, int channel, cop_id from,
                    cop_incarnation incarnation, const struct cop_buf *bytes)
{
    struct cop__said said;
    if (channel != COP__CHANNEL_STREAM || watches->tcp == NULL || bytes == NULL ||
        cop__said_decode(bytes, &said) != 0)
        return;
    if (cop__said_is_for_desk(&said))
        cop__desk_hear(&watches->desk, from, incarnation, &said);
    else if (watch_front_is_heard(watches, said.stream, from, incarnation))
        watch_front_hear(watches, &said);
}

void watches_stream(struct watches *watches, uint64_t stream,
                    const struct cop_buf *bytes)
{
    struct cop_stream_event event;
    if (watches->tcp == NULL || cop_stream_event(bytes, &event) != 0)
        return;
    bool is_for_front = event.kind == COP_STREAM_OUTPUT ||
                        event.kind == COP_STREAM_REACHED ||
                        event.kind == COP_STREAM_MOVED;
    if (is_for_front || event.kind == COP_STREAM_CLOSED)
        cop__desk_event(&watches->desk, stream, &event, bytes);
    if (!is_for_front)
        samplers_event(watches, stream, &event);
}

bool watches_complete(struct watches *watches, uint64_t token)
{
    if (!(token & WATCH_TOKEN))
        return false;
    cop__desk_complete(&watches->desk, token);
    return true;
}
