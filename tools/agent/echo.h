/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_AGENT_ECHO_H
#define COP_TOOLS_AGENT_ECHO_H

#include "net/tcp/driver.h"

#include <coppice/coll.h>

/*
 * The simplest service: whoever gets bytes replies with a check sum of them, and replies are
 * counted (COP_OP_COUNT). `coppice bcast` is made of it.
 */
#define ECHO_SERVICE UINT64_C(0x6563686f)
#define ECHO_VERSION 1u
#define ECHO_SUM 8u

void echo_sum(const uint8_t *bytes, uint32_t length, uint8_t out[ECHO_SUM]);
/* Answers the upcall. `token` is free to be used. */
void echo_answer(struct cop__tcp *tcp, uint64_t token, const struct cop_upcall *upcall);

#endif
