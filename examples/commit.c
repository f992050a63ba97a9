/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A collective commit: all members change a value, or none does, in two phases.
 *
 *   commit INSTANCE SELF ADDRESS...
 *
 * "set TEXT" on the input of any member makes it the coordinator: it asks all to prepare, and
 * if every member of the view could, tells all to commit, otherwise to undo. "refuse" makes a
 * member say no from then on, and "pause" makes a coordinator stop between the phases, so that
 * it can be killed there.
 *
 * Who is in doubt because the coordinator died asks the others: if anybody has committed, so
 * does everyone; if nobody has, nobody will, for no one who was asked listens to it any more.
 */
#include <coppice/coppice.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMIT 3

enum phase { PREPARE = 'p', DO_COMMIT = 'c', UNDO = 'u', INQUIRE = 'i' };

/* What is sent: a phase, who coordinates and which of its transactions, and the value. */
struct order {
    uint8_t phase;
    uint32_t coordinator, number;
    char value[32];
};
/* What is known of one. */
enum fate { UNKNOWN, PREPARED, COMMITTED, UNDONE };

struct member {
    struct cop_run *run;
    char value[32];
    struct order last; /* that it heard of */
    enum fate fate;    /* of that */
    bool is_asked; /* somebody in doubt: what the coordinator still says is too late */
    bool refuses, pauses;
    uint32_t number; /* of its own latest */
    struct order own;
};

static void call(struct member *member, const struct order *order, cop_call_done *done);

/* ---- every member ---------------------------------------------------------------- */

static bool is_same(const struct order *a, const struct order *b)
{
    return a->coordinator == b->coordinator && a->number == b->number;
}

static int prepare(struct member *member, const struct order *order)
{
    if (member->refuses || member->fate == PREPARED ||
        (is_same(&member->last, order) && member->fate != UNKNOWN))
        return COP_EREFUSED;
    member->last = *order;
    member->fate = PREPARED;
    member->is_asked = false;
    printf("n%u: prepared %s\n", cop_self(member->run), order->value);
    return 0;
}

static void settle(struct member *member, const struct order *order, enum fate fate)
{
    if (!is_same(&member->last, order) || member->fate != PREPARED)
        return;
    member->fate = fate;
    if (fate == COMMITTED)
        memcpy(member->value, order->value, sizeof member->value);
    printf("n%u: %s %s\n", cop_self(member->run),
           fate == COMMITTED ? "committed" : "undid", order->value);
}

/* It says what it knows, and that stays so: what has not been prepared or committed by now
 * will not be on the word of a coordinator that is gone. */
static int64_t inquire(struct member *member, const struct order *order)
{
    if (!is_same(&member->last, order) && member->fate != PREPARED) {
        member->last = *order;
        member->fate = UNDONE;
    }
    if (!is_same(&member->last, order))
        return UNKNOWN;
    member->is_asked = true;
    return member->fate;
}

static int run_order(void *context, struct cop_run *run, struct cop_task *task)
{
    struct member *member = context;
    struct order order;
    int64_t fate;
    if (task->length != sizeof order)
        return COP_EMALFORMED;
    memcpy(&order, task->bytes, sizeof order);
    order.value[sizeof order.value - 1] = '\0';
    switch (order.phase) {
    case PREPARE:
        return prepare(member, &order);
    case DO_COMMIT:
    case UNDO:
        if (member->is_asked && is_same(&member->last, &order))
            return COP_ESTATE;
        settle(member, &order, order.phase == UNDO ? UNDONE : COMMITTED);
        return 0;
    default:
        fate = inquire(member, &order);
        return cop_reply(run, task->number, 0, &fate, sizeof fate);
    }
}

/* ---- the coordinator ------------------------------------------------------------- */

static void on_settled(void *context, int status, const struct cop_bcast_result *result)
{
    const struct member *member = context;
    printf("n%u: %s is %s at %u: %s\n", cop_self(member->run), member->own.value,
           member->own.phase == UNDO ? "undone" : "committed",
           result ? result->answered : 0, cop_strerror(status));
}

static void decide(struct member *member, bool is_yes)
{
    member->own.phase = is_yes ? DO_COMMIT : UNDO;
    call(member, &member->own, on_settled);
}

