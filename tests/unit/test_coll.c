/* SPDX-License-Identifier: Apache-2.0 */
#include "collnet.h"
#include "sweep/sweep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

/*
 * The rules of collectives, one by one, over real nodes: order of upcalls, refusals, errors by
 * phase, groups and their lives, versions, aborts, time-outs, replies in pieces. What happens
 * while members die at any moment is in tests/sim.
 */

#define TOKEN 5u

static struct cop_coll coll_with(uint32_t flags)
{
    struct cop_coll coll = {.flags = flags, .op = COP_OP_SUM, .version = 1};
    coll.service.id = COLLNET_SERVICE;
    return coll;
}

static int bcast(struct collnet *net, cop_id root, const struct cop_coll *coll)
{
    struct cop_request request = {.kind = COP_REQUEST_BCAST,
                                  .token = TOKEN,
                                  .coll = coll,
                                  .bytes = "hello",
                                  .length = 5};
    return collnet_submit(net, root, &request);
}

static int make_group(struct collnet *net, cop_id creator, uint64_t number,
                      enum cop_group_kind kind, const struct cop_target *targets,
                      uint32_t count)
{
    struct cop_coll coll = {.group = number,
                            .kind = kind,
                            .name = "some",
                            .targets = targets,
                            .target_count = count};
    struct cop_request request = {
        .kind = COP_REQUEST_GROUP, .token = 99, .coll = &coll};
    coll.service.id = COLLNET_SERVICE;
    memset(coll.oob, 0x5a, sizeof coll.oob);
    int status = collnet_submit(net, creator, &request);
    collnet_run(net);
    return status;
}

static int64_t sum_of(struct collnet *net)
{
    struct cop_bcast_result result = collnet_result(net);
    int64_t value = cop_values(&result) ? cop_value(&result, 0) : -1;
    cop_bcast_result_free(&result);
    return value;
}

/* The kinds of a node's upcalls, one letter each: C(heck) R(un) r(eply) D(one) S(ent). */
static void expect_upcalls(const struct collnet *net, cop_id id, const char *expected)
{
    static const char letters[] = "CRrDSv";
    char got[COLLNET_NOTES + 1];
    uint32_t count = 0;
    for (uint32_t i = 0; i < net->note_count; i++)
        if (net->notes[i].node == id)
            got[count++] = letters[net->notes[i].upcall.kind];
    got[count] = '\0';
    assert_string_equal(got, expected);
}

/* ---- order ----------------------------------------------------------------------- */

static void test_order_of_upcalls(void **state)
{
    (void)state;
    for (uint32_t flags = 0; flags <= COP_BCAST_HEAL; flags++) {
        struct collnet *net = collnet_create(7, "kary:2", 1);
        struct cop_coll coll = coll_with(flags);
        assert_int_equal(bcast(net, 0, &coll), 0);
        collnet_run(net);
        expect_upcalls(net, 0, "RrrD"); /* COMPLETE is the root's SENT */
        expect_upcalls(net, 1, "CRrrDS");
        expect_upcalls(net, 6, "CRDS"); /* DONE also at a leaf */
        assert_int_equal(net->completions, 1);
        assert_int_equal(net->token, TOKEN);
        assert_int_equal(net->status, 0);
        assert_true(collnet_is_clean(net));
        collnet_destroy(net);
    }
}

/* Those below need the time: they are sent to before the service here hears anything. */
static void test_children_before_run(void **state)
{
    (void)state;
    for (uint32_t flags = 0; flags <= COP_BCAST_HEAL; flags++) {
        struct collnet *net = collnet_create(8, "binomial", 1);
        struct cop_coll coll = coll_with(flags);
        struct cop_request request = {
            .kind = COP_REQUEST_BCAST, .token = TOKEN, .coll = &coll};
        struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &request};
        struct cop_effects effects = {0};
        cop_id order[8];
        uint32_t sent = 0;
        assert_int_equal(cop_step(net->nodes[0], &event, &effects), 0);
        for (uint32_t i = 0; i < effects.count; i++) {
            if (effects.items[i].kind == COP_EFFECT_UPCALL) {
                assert_int_equal(sent, 3); /* all of them, before RUN */
                break;
            }
            if (effects.items[i].kind == COP_EFFECT_SEND)
                order[sent++] = effects.items[i].peer;
        }
        assert_int_equal(order[0], 4); /* the deepest first */
        assert_int_equal(order[1], 2);
        assert_int_equal(order[2], 1);
        cop_effects_free(&effects);
        collnet_destroy(net);
    }
}

static void test_request_is_its_own(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(3, "flat", 1);
    struct cop_coll coll = coll_with(COP_BCAST_HEAL);
    struct cop_portion portions[] = {{2, "for two", 7}};
    coll.portions = portions;
    coll.portion_count = 1;
    assert_int_equal(bcast(net, 0, &coll), 0);
    collnet_run(net);
    const struct cop_upcall *one = collnet_last(net, 1, COP_UPCALL_RUN);
    const struct cop_upcall *two = collnet_last(net, 2, COP_UPCALL_RUN);
    assert_int_equal(one->length, 5);
    assert_memory_equal(one->bytes, "hello", 5);
    assert_int_equal(two->length, 7);
    assert_memory_equal(two->bytes, "for two", 7);
    assert_int_equal(two->root, 0);
    collnet_destroy(net);
}

/* ---- refusals and errors --------------------------------------------------------- */

