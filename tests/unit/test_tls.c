/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys, their files and their rotation; encrypted connections in memory; and members over
 * sockets that have the same key, another one, or one that is being changed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/tcp/limits.h"
#include "net/tcp/table.h"
#include "net/tls/channel.h"
#include "net/tls/keys.h"
#include "net/tls/parts.h"
#include "tcp_world.h"
#include "wire/messages.h"

/* ---- files ----------------------------------------------------------------------- */

static char folder[32], path[64], message[400];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/coppice-tls-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/key", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void write_keys(const struct cop__keys *keys)
{
    unlink(path);
    assert_int_equal(cop__keys_write(path, keys, true, message, sizeof message), 0);
}

static void what_is_written_is_read(void **state)
{
    struct cop__keys keys = {.step = COP__KEYS_ALONE}, read;
    (void)state;
    assert_int_equal(cop__key_make(&keys.use), 0);
    for (int i = 0; i < 4; i++) {
        write_keys(&keys);
        assert_int_equal(cop__keys_read(path, &read, message, sizeof message), 0);
        assert_int_equal(read.step, keys.step);
        assert_memory_equal(&read.use, &keys.use, sizeof keys.use);
        if (keys.step != COP__KEYS_ALONE)
            assert_memory_equal(&read.other, &keys.other, sizeof keys.other);
        assert_int_equal(cop__keys_rotate(&keys), 0);
    }
}

static void three_steps_change_a_key(void **state)
{
    struct cop__keys keys = {.step = COP__KEYS_ALONE};
    (void)state;
    assert_int_equal(cop__key_make(&keys.use), 0);
    struct cop__key old = keys.use;
    assert_int_equal(cop__keys_rotate(&keys), 0);
    struct cop__key new = keys.other;
    assert_memory_equal(&keys.use, &old, sizeof old);
    assert_string_not_equal(new.id, old.id);
    assert_non_null(cop__keys_find(&keys, new.id, COP__KEY_ID_LENGTH));
    assert_int_equal(cop__keys_rotate(&keys), 0);
    assert_memory_equal(&keys.use, &new, sizeof new);
    assert_non_null(cop__keys_find(&keys, old.id, COP__KEY_ID_LENGTH));
    assert_int_equal(cop__keys_rotate(&keys), 0);
    assert_memory_equal(&keys.use, &new, sizeof new);
    assert_null(cop__keys_find(&keys, old.id, COP__KEY_ID_LENGTH));
    assert_null(cop__keys_find(&keys, new.id, COP__KEY_ID_LENGTH - 1));
    /* What was wiped is zeros, which everybody knows: it is no key. */
    static const char wiped[COP__KEY_ID_LENGTH];
    assert_null(cop__keys_find(&keys, wiped, COP__KEY_ID_LENGTH));
}

static void a_file_for_others_is_refused(void **state)
{
    static const mode_t modes[] = {0640, 0604, 0660, 0620, 0602, 0610};
    struct cop__keys keys = {.step = COP__KEYS_ALONE}, read;
    (void)state;
    assert_int_equal(cop__key_make(&keys.use), 0);
    write_keys(&keys);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_int_equal(cop__keys_read(path, &read, message, sizeof message),
                         COP_EREFUSED);
        assert_non_null(strstr(message, "chmod 600"));
    }
    assert_int_equal(chmod(path, 0400), 0);
    assert_int_equal(cop__keys_read(path, &read, message, sizeof message), 0);
}

/* ---- connections in memory ------------------------------------------------------- */

static struct cop__tls *make_tls(const struct cop__keys *keys)
{
    struct cop__tls_files files = {.key = path};
    struct cop__tls *tls;
    write_keys(keys);
    assert_int_equal(cop__tls_create(&files, &tls, message, sizeof message), 0);
    return tls;
}

struct pair {
    struct cop__channel *ends[2];
    struct cop__outbox out[2];
};

static struct cop__bytes said_by(struct pair *pair, int i)
{
    struct cop__bytes bytes = {pair->out[i].bytes, (uint32_t)pair->out[i].used};
    pair->out[i].used = 0;
    return bytes;
}

