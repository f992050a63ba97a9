/* SPDX-License-Identifier: Apache-2.0 */
#include "collnet.h"
#include "failing_alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

/*
 * The n-th allocation fails, for every n until none does: while a group is made and used, with
 * and without HEAL, while somebody dies, and while it ends. Whoever was unlucky has stopped for
 * good, and says so; the others end what they began, and nothing leaks.
 */
#define N 5u

static const cop_id everyone[] = {0, 1, 2, 3, 4};
static const struct cop_tag tags[2] = {{{1}}, {{2}}};
static const struct cop_target targets[] = {
    {0, tags, 2}, {1, NULL, 0}, {2, tags, 1}, {3, NULL, 0}, {4, NULL, 0}};

static void submit(struct collnet *net, enum cop_request_kind kind, uint64_t token,
                   const struct cop_coll *coll)
{
    struct cop_request request = {.kind = kind, .token = token, .coll = coll};
    if (net->nodes[0])
        collnet_submit(net, 0, &request);
}

static void bcast(struct collnet *net, uint64_t group, uint32_t flags, enum cop_op op)
{
    struct cop_coll coll = {.group = group, .flags = flags, .op = op, .version = 1};
    coll.service.id = COLLNET_SERVICE;
    coll.argument = 2;
    submit(net, COP_REQUEST_BCAST, 1, &coll);
}

static void make(struct collnet *net, uint64_t group, enum cop_group_kind kind)
{
    struct cop_coll coll = {.group = group,
                            .kind = kind,
                            .name = "all",
                            .targets = targets,
                            .target_count = N};
    coll.service.id = COLLNET_SERVICE;
    submit(net, COP_REQUEST_GROUP, 2, &coll);
    collnet_run(net);
}

static void play(struct collnet *net)
{
    struct cop_coll end = {.group = 2};
    make(net, 1, COP_GROUP_LAZY);
    make(net, 2, COP_GROUP_NOW);
    make(net, 3, COP_GROUP_OOB);
    bcast(net, 1, COP_BCAST_HEAL, COP_OP_COUNT);
    collnet_run(net);
    bcast(net, 3, 0, COP_OP_STATUS);
    bcast(net, 2, COP_BCAST_HEAL, COP_OP_TOP);
    collnet_some(net, 4);
    if (net->nodes[3])
        collnet_kill(net, 3);
    collnet_run(net);
    bcast(net, 1, COP_BCAST_ALIVE, COP_OP_STATUS);
    collnet_run(net);
    bcast(net, COP_GROUP_ALL, COP_BCAST_HEAL, COP_OP_CONCAT);
    collnet_run(net);
    submit(net, COP_REQUEST_GROUP_END, 4, &end);
    collnet_run(net);
    collnet_wait(net, 100 * COP_SEC);
}

/* One run; whether an allocation failed in it. */
static bool run(size_t nth)
{
    size_t live = failing_alloc_live();
    struct collnet *net = collnet_create(N, "kary:2", 1);
    for (cop_id id = 0; id < N; id++) {
        net->behave[id].members = everyone;
        net->behave[id].member_count = N;
    }
    net->starving = true;
    failing_alloc_after(nth);
    play(net);
    bool hit = failing_alloc_hit();
    failing_alloc_off();
    assert_int_equal(net->failed, hit ? 1 : 0);
    assert_true(collnet_is_clean(net));
    for (cop_id id = 0; id < N; id++)
        if (net->nodes[id])
            assert_null(cop_node_check(net->nodes[id]));
    collnet_destroy(net);
    assert_int_equal(failing_alloc_live(), live);
    return hit;
}

static void test_every_allocation_fails_once(void **state)
{
    (void)state;
    size_t n = 0;
    while (run(n))
        n++;
    assert_true(n > 100);
    print_message("%zu allocations\n", n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
