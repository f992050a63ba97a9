/* SPDX-License-Identifier: Apache-2.0 */
/* The member's side of exec: runs what it is told, if it may, and answers questions. */
#include "exec/parts.h"
#include "term/say.h"

#include <coppice/error.h>
#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- answers --------------------------------------------------------------------- */

/* A handle that is void, because the question was given up, is nothing to us. */
void exec_member_reply(struct exec *exec, uint64_t handle, int status,
                       const void *bytes, uint32_t length)
{
    struct cop_coll coll = {.handle = handle, .status = status};
    struct cop_request request = {.kind = COP_REQUEST_REPLY,
                                  .token = exec_token(exec),
                                  .bytes = bytes,
                                  .length = length,
                                  .coll = &coll};
    int error = cop__tcp_submit(exec->tcp, &request);
    if (error != 0 && error != COP_ENOENT)
        cop__log(exec->config.log, COP_LOG_WARN, "exec: no reply: %s",
                 cop_strerror(error));
}

static void reply_state(struct exec *exec, uint64_t handle, enum exec_state state)
{
    uint8_t byte = (uint8_t)state;
    exec_member_reply(exec, handle, 0, &byte, 1);
}

static void reply_nothing(struct exec *exec, uint64_t handle)
{
    exec_member_reply(exec, handle, 0, NULL, 0);
}

/* Answers the open question, if there is one, as things stand. */
static void answer(struct exec_run *run)
{
    uint64_t handle = run->handle;
    run->handle = 0;
    if (handle == 0)
        return;
    if (run->record == NULL)
        reply_state(run->exec, handle, EXEC_RUNNING);
    else if (run->question == EXEC_WAIT)
        reply_state(run->exec, handle, EXEC_OVER);
    else
        exec_member_reply(run->exec, handle, 0, run->record->data, run->record->length);
}

/* ---- time ------------------------------------------------------------------------ */

static void on_timer(uv_timer_t *timer);

static void set_timer(struct exec *exec)
{
    cop_time next = COP_TIME_NEVER, now = now_ns();
    for (const struct exec_run *run = exec->runs; run; run = run->next) {
        next = run->lease < next ? run->lease : next;
        next = run->handle != 0 && run->answer_by < next ? run->answer_by : next;
    }
    if (next == COP_TIME_NEVER)
        uv_timer_stop(&exec->timer);
    else
        uv_timer_start(&exec->timer, on_timer,
                       next > now ? (next - now) / COP_MSEC + 1 : 0, 0);
}

static void free_run(struct exec_run *run)
{
    struct exec *exec = run->exec;
    struct exec_run **link = &exec->runs;
    while (*link != run)
        link = &(*link)->next;
    *link = run->next;
    exec->run_count--;
    for (int which = 0; run->job && run->record && which < 2; which++)
        exec->kept_bytes -= job_output(run->job, which)->used;
    if (run->job != NULL)
        job_free(run->job);
    cop_buf_unref(run->record);
    free(run);
}

/* It is to end, and nobody wants to know of it: the rest happens when it has. */
static void abandon(struct exec_run *run)
{
    if (run->record != NULL) {
        free_run(run);
        return;
    }
    run->root = COP_ID_NONE;
    run->lease = COP_TIME_NEVER;
    run->is_cancelled = true;
    job_stop(run->job);
    /* What it has to say in the meantime goes nowhere. */
    if (run->is_sending) {
        run->is_sending = false;
        job_take(run->job);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct exec *exec = timer->data;
    cop_time now = now_ns();
    for (struct exec_run *run = exec->runs, *next; run; run = next) {
        next = run->next;
        if (run->handle != 0 && run->answer_by <= now)
            answer(run);
        if (run->lease <= now)
            abandon(run);
    }
    set_timer(exec);
}

/* ---- the end of a command -------------------------------------------------------- */

static bool make_digest(const struct job_output *outputs[2], uint8_t out[EXEC_DIGEST])
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    unsigned length = 0;
    bool is_good = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1;
    for (int which = 0; which < 2 && is_good; which++)
        is_good =
            EVP_DigestUpdate(context, outputs[which]->bytes, outputs[which]->used) == 1;
    is_good = is_good && EVP_DigestFinal_ex(context, out, &length) == 1;
    EVP_MD_CTX_free(context);
    return is_good && length == EXEC_DIGEST;
}

/* Outputs that cannot be fetched are cut off where the record ends. */
static void put_texts(const struct exec_run *run, const struct job_output *outputs[2],
                      struct exec_record *record)
{
    uint32_t room = run->inline_max;
    for (int which = 0; which < 2; which++) {
        uint32_t length = outputs[which]->used < room ? outputs[which]->used : room;
        record->text[which] = (struct cop__bytes){outputs[which]->bytes, length};
        record->kept[which] = length;
        room -= length;
    }
}