/* 1 if both have accepted each other, or what the first to fail says; *who is that one. */
static int meet(struct pair *pair, struct cop__tls *client, struct cop__tls *server,
                int *who)
{
    int done[2] = {0, 0};
    memset(pair, 0, sizeof *pair);
    assert_int_equal(cop__channel_create(client, false, &pair->ends[0]), 0);
    assert_int_equal(cop__channel_create(server, true, &pair->ends[1]), 0);
    for (int round = 0; round < 6; round++) {
        int i = round % 2;
        struct cop__bytes in = said_by(pair, 1 - i);
        if (done[i] == 0)
            done[i] = cop__channel_shake(pair->ends[i], &in, &pair->out[i]);
        *who = i;
        if (done[i] < 0)
            return done[i];
    }
    return done[0] == 1 && done[1] == 1;
}

static void part(struct pair *pair)
{
    cop__channel_destroy(pair->ends[0]);
    cop__channel_destroy(pair->ends[1]);
}

static void the_same_key_is_accepted(void **state)
{
    struct cop__keys keys = {.step = COP__KEYS_ALONE};
    struct pair *pair = malloc(sizeof *pair);
    uint8_t sent[3000], plain[COP__RECORD_PLAIN];
    int who;
    (void)state;
    assert_int_equal(cop__key_make(&keys.use), 0);
    struct cop__tls *tls = make_tls(&keys);
    assert_int_equal(meet(pair, tls, tls, &who), 1);
    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (uint8_t)(i * 7);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            cop__channel_write(pair->ends[i], sent, sizeof sent, &pair->out[i]), 0);
        struct cop__bytes in = said_by(pair, i);
        assert_null(memmem(in.data, in.length, sent, 16));
        assert_int_equal(cop__channel_read(pair->ends[1 - i], &in, plain, sizeof plain,
                                           &pair->out[1 - i]),
                         sizeof sent);
        assert_memory_equal(plain, sent, sizeof sent);
    }
    part(pair);
    cop__tls_destroy(tls);
    free(pair);
}

static void another_key_is_not(void **state)
{
    struct cop__keys a = {.step = COP__KEYS_ALONE}, b = a;
    struct pair *pair = malloc(sizeof *pair);
    int who;
    (void)state;
    assert_int_equal(cop__key_make(&a.use), 0);
    assert_int_equal(cop__key_make(&b.use), 0);
    struct cop__tls *ours = make_tls(&a), *theirs = make_tls(&b);
    assert_int_equal(meet(pair, theirs, ours, &who), COP_EREFUSED);
    assert_int_equal(who, 1);
    assert_int_equal(cop__channel_fault(pair->ends[1]), COP__FAULT_KEY);
    /* The other side is told that it was refused, and no more. */
    struct cop__bytes alert = said_by(pair, 1);
    assert_int_equal(cop__channel_shake(pair->ends[0], &alert, &pair->out[0]),
                     COP_EREFUSED);
    assert_int_equal(cop__channel_fault(pair->ends[0]), COP__FAULT_REFUSED);
    part(pair);
    cop__tls_destroy(ours);
    cop__tls_destroy(theirs);
    free(pair);
}

/* The name of a key is on the wire for everybody to read; it opens nothing. */
static void the_name_of_a_key_is_no_key(void **state)
{
    struct cop__keys a = {.step = COP__KEYS_ALONE}, b = a;
    struct pair *pair = malloc(sizeof *pair);
    int who;
    (void)state;
    assert_int_equal(cop__key_make(&a.use), 0);
    assert_int_equal(cop__key_make(&b.use), 0);
    struct cop__tls *ours = make_tls(&a), *theirs = make_tls(&b);
    memcpy(theirs->keys.use.id, a.use.id, sizeof a.use.id);
    assert_int_equal(meet(pair, theirs, ours, &who), COP_EREFUSED);
    assert_int_equal(who, 1);
    assert_int_equal(cop__channel_fault(pair->ends[1]), COP__FAULT_KEY);
    part(pair);
    cop__tls_destroy(ours);
    cop__tls_destroy(theirs);
    free(pair);
}

