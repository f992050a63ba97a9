/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each process says is "VERSION,ADDRESS"; process 0 adds ",KEY,INSTANCE". No word has a
 * blank in it, and none is longer than PMI-1 allows.
 */
#include "boot/exchange.h"
#include "boot/host.h"
#include "net/tls/keys.h"

#include <coppice/boot.h>
#include <errno.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WORD_VERSION "1"
#define KEY_HEX (2 * COP__KEY_SIZE)

struct cop_boot {
    cop_id rank;
    uint32_t size;
    const char *launcher;
    char cluster[320];
    uint64_t instance;
    char **addresses;
    int listen_fd;     /* -1: somebody has it */
    int key_fd;        /* a file that is nowhere but in memory */
    char key_file[32]; /* its path for this process */
};

int cop__exchange_fail(int error, char *message, size_t size, const char *format, ...)
{
    va_list arguments;
    if (message == NULL || size == 0)
        return error;
    va_start(arguments, format);
    vsnprintf(message, size, format, arguments);
    va_end(arguments);
    return error;
}

/* PMIx first: a launcher that speaks both speaks it better. */
static const struct cop__exchange_protocol *find_protocol(void)
{
    if (cop__exchange_pmix.is_there())
        return &cop__exchange_pmix;
    return cop__exchange_pmi.is_there() ? &cop__exchange_pmi : NULL;
}

bool cop_boot_is_there(void) { return find_protocol() != NULL; }

/* ---- words ----------------------------------------------------------------------- */

static int add_secret(char *word, size_t size)
{
    struct cop__key key;
    struct timespec now;
    size_t length = strlen(word);
    int error = cop__key_make(&key);
    if (error)
        return error;
    word[length++] = ',';
    for (size_t i = 0; i < COP__KEY_SIZE; i++, length += 2)
        snprintf(word + length, size - length, "%02x", key.bytes[i]);
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(word + length, size - length, ",%" PRIu64,
             (uint64_t)now.tv_sec * COP_SEC + (uint64_t)now.tv_nsec);
    OPENSSL_cleanse(&key, sizeof key);
    return 0;
}

static int write_key(struct cop_boot *boot, const char *hex)
{
    char text[KEY_HEX + 8];
    boot->key_fd = memfd_create("coppice-key", MFD_CLOEXEC);
    if (boot->key_fd < 0)
        return COP_EIO;
    int length = snprintf(text, sizeof text, "use %s\n", hex);
    bool written = fchmod(boot->key_fd, 0600) == 0 &&
                   write(boot->key_fd, text, (size_t)length) == length;
    OPENSSL_cleanse(text, sizeof text);
    snprintf(boot->key_file, sizeof boot->key_file, "/proc/self/fd/%d", boot->key_fd);
    return written ? 0 : COP_EIO;
}

/* What process `rank` said. */
static int take_word(struct cop_boot *boot, uint32_t rank, char *word, char *message,
                     size_t size)
{
    char *rest = word;
    const char *version = strsep(&rest, ",");
    const char *address = strsep(&rest, ",");
    if (strcmp(version, WORD_VERSION) != 0 || address == NULL)
        return cop__exchange_fail(COP_EREFUSED, message, size,
                                  "process %u of the job has another version of "
                                  "libcoppice",
                                  rank);
    boot->addresses[rank] = strdup(address);
    if (boot->addresses[rank] == NULL)
        return COP_ENOMEM;
    if (rank > 0)
        return 0;
    const char *key = strsep(&rest, ",");
    if (key == NULL || rest == NULL || strlen(key) != KEY_HEX)
        return cop__exchange_fail(COP_EREFUSED, message, size,
                                  "process 0 of the job sent no key");
    boot->instance = strtoull(rest, NULL, 10);
    if (write_key(boot, key) != 0)
        return cop__exchange_fail(COP_EIO, message, size,
                                  "no memory for the job's key: %s", strerror(errno));
    return 0;
}

/* ---- the exchange ---------------------------------------------------------------- */

static int say_word(struct cop_boot *boot, struct cop__exchange *exchange,
                    char *message, size_t size)
{
    char word[COP__WORD_MAX], address[80];
    int error = cop__boot_listen(exchange->is_local, &boot->listen_fd, address,
                                 sizeof address, message, size);
    if (error)
        return error;
    snprintf(word, sizeof word, WORD_VERSION ",%s", address);
    if (exchange->rank == 0 && (error = add_secret(word, sizeof word)) != 0)
        return cop__exchange_fail(error, message, size, "no random numbers for a key");
    error = exchange->protocol->publish(exchange, word, message, size);
    OPENSSL_cleanse(word, sizeof word);
    return error;
}