static bool may_be_fetched(const struct exec_run *run, uint64_t bytes)
{
    return run->exec->has_letters && run->exec->kept_bytes + bytes <= EXEC_KEPT_MAX;
}

static struct cop_buf *make_record(struct exec_run *run)
{
    uint8_t digest[EXEC_DIGEST];
    struct exec_record record = {.flags = run->is_cancelled ? EXEC_CANCELLED : 0};
    const struct job_output *outputs[2] = {job_output(run->job, 0),
                                           job_output(run->job, 1)};
    uint64_t bytes = (uint64_t)outputs[0]->used + outputs[1]->used;
    int code;
    record.end = (uint8_t)job_end(run->job, &code);
    record.code = (uint32_t)code;
    if (job_timed_out(run->job))
        record.flags |= EXEC_TIMED_OUT;
    if (run->is_stream)
        return exec_record_encode(&record);
    for (int which = 0; which < 2; which++) {
        record.total[which] = outputs[which]->total;
        record.kept[which] = outputs[which]->used;
    }
    if (bytes > run->inline_max && may_be_fetched(run, bytes) &&
        make_digest(outputs, digest)) {
        record.flags |= EXEC_APART;
        record.digest = (struct cop__bytes){digest, sizeof digest};
    } else {
        put_texts(run, outputs, &record);
    }
    return exec_record_encode(&record);
}

static void on_ended(void *context, struct job *job)
{
    struct exec_run *run = context;
    struct exec *exec = run->exec;
    if (run->root == COP_ID_NONE) {
        free_run(run);
        return;
    }
    run->record = make_record(run);
    if (run->record == NULL) {
        if (run->handle != 0)
            exec_member_reply(exec, run->handle, COP_ENOMEM, NULL, 0);
        free_run(run);
        return;
    }
    for (int which = 0; which < 2; which++)
        exec->kept_bytes += job_output(job, which)->used;
    answer(run);
    set_timer(exec);
}

/* ---- streams --------------------------------------------------------------------- */

static void on_output(void *context, struct job *job)
{
    struct exec_run *run = context;
    const struct job_output *out = job_output(job, 0), *err = job_output(job, 1);
    uint8_t bytes[2 * EXEC_STREAM];
    if (run->is_sending)
        return;
    if (run->root == COP_ID_NONE) {
        job_take(job);
        return;
    }
    run->is_sending = true;
    if (out->used > 0)
        memcpy(bytes, out->bytes, out->used);
    if (err->used > 0)
        memcpy(bytes + out->used, err->bytes, err->used);
    struct exec_note note = {.kind = EXEC_OUT,
                             .run = run->number,
                             .count = out->used,
                             .bytes = {bytes, out->used + err->used}};
    exec_post(run->exec, run->root, &note);
}

/* ---- the beginning --------------------------------------------------------------- */

static struct exec_run *find(const struct exec *exec, cop_id root, uint64_t number)
{
    struct exec_run *run = exec->runs;
    while (run != NULL && (run->root != root || run->number != number))
        run = run->next;
    return run;
}

static bool is_forgotten(const struct exec *exec, cop_id root, uint64_t number)
{
    for (uint32_t i = 0; i < EXEC_FORGOTTEN; i++)
        if (exec->forgotten[i].root == root && exec->forgotten[i].number == number)
            return true;
    return false;
}

static void forget(struct exec *exec, cop_id root, uint64_t number)
{
    uint32_t at = exec->next_forgotten++ % EXEC_FORGOTTEN;
    exec->forgotten[at].root = root;
    exec->forgotten[at].number = number;
}

static bool is_meant(const struct exec *exec, const struct cop_upcall *upcall,
                     const struct exec_order *order)
{
    if ((order->flags & EXEC_FLAG_NOT_ROOT) && upcall->root == exec->self)
        return false;
    return order->ids.count == 0 || exec_ranges_have(order->ids, exec->self);
}

void exec_member_describe(const struct exec *exec, cop_id root,
                          const struct exec_order *order, char *out, size_t size)
{
    char name[COP_NAME_MAX + 1];
    exec->config.name_of(exec->config.context, root, name);
    int length = snprintf(out, size, "%.*s at %s: ", (int)order->user.length,
                          (const char *)order->user.data, name);
    size_t at = (size_t)length < size ? (size_t)length : size - 1;
    for (uint32_t i = 0; i + 1 < order->words.length && at + 1 < size; i++) {
        uint8_t byte = order->words.data[i];
        out[at++] = (char)(byte == 0 ? ' ' : byte < 32 || byte == 127 ? '?' : byte);
    }
    out[at] = '\0';
}

