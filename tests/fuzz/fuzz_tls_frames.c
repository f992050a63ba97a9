/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a member says after it has proved to be one, over the encrypted connection, into the
 * link: whatever the bytes are, the link takes them or cuts the connection, and they are the
 * same on both sides however the records are cut. The first byte says in parts of which size
 * they are encrypted, the second in which they come; with some values of the third one byte
 * is changed on the way, and must be found.
 */
#include "fuzz_turn.h"
#include "net/tcp/link.h"
#include "tls_pair.h"
#include "wire/messages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct cop__tls *tls;
static struct pair pair;
static bool is_open;

/* So many at the most, however long the input is: more of the same find nothing else. */
#define RECORDS_MAX 8u
#define PARTS_MAX 24u

static size_t part_of(size_t wanted, size_t length, size_t most)
{
    size_t least = length / most + 1;
    return wanted > least ? wanted : least;
}

static void shake_hands(void)
{
    struct cop__bytes in = {NULL, 0};
    pair_open(&pair, tls);
    COP_ASSERT(cop__channel_shake(pair.ends[0], &in, &pair.out[0]) == 0);
    in = pair_said(&pair, 0);
    COP_ASSERT(cop__channel_shake(pair.ends[1], &in, &pair.out[1]) == 0);
    in = pair_said(&pair, 1);
    COP_ASSERT(cop__channel_shake(pair.ends[0], &in, &pair.out[0]) == 1);
    in = pair_said(&pair, 0);
    COP_ASSERT(cop__channel_shake(pair.ends[1], &in, &pair.out[1]) == 1);
    is_open = true;
}

static void encrypt(const uint8_t *data, size_t size, size_t part)
{
    for (size_t at = 0; at < size; at += part) {
        size_t count = size - at < part ? size - at : part;
        if (pair.out[0].used + COP__OUTBOX_ROOM > sizeof pair.out[0].bytes)
            return;
        COP_ASSERT(cop__channel_write(pair.ends[0], data + at, count, &pair.out[0]) ==
                   0);
    }
}

/* Takes all records in the bytes; false: the link would cut the connection. */
static bool take(struct cop__link *link, const uint8_t *data, size_t length)
{
    struct cop__bytes in = {data, (uint32_t)length};
    struct cop__item item;
    int found;
    while ((found = cop__link_input(link, &in, &item)) > 0) {
        if (item.type == COP__RECORD_FRAME) /* others leave it as it was */
            cop_buf_unref(item.frame.payload);
        cop_buf_unref(item.body);
    }
    return found == 0;
}

/* Decrypts in parts, and hands up. Whether all went well. */
static bool deliver(struct cop__link *link, struct cop__bytes all, uint32_t part,
                    const uint8_t *expected)
{
    static uint8_t plain[COP__RECORD_PLAIN];
    bool is_wanted = true;
    while (all.length > 0) {
        struct cop__bytes in = {all.data, all.length < part ? all.length : part};
        all.data += in.length;
        all.length -= in.length;
        while (in.length > 0) {
            ssize_t got =
                cop__channel_read(pair.ends[1], &in, plain, sizeof plain, &pair.out[1]);
            if (got < 0)
                return false;
            COP_ASSERT(memcmp(plain, expected, (size_t)got) == 0);
            expected += got;
            is_wanted = is_wanted && take(link, plain, (size_t)got);
        }
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cop__session session;
    struct cop__link link;
    if (size < 4 || size > COP__RECORD_PLAIN)
        return 0;
    if (tls == NULL)
        tls = pair_tls();
    if (!is_open)
        shake_hands();
    cop__session_init(&session);
    cop__session_meet(&session, 1);
    cop__link_init(&link);
    cop__link_open(&link, &session);
    encrypt(data + 3, size - 3, part_of(data[0] * 16u + 1, size - 3, RECORDS_MAX));
    struct cop__bytes all = pair_said(&pair, 0);
    /* A changed byte ends the connection, and a new one costs as much as a thousand
     * records. */
    bool is_changed = data[2] < 16 && is_turn(128);
    if (is_changed) /* not in the version of a record, which means nothing */
        ((uint8_t *)(uintptr_t)all.data)[all.length - 1 - data[2]] ^= 0x40;
    size_t part = part_of(data[1] * 8u + 1, all.length, PARTS_MAX);
    bool is_whole = deliver(&link, all, (uint32_t)part, data + 3);
    COP_ASSERT(is_whole != is_changed);
    if (is_changed) {
        pair_close(&pair);
        is_open = false;
    }
    cop__link_fini(&link);
    cop__session_fini(&session);
    return 0;
}
