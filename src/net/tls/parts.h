/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_NET_TLS_PARTS_H
#define COP_NET_TLS_PARTS_H

#include <openssl/ssl.h>

#include "net/tls/channel.h"
#include "net/tls/keys.h"

/* What the files of this folder share. Nobody else includes it. */

struct cop__tls {
    SSL_CTX *context;
    BIO_METHOD *method; /* of channels: bytes in memory */
    bool has_certificates;
    struct cop__keys keys;
    char *paths[4];      /* copies, in the order of struct cop__tls_files */
    uint64_t generation; /* of certificates: how often they were read */
};

struct cop__channel {
    struct cop__tls *tls;
    SSL *ssl;              /* NULL for a stranger that has not said enough */
    struct cop__bytes *in; /* during a call */
    struct cop__outbox *out;
    bool is_server, is_open;
    bool is_unknown_key; /* it named a key that is not ours */
    enum cop__fault fault;
    const char *detail;               /* constant */
    char key[COP__KEY_ID_LENGTH + 1]; /* by which it was made; "" before */
    uint64_t generation;
    uint32_t taken;   /* bytes of the handshake so far */
    uint8_t *opening; /* what a stranger has sent so far */
    uint32_t opening_used;
};

/* rehearse.c: 0, or an error with a sentence. */
int cop__tls_rehearse(struct cop__tls *tls, char *message, size_t size);

/* channel.c */
BIO_METHOD *cop__channel_method(void); /* NULL: no memory */
struct cop__channel *cop__channel_of(const SSL *ssl);

#endif