/* Whether somebody at a step of a rotation accepts somebody at another. */
static bool do_accept(const struct cop__keys *client, const struct cop__keys *server)
{
    struct pair *pair = malloc(sizeof *pair);
    int who;
    struct cop__tls *theirs = make_tls(client), *ours = make_tls(server);
    bool is = meet(pair, theirs, ours, &who) == 1;
    part(pair);
    cop__tls_destroy(ours);
    cop__tls_destroy(theirs);
    free(pair);
    return is;
}

/* Neighbours in the rotation accept each other in both directions; so nothing stops. */
static void a_rotation_has_no_gap(void **state)
{
    struct cop__keys steps[4] = {{.step = COP__KEYS_ALONE}};
    (void)state;
    assert_int_equal(cop__key_make(&steps[0].use), 0);
    for (int i = 1; i < 4; i++) {
        steps[i] = steps[i - 1];
        assert_int_equal(cop__keys_rotate(&steps[i]), 0);
        assert_true(do_accept(&steps[i - 1], &steps[i]));
        assert_true(do_accept(&steps[i], &steps[i - 1]));
    }
    assert_false(do_accept(&steps[0], &steps[3]));
    assert_false(do_accept(&steps[3], &steps[0]));
}

/* What a key that is gone has opened is no longer current. */
static void a_former_key_is_not_current(void **state)
{
    struct cop__keys keys = {.step = COP__KEYS_ALONE};
    struct pair *pair = malloc(sizeof *pair);
    int who;
    (void)state;
    assert_int_equal(cop__key_make(&keys.use), 0);
    struct cop__tls *tls = make_tls(&keys);
    assert_int_equal(meet(pair, tls, tls, &who), 1);
    for (int i = 0; i < 3; i++) {
        assert_true(cop__channel_is_current(pair->ends[0]));
        assert_true(cop__channel_is_current(pair->ends[1]));
        assert_int_equal(cop__keys_rotate(&keys), 0);
        write_keys(&keys);
        assert_int_equal(cop__tls_reload(tls, message, sizeof message), 0);
    }
    assert_false(cop__channel_is_current(pair->ends[0]));
    assert_false(cop__channel_is_current(pair->ends[1]));
    /* A file that cannot be read changes nothing. */
    unlink(path);
    assert_int_equal(cop__tls_reload(tls, message, sizeof message), COP_EIO);
    part(pair);
    assert_int_equal(meet(pair, tls, tls, &who), 1);
    part(pair);
    cop__tls_destroy(tls);
    free(pair);
}

