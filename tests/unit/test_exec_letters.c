/* SPDX-License-Identifier: Apache-2.0 */
/* Letters of exec that cannot be sent yet: each waits only for those before it to the same
 * member. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exec/parts.h"

#include <coppice/error.h>
#include <stdlib.h>
#include <string.h>

/* The agent's own code, over a node of this test. */
static int fake_submit(struct cop__tcp *tcp, const struct cop_request *request);
#define cop__tcp_submit fake_submit
#include "exec/agent.c"
#undef cop__tcp_submit

#define SELF 0u
#define FULL 1u /* the member for whom there may be no room */
#define FREE 2u
#define NODE ((struct cop__tcp *)(void *)&world)

static struct {
    uv_loop_t loop;
    struct exec *exec;
    uint32_t refusals; /* so often there is no room for FULL */
    char sent[32];     /* to whom, and which: "1a2b" */
} world;

static int fake_submit(struct cop__tcp *tcp, const struct cop_request *request)
{
    struct exec_note note;
    size_t at = strlen(world.sent);
    struct cop__bytes bytes = {request->bytes, request->length};
    assert_ptr_equal(tcp, NODE);
    assert_int_equal(request->kind, COP_REQUEST_SEND);
    assert_int_equal(exec_note_decode(bytes, &note), 0);
    if (world.refusals > 0 && request->member == FULL) {
        world.refusals--;
        return COP_EAGAIN;
    }
    assert_true(at + 2 < sizeof world.sent);
    world.sent[at] = (char)('0' + request->member);
    world.sent[at + 1] = (char)note.run;
    return 0;
}

static int set_up(void **state)
{
    struct exec_config config = {.loop = &world.loop};
    (void)state;
    memset(&world, 0, sizeof world);
    assert_int_equal(uv_loop_init(&world.loop), 0);
    assert_int_equal(exec_create(&config, &world.exec), 0);
    exec_set_node(world.exec, NODE, SELF, true);
    world.refusals = UINT32_MAX;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    exec_close(world.exec);
    uv_run(&world.loop, UV_RUN_DEFAULT);
    return uv_loop_close(&world.loop);
}

static void post(cop_id to, char which)
{
    struct exec_note note = {.kind = EXEC_NEXT, .run = (uint64_t)which};
    exec_post(world.exec, to, &note);
}

static void to_others_at_once(void **state)
{
    (void)state;
    post(FULL, 'a');
    post(FREE, 'b');
    assert_string_equal(world.sent, "2b");
    assert_non_null(world.exec->letters);
}

static void to_one_in_order(void **state)
{
    (void)state;
    post(FULL, 'a');
    world.refusals = 0;
    post(FULL, 'b'); /* there is room, but one waits before it */
    assert_string_equal(world.sent, "");
    on_retry(&world.exec->retry);
    assert_string_equal(world.sent, "1a1b");
    assert_null(world.exec->letters);
}

/* There is room for the second, but the first was turned away a moment before. */
static void room_comes_meanwhile(void **state)
{
    (void)state;
    post(FULL, 'a');
    post(FULL, 'b');
    world.refusals = 1;
    on_retry(&world.exec->retry);
    assert_string_equal(world.sent, "");
    on_retry(&world.exec->retry);
    assert_string_equal(world.sent, "1a1b");
}

/* Two wait to different members, and the first still has to. */
static void tried_again_past_one_who_is_full(void **state)
{
    (void)state;
    post(FULL, 'a');
    post(FULL, 'b');
    keep_letter(world.exec, FREE, cop_buf_ref(world.exec->letters->bytes));
    on_retry(&world.exec->retry);
    assert_string_equal(world.sent, "2a");
    assert_true(uv_is_active((const uv_handle_t *)&world.exec->retry));
    world.refusals = 0;
    on_retry(&world.exec->retry);
    assert_string_equal(world.sent, "2a1a1b");
    assert_null(world.exec->letters);
}

/* Who asks without end and takes nothing: what waits for it has a bound, and others do not mind. */
static void asked_without_end(void **state)
{
    uint32_t kept = 0;
    (void)state;
    for (uint32_t i = 0; i < 10 * EXEC_LETTERS_MAX; i++)
        post(FULL, 'a');
    for (const struct exec_letter *letter = world.exec->letters; letter != NULL;
         letter = letter->next)
        kept++;
    assert_int_equal(kept, EXEC_LETTERS_MAX);
    assert_true(world.exec->unread.held > 0);
    post(FREE, 'b');
    assert_string_equal(world.sent, "2b");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(to_others_at_once),    TEST(to_one_in_order),
        TEST(room_comes_meanwhile), TEST(tried_again_past_one_who_is_full),
        TEST(asked_without_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
