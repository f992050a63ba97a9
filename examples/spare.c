/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocking style: the library has a thread of its own, and this program just waits for the
 * next view. Each member does the work of a rank; a spare does none, until it takes over
 * that of one who died.
 *
 *   spare INSTANCE SELF ADDRESS...      a worker of the start
 *   spare join CONTACT NAME             a spare, which joins by any member's address
 *
 * It ends when the work is done: here, when a line comes in.
 */
#include <coppice/coppice.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The rank of work that a view gives to a member. */
static uint32_t rank_of(const struct cop_view *view, cop_id id)
{
    struct cop_member member;
    return cop_view_member(view, id, &member) == 0 ? member.role : COP_SPARE;
}

/* Waits for views, and says so when the work is another. */
static void *work(void *argument)
{
    struct cop_run *run = argument;
    struct cop_view *view;
    cop_epoch epoch = 0;
    char name[64], before[16] = "nothing", now[16];
    /* Any thread may ask; a view can be kept as long as one likes. */
    while (cop_view_wait(run, epoch, COP_TIME_NEVER, &view) == 0) {
        uint32_t rank = rank_of(view, cop_self(run));
        epoch = cop_view_epoch(view);
        cop_view_name(view, cop_self(run), name, sizeof name);
        if (rank == COP_SPARE)
            snprintf(now, sizeof now, "spare");
        else
            snprintf(now, sizeof now, "rank %u", rank);
        if (strcmp(before, now) != 0)
            printf("%s: was %s, is %s\n", name, before, now);
        snprintf(before, sizeof before, "%s", now);
        cop_view_unref(view);
    }
    return NULL;
}

/* Who replaced whom is also told by a callback, on the library's thread. */
static void on_view(void *context, struct cop_run *run, struct cop_view *old,
                    struct cop_view *now)
{
    struct cop_view_change change;
    uint64_t at = 0;
    char from[64], to[64];
    (void)context, (void)run;
    while (old != NULL && cop_view_compare(old, now, &at, &change)) {
        if (change.kind != COP_VIEW_REPLACED)
            continue;
        cop_view_name(now, change.old_worker, from, sizeof from);
        cop_view_name(now, change.new_worker, to, sizeof to);
        printf("rank %u: %s replaced by %s\n", change.role, from, to);
    }
}

int main(int argc, char **argv)
{
    struct cop_settings settings = {
        .size = sizeof settings, .insecure = true, .on_view = on_view};
    struct cop_run *run;
    pthread_t worker;
    char why[200];
    if (argc < 4) {
        fprintf(stderr, "usage: spare INSTANCE SELF ADDRESS...\n"
                        "       spare join CONTACT NAME\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (strcmp(argv[1], "join") == 0) {
        settings.contact = argv[2];
        settings.name = argv[3];
        settings.spare = true;
    } else {
        settings.cluster = "spare";
        settings.instance = strtoull(argv[1], NULL, 10);
        settings.self = (cop_id)strtoul(argv[2], NULL, 10);
        settings.addresses = (const char *const *)argv + 3;
        settings.count = (uint32_t)argc - 3;
    }
    if (cop_start_thread(&settings, &run, why, sizeof why) != 0) {
        fprintf(stderr, "spare: %s\n", why);
        return 1;
    }
    if (pthread_create(&worker, NULL, work, run) != 0)
        return 1;
    getchar();
    /* A goodbye, so that nobody has to find out. If it is not to be, so be it. */
    int error = cop_leave_wait(run, 10 * COP_SEC);
    printf("%s\n", error ? cop_strerror(error) : "left");
    cop_stop(run);
    pthread_join(worker, NULL);
    cop_free(run);
    return 0;
}
