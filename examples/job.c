/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job that survives: every process of it is a member, found through the launcher that
 * started it. Nothing else has to be configured.
 *
 *   mpirun --enable-recovery -n 8 job [VICTIM...]
 *   mpiexec.hydra -disable-auto-cleanup -n 8 job [VICTIM...]
 *
 * When all are there the VICTIMs kill themselves. The others wait for a view without them,
 * count by a probe who is left, and leave.
 */
#include <coppice/coppice.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

struct job {
    struct cop_run *run;
    cop_id self, leader;
    uint32_t size, victims;
    uint32_t counted; /* at the leader: how many have */
    bool is_victim;
};

/* Nobody leaves before everyone has counted. */
static void note_counted(struct job *job)
{
    if (++job->counted < job->size - job->victims)
        return;
    struct cop_view *view = cop_view_current(job->run);
    for (cop_id id = cop_view_next(view, COP_ID_NONE); id != COP_ID_NONE;
         id = cop_view_next(view, id))
        if (id != job->self)
            cop_send(job->run, id, "go", 2, NULL, NULL);
    cop_view_unref(view);
    cop_leave(job->run);
}

static void on_message(void *context, struct cop_run *run,
                       const struct cop_message *message)
{
    struct job *job = context;
    if (message->length == 2)
        cop_leave(run);
    else
        note_counted(job);
}

static void on_counted(void *context, int status, const struct cop_probe_result *result)
{
    struct job *job = context;
    if (status != 0) {
        printf("job: %u cannot count: %s\n", job->self, cop_strerror(status));
        cop_stop(job->run);
        return;
    }
    printf("job: %u counts %u of %u\n", job->self, result->answered, job->size);
    if (job->self == job->leader)
        note_counted(job);
    else
        cop_send(job->run, job->leader, "counted", 7, NULL, NULL);
}

/* The first view has everybody in it. Whoever has the one without the victims counts. */
static void on_view(void *context, struct cop_run *run, struct cop_view *old,
                    struct cop_view *now)
{
    struct job *job = context;
    (void)old;
    job->run = run;
    if (job->is_victim)
        raise(SIGKILL);
    if (cop_view_size(now) != job->size - job->victims)
        return;
    job->leader = cop_view_next(now, COP_ID_NONE);
    cop_probe(run, 60 * COP_SEC, on_counted, job);
}

int main(int argc, char **argv)
{
    struct cop_boot *boot;
    char why[300];
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (cop_boot(&boot, why, sizeof why) != 0) {
        fprintf(stderr, "job: %s\n", why);
        return 1;
    }
    struct job job = {.self = cop_boot_rank(boot),
                      .size = cop_boot_size(boot),
                      .victims = (uint32_t)argc - 1};
    for (int i = 1; i < argc; i++)
        job.is_victim |= (cop_id)strtoul(argv[i], NULL, 10) == job.self;
    struct cop_settings settings = {.size = sizeof settings,
                                    .context = &job,
                                    .on_view = on_view,
                                    .on_message = on_message};
    cop_boot_settings(boot, &settings);
    int error = cop_start(&settings, &job.run, why, sizeof why);
    cop_boot_free(boot);
    if (error) {
        fprintf(stderr, "job: %s\n", why);
        return 1;
    }
    while (cop_state(job.run) != COP_RUN_OVER)
        cop_poll(job.run, -1);
    cop_free(job.run);
    return 0;
}
