/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls inside an event loop of the program's own: epoll on the run's descriptor, on a timer,
 * and on standard input. With every tick it asks everybody for a number, and goes on without
 * waiting; several calls may be under way.
 *
 *   epoll_calls INSTANCE SELF ADDRESS...
 */
#include <coppice/coppice.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define COUNT 4

static int tell_one(void *context, struct cop_run *run, struct cop_task *task)
{
    int64_t one = 1;
    (void)context;
    return cop_reply(run, task->number, 0, &one, sizeof one);
}

static void on_counted(void *context, int status, const struct cop_bcast_result *result)
{
    struct cop_run *run = context;
    if (result == NULL) {
        printf("n%u: %s\n", cop_self(run), cop_strerror(status));
        return;
    }
    printf("n%u: %lld of %u:", cop_self(run), (long long)cop_value(result, 0),
           result->members);
    for (uint32_t i = 0; i < result->failure_count; i++)
        printf(" n%u %s,", result->failures[i].node,
               cop_strerror(result->failures[i].status));
    printf(" %s\n", cop_strerror(status));
}

static void tick(struct cop_run *run, int timer)
{
    struct cop_call call = {.service = COUNT, .op = COP_OP_SUM};
    uint64_t times;
    if (read(timer, &times, sizeof times) != sizeof times)
        return;
    int error = cop_rpc(run, &call, on_counted, run);
    if (error != 0 && error != COP_ESTATE) /* it is no member yet */
        printf("n%u: %s\n", cop_self(run), cop_strerror(error));
}

static int watch(int epoll, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static int loop(struct cop_run *run)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    struct itimerspec often = {{0, 20 * 1000 * 1000}, {0, 1}};
    struct epoll_event events[4];
    bool ends = false;
    if (epoll < 0 || timer < 0 || timerfd_settime(timer, 0, &often, NULL) != 0 ||
        watch(epoll, cop_fd(run)) != 0 || watch(epoll, timer) != 0 ||
        watch(epoll, STDIN_FILENO) != 0) {
        perror("epoll_calls");
        return 1;
    }
    while (!ends && cop_state(run) != COP_RUN_OVER) {
        int count = epoll_wait(epoll, events, 4, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd == cop_fd(run))
                cop_dispatch(run);
            else if (events[i].data.fd == timer)
                tick(run, timer);
            else
                ends = true; /* anything on the input */
        }
    }
    close(timer);
    close(epoll);
    return 0;
}

int main(int argc, char **argv)
{
    struct cop_handlers service = {
        .size = sizeof service, .service = COUNT, .run = tell_one};
    struct cop_settings settings = {
        .size = sizeof settings,
        .cluster = "epoll_calls",
        .instance = argc > 3 ? strtoull(argv[1], NULL, 10) : 0,
        .self = argc > 3 ? (cop_id)strtoul(argv[2], NULL, 10) : 0,
        .addresses = (const char *const *)argv + 3,
        .count = argc > 3 ? (uint32_t)argc - 3 : 0,
        .quorum = "none",
        .insecure = true,
        .services = &service,
        .service_count = 1,
    };
    struct cop_run *run;
    char why[200];
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (cop_start(&settings, &run, why, sizeof why) != 0)
        return fprintf(stderr, "epoll_calls: %s\n", why), 1;
    int status = loop(run);
    cop_free(run);
    return status;
}
