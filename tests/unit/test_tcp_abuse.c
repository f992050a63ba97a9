/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What others may do to a driver: speak nonsense, say nothing, be of another cluster, take
 * all descriptors, take nothing. And what it does to itself: age out, pile up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/random.h"
#include "net/tcp/table.h"
#include "run/guest.h"
#include "tcp_world.h"
#include "wire/messages.h"

static const int families[] = {AF_UNIX, AF_INET};
#define FOR_FAMILIES(i) for (size_t i = 0; i < 2; i++)

static bool both_have_all(void *context)
{
    struct world *world = context;
    return side_has_all(&world->sides[0], &world->sides[1]) &&
           side_has_all(&world->sides[1], &world->sides[0]);
}

/* Sides 0 and 1 talk, so that it can be seen whether something disturbs them. */
static void talk(struct world *world)
{
    side_send(&world->sides[0], 1, COP__KIND_NEWS, 10, 100);
    side_send(&world->sides[1], 0, COP__KIND_NEWS, 10, 100);
    world_until(world, both_have_all, world);
}

static void assert_undisturbed(struct world *world)
{
    talk(world);
    for (cop_id i = 0; i < 2; i++) {
        assert_int_equal(world->sides[i].ups[1 - i], 1);
        assert_int_equal(side_downs(&world->sides[i], 1 - i), 0);
    }
}

/* ---- strangers ------------------------------------------------------------------- */

struct wait {
    int fd;
    bool is_over;
    uint8_t bytes[4096];
    size_t length;
};

/* Whether the other side has closed the connection; keeps what it said before. */
static bool is_cut(void *context)
{
    struct wait *wait = context;
    size_t room = sizeof wait->bytes - wait->length;
    ssize_t got = recv(wait->fd, wait->bytes + wait->length, room, MSG_DONTWAIT);
    if (got > 0)
        wait->length += (size_t)got;
    wait->is_over = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
    return wait->is_over;
}

/* What the other side said before it closed. */
static enum cop__refusal answer_of(const struct wait *wait, char *text, size_t size)
{
    struct cop__link link;
    struct cop__item item;
    struct cop__bytes in = {wait->bytes, (uint32_t)wait->length};
    cop__link_init(&link);
    assert_int_equal(cop__link_input(&link, &in, &item), 1);
    assert_int_equal(item.type, COP__RECORD_REFUSE);
    enum cop__refusal refusal = cop__refuse_read(&item, text, size);
    cop_buf_unref(item.body);
    cop__link_fini(&link);
    return refusal;
}

static void say(struct world *world, const void *bytes, size_t length,
                struct wait *wait)
{
    *wait = (struct wait){.fd = world_dial(world, 1)};
    if (length > 0)
        assert_int_equal(send(wait->fd, bytes, length, MSG_NOSIGNAL), length);
    world_until(world, is_cut, wait);
    close(wait->fd);
}

static void garbage_is_cut_with_one_line(void **state)
{
    (void)state;
    FOR_FAMILIES(i)
    {
        struct world *world = world_create(families[i]);
        world_open(world, 0, 3);
        struct side *b = world_open(world, 1, 4);
        struct cop__random random;
        struct wait wait;
        talk(world);
        cop__random_init(&random, 5);
        for (int round = 0; round < 20; round++) {
            uint8_t bytes[600];
            for (size_t j = 0; j < sizeof bytes; j++)
                bytes[j] = (uint8_t)(128 + cop__random_below(&random, 128));
            say(world, bytes, sizeof bytes, &wait);
        }
        say(world, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 28, &wait);
        assert_int_equal(b->stats.refused_garbage, 21);
        assert_int_equal(b->lines, 1);
        assert_undisturbed(world);
        world_destroy(world);
    }
}

