/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/loopback.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

int loopback_pair(int out[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr *any = (struct sockaddr *)&address;
    socklen_t length = sizeof address;
    int on = 1;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    out[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    out[1] = -1;
    if (listener >= 0 && out[0] >= 0 && bind(listener, any, length) == 0 &&
        listen(listener, 1) == 0 && getsockname(listener, any, &length) == 0 &&
        connect(out[0], any, length) == 0)
        out[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    for (int i = 0; i < 2 && out[1] >= 0; i++)
        setsockopt(out[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    int error = errno;
    if (listener >= 0)
        close(listener);
    if (out[1] < 0 && out[0] >= 0)
        close(out[0]);
    errno = error;
    return out[1] >= 0 ? 0 : -1;
}

int loopback_write(int fd, const uint8_t *message, uint32_t length)
{
    while (length > 0) {
        ssize_t done = send(fd, message, length, MSG_NOSIGNAL);
        if (done < 0 && errno == EAGAIN) {
            struct pollfd wait = {.fd = fd, .events = POLLOUT};
            poll(&wait, 1, -1);
        } else if (done < 0 && errno != EINTR) {
            return -1;
        } else if (done > 0) {
            message += done;
            length -= (uint32_t)done;
        }
    }
    return 0;
}

int loopback_read(int fd, uint8_t *message, uint32_t length)
{
    while (length > 0) {
        ssize_t got = recv(fd, message, length, 0);
        if (got == 0)
            errno = ECONNRESET;
        if (got == 0 || (got < 0 && errno != EINTR))
            return -1;
        if (got > 0) {
            message += got;
            length -= (uint32_t)got;
        }
    }
    return 0;
}
