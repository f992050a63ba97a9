/* SPDX-License-Identifier: Apache-2.0 */
#include "heal.h"

#include "commands.h"
#include "say.h"

#include <coppice/error.h>
#include <signal.h>
#include <stdlib.h>

#define WAIT_NS (30 * COP_SEC)

/* One member whose view is followed. */
struct follower {
    struct client client; /* fd -1: not one of them */
    struct roll roll;     /* the last that it told; the view is NULL without one */
};

struct crowd {
    uint32_t count;
    struct follower *followers; /* by their place */
};

static void free_crowd(struct crowd *crowd)
{
    for (uint32_t i = 0; i < crowd->count; i++) {
        roll_free(&crowd->followers[i].roll);
        client_close(&crowd->followers[i].client);
    }
    free(crowd->followers);
}

/* All that live, but for one. */
static int make_crowd(const struct local *local, cop_id but, struct crowd *out)
{
    struct crowd crowd = {.count = cluster_count(&local->cluster)};
    crowd.followers = calloc(crowd.count, sizeof *crowd.followers);
    if (crowd.followers == NULL)
        return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    for (uint32_t i = 0; i < crowd.count; i++) {
        struct follower *follower = &crowd.followers[i];
        follower->client.fd = -1;
        if (i != but && local_connect(local, i, &follower->client) == 0 &&
            client_roll(&follower->client, 0, WAIT_NS, &follower->roll) != 0) {
            client_close(&follower->client);
        }
    }
    *out = crowd;
    return 0;
}

static int ask(struct follower *follower)
{
    struct cop_buf *body = number_encode(follower->roll.serial);
    int error = body ? client_send(&follower->client, VERB_VIEW, body) : COP_ENOMEM;
    cop_buf_unref(body);
    return error;
}

static int take(struct follower *follower, cop_time deadline)
{
    struct client_reply reply;
    struct roll roll;
    cop_time now = now_ns();
    int error =
        client_receive(&follower->client, deadline > now ? deadline - now : 0, &reply);
    if (!error)
        error = reply.status;
    if (!error)
        error = roll_decode(reply.body, &roll);
    if (error)
        return error;
    roll_free(&follower->roll);
    follower->roll = roll;
    return 0;
}

static bool has(const struct follower *follower, cop_id id)
{
    return cop_view_rank(follower->roll.view, id) != COP_RANK_NONE;
}

/* Those who were asked for the next view tell each, until it is one without `gone`. */
static int follow(struct crowd *crowd, cop_id gone)
{
    cop_time deadline = now_ns() + WAIT_NS;
    for (uint32_t i = 0; i < crowd->count; i++) {
        struct follower *follower = &crowd->followers[i];
        int error = 0;
        while (follower->client.fd >= 0 && has(follower, gone) && !error) {
            error = take(follower, deadline);
            if (!error && has(follower, gone))
                error = ask(follower);
        }
        if (error)
            return fail(EXIT_FAILED, "the view does not heal: %s", cop_strerror(error));
    }
    return 0;
}

static int ask_all(struct crowd *crowd, cop_id gone)
{
    int error = 0;
    for (uint32_t i = 0; i < crowd->count && !error; i++)
        if (crowd->followers[i].client.fd >= 0 && has(&crowd->followers[i], gone))
            error = ask(&crowd->followers[i]);
    return error ? fail(EXIT_FAILED, "%s", cop_strerror(error)) : 0;
}

int heal_wait(const struct local *local, cop_id gone)
{
    struct crowd crowd = {0};
    int code = make_crowd(local, gone, &crowd);
    if (code)
        return code;
    code = ask_all(&crowd, gone);
    if (code == 0)
        code = follow(&crowd, gone);
    free_crowd(&crowd);
    return code;
}

/* The times: of the change at whoever led it, and of the last that installed it. */
static int sum_up(const struct crowd *crowd, struct healing *out)
{
    const struct roll *leader = NULL;
    out->installed_ns = 0;
    for (uint32_t i = 0; i < crowd->count; i++) {
        const struct roll *roll = &crowd->followers[i].roll;
        if (crowd->followers[i].client.fd < 0)
            continue;
        if (roll->installed_ns > out->installed_ns)
            out->installed_ns = roll->installed_ns;
        if (roll->times.epoch == cop_view_epoch(roll->view))
            leader = roll;
    }
    if (leader == NULL)
        return fail(EXIT_FAILED, "nobody says that it led the change");
    out->heard_ns = leader->times.heard;
    out->stable_ns = leader->times.stable;
    out->epoch = cop_view_epoch(leader->view);
    out->root = cop_view_root(leader->view);
    out->members = cop_view_size(leader->view);
    return 0;
}

int heal_after(const struct local *local, cop_id victim, pid_t pid, struct healing *out)
{
    struct crowd crowd = {0};
    int code = make_crowd(local, victim, &crowd);
    if (code)
        return code;
    code = ask_all(&crowd, victim);
    out->killed_ns = now_ns();
    if (code == 0 && kill(pid, SIGKILL) != 0)
        code = fail(EXIT_FAILED, "it is dead already");
    if (code == 0)
        code = follow(&crowd, victim);
    if (code == 0)
        code = sum_up(&crowd, out);
    free_crowd(&crowd);
    return code;
}
