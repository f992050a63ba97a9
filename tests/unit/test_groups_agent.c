/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups of agents whose clocks differ: what was set last holds, also against one that was set by
 * a clock that is ahead, and everybody takes the same of two that were set at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "groups/agent.h"

#include <coppice/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The agent's own code, over members, sessions and clocks of this test. */
static int fake_submit(struct cop__tcp *tcp, const struct cop_request *request);
static void fake_reply(struct session *session, int status, bool more,
                       const struct cop_buf *body);
static int fake_clock(clockid_t clock, struct timespec *out);
#define cop__tcp_submit fake_submit
#define session_reply fake_reply
#define clock_gettime fake_clock
#include "groups/agent.c"
#undef cop__tcp_submit
#undef session_reply
#undef clock_gettime

#define MEMBERS 3u

/* A broadcast that is on its way. */
struct cast {
    cop_id from;
    uint64_t token;
    uint8_t op;
    struct cop_buf *bytes;
};

static struct {
    struct groups_agent agents[MEMBERS];
    bool is_away[MEMBERS]; /* not there: asked for nothing, and lost to the others */
    time_t clocks[MEMBERS];
    time_t now; /* of the agent that is called */
    struct cast casts[8];
    uint32_t cast_count;
    struct cop_buf *answer; /* of the member that is asked */
    int answered;           /* the status a session was told */
    uint32_t answers;
} world;

static struct session *const session = (struct session *)&world;

static int fake_clock(clockid_t clock, struct timespec *out)
{
    assert_int_equal(clock, CLOCK_REALTIME);
    *out = (struct timespec){.tv_sec = world.now};
    return 0;
}

static void fake_reply(struct session *to, int status, bool more,
                       const struct cop_buf *body)
{
    assert_ptr_equal(to, session);
    assert_false(more);
    (void)body;
    world.answered = status;
    world.answers++;
}

