/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_BASE_DIGEST_H
#define COP_BASE_DIGEST_H

#include <coppice/types.h>

/*
 * A fast 64-bit hash of a stream of words, for telling states and traces apart. Not for
 * anything that an adversary may choose. Depends on values only, not on byte order.
 */
struct cop__digest {
    uint64_t a, b;
};
void cop__digest_init(struct cop__digest *digest);

/*
 * In the header, so that the state stays in registers from word to word: this runs at every
 * event of a simulation.
 *
 * Two lanes. For a given state each step is a bijection of the word in lane a, so streams of
 * equal length that differ in one word always reach different states; lane b takes every
 * state of lane a in turn, so that the order and number of words count. A product carries
 * upwards only, so the rotation brings the high bits down for the next one.
 */
static inline void cop__digest_word(struct cop__digest *digest, uint64_t word)
{
    uint64_t a = (digest->a ^ word) * UINT64_C(0x9fb21c651e98df25);
    uint64_t b = digest->b;
    digest->a = a << 29 | a >> 35;
    digest->b = ((b << 23 | b >> 41) + a) * UINT64_C(0xd6e8feb86659fd93);
}

/* The length counts too: "ab", "c" and "a", "bc" are different streams. */
void cop__digest_bytes(struct cop__digest *digest, const void *data, size_t length);
/*
 * The same for bytes of which there are many: eight streams of words side by side, so that one
 * product need not wait for another, with one product a word, and what came of each goes into
 * the digest. Not the same value as that of cop__digest_bytes.
 */
void cop__digest_block(struct cop__digest *digest, const void *data, size_t length);
uint64_t cop__digest_value(const struct cop__digest *digest);

#endif
