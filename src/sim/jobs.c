/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/sim.h>

#include "base/random.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Seeds in parallel, each worker a process. Worker j of J runs the seeds whose number is j
 * modulo J; what it found stands in memory shared with the parent. A worker does not run
 * seeds itself but has a child for it: a node that aborts takes only that child with it, the
 * seed in hand is the one that did it, and another child goes on behind it.
 *
 * Whoever runs seeds writes a byte now and then into one pipe. The parent reads it, to tell
 * how far things are, until the last of them has closed it.
 */
struct tally {
    uint64_t next; /* index of the seed in hand */
    uint64_t done, failed, first_failed, events, digest, agreements, deaths;
};

#define JOBS_MAX 256

struct shared {
    atomic_bool stop; /* the caller wants no more */
    struct tally tallies[JOBS_MAX];
};

/* Seeds between two bytes. */
#define NEWS_EVERY 16

/* ---- one seed -------------------------------------------------------------------- */

static void note_failure(struct tally *tally, uint64_t seed)
{
    if (tally->failed == 0 || seed < tally->first_failed)
        tally->first_failed = seed;
    tally->failed++;
}

static void run_seed(const struct cop_sim_swarm *swarm, struct tally *tally,
                     uint64_t seed)
{
    struct cop_sim_script script;
    struct cop_sim_report report;
    bool failed = true;
    if (cop_sim_swarm_script(seed, swarm->flags, &script) == 0) {
        if (cop_sim_script_run(&script, &report) == 0) {
            failed = report.failure[0] != '\0';
            tally->events += report.events;
            tally->agreements += report.agreements;
            tally->deaths += report.deaths;
            /* A sum, so that the order of the seeds does not matter. */
            tally->digest += cop__mix64(seed ^ cop__mix64(report.trace_digest));
        }
        cop_sim_script_free(&script);
    }
    if (failed)
        note_failure(tally, seed);
    tally->done++;
}

static void add_up(const struct tally *tallies, uint32_t count,
                   struct cop_sim_swarm_report *out)
{
    memset(out, 0, sizeof(*out));
    for (uint32_t i = 0; i < count; i++) {
        const struct tally *tally = &tallies[i];
        if (tally->failed &&
            (out->failed == 0 || tally->first_failed < out->first_failed))
            out->first_failed = tally->first_failed;
        out->done += tally->done;
        out->failed += tally->failed;
        out->events += tally->events;
        out->digest += tally->digest;
        out->agreements += tally->agreements;
        out->deaths += tally->deaths;
    }
}

static bool tell_progress(const struct cop_sim_swarm *swarm,
                          const struct tally *tallies, uint32_t count)
{
    struct cop_sim_swarm_report so_far;
    if (!swarm->progress)
        return true;
    add_up(tallies, count, &so_far);
    return swarm->progress(swarm->context, so_far.done, so_far.failed);
}

static int run_here(const struct cop_sim_swarm *swarm, struct cop_sim_swarm_report *out)
{
    struct tally tally;
    memset(&tally, 0, sizeof(tally));
    for (uint64_t i = 0; i < swarm->count; i++) {
        run_seed(swarm, &tally, swarm->first + i);
        if (i % 64 == 63 && !tell_progress(swarm, &tally, 1))
            break;
    }
    add_up(&tally, 1, out);
    return 0;
}

/* ---- workers --------------------------------------------------------------------- */

static _Noreturn void run_seeds(const struct cop_sim_swarm *swarm,
                                struct shared *shared, struct tally *tally, int news)
{
    /* If nobody reads any more, the parent is gone, and so is the reason to go on: but by
     * an error of write, not by a signal, which would look like a node that aborts. */
    signal(SIGPIPE, SIG_IGN);
    for (; tally->next < swarm->count && !shared->stop; tally->next += swarm->jobs) {
        run_seed(swarm, tally, swarm->first + tally->next);
        if (tally->done % NEWS_EVERY == 0 && write(news, "", 1) != 1)
            break;
    }
    _exit(0);
}

