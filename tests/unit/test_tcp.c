/* SPDX-License-Identifier: Apache-2.0 */
/* Whole nodes over the TCP driver, all on one loop: probes that find who is there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "failing_alloc.h"
#include "net/tcp/driver.h"
#include "net/tcp/runner.h"

#define MEMBERS_MAX 16
#define LOOK_EVERY_MS 5
#define LOOKS_MAX 12000

struct member {
    struct cluster *cluster;
    struct cop__tcp *tcp; /* NULL if it is gone */
    struct cop_stats stats;
    uint32_t completed;
    int status;
    struct cop_probe_result result;
    bool has_result, is_closed, is_submitting;
};

struct cluster {
    uv_loop_t loop;
    struct cop__runner runner;
    int family;
    uint32_t n;
    struct cop_view *view;
    char folder[64];
    struct cop__address addresses[MEMBERS_MAX];
    struct member members[MEMBERS_MAX];
    uint32_t answers_left; /* resubmit from `complete` so often */
    bool ends;             /* after the last of them all members close */
};

static int on_address(void *context, cop_id id, struct cop__address *out)
{
    struct member *member = context;
    if (id >= member->cluster->n)
        return COP_ENOENT;
    *out = member->cluster->addresses[id];
    return 0;
}

static void submit(struct member *member)
{
    struct cop_request request = {.kind = COP_REQUEST_PROBE,
                                  .token = 100 + member->completed,
                                  .timeout_ns = 100 * COP_SEC};
    member->is_submitting = true;
    assert_int_equal(cop__tcp_submit(member->tcp, &request), 0);
    member->is_submitting = false;
}

static void on_closed(void *context)
{
    struct member *member = context;
    member->is_closed = true;
    member->tcp = NULL;
}

static void close_all(struct cluster *cluster)
{
    for (cop_id i = 0; i < cluster->n; i++)
        cop__tcp_close(cluster->members[i].tcp, on_closed);
}

static void on_complete(void *context, uint64_t token, int status,
                        struct cop_buf *result)
{
    struct member *member = context;
    /* Nobody is called back before they know that their request was taken. */
    assert_false(member->is_submitting);
    assert_int_equal(token, 100 + member->completed);
    if (member->has_result)
        cop_probe_result_free(&member->result);
    member->status = status;
    member->has_result = result && cop_probe_result(result, &member->result) == 0;
    member->completed++;
    if (member->cluster->answers_left > 0) {
        member->cluster->answers_left--;
        submit(member);
    } else if (member->cluster->ends) {
        cop__tcp_used_loop(member->tcp);
        close_all(member->cluster);
    }
}

static void on_failed(void *context, int error)
{
    (void)context;
    fail_msg("the node failed: %s", cop_strerror(error));
}

