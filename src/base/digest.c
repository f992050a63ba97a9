/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest.h"
#include "base/random.h"

void cop__digest_init(struct cop__digest *digest)
{
    /* Digits of pi: anything but zero, which a stream of zeros would not move. */
    digest->a = UINT64_C(0x243f6a8885a308d3);
    digest->b = UINT64_C(0x13198a2e03707344);
}

static uint64_t load_word(const uint8_t *bytes)
{
    return (uint64_t)bytes[0] | (uint64_t)bytes[1] << 8 | (uint64_t)bytes[2] << 16 |
           (uint64_t)bytes[3] << 24 | (uint64_t)bytes[4] << 32 |
           (uint64_t)bytes[5] << 40 | (uint64_t)bytes[6] << 48 |
           (uint64_t)bytes[7] << 56;
}

static uint64_t load_tail(const uint8_t *bytes, size_t length)
{
    uint64_t word = 0;
    while (length > 0)
        word = word << 8 | bytes[--length];
    return word;
}

void cop__digest_bytes(struct cop__digest *digest, const void *data, size_t length)
{
    const uint8_t *bytes = data;
    cop__digest_word(digest, length);
    for (; length >= 8; length -= 8, bytes += 8)
        cop__digest_word(digest, load_word(bytes));
    if (length > 0)
        cop__digest_word(digest, load_tail(bytes, length));
}

void cop__digest_block(struct cop__digest *digest, const void *data, size_t length)
{
    const uint8_t *bytes = data;
    struct cop__digest lanes[4];
    size_t left = length;
    for (uint64_t i = 0; i < 4; i++) {
        cop__digest_init(&lanes[i]);
        cop__digest_word(&lanes[i], i);
    }
    for (; left >= 32; left -= 32, bytes += 32) {
        cop__digest_word(&lanes[0], load_word(bytes));
        cop__digest_word(&lanes[1], load_word(bytes + 8));
        cop__digest_word(&lanes[2], load_word(bytes + 16));
        cop__digest_word(&lanes[3], load_word(bytes + 24));
    }
    for (int i = 0; i < 4; i++) {
        cop__digest_word(digest, lanes[i].a);
        cop__digest_word(digest, lanes[i].b);
    }
    cop__digest_word(digest, length);
    cop__digest_bytes(digest, bytes, left);
}

uint64_t cop__digest_value(const struct cop__digest *digest)
{
    return cop__mix64(digest->a + cop__mix64(digest->b));
}
