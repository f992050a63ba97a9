/* SPDX-License-Identifier: Apache-2.0 */
#include "collnet.h"
#include "solo.h"

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

/* ---- what waits for a service ---------------------------------------------------- */

/* The first question of 0 to 1, over an out-of-band group of both. */
static struct cop_buf *question_of(struct solo *root)
{
    static const struct cop_target targets[] = {{.node = 0}, {.node = 1}};
    struct cop_coll coll = coll_with(COP_BCAST_HEAL, 1);
    struct cop_request request = {.kind = COP_REQUEST_GROUP, .token = 1, .coll = &coll};
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &request};
    coll.group = 3;
    coll.kind = COP_GROUP_OOB;
    coll.targets = targets;
    coll.target_count = 2;
    assert_int_equal(solo_event(root, &event), 0);
    request.kind = COP_REQUEST_BCAST;
    request.token = 2;
    assert_int_equal(solo_event(root, &event), 0);
    return cop_buf_ref(solo_frame(root, COP__KIND_ASK, 0)->frame.payload);
}

static void submit_alone(struct solo *solo, enum cop_request_kind kind,
                         const struct cop_coll *coll)
{
    struct cop_request request = {.kind = kind, .coll = coll};
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &request};
    assert_int_equal(solo_event(solo, &event), 0);
}

static uint64_t handle_of_resolve(const struct solo *solo)
{
    struct cop_upcall upcall;
    for (uint32_t i = 0; i < solo->effects.count; i++)
        if (cop_upcall(&solo->effects.items[i], &upcall) == 0 &&
            upcall.kind == COP_UPCALL_RESOLVE)
            return upcall.handle;
    fail_msg("nobody asks who is in the group");
    return 0;
}

/* A question that waits for its service, which says that nobody is in the group. */
static struct solo *resolve(void)
{
    static const struct cop_detect plain;
    struct solo *root = solo_create(5, 0, &plain, COP_QUORUM_MAJORITY);
    struct solo *solo = solo_create(5, 1, &plain, COP_QUORUM_MAJORITY);
    struct cop_coll coll = coll_with(0, 1), resolved = {0};
    submit_alone(solo, COP_REQUEST_SERVICE, &coll);
    solo_recv(solo, 0, COP__KIND_ASK, question_of(root));
    resolved.handle = handle_of_resolve(solo);
    solo_forget(solo);
    submit_alone(solo, COP_REQUEST_RESOLVED, &resolved);
    solo_destroy(root);
    return solo;
}

/* K2: a service that names nobody, or somebody twice, is no reason to say nothing. */
static void test_who_resolves_wrongly_refuses(void **state)
{
    (void)state;
    struct solo *solo = resolve();
    assert_int_equal(solo_sent(solo, COP__KIND_REFUSED, 0), 1);
    solo_destroy(solo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strict_and_the_root_is_too_old),
        cmocka_unit_test(test_heirs_hear_nothing),
        cmocka_unit_test(test_who_resolves_wrongly_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
