/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agreement: members take one step after the other, and none takes a step before all who live
 * have agreed what came of the last one. Whoever dies is agreed to have failed, by all or
 * by none, and the others go on.
 *
 *   agree INSTANCE SELF STEPS PAUSE_MS ADDRESS...
 *
 * Each contributes the sum of all results that it has seen. If two of them had ever returned
 * different things, or one had missed a step, the least and the greatest of these would
 * differ: so the agreements check themselves.
 */
#include <coppice/coppice.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define GROUP 1

/* The least of the first words, and the least of the complements of the second: one
 * operation of the program's own. */
static int spread(const void *left, uint32_t left_length, const void *right,
                  uint32_t right_length, void *out, uint32_t *out_length)
{
    const uint64_t *a = left, *b = right;
    uint64_t *least = out;
    if (left_length != 16 || right_length != 16)
        return COP_EINVAL;
    least[0] = a[0] < b[0] ? a[0] : b[0];
    least[1] = a[1] > b[1] ? a[1] : b[1];
    *out_length = 16;
    return 0;
}
static const struct cop_operation operations[] = {{"spread", spread}};

static void print_failed(unsigned self, unsigned long step,
                         const struct cop_agreed *agreed)
{
    printf("n%u: in step %lu these have failed:", self, step);
    for (uint32_t i = 0; i < agreed->failed.count; i++)
        printf(" n%u", (unsigned)agreed->failed.items[i]);
    putchar('\n');
}

/* One step: how many live, and whether all have seen the same so far. */
static int take_step(struct cop_run *run, uint64_t *seen, struct cop_agreed *agreed)
{
    uint64_t one = 1, two[2] = {*seen, *seen};
    struct cop_agree_call count = {
        .group = GROUP, .op = COP_AGREE_SUM, .value = &one, .length = sizeof one};
    struct cop_agree_call same = {.group = GROUP,
                                  .op = COP_AGREE_USER + 0,
                                  .type = COP_VALUE_BYTES,
                                  .value = two,
                                  .length = sizeof two};
    int status = cop_agree_wait(run, &same, agreed);
    if (status == 0 && cop_agreed_word(agreed, 0) != cop_agreed_word(agreed, 1))
        status = COP_EEXIST;
    cop_agreed_free(agreed);
    if (status == 0)
        status = cop_agree_wait(run, &count, agreed);
    if (status == 0)
        *seen = *seen * 31 + cop_agreed_word(agreed, 0) * 1000 + agreed->failed.count;
    return status;
}

static int take_steps(struct cop_run *run, unsigned long steps, unsigned long pause_ms)
{
    uint32_t failed = 0;
    uint64_t seen = 0;
    unsigned self = cop_self(run);
    for (unsigned long step = 1; step <= steps; step++) {
        struct cop_agreed agreed;
        struct timespec pause = {0, (long)(pause_ms * 1000000)};
        int status = take_step(run, &seen, &agreed);
        if (status) {
            printf("n%u: step %lu: %s\n", self, step, cop_strerror(status));
            return 1;
        }
        if (agreed.failed.count > failed || step % 100 == 0)
            print_failed(self, step, &agreed);
        failed = agreed.failed.count;
        cop_agreed_free(&agreed);
        nanosleep(&pause, NULL);
    }
    printf("n%u: done, %u have failed, all have seen %016llx\n", self, (unsigned)failed,
           (unsigned long long)seen);
    return 0;
}

int main(int argc, char **argv)
{
    struct cop_run *run;
    struct cop_view *view;
    char why[200];
    if (argc < 7) {
        fprintf(stderr, "usage: agree INSTANCE SELF STEPS PAUSE_MS ADDRESS...\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct cop_settings settings = {
        .size = sizeof settings,
        .cluster = "agree",
        .instance = strtoull(argv[1], NULL, 10),
        .self = (cop_id)strtoul(argv[2], NULL, 10),
        .addresses = (const char *const *)argv + 5,
        .count = (uint32_t)argc - 5,
        .quorum = "none", /* the last one goes on alone */
        .insecure = true,
        .operations = operations,
        .operation_count = 1,
    };
    if (cop_start_thread(&settings, &run, why, sizeof why) != 0) {
        fprintf(stderr, "agree: %s\n", why);
        return 1;
    }
    /* The first view is the one that all began with; it may not be the latest by now. */
    struct cop_life *members = calloc(settings.count, sizeof *members);
    for (uint32_t i = 0; i < settings.count && members; i++)
        members[i] = (struct cop_life){i, settings.instance};
    struct cop_agree_group group = {
        .number = GROUP, .members = members, .count = settings.count};
    int status = members ? cop_view_wait(run, 0, 30 * COP_SEC, &view) : COP_ENOMEM;
    if (status == 0) {
        cop_view_unref(view);
        status = cop_agree_group_create(run, NULL, &group);
    }
    free(members);
    if (status != 0)
        fprintf(stderr, "agree: %s\n", cop_strerror(status));
    int code = status ? 1
                      : take_steps(run, strtoul(argv[3], NULL, 10),
                                   strtoul(argv[4], NULL, 10));
    if (status == 0)
        cop_agree_group_free(run, GROUP);
    cop_leave_wait(run, 10 * COP_SEC);
    cop_free(run);
    return code;
}