/* Who begins while its key is accepted, and waits until it is not, comes too late. */
static void a_handshake_does_not_outlive_its_key(void **state)
{
    struct cop__keys keys = {.step = COP__KEYS_ALONE};
    struct pair *pair = calloc(1, sizeof *pair);
    (void)state;
    assert_int_equal(cop__key_make(&keys.use), 0);
    struct cop__tls *theirs = make_tls(&keys), *ours = make_tls(&keys);
    assert_int_equal(cop__channel_create(theirs, false, &pair->ends[0]), 0);
    assert_int_equal(cop__channel_create(ours, true, &pair->ends[1]), 0);
    struct cop__bytes in = {NULL, 0};
    assert_int_equal(cop__channel_shake(pair->ends[0], &in, &pair->out[0]), 0);
    in = said_by(pair, 0);
    assert_int_equal(cop__channel_shake(pair->ends[1], &in, &pair->out[1]), 0);
    in = said_by(pair, 1);
    assert_int_equal(cop__channel_shake(pair->ends[0], &in, &pair->out[0]), 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(cop__keys_rotate(&keys), 0);
    write_keys(&keys);
    assert_int_equal(cop__tls_reload(ours, message, sizeof message), 0);
    in = said_by(pair, 0);
    assert_int_equal(cop__channel_shake(pair->ends[1], &in, &pair->out[1]),
                     COP_EREFUSED);
    assert_int_equal(cop__channel_fault(pair->ends[1]), COP__FAULT_KEY);
    part(pair);
    cop__tls_destroy(ours);
    cop__tls_destroy(theirs);
    free(pair);
}

/* The room for the first message of a stranger is not for the stranger to say. */
static void an_opening_has_a_limit(void **state)
{
    static const struct {
        uint32_t length;
        int outcome;
    } cases[] = {{1024 - 5, 0}, {1024 - 4, COP_EREFUSED}, {UINT16_MAX, COP_EREFUSED}};
    struct cop__keys keys = {.step = COP__KEYS_ALONE};
    struct cop__outbox *out = calloc(1, sizeof *out);
    (void)state;
    assert_int_equal(cop__key_make(&keys.use), 0);
    struct cop__tls *tls = make_tls(&keys);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t record = cases[i].length, hello = record - 4;
        const uint8_t head[] = {22,
                                3,
                                1,
                                (uint8_t)(record >> 8),
                                (uint8_t)record,
                                1,
                                0,
                                (uint8_t)(hello >> 8),
                                (uint8_t)hello};
        struct cop__bytes in = {head, sizeof head};
        struct cop__channel *channel;
        assert_int_equal(cop__channel_create(tls, true, &channel), 0);
        assert_int_equal(cop__channel_shake(channel, &in, out), cases[i].outcome);
        cop__channel_destroy(channel);
    }
    cop__tls_destroy(tls);
    free(out);
}

static void a_changed_byte_is_found(void **state)
{
    struct cop__keys keys = {.step = COP__KEYS_ALONE};
    struct pair *pair = malloc(sizeof *pair);
    uint8_t plain[COP__RECORD_PLAIN];
    int who;
    (void)state;
    assert_int_equal(cop__key_make(&keys.use), 0);
    struct cop__tls *tls = make_tls(&keys);
    for (uint32_t at = 5; at < 60; at += 9) {
        assert_int_equal(meet(pair, tls, tls, &who), 1);
        assert_int_equal(cop__channel_write(pair->ends[0], plain, 50, &pair->out[0]),
                         0);
        struct cop__bytes in = said_by(pair, 0);
        pair->out[0].bytes[at] ^= 1;
        assert_int_equal(
            cop__channel_read(pair->ends[1], &in, plain, sizeof plain, &pair->out[1]),
            COP_EREFUSED);
        assert_int_equal(cop__channel_fault(pair->ends[1]), COP__FAULT_BROKEN);
        part(pair);
    }
    cop__tls_destroy(tls);
    free(pair);
}

/* ---- purses ---------------------------------------------------------------------- */

static cop__origin origin_of(uint32_t last)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(0x0a000000u + last);
    return cop__origin_of((const struct sockaddr *)&address);
}

static uint32_t faults_until_empty(struct cop__limits *limits, cop__origin origin,
                                   cop_time now)
{
    uint32_t count = 0;
    while (cop__limits_admit(limits, origin, now)) {
        cop__limits_charge(limits, origin, now);
        count++;
    }
    return count;
}

static void a_purse_empties_and_fills(void **state)
{
    struct cop__limits limits = {0};
    cop_time now = 100 * COP_SEC;
    (void)state;
    assert_int_equal(faults_until_empty(&limits, origin_of(1), now), 64);
    assert_true(cop__limits_admit(&limits, origin_of(2), now));
    /* A part of a price buys nothing. */
    assert_int_equal(faults_until_empty(&limits, origin_of(1), now + COP_SEC / 9), 0);
    now += COP_SEC;
    assert_int_equal(faults_until_empty(&limits, origin_of(1), now), 8);
    now += 100 * COP_SEC;
    assert_int_equal(faults_until_empty(&limits, origin_of(1), now), 64);
    /* Where members are it takes sixteen times as many. */
    now += 100 * COP_SEC;
    cop__limits_enter(&limits, origin_of(1), now);
    assert_int_equal(faults_until_empty(&limits, origin_of(1), now), 1024);
    now += 100 * COP_SEC;
    cop__limits_leave(&limits, origin_of(1));
    assert_int_equal(faults_until_empty(&limits, origin_of(1), now), 64);
}

