/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Capabilities that can be taken back. A capability is a tag of 128 bits; whoever has granted
 * it to some members revokes it at all of them with one call over a group of the holders,
 * and knows afterwards that no living member has it: a holder answers only when nobody uses
 * it any more, and one that died has lost it with its memory.
 *
 *   revoke INSTANCE SELF ADDRESS...
 *
 * Lines of its input:
 *   grant NUMBER ID...   to these members
 *   revoke               the one that was granted last
 *   use, release         this member begins, ends to use whatever it has
 */
#include <coppice/coppice.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CAPABILITIES 2
#define HOLDERS_MAX 16u

enum { GRANT = 'g', REVOKE = 'r' };

struct holder {
    struct cop_run *run;
    /* What this member has. */
    struct cop_tag capability;
    bool has_it, uses_it;
    uint64_t waiting; /* a revocation that waits for the end of the use; 0: none */
    /* What it has granted. */
    uint64_t group;
};

/* ---- the member that holds it ---------------------------------------------------- */

static bool is_sane(const struct cop_task *task)
{
    return task->length == 1 && (task->bytes[0] == GRANT || task->bytes[0] == REVOKE) &&
           (task->tag_count == 1 || task->call != 0);
}

static int check(void *context, struct cop_run *run, struct cop_task *task)
{
    (void)context;
    (void)run;
    return is_sane(task) ? 0 : COP_EMALFORMED;
}

static int change(void *context, struct cop_run *run, struct cop_task *task)
{
    struct holder *holder = context;
    if (task->tag_count == 0)
        return 0; /* who grants need not hold */
    if (task->bytes[0] == GRANT) {
        holder->capability = task->tags[0];
        holder->has_it = true;
        printf("n%u: has %u\n", cop_self(run), task->tags[0].bytes[0]);
        return 0;
    }
    if (holder->uses_it) {
        printf("n%u: not yet\n", cop_self(run));
        holder->waiting = task->number;
        return COP_LATER;
    }
    holder->has_it = false;
    printf("n%u: dropped\n", cop_self(run));
    return 0;
}

static void release(struct holder *holder)
{
    holder->uses_it = false;
    if (holder->waiting == 0)
        return;
    holder->has_it = false;
    printf("n%u: dropped\n", cop_self(holder->run));
    /* COP_ENOENT: whoever revoked it has given up, or is gone; then it does not matter. */
    cop_reply(holder->run, holder->waiting, 0, NULL, 0);
    holder->waiting = 0;
}

/* ---- the member that grants and revokes ------------------------------------------ */

static void on_ended(void *context, int status, const struct cop_bcast_result *result)
{
    const struct holder *holder = context;
    uint32_t lost = 0;
    for (uint32_t i = 0; result != NULL && i < result->failure_count; i++)
        lost += result->failures[i].status == COP_ELOST;
    if (status != 0 || result == NULL || lost < result->failure_count)
        printf("n%u: failed: %s\n", cop_self(holder->run), cop_strerror(status));
    else
        printf("n%u: sure of %u, %u lost it by dying\n", cop_self(holder->run),
               result->answered, lost);
}

static void call(struct holder *holder, uint8_t what, uint32_t flags)
{
    struct cop_call all = {.group = holder->group,
                           .bytes = &what,
                           .length = 1,
                           .timeout_ns = 60 * COP_SEC,
                           .flags = flags};
    int error = cop_rpc(holder->run, &all, on_ended, holder);
    if (error)
        printf("n%u: %s\n", cop_self(holder->run), cop_strerror(error));
}

/* The group rides with the first call, and ends with the last. */
static void grant(struct holder *holder, char *words)
{
    char *rest = words;
    struct cop_tag tag = {{(uint8_t)strtoul(rest, &rest, 10)}};
    struct cop_target targets[HOLDERS_MAX + 1] = {{cop_self(holder->run), NULL, 0}};
    struct cop_group_spec spec = {.kind = COP_GROUP_LAZY,
                                  .service = CAPABILITIES,
                                  .name = "holders",
                                  .targets = targets,
                                  .target_count = 1};
    for (char *word; spec.target_count <= HOLDERS_MAX; rest = word) {
        cop_id id = (cop_id)strtoul(rest, &word, 10);
        if (word == rest)
            break;
        targets[spec.target_count++] = (struct cop_target){id, &tag, 1};
    }
    int error = cop_group_create(holder->run, &spec, &holder->group, NULL, NULL);
    if (error)
        printf("n%u: %s\n", cop_self(holder->run), cop_strerror(error));
    else
        call(holder, GRANT, 0);
}

/* ---- the program ----------------------------------------------------------------- */

static void do_line(struct holder *holder, char *line)
{
    if (strncmp(line, "grant ", 6) == 0)
        grant(holder, line + 6);
    else if (strncmp(line, "revoke", 6) == 0)
        call(holder, REVOKE, COP_BCAST_LAST);
    else if (strncmp(line, "use", 3) == 0)
        holder->uses_it = true;
    else
        release(holder);
}

static void on_view(void *context, struct cop_run *run, struct cop_view *old,
                    struct cop_view *now)
{
    (void)context;
    (void)old;
    printf("n%u: of %u\n", cop_self(run), cop_view_size(now));
}

int main(int argc, char **argv)
{
    struct holder holder = {0};
    struct cop_handlers service = {.size = sizeof service,
                                   .service = CAPABILITIES,
                                   .context = &holder,
                                   .check = check,
                                   .run = change};
    struct cop_settings settings = {
        .size = sizeof settings,
        .cluster = "revoke",
        .instance = argc > 3 ? strtoull(argv[1], NULL, 10) : 0,
        .self = argc > 3 ? (cop_id)strtoul(argv[2], NULL, 10) : 0,
        .addresses = (const char *const *)argv + 3,
        .count = argc > 3 ? (uint32_t)argc - 3 : 0,
        .quorum = "none",
        .insecure = true,
        .on_view = on_view,
        .services = &service,
        .service_count = 1,
    };
    char why[200], line[256];
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (cop_start(&settings, &holder.run, why, sizeof why) != 0)
        return fprintf(stderr, "revoke: %s\n", why), 1;
    struct pollfd fds[] = {{cop_fd(holder.run), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    while (cop_state(holder.run) != COP_RUN_OVER) {
        if (poll(fds, 2, -1) < 0)
            continue;
        if (fds[1].revents != 0) {
            ssize_t length = read(STDIN_FILENO, line, sizeof line - 1);
            if (length <= 0)
                break;
            line[length] = '\0';
            for (char *at = strtok(line, "\n"); at != NULL; at = strtok(NULL, "\n"))
                do_line(&holder, at);
        }
        cop_dispatch(holder.run);
    }
    cop_free(holder.run);
    return 0;
}