/* Who asks again before it was answered is cut: what waits for answers has a bound. */
static void guests_ask_one_thing_at_a_time(void **state)
{
    (void)state;
    struct world *world = world_create(AF_INET);
    world->has_guests = true;
    struct side *b = world_open(world, 1, 4);
    struct cop_buf *command = cop__command_make(1, COP__VERB_DESCRIBE, NULL);
    struct cop_buf *answer = cop__reply_make(1, 0, false, NULL);
    struct wait wait = {.fd = world_dial(world, 1)};
    assert_true(command != NULL && answer != NULL);
    for (uint32_t i = 1; i <= 3; i++) {
        assert_int_equal(send(wait.fd, command->data, command->length, MSG_NOSIGNAL),
                         command->length);
        world_until_count(world, &b->commands, i);
        cop__peers_answer(b->peers, b->guest, answer);
    }
    for (int i = 0; i < 20; i++)
        assert_int_equal(send(wait.fd, command->data, command->length, MSG_NOSIGNAL),
                         command->length);
    world_until(world, is_cut, &wait);
    assert_int_equal(b->commands, 4);
    assert_int_equal(b->stats.refused_garbage, 1);
    close(wait.fd);
    cop_buf_unref(command);
    cop_buf_unref(answer);
    world_destroy(world);
}

static void a_claim_of_4_gib_is_cut(void **state)
{
    (void)state;
    struct world *world = world_create(AF_INET);
    world_open(world, 0, 3);
    struct side *b = world_open(world, 1, 4);
    struct wait wait;
    char text[64];
    uint8_t bytes[COP__RECORD_SIZE];
    struct cop__record record = {.type = COP__RECORD_HELLO, .length = UINT32_MAX};
    talk(world);
    cop__record_encode(&record, bytes);
    say(world, bytes, sizeof bytes, &wait);
    assert_int_equal(answer_of(&wait, text, sizeof text), COP__REFUSE_GARBAGE);
    record = (struct cop__record){.type = COP__RECORD_FRAME, .length = UINT32_MAX};
    cop__record_encode(&record, bytes);
    say(world, bytes, sizeof bytes, &wait);
    assert_int_equal(b->stats.refused_garbage, 2);
    assert_undisturbed(world);
    world_destroy(world);
}

/* A HELLO of member 2 to member 1, as `change` spoils it. */
static size_t make_hello(struct world *world, uint8_t bytes[COP__GREETING_MAX],
                         uint8_t cluster)
{
    struct cop__identity identity = {{cluster}, 1, 2, 7, world->view, false};
    struct cop__acquaintance acquaintance;
    cop__acquaintance_init(&acquaintance);
    return cop__hello_write(&identity, 1, &acquaintance, false, bytes);
}

static void other_versions_and_clusters_are_told(void **state)
{
    (void)state;
    struct world *world = world_create(AF_UNIX);
    world_open(world, 0, 3);
    struct side *b = world_open(world, 1, 4);
    uint8_t bytes[COP__GREETING_MAX];
    struct wait wait;
    char text[128];
    talk(world);
    size_t length = make_hello(world, bytes, 0);
    bytes[COP__RECORD_SIZE]++;
    say(world, bytes, length, &wait);
    assert_int_equal(answer_of(&wait, text, sizeof text), COP__REFUSE_VERSION);
    assert_non_null(strstr(text, "version"));
    length = make_hello(world, bytes, 99);
    say(world, bytes, length, &wait);
    assert_int_equal(answer_of(&wait, text, sizeof text), COP__REFUSE_CLUSTER);
    assert_int_equal(b->stats.refused_version, 1);
    assert_int_equal(b->stats.refused_cluster, 1);
    assert_int_equal(b->lines, 2);
    assert_undisturbed(world);
    world_destroy(world);
}

static void a_member_of_another_cluster_learns_why(void **state)
{
    (void)state;
    struct world *world = world_create(AF_INET);
    struct side *b = world_open(world, 1, 4);
    world->cluster = 77;
    struct side *a = world_open(world, 0, 3);
    assert_int_equal(cop__peers_keep(a->peers, 1), 0);
    world_until_count(world, &a->downs[1][COP_DOWN_REFUSED], 1);
    assert_int_equal(a->lines, 1);
    assert_non_null(strstr(a->line, "member 1 refused our connection"));
    assert_non_null(strstr(a->line, "another cluster"));
    assert_int_equal(b->stats.refused_cluster, 1);
    assert_int_equal(b->ups[0], 0);
    world_destroy(world);
}

