/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/stuck.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* In seconds; much longer than MPI takes, also on a machine that has too much to do. */
#define PATIENCE 60

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
    const cop_id *ids; /* NULL: nothing is being made */
    int count;
    uint64_t times; /* how often something was made */
    bool is_watched;
} making;

void cop__stuck_enter(const cop_id *ids, int count)
{
    pthread_mutex_lock(&mutex);
    making.ids = ids;
    making.count = count;
    making.times++;
    making.is_watched = false;
    pthread_mutex_unlock(&mutex);
}

void cop__stuck_leave(void)
{
    pthread_mutex_lock(&mutex);
    making.ids = NULL;
    pthread_mutex_unlock(&mutex);
}

static time_t patience(void)
{
    const char *text = getenv("COPPICE_MPI_STUCK");
    long seconds = text ? strtol(text, NULL, 10) : 0;
    return seconds > 0 ? seconds : PATIENCE;
}

struct watch {
    uint64_t times;
    cop_id dead; /* COP_ID_NONE: nobody can know */
};

/* Whoever waits in MPI is past using stdio. */
static void say_why(cop_id dead, long seconds)
{
    if (dead == COP_ID_NONE)
        dprintf(STDERR_FILENO,
                "coppice: this process was cut off from the others while MPI made a "
                "communicator, and has waited for %ld s: ended (COPPICE_MPI_STUCK sets "
                "the time)\n",
                seconds);
    else
        dprintf(STDERR_FILENO,
                "coppice: process %u died while MPI made a communicator, and MPI has "
                "waited for it for %ld s: ended (COPPICE_MPI_STUCK sets the time)\n",
                (unsigned)dead, seconds);
}

static void *watch(void *context)
{
    struct watch seen = *(struct watch *)context;
    const struct timespec time = {.tv_sec = patience()};
    free(context);
    nanosleep(&time, NULL);
    pthread_mutex_lock(&mutex);
    if (making.ids != NULL && making.times == seen.times) {
        say_why(seen.dead, (long)time.tv_sec);
        _exit(EXIT_FAILURE);
    }
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void start_watch(cop_id dead)
{
    pthread_t thread;
    struct watch *context = malloc(sizeof *context);
    if (context == NULL)
        return;
    *context = (struct watch){making.times, dead};
    making.is_watched = pthread_create(&thread, NULL, watch, context) == 0;
    if (making.is_watched)
        pthread_detach(thread);
    else
        free(context);
}

void cop__stuck_look(const bool *failed)
{
    pthread_mutex_lock(&mutex);
    for (int i = 0; making.ids != NULL && !making.is_watched && i < making.count; i++)
        if (failed[making.ids[i]])
            start_watch(making.ids[i]);
    pthread_mutex_unlock(&mutex);
}

void cop__stuck_alone(void)
{
    pthread_mutex_lock(&mutex);
    if (making.ids != NULL && !making.is_watched)
        start_watch(COP_ID_NONE);
    pthread_mutex_unlock(&mutex);
}
