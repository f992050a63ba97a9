/* SPDX-License-Identifier: Apache-2.0 */
/* Members on the program's own loop: coppice/run.h without threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_alloc.h"
#include "net/tls/channel.h"
#include "net/tls/keys.h"
#include "run/address.h"
#include "run/listen.h"
#include "run_world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int set_up(void **state)
{
    *state = runs_create();
    return 0;
}

static int tear_down(void **state)
{
    runs_destroy(*state);
    return 0;
}

static bool all_have_view(struct runs *runs)
{
    for (int i = 0; i < RUNS; i++)
        if (runs->players[i].run != NULL && runs->players[i].views == 0)
            return false;
    return true;
}

/* ---- views ----------------------------------------------------------------------- */

static void first_view_is_told_by_the_loop(void **state)
{
    struct runs *runs = *state;
    runs_start_all(runs, 3);
    struct player *player = &runs->players[1];
    assert_int_equal(player->views, 0);
    assert_int_equal(cop_state(player->run), COP_RUN_JOINING);
    assert_string_equal(cop_address(player->run), runs->addresses[1]);
    runs_until(runs, all_have_view);
    assert_int_equal(player->views, 1);
    assert_int_equal(cop_state(player->run), COP_RUN_MEMBER);
    assert_int_equal(cop_self(player->run), 1);
    struct cop_view *view = cop_view_current(player->run);
    assert_int_equal(cop_view_size(view), 3);
    assert_false(player->has_old);
    /* A view may outlive its run. */
    runs_free(runs, 1);
    assert_int_equal(cop_view_size(view), 3);
    cop_view_unref(view);
}

static bool others_removed_0(struct runs *runs)
{
    return runs->players[1].left == 1 && runs->players[2].left == 1 &&
           runs->players[1].removals > 0 && runs->players[2].removals > 0;
}

static void the_root_dies(void **state)
{
    struct runs *runs = *state;
    struct player *player = &runs->players[1];
    struct cop_change_times times;
    struct cop_suspicion suspicion[4];
    uint32_t count;
    runs_start_all(runs, 3);
    runs_until(runs, all_have_view);
    runs_free(runs, 0);
    assert_int_equal(runs->players[0].out.count, 1);
    assert_int_equal(runs->players[0].out.status, COP_ESTATE);
    runs_until(runs, others_removed_0);
    assert_int_equal(player->size, 2);
    assert_true(player->has_old);
    assert_int_equal(player->epoch, runs->players[2].epoch);
    /* The next in line led the change. */
    assert_int_equal(cop_changes(player->run, &times), 0);
    assert_int_equal(times.epoch, player->epoch);
    assert_true(times.heard > 0 && times.heard <= times.proposed);
    assert_true(times.proposed <= times.stable && times.stable <= times.committed);
    assert_int_equal(cop_suspicions(player->run, 0, suspicion, 4, &count), 0);
    assert_true(count >= 1);
    assert_int_equal(suspicion[0].accused, 0);
    assert_int_equal(suspicion[0].outcome, COP_OUTCOME_REMOVED);
    /* Each was told when it came up, and when it was decided. */
    assert_true(player->suspicions > player->removals);
}

/* One that is started late is waited for; and nobody dies of it. */
static void members_come_one_by_one(void **state)
{
    struct runs *runs = *state;
    for (uint32_t i = 0; i < 3; i++) {
        struct cop_settings settings = runs_settings(runs, i, 3);
        runs_start(runs, i, &settings);
        for (int turns = 0; i < 2 && turns < 20; turns++)
            assert_int_equal(cop_poll(runs->players[turns % 2 && i].run, -1), 0);
        assert_int_equal(cop_state(runs->players[0].run), COP_RUN_JOINING);
    }
    runs_until(runs, all_have_view);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(runs->players[i].suspicions, 0);
        assert_int_equal(runs->players[i].size, 3);
    }
}