/* A handshake in the slowest possible way is still one. */
static void a_slow_handshake_is_taken(void **state)
{
    (void)state;
    struct world *world = world_create(AF_UNIX);
    struct side *b = world_open(world, 1, 4);
    uint8_t bytes[COP__GREETING_MAX];
    size_t length = make_hello(world, bytes, 0);
    int fd = world_dial(world, 1);
    for (size_t i = 0; i < length; i++) {
        assert_int_equal(b->ups[2], 0);
        assert_int_equal(send(fd, bytes + i, 1, MSG_NOSIGNAL), 1);
        world_turn(world);
    }
    world_until_count(world, &b->ups[2], 1);
    assert_int_equal(b->lives[2], 7);
    close(fd);
    world_until_count(world, &b->downs[2][COP_DOWN_CLOSED], 1);
    world_destroy(world);
}

static void who_says_nothing_is_cut(void **state)
{
    (void)state;
    struct world *world = world_create(AF_UNIX);
    world->handshake_timeout_ns = 20 * COP_MSEC;
    world_open(world, 0, 3);
    struct side *b = world_open(world, 1, 4);
    struct wait wait;
    talk(world);
    say(world, NULL, 0, &wait);
    assert_int_equal(b->stats.timed_out, 1);
    /* Half a greeting is no better. */
    say(world, "\1", 1, &wait);
    assert_int_equal(b->stats.timed_out, 2);
    assert_undisturbed(world);
    world_destroy(world);
}

static void of_many_strangers_the_oldest_goes(void **state)
{
    (void)state;
    struct world *world = world_create(AF_INET);
    world->strangers_max = 4;
    world_open(world, 0, 3);
    struct side *b = world_open(world, 1, 4);
    struct wait waits[10];
    talk(world);
    for (int i = 0; i < 10; i++) {
        waits[i] = (struct wait){.fd = world_dial(world, 1)};
        world_until_stat(world, &b->stats.accepts, (uint64_t)i + 2);
    }
    for (int i = 0; i < 6; i++)
        world_until(world, is_cut, &waits[i]);
    for (int i = 6; i < 10; i++)
        assert_false(is_cut(&waits[i]));
    assert_int_equal(b->stats.connections, 5);
    assert_int_equal(b->lines, 1);
    assert_undisturbed(world);
    for (int i = 0; i < 10; i++)
        close(waits[i].fd);
    world_destroy(world);
}

/* Whoever has the key may call under any id. Those who have gone, and whom nobody knows, are
 * not remembered for ever; the others are. */
static void of_many_callers_some_are_forgotten(void **state)
{
    (void)state;
    struct world *world = world_create(AF_UNIX);
    world->is_open = true;
    world_open(world, 0, 3);
    struct side *b = world_open(world, 1, 4);
    talk(world);
    for (uint32_t i = 0; i < 500; i++) {
        struct cop__identity identity = {{0}, 1, 100 + i, 7, world->view, true};
        struct cop__acquaintance acquaintance;
        uint8_t bytes[COP__GREETING_MAX];
        cop__acquaintance_init(&acquaintance);
        size_t length = cop__hello_write(&identity, 1, &acquaintance, false, bytes);
        int fd = world_dial(world, 1);
        assert_int_equal(send(fd, bytes, length, MSG_NOSIGNAL), length);
        world_until_count(world, &b->others, i + 1);
        close(fd);
    }
    world_turn(world);
    assert_true(b->peers->table.count <= 64);
    assert_undisturbed(world);
    world_destroy(world);
}

/* ---- descriptors ----------------------------------------------------------------- */