static bool may_run(const struct exec *exec, cop_id root,
                    const struct exec_order *order)
{
    char name[COP_NAME_MAX + 1], user[EXEC_USER_MAX];
    exec->config.name_of(exec->config.context, root, name);
    if (order->user.length >= sizeof user)
        return false;
    memcpy(user, order->user.data, order->user.length);
    user[order->user.length] = '\0';
    return exec_allow_has(exec->config.allow, name, user);
}

/* The agent's own, and who it is; to be freed. */
static char **make_environment(const struct exec *exec, char *name, size_t name_size,
                               char *id, size_t id_size)
{
    size_t count = 0, kept = 0;
    while (environ[count] != NULL)
        count++;
    char **out = malloc((count + 3) * sizeof *out);
    if (out == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "COPPICE_MEMBER=", 15) != 0 &&
            strncmp(environ[i], "COPPICE_ID=", 11) != 0)
            out[kept++] = environ[i];
    snprintf(name, name_size, "COPPICE_MEMBER=%s", exec->config.name);
    snprintf(id, id_size, "COPPICE_ID=%u", (unsigned)exec->self);
    out[kept++] = name;
    out[kept++] = id;
    out[kept] = NULL;
    return out;
}

static int start_job(struct exec_run *run, const struct exec_order *order)
{
    struct exec *exec = run->exec;
    char name[COP_NAME_MAX + 20], id[32];
    char **words = exec_words(order->words);
    char **environment = make_environment(exec, name, sizeof name, id, sizeof id);
    struct job_config config = {
        .loop = exec->config.loop,
        .minder = &exec->minder,
        .words = words,
        .environment = environment,
        .input = order->flags & EXEC_FLAG_INPUT ? order->input.data : NULL,
        .input_length = order->input.length,
        .timeout_ns = order->timeout_ns,
        .limit = run->is_stream ? EXEC_STREAM : order->limit,
        .output = run->is_stream ? on_output : NULL,
        .ended = on_ended,
        .context = run,
    };
    int error = words && environment ? job_start(&config, &run->job) : COP_ENOMEM;
    free(words);
    free(environment);
    return error;
}

/* Room for another: the oldest that is over goes. */
static bool make_room(struct exec *exec)
{
    struct exec_run *oldest = NULL;
    if (exec->run_count < EXEC_RUNS_MAX)
        return true;
    for (struct exec_run *run = exec->runs; run; run = run->next)
        if (run->record != NULL)
            oldest = run; /* new ones are put first */
    if (oldest != NULL)
        free_run(oldest);
    return oldest != NULL;
}

static int create_run(struct exec *exec, const struct cop_upcall *upcall,
                      const struct exec_order *order)
{
    const struct cop_view *view = cop_node_view(cop__tcp_node(exec->tcp));
    struct exec_run *run = calloc(1, sizeof *run);
    if (run == NULL)
        return COP_ENOMEM;
    run->exec = exec;
    run->root = upcall->root;
    run->root_life = cop_view_incarnation(view, cop_view_rank(view, upcall->root));
    run->number = order->run;
    run->inline_max = order->inline_max;
    run->is_stream = (order->flags & EXEC_FLAG_STREAM) != 0;
    run->handle = upcall->handle;
    run->question = EXEC_RUN;
    run->answer_by = now_ns() + EXEC_PATIENCE;
    run->lease = now_ns() + EXEC_LEASE;
    int error = start_job(run, order);
    if (error) {
        free(run);
        return error;
    }
    run->next = exec->runs;
    exec->runs = run;
    exec->run_count++;
    set_timer(exec);
    return 0;
}

static int check_run(struct exec *exec, const struct cop_upcall *upcall,
                     const struct exec_order *order)
{
    char line[400];
    exec_member_describe(exec, upcall->root, order, line, sizeof line);
    if (!may_run(exec, upcall->root, order)) {
        cop__log(exec->config.log, COP_LOG_WARN, "exec: refused, by %s", line);
        return COP_EREFUSED;
    }
    if (is_forgotten(exec, upcall->root, order->run))
        return COP_EABORTED;
    int error = minder_start(&exec->minder);
    if (error) {
        cop__log(exec->config.log, COP_LOG_ERROR, "exec: %s", strerror(-error));
        return COP_EIO;
    }
    if (!make_room(exec))
        return COP_EAGAIN;
    exec->config.audit(exec->config.context, line);
    return 0;
}

/* ---- questions ------------------------------------------------------------------- */

