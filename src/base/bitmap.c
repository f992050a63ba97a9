/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bitmap.h"
#include "base/assert.h"

#include <stdlib.h>

/*
 * Bits in 64-bit words, grouped in blocks of 512. For each block, how many bits are set
 * before it: membership below a rank is then one look-up and at most eight words. For
 * every 1024th set bit, and for every 1024th clear one, the block it is in: select then
 * searches only the few blocks between two samples. Blocks cost 1/16 bit a member,
 * samples 1/32.
 *
 * Invariants: before[0] == 0, before[blocks] == count; bits at and beyond n are clear.
 */
#define WORD_BITS 64U
#define BLOCK_WORDS 8U
#define BLOCK_BITS (WORD_BITS * BLOCK_WORDS)
#define SAMPLE_BITS 1024U

struct cop_bitmap {
    uint32_t refs;
    uint32_t n;
    uint32_t count;
    uint32_t blocks;
    uint32_t
        set_samples; /* how many of the samples are for set bits; the rest follow */
    uint32_t clear_samples;
    uint32_t *before;  /* blocks + 1, in the same allocation as all */
    uint32_t *samples; /* of set bits, then of clear bits */
    uint64_t words[];
};

/* ---- bits of one word
 * ---------------------------------------------------------------- */

#define EVERY_BYTE UINT64_C(0x0101010101010101)
#define HIGH_BITS UINT64_C(0x8080808080808080)

/*
 * In each byte, how many bits of that byte are set. Written out, since the compiler's
 * own count is no standard C, and without a machine instruction for it is a call to its
 * library.
 */
