/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/probe.h"

#include "failing_alloc.h"
#include "wirenet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

/* ---- results --------------------------------------------------------------------- */

/* A result with one dead and one silent member. */
static struct cop_buf *make_result(struct wirenet **out)
{
    struct wirenet *net = wirenet_create(7, "kary:2");
    wirenet_crash(net, 5);
    wirenet_advance(net, COP_SEC);
    net->held[3][1] = true;
    assert_int_equal(wirenet_probe(net, 0, 1, false), 0);
    wirenet_advance(net, 2 * COP__PROBE_TIMEOUT);
    const struct wirenet_end *end = wirenet_end(net, 0, 1);
    assert_non_null(end);
    *out = net;
    return end->result;
}

static void test_result_names_everyone(void **state)
{
    (void)state;
    struct wirenet *net;
    struct cop_probe_result result;
    assert_int_equal(cop_probe_result(make_result(&net), &result), 0);
    wirenet_assert_partition(net, &result);
    assert_int_equal(result.members, 7);
    assert_int_equal(result.answered, 5);
    assert_int_equal(result.dead.count, 1);
    assert_int_equal(result.dead.items[0], 5);
    assert_int_equal(result.silent.count, 1);
    assert_int_equal(result.silent.items[0], 3);
    assert_true(result.elapsed_ns > 0 && result.elapsed_ns <= COP__PROBE_TIMEOUT);
    cop_probe_result_free(&result);
    wirenet_destroy(net);
}

static void test_result_that_is_damaged(void **state)
{
    (void)state;
    struct wirenet *net;
    struct cop_buf *whole = make_result(&net);
    struct cop_probe_result result;
    size_t live = failing_alloc_live();
    for (uint32_t length = 0; length <= whole->length + 1; length++) {
        struct cop_buf *buf = cop_buf_create(length);
        assert_non_null(buf);
        memset(buf->data, 0, length);
        memcpy(buf->data, whole->data, length < whole->length ? length : whole->length);
        int error = cop_probe_result(buf, &result);
        assert_int_equal(error, length == whole->length ? 0 : COP_EMALFORMED);
        if (error == 0)
            cop_probe_result_free(&result);
        cop_buf_unref(buf);
    }
    assert_int_equal(failing_alloc_live(), live);
    wirenet_destroy(net);
}

static void test_result_without_memory(void **state)
{
    (void)state;
    struct wirenet *net;
    struct cop_buf *buf = make_result(&net);
    struct cop_probe_result result;
    size_t live = failing_alloc_live();
    for (size_t n = 0;; n++) {
        failing_alloc_after(n);
        int error = cop_probe_result(buf, &result);
        failing_alloc_off();
        if (!failing_alloc_hit()) {
            assert_int_equal(error, 0);
            cop_probe_result_free(&result);
            break;
        }
        assert_int_equal(error, COP_ENOMEM);
        assert_int_equal(failing_alloc_live(), live);
    }
    wirenet_destroy(net);
}

/* Fingerprints tell apart who was counted twice from who was not counted. */
static void test_fingerprints(void **state)
{
    (void)state;
    for (cop_id a = 0; a < 200; a++)
        for (cop_id b = 0; b < a; b++)
            assert_true(cop_probe_fingerprint(a) != cop_probe_fingerprint(b));
    assert_true(cop_probe_fingerprint(0) != 0);
}

static void test_a_cluster_of_one(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(1, "flat");
    assert_int_equal(wirenet_probe(net, 0, 1, true), 0);
    struct cop_probe_result result;
    wirenet_result(net, 0, 1, &result);
    assert_int_equal(result.answered, 1);
    cop_probe_result_free(&result);
    wirenet_advance(net, 2 * COP__PROBE_TIMEOUT);
    assert_int_equal(cop_node_sweeps(net->nodes[0].node), 0);
    wirenet_destroy(net);
}

/* ---- at random ------------------------------------------------------------------- */

/* What a seed is made of. */
struct run {
    struct cop__random random;
    struct wirenet *net;
    cop_id root;
    bool outcome;
    uint64_t crashes, lies, restarts; /* still to come */
    bool lied;
    bool restarted[WIRENET_NODES];
};

static void begin(struct run *run, uint64_t seed)
{
    static const char *const shapes[] = {"radix:2",   "radix:4", "kary:3",
                                         "knomial:2", "flat",    "chain"};
    *run = (struct run){0};
    cop__random_init(&run->random, seed);
    uint32_t n = 2 + (uint32_t)cop__random_below(&run->random, 17);
    run->net = wirenet_create(n, shapes[cop__random_below(&run->random, 6)]);
    run->net->random = &run->random;
    run->root = (cop_id)cop__random_below(&run->random, n);
    run->outcome = cop__random_chance(&run->random, 1, 2);
    assert_int_equal(wirenet_probe(run->net, run->root, 1, run->outcome), 0);
}

static cop_id pick(struct run *run)
{
    return (cop_id)cop__random_below(&run->random, run->net->n);
}

static void maybe_crash(struct run *run)
{
    cop_id victim = pick(run);
    if (victim == run->root || !wirenet_lives(run->net, victim))
        return;
    run->crashes--;
    if (cop__random_chance(&run->random, 1, 2))
        wirenet_lose(run->net, victim, pick(run)); /* what it had not quite sent */
    wirenet_crash(run->net, victim);
}

