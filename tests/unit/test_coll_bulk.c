/* SPDX-License-Identifier: Apache-2.0 */
#include "collnet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

/* Bulk, rule by rule, over real nodes. What happens while members die is in tests/sim, too. */

#define TOKEN 5u
#define CHUNK 16u

static int bcast(struct collnet *net, uint64_t length, uint32_t flags, uint32_t chunk)
{
    struct cop_coll coll = {.flags = flags,
                            .op = COP_OP_STATUS,
                            .version = 1,
                            .bulk_length = length,
                            .bulk_chunk = chunk};
    struct cop_request request = {.kind = COP_REQUEST_BCAST,
                                  .token = TOKEN,
                                  .coll = &coll,
                                  .bytes = "put",
                                  .length = 3,
                                  .timeout_ns = 60 * COP_SEC};
    coll.service.id = COLLNET_SERVICE;
    return collnet_submit(net, 0, &request);
}

static struct collnet *start(uint32_t n, const char *shape, uint64_t length)
{
    struct collnet *net = collnet_create(n, shape, 1);
    for (cop_id id = 0; id < n; id++)
        net->behave[id].replies_at_run = true;
    assert_int_equal(bcast(net, length, COP_BCAST_HEAL | COP_BCAST_BULK, CHUNK), 0);
    return net;
}

/* Without HEAL, where a service replies when it is done. */
static struct collnet *start_plain(uint32_t n, const char *shape, uint64_t length)
{
    struct collnet *net = collnet_create(n, shape, 1);
    assert_int_equal(bcast(net, length, COP_BCAST_BULK, CHUNK), 0);
    return net;
}

static void expect_bytes(const struct collnet *net, cop_id id, uint32_t length)
{
    assert_int_equal(net->sinks[id].length, length);
    for (uint32_t i = 0; i < length; i++)
        if (net->sinks[id].bytes[i] != collnet_byte(i))
            fail_msg("byte %u at %u", (unsigned)i, (unsigned)id);
}

static void expect_failure(struct collnet *net, cop_id id, int status, cop_id where)
{
    enum cop_phase phase;
    cop_id at;
    assert_int_equal(collnet_failure(net, id, &phase, &at), status);
    assert_int_equal(phase, COP_PHASE_BULK);
    assert_int_equal(at, where);
    assert_int_equal(collnet_last(net, id, COP_UPCALL_RUN)->status, status);
    assert_int_equal(collnet_count(net, id, COP_UPCALL_RUN), 1);
    assert_int_equal(collnet_count(net, id, COP_UPCALL_DONE), 1);
}

static void test_everyone_gets_it(void **state)
{
    static const uint32_t lengths[] = {0,         1,          CHUNK,
                                       CHUNK + 1, 50 * CHUNK, 50 * CHUNK - 1};
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct collnet *net = start(7, "kary:2", lengths[i]);
        collnet_run(net);
        assert_int_equal(net->completions, 1);
        assert_int_equal(net->status, 0);
        for (cop_id id = 0; id < 7; id++) {
            expect_bytes(net, id, lengths[i]);
            assert_int_equal(collnet_count(net, id, COP_UPCALL_RUN), 1);
            assert_int_equal(collnet_last(net, id, COP_UPCALL_RUN)->status, 0);
            assert_int_equal(collnet_last(net, id, COP_UPCALL_RUN)->bulk_length,
                             lengths[i]);
            assert_int_equal(collnet_failure(net, id, NULL, NULL), 0);
        }
        assert_int_equal(net->rereads, 0); /* each byte was read once */
        assert_true(collnet_is_clean(net));
        collnet_destroy(net);
    }
}

/* However deep the tree is, nobody waits for a clock. */
static void test_deep_tree(void **state)
{
    (void)state;
    struct collnet *net = start(14, "chain", 100 * CHUNK);
    collnet_run(net);
    assert_int_equal(net->completions, 1);
    for (cop_id id = 0; id < 14; id++)
        expect_bytes(net, id, 100 * CHUNK);
    collnet_destroy(net);
}

/* RUN comes after the last piece was put away, and replies from below after RUN. */
static void test_order(void **state)
{
    (void)state;
    struct collnet *net = start(3, "chain", 3 * CHUNK);
    static const char letters[] = "CRrDSvPW";
    char got[64];
    uint32_t count = 0;
    collnet_run(net);
    for (uint32_t i = 0; i < net->note_count; i++)
        if (net->notes[i].node == 1)
            got[count++] = letters[net->notes[i].upcall.kind];
    got[count] = '\0';
    assert_string_equal(got, "CPPPRrDS");
    collnet_destroy(net);
}