static void test_refusal_stops_below(void **state)
{
    (void)state;
    for (uint32_t flags = 0; flags <= COP_BCAST_HEAL; flags++) {
        struct collnet *net = collnet_create(7, "kary:2", 1);
        struct cop_coll coll = coll_with(flags);
        enum cop_phase phase;
        cop_id at;
        net->behave[1].check = COP_EREFUSED;
        assert_int_equal(bcast(net, 0, &coll), 0);
        collnet_run(net);
        expect_upcalls(net, 1, "C"); /* nothing more after the refusal */
        expect_upcalls(net, 3, "");
        expect_upcalls(net, 5, "CRDS"); /* the siblings' results are not discarded */
        assert_int_equal(collnet_failure(net, 1, &phase, &at), COP_EREFUSED);
        assert_int_equal(phase, COP_PHASE_CHECK);
        assert_int_equal(collnet_failure(net, 4, &phase, &at), COP_EREFUSED);
        assert_int_equal(at, 1); /* refused at x */
        assert_int_equal(collnet_failure(net, 2, NULL, NULL), 0);
        assert_int_equal(collnet_last(net, 0, COP_UPCALL_REPLY)->kind,
                         COP_UPCALL_REPLY);
        assert_true(collnet_is_clean(net));
        if (flags & COP_BCAST_HEAL)
            assert_int_equal(sum_of(net), 0 + 2 + 5 + 6);
        collnet_destroy(net);
    }
}

/* The parent hears of a refusal with its phase and cause. */
static void test_parent_hears_of_refusal(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(2, "chain", 1);
    struct cop_coll coll = coll_with(0);
    net->behave[1].check = COP_EIO;
    assert_int_equal(bcast(net, 0, &coll), 0);
    collnet_run(net);
    const struct cop_upcall *reply = collnet_last(net, 0, COP_UPCALL_REPLY);
    assert_int_equal(reply->peer, 1);
    assert_int_equal(reply->status, COP_EIO);
    assert_int_equal(reply->phase, COP_PHASE_CHECK);
    collnet_destroy(net);
}

static void test_service_fails(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(7, "kary:2", 1);
    struct cop_coll coll = coll_with(COP_BCAST_HEAL);
    enum cop_phase phase;
    net->behave[2].status = COP_EIO;
    assert_int_equal(bcast(net, 0, &coll), 0);
    collnet_run(net);
    assert_int_equal(collnet_failure(net, 2, &phase, NULL), COP_EIO);
    assert_int_equal(phase, COP_PHASE_RUN);
    assert_int_equal(sum_of(net), 0 + 1 + 3 + 4 + 5 + 6); /* those below it are there */
    collnet_destroy(net);
}

static void unregister(struct collnet *net, cop_id id)
{
    struct cop_coll coll = {.group = 0};
    struct cop_request request = {.kind = COP_REQUEST_UNSERVICE, .coll = &coll};
    coll.service.id = COLLNET_SERVICE;
    assert_int_equal(collnet_submit(net, id, &request), 0);
}

static void test_no_service(void **state)
{
    (void)state;
    for (uint32_t flags = 0; flags <= COP_BCAST_HEAL; flags++) {
        struct collnet *net = collnet_create(7, "kary:2", 1);
        struct cop_coll coll = coll_with(flags);
        enum cop_phase phase;
        unregister(net, 1);
        assert_int_equal(bcast(net, 0, &coll), 0);
        collnet_run(net);
        expect_upcalls(net, 1, "");
        assert_int_equal(collnet_failure(net, 1, &phase, NULL), COP_ENOENT);
        assert_int_equal(phase, COP_PHASE_SERVICE);
        /* With HEAL those below run it all the same; without, they fail with it. */
        expect_upcalls(net, 3, flags ? "CRDS" : "");
        collnet_destroy(net);
    }
}

static void test_unregister_in_flight(void **state)
{
    (void)state;
    for (uint32_t flags = 0; flags <= COP_BCAST_HEAL; flags++) {
        struct collnet *net = collnet_create(3, "chain", 1);
        struct cop_coll coll = coll_with(flags);
        enum cop_phase phase;
        net->behave[1].replies_never = true;
        net->behave[2].checks_never = true;
        assert_int_equal(bcast(net, 0, &coll), 0);
        collnet_run(net);
        assert_int_equal(net->completions, 0);
        unregister(net, 2); /* while it is asked */
        unregister(net, 1); /* while it runs */
        collnet_run(net);
        assert_int_equal(net->completions, 1);
        assert_int_equal(collnet_failure(net, 1, &phase, NULL), COP_ENOENT);
        assert_int_equal(phase, COP_PHASE_SERVICE);
        assert_int_equal(collnet_failure(net, 2, &phase, NULL), COP_ENOENT);
        assert_true(collnet_is_clean(net));
        collnet_destroy(net);
    }
}

static int say(struct collnet *net, cop_id id, enum cop_request_kind kind,
               uint64_t handle)
{
    struct cop_coll coll = {.handle = handle};
    struct cop_request request = {.kind = kind, .coll = &coll};
    return collnet_submit(net, id, &request);
}

/* Who asks to hear nothing more of a handle hears nothing more, whatever comes from below. */
static void test_silent_reply(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(7, "kary:2", 1);
    struct cop_coll coll = coll_with(COP_BCAST_HEAL);
    struct cop_coll silent = {.silent = true};
    struct cop_request request = {.kind = COP_REQUEST_REPLY, .coll = &silent};
    net->behave[1].replies_never = net->behave[3].replies_never = true;
    assert_int_equal(bcast(net, 0, &coll), 0);
    collnet_run(net);
    expect_upcalls(net, 1, "CRr"); /* of 4; 3 is still owed */
    silent.handle = collnet_last(net, 1, COP_UPCALL_RUN)->handle;
    assert_int_equal(collnet_submit(net, 1, &request), 0);
    assert_int_equal(collnet_submit(net, 1, &request), COP_ESTATE);
    uint64_t handle = collnet_last(net, 3, COP_UPCALL_RUN)->handle;
    assert_int_equal(say(net, 3, COP_REQUEST_REPLY, handle), 0);
    collnet_run(net);
    expect_upcalls(net, 1, "CRr");
    expect_upcalls(net, 3, "CRDS");
    assert_int_equal(net->completions, 1);
    assert_int_equal(net->status, 0);
    assert_true(collnet_is_clean(net));
    collnet_destroy(net);
}

