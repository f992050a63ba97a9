/* SPDX-License-Identifier: Apache-2.0 */
#include "talk/client.h"

#include "net/tls/channel.h"
#include "term/say.h"
#include "wire/header.h"

#include <coppice/error.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
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
    return client_open_address(&any, NULL, out, NULL, 0);
}

/* ---- encrypted ------------------------------------------------------------------- */

/* How long the other end may take to prove who it is. */
#define SHAKE_TIMEOUT_NS (5 * COP_SEC)

struct secret_line {
    struct cop__channel *channel;
    struct cop__outbox out;
    struct cop__bytes in; /* came, and is not decrypted yet; in `raw` */
    uint8_t raw[COP__RECORD_PLAIN];
    size_t used, length; /* of `plain`: taken, and there */
    uint8_t plain[COP__RECORD_PLAIN];
};

static void close_line(struct secret_line *line)
{
    if (line == NULL)
        return;
    cop__channel_destroy(line->channel);
    free(line);
}

static int send_all(int fd, const uint8_t *data, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t sent = send(fd, data + done, length - done, MSG_NOSIGNAL);
        if (sent >= 0)
            done += (size_t)sent;
        else if (errno != EINTR)
            return errno == EPIPE || errno == ECONNRESET ? COP_ELOST : COP_EIO;
    }
    return 0;
}

static int post(const struct client *client)
{
    struct cop__outbox *out = &client->line->out;
    size_t length = out->used;
    out->used = 0;
    return send_all(client->fd, out->bytes, length);
}

static ssize_t receive_some(int fd, uint8_t *data, size_t length, cop_time deadline);

/* More of what the other end sends. */
static int fill(struct client *client, cop_time deadline)
{
    struct secret_line *line = client->line;
    ssize_t got = receive_some(client->fd, line->raw, sizeof line->raw, deadline);
    if (got < 0)
        return (int)got;
    line->in = (struct cop__bytes){line->raw, (uint32_t)got};
    return 0;
}

static int shake(struct client *client)
{
    struct secret_line *line = client->line;
    cop_time deadline = now_ns() + SHAKE_TIMEOUT_NS;
    int done, error;
    for (;;) {
        done = cop__channel_shake(line->channel, &line->in, &line->out);
        error = post(client);
        if (done != 0 || error != 0)
            return done < 0 ? done : error;
        error = fill(client, deadline);
        if (error)
            return error;
    }
}

static int open_line(struct client *client, struct cop__tls *tls, char *message,
                     size_t size)
{
    client->line = calloc(1, sizeof *client->line);
    int error = client->line ? cop__channel_create(tls, false, &client->line->channel)
                             : COP_ENOMEM;
    if (error)
        return error;
    error = shake(client);
    const char *detail = cop__channel_detail(client->line->channel);
    if (error == COP_EREFUSED)
        snprintf(message, size, "%s%s%s",
                 cop__fault_text(cop__channel_fault(client->line->channel)),
                 *detail ? ": " : "", detail);
    else if (error == COP_ELOST)
        snprintf(message, size,
                 "it ended the connection before it had proved who it is");
    return error == COP_ELOST ? COP_EREFUSED : error;
}

static ssize_t receive_plain(struct client *client, uint8_t *data, size_t length,
                             cop_time deadline)
{
    struct secret_line *line = client->line;
    while (line->used == line->length) {
        ssize_t got = cop__channel_read(line->channel, &line->in, line->plain,
                                        sizeof line->plain, &line->out);
        int error = got < 0 ? (int)got : post(client);
        if (!error && got == 0)
            error = fill(client, deadline);
        if (error)
            return error;
        line->used = 0;
        line->length = (size_t)got;
    }
    size_t count = line->length - line->used;
    if (count > length)
        count = length;
    memcpy(data, line->plain + line->used, count);
    line->used += count;
    return (ssize_t)count;
}

/* ---- both ------------------------------------------------------------------------ */

