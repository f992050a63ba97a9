/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file for every member. It goes through the tree in pieces, and each member passes on what
 * it has while more comes; if one dies in the middle those below it go on elsewhere, from where
 * they are. A member has all of it under its name, or nothing.
 *
 *   distribute INSTANCE SELF FOLDER ADDRESS...
 *
 * Each writes FOLDER/nSELF. Lines of its input:
 *   give FILE   to all
 *   hold        this member takes no more pieces than fit into its window
 *   go on       but now it does
 */
#include <coppice/coppice.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES 5

struct member {
    struct cop_run *run;
    const char *folder;
    char part[200], whole[200];
    int fd; /* of `part`; -1 */
    /* While it holds, pieces are taken by a callback, and these were not put away yet. */
    bool holds;
    uint64_t task;
    unsigned held;
};

/* ---- the member that gets it ----------------------------------------------------- */

static int open_part(struct member *member)
{
    unsigned self = cop_self(member->run);
    snprintf(member->part, sizeof member->part, "%s/n%u.part", member->folder, self);
    snprintf(member->whole, sizeof member->whole, "%s/n%u", member->folder, self);
    if (member->fd >= 0)
        close(member->fd);
    member->fd =
        open(member->part, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, S_IRUSR | S_IWUSR);
    return member->fd >= 0 ? 0 : COP_EIO;
}

static int check(void *context, struct cop_run *run, struct cop_task *task)
{
    struct member *member = context;
    int error = open_part(member);
    if (error || member->holds)
        return error;
    return cop_bulk_to_file(run, task->number, member->fd, 0);
}

/* Only where it goes nowhere else: at the root, and while this member holds. */
static int take(void *context, struct cop_run *run, struct cop_task *task,
                const struct cop_piece *piece)
{
    struct member *member = context;
    if (task->call != 0)
        return 0; /* the root has it */
    if (pwrite(member->fd, piece->bytes, piece->length, (off_t)piece->offset) !=
        (ssize_t)piece->length)
        return COP_EIO;
    if (!member->holds)
        return 0;
    if (member->held++ == 0)
        printf("n%u: holds\n", cop_self(run));
    member->task = task->number;
    return COP_LATER;
}

static void hold(struct member *member)
{
    member->holds = true;
    printf("n%u: will hold\n", cop_self(member->run));
}

static void go_on(struct member *member)
{
    member->holds = false;
    for (; member->held > 0; member->held--)
        cop_piece_done(member->run, member->task, 0);
}

/* All of it is here, and is what was given; or it will not come. */
static int finish(void *context, struct cop_run *run, struct cop_task *task)
{
    struct member *member = context;
    if (task->call != 0)
        return 0;
    if (task->bulk_status == 0)
        return rename(member->part, member->whole) == 0 ? 0 : COP_EIO;
    printf("n%u: nothing came of it: %s\n", cop_self(run),
           cop_strerror(task->bulk_status));
    unlink(member->part);
    return task->bulk_status;
}

/* ---- the member that gives it ---------------------------------------------------- */

static void on_ended(void *context, int status, const struct cop_bcast_result *result)
{
    const struct member *member = context;
    unsigned self = cop_self(member->run), lost = 0;
    if (status != 0) {
        printf("n%u: %s\n", self, cop_strerror(status));
        return;
    }
    for (uint32_t i = 0; i < result->failure_count; i++) {
        const struct cop_failure *failure = &result->failures[i];
        lost += failure->status == COP_ELOST;
        printf("n%u: n%u has it not: %s, %s\n", self, failure->node,
               cop_strerror(failure->status), cop_phase_name(failure->phase));
    }
    printf("n%u: %u have it, %u died\n", self, result->answered, lost);
}

static void give(struct member *member, const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0) {
        perror(path);
        return;
    }
    struct cop_bulk bulk = {.length = (uint64_t)status.st_size, .fd = fd};
    struct cop_call call = {
        .service = FILES, .bulk = &bulk, .timeout_ns = 300 * COP_SEC};
    int error = cop_rpc(member->run, &call, on_ended, member);
    if (error)
        printf("n%u: %s\n", cop_self(member->run), cop_strerror(error));
    close(fd); /* the call has its own */
}

/* ---- the program ----------------------------------------------------------------- */

static void do_line(struct member *member, char *line)
{
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "give ", 5) == 0)
        give(member, line + 5);
    else if (strcmp(line, "hold") == 0)
        hold(member);
    else
        go_on(member);
}

static void on_view(void *context, struct cop_run *run, struct cop_view *old,
                    struct cop_view *now)
{
    (void)context;
    (void)old;
    printf("n%u: of %u\n", cop_self(run), cop_view_size(now));
}

static void serve(struct member *member)
{
    char line[300];
    struct pollfd wait[] = {{.fd = cop_fd(member->run), .events = POLLIN},
                            {.fd = 0, .events = POLLIN}};
    while (cop_state(member->run) != COP_RUN_OVER && poll(wait, 2, -1) >= 0) {
        if (wait[0].revents != 0)
            cop_dispatch(member->run);
        if (wait[1].revents != 0) {
            if (fgets(line, sizeof line, stdin) == NULL)
                return;
            do_line(member, line);
        }
    }
}

int main(int argc, char **argv)
{
    char message[200];
    if (argc < 5) {
        fprintf(stderr, "usage: distribute INSTANCE SELF FOLDER ADDRESS...\n");
        return 2;
    }
    struct member member = {.folder = argv[3], .fd = -1};
    struct cop_handlers files = {.size = sizeof files,
                                 .service = FILES,
                                 .context = &member,
                                 .check = check,
                                 .piece = take,
                                 .run = finish};
    struct cop_settings settings = {.size = sizeof settings,
                                    .cluster = "distribute",
                                    .instance = strtoull(argv[1], NULL, 10),
                                    .self = (cop_id)strtoul(argv[2], NULL, 10),
                                    .addresses = (const char *const *)(argv + 4),
                                    .count = (uint32_t)(argc - 4),
                                    .shape = "chain",
                                    .context = &member,
                                    .on_view = on_view,
                                    .services = &files,
                                    .service_count = 1};
    setvbuf(stdout, NULL, _IOLBF, 0);
    setvbuf(stdin, NULL, _IONBF, 0); /* what it has read poll does not know of */
    if (cop_start(&settings, &member.run, message, sizeof message) != 0) {
        fprintf(stderr, "distribute: %s\n", message);
        return 1;
    }
    serve(&member);
    cop_free(member.run);
    if (member.fd >= 0)
        close(member.fd);
    return 0;
}
