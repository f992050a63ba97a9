/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank 0 revokes while the library's thread has too much before it to take another message, as
 * it has when thousands are to be told: all hear of it nevertheless.
 */
#include "case.h"

#include <coppice/coppice.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>

typedef int sender(struct cop_run *, cop_id, const void *, size_t,
                   void (*)(void *, int), void *);

static pthread_t main_thread;
static int refused[8];

/* The library's own, which refuses the first message to each from outside. */
int cop_send(struct cop_run *run, cop_id to, const void *bytes, size_t length,
             void (*done)(void *, int), void *context)
{
    sender *real;
    void *found = dlsym(RTLD_NEXT, "cop_send");
    memcpy(&real, &found, sizeof real);
    if (pthread_equal(pthread_self(), main_thread) && refused[to]++ == 0)
        return COP_EAGAIN;
    return real(run, to, bytes, length, done, context);
}

int main(int argc, char **argv)
{
    int me = begin(&argc, &argv), flag = 0;
    main_thread = pthread_self();
    must(COP_Comm_attach(MPI_COMM_WORLD));
    if (me == 0)
        must(COP_Comm_revoke(MPI_COMM_WORLD));
    require(me != 0 || refused[1] > 0); /* or this shows nothing */
    while (!flag) {
        sched_yield();
        must(COP_Comm_is_revoked(MPI_COMM_WORLD, &flag));
    }
    printf("%d heard\n", me);
    COP_Comm_exit(0);
}