/* Many addresses: those that have offended are not the ones to be forgotten. */
static void offenders_are_remembered(void **state)
{
    struct cop__limits limits = {0};
    cop_time now = 100 * COP_SEC;
    (void)state;
    faults_until_empty(&limits, origin_of(0), now);
    for (uint32_t i = 1; i < 100000; i++)
        cop__limits_admit(&limits, origin_of(i), now);
    assert_false(cop__limits_admit(&limits, origin_of(0), now));
}

static uint32_t admitted(struct cop__limits *limits, cop__origin origin, cop_time now)
{
    uint32_t count = 0;
    while (count < 5000 && cop__limits_admit(limits, origin, now))
        count++;
    return count;
}

/* Before any of them has failed, and however they end: a purse for all, then so many a second. */
static void many_at_once_pay_in_advance(void **state)
{
    struct cop__limits limits = {0};
    cop_time now = 100 * COP_SEC;
    (void)state;
    uint32_t count = admitted(&limits, origin_of(1), now);
    assert_int_equal(count, COP__PURSE_FULL - COP__PRICE_FAULT + 1);
    now += COP_SEC;
    assert_int_equal(admitted(&limits, origin_of(1), now), COP__PURSE_EACH_SEC);
    /* Those that were good for something cost nothing in the end, and no more than that. */
    for (uint32_t i = 0; i < 2 * count; i++)
        cop__limits_refund(&limits, origin_of(1), now);
    assert_int_equal(admitted(&limits, origin_of(1), now), count);
}

/* ---- over sockets ---------------------------------------------------------------- */

static bool both_have_all(void *context)
{
    struct world *world = context;
    return side_has_all(&world->sides[0], &world->sides[1]) &&
           side_has_all(&world->sides[1], &world->sides[0]);
}

static void a_member_with_another_key_is_refused(void **state)
{
    (void)state;
    struct world *world = world_create(WORLD_TLS);
    /* Much longer than a handshake takes: an answer that is late is silence. */
    world->connect_timeout_ns = COP_SEC;
    struct side *b = world_open(world, 1, 4);
    world->tls = world_make_tls(world, "other");
    struct side *a = world_open(world, 0, 3);
    assert_int_equal(cop__peers_keep(a->peers, 1), 0);
    world_until_count(world, &a->downs[1][COP_DOWN_REFUSED], 1);
    assert_true(b->stats.refused_unproven >= 1);
    assert_int_equal(b->ups[0], 0);
    assert_int_equal(a->ups[1], 0);
    /* However often: one line each. */
    assert_int_equal(b->lines, 1);
    assert_non_null(strstr(b->line, "it does not have our key"));
    assert_int_equal(a->lines, 1);
    assert_non_null(strstr(a->line, "whoever listens for member 1 is not accepted"));
    world_close(a);
    cop__tls_destroy(world->tls);
    world_destroy(world);
}

static void clear_and_encrypted_do_not_mix(void **state)
{
    (void)state;
    for (cop_id clear = 0; clear < 2; clear++) {
        struct world *world = world_create(WORLD_TLS);
        struct cop__tls *tls = world->tls;
        world->connect_timeout_ns = 50 * COP_MSEC;
        world->tls = clear == 0 ? NULL : tls;
        struct side *a = world_open(world, 0, 3);
        world->tls = clear == 1 ? NULL : tls;
        struct side *b = world_open(world, 1, 4);
        assert_int_equal(cop__peers_keep(a->peers, 1), 0);
        while (side_downs(a, 1) == 0)
            uv_run(&world->loop, UV_RUN_ONCE);
        assert_int_equal(a->ups[1] + b->ups[0], 0);
        world_destroy(world);
    }
}

