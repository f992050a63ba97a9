/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_RUN_ENVOY_H
#define COP_RUN_ENVOY_H

#include "net/tcp/driver.h"

#include <uv.h>

/*
 * Asks members of a cluster something, one after the other, until one answers: what
 * somebody does who wants to join. It speaks as a guest to the address of a member.
 * Everything happens on the loop.
 */
struct cop__envoy;

struct cop__envoy_config {
    uv_loop_t *loop;
    /* Whom to ask as the i-th of a round of `count`: 0, or COP_ENOENT to pass over. */
    int (*address)(void *context, uint32_t i, struct cop__address *out);
    uint32_t count;
    struct cop__tls *tls; /* for TCP; may be NULL */
    /* The question, a whole COMMAND (cop__command_make). The reference is given away, also
     * on failure; NULL is a failure. */
    struct cop_buf *question;
    /*
     * The answer: its body with 0, or with COP_EREFUSED if there is one; or NULL with an
     * error that no other member, and no other time, would change. The envoy is gone when
     * this is called.
     */
    void (*done)(void *context, int status, const struct cop_buf *body);
    /* Somebody there is not one of us, or thinks that of us. May be NULL. */
    void (*refused)(void *context, const char *why, const char *detail);
    /* Nobody has answered yet, though all were asked. May be NULL. */
    void (*alone)(void *context);
    void *context;
};

/* COP_ENOMEM, COP_EIO. The first attempt begins on the loop. */
int cop__envoy_create(const struct cop__envoy_config *config, struct cop__envoy **out);
/* Ends it without a word. */
void cop__envoy_close(struct cop__envoy *envoy);

#endif