static void test_what_is_not_possible(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(3, "flat", 1);
    struct cop_coll coll = {.handle = 77};
    struct cop_request request = {.kind = COP_REQUEST_TAKEN, .coll = &coll};
    uint32_t both = COP_BCAST_HEAL | COP_BCAST_BULK;
    assert_int_equal(bcast(net, 1, both, COP_BULK_CHUNK_MAX + 1), COP_EINVAL);
    assert_int_equal(bcast(net, COP_BULK_MAX + 1, both, CHUNK), COP_EINVAL);
    assert_int_equal(bcast(net, COP_BULK_MAX, both, 1), COP_EINVAL);
    assert_int_equal(collnet_submit(net, 0, &request), COP_ENOENT);
    request.kind = COP_REQUEST_GIVE;
    assert_int_equal(collnet_submit(net, 0, &request), COP_ENOENT);
    net->behave[1].takes = 1; /* and then nothing: the call stays */
    assert_int_equal(bcast(net, 3 * CHUNK, both, CHUNK), 0);
    collnet_run(net);
    coll.handle = collnet_last(net, 2, COP_UPCALL_RUN)->handle;
    request.kind = COP_REQUEST_TAKEN;
    assert_int_equal(collnet_submit(net, 2, &request), COP_ENOENT); /* over there */
    coll.handle = collnet_last(net, 1, COP_UPCALL_PIECE)->handle;
    coll.status = 1;
    assert_int_equal(collnet_submit(net, 1, &request), COP_EINVAL);
    coll.status = 0;
    request.kind = COP_REQUEST_GIVE; /* nobody asked it */
    assert_int_equal(collnet_submit(net, 1, &request), COP_ESTATE);
    request.kind = COP_REQUEST_TAKEN;
    coll.handle = collnet_last(net, 0, COP_UPCALL_PIECE)->handle;
    assert_int_equal(collnet_submit(net, 0, &request), COP_ESTATE); /* has them all */
    coll.handle = collnet_last(net, 1, COP_UPCALL_PIECE)->handle;
    assert_int_equal(collnet_submit(net, 1, &request), 0);
    assert_int_equal(collnet_submit(net, 1, &request), 0);
    collnet_run(net);
    assert_int_equal(net->completions, 1);
    collnet_destroy(net);
}

/* Whoever cannot take it fails alone, and still passes it on. */
static void test_sink_fails(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(7, "kary:2", 1);
    for (cop_id id = 0; id < 7; id++)
        net->behave[id].replies_at_run = true;
    net->behave[1].takes = 5;
    net->behave[1].sink = COP_EIO;
    assert_int_equal(bcast(net, 60 * CHUNK, COP_BCAST_HEAL | COP_BCAST_BULK, CHUNK), 0);
    collnet_run(net);
    expect_failure(net, 1, COP_EIO, 1);
    expect_bytes(net, 3, 60 * CHUNK);
    expect_bytes(net, 4, 60 * CHUNK);
    assert_int_equal(collnet_failure(net, 3, NULL, NULL), 0);
    assert_true(collnet_is_clean(net));
    collnet_destroy(net);
}

static void test_source_fails(void **state)
{
    (void)state;
    struct collnet *net = start(4, "chain", 60 * CHUNK);
    collnet_some(net, 40);
    net->behave[0].source = COP_EIO;
    collnet_run(net);
    assert_int_equal(net->completions, 1);
    for (cop_id id = 0; id < 4; id++)
        expect_failure(net, id, COP_EIO, 0);
    assert_true(collnet_is_clean(net));
    collnet_destroy(net);
}

/* A leaf that takes its time makes the root read no further than the windows on the way. */
static void test_slow_sink_slows_the_source(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(3, "chain", 1);
    for (cop_id id = 0; id < 3; id++)
        net->behave[id].replies_at_run = true;
    net->behave[2].takes = 1;
    assert_int_equal(bcast(net, 200 * CHUNK, COP_BCAST_HEAL | COP_BCAST_BULK, CHUNK),
                     0);
    collnet_run(net);
    assert_true(net->wanted <= (3 * COP_BULK_WINDOW + 1) * CHUNK);
    assert_in_range(net->sinks[2].pieces, 2, COP_BULK_WINDOW + 1);
    /* It is not waited for for ever: the others get on without it. */
    collnet_wait(net, 20 * COP_SEC);
    expect_bytes(net, 1, 200 * CHUNK);
    collnet_wait(net, 60 * COP_SEC);
    assert_int_equal(net->completions, 1);
    assert_int_equal(collnet_failure(net, 1, NULL, NULL), 0);
    assert_int_equal(collnet_failure(net, 2, NULL, NULL), COP_ETIMEDOUT);
    assert_true(collnet_is_clean(net));
    collnet_destroy(net);
}

