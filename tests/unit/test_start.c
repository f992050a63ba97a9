/* SPDX-License-Identifier: Apache-2.0 */
/* How a cluster began, as a text that somebody else sent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_alloc.h"
#include "run/address.h"
#include "run/start.h"

#include <string.h>

static const char good[] = "# a comment\n"
                           "cluster 0123456789abcdef0123456789abcdef\n"
                           "instance 17\n"
                           "first 18\n"
                           "shape kary:3\n"
                           "quorum has:0,2\n"
                           "detector ring:50ms,witnesses:1\n"
                           "directory /run/x\n"
                           "\n"
                           "0 n0 unix:m0.sock\n"
                           "1 db1 tcp:127.0.0.1:7001\n"
                           "2 n2 tcp:[::1]:7002";

static int read_text(struct cop__start *start, const char *text, size_t length)
{
    char why[200] = "";
    cop__start_init(start);
    int error = cop__start_read(start, text, length, why, sizeof why);
    if (error == COP_EINVAL)
        assert_true(strlen(why) > 5);
    return error;
}

static void check_good(const struct cop__start *start)
{
    struct cop__address address;
    char text[COP__ADDRESS_TEXT];
    assert_int_equal(start->cluster[0], 0x01);
    assert_int_equal(start->cluster[15], 0xef);
    assert_int_equal(start->instance, 17);
    assert_int_equal(start->first, 18);
    assert_int_equal(start->shape.kind, COP_SHAPE_KARY);
    assert_int_equal(start->quorum, COP_QUORUM_HAS);
    assert_int_equal(start->quorum_ids.count, 2);
    assert_int_equal(start->quorum_ids.items[1], 2);
    assert_int_equal(start->detect.ring_period_ns, 50 * COP_MSEC);
    assert_int_equal(start->detect.witnesses, 1);
    assert_int_equal(start->n, 3);
    assert_int_equal(cop__start_address(start, 0, &address), 0);
    cop__address_print(&address, text, sizeof text);
    assert_string_equal(text, "unix:/run/x/m0.sock");
    assert_int_equal(cop__start_address(start, 2, &address), 0);
    cop__address_print(&address, text, sizeof text);
    assert_string_equal(text, "tcp:[::1]:7002");
    assert_int_equal(cop__start_address(start, 3, &address), COP_ENOENT);
    assert_int_equal(cop__start_find(start, "db1"), 1);
    assert_int_equal(cop__start_find(start, "2"), 2);
    assert_int_equal(cop__start_find(start, "3"), COP_ID_NONE);
    assert_int_equal(cop__start_find(start, "db2"), COP_ID_NONE);
}

static void text_and_back(void **state)
{
    struct cop__start first, second;
    (void)state;
    assert_int_equal(read_text(&first, good, strlen(good)), 0);
    check_good(&first);
    struct cop_buf *text = cop__start_describe(&first);
    assert_int_equal(read_text(&second, (const char *)text->data, text->length), 0);
    check_good(&second);
    cop_buf_unref(text);
    cop__start_free(&first);
    cop__start_free(&second);
}

/* Whatever comes: an answer, and nothing left behind. */
static void every_beginning(void **state)
{
    (void)state;
    for (size_t length = 0; length < strlen(good); length++) {
        struct cop__start start;
        size_t live = failing_alloc_live();
        int error = read_text(&start, good, length);
        assert_true(error == 0 || error == COP_EINVAL);
        cop__start_free(&start);
        assert_int_equal(failing_alloc_live(), live);
    }
}

static void lines_that_are_wrong(void **state)
{
    static const char *const wrong[] = {
        "cluster 012\n0 n0 unix:a",
        "instance 1\n0 n0 unix:a",
        "cluster 0123456789abcdef0123456789abcdef",
        "1 n1 unix:a",
        "0 n0",
        "0 n0 unix:a more",
        "0 n0 udp:1",
        "0 n0 tcp:host:1",
        "0 n0 tcp:127.0.0.1:0",
        "0 n0 tcp:127.0.0.1:65536",
        "instance 0",
        "instance x",
        "first 99999999999999999999",
        "shape round",
        "quorum half",
        "quorum has:2,1",
        "quorum has:1,",
        "quorum has:x",
        "detector ring:1ns",
        "detector ring:100ms,witnesses:17",
        "directory here",
        "colour red",
        "alone",
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct cop__start start;
        if (read_text(&start, wrong[i], strlen(wrong[i])) != COP_EINVAL)
            fail_msg("was taken: %s", wrong[i]);
        cop__start_free(&start);
    }
    char long_line[1000];
    struct cop__start start;
    memset(long_line, 'x', sizeof long_line);
    assert_int_equal(read_text(&start, long_line, sizeof long_line), COP_EINVAL);
    cop__start_free(&start);
}

static void no_memory(void **state)
{
    (void)state;
    bool is_hit = true;
    for (size_t n = 0; is_hit; n++) {
        struct cop__start start;
        char why[200];
        size_t live = failing_alloc_live();
        cop__start_init(&start);
        failing_alloc_after(n);
        int error = cop__start_read(&start, good, strlen(good), why, sizeof why);
        is_hit = failing_alloc_hit();
        failing_alloc_off();
        assert_int_equal(error, is_hit ? COP_ENOMEM : 0);
        cop__start_free(&start);
        assert_int_equal(failing_alloc_live(), live);
    }
}

static void names_make_ids(void **state)
{
    struct cop__start a, b, c;
    (void)state;
    cop__start_init(&a);
    cop__start_init(&b);
    cop__start_init(&c);
    cop__start_set_name(&a, "one");
    cop__start_set_name(&b, "one");
    cop__start_set_name(&c, "two");
    assert_memory_equal(a.cluster, b.cluster, 16);
    assert_memory_not_equal(a.cluster, c.cluster, 8);
    assert_memory_not_equal(a.cluster, a.cluster + 8, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_and_back),        cmocka_unit_test(every_beginning),
        cmocka_unit_test(lines_that_are_wrong), cmocka_unit_test(no_memory),
        cmocka_unit_test(names_make_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
