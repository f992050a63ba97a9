/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_DEMO_WATCH_H
#define COP_TOOLS_DEMO_WATCH_H

#include "demo/demo.h"

/* Every member is asked for each of its views, all the time. */
struct demo_watcher {
    struct client client; /* fd -1: it is gone */
    struct roll roll;     /* the last that it told */
};

struct demo_watch {
    uint32_t count;
    struct demo_watcher *watchers; /* by the id of the member */
    cop_time *installed;           /* when each of the survivors had the last view */
};

/* Both: 0, or EXIT_FAILED after one line. */
int demo_watch_begin(const struct local *local, struct demo_watch *out);
/* Member `id` has something to say; the victims may fall silent, and nobody else. */
int demo_watch_take(struct demo_watch *watch, cop_id id,
                    const struct demo_victims *victims);
/* Whether nobody who lives has a victim in its view. */
bool demo_watch_is_healed(const struct demo_watch *watch,
                          const struct demo_victims *victims);
/* The view of one of those who live. */
const struct cop_view *demo_watch_view(const struct demo_watch *watch);
/* The same view everywhere, and nobody in it but who lives. */
void demo_watch_claim(struct demo_watch *watch, const struct local *local,
                      const struct demo_victims *victims, struct demo_claim *out);
void demo_watch_free(struct demo_watch *watch);

#endif
