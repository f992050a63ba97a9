/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls/tls.h"

#include <coppice/error.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/tls/parts.h"

/* Both have SHA-256, which the key of a cluster is made for. */
#define SUITES "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"
#define GROUPS "X25519:P-256"
enum { GROUP_P256 = 0x0017, GROUP_X25519 = 0x001d }; /* on the wire */
/* A chain of certificates; what OpenSSL allows otherwise is 100 KiB. */
#define CHAIN_MAX (16 << 10)

/* TLS_AES_128_GCM_SHA256 as it is on the wire: it stands for the digest of the key. */
static const unsigned char suite[] = {0x13, 0x01};

/* Both sides must say the same, whatever it is. */
static const unsigned char world[] = {'c', 'o', 'p'};

enum { PATH_KEY, PATH_AUTHORITY, PATH_CERTIFICATE, PATH_PRIVATE_KEY, PATHS };

/* The last error of OpenSSL, for people. */
static const char *last_error(void)
{
    unsigned long code = ERR_peek_error();
    const char *reason = ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code))
                                                : ERR_reason_error_string(code);
    ERR_clear_error();
    return reason ? reason : "no reason given";
}

/* ---- the key of a cluster -------------------------------------------------------- */

/* What OpenSSL wants for a key: a session that never was. NULL: no memory. */
static SSL_SESSION *session_of(SSL *ssl, const struct cop__key *key)
{
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, suite);
    SSL_SESSION *session = SSL_SESSION_new();
    if (session != NULL &&
        SSL_SESSION_set1_master_key(session, key->bytes, COP__KEY_SIZE) == 1 &&
        SSL_SESSION_set_cipher(session, cipher) == 1 &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1 &&
        SSL_SESSION_set1_id_context(session, world, sizeof world) == 1)
        return session;
    SSL_SESSION_free(session);
    return NULL;
}

/* We connect: the key to use, and its name. */
static int on_use(SSL *ssl, const EVP_MD *digest, const unsigned char **id,
                  size_t *length, SSL_SESSION **out)
{
    struct cop__channel *channel = cop__channel_of(ssl);
    const struct cop__key *key = &channel->tls->keys.use;
    *out = NULL;
    if (digest != NULL && EVP_MD_get_type(digest) != NID_sha256)
        return 1; /* the other side wants another digest: it will be refused */
    *out = session_of(ssl, key);
    memcpy(channel->key, key->id, sizeof channel->key);
    *id = (const unsigned char *)channel->key;
    *length = COP__KEY_ID_LENGTH;
    return *out != NULL;
}

/* Somebody connects, and says which key it has; whether that is true comes after. */
static int on_find(SSL *ssl, const unsigned char *id, size_t length, SSL_SESSION **out)
{
    struct cop__channel *channel = cop__channel_of(ssl);
    const struct cop__key *key =
        cop__keys_find(&channel->tls->keys, (const char *)id, length);
    *out = NULL;
    channel->is_unknown_key = key == NULL;
    if (key == NULL)
        return 1; /* no session: it has nothing else to offer, and is refused */
    memcpy(channel->key, key->id, sizeof channel->key);
    *out = session_of(ssl, key);
    return *out != NULL;
}

static int load_key(struct cop__tls *tls, char *message, size_t size)
{
    struct cop__keys keys;
    int error = cop__keys_read(tls->paths[PATH_KEY], &keys, message, size);
    if (error != 0)
        return error;
    tls->keys = keys;
    cop__keys_wipe(&keys);
    return 0;
}

/* ---- certificates ---------------------------------------------------------------- */

/* 0, or an error with a sentence. */
static int load_private_key(SSL_CTX *context, const char *path, char *message,
                            size_t size)
{
    int fd = cop__secret_open(path, message, size);
    if (fd < 0)
        return fd;
    BIO *file = BIO_new_fd(fd, BIO_CLOSE);
    if (file == NULL)
        close(fd);
    EVP_PKEY *key = file ? PEM_read_bio_PrivateKey(file, NULL, NULL, NULL) : NULL;
    bool is_ours = key != NULL && SSL_CTX_use_PrivateKey(context, key) == 1 &&
                   SSL_CTX_check_private_key(context) == 1;
    EVP_PKEY_free(key);
    BIO_free(file);
    if (is_ours)
        return 0;
    snprintf(message, size, "%s: %s", path, last_error());
    return COP_EINVAL;
}

static int load_certificates(struct cop__tls *tls, SSL_CTX *context, char *message,
                             size_t size)
{
    char **paths = tls->paths;
    const char *path = paths[PATH_AUTHORITY];
    if (SSL_CTX_load_verify_locations(context, path, NULL) != 1)
        goto failed;
    path = paths[PATH_CERTIFICATE];
    if (SSL_CTX_use_certificate_chain_file(context, path) != 1)
        goto failed;
    return load_private_key(context, paths[PATH_PRIVATE_KEY], message, size);
failed:
    snprintf(message, size, "%s: %s", path, last_error());
    return COP_EINVAL;
}

/* ---- the first message of a stranger --------------------------------------------- */

