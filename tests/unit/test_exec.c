/* SPDX-License-Identifier: Apache-2.0 */
/* What exec and groups say on the wire, who may run commands, and what a group stands for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exec/allow.h"
#include "exec/exec.h"
#include "exec/job.h"
#include "groups/groups.h"

#include <coppice/error.h>
#include <stdio.h>
#include <stdlib.h>

static struct cop__bytes bytes_of(const struct cop_buf *buf)
{
    return (struct cop__bytes){buf->data, buf->length};
}

/* ---- the wire -------------------------------------------------------------------- */

static const uint8_t words[] = "echo\0a b";

static struct exec_order make_order(void)
{
    return (struct exec_order){.kind = EXEC_RUN,
                               .flags = EXEC_FLAG_INPUT,
                               .run = 7,
                               .timeout_ns = COP_SEC,
                               .limit = 100,
                               .inline_max = EXEC_INLINE,
                               .words = {words, sizeof words},
                               .input = {words, 3}};
}

static int decode_order(const struct exec_order *order, struct exec_order *out)
{
    struct cop_buf *buf = exec_order_encode(order);
    assert_non_null(buf);
    int error = exec_order_decode(bytes_of(buf), out);
    cop_buf_unref(buf);
    return error;
}

static void orders(void **state)
{
    struct exec_order order = make_order(), got;
    (void)state;
    struct cop_buf *buf = exec_order_encode(&order);
    assert_int_equal(exec_order_decode(bytes_of(buf), &got), 0);
    assert_int_equal(got.run, 7);
    assert_int_equal(got.input.length, 3);
    char **list = exec_words(got.words);
    assert_string_equal(list[0], "echo");
    assert_string_equal(list[1], "a b");
    assert_null(list[2]);
    free(list);
    /* Any shorter one is none. */
    for (uint32_t length = 0; length < buf->length; length++)
        assert_int_equal(
            exec_order_decode((struct cop__bytes){buf->data, length}, &got),
            COP_EMALFORMED);
    cop_buf_unref(buf);
}

static void bad_orders(void **state)
{
    struct exec_order got;
    (void)state;
    struct exec_order order = make_order();
    order.words.length--; /* not ended by 0 */
    assert_int_equal(decode_order(&order, &got), COP_EMALFORMED);
    order.words.length = 0;
    assert_int_equal(decode_order(&order, &got), COP_EMALFORMED);
    order = make_order();
    order.limit = 0;
    assert_int_equal(decode_order(&order, &got), COP_EMALFORMED);
    order.limit = EXEC_LIMIT_MAX + 1;
    assert_int_equal(decode_order(&order, &got), COP_EMALFORMED);
    order = make_order();
    order.timeout_ns = EXEC_TIMEOUT_MAX + 1;
    assert_int_equal(decode_order(&order, &got), COP_EMALFORMED);
    order = make_order();
    order.kind = EXEC_RELEASE + 1;
    assert_int_equal(decode_order(&order, &got), COP_EMALFORMED);
}

static int decode_record(const struct exec_record *record)
{
    struct exec_record got;
    struct cop_buf *buf = exec_record_encode(record);
    assert_non_null(buf);
    int error = exec_record_decode(bytes_of(buf), &got);
    cop_buf_unref(buf);
    return error;
}

/* What a record says of its texts must be true, or a reader would write beyond them. */
static void records(void **state)
{
    static const uint8_t digest[EXEC_DIGEST] = {1};
    struct exec_record record = {
        .end = JOB_EXITED, .total = {9, 0}, .kept = {3, 0}, .text = {{words, 3}}};
    (void)state;
    assert_int_equal(decode_record(&record), 0);
    record.kept[0] = 4;
    assert_int_equal(decode_record(&record), COP_EMALFORMED);
    record.kept[0] = 3;
    record.total[0] = 2;
    assert_int_equal(decode_record(&record), COP_EMALFORMED);
    record.total[0] = 9;
    record.flags = EXEC_APART; /* then there is a digest, and no text */
    assert_int_equal(decode_record(&record), COP_EMALFORMED);
    record.text[0].length = 0;
    assert_int_equal(decode_record(&record), COP_EMALFORMED);
    record.digest = (struct cop__bytes){digest, sizeof digest};
    assert_int_equal(decode_record(&record), 0);
}

static void notes(void **state)
{
    struct exec_note got;
    struct exec_note note = {
        .kind = EXEC_OUT, .run = 3, .count = 2, .bytes = {words, 3}};
    (void)state;
    struct cop_buf *buf = exec_note_encode(&note);
    assert_int_equal(exec_note_decode(bytes_of(buf), &got), 0);
    assert_int_equal(got.count, 2);
    buf->data[0]++; /* a letter of somebody else's */
    assert_int_equal(exec_note_decode(bytes_of(buf), &got), COP_EMALFORMED);
    cop_buf_unref(buf);
    note.count = 4; /* more standard output than there is */
    buf = exec_note_encode(&note);
    assert_int_equal(exec_note_decode(bytes_of(buf), &got), COP_EMALFORMED);
    cop_buf_unref(buf);
}

/* ---- who may --------------------------------------------------------------------- */

