/* SPDX-License-Identifier: Apache-2.0 */
/* Bulk of calls by callbacks: coppice/service.h, on the program's own loop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "hall.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BULK 50u
#define CHUNK 1000u
#define LENGTH 40321u /* the last piece is shorter */
#define MEMBERS 4u

enum where { NOWHERE, MEMORY, FILE_, CALLBACK };

/* One member of the service BULK: what it does, and what came. */
struct shelf {
    struct depot *depot;
    cop_id self;
    enum where where;
    uint8_t bytes[LENGTH];
    FILE *file;
    uint64_t later_from; /* pieces from here on are put away later */
    uint32_t later;      /* so many are not yet */
    bool says_twice; /* of the first piece: in its callback, and by what that returns */
    uint64_t fails_at; /* 0: never */
    uint64_t stops_at; /* 0: never */
    int to_status;     /* what cop_bulk_to_... said */
    size_t room;       /* of the memory that is given */
    uint64_t task, have, said;
    char trace[16]; /* c, r, d, s; pieces are not in it */
    int bulk_status;
    int replied;
};

struct depot {
    struct hall *hall;
    struct shelf shelves[MEMBERS];
    uint8_t bytes[LENGTH];
    uint64_t given, cannot_from; /* `give`: so much was asked for; 0: it always can */
};

static struct depot depot;

/* ---- the service ----------------------------------------------------------------- */

static void note(struct shelf *shelf, char what)
{
    size_t length = strlen(shelf->trace);
    assert_true(length + 1 < sizeof shelf->trace);
    shelf->trace[length] = what;
}

static int on_check(void *context, struct cop_run *run, struct cop_task *task)
{
    struct shelf *shelf = context;
    note(shelf, 'c');
    shelf->task = task->number;
    assert_int_equal(task->bulk_length, LENGTH);
    if (shelf->where == MEMORY)
        shelf->to_status =
            cop_bulk_to_memory(run, task->number, shelf->bytes, shelf->room);
    else if (shelf->where == FILE_)
        shelf->to_status = cop_bulk_to_file(run, task->number, fileno(shelf->file), 7);
    return 0;
}

static int on_piece(void *context, struct cop_run *run, struct cop_task *task,
                    const struct cop_piece *piece)
{
    struct shelf *shelf = context;
    assert_true(shelf->where != MEMORY || shelf->self == 0);
    if (piece->offset == 0)
        shelf->have = 0; /* of a call before */
    assert_int_equal(piece->offset, shelf->have);
    assert_int_equal(task->length, 2);
    assert_memory_equal(task->bytes, "hi", 2);
    memcpy(shelf->bytes + piece->offset, piece->bytes, piece->length);
    shelf->have += piece->length;
    shelf->task = task->number;
    if (shelf->says_twice && piece->offset == 0) {
        assert_int_equal(cop_piece_done(run, task->number, 0), 0);
        return 0;
    }
    if (shelf->stops_at > 0 && shelf->have >= shelf->stops_at)
        assert_int_equal(cop_stop(run), 0);
    if (shelf->fails_at > 0 && shelf->have >= shelf->fails_at)
        return COP_EIO;
    if (shelf->later_from > 0 && shelf->have >= shelf->later_from) {
        shelf->later++;
        assert_true(shelf->later <= COP_BULK_WINDOW);
        return COP_LATER;
    }
    return 0;
}

static int on_run(void *context, struct cop_run *run, struct cop_task *task)
{
    struct shelf *shelf = context;
    note(shelf, 'r');
    shelf->bulk_status = task->bulk_status;
    if (shelf->where == FILE_ && task->bulk_status == 0)
        assert_int_equal(pread(fileno(shelf->file), shelf->bytes, LENGTH, 7), LENGTH);
    assert_memory_equal(task->bytes, "hi", 2);
    /* With HEAL one may always reply here, but for the library's having done so. */
    if (task->flags & COP_BCAST_HEAL)
        shelf->replied = cop_reply(run, task->number, 0, NULL, 0);
    return 0;
}

