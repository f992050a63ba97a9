/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/error.h>
#include <coppice/tree.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "failing_alloc.h"

/* The text in memory of exactly its length, so that a sanitizer sees a byte too many.
 *  */
static int read_exactly(const char *text, size_t length, struct cop_shape *shape,
                        uint32_t *n, char *message, size_t size)
{
    char *copy = malloc(length == 0 ? 1 : length);
    assert_non_null(copy);
    memcpy(copy, text, length);
    int error = cop_shape_from_topology(copy, length, shape, n, message, size);
    free(copy);
    return error;
}

static struct cop_tree read_good(const char *text)
{
    char message[200] = "";
    struct cop_tree tree = {0};
    int error = read_exactly(text, strlen(text), &tree.shape, &tree.n, message,
                             sizeof(message));
    if (error != 0)
        fail_msg("%s", message);
    assert_int_equal(cop_tree_check(&tree), 0);
    return tree;
}

static void check_labels(const struct cop_tree *tree, const char *const *labels)
{
    for (cop_rank rank = 0; rank < tree->n; rank++)
        assert_string_equal(cop_shape_label(&tree->shape, rank), labels[rank]);
    assert_null(cop_shape_label(&tree->shape, tree->n));
}

static void ranks_are_in_level_order(void **state)
{
    (void)state;
    static const char *const labels[] = {"a:0", "a:1", "b:0", "c:0", "c:1", "d:5"};
    static const cop_rank parents[] = {COP_RANK_NONE, 0, 0, 1, 1, 2};
    struct cop_tree tree = read_good("b:0 => d:5 ;\n"
                                     "a:0 => a:1 b:0 ;\n"
                                     "a:1 => c:0\n c:1 ;\n");
    assert_int_equal(tree.n, 6);
    check_labels(&tree, labels);
    for (cop_rank rank = 0; rank < 6; rank++)
        assert_int_equal(cop_tree_parent(&tree, rank), parents[rank]);
    cop_shape_unref(&tree.shape);
}

static void blanks_and_comments_do_not_matter(void **state)
{
    (void)state;
    static const char *const labels[] = {"a:0", "b.c-d_e:12", "c:3"};
    struct cop_tree tree = read_good("# a tree; not a forest => x\r\n"
                                     "\ta:0=>b.c-d_e:12 # first\n"
                                     "#\n"
                                     "c:3;# the end");
    assert_int_equal(tree.n, 3);
    check_labels(&tree, labels);
    cop_shape_unref(&tree.shape);
}

static void statements_of_one_parent_add_up(void **state)
{
    (void)state;
    struct cop_tree tree = read_good("a:0 => a:1; a:0 => a:2; a:1 => a:3; a:0 => a:4;");
    assert_int_equal(tree.n, 5);
    assert_int_equal(cop_tree_child_count(&tree, 0), 3);
    assert_string_equal(cop_shape_label(&tree.shape, 3), "a:4");
    cop_shape_unref(&tree.shape);
}

static void hung_up_by_another_rank_the_edges_turn(void **state)
{
    (void)state;
    struct cop_ranks children = {0};
    struct cop_tree tree =
        read_good("a:0 => a:1 a:2; a:1 => a:3 a:4; a:2 => a:5; a:4 => a:6;");
    tree.root = 4;
    static const cop_rank parents[] = {1, 4, 0, 1, COP_RANK_NONE, 2, 4};
    for (cop_rank rank = 0; rank < 7; rank++)
        assert_int_equal(cop_tree_parent(&tree, rank), parents[rank]);
    assert_int_equal(cop_tree_children(&tree, 4, &children), 0);
    assert_int_equal(children.count, 2);
    assert_int_equal(children.items[0], 1);
    assert_int_equal(children.items[1], 6);
    assert_int_equal(cop_tree_depth(&tree, 4), 5);
    assert_int_equal(cop_tree_size(&tree, 1), 5);
    cop_ranks_free(&children);
    cop_shape_unref(&tree.shape);
}

static void tables_are_counted(void **state)
{
    (void)state;
    size_t live = failing_alloc_live();
    struct cop_tree tree = read_good("a:0 => a:1;");
    struct cop_shape copy = tree.shape;
    cop_shape_ref(&copy);
    cop_shape_unref(&tree.shape);
    assert_string_equal(cop_shape_label(&copy, 1), "a:1");
    cop_shape_unref(&copy);
    assert_int_equal(failing_alloc_live(), live);
}