static bool third_is_removed(struct runs *runs)
{
    return runs->players[0].left == 1 && runs->players[1].left == 1;
}

/* One that never comes is found dead, when the first is out of patience. */
static void one_never_comes(void **state)
{
    struct runs *runs = *state;
    for (uint32_t i = 0; i < 2; i++) {
        struct cop_settings settings = runs_settings(runs, i, 3);
        settings.patience_ns = i == 0 ? COP_MSEC : COP_TIME_NEVER;
        runs_start(runs, i, &settings);
    }
    runs_until(runs, third_is_removed);
    assert_int_equal(runs->players[1].size, 2);
    assert_int_equal(runs->players[1].out.count, 0);
}

/* ---- joining and leaving --------------------------------------------------------- */

static bool three_is_in(struct runs *runs)
{
    return runs->players[3].views > 0 && runs->players[0].joined == 1;
}

static bool three_took_over(struct runs *runs)
{
    return runs->players[0].replaced == 1;
}

static void a_spare_takes_over(void **state)
{
    struct runs *runs = *state;
    struct cop_settings joiner = runs_joiner(runs, 3, "spare1");
    joiner.spare = true;
    runs_start_all(runs, 3);
    runs_start(runs, 3, &joiner);
    assert_int_equal(cop_state(runs->players[3].run), COP_RUN_JOINING);
    assert_null(cop_view_current(runs->players[3].run));
    runs_until(runs, three_is_in);
    assert_int_equal(cop_state(runs->players[3].run), COP_RUN_MEMBER);
    assert_false(runs->players[3].has_old);
    struct cop_view *view = cop_view_current(runs->players[0].run);
    cop_id id = cop_view_find(view, "spare1", 6);
    cop_view_unref(view);
    assert_int_equal(id, cop_self(runs->players[3].run));
    runs_free(runs, 2);
    runs_until(runs, three_took_over);
    assert_int_equal(runs->players[0].replaced_by, id);
}

static bool zero_saw_it_leave(struct runs *runs) { return runs->players[0].left == 1; }

static void leaving_needs_no_detector(void **state)
{
    struct runs *runs = *state;
    struct cop_member member;
    runs_start_all(runs, 3);
    runs_until(runs, all_have_view);
    assert_int_equal(cop_leave(runs->players[2].run), 0);
    assert_int_equal(cop_state(runs->players[2].run), COP_RUN_LEAVING);
    assert_int_equal(cop_leave(runs->players[2].run), 0);
    runs_until_ended(runs, &runs->players[2].out);
    assert_int_equal(runs->players[2].out.status, 0);
    assert_int_equal(cop_state(runs->players[2].run), COP_RUN_OVER);
    runs_until(runs, zero_saw_it_leave);
    struct cop_view *view = cop_view_current(runs->players[0].run);
    assert_int_equal(cop_view_member(view, 2, &member), 0);
    assert_int_equal(member.presence, COP_LEFT);
    cop_view_unref(view);
    assert_int_equal(runs->players[0].suspicions, 0);
}

static bool one_is_back(struct runs *runs)
{
    const struct player *zero = &runs->players[0];
    return runs->players[1].views > 0 && zero->joined + zero->returned == 1;
}

static void a_restarted_member_comes_back(void **state)
{
    struct runs *runs = *state;
    runs_start_all(runs, 3);
    runs_until(runs, all_have_view);
    runs_free(runs, 1);
    runs->players[1] = (struct player){0};
    struct cop_settings settings = runs_settings(runs, 1, 3);
    settings.again = true;
    runs_start(runs, 1, &settings);
    runs_until(runs, one_is_back);
    assert_int_equal(cop_self(runs->players[1].run), 1);
}

static bool two_is_back(struct runs *runs)
{
    return runs->players[2].out.count > 0 && runs->players[2].views > 1;
}