/* Without HEAL the service combines, and cannot do without. */
static void test_silent_without_heal(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(2, "flat", 1);
    struct cop_coll coll = coll_with(0), silent = {.silent = true};
    struct cop_request request = {.kind = COP_REQUEST_REPLY, .coll = &silent};
    net->behave[1].replies_never = true;
    assert_int_equal(bcast(net, 0, &coll), 0);
    collnet_run(net);
    silent.handle = collnet_last(net, 1, COP_UPCALL_RUN)->handle;
    assert_int_equal(collnet_submit(net, 1, &request), COP_EINVAL);
    assert_int_equal(say(net, 1, COP_REQUEST_REPLY, silent.handle), 0);
    collnet_run(net);
    expect_upcalls(net, 1, "CRDS");
    assert_int_equal(net->completions, 1);
    collnet_destroy(net);
}

static void test_service_that_wants_briefly(void **state)
{
    (void)state;
    for (uint32_t flags = 0; flags <= COP_BCAST_HEAL; flags++) {
        struct collnet *net = collnet_create(2, "flat", 1);
        struct cop_coll coll = coll_with(flags), service = {0};
        struct cop_request request = {.kind = COP_REQUEST_SERVICE, .coll = &service};
        service.service =
            (struct cop_service){COLLNET_SERVICE, 1, COP_WANTS_ALL | COP_WANTS_BRIEFLY};
        net->behave[1].replies_at_run = flags != 0;
        assert_int_equal(collnet_submit(net, 1, &request), 0);
        assert_int_equal(bcast(net, 0, &coll), 0);
        collnet_run(net);
        expect_upcalls(net, 1, flags ? "CRS" : "CRDS");
        assert_int_equal(net->completions, 1);
        collnet_destroy(net);
    }
}

static void test_answers_out_of_place(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(2, "flat", 1);
    struct cop_coll coll = coll_with(COP_BCAST_HEAL);
    net->behave[1].checks_never = true;
    net->behave[0].replies_never = true;
    assert_int_equal(bcast(net, 0, &coll), 0);
    collnet_run(net);
    uint64_t handle = collnet_last(net, 1, COP_UPCALL_CHECK)->handle;
    assert_int_equal(say(net, 1, COP_REQUEST_REPLY, handle), COP_ESTATE);
    assert_int_equal(say(net, 1, COP_REQUEST_CHECKED, handle), 0);
    assert_int_equal(say(net, 1, COP_REQUEST_CHECKED, handle), COP_ENOENT); /* over */
    uint64_t own = collnet_last(net, 0, COP_UPCALL_RUN)->handle;
    collnet_run(net);
    assert_int_equal(say(net, 0, COP_REQUEST_CHECKED, own), COP_ESTATE);
    assert_int_equal(say(net, 0, COP_REQUEST_REPLY, own), 0);
    assert_int_equal(net->completions, 1);
    assert_int_equal(say(net, 0, COP_REQUEST_REPLY, own), COP_ENOENT);
    assert_int_equal(say(net, 0, COP_REQUEST_REPLY, 12345), COP_ENOENT);
    assert_int_equal(say(net, 0, COP_REQUEST_RESOLVED, 12345), COP_ENOENT);
    assert_true(collnet_is_clean(net));
    collnet_destroy(net);
}

static void test_never_replies(void **state)
{
    (void)state;
    for (uint32_t flags = 0; flags <= COP_BCAST_HEAL; flags++) {
        struct collnet *net = collnet_create(7, "kary:2", 1);
        struct cop_coll coll = coll_with(flags);
        net->behave[1].replies_never = true;
        assert_int_equal(bcast(net, 0, &coll), 0);
        collnet_run(net);
        assert_int_equal(net->completions, 0);
        collnet_wait(net, 30 * COP_SEC);
        assert_int_equal(net->completions, 1);
        assert_int_equal(net->status, COP_ETIMEDOUT);
        assert_int_equal(collnet_failure(net, 1, NULL, NULL), COP_ETIMEDOUT);
        assert_int_equal(collnet_failure(net, 3, NULL, NULL), 0);
        assert_int_equal(collnet_last(net, 1, COP_UPCALL_SENT)->status,
                         flags ? COP_ETIMEDOUT : 0);
        assert_true(collnet_is_clean(net));
        collnet_destroy(net);
    }
}

/* ---- aborts ---------------------------------------------------------------------- */

