/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/error.h>
#include <coppice/tree.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "draw/across.h"
#include "failing_alloc.h"
#include "tree_model.h"

static void check_drawn(const struct cop_tree *tree,
                        const struct across_options *options, const char *expected)
{
    char text[4096];
    FILE *out = fmemopen(text, sizeof text, "w");
    assert_non_null(out);
    assert_int_equal(across_draw(out, tree, options), 0);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, expected);
}

static void children_are_right_of_their_parent(void **state)
{
    (void)state;
    struct cop_tree tree = {.shape = tree_shape("binomial"), .n = 8};
    struct across_options options = {.utf8 = true};
    check_drawn(&tree, &options,
                "  n0 ─┬─ n1\n"
                "      ├─ n2 ── n3\n"
                "      └─ n4 ─┬─ n5\n"
                "             └─ n6 ── n7\n");
    options.utf8 = false;
    check_drawn(&tree, &options,
                "  n0 -+- n1\n"
                "      +- n2 -- n3\n"
                "      `- n4 -+- n5\n"
                "             `- n6 -- n7\n");
}

static void who_has_another_parent_has_a_star(void **state)
{
    (void)state;
    static const cop_rank ranks[] = {0, 2};
    struct cop_dead dead = {NULL, ranks, 2};
    struct cop_tree before = {.shape = tree_shape("kary:2"), .n = 11}, after = before;
    struct across_options options = {.before = &before};
    after.root = 1;
    after.dead = &dead;
    check_drawn(&before, &(struct across_options){0},
                "  n0 -+- n1 -+- n3 -- n[7-8]\n"
                "      |      `- n4 -- n[9-10]\n"
                "      `- n2 -- n[5-6]\n");
    check_drawn(&after, &options,
                "  n1 -+- n3 -- n[7-8]\n"
                "      +- n4 -- n[9-10]\n"
                "      `- n[5-6]*\n");
    options.color = true;
    check_drawn(&after, &options,
                "  n1 -+- n3 -- n[7-8]\n"
                "      +- n4 -- n[9-10]\n"
                "      `- \033[32mn[5-6]*\033[0m\n");
}

static void one_alone_and_one_too_deep(void **state)
{
    (void)state;
    struct cop_tree tree = {.shape = tree_shape("chain"), .n = 1};
    struct across_options options = {0};
    check_drawn(&tree, &options, "  n0\n");
    char text[4096];
    FILE *out = fmemopen(text, sizeof text, "w");
    tree.n = 1000;
    assert_int_equal(across_draw(out, &tree, &options), COP_ERANGE);
    fclose(out);
}

static void memory_runs_out(void **state)
{
    (void)state;
    char text[4096];
    FILE *out = fmemopen(text, sizeof text, "w");
    struct cop_tree tree = {.shape = tree_shape("kary:2"), .n = 15};
    struct across_options options = {0};
    for (size_t n = 0;; n++) {
        rewind(out);
        failing_alloc_after(n);
        int error = across_draw(out, &tree, &options);
        failing_alloc_off();
        if (!failing_alloc_hit())
            break;
        assert_int_equal(error, COP_ENOMEM);
    }
    fclose(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(children_are_right_of_their_parent),
        cmocka_unit_test(who_has_another_parent_has_a_star),
        cmocka_unit_test(one_alone_and_one_too_deep),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
