/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: taken from programs of any age, checked, and turned into what a run needs. */
#include "net/tls/tls.h"
#include "run/listen.h"
#include "run/name.h"
#include "run/parts.h"
#include "run/text.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define DETECTOR "ring:100ms,witnesses:2"
/* Sockets that one process may have beside a contact's. */
#define SOCKETS_MAX 1000

/* What was there in the first version. */
#define SIZE_MIN sizeof(struct cop_settings)

int cop__settings_take(const struct cop_settings *given, struct cop_settings *out,
                       char *message, size_t size)
{
    if (given == NULL)
        return cop__explain(message, size, "there are no settings");
    if (given->size < SIZE_MIN)
        return cop__explain(message, size,
                            "size of the settings must be sizeof(struct cop_settings)");
    /* What a later version has is welcome as long as nothing is asked for by it. */
    const uint8_t *bytes = (const uint8_t *)given;
    for (size_t i = sizeof *out; i < given->size; i++)
        if (bytes[i] != 0)
            return cop__explain(message, size,
                                "the settings have something that this version of the "
                                "library does not know");
    memcpy(out, given, sizeof *out);
    return 0;
}

/* An address that means the same in every directory. No spaces: it is sent in a line. */
static int make_absolute(const char *text, char *out, char *message, size_t size)
{
    char directory[PATH_MAX] = "";
    bool is_relative = strncmp(text, "unix:", 5) == 0 && text[5] != '/';
    if (is_relative && getcwd(directory, sizeof directory) == NULL)
        return cop__explain(message, size, "%s: no current directory: %s", text,
                            strerror(errno));
    int length = is_relative ? snprintf(out, COP__ADDRESS_TEXT, "unix:%s/%s", directory,
                                        text + 5)
                             : snprintf(out, COP__ADDRESS_TEXT, "%s", text);
    if (length < 0 || length >= (int)COP__ADDRESS_TEXT)
        return cop__explain(message, size, "%.40s...: the address is too long", text);
    if (strpbrk(out, " \t\r\n") != NULL)
        return cop__explain(message, size, "%s: an address may have no spaces", out);
    return 0;
}

static bool has_key(const struct cop_settings *settings)
{
    return settings->key_file != NULL || settings->certificate_file != NULL;
}

static int read_keys(struct cop_run *run, const struct cop_settings *settings,
                     char *message, size_t size)
{
    const struct cop__tls_files files = {
        .key = settings->key_file,
        .authority = settings->authority_file,
        .certificate = settings->certificate_file,
        .private_key = settings->private_key_file,
    };
    if (!has_key(settings))
        return 0;
    if (settings->insecure)
        return cop__explain(message, size, "a key and `insecure` exclude each other");
    if (!files.key && (!files.authority || !files.private_key))
        return cop__explain(message, size,
                            "a certificate needs its private key and an authority");
    return cop__tls_create(&files, &run->tls, message, size);
}

static int check_transport(const struct cop_settings *settings,
                           const struct cop__address *address, const char *text,
                           char *message, size_t size)
{
    if (cop__address_is_unix(address) || settings->insecure || has_key(settings))
        return 0;
    cop__explain(message, size,
                 "%s: TCP needs a key_file or certificates; `insecure` does without",
                 text);
    return COP_EREFUSED;
}

/* Reads an address of the settings; `absolute` gets its text. */
static int read_address(const struct cop_settings *settings, const char *text,
                        uint16_t least, struct cop__address *out, char *absolute,
                        char *message, size_t size)
{
    char why[150] = "";
    int error = make_absolute(text, absolute, message, size);
    if (error)
        return error;
    if (cop__address_parse(absolute, "/", least, out, why, sizeof why) != 0)
        return cop__explain(message, size, "%s: %s", text, why);
    return check_transport(settings, out, text, message, size);
}

/* ---- the static start ------------------------------------------------------------ */

