/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls/channel.h"

#include <coppice/error.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "net/tls/parts.h"

/* The first message of a stranger: with a key it has some 300 bytes. */
#define OPENING_MAX_KEY 1024u
#define OPENING_MAX_CERTIFICATES 4096u
/* All that a handshake may take; certificates are the most of it. */
#define HANDSHAKE_MAX (32u << 10)

/* The head of a TLS record: type, version, length; then that of a handshake message. */
#define HEAD_SIZE 5u
#define HEAD_AND_MESSAGE_SIZE 9u
enum { TYPE_HANDSHAKE = 22, MESSAGE_CLIENT_HELLO = 1 };

const char *cop__fault_text(enum cop__fault fault)
{
    static const char *const texts[] = {
#define TEXT(name, text) text,
        COP__FAULTS(TEXT)
#undef TEXT
    };
    return texts[fault];
}

/* ---- bytes for OpenSSL ----------------------------------------------------------- */

struct cop__channel *cop__channel_of(const SSL *ssl) { return SSL_get_app_data(ssl); }

static int on_bio_read(BIO *bio, char *out, int length)
{
    struct cop__channel *channel = BIO_get_data(bio);
    struct cop__bytes *in = channel->in;
    uint32_t count = length > 0 ? (uint32_t)length : 0;
    BIO_clear_retry_flags(bio);
    if (in == NULL || in->length == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    if (count > in->length)
        count = in->length;
    memcpy(out, in->data, count);
    in->data += count;
    in->length -= count;
    return (int)count;
}

static int on_bio_write(BIO *bio, const char *data, int length)
{
    struct cop__channel *channel = BIO_get_data(bio);
    struct cop__outbox *out = channel->out;
    size_t count = length > 0 ? (size_t)length : 0;
    BIO_clear_retry_flags(bio);
    if (out == NULL || out->used + count > sizeof out->bytes) {
        BIO_set_retry_write(bio);
        return -1;
    }
    memcpy(out->bytes + out->used, data, count);
    out->used += count;
    return length;
}

static long on_bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

BIO_METHOD *cop__channel_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "channel");
    if (method != NULL) {
        BIO_meth_set_read(method, on_bio_read);
        BIO_meth_set_write(method, on_bio_write);
        BIO_meth_set_ctrl(method, on_bio_control);
    }
    return method;
}

/* ---- life ------------------------------------------------------------------------ */

static int make_ssl(struct cop__channel *channel)
{
    SSL *ssl = SSL_new(channel->tls->context);
    BIO *bio = ssl ? BIO_new(channel->tls->method) : NULL;
    if (bio == NULL) {
        SSL_free(ssl);
        ERR_clear_error();
        return COP_ENOMEM;
    }
    BIO_set_data(bio, channel);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    SSL_set_app_data(ssl, channel);
    if (channel->is_server)
        SSL_set_accept_state(ssl);
    else
        SSL_set_connect_state(ssl);
    channel->generation = channel->tls->generation;
    channel->ssl = ssl;
    return 0;
}

int cop__channel_create(struct cop__tls *tls, bool is_server, struct cop__channel **out)
{
    struct cop__channel *channel = calloc(1, sizeof *channel);
    if (channel == NULL)
        return COP_ENOMEM;
    channel->tls = tls;
    channel->is_server = is_server;
    channel->fault = COP__FAULT_BROKEN;
    channel->detail = "";
    *out = channel;
    return 0;
}

void cop__channel_destroy(struct cop__channel *channel)
{
    if (channel == NULL)
        return;
    SSL_free(channel->ssl);
    free(channel->opening);
    free(channel);
}

/* ---- what went wrong ------------------------------------------------------------- */

static int fail_with(struct cop__channel *channel, enum cop__fault fault,
                     const char *detail)
{
    channel->fault = fault;
    channel->detail = detail ? detail : "";
    ERR_clear_error();
    return COP_EREFUSED;
}

