/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes on a network of packets, all in one process: the network is a heap of packets that
 * are handed over in any order. Some processes are dead: what goes to them is lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <coppice/stats.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "failing_alloc.h"
#include "net/packet/host.h"
#include "net/packet/pair.h"
#include "net/packet/start.h"

#define MOST 9u
#define HEAP 4096u
#define LIMIT 200u
#define AT_ONCE 4u
#define READS 64u
#define LETTERS 6u

struct flying {
    cop_id from, to;
    size_t length;
    uint8_t bytes[LIMIT];
};

/* A payload that one reads in the memory of another. */
struct reading {
    cop_id at, from;
    uint32_t number;
    uint64_t address;
    struct cop_buf *payload;
};

struct place {
    struct world *world;
    cop_id id;
    struct cop__host *host;
    struct flying making;
    uint32_t views, completions;
    int status;
    uint64_t value;
    uint32_t failed;
    uint32_t exposed, letters[MOST]; /* letters by sender */
};

struct world {
    struct place places[MOST];
    uint32_t n;
    bool dead[MOST], refuses[MOST];
    bool is_full;
    uint32_t fetch_least;
    bool exposes_nothing, reads_fail;
    uint32_t exposes_most; /* payloads of one process at a time; 0: any number */
    uint64_t queue_max;
    struct reading readings[READS];
    uint32_t reading_count;
    struct flying *heap;
    uint32_t count;
    struct cop_view *view;
    struct cop_stats stats;
    struct cop__random random;
};

static int on_room(void *context, cop_id peer, uint8_t **out)
{
    struct place *place = context;
    if (place->world->is_full || place->world->count == HEAP)
        return COP_EAGAIN;
    place->making.from = place->id;
    place->making.to = peer;
    *out = place->making.bytes;
    return 0;
}

static int on_send(void *context, cop_id peer, uint8_t *packet, size_t length)
{
    struct place *place = context;
    struct world *world = place->world;
    assert_ptr_equal(packet, place->making.bytes);
    assert_true(length <= LIMIT);
    place->making.length = length;
    if (world->refuses[peer])
        return COP_ELOST;
    if (!world->dead[peer])
        world->heap[world->count++] = place->making;
    return 0;
}

static int on_expose(void *context, struct cop_buf *payload, struct cop__remote *out,
                     void **region)
{
    struct place *place = context;
    uint32_t most = place->world->exposes_most;
    if (place->world->exposes_nothing || (most > 0 && place->exposed >= most))
        return COP_EIO;
    place->exposed++;
    *out = (struct cop__remote){(uintptr_t)payload->data, 7};
    *region = place;
    return 0;
}

static void on_conceal(void *context, void *region)
{
    struct place *place = context;
    assert_ptr_equal(region, place);
    assert_true(place->exposed-- > 0);
}

static int on_fetch(void *context, cop_id peer, uint32_t number,
                    const struct cop__remote *from, struct cop_buf *payload)
{
    struct place *place = context;
    struct world *world = place->world;
    assert_int_equal(from->key, 7);
    if (world->reading_count == READS)
        return COP_EAGAIN;
    cop_buf_ref(payload);
    world->readings[world->reading_count++] =
        (struct reading){place->id, peer, number, from->address, payload};
    return 0;
}

/* What is read is never what its owner has taken back, unless that has removed the reader. */
static void end_reading(struct world *world, uint32_t which)
{
    struct reading reading = world->readings[which];
    int error = world->reads_fail || world->dead[reading.from] ? COP_EIO : 0;
    world->readings[which] = world->readings[--world->reading_count];
    if (error == 0 && !world->dead[reading.at])
        memcpy(reading.payload->data, (const void *)(uintptr_t)reading.address,
               reading.payload->length);
    if (!world->dead[reading.at])
        cop__host_fetched(world->places[reading.at].host, reading.from, reading.number,
                          error);
    cop_buf_unref(reading.payload);
}

static void on_letter(struct place *place, const struct cop_effect *effect)
{
    const struct cop_buf *letter = effect->result;
    uint32_t number = place->letters[effect->peer]++;
    assert_int_equal(letter->length, 300 * (number + 1));
    for (uint32_t i = 0; i < letter->length; i++)
        assert_int_equal(letter->data[i], (uint8_t)(effect->peer + number + i));
}

