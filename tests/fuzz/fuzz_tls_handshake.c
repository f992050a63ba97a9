/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A handshake that somebody disturbs. The first byte of the input says how:
 *   0      the rest is what a stranger sends;
 *   other  the rest are changes to what one end of a true handshake says, three bytes each:
 *          a place (of 16 bits) and what is added to the byte there; the first byte is also
 *          in parts of which size the bytes come.
 * Nobody may be accepted whose bytes were changed, the memory that a stranger is given stays
 * bounded, and what is not disturbed succeeds.
 */
#include "tls_pair.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct cop__tls *tls;
static struct pair pair;

/* Feeds bytes in parts, the way that they come from a socket. What the last call said. */
static int feed(struct cop__channel *channel, struct cop__bytes bytes, uint32_t part,
                struct cop__outbox *out)
{
    int done = 0;
    while (bytes.length > 0 && done == 0) {
        struct cop__bytes in = {bytes.data, bytes.length < part ? bytes.length : part};
        uint32_t before = in.length;
        done = cop__channel_shake(channel, &in, out);
        bytes.data += before - in.length;
        bytes.length -= before - in.length;
        COP_ASSERT(done != 0 || in.length == 0);
        COP_ASSERT(out->used <= sizeof out->bytes);
    }
    return done;
}

static void be_stranger(const uint8_t *data, size_t size)
{
    uint32_t part = size > 0 ? data[0] + 1u : 1u;
    struct cop__bytes bytes = {data, (uint32_t)size};
    COP_ASSERT(feed(pair.ends[1], bytes, part, &pair.out[1]) <= 0);
}

/* Adds to bytes of what is said; whether that makes a difference. */
static bool disturb(struct cop__bytes said, uint32_t from, const uint8_t *data,
                    size_t size)
{
    uint8_t *bytes = (uint8_t *)(uintptr_t)said.data;
    uint8_t before[COP__OUTBOX_SIZE];
    memcpy(before, bytes, said.length);
    for (; size >= 3; data += 3, size -= 3) {
        uint32_t at = ((uint32_t)data[0] << 8 | data[1]) % 1024;
        if (at >= from && at - from < said.length)
            bytes[at - from] = (uint8_t)(bytes[at - from] + data[2]);
    }
    return memcmp(before, bytes, said.length) != 0;
}

/* Places are counted over all that both say, in its order. */
static void disturb_handshake(uint32_t part, const uint8_t *data, size_t size)
{
    struct cop__bytes nothing = {NULL, 0};
    int done[2] = {0, 0};
    bool is_disturbed = false;
    uint32_t from = 0;
    COP_ASSERT(cop__channel_shake(pair.ends[0], &nothing, &pair.out[0]) == 0);
    for (int round = 0; round < 4 && done[0] >= 0 && done[1] >= 0; round++) {
        int i = round % 2;
        struct cop__bytes said = pair_said(&pair, i);
        is_disturbed |= disturb(said, from, data, size);
        from += said.length;
        if (done[1 - i] == 0 && said.length > 0)
            done[1 - i] = feed(pair.ends[1 - i], said, part, &pair.out[1 - i]);
    }
    if (!is_disturbed)
        COP_ASSERT(done[0] == 1 && done[1] == 1);
    /* A record's version is no part of what is proved, and nothing hangs on it. */
    if (done[0] == 1 && done[1] == 1)
        COP_ASSERT(cop__channel_is_current(pair.ends[0]) &&
                   cop__channel_is_current(pair.ends[1]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > COP__RECORD_PLAIN)
        return 0;
    if (tls == NULL)
        tls = pair_tls();
    pair_open(&pair, tls);
    if (data[0] == 0)
        be_stranger(data + 1, size - 1);
    else
        disturb_handshake(data[0], data + 1, size - 1);
    pair_close(&pair);
    return 0;
}
