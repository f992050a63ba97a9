/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/runs.h"

#include "agent/echo.h"
#include "base/assert.h"
#include "term/say.h"

#include <coppice/error.h>
#include <stdlib.h>
#include <string.h>

struct run {
    struct run *next;
    struct session *session; /* NULL once it is gone */
    struct probe_command command;
    struct cop_buf *payload; /* of broadcasts; NULL: probes */
    struct cop_shape shape;  /* kind 0: the view's own */
    uint32_t done;
    uint64_t token; /* of the probe under way; 0: none */
    bool paused;    /* until the last chunk has left */
    cop_time began_ns;
    struct probe_reply reply; /* the chunk in the making */
};

static void on_idle(uv_idle_t *idle);

void runs_init(struct runs *runs, uv_loop_t *loop, cop_id self)
{
    *runs = (struct runs){.self = self, .next_token = 1};
    COP_ASSERT(uv_idle_init(loop, &runs->idle) == 0);
    runs->idle.data = runs;
}

static void remove_run(struct runs *runs, struct run *run)
{
    struct run **link = &runs->first;
    while (*link != run)
        link = &(*link)->next;
    *link = run->next;
    if (run->session != NULL)
        session_set_data(run->session, NULL);
    probe_reply_free(&run->reply);
    cop_buf_unref(run->payload);
    free(run);
}

void runs_close(struct runs *runs)
{
    while (runs->first != NULL)
        remove_run(runs, runs->first);
    uv_close((uv_handle_t *)&runs->idle, NULL);
}

/* ---- chunks ---------------------------------------------------------------------- */

static void reset_chunk(struct run *run)
{
    run->reply.count = 0;
    run->reply.dead.count = 0;
    run->reply.silent.count = 0;
}

/* A reply that fails closes its session, which ends its run: so the run goes first. */
static void end_run(struct runs *runs, struct run *run, int status)
{
    struct session *session = run->session;
    remove_run(runs, run);
    if (session != NULL)
        session_reply(session, status, false, NULL);
}

void runs_end(struct runs *runs, int status)
{
    while (runs->first != NULL)
        end_run(runs, runs->first, status);
}

/* Sends what there is; the run is over with its last chunk. */
static void send_chunk(struct runs *runs, struct run *run)
{
    bool more = run->done < run->command.count;
    struct cop_buf *body = probe_reply_encode(&run->reply);
    if (body == NULL) {
        end_run(runs, run, COP_ENOMEM);
        return;
    }
    struct session *session = run->session;
    run->paused = more;
    reset_chunk(run);
    if (!more)
        remove_run(runs, run);
    session_reply(session, 0, more, body);
    cop_buf_unref(body);
}

/* How many have what was sent. */
static uint32_t count_same(const struct run *run, const struct cop_bcast_result *found)
{
    uint8_t sum[ECHO_SUM];
    const uint8_t *bytes;
    uint32_t at = 0, length, count, ranges, same = 0;
    echo_sum(run->payload->data, run->payload->length, sum);
    while (cop_count_next(found, &at, &bytes, &length, &count, &ranges))
        if (length == sizeof sum && memcmp(bytes, sum, sizeof sum) == 0)
            same = count;
    return same;
}

static void take_bcast(struct run *run, struct probe_sample *sample,
                       const struct cop_buf *result)
{
    struct cop_bcast_result found;
    int error = cop_bcast_result(result, &found);
    if (error) {
        sample->status = error;
        return;
    }
    run->reply.members = found.members;
    run->reply.dead.count = run->reply.silent.count = 0;
    sample->answered = count_same(run, &found);
    for (uint32_t i = 0; i < found.failure_count && !error; i++)
        error =
            cop_ranks_push(found.failures[i].status == COP_ELOST ? &run->reply.dead
                                                                 : &run->reply.silent,
                           found.failures[i].node);
    sample->dead = run->reply.dead.count;
    sample->silent = run->reply.silent.count;
    if (error)
        sample->status = error;
    cop_bcast_result_free(&found);
}

/* Who did not answer is told for the last probe of a chunk only. */
static void take_sample(struct run *run, int status, struct cop_buf *result)
{
    struct probe_sample *sample = &run->reply.samples[run->reply.count++];
    struct cop_probe_result found = {0};
    *sample = (struct probe_sample){.at_ns = run->began_ns,
                                    .elapsed_ns = now_ns() - run->began_ns,
                                    .status = status};
    if (result == NULL)
        return;
    if (run->payload != NULL) {
        take_bcast(run, sample, result);
        return;
    }
    int error = cop_probe_result(result, &found);
    if (error) {
        sample->status = error;
        return;
    }
    run->reply.members = found.members;
    sample->answered = found.answered;
    sample->dead = found.dead.count;
    sample->silent = found.silent.count;
    cop_ranks_free(&run->reply.dead);
    cop_ranks_free(&run->reply.silent);
    run->reply.dead = found.dead;
    run->reply.silent = found.silent;
    found.dead = found.silent = (struct cop_ranks){0};
    cop_probe_result_free(&found);
}

/* ---- probes ---------------------------------------------------------------------- */

