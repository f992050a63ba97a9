/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls/keys.h"

#include <coppice/error.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX_BYTES 4096u
#define HEX_LENGTH (2 * COP__KEY_SIZE)

static const char digits[] = "0123456789abcdef";

static int bad(int error, char *message, size_t size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static int bad(int error, char *message, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, size, format, arguments);
    va_end(arguments);
    return error;
}

/* ---- keys ------------------------------------------------------------------------ */

static void print_hex(const uint8_t *bytes, size_t length, char *out)
{
    for (size_t i = 0; i < length; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * length] = '\0';
}

static int scan_hex(const char *text, uint8_t *out, size_t length)
{
    if (strlen(text) != 2 * length)
        return COP_EINVAL;
    for (size_t i = 0; i < 2 * length; i++) {
        const char *digit = strchr(digits, text[i] | ('a' - 'A'));
        if (digit == NULL || *digit == '\0')
            return COP_EINVAL;
        unsigned value = (unsigned)(digit - digits);
        out[i / 2] = (uint8_t)(i % 2 == 0 ? value << 4 : out[i / 2] | value);
    }
    return 0;
}

/* A digest that begins with a purpose is of no use for anything but this name. */
static int name_key(struct cop__key *key)
{
    static const char purpose[] = "coppice key id";
    uint8_t input[sizeof purpose + COP__KEY_SIZE], digest[EVP_MAX_MD_SIZE];
    memcpy(input, purpose, sizeof purpose);
    memcpy(input + sizeof purpose, key->bytes, COP__KEY_SIZE);
    int done = EVP_Digest(input, sizeof input, digest, NULL, EVP_sha256(), NULL);
    OPENSSL_cleanse(input, sizeof input);
    if (done != 1)
        return COP_EIO;
    print_hex(digest, COP__KEY_ID_LENGTH / 2, key->id);
    return 0;
}

int cop__key_make(struct cop__key *out)
{
    if (getrandom(out->bytes, COP__KEY_SIZE, 0) != (ssize_t)COP__KEY_SIZE)
        return COP_EIO;
    return name_key(out);
}

void cop__keys_wipe(struct cop__keys *keys) { OPENSSL_cleanse(keys, sizeof *keys); }

const struct cop__key *cop__keys_find(const struct cop__keys *keys, const char *id,
                                      size_t length)
{
    if (length != COP__KEY_ID_LENGTH)
        return NULL;
    if (memcmp(keys->use.id, id, length) == 0)
        return &keys->use;
    if (keys->step != COP__KEYS_ALONE && memcmp(keys->other.id, id, length) == 0)
        return &keys->other;
    return NULL;
}

int cop__keys_rotate(struct cop__keys *keys)
{
    struct cop__key former = keys->use;
    int error = 0;
    switch (keys->step) {
    case COP__KEYS_ALONE:
        error = cop__key_make(&keys->other);
        if (error == 0)
            keys->step = COP__KEYS_NEXT;
        break;
    case COP__KEYS_NEXT:
        keys->use = keys->other;
        keys->other = former;
        keys->step = COP__KEYS_FORMER;
        break;
    case COP__KEYS_FORMER:
        OPENSSL_cleanse(&keys->other, sizeof keys->other);
        keys->step = COP__KEYS_ALONE;
        break;
    }
    OPENSSL_cleanse(&former, sizeof former);
    return error;
}

/* ---- the file -------------------------------------------------------------------- */

static int check_owner(int fd, const char *path, char *message, size_t size)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return bad(COP_EIO, message, size, "%s: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return bad(COP_EINVAL, message, size, "%s: not a key file", path);
    if (status.st_mode & 077)
        return bad(COP_EREFUSED, message, size,
                   "%s: others may use this key (mode %04o): chmod 600 %s, and make a "
                   "new one if anybody has",
                   path, (unsigned)(status.st_mode & 07777), path);
    if (status.st_uid != geteuid() && status.st_uid != 0)
        return bad(COP_EREFUSED, message, size,
                   "%s: this key belongs to user %u, and this is user %u", path,
                   (unsigned)status.st_uid, (unsigned)geteuid());
    return 0;
}

