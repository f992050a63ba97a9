/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member with an event loop of its own. The library is one descriptor among others: here
 * beside standard input, from which "leave" is read.
 *
 *   poll_loop INSTANCE SELF ADDRESS...
 *
 * Start one process for each address, all with the same instance (say, $(date +%s)):
 *
 *   poll_loop 1 0 unix:/tmp/a unix:/tmp/b unix:/tmp/c &
 *   poll_loop 1 1 unix:/tmp/a unix:/tmp/b unix:/tmp/c &
 *   poll_loop 1 2 unix:/tmp/a unix:/tmp/b unix:/tmp/c
 *
 * kill -9 one of them, and see what the others say.
 */
#include <coppice/coppice.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void print_change(const struct cop_view *now,
                         const struct cop_view_change *change)
{
    static const char *const words[] = {" +", " -", " *", " "};
    char name[64], other[64];
    cop_view_name(now, change->id, name, sizeof name);
    printf("%s%s", words[change->kind], name);
    if (change->kind == COP_VIEW_REPLACED) {
        cop_view_name(now, change->old_worker, other, sizeof other);
        printf(" works for %s", other);
    }
}

/* Every member is told the same views in the same order. */
static void on_view(void *context, struct cop_run *run, struct cop_view *old,
                    struct cop_view *now)
{
    struct cop_view_change change;
    uint64_t at = 0;
    (void)context;
    printf("n%u: view %" PRIu64 " of %u:", cop_self(run), cop_view_epoch(now),
           cop_view_size(now));
    if (old == NULL)
        printf(" the first");
    else
        while (cop_view_compare(old, now, &at, &change))
            print_change(now, &change);
    printf("\n");
}

/* Too few to agree on anything. This program waits for the others; it could also stop. */
static void on_degraded(void *context, struct cop_run *run, bool is_degraded)
{
    (void)context;
    printf("n%u: %s\n", cop_self(run), is_degraded ? "degraded" : "no longer degraded");
}

static void on_out(void *context, struct cop_run *run, int why)
{
    (void)context;
    printf("n%u: %s\n", cop_self(run), why == 0 ? "left" : cop_strerror(why));
}

static void read_input(struct cop_run *run, struct pollfd *input)
{
    char line[64];
    ssize_t length = read(STDIN_FILENO, line, sizeof line);
    if (length <= 0)
        input->fd = -1; /* poll takes no notice of it any more */
    else if (strncmp(line, "leave", 5) == 0 && cop_leave(run) == COP_EDEGRADED)
        cop_stop(run);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: poll_loop INSTANCE SELF ADDRESS...\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct cop_settings settings = {
        .size = sizeof settings,
        .cluster = "poll_loop",
        .instance = strtoull(argv[1], NULL, 10),
        .self = (cop_id)strtoul(argv[2], NULL, 10),
        .addresses = (const char *const *)argv + 3,
        .count = (uint32_t)argc - 3,
        .insecure = true, /* over TCP, too; otherwise set key_file */
        .on_view = on_view,
        .on_degraded = on_degraded,
        .on_out = on_out,
    };
    struct cop_run *run;
    char why[200];
    if (cop_start(&settings, &run, why, sizeof why) != 0) {
        fprintf(stderr, "poll_loop: %s\n", why);
        return 1;
    }
    struct pollfd fds[] = {{cop_fd(run), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    while (cop_state(run) != COP_RUN_OVER) {
        if (poll(fds, 2, -1) < 0)
            continue; /* a signal */
        if (fds[1].revents != 0)
            read_input(run, &fds[1]);
        cop_dispatch(run); /* calls on_view and the others */
    }
    cop_free(run);
    return 0;
}