static void test_abort(void **state)
{
    (void)state;
    for (uint32_t flags = 0; flags <= COP_BCAST_HEAL; flags++) {
        struct collnet *net = collnet_create(7, "kary:2", 1);
        struct cop_coll coll = coll_with(flags);
        struct cop_request end = {.kind = COP_REQUEST_ABORT, .target = TOKEN};
        for (cop_id id = 0; id < 7; id++)
            net->behave[id].replies_never = true;
        net->behave[5].checks_never = true;
        assert_int_equal(bcast(net, 0, &coll), 0);
        collnet_run(net);
        uint64_t handle = collnet_last(net, 3, COP_UPCALL_RUN)->handle;
        assert_int_equal(collnet_submit(net, 0, &end), 0);
        collnet_run(net);
        assert_int_equal(net->status, COP_EABORTED);
        assert_int_equal(net->completions, 1);
        expect_upcalls(net, 0, "RD");
        expect_upcalls(net, 1, "CRDS");
        expect_upcalls(net, 5, "C"); /* it never ran: nothing was promised */
        assert_int_equal(collnet_last(net, 3, COP_UPCALL_SENT)->status, COP_EABORTED);
        assert_int_equal(say(net, 3, COP_REQUEST_REPLY, handle), COP_ENOENT);
        assert_int_equal(collnet_submit(net, 0, &end),
                         COP_EINVAL); /* nothing to abort */
        assert_true(collnet_is_clean(net));
        collnet_destroy(net);
    }
}

/* ---- versions -------------------------------------------------------------------- */

static void test_lower_version(void **state)
{
    (void)state;
    for (uint32_t flags = 0; flags <= COP_BCAST_HEAL; flags++) {
        struct collnet *net = collnet_create(7, "kary:2", 3);
        struct cop_coll coll = coll_with(flags), change = coll_with(0);
        struct cop_request request = {.kind = COP_REQUEST_SERVICE, .coll = &change};
        enum cop_phase phase;
        change.service = (struct cop_service){COLLNET_SERVICE, 2, COP_WANTS_ALL};
        assert_int_equal(collnet_submit(net, 1, &request), 0);
        change.service.version = 1;
        assert_int_equal(collnet_submit(net, 4, &request), 0);
        coll.version = 3;
        assert_int_equal(bcast(net, 0, &coll), 0);
        collnet_run(net);
        struct cop_bcast_result result = collnet_result(net);
        assert_int_equal(result.lowest_version, 1);
        assert_int_equal(result.failure_count, 2);
        cop_bcast_result_free(&result);
        assert_int_equal(collnet_failure(net, 1, &phase, NULL), COP_EVERSION);
        assert_int_equal(phase, COP_PHASE_VERSION);
        expect_upcalls(net, 1, "");
        expect_upcalls(net, 3, "CRDS"); /* it still forwards */
        coll.version = 1;               /* once more, with the lowest */
        assert_int_equal(bcast(net, 0, &coll), 0);
        collnet_run(net);
        assert_int_equal(collnet_failure(net, 4, NULL, NULL), 0);
        collnet_destroy(net);
    }
}

static void test_strict_version(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(7, "kary:2", 2);
    struct cop_coll coll = coll_with(COP_BCAST_HEAL | COP_BCAST_STRICT);
    struct cop_coll change = coll_with(0);
    struct cop_request request = {.kind = COP_REQUEST_SERVICE, .coll = &change};
    change.service = (struct cop_service){COLLNET_SERVICE, 1, COP_WANTS_ALL};
    assert_int_equal(collnet_submit(net, 1, &request), 0);
    net->behave[2].replies_never = true; /* it would go on for long */
    coll.version = 2;
    assert_int_equal(bcast(net, 0, &coll), 0);
    collnet_run(net);
    collnet_wait(net, COP_MSEC);
    assert_int_equal(net->status, COP_EVERSION);
    expect_upcalls(net, 3, "");
    assert_true(collnet_is_clean(net));
    collnet_destroy(net);
}

/* ---- without HEAL ---------------------------------------------------------------- */

/* 3R + P, 2R + P, R + P for the children of the root of an 8-node binomial tree. */
static void test_patience_cascades(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(8, "binomial", 1);
    struct cop_coll coll = coll_with(0);
    coll.service_ns = 7 * COP_SEC;
    for (cop_id id = 0; id < 8; id++)
        net->behave[id].replies_never = true;
    assert_int_equal(bcast(net, 0, &coll), 0);
    uint64_t handle = collnet_last(net, 0, COP_UPCALL_RUN)->handle;
    cop_time one = cop_child_patience(net->nodes[0], handle, 2) - 7 * COP_SEC;
    assert_true(one > 0);
    assert_int_equal(cop_child_patience(net->nodes[0], handle, 1),
                     2 * one + 7 * COP_SEC);
    assert_int_equal(cop_child_patience(net->nodes[0], handle, 0),
                     3 * one + 7 * COP_SEC);
    assert_int_equal(cop_child_patience(net->nodes[0], handle, 3), 0);
    collnet_destroy(net);
}

/* One ETIMEDOUT for each that is late, then DONE, and the partial answer goes up. */
static void test_late_children(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(7, "kary:2", 1);
    struct cop_coll coll = coll_with(0);
    net->behave[3].checks_never = true;
    assert_int_equal(bcast(net, 0, &coll), 0);
    collnet_run(net);
    /* It is stopped: it cannot even say that its own time is up. */
    struct cop_node *stopped = net->nodes[3];
    net->nodes[3] = NULL;
    collnet_wait(net, 60 * COP_SEC);
    net->nodes[3] = stopped;
    assert_int_equal(net->completions, 1);
    expect_upcalls(net, 1, "CRrrDS");
    assert_int_equal(collnet_last(net, 1, COP_UPCALL_REPLY)->status, COP_ETIMEDOUT);
    assert_int_equal(collnet_failure(net, 3, NULL, NULL), COP_ETIMEDOUT);
    assert_int_equal(collnet_failure(net, 4, NULL, NULL), 0);
    assert_int_equal(collnet_failure(net, 1, NULL, NULL), 0);
    collnet_destroy(net);
}