/* What was begun is ended: RUN says that nothing will come of it. */
static void test_abort(void **state)
{
    (void)state;
    struct collnet *net = start(4, "chain", 100 * CHUNK);
    struct cop_request request = {.kind = COP_REQUEST_ABORT, .target = TOKEN};
    collnet_some(net, 60);
    assert_int_equal(collnet_submit(net, 0, &request), 0);
    /* Before its COMPLETE the root has heard all that it was promised. */
    assert_int_equal(net->completions, 1);
    assert_int_equal(collnet_count(net, 0, COP_UPCALL_DONE), net->dones_at_completion);
    collnet_run(net);
    assert_int_equal(net->status, COP_EABORTED);
    for (cop_id id = 0; id < 4; id++) {
        assert_int_equal(collnet_count(net, id, COP_UPCALL_RUN), 1);
        assert_int_equal(collnet_last(net, id, COP_UPCALL_RUN)->status, COP_EABORTED);
        assert_int_equal(collnet_count(net, id, COP_UPCALL_DONE), 1);
        assert_int_equal(collnet_count(net, id, COP_UPCALL_SENT), id ? 1 : 0);
    }
    assert_true(collnet_is_clean(net));
    collnet_destroy(net);
}

struct tried {
    uint32_t rereads, spoiled;
};

/* The relay dies after so many frames. With `moves` whoever catches up gets other bytes. */
static void kill_after(uint32_t frames, bool moves, struct tried *tried)
{
    struct collnet *net = start(4, "chain", 40 * CHUNK);
    net->behave[0].source_moves = moves;
    collnet_some(net, frames);
    collnet_kill(net, 1);
    collnet_run(net);
    collnet_wait(net, 20 * COP_SEC);
    tried->rereads += net->rereads;
    assert_int_equal(net->completions, 1);
    for (cop_id id = 2; id < 4; id++) {
        int status = collnet_failure(net, id, NULL, NULL);
        if (moves && status == COP_EMALFORMED) {
            tried->spoiled++;
            continue;
        }
        assert_int_equal(status, 0);
        expect_bytes(net, id, 40 * CHUNK);
    }
    assert_true(collnet_is_clean(net));
    collnet_destroy(net);
}

static void test_orphans_catch_up(void **state)
{
    (void)state;
    struct tried tried = {0};
    for (uint32_t frames = 10; frames < 200; frames += 3)
        kill_after(frames, false, &tried);
    assert_true(tried.rereads > 5); /* else it was not tried */
}

/* Other bytes than the others have: the digest says so. */
static void test_source_that_moves(void **state)
{
    (void)state;
    struct tried tried = {0};
    for (uint32_t frames = 10; frames < 200; frames += 3)
        kill_after(frames, true, &tried);
    assert_true(tried.spoiled > 5);
}

/* ---- without HEAL ---------------------------------------------------------------- */

static void test_plain_everyone_gets_it(void **state)
{
    static const uint32_t lengths[] = {0, 1, CHUNK, 50 * CHUNK - 1};
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct collnet *net = start_plain(7, "kary:2", lengths[i]);
        collnet_run(net);
        assert_int_equal(net->completions, 1);
        assert_int_equal(net->status, 0);
        for (cop_id id = 0; id < 7; id++) {
            expect_bytes(net, id, lengths[i]);
            assert_int_equal(collnet_count(net, id, COP_UPCALL_RUN), 1);
            assert_int_equal(collnet_last(net, id, COP_UPCALL_RUN)->status, 0);
            assert_int_equal(collnet_failure(net, id, NULL, NULL), 0);
        }
        assert_int_equal(net->rereads, 0);
        assert_true(collnet_is_clean(net));
        collnet_destroy(net);
    }
}

/* Who cannot take it fails alone; who cannot be given it fails with all others. */
static void test_plain_errors(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(7, "kary:2", 1);
    net->behave[1].takes = 5;
    net->behave[1].sink = COP_EIO;
    assert_int_equal(bcast(net, 60 * CHUNK, COP_BCAST_BULK, CHUNK), 0);
    collnet_run(net);
    expect_failure(net, 1, COP_EIO, 1);
    expect_bytes(net, 3, 60 * CHUNK);
    assert_int_equal(collnet_failure(net, 3, NULL, NULL), 0);
    assert_true(collnet_is_clean(net));
    collnet_destroy(net);
    net = start_plain(4, "chain", 60 * CHUNK);
    collnet_some(net, 40);
    net->behave[0].source = COP_EIO;
    collnet_run(net);
    assert_int_equal(net->completions, 1);
    for (cop_id id = 0; id < 4; id++)
        expect_failure(net, id, COP_EIO, 0);
    assert_true(collnet_is_clean(net));
    collnet_destroy(net);
}

