/* SPDX-License-Identifier: Apache-2.0 */
/* What the root of exec makes of the answers to its rounds: how long it waits for whom, whom it
 * believes, and what it tells the command. */
#include "talk/serve.h"
#include "term/say.h" /* cmocka has another fail() */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exec/root.h"

#include <coppice/error.h>
#include <stdlib.h>
#include <string.h>

/* The agent's own code, over a node and a session of this test. */
static int fake_submit(struct cop__tcp *tcp, const struct cop_request *request);
static void fake_reply(struct session *session, int status, bool more,
                       const struct cop_buf *body);
static const struct cop_view *fake_view(const struct cop_node *node);
#define cop__tcp_submit fake_submit
#define cop__tcp_node(tcp) ((const struct cop_node *)(const void *)(tcp))
#define cop_node_view fake_view
#define session_reply fake_reply
#include "exec/agent.c"
#define on_retry root_on_retry
#define on_closed root_on_closed
#define view_of root_view_of
#undef RETRY_MS
#include "exec/root.c"
#undef on_retry
#undef on_closed
#undef view_of
#define on_out fetch_on_out
#include "exec/fetch.c"
#undef on_out
#include "exec/peek.c"
#undef cop__tcp_submit
#undef cop__tcp_node
#undef cop_node_view
#undef session_reply

#define MEMBERS 3u
#define SEEN 16u
#define NODE ((struct cop__tcp *)(void *)&world)
#define SESSION ((struct session *)(void *)&world)

static struct {
    uv_loop_t loop;
    struct exec *exec;
    struct cop_view *view;
    /* Rounds that were asked for, and what the command was told. */
    int rounds[SEEN];
    cop_time timeouts[SEEN];
    uint32_t round_count;
    uint8_t told[SEEN];
    uint32_t told_count;
    struct cop_id_range class; /* of the last that was told */
    uint32_t class_ranges;
} world;

static const struct cop_view *fake_view(const struct cop_node *node)
{
    assert_ptr_equal(node, &world);
    return world.view;
}

static int fake_submit(struct cop__tcp *tcp, const struct cop_request *request)
{
    struct exec_order order;
    struct cop__bytes bytes = {request->bytes, request->length};
    assert_ptr_equal(tcp, NODE);
    if (request->kind == COP_REQUEST_BCAST && exec_order_decode(bytes, &order) == 0) {
        assert_true(world.round_count < SEEN);
        world.rounds[world.round_count] = order.kind;
        world.timeouts[world.round_count++] = request->timeout_ns;
    }
    return 0;
}

static void fake_reply(struct session *session, int status, bool more,
                       const struct cop_buf *body)
{
    struct exec_note note;
    assert_ptr_equal(session, SESSION);
    (void)status;
    (void)more;
    assert_int_equal(
        exec_note_decode((struct cop__bytes){body->data, body->length}, &note), 0);
    assert_true(world.told_count < SEEN);
    world.told[world.told_count++] = note.kind;
    if (note.kind == EXEC_CLASS) {
        world.class_ranges = note.ranges.count;
        world.class = exec_range_at(note.ranges, 0);
    }
}

static bool was_told(enum exec_note_kind kind)
{
    return memchr(world.told, (int)kind, world.told_count) != NULL;
}

static int set_up(void **state)
{
    struct exec_config config = {.loop = &world.loop};
    struct cop_shape shape;
    (void)state;
    memset(&world, 0, sizeof world);
    assert_int_equal(cop_shape_make(COP_SHAPE_CHAIN, 0, &shape), 0);
    assert_int_equal(cop_view_create_static(MEMBERS, &shape, 1, &world.view), 0);
    assert_int_equal(uv_loop_init(&world.loop), 0);
    assert_int_equal(exec_create(&config, &world.exec), 0);
    exec_set_node(world.exec, NODE, 0, true);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (world.exec->calls != NULL)
        free_call(world.exec->calls);
    exec_close(world.exec);
    uv_run(&world.loop, UV_RUN_DEFAULT);
    cop_view_unref(world.view);
    return uv_loop_close(&world.loop);
}

/* A run at all members, in this round. */
static struct exec_call *begin_call(enum exec_kind round, uint8_t flags)
{
    struct exec_call *call = calloc(1, sizeof *call);
    assert_non_null(call);
    call->exec = world.exec;
    call->session = SESSION;
    call->run = 1;
    call->round = round;
    call->order.flags = flags;
    uv_timer_init(&world.loop, &call->timer);
    call->timer.data = call;
    call->fates = calloc(MEMBERS + 1, sizeof *call->fates);
    assert_non_null(call->fates);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        assert_int_equal(cop_ranks_push(&call->meant, i), 0);
        call->fates[i] = (struct cop_failure){i, i, COP_ELOST, COP_PHASE_REPLY};
    }
    world.exec->calls = call;
    return call;
}

