/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/tree.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "draw/draw.h"
#include "tree_model.h"

typedef int drawer(FILE *out, const struct cop_tree *tree,
                   const struct draw_options *options);

static void check_drawn(drawer *draw, const struct cop_tree *tree,
                        const struct draw_options *options, const char *expected)
{
    char text[4096];
    FILE *out = fmemopen(text, sizeof(text), "w");
    assert_non_null(out);
    assert_int_equal(draw(out, tree, options), 0);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, expected);
}

static void children_hang_below_their_parent(void **state)
{
    (void)state;
    struct cop_tree tree = {.shape = tree_shape("binomial"), .n = 6};
    struct draw_options options = {.utf8 = true};
    check_drawn(draw_tree, &tree, &options,
                "n0\n"
                "├─ n4\n"
                "│  └─ n5\n"
                "├─ n2\n"
                "│  └─ n3\n"
                "└─ n1\n");
    options.utf8 = false;
    check_drawn(draw_tree, &tree, &options,
                "n0\n"
                "|- n4\n"
                "|  `- n5\n"
                "|- n2\n"
                "|  `- n3\n"
                "`- n1\n");
}

static void the_dead_are_named_and_missed(void **state)
{
    (void)state;
    static const cop_rank ranks[] = {4};
    struct cop_dead dead = {NULL, ranks, 1};
    struct cop_tree tree = {.shape = tree_shape("binomial"), .n = 6, .dead = &dead};
    struct draw_options options = {.utf8 = true};
    check_drawn(draw_tree, &tree, &options,
                "n0\n"
                "├─ n2\n"
                "│  └─ n3\n"
                "├─ n5  (was below n4)\n"
                "└─ n1\n"
                "dead: n4\n");
    options.color = true;
    check_drawn(draw_tree, &tree, &options,
                "n0\n"
                "├─ n2\n"
                "│  └─ n3\n"
                "├─ n5  \033[31m(was below ✗ n4)\033[0m\n"
                "└─ n1\n"
                "\033[31m✗ dead: n4\033[0m\n");
}

static void large_trees_are_folded_and_cut(void **state)
{
    (void)state;
    struct cop_tree tree = {.shape = tree_shape("kary:20"), .n = 63};
    struct draw_options options = {.fold = true};
    check_drawn(draw_tree, &tree, &options,
                "n0\n"
                "|- n3\n"
                "|  `- n[61-62] (2)\n"
                "|- n2\n"
                "|  `- n[41-60] (20)\n"
                "|- n1\n"
                "|  `- n[21-40] (20)\n"
                "`- n[4-20] (17)\n");
    options.lines = 3;
    check_drawn(draw_tree, &tree, &options,
                "n0\n"
                "|- n3\n"
                "|  `- n[61-62] (2)\n"
                "... 59 of 63 ranks are left out\n");
    tree.shape = tree_shape("chain");
    check_drawn(draw_tree, &tree, &options, "n0 - n1 - n2 - (59 more) - n62\n");
}

static const char *label(const void *context, cop_rank rank)
{
    const char *const *names = context;
    return names[rank];
}

static void labels_are_used_and_quoted(void **state)
{
    (void)state;
    static const char *const names[] = {"top", NULL, "a \"b\"\\"};
    static const cop_rank ranks[] = {1};
    struct cop_dead dead = {NULL, ranks, 1};
    struct cop_tree tree = {.shape = tree_shape("flat"), .n = 3, .dead = &dead};
    struct draw_options options = {.label = label, .context = names};
    check_drawn(draw_tree, &tree, &options,
                "top\n"
                "`- a \"b\"\\\n"
                "dead: n1\n");
    check_drawn(draw_dot, &tree, &options,
                "digraph coppice {\n"
                "    node [shape=box, style=rounded];\n"
                "    \"top\";\n"
                "    \"n1\" [style=dashed, color=red, fontcolor=red];\n"
                "    \"top\" -> \"a \\\"b\\\"\\\\\";\n"
                "}\n");
}

static void of_the_dead_only_the_names_are_left(void **state)
{
    (void)state;
    static const cop_rank ranks[] = {0, 1};
    struct cop_dead dead = {NULL, ranks, 2};
    struct cop_tree tree = {.shape = tree_shape("flat"), .n = 2, .dead = &dead};
    struct draw_options options = {.utf8 = true};
    check_drawn(draw_tree, &tree, &options, "dead: n[0-1] (2)\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(children_hang_below_their_parent),
        cmocka_unit_test(the_dead_are_named_and_missed),
        cmocka_unit_test(large_trees_are_folded_and_cut),
        cmocka_unit_test(labels_are_used_and_quoted),
        cmocka_unit_test(of_the_dead_only_the_names_are_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
