/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_ENVOY_H
#define COP_TOOLS_ENVOY_H

#include "cluster.h"

#include <uv.h>

/*
 * Asks members of a cluster for an invitation, one after the other, until one gives it:
 * what somebody does who wants to join. It speaks as a guest to the address of a member.
 * Everything happens on the loop.
 */
struct envoy;

struct envoy_config {
    uv_loop_t *loop;
    const struct cluster *cluster; /* whose members are asked, in turn */
    cop_id self;                   /* not asked, and asked first is the next; or NONE */
    struct cop__address contact;   /* asked before all others; length 0: none */
    struct cop__tls *tls;          /* for TCP; may be NULL */
    const char *name;              /* as a view has it */
    cop_incarnation incarnation;   /* of the life that wants to join */
    bool is_new;                   /* nobody of this name may be a member */
    /*
     * The answer: 0, or COP_EREFUSED if the incarnation is not large enough, with an
     * invitation for cop_invitation in both cases; `degraded` if it may take long. Any
     * other error is final: this name cannot join. The envoy is gone when this is called.
     */
    void (*done)(void *context, int status, const struct cop_buf *invitation,
                 bool is_degraded);
    /* Somebody there is not one of us, or thinks that of us. May be NULL. */
    void (*refused)(void *context, const char *why, const char *detail);
    /* Nobody has answered yet, though all were asked. May be NULL. */
    void (*alone)(void *context);
    void *context;
};

/* COP_ENOMEM. The first attempt begins on the loop. */
int envoy_create(const struct envoy_config *config, struct envoy **out);
/* Ends it without a word. */
void envoy_close(struct envoy *envoy);

#endif