/* The root needs nothing any more of runs up to this one. */
static void drop_done(struct exec *exec, cop_id root, uint64_t done)
{
    for (struct exec_run *run = exec->runs, *next; run; run = next) {
        next = run->next;
        if (run->root == root && run->number <= done)
            abandon(run);
    }
}

void exec_member_begin(struct exec *exec, const struct cop_upcall *upcall,
                       const struct exec_order *order)
{
    int error = check_run(exec, upcall, order);
    if (!error)
        error = create_run(exec, upcall, order);
    if (error)
        exec_member_reply(exec, upcall->handle, error, NULL, 0);
}

static void on_run(struct exec *exec, const struct cop_upcall *upcall,
                   const struct exec_order *order)
{
    drop_done(exec, upcall->root, order->done);
    if (!is_meant(exec, upcall, order)) {
        reply_nothing(exec, upcall->handle);
        return;
    }
    if (!exec_late_takes(exec, upcall, order))
        exec_member_begin(exec, upcall, order);
}

static void on_wait(struct exec_run *run, const struct cop_upcall *upcall, uint8_t kind)
{
    answer(run); /* an earlier question, that nobody waits for any more */
    run->handle = upcall->handle;
    run->question = kind;
    run->answer_by = now_ns() + EXEC_PATIENCE;
    if (run->record != NULL || kind == EXEC_GATHER)
        answer(run);
}

static void on_cancel(struct exec_run *run)
{
    if (run->record != NULL)
        return;
    run->is_cancelled = true;
    job_stop(run->job);
}

void exec_member_question(struct exec *exec, const struct cop_upcall *upcall)
{
    struct exec_order order;
    if (exec_order_decode((struct cop__bytes){upcall->bytes, upcall->length}, &order)) {
        exec_member_reply(exec, upcall->handle, COP_EMALFORMED, NULL, 0);
        return;
    }
    if (order.kind == EXEC_RUN) {
        on_run(exec, upcall, &order);
        return;
    }
    struct exec_run *run = find(exec, upcall->root, order.run);
    if (run != NULL)
        run->lease = now_ns() + EXEC_LEASE;
    if (order.kind == EXEC_CANCEL || order.kind == EXEC_RELEASE)
        forget(exec, upcall->root, order.run);
    if (run != NULL && (order.kind == EXEC_WAIT || order.kind == EXEC_GATHER)) {
        on_wait(run, upcall, order.kind);
    } else {
        if (run != NULL && order.kind == EXEC_CANCEL)
            on_cancel(run);
        else if (run != NULL)
            abandon(run);
        reply_nothing(exec, upcall->handle);
    }
    set_timer(exec);
}

/* ---- letters --------------------------------------------------------------------- */

static void send_part(struct exec *exec, cop_id root, const struct exec_note *get)
{
    const struct exec_run *run = find(exec, root, get->run);
    struct exec_note part = {
        .kind = EXEC_PART, .run = get->run, .which = get->which, .offset = UINT64_MAX};
    if (run != NULL && run->record != NULL) {
        const struct job_output *output = job_output(run->job, get->which);
        uint64_t at = get->offset < output->used ? get->offset : output->used;
        uint64_t left = output->used - at;
        part.offset = get->offset;
        part.bytes = (struct cop__bytes){
            output->bytes + at, left < EXEC_PIECE ? (uint32_t)left : EXEC_PIECE};
    }
    exec_post(exec, root, &part);
}

void exec_member_note(struct exec *exec, cop_id from, const struct exec_note *note)
{
    struct exec_run *run = find(exec, from, note->run);
    if (note->kind == EXEC_GET) {
        send_part(exec, from, note);
    } else if (note->kind == EXEC_GO) {
        exec_late_go(exec, from, note);
    } else if (run != NULL && run->is_sending) {
        run->is_sending = false;
        run->lease = now_ns() + EXEC_LEASE;
        job_take(run->job);
    }
}

/* ---- the world ------------------------------------------------------------------- */

/* What a root wanted that is no member any more nobody wants. */
void exec_member_installed(struct exec *exec, const struct cop_view *view)
{
    for (struct exec_run *run = exec->runs, *next; run; run = next) {
        next = run->next;
        if (run->root != COP_ID_NONE && !cop_view_has(view, run->root, run->root_life))
            abandon(run);
    }
    exec_late_installed(exec, view);
    set_timer(exec);
}

void exec_member_end(struct exec *exec)
{
    exec_late_installed(exec, NULL);
    for (struct exec_run *run = exec->runs, *next; run; run = next) {
        next = run->next;
        free_run(run);
    }
    uv_timer_stop(&exec->timer);
}
