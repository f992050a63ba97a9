/* SPDX-License-Identifier: Apache-2.0 */
/* Bulk that is read where it lies: between processes, and between the ends of connections. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.h"
#include "net/tcp/table.h"
#include "tcp_world.h"
#include "wire/messages.h"

#define LARGE (UINT32_C(100) << 10)
#define NOBODY 65534

/* ---- another process ------------------------------------------------------------- */

/* What it has; its own copy, from its first moment on, is another one. */
static uint8_t mark[COP__MARK_SIZE], payload[LARGE];

struct other {
    pid_t pid;
    int fd;
};

/* It does as it is told: w: wipe the mark; h: hide. Each is answered by the same. */
_Noreturn static void be_other(const struct sockaddr_un *address, uid_t user)
{
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    char order = 'b';
    memset(payload, 7, sizeof payload);
    cop__mark_make(11, 12, mark);
    if ((user != geteuid() && seteuid(user) != 0) ||
        connect(fd, (const struct sockaddr *)address, sizeof *address) != 0)
        _exit(1);
    do {
        if (order == 'w')
            cop__mark_wipe(mark);
        if (order == 'h')
            prctl(PR_SET_DUMPABLE, 0);
        if (write(fd, &order, 1) != 1)
            _exit(1);
    } while (read(fd, &order, 1) == 1);
    _exit(0);
}

static void obey(const struct other *other, char order)
{
    char said;
    assert_int_equal(write(other->fd, &order, 1), 1);
    assert_int_equal(read(other->fd, &said, 1), 1);
    assert_int_equal(said, order);
}

static struct other start_other(uid_t user)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct other other;
    char said;
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    /* A name of the kernel's, which is no file: whoever it is can connect. */
    snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "sight-%d", getpid());
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 1), 0);
    other.pid = fork();
    if (other.pid == 0)
        be_other(&address, user);
    assert_true(other.pid > 0);
    other.fd = accept(listener, NULL, NULL);
    assert_true(other.fd >= 0);
    close(listener);
    assert_int_equal(read(other.fd, &said, 1), 1);
    return other;
}

static void end_other(const struct other *other)
{
    kill(other->pid, SIGKILL);
    assert_int_equal(waitpid(other->pid, NULL, 0), other->pid);
    close(other->fd);
}

static bool look(const struct other *other, struct cop__sight *out)
{
    uint8_t wanted[COP__MARK_SIZE];
    cop__mark_make(11, 12, wanted);
    *out = (struct cop__sight){0};
    return cop__sight_open(out, other->fd, (uintptr_t)mark, wanted);
}

static int read_all(const struct cop__sight *sight)
{
    static uint8_t bytes[LARGE];
    memset(bytes, 0, sizeof bytes);
    int error =
        cop__sight_read(sight, (uintptr_t)payload, bytes, (uint32_t)sizeof bytes);
    for (size_t i = 0; i < sizeof bytes && error == 0; i++)
        assert_int_equal(bytes[i], 7);
    return error;
}

/* False where nobody may read the memory of others at all. */
static bool can_see(void)
{
    struct cop__sight sight;
    struct other other = start_other(geteuid());
    bool can = look(&other, &sight);
    end_other(&other);
    if (!can)
        print_message("processes may not read each other's memory here\n");
    return can;
}

static void until_the_mark_is_gone(void **state)
{
    (void)state;
    if (!can_see())
        skip();
    struct cop__sight sight;
    struct other other = start_other(geteuid());
    assert_true(look(&other, &sight));
    assert_int_equal(sight.pid, other.pid);
    assert_int_equal(read_all(&sight), 0);
    /* No memory is there. */
    uint8_t bytes[8];
    assert_int_equal(cop__sight_read(&sight, 8, bytes, sizeof bytes), COP_ELOST);
    obey(&other, 'w');
    assert_int_equal(read_all(&sight), COP_ELOST);
    assert_false(look(&other, &sight));
    assert_int_equal(sight.pid, 0);
    end_other(&other);
}

static void until_it_dies(void **state)
{
    (void)state;
    if (!can_see())
        skip();
    struct cop__sight sight;
    struct other other = start_other(geteuid());
    assert_true(look(&other, &sight));
    end_other(&other);
    assert_int_equal(read_all(&sight), COP_ELOST);
}