static uint64_t byte_counts(uint64_t word)
{
    word -= (word >> 1) & UINT64_C(0x5555555555555555);
    word = (word & UINT64_C(0x3333333333333333)) +
           ((word >> 2) & UINT64_C(0x3333333333333333));
    return (word + (word >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
}

static uint32_t bit_count(uint64_t word)
{
    return (uint32_t)((byte_counts(word) * EVERY_BYTE) >> 56);
}

/* The sum of the bytes of up to eight added byte counts: up to 512, so in 16-bit lanes.
 */
static uint32_t sum_bytes(uint64_t counts)
{
    const uint64_t even = UINT64_C(0x00ff00ff00ff00ff);
    uint64_t lanes = (counts & even) + ((counts >> 8) & even);
    return (uint32_t)((lanes * UINT64_C(0x0001000100010001)) >> 48);
}

/*
 * How many bytes of `counts` are at most i, if all bytes and i are below 128: then a high bit
 * that survives the difference says just that. Here and below there are no branches on the
 * bits: nobody could predict them, and a wrong guess costs more than all of the arithmetic.
 */
static uint32_t bytes_up_to(uint64_t counts, uint32_t i)
{
    uint64_t is_up_to = (((i * EVERY_BYTE) | HIGH_BITS) - counts) & HIGH_BITS;
    return (uint32_t)(((is_up_to >> 7) * EVERY_BYTE) >> 56);
}

/* The place of the i-th set bit of a byte that has more than i. */
static uint32_t select_in_byte(uint64_t byte, uint32_t i)
{
    /* Bit k of the byte becomes byte k of a word, 0 or 1. */
    uint64_t spread = (byte * EVERY_BYTE) & UINT64_C(0x8040201008040201);
    uint64_t bits = ((spread + ~HIGH_BITS) >> 7) & EVERY_BYTE;
    return bytes_up_to(bits * EVERY_BYTE, i);
}

/* The place of the i-th set bit of a word that has more than i. */
static uint32_t select_in_word(uint64_t word, uint32_t i)
{
    /* Byte k of `upto` says how many bits are set in bytes 0..k. The byte that is looked
     * for is the first with more than i, so as many lie before it as have i or fewer. */
    uint64_t upto = byte_counts(word) * EVERY_BYTE;
    uint32_t place = bytes_up_to(upto, i) * 8;
    i -= (uint32_t)((upto << 8) >> place) & 0xff;
    return place + select_in_byte((word >> place) & 0xff, i);
}

/* ---- making one
 * ---------------------------------------------------------------------- */

static uint32_t divide_up(uint32_t a, uint32_t b) { return a / b + (a % b != 0); }

/* Room for the samples of both kinds, however the bits are divided between them. */
static size_t samples_max(uint32_t n) { return (size_t)n / SAMPLE_BITS + 2; }

static size_t bytes_for(uint32_t n)
{
    size_t blocks = divide_up(n, BLOCK_BITS);
    return sizeof(struct cop_bitmap) + blocks * BLOCK_WORDS * sizeof(uint64_t) +
           (blocks + 1 + samples_max(n)) * sizeof(uint32_t);
}

static struct cop_bitmap *allocate(uint32_t n)
{
    struct cop_bitmap *map = calloc(1, bytes_for(n));
    if (map == NULL)
        return NULL;
    map->refs = 1;
    map->n = n;
    map->blocks = divide_up(n, BLOCK_BITS);
    map->before = (uint32_t *)(map->words + (size_t)map->blocks * BLOCK_WORDS);
    map->samples = map->before + map->blocks + 1;
    return map;
}

static uint32_t count_words(const uint64_t *words, uint32_t count)
{
    uint64_t counts = 0;
    for (uint32_t i = 0; i < count; i++)
        counts += byte_counts(words[i]);
    return sum_bytes(counts);
}

static void count_blocks(struct cop_bitmap *map)
{
    for (uint32_t i = 0; i < map->blocks; i++) {
        const uint64_t *words = map->words + (size_t)i * BLOCK_WORDS;
        map->before[i + 1] = map->before[i] + count_words(words, BLOCK_WORDS);
    }
    map->count = map->before[map->blocks];
}

/* How many bits of one kind lie before a block (not for the end: n may end before it).
 */
static uint32_t before_block(const struct cop_bitmap *map, bool set, uint32_t block)
{
    return set ? map->before[block] : block * BLOCK_BITS - map->before[block];
}

static void take_samples(const struct cop_bitmap *map, bool set, uint32_t *samples,
                         uint32_t count)
{
    uint32_t block = 0;
    for (uint32_t i = 0; i < count; i++) {
        while (block + 1 < map->blocks &&
               before_block(map, set, block + 1) <= i * SAMPLE_BITS)
            block++;
        samples[i] = block;
    }
}

struct cop_bitmap *cop__bitmap_create(uint32_t n, const cop_rank *ranks, uint32_t count)
{
    struct cop_bitmap *map = allocate(n);
    if (map == NULL)
        return NULL;
    for (uint32_t i = 0; i < count; i++) {
        COP_ASSERT(ranks[i] < n);
        map->words[ranks[i] / WORD_BITS] |= UINT64_C(1) << ranks[i] % WORD_BITS;
    }
    count_blocks(map);
    map->set_samples = divide_up(map->count, SAMPLE_BITS);
    map->clear_samples = divide_up(n - map->count, SAMPLE_BITS);
    take_samples(map, true, map->samples, map->set_samples);
    take_samples(map, false, map->samples + map->set_samples, map->clear_samples);
    return map;
}

struct cop_bitmap *cop__bitmap_ref(struct cop_bitmap *map)
{
    if (map == NULL)
        return NULL;
    COP_ASSERT(map->refs > 0 && map->refs < UINT32_MAX);
    map->refs++;
    return map;
}

void cop__bitmap_unref(struct cop_bitmap *map)
{
    if (map == NULL)
        return;
    COP_ASSERT(map->refs > 0);
    if (--map->refs == 0)
        free(map);
}

/* ---- asking it
 * ----------------------------------------------------------------------- */

uint32_t cop__bitmap_size(const struct cop_bitmap *map) { return map->n; }

uint32_t cop__bitmap_count(const struct cop_bitmap *map) { return map->count; }

size_t cop__bitmap_bytes(const struct cop_bitmap *map) { return bytes_for(map->n); }

bool cop__bitmap_has(const struct cop_bitmap *map, cop_rank rank)
{
    return rank < map->n && (map->words[rank / WORD_BITS] >> rank % WORD_BITS & 1) != 0;
}

uint32_t cop__bitmap_below(const struct cop_bitmap *map, cop_rank rank)
{
    COP_ASSERT(rank <= map->n);
    uint32_t block = rank / BLOCK_BITS;
    uint32_t word = rank / WORD_BITS;
    const uint64_t *words = map->words + (size_t)block * BLOCK_WORDS;
    uint32_t below = map->before[block] + count_words(words, word % BLOCK_WORDS);

    /* A rank at the start of a word needs none of it; there may even be no such word.
     */
    uint32_t bit = rank % WORD_BITS;
    if (bit != 0)
        below += bit_count(map->words[word] << (WORD_BITS - bit));
    return below;
}

/* The last block in [low, high) with no more than i bits of the kind before it. */
static uint32_t find_block(const struct cop_bitmap *map, bool set, uint32_t i,
                           uint32_t low, uint32_t high)
{
    for (uint32_t length = high - low; length > 1;) {
        uint32_t half = length / 2;
        low = before_block(map, set, low + half) <= i ? low + half : low;
        length -= half;
    }
    return low;
}

/* The i-th bit of a kind, which must be in the block; i counts from its start. */
static cop_rank select_in_block(const struct cop_bitmap *map, bool set, uint32_t block,
                                uint32_t i)
{
    const uint64_t *words = map->words + (size_t)block * BLOCK_WORDS;
    uint64_t flip = set ? 0 : UINT64_MAX;
    uint32_t total = 0, before = 0, at = 0;
    for (uint32_t k = 0; k < BLOCK_WORDS - 1; k++) {
        total += bit_count(words[k] ^ flip);
        at += total <= i;
        before = total <= i ? total : before;
    }
    uint32_t place = select_in_word(words[at] ^ flip, i - before);
    return block * BLOCK_BITS + at * WORD_BITS + place;
}

static cop_rank select_kind(const struct cop_bitmap *map, bool set, uint32_t i,
                            const uint32_t *samples, uint32_t sample_count)
{
    uint32_t sample = i / SAMPLE_BITS;
    uint32_t low = samples[sample];
    uint32_t high = sample + 1 < sample_count ? samples[sample + 1] + 1 : map->blocks;
    uint32_t block = find_block(map, set, i, low, high);
    return select_in_block(map, set, block, i - before_block(map, set, block));
}

cop_rank cop__bitmap_select(const struct cop_bitmap *map, uint32_t i)
{
    if (i >= map->count)
        return COP_RANK_NONE;
    return select_kind(map, true, i, map->samples, map->set_samples);
}

cop_rank cop__bitmap_select_clear(const struct cop_bitmap *map, uint32_t i)
{
    if (i >= map->n - map->count)
        return COP_RANK_NONE;
    return select_kind(map, false, i, map->samples + map->set_samples,
                       map->clear_samples);
}