static int listen_at(struct cluster *cluster, cop_id id)
{
    struct cop__address *out = &cluster->addresses[id];
    struct sockaddr *any = (struct sockaddr *)&out->storage;
    int fd = socket(cluster->family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (cluster->family == AF_UNIX) {
        struct sockaddr_un *address = (struct sockaddr_un *)any;
        address->sun_family = AF_UNIX;
        snprintf(address->sun_path, sizeof address->sun_path, "%s/%u", cluster->folder,
                 (unsigned)id);
        unlink(address->sun_path);
        out->length = sizeof *address;
    } else {
        struct sockaddr_in *address = (struct sockaddr_in *)any;
        address->sin_family = AF_INET;
        address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        out->length = sizeof *address;
    }
    assert_int_equal(bind(fd, any, out->length), 0);
    assert_int_equal(listen(fd, 64), 0);
    assert_int_equal(getsockname(fd, any, &out->length), 0);
    return fd;
}

/* Of the members that are opened next. */
static uint64_t swift_tokens;

static void open_member(struct cluster *cluster, cop_id id, cop_incarnation incarnation,
                        int listen_fd)
{
    struct member *member = &cluster->members[id];
    *member = (struct member){.cluster = cluster};
    struct cop__tcp_config config = {
        .loop = &cluster->loop,
        .runner = &cluster->runner,
        .swift_tokens = swift_tokens,
        .cluster = {1},
        .instance = 2,
        .self = id,
        .incarnation = incarnation,
        .view = cluster->view,
        .stats = &member->stats,
        .listen_fd = listen_fd,
        .address = on_address,
        .complete = on_complete,
        .failed = on_failed,
        .context = member,
    };
    assert_int_equal(cop__tcp_create(&config, &member->tcp), 0);
}

static struct cluster *cluster_create(int family, uint32_t n)
{
    struct cluster *cluster = calloc(1, sizeof *cluster);
    struct cop_shape shape;
    int fds[MEMBERS_MAX];
    assert_non_null(cluster);
    assert_int_equal(uv_loop_init(&cluster->loop), 0);
    cop__runner_init(&cluster->runner, &cluster->loop);
    cluster->family = family;
    cluster->n = n;
    snprintf(cluster->folder, sizeof cluster->folder, "/tmp/coppice-test-XXXXXX");
    assert_non_null(mkdtemp(cluster->folder));
    assert_int_equal(cop_shape_make(COP_SHAPE_KARY, 2, &shape), 0);
    assert_int_equal(cop_view_create_static(n, &shape, 1, &cluster->view), 0);
    for (cop_id i = 0; i < n; i++)
        fds[i] = listen_at(cluster, i);
    for (cop_id i = 0; i < n; i++)
        open_member(cluster, i, 1, fds[i]);
    return cluster;
}

/* ---- running --------------------------------------------------------------------- */

static void on_look(uv_timer_t *timer)
{
    uint32_t *looks = timer->data;
    ++*looks;
}

static void on_timer_closed(uv_handle_t *handle) { free(handle); }

static void run_until(struct cluster *cluster,
                      bool (*is_done)(const struct member *member),
                      const struct member *member)
{
    uv_timer_t *timer = malloc(sizeof *timer);
    uint32_t looks = 0;
    assert_non_null(timer);
    uv_timer_init(&cluster->loop, timer);
    timer->data = &looks;
    uv_timer_start(timer, on_look, LOOK_EVERY_MS, LOOK_EVERY_MS);
    while (looks < LOOKS_MAX && !is_done(member))
        uv_run(&cluster->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)timer, on_timer_closed);
    uv_run(&cluster->loop, UV_RUN_NOWAIT);
    assert_true(looks < LOOKS_MAX);
}

static bool is_closed(const struct member *member) { return member->is_closed; }

static bool is_complete(const struct member *member)
{
    return member->completed > 0 && member->cluster->answers_left == 0;
}

static void close_member(struct cluster *cluster, cop_id id)
{
    struct member *member = &cluster->members[id];
    if (!member->tcp)
        return;
    cop__tcp_close(member->tcp, on_closed);
    run_until(cluster, is_closed, member);
    if (member->has_result)
        cop_probe_result_free(&member->result);
    member->has_result = false;
}

static void cluster_destroy(struct cluster *cluster)
{
    for (cop_id i = 0; i < cluster->n; i++) {
        char path[128];
        close_member(cluster, i);
        snprintf(path, sizeof path, "%s/%u", cluster->folder, (unsigned)i);
        unlink(path);
    }
    uv_run(&cluster->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&cluster->loop), 0);
    cop__runner_fini(&cluster->runner);
    rmdir(cluster->folder);
    cop_view_unref(cluster->view);
    free(cluster);
}

/* ---- cases ----------------------------------------------------------------------- */

static void everybody_answers(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 7, 16};
    for (size_t i = 0; i < 8; i++) {
        struct cluster *cluster =
            cluster_create(i % 2 ? AF_INET : AF_UNIX, sizes[i / 2]);
        for (cop_id from = 0; from < cluster->n; from++) {
            struct member *member = &cluster->members[from];
            submit(member);
            run_until(cluster, is_complete, member);
            assert_int_equal(member->status, 0);
            assert_int_equal(member->result.answered, cluster->n);
            assert_int_equal(member->result.dead.count, 0);
        }
        cluster_destroy(cluster);
    }
}