static void on_done(void *context, struct cop_run *run, struct cop_task *task)
{
    (void)run;
    (void)task;
    note(context, 'd');
}

static void on_sent(void *context, struct cop_run *run, struct cop_task *task)
{
    (void)run;
    (void)task;
    note(context, 's');
}

/* ---- the members ----------------------------------------------------------------- */

static void serve(struct cop_run *run, struct shelf *shelf, uint32_t version,
                  int (*on)(void *, struct cop_run *, struct cop_task *))
{
    struct cop_handlers handlers = {.size = sizeof handlers,
                                    .service = BULK,
                                    .version = version,
                                    .context = shelf,
                                    .check = on_check,
                                    .piece = on_piece,
                                    .run = on,
                                    .done = on_done,
                                    .sent = on_sent};
    assert_int_equal(cop_service_register(run, &handlers), 0);
}

static void open_depot(struct hall *hall, const char *shape, enum where where)
{
    memset(&depot, 0, sizeof depot);
    depot.hall = hall;
    hall_open(hall, MEMBERS, shape);
    for (uint32_t i = 0; i < LENGTH; i++)
        depot.bytes[i] = (uint8_t)(i * 31 + i / 251);
    for (cop_id i = 0; i < MEMBERS; i++) {
        struct shelf *shelf = &depot.shelves[i];
        *shelf =
            (struct shelf){.depot = &depot, .self = i, .where = where, .room = LENGTH};
        shelf->file = where == FILE_ ? tmpfile() : NULL;
        assert_true(where != FILE_ || shelf->file);
        serve(hall_run(hall, i), shelf, 0, on_run);
    }
}

/* The same member, with another version or another `run`. */
static void serve_anew(struct hall *hall, cop_id id, uint32_t version,
                       int (*run)(void *, struct cop_run *, struct cop_task *))
{
    assert_int_equal(cop_service_unregister(hall_run(hall, id), BULK), 0);
    serve(hall_run(hall, id), &depot.shelves[id], version, run);
}

static int tear_down(void **state)
{
    int error = hall_tear_down(state);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        const char *trace = depot.shelves[i].trace;
        /* Who was told to run it was told that it is over, whatever happened. */
        assert_true(!strchr(trace, 'r') || strchr(trace, 'd'));
        if (depot.shelves[i].file)
            fclose(depot.shelves[i].file);
        depot.shelves[i].file = NULL;
    }
    return error;
}

static struct cop_bulk memory(void)
{
    return (struct cop_bulk){.length = LENGTH, .bytes = depot.bytes, .chunk = CHUNK};
}

static struct cop_call call_with(const struct cop_bulk *bulk)
{
    return (struct cop_call){.service = BULK,
                             .bytes = "hi",
                             .length = 2,
                             .bulk = bulk,
                             .timeout_ns = 100 * COP_SEC,
                             .service_ns = 100 * COP_SEC};
}

static void expect_whole(cop_id i)
{
    const struct shelf *shelf = &depot.shelves[i];
    assert_int_equal(shelf->bulk_status, 0);
    assert_memory_equal(shelf->bytes, depot.bytes, LENGTH);
    assert_string_equal(shelf->trace, i == 0 ? "rd" : "crds");
    assert_int_equal(shelf->replied, 0);
}

static bool all_is_over(struct hall *hall)
{
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (hall->runs->players[i].run != NULL && i > 0 &&
            cop_state(hall->runs->players[i].run) == COP_RUN_MEMBER &&
            !strchr(depot.shelves[i].trace, 's'))
            return false;
    return true;
}

/* ---- tests ----------------------------------------------------------------------- */

static void from_memory_into_memory(void **state)
{
    struct cop_bulk bulk = memory();
    struct cop_call call = call_with(&bulk);
    open_depot(*state, "chain", MEMORY);
    depot.shelves[0].where = CALLBACK; /* the root is not asked where */
    assert_int_equal(hall_rpc(*state, 0, &call), 0);
    assert_int_equal(depot.hall->ended.result.answered, MEMBERS);
    hall_until(*state, all_is_over);
    for (cop_id i = 0; i < MEMBERS; i++) {
        assert_int_equal(depot.shelves[i].to_status, 0);
        expect_whole(i);
    }
    assert_int_equal(depot.shelves[0].have, LENGTH);
    assert_int_equal(depot.shelves[1].have, 0);
}

