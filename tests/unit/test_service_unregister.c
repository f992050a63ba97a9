/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service that unregisters itself, from each of its callbacks, at each member, however that
 * callback came to be called: on the program's own loop, and on threads of the library's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "brief.h"
#include "failing_alloc.h"

#include <coppice/service.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MEMBERS 3u /* a root, a relay, a leaf */
#define SERVICE 60u
#define LONG_NS (60 * COP_SEC) /* nothing here takes that long */
#define PIECE 1000u
#define PIECES 5u

static const uint8_t oob_name[16] = "everybody";
static const uint8_t bulk_bytes[PIECE * PIECES];

enum mode { HEAL, PLAIN, BULK, BULK_PLAIN, OOB, MODES };
/* How it comes to an end: by itself, by the caller, or with the run of whoever unregisters. */
enum end { BY_ITSELF, ABORTED, STOPPED, ENDS };

struct actor {
    struct play *play;
    struct cop_run *run;
    cop_id self;
    char at;             /* the callback in which it unregisters; 0: none */
    unsigned skips;      /* so many of them before that */
    bool holds;          /* it does not come to an end by itself */
    atomic_bool has_run; /* or it has a piece that it holds, or has gone */
    bool has_gone;
    bool is_heir; /* another service of the same number, that comes when it has gone */
    unsigned wrong;
    char trace[64]; /* callbacks; ( and ) around unregistering */
};

struct play {
    bool has_threads;
    size_t live; /* allocations before it */
    char folder[32], texts[MEMBERS][96];
    const char *addresses[MEMBERS];
    struct actor actors[MEMBERS], heirs[MEMBERS];
    bool has_heirs;
    enum mode mode;
    uint64_t group, number;
    atomic_uint ended;
};

/* ---- the service ----------------------------------------------------------------- */

/* Threads have no way to fail. */
static void expect(struct actor *actor, bool is_so) { actor->wrong += !is_so; }

static void note(struct actor *actor, char what)
{
    size_t length = strlen(actor->trace);
    expect(actor, length + 1 < sizeof actor->trace);
    if (length + 1 < sizeof actor->trace)
        actor->trace[length] = what;
}

static struct cop_handlers handlers_of(struct actor *actor);

/* A callback, in which it goes if that is its part. */
static void come(struct actor *actor, char what, struct cop_run *run)
{
    note(actor, what);
    if (actor->at != what || actor->has_gone || actor->skips-- > 0)
        return;
    actor->has_gone = true;
    note(actor, '(');
    expect(actor, cop_service_unregister(run, SERVICE) == 0);
    expect(actor, cop_service_unregister(run, SERVICE) == COP_ENOENT);
    note(actor, ')');
    if (actor->play->has_heirs) {
        struct cop_handlers heir = handlers_of(&actor->play->heirs[actor->self]);
        int error = cop_service_register(run, &heir);
        expect(actor, error == (cop_state(run) == COP_RUN_OVER ? COP_ESTATE : 0));
    }
    atomic_store(&actor->has_run, true);
}

/* The task is there until the callback returns. */
static void come_with(struct actor *actor, char what, struct cop_run *run,
                      const struct cop_task *task)
{
    bool was = actor->has_gone;
    uint64_t number = task->number;
    come(actor, what, run);
    expect(actor, task->service == SERVICE && task->number == number);
    if (!was && actor->has_gone)
        expect(actor, cop_reply(run, number, 0, NULL, 0) == COP_ENOENT);
}

static int on_check(void *context, struct cop_run *run, struct cop_task *task)
{
    static uint8_t place[sizeof bulk_bytes];
    struct actor *actor = context;
    /* Nothing of the kind is left. */
    if (actor->at == 'c')
        expect(actor, cop_bulk_to_memory(run, task->number, place, sizeof place) == 0);
    come_with(actor, 'c', run, task);
    return 0;
}

static int on_piece(void *context, struct cop_run *run, struct cop_task *task,
                    const struct cop_piece *piece)
{
    struct actor *actor = context;
    come_with(actor, 'p', run, task);
    expect(actor, memcmp(piece->bytes, bulk_bytes, piece->length) == 0);
    if (!actor->holds)
        return 0;
    atomic_store(&actor->has_run, true);
    return COP_LATER;
}

static int on_run(void *context, struct cop_run *run, struct cop_task *task)
{
    struct actor *actor = context;
    come_with(actor, 'r', run, task);
    atomic_store(&actor->has_run, true);
    return actor->holds ? COP_LATER : 0;
}

static void on_reply(void *context, struct cop_run *run, struct cop_task *task,
                     const struct cop_answer *answer)
{
    come_with(context, 'a', run, task);
    expect(context, answer->from < MEMBERS);
}

static void on_done(void *context, struct cop_run *run, struct cop_task *task)
{
    come_with(context, 'd', run, task);
}

static void on_sent(void *context, struct cop_run *run, struct cop_task *task)
{
    come_with(context, 's', run, task);
}