static void the_dead_are_named(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct cluster *cluster = cluster_create(i ? AF_INET : AF_UNIX, 7);
        struct member *root = &cluster->members[0];
        submit(root);
        run_until(cluster, is_complete, root);
        close_member(cluster, 1); /* with children of its own */
        close_member(cluster, 6);
        root->completed = 0;
        submit(root);
        run_until(cluster, is_complete, root);
        assert_true(root->has_result);
        assert_int_equal(root->result.answered, 5);
        assert_int_equal(root->result.dead.count, 2);
        assert_int_equal(root->result.dead.items[0], 1);
        assert_int_equal(root->result.dead.items[1], 6);
        cluster_destroy(cluster);
    }
}

/* A request from inside `complete`, again and again: the driver is not confused by it. */
static void requests_may_follow_each_other(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_create(AF_UNIX, 7);
    struct member *root = &cluster->members[0];
    cluster->answers_left = 200;
    submit(root);
    run_until(cluster, is_complete, root);
    assert_int_equal(root->completed, 200);
    /* Nobody needs more than two system calls for a message: one to read, one to write. */
    for (cop_id i = 0; i < cluster->n; i++) {
        const struct member *member = &cluster->members[i];
        const struct cop__tcp_stats *stats = cop__tcp_stats(member->tcp);
        uint64_t sent = 0, received = 0;
        for (int j = 0; j < COP_STATS_KINDS; j++) {
            sent += member->stats.sent[j];
            received += member->stats.received[j];
        }
        uint64_t others =
            4 * (stats->connects + stats->accepts) + stats->acks_sent + 10;
        assert_true(stats->writes <= sent + others);
        assert_true(stats->reads <= received + others);
    }
    cluster_destroy(cluster);
}

static void count_turn(uv_prepare_t *prepare)
{
    uint32_t *turns = prepare->data;
    ++*turns;
}

enum { PROBES = 200 };

/* Turns of libuv for so many probes, one after the other. The runner ends when nothing is left. */
static uint32_t turns_of_probes(void)
{
    struct cluster *cluster = cluster_create(AF_UNIX, 16);
    struct member *root = &cluster->members[0];
    uv_prepare_t prepare;
    uint32_t turns = 0;
    uv_prepare_init(&cluster->loop, &prepare);
    uv_prepare_start(&prepare, count_turn);
    uv_unref((uv_handle_t *)&prepare);
    prepare.data = &turns;
    submit(root);
    run_until(cluster, is_complete, root);
    turns = 0;
    root->completed = 0;
    cluster->answers_left = PROBES - 1;
    cluster->ends = true;
    submit(root);
    cop__runner_run(&cluster->runner);
    assert_int_equal(root->completed, PROBES);
    assert_int_equal(root->result.answered, 16);
    cop_probe_result_free(&root->result);
    root->has_result = false;
    uv_close((uv_handle_t *)&prepare, NULL);
    cluster_destroy(cluster);
    return turns;
}

/* With a runner, libuv is needed for the beginning and the end of a probe, not for its
 * messages, which are six turns of three levels. */
static void messages_go_the_short_way(void **state)
{
    (void)state;
    uint32_t turns = turns_of_probes();
    if (uv_version() >= COP__RUNNER_UV_VERSION)
        assert_in_range(turns, PROBES, 3 * PROBES);
}

/* Nor for the end, where the token says so. */
static void ends_go_the_short_way(void **state)
{
    (void)state;
    swift_tokens = 64 | 128 | 256; /* one of them is in each number from 100 to 299 */
    uint32_t turns = turns_of_probes();
    swift_tokens = 0;
    if (uv_version() >= COP__RUNNER_UV_VERSION)
        assert_in_range(turns, 0, PROBES / 2);
}

static void what_cannot_be_is_refused_at_once(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_create(AF_UNIX, 2);
    struct cop__tcp *tcp;
    struct cop__tcp_config config = {
        .loop = &cluster->loop,
        .self = 9, /* not a member */
        .incarnation = 1,
        .view = cluster->view,
        .listen_fd = -1,
        .address = on_address,
    };
    assert_int_equal(cop__tcp_create(&config, &tcp), COP_EINVAL);
    config.self = 0;
    config.incarnation = 0;
    assert_int_equal(cop__tcp_create(&config, &tcp), COP_EINVAL);
    struct cop_request request = {.kind = (enum cop_request_kind)99};
    assert_int_equal(cop__tcp_submit(cluster->members[0].tcp, &request), COP_EINVAL);
    cluster_destroy(cluster);
}

