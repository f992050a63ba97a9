/* SPDX-License-Identifier: Apache-2.0 */
/* Taking connections while there are no descriptors to take them with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/listen.h"
#include "run/porch.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <unistd.h>

struct world {
    uv_loop_t loop;
    uv_timer_t limit;
    uv_check_t turn;
    struct cop__porch porch;
    struct cop_log log;
    uint32_t turns, lines, taken, closed;
    cop__origin from;
    int listen_fd;
    uint16_t port;
};

static void count_line(void *context, enum cop_log_level level, const char *line)
{
    struct world *world = context;
    (void)level;
    (void)line;
    world->lines++;
}

static void on_turn(uv_check_t *turn)
{
    struct world *world = turn->data;
    world->turns++;
}

static void on_time(uv_timer_t *timer) { uv_stop(timer->loop); }

static void on_take(void *context, int fd, cop__origin from)
{
    struct world *world = context;
    close(fd);
    world->taken++;
    world->from = from;
    uv_stop(&world->loop);
}

static void on_closed(void *context)
{
    struct world *world = context;
    world->closed++;
}

/* Until somebody is taken, or for so long. */
static void run(struct world *world, uint64_t ms)
{
    uv_timer_start(&world->limit, on_time, ms, 0);
    uv_run(&world->loop, UV_RUN_DEFAULT);
}

static int set_up(void **state)
{
    static struct world world;
    world = (struct world){.listen_fd = -1};
    world.log = (struct cop_log){count_line, &world, COP_LOG_DEBUG};
    assert_int_equal(uv_loop_init(&world.loop), 0);
    uv_timer_init(&world.loop, &world.limit);
    uv_check_init(&world.loop, &world.turn);
    world.turn.data = &world;
    uv_check_start(&world.turn, on_turn);
    world.listen_fd = cop__listen_loopback(&world.port);
    assert_true(world.listen_fd >= 0);
    struct cop__porch_config config = {.loop = &world.loop,
                                       .fd = world.listen_fd,
                                       .log = &world.log,
                                       .name = "test",
                                       .take = on_take,
                                       .context = &world};
    assert_int_equal(cop__porch_init(&world.porch, &config), 0);
    *state = &world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    cop__porch_close(&world->porch, on_closed);
    close(world->listen_fd);
    uv_close((uv_handle_t *)&world->limit, NULL);
    uv_close((uv_handle_t *)&world->turn, NULL);
    uv_run(&world->loop, UV_RUN_DEFAULT);
    assert_int_equal(world->closed, 1);
    assert_int_equal(uv_loop_close(&world->loop), 0);
    return 0;
}

static int call(const struct world *world)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(world->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void who_calls_is_taken(void **state)
{
    struct world *world = *state;
    char text[40];
    int early = call(world);
    cop__porch_watch(&world->porch);
    run(world, 10000);
    assert_int_equal(world->taken, 1);
    assert_string_equal(cop__origin_text(world->from, text, sizeof text), "127.0.0.1");
    cop__porch_rest(&world->porch);
    int late = call(world);
    run(world, 20);
    assert_int_equal(world->taken, 1);
    cop__porch_watch(&world->porch);
    run(world, 10000);
    assert_int_equal(world->taken, 2);
    close(early);
    close(late);
}

/* The second may be for the node that the first was waited for. */
static void one_at_a_time(void **state)
{
    struct world *world = *state;
    int callers[] = {call(world), call(world)};
    cop__porch_watch(&world->porch);
    for (uint32_t i = 0; i < 2; i++) {
        run(world, 10000);
        assert_int_equal(world->taken, i + 1);
    }
    close(callers[0]);
    close(callers[1]);
}

/* For so long, for there is no descriptor to take it with. */
static int call_in_vain(struct world *world, uint64_t ms)
{
    struct rlimit before, none;
    cop__porch_watch(&world->porch);
    int caller = call(world);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = (rlim_t)caller + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    run(world, ms);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(world->taken, 0);
    return caller;
}

/* It waits, and does not spin; says so once; and whoever waited is taken in the end. */
static void no_descriptors(void **state)
{
    struct world *world = *state;
    int caller = call_in_vain(world, 900);
    assert_int_equal(world->lines, 1);
    assert_in_range(world->turns, 1, 30);
    run(world, 10000);
    assert_int_equal(world->taken, 1);
    close(caller);
}

/* What is closed in its pause is not woken up. */
static void closed_in_a_pause(void **state)
{
    struct world *world = *state;
    int caller = call_in_vain(world, 20);
    close(caller);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(who_calls_is_taken),
        TEST(one_at_a_time),
        TEST(no_descriptors),
        TEST(closed_in_a_pause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
