/* SPDX-License-Identifier: Apache-2.0 */
/* The promises of a driver (coppice/node.h, 4 to 8) over real sockets, one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/random.h"
#include "net/tcp/table.h"
#include "tcp_world.h"
#include "wire/messages.h"

static const int families[] = {AF_UNIX, AF_INET, WORLD_TLS};
#define FOR_FAMILIES(i) for (size_t i = 0; i < 3; i++)

/* ---- conditions ------------------------------------------------------------------ */

/* All that sides 0 and 1 have sent to each other has come. */
static bool both_have_all(void *context)
{
    struct world *world = context;
    return side_has_all(&world->sides[0], &world->sides[1]) &&
           side_has_all(&world->sides[1], &world->sides[0]);
}

static bool first_is_down(void *context)
{
    struct world *world = context;
    return side_downs(&world->sides[0], 1) > 0;
}

static bool first_is_up(void *context)
{
    struct world *world = context;
    return world->sides[0].ups[1] > 0;
}

/* ---- promise 4: nothing lost, nothing twice -------------------------------------- */

static void frames_go_both_ways(void **state)
{
    (void)state;
    FOR_FAMILIES(i)
    {
        struct world *world = world_create(families[i]);
        struct side *a = world_open(world, 0, 3), *b = world_open(world, 1, 4);
        side_send(a, 1, COP__KIND_NEWS, 100, 100);
        side_send(a, 1, COP__KIND_DATA, 3, 700000);
        side_send(b, 0, COP__KIND_NEWS, 5, 100000);
        world_until(world, both_have_all, world);
        assert_int_equal(a->lives[1], 4);
        assert_int_equal(b->lives[0], 3);
        assert_int_equal(side_downs(a, 1) + side_downs(b, 0), 0);
        assert_int_equal(a->stats.connections, 1);
        assert_int_equal(b->stats.connections, 1);
        world_destroy(world);
    }
}

static bool somebody_told(void *context)
{
    struct world *world = context;
    return world->sides[0].stats.acks_sent + world->sides[1].stats.acks_sent > 0;
}

/* No deadline in sight but those that never matter here. */
static bool all_is_still(void *context)
{
    struct world *world = context;
    cop_time far = cop__clock_now() + 500 * COP_SEC;
    return world->sides[0].clock.set > far && world->sides[1].clock.set > far;
}

static bool all_of_first_is_still(void *context)
{
    struct world *world = context;
    return world->sides[0].clock.set > cop__clock_now() + 500 * COP_SEC;
}

/* The last counts go without a frame, a while after it; then nothing stirs any more. */
static void counts_are_told_in_the_end(void **state)
{
    (void)state;
    struct world *world = world_create(AF_UNIX);
    struct side *a = world_open(world, 0, 3), *b = world_open(world, 1, 4);
    side_send(a, 1, COP__KIND_NEWS, 1, 100);
    world_until(world, both_have_all, world);
    assert_int_equal(b->stats.acks_sent, 0);
    world_until(world, somebody_told, world);
    world_until(world, all_is_still, world);
    assert_int_equal(b->stats.acks_sent, 1);
    assert_int_equal(a->stats.acks_sent, 0);
    world_destroy(world);
}

static void acknowledge_at_once(const struct side *side)
{
    int on = 1;
    int fd = side->peers->first->stream.fd;
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on), 0);
}

static bool acknowledges_with_answers(const struct side *side)
{
    int is_quick = -1;
    socklen_t length = sizeof is_quick;
    int fd = side->peers->first->stream.fd;
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &is_quick, &length), 0);
    return is_quick == 0;
}

static bool both_wait_for_questions(void *context)
{
    struct world *world = context;
    return acknowledges_with_answers(&world->sides[0]) &&
           acknowledges_with_answers(&world->sides[1]);
}

/* When the counts are told, and all is, what comes next costs TCP no packet but the answer: at
 * who told them, and at who heard them. */
