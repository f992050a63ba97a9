/* SPDX-License-Identifier: Apache-2.0 */
#include "collnet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

/* Services that come and go while a request is under way, and a root whose own is too old. */

static struct cop_coll coll_with(uint32_t flags, uint32_t version)
{
    struct cop_coll coll = {.flags = flags, .op = COP_OP_SUM, .version = version};
    coll.service = (struct cop_service){COLLNET_SERVICE, version, COP_WANTS_ALL};
    return coll;
}

static int submit(struct collnet *net, cop_id id, enum cop_request_kind kind,
                  const struct cop_coll *coll)
{
    struct cop_request request = {.kind = kind, .token = 5, .coll = coll};
    return collnet_submit(net, id, &request);
}

/* K3: what the root refuses is refused for all, and says why. */
static void test_strict_and_the_root_is_too_old(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(3, "flat", 2);
    struct cop_coll old = coll_with(0, 1);
    struct cop_coll coll = coll_with(COP_BCAST_HEAL | COP_BCAST_STRICT, 2);
    enum cop_phase phase;
    assert_int_equal(submit(net, 0, COP_REQUEST_SERVICE, &old), 0);
    assert_int_equal(submit(net, 0, COP_REQUEST_BCAST, &coll), 0);
    collnet_run(net);
    collnet_wait(net, COP_MSEC);
    assert_int_equal(net->completions, 1);
    assert_int_equal(net->status, COP_EVERSION);
    assert_int_equal(collnet_failure(net, 0, &phase, NULL), COP_EVERSION);
    assert_int_equal(phase, COP_PHASE_VERSION);
    assert_true(collnet_is_clean(net));
    collnet_destroy(net);
}

/* The next service of a number hears nothing of what the one before it had begun. */
static void test_heirs_hear_nothing(void **state)
{
    (void)state;
    for (uint32_t flags = 0; flags <= COP_BCAST_HEAL; flags++) {
        struct collnet *net = collnet_create(3, "chain", 1);
        struct cop_coll coll = coll_with(flags, 1), reply = {0};
        net->behave[1].replies_never = true;
        net->behave[2].replies_never = true;
        assert_int_equal(submit(net, 0, COP_REQUEST_BCAST, &coll), 0);
        collnet_run(net);
        reply.handle = collnet_last(net, 2, COP_UPCALL_RUN)->handle;
        assert_int_equal(submit(net, 1, COP_REQUEST_UNSERVICE, &coll), 0);
        assert_int_equal(submit(net, 1, COP_REQUEST_SERVICE, &coll), 0);
        uint32_t before = net->note_count;
        assert_int_equal(submit(net, 2, COP_REQUEST_REPLY, &reply), 0);
        collnet_run(net);
        collnet_wait(net, COP_SEC);
        for (uint32_t i = before; i < net->note_count; i++)
            assert_int_not_equal(net->notes[i].node, 1);
        collnet_destroy(net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strict_and_the_root_is_too_old),
        cmocka_unit_test(test_heirs_hear_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