/* Root may read everything: this is about who may not. */
static void set_tracing(bool may)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2];
    assert_int_equal(syscall(SYS_capget, &head, sets), 0);
    if (may)
        sets[0].effective |= sets[0].permitted & 1u << CAP_SYS_PTRACE;
    else
        sets[0].effective &= ~(1u << CAP_SYS_PTRACE);
    assert_int_equal(syscall(SYS_capset, &head, sets), 0);
}

static void where_it_is_permitted(void **state)
{
    (void)state;
    if (!can_see())
        skip();
    struct cop__sight sight, again;
    struct other other = start_other(geteuid());
    assert_true(look(&other, &sight));
    obey(&other, 'h');
    set_tracing(false);
    assert_int_equal(read_all(&sight), COP_ELOST);
    assert_false(look(&other, &again));
    set_tracing(true);
    end_other(&other);
}

/* Even if it could be read: root reads nobody else's. */
static void of_the_same_user(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    struct cop__sight sight;
    struct other other = start_other(NOBODY);
    assert_false(look(&other, &sight));
    end_other(&other);
}

/* ---- connections ----------------------------------------------------------------- */

static bool all_have_all(void *context)
{
    struct world *world = context;
    return side_has_all(&world->sides[0], &world->sides[1]) &&
           side_has_all(&world->sides[1], &world->sides[0]);
}

static bool first_is_seen(void *context)
{
    struct world *world = context;
    const struct cop__conn *conn = world->sides[0].peers->first;
    return conn && conn->link.shown == COP__SEEN && all_have_all(context);
}

/* Two, of whom the second reads what the first has. */
static struct world *open_world(void)
{
    struct world *world = world_create(AF_UNIX);
    world_open(world, 0, 3);
    world_open(world, 1, 4);
    side_send(&world->sides[0], 1, COP__KIND_DATA, 1, LARGE);
    world_until(world, first_is_seen, world);
    return world;
}

static void large_payloads_are_read(void **state)
{
    (void)state;
    if (!can_see())
        skip();
    struct world *world = open_world();
    struct side *a = &world->sides[0], *b = &world->sides[1];
    assert_int_equal(b->stats.payloads_read, 0);
    side_send(a, 1, COP__KIND_DATA, 20, LARGE);
    side_send(a, 1, COP__KIND_DATA, 5, COP__THERE_LEAST - 1);
    side_send(a, 1, COP__KIND_NEWS, 5, 100);
    side_send(a, 1, COP__KIND_DATA, 5, COP__THERE_LEAST);
    world_until(world, all_have_all, world);
    assert_int_equal(b->stats.payloads_read, 25);
    assert_int_equal(b->stats.payloads_unseen, 0);
    assert_int_equal(a->stats.payloads_read, 0);
    assert_int_equal(side_downs(a, 1) + side_downs(b, 0), 0);
    world_destroy(world);
}

static void elsewhere_they_are_sent(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct world *world = world_create(i == 0 ? AF_INET : AF_UNIX);
        world->no_reads = i == 1;
        struct side *a = world_open(world, 0, 3);
        world->no_reads = i == 2;
        struct side *b = world_open(world, 1, 4);
        for (int j = 0; j < 3; j++) {
            side_send(a, 1, COP__KIND_DATA, 5, LARGE);
            world_until(world, all_have_all, world);
        }
        assert_int_equal(a->stats.payloads_read + b->stats.payloads_read, 0);
        assert_int_equal(side_downs(a, 1) + side_downs(b, 0), 0);
        world_destroy(world);
    }
}

static void cuts_lose_nothing(void **state)
{
    (void)state;
    if (!can_see())
        skip();
    struct world *world = open_world();
    struct side *a = &world->sides[0], *b = &world->sides[1];
    struct cop__random random;
    uint64_t cuts = 0;
    cop__random_init(&random, 7);
    for (int round = 0; round < 400; round++) {
        struct side *side = cop__random_chance(&random, 1, 2) ? a : b;
        uint16_t kind =
            cop__random_chance(&random, 2, 3) ? COP__KIND_DATA : COP__KIND_NEWS;
        side_send(side, 1 - side->id, kind, 1 + (uint32_t)(round % 3),
                  12 + (uint32_t)cop__random_below(&random, LARGE));
        for (int turns = round % 4; turns >= 0; turns--)
            world_turn(world);
        if (cop__random_chance(&random, 1, 8))
            cuts += cop__peers_cut(side->peers, 1 - side->id) == 0;
    }
    world_until(world, all_have_all, world);
    assert_true(cuts > 10);
    assert_true(a->stats.payloads_read > 10 && b->stats.payloads_read > 10);
    assert_int_equal(a->stats.refused_garbage + b->stats.refused_garbage, 0);
    world_destroy(world);
}

