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

/* Who connects and says nothing takes no place from whoever has something to say. */
static void the_silent_keep_nobody_out(void **state)
{
    int ends[SILENT + 1][2];
    uint32_t missing = UINT32_MAX;
    uv_loop_t loop;
    uv_timer_t limit;
    struct cop__gather *gather;
    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    uv_timer_init(&loop, &limit);
    uv_timer_start(&limit, on_too_late, 60000, 0);
    uv_unref((uv_handle_t *)&limit);
    struct cop__gather_config config = {.loop = &loop,
                                        .count = 2,
                                        .address = nowhere,
                                        .patience_ns = 1000 * COP_SEC,
                                        .done = on_done,
                                        .context = &missing};
    assert_int_equal(cop__gather_create(&config, &gather), 0);
    for (int i = 0; i <= SILENT; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[i]), 0);
        cop__gather_guest(gather, ends[i][0]);
    }
    assert_int_equal(send(ends[SILENT][1], "x", 1, MSG_NOSIGNAL), 1);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(missing, 1);
    for (int i = 0; i <= SILENT; i++)
        close(ends[i][1]);
    uv_close((uv_handle_t *)&limit, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_silent_keep_nobody_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