static void on_effect(void *context, const struct cop_effect *effect)
{
    struct place *place = context;
    struct cop_agreed agreed;
    if (effect->kind == COP_EFFECT_DELIVER)
        on_letter(place, effect);
    place->views += effect->kind == COP_EFFECT_VIEW;
    if (effect->kind != COP_EFFECT_COMPLETE)
        return;
    place->completions++;
    place->status = effect->status;
    if (effect->status == 0 && effect->result &&
        cop_agreed(effect->result, &agreed) == 0) {
        place->value = cop_agreed_word(&agreed, 0);
        place->failed = agreed.failed.count;
        cop_agreed_free(&agreed);
    }
}

static int add(struct world *world, cop_id id, cop_time hello)
{
    struct place *place = &world->places[id];
    struct cop__host_config config = {
        .node = {.self = id,
                 .incarnation = 1,
                 .view = world->view,
                 .stats = &world->stats,
                 .quorum = COP_QUORUM_NONE},
        .packet_bytes = LIMIT,
        .carrier = {.room = on_room,
                    .send = on_send,
                    .fetch_least = world->fetch_least,
                    .expose = on_expose,
                    .conceal = on_conceal,
                    .fetch = on_fetch},
        .carrier_context = place,
        .effect = on_effect,
        .context = place,
        .hello_timeout_ns = hello,
        .queue_max = world->queue_max,
    };
    *place = (struct place){.world = world, .id = id};
    return cop__host_create(&config, &place->host);
}

static void open_reading_world(struct world *world, uint32_t n, cop_time hello,
                               uint32_t fetch_least)
{
    struct cop_shape shape;
    memset(world, 0, sizeof *world);
    world->n = n;
    world->fetch_least = fetch_least;
    world->heap = calloc(HEAP, sizeof *world->heap);
    cop__random_init(&world->random, n);
    assert_int_equal(cop_shape_parse("knomial:2", &shape, NULL, 0), 0);
    assert_int_equal(cop_view_create_static(n, &shape, 1, &world->view), 0);
    for (cop_id id = 0; id < n; id++)
        assert_int_equal(add(world, id, hello), 0);
}

static void open_world(struct world *world, uint32_t n, cop_time hello)
{
    open_reading_world(world, n, hello, 0);
}

static void close_world(struct world *world)
{
    for (cop_id id = 0; id < world->n; id++) {
        cop__host_destroy(world->places[id].host);
        assert_int_equal(world->places[id].exposed, 0);
    }
    while (world->reading_count > 0)
        cop_buf_unref(world->readings[--world->reading_count].payload);
    cop_view_unref(world->view);
    free(world->heap);
}

static void settle_all(struct world *world)
{
    for (cop_id id = 0; id < world->n; id++)
        if (!world->dead[id])
            assert_true(cop__host_settle(world->places[id].host) >= 0);
}

/* One packet, any, arrives; everybody does what is to be done. */
static void turn(struct world *world)
{
    if (world->count > 0) {
        uint32_t which = (uint32_t)cop__random_below(&world->random, world->count);
        struct flying flying = world->heap[which];
        world->heap[which] = world->heap[--world->count];
        if (!world->dead[flying.to])
            cop__host_arrived(world->places[flying.to].host, flying.from, flying.bytes,
                              flying.length);
    }
    if (world->reading_count > 0 && cop__random_below(&world->random, 3) == 0)
        end_reading(world,
                    (uint32_t)cop__random_below(&world->random, world->reading_count));
    settle_all(world);
}

static void submit_all(struct world *world, const struct cop_request *request)
{
    for (cop_id id = 0; id < world->n; id++) {
        uint64_t mine = id + 1;
        struct cop_request own = *request;
        own.bytes = request->length ? &mine : NULL;
        if (!world->dead[id])
            assert_int_equal(cop__host_submit(world->places[id].host, &own), 0);
    }
}

static void run_until(struct world *world, uint32_t completions)
{
    for (cop_id id = 0; id < world->n; id++)
        while (!world->dead[id] && world->places[id].completions < completions)
            turn(world);
}