static void questions_after_a_pause_are_acknowledged_by_answers(void **state)
{
    (void)state;
    for (size_t i = 1; i < 3; i++) {
        struct world *world = world_create(families[i]);
        struct side *a = world_open(world, 0, 3), *b = world_open(world, 1, 4);
        side_send(a, 1, COP__KIND_NEWS, 1, 100);
        world_until(world, both_have_all, world);
        acknowledge_at_once(a);
        acknowledge_at_once(b);
        assert_false(acknowledges_with_answers(a) || acknowledges_with_answers(b));
        world_until(world, both_wait_for_questions, world);
        assert_int_equal(b->stats.acks_sent, 1);
        world_destroy(world);
    }
}

/* Cut by either end at random, in the middle of everything; crossing reconnections come
 * with it, because both have frames to send. */
static void cuts_lose_nothing(void **state)
{
    (void)state;
    FOR_FAMILIES(i)
    {
        struct world *world = world_create(families[i]);
        struct side *a = world_open(world, 0, 3), *b = world_open(world, 1, 4);
        struct cop__random random;
        uint64_t cuts = 0;
        cop__random_init(&random, 7 + i);
        for (int round = 0; round < 600; round++) {
            struct side *side = cop__random_chance(&random, 1, 2) ? a : b;
            uint16_t kind =
                cop__random_chance(&random, 1, 3) ? COP__KIND_DATA : COP__KIND_NEWS;
            side_send(side, 1 - side->id, kind, 1 + (uint32_t)(round % 3),
                      12 + (uint32_t)cop__random_below(&random, 30000));
            world_turn(world);
            side = cop__random_chance(&random, 1, 2) ? a : b;
            if (cop__random_chance(&random, 1, 4))
                cuts += cop__peers_cut(side->peers, 1 - side->id) == 0;
        }
        world_until(world, both_have_all, world);
        assert_true(cuts > 10);
        assert_true(a->stats.resent_frames + b->stats.resent_frames > 0);
        assert_true(side_downs(a, 1) >= 1 && a->ups[1] >= 2);
        world_destroy(world);
    }
}

/* Both at the same moment: one connection stays, and nobody takes it for a death. */
static void crossing_connects_make_one(void **state)
{
    (void)state;
    FOR_FAMILIES(i)
    {
        for (int round = 0; round < 20; round++) {
            struct world *world = world_create(families[i]);
            struct side *a = world_open(world, 0, 3), *b = world_open(world, 1, 4);
            assert_int_equal(cop__peers_keep(a->peers, 1), 0);
            assert_int_equal(cop__peers_keep(b->peers, 0), 0);
            side_send(a, 1, COP__KIND_NEWS, 10, 100);
            side_send(b, 0, COP__KIND_NEWS, 10, 100);
            world_until(world, both_have_all, world);
            assert_int_equal(side_downs(a, 1) + side_downs(b, 0), 0);
            assert_int_equal(a->stats.connections, 1);
            assert_int_equal(b->stats.connections, 1);
            world_destroy(world);
        }
    }
}

/* Who calls second sees the call of the other: there is one connection, and no second call. */
static void who_calls_second_looks_first(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct world *world = world_create(families[i]);
        struct side *a = world_open(world, 0, 3), *b = world_open(world, 1, 4);
        /* Written at once: the loop does not turn between the two. */
        side_send(b, 0, COP__KIND_NEWS, 10, 100);
        cop__peers_flush(b->peers);
        side_send(a, 1, COP__KIND_NEWS, 10, 100);
        cop__peers_flush(a->peers);
        world_until(world, both_have_all, world);
        assert_int_equal(b->stats.connects, 1);
        assert_int_equal(a->stats.connects, 0);
        assert_int_equal(side_downs(a, 1) + side_downs(b, 0), 0);
        world_destroy(world);
    }
}

