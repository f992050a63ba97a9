/* SPDX-License-Identifier: Apache-2.0 */
/* An agent that cannot tell everybody of an agreement gives the group back: those who were told
 * wait for it otherwise, and the group would stay. */
#include "term/say.h" /* cmocka has another fail() */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/agreeing.h"

#include <coppice/error.h>
#include <stdlib.h>
#include <string.h>

/* The agent's own code, over a node and a session of this test. */
static int fake_submit(struct cop__tcp *tcp, const struct cop_request *request);
static void fake_reply(struct session *session, int status, bool more,
                       const struct cop_buf *body);
static const struct cop_view *fake_view(void);
#define cop__tcp_submit fake_submit
#define cop__tcp_used_loop(tcp) ((void)(tcp))
#define cop_node_view(node) fake_view()
#define session_reply fake_reply
#include "agent/agreeing.c"
#undef cop__tcp_submit
#undef cop__tcp_used_loop
#undef cop_node_view
#undef session_reply

#define MEMBERS 4u
#define NODE ((struct cop__tcp *)(void *)&world)
#define SESSION ((struct session *)(void *)&world)

static struct {
    struct agreeings agreeings;
    struct cop_view *view;
    struct cop_log log;
    cop_id refused; /* no letter can be sent to it */
    uint32_t told, made, freed, called;
    uint64_t group;
    int status; /* that the session was told; 1: nothing yet */
} world;

static const struct cop_view *fake_view(void) { return world.view; }

static void fake_reply(struct session *session, int status, bool more,
                       const struct cop_buf *body)
{
    (void)more;
    (void)body;
    assert_ptr_equal(session, SESSION);
    world.status = status;
}

static int fake_submit(struct cop__tcp *tcp, const struct cop_request *request)
{
    assert_ptr_equal(tcp, NODE);
    switch (request->kind) {
    case COP_REQUEST_AGREE_GROUP:
        world.made++;
        world.group = request->new_group->number;
        return 0;
    case COP_REQUEST_AGREE_FREE:
        assert_int_equal(request->group, world.group);
        world.freed++;
        return 0;
    case COP_REQUEST_SEND:
        world.told++;
        return request->member == world.refused ? COP_EAGAIN : 0;
    default:
        assert_int_equal(request->kind, COP_REQUEST_AGREE);
        world.called++;
        return 0;
    }
}

static int set_up(void **state)
{
    struct cop_shape shape = {.kind = COP_SHAPE_FLAT};
    (void)state;
    memset(&world, 0, sizeof world);
    world.refused = COP_ID_NONE;
    world.status = 1;
    assert_int_equal(cop_view_create_static(MEMBERS, &shape, 1, &world.view), 0);
    agreeings_init(&world.agreeings, NULL, &world.log);
    agreeings_begin(&world.agreeings, NODE, 0, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    agreeings_end(&world.agreeings, COP_ESTATE);
    cop_view_unref(world.view);
    return 0;
}

static void order(void)
{
    struct agree_order order = {.count = 1, .window = 1, .timeout_ns = COP_SEC};
    struct cop_buf *body = agree_order_encode(&order);
    assert_non_null(body);
    agreeings_order(&world.agreeings, SESSION,
                    (struct cop__bytes){body->data, body->length});
    cop_buf_unref(body);
}

static void all_are_told(void **state)
{
    (void)state;
    order();
    assert_int_equal(world.told, MEMBERS - 1);
    assert_int_equal(world.made, 1);
    assert_int_equal(world.freed, 0);
    assert_int_equal(world.called, 1);
    assert_int_equal(world.status, 1);
}

static void one_cannot_be_told(void **state)
{
    (void)state;
    world.refused = 2;
    order();
    assert_int_equal(world.status, COP_EAGAIN);
    assert_int_equal(world.told, 2); /* one of them has it */
    assert_int_equal(world.made, 1);
    assert_int_equal(world.freed, 1);
    assert_int_equal(world.called, 0);
    assert_null(world.agreeings.first);
}

static void count_line(void *context, enum cop_log_level level, const char *line)
{
    uint32_t *lines = context;
    (void)level;
    (void)line;
    ++*lines;
}

/* A member that begins agreements without end, and never calls: what is kept of them has a bound,
 * and so has what is said. */
static void begun_without_end(void **state)
{
    uint32_t lines = 0;
    struct cop_life lives[] = {{0, 1}, {1, 1}};
    struct agree_start start = {
        .order = {.count = 1, .window = 1, .timeout_ns = COP_SEC},
        .members = lives,
        .count = 2};
    (void)state;
    world.log = (struct cop_log){count_line, &lines, COP_LOG_DEBUG};
    for (start.group = 1; start.group <= 5 * AGREEINGS_MAX; start.group++) {
        struct cop_buf *letter = agree_start_encode(&start);
        assert_non_null(letter);
        assert_true(agreeings_deliver(&world.agreeings, letter));
        cop_buf_unref(letter);
    }
    assert_int_equal(world.made, AGREEINGS_MAX);
    assert_int_equal(world.called, AGREEINGS_MAX);
    assert_int_equal(lines, 1);
    agreeings_end(&world.agreeings, COP_ESTATE);
    assert_int_equal(world.agreeings.count, 0);
    agreeings_begin(&world.agreeings, NODE, 0, 1);
    order();
    assert_int_equal(world.made, AGREEINGS_MAX + 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(all_are_told), TEST(one_cannot_be_told),
                                       TEST(begun_without_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