static void from_a_file_into_files(void **state)
{
    struct cop_bulk bulk = {.length = LENGTH, .offset = 3, .chunk = CHUNK};
    struct cop_call call = call_with(&bulk);
    FILE *file = tmpfile();
    open_depot(*state, "kary:2", FILE_);
    depot.shelves[0].where = CALLBACK;
    assert_non_null(file);
    assert_int_equal(pwrite(fileno(file), depot.bytes, LENGTH, 3), LENGTH);
    bulk.fd = fileno(file);
    struct cop_run *run = hall_run(*state, 0);
    assert_int_equal(cop_rpc(run, &call, hall_done, *state), 0);
    fclose(file); /* the call has a descriptor of its own */
    hall_until_ended(*state);
    hall_until(*state, all_is_over);
    assert_int_equal(depot.hall->ended.result.answered, MEMBERS);
    for (cop_id i = 0; i < MEMBERS; i++)
        expect_whole(i);
}

static int on_give(void *context, uint64_t offset, void *to, uint32_t length)
{
    struct depot *from = context;
    if (from->cannot_from > 0 && offset >= from->cannot_from)
        return COP_EIO;
    memcpy(to, from->bytes + offset, length);
    from->given = offset + length;
    return 0;
}

static bool put_away(struct hall *hall)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct shelf *shelf = &depot.shelves[i];
        if (shelf->later == 0)
            continue;
        shelf->later--;
        shelf->said++;
        assert_int_equal(cop_piece_done(hall_run(hall, i), shelf->task, 0), 0);
    }
    return hall->ended.count > 0 && all_is_over(hall);
}

static void by_callbacks_that_take_their_time(void **state)
{
    struct cop_bulk bulk = {
        .length = LENGTH, .give = on_give, .context = &depot, .chunk = CHUNK};
    struct cop_call call = call_with(&bulk);
    open_depot(*state, "chain", CALLBACK);
    depot.shelves[0].later_from = depot.shelves[2].later_from = 5 * CHUNK;
    assert_int_equal(cop_rpc(hall_run(*state, 0), &call, hall_done, *state), 0);
    hall_until(*state, put_away);
    for (cop_id i = 0; i < MEMBERS; i++)
        expect_whole(i);
    assert_int_equal(depot.shelves[2].said, LENGTH / CHUNK + 1 - 4);
    assert_int_equal(cop_piece_done(hall_run(*state, 2), depot.shelves[2].task, 0),
                     COP_ENOENT);
}

static bool the_third_holds_all_else(struct hall *hall)
{
    (void)hall;
    return depot.shelves[2].have == LENGTH;
}

/* That counts once: not for a piece that comes later. */
static void one_says_so_twice(void **state)
{
    struct cop_bulk bulk = memory();
    struct cop_call call = call_with(&bulk);
    bulk.chunk = LENGTH / 3;
    open_depot(*state, "chain", CALLBACK);
    depot.shelves[2].says_twice = true;
    depot.shelves[2].later_from = 1;
    assert_int_equal(cop_rpc(hall_run(*state, 0), &call, hall_done, *state), 0);
    hall_until(*state, the_third_holds_all_else);
    for (uint32_t left = depot.shelves[2].later; left > 0; left--) {
        for (int i = 0; i < 50; i++)
            for (cop_id id = 0; id < MEMBERS; id++)
                cop_poll(hall_run(*state, id), 0);
        assert_string_equal(depot.shelves[2].trace, "c");
        assert_int_equal(cop_piece_done(hall_run(*state, 2), depot.shelves[2].task, 0),
                         0);
    }
    hall_until_ended(*state);
    hall_until(*state, all_is_over);
    for (cop_id i = 0; i < MEMBERS; i++)
        expect_whole(i);
}