/* No more descriptors than are open now, plus `more`. */
static void limit_descriptors(rlim_t more, struct rlimit *old)
{
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(next >= 0);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, old), 0);
    struct rlimit limit = {(rlim_t)next + more, old->rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void no_descriptor_to_accept_with(void **state)
{
    (void)state;
    FOR_FAMILIES(i)
    {
        struct world *world = world_create(families[i]);
        world_open(world, 0, 3);
        struct side *b = world_open(world, 1, 4);
        struct rlimit old;
        talk(world);
        int fd = world_dial(world, 1);
        uint64_t accepts = b->stats.accepts;
        limit_descriptors(0, &old);
        world_until_stat(world, &b->stats.shortages, 1);
        /* It waits instead of trying all the time, and those who are connected go on. */
        uint64_t shortages = b->stats.shortages;
        assert_undisturbed(world);
        assert_true(b->stats.shortages <= shortages + 1);
        assert_int_equal(b->stats.accepts, accepts);
        assert_int_equal(b->lines, 1);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
        world_until_stat(world, &b->stats.accepts, accepts + 1);
        close(fd);
        world_destroy(world);
    }
}

/* Our own want of descriptors is not the death of others. */
static void no_descriptor_to_connect_with(void **state)
{
    (void)state;
    FOR_FAMILIES(i)
    {
        struct world *world = world_create(families[i]);
        struct side *a = world_open(world, 0, 3);
        world_open(world, 1, 4);
        world_open(world, 2, 5);
        struct rlimit old;
        talk(world);
        limit_descriptors(0, &old);
        assert_int_equal(cop__peers_keep(a->peers, 2), 0);
        world_until_stat(world, &a->stats.shortages, 2);
        assert_undisturbed(world);
        assert_int_equal(side_downs(a, 2), 0);
        assert_int_equal(a->lines, 1);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
        world_until_count(world, &a->ups[2], 1);
        assert_int_equal(side_downs(a, 2), 0);
        world_destroy(world);
    }
}

/* ---- ageing ---------------------------------------------------------------------- */

static bool third_has_aged_thrice(void *context)
{
    struct world *world = context;
    struct side *a = &world->sides[0], *c = &world->sides[2];
    bool is_alone = a->stats.connections == 1 && side_has_all(a, c);
    if (is_alone && a->ups[2] < 3)
        side_send(a, 2, COP__KIND_NEWS, 1, 100);
    return is_alone && a->ups[2] == 3;
}

static bool second_is_alone(void *context)
{
    struct world *world = context;
    return world->sides[1].stats.connections == 0;
}

/* What nobody needs is closed without a word, and made again when there is something to
 * say. What one of the two needs stays, whoever looks at it. */
static void only_what_nobody_needs_ages(void **state)
{
    (void)state;
    FOR_FAMILIES(i)
    {
        struct world *world = world_create(families[i]);
        world->idle_close_ns = 10 * COP_MSEC;
        struct side *a = world_open(world, 0, 3), *b = world_open(world, 1, 4);
        struct side *c = world_open(world, 2, 5);
        /* Side 0 calls; only side 1 needs it. */
        side_send(a, 1, COP__KIND_NEWS, 1, 100);
        assert_int_equal(cop__peers_keep(b->peers, 0), 0);
        world_until(world, both_have_all, world);
        world_until(world, third_has_aged_thrice, world);
        assert_true(a->stats.aged_out + c->stats.aged_out >= 3);
        assert_int_equal(side_downs(a, 2) + side_downs(c, 0), 0);
        assert_int_equal(a->ups[1], 1);
        assert_int_equal(b->ups[0], 1);
        assert_int_equal(b->stats.aged_out, 0);
        assert_true(side_has_all(a, c));
        /* When the need ends, it ages like any other. */
        assert_int_equal(cop__peers_release(b->peers, 0), 0);
        world_until(world, second_is_alone, world);
        assert_int_equal(side_downs(a, 1) + side_downs(b, 0), 0);
        world_destroy(world);
    }
}

/* ---- piling up ------------------------------------------------------------------- */

static void the_node_hears_of_the_backlog(void **state)
{
    (void)state;
    FOR_FAMILIES(i)
    {
        struct world *world = world_create(families[i]);
        struct side *a = world_open(world, 0, 3);
        world_open(world, 1, 4);
        a->known[1] = 4; /* of whom nobody knows less is kept */
        side_send(a, 1, COP__KIND_NEWS, 3, 1 << 20);
        cop__peers_flush(a->peers);
        assert_int_equal(a->chokes, 0);
        side_send(a, 1, COP__KIND_DATA, 3, 1 << 20);
        cop__peers_flush(a->peers);
        assert_int_equal(a->chokes, 1);
        assert_int_equal(a->relieves, 0);
        world_until(world, both_have_all, world);
        assert_int_equal(a->chokes, 1);
        assert_int_equal(a->relieves, 1);
        assert_int_equal(a->stats.backlog_bytes, 0);
        world_destroy(world);
    }
}

/* For whom nobody knows less is kept, and what is kept for one that is not there is forgotten. */
static void little_is_kept_for_strangers(void **state)
{
    (void)state;
    struct world *world = world_create(AF_UNIX);
    struct side *a = world_open(world, 0, 3);
    a->known[1] = 4;
    for (cop_id id = 1; id <= 2; id++) {
        uint64_t before = a->stats.dropped_frames;
        close(world_listen(world, id == 1 ? "1" : "2", &world->addresses[id]));
        for (int i = 0; i < 8; i++)
            side_send(a, id, COP__KIND_NEWS, 1, 1 << 20);
        assert_int_equal(a->stats.dropped_frames > before, id == 2);
    }
    world_destroy(world);
}

/* Who takes nothing is given up when too much has piled up, and may not go on as if nothing
 * had been dropped. */
static void too_much_for_one_is_an_end(void **state)
{
    (void)state;
    struct world *world = world_create(AF_UNIX);
    struct side *a = world_open(world, 0, 3), *b = world_open(world, 1, 4);
    talk(world);
    for (int i = 0; i < 70; i++) {
        side_send(a, 1, COP__KIND_NEWS, 1, 1 << 20);
        cop__peers_flush(a->peers);
    }
    assert_true(a->stats.dropped_frames > 0);
    assert_int_equal(a->downs[1][COP_DOWN_SILENT], 1);
    world_until_count(world, &b->downs[0][COP_DOWN_CLOSED], 1);
    assert_int_equal(cop__peers_keep(b->peers, 0), 0);
    world_until_count(world, &b->downs[0][COP_DOWN_REFUSED], 1);
    assert_non_null(strstr(b->line, "start anew"));
    assert_int_equal(a->stats.refused_identity, 1);
    world_crash(b);
    /* Another life has no debts. */
    b = world_open(world, 1, 9);
    memset(&a->with[1], 0, sizeof a->with[1]);
    side_send(b, 0, COP__KIND_NEWS, 1, 100);
    world_until(world, both_have_all, world);
    side_send(a, 1, COP__KIND_NEWS, 1, 100);
    world_until(world, both_have_all, world);
    world_destroy(world);
}

static void unknown_kinds_are_skipped(void **state)
{
    (void)state;
    struct world *world = world_create(AF_UNIX);
    struct side *a = world_open(world, 0, 3);
    struct side *b = world_open(world, 1, 4);
    talk(world);
    uint64_t sent = a->with[1].sent[COP__LANE_CONTROL];
    side_send(a, 1, 9999, 2, 100);
    a->with[1].sent[COP__LANE_CONTROL] = sent;
    world_until_stat(world, &b->stats.skipped_frames, 2);
    assert_undisturbed(world);
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(garbage_is_cut_with_one_line),
        cmocka_unit_test(guests_ask_one_thing_at_a_time),
        cmocka_unit_test(a_claim_of_4_gib_is_cut),
        cmocka_unit_test(other_versions_and_clusters_are_told),
        cmocka_unit_test(a_member_of_another_cluster_learns_why),
        cmocka_unit_test(a_slow_handshake_is_taken),
        cmocka_unit_test(who_says_nothing_is_cut),
        cmocka_unit_test(of_many_strangers_the_oldest_goes),
        cmocka_unit_test(of_many_callers_some_are_forgotten),
        cmocka_unit_test(no_descriptor_to_accept_with),
        cmocka_unit_test(no_descriptor_to_connect_with),
        cmocka_unit_test(only_what_nobody_needs_ages),
        cmocka_unit_test(the_node_hears_of_the_backlog),
        cmocka_unit_test(little_is_kept_for_strangers),
        cmocka_unit_test(too_much_for_one_is_an_end),
        cmocka_unit_test(unknown_kinds_are_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
