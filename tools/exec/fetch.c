/* SPDX-License-Identifier: Apache-2.0 */
/* What comes of a run: telling the command how it ended, fetching long outputs, and streams. */
#include "ask/pick.h"
#include "exec/root.h"
#include "term/say.h"

#include <coppice/error.h>
#include <stdlib.h>
#include <string.h>

/* So often it is looked whether a holder is silent; after two it is given up. */
#define TICK_MS 5000u
#define SILENCE_MAX 2u
/* So often the others hear that we still want what they keep. */
#define TICKS_OF_LEASE 4u
#define FAILURES_MAX 4096u /* in one reply */

static const struct cop_view *view_of(const struct exec_call *call)
{
    return cop_node_view(cop__tcp_node(call->exec->tcp));
}

/* ---- the end --------------------------------------------------------------------- */

static void tell_failures(struct exec_call *call, const uint8_t *bytes, uint32_t length)
{
    struct exec_note note = {.kind = EXEC_FAILURES, .bytes = {bytes, length}};
    if (length > 0)
        exec_call_tell(call, &note);
}

static uint32_t tell_all_failures(struct exec_call *call)
{
    static uint8_t bytes[FAILURES_MAX * EXEC_FAILURE_SIZE];
    struct cop__writer writer = cop__writer(bytes, sizeof bytes);
    uint32_t failed = 0;
    for (uint32_t i = 0; i < call->meant.count; i++) {
        if (call->fates[i].status == 0)
            continue;
        exec_failure_put(&writer, &call->fates[i]);
        failed++;
        if (writer.at == writer.end) {
            tell_failures(call, bytes, sizeof bytes);
            writer = cop__writer(bytes, sizeof bytes);
        }
    }
    tell_failures(call, bytes, (uint32_t)(writer.at - bytes));
    return failed;
}

static void finish(struct exec_call *call)
{
    uint32_t failed = tell_all_failures(call);
    struct exec_note end = {.kind = EXEC_END,
                            .count = call->meant.count,
                            .member = call->meant.count - failed,
                            .offset = now_ns() - call->begun,
                            .which = call->is_cancelled};
    exec_call_tell(call, &end);
    call->is_over = true;
    exec_call_settle(call);
}

/* ---- waves ----------------------------------------------------------------------- */

/* The ids, one by one, of those who are meant, are in `ranges`, and are in no earlier wave. What a
 * member says of others may be any range, so it is not counted through. */
static int pick_fresh(const struct exec_call *call, struct cop__list ranges,
                      struct cop_ranks *out)
{
    for (uint32_t i = 0; i < call->meant.count; i++)
        if ((call->is_shown == NULL || !call->is_shown[i]) &&
            exec_ranges_have(ranges, call->meant.items[i]) &&
            cop_ranks_push(out, call->meant.items[i]) != 0)
            return COP_ENOMEM;
    return 0;
}

static bool has_fresh(const struct exec_call *call, struct cop__list ranges)
{
    struct cop_ranks ids = {0};
    bool has = pick_fresh(call, ranges, &ids) != 0 || ids.count > 0;
    cop_ranks_free(&ids);
    return has;
}

/* Before its round is over nothing is known of a member but that it has not answered. */
static bool is_member(const struct exec_call *call, cop_id id)
{
    return cop_view_rank(view_of(call), id) != COP_RANK_NONE;
}

/* Who is not in the view was found dead, and is not waited for. */
static bool is_awaited(const struct exec_call *call, uint32_t i)
{
    int status = call->fates[i].status;
    return (status == COP_ETIMEDOUT ||
            (status == COP_ELOST && call->is_shown != NULL)) &&
           is_member(call, call->meant.items[i]);
}

void exec_call_tell_silent(struct exec_call *call)
{
    struct cop_ranks ids = {0};
    int error = 0;
    for (uint32_t i = 0; i < call->meant.count && !error; i++)
        if (is_awaited(call, i))
            error = cop_ranks_push(&ids, call->meant.items[i]);
    struct exec_note wave = {.kind = EXEC_WAVE, .count = ids.count};
    uint8_t *ranges = error ? NULL : pick_ranges(&ids, &wave.ranges.count);
    wave.ranges.data = ranges;
    if (ranges != NULL && (call->order.flags & EXEC_FLAG_WAVES))
        exec_call_tell(call, &wave);
    free(ranges);
    cop_ranks_free(&ids);
}