static int fake_submit(struct cop__tcp *tcp, const struct cop_request *request)
{
    cop_id self = (cop_id)((struct groups_agent *)(void *)tcp - world.agents);
    if (request->kind == COP_REQUEST_REPLY) {
        assert_null(world.answer);
        assert_int_equal(request->coll->status, 0);
        world.answer = cop_buf_copy(request->bytes, request->length);
        return 0;
    }
    assert_int_equal(request->kind, COP_REQUEST_BCAST);
    assert_true(world.cast_count < 8);
    world.casts[world.cast_count++] =
        (struct cast){.from = self,
                      .token = request->token,
                      .op = (uint8_t)request->coll->op,
                      .bytes = cop_buf_copy(request->bytes, request->length)};
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    memset(&world, 0, sizeof world);
    for (cop_id id = 0; id < MEMBERS; id++) {
        world.clocks[id] = 1000;
        groups_set_node(&world.agents[id], (struct cop__tcp *)(void *)&world.agents[id],
                        id, 0);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (cop_id id = 0; id < MEMBERS; id++) {
        groups_set_node(&world.agents[id], NULL, id, COP_ESTATE);
        groups_close(&world.agents[id]);
    }
    return 0;
}

/* ---- what a node would do ------------------------------------------------------------ */

/* As the tree would count them, but that equal answers are not put together. */
static void put_answer(struct cop__writer *writer, cop_id id)
{
    cop__put_u32(writer, 1);
    cop__put_u32(writer, world.answer->length);
    cop__put_u32(writer, id);
    cop__put_u32(writer, id);
    for (uint32_t i = 0; i < world.answer->length; i++)
        cop__put_u8(writer, world.answer->data[i]);
    assert_false(writer->failed);
}

static struct cop_buf *pack(const struct cast *cast, const uint8_t *bytes,
                            uint32_t length)
{
    struct cop_buf *buf = cop_buf_create(21 + 4 + 4 + (size_t)length);
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    cop__put_u32(&writer, MEMBERS);
    cop__put_u32(&writer, MEMBERS);
    cop__put_u32(&writer, 0);
    cop__put_u64(&writer, 0);
    cop__put_u8(&writer, cast->op);
    cop__put_u32(&writer, 0); /* failures */
    cop__put_bytes(&writer, (struct cop__bytes){bytes, length});
    assert_false(writer.failed);
    return buf;
}

/* Brings a broadcast to all who are there, and back. */
static void carry(uint32_t which)
{
    struct cast cast = world.casts[which];
    uint8_t bytes[4096];
    struct cop__writer writer = cop__writer(bytes, sizeof bytes);
    world.casts[which].bytes = NULL;
    for (cop_id id = 0; id < MEMBERS; id++) {
        struct cop_upcall upcall = {
            .root = cast.from, .bytes = cast.bytes->data, .length = cast.bytes->length};
        if (world.is_away[id])
            continue;
        world.now = world.clocks[id];
        groups_upcall(&world.agents[id], &upcall);
        if (cast.op == COP_OP_COUNT)
            put_answer(&writer, id);
        cop_buf_unref(world.answer);
        world.answer = NULL;
    }
    struct cop_buf *result = pack(&cast, bytes, (uint32_t)(writer.at - bytes));
    world.now = world.clocks[cast.from];
    assert_true(groups_complete(&world.agents[cast.from], cast.token, 0, result));
    cop_buf_unref(result);
    cop_buf_unref(cast.bytes);
}

static void carry_all(void)
{
    for (uint32_t i = 0; i < world.cast_count; i++)
        if (world.casts[i].bytes != NULL)
            carry(i);
    world.cast_count = 0;
}

/* ---- what people do ---------------------------------------------------------------- */

static void begin_set(cop_id at, const char *text)
{
    struct group group = {.name = "web", .text = (char *)(uintptr_t)text};
    struct cop_buf *body = group_encode(&group);
    world.now = world.clocks[at];
    groups_set(&world.agents[at], session,
               (struct cop__bytes){body->data, body->length});
    cop_buf_unref(body);
}

static void set(cop_id at, const char *text)
{
    uint32_t before = world.answers;
    begin_set(at, text);
    carry_all();
    assert_int_equal(world.answers, before + 1);
    assert_int_equal(world.answered, 0);
}

static void assert_all_have(const char *text)
{
    for (cop_id id = 0; id < MEMBERS; id++) {
        const struct group *group = groups_find(&world.agents[id].groups, "web");
        if (world.is_away[id])
            continue;
        if (*text == '\0') {
            assert_null(group);
        } else {
            assert_non_null(group);
            assert_string_equal(group->text, text);
        }
    }
}

/* ---- tests ------------------------------------------------------------------------- */

static void by_a_clock_that_is_behind(void **state)
{
    (void)state;
    world.clocks[0] = 2000;
    set(0, "a");
    set(1, "b");
    assert_all_have("b");
    set(2, ""); /* removed */
    assert_all_have("");
    set(1, "c");
    assert_all_have("c");
}

/* Whoever came later has not heard of it, and its clock is behind. */
static void by_one_who_does_not_know_of_it(void **state)
{
    (void)state;
    world.is_away[2] = true;
    world.clocks[0] = 2000;
    set(0, "a");
    world.is_away[2] = false;
    set(2, "b");
    assert_all_have("b");
}

static void removed_by_one_who_does_not_know_of_it(void **state)
{
    (void)state;
    world.is_away[2] = true;
    world.clocks[0] = 2000;
    set(0, "a");
    world.is_away[2] = false;
    set(2, "");
    assert_all_have("");
}

static uint64_t version_of(const struct cast *cast)
{
    struct group group;
    struct cop__bytes bytes = {cast->bytes->data + 1, cast->bytes->length - 1};
    assert_int_equal(group_decode(bytes, &group), 0);
    free(group.text);
    return group.version;
}

/* Two at once, at one agent, of whose clock another is ahead: equal versions of one origin would
 * be two texts that nobody could tell apart, and who takes which would depend on what came first. */
static void two_at_once_at_one(void **state)
{
    (void)state;
    world.clocks[0] = 2000;
    set(0, "a");
    begin_set(1, "b");
    begin_set(1, "c");
    assert_int_equal(world.cast_count, 2);
    assert_true(version_of(&world.casts[1]) > version_of(&world.casts[0]));
    carry(1);
    carry(0);
    carry_all();
    assert_int_equal(world.answers, 3);
    assert_all_have("c");
}

/* Its clock went back, and it has forgotten what it set in its life before. */
static void by_a_new_life(void **state)
{
    (void)state;
    world.clocks[2] = 2000;
    set(2, "a");
    groups_close(&world.agents[2]);
    world.clocks[2] = 1000;
    set(2, "b");
    assert_all_have("b");
}

/* Two at once, at two agents: of equal versions that of the larger id holds. */
static void two_at_once_at_two(void **state)
{
    (void)state;
    for (uint32_t first = 0; first < 2; first++) {
        set(0, "a");
        begin_set(1, "b");
        begin_set(2, "c");
        assert_int_equal(world.cast_count, 2);
        carry(first);
        carry(1 - first);
        carry_all();
        assert_all_have("c");
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(by_a_clock_that_is_behind),
        TEST(by_one_who_does_not_know_of_it),
        TEST(removed_by_one_who_does_not_know_of_it),
        TEST(by_a_new_life),
        TEST(two_at_once_at_one),
        TEST(two_at_once_at_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