struct bad {
    const char *text;
    const char *message;
};

static void mistakes_are_explained_with_their_line(void **state)
{
    static const struct bad cases[] = {
        {"", "line 1: there is no statement; write for example \"a:0 => a:1 a:2 ;\""},
        {"\n\n# no\n",
         "line 4: there is no statement; write for example \"a:0 => a:1 a:2 ;\""},
        {"a:0", "line 1: the text ends, but \"=>\" was expected"},
        {"a:0 ;", "line 1: \";\" where \"=>\" was expected"},
        {"a:0 a:1 ;", "line 1: \"a:1\" where \"=>\" was expected"},
        {"=> a:1 ;", "line 1: \"=>\" where a parent (host:number) was expected"},
        {"; a:0", "line 1: \";\" where a parent (host:number) was expected"},
        {"a:0 => ;", "line 1: \";\" where a child (host:number) was expected"},
        {"a:0 =>", "line 1: the text ends, but a child (host:number) was expected"},
        {"a:0 => => a:1;", "line 1: \"=>\" where a child (host:number) was expected"},
        {"a:0 => a:1", "line 1: the text ends, but another child (host:number) or "
                       "\";\" was expected"},
        {"a:0 => a:1\na:1 => a:2;",
         "line 2: a:1 begins a statement, but the one before it has no \";\""},
        {"a:0 => b ;", "line 1: \"b\" where a child (host:number) was expected"},
        {"a:0 => b:;", "line 1: \"b:\" where a child (host:number) was expected"},
        {"a:0 => b:x;", "line 1: \"b:x\" where a child (host:number) was expected"},
        {"a:0 => :1;", "line 1: \":1\" where a child (host:number) was expected"},
        {"a:0 => a:1x;", "line 1: \"a:1x\" where a child (host:number) was expected"},
        {"a:0 = a:1;", "line 1: \"=\" where \"=>\" was expected"},
        {"a:0 -> a:1;", "line 1: \"->\" where \"=>\" was expected"},
        {"a:0 => a:1;\n{", "line 2: \"{\" where a parent (host:number) was expected"},
        {"a:0 => \x1b[1m;",
         "line 1: \"?[1m\" where a child (host:number) was expected"},
        {"a:0 => a:1 a:1;", "line 1: a:1 already has a parent, a:0"},
        {"a:0 => a:1 b:1;\n\nb:1 => a:1 ;", "line 3: a:1 already has a parent, a:0"},
        {"a:0 => a:1;\nb:0 => b:1;",
         "line 2: b:0 has no parent, but a:0 already is the root"},
        {"a:0 => a:0;", "line 1: a:0 is its own ancestor: the names form a cycle"},
        {"a:0 => a:1;\na:1 => a:2;\na:2 => a:0;",
         "line 1: a:0 is its own ancestor: the names form a cycle"},
        {"r:0 => r:1;\nx:0 => x:1;\nx:1 => x:0;",
         "line 2: x:0 is its own ancestor: the names form a cycle"},
        /* y:0 hangs below the cycle and is not on it. */
        {"r:0 => r:1;\nx:1 => y:0;\nx:0 => x:1;\nx:1 => x:0;",
         "line 3: x:0 is its own ancestor: the names form a cycle"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char message[200] = "";
        struct cop_shape shape = {.k = 77};
        uint32_t n = 77;
        assert_int_equal(read_exactly(cases[i].text, strlen(cases[i].text), &shape, &n,
                                      message, sizeof(message)),
                         COP_EINVAL);
        assert_string_equal(message, cases[i].message);
        assert_int_equal(shape.k, 77);
        assert_int_equal(n, 77);
        assert_int_equal(cop_shape_from_topology(cases[i].text, strlen(cases[i].text),
                                                 &shape, &n, NULL, 0),
                         COP_EINVAL);
    }
}

static void long_names_are_refused_and_cut(void **state)
{
    (void)state;
    char text[400];
    char message[200] = "";
    struct cop_shape shape;
    uint32_t n;
    memset(text, 'h', sizeof(text));
    memcpy(text + 253, ":1 => b:1;", 10);
    assert_int_equal(read_exactly(text, 263, &shape, &n, message, sizeof(message)), 0);
    cop_shape_unref(&shape);
    memset(text, 'h', sizeof(text));
    memcpy(text + 254, ":1 => b:1;", 10);
    assert_int_equal(read_exactly(text, 264, &shape, &n, message, sizeof(message)),
                     COP_EINVAL);
    assert_non_null(strstr(message, "hhh... is longer than 255 bytes"));
}

static void bytes_are_not_text(void **state)
{
    (void)state;
    char message[200] = "";
    struct cop_shape shape;
    uint32_t n;
    assert_int_equal(
        read_exactly("a:0 => a:1\0;", 12, &shape, &n, message, sizeof(message)),
        COP_EINVAL);
    assert_string_equal(message,
                        "line 1: \"a:1?\" where a child (host:number) was expected");
}

/* Every beginning of a good file, and that file with bytes changed: right or refused,
 * with a line, and never read past the end. */
static void no_text_is_read_past_its_end(void **state)
{
    static const char text[] = "a:0 => a:1 a:2 ; # x\na:1 => b:3\tb:4;\nb:4=>c:1;";
    static const char bytes[] = "ab:0123=>;# \n\t\r\\x\xff";
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 21);
    size_t live = failing_alloc_live();
    for (uint32_t round = 0; round < 20000; round++) {
        char changed[sizeof(text)];
        char message[100] = "";
        struct cop_shape shape;
        uint32_t n;
        size_t length = sizeof(text) - 1;
        memcpy(changed, text, sizeof(text));
        if (round < length)
            length = round;
        for (uint32_t i = 0; round >= sizeof(text) && i < 1 + round % 4; i++)
            changed[cop__random_below(&random, length)] =
                bytes[cop__random_below(&random, sizeof(bytes))];
        int error = read_exactly(changed, length, &shape, &n, message, sizeof(message));
        if (error == 0)
            cop_shape_unref(&shape);
        else
            assert_int_equal(strncmp(message, "line ", 5), 0);
    }
    assert_int_equal(failing_alloc_live(), live);
}

