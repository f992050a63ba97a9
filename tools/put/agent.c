/* SPDX-License-Identifier: Apache-2.0 */
/* The root's side of put: reads a file for a session of the command socket. */
#include "base/assert.h"
#include "put/parts.h"
#include "term/say.h"

#include <coppice/error.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How often the command hears how far it is. */
#define NEWS_NS (200 * COP_MSEC)

/* A file that goes out. While a thread reads (`is_reading`) `bytes` and `read_error` are its. */
struct put_call {
    struct put_call *next;
    struct put *put;
    struct session *session; /* NULL once it is gone, or has its answer */
    struct cop_buf *body;    /* the command's; `order` points into it */
    struct put_order order;
    char user[EXEC_USER_MAX];
    uint64_t token, group;
    int fd;
    uint64_t length;
    uv_work_t work;
    uint8_t *bytes;
    uint64_t handle, offset, far;
    uint32_t wanted;
    int read_error;
    bool is_reading, is_over, is_telling;
    cop_time told_ns;
};

/* ---- both sides ------------------------------------------------------------------ */

int put_create(const struct put_config *config, struct put **out)
{
    struct put *put = calloc(1, sizeof *put);
    if (put == NULL)
        return COP_ENOMEM;
    put->config = *config;
    *out = put;
    return 0;
}

void put_settle(struct put *put)
{
    if (put->is_closing && put->working == 0)
        free(put);
}

void put_close(struct put *put)
{
    put_set_node(put, NULL, COP_ID_NONE);
    put->is_closing = true;
    put_settle(put);
}

int put_submit(struct put *put, enum cop_request_kind kind, struct cop_coll *coll,
               const void *bytes, uint32_t length)
{
    struct cop_request request = {
        .kind = kind, .coll = coll, .bytes = bytes, .length = length};
    return put->tcp ? cop__tcp_submit(put->tcp, &request) : COP_ESTATE;
}

const struct put_order *put_own_order(const struct put *put, uint64_t token)
{
    const struct put_call *call = put->calls;
    while (call != NULL && call->token != token)
        call = call->next;
    return call ? &call->order : NULL;
}

/* ---- the end of one -------------------------------------------------------------- */

static void free_call(struct put_call *call)
{
    struct put_call **link = &call->put->calls;
    while (*link != NULL && *link != call)
        link = &(*link)->next;
    if (*link != NULL)
        *link = call->next;
    if (call->fd >= 0)
        close(call->fd);
    free(call->bytes);
    cop_buf_unref(call->body);
    free(call);
}

static void end_call(struct put_call *call, int status, const struct cop_buf *result)
{
    if (call->session != NULL)
        session_reply(call->session, status, false, result);
    call->session = NULL;
    call->is_over = true;
    if (!call->is_reading)
        free_call(call);
}

/* ---- reading --------------------------------------------------------------------- */

