/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/echo.h"

#include "wire/codec.h"

/* FNV-1a: against mistakes, not against members that lie. */
void echo_sum(const uint8_t *bytes, uint32_t length, uint8_t out[ECHO_SUM])
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    struct cop__writer writer = cop__writer(out, ECHO_SUM);
    for (uint32_t i = 0; i < length; i++)
        sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3);
    cop__put_u64(&writer, sum);
}

void echo_answer(struct cop__tcp *tcp, uint64_t token, const struct cop_upcall *upcall)
{
    uint8_t sum[ECHO_SUM];
    struct cop_coll coll = {.handle = upcall->handle};
    struct cop_request request = {.kind = COP_REQUEST_REPLY,
                                  .token = token,
                                  .bytes = sum,
                                  .length = sizeof sum,
                                  .coll = &coll};
    echo_sum(upcall->bytes, upcall->length, sum);
    /* A handle that is void by now is nobody's any more. */
    (void)cop__tcp_submit(tcp, &request);
}