static void who_was_removed_joins_again(void **state)
{
    struct runs *runs = *state;
    for (uint32_t i = 0; i < 3; i++) {
        struct cop_settings settings = runs_settings(runs, i, 3);
        settings.rejoin = i == 2;
        runs_start(runs, i, &settings);
    }
    runs_until(runs, all_have_view);
    runs_remove_third(runs);
    runs_until(runs, two_is_back);
    assert_int_equal(runs->players[2].out.status, COP_EREMOVED);
    assert_int_equal(cop_state(runs->players[2].run), COP_RUN_MEMBER);
    assert_int_equal(cop_self(runs->players[2].run), 2);
    assert_false(runs->players[2].has_old);
}

static void who_was_removed_ends(void **state)
{
    struct runs *runs = *state;
    runs_start_all(runs, 3);
    runs_until(runs, all_have_view);
    runs_remove_third(runs);
    runs_until_ended(runs, &runs->players[2].out);
    assert_int_equal(runs->players[2].out.status, COP_EREMOVED);
    assert_int_equal(cop_state(runs->players[2].run), COP_RUN_OVER);
}

static void nobody_answers_the_joiner(void **state)
{
    struct runs *runs = *state;
    struct cop_settings joiner = runs_joiner(runs, 3, "late");
    runs_start(runs, 3, &joiner);
    struct player *player = &runs->players[3];
    while (player->lines == 0)
        assert_int_equal(cop_poll(player->run, -1), 0);
    assert_int_equal(cop_state(player->run), COP_RUN_JOINING);
    assert_int_equal(cop_self(player->run), COP_ID_NONE);
    assert_int_equal(cop_send(player->run, 0, "x", 1, NULL, NULL), COP_ESTATE);
    /* Who comes up later lets it in. */
    struct cop_settings settings = runs_settings(runs, 0, 1);
    runs_start(runs, 0, &settings);
    runs_until(runs, all_have_view);
    assert_int_equal(cop_leave(player->run), 0);
    runs_until_ended(runs, &player->out);
    assert_int_equal(player->out.status, 0);
}

static void leaving_before_joining(void **state)
{
    struct runs *runs = *state;
    struct cop_settings joiner = runs_joiner(runs, 3, "late");
    runs_start(runs, 3, &joiner);
    assert_int_equal(cop_leave(runs->players[3].run), 0);
    runs_until_ended(runs, &runs->players[3].out);
    assert_int_equal(runs->players[3].out.status, 0);
    assert_int_equal(cop_dispatch(runs->players[3].run), COP_ESTATE);
}

static void a_name_that_is_taken(void **state)
{
    struct runs *runs = *state;
    struct cop_settings joiner = runs_joiner(runs, 3, "n1");
    runs_start_all(runs, 2);
    runs_start(runs, 3, &joiner);
    runs_until_ended(runs, &runs->players[3].out);
    assert_int_equal(runs->players[3].out.status, COP_EEXIST);
}

static bool zero_is_degraded(struct runs *runs)
{
    return runs->players[0].degraded > 0;
}

static void too_few_are_left(void **state)
{
    struct runs *runs = *state;
    runs_start_all(runs, 3);
    runs_until(runs, all_have_view);
    runs_free(runs, 1);
    runs_free(runs, 2);
    runs_until(runs, zero_is_degraded);
    assert_int_equal(cop_leave(runs->players[0].run), COP_EDEGRADED);
    assert_int_equal(cop_stop(runs->players[0].run), 0);
    runs_until_ended(runs, &runs->players[0].out);
    assert_int_equal(runs->players[0].out.status, COP_ESTATE);
}

/* ---- requests -------------------------------------------------------------------- */

static bool two_has_message(struct runs *runs) { return runs->players[2].messages > 0; }