static void on_read(uv_work_t *work)
{
    struct put_call *call = work->data;
    uint32_t done = 0;
    while (done < call->wanted && call->read_error == 0) {
        ssize_t got = pread(call->fd, call->bytes + done, call->wanted - done,
                            (off_t)(call->offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) /* it became shorter than it was */
            call->read_error = COP_EIO;
        else
            done += (uint32_t)got;
    }
}

static void tell_news(struct put_call *call)
{
    if (call->session == NULL || call->is_telling || now_ns() - call->told_ns < NEWS_NS)
        return;
    struct cop_buf *news = put_news_encode(call->far, call->length);
    if (news == NULL)
        return;
    call->is_telling = true;
    call->told_ns = now_ns();
    session_reply(call->session, 0, true, news);
    cop_buf_unref(news);
}

static void on_have_read(uv_work_t *work, int status)
{
    struct put_call *call = work->data;
    struct put *put = call->put;
    COP_ASSERT(status == 0);
    put->working--;
    call->is_reading = false;
    if (call->is_over) {
        free_call(call);
        put_settle(put);
        return;
    }
    struct cop_coll coll = {
        .handle = call->handle, .offset = call->offset, .status = call->read_error};
    if (call->offset + call->wanted > call->far)
        call->far = call->offset + call->wanted;
    tell_news(call);
    put_submit(put, COP_REQUEST_GIVE, &coll, call->read_error ? NULL : call->bytes,
               call->read_error ? 0 : call->wanted);
}

static void on_want(struct put *put, const struct cop_upcall *upcall)
{
    struct put_call *call = put->calls;
    while (call != NULL && (call->token != upcall->token || call->is_over))
        call = call->next;
    if (call == NULL || call->is_reading)
        return;
    call->handle = upcall->handle;
    call->offset = upcall->offset;
    call->wanted = upcall->length;
    call->is_reading = true;
    call->work.data = call;
    put->working++;
    COP_ASSERT(uv_queue_work(put->config.loop, &call->work, on_read, on_have_read) ==
               0);
}

void put_upcall(struct put *put, struct cop_buf *record, struct cop_buf *beside)
{
    struct cop_upcall upcall;
    if (cop_upcall_with(record, beside, &upcall) != 0 || upcall.service != PUT_SERVICE)
        return;
    if (upcall.kind == COP_UPCALL_WANT)
        on_want(put, &upcall);
    else
        put_sink_upcall(put, &upcall, beside);
}

/* ---- beginning ------------------------------------------------------------------- */

/* Files of /proc and /sys have no size, or one that is not theirs: the last byte is where it
 * should be, and nothing is where nothing should be. */
static bool has_its_size(int fd, uint64_t length)
{
    uint8_t byte;
    ssize_t got;
    do
        got = pread(fd, &byte, 1, length > 0 ? (off_t)(length - 1) : 0);
    while (got < 0 && errno == EINTR);
    return got == (length > 0);
}

static int open_source(struct put_call *call)
{
    char path[PUT_PATH_MAX];
    struct stat status;
    if (call->order.file.length >= sizeof path)
        return COP_ETOOBIG;
    memcpy(path, call->order.file.data, call->order.file.length);
    path[call->order.file.length] = '\0';
    call->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (call->fd < 0)
        return COP_ENOENT;
    if (fstat(call->fd, &status) != 0 || !S_ISREG(status.st_mode))
        return COP_EINVAL;
    call->length = (uint64_t)status.st_size;
    if (!has_its_size(call->fd, call->length))
        return COP_ERANGE;
    call->order.mode = (uint32_t)status.st_mode & 0777u;
    call->bytes = malloc(COP_BULK_CHUNK);
    return call->bytes ? 0 : COP_ENOMEM;
}

static bool is_meant(const struct put_order *order, cop_id id)
{
    for (uint32_t i = 0; i < order->ids.count; i++) {
        struct cop__reader reader = cop__reader(order->ids.data + 8u * i, 8);
        cop_id first = cop__get_u32(&reader), last = cop__get_u32(&reader);
        if (id >= first && id <= last)
            return true;
    }
    return order->ids.count == 0;
}

/* Those of the view who are meant, and this one first. */
static int make_group(struct put_call *call, const struct cop_shape *shape)
{
    struct put *put = call->put;
    const struct cop_view *view = cop_node_view(cop__tcp_node(put->tcp));
    uint32_t slots = cop_view_slots(view), count = 1;
    struct cop_target *targets = calloc(slots + 1, sizeof *targets);
    if (targets == NULL)
        return COP_ENOMEM;
    targets[0].node = put->self;
    for (cop_id id = 0; id < slots; id++)
        if (id != put->self && cop_view_rank(view, id) != COP_RANK_NONE &&
            is_meant(&call->order, id))
            targets[count++].node = id;
    call->group = PUT_GROUP_BASE | (call->token & UINT32_MAX);
    struct cop_coll coll = {.service = {.id = PUT_SERVICE},
                            .group = call->group,
                            .kind = COP_GROUP_LAZY,
                            .targets = targets,
                            .target_count = count,
                            .shape = *shape};
    struct cop_request request = {.kind = COP_REQUEST_GROUP,
                                  .token = PUT_TOKEN | ++put->next_token,
                                  .coll = &coll};
    int error = cop__tcp_submit(put->tcp, &request);
    free(targets);
    return error;
}

/* The group is of no use without its broadcast. */
static void drop_group(struct put_call *call)
{
    struct cop_coll coll = {.group = call->group};
    struct cop_request request = {.kind = COP_REQUEST_GROUP_END,
                                  .token = PUT_TOKEN | ++call->put->next_token,
                                  .coll = &coll};
    cop__tcp_submit(call->put->tcp, &request);
}

static int broadcast(struct put_call *call, const struct cop_shape *shape)
{
    struct put_order order = {.flags = call->order.flags,
                              .mode = call->order.mode,
                              .dest = call->order.dest,
                              .user = call->order.user};
    struct cop_buf *bytes = put_order_encode(&order);
    if (bytes == NULL)
        return COP_ENOMEM;
    struct cop_coll coll = {.service = {.id = PUT_SERVICE},
                            .group = call->group,
                            .flags = COP_BCAST_HEAL | COP_BCAST_BULK |
                                     (call->group ? COP_BCAST_LAST : 0),
                            .version = PUT_VERSION,
                            .op = COP_OP_COUNT,
                            .bulk_length = call->length};
    struct cop_request request = {.kind = COP_REQUEST_BCAST,
                                  .token = call->token,
                                  .timeout_ns = call->order.timeout_ns,
                                  .bytes = bytes->data,
                                  .length = bytes->length,
                                  .coll = &coll};
    if (!call->group)
        request.shape = *shape;
    int error = cop__tcp_submit(call->put->tcp, &request);
    cop_buf_unref(bytes);
    return error;
}

static int begin(struct put_call *call)
{
    char text[64], path[PUT_PATH_MAX];
    struct cop_shape shape;
    struct put_order *order = &call->order;
    if (call->put->tcp == NULL)
        return COP_ESTATE;
    if (order->shape.length >= sizeof text)
        return COP_EINVAL;
    snprintf(text, sizeof text, "%.*s", (int)order->shape.length,
             (const char *)order->shape.data);
    if (cop_shape_parse(text, &shape, NULL, 0) != 0 ||
        put_expand(order->dest, call->put->config.name, path) != 0)
        return COP_EINVAL;
    int error = open_source(call);
    if (error)
        return error;
    order->user =
        (struct cop__bytes){(const uint8_t *)call->user, (uint32_t)strlen(call->user)};
    order->flags = is_meant(order, call->put->self) ? 0 : PUT_NOT_ROOT;
    if (order->ids.count == 0)
        return broadcast(call, &shape);
    error = make_group(call, &shape);
    if (error)
        return error;
    error = broadcast(call, &shape);
    if (error)
        drop_group(call);
    return error;
}

void put_start(struct put *put, struct session *session, struct cop__bytes body)
{
    struct put_call *call = calloc(1, sizeof *call);
    int error = call ? 0 : COP_ENOMEM;
    if (!error) {
        call->put = put;
        call->fd = -1;
        call->token = PUT_TOKEN | ++put->next_token;
        call->next = put->calls;
        put->calls = call;
        exec_user_name(session_uid(session), call->user);
        call->body = cop_buf_copy(body.data, body.length);
        error = call->body ? put_order_decode((struct cop__bytes){call->body->data,
                                                                  call->body->length},
                                              &call->order)
                           : COP_ENOMEM;
    }
    if (!error)
        error = begin(call);
    if (!error) {
        call->session = session;
        return;
    }
    session_reply(session, error, false, NULL);
    if (call != NULL)
        free_call(call);
}

/* ---- what is told ---------------------------------------------------------------- */

bool put_complete(struct put *put, uint64_t token, int status, struct cop_buf *result)
{
    if (!(token & PUT_TOKEN))
        return false;
    for (struct put_call *call = put->calls; call; call = call->next)
        if (call->token == token) {
            /* What came of it is in the result, also when time was up. */
            end_call(call, result && status == COP_ETIMEDOUT ? 0 : status, result);
            break;
        }
    return true;
}

void put_set_node(struct put *put, struct cop__tcp *tcp, cop_id self)
{
    for (struct put_call *call = put->calls, *next; call; call = next) {
        next = call->next;
        end_call(call, COP_ESTATE, NULL);
    }
    put_sinks_end(put);
    put->tcp = tcp;
    put->self = self;
}

void put_written(struct put *put, const struct session *session)
{
    for (struct put_call *call = put->calls; call; call = call->next)
        if (call->session == session)
            call->is_telling = false;
}

/* Nobody waits for it: it ends everywhere, and what was written goes. */
void put_closed(struct put *put, const struct session *session)
{
    for (struct put_call *call = put->calls; call; call = call->next) {
        if (call->session != session)
            continue;
        struct cop_request request = {.kind = COP_REQUEST_ABORT, .target = call->token};
        call->session = NULL;
        if (put->tcp != NULL)
            cop__tcp_submit(put->tcp, &request);
        return;
    }
}