static bool the_last_has_some(struct hall *hall)
{
    (void)hall;
    return depot.shelves[3].later > 0;
}

static void window_is_full(void **state)
{
    struct cop_bulk bulk = {
        .length = LENGTH, .give = on_give, .context = &depot, .chunk = CHUNK};
    struct cop_call call = call_with(&bulk);
    uint64_t number;
    call.number = &number;
    open_depot(*state, "chain", CALLBACK);
    depot.shelves[3].later_from = 1;
    assert_int_equal(cop_rpc(hall_run(*state, 0), &call, hall_done, *state), 0);
    hall_until(*state, the_last_has_some);
    for (int i = 0; i < 200; i++)
        for (cop_id id = 0; id < MEMBERS; id++)
            cop_poll(hall_run(*state, id), 0);
    /* Each of the three above can have a window more than the one below it. */
    assert_in_range(depot.given, 1, MEMBERS * COP_BULK_WINDOW * CHUNK);
    assert_true(depot.shelves[3].later <= COP_BULK_WINDOW);
    assert_int_equal(cop_bcast_abort(hall_run(*state, 0), number), 0);
    hall_until_ended(*state);
    hall_until(*state, all_is_over);
    assert_int_equal(depot.hall->ended.status, COP_EABORTED);
    for (cop_id id = 1; id < MEMBERS; id++) {
        if (depot.shelves[id].bulk_status == 0)
            continue; /* it had all of it */
        assert_int_equal(depot.shelves[id].bulk_status, COP_EABORTED);
        assert_string_equal(depot.shelves[id].trace, "crds");
        assert_true(depot.shelves[id].replied < 0);
    }
    assert_int_equal(depot.shelves[3].bulk_status, COP_EABORTED);
}

static void one_cannot_take_it(void **state)
{
    struct cop_bulk bulk = memory();
    struct cop_call call = call_with(&bulk);
    enum cop_phase phase;
    cop_id at;
    open_depot(*state, "chain", CALLBACK);
    depot.shelves[1].fails_at = 9 * CHUNK;
    assert_int_equal(hall_rpc(*state, 0, &call), 0);
    hall_until(*state, all_is_over);
    assert_int_equal(depot.hall->ended.result.answered, MEMBERS - 1);
    assert_int_equal(hall_failure(*state, 1, &phase, &at), COP_EIO);
    assert_int_equal(phase, COP_PHASE_BULK);
    assert_int_equal(at, 1);
    assert_int_equal(depot.shelves[1].bulk_status, COP_EIO);
    assert_string_equal(depot.shelves[1].trace, "crds");
    assert_true(depot.shelves[1].replied < 0);
    expect_whole(2);
    expect_whole(3);
}

static void the_root_cannot_give_it(void **state)
{
    struct cop_bulk bulk = {
        .length = LENGTH, .give = on_give, .context = &depot, .chunk = CHUNK};
    struct cop_call call = call_with(&bulk);
    enum cop_phase phase;
    cop_id at;
    open_depot(*state, "kary:2", CALLBACK);
    depot.cannot_from = 11 * CHUNK;
    assert_int_equal(hall_rpc(*state, 0, &call), 0);
    hall_until(*state, all_is_over);
    assert_int_equal(depot.hall->ended.result.answered, 0);
    for (cop_id i = 0; i < MEMBERS; i++) {
        assert_int_equal(hall_failure(*state, i, &phase, &at), COP_EIO);
        assert_int_equal(phase, COP_PHASE_BULK);
        assert_int_equal(at, 0);
        assert_int_equal(depot.shelves[i].bulk_status, COP_EIO);
    }
    /* A file that is shorter than was said. */
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), LENGTH - 1), 0);
    memset(depot.shelves[1].trace, 0, sizeof depot.shelves[1].trace);
    depot.shelves[0].have = depot.shelves[1].have = 0;
    bulk = (struct cop_bulk){.length = LENGTH, .fd = fileno(file)};
    for (cop_id i = 0; i < MEMBERS; i++) {
        memset(depot.shelves[i].trace, 0, sizeof depot.shelves[i].trace);
        depot.shelves[i].have = 0;
    }
    assert_int_equal(hall_rpc(*state, 0, &call), 0);
    assert_int_equal(hall_failure(*state, 3, &phase, &at), COP_EIO);
    fclose(file);
    hall_until(*state, all_is_over);
}