/*
 * Whether it brings a share of a group that we have. Otherwise it would be asked for another
 * first message, which may be as long as a whole handshake, while the first is bounded before
 * there is any state for it (channel.h). None of us ever sends a second one: both sides name
 * the same groups in the same order.
 */
static int on_opening(SSL *ssl, int *alert, void *context)
{
    const unsigned char *at;
    size_t length;
    (void)context;
    *alert = SSL_AD_HANDSHAKE_FAILURE;
    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_key_share, &at, &length) != 1 ||
        length < 2)
        return SSL_CLIENT_HELLO_ERROR;
    /* The length of all, then of each share its group, its length, and itself. */
    for (at += 2, length -= 2; length >= 4;) {
        unsigned group = (unsigned)at[0] << 8 | at[1];
        size_t whole = 4 + ((size_t)at[2] << 8 | at[3]);
        if (group == GROUP_X25519 || group == GROUP_P256)
            return SSL_CLIENT_HELLO_SUCCESS;
        if (whole > length)
            break;
        at += whole;
        length -= whole;
    }
    return SSL_CLIENT_HELLO_ERROR;
}

/* ---- making ---------------------------------------------------------------------- */

static SSL_CTX *make_context(const struct cop__tls *tls)
{
    SSL_CTX *context = SSL_CTX_new(TLS_method());
    if (context == NULL)
        return NULL;
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION |
                                     SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(context, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_max_cert_list(context, CHAIN_MAX);
    /* With a key nobody has a certificate, so whoever shows one is not one of us. */
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                       NULL);
    SSL_CTX_set_client_hello_cb(context, on_opening, NULL);
    if (SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(context, SUITES) != 1 ||
        SSL_CTX_set1_groups_list(context, GROUPS) != 1 ||
        SSL_CTX_set_num_tickets(context, 0) != 1 ||
        /* Wanted where both sides are asked who they are, although nothing is resumed. */
        SSL_CTX_set_session_id_context(context, world, sizeof world) != 1) {
        SSL_CTX_free(context);
        return NULL;
    }
    if (!tls->has_certificates) {
        SSL_CTX_set_psk_use_session_callback(context, on_use);
        SSL_CTX_set_psk_find_session_callback(context, on_find);
    }
    return context;
}

int cop__tls_reload(struct cop__tls *tls, char *message, size_t size)
{
    if (!tls->has_certificates && tls->context != NULL)
        return load_key(tls, message, size);
    SSL_CTX *context = make_context(tls);
    if (context == NULL) {
        snprintf(message, size, "OpenSSL cannot do TLS 1.3 here: %s", last_error());
        return COP_ENOMEM;
    }
    int error = tls->has_certificates ? load_certificates(tls, context, message, size)
                                      : load_key(tls, message, size);
    SSL_CTX *former = tls->context;
    if (error == 0) {
        tls->context = context;
        error = cop__tls_rehearse(tls, message, size);
    }
    if (error != 0) {
        tls->context = former;
        SSL_CTX_free(context);
        return error;
    }
    /* Channels hold on to the one that they were made of. */
    SSL_CTX_free(former);
    tls->generation++;
    return 0;
}

static int copy_paths(struct cop__tls *tls, const struct cop__tls_files *files)
{
    const char *paths[PATHS] = {files->key, files->authority, files->certificate,
                                files->private_key};
    for (int i = 0; i < PATHS; i++) {
        tls->paths[i] = paths[i] ? strdup(paths[i]) : NULL;
        if (paths[i] != NULL && tls->paths[i] == NULL)
            return COP_ENOMEM;
    }
    return 0;
}

int cop__tls_create(const struct cop__tls_files *files, struct cop__tls **out,
                    char *message, size_t size)
{
    struct cop__tls *tls = calloc(1, sizeof *tls);
    int error = tls ? copy_paths(tls, files) : COP_ENOMEM;
    if (error == 0)
        tls->method = cop__channel_method();
    if (error != 0 || tls->method == NULL) {
        snprintf(message, size, "%s", cop_strerror(COP_ENOMEM));
        cop__tls_destroy(tls);
        return COP_ENOMEM;
    }
    tls->has_certificates = files->key == NULL;
    error = cop__tls_reload(tls, message, size);
    if (error != 0) {
        cop__tls_destroy(tls);
        return error;
    }
    *out = tls;
    return 0;
}

void cop__tls_destroy(struct cop__tls *tls)
{
    if (tls == NULL)
        return;
    SSL_CTX_free(tls->context);
    BIO_meth_free(tls->method);
    for (int i = 0; i < PATHS; i++)
        free(tls->paths[i]);
    cop__keys_wipe(&tls->keys);
    free(tls);
}

bool cop__tls_has_certificates(const struct cop__tls *tls)
{
    return tls->has_certificates;
}

const char *cop__tls_describe(const struct cop__tls *tls, char *out, size_t size)
{
    if (tls->has_certificates)
        snprintf(out, size, "certificates");
    else
        snprintf(out, size, "key %s", tls->keys.use.id);
    return out;
}
