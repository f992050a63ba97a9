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

uint64_t cop__digest_value(const struct cop__digest *digest)
{
    return cop__mix64(digest->a + cop__mix64(digest->b));
}
