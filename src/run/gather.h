/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_RUN_GATHER_H
#define COP_RUN_GATHER_H

#include "net/tcp/driver.h"

/*
 * Before a static start: processes that are started one after the other are not all there
 * when the first one is, and one who listens nowhere looks dead. So each waits until it has
 * found every other address once, or until its patience is over. Whoever is spoken to by
 * one that has begun begins, too: all begin at nearly the same time.
 */
struct cop__gather;

struct cop__gather_config {
    uv_loop_t *loop;
    uint32_t count;
    cop_id self; /* not looked for */
    int (*address)(void *context, cop_id id, struct cop__address *out);
    cop_time patience_ns;
    bool all_listen; /* nobody has to be looked for */
    struct cop__tls
        *tls; /* what others have to prove themselves by; NULL: they need not */
    const struct cop_log *log;
    /* It is time; `missing` were not found. The gathering is gone when this is called. */
    void (*done)(void *context, uint32_t missing);
    void *context;
};

/* COP_ENOMEM, COP_EIO. Nobody is looked for before the loop runs. */
int cop__gather_create(const struct cop__gather_config *config,
                       struct cop__gather **out);
/*
 * A connection that somebody made to us, given away. Those of other users are closed, and those
 * from addresses whose connections came to nothing too often.
 */
void cop__gather_guest(struct cop__gather *gather, int fd, cop__origin from);
void cop__gather_close(struct cop__gather *gather);

#endif