static void messages_arrive(void **state)
{
    struct runs *runs = *state;
    struct ending sent = {0}, empty = {0};
    struct cop_stats stats;
    runs_start_all(runs, 3);
    runs_until(runs, all_have_view);
    assert_int_equal(cop_send(runs->players[0].run, 2, "hello", 5, runs_done, &sent),
                     0);
    runs_until(runs, two_has_message);
    assert_string_equal(runs->players[2].message, "hello");
    assert_int_equal(runs->players[2].from, 0);
    runs_until_ended(runs, &sent);
    assert_int_equal(sent.status, 0);
    assert_int_equal(cop_send(runs->players[1].run, 2, NULL, 0, runs_done, &empty), 0);
    runs_until_ended(runs, &empty);
    assert_int_equal(runs->players[2].messages, 2);
    assert_string_equal(runs->players[2].message, "");
    assert_int_equal(cop_counters(runs->players[0].run, &stats, sizeof stats), 0);
    assert_true(stats.steps > 0 && stats.sent_bytes > 0);
    /* One who knows fewer counters. */
    memset(&stats, 0xff, sizeof stats);
    assert_int_equal(cop_counters(runs->players[0].run, &stats, sizeof stats.sent), 0);
    assert_true(stats.steps == UINT64_MAX);
}

static void on_probed(void *context, int status, const struct cop_probe_result *result)
{
    struct ending *ending = context;
    ending->count++;
    ending->status = status == 0 ? (int)result->answered : status;
}

static void probes_and_inquiries(void **state)
{
    struct runs *runs = *state;
    struct ending probed = {0}, asked = {0};
    runs_start_all(runs, 3);
    runs_until(runs, all_have_view);
    assert_int_equal(cop_probe(runs->players[1].run, 0, on_probed, &probed), 0);
    assert_int_equal(probed.count, 0);
    runs_until_ended(runs, &probed);
    assert_int_equal(probed.status, 3);
    assert_int_equal(cop_inquire(runs->players[1].run, 0, 0, runs_done, &asked), 0);
    runs_until_ended(runs, &asked);
    assert_int_equal(asked.status, 0);
}

static void what_is_under_way_ends_with_the_run(void **state)
{
    struct runs *runs = *state;
    struct ending sent = {0}, probed = {0};
    runs_start_all(runs, 3);
    runs_until(runs, all_have_view);
    assert_int_equal(cop_send(runs->players[0].run, 2, "x", 1, runs_done, &sent), 0);
    assert_int_equal(cop_probe(runs->players[0].run, 0, on_probed, &probed), 0);
    runs_free(runs, 0);
    assert_int_equal(sent.count, 1);
    assert_int_equal(sent.status, COP_ESTATE);
    assert_int_equal(probed.count, 1);
    assert_int_equal(probed.status, COP_ESTATE);
    assert_int_equal(runs->players[0].out.count, 1);
}

/* ---- misuse ---------------------------------------------------------------------- */

static void call_what_is_forbidden(struct player *player, struct cop_run *run)
{
    struct cop_view *view;
    struct cop_probe_result result;
    int *got = player->from_callback;
    got[0] = cop_dispatch(run);
    got[1] = cop_poll(run, -1);
    got[2] = cop_send_wait(run, 0, "x", 1);
    got[3] = cop_inquire_wait(run, 0, 0);
    got[4] = cop_probe_wait(run, 0, &result);
    got[5] = cop_view_wait(run, 0, COP_TIME_NEVER, &view);
    got[6] = cop_leave_wait(run, COP_TIME_NEVER);
    /* All others are allowed. */
    got[7] = cop_probe(run, 0, NULL, NULL);
}

static void calls_from_a_callback(void **state)
{
    struct runs *runs = *state;
    struct player *player = &runs->players[0];
    player->on_view = call_what_is_forbidden;
    runs_start_all(runs, 2);
    runs_until(runs, all_have_view);
    for (int i = 0; i < 7; i++)
        assert_int_equal(player->from_callback[i], COP_ESTATE);
    assert_int_equal(player->from_callback[7], 0);
    /* Without a thread nothing can wait, from anywhere. */
    call_what_is_forbidden(player, player->run);
    for (int i = 2; i < 7; i++)
        assert_int_equal(player->from_callback[i], COP_ESTATE);
}

