/* SPDX-License-Identifier: Apache-2.0 */
/* A process to be looked at: says "ready", and then does what its argument says for ever. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile unsigned long turns;

__attribute__((noinline)) static void spin_for_ever(void)
{
    for (;;)
        turns++;
}

__attribute__((noinline)) static void wait_for_ever(void)
{
    for (;;)
        pause();
}

__attribute__((noinline)) static void outer_work(int spins)
{
    if (spins)
        spin_for_ever();
    wait_for_ever();
}

static void *thread_begin(void *arg)
{
    (void)arg;
    wait_for_ever();
    return NULL;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "wait";
    pthread_t thread;
    if (strcmp(what, "threads") == 0 &&
        pthread_create(&thread, NULL, thread_begin, NULL))
        return 1;
    puts("ready");
    fflush(stdout);
    outer_work(strcmp(what, "spin") == 0);
    return 0;
}
