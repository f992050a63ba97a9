/* SPDX-License-Identifier: Apache-2.0 */
#include "demo/watch.h"

#include "term/commands.h"
#include "term/say.h"

#include <coppice/error.h>
#include <inttypes.h>
#include <stdlib.h>

bool demo_is_victim(const struct demo_victims *victims, cop_id id)
{
    for (uint32_t i = 0; i < DEMO_VICTIMS; i++)
        if (victims->ids[i] == id)
            return true;
    return false;
}

static int ask(struct demo_watcher *watcher)
{
    struct cop_buf *body = number_encode(watcher->roll.serial);
    int error = body ? client_send(&watcher->client, VERB_VIEW, body) : COP_ENOMEM;
    cop_buf_unref(body);
    return error;
}

int demo_watch_begin(const struct local *local, struct demo_watch *out)
{
    struct demo_watch watch = {.count = cluster_count(&local->cluster)};
    watch.watchers = calloc(watch.count, sizeof *watch.watchers);
    watch.installed = calloc(watch.count, sizeof *watch.installed);
    int error = watch.watchers && watch.installed ? 0 : COP_ENOMEM;
    for (uint32_t i = 0; i < watch.count && watch.watchers != NULL; i++)
        watch.watchers[i].client.fd = -1;
    for (uint32_t i = 0; i < watch.count && !error; i++) {
        struct demo_watcher *watcher = &watch.watchers[i];
        error = local_connect(local, i, &watcher->client);
        if (!error)
            error = client_roll(&watcher->client, 0, DEMO_WAIT_NS, &watcher->roll);
        if (!error)
            error = ask(watcher);
    }
    if (error) {
        demo_watch_free(&watch);
        return fail(EXIT_FAILED, "the members cannot be watched: %s",
                    cop_strerror(error));
    }
    *out = watch;
    return 0;
}

static int receive(struct demo_watcher *watcher, struct roll *out)
{
    struct client_reply reply;
    int error = client_receive(&watcher->client, DEMO_WAIT_NS, &reply);
    if (!error)
        error = reply.status;
    return error ? error : roll_decode(reply.body, out);
}

int demo_watch_take(struct demo_watch *watch, cop_id id,
                    const struct demo_victims *victims)
{
    struct demo_watcher *watcher = &watch->watchers[id];
    struct roll roll;
    int error = receive(watcher, &roll);
    if (!error) {
        roll_free(&watcher->roll);
        watcher->roll = roll;
        error = ask(watcher);
    }
    if (error && victims->killed_ns != 0 && demo_is_victim(victims, id)) {
        client_close(&watcher->client);
        return 0;
    }
    return error ? fail(EXIT_FAILED, "member %" PRIu32 " tells nothing of its view: %s",
                        id, cop_strerror(error))
                 : 0;
}

static bool has_victims(const struct cop_view *view, const struct demo_victims *victims)
{
    for (uint32_t i = 0; i < DEMO_VICTIMS; i++)
        if (cop_view_rank(view, victims->ids[i]) != COP_RANK_NONE)
            return true;
    return false;
}

bool demo_watch_is_healed(const struct demo_watch *watch,
                          const struct demo_victims *victims)
{
    for (uint32_t i = 0; i < watch->count; i++)
        if (!demo_is_victim(victims, i) &&
            has_victims(watch->watchers[i].roll.view, victims))
            return false;
    return true;
}

const struct cop_view *demo_watch_view(const struct demo_watch *watch)
{
    uint32_t i = 0;
    while (i + 1 < watch->count && watch->watchers[i].client.fd < 0)
        i++;
    return watch->watchers[i].roll.view;
}

static bool is_same(const struct cop_view *a, const struct cop_view *b)
{
    return cop_view_epoch(a) == cop_view_epoch(b) &&
           cop_view_digest(a) == cop_view_digest(b) &&
           cop_view_size(a) == cop_view_size(b);
}

static int by_time(const void *a, const void *b)
{
    cop_time x = *(const cop_time *)a, y = *(const cop_time *)b;
    return (x > y) - (x < y);
}

void demo_watch_claim(struct demo_watch *watch, const struct local *local,
                      const struct demo_victims *victims, struct demo_claim *out)
{
    const struct cop_view *view = demo_watch_view(watch);
    uint32_t alive = watch->count - DEMO_VICTIMS, same = 0, have = 0;
    char root[NODESET_NAME_LENGTH + 1];
    for (uint32_t i = 0; i < watch->count; i++) {
        const struct roll *roll = &watch->watchers[i].roll;
        if (demo_is_victim(victims, i))
            continue;
        same += is_same(roll->view, view);
        watch->installed[have++] = roll->installed_ns;
    }
    qsort(watch->installed, have, sizeof *watch->installed, by_time);
    cluster_name(&local->cluster, cop_view_root(view), root);
    struct demo_claim claim = {
        .name = "view",
        .is_kept = same == alive && cop_view_size(view) == alive &&
                   !has_victims(view, victims),
        .healed_ns = watch->installed[have - 1] - victims->killed_ns,
        .count = (uint32_t)cop_view_epoch(view),
        .steps = watch->installed,
        .step_count = have};
    snprintf(claim.text, sizeof claim.text,
             "%" PRIu32 " members with root %s; view %" PRIu64
             " is the same at %s%" PRIu32 " of them",
             cop_view_size(view), root, cop_view_epoch(view),
             claim.is_kept ? "all " : "only ", same);
    *out = claim;
}

void demo_watch_free(struct demo_watch *watch)
{
    for (uint32_t i = 0; i < watch->count && watch->watchers != NULL; i++) {
        roll_free(&watch->watchers[i].roll);
        client_close(&watch->watchers[i].client);
    }
    free(watch->watchers);
    free(watch->installed);
    *watch = (struct demo_watch){0};
}