/* Texts of OpenSSL are constant. */
static int explain(struct cop__channel *channel)
{
    unsigned long code = ERR_peek_error();
    int reason = ERR_GET_REASON(code);
    const char *text = ERR_reason_error_string(code);
    long verdict = SSL_get_verify_result(channel->ssl);
    enum cop__fault missing =
        channel->tls->has_certificates ? COP__FAULT_CERTIFICATE : COP__FAULT_KEY;
    if (channel->is_unknown_key)
        return fail_with(channel, COP__FAULT_KEY, "");
    if (reason == ERR_R_MALLOC_FAILURE) {
        ERR_clear_error();
        return COP_ENOMEM;
    }
    if (reason >= SSL_AD_REASON_OFFSET) /* an alert of the other side */
        return fail_with(channel, COP__FAULT_REFUSED, text);
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
        return fail_with(channel, COP__FAULT_CERTIFICATE,
                         X509_verify_cert_error_string(verdict));
    if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
        return fail_with(channel, COP__FAULT_CERTIFICATE, "it has none");
    if (reason == SSL_R_BINDER_DOES_NOT_VERIFY)
        return fail_with(channel, COP__FAULT_KEY, text);
    if (reason == SSL_R_NO_SHARED_CIPHER || reason == SSL_R_NO_SUITABLE_KEY_SHARE ||
        reason == SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM)
        return fail_with(channel, missing, text);
    if (reason == SSL_R_CALLBACK_FAILED) /* see on_opening */
        return fail_with(channel, COP__FAULT_BROKEN, "no share of a group of ours");
    if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST ||
        reason == SSL_R_UNSUPPORTED_PROTOCOL)
        return fail_with(channel, COP__FAULT_PLAIN, "");
    return fail_with(channel, COP__FAULT_BROKEN, text);
}

enum cop__fault cop__channel_fault(const struct cop__channel *channel)
{
    return channel->fault;
}

void cop__channel_reject(struct cop__channel *channel, enum cop__fault fault)
{
    channel->fault = fault;
    channel->detail = "";
}

const char *cop__channel_detail(const struct cop__channel *channel)
{
    return channel->detail;
}

/* ---- the first message of a stranger --------------------------------------------- */

static uint32_t opening_max(const struct cop__channel *channel)
{
    return channel->tls->has_certificates ? OPENING_MAX_CERTIFICATES : OPENING_MAX_KEY;
}

/* Whether these bytes, as far as they go, can begin one; *whole is how long it will be. */
static bool is_opening(const struct cop__channel *channel, uint32_t *whole)
{
    const uint8_t *at = channel->opening;
    uint32_t used = channel->opening_used;
    uint32_t length = used >= HEAD_SIZE ? (uint32_t)at[3] << 8 | at[4] : 0;
    *whole = HEAD_AND_MESSAGE_SIZE;
    if ((used > 0 && at[0] != TYPE_HANDSHAKE) || (used > 1 && at[1] != 3))
        return false;
    if (used < HEAD_AND_MESSAGE_SIZE)
        return true;
    *whole = HEAD_SIZE + length;
    /* One record holds the message and nothing else, so the two lengths agree. */
    return *whole > HEAD_AND_MESSAGE_SIZE && *whole <= opening_max(channel) &&
           at[5] == MESSAGE_CLIENT_HELLO && at[6] == 0 &&
           ((uint32_t)at[7] << 8 | at[8]) + 4 == length;
}

/* Room grows with what came, not with what was said to come. */
static int keep_opening(struct cop__channel *channel, struct cop__bytes *in,
                        uint32_t wanted)
{
    uint32_t count = wanted - channel->opening_used;
    if (count > in->length)
        count = in->length;
    uint8_t *grown = realloc(channel->opening, channel->opening_used + count);
    if (grown == NULL)
        return COP_ENOMEM;
    channel->opening = grown;
    memcpy(grown + channel->opening_used, in->data, count);
    channel->opening_used += count;
    in->data += count;
    in->length -= count;
    return 0;
}

/* 1: it is whole, and there is a state for the stranger now. 0: more is to come. */
static int take_opening(struct cop__channel *channel, struct cop__bytes *in)
{
    uint32_t whole;
    while (is_opening(channel, &whole) && channel->opening_used < whole) {
        if (in->length == 0)
            return 0;
        int error = keep_opening(channel, in, whole);
        if (error != 0)
            return error;
    }
    if (!is_opening(channel, &whole))
        return fail_with(channel, COP__FAULT_PLAIN, "");
    int error = make_ssl(channel);
    return error != 0 ? error : 1;
}

/* ---- the handshake --------------------------------------------------------------- */

