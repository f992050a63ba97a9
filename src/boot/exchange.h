/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_BOOT_EXCHANGE_H
#define COP_BOOT_EXCHANGE_H

#include <coppice/boot.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * What launchers have in common: every process says one word, and when all have, each can
 * read those of the others. One row per protocol.
 *
 * All return 0 or COP_EIO, COP_EREFUSED, COP_ENOENT, COP_ENOMEM with a sentence.
 */
struct cop__exchange;

struct cop__exchange_protocol {
    const char *name;
    /* Whether a launcher that speaks it started this process. */
    bool (*is_there)(void);
    /* Fills in the rank, size, job and is_local of an exchange. */
    int (*open)(struct cop__exchange *exchange, char *message, size_t size);
    /* Says this process's word, and waits until everybody has. */
    int (*publish)(struct cop__exchange *exchange, const char *word, char *message,
                   size_t size);
    int (*get)(struct cop__exchange *exchange, uint32_t rank, char *out,
               size_t out_size, char *message, size_t size);
    /* Also after a failure. */
    void (*close)(struct cop__exchange *exchange);
};

/* Longest word, with its 0. PMI-1 promises no more. */
#define COP__WORD_MAX COP_BOOT_WORD_MAX

struct cop__exchange {
    const struct cop__exchange_protocol *protocol;
    uint32_t rank, size;
    bool is_local; /* all processes are on this machine */
    char job[300]; /* a name of this job that no other has at the same time */
    void *state;   /* of the protocol */
    int fd;
    const struct cop_boot_means *means; /* of the caller's own */
};

extern const struct cop__exchange_protocol cop__exchange_pmix;
extern const struct cop__exchange_protocol cop__exchange_pmi;
extern const struct cop__exchange_protocol cop__exchange_own;

/* Returns `error` after the sentence, as printf. */
int cop__exchange_fail(int error, char *message, size_t size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