static void test_known_dead(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(7, "kary:2", 1);
    struct cop_coll coll = coll_with(0);
    cop_id lost = COP_ID_NONE;
    coll.lost = &lost;
    collnet_kill(net, 1);
    collnet_wait(net, COP_SEC);
    assert_int_equal(bcast(net, 0, &coll), COP_ELOST);
    assert_int_equal(lost, 1);
    coll.flags = COP_BCAST_ALIVE;
    assert_int_equal(bcast(net, 0, &coll), 0);
    collnet_run(net);
    struct cop_bcast_result result = collnet_result(net);
    assert_int_equal(result.members, 6);
    assert_int_equal(result.answered, 6);
    cop_bcast_result_free(&result);
    coll.flags = COP_BCAST_HEAL;
    assert_int_equal(bcast(net, 0, &coll), 0);
    collnet_run(net);
    assert_int_equal(collnet_failure(net, 1, NULL, NULL), COP_ELOST);
    assert_int_equal(collnet_failure(net, 3, NULL, NULL), 0);
    assert_int_equal(sum_of(net), 0 + 2 + 3 + 4 + 5 + 6);
    collnet_destroy(net);
}

/* A death is an error at once; without HEAL the sub-tree goes with it, with HEAL it does not. */
static void test_death_on_the_way(void **state)
{
    (void)state;
    for (uint32_t flags = 0; flags <= COP_BCAST_HEAL; flags++) {
        struct collnet *net = collnet_create(7, "kary:2", 1);
        struct cop_coll coll = coll_with(flags);
        cop_id at;
        assert_int_equal(bcast(net, 0, &coll), 0);
        collnet_kill(net, 1); /* before it got anything */
        collnet_run(net);
        collnet_wait(net, 10 * COP_MSEC);
        assert_int_equal(net->completions, 1);
        assert_int_equal(collnet_failure(net, 1, NULL, &at), COP_ELOST);
        assert_int_equal(collnet_failure(net, 3, NULL, &at), flags ? 0 : COP_ELOST);
        assert_int_equal(collnet_failure(net, 5, NULL, NULL), 0);
        if (!flags)
            assert_int_equal(at, 1);
        assert_true(collnet_is_clean(net));
        collnet_destroy(net);
    }
}

static void test_replies_in_pieces(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(3, "chain", 1);
    struct cop_coll coll = coll_with(0);
    net->behave[2].pieces = 3;
    net->behave[1].pieces = 1;
    assert_int_equal(bcast(net, 0, &coll), 0);
    collnet_run(net);
    expect_upcalls(net, 1, "CRrrrrDS");
    expect_upcalls(net, 0, "RrrD");
    assert_true(collnet_last(net, 1, COP_UPCALL_REPLY)->more == false);
    collnet_destroy(net);
}

/* The service speaks for those below: not before they have spoken. */
static void test_reply_too_early(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(3, "chain", 1);
    struct cop_coll coll = coll_with(0);
    net->behave[2].checks_never = true;
    assert_int_equal(bcast(net, 0, &coll), 0);
    collnet_run(net);
    uint64_t handle = collnet_last(net, 1, COP_UPCALL_RUN)->handle;
    assert_int_equal(say(net, 1, COP_REQUEST_REPLY, handle), COP_ESTATE);
    collnet_destroy(net);
}

/* With HEAL too: what does not fit one message comes in as many as are needed. */
static void test_large_answers(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(13, "kary:3", 1);
    struct cop_coll coll = coll_with(COP_BCAST_HEAL);
    uint32_t length = COP_REPLY_MAX, at = 0, got = 0, size;
    char *bytes = calloc(1, length);
    const uint8_t *found;
    cop_id node;
    assert_non_null(bytes);
    coll.op = COP_OP_CONCAT;
    for (cop_id id = 0; id < 13; id++) {
        net->behave[id].bytes = bytes;
        net->behave[id].length = length;
    }
    assert_int_equal(bcast(net, 0, &coll), 0);
    collnet_run(net);
    assert_int_equal(net->status, 0);
    assert_int_equal(net->calls_sent, 12); /* nobody had to be asked again */
    struct cop_bcast_result result = collnet_result(net);
    assert_int_equal(result.answered, 13);
    while (cop_concat_next(&result, &at, &node, &found, &size)) {
        assert_int_equal(node, got++);
        assert_int_equal(size, length);
    }
    assert_int_equal(got, 13);
    cop_bcast_result_free(&result);
    free(bytes);
    collnet_destroy(net);
}

/* ---- groups ---------------------------------------------------------------------- */

static const struct cop_tag tags[3] = {{{1}}, {{2}}, {{3}}};
static const struct cop_target some[] = {
    {4, tags, 2}, {1, tags + 2, 1}, {0, NULL, 0}, {6, tags, 1}};

static void test_group_now(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(7, "kary:2", 1);
    struct cop_coll coll = coll_with(COP_BCAST_HEAL);
    assert_int_equal(make_group(net, 0, 3, COP_GROUP_NOW, some, 4), 0);
    assert_int_equal(net->status, 0);
    assert_int_equal(net->token, 99);
    assert_string_equal(cop_group_name(net->nodes[0], 3), "some");
    assert_int_equal(cop_node_groups(net->nodes[6]), 1);
    assert_int_equal(cop_node_groups(net->nodes[2]), 0); /* not in it */
    coll.group = 3;
    assert_int_equal(bcast(net, 0, &coll), 0);
    collnet_run(net);
    assert_int_equal(sum_of(net), 0 + 1 + 4 + 6);
    expect_upcalls(net, 2, "");
    const struct cop_upcall *run = collnet_last(net, 4, COP_UPCALL_RUN);
    assert_int_equal(collnet_count(net, 4, COP_UPCALL_RUN),
                     1); /* one for all its tags */
    assert_int_equal(run->tag_count, 2);
    assert_memory_equal(run->tags, tags, 2 * sizeof tags[0]);
    /* Any member can be the root: 6 knows the group by the number that it was told. */
    coll.group = collnet_last(net, 6, COP_UPCALL_RUN)->group;
    assert_true(coll.group >= COP_GROUP_LEARNT);
    assert_int_equal(bcast(net, 6, &coll), 0);
    collnet_run(net);
    assert_int_equal(sum_of(net), 0 + 1 + 4 + 6);
    assert_int_equal(collnet_last(net, 4, COP_UPCALL_RUN)->root, 6);
    collnet_destroy(net);
}

