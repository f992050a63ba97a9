/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "term/json.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct page {
    char *text;
    size_t size;
    struct json json;
};

static void open_page(struct page *page)
{
    FILE *out = open_memstream(&page->text, &page->size);
    assert_non_null(out);
    json_init(&page->json, out);
}

static void assert_page(struct page *page, const char *expected)
{
    assert_int_equal(fclose(page->json.out), 0);
    assert_string_equal(page->text, expected);
    free(page->text);
}

static void commas_and_nesting(void **state)
{
    (void)state;
    struct page page;
    open_page(&page);
    struct json *json = &page.json;
    json_begin_object(json);
    json_put_string(json, "schema", "s.v1");
    json_key(json, "list");
    json_begin_array(json);
    json_u64(json, UINT64_MAX);
    json_i64(json, INT64_MIN);
    json_begin_object(json);
    json_end_object(json);
    json_begin_array(json);
    json_end_array(json);
    json_null(json);
    json_end_array(json);
    json_put_bool(json, "yes", true);
    json_put_bool(json, "no", false);
    json_end_object(json);
    json_begin_object(json);
    json_put_u64(json, "second", 2);
    json_put_i64(json, "third", -3);
    json_end_object(json);
    assert_page(&page, "{\"schema\":\"s.v1\",\"list\":[18446744073709551615,"
                       "-9223372036854775808,{},[],null],\"yes\":true,\"no\":false}\n"
                       "{\"second\":2,\"third\":-3}\n");
}

static void text_is_escaped(void **state)
{
    (void)state;
    struct page page;
    open_page(&page);
    json_begin_object(&page.json);
    json_put_string(&page.json, "a\"b", "\\ \b\f\n\r\t \x01 \x1f \x7f /");
    json_put_string(&page.json, "none", NULL);
    json_end_object(&page.json);
    assert_page(&page, "{\"a\\\"b\":\"\\\\ \\b\\f\\n\\r\\t \\u0001 \\u001f \\u007f /\","
                       "\"none\":null}\n");
}

static void only_utf8_passes(void **state)
{
    (void)state;
    struct page page;
    open_page(&page);
    json_begin_object(&page.json);
    json_put_string(&page.json, "good", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8c\xb3");
    json_put_string(&page.json, "cut", "\xe2\x82");
    json_put_string(&page.json, "overlong", "\xc0\xaf\xe0\x80\xaf");
    json_put_string(&page.json, "surrogate", "\xed\xa0\x80");
    json_put_string(&page.json, "beyond", "\xf4\x90\x80\x80");
    json_end_object(&page.json);
    assert_page(&page, "{\"good\":\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8c\xb3\","
                       "\"cut\":\"\\ufffd\\ufffd\","
                       "\"overlong\":\"\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\","
                       "\"surrogate\":\"\\ufffd\\ufffd\\ufffd\","
                       "\"beyond\":\"\\ufffd\\ufffd\\ufffd\\ufffd\"}\n");
}

static void doubles_are_finite_or_null(void **state)
{
    (void)state;
    struct page page;
    open_page(&page);
    json_begin_object(&page.json);
    json_put_double(&page.json, "a", 1.25, 1);
    json_put_double(&page.json, "b", -0.5, 3);
    json_put_double(&page.json, "c", 3, 0);
    json_put_double(&page.json, "d", (double)NAN, 3);
    json_put_double(&page.json, "e", (double)INFINITY, 3);
    json_end_object(&page.json);
    assert_page(&page, "{\"a\":1.2,\"b\":-0.500,\"c\":3,\"d\":null,\"e\":null}\n");
}

/* Runs a wrong use in a child: it must end by abort. */
static void assert_aborts(void (*wrong)(struct json *))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct json json;
        signal(SIGABRT, SIG_DFL);
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(1);
        FILE *out = fopen("/dev/null", "w");
        if (out == NULL)
            _exit(1);
        json_init(&json, out);
        wrong(&json);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void value_without_key(struct json *json)
{
    json_begin_object(json);
    json_u64(json, 1);
}

static void key_in_array(struct json *json)
{
    json_begin_array(json);
    json_key(json, "k");
}

static void wrong_end(struct json *json)
{
    json_begin_array(json);
    json_end_object(json);
}

static void end_after_key(struct json *json)
{
    json_begin_object(json);
    json_key(json, "k");
    json_end_object(json);
}

static void too_deep(struct json *json)
{
    for (int i = 0; i <= JSON_DEPTH_MAX; i++)
        json_begin_array(json);
}

static void wrong_nesting_aborts(void **state)
{
    (void)state;
    assert_aborts(value_without_key);
    assert_aborts(key_in_array);
    assert_aborts(wrong_end);
    assert_aborts(end_after_key);
    assert_aborts(too_deep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_and_nesting),
        cmocka_unit_test(text_is_escaped),
        cmocka_unit_test(only_utf8_passes),
        cmocka_unit_test(doubles_are_finite_or_null),
        cmocka_unit_test(wrong_nesting_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
