/* SPDX-License-Identifier: Apache-2.0 */
#include "node/node.h"

#include "failing_alloc.h"
#include "wirenet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these first */
#include <cmocka.h>

/* kary:2 over 7: node 1 has 0 above it, 3 and 4 below, and 2 beside it. */
#define SELF 1u
#define N 7u

static struct wirenet *create(void) { return wirenet_create(N, "kary:2"); }

/* ---- life ------------------------------------------------------------------------ */

static void test_create_checks(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create_empty(N, "kary:2");
    struct cop_node *node = NULL;
    struct cop_config config = {.self = N, .incarnation = 1, .view = net->view};
    assert_int_equal(cop_node_create(&config, &node), COP_EINVAL);
    config.self = 2;
    config.incarnation = 0; /* before the view's */
    assert_int_equal(cop_node_create(&config, &node), COP_EINVAL);
    config.incarnation = 4;
    failing_alloc_after(0);
    int error = cop_node_create(&config, &node);
    failing_alloc_off();
    assert_int_equal(error, COP_ENOMEM);
    assert_null(node);
    assert_int_equal(cop_node_create(&config, &node), 0);
    assert_int_equal(cop_node_id(node), 2);
    assert_int_equal(cop_node_incarnation(node), 4);
    assert_ptr_equal(cop_node_view(node), net->view);
    assert_null(cop_node_check(node));
    cop_node_destroy(node);
    cop_node_destroy(NULL);
    wirenet_destroy(net);
}

/* Without statistics everything else is the same. */
static void test_statistics_are_optional(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create_empty(N, "kary:2");
    struct cop_effects effects = {0};
    struct cop_node *node;
    struct cop_config config = {.self = 0, .incarnation = 1, .view = net->view};
    assert_int_equal(cop_node_create(&config, &node), 0);
    struct cop_request probe = {.kind = COP_REQUEST_PROBE, .token = 1};
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .now = 1, .request = &probe};
    assert_int_equal(cop_step(node, &event, &effects), 0);
    assert_int_equal(effects.count, 4); /* two connections, two questions */
    cop_effects_free(&effects);
    cop_node_destroy(node);
    wirenet_destroy(net);
}

static void test_first_tick_is_due_at_once(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create_empty(N, "kary:2");
    assert_int_equal(wirenet_start(net, SELF), 0);
    assert_int_equal(cop_deadline(net->nodes[SELF].node), 0);
    wirenet_tick(net);
    assert_int_equal(net->effects.count, 3); /* neighbours */
    assert_true(cop_deadline(net->nodes[SELF].node) == COP_TIME_NEVER);
    wirenet_destroy(net);
}

static void test_time_never_goes_back(void **state)
{
    (void)state;
    struct wirenet *net = create();
    struct cop_request probe = {.kind = COP_REQUEST_PROBE, .timeout_ns = COP_SEC};
    net->now = 100 * COP_SEC;
    assert_int_equal(wirenet_submit(net, SELF, &probe), 0);
    cop_time deadline = cop_deadline(net->nodes[SELF].node);
    assert_true(deadline == 101 * COP_SEC);
    net->now = 50 * COP_SEC;
    assert_int_equal(wirenet_submit(net, SELF, &probe), 0);
    assert_true(cop_deadline(net->nodes[SELF].node) == deadline);
    net->now = 100 * COP_SEC;
    wirenet_destroy(net);
}

/* A timer that starts itself again, for now. */
struct again {
    struct cop__node_timer timer;
    int fired;
};

static void fire_again(struct cop_node *node, struct cop__node_timer *timer)
{
    struct again *again = (struct again *)(void *)timer;
    if (++again->fired < 100)
        cop__timer_set(node, timer, node->now);
}

/* What is due is fixed before the first timer fires, so a tick always ends. */
static void test_a_timer_started_by_a_timer_waits(void **state)
{
    (void)state;
    struct wirenet *net = create();
    struct cop_node *node = net->nodes[SELF].node;
    struct again again = {.timer = {.fire = fire_again}};
    struct cop_event tick = {.kind = COP_EVENT_TICK};
    cop__timer_init(&again.timer.timer);
    cop__timer_set(node, &again.timer, net->now);
    for (int ticks = 1; ticks <= 3; ticks++) {
        assert_int_equal(wirenet_event(net, SELF, &tick), 0);
        assert_int_equal(again.fired, ticks);
        assert_true(cop_deadline(node) <= net->now); /* at once again */
    }
    cop__timer_cancel(node, &again.timer);
    wirenet_destroy(net);
}

static void test_out_of_memory_is_for_good(void **state)
{
    (void)state;
    struct wirenet *net = create();
    struct cop_node *node = net->nodes[SELF].node;
    struct cop_request probe = {.kind = COP_REQUEST_PROBE, .token = 1};
    struct cop_event event = {
        .kind = COP_EVENT_SUBMIT, .now = net->now, .request = &probe};
    failing_alloc_after(0);
    int error = cop_step(node, &event, &net->effects);
    failing_alloc_off();
    assert_int_equal(error, COP_ENOMEM);
    assert_int_equal(net->effects.count, 0);
    assert_true(cop_deadline(node) == COP_TIME_NEVER);
    event = (struct cop_event){.kind = COP_EVENT_TICK, .now = net->now};
    assert_int_equal(cop_step(node, &event, &net->effects), COP_ENOMEM);
    assert_int_equal(net->effects.count, 0);
    wirenet_destroy(net);
}

/* ---- requests -------------------------------------------------------------------- */