static void submit(struct runs *runs, struct run *run)
{
    struct cop_request request = {.kind = COP_REQUEST_PROBE,
                                  .token = runs->next_token++,
                                  .timeout_ns = run->command.timeout_ns,
                                  .shape = run->shape};
    struct cop_coll coll = {.service = {.id = ECHO_SERVICE},
                            .flags = COP_BCAST_HEAL,
                            .version = ECHO_VERSION,
                            .op = COP_OP_COUNT};
    if (run->payload != NULL) {
        request.kind = COP_REQUEST_BCAST;
        request.bytes = run->payload->data;
        request.length = run->payload->length;
        request.coll = &coll;
    }
    run->token = request.token;
    run->began_ns = now_ns();
    int error = cop__tcp_submit(runs->tcp, &request);
    /* A cluster of one may have completed, and even ended, the run by now. */
    if (error)
        for (struct run *same = runs->first; same; same = same->next)
            if (same == run && run->token == request.token) {
                run->token = 0;
                end_run(runs, run, error);
                return;
            }
}

static bool is_ready(const struct run *run)
{
    return run->token == 0 && !run->paused && run->session != NULL;
}

/*
 * Probes begin here and not in the completion of the last one: the driver is in the
 * middle of a step then, and must not be entered again.
 */
static void on_idle(uv_idle_t *idle)
{
    struct runs *runs = idle->data;
    uv_idle_stop(idle);
    for (struct run *run = runs->first, *next; run; run = next) {
        next = run->next;
        if (is_ready(run))
            submit(runs, run);
    }
}

static void wake(struct runs *runs)
{
    if (!uv_is_closing((uv_handle_t *)&runs->idle))
        uv_idle_start(&runs->idle, on_idle);
}

void runs_complete(struct runs *runs, uint64_t token, int status,
                   struct cop_buf *result)
{
    struct run *run = runs->first;
    while (run != NULL && run->token != token)
        run = run->next;
    if (run == NULL)
        return;
    run->token = 0;
    if (run->session == NULL) {
        remove_run(runs, run);
        return;
    }
    take_sample(run, status, result);
    run->done++;
    if (run->done == run->command.count || run->reply.count == run->command.chunk)
        send_chunk(runs, run);
    else
        wake(runs);
}

void runs_written(struct runs *runs, struct session *session)
{
    struct run *run = session_data(session);
    if (run == NULL || !run->paused)
        return;
    run->paused = false;
    wake(runs);
}

void runs_closed(struct runs *runs, struct session *session)
{
    struct run *run = session_data(session);
    if (run == NULL)
        return;
    run->session = NULL;
    if (run->token == 0 || runs->tcp == NULL) {
        remove_run(runs, run);
        return;
    }
    /* If the abort cannot be taken the probe ends by its own time-out. */
    struct cop_request abort = {
        .kind = COP_REQUEST_ABORT, .token = runs->next_token++, .target = run->token};
    cop__tcp_submit(runs->tcp, &abort);
}

/* ---- the command ----------------------------------------------------------------- */

static int create_run(struct runs *runs, const struct probe_command *command,
                      struct run **out)
{
    struct run *run = calloc(1, sizeof *run);
    if (run == NULL)
        return COP_ENOMEM;
    run->command = *command;
    if (run->command.chunk > run->command.count)
        run->command.chunk = run->command.count;
    run->reply.self = runs->self;
    run->reply.samples = calloc(run->command.chunk, sizeof *run->reply.samples);
    int error = run->reply.samples ? 0 : COP_ENOMEM;
    if (!error && command->shape[0] != '\0')
        error = cop_shape_parse(command->shape, &run->shape, NULL, 0);
    if (!error &&
        (run->shape.kind == COP_SHAPE_TABLE || run->shape.kind == COP_SHAPE_HOSTS))
        error = COP_EINVAL;
    if (error) {
        free(run->reply.samples);
        free(run);
        return error;
    }
    *out = run;
    return 0;
}

static void start(struct runs *runs, struct session *session,
                  const struct probe_command *command, struct cop_buf *payload)
{
    struct run *run;
    int error = create_run(runs, command, &run);
    if (error) {
        cop_buf_unref(payload);
        session_reply(session, error, false, NULL);
        return;
    }
    run->payload = payload;
    run->session = session;
    session_set_data(session, run);
    run->next = runs->first;
    runs->first = run;
    wake(runs);
}

void runs_start(struct runs *runs, struct session *session, struct cop__bytes body)
{
    struct probe_command command;
    int error = probe_command_decode(body, &command);
    if (error)
        session_reply(session, error, false, NULL);
    else
        start(runs, session, &command, NULL);
}

void runs_start_bcast(struct runs *runs, struct session *session,
                      struct cop__bytes body)
{
    struct bcast_command command;
    struct cop_buf *payload = NULL;
    int error = bcast_command_decode(body, &command);
    if (!error) {
        payload = cop_buf_copy(command.payload.data, command.payload.length);
        error = payload ? 0 : COP_ENOMEM;
    }
    if (error)
        session_reply(session, error, false, NULL);
    else
        start(runs, session, &command.run, payload);
}
