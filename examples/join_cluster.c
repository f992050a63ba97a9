/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins a running cluster, here one that `coppice up` started, asks everyone how they are,
 * and leaves again.
 *
 *   coppice up -n 8
 *   join_cluster $XDG_RUNTIME_DIR/coppice/default/m0.sock visitor
 *   coppice down
 */
#include <coppice/coppice.h>
#include <stdio.h>

static int ask_everyone(struct cop_run *run)
{
    struct cop_probe_result result;
    int error = cop_probe_wait(run, 5 * COP_SEC, &result);
    if (error != 0 && error != COP_ETIMEDOUT)
        return error;
    printf("%u of %u answered in %.1f us\n", result.answered, result.members,
           (double)result.elapsed_ns / 1000);
    cop_probe_result_free(&result);
    return error;
}

static int visit(struct cop_run *run)
{
    struct cop_view *view;
    int error = cop_view_wait(run, 0, 30 * COP_SEC, &view);
    if (error)
        return error;
    printf("joined as %u: %u members\n", cop_self(run), cop_view_size(view));
    cop_view_unref(view);
    error = ask_everyone(run);
    int left = cop_leave_wait(run, 30 * COP_SEC);
    return error ? error : left;
}

int main(int argc, char **argv)
{
    struct cop_run *run;
    char why[200];
    if (argc != 3) {
        fprintf(stderr, "usage: join_cluster CONTACT NAME\n");
        return 2;
    }
    struct cop_settings settings = {
        .size = sizeof settings, .contact = argv[1], .name = argv[2], .insecure = true};
    if (cop_start_thread(&settings, &run, why, sizeof why) != 0) {
        fprintf(stderr, "join_cluster: %s\n", why);
        return 1;
    }
    int error = visit(run);
    cop_free(run);
    printf("%s\n", error ? cop_strerror(error) : "left");
    return error ? 1 : 0;
}
