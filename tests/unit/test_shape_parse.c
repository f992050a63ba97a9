/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/error.h>
#include <coppice/tree.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "failing_alloc.h"

struct good {
    const char *text;
    struct cop_shape shape;
    const char *printed;
};

static void shapes_are_read_and_written(void **state)
{
    static const struct good cases[] = {
        {"kary:2", {COP_SHAPE_KARY, 2, 0, NULL}, "kary:2"},
        {"kary:1024", {COP_SHAPE_KARY, 1024, 0, NULL}, "kary:1024"},
        {"kary:007", {COP_SHAPE_KARY, 7, 0, NULL}, "kary:7"},
        {"radix:4", {COP_SHAPE_RADIX, 4, 0, NULL}, "radix:4"},
        {"radix:1024", {COP_SHAPE_RADIX, 1024, 0, NULL}, "radix:1024"},
        {"knomial:5", {COP_SHAPE_KNOMIAL, 5, 0, NULL}, "knomial:5"},
        {"binomial", {COP_SHAPE_KNOMIAL, 2, 0, NULL}, "knomial:2"},
        {"flat", {COP_SHAPE_FLAT, 0, 0, NULL}, "flat"},
        {"chain", {COP_SHAPE_CHAIN, 0, 0, NULL}, "chain"},
        {"file:/some/where", {COP_SHAPE_TABLE, 0, 0, NULL}, "file"},
        {"hosts:radix:4", {COP_SHAPE_HOSTS, 4, COP_SHAPE_RADIX, NULL}, "hosts:radix:4"},
        {"hosts:flat", {COP_SHAPE_HOSTS, 0, COP_SHAPE_FLAT, NULL}, "hosts:flat"},
        {"hosts:binomial",
         {COP_SHAPE_HOSTS, 2, COP_SHAPE_KNOMIAL, NULL},
         "hosts:knomial:2"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char message[200] = "";
        char printed[40];
        struct cop_shape shape;
        assert_int_equal(
            cop_shape_parse(cases[i].text, &shape, message, sizeof(message)), 0);
        assert_string_equal(message, "");
        assert_int_equal(shape.kind, cases[i].shape.kind);
        assert_int_equal(shape.k, cases[i].shape.k);
        assert_int_equal(shape.inner, cases[i].shape.inner);
        assert_null(shape.table);
        assert_int_equal(cop_shape_print(&shape, printed, sizeof(printed)),
                         strlen(cases[i].printed));
        assert_string_equal(printed, cases[i].printed);
    }
}

#define ALL_SHAPES                                                                     \
    "no such shape; use binomial, kary:K, radix:A, knomial:K, flat, chain, file:PATH " \
    "or hosts:SHAPE"
#define USE_KARY "; use kary:K, where K is a number from 2 to 1024"
#define USE_RADIX "; use radix:A, where A is a power of two from 2 to 1024"
#define USE_KNOMIAL "; use knomial:K, where K is a number from 2 to 1024"

struct bad {
    const char *text;
    const char *message;
};

static void mistakes_are_explained(void **state)
{
    static const struct bad cases[] = {
        {"", "shape \"\": " ALL_SHAPES},
        {"foo", "shape \"foo\": " ALL_SHAPES},
        {"Kary:3", "shape \"Kary:3\": " ALL_SHAPES},
        {" kary:3", "shape \" kary:3\": " ALL_SHAPES},
        {"karyx:3", "shape \"karyx:3\": " ALL_SHAPES},
        {"kar", "shape \"kar\": " ALL_SHAPES},
        {":", "shape \":\": " ALL_SHAPES},
        {"binomial:2", "shape \"binomial:2\": " ALL_SHAPES},
        {"kary", "shape \"kary\": the arity is missing" USE_KARY},
        {"kary:", "shape \"kary:\": the arity is missing" USE_KARY},
        {"kary:0", "shape \"kary:0\": the arity is too small" USE_KARY},
        {"kary:1", "shape \"kary:1\": an arity of 1 is a chain: use chain" USE_KARY},
        {"kary:-3", "shape \"kary:-3\": the arity is not a whole number" USE_KARY},
        {"kary:+3", "shape \"kary:+3\": the arity is not a whole number" USE_KARY},
        {"kary:3x", "shape \"kary:3x\": the arity is not a whole number" USE_KARY},
        {"kary:3 ", "shape \"kary:3 \": the arity is not a whole number" USE_KARY},
        {"kary:3:4", "shape \"kary:3:4\": the arity is not a whole number" USE_KARY},
        {"kary:1025", "shape \"kary:1025\": the arity is too large" USE_KARY},
        {"kary:99999999999",
         "shape \"kary:99999999999\": the arity is too large" USE_KARY},
        {"kary:4294967298",
         "shape \"kary:4294967298\": the arity is too large" USE_KARY},
        {"radix:", "shape \"radix:\": the arity is missing" USE_RADIX},
        {"radix:3", "shape \"radix:3\": the arity is not a power of two" USE_RADIX},
        {"knomial:1",
         "shape \"knomial:1\": an arity of 1 is a chain: use chain" USE_KNOMIAL},
        {"flat:2", "shape \"flat:2\": this shape takes no arity"},
        {"chain:", "shape \"chain:\": this shape takes no arity"},
        {"file", "shape \"file\": the path of the topology file is missing; "
                 "use file:PATH"},
        {"file:", "shape \"file:\": the path of the topology file is missing; "
                  "use file:PATH"},
        {"hosts", "shape \"hosts\": the shape of the leaders' tree is missing; "
                  "use hosts:SHAPE, for example hosts:radix:4"},
        {"hosts:", "shape \"hosts:\": the shape of the leaders' tree is missing; "
                   "use hosts:SHAPE, for example hosts:radix:4"},
        {"hosts:foo", "shape \"hosts:foo\": " ALL_SHAPES},
        {"hosts:radix:3",
         "shape \"hosts:radix:3\": the arity is not a power of two" USE_RADIX},
        {"hosts:hosts:flat", "shape \"hosts:hosts:flat\": the leaders' tree must be a "
                             "computed shape, for example hosts:radix:4"},
        {"hosts:file:x", "shape \"hosts:file:x\": the leaders' tree must be a computed "
                         "shape, for example hosts:radix:4"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char message[240] = "";
        struct cop_shape shape = {.k = 77};
        assert_int_equal(
            cop_shape_parse(cases[i].text, &shape, message, sizeof(message)),
            COP_EINVAL);
        assert_string_equal(message, cases[i].message);
        assert_int_equal(shape.k, 77);
        assert_int_equal(cop_shape_parse(cases[i].text, &shape, NULL, 0), COP_EINVAL);
    }
}

static void messages_fit_their_buffer(void **state)
{
    (void)state;
    for (size_t size = 0; size < 200; size++) {
        char *message = malloc(size + 1);
        struct cop_shape shape;
        assert_non_null(message);
        message[size] = 'x';
        assert_int_equal(cop_shape_parse("kary:0", &shape, message, size), COP_EINVAL);
        assert_int_equal(message[size], 'x');
        if (size > 0)
            assert_true(strlen(message) < size);
        free(message);
    }
}

/* Neither a novel nor what a terminal would obey. */
static void strange_text_is_quoted_tamely(void **state)
{
    (void)state;
    char message[300];
    char text[1000];
    struct cop_shape shape;
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(cop_shape_parse(text, &shape, message, sizeof(message)),
                     COP_EINVAL);
    assert_non_null(strstr(message, "aaa...\": no such shape"));
    assert_int_equal(
        cop_shape_parse("\x1b[31m\xff\n", &shape, message, sizeof(message)),
        COP_EINVAL);
    assert_non_null(strstr(message, "shape \"?[31m??\": no such shape"));
}

static void make_allows_what_parse_allows(void **state)
{
    (void)state;
    struct cop_shape shape;
    assert_int_equal(cop_shape_make(COP_SHAPE_KARY, 3, &shape), 0);
    assert_int_equal(shape.kind, COP_SHAPE_KARY);
    assert_int_equal(shape.k, 3);
    assert_int_equal(cop_shape_make(COP_SHAPE_FLAT, 0, &shape), 0);
    assert_int_equal(cop_shape_make(COP_SHAPE_FLAT, 3, &shape), COP_EINVAL);
    assert_int_equal(cop_shape_make(COP_SHAPE_KARY, 1, &shape), COP_EINVAL);
    assert_int_equal(cop_shape_make(COP_SHAPE_KARY, 1025, &shape), COP_EINVAL);
    assert_int_equal(cop_shape_make(COP_SHAPE_RADIX, 12, &shape), COP_EINVAL);
    assert_int_equal(cop_shape_make(COP_SHAPE_HOSTS, 2, &shape), COP_EINVAL);
    assert_int_equal(cop_shape_make(COP_SHAPE_TABLE, 0, &shape), COP_EINVAL);
    assert_int_equal(cop_shape_make((enum cop_shape_kind)0, 2, &shape), COP_EINVAL);
}

static void print_says_how_long_it_would_be(void **state)
{
    (void)state;
    char out[5] = "????";
    struct cop_shape shape;
    assert_int_equal(cop_shape_parse("hosts:knomial:16", &shape, NULL, 0), 0);
    assert_int_equal(cop_shape_print(&shape, out, sizeof(out)), 16);
    assert_string_equal(out, "host");
    assert_int_equal(cop_shape_print(&shape, NULL, 0), 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_are_read_and_written),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(messages_fit_their_buffer),
        cmocka_unit_test(strange_text_is_quoted_tamely),
        cmocka_unit_test(make_allows_what_parse_allows),
        cmocka_unit_test(print_says_how_long_it_would_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