static int add_members(struct cop_run *run, const struct cop_settings *settings,
                       char *message, size_t size)
{
    char absolute[COP__ADDRESS_TEXT];
    struct cop__address address;
    for (uint32_t i = 0; i < settings->count; i++) {
        if (settings->addresses[i] == NULL)
            return cop__explain(message, size, "addresses[%u] is missing", (unsigned)i);
        int error = read_address(settings, settings->addresses[i], 1, &address,
                                 absolute, message, size);
        if (error == 0)
            error = cop__start_add(&run->start, NULL, absolute, message, size);
        if (error)
            return error;
    }
    return 0;
}

static int check_static(const struct cop_settings *settings, char *message, size_t size)
{
    if (settings->addresses == NULL || settings->count == 0)
        return cop__explain(
            message, size, "neither a contact to join by, nor addresses to start with");
    if (settings->cluster == NULL || settings->cluster[0] == '\0')
        return cop__explain(message, size, "the name of the cluster is missing");
    if (settings->instance == 0)
        return cop__explain(message, size,
                            "instance, a number that grows with every start of the "
                            "cluster, is missing");
    if (settings->self >= settings->count)
        return cop__explain(message, size, "self is %u, but there are %u members",
                            (unsigned)settings->self, (unsigned)settings->count);
    if (settings->name != NULL || settings->spare)
        return cop__explain(message, size,
                            "name and spare are for who joins by a contact");
    return 0;
}

static int apply_static(struct cop_run *run, const struct cop_settings *settings,
                        char *message, size_t size)
{
    struct cop__start *start = &run->start;
    const char *detector = settings->detector ? settings->detector : DETECTOR;
    int error = check_static(settings, message, size);
    if (error)
        return error;
    cop__start_set_name(start, settings->cluster);
    start->instance = start->first = settings->instance;
    start->guard = settings->guard;
    error = add_members(run, settings, message, size);
    if (error == 0 && settings->shape != NULL)
        error = cop__start_set_shape(start, settings->shape, message, size);
    if (error == 0 && settings->quorum != NULL)
        error = cop__start_set_quorum(start, settings->quorum, message, size);
    if (error == 0)
        error = cop__start_set_detector(start, detector, message, size);
    if (error == 0)
        error = cop__start_check(start, message, size);
    snprintf(run->name, sizeof run->name, "n%u", (unsigned)settings->self);
    return error;
}

/* ---- one that joins -------------------------------------------------------------- */

