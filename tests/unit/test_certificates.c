/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates: whose they are, how long they count, and the file of the private key. An
 * authority and its certificates are made here, in memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/tls/channel.h"
#include "tcp_world.h"
#include "wire/header.h"
#include "wire/messages.h"

/* ---- files ----------------------------------------------------------------------- */

struct authority {
    EVP_PKEY *key;
    X509 *certificate;
};

static char folder[32], message[400];
static struct authority ours;

static const char *path_of(const char *name, const char *end)
{
    static char paths[4][80];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s.%s", folder, name, end);
    return path;
}

static X509 *make_certificate(const char *name, EVP_PKEY *key,
                              const struct authority *by)
{
    static long serial;
    X509 *made = X509_new();
    X509_NAME *subject = X509_get_subject_name(made);
    assert_int_equal(X509_set_version(made, X509_VERSION_3), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(made), ++serial), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(made), -3600));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(made), 86400));
    assert_int_equal(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                                (const unsigned char *)name, -1, -1, 0),
                     1);
    assert_int_equal(X509_set_issuer_name(
                         made, by ? X509_get_subject_name(by->certificate) : subject),
                     1);
    assert_int_equal(X509_set_pubkey(made, key), 1);
    if (!by) {
        X509_EXTENSION *ca =
            X509V3_EXT_conf_nid(NULL, NULL, NID_basic_constraints, "critical,CA:TRUE");
        assert_int_equal(X509_add_ext(made, ca, -1), 1);
        X509_EXTENSION_free(ca);
    }
    assert_true(X509_sign(made, by ? by->key : key, EVP_sha256()) > 0);
    return made;
}

static void write_certificate(const char *name, X509 *certificate)
{
    FILE *file = fopen(path_of(name, "pem"), "w");
    assert_int_equal(PEM_write_X509(file, certificate), 1);
    assert_int_equal(fclose(file), 0);
}

/* Files for a member of this name; also for the second time. */
static void issue(const char *name)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = make_certificate(name, key, &ours);
    write_certificate(name, certificate);
    FILE *file = fopen(path_of(name, "key"), "w");
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
    assert_int_equal(fclose(file), 0);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

static int create(const char *name, struct cop__tls **out)
{
    struct cop__tls_files files = {.authority = path_of("ours", "pem"),
                                   .certificate = path_of(name, "pem"),
                                   .private_key = path_of(name, "key")};
    return cop__tls_create(&files, out, message, sizeof message);
}

static struct cop__tls *make_tls(const char *name)
{
    struct cop__tls *tls;
    issue(name);
    assert_int_equal(create(name, &tls), 0);
    return tls;
}

static int begin(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/coppice-certs-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    ours.key = EVP_EC_gen("P-256");
    ours.certificate = make_certificate("ours", ours.key, NULL);
    write_certificate("ours", ours.certificate);
    return 0;
}

static int end(void **state)
{
    static const char *const names[] = {"ours", "alpha", "beta.example", "mallory"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unlink(path_of(names[i], "pem"));
        unlink(path_of(names[i], "key"));
    }
    X509_free(ours.certificate);
    EVP_PKEY_free(ours.key);
    return rmdir(folder);
}

/* ---- the private key ------------------------------------------------------------- */

/* As strict as the key of a cluster: whose it is, who may read it, and what it is. */
static void a_private_key_is_private(void **state)
{
    struct cop__tls *tls;
    (void)state;
    issue("alpha");
    assert_int_equal(create("alpha", &tls), 0);
    cop__tls_destroy(tls);
    assert_int_equal(chmod(path_of("alpha", "key"), 0640), 0);
    assert_int_equal(create("alpha", &tls), COP_EREFUSED);
    assert_non_null(strstr(message, "chmod 600"));
    assert_int_equal(chmod(path_of("alpha", "key"), 0600), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(path_of("alpha", "key"), 12345, (gid_t)-1), 0);
        assert_int_equal(create("alpha", &tls), COP_EREFUSED);
        assert_non_null(strstr(message, "belongs to user 12345"));
    }
    /* Nobody waits for somebody to write into it. */
    unlink(path_of("alpha", "key"));
    assert_int_equal(mkfifo(path_of("alpha", "key"), 0600), 0);
    alarm(20);
    assert_int_equal(create("alpha", &tls), COP_EINVAL);
    alarm(0);
    unlink(path_of("alpha", "key"));
    assert_int_equal(create("alpha", &tls), COP_EIO);
}