static int on_resolve(void *context, struct cop_run *run, const uint8_t name[16],
                      struct cop_members *members)
{
    expect(context, memcmp(name, oob_name, sizeof oob_name) == 0);
    for (cop_id i = 0; i < MEMBERS; i++)
        expect(context, cop_members_add(members, i, NULL, 0) == 0);
    come(context, 'o', run);
    return 0;
}

static struct cop_handlers handlers_of(struct actor *actor)
{
    return (struct cop_handlers){.size = sizeof(struct cop_handlers),
                                 .service = SERVICE,
                                 .context = actor,
                                 .check = on_check,
                                 .run = on_run,
                                 .reply = on_reply,
                                 .done = on_done,
                                 .sent = on_sent,
                                 .resolve = on_resolve,
                                 .piece = on_piece};
}

/* ---- the members ----------------------------------------------------------------- */

static void turn(struct play *play)
{
    for (uint32_t i = 0; i < MEMBERS && !play->has_threads; i++)
        if (play->actors[i].run != NULL)
            cop_poll(play->actors[i].run, 0);
    sched_yield();
}

static void await(struct play *play, bool (*is_so)(struct play *play))
{
    for (time_t begun = time(NULL); !is_so(play); turn(play))
        if (time(NULL) > begun + 60)
            fail_msg("this takes absurdly long");
}

static bool all_are_members(struct play *play)
{
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (cop_state(play->actors[i].run) != COP_RUN_MEMBER)
            return false;
    return true;
}

static void open_one(struct play *play, uint32_t i)
{
    struct actor *actor = &play->actors[i];
    struct cop_handlers handlers = handlers_of(actor);
    struct cop_settings settings = {.size = sizeof settings,
                                    .cluster = "play",
                                    .instance = 3,
                                    .addresses = play->addresses,
                                    .count = MEMBERS,
                                    .self = i,
                                    .shape = "chain",
                                    .detector = "connection",
                                    .services = &handlers,
                                    .service_count = 1};
    char why[200];
    actor->play = play->heirs[i].play = play;
    actor->self = play->heirs[i].self = i;
    play->heirs[i].is_heir = true;
    int error = play->has_threads
                    ? cop_start_thread(&settings, &actor->run, why, sizeof why)
                    : cop_start(&settings, &actor->run, why, sizeof why);
    if (error)
        fail_msg("%s: %s", cop_strerror(error), why);
}

/* How one of them is made. */
struct plan {
    bool has_threads, has_heirs;
    enum mode mode;
    enum end end;
    uint32_t who; /* has the part */
    char at;
};

static struct play *open_play(const struct plan *plan, const struct actor *part)
{
    size_t live = failing_alloc_live();
    struct play *play = calloc(1, sizeof *play);
    assert_non_null(play);
    char folder[] = "/tmp/copplay.XXXXXX";
    assert_non_null(mkdtemp(folder));
    strcpy(play->folder, folder);
    play->live = live;
    play->has_threads = plan->has_threads;
    play->has_heirs = plan->has_heirs;
    play->mode = plan->mode;
    play->actors[plan->who] = *part;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        snprintf(play->texts[i], sizeof play->texts[i], "unix:%s/m%u", folder,
                 (unsigned)i);
        play->addresses[i] = play->texts[i];
    }
    for (uint32_t i = 0; i < MEMBERS; i++)
        open_one(play, i);
    await(play, all_are_members);
    return play;
}

static void close_one(struct play *play, uint32_t i)
{
    cop_free(play->actors[i].run);
    play->actors[i].run = NULL;
}

/* ---- one call -------------------------------------------------------------------- */

static void on_end(void *context, int status, const struct cop_bcast_result *result)
{
    struct play *play = context;
    (void)status;
    (void)result;
    atomic_fetch_add(&play->ended, 1);
}

static bool has_ended(struct play *play) { return atomic_load(&play->ended) > 0; }

static struct actor *awaited;
static bool has_come(struct play *play)
{
    return atomic_load(&awaited->has_run) || has_ended(play);
}

/* Whether it was taken: whoever unregisters where the call begins has no call. */
static bool make_call(struct play *play)
{
    struct cop_run *run = play->actors[0].run;
    struct cop_group_spec spec = {.service = SERVICE, .name = "all"};
    struct cop_bulk bulk = {
        .length = sizeof bulk_bytes, .bytes = bulk_bytes, .chunk = PIECE};
    struct cop_call call = {
        .service = SERVICE, .timeout_ns = LONG_NS, .service_ns = LONG_NS};
    if (play->mode != PLAIN && play->mode != BULK_PLAIN)
        call.flags = COP_BCAST_HEAL;
    if (play->mode == BULK || play->mode == BULK_PLAIN)
        call.bulk = &bulk;
    if (play->mode == OOB) {
        int error = cop_group_create_oob(run, &spec, oob_name, &call.group);
        /* Its service went meanwhile. */
        assert_int_equal(error, play->actors[0].has_gone ? COP_ENOENT : 0);
        if (error)
            return false;
    }
    assert_int_equal(cop_bcast_new(run, &call, on_end, play, &play->number), 0);
    int error = cop_bcast_send(run, play->number, NULL);
    if (error == 0)
        return true;
    assert_int_equal(error, COP_ENOENT);
    assert_true(play->mode == OOB && play->actors[0].has_gone);
    assert_int_equal(cop_bcast_abort(run, play->number), 0);
    return false;
}