static void test_group_now_fails(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(7, "kary:2", 1);
    collnet_kill(net, 6);
    assert_int_equal(make_group(net, 0, 3, COP_GROUP_NOW, some, 4), 0);
    collnet_wait(net, COP_SEC);
    assert_int_equal(net->status, COP_ELOST);
    for (cop_id id = 0; id < 6; id++) /* those who had heard of it forget it */
        assert_int_equal(cop_node_groups(net->nodes[id]), 0);
    collnet_destroy(net);
}

static void test_group_lazy(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(7, "kary:2", 1);
    struct cop_coll coll = coll_with(0);
    assert_int_equal(make_group(net, 0, 3, COP_GROUP_LAZY, some, 4), 0);
    assert_int_equal(net->completions, 1); /* at once */
    assert_int_equal(net->calls_sent, 0);
    assert_int_equal(cop_node_groups(net->nodes[6]), 0);
    coll.group = 3;
    coll.flags = COP_BCAST_HEAL;
    assert_int_equal(bcast(net, 0, &coll), 0);
    uint32_t first = net->last_call_length;
    collnet_run(net);
    assert_int_equal(cop_node_groups(net->nodes[6]), 1);
    assert_int_equal(bcast(net, 0, &coll), 0);
    assert_true(net->last_call_length < first); /* it rides with the first only */
    collnet_run(net);
    assert_int_equal(net->status, 0);
    coll.flags = 0; /* and serves without HEAL, too */
    assert_int_equal(bcast(net, 0, &coll), 0);
    collnet_run(net);
    struct cop_bcast_result result = collnet_result(net);
    assert_int_equal(result.answered, 4);
    cop_bcast_result_free(&result);
    collnet_destroy(net);
}

static void test_too_large(void **state)
{
    (void)state;
    static struct cop_tag many[300];
    static char large[COP_BCAST_MAX];
    struct cop_target targets[] = {{0, many, 300}, {1, NULL, 0}};
    struct collnet *net = collnet_create(2, "flat", 1);
    struct cop_coll coll = coll_with(COP_BCAST_HEAL);
    struct cop_request request = {.kind = COP_REQUEST_BCAST,
                                  .token = TOKEN,
                                  .coll = &coll,
                                  .bytes = large,
                                  .length = sizeof large};
    assert_int_equal(make_group(net, 0, 3, COP_GROUP_LAZY, targets, 2), 0);
    coll.group = 3;
    assert_int_equal(bcast(net, 0, &coll), COP_ETOOBIG);
    coll.group = COP_GROUP_ALL;
    assert_int_equal(collnet_submit(net, 0, &request), COP_ETOOBIG);
    request.length = sizeof large / 2;
    assert_int_equal(collnet_submit(net, 0, &request), 0);
    /* Made known beforehand it need not ride. */
    collnet_run(net);
    assert_int_equal(make_group(net, 0, 4, COP_GROUP_NOW, targets, 2), 0);
    coll.group = 4;
    assert_int_equal(bcast(net, 0, &coll), 0);
    collnet_run(net);
    assert_int_equal(net->status, 0);
    collnet_destroy(net);
}

static void test_group_mistakes(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(3, "flat", 1);
    struct cop_target twice[] = {{0, NULL, 0}, {0, NULL, 0}};
    struct cop_target without[] = {{1, NULL, 0}};
    struct cop_target stranger[] = {{0, NULL, 0}, {9, NULL, 0}};
    struct cop_target fine[] = {{0, NULL, 0}};
    struct cop_coll coll = coll_with(COP_BCAST_HEAL);
    assert_int_equal(make_group(net, 0, 3, COP_GROUP_LAZY, twice, 2), COP_EINVAL);
    assert_int_equal(make_group(net, 0, 3, COP_GROUP_LAZY, without, 1), COP_EINVAL);
    assert_int_equal(make_group(net, 0, 3, COP_GROUP_LAZY, stranger, 2), COP_EINVAL);
    assert_int_equal(make_group(net, 0, 0, COP_GROUP_LAZY, fine, 1), COP_EINVAL);
    assert_int_equal(make_group(net, 0, 3, COP_GROUP_LAZY, fine, 1), 0);
    assert_int_equal(make_group(net, 0, 3, COP_GROUP_LAZY, fine, 1), COP_EEXIST);
    coll.group = 77;
    assert_int_equal(bcast(net, 0, &coll), COP_ENOENT);
    coll.group = COP_GROUP_ALL;
    coll.flags |= COP_BCAST_LAST;
    assert_int_equal(bcast(net, 0, &coll), COP_EINVAL); /* the view does not end */
    coll.flags = 0x100;
    assert_int_equal(bcast(net, 0, &coll), COP_EINVAL);
    coll.flags = COP_BCAST_HEAL;
    coll.op = COP_OP_TOP;
    assert_int_equal(bcast(net, 0, &coll), COP_EINVAL); /* the top none */
    collnet_destroy(net);
}

