/* SPDX-License-Identifier: Apache-2.0 */
/* The command socket: it goes on after a shortage, and says no more than it has to. */
#include "failing_alloc.h"
#include "term/say.h" /* cmocka has another fail() */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "talk/serve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

struct world {
    uv_loop_t loop;
    uv_timer_t limit;
    struct server *server;
    struct cop_log log;
    char folder[32], path[64];
    uint32_t lines, commands;
};

static void count_line(void *context, enum cop_log_level level, const char *line)
{
    struct world *world = context;
    (void)level;
    (void)line;
    world->lines++;
}

static void on_command(void *context, struct session *session, enum verb verb,
                       struct cop__bytes body)
{
    struct world *world = context;
    (void)verb;
    (void)body;
    world->commands++;
    session_reply(session, 0, false, NULL);
}

static void on_time(uv_timer_t *timer) { uv_stop(timer->loop); }

static int set_up(void **state)
{
    static struct world world;
    world = (struct world){.folder = "/tmp/coppice-serve-XXXXXX"};
    world.log = (struct cop_log){count_line, &world, COP_LOG_DEBUG};
    assert_non_null(mkdtemp(world.folder));
    snprintf(world.path, sizeof world.path, "%s/socket", world.folder);
    assert_int_equal(uv_loop_init(&world.loop), 0);
    uv_timer_init(&world.loop, &world.limit);
    struct server_config config = {.loop = &world.loop,
                                   .path = world.path,
                                   .log = &world.log,
                                   .command = on_command,
                                   .context = &world};
    assert_int_equal(server_create(&config, &world.server), 0);
    *state = &world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    server_close(world->server);
    uv_close((uv_handle_t *)&world->limit, NULL);
    uv_run(&world->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&world->loop), 0);
    unlink(world->path);
    return rmdir(world->folder);
}

static int call(const struct world *world)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", world->path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void run(struct world *world, uint64_t ms)
{
    uv_timer_start(&world->limit, on_time, ms, 0);
    uv_run(&world->loop, UV_RUN_DEFAULT);
}

/* Whether the other side has closed it, within ten seconds. */
static bool is_closed(struct world *world, int fd)
{
    char byte;
    for (int i = 0; i < 1000; i++) {
        ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno == ECONNRESET))
            return true;
        run(world, 10);
    }
    return false;
}

static void assert_answered(struct world *world)
{
    struct cop_buf *question = cop__command_make(7, VERB_STATUS, NULL);
    uint32_t before = world->commands;
    int fd = call(world);
    char bytes[256];
    ssize_t got = -1;
    assert_non_null(question);
    assert_int_equal(send(fd, question->data, question->length, MSG_NOSIGNAL),
                     question->length);
    cop_buf_unref(question);
    for (int i = 0; i < 1000 && got < 0; i++) {
        run(world, 10);
        got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    }
    assert_true(got > 0);
    assert_int_equal(world->commands, before + 1);
    close(fd);
}

/* Whoever comes when there is none is closed; whoever comes later is served. */
static void no_memory_for_a_session(void **state)
{
    struct world *world = *state;
    assert_answered(world);
    int caller = call(world);
    failing_alloc_after(0);
    run(world, 50);
    failing_alloc_off();
    assert_true(failing_alloc_hit());
    assert_true(is_closed(world, caller));
    close(caller);
    assert_answered(world);
    assert_int_equal(world->lines, 1);
}

/* Each reason is one line, however often; and another reason has one of its own. */
static void nonsense_is_one_line(void **state)
{
    static const char nonsense[100] = "GET / HTTP/1.0\r\n\r\n";
    struct world *world = *state;
    for (int i = 0; i < 50; i++) {
        int fd = call(world);
        assert_int_equal(send(fd, nonsense, sizeof nonsense, MSG_NOSIGNAL),
                         sizeof nonsense);
        assert_true(is_closed(world, fd));
        close(fd);
    }
    assert_int_equal(world->lines, 1);
    int fds[3 * SERVE_SESSIONS_MAX];
    for (uint32_t i = 0; i < 3 * SERVE_SESSIONS_MAX; i++)
        fds[i] = call(world);
    assert_true(is_closed(world, fds[3 * SERVE_SESSIONS_MAX - 1]));
    assert_int_equal(world->lines, 2);
    for (uint32_t i = 0; i < 3 * SERVE_SESSIONS_MAX; i++)
        close(fds[i]);
    run(world, 50);
    assert_answered(world);
}

/* Another user is not served, and cannot fill the log. */
static void others_are_not_served(void **state)
{
    struct world *world = *state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(chmod(world->folder, 0755), 0);
    assert_int_equal(chmod(world->path, 0666), 0);
    for (int i = 0; i < 10; i++) {
        /* The kernel names whoever called connect(2). */
        assert_int_equal(seteuid(12345), 0);
        int fd = call(world);
        assert_int_equal(seteuid(0), 0);
        assert_true(is_closed(world, fd));
        close(fd);
    }
    assert_int_equal(world->lines, 1);
    assert_answered(world);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_memory_for_a_session),
        TEST(nonsense_is_one_line),
        TEST(others_are_not_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