/* However many wait before it: the children of one who died all call its parent. */
static void who_looks_first_looks_far_enough(void **state)
{
    enum { OTHERS = 64 };
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct world *world = world_create(families[i]);
        struct side *a = world_open(world, 0, 3), *b = world_open(world, 1, 4);
        int others[OTHERS];
        for (int k = 0; k < OTHERS; k++)
            others[k] = world_dial(world, 0);
        side_send(b, 0, COP__KIND_NEWS, 10, 100);
        cop__peers_flush(b->peers);
        side_send(a, 1, COP__KIND_NEWS, 10, 100);
        cop__peers_flush(a->peers);
        assert_int_equal(a->stats.accepts, OTHERS + 1);
        world_until(world, both_have_all, world);
        assert_int_equal(a->stats.connects, 0);
        assert_int_equal(side_downs(a, 1) + side_downs(b, 0), 0);
        for (int k = 0; k < OTHERS; k++)
            close(others[k]);
        world_destroy(world);
    }
}

static int option_of(const struct side *side, int level, int name)
{
    int value = -1;
    socklen_t length = sizeof value;
    int fd = side->peers->first->stream.fd;
    assert_int_equal(getsockopt(fd, level, name, &value, &length), 0);
    return value;
}

static void expect_same_options(const struct side *a, const struct side *b)
{
    static const int names[][2] = {
        {IPPROTO_TCP, TCP_NODELAY},       {SOL_SOCKET, SO_KEEPALIVE},
        {IPPROTO_TCP, TCP_KEEPIDLE},      {IPPROTO_TCP, TCP_KEEPINTVL},
        {IPPROTO_TCP, TCP_KEEPCNT},       {IPPROTO_TCP, TCP_USER_TIMEOUT},
        {IPPROTO_TCP, TCP_NOTSENT_LOWAT}, {IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int value = option_of(a, names[i][0], names[i][1]);
        assert_true(value > 0);
        assert_int_equal(option_of(b, names[i][0], names[i][1]), value);
    }
}

/* What TCP is told once, where it listens, holds for all connections that are taken. */
static void who_is_called_has_the_same_options(void **state)
{
    (void)state;
    struct world *world = world_create(AF_INET);
    struct side *a = world_open(world, 0, 3), *b = world_open(world, 1, 4);
    side_send(a, 1, COP__KIND_NEWS, 1, 100);
    world_until(world, both_have_all, world);
    expect_same_options(a, b);
    world_destroy(world);
}

/* Also for those who called while the socket listened and nobody was there yet. */
static void who_was_called_early_has_them_too(void **state)
{
    (void)state;
    struct world *world = world_create(AF_INET);
    struct side *a = world_open(world, 0, 3);
    world->listen_fd = world_listen(world, "1", &world->addresses[1]);
    side_send(a, 1, COP__KIND_NEWS, 1, 100);
    cop__peers_flush(a->peers);
    assert_int_equal(a->stats.connects, 1);
    struct side *b = world_open(world, 1, 4);
    world->listen_fd = 0;
    a->with[1].sent[COP__LANE_CONTROL] = 0; /* that was for nobody */
    world_until(world, first_is_up, world);
    expect_same_options(a, b);
    world_destroy(world);
}

/* ---- a wire that breaks at any byte ---------------------------------------------- */

/*
 * A thread that stands between side 0 and side 1: it takes a connection, makes one to the
 * other side, passes on some bytes in odd parts, and cuts both.
 */
struct cutter {
    int listener;
    struct cop__address target;
    int stop[2];
    pthread_t thread;
    uint64_t cuts;
};

static void pass_until_cut(struct cutter *cutter, int from, int to, uint64_t budget,
                           struct cop__random *random)
{
    uint8_t bytes[4096];
    int fds[2] = {from, to};
    for (;;) {
        struct pollfd polls[3] = {
            {from, POLLIN, 0}, {to, POLLIN, 0}, {cutter->stop[0], POLLIN, 0}};
        poll(polls, 3, -1);
        if (polls[2].revents)
            return;
        for (int i = 0; i < 2; i++) {
            if (!polls[i].revents)
                continue;
            uint64_t most = 1 + cop__random_below(random, sizeof bytes);
            ssize_t got = recv(fds[i], bytes, most < budget ? most : budget, 0);
            if (got <= 0 || send(fds[1 - i], bytes, (size_t)got, MSG_NOSIGNAL) != got)
                return;
            budget -= (uint64_t)got;
            if (budget == 0)
                return;
        }
    }
}

static void *cutter_run(void *context)
{
    struct cutter *cutter = context;
    struct cop__random random;
    cop__random_init(&random, 99);
    for (;;) {
        struct pollfd polls[2] = {{cutter->listener, POLLIN, 0},
                                  {cutter->stop[0], POLLIN, 0}};
        poll(polls, 2, -1);
        if (polls[1].revents)
            return NULL;
        int from = accept(cutter->listener, NULL, NULL);
        int to = socket(cutter->target.storage.ss_family, SOCK_STREAM, 0);
        if (from >= 0 && to >= 0 &&
            connect(to, (struct sockaddr *)&cutter->target.storage,
                    cutter->target.length) == 0)
            pass_until_cut(cutter, from, to, 1 + cop__random_below(&random, 60000),
                           &random);
        cutter->cuts++;
        close(from);
        close(to);
    }
}

/* Side 1 cannot call, and side 0 has nothing to send in the end: as a node would, it asks
 * for a connection again. */
static bool first_asks_again(void *context)
{
    struct world *world = context;
    cop__peers_keep(world->sides[0].peers, 1);
    return both_have_all(world);
}

static void breaks_at_any_byte_lose_nothing(void **state)
{
    (void)state;
    FOR_FAMILIES(i)
    {
        struct world *world = world_create(families[i]);
        struct side *a = world_open(world, 0, 3), *b = world_open(world, 1, 4);
        struct cutter cutter = {.target = world->addresses[1]};
        struct cop__address between;
        cutter.listener = world_listen(world, "cutter", &between);
        assert_int_equal(pipe(cutter.stop), 0);
        assert_int_equal(pthread_create(&cutter.thread, NULL, cutter_run, &cutter), 0);
        world->addresses[1] = between;
        /* The way back is closed, so every connection goes through the cutter. */
        world->addresses[0].length = 0;
        for (uint32_t j = 0; j < 40; j++) {
            side_send(a, 1, COP__KIND_NEWS, 5, 20 + 100 * j);
            side_send(b, 0, COP__KIND_NEWS, 5, 20 + 70 * j);
            side_send(a, 1, COP__KIND_DATA, 1, 100 + 500 * j);
            world_turn(world);
        }
        assert_int_equal(cop__peers_keep(a->peers, 1), 0);
        world_until(world, first_asks_again, world);
        assert_int_equal(write(cutter.stop[1], "x", 1), 1);
        assert_int_equal(pthread_join(cutter.thread, NULL), 0);
        assert_true(cutter.cuts > 5);
        close(cutter.listener);
        close(cutter.stop[0]);
        close(cutter.stop[1]);
        if (between.storage.ss_family == AF_UNIX)
            unlink(((struct sockaddr_un *)&between.storage)->sun_path);
        world->addresses[1] = cutter.target;
        world_destroy(world);
    }
}

/* ---- promises 5 and 6: reasons --------------------------------------------------- */

static void nobody_there_is_refused(void **state)
{
    (void)state;
    FOR_FAMILIES(i)
    {
        struct world *world = world_create(families[i]);
        struct side *a = world_open(world, 0, 3);
        close(world_listen(world, "1", &world->addresses[1]));
        side_send(a, 1, COP__KIND_NEWS, 1, 100);
        world_until(world, first_is_down, world);
        assert_int_equal(a->downs[1][COP_DOWN_REFUSED], 1);
        assert_int_equal(side_downs(a, 1), 1);
        /* Nobody tries again by itself, and it holds nobody up. */
        assert_int_equal(a->stats.connects, 1);
        assert_int_equal(a->stats.backlog_bytes, 0);
        /* The wish of the node does. */
        assert_int_equal(cop__peers_keep(a->peers, 1), 0);
        world_until_count(world, &a->downs[1][COP_DOWN_REFUSED], 2);
        world_destroy(world);
    }
}

/* Who hears that a member is gone has something to say to it. */
static void tell_it(struct side *side, cop_id peer)
{
    if (side_downs(side, peer) == 1)
        side_send(side, peer, COP__KIND_NEWS, 1, 100);
}

/* Two refusals in one moment are one question, unless the moment was too long. */
static void who_was_refused_just_now_is_not_asked_again(void **state)
{
    (void)state;
    bool was_believed = false;
    for (int tries = 0; tries < 1000 && !was_believed; tries++) {
        struct world *world = world_create(AF_INET);
        struct side *a = world_open(world, 0, 3);
        close(world_listen(world, "1", &world->addresses[1]));
        world->on_down = tell_it;
        side_send(a, 1, COP__KIND_NEWS, 1, 100);
        world_until_count(world, &a->downs[1][COP_DOWN_REFUSED], 2);
        assert_in_range(a->stats.connects, 1, 2);
        was_believed = a->stats.connects == 1;
        world_destroy(world);
    }
    assert_true(was_believed);
}

/* What is known of one life says nothing of the next. */
static void forget_it(struct side *side, cop_id peer)
{
    side->known[peer] = 9;
    tell_it(side, peer);
}

static void the_next_life_is_looked_for(void **state)
{
    (void)state;
    struct world *world = world_create(AF_INET);
    struct side *a = world_open(world, 0, 3);
    close(world_listen(world, "1", &world->addresses[1]));
    world->on_down = forget_it;
    side_send(a, 1, COP__KIND_NEWS, 1, 100);
    world_until_count(world, &a->downs[1][COP_DOWN_REFUSED], 2);
    assert_int_equal(a->stats.connects, 2);
    world_destroy(world);
}

/* D15: who may be starting is tried again; once it was met, as always. */
static void who_may_be_starting_is_awaited(void **state)
{
    (void)state;
    FOR_FAMILIES(i)
    {
        struct world *world = world_create(families[i]);
        world->patience_ns = 3600 * COP_SEC;
        struct side *a = world_open(world, 0, 3);
        close(world_listen(world, "1", &world->addresses[1]));
        side_send(a, 1, COP__KIND_NEWS, 1, 100);
        world_until_stat(world, &a->stats.connects, 4);
        assert_int_equal(side_downs(a, 1), 0);
        struct side *b = world_open(world, 1, 4);
        world_until(world, first_is_up, world);
        assert_int_equal(side_downs(a, 1), 0);
        world_crash(b);
        assert_int_equal(cop__peers_keep(a->peers, 1), 0);
        world_until_count(world, &a->downs[1][COP_DOWN_REFUSED], 1);
        world_destroy(world);
    }
}

/* Somebody called under an id that nobody had, as a later life than whoever gets it will have. */
static void what_strangers_said_binds_nobody(void **state)
{
    (void)state;
    FOR_FAMILIES(i)
    {
        struct world *world = world_create(families[i]);
        struct side *a = world_open(world, 0, 3), *b = world_open(world, 1, 1000);
        assert_int_equal(cop__peers_keep(b->peers, 0), 0);
        world_until_count(world, &a->ups[1], 1);
        assert_int_equal(a->lives[1], 1000);
        world_crash(b);
        world_until(world, first_is_down, world);
        b = world_open(world, 1, 4);
        assert_int_equal(cop__peers_keep(b->peers, 0), 0);
        world_until_count(world, &a->ups[1], 2);
        assert_int_equal(a->lives[1], 4);
        world_destroy(world);
    }
}

static void a_missing_path_or_address_is_refused(void **state)
{
    (void)state;
    struct world *world = world_create(AF_UNIX);
    struct side *a = world_open(world, 0, 3);
    close(world_listen(world, "1", &world->addresses[1]));
    unlink(((struct sockaddr_un *)&world->addresses[1].storage)->sun_path);
    assert_int_equal(cop__peers_keep(a->peers, 1), 0);
    assert_int_equal(cop__peers_keep(a->peers, 2), 0);
    world_until(world, first_is_down, world);
    assert_int_equal(a->downs[1][COP_DOWN_REFUSED], 1);
    assert_int_equal(a->downs[2][COP_DOWN_REFUSED], 1);
    world_destroy(world);
}

static void no_answer_is_silence(void **state)
{
    (void)state;
    FOR_FAMILIES(i)
    {
        struct world *world = world_create(families[i]);
        world->connect_timeout_ns = 20 * COP_MSEC;
        struct side *a = world_open(world, 0, 3);
        int mute = world_listen(world, "1", &world->addresses[1]);
        assert_int_equal(cop__peers_keep(a->peers, 1), 0);
        world_until(world, first_is_down, world);
        assert_int_equal(a->downs[1][COP_DOWN_SILENT], 1);
        assert_int_equal(a->stats.timed_out, 1);
        close(mute);
        world_destroy(world);
    }
}

static void a_crash_is_closed_then_refused(void **state)
{
    (void)state;
    FOR_FAMILIES(i)
    {
        struct world *world = world_create(families[i]);
        struct side *a = world_open(world, 0, 3), *b = world_open(world, 1, 4);
        assert_int_equal(cop__peers_keep(a->peers, 1), 0);
        world_until(world, first_is_up, world);
        world_crash(b);
        world_until(world, first_is_down, world);
        assert_int_equal(a->downs[1][COP_DOWN_CLOSED], 1);
        assert_int_equal(side_downs(a, 1), 1);
        assert_int_equal(cop__peers_keep(a->peers, 1), 0);
        world_until_count(world, &a->downs[1][COP_DOWN_REFUSED], 1);
        world_destroy(world);
    }
}

static bool third_is_alone(void *context)
{
    struct world *world = context;
    return world->sides[2].stats.connections == 0;
}

/* BYE alone is nothing; that nobody is there when we call again is something. */
static void a_farewell_is_refused_only_if_needed(void **state)
{
    (void)state;
    struct world *world = world_create(AF_UNIX);
    struct side *a = world_open(world, 0, 3), *b = world_open(world, 1, 4);
    struct side *c = world_open(world, 2, 5);
    assert_int_equal(cop__peers_keep(a->peers, 1), 0);
    side_send(c, 1, COP__KIND_NEWS, 1, 100);
    world_until(world, first_is_up, world);
    world_until_stat(world, &b->with[2].came[COP__LANE_CONTROL], 1);
    /* It carries the count: nothing of side 2's is left to be sent again. */
    side_send(b, 2, COP__KIND_NEWS, 1, 100);
    world_until_stat(world, &c->with[1].came[COP__LANE_CONTROL], 1);
    world_close(b);
    world_until(world, first_is_down, world);
    assert_int_equal(a->downs[1][COP_DOWN_REFUSED], 1);
    assert_int_equal(a->downs[1][COP_DOWN_CLOSED], 0);
    world_until(world, third_is_alone, world);
    assert_int_equal(side_downs(c, 1), 0);
    world_destroy(world);
}

/* ---- promise 7: lives ------------------------------------------------------------ */

static bool first_met_second_life(void *context)
{
    struct world *world = context;
    return world->sides[0].lives[1] == 9;
}

static void another_life_is_told_before_its_frames(void **state)
{
    (void)state;
    FOR_FAMILIES(i)
    {
        struct world *world = world_create(families[i]);
        struct side *a = world_open(world, 0, 3), *b = world_open(world, 1, 4);
        side_send(a, 1, COP__KIND_NEWS, 50, 100);
        side_send(b, 0, COP__KIND_NEWS, 50, 100);
        world_until(world, both_have_all, world);
        /* These are for a life that will not hear them. */
        side_send(a, 1, COP__KIND_NEWS, 50, 100);
        world_crash(b);
        b = world_open(world, 1, 9);
        memset(&a->with[1].sent, 0, sizeof a->with[1].sent);
        side_send(b, 0, COP__KIND_NEWS, 3, 100);
        world_until(world, first_met_second_life, world);
        side_send(a, 1, COP__KIND_NEWS, 7, 100);
        world_until(world, both_have_all, world);
        assert_int_equal(b->with[0].came[COP__LANE_CONTROL], 7);
        world_destroy(world);
    }
}

static void an_earlier_life_is_refused(void **state)
{
    (void)state;
    struct world *world = world_create(AF_INET);
    struct side *a = world_open(world, 0, 3), *b = world_open(world, 1, 4);
    b->known[0] = 5;
    side_send(a, 1, COP__KIND_NEWS, 1, 100);
    world_until(world, first_is_down, world);
    assert_int_equal(a->downs[1][COP_DOWN_REFUSED], 1);
    assert_non_null(strstr(a->line, "a later life of you is known here"));
    assert_int_equal(b->stats.refused_identity, 1);
    assert_int_equal(b->ups[0], 0);
    /* And if it is the one that answers, the one who asked sees through it. */
    b->known[0] = 0;
    a->known[1] = 6;
    assert_int_equal(cop__peers_keep(a->peers, 1), 0);
    world_until_count(world, &a->downs[1][COP_DOWN_REFUSED], 2);
    assert_int_equal(a->ups[1], 0);
    assert_int_equal(a->stats.refused_identity, 1);
    world_destroy(world);
}

/* ---- what is held in reserve ----------------------------------------------------- */

static bool reserve_is_over(void *context)
{
    struct world *world = context;
    const struct cop__conn *conn = world->sides[0].peers->first;
    return conn && conn->is_over;
}

/* Side 0 holds a connection to side 1 in reserve; side 1 has died, and nobody has looked. */
static struct side *lose_reserve(struct world *world)
{
    struct side *a = world_open(world, 0, 3), *b = world_open(world, 1, 4);
    cop__peers_warm(a->peers, 1);
    world_until(world, first_is_up, world);
    world_crash(b);
    world_until(world, reserve_is_over, world);
    assert_int_equal(side_downs(a, 1), 0);
    return a;
}

/* Whoever dies has many who hold one: those who have nothing to do then wait with it. */
static void the_end_of_a_reserve_is_put_off(void **state)
{
    (void)state;
    FOR_FAMILIES(i)
    {
        struct world *world = world_create(families[i]);
        struct side *a = lose_reserve(world);
        world_until(world, first_is_down, world);
        assert_int_equal(a->downs[1][COP_DOWN_CLOSED], 1);
        world_until(world, all_of_first_is_still, world);
        assert_int_equal(a->stats.connections, 0);
        assert_int_equal(side_downs(a, 1), 1);
        assert_int_equal(a->cooled, 1);
        world_destroy(world);
    }
}

/* But who needs it hears of it at once, and that nobody is there. */
static void a_reserve_that_is_over_helps_nobody(void **state)
{
    (void)state;
    FOR_FAMILIES(i)
    {
        for (int is_kept = 0; is_kept < 2; is_kept++) {
            struct world *world = world_create(families[i]);
            struct side *a = lose_reserve(world);
            if (is_kept)
                assert_int_equal(cop__peers_keep(a->peers, 1), 0);
            else
                side_send(a, 1, COP__KIND_NEWS, 1, 100);
            assert_int_equal(a->downs[1][COP_DOWN_CLOSED], 1);
            world_until_count(world, &a->downs[1][COP_DOWN_REFUSED], 1);
            world_destroy(world);
        }
    }
}

/* A new key ends all connections without a word, but not this one's end. */
static void a_reserve_that_is_over_is_told_when_keys_change(void **state)
{
    (void)state;
    struct world *world = world_create(WORLD_TLS);
    struct side *a = lose_reserve(world);
    cop__conn_renew(a->peers->first);
    assert_int_equal(a->downs[1][COP_DOWN_CLOSED], 1);
    world_until(world, all_of_first_is_still, world);
    assert_int_equal(side_downs(a, 1), 1);
    world_destroy(world);
}

/* That too much was kept for one life is no reason to keep nothing for the next. */
static void after_an_overflow_the_next_life_is_heard(void **state)
{
    (void)state;
    struct world *world = world_create(AF_UNIX);
    struct side *a = world_open(world, 0, 3), *b = world_open(world, 1, 4);
    side_send(a, 1, COP__KIND_NEWS, 1, 100);
    world_until(world, both_have_all, world);
    while (side_downs(a, 1) == 0)
        side_send(a, 1, COP__KIND_DATA, 1, 1000000);
    world_crash(b);
    b = world_open(world, 1, 9);
    memset(&a->with[1].sent, 0, sizeof a->with[1].sent);
    side_send(a, 1, COP__KIND_NEWS, 3, 100);
    world_until(world, both_have_all, world);
    assert_int_equal(b->with[0].came[COP__LANE_CONTROL], 3);
    world_destroy(world);
}

/* The next life comes before anybody has looked. */
static void a_reserve_that_is_over_gives_way(void **state)
{
    (void)state;
    FOR_FAMILIES(i)
    {
        struct world *world = world_create(families[i]);
        struct side *a = lose_reserve(world);
        struct side *b = world_open(world, 1, 9);
        side_send(b, 0, COP__KIND_NEWS, 3, 100);
        world_until(world, first_met_second_life, world);
        side_send(a, 1, COP__KIND_NEWS, 7, 100);
        world_until(world, both_have_all, world);
        assert_int_equal(b->with[0].came[COP__LANE_CONTROL], 7);
        assert_int_equal(a->stats.connections, 1);
        world_destroy(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_go_both_ways),
        cmocka_unit_test(counts_are_told_in_the_end),
        cmocka_unit_test(questions_after_a_pause_are_acknowledged_by_answers),
        cmocka_unit_test(cuts_lose_nothing),
        cmocka_unit_test(crossing_connects_make_one),
        cmocka_unit_test(who_calls_second_looks_first),
        cmocka_unit_test(who_looks_first_looks_far_enough),
        cmocka_unit_test(who_is_called_has_the_same_options),
        cmocka_unit_test(who_was_called_early_has_them_too),
        cmocka_unit_test(breaks_at_any_byte_lose_nothing),
        cmocka_unit_test(nobody_there_is_refused),
        cmocka_unit_test(who_was_refused_just_now_is_not_asked_again),
        cmocka_unit_test(the_next_life_is_looked_for),
        cmocka_unit_test(who_may_be_starting_is_awaited),
        cmocka_unit_test(what_strangers_said_binds_nobody),
        cmocka_unit_test(a_missing_path_or_address_is_refused),
        cmocka_unit_test(no_answer_is_silence),
        cmocka_unit_test(a_crash_is_closed_then_refused),
        cmocka_unit_test(a_farewell_is_refused_only_if_needed),
        cmocka_unit_test(another_life_is_told_before_its_frames),
        cmocka_unit_test(an_earlier_life_is_refused),
        cmocka_unit_test(the_end_of_a_reserve_is_put_off),
        cmocka_unit_test(a_reserve_that_is_over_helps_nobody),
        cmocka_unit_test(a_reserve_that_is_over_gives_way),
        cmocka_unit_test(a_reserve_that_is_over_is_told_when_keys_change),
        cmocka_unit_test(after_an_overflow_the_next_life_is_heard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
