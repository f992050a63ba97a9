/* SPDX-License-Identifier: Apache-2.0 */
/* Whom a member gets ready for is who is its parent after the death of the one it has. */
#include "detect/heir.h"

#include "failing_alloc.h"
#include "roster/roster.h"
#include "wirenet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these first */
#include <cmocka.h>

static const char *const shapes[] = {"radix:4", "kary:2", "knomial:3",
                                     "flat",    "chain",  "binomial"};
#define SHAPES (sizeof shapes / sizeof *shapes)

static cop_id parent_of(const struct cop_node *node)
{
    struct cop_tree tree = cop__roster_tree(node);
    cop_rank parent = cop_tree_parent(&tree, node->rank);
    return parent == COP_RANK_NONE ? COP_ID_NONE : cop_view_id(node->view, parent);
}

static struct cop__heir heir_of(const struct cop_node *node)
{
    struct cop__heir heir;
    assert_int_equal(cop__heir(node, &heir), 0);
    return heir;
}

/* One after the other, until the member is the root: each parent is the heir of the last. */
static void follow(struct wirenet *net, cop_id self)
{
    const struct cop_node *node = net->nodes[self].node;
    cop_id parent;
    while ((parent = parent_of(node)) != COP_ID_NONE) {
        cop_id heir = heir_of(node).id;
        wirenet_down(net, self, parent, COP_DOWN_REFUSED);
        assert_int_equal(parent_of(node), heir);
    }
    assert_int_equal(heir_of(node).id, COP_ID_NONE);
}

static void test_the_next_parent(void **state)
{
    (void)state;
    for (size_t shape = 0; shape < SHAPES; shape++) {
        for (cop_id self = 0; self < 23; self++) {
            struct wirenet *net = wirenet_create(23, shapes[shape]);
            follow(net, self);
            wirenet_destroy(net);
        }
    }
}

/* Others have died before: above it, beside it, and who would have been next. */
static void test_the_next_parent_after_others(void **state)
{
    struct cop__random random;
    (void)state;
    cop__random_init(&random, 7);
    for (int round = 0; round < 200; round++) {
        struct wirenet *net = wirenet_create(30, shapes[(size_t)round % SHAPES]);
        cop_id self = (cop_id)cop__random_below(&random, 30);
        for (uint64_t deaths = cop__random_below(&random, 12); deaths > 0; deaths--) {
            cop_id dead = (cop_id)cop__random_below(&random, 30);
            if (dead != self)
                wirenet_down(net, self, dead, COP_DOWN_REFUSED);
        }
        follow(net, self);
        wirenet_destroy(net);
    }
}

static void test_how_many_have_the_same(void **state)
{
    struct wirenet *net = wirenet_create(30, "radix:4");
    (void)state;
    assert_int_equal(heir_of(net->nodes[0].node).id, COP_ID_NONE);
    assert_int_equal(heir_of(net->nodes[1].node).id, COP_ID_NONE);
    assert_int_equal(heir_of(net->nodes[2].node).id, 1);
    assert_int_equal(heir_of(net->nodes[5].node).id, 0);
    assert_int_equal(heir_of(net->nodes[5].node).crowd, 16);
    wirenet_destroy(net);
}

static void test_no_memory(void **state)
{
    struct wirenet *net = wirenet_create(9, "kary:2");
    struct cop__heir heir;
    (void)state;
    failing_alloc_after(0);
    int error = cop__heir(net->nodes[8].node, &heir);
    failing_alloc_off();
    assert_int_equal(error, COP_ENOMEM);
    wirenet_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_next_parent),
        cmocka_unit_test(test_the_next_parent_after_others),
        cmocka_unit_test(test_how_many_have_the_same),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
