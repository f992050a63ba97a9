/* SPDX-License-Identifier: Apache-2.0 */
/*
 * While a round waits for somebody who is silent, the root asks beside it what there is, and
 * shows it when nobody who answers runs it any more. The round goes on meanwhile: who is silent
 * may still come, or be found dead.
 */
#include "ask/pick.h"
#include "base/rankset.h"
#include "exec/root.h"

#include <coppice/error.h>
#include <stdlib.h>

static void on_late(uv_timer_t *timer)
{
    struct exec_call *call = timer->data;
    if (call->is_over || call->is_fetching || call->is_shown || call->peek_token != 0)
        return;
    /* Turned away: the next time. */
    if (exec_call_ask(call, EXEC_GATHER, 0, EXEC_PEEK, &call->peek_token) != 0)
        exec_peek_arm(call);
}

/* Who does not take waves gets one class for all who said the same, at the end. */
void exec_peek_arm(struct exec_call *call)
{
    if (!(call->order.flags & EXEC_FLAG_WAVES)) {
        uv_timer_stop(&call->timer);
        return;
    }
    uv_timer_start(&call->timer, on_late, EXEC_LATE_MS, 0);
}

static bool has_record(const struct cop_bcast_result *result)
{
    const uint8_t *bytes;
    uint32_t at = 0, length, count, ranges;
    while (cop_count_next(result, &at, &bytes, &length, &count, &ranges))
        if (length > 1)
            return true;
    return false;
}

/* Nobody has ended, and nobody runs it: for whom that waits is said all the same. */
static void tell_absent(struct exec_call *call, const struct cop_bcast_result *result)
{
    struct cop_ranks ids = {0};
    int error = 0;
    for (uint32_t i = 0; i < result->failure_count && !error; i++)
        if (result->failures[i].status == COP_ETIMEDOUT &&
            exec_call_fate(call, result->failures[i].node) != NULL)
            error = cop__rankset_put(&ids, result->failures[i].node);
    struct exec_note wave = {.kind = EXEC_WAVE, .count = ids.count};
    uint8_t *ranges = error ? NULL : pick_ranges(&ids, &wave.ranges.count);
    wave.ranges.data = ranges;
    if (ranges != NULL && ids.count > 0)
        exec_call_tell(call, &wave);
    free(ranges);
    cop_ranks_free(&ids);
}

/* The round may be over by now, or be the next one, which waits for the same member. */
void exec_peek_complete(struct exec_call *call, struct cop_buf *bytes)
{
    struct cop_bcast_result result;
    struct cop__list ranges;
    call->peek_token = 0;
    if (call->is_fetching || call->round_token == 0)
        return;
    if (bytes == NULL || cop_bcast_result(bytes, &result) != 0) {
        exec_peek_arm(call);
        return;
    }
    uint32_t running = exec_call_running(&result, &ranges);
    if (running > 0)
        exec_call_tell_running(call, running, ranges);
    else if (has_record(&result))
        call->is_shown = calloc(call->meant.count + 1, sizeof *call->is_shown);
    else
        tell_absent(call, &result);
    cop_bcast_result_free(&result);
    if (call->is_shown != NULL)
        exec_call_show(call, bytes, false);
    else
        exec_peek_arm(call);
}