/* A relay dies in the middle: those below it go on elsewhere, from where they are. */
static void a_relay_dies(void **state)
{
    struct cop_bulk bulk = memory();
    struct cop_call call = call_with(&bulk);
    open_depot(*state, "chain", CALLBACK);
    depot.shelves[1].stops_at = 13 * CHUNK;
    assert_int_equal(hall_rpc(*state, 0, &call), 0);
    hall_until(*state, all_is_over);
    assert_int_equal(depot.hall->ended.result.answered, MEMBERS - 1);
    assert_int_equal(hall_failure(*state, 1, NULL, NULL), COP_ELOST);
    expect_whole(2);
    expect_whole(3);
    /* What the dead one had begun was ended, too. */
    assert_string_equal(depot.shelves[1].trace, "crds");
    assert_true(depot.shelves[1].bulk_status != 0);
}

/* Without HEAL: the same, but whoever dies takes those below with it. */
static void without_heal(void **state)
{
    struct cop_bulk bulk = memory();
    struct cop_call call = call_with(&bulk);
    enum cop_phase phase;
    cop_id at;
    open_depot(*state, "chain", MEMORY);
    depot.shelves[0].where = CALLBACK;
    assert_int_equal(hall_bcast(*state, 0, &call), 0);
    hall_until(*state, all_is_over);
    assert_int_equal(depot.hall->ended.result.answered, MEMBERS);
    for (cop_id i = 0; i < MEMBERS; i++) {
        expect_whole(i);
        memset(depot.shelves[i].trace, 0, sizeof depot.shelves[i].trace);
        depot.shelves[i].have = 0;
    }
    depot.shelves[2].where = CALLBACK;
    depot.shelves[2].fails_at = 3 * CHUNK;
    assert_int_equal(hall_bcast(*state, 0, &call), 0);
    hall_until(*state, all_is_over);
    assert_int_equal(depot.hall->ended.result.answered, MEMBERS - 1);
    assert_int_equal(hall_failure(*state, 2, &phase, &at), COP_EIO);
    assert_int_equal(phase, COP_PHASE_BULK);
    assert_int_equal(depot.shelves[2].bulk_status, COP_EIO);
    assert_string_equal(depot.shelves[2].trace, "crds");
}

static void a_relay_dies_without_heal(void **state)
{
    struct cop_bulk bulk = memory();
    struct cop_call call = call_with(&bulk);
    open_depot(*state, "chain", CALLBACK);
    depot.shelves[3].later_from = 1; /* so that nobody has all of it */
    depot.shelves[2].stops_at = 13 * CHUNK;
    assert_int_equal(hall_bcast(*state, 0, &call), 0);
    hall_until(*state, all_is_over);
    assert_int_equal(depot.hall->ended.result.answered, 2);
    assert_int_equal(hall_failure(*state, 2, NULL, NULL), COP_ELOST);
    assert_int_equal(hall_failure(*state, 3, NULL, NULL), COP_ELOST);
    expect_whole(1);
    assert_int_equal(depot.shelves[3].bulk_status, COP_ELOST);
    assert_string_equal(depot.shelves[3].trace, "crds");
}

static bool has_begun(struct hall *hall)
{
    (void)hall;
    return depot.shelves[2].have > 3 * CHUNK;
}

