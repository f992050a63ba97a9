/* SPDX-License-Identifier: Apache-2.0 */
/* Means of the caller's own: all words at once. */
#include "boot/exchange.h"

#include <coppice/error.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_there(void) { return false; }

static int open_own(struct cop__exchange *exchange, char *message, size_t size)
{
    const struct cop_boot_means *means = exchange->means;
    if (means->gather == NULL || means->rank >= means->size)
        return cop__exchange_fail(COP_EINVAL, message, size,
                                  "rank %u of %u, or no way to gather words",
                                  means->rank, means->size);
    exchange->rank = means->rank;
    exchange->size = means->size;
    exchange->is_local = means->is_local;
    snprintf(exchange->job, sizeof exchange->job, "%s", means->job ? means->job : "");
    return 0;
}

static int publish(struct cop__exchange *exchange, const char *word, char *message,
                   size_t size)
{
    const struct cop_boot_means *means = exchange->means;
    char own[COP_BOOT_WORD_MAX] = "";
    exchange->state = calloc(means->size, COP_BOOT_WORD_MAX);
    if (exchange->state == NULL)
        return COP_ENOMEM;
    snprintf(own, sizeof own, "%s", word);
    int error = means->gather(means->context, own, exchange->state);
    OPENSSL_cleanse(own, sizeof own);
    return error ? cop__exchange_fail(error, message, size,
                                      "the processes could not exchange addresses")
                 : 0;
}

static int get(struct cop__exchange *exchange, uint32_t rank, char *out,
               size_t out_size, char *message, size_t size)
{
    const char(*words)[COP_BOOT_WORD_MAX] = exchange->state;
    if (memchr(words[rank], '\0', COP_BOOT_WORD_MAX) == NULL)
        return cop__exchange_fail(COP_EINVAL, message, size,
                                  "the word of process %u has no end", rank);
    snprintf(out, out_size, "%s", words[rank]);
    return 0;
}

static void close_own(struct cop__exchange *exchange)
{
    if (exchange->state != NULL)
        OPENSSL_cleanse(exchange->state,
                        (size_t)exchange->means->size * COP_BOOT_WORD_MAX);
    free(exchange->state);
    exchange->state = NULL;
}

const struct cop__exchange_protocol cop__exchange_own = {
    .name = "own",
    .is_there = is_there,
    .open = open_own,
    .publish = publish,
    .get = get,
    .close = close_own,
};