static unsigned count_of(const char *trace, char what)
{
    unsigned count = 0;
    for (; *trace; trace++)
        count += *trace == what;
    return count;
}

static void expect_promises(const struct actor *actor)
{
    const char *trace = actor->trace, *gone = strchr(trace, ')');
    unsigned runs = count_of(trace, 'r');
    assert_int_equal(actor->wrong, 0);
    if (gone != NULL && gone[1] != '\0')
        fail_msg("a callback after unregistering: %s", trace);
    if (runs > 1 || count_of(trace, 'd') != runs ||
        count_of(trace, 's') != (actor->self == 0 ? 0 : runs))
        fail_msg("%s at %u", trace, (unsigned)actor->self);
    /* Who has not passed `check` has nothing to be told. */
    if (actor->at == 'c' && actor->has_gone)
        assert_string_equal(trace, "c()");
    /* Nobody gets the rest of what was begun by somebody else. */
    if (actor->is_heir && (actor->self != 0 || strchr(trace, 'p')))
        assert_string_equal(trace, "");
}

static void close_play(struct play *play)
{
    for (uint32_t i = 0; i < MEMBERS; i++)
        close_one(play, i);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        expect_promises(&play->actors[i]);
        expect_promises(&play->heirs[i]);
    }
    assert_int_equal(rmdir(play->folder), 0);
    size_t live = play->live;
    free(play);
    assert_int_equal(failing_alloc_live(), live);
}

/* Whether the callback came at all. */
static bool perform(const struct plan *plan)
{
    /* Of `resolve` the root has one when the group is made, and one for the call. */
    const struct actor part = {.at = plan->at,
                               .holds = plan->end != BY_ITSELF,
                               .skips = plan->at == 'o' && plan->who == 0 &&
                                        plan->end != BY_ITSELF};
    struct play *play = open_play(plan, &part);
    const struct actor *actor = awaited = &play->actors[plan->who];
    bool has_call = make_call(play);
    if (has_call && plan->end != BY_ITSELF)
        await(play, has_come);
    if (has_call && plan->end == ABORTED)
        cop_bcast_abort(play->actors[0].run, play->number);
    if (plan->end == STOPPED)
        close_one(play, plan->who);
    if (has_call)
        await(play, has_ended);
    for (uint32_t i = 0; i < MEMBERS; i++)
        close_one(play, i);
    assert_int_equal(atomic_load(&play->ended), has_call);
    bool has_gone = actor->has_gone;
    close_play(play);
    return has_gone;
}

/* However it ends, and wherever it is. */
static void everywhere(struct plan plan)
{
    unsigned gone = 0;
    for (int end = 0; end < ENDS; end++)
        for (plan.who = 0; plan.who < MEMBERS; plan.who++) {
            plan.end = (enum end)end;
            if (!brief() || plan.who == 1 || plan.end == BY_ITSELF)
                gone += perform(&plan);
        }
    assert_true(gone > 0);
}

static void in_each_mode(char at, bool has_threads)
{
    for (int mode = HEAL; mode < OOB; mode++)
        for (int heirs = 0; heirs < 2; heirs++)
            if (at != 'p' || mode == BULK || mode == BULK_PLAIN)
                everywhere((struct plan){.at = at,
                                         .mode = (enum mode)mode,
                                         .has_threads = has_threads,
                                         .has_heirs = heirs > 0});
}

/* ---- tests ----------------------------------------------------------------------- */

#define IN_BOTH(name, at)                                                              \
    static void name(void **state)                                                     \
    {                                                                                  \
        (void)state;                                                                   \
        in_each_mode(at, false);                                                       \
    }                                                                                  \
    static void name##_on_a_thread(void **state)                                       \
    {                                                                                  \
        (void)state;                                                                   \
        in_each_mode(at, true);                                                        \
    }

IN_BOTH(in_check, 'c')
IN_BOTH(in_piece, 'p')
IN_BOTH(in_run, 'r')
IN_BOTH(in_reply, 'a')
IN_BOTH(in_done, 'd')
IN_BOTH(in_sent, 's')

static void in_resolve(void **state)
{
    (void)state;
    everywhere((struct plan){.at = 'o', .mode = OOB});
}

static void in_resolve_on_a_thread(void **state)
{
    (void)state;
    everywhere((struct plan){.at = 'o', .mode = OOB, .has_threads = true});
}

#define TEST(name) cmocka_unit_test(name), cmocka_unit_test(name##_on_a_thread)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(in_check), TEST(in_piece), TEST(in_run),     TEST(in_reply),
        TEST(in_done),  TEST(in_sent),  TEST(in_resolve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