static void calls_after_the_end(void **state)
{
    struct runs *runs = *state;
    struct cop_stats stats;
    struct cop_change_times times;
    runs_start_all(runs, 1);
    struct cop_run *run = runs->players[0].run;
    int fd = cop_fd(run);
    assert_int_equal(cop_stop(run), 0);
    assert_int_equal(cop_stop(run), 0);
    assert_int_equal(runs->players[0].out.count, 0);
    runs_until_ended(runs, &runs->players[0].out);
    assert_int_equal(cop_stop(run), COP_ESTATE);
    assert_int_equal(cop_leave(run), COP_ESTATE);
    assert_int_equal(cop_dispatch(run), COP_ESTATE);
    assert_int_equal(cop_poll(run, -1), COP_ESTATE);
    assert_int_equal(cop_send(run, 0, "x", 1, NULL, NULL), COP_ESTATE);
    assert_int_equal(cop_probe(run, 0, NULL, NULL), COP_ESTATE);
    assert_int_equal(cop_inquire(run, 0, 0, NULL, NULL), COP_ESTATE);
    assert_int_equal(cop_report(run, 0, 0, NULL, NULL), COP_ESTATE);
    assert_int_equal(cop_changes(run, &times), COP_ESTATE);
    assert_int_equal(cop_counters(run, &stats, sizeof stats), 0);
    assert_null(cop_view_current(run));
    assert_int_equal(cop_fd(run), fd);
    assert_int_equal(runs->players[0].out.count, 1);
}

static void wrong_arguments(void **state)
{
    struct runs *runs = *state;
    static char large[COP_MESSAGE_MAX + 1];
    runs_start_all(runs, 2);
    runs_until(runs, all_have_view);
    struct cop_run *run = runs->players[0].run;
    assert_int_equal(cop_send(run, 0, "x", 1, NULL, NULL), COP_EINVAL);
    assert_int_equal(cop_send(run, 77, "x", 1, NULL, NULL), COP_EINVAL);
    assert_int_equal(cop_send(run, 1, NULL, 1, NULL, NULL), COP_EINVAL);
    assert_int_equal(cop_send(run, 1, large, sizeof large, NULL, NULL), COP_ETOOBIG);
    assert_int_equal(cop_send(run, 1, large, sizeof large - 1, NULL, NULL), 0);
    assert_int_equal(cop_inquire(run, 77, 0, NULL, NULL), COP_EINVAL);
    assert_int_equal(cop_report(run, 77, 0, NULL, NULL), COP_EINVAL);
    assert_int_equal(cop_counters(run, NULL, 0), COP_EINVAL);
    assert_int_equal(cop_changes(run, NULL), COP_EINVAL);
    assert_int_equal(cop_suspicions(run, 0, NULL, 1, NULL), COP_EINVAL);
}

static void no_run_at_all(void **state)
{
    struct cop_stats stats;
    (void)state;
    assert_int_equal(cop_start(NULL, NULL, NULL, 0), COP_EINVAL);
    assert_int_equal(cop_send(NULL, 0, "x", 1, NULL, NULL), COP_EINVAL);
    assert_int_equal(cop_probe(NULL, 0, NULL, NULL), COP_EINVAL);
    assert_int_equal(cop_leave(NULL), COP_EINVAL);
    assert_int_equal(cop_stop(NULL), COP_EINVAL);
    assert_int_equal(cop_dispatch(NULL), COP_EINVAL);
    assert_int_equal(cop_poll(NULL, 0), COP_EINVAL);
    assert_int_equal(cop_counters(NULL, &stats, sizeof stats), COP_EINVAL);
    assert_int_equal(cop_state(NULL), COP_RUN_OVER);
    assert_int_equal(cop_self(NULL), COP_ID_NONE);
    assert_int_equal(cop_fd(NULL), -1);
    assert_null(cop_view_current(NULL));
    cop_free(NULL);
}