/* A relay takes its sub-tree with it, and nobody waits for a clock. */
static void test_plain_relay_dies(void **state)
{
    (void)state;
    uint32_t torn = 0;
    for (uint32_t frames = 10; frames < 150; frames += 5) {
        struct collnet *net = start_plain(5, "chain", 40 * CHUNK);
        enum cop_phase phase;
        collnet_some(net, frames);
        collnet_kill(net, 2);
        collnet_run(net);
        collnet_wait(net, COP_SEC); /* until the death is believed */
        assert_int_equal(net->completions, 1);
        expect_bytes(net, 1, 40 * CHUNK);
        assert_int_equal(collnet_failure(net, 1, NULL, NULL), 0);
        if (collnet_failure(net, 4, &phase, NULL) == 0) {
            collnet_destroy(net); /* it had answered */
            continue;
        }
        assert_int_equal(collnet_failure(net, 4, NULL, NULL), COP_ELOST);
        for (cop_id id = 3; id < 5; id++) {
            uint32_t runs = collnet_count(net, id, COP_UPCALL_RUN);
            assert_int_equal(runs, collnet_count(net, id, COP_UPCALL_CHECK));
            assert_int_equal(runs, collnet_count(net, id, COP_UPCALL_SENT));
            torn +=
                runs > 0 && collnet_last(net, id, COP_UPCALL_RUN)->status == COP_ELOST;
        }
        assert_true(collnet_is_clean(net));
        collnet_destroy(net);
    }
    assert_true(torn > 10);
}

/* One that takes nothing, or gives nothing, is given up by itself: after its time, and not
 * those who wait for it. */
static void test_plain_standstill(void **state)
{
    (void)state;
    struct collnet *net = collnet_create(4, "chain", 1);
    enum cop_phase phase;
    cop_id at;
    net->behave[2].takes = 1;
    assert_int_equal(bcast(net, 100 * CHUNK, COP_BCAST_BULK, CHUNK), 0);
    collnet_run(net);
    assert_int_equal(net->completions, 0);
    collnet_wait(net, 100 * COP_SEC);
    assert_int_equal(net->completions, 1);
    assert_int_equal(collnet_failure(net, 2, &phase, &at), COP_ETIMEDOUT);
    assert_int_equal(phase, COP_PHASE_BULK);
    assert_int_equal(at, 2);
    assert_int_equal(collnet_failure(net, 1, NULL, NULL), 0);
    assert_int_equal(collnet_failure(net, 3, NULL, NULL), 0);
    expect_bytes(net, 3, 100 * CHUNK);
    assert_true(collnet_is_clean(net));
    collnet_destroy(net);
}

static void test_plain_abort(void **state)
{
    (void)state;
    struct collnet *net = start_plain(4, "chain", 100 * CHUNK);
    struct cop_request request = {.kind = COP_REQUEST_ABORT, .target = TOKEN};
    collnet_some(net, 60);
    assert_int_equal(collnet_submit(net, 0, &request), 0);
    collnet_run(net);
    assert_int_equal(net->status, COP_EABORTED);
    for (cop_id id = 0; id < 4; id++) {
        assert_int_equal(collnet_count(net, id, COP_UPCALL_RUN), 1);
        assert_int_equal(collnet_last(net, id, COP_UPCALL_RUN)->status, COP_EABORTED);
        assert_int_equal(collnet_count(net, id, COP_UPCALL_DONE), 1);
    }
    assert_true(collnet_is_clean(net));
    collnet_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everyone_gets_it),
        cmocka_unit_test(test_deep_tree),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_what_is_not_possible),
        cmocka_unit_test(test_sink_fails),
        cmocka_unit_test(test_source_fails),
        cmocka_unit_test(test_slow_sink_slows_the_source),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_orphans_catch_up),
        cmocka_unit_test(test_source_that_moves),
        cmocka_unit_test(test_plain_everyone_gets_it),
        cmocka_unit_test(test_plain_errors),
        cmocka_unit_test(test_plain_relay_dies),
        cmocka_unit_test(test_plain_standstill),
        cmocka_unit_test(test_plain_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