/* Whether an agent that listens at this socket may know what is said to it: it is ours, or
 * root's; root may talk to anybody. */
static bool is_trusted(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
        return false;
    return peer.uid == geteuid() || peer.uid == 0 || geteuid() == 0;
}

int client_open_address(const struct cop__address *address, struct cop__tls *tls,
                        struct client *out, char *message, size_t size)
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
    struct client client = {.fd = fd};
    bool is_unix = address->storage.ss_family == AF_UNIX;
    int error = is_unix && !is_trusted(fd) ? COP_EREFUSED : 0;
    if (is_unix)
        client.address = *address;
    else if (tls != NULL)
        error = open_line(&client, tls, message, size);
    if (error)
        client_close(&client);
    else
        *out = client;
    return error;
}

void client_close(struct client *client)
{
    if (client->fd >= 0)
        close(client->fd);
    close_line(client->line);
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

static int send_encrypted(struct client *client, const struct cop_buf *packed)
{
    struct secret_line *line = client->line;
    int error = 0;
    for (size_t done = 0; done < packed->length && !error;) {
        size_t count = packed->length - done;
        if (count > COP__RECORD_PLAIN)
            count = COP__RECORD_PLAIN;
        error =
            cop__channel_write(line->channel, packed->data + done, count, &line->out);
        if (!error)
            error = post(client);
        done += count;
    }
    return error;
}

/* Whether the other end has hung up, whatever it has said before. */
static bool is_over(const struct client *client)
{
    struct pollfd look = {.fd = client->fd, .events = POLLRDHUP};
    return poll(&look, 1, 0) > 0;
}

/* No command is in hand, so nothing is lost with the connection. */
static int open_again(struct client *client)
{
    struct client fresh;
    if (client->address.length == 0 ||
        client_open_address(&client->address, NULL, &fresh, NULL, 0) != 0)
        return COP_ELOST;
    close(client->fd);
    client->fd = fresh.fd;
    return 0;
}

int client_send(struct client *client, enum verb verb, const struct cop_buf *body)
{
    struct cop_buf *packed = cop__command_make(++client->token, (uint16_t)verb, body);
    int error = packed ? 0 : COP_ENOMEM;
    if (!error && is_over(client))
        error = open_again(client);
    if (!error)
        error = client->line ? send_encrypted(client, packed)
                             : send_all(client->fd, packed->data, packed->length);
    cop_buf_unref(packed);
    return error;
}

/* At least one byte; COP_ETIMEDOUT, COP_ELOST, COP_EIO. */
static ssize_t receive_some(int fd, uint8_t *data, size_t length, cop_time deadline)
{
    for (;;) {
        cop_time now = now_ns();
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        cop_time left = deadline > now ? deadline - now : 0;
        int ready = poll(&wait, 1, (int)((left + COP_MSEC - 1) / COP_MSEC));
        if (ready == 0)
            return COP_ETIMEDOUT;
        if (ready < 0 && errno != EINTR)
            return COP_EIO;
        if (ready < 0)
            continue;
        ssize_t got = recv(fd, data, length, 0);
        if (got == 0 || (got < 0 && errno == ECONNRESET))
            return COP_ELOST;
        if (got > 0)
            return got;
        if (errno != EINTR)
            return COP_EIO;
    }
}

static int receive_all(struct client *client, uint8_t *data, size_t length,
                       cop_time deadline)
{
    for (size_t done = 0; done < length;) {
        ssize_t got =
            client->line
                ? receive_plain(client, data + done, length - done, deadline)
                : receive_some(client->fd, data + done, length - done, deadline);
        if (got < 0)
            return (int)got;
        done += (size_t)got;
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
    *out =
        (struct client_reply){cop__reply_status(&reply), reply.more != 0, reply.body};
    return 0;
}

int client_call(struct client *client, enum verb verb, const struct cop_buf *body,
                cop_time timeout_ns, struct client_reply *out)
{
    int error = client_send(client, verb, body);
    return error ? error : client_receive(client, timeout_ns, out);
}