static void make_group(struct world *world)
{
    struct cop_agree_group group = {.number = 7, .window = AT_ONCE};
    struct cop_request request = {
        .kind = COP_REQUEST_AGREE_GROUP, .token = 1, .new_group = &group};
    submit_all(world, &request);
    run_until(world, 1);
}

static void submit_agreement(struct world *world, uint32_t completions)
{
    struct cop_request request = {.kind = COP_REQUEST_AGREE,
                                  .token = completions,
                                  .group = 7,
                                  .op = COP_AGREE_SUM,
                                  .length = 8,
                                  .timeout_ns = 3600 * COP_SEC};
    submit_all(world, &request);
}

static void agree(struct world *world, uint32_t completions)
{
    submit_agreement(world, completions);
    run_until(world, completions);
}

static void expect(const struct world *world, uint64_t sum, uint32_t failed)
{
    for (cop_id id = 0; id < world->n; id++) {
        if (world->dead[id])
            continue;
        assert_int_equal(world->places[id].status, 0);
        assert_int_equal(world->places[id].value, sum);
        assert_int_equal(world->places[id].failed, failed);
        assert_null(cop_node_check(cop__host_node(world->places[id].host)));
    }
}

static void agreements(void **state)
{
    struct world world;
    size_t live = failing_alloc_live();
    (void)state;
    open_world(&world, MOST, 0);
    make_group(&world);
    for (uint32_t i = 2; i < 50; i += AT_ONCE) {
        for (uint32_t j = 0; j < AT_ONCE; j++)
            submit_agreement(&world, i + j);
        run_until(&world, i + AT_ONCE - 1);
        expect(&world, MOST * (MOST + 1) / 2, 0);
    }
    uint64_t early = 0;
    for (cop_id id = 0; id < world.n; id++)
        early += cop__host_stats(world.places[id].host)->early;
    assert_true(early > 0); /* or the heap is no heap */
    close_world(&world);
    assert_int_equal(failing_alloc_live(), live);
}

/* Nobody hears of a death from the network; it is reported. */
static void reported_death(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, MOST, 0);
    make_group(&world);
    agree(&world, 2);
    world.dead[0] = true;
    struct cop_request report = {.kind = COP_REQUEST_REPORT, .token = 9, .member = 0};
    submit_all(&world, &report);
    run_until(&world, 3);
    while (world.places[8].views == 0)
        turn(&world);
    for (cop_id id = 1; id < world.n; id++)
        world.places[id].completions = 0;
    agree(&world, 1);
    expect(&world, MOST * (MOST + 1) / 2 - 1, 1);
    close_world(&world);
}

/* One that does not answer is silent: the node is told, and tries again; nobody is accused. */
static void silent(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, 2, 1);
    world.dead[1] = true;
    struct cop_request inquire = {
        .kind = COP_REQUEST_INQUIRE, .token = 3, .member = 1, .timeout_ns = COP_MSEC};
    assert_int_equal(cop__host_submit(world.places[0].host, &inquire), 0);
    while (world.places[0].completions == 0)
        turn(&world);
    assert_int_equal(world.places[0].status, COP_ETIMEDOUT);
    close_world(&world);
}

/* The carrier has no room for a while: nothing is lost. */
static void no_room(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, 5, 0);
    make_group(&world);
    world.is_full = true;
    submit_agreement(&world, 2);
    for (int i = 0; i < 100; i++)
        turn(&world);
    assert_true(cop__host_is_owing(world.places[4].host));
    assert_int_equal(world.places[4].completions, 1);
    world.is_full = false;
    run_until(&world, 2);
    expect(&world, 15, 0);
    close_world(&world);
}

/* The network cannot send to one: it is not spoken to again, and the others go on. */
static void refused(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, 4, 0);
    make_group(&world);
    world.refuses[3] = world.dead[3] = true;
    struct cop_request report = {.kind = COP_REQUEST_REPORT, .token = 9, .member = 3};
    assert_int_equal(cop__host_submit(world.places[0].host, &report), 0);
    agree(&world, 2);
    while (world.places[1].views == 0)
        turn(&world);
    run_until(&world, 2);
    close_world(&world);
}