static void test_group_ends(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(7, "kary:2", 1);
    struct cop_coll coll = coll_with(COP_BCAST_HEAL | COP_BCAST_LAST);
    struct cop_request end = {
        .kind = COP_REQUEST_GROUP_END, .token = 98, .coll = &coll};
    assert_int_equal(make_group(net, 0, 3, COP_GROUP_NOW, some, 4), 0);
    assert_int_equal(make_group(net, 0, 4, COP_GROUP_NOW, some, 4), 0);
    assert_int_equal(cop_node_groups(net->nodes[6]), 2);
    coll.group = 3;
    assert_int_equal(bcast(net, 0, &coll), 0);
    assert_int_equal(bcast(net, 0, &coll), COP_ENOENT); /* no more broadcasts */
    collnet_run(net);
    assert_int_equal(sum_of(net), 0 + 1 + 4 + 6);
    coll.group = 4;
    assert_int_equal(collnet_submit(net, 0, &end), 0);
    collnet_run(net);
    assert_int_equal(net->token, 98);
    assert_int_equal(net->status, 0);
    for (cop_id id = 0; id < 7; id++)
        assert_int_equal(cop_node_groups(net->nodes[id]), 0);
    assert_int_equal(collnet_submit(net, 0, &end), COP_ENOENT);
    collnet_destroy(net);
}

/* The last one waits for those before it. */
static void test_last_waits(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(7, "kary:2", 1);
    struct cop_coll coll = coll_with(COP_BCAST_HEAL);
    assert_int_equal(make_group(net, 0, 3, COP_GROUP_NOW, some, 4), 0);
    coll.group = 3;
    assert_int_equal(bcast(net, 0, &coll), 0);
    coll.flags |= COP_BCAST_LAST;
    assert_int_equal(bcast(net, 0, &coll), COP_EAGAIN);
    collnet_run(net);
    assert_int_equal(bcast(net, 0, &coll), 0);
    collnet_run(net);
    assert_int_equal(cop_node_groups(net->nodes[4]), 0);
    /* What 4 keeps of it is for those who come back (K2), and not for calls of its own. */
    coll.flags = COP_BCAST_HEAL;
    coll.group = COP_GROUP_LEARNT + 1;
    assert_int_equal(bcast(net, 4, &coll), COP_ENOENT);
    collnet_destroy(net);
}

/* A group dies with its creator: when no denial has come for a while. */
static void test_creator_dies(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(7, "kary:2", 1);
    assert_int_equal(make_group(net, 0, 3, COP_GROUP_NOW, some, 4), 0);
    collnet_kill(net, 0);
    collnet_wait(net, COP_SEC);
    assert_int_equal(cop_node_groups(net->nodes[4]), 1); /* it may still deny */
    collnet_wait(net, 60 * COP_SEC);
    assert_int_equal(cop_node_groups(net->nodes[4]), 0);
    assert_int_equal(cop_node_groups(net->nodes[1]), 0);
    collnet_destroy(net);
}

/* Two memberships never share a name. */
static void test_digests_differ(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(7, "kary:2", 1);
    struct cop_target turned[] = {some[1], some[0], some[2], some[3]};
    uint8_t a[16], b[16];
    assert_int_equal(make_group(net, 0, 3, COP_GROUP_LAZY, some, 4), 0);
    assert_int_equal(make_group(net, 0, 4, COP_GROUP_LAZY, turned, 4), 0);
    assert_int_equal(cop_group_digest(net->nodes[0], 3, a), 0);
    assert_int_equal(cop_group_digest(net->nodes[0], 4, b), 0);
    assert_memory_not_equal(a, b, sizeof a);
    assert_int_equal(cop_group_digest(net->nodes[0], 5, a), COP_ENOENT);
    collnet_destroy(net);
}

static const struct cop_target chain_of_four[] = {
    {0, NULL, 0}, {1, NULL, 0}, {2, NULL, 0}, {3, NULL, 0}};
static const cop_id known[] = {0, 1, 2, 3}, other[] = {0, 1, 3, 2};

static void test_out_of_band(void **state)
{
    (void)state;
    for (uint32_t flags = 0; flags <= COP_BCAST_HEAL; flags++) {
        struct collnet *net = collnet_create(4, "chain", 1);
        struct cop_coll coll = coll_with(flags);
        enum cop_phase phase;
        for (cop_id id = 0; id < 4; id++) {
            net->behave[id].members = known;
            net->behave[id].member_count = 4;
        }
        assert_int_equal(make_group(net, 0, 3, COP_GROUP_OOB, chain_of_four, 4), 0);
        assert_int_equal(net->calls_sent, 0); /* local, and at once */
        coll.group = 3;
        assert_int_equal(bcast(net, 0, &coll), 0);
        collnet_run(net);
        assert_int_equal(net->status, 0);
        expect_upcalls(net, 3, "vCRDS");
        /* The membership changes at one: it refuses, and nobody below it runs anything. */
        collnet_forget(net);
        net->behave[1].members = other;
        assert_int_equal(bcast(net, 0, &coll), 0);
        collnet_run(net);
        assert_int_equal(collnet_failure(net, 1, &phase, NULL), COP_ESTATE);
        assert_int_equal(phase, COP_PHASE_GROUP);
        assert_int_not_equal(collnet_failure(net, 3, NULL, NULL), 0);
        expect_upcalls(net, 1, "v");
        expect_upcalls(net, 3, "");
        /* The root learns of it, and uses the same number again. */
        struct cop_target targets[] = {
            {0, NULL, 0}, {1, NULL, 0}, {3, NULL, 0}, {2, NULL, 0}};
        assert_int_equal(make_group(net, 0, 3, COP_GROUP_OOB, targets, 4), 0);
        for (cop_id id = 0; id < 4; id++)
            net->behave[id].members = other;
        assert_int_equal(bcast(net, 0, &coll), 0);
        collnet_run(net);
        assert_int_equal(collnet_failure(net, 1, NULL, NULL), 0);
        assert_true(collnet_is_clean(net));
        collnet_destroy(net);
    }
}