/* Wherever memory runs out: an error, and nothing is left behind. */
static void no_memory_to_begin_with(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_create(AF_UNIX, 2);
    close_member(cluster, 1);
    for (size_t n = 0;; n++) {
        struct cop__tcp *tcp = NULL;
        struct member *member = &cluster->members[1];
        *member = (struct member){.cluster = cluster};
        struct cop__tcp_config config = {
            .loop = &cluster->loop,
            .self = 1,
            .incarnation = 2 + n,
            .view = cluster->view,
            .listen_fd = listen_at(cluster, 1),
            .address = on_address,
            .context = member,
        };
        failing_alloc_after(n);
        int error = cop__tcp_create(&config, &tcp);
        failing_alloc_off();
        uv_run(&cluster->loop, UV_RUN_NOWAIT);
        if (!failing_alloc_hit()) {
            assert_int_equal(error, 0);
            member->tcp = tcp;
            break;
        }
        assert_int_equal(error, COP_ENOMEM);
    }
    cluster_destroy(cluster);
}

/* ---- the listening socket of one who dies ---------------------------------------- */

#define CALLERS 64
#define DEATHS 20

/* Never returns: takes all who call, says so to the last, and waits for its death. */
_Noreturn static void take_calls(int listener)
{
    int high = cop__tcp_dup_listener(listener), fd = -1;
    close(listener);
    for (int i = 0; i < CALLERS; i++)
        fd = accept(high, NULL, NULL);
    if (fd < 0 || write(fd, "x", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static int call(const struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof *address) == 0)
        return fd;
    int error = errno;
    if (fd >= 0)
        close(fd);
    return -error;
}

/* What becomes of a call right after the first connection ended. */
static int call_the_dying(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    struct pollfd callers[CALLERS];
    char byte;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_return_code(bind(listener, (struct sockaddr *)&address, length), errno);
    assert_return_code(listen(listener, CALLERS), errno);
    assert_return_code(getsockname(listener, (struct sockaddr *)&address, &length),
                       errno);
    pid_t pid = fork();
    if (pid == 0)
        take_calls(listener);
    close(listener);
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (struct pollfd){.fd = call(&address), .events = POLLIN};
        assert_true(callers[i].fd >= 0);
    }
    assert_int_equal(read(callers[CALLERS - 1].fd, &byte, 1), 1);
    kill(pid, SIGKILL);
    assert_true(poll(callers, CALLERS, -1) > 0);
    int end = call(&address);
    waitpid(pid, NULL, 0);
    for (int i = 0; i < CALLERS; i++)
        close(callers[i].fd);
    if (end >= 0)
        close(end);
    return end;
}

static void the_dying_let_nobody_in(void **state)
{
    (void)state;
    for (int i = 0; i < DEATHS; i++)
        assert_int_equal(call_the_dying(), -ECONNREFUSED);
}

static void few_descriptors_are_enough_to_listen(void **state)
{
    struct rlimit before, few;
    (void)state;
    assert_return_code(getrlimit(RLIMIT_NOFILE, &before), errno);
    few = before;
    few.rlim_cur = 64;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_return_code(setrlimit(RLIMIT_NOFILE, &few), errno);
    int copy = cop__tcp_dup_listener(fd);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_in_range(copy, 32, 63);
    close(copy);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_answers),
        cmocka_unit_test(the_dead_are_named),
        cmocka_unit_test(requests_may_follow_each_other),
        cmocka_unit_test(messages_go_the_short_way),
        cmocka_unit_test(ends_go_the_short_way),
        cmocka_unit_test(what_cannot_be_is_refused_at_once),
        cmocka_unit_test(no_memory_to_begin_with),
        cmocka_unit_test(the_dying_let_nobody_in),
        cmocka_unit_test(few_descriptors_are_enough_to_listen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