/* Nobody is here who has not proved it, whatever OpenSSL was made to think. */
static int finish(struct cop__channel *channel)
{
    if (channel->tls->has_certificates) {
        if (SSL_get0_peer_certificate(channel->ssl) == NULL ||
            SSL_get_verify_result(channel->ssl) != X509_V_OK)
            return fail_with(channel, COP__FAULT_CERTIFICATE, "it has none");
    } else if (!SSL_session_reused(channel->ssl) || channel->key[0] == '\0') {
        return fail_with(channel, COP__FAULT_KEY, "");
    }
    if (SSL_version(channel->ssl) != TLS1_3_VERSION)
        return fail_with(channel, COP__FAULT_BROKEN, "not TLS 1.3");
    /* What it began with may have been taken back while it took its time. */
    if (!cop__channel_is_current(channel))
        return fail_with(channel,
                         channel->tls->has_certificates ? COP__FAULT_CERTIFICATE
                                                        : COP__FAULT_KEY,
                         "it was accepted when the handshake began, and is no longer");
    channel->is_open = true;
    return 1;
}

static int advance(struct cop__channel *channel, struct cop__bytes *in,
                   struct cop__outbox *out)
{
    uint32_t before = in->length;
    channel->in = in;
    channel->out = out;
    ERR_clear_error();
    int done = SSL_do_handshake(channel->ssl);
    int why = SSL_get_error(channel->ssl, done);
    channel->in = NULL;
    channel->out = NULL;
    channel->taken += before - in->length;
    if (done == 1)
        return finish(channel);
    if (why == SSL_ERROR_WANT_READ && channel->taken <= HANDSHAKE_MAX)
        return 0;
    if (why == SSL_ERROR_WANT_READ)
        return fail_with(channel, COP__FAULT_BROKEN, "too long");
    return explain(channel);
}

int cop__channel_shake(struct cop__channel *channel, struct cop__bytes *in,
                       struct cop__outbox *out)
{
    COP_ASSERT(!channel->is_open);
    /* Not before there is somebody to talk to: most of those who are called in vain are
     * dead, and refuse at once. */
    if (channel->ssl == NULL && !channel->is_server && make_ssl(channel) != 0)
        return COP_ENOMEM;
    if (channel->ssl == NULL) {
        int got = take_opening(channel, in);
        if (got != 1)
            return got;
        struct cop__bytes first = {channel->opening, channel->opening_used};
        got = advance(channel, &first, out);
        free(channel->opening);
        channel->opening = NULL;
        if (got != 0)
            return got;
    }
    return advance(channel, in, out);
}

/* ---- after it -------------------------------------------------------------------- */

ssize_t cop__channel_read(struct cop__channel *channel, struct cop__bytes *in,
                          uint8_t *plain, size_t size, struct cop__outbox *out)
{
    size_t count = 0;
    COP_ASSERT(channel->is_open);
    channel->in = in;
    channel->out = out;
    if (ERR_peek_error() != 0) /* of somebody else on this thread */
        ERR_clear_error();
    int done = SSL_read_ex(channel->ssl, plain, size, &count);
    int why = done == 1 ? SSL_ERROR_NONE : SSL_get_error(channel->ssl, done);
    channel->in = NULL;
    channel->out = NULL;
    if (done == 1)
        return (ssize_t)count;
    if (why == SSL_ERROR_WANT_READ)
        return 0;
    if (why == SSL_ERROR_ZERO_RETURN)
        return COP_ELOST;
    return explain(channel);
}

int cop__channel_write(struct cop__channel *channel, const void *data, size_t length,
                       struct cop__outbox *out)
{
    size_t count = 0;
    COP_ASSERT(channel->is_open && length > 0 && length <= COP__RECORD_PLAIN &&
               out->used + COP__OUTBOX_ROOM <= sizeof out->bytes);
    channel->out = out;
    int done = SSL_write_ex(channel->ssl, data, length, &count);
    channel->out = NULL;
    if (done == 1 && count == length)
        return 0;
    ERR_clear_error();
    return COP_ENOMEM;
}

void cop__channel_rest(struct cop__channel *channel)
{
    /* If something is still in them they stay. */
    if (channel->ssl != NULL)
        SSL_free_buffers(channel->ssl);
}

bool cop__channel_is_named(const struct cop__channel *channel, const char *name)
{
    if (!channel->tls->has_certificates)
        return true;
    X509 *certificate = SSL_get0_peer_certificate(channel->ssl);
    /* To OpenSSL a dot in front stands for everything below it. */
    return certificate != NULL && name[0] != '.' &&
           X509_check_host(certificate, name, strlen(name),
                           X509_CHECK_FLAG_NO_WILDCARDS, NULL) == 1;
}

bool cop__channel_is_current(const struct cop__channel *channel)
{
    if (channel->tls->has_certificates)
        return channel->generation == channel->tls->generation;
    return cop__keys_find(&channel->tls->keys, channel->key, COP__KEY_ID_LENGTH) !=
           NULL;
}
