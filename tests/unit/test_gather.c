/* SPDX-License-Identifier: Apache-2.0 */
/* Members that wait for each other, and who may keep them waiting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/gather.h"

#include <sys/socket.h>
#include <unistd.h>

#define SILENT 100
#define PLACES 64 /* of those that are looked at */
#define FLOOD 500

static int nowhere(void *context, cop_id id, struct cop__address *out)
{
    (void)context;
    (void)id;
    (void)out;
    return COP_ENOENT;
}

static void on_done(void *context, uint32_t missing)
{
    uint32_t *seen = context;
    *seen = missing;
}

static void on_too_late(uv_timer_t *timer)
{
    (void)timer;
    fail_msg("it was not heard");
}

static void count_line(void *context, enum cop_log_level level, const char *line)
{
    uint32_t *lines = context;
    (void)level;
    (void)line;
    ++*lines;
}

/* One who waits for another, whom nobody can find. */
struct world {
    uv_loop_t loop;
    uv_timer_t limit;
    struct cop__gather *gather;
    struct cop_log log;
    uint32_t missing, lines;
};

static int set_up(void **state)
{
    static struct world world;
    world = (struct world){.missing = UINT32_MAX};
    world.log = (struct cop_log){count_line, &world.lines, COP_LOG_DEBUG};
    assert_int_equal(uv_loop_init(&world.loop), 0);
    uv_timer_init(&world.loop, &world.limit);
    uv_timer_start(&world.limit, on_too_late, 60000, 0);
    uv_unref((uv_handle_t *)&world.limit);
    struct cop__gather_config config = {.loop = &world.loop,
                                        .count = 2,
                                        .address = nowhere,
                                        .patience_ns = 1000 * COP_SEC,
                                        .log = &world.log,
                                        .done = on_done,
                                        .context = &world.missing};
    assert_int_equal(cop__gather_create(&config, &world.gather), 0);
    *state = &world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    if (world->missing == UINT32_MAX) /* a test has failed */
        cop__gather_close(world->gather);
    uv_close((uv_handle_t *)&world->limit, NULL);
    uv_run(&world->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&world->loop), 0);
    return 0;
}

/* Somebody comes from there; its end is returned. */
static int come(struct world *world, cop__origin from)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    cop__gather_guest(world->gather, ends[0], from);
    return ends[1];
}

/* The gathering ends, because it was spoken to. */
static void assert_heard(struct world *world, int end)
{
    assert_int_equal(send(end, "x", 1, MSG_NOSIGNAL), 1);
    uv_run(&world->loop, UV_RUN_DEFAULT);
    assert_int_equal(world->missing, 1);
}

static bool is_closed(int end)
{
    char byte;
    return recv(end, &byte, 1, MSG_DONTWAIT) == 0;
}

/* Where all listen nobody is looked for, and nobody waits: nobody could be found here. */
static void nobody_is_looked_for(void **state)
{
    struct world *world = *state;
    uint32_t missing = UINT32_MAX;
    struct cop__gather *gather;
    struct cop__gather_config config = {.loop = &world->loop,
                                        .count = 3,
                                        .address = nowhere,
                                        .patience_ns = 1000 * COP_SEC,
                                        .all_listen = true,
                                        .log = &world->log,
                                        .done = on_done,
                                        .context = &missing};
    assert_int_equal(cop__gather_create(&config, &gather), 0);
    while (missing == UINT32_MAX)
        uv_run(&world->loop, UV_RUN_ONCE);
    assert_int_equal(missing, 0);
    int end = come(world, 0);
    assert_heard(world, end);
    close(end);
}

/* Who connects and says nothing takes no place from whoever has something to say. */
static void the_silent_keep_nobody_out(void **state)
{
    int ends[SILENT + 1];
    for (int i = 0; i <= SILENT; i++)
        ends[i] = come(*state, 0);
    assert_heard(*state, ends[SILENT]);
    for (int i = 0; i <= SILENT; i++)
        close(ends[i]);
}

/* An address from which too many come who say nothing is not looked at for a while. */
static void a_flood_is_not_looked_at(void **state)
{
    struct world *world = *state;
    int ends[FLOOD];
    uint32_t looked_at = 0;
    for (int i = 0; i < FLOOD; i++) {
        ends[i] = come(world, 1234);
        looked_at += !is_closed(ends[i]);
    }
    /* Those that there is room for, and 64 faults; but time passes. */
    assert_in_range(looked_at, PLACES, PLACES + 64 + 16);
    assert_true(is_closed(ends[FLOOD - 1]));
    assert_int_equal(world->lines, 1);
    int honest = come(world, 4321);
    assert_false(is_closed(honest));
    assert_heard(world, honest);
    close(honest);
    for (int i = 0; i < FLOOD; i++)
        close(ends[i]);
}

/* Many who only look whether somebody is there, and go: that is how all of a host begin. */
static void who_only_looks_is_no_flood(void **state)
{
    struct world *world = *state;
    for (int i = 0; i < FLOOD; i++)
        close(come(world, 1234));
    assert_int_equal(world->lines, 0);
    int one = come(world, 1234);
    assert_heard(world, one);
    close(one);
}

static void others_are_not_believed(void **state)
{
    struct world *world = *state;
    int ends[2];
    if (geteuid() == 0) {
        assert_int_equal(seteuid(12345), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        assert_int_equal(seteuid(0), 0);
        cop__gather_guest(world->gather, ends[0], 0);
        assert_true(is_closed(ends[1]));
        assert_int_equal(world->lines, 1);
        close(ends[1]);
    }
    int own = come(world, 0);
    assert_heard(world, own);
    close(own);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nobody_is_looked_for),     TEST(the_silent_keep_nobody_out),
        TEST(a_flood_is_not_looked_at), TEST(who_only_looks_is_no_flood),
        TEST(others_are_not_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