/* Who has a key that is gone is made to prove itself again; nothing is lost by it. */
static void a_rotation_loses_nothing(void **state)
{
    struct cop__keys keys = {.step = COP__KEYS_ALONE};
    (void)state;
    struct world *world = world_create(AF_INET);
    assert_int_equal(cop__key_make(&keys.use), 0);
    struct cop__tls *tls = world->tls = make_tls(&keys);
    struct side *a = world_open(world, 0, 3), *b = world_open(world, 1, 4);
    assert_int_equal(cop__peers_keep(a->peers, 1), 0);
    side_send(a, 1, COP__KIND_NEWS, 10, 100);
    world_until(world, both_have_all, world);
    for (int i = 0; i < 6; i++) {
        side_send(a, 1, COP__KIND_NEWS, 10, 100);
        side_send(b, 0, COP__KIND_DATA, 3, 40000);
        assert_int_equal(cop__keys_rotate(&keys), 0);
        write_keys(&keys);
        assert_int_equal(cop__tls_reload(tls, message, sizeof message), 0);
        cop__peers_renew(a->peers);
        cop__peers_renew(b->peers);
        world_until(world, both_have_all, world);
    }
    world_until_count(world, &a->ups[1], 3);
    assert_int_equal(side_downs(a, 1) + side_downs(b, 0), 0);
    world_destroy(world);
    cop__tls_destroy(tls);
}

static bool first_has_three(void *context)
{
    const struct world *world = context;
    const struct side *a = &world->sides[0];
    return a->ups[1] > 0 && a->ups[2] > 0 && a->ups[3] > 0;
}

static void cut_the_next(struct side *side, cop_id peer)
{
    if (side->id == 0 && peer == 1)
        cop__peers_cut(side->peers, 2);
}

/* Making one connection anew may end another: the rest still is not left with a key that is
 * no longer accepted. */
static void a_rotation_leaves_nobody_out(void **state)
{
    struct cop__keys keys = {.step = COP__KEYS_ALONE};
    (void)state;
    struct world *world = world_create(AF_INET);
    assert_int_equal(cop__key_make(&keys.use), 0);
    struct cop__tls *tls = world->tls = make_tls(&keys);
    struct side *a = world_open(world, 0, 3);
    for (cop_id id = 1; id < WORLD_SIDES; id++) {
        world_open(world, id, 4);
        assert_int_equal(cop__peers_keep(a->peers, id), 0);
    }
    world_until(world, first_has_three, world);
    for (int i = 0; i < 3; i++)
        assert_int_equal(cop__keys_rotate(&keys), 0);
    write_keys(&keys);
    assert_int_equal(cop__tls_reload(tls, message, sizeof message), 0);
    world->addresses[1].length = 0; /* it cannot be called again, and is down at once */
    world->on_down = cut_the_next;
    cop__peers_renew(a->peers);
    assert_int_equal(side_downs(a, 1), 1);
    assert_int_equal(side_downs(a, 2), 1);
    for (struct cop__conn *conn = a->peers->first; conn; conn = conn->next)
        assert_true(cop__stream_is_current(&conn->stream));
    world_destroy(world);
    cop__tls_destroy(tls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(three_steps_change_a_key),
        cmocka_unit_test(a_file_for_others_is_refused),
        cmocka_unit_test(the_same_key_is_accepted),
        cmocka_unit_test(another_key_is_not),
        cmocka_unit_test(the_name_of_a_key_is_no_key),
        cmocka_unit_test(a_rotation_has_no_gap),
        cmocka_unit_test(a_former_key_is_not_current),
        cmocka_unit_test(a_handshake_does_not_outlive_its_key),
        cmocka_unit_test(an_opening_has_a_limit),
        cmocka_unit_test(a_changed_byte_is_found),
        cmocka_unit_test(a_purse_empties_and_fills),
        cmocka_unit_test(offenders_are_remembered),
        cmocka_unit_test(many_at_once_pay_in_advance),
        cmocka_unit_test(a_member_with_another_key_is_refused),
        cmocka_unit_test(clear_and_encrypted_do_not_mix),
        cmocka_unit_test(a_rotation_loses_nothing),
        cmocka_unit_test(a_rotation_leaves_nobody_out),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