static void unregisters(void **state)
{
    struct cop_bulk bulk = memory();
    struct cop_call call = call_with(&bulk);
    enum cop_phase phase;
    open_depot(*state, "chain", CALLBACK);
    depot.shelves[2].later_from = 1;
    assert_int_equal(cop_rpc(hall_run(*state, 0), &call, hall_done, *state), 0);
    hall_until(*state, has_begun);
    assert_int_equal(cop_service_unregister(hall_run(*state, 2), BULK), 0);
    assert_string_equal(depot.shelves[2].trace, "crds");
    assert_int_equal(depot.shelves[2].bulk_status, COP_ENOENT);
    hall_until_ended(*state);
    assert_int_equal(depot.hall->ended.result.answered, MEMBERS - 1);
    assert_int_equal(hall_failure(*state, 2, &phase, NULL), COP_ENOENT);
    assert_int_equal(phase, COP_PHASE_SERVICE);
    expect_whole(3);
}

/* A run that ends while a thread of its writes. */
static void the_run_ends(void **state)
{
    struct cop_bulk bulk = {.length = LENGTH, .chunk = CHUNK};
    struct cop_call call = call_with(&bulk);
    FILE *file = tmpfile();
    open_depot(*state, "chain", FILE_);
    depot.shelves[0].where = CALLBACK;
    assert_non_null(file);
    assert_int_equal(pwrite(fileno(file), depot.bytes, LENGTH, 0), LENGTH);
    bulk.fd = fileno(file);
    assert_int_equal(cop_rpc(hall_run(*state, 0), &call, hall_done, *state), 0);
    fclose(file);
    while (depot.shelves[0].have < 4 * CHUNK)
        for (cop_id id = 0; id < MEMBERS; id++)
            cop_poll(hall_run(*state, id), 0);
    assert_int_equal(cop_stop(hall_run(*state, 1)), 0);
    assert_int_equal(cop_stop(hall_run(*state, 0)), 0);
}

static int try_in_run(void *context, struct cop_run *run, struct cop_task *task)
{
    uint8_t byte;
    (void)context;
    assert_int_equal(cop_bulk_to_memory(run, task->number, &byte, 1), COP_ESTATE);
    return 0;
}

static void wrong_places(void **state)
{
    struct cop_bulk bulk = memory();
    struct cop_call call = call_with(&bulk);
    struct cop_run *run;
    uint8_t byte = 0;
    open_depot(*state, "chain", MEMORY);
    depot.shelves[0].where = CALLBACK;
    run = hall_run(*state, 0);
    /* Too small: it goes to `piece`. */
    depot.shelves[1].room = LENGTH - 1;
    depot.shelves[1].where = MEMORY;
    depot.shelves[2].where = NOWHERE;
    depot.shelves[1].self = 0; /* pieces are all right */
    depot.shelves[3].where = FILE_;
    depot.shelves[3].file = tmpfile();
    assert_non_null(depot.shelves[3].file);
    assert_int_equal(hall_rpc(*state, 0, &call), 0);
    assert_int_equal(depot.shelves[1].to_status, COP_ETOOBIG);
    assert_int_equal(depot.shelves[1].have, LENGTH);
    assert_int_equal(depot.shelves[2].have, LENGTH);
    assert_int_equal(depot.shelves[3].have, 0);
    assert_int_equal(cop_bulk_to_memory(run, 12345, &byte, 1), COP_ENOENT);
    assert_int_equal(cop_bulk_to_memory(run, 12345, NULL, 1), COP_EINVAL);
    assert_int_equal(cop_bulk_to_file(run, 12345, 0, 0), COP_ENOENT);
    assert_int_equal(cop_piece_done(run, 12345, 0), COP_ENOENT);
    assert_int_equal(cop_piece_done(run, 12345, 1), COP_EINVAL);
    bulk = (struct cop_bulk){.length = 1, .fd = -1};
    assert_int_equal(cop_rpc(run, &call, NULL, NULL), COP_EINVAL);
    bulk = (struct cop_bulk){.length = COP_BULK_MAX + 1, .bytes = &byte};
    assert_int_equal(cop_rpc(run, &call, NULL, NULL), COP_EINVAL);
    bulk =
        (struct cop_bulk){.length = 1, .bytes = &byte, .chunk = COP_BULK_CHUNK_MAX + 1};
    assert_int_equal(cop_rpc(run, &call, NULL, NULL), COP_EINVAL);
    struct cop_handlers late = {
        .size = sizeof late, .service = BULK + 1, .run = try_in_run};
    assert_int_equal(cop_service_register(run, &late), 0);
    bulk = (struct cop_bulk){.length = 1, .bytes = &byte};
    call.service = BULK + 1;
    assert_int_equal(hall_rpc(*state, 0, &call), 0);
    /* Nothing at all is a bulk, too. */
    bulk = (struct cop_bulk){.length = 0};
    assert_int_equal(hall_rpc(*state, 0, &call), 0);
}