static int hear_words(struct cop_boot *boot, struct cop__exchange *exchange,
                      char *message, size_t size)
{
    char word[COP__WORD_MAX];
    int error = 0;
    boot->rank = exchange->rank;
    boot->addresses = calloc(exchange->size, sizeof *boot->addresses);
    if (boot->addresses == NULL)
        return COP_ENOMEM;
    boot->size = exchange->size;
    for (uint32_t i = 0; error == 0 && i < exchange->size; i++) {
        error = exchange->protocol->get(exchange, i, word, sizeof word, message, size);
        if (error == 0)
            error = take_word(boot, i, word, message, size);
    }
    OPENSSL_cleanse(word, sizeof word);
    snprintf(boot->cluster, sizeof boot->cluster, "%s:%s", exchange->protocol->name,
             exchange->job);
    return error;
}

static int exchange_words(struct cop_boot *boot, struct cop__exchange *exchange,
                          char *message, size_t size)
{
    int error = exchange->protocol->open(exchange, message, size);
    if (error == 0)
        error = say_word(boot, exchange, message, size);
    if (error == 0)
        error = hear_words(boot, exchange, message, size);
    exchange->protocol->close(exchange);
    return error;
}

static int boot_by(struct cop__exchange *exchange, struct cop_boot **out, char *message,
                   size_t size)
{
    struct cop_boot *boot = calloc(1, sizeof *boot);
    if (boot == NULL)
        return cop__exchange_fail(COP_ENOMEM, message, size, "no memory");
    boot->listen_fd = boot->key_fd = -1;
    boot->launcher = exchange->protocol->name;
    int error = exchange_words(boot, exchange, message, size);
    if (error == COP_ENOMEM)
        cop__exchange_fail(COP_ENOMEM, message, size, "no memory");
    if (error) {
        cop_boot_free(boot);
        return error;
    }
    *out = boot;
    return 0;
}

int cop_boot(struct cop_boot **out, char *message, size_t size)
{
    struct cop__exchange exchange = {.protocol = find_protocol(), .fd = -1};
    if (exchange.protocol == NULL)
        return cop__exchange_fail(COP_ENOENT, message, size,
                                  "no launcher started this program (mpirun, srun "
                                  "--mpi=pmix or mpiexec would)");
    return boot_by(&exchange, out, message, size);
}

int cop_boot_by(const struct cop_boot_means *means, struct cop_boot **out,
                char *message, size_t size)
{
    struct cop__exchange exchange = {
        .protocol = &cop__exchange_own, .fd = -1, .means = means};
    return boot_by(&exchange, out, message, size);
}

/* ---- what came of it ------------------------------------------------------------- */

cop_id cop_boot_rank(const struct cop_boot *boot) { return boot->rank; }
uint32_t cop_boot_size(const struct cop_boot *boot) { return boot->size; }
const char *cop_boot_launcher(const struct cop_boot *boot) { return boot->launcher; }

void cop_boot_settings(struct cop_boot *boot, struct cop_settings *settings)
{
    settings->cluster = boot->cluster;
    settings->instance = boot->instance;
    settings->addresses = (const char *const *)boot->addresses;
    settings->count = boot->size;
    settings->self = boot->rank;
    settings->key_file = boot->key_file;
    settings->listen_fd = boot->listen_fd < 0 ? 0 : boot->listen_fd;
    settings->all_listen = true; /* nobody says where before it does */
    boot->listen_fd = -1;
    if (settings->shape == NULL)
        settings->shape = "knomial:2";
    if (settings->quorum == NULL)
        settings->quorum = "none";
    if (settings->detector == NULL)
        settings->detector = "connection";
}

void cop_boot_free(struct cop_boot *boot)
{
    if (boot == NULL)
        return;
    for (uint32_t i = 0; i < boot->size; i++)
        free(boot->addresses[i]);
    free(boot->addresses);
    if (boot->listen_fd >= 0)
        close(boot->listen_fd);
    if (boot->key_fd >= 0)
        close(boot->key_fd);
    free(boot);
}
