/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest.h"
#include "base/random.h"

void cop__digest_init(struct cop__digest *digest)
{
    /* Digits of pi: anything but zero, which a stream of zeros would not move. */
    digest->a = UINT64_C(0x243f6a8885a308d3);
    digest->b = UINT64_C(0x13198a2e03707344);
}

static inline uint64_t load_word(const uint8_t *bytes)
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

/* Lane a of a digest: for a given state a bijection of the word. */
static inline uint64_t step_lane(uint64_t lane, uint64_t word)
{
    lane = (lane ^ word) * UINT64_C(0x9fb21c651e98df25);
    return lane << 29 | lane >> 35;
}

/* Four words, one for each lane. */
static inline void step_lanes(uint64_t lanes[4], const uint8_t *bytes)
{
    lanes[0] = step_lane(lanes[0], load_word(bytes));
    lanes[1] = step_lane(lanes[1], load_word(bytes + 8));
    lanes[2] = step_lane(lanes[2], load_word(bytes + 16));
    lanes[3] = step_lane(lanes[3], load_word(bytes + 24));
}

void cop__digest_block(struct cop__digest *digest, const void *data, size_t length)
{
    const uint8_t *bytes = data;
    uint64_t even[4], odd[4];
    size_t left = length;
    for (uint64_t i = 0; i < 4; i++) {
        even[i] = step_lane(UINT64_C(0x243f6a8885a308d3), i);
        odd[i] = step_lane(UINT64_C(0x13198a2e03707344), i);
    }
    for (; left >= 64; left -= 64, bytes += 64) {
        step_lanes(even, bytes);
        step_lanes(odd, bytes + 32);
    }
    for (int i = 0; i < 4; i++) {
        cop__digest_word(digest, even[i]);
        cop__digest_word(digest, odd[i]);
    }
    cop__digest_word(digest, length);
    cop__digest_bytes(digest, bytes, left);
}

uint64_t cop__digest_value(const struct cop__digest *digest)
{
    return cop__mix64(digest->a + cop__mix64(digest->b));
}
