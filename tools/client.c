/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include "say.h"
#include "wire/header.h"

#include <coppice/error.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int client_open(const char *path, struct client *out)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length >= sizeof address.sun_path)
        return COP_EINVAL;
    memcpy(address.sun_path, path, length + 1);
    struct cop__address any = {.length = sizeof address};
    memcpy(&any.storage, &address, sizeof address);
    return client_open_address(&any, out);
}

int client_open_address(const struct cop__address *address, struct client *out)
{
    int fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return COP_EIO;
    if (connect(fd, (const struct sockaddr *)&address->storage, address->length) != 0) {
        int error = errno;
        close(fd);
        if (error == ENOENT || error == ECONNREFUSED || error == ENOTSOCK)
            return COP_ENOENT;
        return error == EACCES || error == EPERM ? COP_EREFUSED : COP_EIO;
    }
    *out = (struct client){.fd = fd};
    return 0;
}

void client_close(struct client *client)
{
    if (client->fd >= 0)
        close(client->fd);
    cop_buf_unref(client->buffer);
    *client = (struct client){.fd = -1};
}

pid_t client_peer(const struct client *client)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    if (getsockopt(client->fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
        return 0;
    return peer.pid;
}

int client_send(struct client *client, enum verb verb, const struct cop_buf *body)
{
    struct cop_buf *packed = command_make(++client->token, verb, body);
    if (packed == NULL)
        return COP_ENOMEM;
    int error = 0;
    for (size_t done = 0; done < packed->length && !error;) {
        ssize_t sent =
            send(client->fd, packed->data + done, packed->length - done, MSG_NOSIGNAL);
        if (sent >= 0)
            done += (size_t)sent;
        else if (errno != EINTR)
            error = COP_EIO;
    }
    cop_buf_unref(packed);
    return error;
}

static int receive_all(struct client *client, uint8_t *data, size_t length,
                       cop_time deadline)
{
    for (size_t done = 0; done < length;) {
        cop_time now = now_ns();
        struct pollfd wait = {.fd = client->fd, .events = POLLIN};
        cop_time left = deadline > now ? deadline - now : 0;
        int ready = poll(&wait, 1, (int)((left + COP_MSEC - 1) / COP_MSEC));
        if (ready == 0)
            return COP_ETIMEDOUT;
        if (ready < 0 && errno != EINTR)
            return COP_EIO;
        if (ready < 0)
            continue;
        ssize_t got = recv(client->fd, data + done, length - done, 0);
        if (got == 0 || (got < 0 && errno == ECONNRESET))
            return COP_ELOST;
        if (got > 0)
            done += (size_t)got;
        else if (errno != EINTR)
            return COP_EIO;
    }
    return 0;
}

bool client_is_ready(const struct client *client, cop_time timeout_ns)
{
    cop_time deadline = now_ns() + timeout_ns;
    for (;;) {
        struct pollfd wait = {.fd = client->fd, .events = POLLIN};
        cop_time now = now_ns();
        cop_time left = deadline > now ? deadline - now : 0;
        int ready = poll(&wait, 1, (int)((left + COP_MSEC - 1) / COP_MSEC));
        if (ready >= 0 || errno != EINTR)
            return ready != 0;
    }
}

int client_receive(struct client *client, cop_time timeout_ns, struct client_reply *out)
{
    uint8_t front[COP__RECORD_SIZE + COP__HEADER_SIZE];
    struct cop__record record;
    struct cop_header header;
    struct cop__msg_reply reply;
    cop_time deadline = now_ns() + timeout_ns;
    int error = receive_all(client, front, sizeof front, deadline);
    if (error)
        return error;
    if (cop__record_decode(front, &record) != 0 || record.type != COP__RECORD_FRAME ||
        cop__header_decode(front + COP__RECORD_SIZE, &header) != 0 ||
        header.kind != COP__KIND_REPLY ||
        record.length != COP__HEADER_SIZE + header.length)
        return COP_EMALFORMED;
    cop_buf_unref(client->buffer);
    client->buffer = cop_buf_create(header.length);
    if (client->buffer == NULL)
        return COP_ENOMEM;
    error = receive_all(client, client->buffer->data, header.length, deadline);
    if (error)
        return error;
    if (cop__decode_reply(client->buffer->data, header.length, &reply) != 0 ||
        reply.token != client->token)
        return COP_EMALFORMED;
    *out = (struct client_reply){-(int)reply.status, reply.more != 0, reply.body};
    return 0;
}

int client_call(struct client *client, enum verb verb, const struct cop_buf *body,
                cop_time timeout_ns, struct client_reply *out)
{
    int error = client_send(client, verb, body);
    return error ? error : client_receive(client, timeout_ns, out);
}