int cop__secret_open(const char *path, char *message, size_t size)
{
    /* A pipe must not make us wait for somebody to write into it. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return bad(COP_EIO, message, size, "%s: %s", path, strerror(errno));
    int error = check_owner(fd, path, message, size);
    if (error == 0)
        return fd;
    close(fd);
    return error;
}

/* The role and the key of a line; what they mean is decided by what came before. */
static int take_line(const char *line, bool *has_use, struct cop__keys *keys)
{
    char role[8], hex[HEX_LENGTH + 2], more[2];
    int words = sscanf(line, "%7s %65s %1s", role, hex, more);
    int error = COP_EINVAL;
    if (words < 1 || role[0] == '#')
        return 0;
    bool is_use = strcmp(role, "use") == 0;
    bool is_next = strcmp(role, "next") == 0;
    bool is_former = strcmp(role, "former") == 0;
    if (words == 2 && is_use && !*has_use) {
        error = scan_hex(hex, keys->use.bytes, COP__KEY_SIZE);
        *has_use = true;
    } else if (words == 2 && (is_next || is_former) && keys->step == COP__KEYS_ALONE) {
        error = scan_hex(hex, keys->other.bytes, COP__KEY_SIZE);
        keys->step = is_next ? COP__KEYS_NEXT : COP__KEYS_FORMER;
    }
    OPENSSL_cleanse(hex, sizeof hex);
    return error;
}

/* `text` is changed on the way. */
static int take_text(char *text, const char *path, struct cop__keys *out, char *message,
                     size_t size)
{
    struct cop__keys keys = {0};
    unsigned number = 0;
    bool has_use = false;
    int error = 0;
    char *rest = text, *line;
    while (error == 0 && (line = strsep(&rest, "\n")) != NULL) {
        number++;
        error = take_line(line, &has_use, &keys);
    }
    if (error != 0)
        error = bad(COP_EINVAL, message, size,
                    "%s:%u: expected \"use KEY\", or one \"next KEY\" or \"former "
                    "KEY\"; a key is %u digits 0-9, a-f",
                    path, number, HEX_LENGTH);
    else if (!has_use)
        error = bad(COP_EINVAL, message, size,
                    "%s: there is no key in it (make one with: coppice key new %s)",
                    path, path);
    if (error == 0 && (name_key(&keys.use) != 0 ||
                       (keys.step != COP__KEYS_ALONE && name_key(&keys.other) != 0)))
        error = bad(COP_EIO, message, size, "%s: no SHA-256 here", path);
    if (error == 0)
        *out = keys;
    cop__keys_wipe(&keys);
    return error;
}

int cop__keys_read(const char *path, struct cop__keys *out, char *message, size_t size)
{
    char text[FILE_MAX_BYTES + 1];
    int fd = cop__secret_open(path, message, size), error = 0;
    if (fd < 0)
        return fd;
    ssize_t length = read(fd, text, sizeof text);
    if (length < 0)
        error = bad(COP_EIO, message, size, "%s: %s", path, strerror(errno));
    else if (length > (ssize_t)FILE_MAX_BYTES)
        error = bad(COP_EINVAL, message, size, "%s: too long for a key file", path);
    close(fd);
    if (error == 0) {
        text[length] = '\0';
        error = take_text(text, path, out, message, size);
    }
    OPENSSL_cleanse(text, sizeof text);
    return error;
}

static size_t print_keys(const struct cop__keys *keys, char *out, size_t size)
{
    char use[HEX_LENGTH + 1], other[HEX_LENGTH + 1];
    print_hex(keys->use.bytes, COP__KEY_SIZE, use);
    print_hex(keys->other.bytes, COP__KEY_SIZE, other);
    int length = snprintf(out, size,
                          "# A key of a Coppice cluster: who has it is a member.\n"
                          "use %s\n",
                          use);
    if (keys->step != COP__KEYS_ALONE)
        length += snprintf(out + length, size - (size_t)length, "%s %s\n",
                           keys->step == COP__KEYS_NEXT ? "next" : "former", other);
    OPENSSL_cleanse(use, sizeof use);
    OPENSSL_cleanse(other, sizeof other);
    return (size_t)length;
}

/* 0 or an errno. */
static int write_file(const char *path, const char *text, size_t length, bool is_brief)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    ssize_t done = write(fd, text, length);
    int error = done < 0 ? errno : done != (ssize_t)length ? ENOSPC : 0;
    if (error == 0 && !is_brief && fsync(fd) != 0)
        error = errno;
    if (close(fd) != 0 && error == 0)
        error = errno;
    if (error != 0)
        unlink(path);
    return error;
}

int cop__keys_write(const char *path, const struct cop__keys *keys, bool is_new,
                    char *message, size_t size)
{
    char text[FILE_MAX_BYTES], temporary[PATH_MAX];
    int length = snprintf(temporary, sizeof temporary, "%s.new", path);
    if (length >= (int)sizeof temporary)
        return bad(COP_EIO, message, size, "%s: the path is too long", path);
    size_t written = print_keys(keys, text, sizeof text);
    int error = write_file(is_new ? path : temporary, text, written, false);
    OPENSSL_cleanse(text, sizeof text);
    if (error == 0 && !is_new && rename(temporary, path) != 0) {
        error = errno;
        unlink(temporary);
    }
    if (error == EEXIST && !is_new)
        return bad(COP_EIO, message, size,
                   "%s is there: somebody else changes the key, or was stopped while "
                   "doing so; remove it if nobody does",
                   temporary);
    return error == 0 ? 0
                      : bad(COP_EIO, message, size, "%s: %s", path, strerror(error));
}

int cop__keys_write_brief(const char *path, const struct cop__keys *keys, char *message,
                          size_t size)
{
    char text[FILE_MAX_BYTES];
    size_t written = print_keys(keys, text, sizeof text);
    int error = write_file(path, text, written, true);
    OPENSSL_cleanse(text, sizeof text);
    return error == 0 ? 0
                      : bad(COP_EIO, message, size, "%s: %s", path, strerror(error));
}