/* Each must be refused, with a sentence, and leave nothing behind. */
static void refuse(const struct cop_settings *settings, int error)
{
    struct cop_run *run = NULL;
    char why[200] = "";
    size_t live = failing_alloc_live();
    assert_int_equal(cop_start(settings, &run, why, sizeof why), error);
    assert_true(strlen(why) > 10);
    assert_null(run);
    assert_int_equal(cop_start(settings, &run, NULL, 0), error);
    assert_int_equal(failing_alloc_live(), live);
}

#define REFUSE(base, member, value, error)                                             \
    do {                                                                               \
        struct cop_settings wrong = (base);                                            \
        wrong.member = (value);                                                        \
        refuse(&wrong, error);                                                         \
    } while (0)

static void settings_that_are_wrong(void **state)
{
    struct runs *runs = *state;
    struct cop_settings good = runs_settings(runs, 0, 2);
    struct cop_settings joiner = runs_joiner(runs, 3, "new");
    const char *tcp[] = {"tcp:127.0.0.1:7001", "tcp:127.0.0.1:7002"};
    const char *bad[] = {"unix:/tmp/a b", "nonsense"};
    char name[65] = "";
    memset(name, 'a', sizeof name - 1);
    REFUSE(good, size, 0, COP_EINVAL);
    REFUSE(good, size, sizeof good - 1, COP_EINVAL);
    REFUSE(good, cluster, NULL, COP_EINVAL);
    REFUSE(good, instance, 0, COP_EINVAL);
    REFUSE(good, self, 2, COP_EINVAL);
    REFUSE(good, count, 0, COP_EINVAL);
    REFUSE(good, addresses, bad, COP_EINVAL);
    REFUSE(good, addresses, tcp, COP_EREFUSED);
    REFUSE(good, shape, "round", COP_EINVAL);
    REFUSE(good, quorum, "some", COP_EINVAL);
    REFUSE(good, quorum, "has:", COP_EINVAL);
    REFUSE(good, quorum, "has:5", COP_EINVAL);
    REFUSE(good, quorum, "has:1,0", COP_EINVAL);
    REFUSE(good, detector, "crystal", COP_EINVAL);
    REFUSE(good, name, "x", COP_EINVAL);
    REFUSE(good, spare, true, COP_EINVAL);
    REFUSE(good, listen, "unix:/nowhere/at/all", COP_EIO);
    REFUSE(joiner, contact, "tcp:127.0.0.1", COP_EINVAL);
    REFUSE(joiner, contact, "tcp:127.0.0.1:1", COP_EREFUSED);
    REFUSE(joiner, quorum, "none", COP_EINVAL);
    REFUSE(joiner, name, "", COP_EINVAL);
    REFUSE(joiner, name, "12", COP_EINVAL);
    REFUSE(joiner, name, "a b", COP_EINVAL);
    REFUSE(joiner, name, name, COP_EINVAL);
}

static void settings_of_a_later_version(void **state)
{
    struct runs *runs = *state;
    struct {
        struct cop_settings settings;
        char more[32];
    } later = {.settings = runs_settings(runs, 0, 1)};
    later.settings.size = sizeof later;
    later.more[31] = 1;
    refuse(&later.settings, COP_EINVAL);
    later.more[31] = 0;
    runs_start(runs, 0, &later.settings);
}

static void the_same_place_twice(void **state)
{
    struct runs *runs = *state;
    runs_start_all(runs, 1);
    struct cop_settings settings = runs_settings(runs, 0, 1);
    refuse(&settings, COP_EEXIST);
    /* The first has not suffered. */
    runs_until(runs, all_have_view);
}

