/* SPDX-License-Identifier: Apache-2.0 */
#include "tcp_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/tls/keys.h"
#include "net/tls/tls.h"
#include "wire/messages.h"

/* Together ten times longer than anything here takes, also on a machine that has other things to
 * do: a test that gets there hangs. */
#define LOOK_EVERY_MS 5
#define LOOKS_MAX 2000

static void flush_all(struct world *world)
{
    for (int i = 0; i < WORLD_SIDES; i++)
        if (world->sides[i].is_open)
            cop__peers_flush(world->sides[i].peers);
}

static void on_prepare(uv_prepare_t *prepare) { flush_all(prepare->data); }

static void on_check(uv_check_t *check) { flush_all(check->data); }

struct world *world_create(int family)
{
    struct world *world = calloc(1, sizeof *world);
    struct cop_shape shape;
    assert_non_null(world);
    assert_int_equal(uv_loop_init(&world->loop), 0);
    uv_prepare_init(&world->loop, &world->prepare);
    uv_check_init(&world->loop, &world->check);
    world->prepare.data = world->check.data = world;
    uv_prepare_start(&world->prepare, on_prepare);
    uv_check_start(&world->check, on_check);
    assert_int_equal(cop_shape_make(COP_SHAPE_KARY, 2, &shape), 0);
    assert_int_equal(cop_view_create_static(WORLD_SIDES, &shape, 1, &world->view), 0);
    world->family = family == WORLD_TLS ? AF_INET : family;
    snprintf(world->folder, sizeof world->folder, "/tmp/coppice-test-XXXXXX");
    assert_non_null(mkdtemp(world->folder));
    if (family == WORLD_TLS)
        world->own_tls = world->tls = world_make_tls(world, "key");
    return world;
}

struct cop__tls *world_make_tls(struct world *world, const char *name)
{
    struct cop__keys keys = {.step = COP__KEYS_ALONE};
    char path[100], message[400];
    struct cop__tls_files files = {.key = path};
    struct cop__tls *tls;
    snprintf(path, sizeof path, "%s/%s", world->folder, name);
    assert_int_equal(cop__key_make(&keys.use), 0);
    assert_int_equal(cop__keys_write(path, &keys, true, message, sizeof message), 0);
    assert_int_equal(cop__tls_create(&files, &tls, message, sizeof message), 0);
    assert_int_equal(unlink(path), 0);
    return tls;
}

void world_destroy(struct world *world)
{
    for (int i = 0; i < WORLD_SIDES; i++)
        if (world->sides[i].is_open)
            world_close(&world->sides[i]);
    uv_close((uv_handle_t *)&world->prepare, NULL);
    uv_close((uv_handle_t *)&world->check, NULL);
    uv_run(&world->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&world->loop), 0);
    cop_view_unref(world->view);
    cop__tls_destroy(world->own_tls);
    for (int i = 0; i < WORLD_SIDES; i++) {
        struct sockaddr_un *address =
            (struct sockaddr_un *)&world->addresses[i].storage;
        if (address->sun_family == AF_UNIX)
            unlink(address->sun_path);
    }
    rmdir(world->folder);
    free(world);
}

/* ---- sockets --------------------------------------------------------------------- */

static int listen_unix(struct world *world, const char *name, struct cop__address *out)
{
    struct sockaddr_un *address = (struct sockaddr_un *)&out->storage;
    memset(out, 0, sizeof *out);
    address->sun_family = AF_UNIX;
    snprintf(address->sun_path, sizeof address->sun_path, "%s/%s", world->folder, name);
    unlink(address->sun_path);
    out->length = sizeof *address;
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static int listen_tcp(struct cop__address *out)
{
    struct sockaddr_in *address = (struct sockaddr_in *)&out->storage;
    memset(out, 0, sizeof *out);
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    out->length = sizeof *address;
    return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

int world_listen(struct world *world, const char *name, struct cop__address *out)
{
    int fd = world->family == AF_UNIX ? listen_unix(world, name, out) : listen_tcp(out);
    struct sockaddr *address = (struct sockaddr *)&out->storage;
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, address, out->length), 0);
    assert_int_equal(listen(fd, 64), 0);
    assert_int_equal(getsockname(fd, address, &out->length), 0);
    return fd;
}

