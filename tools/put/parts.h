/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_PUT_PARTS_H
#define COP_TOOLS_PUT_PARTS_H

#include "put/agent.h"
#include "put/put.h"
#include "talk/tokens.h"

/* What the files of put in an agent share. Nobody else includes it. */

struct put_sink;
struct put_call;

struct put {
    struct put_config config;
    struct cop__tcp *tcp; /* NULL without a node */
    cop_id self;
    struct put_sink *sinks;
    struct put_call *calls;
    uint64_t next_token;
    uint32_t working; /* threads that have not returned */
    bool is_closing;
};

/* Not those of exec, nor of asks or probes. */
#define PUT_GROUP_BASE (UINT64_C(0x70750000) << 32)

/* agent.c: after the last thread it is freed. */
void put_settle(struct put *put);
int put_submit(struct put *put, enum cop_request_kind kind, struct cop_coll *coll,
               const void *bytes, uint32_t length);
/* What a broadcast of this agent is about; NULL: it is none of its own. */
const struct put_order *put_own_order(const struct put *put, uint64_t token);

/* sink.c */
void put_sink_upcall(struct put *put, const struct cop_upcall *upcall,
                     struct cop_buf *beside);
void put_sinks_end(struct put *put);

#endif