static void tcp_on_a_free_port(void **state)
{
    struct runs *runs = *state;
    struct cop_settings settings = runs_settings(runs, 0, 1);
    struct cop_settings joiner = runs_joiner(runs, 3, "new");
    runs_start(runs, 0, &settings);
    joiner.listen = "tcp:127.0.0.1:0";
    joiner.insecure = true;
    runs_start(runs, 3, &joiner);
    assert_memory_equal(cop_address(runs->players[3].run), "tcp:127.0.0.1:", 14);
    assert_true(atoi(cop_address(runs->players[3].run) + 14) > 0);
    runs_until(runs, three_is_in);
    struct cop_view *view = cop_view_current(runs->players[0].run);
    struct cop_member member;
    assert_int_equal(cop_view_member(view, 1, &member), 0);
    assert_memory_equal(member.address, cop_address(runs->players[3].run),
                        member.address_length);
    cop_view_unref(view);
}

/* A socket on a free port, and its address. */
static int listen_tcp(char *text, size_t size)
{
    uint16_t port;
    int fd = cop__listen_loopback(&port);
    assert_true(fd > 0);
    snprintf(text, size, "tcp:127.0.0.1:%u", (unsigned)port);
    return fd;
}

static bool all_of_two_or_three(struct runs *runs)
{
    return all_have_view(runs) &&
           (runs->players[3].run == NULL || runs->players[0].joined == 1);
}

