/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_NET_TLS_TLS_H
#define COP_NET_TLS_TLS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * What a process proves itself with, and judges others by: a key of the cluster, or a
 * certificate and the authority that all certificates come from. One of these serves all
 * connections of a process. It may be made before a fork, and be used by both sides of it.
 *
 * It is TLS 1.3 and nothing else. With a key, both sides also agree on a secret of their
 * own (psk_dhe_ke), so that a key that gets out later does not open what was recorded
 * before. Nothing is resumed: with a key there is no cheaper handshake than the first.
 */
struct cop__tls;

/* The files; NULL for what is not used. Either `key`, or all of the others. */
struct cop__tls_files {
    const char *key;
    const char *authority, *certificate, *private_key;
};

/* 0, or COP_EINVAL, COP_EIO, COP_EREFUSED, COP_ENOMEM with a sentence. */
int cop__tls_create(const struct cop__tls_files *files, struct cop__tls **out,
                    char *message, size_t size);
void cop__tls_destroy(struct cop__tls *tls);

/*
 * Reads the files again. On failure everything stays as it was. Connections that are
 * there stay; cop__channel_is_current tells whether they would be made today.
 */
int cop__tls_reload(struct cop__tls *tls, char *message, size_t size);

bool cop__tls_has_certificates(const struct cop__tls *tls);
/* The name of the key that is used, or "certificates"; for people. */
const char *cop__tls_describe(const struct cop__tls *tls, char *out, size_t size);

#endif