static void test_alive_of_a_group(void **state)
{
    (void)state;
    for (uint32_t flags = 0; flags <= COP_BCAST_HEAL; flags++) {
        struct collnet *net = collnet_create(7, "kary:2", 1);
        struct cop_coll coll = coll_with(flags | COP_BCAST_ALIVE);
        assert_int_equal(make_group(net, 0, 3, COP_GROUP_NOW, some, 4), 0);
        collnet_kill(net, 1);
        collnet_wait(net, COP_SEC);
        coll.group = 3;
        assert_int_equal(bcast(net, 0, &coll), 0);
        collnet_run(net);
        struct cop_bcast_result result = collnet_result(net);
        assert_int_equal(result.members, 3);
        assert_int_equal(result.failure_count, 0);
        cop_bcast_result_free(&result);
        collnet_destroy(net);
    }
}

/* ---- the tree -------------------------------------------------------------------- */

static void test_tree_queries(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(7, "kary:2", 1);
    struct cop_coll coll = coll_with(0);
    struct cop_node *root = net->nodes[4];
    struct cop_target own[4] = {some[0], some[1], some[2], some[3]};
    assert_int_equal(make_group(net, 4, 3, COP_GROUP_NOW, own, 4), 0);
    /* 4 is the root; below it 1 (with 6 below that) and 0. */
    assert_int_equal(cop_bcast_nchildren(root, 0, 3), 2);
    assert_int_equal(cop_child_nodes(root, 0, 3, 0), 2);
    assert_int_equal(cop_child_entities(root, 0, 3, 0), 2);
    assert_int_equal(cop_child_nodes(root, 0, 3, 1), 1);
    assert_int_equal(cop_child_entities(root, 0, 3, 1), 0);
    assert_int_equal(cop_child_nodes(root, 0, 3, 2), COP_ENOENT);
    assert_int_equal(cop_bcast_nchildren(root, 0, 9), COP_ENOENT);
    assert_int_equal(cop_bcast_nchildren(root, 0, COP_GROUP_ALL), 2);
    net->behave[1].checks_never = true;
    coll.group = 3;
    assert_int_equal(bcast(net, 4, &coll), 0);
    collnet_run(net);
    uint64_t handle = collnet_last(net, 1, COP_UPCALL_CHECK)->handle;
    assert_int_equal(cop_bcast_nchildren(net->nodes[1], handle, 0), 1);
    assert_int_equal(cop_child_nodes(net->nodes[1], handle, 0, 0), 1);
    assert_int_equal(cop_child_entities(net->nodes[1], handle, 0, 0), 1);
    assert_int_equal(cop_bcast_nchildren(net->nodes[1], 999, 0), COP_ENOENT);
    collnet_destroy(net);
}

static void test_many_in_flight(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(2, "flat", 1);
    struct cop_coll coll = coll_with(COP_BCAST_HEAL);
    for (cop_id id = 0; id < 2; id++)
        net->behave[id].replies_at_run = true;
    uint32_t taken = 0;
    while (bcast(net, 0, &coll) == 0)
        taken++;
    assert_int_equal(taken, COP__SWEEP_WINDOW); /* back-pressure to the caller */
    assert_int_equal(bcast(net, 0, &coll), COP_EAGAIN);
    assert_int_equal(bcast(net, 1, &coll), 0); /* another root has its own */
    collnet_run(net);
    assert_int_equal(net->completions, COP__SWEEP_WINDOW + 1);
    assert_true(collnet_is_clean(net));
    collnet_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_of_upcalls),
        cmocka_unit_test(test_silent_reply),
        cmocka_unit_test(test_silent_without_heal),
        cmocka_unit_test(test_service_that_wants_briefly),
        cmocka_unit_test(test_children_before_run),
        cmocka_unit_test(test_request_is_its_own),
        cmocka_unit_test(test_refusal_stops_below),
        cmocka_unit_test(test_parent_hears_of_refusal),
        cmocka_unit_test(test_service_fails),
        cmocka_unit_test(test_no_service),
        cmocka_unit_test(test_unregister_in_flight),
        cmocka_unit_test(test_answers_out_of_place),
        cmocka_unit_test(test_never_replies),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_lower_version),
        cmocka_unit_test(test_strict_version),
        cmocka_unit_test(test_patience_cascades),
        cmocka_unit_test(test_late_children),
        cmocka_unit_test(test_known_dead),
        cmocka_unit_test(test_death_on_the_way),
        cmocka_unit_test(test_replies_in_pieces),
        cmocka_unit_test(test_reply_too_early),
        cmocka_unit_test(test_large_answers),
        cmocka_unit_test(test_group_now),
        cmocka_unit_test(test_group_now_fails),
        cmocka_unit_test(test_group_lazy),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_group_mistakes),
        cmocka_unit_test(test_group_ends),
        cmocka_unit_test(test_last_waits),
        cmocka_unit_test(test_creator_dies),
        cmocka_unit_test(test_digests_differ),
        cmocka_unit_test(test_out_of_band),
        cmocka_unit_test(test_alive_of_a_group),
        cmocka_unit_test(test_tree_queries),
        cmocka_unit_test(test_many_in_flight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