static int apply_contact(struct cop_run *run, const struct cop_settings *settings,
                         char *message, size_t size)
{
    const char *text = settings->contact;
    char with_kind[COP__ADDRESS_TEXT], absolute[COP__ADDRESS_TEXT];
    bool is_path = strncmp(text, "unix:", 5) != 0 && strncmp(text, "tcp:", 4) != 0;
    if (settings->addresses != NULL || settings->cluster != NULL ||
        settings->shape != NULL || settings->quorum != NULL ||
        settings->detector != NULL || settings->guard != 0)
        return cop__explain(
            message, size,
            "one that joins by a contact is told of cluster, addresses, "
            "shape, quorum, detector and guard: leave them out");
    snprintf(with_kind, sizeof with_kind, "%s%s", is_path ? "unix:" : "", text);
    int error =
        read_address(settings, with_kind, 1, &run->contact, absolute, message, size);
    if (error)
        return error;
    char host[COP__MEMBER_NAME_MAX + 2] = "";
    if (settings->name == NULL && gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    const char *name = settings->name ? settings->name : host;
    error = cop__name_check(name, message, size);
    if (error == 0)
        memcpy(run->name, name,
               strlen(name) + 1); /* it fits: that is part of the rule */
    return error;
}

/* ---- listening ------------------------------------------------------------------- */

/* The address of our own by which a contact is reached, without a packet. */
static int own_address(const struct cop__address *contact, struct cop__address *out)
{
    int fd = socket(contact->storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return COP_EIO;
    out->length = sizeof out->storage;
    bool is_good =
        connect(fd, (const struct sockaddr *)&contact->storage, contact->length) == 0 &&
        getsockname(fd, (struct sockaddr *)&out->storage, &out->length) == 0;
    close(fd);
    return is_good ? 0 : COP_EIO;
}

/* The i-th place where one that joins may listen; with TCP there is only one. */
static int choose_address(const struct cop_run *run, int i, char *out, char *message,
                          size_t size)
{
    struct cop__address own = {0};
    if (cop__address_is_unix(&run->contact)) {
        const struct sockaddr_un *contact =
            (const struct sockaddr_un *)&run->contact.storage;
        const char *slash = strrchr(contact->sun_path, '/');
        int length = slash ? (int)(slash - contact->sun_path) : 0;
        snprintf(out, COP__ADDRESS_TEXT, "unix:%.*s/j%d-%d.sock", length,
                 contact->sun_path, (int)getpid(), i);
        return 0;
    }
    if (own_address(&run->contact, &own) != 0) {
        cop__explain(message, size, "no way to the contact: %s", strerror(errno));
        return COP_EIO;
    }
    cop__address_print(&own, out, COP__ADDRESS_TEXT);
    memcpy(strrchr(out, ':'), ":0", sizeof ":0");
    return 0;
}

static int take_listener(struct cop_run *run, int fd, char *message, size_t size)
{
    run->listen_fd = cop__tcp_dup_listener(fd);
    if (run->listen_fd >= 0)
        return 0;
    cop__explain(message, size, "the listening socket: %s", strerror(errno));
    return COP_EIO;
}

static int open_listener(struct cop_run *run, const struct cop_settings *settings,
                         const char *text, char *message, size_t size)
{
    struct cop__address address;
    int error = read_address(settings, text, 0, &address, run->where, message, size);
    if (error)
        return error;
    int fd = cop__listen_address(&address);
    if (fd == -EADDRINUSE) {
        cop__explain(message, size, "%s is taken: somebody listens there already",
                     text);
        return COP_EEXIST;
    }
    if (fd < 0) {
        cop__explain(message, size, "cannot listen on %s: %s", text, strerror(-fd));
        return COP_EIO;
    }
    if (cop__address_is_unix(&address))
        snprintf(run->socket, sizeof run->socket, "%s", run->where + strlen("unix:"));
    error = take_listener(run, fd, message, size);
    close(fd);
    return error;
}

static int find_place(struct cop_run *run, const struct cop_settings *settings,
                      char *message, size_t size)
{
    char text[COP__ADDRESS_TEXT];
    int error = COP_EEXIST;
    for (int i = 0; error == COP_EEXIST && i < SOCKETS_MAX; i++) {
        error = choose_address(run, i, text, message, size);
        if (error == 0)
            error = open_listener(run, settings, text, message, size);
    }
    return error;
}

/* The address with the port that it was given. */
static int print_own(struct cop_run *run, char *message, size_t size)
{
    struct cop__address own = {.length = sizeof own.storage};
    if (getsockname(run->listen_fd, (struct sockaddr *)&own.storage, &own.length) !=
        0) {
        cop__explain(message, size, "the listening socket: %s", strerror(errno));
        return COP_EIO;
    }
    /* A Unix socket knows only the path that it was given, which may be relative. */
    if (!cop__address_is_unix(&own) || run->where[0] == '\0')
        cop__address_print(&own, run->where, sizeof run->where);
    return 0;
}

int cop__settings_apply(struct cop_run *run, const struct cop_settings *settings,
                        char *message, size_t size)
{
    int error = read_keys(run, settings, message, size);
    if (error == 0)
        error = settings->contact ? apply_contact(run, settings, message, size)
                                  : apply_static(run, settings, message, size);
    if (error)
        return error;
    if (settings->listen_fd > 0 && settings->listen != NULL)
        return cop__explain(message, size, "listen and listen_fd exclude each other");
    if (settings->listen_fd > 0)
        error = take_listener(run, settings->listen_fd, message, size);
    else if (settings->listen != NULL)
        error = open_listener(run, settings, settings->listen, message, size);
    else if (settings->contact != NULL)
        error = find_place(run, settings, message, size);
    else
        error = open_listener(run, settings, settings->addresses[settings->self],
                              message, size);
    return error ? error : print_own(run, message, size);
}