static void on_prepared(void *context, int status,
                        const struct cop_bcast_result *result)
{
    struct member *member = context;
    bool is_yes = status == 0 && result->failure_count == 0;
    for (uint32_t i = 0; result != NULL && i < result->failure_count; i++)
        printf("n%u: n%u says no: %s\n", cop_self(member->run),
               result->failures[i].node, cop_strerror(result->failures[i].status));
    if (member->pauses)
        printf("n%u: all could, if it were not for the pause\n", cop_self(member->run));
    else
        decide(member, is_yes);
}

static void begin(struct member *member, const char *value)
{
    member->own = (struct order){.phase = PREPARE,
                                 .coordinator = cop_self(member->run),
                                 .number = ++member->number};
    snprintf(member->own.value, sizeof member->own.value, "%.31s", value);
    call(member, &member->own, on_prepared);
}

/* ---- in doubt -------------------------------------------------------------------- */

static void on_inquired(void *context, int status,
                        const struct cop_bcast_result *result)
{
    struct member *member = context;
    const uint8_t *bytes;
    uint32_t at = 0, length;
    bool is_committed = false;
    cop_id node;
    int64_t fate;
    if (status != 0)
        return; /* the next view asks again */
    while (cop_concat_next(result, &at, &node, &bytes, &length)) {
        memcpy(&fate, bytes, sizeof fate);
        is_committed |= fate == COMMITTED;
    }
    settle(member, &member->last, is_committed ? COMMITTED : UNDONE);
}

static void on_view(void *context, struct cop_run *run, struct cop_view *old,
                    struct cop_view *now)
{
    struct member *member = context;
    struct order question = member->last;
    (void)old;
    member->run = run;
    printf("n%u: of %u\n", cop_self(run), cop_view_size(now));
    if (member->fate != PREPARED ||
        cop_view_rank(now, member->last.coordinator) != COP_RANK_NONE)
        return;
    question.phase = INQUIRE;
    call(member, &question, on_inquired);
}

/* ---- the program ----------------------------------------------------------------- */

static void call(struct member *member, const struct order *order, cop_call_done *done)
{
    struct cop_call all = {.service = COMMIT,
                           .bytes = order,
                           .length = sizeof *order,
                           .op = COP_OP_CONCAT};
    int error = cop_rpc(member->run, &all, done, member);
    if (error)
        printf("n%u: %s\n", cop_self(member->run), cop_strerror(error));
}

static void do_line(struct member *member, char *line)
{
    if (strncmp(line, "set ", 4) == 0)
        begin(member, line + 4);
    else if (strcmp(line, "refuse") == 0)
        member->refuses = true;
    else if (strcmp(line, "pause") == 0)
        member->pauses = true;
    else
        printf("n%u: value %s\n", cop_self(member->run), member->value);
}

int main(int argc, char **argv)
{
    struct member member = {0};
    struct cop_handlers service = {.size = sizeof service,
                                   .service = COMMIT,
                                   .context = &member,
                                   .run = run_order};
    struct cop_settings settings = {
        .size = sizeof settings,
        .cluster = "commit",
        .instance = argc > 3 ? strtoull(argv[1], NULL, 10) : 0,
        .self = argc > 3 ? (cop_id)strtoul(argv[2], NULL, 10) : 0,
        .addresses = (const char *const *)argv + 3,
        .count = argc > 3 ? (uint32_t)argc - 3 : 0,
        .insecure = true,
        .context = &member,
        .on_view = on_view,
        .services = &service,
        .service_count = 1,
    };
    char why[200], line[256];
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (cop_start(&settings, &member.run, why, sizeof why) != 0)
        return fprintf(stderr, "commit: %s\n", why), 1;
    struct pollfd fds[] = {{cop_fd(member.run), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    while (cop_state(member.run) != COP_RUN_OVER) {
        if (poll(fds, 2, -1) < 0)
            continue;
        if (fds[1].revents != 0) {
            ssize_t length = read(STDIN_FILENO, line, sizeof line - 1);
            if (length <= 0)
                break;
            line[length] = '\0';
            for (char *at = strtok(line, "\n"); at != NULL; at = strtok(NULL, "\n"))
                do_line(&member, at);
        }
        cop_dispatch(member.run);
    }
    cop_free(member.run);
    return 0;
}
