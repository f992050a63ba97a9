/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A health check: how much memory is free where it is scarcest, and who does not answer?
 * Every member serves; whoever reads a line from its input asks everybody.
 *
 *   health INSTANCE SELF ADDRESS...
 */
#include <coppice/coppice.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define HEALTH 1

static int tell_free(void *context, struct cop_run *run, struct cop_task *task)
{
    int64_t pages = sysconf(_SC_AVPHYS_PAGES);
    (void)context;
    return cop_reply(run, task->number, 0, &pages, sizeof pages);
}

static void ask(struct cop_run *run)
{
    struct cop_call call = {.service = HEALTH, .op = COP_OP_MIN};
    struct cop_bcast_result all;
    int error = cop_rpc_wait(run, &call, &all);
    printf("n%u: %u of %u are well, %s", cop_self(run), all.answered, all.members,
           cop_strerror(error));
    if (cop_values(&all) > 0)
        printf(", at least %lld pages free", (long long)cop_value(&all, 0));
    for (uint32_t i = 0; i < all.failure_count; i++)
        printf(", n%u: %s", all.failures[i].node, cop_strerror(all.failures[i].status));
    printf("\n");
    cop_result_free(&all);
}

int main(int argc, char **argv)
{
    struct cop_handlers health = {
        .size = sizeof health, .service = HEALTH, .run = tell_free};
    struct cop_settings settings = {
        .size = sizeof settings,
        .cluster = "health",
        .instance = argc > 3 ? strtoull(argv[1], NULL, 10) : 0,
        .self = argc > 3 ? (cop_id)strtoul(argv[2], NULL, 10) : 0,
        .addresses = (const char *const *)argv + 3,
        .count = argc > 3 ? (uint32_t)argc - 3 : 0,
        .insecure = true, /* over TCP, too; otherwise set key_file */
        .services = &health,
        .service_count = 1,
    };
    struct cop_run *run;
    struct cop_view *view;
    char why[200];
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (cop_start_thread(&settings, &run, why, sizeof why) != 0)
        return fprintf(stderr, "health: %s\n", why), 1;
    if (cop_view_wait(run, 0, COP_TIME_NEVER, &view) == 0) {
        printf("n%u: of %u\n", cop_self(run), cop_view_size(view));
        cop_view_unref(view);
    }
    while (getchar() == '\n') /* a line, and nothing on it */
        ask(run);
    cop_free(run);
    return 0;
}
