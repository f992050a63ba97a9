/* SPDX-License-Identifier: Apache-2.0 */
#include "run/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/*
 * Long enough for a whole tree that connects at once; the kernel cuts it to somaxconn.
 */
#define BACKLOG 1024
#define SOCKET_FLAGS (SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK)

static int close_with(int fd, int error)
{
    close(fd);
    return -error;
}

/* Whether the file at this path is a socket whose owner is gone. */
static bool is_abandoned(const struct sockaddr_un *address)
{
    struct stat status;
    if (lstat(address->sun_path, &status) != 0 || !S_ISSOCK(status.st_mode))
        return false;
    int fd = socket(AF_UNIX, SOCKET_FLAGS, 0);
    if (fd < 0)
        return false;
    int failed = connect(fd, (const struct sockaddr *)address, sizeof *address);
    bool refused = failed && errno == ECONNREFUSED;
    close(fd);
    return refused;
}

int cop__listen_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length >= sizeof address.sun_path)
        return -ENAMETOOLONG;
    memcpy(address.sun_path, path, length + 1);
    int fd = socket(AF_UNIX, SOCKET_FLAGS, 0);
    if (fd < 0)
        return -errno;
    /* Private from its first moment on: the file gets the mode that the socket has. Not by
     * the mask, which all threads of a program share. */
    if (fchmod(fd, 0600) != 0)
        return close_with(fd, errno);
    int failed = bind(fd, (const struct sockaddr *)&address, sizeof address);
    int error = errno;
    if (failed && error == EADDRINUSE && is_abandoned(&address)) {
        unlink(path);
        failed = bind(fd, (const struct sockaddr *)&address, sizeof address);
        error = errno;
    }
    if (failed)
        return close_with(fd, error);
    return listen(fd, BACKLOG) == 0 ? fd : close_with(fd, errno);
}

static int listen_tcp(const struct sockaddr *address, socklen_t length)
{
    int fd = socket(address->sa_family, SOCKET_FLAGS, 0);
    int on = 1;
    if (fd < 0)
        return -errno;
    /* Connections of an earlier life may still be in TIME_WAIT on this port. */
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, address, length) != 0 || listen(fd, BACKLOG) != 0)
        return close_with(fd, errno);
    return fd;
}

int cop__listen_address(const struct cop__address *address)
{
    if (address->storage.ss_family == AF_UNIX)
        return cop__listen_unix(
            ((const struct sockaddr_un *)&address->storage)->sun_path);
    return listen_tcp((const struct sockaddr *)&address->storage, address->length);
}

int cop__listen_loopback(uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = listen_tcp((const struct sockaddr *)&address, sizeof address);
    if (fd < 0)
        return fd;
    if (getsockname(fd, (struct sockaddr *)&address, &length) != 0)
        return close_with(fd, errno);
    *port = ntohs(address.sin_port);
    return fd;
}