int world_dial(struct world *world, cop_id id)
{
    const struct cop__address *address = &world->addresses[id];
    int fd = socket(world->family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(
        connect(fd, (const struct sockaddr *)&address->storage, address->length), 0);
    return fd;
}

/* ---- sides ----------------------------------------------------------------------- */

static void on_line(void *context, enum cop_log_level level, const char *line)
{
    struct side *side = context;
    (void)level;
    side->lines++;
    snprintf(side->line, sizeof side->line, "%s", line);
}

static int on_address(void *context, cop_id id, struct cop__address *out)
{
    struct world *world = context;
    if (id >= WORLD_SIDES || world->addresses[id].length == 0)
        return COP_ENOENT;
    *out = world->addresses[id];
    return 0;
}

static int on_name(void *context, cop_id id, char *out, size_t size)
{
    const struct world *world = context;
    if (id >= WORLD_SIDES || world->names[id] == NULL)
        return COP_ENOENT;
    snprintf(out, size, "%s", world->names[id]);
    return 0;
}

static void on_cooled(void *context)
{
    struct side *side = context;
    side->cooled++;
}

static cop_incarnation on_known(void *context, cop_id id)
{
    const struct side *side = context;
    return id < WORLD_SIDES ? side->known[id] : 0;
}

/* Promise 4 (once, in order, unharmed) and promise 7 (PEER_UP comes first). */
static void on_frame(struct side *side, cop_id from, const struct cop_frame *frame)
{
    const struct cop_header *header = &frame->header;
    int lane = header->kind == COP__KIND_DATA ? COP__LANE_BULK : COP__LANE_CONTROL;
    struct cop__reader reader =
        cop__reader(frame->payload->data, frame->payload->length);
    uint64_t number = cop__get_u64(&reader);
    assert_int_equal(header->sender, from);
    assert_int_equal(header->sender_incarnation, side->lives[from]);
    assert_int_equal(header->receiver, side->id);
    assert_int_equal(number, side->with[from].came[lane] + 1);
    for (uint32_t i = 8; i < header->length; i++)
        assert_int_equal(frame->payload->data[i], (uint8_t)(number + i));
    side->with[from].came[lane] = number;
}

static void on_guest(void *context, uint64_t guest, struct cop_buf *command)
{
    struct side *side = context;
    assert_non_null(command);
    side->commands++;
    side->guest = guest;
}

static void on_event(void *context, const struct cop_event *event)
{
    struct side *side = context;
    cop_id peer = event->peer;
    if (peer >= WORLD_SIDES) {
        side->others += event->kind == COP_EVENT_PEER_UP;
        return;
    }
    switch (event->kind) {
    case COP_EVENT_PEER_UP:
        side->ups[peer]++;
        if (side->lives[peer] != event->incarnation)
            memset(side->with[peer].came, 0, sizeof side->with[peer].came);
        side->lives[peer] = event->incarnation;
        break;
    case COP_EVENT_PEER_DOWN:
        side->downs[peer][event->why]++;
        if (side->world->on_down != NULL)
            side->world->on_down(side, peer);
        break;
    case COP_EVENT_RECV:
        on_frame(side, peer, event->frame);
        break;
    case COP_EVENT_SENT:
        side->chokes += event->backlog_bytes > COP_BACKLOG_MAX;
        side->relieves += event->backlog_bytes <= COP_BACKLOG_MAX / 2;
        break;
    default:
        fail_msg("the peers made an event of kind %d", (int)event->kind);
    }
}

static cop_time or_never(cop_time value) { return value != 0 ? value : 1000 * COP_SEC; }

struct side *world_open(struct world *world, cop_id id, cop_incarnation incarnation)
{
    struct side *side = &world->sides[id];
    char name[16];
    memset(side, 0, sizeof *side);
    side->world = world;
    side->id = id;
    side->incarnation = incarnation;
    side->log = (struct cop_log){on_line, side, COP_LOG_DEBUG};
    assert_int_equal(cop__clock_init(&side->clock, &world->loop), 0);
    side->clock.context = side;
    snprintf(name, sizeof name, "%u", (unsigned)id);
    struct cop__peers_config config = {
        .identity = {{world->cluster}, 1, id, incarnation, world->view, world->is_open},
        .clock = &side->clock,
        .loop = &world->loop,
        .tls = world->tls,
        .log = &side->log,
        .stats = &side->stats,
        .listen_fd = world->listen_fd != 0
                         ? world->listen_fd
                         : world_listen(world, name, &world->addresses[id]),
        .connect_timeout_ns = or_never(world->connect_timeout_ns),
        .idle_close_ns = or_never(world->idle_close_ns),
        .patient_until = world->patience_ns ? cop__clock_now() + world->patience_ns : 0,
        .handshake_timeout_ns = or_never(world->handshake_timeout_ns),
        .strangers_max = world->strangers_max ? world->strangers_max : 100,
        .acquaintances_max = 64,
        .no_reads = world->no_reads,
        .address = on_address,
        .address_context = world,
        .name_of = on_name,
        .event = on_event,
        .guest = world->has_guests ? on_guest : NULL,
        .known = on_known,
        .cooled = on_cooled,
        .context = side,
    };
    assert_int_equal(cop__peers_create(&config, &side->peers), 0);
    side->is_open = true;
    return side;
}

static void on_closed(void *context)
{
    struct side *side = context;
    side->handles--;
}

static bool is_gone(void *context)
{
    const struct side *side = context;
    return side->handles == 0;
}

void world_close(struct side *side)
{
    side->is_open = false;
    side->handles = 2;
    cop__clock_close(&side->clock, on_closed);
    cop__peers_close(side->peers, on_closed, side);
    world_until(side->world, is_gone, side);
}

void world_crash(struct side *side)
{
    /* Without a connection nobody can be told good-bye. */
    for (cop_id i = 0; i < WORLD_SIDES; i++)
        cop__peers_cut(side->peers, i);
    world_close(side);
}

/* ---- traffic --------------------------------------------------------------------- */

void side_send(struct side *side, cop_id to, uint16_t kind, uint32_t count,
               uint32_t length)
{
    int lane = kind == COP__KIND_DATA ? COP__LANE_BULK : COP__LANE_CONTROL;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t number = ++side->with[to].sent[lane];
        struct cop_frame frame = {
            .header = {.kind = kind,
                       .sender = side->id,
                       .receiver = to,
                       .sender_incarnation = side->incarnation,
                       .receiver_incarnation = side->world->sides[to].incarnation,
                       .length = length},
            .payload = cop_buf_create(length),
        };
        assert_non_null(frame.payload);
        struct cop__writer writer = cop__writer(frame.payload->data, 8);
        cop__put_u64(&writer, number);
        for (uint32_t j = 8; j < length; j++)
            frame.payload->data[j] = (uint8_t)(number + j);
        assert_int_equal(cop__peers_send(side->peers, to, &frame), 0);
        cop_buf_unref(frame.payload);
    }
}

