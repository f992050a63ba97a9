/* SPDX-License-Identifier: Apache-2.0 */
#include "run/address.h"

#include "run/text.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

static int parse_unix(const char *path, const char *directory, struct cop__address *out,
                      char *message, size_t size)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    bool relative = path[0] != '/';
    int length = snprintf(address.sun_path, sizeof address.sun_path, "%s%s%s",
                          relative ? directory : "", relative ? "/" : "", path);
    if (path[0] == '\0')
        return cop__explain(message, size, "the path of the socket is missing");
    if (length < 0 || (size_t)length >= sizeof address.sun_path)
        return cop__explain(message, size,
                            "the path of a socket may have at most %zu bytes",
                            sizeof address.sun_path - 1);
    memset(out, 0, sizeof *out);
    memcpy(&out->storage, &address, sizeof address);
    out->length = sizeof address;
    return 0;
}

static int parse_tcp(const char *text, uint16_t least, struct cop__address *out,
                     char *message, size_t size)
{
    char host[64];
    uint64_t port;
    const char *colon = strrchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : 0;
    bool six = length > 2 && text[0] == '[' && text[length - 1] == ']';
    size_t cut = six ? 1 : 0;
    if (length == 0 || length >= sizeof host)
        return cop__explain(message, size, "expected tcp:HOST:PORT");
    if (cop__text_number(colon + 1, least, 65535, &port) != 0)
        return cop__explain(message, size, "a port is a number from %u to 65535",
                            (unsigned)least);
    memcpy(host, text + cut, length - 2 * cut);
    host[length - 2 * cut] = '\0';
    memset(out, 0, sizeof *out);
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
                              .sin6_port = htons((uint16_t)port)};
    if (!six && inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
        memcpy(&out->storage, &v4, sizeof v4);
        out->length = sizeof v4;
        return 0;
    }
    if (six && inet_pton(AF_INET6, host, &v6.sin6_addr) == 1) {
        memcpy(&out->storage, &v6, sizeof v6);
        out->length = sizeof v6;
        return 0;
    }
    return cop__explain(message, size,
                        "the host must be a number, as 127.0.0.1 or [::1]");
}

int cop__address_parse(const char *text, const char *directory, uint16_t least,
                       struct cop__address *out, char *message, size_t size)
{
    if (strncmp(text, "unix:", 5) == 0)
        return parse_unix(text + 5, directory, out, message, size);
    if (strncmp(text, "tcp:", 4) == 0)
        return parse_tcp(text + 4, least, out, message, size);
    return cop__explain(message, size, "an address begins with unix: or tcp:");
}

int cop__address_print(const struct cop__address *address, char *out, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (address->storage.ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address->storage;
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
        return snprintf(out, size, "tcp:%s:%u", host, ntohs(v4->sin_port));
    }
    if (address->storage.ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address->storage;
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
        return snprintf(out, size, "tcp:[%s]:%u", host, ntohs(v6->sin6_port));
    }
    const struct sockaddr_un *local = (const struct sockaddr_un *)&address->storage;
    return snprintf(out, size, "unix:%s", local->sun_path);
}

bool cop__address_is_unix(const struct cop__address *address)
{
    return address->storage.ss_family == AF_UNIX;
}
