/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/state.h"

#include <stddef.h>
#include <string.h>

/*
 * What a process that carries others has given itself, told beside the sum of all (T9). The two
 * are in one frame and much alike, so that it is said by how it differs:
 *   u8 as many first bytes are those of the sum, u8 as many last ones; then what is between
 */

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* How many of the first bytes are the same: of words that are, and of the first that is not. */
static uint32_t common_first(const uint8_t *a, const uint8_t *b, uint32_t most)
{
    uint32_t count = 0;
    uint64_t differ = 0;
    while (count + 8 <= most &&
           !(differ = cop__load64(a + count) ^ cop__load64(b + count)))
        count += 8;
    if (differ)
        for (; (differ & 255) == 0; differ >>= 8)
            count++;
    else
        while (count < most && a[count] == b[count])
            count++;
    return count;
}

/* The same of the last ones, before these ends. */
static uint32_t common_last(const uint8_t *a, const uint8_t *b, uint32_t most)
{
    uint32_t count = 0;
    uint64_t differ = 0;
    while (count + 8 <= most &&
           !(differ = cop__load64(a - count - 8) ^ cop__load64(b - count - 8)))
        count += 8;
    if (differ)
        for (; differ >> 56 == 0; differ <<= 8)
            count++;
    else
        while (count < most && a[-(ptrdiff_t)count - 1] == b[-(ptrdiff_t)count - 1])
            count++;
    return count;
}

uint32_t cop__beside_write(const struct cop_buf *sum, const struct cop_buf *value,
                           uint8_t *out)
{
    uint32_t most = least(sum->length, value->length);
    uint32_t first = common_first(sum->data, value->data, least(most, UINT8_MAX));
    uint32_t last = common_last(sum->data + sum->length, value->data + value->length,
                                least(most - first, UINT8_MAX));
    uint32_t between = value->length - first - last;
    out[0] = (uint8_t)first;
    out[1] = (uint8_t)last;
    if (between > 0)
        memcpy(out + COP__BESIDE_HEAD, value->data + first, between);
    return COP__BESIDE_HEAD + between;
}

int cop__beside_read(struct cop_span sum, struct cop__bytes bytes,
                     struct cop__pending *out)
{
    if (bytes.length < COP__BESIDE_HEAD)
        return COP_EMALFORMED;
    uint32_t first = bytes.data[0], last = bytes.data[1];
    uint32_t between = bytes.length - COP__BESIDE_HEAD;
    if (first + last > sum.length)
        return COP_EMALFORMED;
    struct cop_buf *both = cop_buf_create((size_t)sum.length + first + between + last);
    if (!both)
        return COP_ENOMEM;
    both->length = sum.length;
    uint8_t *at = both->data + sum.length;
    memcpy(both->data, sum.bytes, sum.length);
    memcpy(at, sum.bytes, first);
    memcpy(at + first, bytes.data + COP__BESIDE_HEAD, between);
    memcpy(at + first + between, sum.bytes + sum.length - last, last);
    out->state = both;
    out->beside = first + between + last;
    return 0;
}

struct cop_span cop__beside(const struct cop__pending *pending)
{
    return (struct cop_span){pending->state->data + pending->state->length,
                             pending->beside};
}
