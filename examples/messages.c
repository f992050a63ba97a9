/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between members: a number goes round the ring of the members, and each adds one.
 * A message is delivered once, in order, and in the view in which it was sent: so whoever
 * gets the number has the same ring as its sender. When a view changes, whoever holds the
 * number, or sent it to one who is gone, sends it on in the new ring.
 *
 *   messages INSTANCE SELF GOAL ADDRESS...
 *
 * Who makes the number as large as GOAL tells everyone, and all leave.
 */
#include <coppice/coppice.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct game {
    struct cop_run *run;
    unsigned long number, goal;
};

static void pass_on(struct game *game);

/* What became of the number. */
static void on_passed(void *context, int status)
{
    struct game *game = context;
    if (status == COP_ELOST) {
        /* It may have been passed on before its receiver died: then there are two, and
         * both reach the goal. */
        printf("n%u: the next one is gone\n", cop_self(game->run));
        pass_on(game);
    } else if (status != 0) {
        printf("n%u: %s\n", cop_self(game->run), cop_strerror(status));
    }
}

/* The next member after this one, in the ring of ids. */
static cop_id next_in_ring(const struct cop_view *view, cop_id self)
{
    cop_id next = cop_view_next(view, self);
    return next != COP_ID_NONE ? next : cop_view_next(view, COP_ID_NONE);
}

static void finish(struct game *game, const struct cop_view *view)
{
    cop_id self = cop_self(game->run);
    printf("n%u: %lu is reached\n", self, game->number);
    for (cop_id id = cop_view_next(view, COP_ID_NONE); id != COP_ID_NONE;
         id = cop_view_next(view, id))
        if (id != self)
            cop_send(game->run, id, "end", 3, NULL, NULL);
    cop_leave(game->run);
}

static void pass_on(struct game *game)
{
    struct cop_view *view = cop_view_current(game->run);
    char text[32];
    if (view == NULL)
        return;
    int length = snprintf(text, sizeof text, "%lu", game->number);
    cop_id next = next_in_ring(view, cop_self(game->run));
    if (game->number >= game->goal)
        finish(game, view);
    else if (next != cop_self(game->run))
        cop_send(game->run, next, text, (size_t)length, on_passed, game);
    cop_view_unref(view);
}

static void on_message(void *context, struct cop_run *run,
                       const struct cop_message *message)
{
    struct game *game = context;
    char text[32];
    snprintf(text, sizeof text, "%.*s", (int)message->length,
             (const char *)message->bytes);
    if (strcmp(text, "end") == 0) {
        cop_leave(run);
    } else {
        game->number = strtoul(text, NULL, 10) + 1;
        pass_on(game);
    }
}

/* The lowest member begins. */
static void on_view(void *context, struct cop_run *run, struct cop_view *old,
                    struct cop_view *now)
{
    struct game *game = context;
    game->run = run;
    if (old == NULL && cop_self(run) == cop_view_next(now, COP_ID_NONE))
        pass_on(game);
}

static void on_out(void *context, struct cop_run *run, int why)
{
    (void)context;
    printf("n%u: %s\n", cop_self(run), why == 0 ? "left" : cop_strerror(why));
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: messages INSTANCE SELF GOAL ADDRESS...\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct game game = {.goal = strtoul(argv[3], NULL, 10)};
    struct cop_settings settings = {
        .size = sizeof settings,
        .cluster = "messages",
        .instance = strtoull(argv[1], NULL, 10),
        .self = (cop_id)strtoul(argv[2], NULL, 10),
        .addresses = (const char *const *)argv + 4,
        .count = (uint32_t)argc - 4,
        .quorum = "none", /* the last one may leave, too */
        .insecure = true,
        .context = &game,
        .on_view = on_view,
        .on_message = on_message,
        .on_out = on_out,
    };
    char why[200];
    if (cop_start(&settings, &game.run, why, sizeof why) != 0) {
        fprintf(stderr, "messages: %s\n", why);
        return 1;
    }
    while (cop_state(game.run) != COP_RUN_OVER)
        cop_poll(game.run, -1);
    cop_free(game.run);
    return 0;
}