bool side_has_all(const struct side *from, const struct side *to)
{
    return memcmp(from->with[to->id].sent, to->with[from->id].came,
                  sizeof from->with[to->id].sent) == 0;
}

uint32_t side_downs(const struct side *side, cop_id other)
{
    return side->downs[other][0] + side->downs[other][1] + side->downs[other][2];
}

/* ---- time ------------------------------------------------------------------------ */

static void on_look(uv_timer_t *timer)
{
    uint32_t *looks = timer->data;
    ++*looks;
}

static void free_handle(uv_handle_t *handle) { free(handle); }

void world_until(struct world *world, bool (*is_done)(void *context), void *context)
{
    uv_timer_t *timer = malloc(sizeof *timer);
    uint32_t looks = 0;
    assert_non_null(timer);
    uv_timer_init(&world->loop, timer);
    timer->data = &looks;
    /* Some conditions are about sockets that the loop does not know: look now and then. */
    uv_timer_start(timer, on_look, LOOK_EVERY_MS, LOOK_EVERY_MS);
    while (looks < LOOKS_MAX && !is_done(context))
        uv_run(&world->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)timer, free_handle);
    uv_run(&world->loop, UV_RUN_NOWAIT);
    if (looks == LOOKS_MAX)
        fail_msg("the world hangs");
}

struct counter {
    const uint32_t *small;
    const uint64_t *large;
    uint64_t least;
};

static bool is_counted(void *context)
{
    const struct counter *counter = context;
    return (counter->small ? *counter->small : *counter->large) >= counter->least;
}

void world_until_count(struct world *world, const uint32_t *counter, uint32_t least)
{
    struct counter context = {.small = counter, .least = least};
    world_until(world, is_counted, &context);
}

void world_until_stat(struct world *world, const uint64_t *counter, uint64_t least)
{
    struct counter context = {.large = counter, .least = least};
    world_until(world, is_counted, &context);
}

void world_turn(struct world *world) { uv_run(&world->loop, UV_RUN_NOWAIT); }