static void test_impossible_requests(void **state)
{
    (void)state;
    struct wirenet *net = create();
    struct cop_request request = {.kind = (enum cop_request_kind)99};
    assert_int_equal(wirenet_submit(net, SELF, &request), COP_EINVAL);
    request = (struct cop_request){.kind = COP_REQUEST_ABORT, .target = 5};
    assert_int_equal(wirenet_submit(net, SELF, &request), COP_EINVAL);
    request = (struct cop_request){.kind = COP_REQUEST_PROBE,
                                   .shape = {.kind = (enum cop_shape_kind)99}};
    assert_int_equal(wirenet_submit(net, SELF, &request), COP_EINVAL);
    request = (struct cop_request){.kind = COP_REQUEST_PROBE, .timeout_ns = UINT64_MAX};
    assert_int_equal(wirenet_submit(net, SELF, &request), COP_EINVAL);
    struct cop_event event = {.kind = (enum cop_event_kind)99};
    assert_int_equal(wirenet_event(net, SELF, &event), COP_EINVAL);
    assert_int_equal(net->item_count, 0);
    assert_int_equal(cop_node_sweeps(net->nodes[SELF].node), 0);
    wirenet_destroy(net);
}

/* Back-pressure: while the driver cannot send, nothing new begins, but what is under way may
 * be ended. */
static void test_congestion(void **state)
{
    (void)state;
    struct wirenet *net = create();
    struct cop_event sent = {.kind = COP_EVENT_SENT, .backlog_bytes = COP_BACKLOG_MAX};
    assert_int_equal(wirenet_event(net, SELF, &sent), 0);
    assert_int_equal(wirenet_probe(net, SELF, 1, false), 0);
    sent.backlog_bytes = COP_BACKLOG_MAX + 1;
    assert_int_equal(wirenet_event(net, SELF, &sent), 0);
    assert_int_equal(wirenet_probe(net, SELF, 2, false), COP_EAGAIN);
    assert_int_equal(net->effects.count, 0);
    struct cop_request abort = {.kind = COP_REQUEST_ABORT, .target = 1};
    assert_int_equal(wirenet_submit(net, SELF, &abort), 0);
    assert_int_equal(wirenet_end(net, SELF, 1)->status, COP_EABORTED);
    sent.backlog_bytes = 0;
    assert_int_equal(wirenet_event(net, SELF, &sent), 0);
    assert_int_equal(wirenet_probe(net, SELF, 2, false), 0);
    wirenet_settle(net);
    assert_int_equal(wirenet_end(net, SELF, 2)->status, 0);
    assert_null(wirenet_end(net, SELF, 3));
    wirenet_destroy(net);
}

/* ---- watching, digests, sizes ---------------------------------------------------- */

static void test_watches_are_counted(void **state)
{
    (void)state;
    struct wirenet *net = create();
    struct cop_node *node = net->nodes[SELF].node;
    node->effects = &net->effects;
    cop_effects_clear(&net->effects);
    cop__watch(node, 6);
    cop__watch(node, 6);
    assert_int_equal(net->effects.count, 1);
    assert_int_equal(net->effects.items[0].kind, COP_EFFECT_CONNECT);
    assert_int_equal(net->effects.items[0].peer, 6);
    cop__unwatch(node, 6);
    assert_true(cop__is_watched(node, 6));
    assert_int_equal(net->effects.count, 1);
    cop__unwatch(node, 6);
    assert_false(cop__is_watched(node, 6));
    assert_int_equal(net->effects.count, 2);
    assert_int_equal(net->effects.items[1].kind, COP_EFFECT_CLOSE);
    assert_null(cop_node_check(node));
    node->effects = NULL;
    wirenet_destroy(net);
}

static void test_digest_follows_the_state(void **state)
{
    (void)state;
    struct wirenet *a = create(), *b = create();
    struct cop_node *x = a->nodes[SELF].node, *y = b->nodes[SELF].node;
    assert_true(cop_node_digest(x) == cop_node_digest(y));
    assert_true(cop_node_digest(x) != cop_node_digest(a->nodes[2].node));
    wirenet_probe(a, SELF, 1, true);
    assert_true(cop_node_digest(x) != cop_node_digest(y));
    wirenet_probe(b, SELF, 1, true);
    assert_true(cop_node_digest(x) == cop_node_digest(y));
    wirenet_tell(a, 0, SELF, (struct cop__belief){6, 1, 1, COP_ALIVE});
    assert_true(cop_node_digest(x) != cop_node_digest(y));
    wirenet_destroy(a);
    wirenet_destroy(b);
}

/* A million of them have to fit. */
static void test_an_idle_node_is_small(void **state)
{
    (void)state;
    struct wirenet *net = wirenet_create(21, "radix:4");
    for (cop_id id = 0; id < 21; id++)
        assert_true(cop_node_bytes(net->nodes[id].node) <= 1024);
    size_t before = cop_node_bytes(net->nodes[1].node);
    assert_int_equal(wirenet_probe(net, 1, 1, false), 0);
    assert_true(cop_node_bytes(net->nodes[1].node) > before);
    wirenet_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create_checks),
        cmocka_unit_test(test_statistics_are_optional),
        cmocka_unit_test(test_first_tick_is_due_at_once),
        cmocka_unit_test(test_time_never_goes_back),
        cmocka_unit_test(test_a_timer_started_by_a_timer_waits),
        cmocka_unit_test(test_out_of_memory_is_for_good),
        cmocka_unit_test(test_impossible_requests),
        cmocka_unit_test(test_congestion),
        cmocka_unit_test(test_watches_are_counted),
        cmocka_unit_test(test_digest_follows_the_state),
        cmocka_unit_test(test_an_idle_node_is_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