/* What a broadcast comes back with: those who failed, and what the others said, counted. */
static struct cop_buf *result_of(const struct cop_failure *failures, uint32_t failed,
                                 struct cop__bytes data)
{
    struct cop_buf *buf =
        cop_buf_create(25 + failed * EXEC_FAILURE_SIZE + 4 + data.length);
    assert_non_null(buf);
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    cop__put_u32(&writer, MEMBERS);
    cop__put_u32(&writer, MEMBERS - failed);
    cop__put_u32(&writer, 0);
    cop__put_u64(&writer, 1);
    cop__put_u8(&writer, COP_OP_COUNT);
    cop__put_u32(&writer, failed);
    for (uint32_t i = 0; i < failed; i++)
        exec_failure_put(&writer, &failures[i]);
    cop__put_bytes(&writer, data);
    assert_true(!writer.failed && writer.at == writer.end);
    return buf;
}

/* 2 was silent before, so rounds are short. 1 ran it, and misses one of them. */
static void who_misses_one_round_is_gathered(void **state)
{
    static const struct cop_failure both[] = {{1, 1, COP_ETIMEDOUT, COP_PHASE_REPLY},
                                              {2, 2, COP_ETIMEDOUT, COP_PHASE_REPLY}};
    struct exec_call *call = begin_call(EXEC_WAIT, 0);
    struct cop_buf *result = result_of(both, 2, (struct cop__bytes){NULL, 0});
    (void)state;
    call->has_silent = true;
    call->fates[2].status = COP_ETIMEDOUT;
    exec_call_round(call, result);
    cop_buf_unref(result);
    assert_int_equal(world.round_count, 1);
    assert_int_equal(world.rounds[0], EXEC_GATHER);
    assert_int_equal(world.timeouts[0], EXEC_WHOLE_ROUND);
    assert_false(was_told(EXEC_END));
}

/* A member that says it speaks for everybody there could be speaks for those who are meant. */
static void whom_a_member_speaks_for(void **state)
{
    struct exec_record record = {.end = 0};
    struct cop_buf *encoded = exec_record_encode(&record);
    uint8_t data[256];
    struct cop__writer writer = cop__writer(data, sizeof data);
    (void)state;
    struct exec_call *call = begin_call(EXEC_GATHER, 0);
    cop__put_u32(&writer, 1);
    cop__put_u32(&writer, encoded->length);
    exec_range_put(&writer, (struct cop_id_range){0, 1u << 20});
    memcpy(writer.at, encoded->data, encoded->length);
    struct cop__bytes bytes = {data, (uint32_t)(writer.at - data) + encoded->length};
    struct cop_buf *result = result_of(NULL, 0, bytes);
    exec_call_round(call, result);
    cop_buf_unref(result);
    cop_buf_unref(encoded);
    assert_true(was_told(EXEC_CLASS));
    assert_int_equal(world.class_ranges, 1);
    assert_int_equal(world.class.first, 0);
    assert_int_equal(world.class.last, MEMBERS - 1);
    assert_true(was_told(EXEC_END));
}

/* Who takes no waves gets one class for all who said the same, and so not before the end. */
static void waves_are_for_those_who_take_them(void **state)
{
    struct exec_call *call = begin_call(EXEC_WAIT, 0);
    (void)state;
    exec_peek_arm(call);
    assert_false(uv_is_active((uv_handle_t *)&call->timer));
    call->order.flags = EXEC_FLAG_WAVES;
    exec_peek_arm(call);
    assert_true(uv_is_active((uv_handle_t *)&call->timer));
}

/* Of two who have not answered one is not in the view any more. */
static void who_is_dead_is_not_awaited(void **state)
{
    struct exec_call *call = begin_call(EXEC_WAIT, EXEC_FLAG_WAVES);
    (void)state;
    call->fates[0].status = 0;
    call->fates[1].status = call->fates[2].status = COP_ETIMEDOUT;
    assert_true(is_awaited(call, 2));
    call->meant.items[2] = MEMBERS;
    assert_true(is_awaited(call, 1));
    assert_false(is_awaited(call, 0));
    assert_false(is_awaited(call, 2));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(who_misses_one_round_is_gathered),
        TEST(whom_a_member_speaks_for),
        TEST(waves_are_for_those_who_take_them),
        TEST(who_is_dead_is_not_awaited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