static void maybe_lie(struct run *run)
{
    cop_id liar = pick(run), accused = pick(run);
    if (liar == accused || !wirenet_lives(run->net, liar))
        return;
    run->lies--;
    run->lied = true;
    wirenet_down(run->net, liar, accused, COP_DOWN_REFUSED);
}

static void maybe_restart(struct run *run)
{
    cop_id id = pick(run);
    if (wirenet_lives(run->net, id))
        return;
    run->restarts--;
    run->restarted[id] = true;
    wirenet_restart(run->net, id);
}

/* Deliveries in any order, with faults between them, until all is quiet. */
static void play(struct run *run)
{
    struct cop__random *random = &run->random;
    for (;;) {
        if (run->crashes && cop__random_chance(random, 1, 8))
            maybe_crash(run);
        if (run->lies && cop__random_chance(random, 1, 8))
            maybe_lie(run);
        if (run->restarts && cop__random_chance(random, 1, 16))
            maybe_restart(run);
        if (cop__random_chance(random, 1, 16)) {
            run->net->now += COP_MSEC;
            wirenet_tick(run->net);
        }
        if (wirenet_deliver(run->net))
            continue;
        run->net->now += 2 * COP_MSEC;
        wirenet_tick(run->net);
        if (!wirenet_deliver(run->net))
            return;
    }
}

/* Whatever happened: exactly one result, in which everyone appears once; nobody ran it twice
 * in one life; and in the end nothing is kept. */
static void check_always(struct run *run)
{
    struct wirenet *net = run->net;
    struct cop_probe_result result;
    wirenet_advance(net, 2 * COP__PROBE_TIMEOUT);
    wirenet_result(net, run->root, 1, &result);
    for (cop_id id = 0; id < net->n; id++) {
        if (!run->restarted[id])
            assert_true(net->nodes[id].asks <= 1);
        if (!wirenet_lives(net, id))
            continue;
        assert_int_equal(cop_node_sweeps(net->nodes[id].node), 0);
        if (!run->restarted[id])
            assert_true(net->nodes[id].outcomes <= 1);
    }
    cop_probe_result_free(&result);
}

/* With deaths alone: nobody who lives is missed, nobody has to wait for the bound, and an
 * outcome reaches everyone. */
static void check_deaths(struct run *run)
{
    struct wirenet *net = run->net;
    struct cop_probe_result result;
    const struct wirenet_end *end = wirenet_end(net, run->root, 1);
    assert_non_null(end); /* before the bound */
    assert_int_equal(end->status, 0);
    wirenet_result(net, run->root, 1, &result);
    assert_int_equal(result.silent.count, 0);
    for (cop_id id = 0; id < net->n; id++) {
        if (!wirenet_lives(net, id))
            continue;
        assert_false(wirenet_ranks_have(&result.dead, id));
        assert_int_equal(net->nodes[id].asks, 1);
        if (id != run->root && run->outcome) {
            assert_int_equal(net->nodes[id].outcomes, 1);
            assert_int_equal(net->nodes[id].outcome_status, 0);
        }
    }
    cop_probe_result_free(&result);
}

/* COPPICE_SEEDS for other runs. Of many a tenth: the simulator's swarm has all of them. */
static uint64_t seeds(uint64_t usual)
{
    const char *text = getenv("COPPICE_SEEDS");
    uint64_t wanted = text ? strtoull(text, NULL, 10) : usual;
    return wanted <= usual ? wanted : wanted / 10 > usual ? wanted / 10 : usual;
}

static uint64_t current;

static int say_seed(void **state)
{
    (void)state;
    fprintf(stderr, "the last seed was %llu\n", (unsigned long long)current);
    return 0;
}

static void test_random_deaths(void **state)
{
    (void)state;
    for (current = 0; current < seeds(2000); current++) {
        struct run run;
        begin(&run, current);
        run.crashes = cop__random_below(&run.random, 4);
        play(&run);
        check_deaths(&run);
        check_always(&run);
        wirenet_destroy(run.net);
    }
}

static void test_random_lies(void **state)
{
    (void)state;
    for (current = 0; current < seeds(2000); current++) {
        struct run run;
        begin(&run, current);
        run.crashes = cop__random_below(&run.random, 3);
        run.lies = cop__random_below(&run.random, 5);
        play(&run);
        if (!run.lied)
            check_deaths(&run);
        check_always(&run);
        wirenet_destroy(run.net);
    }
}

static void test_random_restarts(void **state)
{
    (void)state;
    for (current = 0; current < seeds(2000); current++) {
        struct run run;
        begin(&run, current);
        run.crashes = cop__random_below(&run.random, 4);
        run.restarts = cop__random_below(&run.random, 4);
        run.lies = cop__random_below(&run.random, 2);
        play(&run);
        check_always(&run);
        wirenet_destroy(run.net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_result_names_everyone),
        cmocka_unit_test(test_result_that_is_damaged),
        cmocka_unit_test(test_result_without_memory),
        cmocka_unit_test(test_fingerprints),
        cmocka_unit_test(test_a_cluster_of_one),
        cmocka_unit_test_teardown(test_random_deaths, say_seed),
        cmocka_unit_test_teardown(test_random_lies, say_seed),
        cmocka_unit_test_teardown(test_random_restarts, say_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