static void without_memory_it_says_so(void **state)
{
    static const char text[] = "a:0 => a:1 a:2 ;";
    (void)state;
    size_t live = failing_alloc_live();
    for (size_t i = 0;; i++) {
        char message[100] = "";
        struct cop_shape shape = {0};
        uint32_t n = 0;
        failing_alloc_after(i);
        int error = cop_shape_from_topology(text, sizeof(text) - 1, &shape, &n, message,
                                            sizeof(message));
        failing_alloc_off();
        cop_shape_unref(&shape);
        if (!failing_alloc_hit())
            break;
        assert_int_equal(error, COP_ENOMEM);
        assert_string_equal(message, "out of memory");
        assert_null(shape.table);
    }
    assert_int_equal(failing_alloc_live(), live);
}

/* As deep as it is long: what recursed here would run out of stack. */
static void a_long_chain_is_read_without_a_stack(void **state)
{
    (void)state;
    const uint32_t n = 200000;
    char *text = malloc((size_t)n * 32);
    char message[100];
    struct cop_tree tree = {0};
    size_t length = 0;
    assert_non_null(text);
    for (uint32_t i = 1; i < n; i++)
        length += (size_t)snprintf(text + length, 32, "h:%u => h:%u;\n", i - 1, i);
    assert_int_equal(cop_shape_from_topology(text, length, &tree.shape, &tree.n,
                                             message, sizeof(message)),
                     0);
    assert_int_equal(tree.n, n);
    assert_int_equal(cop_tree_depth(&tree, 0), n);
    assert_int_equal(cop_tree_level(&tree, n - 1), n - 1);
    tree.root = n - 1;
    assert_int_equal(cop_tree_size(&tree, 0), 1);
    assert_int_equal(cop_tree_depth(&tree, n - 1), n);
    cop_shape_unref(&tree.shape);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_in_level_order),
        cmocka_unit_test(blanks_and_comments_do_not_matter),
        cmocka_unit_test(statements_of_one_parent_add_up),
        cmocka_unit_test(hung_up_by_another_rank_the_edges_turn),
        cmocka_unit_test(tables_are_counted),
        cmocka_unit_test(mistakes_are_explained_with_their_line),
        cmocka_unit_test(long_names_are_refused_and_cut),
        cmocka_unit_test(bytes_are_not_text),
        cmocka_unit_test(no_text_is_read_past_its_end),
        cmocka_unit_test(without_memory_it_says_so),
        cmocka_unit_test(a_long_chain_is_read_without_a_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