/* ---- ends that come at a bad time ------------------------------------------------ */

static unsigned count_of(const struct shelf *shelf, char what)
{
    unsigned count = 0;
    for (const char *at = shelf->trace; *at; at++)
        count += *at == what;
    return count;
}

static bool root_is_called_off(struct hall *hall)
{
    (void)hall;
    return count_of(&depot.shelves[0], 'd') > 0;
}

/* All others have answered when the time is over, and the root has yet to take its own pieces. */
static void too_late_at_the_root(void **state)
{
    struct cop_bulk bulk = memory();
    struct cop_call call = call_with(&bulk);
    call.timeout_ns = 100 * COP_MSEC;
    open_depot(*state, "chain", CALLBACK);
    depot.shelves[0].later_from = LENGTH - 1;
    assert_int_equal(hall_rpc(*state, 0, &call), COP_ETIMEDOUT);
    hall_until(*state, root_is_called_off);
    for (int i = 0; i < 50; i++)
        cop_poll(hall_run(*state, 0), 0);
    assert_int_equal(count_of(&depot.shelves[0], 'r'), 1);
    assert_int_equal(count_of(&depot.shelves[0], 'd'), 1);
}

static unsigned others_done;

static void on_others_done(void *context, struct cop_run *run, struct cop_task *task)
{
    (void)context;
    (void)run;
    (void)task;
    others_done++;
}

static int unregister_in_run(void *context, struct cop_run *run, struct cop_task *task)
{
    note(context, 'r');
    note(context, 'd'); /* whoever unregisters needs no word of it */
    if (task->bulk_status != 0)
        assert_int_equal(cop_service_unregister(run, BULK), 0);
    return 0;
}

static bool root_has_begun(struct hall *hall)
{
    (void)hall;
    return depot.shelves[0].have > 0;
}

/* The service is gone, and another one is in its place in the table. */
static void gone_at_the_end(void **state)
{
    struct cop_bulk bulk = memory();
    struct cop_call call = call_with(&bulk);
    open_depot(*state, "chain", CALLBACK);
    struct cop_run *run = hall_run(*state, 0);
    struct cop_handlers other = {
        .size = sizeof other, .service = BULK + 1, .done = on_others_done};
    serve_anew(*state, 0, 0, unregister_in_run);
    assert_int_equal(cop_service_register(run, &other), 0);
    others_done = 0;
    depot.shelves[0].later_from = 1;
    assert_int_equal(cop_rpc(run, &call, NULL, NULL), 0);
    hall_until(*state, root_has_begun);
    assert_int_equal(cop_stop(run), 0);
    for (int i = 0; i < 20; i++)
        cop_poll(run, 0);
    assert_int_equal(count_of(&depot.shelves[0], 'r'), 1);
    assert_int_equal(others_done, 0);
}

static int unregister_another_in_run(void *context, struct cop_run *run,
                                     struct cop_task *task)
{
    note(context, 'r');
    if (task->bulk_status != 0)
        assert_int_equal(cop_service_unregister(run, SERVICE), 0);
    return 0;
}