static void write_letter(struct world *world, cop_id from, cop_id to, uint32_t number)
{
    uint8_t bytes[300 * LETTERS];
    uint32_t length = 300 * (number + 1);
    struct cop_request letter = {.kind = COP_REQUEST_SEND,
                                 .token = 100 * to + number,
                                 .member = to,
                                 .bytes = bytes,
                                 .length = length,
                                 .timeout_ns = 3600 * COP_SEC};
    for (uint32_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(from + number + i);
    assert_int_equal(cop__host_submit(world->places[from].host, &letter), 0);
}

static void write_letters(struct world *world)
{
    for (uint32_t number = 0; number < LETTERS; number++)
        for (cop_id from = 0; from < world->n; from++)
            for (cop_id to = 0; to < world->n; to++)
                if (from != to && !world->dead[from])
                    write_letter(world, from, to, number);
}

static bool has_letters(const struct world *world, cop_id id)
{
    for (cop_id from = 0; from < world->n; from++)
        if (from != id && !world->dead[from] &&
            world->places[id].letters[from] < LETTERS)
            return false;
    return true;
}

/* Some letters are sent and some are read where they lie: they come in their order. */
static void large_frames(void **state)
{
    struct world world;
    size_t live = failing_alloc_live();
    (void)state;
    for (uint32_t least = 0; least < 1400; least += 600) {
        uint64_t offered = 0;
        open_reading_world(&world, 4, 0, least);
        world.exposes_nothing = least == 600;
        write_letters(&world);
        for (cop_id id = 0; id < world.n; id++)
            while (!has_letters(&world, id))
                turn(&world);
        for (cop_id id = 0; id < world.n; id++) {
            const struct cop__host_stats *stats =
                cop__host_stats(world.places[id].host);
            offered += stats->offered;
            assert_int_equal(stats->fetched, least == 1200 ? 3 * 3 : 0);
            while (cop__host_is_owing(world.places[id].host))
                turn(&world);
            assert_int_equal(world.places[id].exposed, 0);
        }
        assert_int_equal(offered, least == 1200 ? 4 * 3 * 3 : 0);
        close_world(&world);
    }
    assert_int_equal(failing_alloc_live(), live);
}

/* The network has room for few payloads at a time: the others are sent, in their order. */
static void few_exposed(void **state)
{
    struct world world;
    size_t live = failing_alloc_live();
    (void)state;
    for (uint32_t most = 1; most < 4; most++) {
        uint64_t offered = 0;
        open_reading_world(&world, 4, 0, 600);
        world.exposes_most = most;
        write_letters(&world);
        for (cop_id id = 0; id < world.n; id++)
            while (!has_letters(&world, id) ||
                   cop__host_is_owing(world.places[id].host))
                turn(&world);
        for (cop_id id = 0; id < world.n; id++)
            offered += cop__host_stats(world.places[id].host)->offered;
        assert_true(offered > 0 && offered < 4 * 3 * (LETTERS - 1));
        close_world(&world);
    }
    assert_int_equal(failing_alloc_live(), live);
}

/* What cannot be read cuts off whose it is; what nobody reads any more is taken back. */
static void reads_that_fail(void **state)
{
    struct world world;
    size_t live = failing_alloc_live();
    (void)state;
    open_reading_world(&world, 3, 0, 600);
    world.reads_fail = true;
    write_letters(&world);
    for (int i = 0; i < 2000; i++)
        turn(&world);
    assert_int_equal(world.places[1].letters[2], 1);
    assert_int_equal(world.reading_count, 0);
    close_world(&world);

    open_reading_world(&world, 4, 0, 600);
    make_group(&world);
    write_letters(&world);
    while (world.places[0].exposed < 12)
        turn(&world);
    world.dead[3] = true;
    struct cop_request report = {.kind = COP_REQUEST_REPORT, .token = 9, .member = 3};
    assert_int_equal(cop__host_submit(world.places[0].host, &report), 0);
    for (cop_id id = 0; id < 3; id++)
        while (!has_letters(&world, id) || world.places[id].views == 0 ||
               world.places[id].exposed > 0)
            turn(&world);
    close_world(&world);
    assert_int_equal(failing_alloc_live(), live);
}

static void bytes_of_nobody(void **state)
{
    struct world world;
    uint8_t garbage[LIMIT] = {1, 0, 0, 0};
    (void)state;
    open_world(&world, 2, 0);
    cop__host_arrived(world.places[0].host, 7, garbage, LIMIT);
    cop__host_arrived(world.places[0].host, 1, garbage, 3);
    cop__host_arrived(world.places[0].host, 1, garbage, LIMIT);
    assert_int_equal(cop__host_stats(world.places[0].host)->malformed, 2);
    /* What is behind it cannot be read either. */
    cop__host_arrived(world.places[0].host, 1, garbage, LIMIT);
    assert_int_equal(cop__host_stats(world.places[0].host)->received, 2);
    close_world(&world);
}

/* One that talks nonsense gets nothing any more: what waits for it, and what it may read, is
 * given back, and the node need not wait until there is less of it. */
static void nonsense(void **state)
{
    struct world world;
    uint8_t garbage[LIMIT] = {1, 0, 0, 0};
    (void)state;
    open_reading_world(&world, 2, 0, 600);
    write_letters(&world);
    assert_true(world.places[0].exposed > 0);
    assert_true(cop__host_is_owing(world.places[0].host));
    cop__host_arrived(world.places[0].host, 1, garbage, LIMIT);
    assert_int_equal(world.places[0].exposed, 0);
    assert_true(cop__host_settle(world.places[0].host) >= 0);
    assert_false(cop__host_is_owing(world.places[0].host));
    close_world(&world);
}

/* More waits for one than may: it is given up. Were only what is too much left out, it would
 * miss a frame in the middle, and nobody would know. */
static void overrun(void **state)
{
    struct world world;
    (void)state;
    memset(&world, 0, sizeof world);
    open_world(&world, 2, 0);
    cop__host_destroy(world.places[0].host);
    world.queue_max = 2000;
    assert_int_equal(add(&world, 0, 0), 0);
    world.is_full = true;
    for (uint32_t number = 0; number < LETTERS; number++)
        write_letter(&world, 0, 1, number);
    world.is_full = false;
    assert_true(cop__host_settle(world.places[0].host) >= 0);
    assert_false(cop__host_is_owing(world.places[0].host));
    assert_int_equal(cop__host_stats(world.places[0].host)->sent, 0);
    for (int i = 0; i < 100; i++)
        turn(&world);
    assert_int_equal(world.places[1].letters[0], 0);
    close_world(&world);
}

/* Who would wait for ever does not wait for nothing. */
static void ever(void **state)
{
    (void)state;
    cop_time now = cop__host_now();
    assert_true(cop__until(COP_TIME_NEVER) == COP_TIME_NEVER);
    assert_true(cop__until(COP_TIME_NEVER - 1) == COP_TIME_NEVER);
    assert_true(cop__until(COP_SEC) >= now + COP_SEC);
    assert_true(cop__until(COP_SEC) < now + 3600 * COP_SEC);
}

static void no_memory(void **state)
{
    struct world world;
    size_t live = failing_alloc_live();
    (void)state;
    for (size_t n = 0;; n++) {
        open_world(&world, 2, 0);
        cop__host_destroy(world.places[0].host);
        world.places[0].host = NULL;
        failing_alloc_after(n);
        int error = add(&world, 0, 0);
        for (int i = 0; error == 0 && i < 4; i++) {
            error = cop__host_settle(world.places[0].host);
            error = error < 0 ? error : 0;
        }
        failing_alloc_off();
        close_world(&world);
        assert_int_equal(failing_alloc_live(), live);
        if (!failing_alloc_hit())
            break;
        assert_int_equal(error, COP_ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agreements),      cmocka_unit_test(reported_death),
        cmocka_unit_test(silent),          cmocka_unit_test(no_room),
        cmocka_unit_test(refused),         cmocka_unit_test(large_frames),
        cmocka_unit_test(reads_that_fail), cmocka_unit_test(bytes_of_nobody),
        cmocka_unit_test(few_exposed),     cmocka_unit_test(nonsense),
        cmocka_unit_test(overrun),         cmocka_unit_test(ever),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