static int dial(const char *text)
{
    struct cop__address address;
    assert_int_equal(cop__address_parse(text, ".", 1, &address, NULL, 0), 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(
        connect(fd, (const struct sockaddr *)&address.storage, address.length), 0);
    return fd;
}

/* Speaks as one that has the key, until the player has begun. */
static void begin_with_a_key(struct player *player, const char *text, const char *key)
{
    struct cop__tls_files files = {.key = key};
    struct cop__outbox *out = calloc(1, sizeof *out);
    struct cop__tls *tls;
    struct cop__channel *channel;
    uint8_t bytes[4096];
    char why[200];
    assert_int_equal(cop__tls_create(&files, &tls, why, sizeof why), 0);
    assert_int_equal(cop__channel_create(tls, false, &channel), 0);
    int fd = dial(text), done = 0;
    while (player->views == 0) {
        ssize_t got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        struct cop__bytes in = {bytes, got > 0 ? (uint32_t)got : 0};
        if (done == 0)
            done = cop__channel_shake(channel, &in, out);
        assert_true(done >= 0);
        if (out->used > 0)
            assert_int_equal(send(fd, out->bytes, out->used, MSG_NOSIGNAL), out->used);
        out->used = 0;
        cop_dispatch(player->run);
    }
    close(fd);
    cop__channel_destroy(channel);
    cop__tls_destroy(tls);
    free(out);
}

/* Who waits for the others to start does not begin because a stranger says something,
 * but because one of them does. */
static void a_stranger_does_not_begin(void **state)
{
    struct runs *runs = *state;
    char path[64], texts[2][32], why[200], byte;
    const char *addresses[] = {texts[0], texts[1]};
    struct cop__keys keys = {.step = COP__KEYS_ALONE};
    snprintf(path, sizeof path, "%s/key", runs->folder);
    assert_int_equal(cop__key_make(&keys.use), 0);
    assert_int_equal(cop__keys_write(path, &keys, true, why, sizeof why), 0);
    int fds[] = {listen_tcp(texts[0], 32), listen_tcp(texts[1], 32)};
    close(fds[1]); /* nobody is there */
    struct cop_settings settings = runs_settings(runs, 0, 2);
    settings.addresses = addresses;
    settings.listen_fd = fds[0];
    settings.key_file = path;
    settings.patience_ns = 1000 * COP_SEC;
    runs_start(runs, 0, &settings);
    int fd = dial(texts[0]);
    assert_int_equal(send(fd, "x", 1, MSG_NOSIGNAL), 1);
    /* It is cut when it was heard. */
    ssize_t got;
    while ((got = recv(fd, &byte, 1, MSG_DONTWAIT)) < 0 && errno == EAGAIN)
        cop_dispatch(runs->players[0].run);
    for (int i = 0; i < 10; i++)
        cop_dispatch(runs->players[0].run);
    assert_int_equal(runs->players[0].views, 0);
    close(fd);
    begin_with_a_key(&runs->players[0], texts[0], path);
    assert_int_equal(unlink(path), 0);
}

static void tcp_with_a_key(void **state)
{
    struct runs *runs = *state;
    char path[64], texts[2][32], why[200];
    const char *addresses[] = {texts[0], texts[1]};
    struct cop__keys keys = {.step = COP__KEYS_ALONE};
    snprintf(path, sizeof path, "%s/key", runs->folder);
    assert_int_equal(cop__key_make(&keys.use), 0);
    assert_int_equal(cop__keys_write(path, &keys, true, why, sizeof why), 0);
    int fds[] = {listen_tcp(texts[0], 32), listen_tcp(texts[1], 32)};
    for (uint32_t i = 0; i < 2; i++) {
        struct cop_settings settings = runs_settings(runs, i, 2);
        settings.addresses = addresses;
        settings.listen_fd = fds[i];
        settings.key_file = path;
        runs_start(runs, i, &settings);
        assert_string_equal(cop_address(runs->players[i].run), addresses[i]);
    }
    runs_until(runs, all_have_view);
    struct cop_settings joiner = runs_joiner(runs, 3, "new");
    joiner.contact = addresses[1];
    joiner.key_file = path;
    runs_start(runs, 3, &joiner);
    runs_until(runs, all_of_two_or_three);
    assert_int_equal(cop_rekey(runs->players[0].run, why, sizeof why), 0);
    assert_int_equal(unlink(path), 0);
    assert_true(cop_rekey(runs->players[0].run, why, sizeof why) < 0);
    assert_true(strlen(why) > 5);
    /* And without one. */
    struct cop_run *run = NULL;
    joiner.name = "newer";
    assert_true(cop_start(&joiner, &run, why, sizeof why) < 0);
    joiner.key_file = NULL;
    assert_int_equal(cop_start(&joiner, &run, why, sizeof why), COP_EREFUSED);
}

static void no_memory_to_start(void **state)
{
    struct runs *runs = *state;
    struct cop_settings kinds[] = {runs_settings(runs, 0, 2),
                                   runs_joiner(runs, 3, "new")};
    for (int k = 0; k < 2; k++) {
        bool is_hit = true;
        for (size_t n = 0; is_hit; n++) {
            struct cop_run *run = NULL;
            char why[200] = "";
            size_t live = failing_alloc_live();
            failing_alloc_after(n);
            int error = cop_start(&kinds[k], &run, why, sizeof why);
            is_hit = failing_alloc_hit();
            failing_alloc_off();
            if (is_hit) {
                assert_int_equal(error, COP_ENOMEM);
                assert_true(strlen(why) > 0);
            }
            cop_free(run);
            assert_int_equal(failing_alloc_live(), live);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(first_view_is_told_by_the_loop, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(members_come_one_by_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_never_comes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_root_dies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_spare_takes_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(leaving_needs_no_detector, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_restarted_member_comes_back, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(who_was_removed_joins_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_was_removed_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nobody_answers_the_joiner, set_up, tear_down),
        cmocka_unit_test_setup_teardown(leaving_before_joining, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_name_that_is_taken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(too_few_are_left, set_up, tear_down),
        cmocka_unit_test_setup_teardown(messages_arrive, set_up, tear_down),
        cmocka_unit_test_setup_teardown(probes_and_inquiries, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_under_way_ends_with_the_run, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(calls_from_a_callback, set_up, tear_down),
        cmocka_unit_test_setup_teardown(calls_after_the_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_arguments, set_up, tear_down),
        cmocka_unit_test(no_run_at_all),
        cmocka_unit_test_setup_teardown(settings_that_are_wrong, set_up, tear_down),
        cmocka_unit_test_setup_teardown(settings_of_a_later_version, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_same_place_twice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tcp_on_a_free_port, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stranger_does_not_begin, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tcp_with_a_key, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_memory_to_start, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