/* The table moves while it is told of the end: the one behind it is in its place then. */
static void the_table_moves_at_the_end(void **state)
{
    struct cop_bulk bulk = memory();
    struct cop_call call = call_with(&bulk);
    open_depot(*state, "chain", CALLBACK);
    struct cop_run *run = hall_run(*state, 0);
    struct cop_handlers other = {
        .size = sizeof other, .service = BULK + 1, .done = on_others_done};
    serve_anew(*state, 0, 0, unregister_another_in_run);
    assert_int_equal(cop_service_register(run, &other), 0);
    others_done = 0;
    depot.shelves[0].later_from = 1;
    assert_int_equal(cop_rpc(run, &call, NULL, NULL), 0);
    hall_until(*state, root_has_begun);
    runs_free(depot.hall->runs, 0);
    assert_string_equal(depot.shelves[0].trace, "rd");
    assert_int_equal(others_done, 0);
}

static struct shelf heir;

static int give_place(void *context, struct cop_run *run, struct cop_task *task)
{
    (void)context;
    (void)task;
    assert_int_equal(cop_service_unregister(run, BULK), 0);
    assert_string_equal(depot.shelves[0].trace, "rd");
    serve(run, &heir, 0, on_run);
    return 0;
}

/* Asks for something else, which is run here before the piece that is given now. */
static int give_and_call(void *context, uint64_t offset, void *to, uint32_t length)
{
    struct cop_call call = {.service = BULK + 1};
    if (offset == CHUNK)
        assert_int_equal(cop_rpc(hall_run(depot.hall, 0), &call, NULL, NULL), 0);
    return on_give(context, offset, to, length);
}

/* Who comes in the middle gets nothing of what was for the one before. */
static void another_is_in_its_place(void **state)
{
    struct cop_bulk bulk = {
        .length = LENGTH, .give = give_and_call, .context = &depot, .chunk = CHUNK};
    struct cop_call call = call_with(&bulk);
    struct cop_handlers other = {
        .size = sizeof other, .service = BULK + 1, .run = give_place};
    open_depot(*state, "chain", CALLBACK);
    heir = (struct shelf){.depot = &depot, .where = CALLBACK};
    assert_int_equal(cop_service_register(hall_run(*state, 0), &other), 0);
    assert_int_equal(hall_rpc(*state, 0, &call), 0);
    assert_int_equal(depot.hall->ended.result.answered, 0);
    hall_until(*state, all_is_over);
    assert_string_equal(heir.trace, "");
    assert_int_equal(heir.have, 0);
}

/* The call is made again for one that is older, while a part of the file is being read. */
static void a_file_for_an_older_one(void **state)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    open_depot(*state, "flat", CALLBACK);
    for (cop_id i = 0; i < MEMBERS; i++)
        serve_anew(*state, i, i == MEMBERS - 1 ? 1 : 2, on_run);
    assert_int_equal(pwrite(fileno(file), depot.bytes, LENGTH, 0), LENGTH);
    struct cop_bulk bulk = {.length = LENGTH, .chunk = CHUNK, .fd = fileno(file)};
    for (int round = 0; round < 5; round++) {
        struct cop_call call = call_with(&bulk);
        call.version = 2;
        call.retry = true;
        call.flags |= COP_BCAST_STRICT;
        for (cop_id i = 0; i < MEMBERS; i++)
            memset(depot.shelves[i].trace, 0, sizeof depot.shelves[i].trace);
        assert_int_equal(hall_rpc(*state, 0, &call), 0);
        assert_int_equal(depot.hall->ended.result.answered, MEMBERS);
        for (cop_id i = 0; i < MEMBERS; i++)
            assert_int_equal(depot.shelves[i].have, LENGTH);
        hall_until(*state, all_is_over);
    }
    fclose(file);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, hall_set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(from_memory_into_memory),
        TEST(from_a_file_into_files),
        TEST(by_callbacks_that_take_their_time),
        TEST(one_says_so_twice),
        TEST(window_is_full),
        TEST(one_cannot_take_it),
        TEST(the_root_cannot_give_it),
        TEST(a_relay_dies),
        TEST(without_heal),
        TEST(a_relay_dies_without_heal),
        TEST(unregisters),
        TEST(the_run_ends),
        TEST(wrong_places),
        TEST(too_late_at_the_root),
        TEST(gone_at_the_end),
        TEST(the_table_moves_at_the_end),
        TEST(another_is_in_its_place),
        TEST(a_file_for_an_older_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