static void allow(void **state)
{
    struct exec_allow allow;
    char message[200];
    (void)state;
    assert_int_equal(exec_allow_parse(NULL, &allow, message, sizeof message), 0);
    assert_false(exec_allow_has(&allow, "n0", "root"));
    assert_int_equal(
        exec_allow_parse("n[1,3],user:ann,login", &allow, message, sizeof message), 0);
    assert_true(exec_allow_has(&allow, "n3", "bob"));
    assert_true(exec_allow_has(&allow, "login", "bob"));
    assert_true(exec_allow_has(&allow, "n2", "ann"));
    assert_false(exec_allow_has(&allow, "n2", "an"));
    assert_false(exec_allow_has(&allow, "n2", "anna"));
    assert_false(exec_allow_has(&allow, "ann", "login"));
    exec_allow_free(&allow);
    assert_int_equal(exec_allow_parse("all", &allow, message, sizeof message), 0);
    assert_true(exec_allow_has(&allow, "x", "y"));
    exec_allow_free(&allow);
    assert_int_equal(exec_allow_parse("none", &allow, message, sizeof message), 0);
    assert_false(exec_allow_has(&allow, "none", "none"));
    exec_allow_free(&allow);
    assert_int_equal(exec_allow_parse("n[1", &allow, message, sizeof message),
                     COP_EINVAL);
    assert_int_equal(exec_allow_parse("user:", &allow, message, sizeof message),
                     COP_EINVAL);
}

/* ---- groups ---------------------------------------------------------------------- */

static void put(struct groups *groups, const char *name, const char *text,
                uint64_t version, cop_id origin)
{
    struct group group = {.version = version, .origin = origin};
    snprintf(group.name, sizeof group.name, "%s", name);
    group.text = (char *)(uintptr_t)text;
    assert_int_equal(groups_merge(groups, &group), 0);
}

/* After the last version there could be none: it is nobody's. */
static void versions_have_an_end(void **state)
{
    struct group group = {.name = "a",
                          .text = (char *)(uintptr_t) "n1",
                          .version = GROUPS_VERSION_MAX,
                          .origin = 1},
                 same;
    (void)state;
    struct cop_buf *buf = group_encode(&group);
    assert_int_equal(group_decode(bytes_of(buf), &same), 0);
    free(same.text);
    cop_buf_unref(buf);
    group.version++;
    buf = group_encode(&group);
    assert_int_equal(group_decode(bytes_of(buf), &same), COP_EMALFORMED);
    cop_buf_unref(buf);
}

/* The later one holds, whatever comes first; a removal is one, too. */
static void latest_holds(void **state)
{
    struct groups groups = {0}, same = {0};
    (void)state;
    put(&groups, "a", "n1", 5, 1);
    put(&groups, "a", "n2", 4, 9);
    assert_string_equal(groups_find(&groups, "a")->text, "n1");
    put(&groups, "a", "n3", 5, 2);
    assert_string_equal(groups_find(&groups, "a")->text, "n3");
    put(&groups, "b", "n4", 1, 1);
    put(&groups, "a", "", 6, 0);
    assert_null(groups_find(&groups, "a"));
    struct cop_buf *buf = groups_encode(&groups);
    assert_int_equal(groups_decode(bytes_of(buf), &same), 0);
    assert_int_equal(same.count, 2);
    put(&same, "a", "n3", 5, 2);
    assert_null(groups_find(&same, "a"));
    assert_string_equal(groups_find(&same, "b")->text, "n4");
    groups_free(&same);
    for (uint32_t length = 1; length < 16; length++)
        assert_int_not_equal(
            groups_decode((struct cop__bytes){buf->data, length}, &same), 0);
    cop_buf_unref(buf);
    groups_free(&groups);
}

static void check_expand(const struct groups *groups, const char *text,
                         const char *wanted)
{
    char message[100];
    char *got = groups_expand(groups, text, message, sizeof message);
    if (wanted == NULL)
        assert_null(got);
    else
        assert_string_equal(got, wanted);
    free(got);
}

static void expand(void **state)
{
    struct groups groups = {0};
    (void)state;
    put(&groups, "web", "n[0-3,5],db1", 1, 1);
    put(&groups, "gone", "", 1, 1);
    check_expand(&groups, "n7,n[1,2]", "n7,n[1,2]");
    check_expand(&groups, "@web", "n[0-3,5],db1");
    check_expand(&groups, "n9,@web,!n3", "n9,n[0-3,5],db1,!n3");
    check_expand(&groups, "!@web", "!n[0-3,5],!db1");
    check_expand(&groups, "@web!n3", "n[0-3,5],db1!n3");
    check_expand(&groups, "n9!@web!n4", "n9!n[0-3,5],!db1!n4");
    check_expand(&groups, "@other", NULL);
    check_expand(&groups, "@gone", NULL);
    check_expand(&groups, "@", NULL);
    check_expand(&groups, "!", "!");
    check_expand(&groups, "", "");
    groups_free(&groups);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders),       cmocka_unit_test(bad_orders),
        cmocka_unit_test(records),      cmocka_unit_test(notes),
        cmocka_unit_test(allow),        cmocka_unit_test(versions_have_an_end),
        cmocka_unit_test(latest_holds), cmocka_unit_test(expand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