/* Waits for a child; its status. */
static int await(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return -1;
    }
    return status;
}

static _Noreturn void work(const struct cop_sim_swarm *swarm, struct shared *shared,
                           struct tally *tally, int news)
{
    while (tally->next < swarm->count && !shared->stop) {
        pid_t pid = fork();
        if (pid < 0)
            _exit(1);
        if (pid == 0)
            run_seeds(swarm, shared, tally, news);
        if (await(pid) == 0)
            break;
        note_failure(tally, swarm->first + tally->next);
        tally->done++;
        tally->next += swarm->jobs;
    }
    _exit(0);
}

/* Starts the workers; how many there are. */
static uint32_t start(const struct cop_sim_swarm *swarm, struct shared *shared,
                      int news[2], pid_t *pids)
{
    fflush(NULL); /* or a child could write what is buffered a second time */
    for (uint32_t i = 0; i < swarm->jobs; i++) {
        shared->tallies[i].next = i;
        pids[i] = fork();
        if (pids[i] < 0)
            return i;
        if (pids[i] == 0) {
            close(news[0]);
            work(swarm, shared, &shared->tallies[i], news[1]);
        }
    }
    return swarm->jobs;
}

/* Reads the news until there will be no more. */
static void follow(const struct cop_sim_swarm *swarm, struct shared *shared, int news)
{
    char bytes[64];
    for (;;) {
        ssize_t got = read(news, bytes, sizeof(bytes));
        if (got == 0 || (got < 0 && errno != EINTR))
            return;
        if (!tell_progress(swarm, shared->tallies, swarm->jobs))
            shared->stop = true;
    }
}

static int run_workers(const struct cop_sim_swarm *swarm, struct shared *shared)
{
    pid_t pids[JOBS_MAX];
    int news[2];
    int error = 0;
    if (pipe(news) != 0)
        return COP_EIO;
    uint32_t started = start(swarm, shared, news, pids);
    close(news[1]);
    if (started < swarm->jobs) {
        shared->stop = true;
        error = COP_EIO;
    }
    follow(swarm, shared, news[0]);
    close(news[0]);
    for (uint32_t i = 0; i < started; i++) {
        if (await(pids[i]) != 0)
            error = COP_EIO;
    }
    return error;
}

static void *share(size_t bytes)
{
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

int cop_sim_swarm_run(const struct cop_sim_swarm *config,
                      struct cop_sim_swarm_report *out)
{
    struct cop_sim_swarm swarm = *config;
    if (swarm.jobs == 0)
        return run_here(&swarm, out);
    swarm.jobs = swarm.jobs < JOBS_MAX ? swarm.jobs : JOBS_MAX;
    struct shared *shared = share(sizeof(*shared));
    if (!shared)
        return COP_ENOMEM;
    int error = run_workers(&swarm, shared);
    add_up(shared->tallies, swarm.jobs, out);
    munmap(shared, sizeof(*shared));
    return error;
}

/* ---- one script in a process of its own ------------------------------------------ */

struct shared_run {
    int error;
    struct cop_sim_report report;
};

static _Noreturn void run_and_exit(const struct cop_sim_script *script,
                                   struct shared_run *run)
{
    /* Only the verdict is wanted: what an assertion prints on its way out is not. */
    if (!freopen("/dev/null", "w", stderr))
        _exit(1);
    run->error = cop_sim_script_run(script, &run->report);
    _exit(0);
}

int cop_sim_script_try(const struct cop_sim_script *script, struct cop_sim_report *out)
{
    struct shared_run *run = share(sizeof(*run));
    if (!run)
        return COP_ENOMEM;
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        munmap(run, sizeof(*run));
        return COP_EIO;
    }
    if (pid == 0)
        run_and_exit(script, run);
    int status = await(pid);
    int error = run->error;
    *out = run->report;
    if (status != 0)
        snprintf(out->failure, sizeof(out->failure), "process: ended with signal %d",
                 WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    munmap(run, sizeof(*run));
    return error;
}