/* As if it had been replaced, or what it showed had gone: it is sent, and nobody is dead. */
static void what_is_not_seen_is_sent(void **state)
{
    (void)state;
    if (!can_see())
        skip();
    struct world *world = open_world();
    struct side *a = &world->sides[0], *b = &world->sides[1];
    cop__mark_wipe(a->peers->first->mark);
    side_send(a, 1, COP__KIND_DATA, 20, LARGE);
    world_until(world, all_have_all, world);
    side_send(a, 1, COP__KIND_DATA, 5, LARGE);
    world_until(world, all_have_all, world);
    assert_int_equal(b->stats.payloads_unseen, 1);
    assert_int_equal(b->stats.payloads_read, 0);
    assert_int_equal(b->stats.refused_garbage, 0);
    assert_int_equal(side_downs(a, 1) + side_downs(b, 0), 0);
    /* Its next life is another process. */
    world_crash(a);
    world_open(world, 0, 5);
    side_send(a, 1, COP__KIND_DATA, 1, LARGE);
    world_until(world, first_is_seen, world);
    side_send(a, 1, COP__KIND_DATA, 1, LARGE);
    world_until(world, all_have_all, world);
    assert_int_equal(b->stats.payloads_read, 1);
    world_destroy(world);
}

/* Before anything that it was shown for can go. */
static void what_was_shown_is_wiped(void **state)
{
    static const uint8_t zero[COP__MARK_SIZE];
    (void)state;
    struct world *world = world_create(AF_UNIX);
    struct side *a = world_open(world, 0, 3);
    world_open(world, 1, 4);
    side_send(a, 1, COP__KIND_DATA, 1, LARGE);
    world_until(world, all_have_all, world);
    /* libuv still holds it. */
    const struct cop__conn *conn = a->peers->first;
    assert_memory_not_equal(conn->mark, zero, sizeof zero);
    assert_int_equal(cop__peers_cut(a->peers, 1), 0);
    assert_int_equal(conn->state, COP__CONN_CLOSING);
    assert_memory_equal(conn->mark, zero, sizeof zero);
    world_destroy(world);
}

/* Nothing is read for one whose mark was not found, and nobody sees what was not shown. */
static void claims_are_cut_off(void **state)
{
    (void)state;
    struct world *world = world_create(AF_UNIX);
    world->no_reads = true;
    struct side *b = world_open(world, 1, 4);
    world->no_reads = false;
    struct side *a = world_open(world, 0, 3);
    side_send(a, 1, COP__KIND_DATA, 1, LARGE);
    world_until(world, all_have_all, world);
    assert_int_equal(a->peers->first->link.shown, COP__SHOWN);
    a->peers->first->link.shown = COP__SEEN;
    side_send(a, 1, COP__KIND_DATA, 3, LARGE);
    world_until(world, all_have_all, world);
    assert_int_equal(b->stats.refused_garbage, 1);
    assert_int_equal(b->stats.payloads_read, 0);
    a->peers->first->link.must_see = true;
    side_send(a, 1, COP__KIND_NEWS, 1, 100);
    world_until_stat(world, &b->stats.refused_garbage, 2);
    world_until(world, all_have_all, world);
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(until_the_mark_is_gone),
        cmocka_unit_test(until_it_dies),
        cmocka_unit_test(where_it_is_permitted),
        cmocka_unit_test(of_the_same_user),
        cmocka_unit_test(large_payloads_are_read),
        cmocka_unit_test(elsewhere_they_are_sent),
        cmocka_unit_test(cuts_lose_nothing),
        cmocka_unit_test(what_is_not_seen_is_sent),
        cmocka_unit_test(what_was_shown_is_wiped),
        cmocka_unit_test(claims_are_cut_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