static void end_wave(struct exec_call *call)
{
    struct cop_buf *pending = call->pending;
    uv_timer_stop(&call->timer);
    call->is_fetching = false;
    if (call->is_final) {
        finish(call);
        return;
    }
    for (uint32_t i = 0; i < call->meant.count; i++)
        call->is_shown[i] = call->fates[i].status == 0;
    exec_call_tell_silent(call);
    call->pending = NULL;
    if (pending != NULL && !call->is_over)
        exec_call_round(call, pending);
    cop_buf_unref(pending);
}

/* ---- long outputs ---------------------------------------------------------------- */

static void fetch(struct exec_call *call);
static void fetch_next(struct exec_call *call);

/* The next who has it, and is there; COP_ID_NONE. */
static cop_id next_holder(const struct exec_call *call, cop_id after)
{
    struct cop__list ranges = {call->result->data + call->ranges_at, call->range_count};
    cop_id next = COP_ID_NONE;
    for (uint32_t i = 0; i < call->meant.count; i++) {
        cop_id id = call->meant.items[i];
        if ((after == COP_ID_NONE || id > after) && id < next &&
            exec_ranges_have(ranges, id) && is_member(call, id))
            next = id;
    }
    return next;
}

static void tell_gone(struct exec_call *call)
{
    struct exec_note gone = {.kind = EXEC_GONE, .count = call->index};
    exec_call_tell(call, &gone);
}

/* The text is the same at all who have it: the next one goes on where the last one stopped. */
static void try_next_holder(struct exec_call *call)
{
    call->is_asked = false;
    call->holder = next_holder(call, call->holder);
    if (call->holder != COP_ID_NONE) {
        fetch(call);
        return;
    }
    tell_gone(call);
    fetch_next(call);
}

static void on_tick(uv_timer_t *timer)
{
    struct exec_call *call = timer->data;
    if (call->is_over)
        return;
    if (++call->ticks % TICKS_OF_LEASE == 0)
        exec_call_ask(call, EXEC_WAIT, 0, EXEC_WHOLE_ROUND, NULL);
    if (call->is_asked && ++call->silence == SILENCE_MAX)
        try_next_holder(call);
}

/* Asks for the next piece of this class, or goes on to the next class. */
static void fetch(struct exec_call *call)
{
    while (call->which < 2 && call->offset >= call->kept[call->which]) {
        call->which++;
        call->offset = 0;
    }
    if (call->which == 2) {
        fetch_next(call);
        return;
    }
    struct exec_note get = {.kind = EXEC_GET,
                            .run = call->run,
                            .which = (uint8_t)call->which,
                            .offset = call->offset};
    call->is_asked = true;
    call->silence = 0;
    exec_post(call->exec, call->holder, &get);
}

/* Where the result of the broadcast is in its buffer. */
static bool read_class(struct exec_call *call, uint32_t *at, struct exec_record *record,
                       uint32_t *ranges_at, uint32_t *range_count)
{
    struct cop_bcast_result result;
    const uint8_t *bytes;
    uint32_t length, count, entry = *at;
    bool is_there = false;
    if (cop_bcast_result(call->result, &result) != 0)
        return false;
    while (!is_there &&
           cop_count_next(&result, at, &bytes, &length, &count, range_count)) {
        struct cop__list ranges = {result.bytes + entry + 8, *range_count};
        is_there =
            length > 1 &&
            exec_record_decode((struct cop__bytes){bytes, length}, record) == 0 &&
            has_fresh(call, ranges);
        *ranges_at = (uint32_t)(ranges.data - call->result->data);
        entry = *at;
    }
    cop_bcast_result_free(&result);
    return is_there;
}

static void fetch_next(struct exec_call *call)
{
    struct exec_record record;
    while (read_class(call, &call->next_class, &record, &call->ranges_at,
                      &call->range_count)) {
        call->index++;
        if (!(record.flags & EXEC_APART))
            continue;
        call->kept[0] = record.kept[0];
        call->kept[1] = record.kept[1];
        call->which = 0;
        call->offset = 0;
        call->holder = next_holder(call, COP_ID_NONE);
        if (call->holder != COP_ID_NONE) {
            fetch(call);
            return;
        }
        tell_gone(call);
    }
    end_wave(call);
}

static void on_part(struct exec_call *call, cop_id from, const struct exec_note *part)
{
    if (!call->is_asked || from != call->holder || part->which != call->which)
        return;
    if (part->offset != call->offset || part->bytes.length == 0 ||
        part->bytes.length > call->kept[call->which] - call->offset) {
        try_next_holder(call);
        return;
    }
    struct exec_note text = {.kind = EXEC_TEXT,
                             .count = call->index,
                             .which = (uint8_t)call->which,
                             .bytes = part->bytes};
    call->is_asked = false;
    call->offset += part->bytes.length;
    call->waits_to_send = true;
    exec_call_tell(call, &text);
}

