/* SPDX-License-Identifier: Apache-2.0 */
/* A put that the node has given up before the member could say yes leaves nothing behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The member's own code, over a node of this test. */
#define put_submit fake_submit
#include "put/sink.c"
#undef put_submit

static struct {
    struct put put;
    struct exec_allow allow;
    int answer; /* of the node */
    uint32_t checked;
    int status; /* that it was told */
} world;

int fake_submit(struct put *put, enum cop_request_kind kind, struct cop_coll *coll,
                const void *bytes, uint32_t length)
{
    (void)bytes;
    (void)length;
    assert_ptr_equal(put, &world.put);
    assert_int_equal(kind, COP_REQUEST_CHECKED);
    world.checked++;
    world.status = coll->status;
    return world.answer;
}

static void name_of(void *context, cop_id id, char out[COP_NAME_MAX + 1])
{
    (void)context;
    snprintf(out, COP_NAME_MAX + 1, "n%u", (unsigned)id);
}

static void audit(void *context, char *line)
{
    (void)context;
    assert_non_null(strstr(line, "put /tmp/x"));
}

static int set_up(void **state)
{
    (void)state;
    memset(&world, 0, sizeof world);
    world.allow.all = true;
    world.put.self = 1;
    world.put.config = (struct put_config){
        .allow = &world.allow, .name = "n1", .name_of = name_of, .audit = audit};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    put_sinks_end(&world.put);
    return world.put.sinks == NULL ? 0 : -1;
}

static void check(uint64_t handle)
{
    struct put_order order = {.mode = 0600,
                              .dest = {(const uint8_t *)"/tmp/x", 6},
                              .user = {(const uint8_t *)"joe", 3}};
    struct cop_buf *bytes = put_order_encode(&order);
    assert_non_null(bytes);
    struct cop_upcall upcall = {.kind = COP_UPCALL_CHECK,
                                .handle = handle,
                                .root = 0,
                                .flags = COP_BCAST_BULK,
                                .bytes = bytes->data,
                                .length = bytes->length};
    put_sink_upcall(&world.put, &upcall, NULL);
    cop_buf_unref(bytes);
}

static void begun(void **state)
{
    (void)state;
    check(7);
    assert_int_equal(world.checked, 1);
    assert_int_equal(world.status, 0);
    assert_non_null(find_sink(&world.put, 7));
}

static void over_before_it_began(void **state)
{
    (void)state;
    check(7);
    world.answer = COP_ENOENT;
    check(8);
    assert_int_equal(world.checked, 2);
    assert_null(find_sink(&world.put, 8));
    assert_non_null(find_sink(&world.put, 7));
    assert_null(world.put.sinks->next);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(begun), TEST(over_before_it_began)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