/* ---- connections in memory ------------------------------------------------------- */

struct pair {
    struct cop__channel *ends[2];
    struct cop__outbox out[2];
};

static int shake(struct pair *pair, int i)
{
    struct cop__bytes in = {pair->out[1 - i].bytes, (uint32_t)pair->out[1 - i].used};
    pair->out[1 - i].used = 0;
    return cop__channel_shake(pair->ends[i], &in, &pair->out[i]);
}

static struct pair *begin_pair(struct cop__tls *client, struct cop__tls *server)
{
    struct pair *pair = calloc(1, sizeof *pair);
    assert_int_equal(cop__channel_create(client, false, &pair->ends[0]), 0);
    assert_int_equal(cop__channel_create(server, true, &pair->ends[1]), 0);
    assert_int_equal(shake(pair, 0), 0);
    assert_int_equal(shake(pair, 1), 0);
    assert_int_equal(shake(pair, 0), 1);
    return pair;
}

static void end_pair(struct pair *pair)
{
    cop__channel_destroy(pair->ends[0]);
    cop__channel_destroy(pair->ends[1]);
    free(pair);
}

static void a_name_is_the_whole_name(void **state)
{
    (void)state;
    struct cop__tls *tls = make_tls("beta.example");
    struct pair *pair = begin_pair(tls, tls);
    assert_int_equal(shake(pair, 1), 1);
    for (int i = 0; i < 2; i++) {
        assert_true(cop__channel_is_named(pair->ends[i], "beta.example"));
        assert_false(cop__channel_is_named(pair->ends[i], "beta"));
        assert_false(cop__channel_is_named(pair->ends[i], ""));
        assert_false(cop__channel_is_named(pair->ends[i], ".example"));
        assert_false(cop__channel_is_named(pair->ends[i], "*.example"));
    }
    end_pair(pair);
    cop__tls_destroy(tls);
}

/* Another authority may have come while somebody took its time. */
static void a_handshake_does_not_outlive_its_authority(void **state)
{
    (void)state;
    struct cop__tls *tls = make_tls("alpha");
    struct pair *pair = begin_pair(tls, tls);
    assert_int_equal(cop__tls_reload(tls, message, sizeof message), 0);
    assert_int_equal(shake(pair, 1), COP_EREFUSED);
    assert_int_equal(cop__channel_fault(pair->ends[1]), COP__FAULT_CERTIFICATE);
    end_pair(pair);
    pair = begin_pair(tls, tls);
    assert_int_equal(shake(pair, 1), 1);
    end_pair(pair);
    cop__tls_destroy(tls);
}

/* The first message of a client that has no certificate, and names `groups`. */
static uint32_t make_opening(const char *groups, uint8_t *out, int size)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    assert_int_equal(SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION), 1);
    assert_int_equal(SSL_CTX_set1_groups_list(context, groups), 1);
    SSL *ssl = SSL_new(context);
    BIO *in = BIO_new(BIO_s_mem()), *sent = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl, in, sent);
    assert_int_equal(SSL_connect(ssl), -1);
    int length = BIO_read(sent, out, size);
    assert_true(length > 0 && length < size);
    SSL_free(ssl);
    SSL_CTX_free(context);
    return (uint32_t)length;
}

/*
 * Who offers no share that can be used would be asked for another opening, which is not held
 * to the size of the first. None of us needs a second one.
 */
static void there_is_one_opening(void **state)
{
    struct cop__outbox *out = calloc(1, sizeof *out);
    struct cop__channel *channel;
    uint8_t bytes[1024];
    (void)state;
    struct cop__tls *tls = make_tls("alpha");
    struct cop__bytes in = {bytes, make_opening("P-384:X25519", bytes, sizeof bytes)};
    assert_int_equal(cop__channel_create(tls, true, &channel), 0);
    assert_int_equal(cop__channel_shake(channel, &in, out), COP_EREFUSED);
    cop__channel_destroy(channel);
    cop__tls_destroy(tls);
    free(out);
}

/* ---- over sockets ---------------------------------------------------------------- */

static bool first_has_all_of_third(void *context)
{
    struct world *world = context;
    return side_has_all(&world->sides[2], &world->sides[0]);
}