/* ---- how it ended ---------------------------------------------------------------- */

static void tell_class(struct exec_call *call, uint32_t index,
                       const struct exec_record *record, struct cop__list ranges)
{
    struct cop_ranks ids = {0};
    struct cop__list fresh = {NULL, 0};
    struct cop_buf *bytes = exec_record_encode(record);
    uint8_t *list =
        pick_fresh(call, ranges, &ids) == 0 ? pick_ranges(&ids, &fresh.count) : NULL;
    fresh.data = list;
    struct exec_note note = {.kind = EXEC_CLASS, .count = index, .ranges = fresh};
    if (bytes != NULL && list != NULL) {
        note.bytes = (struct cop__bytes){bytes->data, bytes->length};
        exec_call_tell(call, &note);
        for (uint32_t i = 0; i < ids.count; i++) {
            struct cop_failure *fate = exec_call_fate(call, ids.items[i]);
            if (fate != NULL)
                fate->status = 0;
        }
    }
    cop_buf_unref(bytes);
    free(list);
    cop_ranks_free(&ids);
}

void exec_call_show(struct exec_call *call, struct cop_buf *result, bool is_final)
{
    struct exec_record record;
    uint32_t at = 0, index = call->index, ranges_at, range_count;
    cop_buf_unref(call->result);
    call->result = cop_buf_ref(result);
    call->next_class = 0;
    call->is_final = is_final;
    call->is_fetching = true;
    while (read_class(call, &at, &record, &ranges_at, &range_count)) {
        struct cop__list ranges = {call->result->data + ranges_at, range_count};
        tell_class(call, ++index, &record, ranges);
        call->needs_release |= (record.flags & EXEC_APART) != 0;
    }
    uv_timer_start(&call->timer, on_tick, TICK_MS, TICK_MS);
    fetch_next(call);
}

/* ---- letters, views, sessions ---------------------------------------------------- */

static void on_out(struct exec_call *call, cop_id from, const struct exec_note *out)
{
    struct exec_note note = {.kind = EXEC_OUTPUT, .member = from};
    if (call->session == NULL || cop_ranks_push(&call->thirsty, from) != 0)
        return;
    for (uint8_t which = 0; which < 2; which++) {
        note.which = which;
        note.bytes.data = out->bytes.data + (which ? out->count : 0);
        note.bytes.length = which ? out->bytes.length - out->count : out->count;
        if (note.bytes.length > 0)
            exec_call_tell(call, &note);
    }
}

/* Whether who has not begun may. Once the ends are told nothing is, and nobody begins when the
 * time that the command has is up. */
static bool may_begin(const struct exec_call *call)
{
    return (call->round == EXEC_RUN || call->round == EXEC_WAIT) && !call->is_final &&
           !call->is_cancelled &&
           (call->order.timeout_ns == 0 ||
            now_ns() - call->begun < call->order.timeout_ns);
}

void exec_root_note(struct exec *exec, cop_id from, const struct exec_note *note)
{
    struct exec_call *call = exec->calls;
    while (call != NULL && (call->run != note->run || call->is_over))
        call = call->next;
    if (note->kind == EXEC_ASK) {
        struct exec_note go = {
            .kind = EXEC_GO, .run = note->run, .count = call && may_begin(call)};
        exec_post(exec, from, &go);
    }
    if (call == NULL)
        return;
    if (note->kind == EXEC_PART && call->result != NULL)
        on_part(call, from, note);
    else if (note->kind == EXEC_OUT)
        on_out(call, from, note);
}

void exec_root_installed(struct exec *exec, const struct cop_view *view)
{
    for (struct exec_call *call = exec->calls, *next; call; call = next) {
        next = call->next;
        if (!call->is_over && call->is_asked &&
            cop_view_rank(view, call->holder) == COP_RANK_NONE)
            try_next_holder(call);
    }
}

void exec_written(struct exec *exec, const struct session *session)
{
    struct exec_call *call = exec->calls;
    while (call != NULL && call->session != session)
        call = call->next;
    if (call == NULL)
        return;
    struct cop_ranks thirsty = call->thirsty;
    call->thirsty = (struct cop_ranks){0};
    for (uint32_t i = 0; i < thirsty.count; i++) {
        struct exec_note next = {.kind = EXEC_NEXT, .run = call->run};
        exec_post(exec, thirsty.items[i], &next);
    }
    cop_ranks_free(&thirsty);
    if (call->waits_to_send) {
        call->waits_to_send = false;
        fetch(call);
    }
}