/*
 * An id that nobody has yet may be anybody's, for whoever joins needs one. When it has become
 * somebody's, whoever was there before is not that one: it is not heard, nothing is sent to
 * it, and the owner is not taken for an earlier life of it.
 */
static void an_id_is_kept_for_its_owner(void **state)
{
    (void)state;
    for (int speaks = 0; speaks < 2; speaks++) {
        struct world *world = world_create(AF_INET);
        struct cop__tls *alpha = make_tls("alpha"), *mallory = make_tls("mallory");
        struct cop__tls *beta = make_tls("beta.example");
        world->tls = alpha;
        struct side *a = world_open(world, 0, 3);
        world->tls = mallory;
        struct side *m = world_open(world, 2, 1000);
        side_send(m, 0, COP__KIND_NEWS, 3, 100);
        world_until(world, first_has_all_of_third, world);
        world->names[0] = "alpha";
        world->names[2] = "beta.example";
        if (speaks)
            side_send(m, 0, COP__KIND_NEWS, 1, 100);
        else
            side_send(a, 2, COP__KIND_NEWS, 1, 100);
        world_until_count(world, &a->downs[2][COP_DOWN_CLOSED], 1);
        assert_int_equal(a->with[2].came[COP__LANE_CONTROL], 3);
        assert_true(a->stats.refused_unproven >= 1);
        assert_int_equal(m->with[0].came[COP__LANE_CONTROL], 0);
        world_crash(m);
        world->tls = beta;
        struct side *b = world_open(world, 2, 5);
        a->with[2] = (struct exchange){0};
        side_send(b, 0, COP__KIND_NEWS, 2, 100);
        world_until(world, first_has_all_of_third, world);
        assert_int_equal(a->lives[2], 5);
        world_destroy(world);
        cop__tls_destroy(alpha);
        cop__tls_destroy(beta);
        cop__tls_destroy(mallory);
    }
}

/* A JOIN that is to be passed on, as `name`; given away. */
static struct cop_buf *wrap_join(const char *name, cop_id sender)
{
    uint8_t card[32] = {(uint8_t)strlen(name)}, bytes[256];
    memcpy(card + 1, name, strlen(name));
    struct cop__msg_join join = {.card = {card, (uint32_t)strlen(name) + 1}};
    struct cop_buf *payload = cop__encode_join(&join);
    struct cop_header header = {
        .kind = COP__KIND_JOIN, .sender = sender, .length = payload->length};
    cop__header_encode(&header, bytes);
    memcpy(bytes + COP__HEADER_SIZE, payload->data, payload->length);
    struct cop__msg_relay relay = {
        .frame = {bytes, COP__HEADER_SIZE + payload->length}};
    cop_buf_unref(payload);
    return cop__encode_relay(&relay);
}

/* Who would join by another's name is not passed on to a root that cannot see who it is. What
 * the world's sides do not expect as a frame must not come. */
static void a_name_is_asked_for_on_the_way(void **state)
{
    (void)state;
    struct world *world = world_create(AF_INET);
    struct cop__tls *alpha = make_tls("alpha"), *mallory = make_tls("mallory");
    world->tls = alpha;
    struct side *a = world_open(world, 0, 3);
    world->tls = mallory;
    struct side *m = world_open(world, 2, 1000);
    struct cop_frame frame = {.header = {.kind = COP__KIND_RELAY,
                                         .sender = 2,
                                         .sender_incarnation = 1000,
                                         .receiver_incarnation = 3},
                              .payload = wrap_join("beta.example", 2)};
    frame.header.length = frame.payload->length;
    assert_int_equal(cop__peers_send(m->peers, 0, &frame), 0);
    cop_buf_unref(frame.payload);
    side_send(m, 0, COP__KIND_NEWS, 3, 100);
    world_until(world, first_has_all_of_third, world);
    assert_int_equal(a->stats.refused_unproven, 1);
    world_destroy(world);
    cop__tls_destroy(alpha);
    cop__tls_destroy(mallory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_private_key_is_private),
        cmocka_unit_test(a_name_is_the_whole_name),
        cmocka_unit_test(a_handshake_does_not_outlive_its_authority),
        cmocka_unit_test(there_is_one_opening),
        cmocka_unit_test(an_id_is_kept_for_its_owner),
        cmocka_unit_test(a_name_is_asked_for_on_the_way),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
